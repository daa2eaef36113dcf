//! Each needed synchronisation of the clean example kernels, taken away in turn, is one finding; one that is not needed is none.
//!
//! What is needed is told by a judge that shares nothing with the race check: a search for paths in the graph of what starts
//! and completes when, over both cores at once, and a comparison of all pairs of accesses.

mod judge;

use judge::{Judge, unroll::unrolled, without};
use std::path::PathBuf;
use tandem_backend::pass::{PtcomMode, Transport};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{ArchLevel, InstId, Opcode, Program};
use tandem_klr::ast::{LncKernel, Operator};
use tandem_klr::lower::{LowerOptions, lower};
use tandem_klr::{Contents, KlrFile};
use tandem_sim::{Outcome, RunOptions, Schedule, Simulator, StopReason, random::random_tensor};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/kernels")
}

/// Names of the clean kernels.
fn clean() -> Vec<String> {
    let text = std::fs::read(folder().join("manifest.json")).expect("the manifest");
    let v: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let files = v["files"].as_array().expect("files");
    let valid = files.iter().filter(|e| e["verdict"] == "valid");
    valid.map(|e| e["name"].as_str().expect("name").to_owned()).collect()
}

fn read(name: &str) -> LncKernel {
    let path = folder().join(format!("{name}.klr"));
    match tandem_klr::read_path(&path).expect(name).file.contents {
        Contents::Lnc(k) => k,
        _ => panic!("{name} is no kernel of an LNC"),
    }
}

fn lowered(kernel: LncKernel, transport: Transport) -> Program {
    let none = |f: &str| Err(std::io::Error::other(f.to_owned()));
    let l = lower(&KlrFile::from(kernel), &LowerOptions::new(ArchLevel::Gen3, &none));
    let mut p = l.program.unwrap_or_else(|| panic!("{:?}", l.diags));
    let mut opts = tandem_backend::PassOptions::for_program(&p);
    opts.transport = transport;
    opts.ptcom = PtcomMode::Off;
    let out = tandem_backend::lower(&mut p, &opts);
    assert!(!out.failed, "{:?}", out.diags);
    p
}

fn run(p: &Program, schedule: Schedule) -> Outcome {
    let opts = RunOptions { schedule, ..RunOptions::default() };
    let mut ready = Simulator::new(p, opts).unwrap_or_else(|d| panic!("{d:?}"));
    let inputs: Vec<_> = ready
        .wanted()
        .iter()
        .map(|w| random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect();
    ready.set_inputs(&inputs).unwrap_or_else(|d| panic!("{d:?}"));
    ready.run()
}

fn errors(found: &[Diagnostic]) -> Vec<&Diagnostic> {
    found.iter().filter(|d| d.is_error()).collect()
}

const SCHEDULES: [Schedule; 3] = [Schedule::Eager, Schedule::Late, Schedule::Seed(1)];

#[test]
fn clean_kernels_have_no_finding() {
    for name in clean() {
        for transport in [Transport::Auto, Transport::Dma] {
            let p = lowered(read(&name), transport);
            let found = tandem_check::check(&p, &tandem_check::CheckOptions::default());
            assert!(errors(&found).is_empty(), "{name}: {found:#?}");
            let mut bytes = None;
            for s in SCHEDULES {
                let o = run(&p, s);
                assert_eq!(o.stop, StopReason::Finished, "{name} {s:?}: {:#?}", o.diagnostics);
                assert!(errors(&o.diagnostics).is_empty(), "{name} {s:?}: {:#?}", o.diagnostics);
                let out: Vec<_> = o.outputs.into_iter().map(|t| t.bytes).collect();
                assert!(*bytes.get_or_insert_with(|| out.clone()) == out, "{name} {s:?}: other bytes");
            }
        }
    }
}

#[test]
fn every_barrier_of_a_kernel_is_needed() {
    let mut removed = 0;
    for name in clean() {
        let kernel = read(&name);
        let barriers = |k: &LncKernel, c: usize| -> Vec<(usize, usize)> {
            let all = k.bodies[c].iter().enumerate().flat_map(|(b, block)| {
                let barrier =
                    block.body.iter().enumerate().filter(|(_, s)| matches!(s.op, Operator::CoreBarrier(_)));
                barrier.map(move |(s, _)| (b, s))
            });
            all.collect()
        };
        let places = [barriers(&kernel, 0), barriers(&kernel, 1)];
        assert_eq!(places[0].len(), places[1].len(), "{name}");
        for n in 0..places[0].len() {
            let mut k = kernel.clone();
            for (body, places) in k.bodies.iter_mut().zip(&places) {
                let (b, s) = places[n];
                body[b].body.remove(s);
            }
            let p = lowered(k, Transport::Auto);
            let found = tandem_check::check(&p, &tandem_check::CheckOptions::default());
            let straight = p.modules.iter().all(|m| m.blocks.len() == 1);
            let missing = found.iter().filter(|d| d.code == codes::C0601).count();
            assert_eq!(errors(&found).len(), missing, "{name} barrier {n}: {found:#?}");
            // Accesses at addresses in registers and accesses of several iterations are the run's business.
            assert!(missing == 1 || (missing == 0 && !straight), "{name} barrier {n}: {found:#?}");
            for s in SCHEDULES {
                let o = run(&p, s);
                let e = errors(&o.diagnostics);
                let one = e.len() == 1 && e[0].code == codes::S0020 && e[0].sites.len() == 2;
                assert!(one, "{name} without barrier {n}, {s:?}: {:#?}", o.diagnostics);
            }
            removed += 1;
        }
    }
    assert!(removed >= 10, "{removed}");
}

/// Runs a changed program under the schedules and compares with the judge; whether the order was needed.
fn judged(p: &Program, what: &str) -> bool {
    let straight = p.modules.iter().all(|m| m.blocks.len() == 1);
    let judge = if straight { Judge::new(p) } else { Judge::new(&unrolled(p)) };
    assert!(!judge.deadlock(), "{what}: deadlock");
    let (cross, inner) = judge.races();
    let needed = cross || inner;
    for s in [Schedule::Eager, Schedule::Late] {
        let o = run(p, s);
        let e = errors(&o.diagnostics);
        let as_judged = if needed { e.len() == 1 && e[0].code == codes::S0020 } else { e.is_empty() };
        assert!(as_judged, "{what}, {s:?}; needed: {needed}: {:#?}", o.diagnostics);
    }
    needed
}

/// Every clean kernel, with loops or without, and by which transports it was lowered.
fn programs(loops: bool) -> Vec<(String, Program)> {
    let mut out = Vec::new();
    for name in clean() {
        for transport in [Transport::Auto, Transport::Dma] {
            let kernel = read(&name);
            let swaps =
                kernel.bodies[0].iter().flat_map(|b| &b.body).any(|s| matches!(s.op, Operator::SendRecv(_)));
            let p = lowered(kernel, transport);
            let straight = p.modules.iter().all(|m| m.blocks.len() == 1);
            if straight != loops && (swaps || transport == Transport::Auto) {
                out.push((format!("{name} by {transport:?}"), p));
            }
        }
    }
    out
}

/// Instructions of a type, in program order.
fn all_of(m: &tandem_bir::Module, op: Opcode) -> Vec<InstId> {
    m.walk().into_iter().map(|w| w.2).filter(|i| m.insts[*i].opcode == op).collect()
}

/// Barriers taken away from both cores in turn: how many were needed, and how many others implied.
fn barriers_removed(programs: Vec<(String, Program)>) -> (usize, usize) {
    let mut count = (0, 0);
    for (name, p) in programs {
        assert!(!judged(&p, &name), "{name} has a race");
        for n in 0..all_of(&p.modules[0], Opcode::CoreBarrier).len() {
            let mut q = p.clone();
            let mut gone = String::new();
            for m in &mut q.modules {
                let b = all_of(m, Opcode::CoreBarrier)[n];
                gone = without(m, b);
            }
            let needed = judged(&q, &format!("{name} without {gone}"));
            *(if needed { &mut count.0 } else { &mut count.1 }) += 1;
        }
    }
    count
}

/// Edges taken away in turn: how many were needed, and how many others implied.
fn edges_removed(programs: Vec<(String, Program)>) -> (usize, usize) {
    let mut count = (0, 0);
    for (name, p) in programs {
        for c in 0..p.modules.len() {
            let all: Vec<InstId> = p.modules[c].blocks.iter().flat_map(|(_, b)| b.insts.clone()).collect();
            for i in all {
                for k in 0..p.modules[c].insts[i].deps.len() {
                    let mut q = p.clone();
                    let d = q.modules[c].insts[i].deps.remove(k);
                    let [from, to] = [d.inst, i].map(|i| p.modules[c].insts[i].name.clone());
                    let needed = judged(&q, &format!("{name}, core {c}, without {from} -> {to}"));
                    *(if needed { &mut count.0 } else { &mut count.1 }) += 1;
                }
            }
        }
    }
    count
}

#[test]
fn a_barrier_of_the_lowered_program_is_needed_or_implied() {
    let (needed, implied) = barriers_removed(programs(false));
    assert!(needed >= 15 && implied >= 5, "{needed} needed, {implied} implied");
}

#[test]
fn an_edge_of_the_lowered_program_is_needed_or_implied() {
    let (needed, implied) = edges_removed(programs(false));
    assert!(needed >= 100 && implied >= 50, "{needed} needed, {implied} implied");
}

#[test]
fn a_barrier_of_a_lowered_loop_is_needed_or_implied() {
    let (needed, implied) = barriers_removed(programs(true));
    assert!(needed >= 3 && implied >= 3, "{needed} needed, {implied} implied");
}

#[test]
fn an_edge_of_a_lowered_loop_is_needed_or_implied() {
    let (needed, implied) = edges_removed(programs(true));
    assert!(needed >= 20 && implied >= 20, "{needed} needed, {implied} implied");
}

#[test]
fn a_swap_inside_a_loop_is_needed() {
    let mut removed = 0;
    for (name, p) in programs(true) {
        for n in 0..all_of(&p.modules[0], Opcode::GpsimdSb2Sb).len() {
            // From both cores: what it would have brought is never written.
            let mut q = p.clone();
            for m in &mut q.modules {
                let s = all_of(m, Opcode::GpsimdSb2Sb)[n];
                without(m, s);
            }
            for s in SCHEDULES {
                let o = run(&q, s);
                let e = errors(&o.diagnostics);
                let per_core: Vec<usize> = (0..2)
                    .map(|c| e.iter().filter(|d| d.sites[0].core.is_some_and(|x| x.0 == c)).count())
                    .collect();
                let undefined = e.iter().all(|d| d.code == codes::S0021) && per_core == [1, 1];
                assert!(undefined, "{name} without swap {n}, {s:?}: {:#?}", o.diagnostics);
            }
            // From one core: the other one waits for ever.
            for c in 0..2 {
                let mut q = p.clone();
                let s = all_of(&q.modules[c], Opcode::GpsimdSb2Sb)[n];
                without(&mut q.modules[c], s);
                let found = tandem_check::check(&q, &tandem_check::CheckOptions::default());
                assert!(!errors(&found).is_empty(), "{name}: core {c} without swap {n}");
                for s in SCHEDULES {
                    let o = run(&q, s);
                    let e = errors(&o.diagnostics);
                    let stops = e.iter().filter(|d| d.code.info().id.starts_with("S001")).count();
                    let told = o.wait_for.as_ref().is_some_and(|w| !w.blocked.is_empty());
                    assert!(
                        stops == 1 && told,
                        "{name}: core {c} without swap {n}, {s:?}: {:#?}",
                        o.diagnostics
                    );
                }
            }
            removed += 1;
        }
    }
    assert!(removed >= 1, "{removed}");
}
