//! Each needed synchronisation of the clean example kernels, taken away in turn, is one finding; one that is not needed is none.
//!
//! What is needed is told by a judge that shares nothing with the race check: a search for paths in the graph of what starts
//! and completes when, over both cores at once, and a comparison of all pairs of accesses.

use std::path::PathBuf;
use tandem_backend::pass::{PtcomMode, Transport};
use tandem_bir::analysis::footprint::{Footprint, StorageMap, overlaps};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::verify::effective_engine;
use tandem_bir::{ArchLevel, EngineKind, InstId, Opcode, Operand, Program};
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

/// One thing that happens: the start of an instruction, its transfer, or a meeting of both cores.
#[derive(Default)]
struct Event {
    before: Vec<usize>,
    accesses: Vec<(bool, Footprint)>,
}

/// The accesses that nothing orders, over both cores of a program of one block each.
struct Judge {
    events: Vec<Event>,
}

impl Judge {
    fn new(p: &Program) -> Judge {
        let storage = StorageMap::of_program(p);
        let mut j = Judge { events: Vec::new() };
        // Meetings exist once for both cores: the n-th barrier and the n-th swap of each.
        let mut meetings: Vec<(Opcode, usize, usize)> = Vec::new();
        for (c, m) in p.modules.iter().enumerate() {
            let block = m.blocks.iter().next().expect("a block").1;
            let mut start: Vec<Option<usize>> = vec![None; m.insts.len()];
            let mut end = start.clone();
            let index = |i: InstId| tandem_bir::entity::EntityRef::index(i);
            // Last event of each engine, and of its transfers.
            let (mut engines, mut transfers) = ([None; 5], [[None; 2]; 5]);
            let mut fence: Option<usize> = None;
            let mut mine: Vec<usize> = Vec::new();
            let (mut barriers, mut swaps) = (0, 0);
            for &i in &block.insts {
                let inst = &m.insts[i];
                let transfer = inst.opcode.is_dma();
                let e = match inst.opcode {
                    Opcode::CoreBarrier | Opcode::GpsimdSb2Sb => {
                        let n = if inst.opcode == Opcode::CoreBarrier { &mut barriers } else { &mut swaps };
                        *n += 1;
                        match meetings.iter().find(|x| (x.0, x.1) == (inst.opcode, *n)) {
                            Some(x) => x.2,
                            None => {
                                let e = j.event();
                                meetings.push((inst.opcode, *n, e));
                                e
                            }
                        }
                    }
                    _ => j.event(),
                };
                let mut before: Vec<usize> = inst.deps.iter().filter_map(|d| end[index(d.inst)]).collect();
                before.extend(fence);
                let q = match effective_engine(inst) {
                    EngineKind::Pe => Some(0),
                    EngineKind::Activation => Some(1),
                    EngineKind::Dve => Some(2),
                    EngineKind::Pool | EngineKind::Unassigned => Some(3),
                    EngineKind::Sp | EngineKind::Dma => Some(4),
                    EngineKind::All => None,
                };
                if inst.opcode == Opcode::CoreBarrier {
                    before.extend(&mine);
                    fence = Some(e);
                } else {
                    let queues = q.map_or(0..5, |q| q..q + 1);
                    for q in queues {
                        before.extend(engines[q]);
                        engines[q] = Some(e);
                    }
                }
                j.events[e].before.extend(before);
                mine.push(e);
                start[index(i)] = Some(e);
                let at = if transfer {
                    let q = q.expect("a transfer has an engine");
                    let x = j.event();
                    j.events[x].before.push(e);
                    // What reaches the other core has a queue of its own.
                    let mut all = inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap);
                    let remote = usize::from(all.any(|a| m.memlocs[a.loc].is_remote()));
                    j.events[x].before.extend(transfers[q][remote]);
                    transfers[q][remote] = Some(x);
                    mine.push(x);
                    x
                } else {
                    e
                };
                end[index(i)] = Some(at);
                if inst.opcode == Opcode::CoreBarrier {
                    continue;
                }
                let reads = inst.ins.iter().chain(inst.indirection_ins()).map(|o| (false, o));
                for (write, o) in reads.chain(inst.outs.iter().map(|o| (true, o))) {
                    if let Some(ap) = o.as_ap() {
                        j.events[at].accesses.push((write, storage[c].footprint(m, ap)));
                    }
                }
            }
        }
        j
    }

    fn event(&mut self) -> usize {
        self.events.push(Event::default());
        self.events.len() - 1
    }

    /// Everything that an event comes after.
    fn past(&self, e: usize) -> Vec<bool> {
        let mut seen = vec![false; self.events.len()];
        let mut open = vec![e];
        while let Some(x) = open.pop() {
            for &b in &self.events[x].before {
                if !std::mem::replace(&mut seen[b], true) {
                    open.push(b);
                }
            }
        }
        seen
    }

    /// Whether two accesses conflict and nothing orders them.
    fn races(&self) -> bool {
        let past: Vec<Vec<bool>> = (0..self.events.len()).map(|e| self.past(e)).collect();
        (0..self.events.len()).any(|a| {
            (0..a).any(|b| {
                !past[a][b]
                    && !past[b][a]
                    && self.events[a].accesses.iter().any(|(w, f)| {
                        self.events[b].accesses.iter().any(|(v, g)| (*w || *v) && overlaps(f, g))
                    })
            })
        })
    }
}

/// Runs a changed program under the schedules and compares with the judge; whether the order was needed.
fn judged(p: &Program, what: &str) -> bool {
    let needed = Judge::new(p).races();
    for s in [Schedule::Eager, Schedule::Late] {
        let o = run(p, s);
        let e = errors(&o.diagnostics);
        let as_judged = if needed { e.len() == 1 && e[0].code == codes::S0020 } else { e.is_empty() };
        assert!(as_judged, "{what}, {s:?}; needed: {needed}: {:#?}", o.diagnostics);
    }
    needed
}

fn straight_programs() -> Vec<(String, Program)> {
    let mut out = Vec::new();
    for name in clean() {
        for transport in [Transport::Auto, Transport::Dma] {
            let kernel = read(&name);
            let swaps =
                kernel.bodies[0].iter().flat_map(|b| &b.body).any(|s| matches!(s.op, Operator::SendRecv(_)));
            let p = lowered(kernel, transport);
            if p.modules.iter().all(|m| m.blocks.len() == 1) && (swaps || transport == Transport::Auto) {
                out.push((format!("{name} by {transport:?}"), p));
            }
        }
    }
    out
}

#[test]
fn a_barrier_of_the_lowered_program_is_needed_or_implied() {
    let (mut needed, mut implied) = (0, 0);
    for (name, p) in straight_programs() {
        assert!(!judged(&p, &name), "{name} has a race");
        let barriers = |m: &tandem_bir::Module| -> Vec<InstId> {
            let all = m.blocks.iter().flat_map(|(_, b)| b.insts.clone());
            all.filter(|i| m.insts[*i].opcode == Opcode::CoreBarrier).collect()
        };
        for n in 0..barriers(&p.modules[0]).len() {
            let mut q = p.clone();
            let mut gone = String::new();
            for m in &mut q.modules {
                let b = barriers(m)[n];
                gone = m.insts[b].name.to_string();
                // What waited for the barrier waits for what the barrier waited for: the order inside the core stays.
                let through = m.insts[b].deps.clone();
                for (_, block) in m.blocks.iter_mut() {
                    block.insts.retain(|i| *i != b);
                }
                for (_, inst) in m.insts.iter_mut() {
                    if inst.deps.iter().any(|d| d.inst == b) {
                        inst.deps.retain(|d| d.inst != b);
                        for d in &through {
                            if !inst.deps.iter().any(|x| x.inst == d.inst) {
                                inst.deps.push(*d);
                            }
                        }
                    }
                }
            }
            if judged(&q, &format!("{name} without {gone}")) {
                needed += 1;
            } else {
                implied += 1;
            }
        }
    }
    assert!(needed >= 15 && implied >= 5, "{needed} needed, {implied} implied");
}

#[test]
fn an_edge_of_the_lowered_program_is_needed_or_implied() {
    let (mut needed, mut implied) = (0, 0);
    for (name, p) in straight_programs() {
        for c in 0..p.modules.len() {
            let all: Vec<InstId> = p.modules[c].blocks.iter().flat_map(|(_, b)| b.insts.clone()).collect();
            for i in all {
                for k in 0..p.modules[c].insts[i].deps.len() {
                    let mut q = p.clone();
                    let d = q.modules[c].insts[i].deps.remove(k);
                    let [from, to] = [d.inst, i].map(|i| p.modules[c].insts[i].name.clone());
                    if judged(&q, &format!("{name}, core {c}, without {from} -> {to}")) {
                        needed += 1;
                    } else {
                        implied += 1;
                    }
                }
            }
        }
    }
    assert!(needed >= 100 && implied >= 50, "{needed} needed, {implied} implied");
}
