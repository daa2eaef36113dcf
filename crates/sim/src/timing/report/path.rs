//! The critical path: the chain of what waited for what, from the end to the start.

use super::{PathStep, TimingReport};
use crate::machine::Core;
use crate::timing::clock::{Edge, Timeline};
use crate::timing::params::{BackEnd, Certainty, P, Span, ps};
use crate::timing::record::{MeetKind, NONE, Recorder};
use indexmap::IndexMap;
use tandem_bir::{InstId, Program};

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

/// Walks the chains of the subgraphs.
pub(super) struct Walk {
    spans: Span,
    /// Times on the path and time, per core and instruction of the subgraph.
    at: IndexMap<(u32, InstId), (u64, u64)>,
    steps: Vec<PathStep>,
}

impl Walk {
    pub(super) fn new(overhead: Span) -> Walk {
        Walk { spans: overhead, at: IndexMap::new(), steps: Vec::new() }
    }

    /// Adds the chain of a subgraph: whole from its start to its end.
    pub(super) fn subgraph(&mut self, rec: &Recorder, tl: &Timeline) {
        let model = rec.model();
        let nobody = (NONE, NONE);
        let mut cur = tl.last;
        let mut whole = true;
        while let Some((c, n)) = cur {
            let t = &tl.times[c as usize][n as usize];
            let node = rec.cores[c as usize].nodes[n as usize];
            let cost = &rec.costs[node.cost as usize];
            let until = if whole { t.done } else { t.free };
            let met = node.meet != NONE && (whole || cost.transfer.is_none());
            let ((bc, bn), b) = if met && t.last != nobody {
                (t.last, &tl.times[t.last.0 as usize][t.last.1 as usize])
            } else {
                ((c, n), t)
            };
            let own = until.saturating_sub(b.issue);
            let span = if cost.transfer.is_some() && whole {
                let lane = cost.transfer.as_ref().map_or(0, |tr| {
                    let bw = rec.params.get(P::DmaBw, rec.g) * tr.share;
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
                    BackEnd::Hwm => {
                        split(own, &[model.ns(P::HwmDmaInit)], rec.params.certainty(P::HwmDmaDiv))
                    }
                    BackEnd::Unit => Span::of(own, rec.params.certainty(P::UnitCost)),
                }
            } else if node.meet != NONE {
                let kind = rec.meets[node.meet as usize].kind;
                let rest = rec.params.certainty(match kind {
                    MeetKind::Collective => P::Hop,
                    MeetKind::Join => P::SemLocal,
                    MeetKind::Swap | MeetKind::Barrier | MeetKind::Notify | MeetKind::Token { .. } => {
                        P::RemoteSem
                    }
                });
                split(own, &[cost.hold, cost.meet], rest)
            } else {
                split(own, &[cost.hold, cost.pipe, cost.meet], rec.params.certainty(P::PeRamp))
            };
            self.spans = self.spans.plus(span);
            // Waiting for a port, then for the semaphore.
            let port = b.issue.saturating_sub(b.ready);
            self.spans = self.spans.plus(Span::of(port, Certainty::Documented));
            let next = (b.from != nobody && b.edge != Edge::Start).then_some(b.from);
            whole = b.edge != Edge::Engine;
            let mut wire = 0;
            if let Some((fc, fnode)) = next {
                let f = &tl.times[fc as usize][fnode as usize];
                wire = b.ready.saturating_sub(if whole { f.done } else { f.free });
                let from = rec.cores[fc as usize].nodes[fnode as usize].cost as usize;
                let dma = matches!(b.edge, Edge::Transfer | Edge::Join) && rec.costs[from].transfer.is_some();
                let p = match (fc == bc, dma) {
                    (false, _) => P::RemoteSem,
                    (true, true) => P::SemDma,
                    (true, false) => P::SemLocal,
                };
                self.spans = self.spans.plus(Span::of(wire, rec.params.certainty(p)));
            }
            let inst = rec.cores[bc as usize].nodes[bn as usize].inst;
            let e = self.at.entry((bc, inst)).or_insert((0, 0));
            e.0 += 1;
            e.1 += own + port + wire;
            cur = next;
        }
    }

    /// Turns what was added since the last call into steps with names.
    pub(super) fn names(&mut self, program: &Program, cores: &[Core<'_>]) {
        for ((c, id), (count, ps)) in self.at.drain(..) {
            let inst = &cores[c as usize].module.insts[id];
            self.steps.push(PathStep {
                core: c as usize,
                name: inst.name.to_string(),
                opcode: inst.opcode,
                pos: super::build::pos_of(program, &cores[c as usize], id),
                count,
                ps,
            });
        }
    }

    /// Puts the path into a report.
    pub(super) fn finish(self, out: &mut TimingReport) {
        out.by_certainty_ps = self.spans.0;
        out.critical_ps = self.spans.ps();
        out.critical = self.steps;
        out.critical.sort_by(|a, b| b.ps.cmp(&a.ps).then((a.core, &a.name).cmp(&(b.core, &b.name))));
    }
}
