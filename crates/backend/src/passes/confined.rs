//! Whether the values of a tensor stay inside one run of a block: nothing in it is read before it is written again.
//!
//! Such a tensor holds nothing between two rounds of a loop around the block, so it is alive from its first access to its last
//! only. Judged by bytes: a read needs writes before it that certainly store all of its bounding rectangle. In PSUM every product
//! must also be read after it, since a product onto bytes that nothing has read adds up (the specification, file 09 §6.14).

use crate::storage::{Access, for_each_access};
use smallvec::SmallVec;
use tandem_bir::analysis::footprint::{Footprint, StorageMap};
use tandem_bir::enums::{AluOp, CopyMode};
use tandem_bir::inst::table::AUTO_ACCUMULATION;
use tandem_bir::inst::{Effects, Family};
use tandem_bir::{Attr, Inst, InstId, MemLocId, MemoryType, Module, Opcode};

/// Most rectangles kept for one tensor (our choice); more count as not confined.
const MAX_RECTS: usize = 256;

/// Partitions `[p, q)`, bytes `[lo, hi)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rect {
    p: i64,
    q: i64,
    lo: i64,
    hi: i64,
}

impl Rect {
    /// The bounding rectangle of a footprint.
    fn around(f: &Footprint) -> Rect {
        Rect { p: f.partition, q: f.last_partition().saturating_add(1), lo: f.low, hi: f.high }
    }

    /// What of `self` lies outside `cut`, in disjoint rectangles.
    fn without(self, cut: Rect, out: &mut Vec<Rect>) {
        if self.q <= cut.p || cut.q <= self.p || self.hi <= cut.lo || cut.hi <= self.lo {
            out.push(self);
            return;
        }
        let (p, q) = (self.p.max(cut.p), self.q.min(cut.q));
        for (a, b) in [(self.p, p), (q, self.q)] {
            if a < b {
                out.push(Rect { p: a, q: b, ..self });
            }
        }
        for (lo, hi) in [(self.lo, self.lo.max(cut.lo)), (self.hi.min(cut.hi), self.hi)] {
            if lo < hi {
                out.push(Rect { p, q, lo, hi });
            }
        }
    }
}

/// A set of cells as rectangles.
#[derive(Debug, Default)]
struct Cells(Vec<Rect>);

impl Cells {
    fn remove(&mut self, cut: Rect) {
        let mut out = Vec::with_capacity(self.0.len());
        self.0.iter().for_each(|r| r.without(cut, &mut out));
        self.0 = out;
    }
    fn covers(&self, r: Rect) -> bool {
        let mut left = Cells(vec![r]);
        for &w in &self.0 {
            left.remove(w);
            if left.0.is_empty() {
                return true;
            }
        }
        left.0.is_empty()
    }
}

/// The instruction stores every byte of its outputs.
fn stores_all(i: &Inst, psum: bool) -> bool {
    // Where an index out of range is skipped, its part of the output stays.
    let fixed =
        i.ins.iter().all(|o| o.as_ap().is_none_or(|a| a.is_static())) && i.indirection_ins().is_empty();
    if !fixed && !i.get_bool(Attr::OobIsErr) {
        return false;
    }
    if !i.spec().effects.has(Effects::READS_OUT) {
        return true;
    }
    match i.opcode {
        Opcode::DmaCopy => {
            let copies = matches!(i.get_enum(Attr::Mode), None | Some(CopyMode::Copy | CopyMode::Transpose));
            let alone = matches!(i.get_enum(Attr::CceOp), None | Some(AluOp::Bypass));
            copies && alone
        }
        _ => {
            let flags = i.get_int(Attr::AccumulationFlag).unwrap_or(AUTO_ACCUMULATION);
            psum && i.spec().family == Family::Matmul && (flags == 0 || flags & AUTO_ACCUMULATION != 0)
        }
    }
}

/// Nothing in `l` is carried from one run of these instructions (all that name it, of one block, in order) to the next.
pub(super) fn confined(m: &Module, storage: &StorageMap, insts: &[InstId], l: MemLocId) -> bool {
    let psum = m.memlocs.get(l).is_some_and(|x| x.mem == MemoryType::Psum);
    let (mut written, mut open) = (Cells::default(), Cells::default());
    for &id in insts {
        let i = &m.insts[id];
        let (mut reads, mut writes) = (SmallVec::<[Footprint; 2]>::new(), SmallVec::<[Footprint; 2]>::new());
        let mut known = true;
        for_each_access(i, &mut |a, w| match a {
            Access::Ap(ap) if ap.loc == l => {
                let f = storage.footprint(m, ap);
                if w { writes.push(f) } else { reads.push(f) }
            }
            Access::Set(s) => known &= !m.sets.get(s).is_some_and(|s| s.locs.contains(&l)),
            Access::Ap(_) | Access::Reg(_) => {}
        });
        let all = stores_all(i, psum);
        if !known || i.spec().effects.has(Effects::REGIONS) {
            return false;
        }
        let read_too: &[Footprint] = if all { &[] } else { &writes };
        for f in reads.iter().chain(read_too) {
            if !written.covers(Rect::around(f)) {
                return false;
            }
            if f.exact && f.is_dense() {
                open.remove(Rect::around(f));
            }
        }
        for f in &writes {
            let r = Rect::around(f);
            if psum && i.spec().family == Family::Matmul {
                open.remove(r);
                open.0.push(r);
            }
            if all && f.exact && f.is_dense() && !written.covers(r) {
                written.0.push(r);
            }
        }
        if written.0.len().max(open.0.len()) > MAX_RECTS {
            return false;
        }
    }
    open.0.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{Cells, Rect};

    #[test]
    fn cells_agree_with_a_grid() {
        let mut seed = 9u64;
        let mut rnd = |n: i64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as i64 % n
        };
        for _ in 0..400 {
            let mut rect = || {
                let (p, lo) = (rnd(6), rnd(6));
                Rect { p, q: p + 1 + rnd(6 - p), lo, hi: lo + 1 + rnd(6 - lo) }
            };
            let rects: Vec<Rect> = (0..5).map(|_| rect()).collect();
            let inside = |r: &Rect, p: i64, b: i64| r.p <= p && p < r.q && r.lo <= b && b < r.hi;
            let (last, first) = (rects[4], Cells(rects[..4].to_vec()));
            let cells = || (0..6).flat_map(|p| (0..6).map(move |b| (p, b)));
            let want = cells()
                .filter(|&(p, b)| inside(&last, p, b))
                .all(|(p, b)| rects[..4].iter().any(|r| inside(r, p, b)));
            assert_eq!(first.covers(last), want, "{rects:?}");
            let mut cut = Cells(vec![last]);
            rects[..4].iter().for_each(|r| cut.remove(*r));
            for (p, b) in cells() {
                let n = cut.0.iter().filter(|r| inside(r, p, b)).count();
                let left = inside(&last, p, b) && !rects[..4].iter().any(|r| inside(r, p, b));
                assert_eq!(n, usize::from(left), "{rects:?}");
            }
        }
    }
}
