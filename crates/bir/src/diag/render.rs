//! Diagnostics as text and JSON. Nothing else in the workspace formats a finding.

use super::{Diagnostic, Severity, Site};
use serde_json::{Value, json};
use std::fmt::Write as _;

impl Severity {
    /// Lower-case word.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Colour of the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// No escape codes.
    Plain,
    /// ANSI colours.
    Ansi,
}

fn paint(style: Style, code: &str, text: &str) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
    }
}

/// One line naming a place: `kernel.py:5:2 (core 0, main.0, inst.3)`.
pub fn site_text(s: &Site) -> String {
    let mut head = String::new();
    if let Some(p) = &s.pos {
        let _ = write!(head, "{p}");
    } else if let Some(o) = s.offset {
        let _ = write!(head, "offset {o}");
    }
    if !s.path.is_empty() {
        if !head.is_empty() {
            head.push_str(": ");
        }
        head.push_str(&s.path);
    }
    let mut parts = Vec::new();
    if let Some(c) = s.core {
        parts.push(format!("core {c}"));
    }
    for n in [&s.function, &s.block, &s.inst] {
        if !n.is_empty() {
            parts.push(format!("`{n}`"));
        }
    }
    if !parts.is_empty() {
        if head.is_empty() {
            head = parts.join(", ");
        } else {
            let _ = write!(head, " ({})", parts.join(", "));
        }
    }
    head
}

/// Several lines for a person. `source(file, line)` may give the text of a source line.
pub fn text(d: &Diagnostic, style: Style, source: &dyn Fn(&str, u32) -> Option<String>) -> String {
    let colour = match d.severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
        Severity::Note => "1;36",
    };
    let mut out = String::new();
    let head = format!("{}[{}]", d.severity.word(), d.code);
    let _ = writeln!(out, "{}: {}", paint(style, colour, &head), paint(style, "1", &d.message));
    for s in &d.sites {
        let place = site_text(s);
        let _ = match (place.is_empty(), s.label.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => writeln!(out, "  --> {}", s.label),
            (false, true) => writeln!(out, "  --> {place}"),
            (false, false) => writeln!(out, "  --> {place}: {}", s.label),
        };
        if let Some(p) = &s.pos
            && let Some(line) = source(&p.file, p.line)
        {
            let _ = writeln!(out, "{:>5} | {}", p.line, line.trim_end());
            if p.column > 0 && (p.column as usize) <= line.len() + 1 {
                let pad: String = line
                    .chars()
                    .take(p.column as usize - 1)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                let _ = writeln!(out, "      | {pad}^");
            }
        }
    }
    for n in &d.notes {
        let _ = writeln!(out, "  note: {n}");
    }
    if let Some(h) = &d.help {
        let _ = writeln!(out, "  help: {h}");
    }
    out
}

/// Findings as a JSON array.
pub fn list_to_json(diags: &[Diagnostic]) -> Value {
    diags.iter().map(to_json).collect()
}

/// The finding as a JSON object.
pub fn to_json(d: &Diagnostic) -> Value {
    let sites: Vec<Value> = d
        .sites
        .iter()
        .map(|s| {
            let mut o = serde_json::Map::new();
            if let Some(c) = s.core {
                o.insert("core".into(), json!(c.0));
            }
            for (k, v) in [
                ("function", &s.function),
                ("block", &s.block),
                ("inst", &s.inst),
                ("path", &s.path),
                ("label", &s.label),
            ] {
                if !v.is_empty() {
                    o.insert(k.into(), json!(v));
                }
            }
            if let Some(p) = &s.pos {
                o.insert(
                    "source".into(),
                    json!({"file": p.file.as_str(), "line": p.line, "column": p.column,
                           "end_line": p.end_line, "end_column": p.end_column}),
                );
            }
            if let Some(x) = s.offset {
                o.insert("offset".into(), json!(x));
            }
            Value::Object(o)
        })
        .collect();
    json!({
        "code": d.code.to_string(),
        "severity": d.severity.word(),
        "message": d.message,
        "sites": sites,
        "notes": d.notes,
        "help": d.help,
    })
}
