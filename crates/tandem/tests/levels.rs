//! Every level gives one verdict: the stored programs, the sample kernels, the corpus; containers and replay files of the
//! linked levels; the same through the command that a user has.

mod command;

use command::{Ran, root, tandem};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn programs() -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders =
        vec![root().join("filetests/check"), root().join("examples/kernels"), root().join("testdata/klr")];
    while let Some(f) = folders.pop() {
        for e in std::fs::read_dir(&f).expect("a folder") {
            let p = e.expect("an entry").path();
            if p.is_dir() {
                folders.push(p);
            } else if p.extension().is_some_and(|e| e == "bir" || e == "klr") {
                out.push(p);
            }
        }
    }
    out.sort();
    out
}

/// Exit code, verdict, and which of the codes that name a cause came.
fn judged(file: &Path, level: &str) -> (i32, String, Vec<String>) {
    let f = file.display().to_string();
    let r = tandem(&root(), &["run", &f, "--level", level, "--random", "1", "--format", "json"]);
    let v = r.json();
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let codes = v["verdict"]["codes"].as_array().into_iter().flatten().map(text);
    // Meetings that do not pair have a code of their own at every level: a hang, a difference, a refusal of the linker.
    let cause = |c: String| match c.as_str() {
        "S0010" | "S0011" | "S0012" | "S0013" | "N0008" | "N0009" | "N0011" | "N0012" | "C0405" => {
            "hang".to_owned()
        }
        _ => c,
    };
    let mut codes: Vec<String> = codes.map(cause).collect();
    codes.sort();
    codes.dedup();
    (r.exit, text(&v["verdict"]["verdict"]), codes)
}

#[test]
fn every_level_gives_one_verdict() {
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let files = programs();
    for f in &files {
        let want = judged(f, "lowered");
        *seen.entry(want.1.clone()).or_default() += 1;
        for level in ["linked", "bundles"] {
            let got = judged(f, level);
            if got != want {
                wrong.push(format!("{} {level}: {got:?}, lowered {want:?}", f.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen["proved"] > 40 && seen["refuted"] > 15, "{seen:?}");
}

fn module(body: &str) -> String {
    format!(
        "bir 1
program \"p\" lnc 1 level lowered
input \"x\" = @x float32 [8 x 4]
output \"y\" = @y float32 [8 x 4]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Local float32 [8 x 4] {{ loc @x = DRAM [8, 16] addr 0 allocated }}
    set @y_set = ExternalOutput Tensor Local float32 [8 x 4] {{ loc @y = DRAM [8, 16] addr 4096 allocated }}
    set @a_set = Internal NeuronSBTensor Local float32 [8 x 4] {{ loc @a = SB [8, 16] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local float32 [8 x 4] {{ loc @b = SB [8, 16] addr 8 allocated }}
    set @c_set = Internal NeuronSBTensor Local float32 [8 x 4] {{ loc @c = SB [8, 16] addr 64 allocated }}
    block b0 {{
{body}
    }}
  }}
}}
"
    )
}

/// `b` is written over `a`, in order, and then `a` is read.
const OVER: &str = "      ld = DMACopy DMA @a[[4,8] [1,4]] float32 <- @x[[4,8] [1,4]] float32 !loc k.py:3:4
      over = Memset DVE @b[[4,8] [1,4]] float32 {mode = Const, constant = 0} after(ld) !loc k.py:4:4
      use = TensorCopy DVE @c[[4,8] [1,4]] float32 <- @a[[4,8] [1,4]] float32 after(ld) !loc k.py:5:4
      use2 = TensorCopy DVE @c[[4,8] [1,4]] float32 <- @b[[4,8] [1,4]] float32 !loc k.py:6:4
      st = DMACopy DMA @y[[4,8] [1,4]] float32 <- @c[[4,8] [1,4]] float32 after(use2) !loc k.py:7:4";

/// Nothing orders the load with the use.
const RACE: &str = "      ld = DMACopy DMA @a[[4,8] [1,4]] float32 <- @x[[4,8] [1,4]] float32 !loc k.py:3:4
      use = TensorCopy DVE @c[[4,8] [1,4]] float32 <- @a[[4,8] [1,4]] float32 !loc k.py:5:4
      st = DMACopy DMA @y[[4,8] [1,4]] float32 <- @c[[4,8] [1,4]] float32 after(use) !loc k.py:7:4";

#[test]
fn bundles_know_tensors_by_their_debug_table() {
    let t = tempfile::tempdir().expect("a folder");
    let d = t.path();
    std::fs::write(d.join("over.bir"), module(OVER)).expect("written");
    std::fs::write(d.join("race.bir"), module(RACE)).expect("written");
    for name in ["over", "race"] {
        let bir = format!("{name}.bir");
        for (out, extra) in [("debug", None), ("bare", Some("--no-debug"))] {
            let out = format!("{name}.{out}");
            let mut args = vec!["encode", &bir, "-o", &out];
            args.extend(extra);
            let r = tandem(d, &args);
            assert_eq!(r.exit, 0, "{}", r.err);
        }
    }
    let run = |file: &str, extra: &[&str]| {
        let mut args = vec!["run", file, "--random", "1", "--format", "json"];
        args.extend(extra);
        tandem(d, &args).json()
    };
    let want = run("over.bir", &[]);
    assert_eq!(want["verdict"]["codes"][0], "S0023");
    for v in [run("over.bir", &["--level", "linked"]), run("over.debug", &[])] {
        assert_eq!(v["verdict"], want["verdict"]);
        assert_eq!(v["diagnostics"], want["diagnostics"]);
    }
    let v = run("over.bare", &[]);
    assert_eq!(v["verdict"]["verdict"], "proved");
    assert!(
        v["verdict"]["why"].as_str().is_some_and(|w| w.contains("without a debug table")),
        "{}",
        v["verdict"]
    );

    let want = run("race.bir", &[]);
    let sites = |v: &Value| -> Vec<(String, String)> {
        let s = v["diagnostics"][0]["sites"].as_array().expect("sites").iter();
        s.map(|s| (s["inst"].to_string(), s["line"].to_string())).collect()
    };
    assert_eq!(sites(&run("race.debug", &[])), sites(&want));
    assert_eq!(run("race.debug", &[])["diagnostics"][0]["message"], want["diagnostics"][0]["message"]);
    let bare = sites(&run("race.bare", &[]));
    assert!(bare.iter().all(|(i, _)| i.contains("SP.") || i.contains("DVE.")), "{bare:?}");
    let (a, b) = (
        tandem(d, &["run", "over.debug", "--random", "3"]),
        tandem(d, &["run", "over.bare", "--random", "3"]),
    );
    let outputs = |r: &Ran| {
        r.out
            .lines()
            .filter(|l| l.contains("instructions") || l.contains("output"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(outputs(&a), outputs(&b));
    assert!(a.out.contains("level bundles"), "{}", a.out);
}

#[test]
fn replay_files_of_the_linked_levels_reproduce() {
    let t = tempfile::tempdir().expect("a folder");
    let d = t.path();
    std::fs::write(d.join("race.bir"), module(RACE)).expect("written");
    assert_eq!(tandem(d, &["encode", "race.bir", "-o", "race.bundles"]).exit, 0);
    for (file, extra) in [
        ("race.bir", &["--level", "linked", "--schedule", "seed=4"][..]),
        ("race.bir", &["--level", "bundles", "--schedule", "late"]),
        ("race.bundles", &[]),
    ] {
        let mut args = vec!["run", file, "--random", "1", "--save-replay", "replay.json"];
        args.extend(extra);
        let r = tandem(d, &args);
        assert_eq!(r.exit, 1, "{}", r.err);
        let again = tandem(d, &["run", file, "--replay", "replay.json"]);
        assert!(
            again.out.contains("replay: 1 of 1 findings reproduced"),
            "{file} {extra:?}: {}{}",
            again.out,
            again.err
        );
    }
}

/// `use` waits for `make`, which stands behind it on another engine.
const FORWARD: &str = "      ld = DMACopy DMA @a[[4,8] [1,4]] float32 <- @x[[4,8] [1,4]] float32
      use = TensorCopy DVE @b[[4,8] [1,4]] float32 <- @c[[4,8] [1,4]] float32 after(make)
      make = TensorCopy Pool @c[[4,8] [1,4]] float32 <- @a[[4,8] [1,4]] float32 after(ld)
      st = DMACopy DMA @y[[4,8] [1,4]] float32 <- @b[[4,8] [1,4]] float32 after(use)";

#[test]
fn an_instruction_may_wait_for_a_later_one() {
    let t = tempfile::tempdir().expect("a folder");
    let d = t.path();
    std::fs::write(d.join("forward.bir"), module(FORWARD).replace("addr 8 ", "addr 128 ")).expect("written");
    let mut all = Vec::new();
    for level in ["lowered", "linked", "bundles"] {
        let r = tandem(d, &["run", "forward.bir", "--random", "1", "--level", level, "-o", level]);
        assert_eq!(r.exit, 0, "{level}: {}{}", r.out, r.err);
        assert!(r.out.contains("verdict: proved for all inputs"), "{}", r.out);
        all.push(std::fs::read(d.join(level).join("y.npy")).expect("the output"));
    }
    assert!(all[0] == all[1] && all[0] == all[2]);
}

/// The cores count different numbers of barriers in a loop: at every level a report with text, JSON and a graph.
#[test]
fn a_deadlock_is_reported_at_every_level() {
    let t = tempfile::tempdir().expect("a folder");
    let kernel = root().join("examples/kernels/barrier_loop_unequal.klr").display().to_string();
    for level in ["linked", "bundles"] {
        let dot = t.path().join("wait.dot");
        let dot = dot.to_str().expect("utf-8");
        let args =
            ["run", &kernel, "--random", "1", "--level", level, "--format", "json", "--deadlock-dot", dot];
        let r = tandem(t.path(), &args);
        let v = r.json();
        assert_eq!((r.exit, &v["stop"]), (1, &Value::from("deadlock")), "{}", r.out);
        let blocked = v["wait_for"]["blocked"].as_array().expect("blocked");
        assert!(
            blocked.iter().any(|b| b["waits_for"].as_str().is_some_and(|w| w.contains("barrier"))),
            "{}",
            r.out
        );
        let graph = std::fs::read_to_string(dot).expect("the graph");
        assert!(graph.starts_with("digraph wait_for {") && graph.contains("-> core"), "{graph}");
    }
}

/// Tensors that leave SBUF, and tensors that lie one below the other, give the same bytes at every level.
#[test]
fn tensors_that_do_not_fit_give_one_result() {
    let program = |rows: usize, f: usize, body: &str| {
        let mut s = format!(
            "bir 1\nprogram k lnc 1 level bir\ninput \"x\" = @x float32 [{rows} x 64]\noutput \"y\" = @y float32 [{0} x 64]\n\
             module @nc00 core 0 arch gen3 {{\n func @main {{\n\
             set @x_set = ExternalInput Tensor Shared float32 [{rows} x 64] {{ loc @x = DRAM [{rows}, 256] }}\n\
             set @y_set = ExternalOutput Tensor Shared float32 [{0} x 64] {{ loc @y = DRAM [{0}, 256] }}\n",
            3 * rows
        );
        for t in ["a", "b", "c"] {
            let set = format!("set @{t}_set = Internal Tensor Local float32 [{rows} x {f}]");
            s += &format!("{set} {{ loc @{t} = SB [{rows}, {}] }}\n", 4 * f);
        }
        s += "block b0 {\n";
        for line in body.lines() {
            s += line
                .split(' ')
                .map(|w| match w {
                    "A" | "B" | "C" => format!("@{}[[{f},{rows}] [1,64]] float32", w.to_lowercase()),
                    "X" => format!("@x[[64,{rows}] [1,64]] float32"),
                    "Y0" | "Y1" | "Y2" => {
                        let at = w[1..].parse::<usize>().unwrap_or(0) * rows * 64;
                        format!("@y[off {at}, [64,{rows}] [1,64]] float32")
                    }
                    w => w.to_owned(),
                })
                .collect::<Vec<_>>()
                .join(" ")
                .replace("float32 ,", "float32,")
                .as_str();
            s += "\n";
        }
        s + "}\n}\n}\n"
    };
    let loads = "la = DMACopy DMA A <- X\nlb = DMACopy DMA B <- X\nlc = DMACopy DMA C <- X\n";
    let stores = "oa = DMACopy DMA Y0 <- A\nob = DMACopy DMA Y1 <- B\noc = DMACopy DMA Y2 <- C\n";
    let sums = "sa = TensorTensor DVE A <- A , B {op = add}\nsb = TensorTensor DVE B <- B , C {op = add}\n\
                sc = TensorTensor DVE C <- C , A {op = add}\n";
    let own = "sa = TensorTensor DVE A <- A , A {op = add}\nsb = TensorTensor DVE B <- B , B {op = add}\n\
               sc = TensorTensor DVE C <- C , C {op = add}\nca = TensorCopy DVE A <- B\ncc = TensorCopy DVE C <- A\n";
    let t = tempfile::tempdir().expect("a folder");
    for (name, text, note) in [
        ("leave", program(128, 20_000, &format!("{loads}{sums}{stores}")), Some("L0005")),
        ("below", program(32, 50_000, &format!("{loads}{own}{stores}")), None),
    ] {
        let file = format!("{name}.bir");
        std::fs::write(t.path().join(&file), text).expect("written");
        let mut all = Vec::new();
        for level in ["bir", "lowered", "linked", "bundles"] {
            let out = format!("{name}-{level}");
            let r = tandem(t.path(), &["-v", "run", &file, "--random", "1", "--level", level, "-o", &out]);
            assert_eq!(r.exit, 0, "{name} {level}: {}{}", r.out, r.err);
            let noted = |c: &str| r.out.contains(c) || r.err.contains(c);
            assert_eq!(noted("L0005"), note.is_some(), "{}{}", r.out, r.err);
            assert!(note.is_some() || !noted("L0004"), "{}{}", r.out, r.err);
            all.push(std::fs::read(t.path().join(out).join("y.npy")).expect("the output"));
        }
        assert!(all.iter().all(|y| *y == all[0]), "{name}");
    }
}
