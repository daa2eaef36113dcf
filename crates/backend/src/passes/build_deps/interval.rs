//! Who last touched which bytes: per storage, strips of partitions, each an interval map over bytes.
//!
//! Work is proportional to the intervals an access touches. A write replaces what it covers, because everything before it
//! is ordered before it; long lists of readers are folded into one reader that follows the others.

use crate::storage::{Region, StorageKey};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tandem_bir::EdgeKind;

/// Readers of one interval before they are folded (our choice).
const MAX_READERS: usize = 128;

/// Position of an instruction in its block.
pub(in crate::passes) type Pos = u32;

#[derive(Clone, Debug)]
struct Seg {
    hi: u64,
    writer: Option<Pos>,
    readers: SmallVec<[Pos; 4]>,
}

/// The last writer and the readers since, of something that is touched as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    writer: Option<Pos>,
    readers: Vec<Pos>,
}

impl Cell {
    pub(super) fn read(&mut self, at: Pos, edge: &mut dyn FnMut(Pos, EdgeKind)) {
        if let Some(w) = self.writer {
            edge(w, EdgeKind::Flow);
        }
        if self.readers.len() >= MAX_READERS {
            self.readers.drain(..).for_each(|r| edge(r, EdgeKind::Ordered));
        }
        self.readers.push(at);
    }
    pub(super) fn write(&mut self, at: Pos, edge: &mut dyn FnMut(Pos, EdgeKind)) {
        if let Some(w) = self.writer {
            edge(w, EdgeKind::Output);
        }
        self.readers.drain(..).for_each(|r| edge(r, EdgeKind::Anti));
        self.writer = Some(at);
    }
}

#[derive(Clone, Debug)]
struct Strip {
    part_lo: u32,
    part_hi: u32,
    segs: BTreeMap<u64, Seg>,
}

impl Strip {
    /// Makes `at` a border if it lies inside a segment.
    fn split(&mut self, at: u64) {
        let Some((&lo, seg)) = self.segs.range_mut(..at).next_back() else { return };
        if seg.hi <= at || lo >= at {
            return;
        }
        let right = seg.clone();
        seg.hi = at;
        self.segs.insert(at, right);
    }
    fn read(&mut self, lo: u64, hi: u64, at: Pos, edge: &mut dyn FnMut(Pos, EdgeKind)) {
        self.split(lo);
        self.split(hi);
        let mut gaps: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        let mut cursor = lo;
        for (&l, seg) in self.segs.range_mut(lo..hi) {
            if cursor < l {
                gaps.push((cursor, l));
            }
            cursor = seg.hi;
            if let Some(w) = seg.writer {
                edge(w, EdgeKind::Flow);
            }
            if seg.readers.len() >= MAX_READERS {
                seg.readers.drain(..).for_each(|r| edge(r, EdgeKind::Ordered));
            }
            if seg.readers.last() != Some(&at) {
                seg.readers.push(at);
            }
        }
        if cursor < hi {
            gaps.push((cursor, hi));
        }
        for (l, h) in gaps {
            let seg = Seg { hi: h, writer: None, readers: SmallVec::from_slice(&[at]) };
            self.segs.insert(l, seg);
        }
    }
    fn write(&mut self, lo: u64, hi: u64, at: Pos, edge: &mut dyn FnMut(Pos, EdgeKind)) {
        self.split(lo);
        self.split(hi);
        while let Some((&l, _)) = self.segs.range(lo..hi).next() {
            if let Some(seg) = self.segs.remove(&l) {
                if let Some(w) = seg.writer {
                    edge(w, EdgeKind::Output);
                }
                seg.readers.iter().for_each(|r| edge(*r, EdgeKind::Anti));
            }
        }
        self.segs.insert(lo, Seg { hi, writer: Some(at), readers: SmallVec::new() });
    }
}

/// All storages of one block.
#[derive(Debug, Default)]
pub(in crate::passes) struct Touched {
    storages: FxHashMap<StorageKey, Vec<Strip>>,
}

impl Touched {
    pub(in crate::passes) fn clear(&mut self) {
        self.storages.clear();
    }
    /// Position of the last access that meets a rectangle: the last write, or with `reads` also what was read since.
    pub(in crate::passes) fn latest(&self, r: &Region, reads: bool) -> Option<Pos> {
        let strips = self.storages.get(&r.key)?;
        let first = strips.partition_point(|s| s.part_hi <= r.part_lo);
        let mut latest = None;
        for s in strips.get(first..)?.iter().take_while(|s| s.part_lo < r.part_hi) {
            // the segment before may reach into the rectangle
            let before = s.segs.range(..r.lo).next_back().filter(|(_, seg)| seg.hi > r.lo);
            for (_, seg) in before.into_iter().chain(s.segs.range(r.lo..r.hi)) {
                let read = if reads { seg.readers.last().copied() } else { None };
                latest = latest.max(seg.writer).max(read);
            }
        }
        latest
    }
    /// Records an access and reports the edges it needs.
    pub(in crate::passes) fn access(
        &mut self,
        r: &Region,
        write: bool,
        at: Pos,
        edge: &mut dyn FnMut(Pos, EdgeKind),
    ) {
        if r.lo >= r.hi || r.part_lo >= r.part_hi {
            return;
        }
        let strips = self.storages.entry(r.key).or_default();
        cover(strips, r.part_lo, r.part_hi);
        let first = strips.partition_point(|s| s.part_hi <= r.part_lo);
        for s in &mut strips[first..] {
            if s.part_lo >= r.part_hi {
                break;
            }
            if write {
                s.write(r.lo, r.hi, at, edge);
            } else {
                s.read(r.lo, r.hi, at, edge);
            }
        }
    }
}

/// Makes `lo` and `hi` borders of strips and fills holes in between; strips stay sorted and disjoint.
fn cover(strips: &mut Vec<Strip>, lo: u32, hi: u32) {
    for at in [lo, hi] {
        let k = strips.partition_point(|s| s.part_hi <= at);
        if let Some(s) = strips.get_mut(k)
            && s.part_lo < at
        {
            let mut right = s.clone();
            s.part_hi = at;
            right.part_lo = at;
            strips.insert(k + 1, right);
        }
    }
    let mut k = strips.partition_point(|s| s.part_hi <= lo);
    let mut cursor = lo;
    while cursor < hi {
        let next = strips.get(k).map_or(hi, |s| s.part_lo.min(hi));
        if cursor < next {
            strips.insert(k, Strip { part_lo: cursor, part_hi: next, segs: BTreeMap::new() });
            cursor = next;
            k += 1;
        } else if let Some(s) = strips.get(k) {
            cursor = s.part_hi;
            k += 1;
        } else {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(accesses: &[(u32, u32, u64, u64, bool)]) -> Vec<(u32, u32, EdgeKind)> {
        let mut t = Touched::default();
        let mut out = Vec::new();
        for (i, &(p0, p1, lo, hi, w)) in accesses.iter().enumerate() {
            let r = Region { key: StorageKey::Sb(0), part_lo: p0, part_hi: p1, lo, hi };
            t.access(&r, w, i as u32, &mut |from, k| {
                if from != i as u32 {
                    out.push((from, i as u32, k));
                }
            });
        }
        out.sort();
        out.dedup();
        out
    }

    #[test]
    fn kinds_of_edges() {
        let e = run(&[
            (0, 128, 0, 64, true),
            (0, 128, 0, 64, false),
            (0, 128, 32, 96, true),
            (0, 128, 0, 96, false),
        ]);
        assert_eq!(
            e,
            vec![
                (0, 1, EdgeKind::Flow),
                (0, 2, EdgeKind::Output),
                (0, 3, EdgeKind::Flow),
                (1, 2, EdgeKind::Anti),
                (2, 3, EdgeKind::Flow)
            ]
        );
    }

    #[test]
    fn disjoint_partitions_and_bytes_are_independent() {
        assert_eq!(run(&[(0, 64, 0, 64, true), (64, 128, 0, 64, true), (0, 128, 64, 128, true)]), vec![]);
        assert_eq!(
            run(&[(0, 64, 0, 64, true), (64, 128, 0, 64, true), (32, 96, 8, 16, true)]),
            vec![(0, 2, EdgeKind::Output), (1, 2, EdgeKind::Output)]
        );
    }

    /// Against a bitmap of 8 x 16 cells: the transitive closure of the edges orders every conflicting pair.
    #[test]
    fn closure_equals_the_conflicts_of_a_bitmap() {
        let mut seed = 0x1234_5678_9abc_def1u64;
        let mut rnd = move |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        for _ in 0..300 {
            let acc: Vec<(u32, u32, u64, u64, bool)> = (0..24)
                .map(|_| {
                    let p0 = rnd(8) as u32;
                    let p1 = p0 + 1 + rnd(u64::from(8 - p0)) as u32;
                    let lo = rnd(16);
                    (p0, p1, lo, lo + 1 + rnd(16 - lo), rnd(2) == 0)
                })
                .collect();
            let n = acc.len();
            let mut reach = vec![vec![false; n]; n];
            for (a, b, _) in run(&acc) {
                assert!(a < b);
                reach[a as usize][b as usize] = true;
            }
            for k in 0..n {
                for i in 0..n {
                    for j in 0..n {
                        reach[i][j] |= reach[i][k] && reach[k][j];
                    }
                }
            }
            for i in 0..n {
                for j in i + 1..n {
                    let (a, b) = (acc[i], acc[j]);
                    let meet = a.0 < b.1 && b.0 < a.1 && a.2 < b.3 && b.2 < a.3;
                    assert!(!(meet && (a.4 || b.4)) || reach[i][j], "{a:?} {b:?}");
                }
            }
        }
    }
}
