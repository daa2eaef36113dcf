//! Findings as SARIF 2.1.0, the form that code hosts and editors read.
//!
//! Rules are the rows of the code table that occur. The first site of a finding is its location; the others are related
//! locations. A site with a source position is a physical location; names of core, function, block and instruction are a
//! logical one.

use serde_json::{Map, Value, json};
use tandem_bir::diag::{Code, Diagnostic, Severity, Site, render::site_text};

/// One document with one run. `file` is the input, named where a finding has no position; `properties` go to the run.
pub fn document(diags: &[Diagnostic], file: &str, exit: u8, properties: Value) -> Value {
    let mut rules: Vec<Code> = Vec::new();
    for d in diags {
        if !rules.contains(&d.code) {
            rules.push(d.code);
        }
    }
    let results: Vec<Value> = diags
        .iter()
        .map(|d| {
            let index = rules.iter().position(|r| *r == d.code);
            let mut text = d.message.clone();
            for n in &d.notes {
                text.push_str("\nnote: ");
                text.push_str(n);
            }
            if let Some(h) = &d.help {
                text.push_str("\nhelp: ");
                text.push_str(h);
            }
            let mut r = Map::new();
            r.insert("ruleId".into(), json!(d.code.to_string()));
            r.insert("ruleIndex".into(), json!(index));
            r.insert("level".into(), json!(level(d.severity)));
            r.insert("message".into(), json!({"text": text}));
            let first = match d.sites.first() {
                Some(s) => location(s, file, None),
                None => json!({"physicalLocation": {"artifactLocation": {"uri": uri(file)}}}),
            };
            r.insert("locations".into(), json!([first]));
            let related: Vec<Value> =
                d.sites.iter().enumerate().skip(1).map(|(k, s)| location(s, file, Some(k))).collect();
            if !related.is_empty() {
                r.insert("relatedLocations".into(), json!(related));
            }
            Value::Object(r)
        })
        .collect();
    let rules: Vec<Value> = rules
        .iter()
        .map(|c| {
            let i = c.info();
            json!({
                "id": i.id,
                "shortDescription": {"text": i.title},
                "fullDescription": {"text": i.page},
                "defaultConfiguration": {"level": level(i.severity)},
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "tandem", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "invocations": [{"executionSuccessful": exit < 2, "exitCode": exit}],
            "results": results,
            "properties": properties,
        }],
    })
}

fn level(s: Severity) -> &'static str {
    match s {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn location(s: &Site, file: &str, id: Option<usize>) -> Value {
    let mut l = Map::new();
    if let Some(id) = id {
        l.insert("id".into(), json!(id));
    }
    let mut physical = json!({"artifactLocation": {"uri": uri(s.pos.as_ref().map_or(file, |p| &p.file))}});
    if let Some(p) = &s.pos
        && p.line > 0
    {
        physical["region"] = if p.column > 0 {
            json!({"startLine": p.line, "startColumn": p.column})
        } else {
            json!({"startLine": p.line})
        };
    } else if let Some(o) = s.offset {
        physical["region"] = json!({"byteOffset": o});
    }
    l.insert("physicalLocation".into(), physical);
    let mut names: Vec<String> = s.core.iter().map(|c| format!("core {c}")).collect();
    names.extend([&s.function, &s.block, &s.inst].into_iter().filter(|n| !n.is_empty()).cloned());
    if !names.is_empty() {
        l.insert("logicalLocations".into(), json!([{"fullyQualifiedName": names.join("/")}]));
    }
    let text = if s.label.is_empty() { site_text(s) } else { s.label.clone() };
    if !text.is_empty() {
        l.insert("message".into(), json!({"text": text}));
    }
    Value::Object(l)
}

/// A path as a relative or absolute reference: what a URI does not allow is escaped.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for b in path.replace('\\', "/").bytes() {
        match b {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'/'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b'+'
            | b'='
            | b'@' => {
                out.push(b as char);
            }
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}
