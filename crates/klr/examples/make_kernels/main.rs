//! Writes the kernels of the catalogue and their manifest into a folder (default `examples/kernels`).
//!
//! `cargo run -p tandem-klr --example make_kernels [FOLDER]`. The same files come out on every run; the test
//! `example_kernels` compares them with the committed ones.

mod catalog;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/kernels");
    let folder = std::env::args_os().nth(1).map_or(here, PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in catalog::files() {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
