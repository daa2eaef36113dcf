//! Faults put into lowered programs: whatever changes bytes must have been objected to.
//!
//! A barrier deleted on all cores, an alias without its owner, an edge that the others do not imply. "Objected" is a finding of
//! the barrier check, of the race check of the simulator, or of the verifier; counting and name checks are left out. What
//! nobody objects to must compute the same bytes under every schedule and is listed with its proof that the ordering is
//! unchanged ([`order`]): every two accesses that conflict and were ordered are still ordered, by other edges and meetings.
//! The shares are printed.

#![allow(clippy::print_stdout, reason = "the share of each is part of the result")]

mod common;
mod order;
use common::generate::*;
use common::*;
use order::Order;
use std::collections::BTreeSet;
use std::io::Write as _;
use tandem_backend::edit::{remove_insts, renumber_core_barriers};
use tandem_backend::{PtcomMode, lower, prepare};
use tandem_bir::*;
use tandem_sim::{Ptcom, RunOptions, Schedule, Simulator, StopReason, Tensor};

const PROGRAMS: u64 = 25;
const SCHEDULES: [Schedule; 4] = [Schedule::Eager, Schedule::Late, Schedule::Seed(1), Schedule::Seed(2)];

struct Case {
    p: Program,
    x: Tensor,
    want: Vec<u8>,
    order: Order,
    conflicts: Vec<order::Pair>,
}

fn lowered(seed: u64) -> Case {
    let mut b = generate(seed);
    let mut o = b.opts();
    o.ptcom = PtcomMode::Off;
    if seed.is_multiple_of(2) {
        o.transport = tandem_backend::Transport::Dma;
    }
    assert!(prepare(&mut b.p, &o).ok());
    let x = input(&b.p, seed);
    assert!(lower(&mut b.p, &o).ok());
    let want = run(&b.p, &x, Schedule::Eager, Ptcom::Notify, "unchanged");
    let order = Order::of(&b.p);
    let conflicts = order::conflicts(&b.p);
    for pair in &conflicts {
        assert!(order.has(pair), "seed {seed}: {} is not ordered", order::text(&b.p, pair));
    }
    Case { p: b.p, x, want, order, conflicts }
}

/// Findings of the checks that look at order and memory.
fn static_objection(p: &Program) -> bool {
    let o = tandem_check::CheckOptions {
        tokens_order: false,
        skip: ["lnc-verifier", "lnc_verifier", "barriers", "swaps"].iter().map(|s| (*s).to_owned()).collect(),
        ..tandem_check::CheckOptions::default()
    };
    !tandem_check::check(p, &o).is_empty()
}

/// What running says: a finding or stop (true), and whether bytes differ.
fn dynamic(c: &Case, p: &Program) -> (bool, bool) {
    let (mut objected, mut differs) = (false, false);
    for schedule in SCHEDULES {
        let o = RunOptions { schedule, ptcom: Ptcom::Notify, ..RunOptions::default() };
        let Ok(mut r) = Simulator::new(p, o) else { return (true, true) };
        if r.set_inputs(std::slice::from_ref(&c.x)).is_err() {
            return (true, true);
        }
        let out = r.run();
        objected |= out.stop != StopReason::Finished || out.diagnostics.iter().any(|d| d.is_error());
        differs |= out.stop != StopReason::Finished || out.outputs[0].bytes != c.want;
    }
    (objected, differs)
}

#[derive(Default, Debug)]
struct Share {
    all: u32,
    by_checks: u32,
    by_running: u32,
    /// Mutants that nobody objects to, with the proof.
    unchanged: Vec<String>,
}

impl Share {
    /// Counts one mutant; a mutant that computes something else must have been objected to.
    fn judge(&mut self, c: &Case, p: &Program, what: &str) {
        self.all += 1;
        let still = static_objection(p);
        let (ran, differs) = dynamic(c, p);
        assert!(!differs || still || ran, "{what}: bytes differ and nobody objects");
        if still {
            self.by_checks += 1;
        } else if ran {
            self.by_running += 1;
        } else {
            let after = Order::of(p);
            if let Some(lost) = c.conflicts.iter().find(|x| c.order.has(x) && !after.has(x)) {
                panic!("{what}: nobody objects, and {} is not ordered any more", order::text(&c.p, lost));
            }
            let n = c.conflicts.len();
            self.unchanged.push(format!(
                "{what}: all {n} conflicting pairs are ordered by queues, fences, other edges and meetings"
            ));
        }
    }
    fn print(&self, what: &str) {
        let proved = self.unchanged.len() as u32;
        let share = |n: u32| format!("{n} ({:.1} %)", 100.0 * f64::from(n) / f64::from(self.all.max(1)));
        // past the harness, which keeps the output of tests that pass
        let mut out = std::io::stdout().lock();
        let _ = writeln!(
            out,
            "{what}: {} mutants; objected by checks: {}, by running: {}, proved to be ordered as before: {}",
            self.all,
            share(self.by_checks),
            share(self.by_running),
            share(proved)
        );
        for u in &self.unchanged {
            println!("  {u}");
        }
    }
}

#[test]
fn deleted_barriers_aliases_and_edges() {
    let (mut barriers, mut aliases, mut edges) = (Share::default(), Share::default(), Share::default());
    for seed in 1..=PROGRAMS {
        let c = lowered(seed);
        let names: BTreeSet<String> = c.p.modules[0]
            .walk()
            .iter()
            .map(|w| &c.p.modules[0].insts[w.2])
            .filter(|i| i.opcode == Opcode::CoreBarrier)
            .map(|i| i.name.to_string())
            .collect();
        for name in names {
            let mut p = c.p.clone();
            for m in &mut p.modules {
                let gone =
                    m.walk().iter().map(|w| w.2).filter(|i| m.insts[*i].name == name.as_str()).collect();
                remove_insts(m, &gone);
            }
            renumber_core_barriers(&mut p);
            barriers.judge(&c, &p, &format!("seed {seed} without {name}"));
        }
        for (mi, m) in c.p.modules.iter().enumerate() {
            for (l, loc) in m.memlocs.iter().filter(|(_, l)| l.is_remote() && l.is_on_chip()) {
                let mut p = c.p.clone();
                p.modules[mi].memlocs[l].remote_local_target = None;
                aliases.judge(&c, &p, &format!("seed {seed} {} without owner", loc.name));
            }
        }
        // edges between two transfers or engines that no other way implies
        let m = &c.p.modules[0];
        for b in m.blocks.keys() {
            let insts = m.blocks[b].insts.clone();
            for (k, &i) in insts.iter().enumerate().step_by(3) {
                for d in m.insts[i].deps.clone() {
                    if m.insts[d.inst].engine == m.insts[i].engine && !m.insts[i].opcode.is_dma() {
                        continue; // an engine is in order by itself
                    }
                    let mut p = c.p.clone();
                    p.modules[0].insts[i].deps.retain(|x| x.inst != d.inst);
                    let Some(from) = insts.iter().position(|x| *x == d.inst) else { continue };
                    if reaches(&p.modules[0], b)[from][k] {
                        continue; // implied by the rest
                    }
                    edges.judge(
                        &c,
                        &p,
                        &format!("seed {seed} without {} -> {}", m.insts[d.inst].name, m.insts[i].name),
                    );
                }
            }
        }
    }
    barriers.print("barriers deleted");
    aliases.print("owners deleted");
    edges.print("edges deleted");
    assert!(barriers.all > 50 && aliases.all > 10 && edges.all > 50);
    assert!(barriers.by_checks + barriers.by_running > barriers.all / 4, "{barriers:?}");
    assert_eq!(aliases.by_checks, aliases.all, "{aliases:?}");
    assert!(edges.by_checks + edges.by_running > edges.all / 8, "{edges:?}");
}
