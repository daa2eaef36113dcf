//! Predicted times through the command: what `explain` predicts against what `time` finds, sweeps and their hints, names of
//! the profiler, and that every verb that prints has a JSON form.

mod command;

use command::root;
use serde_json::Value;
use std::process::Command;

const SWAP: &str = "testdata/klr/01_sendrecv_swap_f32_128x64.klr";
const NORM: &str = "testdata/klr/05_rmsnorm_2core_f32.klr";

/// Exit code, standard output, standard error.
fn tandem(args: &[&str]) -> (i32, String, String) {
    let r = command::tandem(&root(), args);
    (r.exit, r.out, r.err)
}

fn json(args: &[&str]) -> Value {
    let (code, out, err) = tandem(args);
    assert_eq!(code, 0, "{args:?}\n{out}\n{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}\n{out}"))
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is no number"))
}

#[test]
fn explain_predicts_the_difference_that_time_finds() {
    // One swap on the critical path of both cores: what changes between the transports is the swap alone.
    for (file, target) in [(SWAP, "trn2"), (SWAP, "trn3"), (NORM, "trn2")] {
        let rows = json(&["explain", file, "--format", "json", "--target", target]);
        let swaps: Vec<&Value> =
            rows.as_array().into_iter().flatten().filter(|r| r["kind"] == "SendRecv").collect();
        assert_eq!(swaps.len(), 1, "{file}");
        let predicted = |t: &str| number(&swaps[0]["predicted"][t]["total_ns"]);
        let total = |t: &str| {
            let v = json(&[
                "time",
                file,
                "--random",
                "1",
                "--format",
                "json",
                "--target",
                target,
                "--transport",
                t,
            ]);
            number(&v["timing"]["total_ns"])
        };
        let want = total("dma") - total("gpsimd");
        let got = predicted("dma") - predicted("gpsimd");
        assert!((want - got).abs() < 0.01, "{file} on {target}: predicted {got} ns, found {want} ns");
    }
}

#[test]
fn a_swap_too_large_for_gpsimd_has_one_prediction() {
    let rows = json(&["explain", "testdata/klr/02_sendrecv_swap_bf16_128x4096.klr", "--format", "json"]);
    assert!(rows[0]["predicted"]["gpsimd"].is_null());
    assert!(number(&rows[0]["predicted"]["dma"]["total_ns"]) > 0.0);
}

#[test]
fn the_size_sweep_finds_the_knee_and_the_crossover() {
    let v = json(&["time", "--sweep", "bytes=4..65536", "--format", "json"]);
    let rows = v["sweep"]["sizes"].as_array().cloned().unwrap_or_default();
    let time = |b: u64, t: &str| {
        let r =
            rows.iter().find(|r| r["bytes_per_partition"] == b).unwrap_or_else(|| panic!("no row for {b}"));
        r[t]["total_ns"].as_f64()
    };
    assert_eq!(time(4, "gpsimd"), time(56, "gpsimd"), "flat up to the knee");
    // 0.84 ns for each byte beyond.
    let slope = (time(1024, "gpsimd").unwrap() - time(56, "gpsimd").unwrap()) / (1024.0 - 56.0);
    assert!((slope - 0.84).abs() < 1e-6, "{slope}");
    assert_eq!(time(2048, "gpsimd"), None, "GPSIMD carries at most 1024");
    // Time falls nowhere, and rates are bytes over time.
    for t in ["gpsimd", "dma"] {
        let all: Vec<f64> = rows.iter().filter_map(|r| r[t]["total_ns"].as_f64()).collect();
        assert!(all.windows(2).all(|w| w[0] <= w[1]), "{t}: {all:?}");
    }
    let last = rows.last().unwrap();
    let rate = number(&last["bytes"]) / (number(&last["dma"]["total_ns"]) * 1e-9);
    assert!((number(&last["dma"]["bytes_per_second"]) / rate - 1.0).abs() < 1e-9);
    // The curves meet where the sweep says: GPSIMD is not slower below, DMA is faster from there on.
    let cross = v["sweep"]["crossover_bytes_per_partition"].as_u64().expect("they cross");
    let (_, near, _) =
        tandem(&["time", "--sweep", &format!("bytes={}..{cross}", cross - 4), "--format", "json"]);
    let near: Value = serde_json::from_str(&near).unwrap();
    let curve = |b: u64| time(1024, "gpsimd").unwrap() + 0.84 * (b as f64 - 1024.0);
    let dma = |k: usize| number(&near["sweep"]["sizes"][k]["dma"]["total_ns"]);
    assert!(curve(cross - 4) <= dma(0) + 0.01 && curve(cross) > dma(1) - 0.01, "{cross}");
}

#[test]
fn hints_follow_the_numbers() {
    let dir = tempfile::tempdir().expect("a folder");
    let slow = dir.path().join("slow.json");
    std::fs::write(&slow, r#"{"sb2sb_base": 100000}"#).expect("written");
    let mid = dir.path().join("mid.json");
    std::fs::write(&mid, r#"{"sb2sb_slope_above": 4}"#).expect("written");
    let best = |args: &[&str]| json(args)["sweep"]["best_setting"].as_u64();
    let (slow, mid) = (slow.to_str().unwrap(), mid.to_str().unwrap());
    for sweep in ["sendrecv-to-gpsimd-max-bpp", "bytes=4..65536"] {
        let run = |extra: &[&str]| {
            let mut args = vec!["time", SWAP, "--random", "1", "--sweep", sweep, "--format", "json"];
            args.extend(extra);
            best(&args)
        };
        assert_eq!(run(&[]), Some(1024), "the default is best: it stays");
        assert_eq!(run(&["--calibration", slow]), Some(0), "{sweep}: with a slow swap DMA is better");
        assert_eq!(run(&["--sendrecv-to-gpsimd-max-bpp", "8"]), Some(256), "{sweep}: the swap has 256 bytes");
    }
    // Without a kernel: the largest size at which GPSIMD wins.
    let k = best(&["time", "--sweep", "bytes=4..1024", "--format", "json", "--calibration", mid]).unwrap();
    assert!(k > 56 && k < 1024, "{k}");
    assert_eq!(best(&["time", "--sweep", "bytes=4..64", "--format", "json", "--calibration", slow]), Some(0));
    // What cannot be.
    for (what, code) in [("bytes=3..8", 2), ("bytes=8..4", 2), ("bytes=4..131072", 2), ("speed", 2)] {
        assert_eq!(tandem(&["time", "--sweep", what]).0, code, "{what}");
    }
    assert_eq!(tandem(&["time", "--sweep", "sendrecv-to-gpsimd-max-bpp"]).0, 2, "needs a kernel");
}

#[test]
fn the_kernel_sweep_runs_every_setting() {
    let v =
        json(&["time", SWAP, "--random", "1", "--sweep", "sendrecv-to-gpsimd-max-bpp", "--format", "json"]);
    let rows = v["sweep"]["kernel"].as_array().cloned().unwrap_or_default();
    let settings: Vec<u64> = rows.iter().filter_map(|r| r["setting"].as_u64()).collect();
    assert_eq!(settings, [0, 256]);
    for (row, transport) in rows.iter().zip(["dma", "gpsimd"]) {
        let one = json(&["time", SWAP, "--random", "1", "--format", "json", "--transport", transport]);
        assert_eq!(row["total_ns"], one["timing"]["total_ns"], "{transport}");
    }
}

#[test]
fn tables_of_the_profiler_hold_what_the_report_says() {
    let v = json(&["time", NORM, "--random", "1", "--format", "json"]);
    let t = &v["timing"];
    let summary = t["Summary"].as_array().cloned().unwrap_or_default();
    assert_eq!(summary.len(), 2);
    for (k, s) in summary.iter().enumerate() {
        assert_eq!(s["pcore_idx"], k);
        assert!((number(&s["total_time"]) * 1e9 - number(&t["total_ns"])).abs() < 1e-3);
        for e in t["cores"][k]["engines"].as_array().into_iter().flatten() {
            let name = match e["engine"].as_str() {
                Some("PE") => "tensor",
                Some("Activation") => "scalar",
                Some("DVE") => "vector",
                Some("Pool") => "gpsimd",
                _ => "sync",
            };
            let active = number(&s[format!("{name}_engine_active_time")]) * 1e9;
            assert!((active - number(&e["busy_ns"])).abs() < 1e-3, "{name}");
            assert_eq!(s[format!("{name}_engine_instruction_count")], e["instructions"]);
        }
        assert_eq!(s["hbm_read_bytes"], t["cores"][k]["hbm_read_bytes"]);
    }
    // Two barriers around the swap, and the table adds up to the report's time in barriers.
    let rows = t["CoreBarriers"].as_array().cloned().unwrap_or_default();
    for core in 0..2 {
        let mine: Vec<&Value> = rows.iter().filter(|r| r["pcore_idx"] == core).collect();
        assert!(mine.len() >= 2, "{rows:?}");
        let sum: f64 = mine.iter().map(|r| number(&r["duration_ns"])).sum();
        assert!((sum - number(&t["cores"][core]["core_barriers_ns"])).abs() < 0.01);
        for r in mine {
            let d = number(&r["end_ts"]) - number(&r["start_ts"]);
            assert!((d - number(&r["duration_ns"])).abs() < 0.01);
        }
    }
}

#[test]
fn programs_of_every_level_and_several_subgraphs() {
    let v = json(&["time", "testdata/bir/two_subgraphs", "--random", "1", "--format", "json"]);
    let parts = v["timing"]["subgraphs_ns"].as_array().cloned().unwrap_or_default();
    assert_eq!(parts.len(), 2);
    let sum: f64 = parts.iter().map(number).sum();
    let t = &v["timing"];
    assert!((sum + number(&t["overhead_ns"]) - number(&t["total_ns"])).abs() < 0.01);
    // A lowered program is timed as it is: the same time as the kernel it came from.
    let dir = tempfile::tempdir().expect("a folder");
    let low = dir.path().join("low.bir");
    let low = low.to_str().unwrap();
    assert_eq!(tandem(&["lower", SWAP, "-o", low]).0, 0);
    let of = |f: &str| json(&["time", f, "--random", "1", "--format", "json"])["timing"]["total_ns"].clone();
    assert_eq!(of(low), of(SWAP));
    let bundles = dir.path().join("k.tdb");
    let bundles = bundles.to_str().unwrap();
    assert_eq!(tandem(&["encode", SWAP, "-o", bundles]).0, 0);
    // A container holds the linked program.
    let at = |level: &str| {
        json(&["time", SWAP, "--random", "1", "--format", "json", "--level", level])["timing"]["total_ns"]
            .clone()
    };
    assert_eq!(of(bundles), at("linked"));
    assert_eq!(at("bundles"), at("linked"));
    assert_eq!(tandem(&["time", SWAP, "--random", "1", "--level", "bir"]).0, 3);
}

#[test]
fn every_generation_has_its_numbers() {
    let one = "testdata/klr/16_single_core_add_f32.klr";
    let total = |t: &str| {
        number(
            &json(&["time", one, "--random", "1", "--format", "json", "--target", t])["timing"]["total_ns"],
        )
    };
    let (a, b, c) = (total("trn1"), total("trn2"), total("trn3"));
    assert!(a != b && b != c, "{a} {b} {c}");
    // trn1 has one core only.
    assert_eq!(tandem(&["time", SWAP, "--random", "1", "--target", "trn1"]).0, 3);
}

#[test]
fn every_verb_that_prints_has_a_json_form() {
    let dir = tempfile::tempdir().expect("a folder");
    let bundles = dir.path().join("k.tdb");
    let bundles = bundles.to_str().unwrap();
    assert_eq!(tandem(&["encode", SWAP, "-o", bundles]).0, 0);
    let good: &[&[&str]] = &[
        &["info", SWAP],
        &["info", bundles],
        &["lower", SWAP],
        &["check", SWAP],
        &["run", SWAP, "--random", "1"],
        &["time", SWAP, "--random", "1"],
        &["time", "--list-params"],
        &["encode", SWAP],
        &["encode", SWAP, "--explain"],
        &["disasm", SWAP],
        &["disasm", bundles],
        &["explain", SWAP],
        &["explain", "S0020"],
    ];
    for args in good {
        let args: Vec<&str> = args.iter().copied().chain(["--format", "json"]).collect();
        let (code, out, err) = tandem(&args);
        assert_eq!(code, 0, "{args:?} {err}");
        assert!(serde_json::from_str::<Value>(&out).is_ok(), "{args:?}\n{out}");
    }
    let (code, out, _) = tandem(&["explain", "K9999", "--format", "json"]);
    assert!(code == 2 && serde_json::from_str::<Value>(&out).is_ok(), "{out}");
    // Refusals, too: what is wrong stands in the JSON.
    for verb in ["info", "lower", "check", "run", "time", "encode", "disasm", "explain"] {
        let (code, out, _) = tandem(&[verb, "no_such_file", "--format", "json"]);
        assert_eq!(code, 2, "{verb}");
        let v: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{verb}: {e}\n{out}"));
        assert!(v["diagnostics"].as_array().is_some_and(|d| !d.is_empty()), "{verb}: {v}");
    }
}

#[test]
fn completions_know_every_verb_and_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = tandem(&["completions", shell]);
        assert_eq!(code, 0, "{shell}");
        for word in [
            "info",
            "lower",
            "check",
            "run",
            "time",
            "encode",
            "disasm",
            "explain",
            "completions",
            "sweep",
            "pe-ramp",
        ] {
            assert!(out.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn nothing_but_text_goes_to_a_pipe() {
    // No colour and no progress line when standard error is no terminal, with and without NO_COLOR.
    for no_color in [None, Some("1"), Some("")] {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tandem"));
        c.args(["run", SWAP, "--random", "1", "--verbose"]).current_dir(root()).env_remove("NO_COLOR");
        if let Some(v) = no_color {
            c.env("NO_COLOR", v);
        }
        let o = c.output().expect("tandem starts");
        assert!(!o.stderr.contains(&0x1b) && !o.stdout.contains(&0x1b), "{no_color:?}");
        assert!(!o.stderr.contains(&b'\r'), "{no_color:?}");
    }
}

#[test]
fn a_trace_whose_name_ends_in_json_has_the_references_form() {
    let dir = std::env::temp_dir().join(format!("tandem-perf-sim-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    for level in ["lowered", "linked"] {
        let path = dir.join(format!("{level}.json"));
        let shown = path.display().to_string();
        let v = json(&[
            "time",
            NORM,
            "--random",
            "1",
            "--level",
            level,
            "--format",
            "json",
            "--trace",
            shown.as_str(),
        ]);
        let trace: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("a trace")).expect("an array");
        let events: Vec<&Value> = trace.as_array().into_iter().flatten().filter(|e| e["ph"] == "X").collect();
        let end = events.iter().map(|e| number(&e["ts"]) + number(&e["dur"])).fold(0.0, f64::max);
        let total = number(&v["timing"]["total_ns"]) / 1000.0;
        assert!(
            end > 0.5 * total && end < total + 0.001,
            "{level}: the last event ends at {end} of {total} us"
        );
        let producers = events.iter().flat_map(|e| e["args"]["deps"].as_array()).flatten().count();
        assert!(producers > 5, "{level}: {producers} producers");
        assert!(events.iter().any(|e| e["args"]["nki_source_location"] != ""));
    }
    std::fs::remove_dir_all(&dir).expect("the folder");
}
