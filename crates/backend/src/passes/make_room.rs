//! Moves instructions inside their blocks until what is alive at one time fits.
//!
//! Kernels of loops written out load everything first, or keep all products of a loop before the first is read; in the order of
//! their text they need more than SBUF or PSUM holds. The vendor's compiler orders instructions itself before it places tensors (what
//! it does is not documented, so this is our choice). Here the text's order stands, and only where placement fails:
//! at the first place with too many bytes alive, either the uses of a tensor that come later move up to that place, or what fills it moves
//! down to its first use; whichever sets free the most bytes for the longest time.
//!
//! Every order that dependency edges demand is kept ([`super::build_deps`]: bytes, registers, hidden state of the engines, fences), and
//! nothing moves across a fence or a meeting of the cores. So the results are the same bytes; the predicted time is that of
//! the new order.

use super::allocate::rounded;
use super::build_deps::{self, is_fence};
use super::by_life::aliased;
use super::lifetimes::{Life, lifetimes};
use super::spill::{self, Part, Spill};
use crate::edit::is_meeting_point;
use crate::storage::{Access, for_each_access, for_each_location};
use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use std::cell::Cell;
use std::cmp::Reverse;
use std::ops::Range;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::{BlockId, CompactString, Inst, InstId, MemLocId, MemoryType, Module, Program};

/// Bytes that may be alive at one time, by memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) sbuf: u64,
    pub(super) psum: u64,
    pub(super) align: u64,
}

/// Moves for each tensor of a block (our choice).
const MOVES_PER_TENSOR: usize = 4;
/// Positions looked at for all moves of a block, after which it counts as one that does not fit (our choice: a few seconds).
const MAX_WORK: u64 = 1 << 31;

/// Most pairs of a write before a gap and a use behind it (our choice); a tensor with more stays.
const MAX_PAIRS: usize = 1 << 12;

/// How tensors fit.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// New orders of blocks, by module.
    pub(super) orders: Vec<(usize, BlockId, Vec<InstId>)>,
    /// Tensors that leave SBUF for a while.
    pub(super) spills: Vec<Spill>,
}

/// A program whose instructions may move.
pub(super) struct MakeRoom {
    with_edges: Program,
    range: Range<usize>,
    elsewhere: FxHashSet<CompactString>,
}

impl MakeRoom {
    /// The cores `range` of a program.
    pub(super) fn new(p: &Program, range: Range<usize>) -> MakeRoom {
        let mut with_edges = p.clone();
        build_deps::build(&mut with_edges);
        let elsewhere = aliased(p, range.clone());
        MakeRoom { with_edges, range, elsewhere }
    }

    /// Goes on from these orders.
    pub(super) fn take(&mut self, orders: &[(usize, BlockId, Vec<InstId>)]) {
        for (mi, b, insts) in orders {
            self.with_edges.modules[*mi].blocks[*b].insts.clone_from(insts);
        }
    }

    /// What to do to hold the budget, with tensors that leave SBUF if `may_spill`; `None` when nothing is left that helps.
    pub(super) fn plan(&self, budget: Budget, may_spill: bool) -> Option<Plan> {
        let mut plan = Plan::default();
        for mi in self.range.clone() {
            let m = &self.with_edges.modules[mi];
            let lives = lifetimes(m, &self.elsewhere);
            let mut at = SecondaryMap::<InstId, u32>::default();
            at.resize(m.insts.len());
            let walk = m.walk();
            walk.iter().enumerate().for_each(|(n, w)| at[w.2] = n as u32);
            let mut blocks: Vec<BlockId> = walk.iter().map(|w| w.1).collect();
            blocks.dedup();
            let mut seen = FxHashSet::default();
            let written = if may_spill { Some(spill::written(m)) } else { None };
            for b in blocks.into_iter().filter(|b| seen.insert(*b)) {
                let insts = &m.blocks[b].insts;
                let mut body = Body::new(m, insts, &lives, &at, budget, written.as_ref());
                if !body.fit([budget.sbuf, budget.psum])? {
                    continue;
                }
                plan.spills.extend(body.spills(mi));
                plan.orders.push((mi, b, body.order));
            }
        }
        Some(plan)
    }
}

/// A tensor as a block sees it.
struct Tensor {
    loc: MemLocId,
    bytes: u64,
    mem: usize,
    /// The instructions of the block that name it, in order.
    uses: Vec<InstId>,
    /// Those that write it.
    writes: Vec<InstId>,
    /// It may leave SBUF between two uses.
    may_spill: bool,
    /// A part behind a gap of another one, and the part behind its own gap.
    is_part: bool,
    next: Option<usize>,
    /// Alive when the block starts, or when it ends.
    before: bool,
    after: bool,
    /// First and last position in the block where it is alive.
    life: (usize, usize),
}

impl Tensor {
    /// First and last place of its life, when `uses` are its first and last use: the ends of the block where it lives beyond them.
    fn span(&self, uses: Option<(usize, usize)>, end: usize) -> (usize, usize) {
        let (first, last) = uses.unwrap_or((0, end));
        (if self.before { 0 } else { first }, if self.after { end } else { last })
    }
}

/// A block whose instructions may move.
struct Body<'a> {
    m: &'a Module,
    order: Vec<InstId>,
    /// Positions in `order`.
    pos: SecondaryMap<InstId, usize>,
    /// What must stand behind an instruction, by its edges and by `behind`.
    after: SecondaryMap<InstId, Vec<InstId>>,
    /// Writes before a gap, by the uses behind it.
    behind: SecondaryMap<InstId, Vec<InstId>>,
    tensors: Vec<Tensor>,
    /// Tensors an instruction names.
    names: SecondaryMap<InstId, Vec<usize>>,
    /// Instructions of a block are neighbours in the program, so lives can be told by positions in it.
    simple: bool,
    /// Positions looked at.
    work: Cell<u64>,
    /// Locations that are written, when tensors may leave SBUF.
    written: Option<&'a FxHashSet<MemLocId>>,
}

/// Not in this block.
const ELSEWHERE: usize = usize::MAX;

/// The two memories, as indices.
const SBUF: usize = 0;
const PSUM: usize = 1;

/// Bytes alive by memory: at each instruction, and both before and after the gap in front of it.
struct Alive {
    now: [Vec<u64>; 2],
    across: [Vec<u64>; 2],
}

/// A set of instructions, in order, that moves to stand before position `to`.
struct Move {
    insts: Vec<InstId>,
    to: usize,
    /// Preferred kind, what it takes away of what is too much, few instructions.
    score: (bool, u128, Reverse<usize>),
}

impl<'a> Body<'a> {
    fn new(
        m: &'a Module,
        insts: &[InstId],
        lives: &SecondaryMap<MemLocId, Life>,
        at: &SecondaryMap<InstId, u32>,
        budget: Budget,
        written: Option<&'a FxHashSet<MemLocId>>,
    ) -> Body<'a> {
        let start = insts.first().map_or(0, |i| at[*i] as usize);
        let simple = insts.iter().enumerate().all(|(k, i)| at[*i] as usize == start + k);
        let mut body = Body {
            m,
            order: insts.to_vec(),
            pos: SecondaryMap::with_default(ELSEWHERE),
            after: SecondaryMap::default(),
            behind: SecondaryMap::default(),
            tensors: Vec::new(),
            names: SecondaryMap::default(),
            simple,
            work: Cell::new(0),
            written,
        };
        body.pos.resize(m.insts.len());
        body.after.resize(m.insts.len());
        body.behind.resize(m.insts.len());
        body.names.resize(m.insts.len());
        body.number();
        for &i in insts {
            for d in &m.insts[i].deps {
                if body.pos[d.inst] != ELSEWHERE {
                    body.after[d.inst].push(i);
                }
            }
        }
        let mut uses: IndexMap<MemLocId, [Vec<InstId>; 2]> = IndexMap::new();
        for &i in insts {
            for_each_location(m, &m.insts[i], &mut |l, write| {
                let [all, writes] = uses.entry(l).or_default();
                for list in [Some(all), write.then_some(writes)].into_iter().flatten() {
                    if list.last() != Some(&i) {
                        list.push(i);
                    }
                }
            });
        }
        for (l, loc) in m.memlocs.iter() {
            let mem = match loc.mem {
                MemoryType::Sb => SBUF,
                MemoryType::Psum => PSUM,
                MemoryType::Unallocated
                | MemoryType::Input
                | MemoryType::Output
                | MemoryType::Dram
                | MemoryType::RngState
                | MemoryType::Reg => continue,
            };
            let (first, last) = (lives[l].first() as usize, lives[l].last() as usize);
            if loc.is_remote() || insts.is_empty() || last < start || first >= start + insts.len() {
                continue;
            }
            let [mine, writes] = uses.swap_remove(&l).unwrap_or_default();
            let t = body.tensors.len();
            mine.iter().for_each(|i| body.names[*i].push(t));
            body.tensors.push(Tensor {
                loc: l,
                bytes: rounded(loc.row_bytes(), budget.align),
                mem,
                may_spill: written.is_some()
                    && spill::may_spill(m, l)
                    && mine.iter().all(|i| may_part(&m.insts[*i])),
                is_part: false,
                next: None,
                writes,
                before: mine.first().is_none_or(|i| at[*i] as usize != first),
                after: mine.last().is_none_or(|i| at[*i] as usize != last),
                life: (0, 0),
                uses: mine,
            });
        }
        body.number();
        body
    }

    /// Positions and lives after the order has changed.
    fn number(&mut self) {
        for (k, i) in self.order.iter().enumerate() {
            self.pos[*i] = k;
        }
        let end = self.order.len().saturating_sub(1);
        for t in &mut self.tensors {
            let uses = t.uses.first().zip(t.uses.last()).map(|(a, b)| (self.pos[*a], self.pos[*b]));
            t.life = t.span(uses, end);
        }
    }

    /// Moves until both budgets hold. Whether anything moved; `None` when it cannot be done.
    fn fit(&mut self, limits: [u64; 2]) -> Option<bool> {
        let mut moved = false;
        for _ in 0..=self.tensors.len().saturating_mul(MOVES_PER_TENSOR) {
            self.looked_at(self.order.len() + self.tensors.len());
            let alive = self.alive();
            let over = |mem: usize| alive.now[mem].iter().position(|n| *n > limits[mem]).map(|at| (mem, at));
            let Some((mem, at)) = over(PSUM).or_else(|| over(SBUF)) else { return Some(moved) };
            match self.best(mem, at, &alive, limits) {
                Some(best) => self.apply(&best),
                None => self.part(mem, at, &alive, limits[mem])?,
            }
            moved = true;
        }
        None
    }

    fn looked_at(&self, positions: usize) {
        self.work.set(self.work.get().saturating_add(positions as u64));
    }

    /// What is alive where.
    fn alive(&self) -> Alive {
        let n = self.order.len();
        let mut change = [vec![(0u64, 0u64); n + 1], vec![(0u64, 0u64); n + 1]];
        for t in &self.tensors {
            change[t.mem][t.life.0].0 += t.bytes;
            change[t.mem][t.life.1 + 1].1 += t.bytes;
        }
        let mut out = Alive { now: [vec![0; n], vec![0; n]], across: [vec![0; n], vec![0; n]] };
        for (mem, change) in change.iter().enumerate() {
            let mut alive = 0u64;
            for (k, (more, less)) in change.iter().take(n).enumerate() {
                out.across[mem][k] = alive - less;
                alive = alive - less + more;
                out.now[mem][k] = alive;
            }
        }
        out
    }

    /// The move that takes away the most of what is too much.
    fn best(&self, mem: usize, at: usize, alive: &Alive, limits: [u64; 2]) -> Option<Move> {
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
    fn up(&self, t: &Tensor, at: usize, walls: &[u32]) -> Option<(Vec<InstId>, usize)> {
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
    fn down(&self, t: &Tensor, at: usize, walls: &[u32]) -> Option<(Vec<InstId>, usize)> {
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
    fn relief(
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

    fn apply(&mut self, m: &Move) {
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

    /// The tensor leaves SBUF whose absence around `at` sets free the most of what is too much for each byte that is copied; `None`
    /// when none may.
    fn part(&mut self, mem: usize, at: usize, alive: &Alive, limit: u64) -> Option<()> {
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
    fn spills(&self, module: usize) -> Vec<Spill> {
        let roots = self.tensors.iter().filter(|t| !t.is_part && t.next.is_some());
        let parts = |t: &Tensor| {
            let chain = std::iter::successors(Some(t), |t| t.next.map(|n| &self.tensors[n]));
            chain.map(|t| Part { uses: t.uses.clone(), writes: t.writes.clone() }).collect()
        };
        roots.map(|t| Spill { module, tensor: t.loc, parts: parts(t) }).collect()
    }
}

/// An operand of the instruction may get another name: all of them are patterns, and no other core looks at them.
fn may_part(i: &Inst) -> bool {
    let mut patterns = true;
    for_each_access(i, &mut |a, _| patterns &= !matches!(a, Access::Set(_)));
    patterns && !is_fence(i) && !is_meeting_point(i.opcode) && i.regions().is_empty()
}
