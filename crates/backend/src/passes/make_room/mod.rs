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

mod body;
mod moves;
mod parts;

use super::build_deps;
use super::by_life::aliased;
use super::lifetimes::lifetimes;
use super::spill::{self, Spill};
use body::Body;
use rustc_hash::FxHashSet;
use std::ops::Range;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::{BlockId, CompactString, InstId, Program};

/// Bytes that may be alive at one time, by memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) sbuf: u64,
    pub(super) psum: u64,
    pub(super) align: u64,
}

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
    /// Names of the tensors that some core writes.
    pub(super) written: FxHashSet<CompactString>,
}

impl MakeRoom {
    /// The cores `range` of a program.
    pub(super) fn new(p: &Program, range: Range<usize>) -> MakeRoom {
        let mut with_edges = p.clone();
        build_deps::build(&mut with_edges);
        let elsewhere = aliased(p, range.clone());
        let written = spill::written(&p.modules[range.clone()]);
        MakeRoom { with_edges, range, elsewhere, written }
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
            let written = may_spill.then_some(&self.written);
            for b in blocks.into_iter().filter(|b| seen.insert(*b)) {
                let insts = &m.blocks[b].insts;
                let mut body = Body::new(m, insts, &lives, &at, budget, written);
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
