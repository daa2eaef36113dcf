//! Every diagnostic code: an example that raises it and one that does not, run by the command.

mod code_examples;

use code_examples::{Row, generate, generated_file, table, testdata};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use tandem_bir::diag::codes;

/// What the command says, run in `testdata`.
fn said(args: &[String]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(args)
        .arg("--verbose")
        .current_dir(testdata())
        .stdin(Stdio::null())
        .output()
        .expect("the command starts");
    format!(
        "{}{}exit {}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
        out.status.code().unwrap_or(-1)
    )
}

#[test]
fn every_code_has_one_row() {
    let rows: Vec<String> = table().into_iter().map(|r| r.0).collect();
    let unique: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(unique.len(), rows.len(), "a code comes twice");
    let all: BTreeSet<&str> = codes::ALL.iter().map(|c| c.info().id).collect();
    let missing: Vec<_> = all.difference(&unique).collect();
    let strange: Vec<_> = unique.difference(&all).collect();
    assert!(missing.is_empty() && strange.is_empty(), "missing {missing:?}, not codes {strange:?}");
}

/// The other half of the rows: `api_codes.rs` has a test for each, and no other.
#[test]
fn codes_of_the_libraries_have_a_test() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api_codes.rs"))
        .expect("the tests");
    let rows: BTreeSet<String> =
        table().into_iter().filter(|r| matches!(r.1, Row::Api { .. })).map(|r| r.0).collect();
    let tests: BTreeSet<String> = text
        .split("#[test]\nfn ")
        .skip(1)
        .filter_map(|t| t.split_once('_').map(|(code, _)| code.to_uppercase()))
        .collect();
    assert_eq!(tests, rows);
}

#[test]
fn failing_examples_raise_their_code_and_passing_ones_do_not() {
    let rows = Mutex::new(table());
    let wrong = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some((code, row)) = rows.lock().expect("no panic").pop() else { return };
            let Row::Pair { fail, pass } = row else { continue };
            let mark = format!("[{code}]");
            let (f, p) = (said(&fail), said(&pass));
            if !f.contains(&mark) {
                wrong.lock().expect("no panic").push(format!("{code} is not raised by {fail:?}:\n{f}"));
            }
            if p.contains(&mark) {
                wrong.lock().expect("no panic").push(format!("{code} is raised by {pass:?}:\n{p}"));
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            s.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_generated_text_is_up_to_date() {
    let found = std::fs::read_to_string(generated_file()).expect("the text is there");
    assert!(found == generate(), "run `cargo run -p tandem --example gen_examples`");
}

/// `docs/checklists.md` names cases and tests that exist.
#[test]
fn the_checklists_name_what_is_there() {
    let root = testdata().join("..");
    let page = std::fs::read_to_string(root.join("docs/checklists.md")).expect("the page");
    let mut cases = 0;
    for line in page.lines().filter(|l| l.starts_with("| ")) {
        let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        for (i, name) in names.iter().enumerate() {
            let path =
                if name.ends_with(".rs") { root.join(name) } else { root.join("filetests").join(name) };
            if name.contains('/') {
                assert!(path.is_file(), "{line}: {name} is not there");
                cases += 1;
            } else {
                let file = root.join(names[i - 1]);
                let text = std::fs::read_to_string(file).expect("the file before its test");
                assert!(text.contains(&format!("fn {name}(")), "{line}: no test {name}");
            }
        }
    }
    assert!(cases > 30, "{cases}");
}
