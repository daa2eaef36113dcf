//! BIR JSON: the form that other tools exchange modules in. One document holds one module, a `{"module": …}` wrapper, or
//! an array of modules; a program of several cores is several documents, put together by [`assemble`].
//!
//! Reading is streaming (memory of the document plus the program), tolerant where writers differ (names or integers, old
//! and new expressions, flat and nested collectives), strict where meaning is at stake (unknown opcodes, members of
//! closed sets, references). Keys the model does not name are kept and written again. Writing is deterministic: sorted
//! keys, two spaces, version 2, attributes at their defaults left out.
//!
//! Our own additions (program signature, constants, exact source positions) are listed in `docs/format.md`. Not kept:
//! `access_shape`, members of an operand that do not belong to its kind, empty affine sums (they become constants).

mod assemble;
mod cursor;
mod expr;
mod read;
mod read_function;
mod read_inst;
mod read_module;
mod write;

pub use assemble::{Part, ProgramInfo, assemble};
pub use write::{write_module, write_program};

use crate::diag::codes::P0115;
use crate::diag::{Diagnostic, LocTable};
use crate::module::Module;

/// Starts and separates the parts of a qualified instruction name (function, block, instruction). Only written where the
/// bare name would mean another instruction.
const QUALIFIED: char = '\u{1f}';

/// Reads every module of a document. `origin` names it in findings.
///
/// # Errors
/// Everything that is wrong, each with line, column and JSON pointer (codes P0102 to P0117).
pub fn read(bytes: &[u8], origin: &str, locs: &mut LocTable) -> Result<Vec<Part>, Vec<Diagnostic>> {
    read::read(bytes, origin, locs)
}

/// Reads a document that holds exactly one module.
///
/// # Errors
/// As [`read`]; also when the document is an array of another length.
pub fn read_module(bytes: &[u8], origin: &str, locs: &mut LocTable) -> Result<Module, Vec<Diagnostic>> {
    let mut parts = read(bytes, origin, locs)?;
    match (parts.pop(), parts.is_empty()) {
        (Some(p), true) => Ok(p.module),
        (last, _) => {
            let n = parts.len() + usize::from(last.is_some());
            Err(vec![Diagnostic::new(P0115, format!("{origin}: one module is wanted, the document has {n}"))])
        }
    }
}

/// True when bytes begin like JSON.
pub fn looks_like_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.iter().find(|c| !c.is_ascii_whitespace()).is_some_and(|c| matches!(c, b'{' | b'['))
}
