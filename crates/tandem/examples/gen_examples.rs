//! Writes the examples of diagnostic codes into the code table's text, from `testdata/codes/table.txt`, and then all
//! generated pages (`docs/errors/`, `docs/isa.md`) with them.
//!
//! `cargo run -p tandem --example gen_examples`

#[path = "../tests/code_examples/mod.rs"]
mod code_examples;

use std::path::Path;
use tandem_bir::refdocs;

fn main() -> std::io::Result<()> {
    let examples = code_examples::generate();
    std::fs::write(code_examples::generated_file(), &examples)?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    refdocs::write_pages(&docs, &refdocs::pages_with(&|c| c.example_in(&examples)))
}
