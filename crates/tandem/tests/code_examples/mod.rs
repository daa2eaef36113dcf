//! The examples of diagnostic codes: `testdata/codes/table.txt` and the files it names.
//!
//! One row per code: `CODE: failing command | passing command`. Paths are relative to `testdata`; the command is run there.
//! A code that only a caller of the libraries can raise has `CODE: api: why no command does`, and a test of its name in
//! `crates/tandem/tests/api_codes.rs`, which the page shows.

use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Lines of an example at most (our choice: a page stays short).
const MOST_LINES: usize = 24;
/// Characters of a shown line at most.
const MOST_CHARS: usize = 400;

/// What a row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Row {
    /// Arguments of the command that raises the code, and of one that does not.
    Pair { fail: Vec<String>, pass: Vec<String> },
    /// No command raises it; the reason, and the text of the test that raises it through the libraries.
    Api { why: String, test: String },
}

pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// The generated text that the code table carries.
pub(crate) fn generated_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bir/src/diag/examples.txt")
}

/// All rows in file order.
pub(crate) fn table() -> Vec<(String, Row)> {
    let text = std::fs::read_to_string(testdata().join("codes/table.txt")).expect("the table is there");
    let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| {
            let (code, rest) = l.split_once(": ").expect("a code and a colon");
            let row = match rest.strip_prefix("api: ") {
                Some(why) => Row::Api { why: why.to_owned(), test: api_test(code) },
                None => {
                    let (fail, pass) = rest.split_once(" | ").expect("two commands");
                    Row::Pair { fail: words(fail), pass: words(pass) }
                }
            };
            (code.to_owned(), row)
        })
        .collect()
}

/// File of the tests that raise codes through the libraries.
fn api_tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api_codes.rs")
}

/// The body of the test of a code: the lines between its signature and its closing brace, without their indent.
///
/// # Panics
/// When there is no such test, or it does not mention its code.
fn api_test(code: &str) -> String {
    let text = std::fs::read_to_string(api_tests()).expect("the tests are there");
    let head = format!("#[test]\nfn {}_", code.to_lowercase());
    let start = text.find(&head).unwrap_or_else(|| panic!("{code} has no test in api_codes.rs"));
    let rest = &text[start..];
    let body = rest.find("{\n").map_or("", |at| &rest[at + 2..]);
    let body = body.find("\n}").map_or(body, |end| &body[..end]);
    assert!(
        body.contains(&format!("codes::{code}")),
        "the test of {code} in api_codes.rs does not mention it"
    );
    body.lines().map(|l| format!("{}\n", l.strip_prefix("    ").unwrap_or(l))).collect()
}

/// The files or folders that a command names.
fn inputs(args: &[String]) -> Vec<PathBuf> {
    args.iter().skip(1).map(|a| testdata().join(a)).filter(|p| p.exists()).collect()
}

/// Text of a file: itself, or the printed operators of a kernel. `None` for other bytes.
fn shown(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    match String::from_utf8(bytes) {
        Ok(s) => Some(s),
        Err(e) => tandem_klr::read(e.as_bytes()).ok().map(|o| tandem_klr::print::print_file(&o.file)),
    }
}

/// What the failing bytes are instead of the passing ones.
fn bytes_differ(fail: &[u8], pass: &[u8]) -> String {
    let start = fail.iter().zip(pass).take_while(|(a, b)| a == b).count();
    let most = fail.len().min(pass.len()) - start;
    let end = fail.iter().rev().zip(pass.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let hex = |b: &[u8]| {
        let mut s: Vec<String> = b.iter().take(16).map(|b| format!("{b:02x}")).collect();
        if b.len() > 16 {
            s.push(format!("... ({} bytes)", b.len()));
        }
        if s.is_empty() { "nothing".to_owned() } else { s.join(" ") }
    };
    format!(
        "At byte {start} the failing file has\n    {}\nand the passing one\n    {}\n",
        hex(&fail[start..fail.len() - end]),
        hex(&pass[start..pass.len() - end])
    )
}

/// Lines that differ, `-` only in the passing text, `+` only in the failing one.
fn lines_differ(fail: &str, pass: &str) -> String {
    let mut lines = Vec::new();
    for c in TextDiff::from_lines(pass, fail).iter_all_changes() {
        let sign = match c.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => continue,
        };
        let text = c.value().trim();
        if text.is_empty() {
            continue;
        }
        let cut: String = text.chars().take(MOST_CHARS).collect();
        let dots = if cut.len() < text.len() { "..." } else { "" };
        lines.push(format!("    {sign} {cut}{dots}"));
    }
    let more = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    if more > 0 {
        lines.push(format!("    ({more} more lines)"));
    }
    lines.join("\n") + "\n"
}

/// The example of a row as a page shows it.
pub(crate) fn render(row: &Row) -> String {
    let (fail, pass) = match row {
        Row::Api { why, test } => {
            let test: String =
                test.lines().map(|l| format!("    {l}").trim_end().to_owned() + "\n").collect();
            return format!(
                "No command raises it: {why}. Through the libraries, as `crates/tandem/tests/api_codes.rs` does:\n\n{test}"
            );
        }
        Row::Pair { fail, pass } => (fail, pass),
    };
    let mut out = String::new();
    let _ = writeln!(out, "Fails:  `tandem {}`", fail.join(" "));
    let _ = writeln!(out, "Passes: `tandem {}`", pass.join(" "));
    let differs = inputs(fail).into_iter().zip(inputs(pass)).find(|(f, p)| f != p);
    let Some((f, p)) = differs.filter(|(f, p)| f.is_file() && p.is_file()) else { return out };
    out.push('\n');
    match (shown(&f), shown(&p)) {
        (Some(f), Some(p)) if f != p => {
            out.push_str("What differs (`-` passing, `+` failing):\n\n");
            out.push_str(&lines_differ(&f, &p));
        }
        _ => {
            let read = |p: &Path| std::fs::read(p).expect("readable");
            out.push_str(&bytes_differ(&read(&f), &read(&p)));
        }
    }
    out
}

/// The whole generated text: `== CODE` before each example.
pub(crate) fn generate() -> String {
    let mut out = String::new();
    for (code, row) in table() {
        let _ = writeln!(out, "== {code}");
        out.push_str(&render(&row));
    }
    out
}
