//! What the verifier accepts no later stage panics on: damaged programs through the whole pipeline.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem::cli::{Cli, CompileArgs, Verb};
use tandem::driver;
use tandem::load::{BirForm, Input, load};
use tandem_bir::damage::{Rng, damage};
use tandem_bir::verify::verify;
use tandem_bir::{Program, fs, json, text};
use tandem_check::{CheckOptions, check};
use tandem_sim::{RunOptions, Schedule, Simulator, random};

fn options() -> CompileArgs {
    use clap::Parser as _;
    match Cli::try_parse_from(["tandem", "check", "x"]).expect("options are known").verb {
        Verb::Check(c) => c.compile,
        _ => unreachable!("the verb is check"),
    }
}

/// Every sample at both levels.
fn bases(args: &CompileArgs) -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("the samples").map(|e| e.expect("an entry").path()).collect();
    names.sort();
    let mut out = Vec::new();
    for n in names.iter().filter(|n| n.extension().is_some_and(|e| e == "klr")) {
        let staged = driver::to_bir(load(n).expect("readable"), args);
        out.extend(staged.program.clone());
        out.extend(driver::to_lowered(staged, args).program);
    }
    assert_eq!(out.len(), 52);
    out
}

/// A short run, few bytes.
fn simulate(p: &Program, seed: u64) {
    let opts = RunOptions {
        step_limit: 200,
        memory_limit: 4 << 20,
        depth_limit: 16,
        schedule: Schedule::Seed(seed),
        ..RunOptions::default()
    };
    let Ok(mut ready) = Simulator::new(p, opts) else { return };
    let made = |q: &tandem_bir::Port| random::random_tensor(seed, &q.name, q.dtype, &q.shape, 4 << 20);
    let inputs: Vec<_> = p.signature.inputs.iter().filter_map(made).collect();
    if ready.set_inputs(&inputs).is_ok() {
        let _ = ready.run();
    }
}

#[test]
fn what_verifies_goes_through_every_stage_without_a_panic() {
    let args = options();
    let bases = bases(&args);
    let cases: u64 = if cfg!(debug_assertions) { 3_000 } else { 30_000 };
    let (mut verified, mut lowered) = (0u64, 0u64);
    for case in 0..cases {
        let start = Instant::now();
        let mut r = Rng::of_case(case);
        let mut p = bases[r.below(bases.len())].clone();
        for _ in 0..1 + r.below(3) {
            damage(&mut p, &mut r);
        }
        if verify(&p).is_err() {
            continue;
        }
        verified += 1;
        // Printed and read again in one of the two forms.
        let form = r.below(4);
        if form == 0 {
            let _ = text::parse(&text::print(&p));
        } else if form == 1 {
            let mut bytes = Vec::new();
            json::write_program(&p, text::Constants::Inline, &mut bytes).expect("written");
            let _ = fs::read_bytes(&bytes, "p.json");
        }
        let staged = driver::to_bir(Input::Bir(Box::new(p), BirForm::Text), &args);
        let Some(bir) = staged.program.clone() else { continue };
        let _ = check(&bir, &CheckOptions::default());
        simulate(&bir, case);
        let low = driver::to_lowered(staged, &args);
        let Some(low) = low.program else { continue };
        lowered += 1;
        let _ = check(&low, &CheckOptions::default());
        simulate(&low, case);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(20), "case {case} took {took:?}");
    }
    assert!(verified > cases / 50 && lowered > cases / 100, "{verified} verified, {lowered} lowered");
}
