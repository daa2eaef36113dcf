//! Runs every case under `filetests/` through the command and compares with the sibling `.expect`.
//!
//! A case is a file whose leading comment lines hold commands:
//!
//! ```text
//! ; run: check %s
//! ; run: lower %s --emit lowered
//! ```
//!
//! `; run(no numbers): …` does the same with every decimal fraction shown as `#` (times differ from run to run).
//!
//! `%s` is the case itself, `%d` the folder `testdata`, `%e` the folder `examples`, `%t` a fresh folder for outputs.
//! `BLESS=1` rewrites the expectations; read the difference as code. `FILETEST=substring` selects cases.

use libtest_mimic::{Arguments, Failed, Trial};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let args = Arguments::from_args();
    let root = root().join("filetests");
    let only = std::env::var("FILETEST").unwrap_or_default();
    let mut cases = Vec::new();
    collect(&root, &mut cases);
    cases.sort();
    let trials = cases
        .into_iter()
        .filter(|c| c.to_string_lossy().contains(&only))
        .map(|case| {
            let name = case.strip_prefix(&root).unwrap_or(&case).display().to_string();
            Trial::test(name, move || run_case(&case))
        })
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let p = e.path();
        if p.is_dir() {
            collect(&p, out);
        } else if p.extension().is_some_and(|x| x == "bir" || x == "cmd") {
            out.push(p);
        }
    }
}

fn run_case(case: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(case).map_err(|e| Failed::from(e.to_string()))?;
    let commands: Vec<&str> = text
        .lines()
        .take_while(|l| l.starts_with(';') || l.trim().is_empty())
        .filter(|l| RUN.iter().any(|r| l.starts_with(r)))
        .collect();
    if commands.is_empty() {
        return Err("the case has no `; run:` line".into());
    }
    let tmp = tempfile::tempdir().map_err(|e| Failed::from(e.to_string()))?;
    let mut got = String::new();
    for line in commands {
        let Some(c) = RUN.iter().find_map(|r| line.strip_prefix(r)) else { continue };
        let _ = writeln!(got, "$ tandem {c}");
        let mut said = String::new();
        run_command(c, case, tmp.path(), &mut said)?;
        got.push_str(&if line.starts_with(RUN[1]) { without_fractions(&said) } else { said });
    }
    let expect = PathBuf::from(format!("{}.expect", case.display()));
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&expect, got).map_err(|e| Failed::from(e.to_string()));
    }
    let want = std::fs::read_to_string(&expect).unwrap_or_default();
    if want == got {
        return Ok(());
    }
    let diff = similar::TextDiff::from_lines(&want, &got);
    Err(format!("{}", diff.unified_diff().header("expected", "got")).into())
}

/// Words that start a command line of a case.
const RUN: [&str; 2] = ["; run: ", "; run(no numbers): "];

/// `#` for every number with a fraction.
fn without_fractions(s: &str) -> String {
    let words = s.split_inclusive([' ', '\n']).map(|w| {
        let word = w.trim_end();
        let number = word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
        if number { w.replace(word, "#") } else { w.to_owned() }
    });
    words.collect()
}

fn run_command(command: &str, case: &Path, tmp: &Path, got: &mut String) -> Result<(), Failed> {
    let root = root();
    let fill = |a: &str| {
        a.replace("%s", &case.strip_prefix(&root).unwrap_or(case).display().to_string())
            .replace("%d", "testdata")
            .replace("%e", "examples")
            .replace("%t", &tmp.display().to_string())
    };
    let args: Vec<String> = command.split_whitespace().map(fill).collect();
    let out = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(&args)
        .current_dir(&root)
        .env("NO_COLOR", "1")
        .output()
        .map_err(|e| Failed::from(e.to_string()))?;
    let clean = |b: &[u8]| String::from_utf8_lossy(b).replace(&tmp.display().to_string(), "%t");
    got.push_str(&clean(&out.stdout));
    let err = clean(&out.stderr);
    if !err.is_empty() {
        got.push_str("---STDERR---\n");
        got.push_str(&err);
    }
    match out.status.code() {
        Some(0) => {}
        Some(c) => {
            let _ = writeln!(got, "exit {c}");
        }
        None => return Err("killed by a signal".into()),
    }
    Ok(())
}
