//! Hands the executions of a timed stretch to a sink.

use super::clock::{Edge, Stage, Timeline};
use super::record::{ENGINES, MeetKind, NONE, Recorder};
use super::trace::{Flow, FlowKind, Lifetime, MemoryUse, TraceSink, TraceSlice, TraceTransfer, Track};
use crate::code::ALL_QUEUES;
use crate::machine::Core;
use crate::place::all_aps;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{InstId, MemLocId, MemoryType, Module};

/// The arrow that ends at the start of a node, and the one that ends inside it: where from, and why.
type Arrows = [Option<((u32, u32), FlowKind)>; 2];

struct Stretch<'a, 'p> {
    rec: &'a Recorder,
    cores: &'a [Core<'p>],
    tl: &'a Timeline,
    /// Queue of each node.
    queue: Vec<Vec<u8>>,
}

impl Stretch<'_, '_> {
    fn arrows(&self, c: usize, n: usize) -> Arrows {
        let t = &self.tl.times[c][n];
        let node = self.rec.cores[c].nodes[n];
        let me = (c as u32, n as u32);
        let queue = |(c, n): (u32, u32)| (c, self.queue[c as usize][n as usize]);
        let start = (t.from.0 != NONE).then(|| match t.edge {
            Edge::Start | Edge::Engine => None,
            Edge::Transfer => Some(FlowKind::Dma),
            Edge::Producer => (queue(t.from) != queue(me)).then_some(FlowKind::Semaphore),
            Edge::Join => (queue(t.from) != queue(me)).then_some(FlowKind::Join),
        });
        let met = (node.meet != NONE && t.last.0 != NONE && t.last != me).then(|| {
            match self.rec.meets[node.meet as usize].kind {
                MeetKind::Swap => FlowKind::Swap,
                MeetKind::Collective => FlowKind::Collective,
                MeetKind::Barrier => FlowKind::Barrier,
                MeetKind::Notify => FlowKind::Notify,
                MeetKind::Join => FlowKind::Join,
                MeetKind::Token { .. } => FlowKind::Token,
            }
        });
        [start.flatten().map(|k| (t.from, k)), met.map(|k| (t.last, k))]
    }
}

/// Hands over slices, lifetimes and memory levels; the clock has handed over the lanes. The number of the first arrow of the
/// next stretch.
pub(crate) fn emit(
    rec: &Recorder,
    cores: &[Core<'_>],
    lnc: usize,
    tl: &Timeline,
    stage: &mut Stage<'_>,
    first_flow: u64,
) -> u64 {
    let ids = stage.ids(rec);
    let module = stage.module;
    let Some(sink) = stage.sink.as_deref_mut() else { return first_flow };
    let queue = (0..cores.len())
        .map(|c| {
            let phases = rec.phases(c);
            phases.flat_map(|(p, nodes)| nodes.map(move |n| p.queue(&cores[c], n))).collect()
        })
        .collect();
    let s = Stretch { rec, cores, tl, queue };

    // Arrows by where they start: counted, then filled.
    let mut starts: Vec<Vec<u32>> = rec.cores.iter().map(|w| vec![0; w.nodes.len() + 1]).collect();
    for c in 0..cores.len() {
        for n in 0..rec.cores[c].nodes.len() {
            for ((fc, fnode), _) in s.arrows(c, n).into_iter().flatten() {
                starts[fc as usize][fnode as usize + 1] += 1;
            }
        }
    }
    let mut out: Vec<Vec<Flow>> = Vec::new();
    for v in &mut starts {
        let mut sum = 0;
        for x in v.iter_mut() {
            sum += *x;
            *x = sum;
        }
        out.push(vec![Flow { id: 0, kind: FlowKind::Semaphore }; sum as usize]);
    }
    let mut id = first_flow;
    for c in 0..cores.len() {
        for n in 0..rec.cores[c].nodes.len() {
            for ((fc, fnode), kind) in s.arrows(c, n).into_iter().flatten() {
                let at = &mut starts[fc as usize][fnode as usize];
                out[fc as usize][*at as usize] = Flow { id, kind };
                *at += 1;
                id += 1;
            }
        }
    }

    // Filling has moved each start to its end.
    let mut id = first_flow;
    for c in 0..cores.len() {
        let mut from = 0;
        for n in 0..rec.cores[c].nodes.len() {
            let mut into = [Flow { id: 0, kind: FlowKind::Semaphore }; 2];
            let mut count = 0;
            for (slot, (_, kind)) in into.iter_mut().zip(s.arrows(c, n).into_iter().flatten()) {
                *slot = Flow { id, kind };
                id += 1;
                count += 1;
            }
            let to = starts[c][n] as usize;
            slice(&s, sink, (c, n), module + c % lnc, ids[c], &out[c][from..to], &into[..count]);
            from = to;
        }
    }
    for c in 0..cores.len() {
        memory(&s, sink, c, module + c % lnc);
    }
    id
}

fn slice(
    s: &Stretch<'_, '_>,
    sink: &mut dyn TraceSink,
    (c, n): (usize, usize),
    module: usize,
    first: u64,
    flows_out: &[Flow],
    flows_in: &[Flow],
) {
    let t = &s.tl.times[c][n];
    let node = s.rec.cores[c].nodes[n];
    let cost = &s.rec.costs[node.cost as usize];
    let q = s.queue[c][n];
    let partner_ps = if node.meet == NONE {
        0
    } else {
        let whole = t.done.saturating_sub(t.issue);
        let late = s.tl.times.get(t.last.0 as usize).and_then(|x| x.get(t.last.1 as usize));
        let late = late.map_or(0, |l| l.issue.saturating_sub(t.issue));
        s.rec.meets[node.meet as usize].kind.waits(whole, late)
    };
    let engine = ENGINES.get(usize::from(q)).copied();
    sink.slice(&TraceSlice {
        id: first + n as u64,
        core: c,
        module,
        inst: node.inst,
        track: engine.filter(|_| q != ALL_QUEUES).map_or(Track::Control, Track::Engine),
        start_ps: t.issue,
        free_ps: t.free,
        done_ps: t.done,
        partner_ps,
        transfer: cost.transfer.as_ref().zip(engine).map(|(tr, queue)| TraceTransfer {
            queue,
            start_ps: t.extra,
            end_ps: s.tl.landed(c, n),
            bytes: tr.bytes,
        }),
        flows_out,
        flows_in,
    });
}

/// Locations of SBUF and PSUM that an instruction names, without those that stand for another core's.
fn touches(m: &Module, inst: InstId) -> Vec<MemLocId> {
    let mut v: Vec<MemLocId> = all_aps(&m.insts[inst])
        .map(|a| a.loc)
        .filter(|l| m.memlocs[*l].is_on_chip() && !m.memlocs[*l].is_remote())
        .collect();
    v.sort_unstable();
    v.dedup();
    v
}

fn memory(s: &Stretch<'_, '_>, sink: &mut dyn TraceSink, c: usize, module: usize) {
    let m = s.cores[c].module;
    let mut named: Vec<Option<Vec<MemLocId>>> = vec![None; m.insts.len()];
    let mut lives: Vec<Option<(u64, u64)>> = vec![None; m.memlocs.len()];
    for (node, t) in s.rec.cores[c].nodes.iter().zip(&s.tl.times[c]) {
        let list = named[node.inst.index()].get_or_insert_with(|| touches(m, node.inst));
        for l in list {
            let e = lives[l.index()].get_or_insert((t.issue, t.done));
            e.0 = e.0.min(t.issue);
            e.1 = e.1.max(t.done);
        }
    }
    let mut steps: [Vec<(u64, i128)>; 2] = Default::default();
    for (l, loc) in m.memlocs.iter() {
        let Some((start_ps, end_ps)) = lives[l.index()] else { continue };
        sink.lifetime(&Lifetime { core: c, module, loc: l, start_ps, end_ps });
        let bytes = i128::from(loc.rows()) * i128::from(loc.row_bytes());
        let of = &mut steps[usize::from(loc.mem == MemoryType::Psum)];
        of.push((start_ps, bytes));
        of.push((end_ps, -bytes));
    }
    for (memory, mut list) in [MemoryType::Sb, MemoryType::Psum].into_iter().zip(steps) {
        list.sort_unstable();
        let (mut level, mut shown) = (0i128, 0i128);
        let mut k = 0;
        while let Some((at_ps, _)) = list.get(k).copied() {
            while let Some((_, d)) = list.get(k).filter(|x| x.0 == at_ps) {
                level += d;
                k += 1;
            }
            if level != shown {
                shown = level;
                let bytes = u64::try_from(level).unwrap_or(u64::MAX);
                sink.memory(&MemoryUse { core: c, memory, at_ps, bytes });
            }
        }
    }
}
