//! Edges that lead forward: an instruction may wait for one that stands later in its block, on another engine.
//!
//! Such a block is written in an order in which every edge leads back, without changing the order on any engine, around
//! barriers or before the end of the block; the streams stay what they were, and semaphores are counted in that order. Where
//! no order exists, queues wait for each other in a circle: the program hangs at every level.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{BlockId, EngineKind, InstId, Module, Opcode, Program};

/// Orders the blocks of a core; C0405 where there is no order.
pub fn edges_lead_back(program: &Program, m: &mut Module, blocks: &[BlockId], diags: &mut Vec<Diagnostic>) {
    let mut places = Places { of: vec![0; m.insts.len()], first: 1 };
    for &b in blocks {
        let list = &m.blocks[b].insts;
        for (k, i) in list.iter().enumerate() {
            if let Some(p) = places.of.get_mut(i.index()) {
                *p = places.first + k as u32;
            }
        }
        let back =
            |k: usize, i: &InstId| m.insts[*i].deps.iter().all(|d| places.get(d.inst).is_none_or(|p| p < k));
        let sound = list.iter().enumerate().all(|(k, i)| back(k, i));
        let order = if sound { None } else { Some(sorted(m, list, &places)) };
        places.first += list.len() as u32;
        match order {
            None => {}
            Some(Ok(order)) => m.blocks[b].insts = order,
            Some(Err(i)) => diags.push(
                Diagnostic::new(codes::C0405, "the queues of a core wait for each other")
                    .inst(program, m, i)
                    .note("following edges and the order of the engines leads back to this instruction"),
            ),
        }
    }
}

/// Places of instructions in the block at hand: what an earlier block left is below its first.
struct Places {
    of: Vec<u32>,
    first: u32,
}

impl Places {
    fn get(&self, i: InstId) -> Option<usize> {
        self.of.get(i.index())?.checked_sub(self.first).map(|k| k as usize)
    }
}

/// The list in an order in which edges lead back, or an instruction that can never start.
fn sorted(m: &Module, list: &[InstId], at: &Places) -> Result<Vec<InstId>, InstId> {
    let fence = |i: InstId| {
        let op = m.insts[i].opcode;
        matches!(op, Opcode::CoreBarrier | Opcode::AllEngineBarrier) || op.is_terminator()
    };
    let mut out = Vec::with_capacity(list.len());
    let mut from = 0;
    while from < list.len() {
        if fence(list[from]) {
            out.push(list[from]);
            from += 1;
            continue;
        }
        let to = (from..list.len()).find(|k| fence(list[*k])).unwrap_or(list.len());
        let mut pending = vec![0u32; to - from];
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); to - from];
        let mut last: FxHashMap<EngineKind, usize> = FxHashMap::default();
        for (k, i) in list[from..to].iter().enumerate() {
            let before = m.insts[*i].deps.iter().filter_map(|d| at.get(d.inst));
            for p in before {
                if p >= to || p == from + k {
                    return Err(*i);
                }
                if p >= from {
                    after[p - from].push(k);
                    pending[k] += 1;
                }
            }
            if let Some(p) = last.insert(m.insts[*i].engine, k) {
                after[p].push(k);
                pending[k] += 1;
            }
        }
        let mut heap: BinaryHeap<Reverse<usize>> =
            (0..to - from).filter(|k| pending[*k] == 0).map(Reverse).collect();
        let start = out.len();
        while let Some(Reverse(k)) = heap.pop() {
            out.push(list[from + k]);
            for &n in &after[k] {
                pending[n] -= 1;
                if pending[n] == 0 {
                    heap.push(Reverse(n));
                }
            }
        }
        if out.len() - start < to - from {
            let k = pending.iter().position(|p| *p > 0).unwrap_or(0);
            return Err(list[from + k]);
        }
        from = to;
    }
    Ok(out)
}
