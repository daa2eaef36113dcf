//! The corpus through the library: levels agree byte for byte, files with stored outputs match them, and what was
//! lowered is what ran.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tandem::cli::{Cli, CompileArgs, Verb};
use tandem::driver;
use tandem::load::load;
use tandem_bir::{Dtype, Opcode, Program};
use tandem_sim::{Outcome, Ptcom, RunOptions, Schedule, Simulator, StopReason, Tensor, npy, random};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus() -> Vec<Value> {
    let text =
        std::fs::read_to_string(root().join("testdata/klr/manifest.json")).expect("the corpus is there");
    let v: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    v["files"].as_array().expect("files").clone()
}

fn compile_args(extra: &[&str]) -> CompileArgs {
    use clap::Parser as _;
    let mut args = vec!["tandem", "check", "x"];
    args.extend(extra);
    match Cli::try_parse_from(args).expect("options are known").verb {
        Verb::Check(c) => c.compile,
        _ => unreachable!("the verb is check"),
    }
}

fn programs(entry: &Value, extra: &[&str]) -> (Program, Program) {
    let args = compile_args(extra);
    let file = root().join("testdata/klr").join(entry["file"].as_str().expect("file"));
    let input = load(&file).unwrap_or_else(|d| panic!("{}: {d:?}", file.display()));
    let bir = driver::to_bir(input, &args);
    let program = bir.program.clone().unwrap_or_else(|| panic!("{}: {:?}", file.display(), bir.diags));
    let lowered = driver::to_lowered(bir, &args);
    let diags = format!("{:?}", lowered.diags);
    (program, lowered.program.unwrap_or_else(|| panic!("{}: {diags}", file.display())))
}

fn run(p: &Program, inputs: &[Tensor], schedule: Schedule) -> Outcome {
    run_with(p, inputs, RunOptions { schedule, ..RunOptions::default() })
}

fn run_with(p: &Program, inputs: &[Tensor], options: RunOptions) -> Outcome {
    let mut ready = Simulator::new(p, options).unwrap_or_else(|d| panic!("{d:?}"));
    ready.set_inputs(inputs).unwrap_or_else(|d| panic!("{d:?}"));
    let o = ready.run();
    assert_eq!(o.stop, StopReason::Finished, "{:?}", o.diagnostics);
    o
}

/// Inputs that hold NaN with payloads, infinities, −0.0 and subnormals beside ordinary values.
fn hostile(p: &Program) -> Vec<Tensor> {
    p.signature
        .inputs
        .iter()
        .map(|port| {
            let mut t = random::random_tensor(7, &port.name, port.dtype, &port.shape, 1 << 32).expect("fits");
            let special: &[&[u8]] = match port.dtype {
                Dtype::Float32 => &[
                    &[0x01, 0x00, 0xc0, 0x7f],
                    &[0x00, 0x00, 0x80, 0x7f],
                    &[0x00, 0x00, 0x80, 0xff],
                    &[0x00, 0x00, 0x00, 0x80],
                    &[0x01, 0x00, 0x00, 0x00],
                    &[0xff, 0xff, 0x7f, 0x80],
                    &[0x37, 0x13, 0xc0, 0xff],
                ],
                Dtype::Bfloat16 => {
                    &[&[0xc1, 0x7f], &[0x80, 0x7f], &[0x80, 0xff], &[0x00, 0x80], &[0x01, 0x00]]
                }
                _ => &[],
            };
            let size = port.dtype.bytes() as usize;
            for (k, chunk) in t.bytes.chunks_mut(size).enumerate() {
                if !special.is_empty() && k % 5 == 3 {
                    chunk.copy_from_slice(special[(k / 5) % special.len()]);
                }
            }
            t
        })
        .collect()
}

fn runnable() -> Vec<Value> {
    corpus()
        .into_iter()
        .filter(|e| matches!(e["verdict"].as_str(), Some("valid" | "quirk" | "accept")))
        .collect()
}

#[test]
fn the_corpus_is_complete() {
    assert_eq!(corpus().len(), 26);
    assert_eq!(runnable().len(), 26);
}

#[test]
fn levels_and_schedules_agree_byte_for_byte() {
    for e in runnable() {
        let (bir, lowered) = programs(&e, &[]);
        for inputs in [
            hostile(&bir),
            bir.signature
                .inputs
                .iter()
                .map(|p| random::random_tensor(3, &p.name, p.dtype, &p.shape, 1 << 32).expect("fits"))
                .collect(),
        ] {
            let want = run(&bir, &inputs, Schedule::Eager).outputs;
            assert!(!want.is_empty());
            for schedule in [Schedule::Eager, Schedule::Late, Schedule::Seed(1), Schedule::Seed(2)] {
                let got = run(&lowered, &inputs, schedule).outputs;
                assert!(want == got, "{} under {schedule:?}", e["name"]);
            }
        }
    }
}

#[test]
fn transports_agree_byte_for_byte() {
    for e in runnable() {
        let (bir, auto) = programs(&e, &[]);
        let inputs = hostile(&bir);
        let want = run(&auto, &inputs, Schedule::Eager).outputs;
        for extra in [
            &["--transport", "dma"][..],
            &["--transport", "request"],
            &["--sendrecv-to-gpsimd-max-bpp", "0"],
            &["--local-allreduce", "never"],
        ] {
            let (_, p) = programs(&e, extra);
            // A kept AllReduce folds by the collective reducer, which treats NaN otherwise (decision D22).
            if extra[0] == "--local-allreduce" && e["name"].as_str().is_some_and(|n| n.contains("all_reduce"))
            {
                continue;
            }
            assert!(want == run(&p, &inputs, Schedule::Late).outputs, "{} with {extra:?}", e["name"]);
        }
    }
}

#[test]
fn placements_tokens_and_lifetimes_agree_byte_for_byte() {
    let mut sets: Vec<Vec<&str>> = Vec::new();
    for transport in ["auto", "dma"] {
        for early in [false, true] {
            for ptcom in ["p2p", "notify", "off"] {
                for separate in [false, true] {
                    for notify in [false, true] {
                        let mut o = vec!["--transport", transport, "--ptcom", ptcom];
                        o.extend(early.then_some("--run-shared-allocation-before-post-sched"));
                        o.extend(separate.then_some("--separate-lifetime-corebarriers"));
                        o.extend(notify.then_some("--enable-remote-semaphore-dma"));
                        sets.push(o);
                    }
                }
            }
        }
    }
    // a debug build takes a rotating eighth of the sets
    let part = if cfg!(debug_assertions) { 8 } else { 1 };
    for (n, e) in runnable().iter().enumerate() {
        let (bir, _) = programs(e, &[]);
        let inputs = hostile(&bir);
        let want = run(&bir, &inputs, Schedule::Eager).outputs;
        for (k, set) in sets.iter().enumerate().filter(|(k, _)| (k + n) % part == 0) {
            let (_, p) = programs(e, set);
            let ptcom = if set.contains(&"p2p") { Ptcom::P2p } else { Ptcom::Notify };
            let schedule = [Schedule::Eager, Schedule::Late, Schedule::Seed(k as u64)][k % 3];
            let o = RunOptions { schedule, ptcom, ..RunOptions::default() };
            assert!(want == run_with(&p, &inputs, o).outputs, "{} with {set:?}", e["name"]);
        }
    }
}

#[test]
fn stored_outputs_are_met() {
    let mut compared = 0;
    for e in runnable() {
        let Some(files) = e["npy"].as_object() else { continue };
        let (bir, lowered) = programs(&e, &[]);
        let read = |file: &Value, dtype: Dtype, name: &str| {
            let path = root().join("testdata/klr").join(file.as_str().expect("file"));
            let bytes = std::fs::read(&path).unwrap_or_else(|x| panic!("{}: {x}", path.display()));
            npy::read(&bytes)
                .and_then(|a| a.into_tensor(name, dtype))
                .unwrap_or_else(|x| panic!("{}: {x}", path.display()))
        };
        let inputs: Vec<Tensor> = bir
            .signature
            .inputs
            .iter()
            .filter_map(|p| files.get(&format!("in:{}", p.name)).map(|f| read(f, p.dtype, &p.name)))
            .collect();
        if inputs.len() != bir.signature.inputs.len() {
            continue;
        }
        let exact = e["tolerance"].as_str().is_none_or(|t| t.contains("exact"));
        for p in [&bir, &lowered] {
            for t in run(p, &inputs, Schedule::Eager).outputs {
                if let (true, Some(f)) = (exact, files.get(&format!("out:{}", t.name))) {
                    assert!(read(f, t.dtype, &t.name) == t, "{} output {}", e["name"], t.name);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 20, "only {compared} outputs had a stored file");
}

/// `(file prefix, transport options, GPSIMDSB2SB, DMACopy, CoreBarrier per core)`, counted by hand from the kernels:
/// loads and stores are one DMA copy each, a swap is bracketed by two barriers.
#[test]
fn what_was_lowered_is_what_ran() {
    let rows: &[(&str, &[&str], u64, u64, u64)] = &[
        ("01_", &[], 1, 2, 2),
        ("01_", &["--transport", "dma"], 0, 3, 2),
        ("02_", &[], 0, 3, 2),
        ("03_", &[], 1, 2, 2),
        // Split AllReduce: load, fold, gather, store; begin, mid, end.
        ("06_", &[], 0, 4, 3),
        // Loads 2, stores 2; the explicit barrier of the kernel, and the bracket of the shared buffer's lifetime, for
        // which no existing barrier lies before the first write or after the last read.
        ("08_", &[], 0, 4, 3),
        // Kept: one fence.
        ("09_", &[], 0, 2, 1),
    ];
    for (prefix, extra, sb2sb, dma, barriers) in rows {
        let e = runnable()
            .into_iter()
            .find(|e| e["name"].as_str().is_some_and(|n| n.starts_with(prefix)))
            .expect("is there");
        let (bir, lowered) = programs(&e, extra);
        let o = run(&lowered, &hostile(&bir), Schedule::Eager);
        for core in 0..2 {
            let count = |op| o.stats.count(core, op);
            assert_eq!(count(Opcode::GpsimdSb2Sb), *sb2sb, "{prefix} {extra:?} GPSIMDSB2SB on core {core}");
            assert_eq!(count(Opcode::DmaCopy), *dma, "{prefix} {extra:?} DMACopy on core {core}");
            assert_eq!(
                count(Opcode::CoreBarrier),
                *barriers,
                "{prefix} {extra:?} CoreBarrier on core {core}"
            );
            if *prefix != "09_" {
                assert_eq!(
                    count(Opcode::CollectiveCompute),
                    0,
                    "{prefix} a lowered collective ran on core {core}"
                );
            }
        }
    }
}
