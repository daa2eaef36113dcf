//! Tandem's command as a library: loading any input, bringing it to a level, running it.
//!
//! The command (`main.rs`) is thin: it parses options, calls these modules, prints what they return. The levels of
//! a program and what they mean stand in [`driver`].

pub mod cli;
pub mod cmd;
pub mod digest;
pub mod driver;
mod lnc;
pub mod load;
pub mod out;
pub mod predict;
pub mod progress;
pub mod replay;
pub mod sarif;
pub mod source;
pub mod verdict;
