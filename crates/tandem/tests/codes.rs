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
    assert!(found == generate(), "run `cargo run -p tandem --example gen_examples` and gen_docs");
}
