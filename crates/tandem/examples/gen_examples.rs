//! Writes the examples of diagnostic codes into the code table's text, from `testdata/codes/table.txt`.
//!
//! `cargo run -p tandem --example gen_examples`, then `cargo run -p tandem-bir --example gen_docs` for the pages.

#[path = "../tests/code_examples/mod.rs"]
mod code_examples;

fn main() -> std::io::Result<()> {
    std::fs::write(code_examples::generated_file(), code_examples::generate())
}
