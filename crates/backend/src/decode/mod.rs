//! From records back to instructions over the physical memories, and to text.

pub mod disasm;
pub mod draft;
pub mod patch;
mod pieces;
pub mod program;

pub use pieces::{Index, Piece, pieces};
