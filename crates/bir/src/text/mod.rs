//! Textual BIR: a complete, readable form of a [`Program`](crate::Program). `parse(print(p)) == p` for every program in canonical order
//! ([`crate::canon`]); everything is named, nothing depends on ids. The grammar is in `docs/format.md`.
//!
//! Not kept: instructions that are in no block, source positions nothing points at.

mod lex;
pub(crate) mod parse;
pub(crate) mod print;

pub use parse::{ParseOptions, looks_like_text, parse, parse_with};
pub use print::{
    Constants, PrintOptions, print, print_instructions, print_module, print_with, write_module,
    write_program, write_program_to,
};

/// Version number of the form, in the first line of a file.
pub const VERSION: u32 = 1;

/// True for a name that may stand without quotes: a letter or `_`, then letters, digits, `_`, `.`, `-`.
pub(crate) fn is_bare(name: &str) -> bool {
    let b = name.as_bytes();
    b.first().is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_')
        && b.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-'))
}

/// True for a file name that may stand without quotes in a source position.
pub(crate) fn is_bare_path(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-' | b'/' | b'+'))
}

/// Level by its name.
pub(crate) fn level_from_name(name: &str) -> Option<crate::Level> {
    [crate::Level::Bir, crate::Level::Lowered, crate::Level::Linked]
        .into_iter()
        .find(|l| print::level_name(*l) == name)
}
