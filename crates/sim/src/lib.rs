//! Functional simulator of the NeuronCores of one LNC (or of several, one per rank).
pub mod build;
mod code;
pub mod collective;
mod control;
mod decode;
pub mod exec;
mod machine;
pub mod memory;
pub mod npy;
pub mod num;
pub mod numeric_profile;
pub mod options;
pub mod outcome;
mod place;
pub mod random;
pub mod report;
mod scalar;
pub mod state;
mod sync;
pub mod tensor;

pub use build::{Ready, Simulator};
pub use options::{Fill, Ptcom, Ranks, RunOptions, Schedule};
pub use outcome::{Outcome, Stats, StopReason};
pub use tensor::Tensor;
