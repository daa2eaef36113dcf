//! A judge of order that shares nothing with the checks: everything that happens on two cores as a graph, paths by search,
//! all pairs of accesses compared. For lowered programs of one block per core.

#[allow(dead_code, reason = "not every test has loops")]
pub(crate) mod unroll;

use tandem_bir::analysis::footprint::{Footprint, StorageMap, overlaps};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::verify::effective_engine;
use tandem_bir::{EngineKind, InstId, MemLocId, Module, Opcode, Operand, Program};

/// Takes an instruction away. What waited for it waits for what it waited for: the order inside the core stays.
#[allow(dead_code, reason = "not every test takes something away")]
pub(crate) fn without(m: &mut Module, gone: InstId) -> String {
    let through = m.insts[gone].deps.clone();
    for (_, block) in m.blocks.iter_mut() {
        block.insts.retain(|i| *i != gone);
    }
    for (_, inst) in m.insts.iter_mut() {
        if inst.deps.iter().any(|d| d.inst == gone) {
            inst.deps.retain(|d| d.inst != gone);
            for d in &through {
                if !inst.deps.iter().any(|x| x.inst == d.inst) {
                    inst.deps.push(*d);
                }
            }
        }
    }
    m.insts[gone].name.to_string()
}

/// Something that happens.
#[derive(Default)]
struct Event {
    before: Vec<usize>,
    accesses: Vec<(bool, Footprint)>,
    core: usize,
}

/// Everything that happens on both cores, as a graph.
pub(crate) struct Judge {
    events: Vec<Event>,
    past: Vec<Vec<bool>>,
    /// Ends of tokens, with the arrivals that they wait for.
    stuck_by: Vec<(usize, Option<usize>)>,
}

impl Judge {
    fn event(&mut self, core: usize, before: Vec<usize>) -> usize {
        self.events.push(Event { before, accesses: Vec::new(), core });
        self.events.len() - 1
    }

    pub(crate) fn new(p: &Program) -> Judge {
        let storage = StorageMap::of_program(p);
        let mut j = Judge { events: Vec::new(), past: Vec::new(), stuck_by: Vec::new() };
        // The k-th swap and the k-th barrier of each core: arrivals, and what leaves.
        let mut swaps: [Vec<(usize, usize)>; 2] = Default::default();
        let mut barriers: [Vec<(usize, usize)>; 2] = Default::default();
        let mut tokens: [Vec<(String, usize, usize)>; 2] = Default::default();
        let mut writes: [Vec<(String, usize)>; 2] = Default::default();
        let owner = |m: &Module, l: MemLocId| -> String {
            let loc = &m.memlocs[l];
            loc.remote_local_target.as_ref().map_or(&loc.name, |t| &t.name).to_string()
        };
        for (c, m) in p.modules.iter().enumerate() {
            let list = &m.blocks.values().next().expect("a block").insts;
            // Start and end of every instruction first: edges may point forward.
            let mut ends = vec![usize::MAX; m.insts.len()];
            let mut starts = ends.clone();
            for i in list {
                starts[i.index()] = j.event(c, Vec::new());
                let s = starts[i.index()];
                ends[i.index()] = j.event(c, vec![s]);
            }
            let (mut engine, mut landed) = ([None; 5], [[None; 2]; 5]);
            let mut fence: Option<usize> = None;
            let mut since: Vec<usize> = Vec::new();
            for &i in list {
                let inst = &m.insts[i];
                let (s, e) = (starts[i.index()], ends[i.index()]);
                let mut before: Vec<usize> = inst.deps.iter().map(|d| ends[d.inst.index()]).collect();
                before.extend(fence);
                if inst.opcode == Opcode::CoreBarrier {
                    before.append(&mut since);
                    fence = Some(e);
                    barriers[c].push((s, e));
                } else {
                    let queues = match effective_engine(inst) {
                        EngineKind::Pe => 0..1,
                        EngineKind::Activation => 1..2,
                        EngineKind::Dve => 2..3,
                        EngineKind::Pool | EngineKind::Unassigned => 3..4,
                        EngineKind::Sp | EngineKind::Dma => 4..5,
                        EngineKind::All => 0..5,
                    };
                    let transfer = inst.opcode.is_dma();
                    for q in queues {
                        before.extend(engine[q]);
                        engine[q] = Some(if transfer { s } else { e });
                        if transfer {
                            // What reaches the other core has a queue of its own.
                            let all = inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap);
                            let remote = all.into_iter().any(|a| m.memlocs[a.loc].is_remote());
                            j.events[e].before.extend(landed[q][usize::from(remote)]);
                            landed[q][usize::from(remote)] = Some(e);
                        }
                    }
                    since.push(e);
                }
                j.events[s].before.extend(before);
                let foot = |o: &Operand| o.as_ap().map(|a| storage[c].footprint(m, a));
                match inst.opcode {
                    Opcode::CoreBarrier => {}
                    Opcode::TensorCompletion => {
                        let ap = inst.ins.first().and_then(Operand::as_ap).expect("a token names a tensor");
                        tokens[c].push((owner(m, ap.loc), s, e));
                    }
                    Opcode::GpsimdSb2Sb => {
                        swaps[c].push((s, e));
                        let ins: Vec<_> = inst.ins.iter().filter_map(foot).map(|f| (false, f)).collect();
                        let outs: Vec<_> = inst.outs.iter().filter_map(foot).map(|f| (true, f)).collect();
                        j.events[s].accesses.extend(ins);
                        j.events[e].accesses.extend(outs);
                    }
                    _ => {
                        let ins: Vec<_> = inst.ins.iter().filter_map(foot).map(|f| (false, f)).collect();
                        let outs: Vec<_> = inst.outs.iter().filter_map(foot).map(|f| (true, f)).collect();
                        j.events[e].accesses.extend(ins.into_iter().chain(outs));
                        let outs = inst.outs.iter().filter_map(Operand::as_ap);
                        writes[c].extend(outs.map(|a| (owner(m, a.loc), e)));
                    }
                }
            }
        }
        for list in [&swaps, &barriers] {
            for (a, b) in list[0].iter().zip(&list[1]) {
                j.events[a.1].before.push(b.0);
                j.events[b.1].before.push(a.0);
            }
        }
        // A token ends when every core that writes the location has come to its own; it hands on the writes that its
        // arrivals come after.
        let nth =
            |c: usize, name: &str, n: usize| tokens[c].iter().filter(|t| t.0 == name).nth(n).map(|t| t.1);
        let mut ends: Vec<(usize, usize, Option<usize>, String)> = Vec::new();
        for c in 0..2 {
            for (k, (name, _, e)) in tokens[c].iter().enumerate() {
                let n = tokens[c][..k].iter().filter(|t| t.0 == *name).count();
                for w in 0..2 {
                    if writes[w].iter().any(|x| x.0 == *name) {
                        ends.push((*e, w, nth(w, name, n), name.clone()));
                    }
                }
            }
        }
        j.reach();
        loop {
            let mut more: Vec<(usize, usize)> = Vec::new();
            for (e, w, arrival, name) in &ends {
                let Some(arrival) = arrival else { continue };
                // Only the writes are handed on: an edge from each of them, none from the arrival.
                for (_, x) in writes[*w].iter().filter(|x| x.0 == *name) {
                    if j.past[*arrival][*x] && !j.past[*e][*x] {
                        more.push((*e, *x));
                    }
                }
            }
            if more.is_empty() {
                break;
            }
            more.sort_unstable();
            more.dedup();
            more.iter().for_each(|(e, x)| j.events[*e].before.push(*x));
            j.reach();
        }
        // For the question of deadlock the arrival counts as well.
        j.stuck_by = ends.iter().map(|(e, _, arrival, _)| (*e, *arrival)).collect();
        // What has no partner waits for ever.
        for list in [&swaps, &barriers] {
            for (a, b) in [(0, 1), (1, 0)] {
                let alone = list[a].iter().skip(list[b].len());
                j.stuck_by.extend(alone.map(|x| (x.1, None)));
            }
        }
        j
    }

    /// What each event comes after.
    fn reach(&mut self) {
        self.past = (0..self.events.len())
            .map(|e| {
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
            })
            .collect();
    }

    /// Some event waits for itself.
    pub(crate) fn deadlock(&self) -> bool {
        let n = self.events.len();
        let mut before: Vec<Vec<usize>> = self.events.iter().map(|e| e.before.clone()).collect();
        let mut never = vec![false; n];
        for (e, on) in &self.stuck_by {
            match on {
                Some(x) => before[*e].push(*x),
                None => never[*e] = true,
            }
        }
        let mut done = vec![false; n];
        loop {
            let next = (0..n).find(|e| !done[*e] && !never[*e] && before[*e].iter().all(|b| done[*b]));
            match next {
                Some(e) => done[e] = true,
                None => return done.iter().any(|d| !d),
            }
        }
    }

    /// Whether accesses of different cores, and of one core, conflict without order.
    pub(crate) fn races(&self) -> (bool, bool) {
        let (mut cross, mut inner) = (false, false);
        for a in 0..self.events.len() {
            for b in 0..a {
                if self.past[a][b] || self.past[b][a] {
                    continue;
                }
                let (x, y) = (&self.events[a], &self.events[b]);
                let conflict = x
                    .accesses
                    .iter()
                    .any(|(w, f)| y.accesses.iter().any(|(v, g)| (*w || *v) && overlaps(f, g)));
                cross |= conflict && x.core != y.core;
                inner |= conflict && x.core == y.core;
            }
        }
        (cross, inner)
    }
}
