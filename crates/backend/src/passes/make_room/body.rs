//! A block whose instructions may move: its tensors, and what is alive where.

use super::super::allocate::rounded;
use super::super::lifetimes::Life;
use super::super::spill;
use super::Budget;
use super::parts::may_part;
use crate::storage::for_each_location;
use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use std::cell::Cell;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::{CompactString, InstId, MemLocId, MemoryType, Module};

/// Moves for each tensor of a block (our choice).
const MOVES_PER_TENSOR: usize = 4;

/// A tensor as a block sees it.
pub(super) struct Tensor {
    pub(super) loc: MemLocId,
    pub(super) bytes: u64,
    pub(super) mem: usize,
    /// The instructions of the block that name it, in order.
    pub(super) uses: Vec<InstId>,
    /// Those that write it.
    pub(super) writes: Vec<InstId>,
    /// It may leave SBUF between two uses.
    pub(super) may_spill: bool,
    /// A part behind a gap of another one, and the part behind its own gap.
    pub(super) is_part: bool,
    pub(super) next: Option<usize>,
    /// Alive when the block starts, or when it ends.
    pub(super) before: bool,
    pub(super) after: bool,
    /// First and last position in the block where it is alive.
    pub(super) life: (usize, usize),
}

impl Tensor {
    /// First and last place of its life, when `uses` are its first and last use: the ends of the block where it lives beyond them.
    pub(super) fn span(&self, uses: Option<(usize, usize)>, end: usize) -> (usize, usize) {
        let (first, last) = uses.unwrap_or((0, end));
        (if self.before { 0 } else { first }, if self.after { end } else { last })
    }
}

/// A block whose instructions may move.
pub(super) struct Body<'a> {
    pub(super) m: &'a Module,
    pub(super) order: Vec<InstId>,
    /// Positions in `order`.
    pub(super) pos: SecondaryMap<InstId, usize>,
    /// What must stand behind an instruction, by its edges and by `behind`.
    pub(super) after: SecondaryMap<InstId, Vec<InstId>>,
    /// Writes before a gap, by the uses behind it.
    pub(super) behind: SecondaryMap<InstId, Vec<InstId>>,
    pub(super) tensors: Vec<Tensor>,
    /// Tensors an instruction names.
    pub(super) names: SecondaryMap<InstId, Vec<usize>>,
    /// Instructions of a block are neighbours in the program, so lives can be told by positions in it.
    pub(super) simple: bool,
    /// Positions looked at.
    pub(super) work: Cell<u64>,
    /// Names of the tensors that some core writes, when tensors may leave SBUF.
    pub(super) written: Option<&'a FxHashSet<CompactString>>,
}

/// Not in this block.
pub(super) const ELSEWHERE: usize = usize::MAX;

/// The two memories, as indices.
pub(super) const SBUF: usize = 0;
pub(super) const PSUM: usize = 1;

/// Bytes alive by memory: at each instruction, and both before and after the gap in front of it.
pub(super) struct Alive {
    pub(super) now: [Vec<u64>; 2],
    pub(super) across: [Vec<u64>; 2],
}

impl<'a> Body<'a> {
    pub(super) fn new(
        m: &'a Module,
        insts: &[InstId],
        lives: &SecondaryMap<MemLocId, Life>,
        at: &SecondaryMap<InstId, u32>,
        budget: Budget,
        written: Option<&'a FxHashSet<CompactString>>,
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
    pub(super) fn number(&mut self) {
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
    pub(super) fn fit(&mut self, limits: [u64; 2]) -> Option<bool> {
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

    pub(super) fn looked_at(&self, positions: usize) {
        self.work.set(self.work.get().saturating_add(positions as u64));
    }

    /// What is alive where.
    pub(super) fn alive(&self) -> Alive {
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
}
