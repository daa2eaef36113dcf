//! Verdicts, SARIF, replay files, the graph of a deadlock, `--fail-on`: through the command.

mod command;

use command::{Ran, tandem};
use serde_json::Value;
use std::path::PathBuf;

/// Two cores that write the halves of `y`; `row` is where core 1 begins.
fn halves(row: u32, extra: [&str; 2]) -> String {
    let module = |c: u32, at: u32, rows: u32, extra: &str| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared float32 [8 x 4] {{ loc @x = DRAM [8, 16] addr 0 allocated id 0 }}
    set @y_set = ExternalOutput Tensor Shared float32 [8 x 4] {{ loc @y = DRAM [8, 16] addr 4096 allocated id 1 }}
    set @a_set = Internal NeuronSBTensor Local float32 [5 x 4] {{ loc @a = SB [5, 16] addr 0 allocated }}
    block b0 {{
      ld = DMACopy DMA @a[[4,5] [1,4]] float32 <- @x[[4,5] [1,4]] float32 !loc k.py:3:4
      st = DMACopy DMA @y[off {at}, [4,{rows}] [1,4]] float32 <- @a[[4,{rows}] [1,4]] float32 after(ld) !loc k.py:{}:4
      {extra}
    }}
  }}
}}
",
            4 + c
        )
    };
    format!(
        "bir 1\nprogram \"halves\" lnc 2 level lowered\ninput \"x\" = @x float32 [8 x 4]\noutput \"y\" = @y float32 [8 x 4]\n{}{}",
        module(0, 0, 4, extra[0]),
        module(1, 4 * row, 8 - row, extra[1])
    )
}

/// A folder with the clean program, one with overlapping halves, and one whose core 0 waits alone.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let t = tempfile::tempdir().expect("a folder");
    let p = t.path().to_path_buf();
    let write = |n: &str, s: &str| std::fs::write(p.join(n), s).expect("written");
    write("clean.bir", &halves(4, ["", ""]));
    write("race.bir", &halves(3, ["", ""]));
    write("hang.bir", &halves(4, ["bar = CoreBarrier Pool {cores = [0, 1]} after(st) !loc k.py:9:1", ""]));
    let load = "get = TensorLoad ALL $r int32 <- @x[[1,1]] int32
      k = RegisterMove ALL $k int32 <- 1 int32
      br = CompareAndBranch ALL <- $r int32, $k int32 {comp_op = IS_EQREG, on_true = b1, on_false = b1}
    }
    block b1 {
      n = NoOp SP";
    let data =
        halves(4, [load, load]).replace("block b0 {", "reg $r = ALL\n    reg $k = ALL\n    block b0 {");
    write("data.bir", &data);
    (t, p)
}

fn line_of(r: &Ran) -> String {
    let l: Vec<&str> = r.out.lines().filter(|l| l.starts_with("verdict: ")).collect();
    assert_eq!(l.len(), 1, "{}{}", r.out, r.err);
    l[0].to_owned()
}

#[test]
fn verdicts_of_run() {
    let (_t, d) = folder();
    let r = tandem(&d, &["run", "clean.bir", "--random", "1"]);
    assert_eq!(r.exit, 0, "{}", r.err);
    assert!(line_of(&r).starts_with("verdict: proved for all inputs: "), "{}", r.out);
    let r = tandem(&d, &["run", "data.bir", "--random", "1"]);
    assert_eq!(r.exit, 0, "{}", r.err);
    let l = line_of(&r);
    assert!(l.starts_with("verdict: proved for these inputs: ") && l.contains("`br`"), "{l}");
    let r = tandem(&d, &["run", "race.bir", "--random", "1"]);
    assert_eq!((r.exit, line_of(&r).as_str()), (1, "verdict: refuted: S0020 (data race)"), "{}", r.err);
    let r = tandem(&d, &["run", "race.bir", "--random", "1", "--no-race-check"]);
    assert_eq!(
        (r.exit, line_of(&r).as_str()),
        (0, "verdict: not covered: the race check was switched off"),
        "{}",
        r.err
    );
    let r = tandem(&d, &["run", "clean.bir", "--random", "1", "--uninit", "off"]);
    assert!(line_of(&r).starts_with("verdict: not covered: the check of undefined bytes"), "{}", r.out);
    let r = tandem(&d, &["run", "clean.bir", "--random", "1", "--max-steps", "1"]);
    assert!(line_of(&r).starts_with("verdict: not covered: stopped after"), "{}", r.out);
    assert_eq!(r.exit, 1);
    let r = tandem(&d, &["run", "clean.bir", "--random", "1", "--max-memory", "0"]);
    assert!(r.exit == 3 && r.err.contains("S0005"), "{} {}", r.exit, r.err);
    let r = tandem(&d, &["run", "race.bir", "--random", "1", "--fail-on", "never"]);
    assert_eq!((r.exit, line_of(&r).as_str()), (0, "verdict: refuted: S0020 (data race)"));
    let r = tandem(&d, &["run", "race.bir", "--random", "1", "--format", "json"]);
    let v = r.json();
    assert_eq!(v["verdict"]["verdict"], "refuted");
    assert_eq!(v["verdict"]["codes"][0], "S0020");
}

#[test]
fn verdicts_of_check() {
    let (_t, d) = folder();
    let r = tandem(&d, &["check", "clean.bir"]);
    assert_eq!(r.exit, 0, "{}", r.err);
    assert!(line_of(&r).starts_with("verdict: proved between the cores for all inputs: "), "{}", r.out);
    let r = tandem(&d, &["check", "hang.bir"]);
    assert_eq!(r.exit, 1);
    assert!(line_of(&r).starts_with("verdict: refuted: C0301"), "{}", r.out);
    let r = tandem(&d, &["check", "data.bir"]);
    assert!(line_of(&r).starts_with("verdict: not covered: a branch depends on data"), "{}", r.out);
    let r = tandem(&d, &["check", "clean.bir", "--skip-barrier-checker"]);
    assert_eq!(line_of(&r), "verdict: not covered: the barrier check was switched off");
    let v = tandem(&d, &["check", "hang.bir", "--format", "json"]).json();
    assert_eq!(v["verdict"]["verdict"], "refuted");
}

/// What SARIF 2.1.0 asks of the parts that are written.
fn sarif_is_well_formed(v: &Value) {
    assert_eq!(v["version"], "2.1.0");
    assert!(v["$schema"].as_str().is_some_and(|s| s.contains("sarif-2.1.0")));
    let runs = v["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert_eq!(driver["name"], "tandem");
    let rules = driver["rules"].as_array().expect("rules");
    for r in rules {
        assert!(r["id"].is_string() && r["shortDescription"]["text"].is_string(), "{r}");
        assert!(
            ["error", "warning", "note", "none"]
                .contains(&r["defaultConfiguration"]["level"].as_str().unwrap_or(""))
        );
    }
    for i in runs[0]["invocations"].as_array().expect("invocations") {
        assert!(i["executionSuccessful"].is_boolean() && i["exitCode"].is_u64());
    }
    for r in runs[0]["results"].as_array().expect("results") {
        let k = r["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(r["ruleId"], rules[k]["id"]);
        assert!(["error", "warning", "note", "none"].contains(&r["level"].as_str().unwrap_or("")));
        assert!(r["message"]["text"].as_str().is_some_and(|t| !t.is_empty()));
        let related = r["relatedLocations"].as_array().cloned().unwrap_or_default();
        let all = r["locations"].as_array().expect("locations").iter().chain(&related);
        for l in all {
            let p = &l["physicalLocation"];
            let uri = p["artifactLocation"]["uri"].as_str().expect("a uri");
            assert!(!uri.contains([' ', '\\']), "{uri}");
            if let Some(region) = p["region"].as_object() {
                let line = region.get("startLine").and_then(Value::as_u64);
                let column = region.get("startColumn").map(Value::as_u64);
                assert!(line.is_some_and(|n| n >= 1) || region.contains_key("byteOffset"), "{l}");
                assert!(column.is_none_or(|c| c.is_some_and(|c| c >= 1)), "{l}");
            }
        }
    }
}

#[test]
fn findings_as_sarif() {
    let (_t, d) = folder();
    let r = tandem(&d, &["run", "race.bir", "--random", "1", "--format", "sarif"]);
    assert_eq!(r.exit, 1);
    let v = r.json();
    sarif_is_well_formed(&v);
    let run = &v["runs"][0];
    assert_eq!(run["properties"]["verdict"]["verdict"], "refuted");
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "S0020");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "k.py");
    let lines: Vec<u64> = [place, &result["relatedLocations"][0]["physicalLocation"]]
        .iter()
        .filter_map(|p| p["region"]["startLine"].as_u64())
        .collect();
    assert_eq!(lines.iter().sum::<u64>(), 9, "the two stores are on lines 4 and 5: {lines:?}");
    let r = tandem(&d, &["check", "hang.bir", "--format", "sarif"]);
    sarif_is_well_formed(&r.json());
    let r = tandem(&d, &["check", "no such.bir", "--format", "sarif"]);
    let v = r.json();
    sarif_is_well_formed(&v);
    assert_eq!(v["runs"][0]["invocations"][0]["executionSuccessful"], false);
    let r = tandem(&d, &["check", "clean.bir", "--format", "sarif"]);
    let v = r.json();
    sarif_is_well_formed(&v);
    assert_eq!(v["runs"][0]["results"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_replay_file_brings_the_finding_back_and_knows_its_input() {
    let (_t, d) = folder();
    let first =
        tandem(&d, &["run", "race.bir", "--random", "1", "--schedule", "seed=5", "--save-replay", "r.json"]);
    assert_eq!(first.exit, 1);
    assert!(first.out.contains("replay file: r.json"), "{}", first.out);
    let v = serde_json::from_str::<Value>(&std::fs::read_to_string(d.join("r.json")).expect("written"))
        .expect("JSON");
    assert_eq!(
        (v["replay"].as_u64(), v["level"].as_str(), v["schedule"].as_str()),
        (Some(1), Some("lowered"), Some("seed=5"))
    );
    assert_eq!(v["findings"][0]["code"], "S0020");
    let again = tandem(&d, &["run", "race.bir", "--replay", "r.json"]);
    assert_eq!(again.exit, 1, "{}", again.err);
    assert!(again.out.contains("replay: 1 of 1 findings reproduced"), "{}", again.out);
    assert_eq!(first.err, again.err, "the same report");
    // Another file.
    let other = tandem(&d, &["run", "clean.bir", "--replay", "r.json"]);
    assert_eq!(other.exit, 2, "{}", other.err);
    assert!(other.err.contains("U0006") && other.err.contains("clean.bir"), "{}", other.err);
    // A file that claims a finding which does not come.
    let forged = v.to_string().replace("S0020", "S0010");
    std::fs::write(d.join("f.json"), forged).expect("written");
    let r = tandem(&d, &["run", "race.bir", "--replay", "f.json"]);
    assert!(r.err.contains("U0007") && r.out.contains("replay: 0 of 1"), "{}{}", r.out, r.err);
    std::fs::write(d.join("g.json"), "[1]").expect("written");
    assert_eq!(tandem(&d, &["run", "race.bir", "--replay", "g.json"]).exit, 2);
    // Beside the outputs, without being asked.
    tandem(&d, &["run", "race.bir", "--random", "1", "-o", "out"]);
    assert!(d.join("out/replay.json").exists());
    tandem(&d, &["run", "clean.bir", "--random", "1", "-o", "out2"]);
    assert!(d.join("out2/y.npy").exists() && !d.join("out2/replay.json").exists());
    // Inputs from files are named and checked.
    tandem(&d, &["run", "race.bir", "out2/y.npy", "--save-replay", "i.json"]);
    let r = tandem(&d, &["run", "race.bir", "--replay", "i.json"]);
    assert!(r.out.contains("replay: 1 of 1"), "{}{}", r.out, r.err);
    let mut bytes = std::fs::read(d.join("out2/y.npy")).expect("read");
    if let Some(b) = bytes.last_mut() {
        *b ^= 1;
    }
    std::fs::write(d.join("out2/y.npy"), bytes).expect("written");
    let r = tandem(&d, &["run", "race.bir", "--replay", "i.json"]);
    assert!(r.exit == 2 && r.err.contains("the tensor"), "{}", r.err);
}

#[test]
fn a_deadlock_is_reported_as_text_json_and_graph_and_replays() {
    let (_t, d) = folder();
    let args = ["run", "hang.bir", "--random", "1", "--deadlock-dot", "w.dot", "--save-replay", "r.json"];
    let r = tandem(&d, &args);
    assert_eq!(r.exit, 1);
    assert!(r.err.contains("S0011") && r.err.contains("k.py:9:1"), "{}", r.err);
    assert!(line_of(&r).contains("S0011"), "{}", r.out);
    let dot = std::fs::read_to_string(d.join("w.dot")).expect("written");
    assert!(dot.starts_with("digraph wait_for {") && dot.contains("core1"), "{dot}");
    let v = tandem(&d, &["run", "hang.bir", "--random", "1", "--format", "json"]).json();
    assert_eq!(v["stop"], "deadlock");
    assert_eq!(v["wait_for"]["blocked"][0]["core"], 0);
    assert_eq!(v["wait_for"]["finished"][0], 1);
    let again = tandem(&d, &["run", "hang.bir", "--replay", "r.json"]);
    assert!(again.out.contains("replay: 1 of 1 findings reproduced"), "{}{}", again.out, again.err);
}

#[test]
fn severity_of_undefined_bytes_and_the_fill() {
    let (_t, d) = folder();
    // Half of the output is never written.
    let half = halves(4, ["", ""]).replace("off 16, [4,4] [1,4]", "off 16, [4,2] [1,4]").replace(
        "@a[[4,4] [1,4]] float32 after(ld) !loc k.py:5",
        "@a[[4,2] [1,4]] float32 after(ld) !loc k.py:5",
    );
    std::fs::write(d.join("half.bir"), half).expect("written");
    let run = |more: &[&str]| tandem(&d, &[&["run", "half.bir", "--random", "1"], more].concat());
    assert_eq!(run(&[]).exit, 1);
    let r = run(&["--uninit", "warn"]);
    assert!(r.exit == 0 && r.err.contains("warning[S0021]"), "{}", r.err);
    assert!(line_of(&r).starts_with("verdict: refuted: S0021"), "{}", r.out);
    assert_eq!(run(&["--uninit", "warn", "--fail-on", "warning"]).exit, 1);
    assert_eq!(run(&["--uninit", "off"]).exit, 0);
    // What the unwritten rows of the output show is the fill.
    let bytes = |fill: &str| {
        run(&["--uninit", "off", "--fill", fill, "-o", "f"]);
        let b = std::fs::read(d.join("f/y.npy")).expect("written");
        b[b.len() - 32..].to_vec()
    };
    assert_eq!(bytes("ff"), vec![0xff; 32]);
    assert_ne!(bytes("random=3"), bytes("random=4"));
    assert_eq!(bytes("random=3"), bytes("random=3"));
    assert_eq!(run(&["--fill", "zero"]).exit, 2);
}
