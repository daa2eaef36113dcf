//! What findings show: every finding about two accesses, two cores or two tensors names both places, with their source lines.

mod command;

use command::{root, tandem};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn findings(args: &[&str]) -> Vec<Value> {
    let v = tandem(&root(), &[args, &["--format", "json"]].concat()).json();
    v["diagnostics"].as_array().cloned().unwrap_or_default()
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let p = e.path();
        if p.is_dir() {
            files(&p, out);
        } else if p.extension().is_some_and(|x| x == "bir" || x == "klr") {
            out.push(p);
        }
    }
}

/// Findings that are about one place: a missing output, a rank outside the group, a block or a core that has no counterpart.
const ONE_PLACE: [&str; 4] = ["C0102", "C0403", "C0501", "S0003"];

#[test]
fn every_finding_names_both_places_with_their_lines() {
    let mut cases = Vec::new();
    files(&root().join("filetests/check"), &mut cases);
    files(&root().join("examples/kernels"), &mut cases);
    cases.sort();
    let mut seen: Vec<String> = Vec::new();
    for case in &cases {
        let name = case.to_string_lossy().into_owned();
        for args in [vec!["check", &name], vec!["run", &name, "--random", "1"]] {
            for d in findings(&args) {
                let code = d["code"].as_str().expect("a code").to_owned();
                if d["severity"] != "error" || !code.starts_with(['C', 'S', 'L']) {
                    continue;
                }
                let what = || format!("{args:?}\n{}", serde_json::to_string_pretty(&d).unwrap_or_default());
                let sites = d["sites"].as_array().expect("sites");
                // An output that nothing at all writes has no other place either.
                let alone = code == "S0021" && name.ends_with("no_output.bir");
                let two = sites.len() >= 2 || alone || ONE_PLACE.contains(&code.as_str());
                assert!(two, "{code} has {} sites: {}", sites.len(), what());
                for s in sites {
                    // An instruction has a line; a core, a block or a tensor has none.
                    assert!(s["inst"].is_null() || s["source"]["line"].as_u64().is_some(), "{}", what());
                }
                if !alone && (!ONE_PLACE.contains(&code.as_str()) || code == "C0102") {
                    assert!(sites.iter().any(|s| s["source"]["line"].as_u64().is_some()), "{}", what());
                }
                if !seen.contains(&code) {
                    seen.push(code);
                }
            }
        }
    }
    seen.sort();
    for code in ["C0101", "C0401", "C0405", "C0601", "S0010", "S0011", "S0013", "S0020", "S0021", "S0023"] {
        assert!(seen.iter().any(|s| s == code), "no case shows {code}: {seen:?}");
    }
}
