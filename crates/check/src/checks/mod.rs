//! One module per check.

pub mod barriercheck;
pub mod barriers;
pub mod collectives;
pub mod lnc_verifier;
pub mod order;
pub mod outputs;
pub mod places;
pub mod swaps;
