//! Every SARIF document that the command writes for the catalogue keeps the rules of SARIF 2.1.0, written out here from the
//! standard (sections 3.13 to 3.51) and its schema: required properties, no others than the known ones, types and ranges.
//!
//! `tools/check_sarif.py` does the same with the standard's own schema.

mod command;

use command::root;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// An object with these required and these optional properties, and no others.
fn object<'v>(v: &'v Value, at: &str, required: &[&str], optional: &[&str]) -> &'v Map<String, Value> {
    let o = v.as_object().unwrap_or_else(|| panic!("{at} is no object: {v}"));
    for k in required {
        assert!(o.contains_key(*k), "{at} lacks `{k}`: {v}");
    }
    for k in o.keys() {
        let known = required.contains(&k.as_str()) || optional.contains(&k.as_str()) || k == "properties";
        assert!(known, "{at} has `{k}`, which the standard does not know: {v}");
    }
    if let Some(p) = o.get("properties") {
        assert!(p.is_object(), "{at}.properties is a property bag: {p}");
    }
    o
}

fn string<'v>(v: &'v Value, at: &str) -> &'v str {
    v.as_str().unwrap_or_else(|| panic!("{at} is no string: {v}"))
}

fn list<'v>(v: &'v Value, at: &str) -> &'v [Value] {
    v.as_array().unwrap_or_else(|| panic!("{at} is no array: {v}"))
}

fn message(v: &Value, at: &str) {
    let o = object(v, at, &["text"], &["markdown", "id", "arguments"]);
    assert!(!string(&o["text"], at).is_empty(), "{at} says nothing");
}

/// A URI reference (RFC 3986): unreserved, reserved and escaped characters.
fn uri(s: &str, at: &str) {
    let b = s.as_bytes();
    for (k, c) in b.iter().enumerate() {
        let escape = *c == b'%' && b.get(k + 1..k + 3).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit));
        let plain = c.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(c);
        assert!(plain || escape, "{at}: `{s}` is no URI reference");
    }
}

fn at_least(v: Option<&Value>, least: i64, at: &str) {
    if let Some(v) = v {
        assert!(v.as_i64().is_some_and(|n| n >= least), "{at} is {v}, at least {least} is wanted");
    }
}

fn location(v: &Value, at: &str) {
    let o = object(
        v,
        at,
        &[],
        &["id", "physicalLocation", "logicalLocations", "message", "annotations", "relationships"],
    );
    at_least(o.get("id"), -1, at);
    if let Some(p) = o.get("physicalLocation") {
        let p = object(p, at, &[], &["address", "artifactLocation", "region", "contextRegion"]);
        assert!(
            p.contains_key("address") || p.contains_key("artifactLocation"),
            "{at}: a place has an artifact"
        );
        if let Some(a) = p.get("artifactLocation") {
            let a = object(a, at, &[], &["uri", "uriBaseId", "index", "description"]);
            assert!(a.contains_key("uri") || a.contains_key("index"), "{at}: an artifact has a name");
            uri(string(&a["uri"], at), at);
        }
        if let Some(r) = p.get("region") {
            let known = [
                "startLine",
                "startColumn",
                "endLine",
                "endColumn",
                "charOffset",
                "charLength",
                "byteOffset",
                "byteLength",
                "snippet",
                "message",
                "sourceLanguage",
            ];
            let r = object(r, at, &[], &known);
            for k in ["startLine", "startColumn", "endLine", "endColumn"] {
                at_least(r.get(k), 1, at);
            }
            for k in ["byteOffset", "byteLength"] {
                at_least(r.get(k), 0, at);
            }
            assert!(!r.is_empty(), "{at}: an empty region says nothing");
            assert!(
                !r.contains_key("startColumn") || r.contains_key("startLine"),
                "{at}: a column has a line"
            );
        }
    }
    for l in o.get("logicalLocations").map_or(&[][..], |l| list(l, at)) {
        let known = ["name", "index", "fullyQualifiedName", "decoratedName", "parentIndex", "kind"];
        let l = object(l, at, &[], &known);
        assert!(
            l.contains_key("name") || l.contains_key("fullyQualifiedName"),
            "{at}: a logical place has a name"
        );
    }
    if let Some(m) = o.get("message") {
        message(m, at);
    }
}

const LEVELS: [&str; 4] = ["none", "note", "warning", "error"];

fn document(v: &Value) -> usize {
    let o = object(v, "log", &["version", "runs"], &["$schema", "inlineExternalProperties"]);
    assert_eq!(o["version"], "2.1.0");
    uri(string(&o["$schema"], "$schema"), "$schema");
    let mut results = 0;
    for run in list(&o["runs"], "runs") {
        let r = object(run, "run", &["tool"], &["invocations", "results", "artifacts", "columnKind"]);
        let tool = object(&r["tool"], "tool", &["driver"], &["extensions"]);
        let driver = object(
            &tool["driver"],
            "driver",
            &["name"],
            &["version", "semanticVersion", "informationUri", "rules", "organization", "fullName"],
        );
        assert_eq!(driver["name"], "tandem");
        let rules = driver.get("rules").map_or(&[][..], |r| list(r, "rules"));
        for rule in rules {
            let known =
                ["name", "shortDescription", "fullDescription", "defaultConfiguration", "helpUri", "help"];
            let rule = object(rule, "rule", &["id"], &known);
            message(&rule["shortDescription"], "shortDescription");
            message(&rule["fullDescription"], "fullDescription");
            let c =
                object(&rule["defaultConfiguration"], "configuration", &[], &["level", "enabled", "rank"]);
            assert!(LEVELS.contains(&string(&c["level"], "level")));
        }
        let mut ids: Vec<&str> = rules.iter().map(|r| string(&r["id"], "id")).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rules.len(), "rules are distinct");
        for i in r.get("invocations").map_or(&[][..], |i| list(i, "invocations")) {
            let i = object(i, "invocation", &["executionSuccessful"], &["exitCode", "commandLine"]);
            assert!(i["executionSuccessful"].is_boolean());
            at_least(i.get("exitCode"), 0, "exitCode");
        }
        for x in list(&r["results"], "results") {
            let known = ["ruleId", "ruleIndex", "level", "locations", "relatedLocations", "kind"];
            let x = object(x, "result", &["message"], &known);
            results += 1;
            message(&x["message"], "message");
            assert!(LEVELS.contains(&string(&x["level"], "level")));
            let k = x["ruleIndex"].as_u64().expect("an index") as usize;
            assert_eq!(rules[k]["id"], x["ruleId"], "the index and the id name one rule");
            list(&x["locations"], "locations").iter().for_each(|l| location(l, "location"));
            let related = x.get("relatedLocations").map_or(&[][..], |l| list(l, "relatedLocations"));
            related.iter().for_each(|l| location(l, "related location"));
            for (k, l) in related.iter().enumerate() {
                assert!(!related[..k].contains(l), "related locations are a set");
                assert!(l["id"].as_i64().is_some(), "related locations are told apart");
            }
        }
    }
    results
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let p = e.path();
        if p.is_dir() {
            collect(&p, out);
        } else if p.extension().is_some_and(|x| x == "bir" || x == "klr") {
            out.push(p);
        }
    }
}

#[test]
fn every_document_keeps_the_rules_of_the_standard() {
    let mut files = Vec::new();
    for dir in ["filetests/check", "testdata/codes", "examples/kernels"] {
        collect(&root().join(dir), &mut files);
    }
    files.sort();
    let (mut documents, mut results) = (0, 0);
    for f in files {
        let f = f.strip_prefix(root()).expect("below the root").display().to_string();
        for args in
            [vec!["check", &f, "--format", "sarif"], vec!["run", &f, "--random", "1", "--format", "sarif"]]
        {
            if args[0] == "run" && !f.starts_with("filetests/check") {
                continue;
            }
            let r = command::tandem(&root(), &args);
            let v: Value =
                serde_json::from_str(&r.out).unwrap_or_else(|e| panic!("{args:?}: {e}\n{}", r.out));
            results += document(&v);
            documents += 1;
        }
    }
    assert!(documents >= 200 && results >= 150, "{documents} documents, {results} results");
}

#[test]
fn the_rules_refuse_what_the_standard_refuses() {
    let good = serde_json::json!({"$schema": "s", "version": "2.1.0", "runs": [{"tool": {"driver": {"name": "tandem"}}, "results": []}]});
    assert_eq!(document(&good), 0);
    for (path, value) in [
        ("/version", Value::from("2.0.0")),
        ("/runs/0/tool/driver", serde_json::json!({})),
        ("/runs/0/results", serde_json::json!([{"message": {"text": "m"}, "level": "fatal"}])),
        ("/runs/0/tool", serde_json::json!({"driver": {"name": "tandem"}, "surprise": 1})),
        ("/runs/0/results", serde_json::json!([{"level": "note"}])),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).expect("there") = value;
        assert!(std::panic::catch_unwind(|| document(&bad)).is_err(), "{bad}");
    }
}
