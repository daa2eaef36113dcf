//! Programs survive their text and JSON forms unchanged.

use proptest::prelude::*;
use tandem_bir::canon::canonical;
use tandem_bir::diag::{Diagnostic, LocTable};
use tandem_bir::testing;
use tandem_bir::text::{Constants, ParseOptions, PrintOptions, parse, parse_with, print, print_with};
use tandem_bir::{Program, json};

fn config(release: u32) -> ProptestConfig {
    // PROPTEST_CASES asks for another number in either profile.
    let cases = match std::env::var("PROPTEST_CASES") {
        Ok(_) => ProptestConfig::default().cases,
        Err(_) => {
            if cfg!(debug_assertions) {
                200
            } else {
                release
            }
        }
    };
    // A fixed seed: the same programs on every run and machine. PROPTEST_RNG_SEED chooses others.
    let rng_seed = match std::env::var("PROPTEST_RNG_SEED") {
        Ok(_) => ProptestConfig::default().rng_seed,
        Err(_) => proptest::test_runner::RngSeed::Fixed(20),
    };
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

fn render(errors: &[Diagnostic]) -> String {
    errors
        .iter()
        .map(|d| tandem_bir::diag::render::text(d, tandem_bir::diag::render::Style::Plain, &|_, _| None))
        .collect()
}

/// One document with everything in it, and back.
fn write(p: &Program) -> Vec<u8> {
    let mut out = Vec::new();
    json::write_program(p, Constants::Inline, &mut out).expect("writing to memory");
    out
}
fn read(bytes: &[u8]) -> Result<Program, Vec<Diagnostic>> {
    let mut locs = LocTable::default();
    let parts = json::read(bytes, "x.json", &mut locs)?;
    json::assemble(parts, locs)
}

/// Values put in the place of others.
const EXCHANGES: [&str; 9] = [
    "null",
    "true",
    "-1",
    "3.5",
    "\"x\"",
    "[]",
    "[1, [2]]",
    "{}",
    "{\"kind\": \"AffExprKind\", \"c\": 99999999999}",
];

fn collect(v: &serde_json::Value, path: String, out: &mut Vec<String>) {
    match v {
        serde_json::Value::Array(a) => {
            for (i, v) in a.iter().enumerate() {
                collect(v, format!("{path}/{i}"), out);
            }
        }
        serde_json::Value::Object(o) => {
            for (k, v) in o {
                collect(v, format!("{path}/{}", k.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        _ => {}
    }
    out.push(path);
}

fn text_of(p: &Program) -> String {
    print_with(p, PrintOptions { constants: Constants::Inline })
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn text_gives_the_program_back(p in testing::program()) {
        let text = print_with(&p, PrintOptions { constants: Constants::Inline });
        let back = parse(&text).map_err(|e| TestCaseError::fail(format!("{}\n{text}", render(&e))))?;
        prop_assert_eq!(&back, &p, "{}", text);
        prop_assert_eq!(print_with(&back, PrintOptions { constants: Constants::Inline }), text);
    }

    #[test]
    fn json_gives_the_program_back(p in testing::program()) {
        let bytes = write(&p);
        let back = read(&bytes).map_err(|e| TestCaseError::fail(format!("{}\n{}", render(&e), text_of(&p))))?;
        prop_assert_eq!(&back, &p, "{}", text_of(&p));
        prop_assert_eq!(write(&back), bytes);
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn json_layout_is_the_one_of_serde_json(p in testing::program()) {
        // An independent writer of sorted keys and two spaces; only the spelling of floats differs between the two.
        let bytes = write(&p);
        let value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        let pretty = serde_json::to_string_pretty(&value).expect("JSON");
        let text = String::from_utf8(bytes).expect("UTF-8");
        prop_assert_eq!(text.lines().count(), pretty.lines().count());
        for (ours, theirs) in text.lines().zip(pretty.lines()) {
            let value = |l: &str| l.trim().trim_end_matches(',').rsplit(": ").next().and_then(|v| v.parse::<f64>().ok());
            if value(ours).is_none() || value(theirs).is_none() {
                prop_assert_eq!(ours, theirs);
            }
        }
    }

    #[test]
    fn json_with_a_value_exchanged_is_refused_or_read_and_then_round_trips(
        p in testing::program(), pick in any::<prop::sample::Index>(), with in 0usize..EXCHANGES.len(),
    ) {
        let mut value: serde_json::Value = serde_json::from_slice(&write(&p)).expect("JSON");
        let mut pointers = Vec::new();
        collect(&value, String::new(), &mut pointers);
        let at = &pointers[pick.index(pointers.len())];
        *value.pointer_mut(at).expect("a value") = serde_json::from_str(EXCHANGES[with]).expect("JSON");
        let bytes = serde_json::to_vec(&value).expect("JSON");
        if let Ok(q) = read(&bytes) {
            let q = canonical(&q);
            let back = text_of(&q);
            prop_assert_eq!(parse(&back).map_err(|e| TestCaseError::fail(format!("{at}: {}\n{back}", render(&e))))?, q);
        }
    }

    #[test]
    fn mutilated_json_is_refused_or_read_but_never_panics(
        p in testing::program(), at in any::<prop::sample::Index>(), with in "[\\[\\]{}\",:0-9a-z-]{0,3}", cut in 0usize..6,
    ) {
        let mut bytes = write(&p);
        let i = at.index(bytes.len());
        let j = (i + cut).min(bytes.len());
        bytes.splice(i..j, with.bytes());
        let _ = read(&bytes);
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
