//! Functional simulator of the NeuronCores of one LNC.

pub mod exec;
pub mod memory;
pub mod npy;
pub mod num;
pub mod numeric_profile;
pub mod options;
pub mod random;
pub mod state;
pub mod tensor;
