//! Generated two-core programs: loads, copies, sums on four engines, swaps of both transports, barriers, stores. Levels bir,
//! lowered, linked and bundles give the same bytes under all schedules, without a finding. The environment variable `PROGRAMS`
//! says how many.

#![allow(clippy::print_stdout, reason = "the count of layouts of our own is part of the result")]

mod generated;

use generated::program;
use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::Program;
use tandem_bir::diag::{Diagnostic, render};
use tandem_sim::random::random_tensor;
use tandem_sim::{RunOptions, Schedule, Simulator, StopReason, queue_style};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

#[test]
fn generated_programs_agree_at_all_levels() {
    let default = if cfg!(debug_assertions) { 300 } else { 2000 };
    let n: u64 = std::env::var("PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
    let (mut swaps, mut pulls, mut own, mut records) = (0, 0, 0, 0);
    for seed in 0..n {
        let base = program(seed);
        let opts = tandem_backend::PassOptions::for_program(&base);
        // Checks on under every schedule at the linked levels; what they know must not hang on the schedule.
        let run_options = |schedule| RunOptions { schedule, ..RunOptions::default() };
        let schedules = [Schedule::Eager, Schedule::Late, Schedule::Seed(seed), Schedule::Seed(seed + 1)];
        let (mut bir, mut low) = (base.clone(), base);
        let o = tandem_backend::prepare(&mut bir, &opts);
        assert!(!o.failed, "{seed}: {}", show(&o.diags));
        let o = tandem_backend::lower(&mut low, &opts);
        assert!(!o.failed, "{seed}: {}", show(&o.diags));
        let ins: Vec<_> = bir
            .signature
            .inputs
            .iter()
            .map(|w| random_tensor(seed, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
            .collect();
        let reference = |p: &Program, schedule| {
            let mut r =
                Simulator::new(p, run_options(schedule)).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
            r.set_inputs(&ins).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
            r.run()
        };
        let want = reference(&bir, Schedule::Eager);
        assert_eq!(want.stop, StopReason::Finished, "{seed}");
        for s in schedules {
            let o = reference(&low, s);
            assert_eq!(o.stop, StopReason::Finished, "{seed} lowered {s:?}: {}", show(&o.diagnostics));
            assert!(o.outputs == want.outputs, "{seed} lowered {s:?}: other bytes");
            assert!(o.diagnostics.is_empty(), "{seed} lowered {s:?}: {}", show(&o.diagnostics));
        }
        let (l, _) = link(&low, LinkOptions::default()).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
        swaps += l.swaps.len();
        pulls += l.cores[0].vars.iter().filter(|v| v.class.name() == "remote").count();
        let (image, _) =
            encode_streams(&l, EncodeOptions::default()).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
        own += image.iter().flatten().map(|s| s.non_authentic.len()).sum::<usize>();
        records += image.iter().flatten().map(|s| s.records.len()).sum::<usize>();
        let (bytes, _) =
            encode(&l, WriteOptions::default()).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
        let d = decode(&bytes).unwrap_or_else(|e| panic!("{seed}: {}", show(&[e])));
        for (what, p) in [("linked", &l), ("bundles", &d)] {
            for s in schedules {
                let o = queue_style::run(p, &ins, run_options(s))
                    .unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
                assert_eq!(o.stop, StopReason::Finished, "{seed} {what} {s:?}: {}", show(&o.diagnostics));
                assert!(o.outputs == want.outputs, "{seed} {what} {s:?}: other bytes");
                assert!(o.diagnostics.is_empty(), "{seed} {what} {s:?}: {}", show(&o.diagnostics));
            }
        }
    }
    println!("{n} programs, {records} records, {own} instructions with a layout of our own");
    assert!(swaps > 20 && pulls > 5, "{swaps} swaps, {pulls} remote variables");
}

/// Without the posts of one semaphore a program stops: the runs above really hang on them.
#[test]
fn a_dropped_post_is_a_deadlock() {
    let mut low = program(3);
    let opts = tandem_backend::PassOptions::for_program(&low);
    assert!(!tandem_backend::lower(&mut low, &opts).failed);
    let (mut l, _) = link(&low, LinkOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
    let m = &mut l.program.modules[0];
    let i = m
        .insts
        .values_mut()
        .find(|i| i.more.as_ref().is_some_and(|m| m.sync.as_ref().is_some_and(|s| !s.on_update.is_empty())))
        .expect("a post");
    if let Some(s) = i.more.as_mut().and_then(|m| m.sync.as_mut()) {
        s.on_update.clear();
    }
    let ins: Vec<_> = low
        .signature
        .inputs
        .iter()
        .map(|w| random_tensor(1, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect();
    let o = queue_style::run(&l, &ins, RunOptions::default()).expect("runs");
    assert_eq!(o.stop, StopReason::Deadlock);
    assert!(o.diagnostics.iter().any(|d| d.sites.iter().any(|s| s.label.contains("need"))));
}
