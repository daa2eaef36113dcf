//! What a timing run hands back.

use super::clock::{Edge, Timeline};
use super::cost::LANES;
use super::params::{BackEnd, Certainty, Generation, P, Span, ps};
use super::record::{MeetKind, NONE, Recorder};
use crate::code::{ALL_QUEUES, QUEUES};
use crate::machine::Core;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use tandem_bir::diag::SourcePos;
use tandem_bir::{EngineKind, InstId, Opcode, Program};

/// Why an engine waits.
const REASONS: [&str; 8] = ["semaphore", "dma", "join", "core barrier", "partner", "port", "pe ramp", "idle"];
const R_SEM: usize = 0;
const R_DMA: usize = 1;
const R_JOIN: usize = 2;
const R_BARRIER: usize = 3;
const R_PARTNER: usize = 4;
const R_PORT: usize = 5;
const R_RAMP: usize = 6;
const R_IDLE: usize = 7;

const ENGINES: [EngineKind; QUEUES] =
    [EngineKind::Pe, EngineKind::Activation, EngineKind::Dve, EngineKind::Pool, EngineKind::Sp];

/// An engine over the whole run; times in picoseconds. Busy time and waits add up to the run without its fixed overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineReport {
    /// The engine.
    pub engine: EngineKind,
    /// Instructions executed.
    pub instructions: u64,
    /// Executing.
    pub busy_ps: u64,
    /// Waiting, by reason; reasons without time are left out. `idle` is after its last instruction.
    pub waits_ps: Vec<(&'static str, u64)>,
}

/// A core over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreReport {
    /// Index of the simulated core.
    pub core: usize,
    /// Engines that executed something.
    pub engines: Vec<EngineReport>,
    /// From arrival at CoreBarriers until leaving them.
    pub barrier_ps: u64,
    /// From arrival at swaps and collectives until their end.
    pub swap_ps: u64,
    /// From arrival at completion tokens until their end.
    pub token_ps: u64,
    /// Transfers.
    pub transfers: u64,
    /// Bytes moved by transfers.
    pub dma_bytes: u64,
    /// Moving packets, per DMA engine.
    pub dma_busy_ps: [u64; LANES],
    /// Read from HBM by transfers.
    pub hbm_read: u64,
    /// Written to HBM by transfers.
    pub hbm_written: u64,
    /// Bytes handed to partners by swaps and collectives.
    pub swap_bytes: u64,
    /// Arithmetic operations; movers count none.
    pub flops: u64,
}

/// An instruction on the critical path, all its executions together.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// Core.
    pub core: usize,
    /// Name of the instruction.
    pub name: String,
    /// Its type.
    pub opcode: Opcode,
    /// Source position, when known.
    pub pos: Option<SourcePos>,
    /// Times it is on the path.
    pub count: u64,
    /// Time of the path in it and in the wait before it.
    pub ps: u64,
}

/// A barrier, swap, collective or token, all executions on a core together.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncRow {
    /// Core.
    pub core: usize,
    /// Name of the instruction.
    pub name: String,
    /// Its type.
    pub opcode: Opcode,
    /// Source position, when known.
    pub pos: Option<SourcePos>,
    /// Executions.
    pub count: u64,
    /// From arrival to end.
    pub total_ps: u64,
    /// Part of it until the last partner arrived.
    pub partner_ps: u64,
}

/// An execution on an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Core.
    pub core: usize,
    /// Engine; [`EngineKind::All`] for what holds all engines.
    pub engine: EngineKind,
    /// The instruction.
    pub inst: InstId,
    /// Issued.
    pub start_ps: u64,
    /// Engine free again.
    pub free_ps: u64,
    /// Result there.
    pub done_ps: u64,
}

/// Predicted time of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimingReport {
    /// Back end.
    pub back_end: BackEnd,
    /// Generation.
    pub generation: Generation,
    /// Everything, with the fixed overhead.
    pub total_ps: u64,
    /// Fixed overhead.
    pub overhead_ps: u64,
    /// Length of the critical path, with the fixed overhead.
    pub critical_ps: u64,
    /// Time of the critical path by the certainty of its numbers, in the order of [`Certainty::ALL`].
    pub by_certainty_ps: [u64; 4],
    /// Cores.
    pub cores: Vec<CoreReport>,
    /// Critical path by instruction, longest first.
    pub critical: Vec<PathStep>,
    /// Barriers, swaps, collectives, tokens.
    pub syncs: Vec<SyncRow>,
    /// Delay of packets by the HBM cap, all DMA engines together.
    pub hbm_wait_ps: u64,
    /// 16-bit peak of the PE arrays of all cores, in operations per second.
    pub peak_flops: f64,
    /// HBM bandwidth of the cores that ran, in bytes per second.
    pub peak_hbm: f64,
    /// Every execution, by core and node. Not part of the JSON.
    pub slices: Vec<Slice>,
}

/// Splits a time into known parts, the rest into one class.
fn split(total: u64, parts: &[Span], rest: Certainty) -> Span {
    let mut left = total;
    let mut out = Span::ZERO;
    for p in parts {
        for (k, v) in p.0.iter().enumerate() {
            let n = (*v).min(left);
            out.0[k] += n;
            left -= n;
        }
    }
    out.plus(Span::of(left, rest))
}

pub(crate) fn report(
    program: &Program,
    rec: &Recorder,
    cores: &[Core<'_>],
    lnc: usize,
    tl: &Timeline,
) -> TimingReport {
    let model = rec.model();
    let g = rec.g;
    let pos_of = |c: usize, id: InstId| program.locs.source(cores[c].module.insts[id].loc).cloned();
    let mut r = TimingReport {
        back_end: rec.params.back_end,
        generation: g,
        total_ps: tl.total,
        overhead_ps: tl.start.ps(),
        critical_ps: 0,
        by_certainty_ps: [0; 4],
        cores: Vec::new(),
        critical: Vec::new(),
        syncs: Vec::new(),
        hbm_wait_ps: tl.hbm_wait,
        peak_flops: 2.0 * 128.0 * 128.0 * rec.params.get(P::ClockPe, g) * 1e9 * cores.len() as f64,
        peak_hbm: rec.params.get(if lnc > 1 { P::HbmPair } else { P::HbmLone }, g)
            * 1e9
            * cores.len().div_ceil(lnc.max(1)) as f64,
        slices: Vec::new(),
    };
    let barrier_node = |(c, n): (u32, u32)| {
        rec.cores
            .get(c as usize)
            .and_then(|w| w.nodes.get(n as usize))
            .filter(|x| x.meet != NONE)
            .is_some_and(|x| rec.meets[x.meet as usize].kind == MeetKind::Barrier)
    };
    for (c, w) in rec.cores.iter().enumerate() {
        let mut k = CoreReport {
            core: c,
            engines: Vec::new(),
            barrier_ps: 0,
            swap_ps: 0,
            token_ps: 0,
            transfers: 0,
            dma_bytes: 0,
            dma_busy_ps: tl.dma_busy[c],
            hbm_read: 0,
            hbm_written: 0,
            swap_bytes: 0,
            flops: 0,
        };
        let mut count = [0u64; QUEUES];
        let mut busy = [0u64; QUEUES];
        let mut waits = [[0u64; REASONS.len()]; QUEUES];
        let mut end = [tl.start.ps(); QUEUES];
        let mut syncs: IndexMap<InstId, SyncRow> = IndexMap::new();
        let mut phase = 0;
        for (n, node) in w.nodes.iter().enumerate() {
            while w.phases.get(phase + 1).is_some_and(|p| p.first as usize <= n) {
                phase += 1;
            }
            let p = w.phases[phase];
            let q = if p.seg == NONE {
                ALL_QUEUES
            } else {
                cores[c].code.segments[p.seg as usize].queue_of[n - p.first as usize]
            };
            let t = tl.times[c][n];
            let cost = &rec.costs[node.cost as usize];
            let inst = &cores[c].module.insts[node.inst];
            k.flops = k.flops.saturating_add(cost.flops);
            k.hbm_read = k.hbm_read.saturating_add(cost.hbm_read);
            k.hbm_written = k.hbm_written.saturating_add(cost.hbm_written);
            k.swap_bytes = k.swap_bytes.saturating_add(cost.swapped);
            if let Some(tr) = &cost.transfer {
                k.transfers += 1;
                k.dma_bytes = k.dma_bytes.saturating_add(tr.bytes);
            }
            // Until the last partner is there a meeting waits; a barrier or token waits all the time.
            let mut partner = 0;
            if node.meet != NONE {
                let whole = t.done.saturating_sub(t.issue);
                let late = tl
                    .times
                    .get(t.last.0 as usize)
                    .and_then(|x| x.get(t.last.1 as usize))
                    .map_or(0, |l| l.issue.saturating_sub(t.issue));
                let kind = rec.meets[node.meet as usize].kind;
                match kind {
                    MeetKind::Barrier => k.barrier_ps += whole,
                    MeetKind::Swap | MeetKind::Collective => k.swap_ps += whole,
                    MeetKind::Token { .. } => k.token_ps += whole,
                    MeetKind::Notify => {}
                }
                if kind != MeetKind::Notify {
                    partner = match kind {
                        MeetKind::Barrier | MeetKind::Token { .. } => whole,
                        MeetKind::Swap | MeetKind::Collective | MeetKind::Notify => late,
                    };
                    let row = syncs.entry(node.inst).or_insert_with(|| SyncRow {
                        core: c,
                        name: inst.name.to_string(),
                        opcode: inst.opcode,
                        pos: pos_of(c, node.inst),
                        count: 0,
                        total_ps: 0,
                        partner_ps: 0,
                    });
                    row.count += 1;
                    row.total_ps += whole;
                    row.partner_ps += late.min(whole);
                }
            }
            let on: std::ops::Range<usize> =
                if q == ALL_QUEUES { 0..QUEUES } else { usize::from(q)..usize::from(q) + 1 };
            for q in on {
                let why = match t.edge {
                    Edge::Start | Edge::Engine | Edge::Producer => R_SEM,
                    Edge::Transfer => R_DMA,
                    Edge::Join if barrier_node(t.from) => R_BARRIER,
                    Edge::Join => R_JOIN,
                };
                waits[q][why] += t.ready.saturating_sub(end[q]);
                waits[q][R_PORT] += t.issue.saturating_sub(t.ready.max(end[q]));
                let barrier = barrier_node((c as u32, n as u32));
                waits[q][if barrier { R_BARRIER } else { R_PARTNER }] += partner;
                waits[q][R_RAMP] += t.ramp;
                busy[q] += t.free.saturating_sub(t.issue).saturating_sub(partner + t.ramp);
                count[q] += u64::from(p.seg != NONE);
                end[q] = t.free;
            }
            r.slices.push(Slice {
                core: c,
                engine: if q == ALL_QUEUES { EngineKind::All } else { ENGINES[usize::from(q)] },
                inst: node.inst,
                start_ps: t.issue,
                free_ps: t.free,
                done_ps: t.done,
            });
        }
        for q in (0..QUEUES).filter(|q| count[*q] > 0) {
            waits[q][R_IDLE] = tl.total.saturating_sub(end[q]);
            k.engines.push(EngineReport {
                engine: ENGINES[q],
                instructions: count[q],
                busy_ps: busy[q],
                waits_ps: REASONS.iter().copied().zip(waits[q]).filter(|(_, t)| *t > 0).collect(),
            });
        }
        r.cores.push(k);
        r.syncs.extend(syncs.into_values());
    }

    // The chain of what waited for what, from the end.
    let mut path: IndexMap<(u32, InstId), (u64, u64)> = IndexMap::new();
    let mut spans = tl.start;
    let mut cur = tl.last;
    let mut whole = true;
    while let Some((c, n)) = cur {
        let t = tl.times[c as usize][n as usize];
        let node = rec.cores[c as usize].nodes[n as usize];
        let cost = &rec.costs[node.cost as usize];
        let until = if whole { t.done } else { t.free };
        let met = node.meet != NONE && (whole || cost.transfer.is_none());
        let ((bc, bn), b) = if met && t.last != (NONE, NONE) {
            (t.last, tl.times[t.last.0 as usize][t.last.1 as usize])
        } else {
            ((c, n), t)
        };
        let own = until.saturating_sub(b.issue);
        let span = if cost.transfer.is_some() && whole {
            let lane = cost.transfer.as_ref().map_or(0, |tr| {
                let bw = rec.params.get(P::DmaBw, g) * tr.share;
                let most = tr.pieces.iter().copied().max().unwrap_or(0);
                ps(most.saturating_mul(tr.piece) as f64 / bw)
            });
            let bytes = Span::of(lane, rec.params.certainty(P::DmaBw));
            match rec.params.back_end {
                BackEnd::Doc => split(
                    own,
                    &[model.ns(P::DmaStart), bytes, model.ns(P::DmaTail)],
                    rec.params.certainty(P::DmaInterval),
                ),
                BackEnd::Hwm => split(own, &[model.ns(P::HwmDmaInit)], rec.params.certainty(P::HwmDmaDiv)),
                BackEnd::Unit => Span::of(own, rec.params.certainty(P::UnitCost)),
            }
        } else if node.meet != NONE {
            let kind = rec.meets[node.meet as usize].kind;
            let rest = rec.params.certainty(if kind == MeetKind::Collective { P::Hop } else { P::RemoteSem });
            split(own, &[cost.hold, cost.meet], rest)
        } else {
            split(own, &[cost.hold, cost.pipe, cost.meet], rec.params.certainty(P::PeRamp))
        };
        spans = spans.plus(span);
        // Waiting for a port, then for the semaphore.
        let port = b.issue.saturating_sub(b.ready);
        spans = spans.plus(Span::of(port, Certainty::Documented));
        let next = (b.from != (NONE, NONE) && b.edge != Edge::Start).then_some(b.from);
        whole = b.edge != Edge::Engine;
        let mut wire = 0;
        if let Some((fc, fnode)) = next {
            let f = tl.times[fc as usize][fnode as usize];
            wire = b.ready.saturating_sub(if whole { f.done } else { f.free });
            let from = rec.cores[fc as usize].nodes[fnode as usize].cost as usize;
            let dma = matches!(b.edge, Edge::Transfer | Edge::Join) && rec.costs[from].transfer.is_some();
            let p = if dma { P::SemDma } else { P::SemLocal };
            spans = spans.plus(Span::of(wire, rec.params.certainty(p)));
        }
        let at = rec.cores[bc as usize].nodes[bn as usize].inst;
        let e = path.entry((bc, at)).or_insert((0, 0));
        e.0 += 1;
        e.1 += own + port + wire;
        cur = next;
    }
    r.by_certainty_ps = spans.0;
    r.critical_ps = spans.ps();
    r.critical = path
        .into_iter()
        .map(|((c, id), (count, t))| {
            let inst = &cores[c as usize].module.insts[id];
            PathStep {
                core: c as usize,
                name: inst.name.to_string(),
                opcode: inst.opcode,
                pos: pos_of(c as usize, id),
                count,
                ps: t,
            }
        })
        .collect();
    r.critical.sort_by(|a, b| b.ps.cmp(&a.ps).then((a.core, &a.name).cmp(&(b.core, &b.name))));
    r
}

fn ns(ps: u64) -> Value {
    json!(ps as f64 / 1000.0)
}

fn place(pos: &Option<SourcePos>) -> Value {
    pos.as_ref().map_or(Value::Null, |p| json!({"file": p.file.as_str(), "line": p.line}))
}

impl TimingReport {
    /// Total in nanoseconds.
    pub fn total_ns(&self) -> f64 {
        self.total_ps as f64 / 1000.0
    }
    /// Time on the critical path per source line, longest first.
    pub fn by_line(&self) -> Vec<(String, u64)> {
        let mut m: IndexMap<String, u64> = IndexMap::new();
        for s in &self.critical {
            let at =
                s.pos.as_ref().map_or_else(|| "(no source)".to_owned(), |p| format!("{}:{}", p.file, p.line));
            *m.entry(at).or_default() += s.ps;
        }
        let mut v: Vec<(String, u64)> = m.into_iter().collect();
        v.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        v
    }
    fn sums(&self) -> (u64, u64, u64) {
        self.cores.iter().fold((0, 0, 0), |a, c| {
            (a.0.saturating_add(c.flops), a.1.saturating_add(c.hbm_read), a.2.saturating_add(c.hbm_written))
        })
    }
    fn per_second(&self, n: u64) -> f64 {
        if self.total_ps == 0 { 0.0 } else { n as f64 / (self.total_ps as f64 * 1e-12) }
    }

    /// The report as JSON; times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let (flops, read, written) = self.sums();
        let mut shares = Map::new();
        for (k, t) in Certainty::ALL.iter().zip(self.by_certainty_ps) {
            shares.insert(k.name().replace(' ', "_"), json!(t as f64 / self.critical_ps.max(1) as f64));
        }
        let cores: Vec<Value> = self
            .cores
            .iter()
            .map(|c| {
                let engines: Vec<Value> = c
                    .engines
                    .iter()
                    .map(|e| {
                        let waits: Map<String, Value> =
                            e.waits_ps.iter().map(|(k, t)| (k.replace(' ', "_"), ns(*t))).collect();
                        json!({"engine": e.engine.to_string(), "instructions": e.instructions, "busy_ns": ns(e.busy_ps), "waits_ns": waits})
                    })
                    .collect();
                json!({
                    "core": c.core, "engines": engines, "core_barriers_ns": ns(c.barrier_ps), "swaps_ns": ns(c.swap_ps),
                    "tokens_ns": ns(c.token_ps), "transfers": c.transfers, "dma_bytes": c.dma_bytes,
                    "dma_engine_busy_ns": c.dma_busy_ps.iter().map(|t| ns(*t)).collect::<Vec<_>>(),
                    "hbm_read_bytes": c.hbm_read, "hbm_write_bytes": c.hbm_written, "swap_bytes": c.swap_bytes, "flops": c.flops,
                })
            })
            .collect();
        let path: Vec<Value> = self
            .critical
            .iter()
            .map(|s| {
                json!({"core": s.core, "name": s.name, "opcode": s.opcode.to_string(), "source": place(&s.pos), "count": s.count, "ns": ns(s.ps)})
            })
            .collect();
        let syncs: Vec<Value> = self
            .syncs
            .iter()
            .map(|s| {
                json!({"core": s.core, "name": s.name, "opcode": s.opcode.to_string(), "source": place(&s.pos), "count": s.count,
                    "total_ns": ns(s.total_ps), "partner_ns": ns(s.partner_ps)})
            })
            .collect();
        let lines: Vec<Value> =
            self.by_line().iter().map(|(l, t)| json!({"line": l, "ns": ns(*t)})).collect();
        json!({
            "back_end": self.back_end.name(), "target": self.generation.name(), "total_ns": ns(self.total_ps),
            "overhead_ns": ns(self.overhead_ps), "critical_path_ns": ns(self.critical_ps), "share_by_certainty": shares,
            "flops": flops, "hbm_read_bytes": read, "hbm_write_bytes": written, "hbm_wait_ns": ns(self.hbm_wait_ps),
            "flops_per_second": self.per_second(flops), "peak_flops_per_second": self.peak_flops,
            "hbm_bytes_per_second": self.per_second(read.saturating_add(written)), "peak_hbm_bytes_per_second": self.peak_hbm,
            "cores": cores, "critical_path": path, "critical_path_by_line": lines, "synchronisation": syncs,
        })
    }

    /// The report for people.
    pub fn to_text(&self) -> String {
        let t = |ps: u64| format!("{:.3} us", ps as f64 / 1e6);
        let part = |ps: u64| format!("{:.1} %", 100.0 * ps as f64 / self.critical_ps.max(1) as f64);
        let (flops, read, written) = self.sums();
        let mut s = String::new();
        let _ = writeln!(
            s,
            "predicted time {} on {} (back end {}), fixed overhead {}",
            t(self.total_ps),
            self.generation.name(),
            self.back_end.name(),
            t(self.overhead_ps)
        );
        let shares: Vec<String> = Certainty::ALL
            .iter()
            .zip(self.by_certainty_ps)
            .filter(|(_, x)| *x > 0)
            .map(|(k, x)| format!("{} {}", k.name(), part(x)))
            .collect();
        let _ = writeln!(s, "  rests on numbers: {}", shares.join(", "));
        let _ = writeln!(
            s,
            "  {flops} operations, {:.3} Gop/s ({:.2} % of the 16-bit peak); HBM {read} bytes read, {written} written, {:.3} GB/s ({:.2} % of peak)",
            self.per_second(flops) / 1e9,
            100.0 * self.per_second(flops) / self.peak_flops.max(1.0),
            self.per_second(read.saturating_add(written)) / 1e9,
            100.0 * self.per_second(read.saturating_add(written)) / self.peak_hbm.max(1.0)
        );
        for c in &self.cores {
            let _ = writeln!(
                s,
                "core {}: core barriers {}, swaps {}, tokens {}; {} transfers of {} bytes, {} bytes swapped",
                c.core,
                t(c.barrier_ps),
                t(c.swap_ps),
                t(c.token_ps),
                c.transfers,
                c.dma_bytes,
                c.swap_bytes
            );
            for e in &c.engines {
                let waits: Vec<String> = e.waits_ps.iter().map(|(k, x)| format!("{k} {}", t(*x))).collect();
                let _ = writeln!(
                    s,
                    "  {:<8} {:>8} instructions, busy {:>12}; waits: {}",
                    e.engine.external_name(),
                    e.instructions,
                    t(e.busy_ps),
                    waits.join(", ")
                );
            }
        }
        let at = |p: &Option<SourcePos>| {
            p.as_ref().map_or_else(String::new, |p| format!(" ({}:{})", p.file, p.line))
        };
        if !self.syncs.is_empty() {
            s.push_str("synchronisation\n");
            for x in self.syncs.iter().take(30) {
                let _ = writeln!(
                    s,
                    "  core {} {} {}{}: {} times, {}, of which partner late {}",
                    x.core,
                    x.opcode,
                    x.name,
                    at(&x.pos),
                    x.count,
                    t(x.total_ps),
                    t(x.partner_ps)
                );
            }
            if self.syncs.len() > 30 {
                let _ = writeln!(s, "  and {} more (all in --format json)", self.syncs.len() - 30);
            }
        }
        let _ = writeln!(s, "critical path {}", t(self.critical_ps));
        for x in self.critical.iter().take(15) {
            let _ = writeln!(
                s,
                "  {:>7}  {:>12}  core {} {} {}{}",
                part(x.ps),
                t(x.ps),
                x.core,
                x.opcode,
                x.name,
                at(&x.pos)
            );
        }
        if self.critical.len() > 15 {
            let _ = writeln!(s, "  and {} more (all in --format json)", self.critical.len() - 15);
        }
        s
    }
}
