//! The catalogue `filetests/check`: each synchronisation of a clean lowered program, taken away in turn, is one finding when the
//! judge says that it was needed, and none when it was not; each meeting taken away from one core is one finding of the
//! check and one of the run.

mod judge;

use judge::{Judge, without};
use std::path::{Path, PathBuf};
use tandem_bir::diag::{Diagnostic, codes, render};
use tandem_bir::{InstId, Level, Opcode, Program, text};
use tandem_check::{CheckOptions, check};
use tandem_sim::{Outcome, RunOptions, Schedule, Simulator, StopReason, random::random_tensor};

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let p = e.path();
        if p.is_dir() {
            collect(&p, out);
        } else if p.extension().is_some_and(|x| x == "bir") {
            out.push(p);
        }
    }
}

/// The clean programs of the catalogue: those whose expectations hold no finding. Those whose cores store equal values without
/// an order are left out: the judge knows orders, not values.
fn clean() -> Vec<(String, Program)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/check");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut out = Vec::new();
    for f in files {
        let expect = std::fs::read_to_string(format!("{}.expect", f.display())).expect("an expectation");
        let name = f.file_stem().unwrap_or_default().to_string_lossy();
        if expect.contains("error[") || expect.contains("warning[") || name.starts_with("equal_writes") {
            continue;
        }
        let src = std::fs::read_to_string(&f).expect("readable");
        let p = text::parse(&src).unwrap_or_else(|e| panic!("{}: {}", f.display(), show(&e)));
        out.push((f.file_stem().unwrap_or_default().to_string_lossy().into_owned(), p));
    }
    out
}

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn run(p: &Program, schedule: Schedule) -> Outcome {
    let o = RunOptions { schedule, ..RunOptions::default() };
    let mut r = Simulator::new(p, o).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    let inputs: Vec<_> = r
        .wanted()
        .iter()
        .map(|w| random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect();
    r.set_inputs(&inputs).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    r.run()
}

fn errors(d: &[Diagnostic]) -> Vec<&Diagnostic> {
    d.iter().filter(|d| d.is_error()).collect()
}

fn one_block(p: &Program) -> bool {
    p.lnc_size == 2
        && p.modules.iter().all(|m| {
            m.blocks.len() == 1
                && !m.insts.values().any(|i| i.opcode.is_collective() || i.opcode == Opcode::CompareAndBranch)
        })
}

/// Compares check and run with the judge; whether the judge finds a race.
fn judged(p: &Program, what: &str) -> bool {
    let judge = Judge::new(p);
    assert!(!judge.deadlock(), "{what}: deadlock");
    let (cross, inner) = judge.races();
    let found = check(p, &CheckOptions::default());
    let missing = errors(&found).iter().filter(|d| d.code == codes::C0601).count();
    assert_eq!(missing, usize::from(cross), "{what}: check\n{}", show(&found));
    for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(5)] {
        let o = run(p, s);
        assert_eq!(o.stop, StopReason::Finished, "{what}");
        let n = errors(&o.diagnostics).iter().filter(|d| d.code == codes::S0020).count();
        assert_eq!(n, usize::from(cross || inner), "{what} {s:?}: run\n{}", show(&o.diagnostics));
    }
    cross || inner
}

fn barriers(p: &Program, c: usize) -> Vec<InstId> {
    let m = &p.modules[c];
    let all = m.walk().into_iter().map(|w| w.2);
    all.filter(|i| m.insts[*i].opcode == Opcode::CoreBarrier).collect()
}

#[test]
fn each_edge_and_each_barrier_of_a_clean_lowered_program_is_one_finding_or_implied() {
    let (mut needed, mut implied, mut programs) = (0, 0, 0);
    let mut count = |race: bool| if race { needed += 1 } else { implied += 1 };
    for (name, p) in clean() {
        if p.level != Level::Lowered || !one_block(&p) {
            continue;
        }
        programs += 1;
        assert!(!judged(&p, &name), "{name} is clean");
        for c in 0..2 {
            for (_, _, i) in p.modules[c].walk() {
                for k in 0..p.modules[c].insts[i].deps.len() {
                    let mut q = p.clone();
                    let d = q.modules[c].insts[i].deps.remove(k);
                    let [from, to] = [d.inst, i].map(|i| p.modules[c].insts[i].name.clone());
                    count(judged(&q, &format!("{name}, core {c}, without {from} -> {to}")));
                }
            }
        }
        let n = barriers(&p, 0).len();
        for k in 0..n {
            let mut q = p.clone();
            for c in 0..2 {
                without(&mut q.modules[c], barriers(&p, c)[k]);
            }
            count(judged(&q, &format!("{name} without barrier {k}")));
        }
    }
    assert!(programs >= 6 && needed >= 13 && implied >= 10, "{programs}: {needed} needed, {implied} implied");
}

#[test]
fn a_meeting_that_one_core_leaves_out_is_one_finding_of_check_and_of_run() {
    let mut tried = 0;
    for (name, p) in clean() {
        for c in 0..p.modules.len().min(2) {
            for (_, _, i) in p.modules[c].walk() {
                let inst = &p.modules[c].insts[i];
                let meeting = matches!(inst.opcode, Opcode::CoreBarrier | Opcode::GpsimdSb2Sb)
                    || inst.opcode.is_collective();
                if !meeting || p.lnc_size < 2 {
                    continue;
                }
                let mut q = p.clone();
                without(&mut q.modules[c], i);
                let what = format!("{name}: core {c} without {}", inst.name);
                let found = check(&q, &CheckOptions::default());
                let meetings = errors(&found).iter().filter(|d| d.code.info().id.starts_with('C')).count();
                assert!(meetings >= 1, "{what}: check\n{}", show(&found));
                for s in [Schedule::Eager, Schedule::Late] {
                    let o = run(&q, s);
                    let e = errors(&o.diagnostics);
                    let stop = e.iter().filter(|d| d.code.info().id.starts_with("S001")).count();
                    assert!(
                        stop == 1 && o.stop != StopReason::Finished,
                        "{what} {s:?}\n{}",
                        show(&o.diagnostics)
                    );
                    if o.stop == StopReason::Deadlock {
                        let w = o.wait_for.as_ref().expect("who waits for whom");
                        assert!(!w.blocked.is_empty() && w.last.len() == 2, "{what}");
                    }
                }
                tried += 1;
            }
        }
    }
    assert!(tried >= 20, "{tried}");
}
