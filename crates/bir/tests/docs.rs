//! The generated pages are the ones in `docs/`, and the text example of `docs/format.md` is textual BIR.

use std::path::Path;
use tandem_bir::text;

const HOW: &str = "run `cargo run -p tandem --example gen_examples`";

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn generated_pages_are_fresh() {
    let pages = tandem_bir::refdocs::pages();
    for (name, text) in &pages {
        let found = std::fs::read_to_string(docs().join(name)).unwrap_or_default();
        assert!(found == *text, "docs/{name} is stale: {HOW}");
    }
    for entry in std::fs::read_dir(docs().join("errors")).expect("docs/errors") {
        let name = format!("errors/{}", entry.expect("an entry").file_name().to_string_lossy());
        assert!(pages.iter().any(|(n, _)| *n == name), "docs/{name} is left over: {HOW}");
    }
}

#[test]
fn the_reference_keeps_the_three_meanings_of_gpsimd_apart() {
    let isa = std::fs::read_to_string(docs().join("isa.md")).expect("docs/isa.md");
    for what in ["internal name `Pool`", "`GPSIMDSB2SB`, one per core", "`use_gpsimd_dma`"] {
        assert!(isa.contains(what), "{what}");
    }
    for o in tandem_bir::Opcode::ALL {
        assert!(isa.contains(&format!("### {o} (")), "{o}");
    }
}

#[test]
fn the_example_of_the_format_page_parses() {
    let page = std::fs::read_to_string(docs().join("format.md")).expect("docs/format.md");
    let example = page.split("```").nth(1).expect("a block of code");
    let p = text::parse(example).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(text::parse(&text::print(&p)).expect("text"), p);
    // The example is written as the printer writes.
    assert_eq!(text::print(&p).trim(), example.trim());
}
