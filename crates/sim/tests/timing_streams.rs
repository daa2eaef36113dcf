//! Predicted time at levels `linked` and `bundles`: laws, tiny kernels by hand, and what the two levels have in common.

#[path = "support/timed.rs"]
mod timed;

#[path = "support/samples.rs"]
mod samples;

use samples::{kernel, names, show};
use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::{Level, Program};
use tandem_sim::timing::{BackEnd, Params, TimingReport};
use tandem_sim::{RunOptions, Schedule, Simulator, StopReason, Tensor, random::random_tensor};
use timed::*;

const FIXED: u64 = 500_000;

fn linked(p: &Program) -> LinkedProgram {
    let (l, _) = link(p, LinkOptions::default()).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    l
}

fn bundles(l: &LinkedProgram, debug: bool) -> LinkedProgram {
    let opts = WriteOptions { debug, ..WriteOptions::default() };
    let (bytes, _) = encode(l, opts).unwrap_or_else(|e| panic!("{}", show(&e)));
    decode(&bytes).unwrap_or_else(|e| panic!("{}", show(&[e])))
}

fn inputs(p: &Program) -> Vec<Tensor> {
    let ports = &p.signature.inputs;
    ports.iter().map(|w| random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size")).collect()
}

/// Report of a run; the laws are checked, and that who looks on changes nothing.
fn time_linked(l: &LinkedProgram, params: &Params, schedule: Schedule) -> TimingReport {
    let opts = RunOptions { schedule, race_check: false, undefined_check: false, ..RunOptions::default() };
    let ready = || {
        let mut r = Simulator::linked(l, opts.clone()).unwrap_or_else(|e| panic!("{}", show(&e)));
        r.set_inputs(&inputs(&l.program)).unwrap_or_else(|e| panic!("{}", show(&e)));
        r
    };
    let mut events = Events::default();
    let (o, t) = ready().run_traced(params, &mut events).unwrap_or_else(|e| panic!("{}", show(&e)));
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    let t = t.unwrap_or_else(|| panic!("no time: {}", show(&o.diagnostics)));
    laws(&t, &events);
    assert_eq!(ready().run_timed(params).unwrap_or_else(|e| panic!("{}", show(&e))).1.as_ref(), Some(&t));
    t
}

/// Picoseconds of a tiny program at level linked.
fn one_linked(lines: &str) -> u64 {
    let mut p = program("gen3", &[&block(lines)]);
    // Linking wants addresses that somebody gave.
    p.modules.iter_mut().flat_map(|m| m.memlocs.values_mut()).for_each(|l| l.allocated = true);
    let l = linked(&p);
    time_linked(&l, &Params::default(), Schedule::Eager).total_ps
}

/// Times without names.
fn numbers(t: &TimingReport) -> String {
    let mut t = t.clone();
    t.critical.clear();
    t.syncs.clear();
    t.barriers.clear();
    format!("{t:?}")
}

#[test]
fn an_empty_kernel_costs_the_fixed_overhead() {
    assert_eq!(one_linked(""), FIXED);
}

#[test]
fn one_instruction_costs_what_it_costs_at_level_lowered() {
    for n in [3, 512, 2048] {
        assert_eq!(one_linked(&memset("m", n)), one("gen3", &memset("m", n)), "{n}");
    }
}

#[test]
fn a_semaphore_costs_its_way_and_an_engines_own_pipeline_none() {
    // Across engines: SEM_LOCAL, as the edge costs at level lowered. 512 / 0.96 GHz + 112 cycles; 60 ns; 512 / 1.2 GHz + 172 cycles.
    let across = memset("m", 512)
        + &format!("c = TensorCopy Activation {} <- {} after(m:Flow)", f32s("b", 512), f32s("a", 512));
    assert_eq!(one_linked(&across), FIXED + 533_333 + 116_667 + 60_000 + 426_667 + 143_333);
    // On one engine: the second waits for the pipeline when it reads what the first wrote, and only then.
    let same = |from: &str| {
        memset("m", 512)
            + &format!("c = TensorCopy DVE {} <- {} after(m:Flow)", f32s("b", 512), f32s(from, 512))
    };
    let free = memset("m", 512) + &memset("n", 4).replace(&f32s("a", 4), &f32s("b", 4));
    assert_eq!(one_linked(&same("a")), one("gen3", &same("a")));
    assert_eq!(one_linked(&free), FIXED + 533_333 + 66_667 + 116_667);
    assert!(one_linked(&same("a")) >= FIXED + 533_333 + 116_667 + 116_667);
}

#[test]
fn a_transfer_wakes_its_consumer_sem_dma_later() {
    let load = format!("l = DMACopy SP {} <- @d[[128,128] [1,128]] bfloat16\n", bf16("a", 128));
    let use_ = format!("c = TensorCopy Activation {} <- {} after(l:Flow)", bf16("b", 128), bf16("a", 128));
    let both = load.clone() + &use_;
    assert_eq!(one_linked(&both), one("gen3", &both));
    // The program ends behind its last transfer: an SP instruction of 20 cycles waits for its semaphore.
    assert_eq!(one_linked(&load), one("gen3", &load) + 300_000 + 16_667);
}

#[test]
fn bundles_take_the_time_of_the_linked_program_under_every_schedule() {
    for name in names() {
        let p = kernel(&name, Level::Lowered);
        let l = linked(&p);
        for back_end in [BackEnd::Doc, BackEnd::Hwm, BackEnd::Unit] {
            let params = Params::new(back_end);
            let t = time_linked(&l, &params, Schedule::Eager);
            for s in [Schedule::Late, Schedule::Seed(1), Schedule::Seed(2)] {
                assert_eq!(time_linked(&l, &params, s), t, "{name} {back_end:?} {s:?}");
            }
            for debug in [true, false] {
                let b = time_linked(&bundles(&l, debug), &params, Schedule::Eager);
                assert_eq!(numbers(&b), numbers(&t), "{name} {back_end:?}, debug {debug}");
            }
        }
    }
}

/// Level by level: the same work, so what engines and transfers do takes as long; what differs is what holds the order.
#[test]
fn levels_agree_about_work_and_nearly_about_time() {
    let mut ratios = Vec::new();
    for name in names() {
        let p = kernel(&name, Level::Lowered);
        let opts = RunOptions { race_check: false, undefined_check: false, ..RunOptions::default() };
        let mut r = Simulator::new(&p, opts).unwrap_or_else(|e| panic!("{}", show(&e)));
        r.set_inputs(&inputs(&p)).unwrap_or_else(|e| panic!("{}", show(&e)));
        let (_, low) = r.run_timed(&Params::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
        let low = low.expect("a time");
        let high = time_linked(&linked(&p), &Params::default(), Schedule::Eager);
        for (a, b) in low.cores.iter().zip(&high.cores) {
            assert_eq!(a.flops, b.flops, "{name}");
            assert_eq!(a.dma_bytes, b.dma_bytes, "{name}");
            assert_eq!(a.swap_bytes, b.swap_bytes, "{name}");
            assert_eq!(a.traffic, b.traffic, "{name}");
        }
        let ratio = high.total_ps as f64 / low.total_ps as f64;
        assert!((0.8..1.5).contains(&ratio), "{name}: lowered {}, linked {}", low.total_ps, high.total_ps);
        ratios.push((ratio * 1000.0) as u64);
    }
    ratios.sort_unstable();
    println!("linked to lowered, in thousandths: {ratios:?}");
}

#[test]
fn removing_a_barrier_never_slows_under_unit_costs() {
    for seed in 0..12u64 {
        let (lines, bars) = in_step(seed, 3);
        let total = |without: Option<usize>| {
            let mut n = 0;
            let mut bodies = [String::new(), String::new()];
            for (k, l) in lines.iter().enumerate().filter(|(k, _)| Some(*k) != without) {
                for (c, body) in bodies.iter_mut().enumerate() {
                    // Ids are the places of the barriers that are left.
                    *body += &l[c].replace(&format!("id = {k},"), &format!("id = {n},"));
                }
                n += usize::from(bars.contains(&k));
            }
            let p = program("gen3", &[&block(&bodies[0]), &block(&bodies[1])]);
            time_linked(&linked(&p), &Params::new(BackEnd::Unit), Schedule::Eager).total_ps
        };
        let all = total(None);
        for b in &bars {
            assert!(total(Some(*b)) <= all, "seed {seed}: without barrier {b}");
        }
    }
}
