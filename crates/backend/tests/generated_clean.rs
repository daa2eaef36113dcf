//! Generated race-free programs: no finding of the race check or of undefined bytes, and the same bytes under every
//! schedule.
//!
//! `PROGRAMS` and `SEEDS` set the numbers (5,000 programs, and 100 seeds on every fiftieth, in a release build; few in a debug
//! build).

mod common;
use common::Passes;
use common::generate::*;
use tandem_backend::{lower, prepare};
use tandem_bir::Program;
use tandem_bir::diag::codes;
use tandem_sim::{Outcome, Ptcom, RunOptions, Schedule, Simulator, StopReason, Tensor};

fn number(name: &str, debug: u64, release: u64) -> u64 {
    let set = std::env::var(name).ok().and_then(|s| s.parse().ok());
    set.unwrap_or(if cfg!(debug_assertions) { debug } else { release })
}

fn simulate(p: &Program, x: &Tensor, schedule: Schedule, what: &str) -> Outcome {
    let o = RunOptions { schedule, ptcom: Ptcom::P2p, ..RunOptions::default() };
    let mut r = Simulator::new(p, o).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    r.set_inputs(std::slice::from_ref(x)).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let out = r.run();
    assert_eq!(out.stop, StopReason::Finished, "{what}: {:?}", out.diagnostics);
    // The generator lays some tiles over others on purpose, which S0023 rightly reports; nothing else may be found.
    let bad: Vec<_> = out.diagnostics.iter().filter(|d| d.is_error() && d.code != codes::S0023).collect();
    assert!(bad.is_empty(), "{what}: {bad:#?}");
    out
}

#[test]
fn no_finding_and_equal_bytes_under_every_schedule() {
    let (programs, seeds) = (number("PROGRAMS", 40, 5000), number("SEEDS", 3, 100));
    for seed in 1..=programs {
        let mut b = generate(seed);
        let opts = b.opts();
        let out = prepare(&mut b.p, &opts);
        assert!(out.ok(), "seed {seed}: {:?}", out.diags);
        let x = input(&b.p, seed);
        let want = simulate(&b.p, &x, Schedule::Eager, &format!("seed {seed} bir")).outputs;
        let out = lower(&mut b.p, &opts);
        assert!(out.ok(), "seed {seed}: {:?}", out.diags);
        let mut schedules = vec![Schedule::Eager, Schedule::Late, Schedule::Seed(seed)];
        if seed.is_multiple_of(50) || programs < 50 && seed.is_multiple_of(10) {
            schedules.extend((0..seeds).map(Schedule::Seed));
        }
        for s in schedules {
            let what = format!("seed {seed} lowered {s:?}");
            let got = simulate(&b.p, &x, s, &what).outputs;
            assert!(got == want, "{what}: bytes differ");
        }
    }
}
