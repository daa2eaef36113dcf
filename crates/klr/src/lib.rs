//! KLR files: traced NKI kernels, one list of hardware-level operators per core.
//!
//! [`read()`] turns the bytes of a file into the typed tree of [`ast`], [`write()`] turns the tree into bytes; a
//! well-formed file comes back byte for byte. Reading never panics, never recurses beyond a limit and never
//! allocates what a file merely claims; a [`ReadError`] names the byte, the path and what is wrong. [`info`]
//! summarises a file, [`mod@print`] shows it to people, [`build`] makes small kernels for tests and examples.
//!
//! Not modelled: the Python and NKI syntax trees and the call sites that share the file format (refused with their
//! own messages), and the text forms of older releases.

pub mod ast;
pub mod build;
mod cbor;
mod container;
pub mod error;
pub mod info;
pub mod lower;
pub mod print;
mod read;
mod wire;
mod write;

pub use container::{
    Contents, FileKind, KlrFile, MAGIC, ReadOutcome, VERSION, read, read_path, read_with, sniff, write,
    write_as,
};
pub use error::{ReadError, ReadNote, WriteError};
pub use info::Info;
pub use print::{print_file, print_lnc};
pub use read::Limits;
pub use wire::KlrType;
pub use write::Compat;
