//! Register numbers of a core.
//!
//! Every engine has a register file of its own, and a register has one number on all of them. As long as every register of a
//! core gets a number of its own, the numbers are those of first use. Where that is more than an engine has, numbers are
//! shared by registers that are never live at one time (linear scan over the blocks in list order, after Poletto and
//! Sarkar): a register is live on an engine from where it is written to where that engine last reads it, over all blocks
//! between; what an engine reads without having written it is live from the start. The intervals of all engines are joined, so a
//! number is free on every engine when it is given away.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tandem_bir::analysis::cfg::{Cfg, Node};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{EngineKind, Expr, FuncId, Inst, Module, Operand, RegId};

/// A register that has no number.
const NONE: u8 = u8::MAX;

/// Numbers by register; registers nobody uses get none.
///
/// # Errors
/// The most registers that are live at one time, when it is too large.
pub fn number(m: &Module, func: FuncId, used: &[EngineKind], limit: usize) -> Result<Vec<u8>, usize> {
    let mut numbers = vec![NONE; m.regs.len()];
    if numbers.is_empty() {
        return Ok(numbers);
    }
    let mut order: Vec<RegId> = Vec::new();
    let mut seen = vec![false; m.regs.len()];
    for i in super::flat(m) {
        uses(&m.insts[i], &mut |r, _| {
            if let Some(s) = seen.get_mut(r.index())
                && !std::mem::replace(s, true)
            {
                order.push(r);
            }
        });
    }
    if order.len() <= limit {
        for (n, r) in order.iter().enumerate() {
            numbers[r.index()] = n as u8;
        }
        return Ok(numbers);
    }
    let intervals = intervals(m, func, used, &order);
    scan(intervals, limit, &mut numbers)?;
    Ok(numbers)
}

/// Every register an instruction names; true for those it writes. What it reads comes first.
fn uses(i: &Inst, f: &mut dyn FnMut(RegId, bool)) {
    let address = |o: &Operand, f: &mut dyn FnMut(RegId, bool)| {
        for (_, e) in o.as_ap().and_then(|a| a.dynamic.as_ref()).iter().flat_map(|d| &d.terms) {
            e.for_each_leaf(&mut |l| {
                if let Expr::Reg(r) = l {
                    f(*r, false);
                }
            });
        }
    };
    for o in i.ins.iter().chain(i.indirection_ins()) {
        if let Operand::Reg(r) = o {
            f(r.reg, false);
        }
        address(o, f);
    }
    for o in &i.outs {
        address(o, f);
    }
    for o in &i.outs {
        if let Operand::Reg(r) = o {
            f(r.reg, true);
        }
    }
}

/// First and last place of a register, in half steps: an instruction reads before it writes.
#[derive(Clone, Copy, Debug)]
struct Interval {
    reg: RegId,
    from: u32,
    to: u32,
}

/// A set of registers by their place in the list of those in use.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(n: usize) -> Set {
        Set(vec![0; n.div_ceil(64)])
    }
    fn has(&self, k: usize) -> bool {
        self.0.get(k / 64).is_some_and(|w| w >> (k % 64) & 1 == 1)
    }
    fn add(&mut self, k: usize) {
        if let Some(w) = self.0.get_mut(k / 64) {
            *w |= 1 << (k % 64);
        }
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(n, w)| {
            let mut w = *w;
            std::iter::from_fn(move || {
                let k = (w != 0).then(|| w.trailing_zeros() as usize)?;
                w &= w - 1;
                Some(64 * n + k)
            })
        })
    }
}

fn intervals(m: &Module, func: FuncId, used: &[EngineKind], order: &[RegId]) -> Vec<Interval> {
    let at: FxHashMap<RegId, usize> = order.iter().enumerate().map(|(k, r)| (*r, k)).collect();
    let cfg = Cfg::new(m, func);
    let blocks = &m.funcs[func].blocks;
    let mut out: Vec<Interval> = order.iter().map(|r| Interval { reg: *r, from: u32::MAX, to: 0 }).collect();
    let mut cover = |k: usize, place: u32| {
        if let Some(i) = out.get_mut(k) {
            i.from = i.from.min(place);
            i.to = i.to.max(place);
        }
    };
    // places of blocks
    let mut starts = Vec::with_capacity(blocks.len() + 1);
    let mut place = 0u32;
    for b in blocks {
        starts.push(place);
        place += 2 * m.blocks[*b].insts.len() as u32 + 2;
    }
    starts.push(place);
    for e in used {
        let n = order.len();
        let own = |b: usize| {
            let list = &m.blocks[blocks[b]].insts;
            list.iter().enumerate().map(|(k, i)| (k, &m.insts[*i])).filter(|(_, i)| i.engine == *e)
        };
        // read before written, and written, per block
        let (mut reads, mut writes) = (vec![Set::new(n); blocks.len()], vec![Set::new(n); blocks.len()]);
        for b in 0..blocks.len() {
            for (k, i) in own(b) {
                uses(i, &mut |r, write| {
                    let Some(&x) = at.get(&r) else { return };
                    cover(x, starts[b] + 2 * k as u32 + u32::from(write));
                    if write {
                        writes[b].add(x);
                    } else if !writes[b].has(x) {
                        reads[b].add(x);
                    }
                });
            }
        }
        // live at the start of a block: backwards until nothing changes
        let mut live = reads;
        let mut work: Vec<Node> = (0..blocks.len() as Node).collect();
        let mut queued = vec![true; blocks.len()];
        while let Some(b) = work.pop() {
            let b = b as usize;
            queued[b] = false;
            let mut now = live[b].clone();
            for &s in cfg.successors(b as Node) {
                let Some(theirs) = live.get(s as usize) else { continue };
                for ((x, t), w) in now.0.iter_mut().zip(&theirs.0).zip(&writes[b].0) {
                    *x |= t & !w;
                }
            }
            if now != live[b] {
                live[b] = now;
                for &p in cfg.predecessors(b as Node) {
                    if let Some(q) = queued.get_mut(p as usize)
                        && !std::mem::replace(q, true)
                    {
                        work.push(p);
                    }
                }
            }
        }
        for b in 0..blocks.len() {
            for x in live[b].iter() {
                cover(x, starts[b]);
            }
            for s in cfg.successors(b as Node) {
                for x in live.get(*s as usize).iter().flat_map(|l| l.iter()) {
                    // to the end of this block
                    cover(x, starts[b + 1] - 1);
                }
            }
        }
    }
    out
}

/// Numbers in order of the intervals' starts; a number is free again behind the end of its interval.
fn scan(mut list: Vec<Interval>, limit: usize, numbers: &mut [u8]) -> Result<(), usize> {
    list.sort_by_key(|i| (i.from, i.reg.as_u32()));
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut active: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    let mut made = 0;
    for i in &list {
        while let Some(Reverse((to, n))) = active.peek().copied()
            && to < i.from
        {
            active.pop();
            free.push(Reverse(n));
        }
        let n = match free.pop() {
            Some(Reverse(n)) => n,
            None => {
                made += 1;
                made - 1
            }
        };
        active.push(Reverse((i.to, n)));
        if let Some(slot) = numbers.get_mut(i.reg.index()) {
            *slot = n.min(254) as u8;
        }
    }
    if made > limit { Err(made) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(from: u32, to: u32, r: u32) -> Interval {
        Interval { reg: RegId::from_u32(r), from, to }
    }

    #[test]
    fn numbers_are_shared_only_behind_the_end_of_an_interval() {
        let mut n = vec![NONE; 4];
        scan(vec![at(0, 4, 0), at(1, 2, 1), at(3, 9, 2), at(4, 5, 3)], 3, &mut n).expect("three are enough");
        // 2 takes the number of 1, which ended; 0 still lives where 3 begins
        assert_eq!(n, [0, 1, 1, 2]);
    }

    #[test]
    fn too_many_at_one_time_are_counted() {
        let mut n = vec![NONE; 3];
        assert_eq!(scan(vec![at(0, 9, 0), at(1, 9, 1), at(2, 9, 2)], 2, &mut n), Err(3));
    }
}
