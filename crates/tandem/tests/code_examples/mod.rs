//! The examples of diagnostic codes: `testdata/codes/table.txt` and the files it names.
//!
//! One row per code: `CODE: failing command | passing command`, or `CODE: none: why no file raises it`. Paths are relative
//! to `testdata`; the command is run there.

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
    /// No file raises it; the reason.
    None(String),
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
            let row = match rest.strip_prefix("none: ") {
                Some(why) => Row::None(why.to_owned()),
                None => {
                    let (fail, pass) = rest.split_once(" | ").expect("two commands");
                    Row::Pair { fail: words(fail), pass: words(pass) }
                }
            };
            (code.to_owned(), row)
        })
        .collect()
}

/// The file or folder that a command names.
fn input(args: &[String]) -> Option<PathBuf> {
    args.iter().skip(1).map(|a| testdata().join(a)).find(|p| p.exists())
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
        Row::None(why) => return format!("No example file: {why}.\n"),
        Row::Pair { fail, pass } => (fail, pass),
    };
    let mut out = String::new();
    let _ = writeln!(out, "Fails:  `tandem {}`", fail.join(" "));
    let _ = writeln!(out, "Passes: `tandem {}`", pass.join(" "));
    let (Some(f), Some(p)) = (input(fail), input(pass)) else { return out };
    if f == p || f.is_dir() || p.is_dir() {
        return out;
    }
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
