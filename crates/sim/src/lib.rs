//! Functional simulator of the NeuronCores of one LNC.

pub mod exec;
pub mod memory;
pub mod num;
pub mod numeric_profile;
pub mod state;
