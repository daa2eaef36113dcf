//! `docs/coverage.md` is what `examples/coverage.rs` prints.

use tandem_bir::Opcode;
use tandem_sim::exec::{Coverage, coverage, coverage_page};

#[test]
fn the_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coverage.md");
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        have == coverage_page(),
        "docs/coverage.md is stale: cargo run -p tandem-sim --example coverage > docs/coverage.md"
    );
}

#[test]
fn every_type_has_one_row_and_few_are_refused() {
    let page = coverage_page();
    for op in Opcode::ALL {
        assert_eq!(page.matches(&format!("| {} | {op} |", *op as u16)).count(), 1, "{op}");
    }
    let refused = Opcode::ALL.iter().filter(|o| coverage(**o) == Coverage::Refused).count();
    assert_eq!(refused, 16);
}
