//! Programs survive their text and JSON forms unchanged.

use proptest::prelude::*;
use tandem_bir::canon::canonical;
use tandem_bir::testing;
use tandem_bir::text::{Constants, ParseOptions, PrintOptions, parse, parse_with, print, print_with};

fn cases() -> u32 {
    if cfg!(debug_assertions) { 400 } else { 10_000 }
}

fn render(errors: &[tandem_bir::diag::Diagnostic]) -> String {
    errors
        .iter()
        .map(|d| tandem_bir::diag::render::text(d, tandem_bir::diag::render::Style::Plain, &|_, _| None))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn text_gives_the_program_back(p in testing::program()) {
        let text = print_with(&p, PrintOptions { constants: Constants::Inline });
        let back = parse(&text).map_err(|e| TestCaseError::fail(format!("{}\n{text}", render(&e))))?;
        prop_assert_eq!(&back, &p, "{}", text);
        prop_assert_eq!(print_with(&back, PrintOptions { constants: Constants::Inline }), text);
    }

    #[test]
    fn a_mutilated_text_is_refused_or_read_but_never_panics(
        p in testing::program(), at in any::<prop::sample::Index>(), with in "\\PC{0,3}", cut in 0usize..4,
    ) {
        let mut text = print(&p);
        let mut i = at.index(text.len());
        while !text.is_char_boundary(i) { i -= 1; }
        let mut j = (i + cut).min(text.len());
        while !text.is_char_boundary(j) { j += 1; }
        text.replace_range(i..j, &with);
        let _ = parse_with(&text, &ParseOptions { file: "x.bir", own_positions: true });
    }
}

#[test]
fn generated_programs_are_canonical() {
    for seed in 0..50 {
        let p = testing::build(seed, 20);
        assert_eq!(canonical(&p), p);
    }
}

#[test]
fn every_opcode_is_generated() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        for m in testing::build(seed, 20).modules {
            seen.extend(m.insts.values().map(|i| i.opcode));
        }
    }
    assert_eq!(seen.len(), tandem_bir::Opcode::ALL.len());
}
