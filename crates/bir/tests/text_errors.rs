//! Faults of textual BIR are reported with code, line and column, and never panic.

use tandem_bir::diag::Diagnostic;
use tandem_bir::text::{ParseOptions, parse, parse_with};

const HEAD: &str = "bir 1\nprogram k lnc 1 level bir\nmodule @nc00 core 0 arch gen3 {\n  func @main {\n    set @a_set = Internal Tensor Local float32 [4 x 4] { loc @a = SB [4, 16] }\n    block b {\n";
const TAIL: &str = "\n    }\n  }\n}\n";

fn fault(line: &str) -> Diagnostic {
    let text = format!("{HEAD}{line}{TAIL}");
    let mut e = parse_with(&text, &ParseOptions { file: "k.bir", own_positions: false }).expect_err(line);
    e.remove(0)
}

/// `¦` marks the column of the fault.
#[track_caller]
fn check(marked: &str, code: &str, message: &str) {
    let column = marked.chars().position(|c| c == '¦').expect("a mark") as u32 + 1;
    let line = &marked.replace('¦', "");
    let d = fault(line);
    assert_eq!(d.code.to_string(), code, "{}", d.message);
    let pos = d.sites[0].pos.as_ref().expect("a position");
    assert_eq!((pos.file.as_str(), pos.line, pos.column), ("k.bir", 7, column), "{}", d.message);
    assert!(d.message.contains(message), "{}", d.message);
    assert!(d.notes.iter().any(|n| n.contains(line.trim())), "{:?}", d.notes);
}

#[test]
fn faults_name_line_and_column() {
    check("      x = ¦NoSuch DVE", "P0111", "`NoSuch` is no instruction type");
    check(
        "      x = NoOp ¦GPSIMD",
        "P0112",
        "ExternalEngineType used as EngineType. External: GPSIMD Internal: Pool",
    );
    check("      x = NoOp ¦Foo", "P0103", "`Foo` is no EngineKind");
    check("      x = Reciprocal DVE @a[[4,4] [1,4]] ¦float33", "P0103", "`float33` is no Dtype");
    check("      x = Reciprocal DVE ¦@nope[[4,4]] float32", "P0108", "no location of this name");
    check("      x = Reciprocal DVE @a[[4,¦-4]] float32", "P0104", "`-4` does not fit");
    check("      x = Reciprocal DVE @a[[¦99999999999999999999,4]] float32", "P0104", "does not fit");
    check("      x = NoOp SP after(¦y)", "P0108", "no instruction `y`");
    check("      x = NoOp SP after(y ¦z)", "P0101", "expected `,` or `)`");
    check("      x = TensorTensor DVE {op = ¦plus}", "P0103", "`plus` is no AluOp");
    check("      x = TensorTensor DVE {¦mode = add}", "P0103", "TensorTensor has no attribute `mode`");
    check("      x = TensorTensor DVE {op = add, ¦op = add}", "P0106", "given twice");
    check(
        "      x = NoOp SP ¦\"abc",
        "P0101",
        "expected the name of an instruction or `}`, found this text has no closing quote",
    );
    check("      x = NoOp SP ¦§ y", "P0101", "found the character `\\u{a7}`");
    check("      x = NoOp SP extra ¦{\"a\":}", "P0101", "this is no JSON value");
    check("      x = NoOp SP ¦x = NoOp SP", "P0106", "the block has two instructions `x`");
}

#[test]
fn nesting_has_a_limit() {
    let deep = format!("      x = NoOp SP order({}1{})", "sum(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(fault(&deep).code.to_string(), "P0105");
    let open: String = (0..10_000).map(|i| format!("l = Loop SP regions {{ block b{i} {{ ")).collect();
    let regions = format!("{open}{}", "} }".repeat(10_000));
    let errors = parse(&format!("{HEAD}{regions}{TAIL}")).expect_err("too deep");
    assert!(errors.iter().any(|d| d.code.to_string() == "P0105"));
    let json = format!("      x = NoOp SP extra {{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(fault(&json).code.to_string(), "P0101");
}

#[test]
fn all_dangling_references_are_reported_up_to_a_limit() {
    let body: String = (0..200).map(|i| format!("      i{i} = NoOp SP after(nope{i})\n")).collect();
    let errors = parse(&format!("{HEAD}{body}{TAIL}")).expect_err("dangling");
    assert_eq!(errors.len(), 51);
}

#[test]
fn other_versions_are_refused() {
    assert_eq!(parse("bir 2\n").expect_err("version")[0].code.to_string(), "P0107");
    assert_eq!(parse("").expect_err("empty")[0].code.to_string(), "P0101");
}

#[test]
fn own_positions_point_into_the_text() {
    let text = format!("{HEAD}      x = NoOp SP\n      y = NoOp SP !loc k.py:5:2{TAIL}");
    let p = parse_with(&text, &ParseOptions { file: "k.bir", own_positions: true }).expect("a program");
    let at: Vec<String> =
        p.modules[0].insts.values().map(|i| p.locs.source(i.loc).expect("a position").to_string()).collect();
    assert_eq!(at, ["k.bir:7:7", "k.py:5:2"]);
}
