//! Writes the generated reference pages: `docs/isa.md` and `docs/errors/`.
//!
//! `cargo run -p tandem-bir --example gen_docs` from anywhere in the repository. A test fails when they are stale.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, text) in tandem_bir::refdocs::pages() {
        let path = docs.join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, text)?;
    }
    // Pages of codes that are gone.
    for entry in std::fs::read_dir(docs.join("errors"))? {
        let path = entry?.path();
        let name = format!("errors/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if !tandem_bir::refdocs::pages().iter().any(|(n, _)| *n == name) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
