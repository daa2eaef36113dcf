//! One module per check.

pub mod barriercheck;
pub mod barriers;
pub mod collectives;
pub mod lnc_verifier;
pub mod order;
pub mod outputs;
pub mod paths;
pub mod pending;
pub mod places;
pub mod queues;
pub mod swaps;
pub mod trips;
