//! Writes the generated reference pages: `docs/isa.md` and `docs/errors/`, with the examples of codes as they are built in.
//!
//! `cargo run -p tandem-bir --example gen_docs`, for a change of the instruction table. After a change of codes or of their
//! examples run `cargo run -p tandem --example gen_examples`, which writes the examples and then the same pages.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    tandem_bir::refdocs::write_pages(&docs, &tandem_bir::refdocs::pages())
}
