//! The queues of one core do not wait for each other in a circle.
//!
//! Definition: inside a block an instruction starts after the one before it in its engine's queue has completed (a transfer:
//! has been issued), and after everything its edges name has completed; transfers of one engine complete in order; a control
//! instruction (a CoreBarrier, a loop, a branch) starts after everything before it has completed, and everything behind it
//! starts after it (decisions D17, D25). If these orders form a cycle, none of its instructions ever starts. The same for an
//! edge to a producer whose block comes only after the consumer's ([`tandem_bir::analysis::edges`]). The queues are the
//! simulator's: one per engine, transfers without an engine belong to SP.
//!
//! May miss: cycles through the other core (see the checks of orders and of pending waits). Reports falsely: no, for these queues.

use crate::Cx;
use crate::meet;
use rustc_hash::FxHashMap;
use tandem_bir::analysis::edges::{ends_segment, never_met};
use tandem_bir::analysis::queue::{QUEUES, queue};
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::verify::effective_engine;
use tandem_bir::{BlockId, FuncId, InstId, Level, Module};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    if cx.program.level != Level::Lowered {
        return;
    }
    for m in &cx.program.modules {
        let before = found.len();
        let mut place: FxHashMap<InstId, (FuncId, BlockId)> = FxHashMap::default();
        for (f, b) in meet::blocks(m) {
            one(cx, m, (f, b), &m.blocks[b].insts, found);
            place.extend(m.blocks[b].insts.iter().map(|i| (*i, (f, b))));
        }
        if found.len() > before {
            continue;
        }
        let core = m.core.map_or(0, |c| c.0);
        for (consumer, producer) in never_met(m) {
            let name = |i: InstId| m.insts[i].name.clone();
            let message = format!(
                "deadlock inside core {core}: `{}` waits for `{}`, which comes only after it",
                name(consumer),
                name(producer)
            );
            let mut d = Diagnostic::new(codes::C0405, message);
            for (i, label) in
                [(consumer, "waits by an edge"), (producer, "runs only after the first has completed")]
            {
                if let Some(&(f, b)) = place.get(&i) {
                    d = d.site(meet::inst_site(cx.program, m, f, b, i).label(label));
                }
            }
            found.push(d.help("an edge to what comes later can never be met: drop it"));
        }
    }
}

fn one(cx: &Cx<'_>, m: &Module, at: (FuncId, BlockId), list: &[InstId], found: &mut Vec<Diagnostic>) {
    let index: FxHashMap<InstId, usize> = list.iter().enumerate().map(|(k, i)| (*i, k)).collect();
    let forward = list
        .iter()
        .enumerate()
        .any(|(k, i)| m.insts[*i].deps.iter().any(|d| index.get(&d.inst).is_some_and(|p| *p > k)));
    if !forward {
        return; // all orders follow program order
    }
    // Node 2k: instruction k starts; 2k + 1: it is complete.
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); 2 * list.len()];
    let mut last: [Option<usize>; QUEUES] = [None; QUEUES];
    let mut landed: [Option<usize>; QUEUES] = [None; QUEUES];
    let mut fence: Option<usize> = None;
    let mut since = 0;
    for (k, &i) in list.iter().enumerate() {
        let transfer = m.insts[i].opcode.is_dma();
        before[2 * k + 1].push(2 * k);
        for d in &m.insts[i].deps {
            if let Some(&p) = index.get(&d.inst)
                && p != k
            {
                before[2 * k].push(2 * p + 1);
            }
        }
        before[2 * k].extend(fence.map(|f| 2 * f + 1));
        if ends_segment(m.insts[i].opcode) {
            before[2 * k].extend((since..k).map(|p| 2 * p + 1));
            (last, landed) = Default::default();
            (fence, since) = (Some(k), k + 1);
            continue;
        }
        let own = queue(&m.insts[i]);
        let queues = match own {
            Some(q) => q..q + 1,
            None => 0..QUEUES,
        };
        for q in queues {
            before[2 * k].extend(last[q]);
            last[q] = Some(if transfer { 2 * k } else { 2 * k + 1 });
            if transfer && own.is_some() {
                before[2 * k + 1].extend(landed[q]);
                landed[q] = Some(2 * k + 1);
            }
        }
    }
    // What can run: a node whose predecessors all can.
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    for (n, b) in before.iter().enumerate() {
        b.iter().for_each(|p| after[*p].push(n));
    }
    let mut ready: Vec<usize> = (0..waits.len()).filter(|n| waits[*n] == 0).collect();
    while let Some(n) = ready.pop() {
        for &a in &after[n] {
            waits[a] -= 1;
            if waits[a] == 0 {
                ready.push(a);
            }
        }
    }
    let Some(start) = (0..waits.len()).find(|n| waits[*n] > 0) else { return };
    // Walk backwards among what never runs until a node comes again.
    let mut path = vec![start];
    let mut seen: FxHashMap<usize, usize> = FxHashMap::from_iter([(start, 0)]);
    let ring = loop {
        let n = path[path.len() - 1];
        let Some(&p) = before[n].iter().find(|p| waits[**p] > 0) else { return };
        if let Some(&k) = seen.get(&p) {
            break path.split_off(k);
        }
        seen.insert(p, path.len());
        path.push(p);
    };
    let mut ids: Vec<InstId> = Vec::new();
    for n in &ring {
        let id = list[n / 2];
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let core = m.core.map_or(0, |c| c.0);
    let names: Vec<String> = ids.iter().map(|i| format!("`{}`", m.insts[*i].name)).collect();
    let message =
        format!("deadlock inside core {core}: {} wait for each other in a circle", names.join(", "));
    let mut d = Diagnostic::new(codes::C0405, message);
    for (k, id) in ids.iter().enumerate() {
        let next = ids[(k + 1) % ids.len()];
        let fence = ends_segment(m.insts[*id].opcode) || ends_segment(m.insts[next].opcode);
        let why = if m.insts[*id].deps.iter().any(|d| d.inst == next) {
            "an edge"
        } else if fence {
            "the fence"
        } else {
            "its queue"
        };
        let site: Site = meet::inst_site(cx.program, m, at.0, at.1, *id);
        d = d.site(site.label(format!(
            "{} waits for `{}` by {why}",
            effective_engine(&m.insts[*id]),
            m.insts[next].name
        )));
    }
    found.push(d.help("an edge that points forward in a queue can never be met: reorder, or drop it"));
}
