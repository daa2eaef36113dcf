//! Moves of instructions inside a block.

use super::super::build_deps::is_fence;
use super::body::{Alive, Body, ELSEWHERE, PSUM, SBUF, Tensor};
use crate::edit::is_meeting_point;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use tandem_bir::InstId;

/// Positions looked at for all moves of a block, after which it counts as one that does not fit (our choice: a few seconds).
pub(super) const MAX_WORK: u64 = 1 << 31;

/// A set of instructions, in order, that moves to stand before position `to`.
pub(super) struct Move {
    pub(super) insts: Vec<InstId>,
    pub(super) to: usize,
    /// Preferred kind, what it takes away of what is too much, few instructions.
    pub(super) score: (bool, u128, Reverse<usize>),
}

impl Body<'_> {
    /// The move that takes away the most of what is too much.
    pub(super) fn best(&self, mem: usize, at: usize, alive: &Alive, limits: [u64; 2]) -> Option<Move> {
        if !self.simple {
            return None;
        }
        let mut walls = vec![0u32; self.order.len() + 1];
        for (k, i) in self.order.iter().enumerate() {
            let inst = &self.m.insts[*i];
            walls[k + 1] = walls[k] + u32::from(is_fence(inst) || is_meeting_point(inst.opcode));
        }
        let mut best: Option<Move> = None;
        if self.work.get() > MAX_WORK {
            return None;
        }
        for t in self.tensors.iter().filter(|t| t.mem == mem && t.life.0 <= at && at <= t.life.1) {
            let moves = [self.up(t, at, &walls), self.down(t, at, &walls)];
            for (insts, to) in moves.into_iter().flatten() {
                let Some(relief) = self.relief(mem, &insts, to, alive, limits) else { continue };
                let score = (mem == PSUM && to == at, relief, Reverse(insts.len()));
                if best.as_ref().is_none_or(|b| score > b.score) {
                    best = Some(Move { insts, to, score });
                }
            }
        }
        best
    }

    /// The uses of a tensor from `at` on move up to stand before `at`.
    pub(super) fn up(&self, t: &Tensor, at: usize, walls: &[u32]) -> Option<(Vec<InstId>, usize)> {
        if t.after {
            return None;
        }
        let insts: Vec<InstId> = t.uses.iter().copied().filter(|i| self.pos[*i] >= at).collect();
        let set: FxHashSet<InstId> = insts.iter().copied().collect();
        let (first, last) = (self.pos[*insts.first()?], self.pos[*insts.last()?]);
        let free = insts.iter().all(|i| {
            self.m.insts[*i].deps.iter().all(|d| {
                let q = self.pos[d.inst];
                q == ELSEWHERE || q < at || set.contains(&d.inst)
            }) && self.behind[*i].iter().all(|w| self.pos[*w] < at || set.contains(w))
        });
        (first > at && free && walls[last + 1] == walls[at]).then_some((insts, at))
    }

    /// What names a tensor up to `at` moves down to stand before the first instruction that needs it.
    pub(super) fn down(&self, t: &Tensor, at: usize, walls: &[u32]) -> Option<(Vec<InstId>, usize)> {
        if t.before {
            return None;
        }
        let insts: Vec<InstId> = t.uses.iter().copied().filter(|i| self.pos[*i] <= at).collect();
        let set: FxHashSet<InstId> = insts.iter().copied().collect();
        let first = self.pos[*insts.first()?];
        let needed = insts.iter().flat_map(|i| &self.after[*i]).filter(|s| !set.contains(s));
        let to = needed.map(|s| self.pos[*s]).min()?;
        (to > at && walls[to] == walls[first]).then_some((insts, to))
    }

    /// By how much a move lessens the sum of what is too much in a memory; `None` when it does not, or makes another place
    /// too full.
    pub(super) fn relief(
        &self,
        mem: usize,
        insts: &[InstId],
        to: usize,
        alive: &Alive,
        limits: [u64; 2],
    ) -> Option<u128> {
        let set: FxHashSet<InstId> = insts.iter().copied().collect();
        let (first, last) = (self.pos[*insts.first()?], self.pos[*insts.last()?]);
        let (lo, hi) = (first.min(to), (last + 1).max(to));
        self.looked_at(hi - lo + insts.len());
        let mut touched: Vec<usize> = insts.iter().flat_map(|i| self.names[*i].iter().copied()).collect();
        touched.sort_unstable();
        touched.dedup();
        let mut change = [vec![0i128; hi - lo + 1], vec![0i128; hi - lo + 1]];
        // What is alive where the instructions stand afterwards.
        let mut there = [0, 1].map(|k| alive.across[k].get(to).map_or(0, |n| i128::from(*n)));
        // Places by half positions: what stands before `k` has `2 * k`, what stands at it `2 * k + 1`.
        for t in touched.iter().map(|t| &self.tensors[*t]) {
            let place = |i: &InstId| if set.contains(i) { 2 * to } else { 2 * self.pos[*i] + 1 };
            let ends = t.uses.iter().map(place).min().zip(t.uses.iter().map(place).max());
            let (a, b) = t.span(ends, 2 * self.order.len());
            let bytes = i128::from(t.bytes);
            let mut add = |from: usize, end: usize, n: i128| {
                let (from, end) = (from.clamp(lo, hi), end.clamp(lo, hi));
                if from < end {
                    change[t.mem][from - lo] += n;
                    change[t.mem][end - lo] -= n;
                }
            };
            add(t.life.0, t.life.1 + 1, -bytes);
            add(a / 2, b.div_ceil(2), bytes);
            there[t.mem] += i128::from(a <= 2 * to && 2 * to <= b) * bytes;
            there[t.mem] -= i128::from(t.life.0 < to && to <= t.life.1) * bytes;
        }
        let mut relief = 0i128;
        for k in [SBUF, PSUM] {
            let limit = i128::from(limits[k]);
            let over = |n: i128| (n - limit).max(0);
            let mut delta = 0i128;
            for p in lo..hi {
                delta += change[k][p - lo];
                let was = i128::from(alive.now[k][p]);
                let is = if set.contains(&self.order[p]) { there[k] } else { was + delta };
                if k == PSUM && k != mem && over(is) > 0 && is > was {
                    return None;
                }
                relief += i128::from(k == mem) * (over(was) - over(is));
            }
        }
        u128::try_from(relief).ok().filter(|r| *r > 0)
    }

    pub(super) fn apply(&mut self, m: &Move) {
        let set: FxHashSet<InstId> = m.insts.iter().copied().collect();
        let stay = |part: &[InstId]| part.iter().copied().filter(|i| !set.contains(i)).collect::<Vec<_>>();
        let (head, tail) = (stay(&self.order[..m.to]), stay(&self.order[m.to..]));
        self.order = [head, m.insts.clone(), tail].concat();
        for (k, i) in self.order.iter().enumerate() {
            self.pos[*i] = k;
        }
        for t in m.insts.iter().flat_map(|i| &self.names[*i]) {
            self.tensors[*t].uses.sort_by_key(|i| self.pos[*i]);
        }
        self.number();
    }
}
