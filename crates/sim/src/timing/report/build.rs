//! Adds up the executions of a run, subgraph by subgraph.

use super::path::Walk;
use super::{
    BarrierRow, CoreReport, EngineReport, MAX_BARRIER_ROWS, R_BARRIER, R_DMA, R_IDLE, R_JOIN, R_PARTNER,
    R_PORT, R_RAMP, R_SEM, REASONS, SyncRow, TimingReport, Traffic,
};
use crate::code::ALL_QUEUES;
use crate::machine::Core;
use crate::timing::clock::{Edge, Timeline};
use crate::timing::cost::{Dge, LANES};
use crate::timing::params::P;
use crate::timing::record::{ENGINES, MeetKind, NONE, Recorder};
use indexmap::IndexMap;
use tandem_bir::analysis::queue::QUEUES;
use tandem_bir::diag::SourcePos;
use tandem_bir::{Attr, InstId, Program};

/// Sums of one core.
struct Sums {
    core: CoreReport,
    count: [u64; QUEUES],
    busy: [u64; QUEUES],
    held: [u64; QUEUES],
    waits: [[u64; REASONS.len()]; QUEUES],
}

/// Instruction of a core: core, subgraph, instruction.
type Key = (usize, usize, InstId);

/// Makes a [`TimingReport`].
pub(crate) struct Builder<'p> {
    program: &'p Program,
    out: TimingReport,
    sums: Vec<Sums>,
    syncs: IndexMap<Key, SyncRow>,
    walk: Walk,
    subgraph: usize,
}

/// Source position of an instruction.
pub(super) fn pos_of(program: &Program, core: &Core<'_>, id: InstId) -> Option<SourcePos> {
    program.locs.source(core.module.insts[id].loc).cloned()
}

/// A node takes part in a CoreBarrier.
fn at_barrier(rec: &Recorder, (c, n): (u32, u32)) -> bool {
    rec.cores
        .get(c as usize)
        .and_then(|w| w.nodes.get(n as usize))
        .filter(|x| x.meet != NONE)
        .is_some_and(|x| rec.meets[x.meet as usize].kind == MeetKind::Barrier)
}

impl<'p> Builder<'p> {
    /// For a run of `cores` cores on LNCs of `lnc`.
    pub(crate) fn new(program: &'p Program, rec: &Recorder, cores: usize, lnc: usize) -> Builder<'p> {
        let g = rec.g;
        let hbm = rec.params.get(if lnc > 1 { P::HbmPair } else { P::HbmLone }, g);
        let overhead = rec.overhead();
        Builder {
            program,
            out: TimingReport {
                back_end: rec.params.back_end,
                generation: g,
                total_ps: overhead.ps(),
                overhead_ps: overhead.ps(),
                critical_ps: 0,
                by_certainty_ps: [0; 4],
                subgraphs_ps: Vec::new(),
                cores: Vec::new(),
                critical: Vec::new(),
                syncs: Vec::new(),
                barriers: Vec::new(),
                more_barriers: 0,
                hbm_wait_ps: 0,
                peak_flops: 2.0 * 128.0 * 128.0 * rec.params.get(P::ClockPe, g) * 1e9,
                peak_hbm: hbm * 1e9 * cores.div_ceil(lnc.max(1)) as f64,
            },
            sums: (0..cores)
                .map(|core| Sums {
                    core: CoreReport {
                        core,
                        engines: Vec::new(),
                        control_ps: 0,
                        barrier_ps: 0,
                        swap_ps: 0,
                        token_ps: 0,
                        swaps: 0,
                        transfers: 0,
                        dynamic_transfers: [0; 2],
                        dma_bytes: 0,
                        dma_busy_ps: [0; LANES],
                        dma_active_ps: 0,
                        transfer_ps: 0,
                        traffic: Traffic::default(),
                        swap_bytes: 0,
                        flops: 0,
                        matmul_flops: 0,
                        transpose_flops: 0,
                        matmuls: 0,
                    },
                    count: [0; QUEUES],
                    busy: [0; QUEUES],
                    held: [0; QUEUES],
                    waits: [[0; REASONS.len()]; QUEUES],
                })
                .collect(),
            syncs: IndexMap::new(),
            walk: Walk::new(overhead),
            subgraph: 0,
        }
    }

    /// End so far.
    pub(crate) fn total(&self) -> u64 {
        self.out.total_ps
    }

    /// Adds a subgraph.
    pub(crate) fn add(&mut self, rec: &Recorder, cores: &[Core<'_>], tl: &Timeline) {
        for c in 0..cores.len() {
            self.core(rec, cores, tl, c);
        }
        self.walk.subgraph(rec, tl);
        self.out.subgraphs_ps.push(tl.total.saturating_sub(tl.start));
        self.out.total_ps = tl.total;
        self.out.hbm_wait_ps = self.out.hbm_wait_ps.saturating_add(tl.hbm_wait);
        self.walk.names(self.program, cores);
        self.subgraph += 1;
    }

    fn core(&mut self, rec: &Recorder, cores: &[Core<'_>], tl: &Timeline, c: usize) {
        let w = &rec.cores[c];
        let Sums { core: k, count, busy, held, waits } = &mut self.sums[c];
        for (sum, t) in k.dma_busy_ps.iter_mut().zip(tl.dma_busy[c]) {
            *sum = sum.saturating_add(t);
        }
        k.dma_active_ps = k.dma_active_ps.saturating_add(tl.dma_active[c]);
        let mut end = [tl.start; QUEUES];
        for (p, nodes) in rec.phases(c) {
            for n in nodes {
                let node = &w.nodes[n];
                let q = p.queue(&cores[c], n);
                let t = &tl.times[c][n];
                let cost = &rec.costs[node.cost as usize];
                k.flops = k.flops.saturating_add(cost.flops);
                k.traffic.add(&cost.traffic);
                k.swap_bytes = k.swap_bytes.saturating_add(cost.swapped);
                if let Some(tr) = &cost.transfer {
                    k.transfers += 1;
                    match tr.dge {
                        Dge::Static => {}
                        Dge::Software => k.dynamic_transfers[0] += 1,
                        Dge::Hardware => k.dynamic_transfers[1] += 1,
                    }
                    k.dma_bytes = k.dma_bytes.saturating_add(tr.bytes);
                    let landed = tl.landed(c, n);
                    k.transfer_ps = k.transfer_ps.saturating_add(landed.saturating_sub(t.issue));
                }
                if q == 0 {
                    k.matmuls += u64::from(cost.matmul);
                    k.transpose_flops = k.transpose_flops.saturating_add(cost.transpose_flops);
                    k.matmul_flops = k.matmul_flops.saturating_add(cost.flops);
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
                        MeetKind::Swap | MeetKind::Collective => {
                            k.swap_ps += whole;
                            k.swaps += 1;
                        }
                        MeetKind::Token { .. } => k.token_ps += whole,
                        MeetKind::Notify | MeetKind::Join => {}
                    }
                    if kind == MeetKind::Join {
                        partner = kind.waits(whole, late);
                    } else if kind != MeetKind::Notify {
                        partner = kind.waits(whole, late);
                        let inst = &cores[c].module.insts[node.inst];
                        let row =
                            self.syncs.entry((c, self.subgraph, node.inst)).or_insert_with(|| SyncRow {
                                core: c,
                                name: inst.name.to_string(),
                                opcode: inst.opcode,
                                pos: pos_of(self.program, &cores[c], node.inst),
                                count: 0,
                                total_ps: 0,
                                partner_ps: 0,
                            });
                        row.count += 1;
                        row.total_ps += whole;
                        row.partner_ps += late.min(whole);
                        if kind == MeetKind::Barrier {
                            if self.out.barriers.len() < MAX_BARRIER_ROWS {
                                self.out.barriers.push(BarrierRow {
                                    core: c,
                                    name: inst.name.to_string(),
                                    id: inst.get_int(Attr::Id).unwrap_or(0),
                                    engine: inst.engine,
                                    pos: pos_of(self.program, &cores[c], node.inst),
                                    start_ps: t.issue,
                                    end_ps: t.done,
                                    late_ps: late.min(whole),
                                    last: t.last.0 as usize,
                                });
                            } else {
                                self.out.more_barriers += 1;
                            }
                        }
                    }
                }
                let on = if q == ALL_QUEUES { 0..QUEUES } else { usize::from(q)..usize::from(q) + 1 };
                let took = t.free.saturating_sub(t.issue);
                let ramp = if cost.transfer.is_some() { 0 } else { t.extra };
                if q == ALL_QUEUES {
                    k.control_ps = k.control_ps.saturating_add(took);
                }
                let why = match t.edge {
                    Edge::Start | Edge::Engine | Edge::Producer => R_SEM,
                    Edge::Transfer => R_DMA,
                    Edge::Join if at_barrier(rec, t.from) => R_BARRIER,
                    Edge::Join => R_JOIN,
                };
                let partners = match node.meet {
                    NONE => R_PARTNER,
                    m => match rec.meets[m as usize].kind {
                        MeetKind::Barrier => R_BARRIER,
                        MeetKind::Join => R_JOIN,
                        MeetKind::Swap | MeetKind::Collective | MeetKind::Notify | MeetKind::Token { .. } => {
                            R_PARTNER
                        }
                    },
                };
                for q in on {
                    waits[q][why] += t.ready.saturating_sub(end[q]);
                    waits[q][R_PORT] += t.issue.saturating_sub(t.ready.max(end[q]));
                    waits[q][partners] += partner;
                    waits[q][R_RAMP] += ramp;
                    busy[q] += took.saturating_sub(partner + ramp);
                    held[q] += took;
                    count[q] += u64::from(p.seg != NONE);
                    end[q] = t.free;
                }
            }
        }
        for q in 0..QUEUES {
            waits[q][R_IDLE] += tl.total.saturating_sub(end[q]);
        }
    }

    /// The report.
    pub(crate) fn finish(self) -> TimingReport {
        let mut out = self.out;
        for s in self.sums {
            let mut k = s.core;
            for q in (0..QUEUES).filter(|q| s.count[*q] > 0) {
                k.engines.push(EngineReport {
                    engine: ENGINES[q],
                    instructions: s.count[q],
                    busy_ps: s.busy[q],
                    held_ps: s.held[q],
                    waits_ps: REASONS.iter().copied().zip(s.waits[q]).filter(|(_, t)| *t > 0).collect(),
                });
            }
            out.cores.push(k);
        }
        out.syncs = self.syncs.into_values().collect();
        self.walk.finish(&mut out);
        out
    }
}
