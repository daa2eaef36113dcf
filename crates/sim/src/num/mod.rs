//! Numbers: formats, rounding, the ALU, transcendental functions, random generators.
//!
//! Guarantee: every result is a function of its operands and the [profile](crate::numeric_profile) alone — not of the
//! host, its vector width or the number of threads. Not modelled: stochastic rounding, denormal flushing (there is none).

pub mod alu;
pub mod convert;
pub mod fp8;
pub mod packed;
pub mod quick;
pub mod rng;
pub mod round;
pub mod simd;
pub mod transcendental;
