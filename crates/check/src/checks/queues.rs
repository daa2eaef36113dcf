//! The queues of one core do not wait for each other in a circle.
//!
//! Definition: inside a stretch of a block without control instructions, an instruction starts after the one before it in
//! its engine's queue has completed (a transfer: has been issued), and after everything its edges name has completed;
//! transfers of one engine complete in order. If these orders form a cycle, none of its instructions ever starts. The queues
//! are the simulator's: one per engine, transfers without an engine belong to SP.
//!
//! May miss: cycles through the other core (see the check of orders). Reports falsely: no, for these queues.

use crate::Cx;
use crate::meet;
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::verify::effective_engine;
use tandem_bir::{BlockId, EngineKind, FuncId, InstId, Level, Module, Opcode};

/// In-order queues of a core.
const QUEUES: usize = 5;

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    if cx.program.level != Level::Lowered {
        return;
    }
    for m in &cx.program.modules {
        for (f, b) in meet::blocks(m) {
            for segment in m.blocks[b].insts.split(|i| is_control(m.insts[*i].opcode)) {
                one(cx, m, (f, b), segment, found);
            }
        }
    }
}

fn is_control(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::CompareAndBranch
            | Opcode::UnconditionalBranch
            | Opcode::Return
            | Opcode::Exit
            | Opcode::Break
            | Opcode::Call
            | Opcode::CoreBarrier
            | Opcode::Loop
            | Opcode::DynamicForLoop
            | Opcode::DoWhile
    )
}

/// Queue of an instruction; `None` for one that sits in all of them.
fn queue(m: &Module, i: InstId) -> Option<usize> {
    match effective_engine(&m.insts[i]) {
        EngineKind::Pe => Some(0),
        EngineKind::Activation => Some(1),
        EngineKind::Dve => Some(2),
        EngineKind::Pool | EngineKind::Unassigned => Some(3),
        EngineKind::Sp | EngineKind::Dma => Some(4),
        EngineKind::All => None,
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
        let own = queue(m, i);
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
        let why = if m.insts[*id].deps.iter().any(|d| d.inst == next) { "an edge" } else { "its queue" };
        let site: Site = meet::inst_site(cx.program, m, at.0, at.1, *id);
        d = d.site(site.label(format!(
            "{} waits for `{}` by {why}",
            effective_engine(&m.insts[*id]),
            m.insts[next].name
        )));
    }
    found.push(d.help("an edge that points forward in a queue can never be met: reorder, or drop it"));
}
