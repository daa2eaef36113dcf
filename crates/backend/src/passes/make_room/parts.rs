//! Tensors of a block that leave SBUF between two uses.

use super::super::build_deps::is_fence;
use super::super::spill::{self, Part, Spill};
use super::body::{Alive, Body, SBUF, Tensor};
use super::moves::MAX_WORK;
use crate::edit::is_meeting_point;
use crate::storage::{Access, for_each_access};
use tandem_bir::{Inst, InstId};

/// Most pairs of a write before a gap and a use behind it (our choice); a tensor with more stays.
const MAX_PAIRS: usize = 1 << 12;

impl Body<'_> {
    /// The tensor leaves SBUF whose absence around `at` sets free the most of what is too much for each byte that is copied; `None`
    /// when none may.
    pub(super) fn part(&mut self, mem: usize, at: usize, alive: &Alive, limit: u64) -> Option<()> {
        let written = self.written.filter(|_| mem == SBUF && self.simple && self.work.get() <= MAX_WORK)?;
        let mut best: Option<(u128, u128, usize, usize)> = None;
        for (k, t) in self.tensors.iter().enumerate() {
            if t.mem != SBUF || !t.may_spill || t.after || t.life.0 > at || t.life.1 < at {
                continue;
            }
            let n = t.uses.partition_point(|i| self.pos[*i] < at);
            let (Some(last), Some(next)) = (t.uses[..n].last(), t.uses.get(n)) else { continue };
            let (from, to) = (self.pos[*last] + 1, self.pos[*next]);
            let is_before = |i: &&InstId| self.pos[**i] < at;
            let writes = t.writes.iter().filter(is_before).count();
            if to == at || (writes == 0 && !t.is_part) || writes * (t.uses.len() - n) > MAX_PAIRS {
                continue;
            }
            self.looked_at(to - from);
            let free = |p: usize| u128::from(alive.now[SBUF][p].saturating_sub(limit).min(t.bytes));
            let relief: u128 = (from..to).map(free).sum();
            let stored = writes > 0 && (t.is_part || spill::load_again(self.m, written, &t.writes).is_none());
            let cost = u128::from(self.m.memlocs[t.loc].size_bytes()) * if stored { 2 } else { 1 };
            if best.is_none_or(|(r, c, ..)| relief * c > r * cost) {
                best = Some((relief, cost, k, n));
            }
        }
        let (_, _, k, n) = best?;
        let t = &mut self.tensors[k];
        let (uses, pos) = (t.uses.split_off(n), &self.pos);
        let (before, behind): (Vec<InstId>, Vec<InstId>) = t.writes.iter().partition(|i| pos[**i] < at);
        t.writes.clone_from(&before);
        let new = Tensor {
            loc: t.loc,
            bytes: t.bytes,
            mem,
            uses,
            writes: behind,
            may_spill: true,
            is_part: true,
            next: t.next,
            before: false,
            after: false,
            life: (0, 0),
        };
        let id = self.tensors.len();
        self.tensors[k].next = Some(id);
        for u in &new.uses {
            self.names[*u].iter_mut().filter(|t| **t == k).for_each(|t| *t = id);
            self.behind[*u].extend(&before);
            before.iter().for_each(|w| self.after[*w].push(*u));
        }
        self.tensors.push(new);
        self.number();
        Some(())
    }

    /// The tensors in parts.
    pub(super) fn spills(&self, module: usize) -> Vec<Spill> {
        let roots = self.tensors.iter().filter(|t| !t.is_part && t.next.is_some());
        let parts = |t: &Tensor| {
            let chain = std::iter::successors(Some(t), |t| t.next.map(|n| &self.tensors[n]));
            chain.map(|t| Part { uses: t.uses.clone(), writes: t.writes.clone() }).collect()
        };
        roots.map(|t| Spill { module, tensor: t.loc, parts: parts(t) }).collect()
    }
}

/// An operand of the instruction may get another name: all of them are patterns, and no other core looks at them.
pub(super) fn may_part(i: &Inst) -> bool {
    let mut patterns = true;
    for_each_access(i, &mut |a, _| patterns &= !matches!(a, Access::Set(_)));
    patterns && !is_fence(i) && !is_meeting_point(i.opcode) && i.regions().is_empty()
}
