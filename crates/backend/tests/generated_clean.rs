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
    out
}

fn clean(p: &Program, x: &Tensor, schedule: Schedule, what: &str) -> Outcome {
    let out = simulate(p, x, schedule, what);
    let bad: Vec<_> = out.diagnostics.iter().filter(|d| d.is_error()).collect();
    assert!(bad.is_empty(), "{what}: {bad:#?}");
    out
}

/// Tiles that the generator lays over each other on purpose get places of their own; whether there were any.
fn apart(p: &mut Program) -> bool {
    let mut any = false;
    for m in &mut p.modules {
        let placed: Vec<_> =
            m.memlocs.iter().filter(|(_, l)| l.is_on_chip() && l.allocated).map(|x| x.0).collect();
        // One tile at an address of its own overlaps nothing.
        for l in placed.iter().filter(|_| placed.len() > 1) {
            m.memlocs[*l].allocated = false;
            m.memlocs[*l].addr = 0;
            any = true;
        }
    }
    any
}

#[test]
fn tiles_laid_over_each_other_are_reported_as_such_and_as_nothing_else() {
    let (mut laid, mut told) = (0, 0);
    for seed in 1..=number("OVERLAID", 40, 600) {
        let mut b = generate(seed);
        let opts = b.opts();
        if !apart(&mut b.p.clone()) {
            continue;
        }
        laid += 1;
        let x = input(&b.p, seed);
        assert!(prepare(&mut b.p, &opts).ok() && lower(&mut b.p, &opts).ok(), "seed {seed}");
        for s in [Schedule::Eager, Schedule::Late] {
            let out = simulate(&b.p, &x, s, &format!("seed {seed} {s:?}"));
            let e: Vec<_> = out.diagnostics.iter().filter(|d| d.is_error()).collect();
            assert!(e.iter().all(|d| d.code == codes::S0023), "seed {seed} {s:?}: {e:#?}");
            told += usize::from(!e.is_empty());
        }
    }
    assert!(laid >= 5 && told >= 2, "{laid} programs with tiles laid over each other, {told} runs said so");
}

#[test]
fn no_finding_and_equal_bytes_under_every_schedule() {
    // Every tenth program under all seeds; `EVERY=1` does all of them (minutes).
    let (programs, seeds) = (number("PROGRAMS", 40, 5000), number("SEEDS", 3, 100));
    let every = number("EVERY", 10, 10).max(1);
    for seed in 1..=programs {
        let mut b = generate(seed);
        apart(&mut b.p);
        let opts = b.opts();
        let out = prepare(&mut b.p, &opts);
        assert!(out.ok(), "seed {seed}: {:?}", out.diags);
        let x = input(&b.p, seed);
        let want = clean(&b.p, &x, Schedule::Eager, &format!("seed {seed} bir")).outputs;
        let out = lower(&mut b.p, &opts);
        assert!(out.ok(), "seed {seed}: {:?}", out.diags);
        let mut schedules = vec![Schedule::Eager, Schedule::Late, Schedule::Seed(seed)];
        if seed.is_multiple_of(every) {
            schedules.extend((0..seeds).map(Schedule::Seed));
        }
        for s in schedules {
            let what = format!("seed {seed} lowered {s:?}");
            let got = clean(&b.p, &x, s, &what).outputs;
            assert!(got == want, "{what}: bytes differ");
        }
    }
}
