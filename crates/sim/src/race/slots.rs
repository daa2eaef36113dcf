//! Slots: every distinct footprint once, with its last accesses, found by the pages of its bytes.

use super::{Access, Race, Role};
use crate::memory::View;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tandem_bir::analysis::footprint::{Footprint, Space, overlaps};

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    buf: u32,
    base: usize,
    size: u8,
    dims: SmallVec<[(isize, usize); 4]>,
}

/// A footprint and what was done to it.
pub(super) struct Slot {
    pub(super) buf: u32,
    pub(super) fp: Footprint,
    /// Slots that overlap, itself included.
    pub(super) near: Vec<u32>,
    pub(super) write: Option<Access>,
    /// Writes that nothing orders with another core's and that stored what was there, the last of each thread.
    pub(super) silent: SmallVec<[Access; 1]>,
    /// Reads since the last write.
    pub(super) reads: SmallVec<[Access; 2]>,
    /// Reads from before it, the last of each thread.
    pub(super) old_reads: SmallVec<[Access; 1]>,
}

impl Slot {
    /// All writes that count.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Access> {
        self.write.iter().chain(&self.silent)
    }
    /// A write that changes bytes takes the place of everything before it.
    pub(super) fn replace(&mut self, me: Access) {
        for r in std::mem::take(&mut self.reads) {
            last_of_thread(&mut self.old_reads, r);
        }
        self.silent.clear();
        self.write = Some(me);
    }
}

/// Keeps the last access of each thread.
pub(super) fn last_of_thread(list: &mut SmallVec<[Access; 1]>, a: Access) {
    match list.iter_mut().find(|o| o.thread == a.thread) {
        Some(o) => *o = a,
        None => list.push(a),
    }
}

/// Slots of one buffer by pages of their bytes.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) pitch: Option<usize>,
    pub(super) lists: FxHashMap<i64, Vec<u32>>,
}

/// Bytes of a page, log 2 (our choice).
const PAGE: u32 = 9;
/// Partitions of a group, log 2 (our choice).
const GROUP: u32 = 4;
/// Runs of bytes beyond which a footprint is filed under every page it spans (our choice).
const MOST_RUNS: u64 = 1 << 14;

/// Pages under which a footprint is filed: page of the bytes, group of the partitions.
fn pages_of(fp: &Footprint) -> Vec<i64> {
    let mut pages: Vec<i64> = Vec::new();
    let runs = fp.dims.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
    let spanned = ((fp.high - 1) >> PAGE) - (fp.low >> PAGE) + 1;
    if runs > MOST_RUNS || runs as i64 >= spanned {
        pages.extend(fp.low >> PAGE..=(fp.high - 1) >> PAGE);
    } else {
        let mut starts = vec![fp.low];
        for &(step, n) in &fp.dims {
            let from = std::mem::take(&mut starts);
            for s in from {
                starts.extend((0..n as i64).map(|k| s + k * step));
            }
        }
        for s in starts {
            pages.extend(s >> PAGE..=(s + fp.run - 1) >> PAGE);
        }
        pages.sort_unstable();
        pages.dedup();
    }
    let (first, last) = (fp.partition >> GROUP, fp.last_partition() >> GROUP);
    if (first, last) == (0, 0) {
        return pages.into_iter().map(|p| p << 16).collect();
    }
    let mut out = Vec::with_capacity(pages.len());
    for p in pages {
        out.extend((first..=last.min(first + 0xffff)).map(|g| (p << 16) | (g & 0xffff)));
    }
    out
}

impl Race {
    /// Slots of an instruction's static operands, when known.
    pub(crate) fn cached(&self, core: usize, inst: usize) -> Option<(usize, usize)> {
        let at = self.cache[core][inst];
        (at != u32::MAX).then(|| {
            let (n, _) = self.arena[at as usize];
            (at as usize + 1, at as usize + 1 + n as usize)
        })
    }
    /// Remembers the slots of an instruction's static operands.
    pub(crate) fn remember(&mut self, core: usize, inst: usize, list: &[(u32, Role)]) {
        self.cache[core][inst] = self.arena.len() as u32;
        self.arena.push((list.len() as u32, Role { index: 0, list: 0 }));
        self.arena.extend_from_slice(list);
    }
    /// One of the remembered slots.
    pub(crate) fn remembered(&self, k: usize) -> (u32, Role) {
        self.arena[k]
    }

    /// Slot of a view, made when new.
    pub(crate) fn slot(&mut self, v: &View) -> u32 {
        let key = Key {
            buf: v.buf.0,
            base: v.base,
            size: v.elem_size() as u8,
            dims: v.dims.iter().map(|d| (d.stride, d.num)).collect(),
        };
        if let Some(&s) = self.lookup.get(&key) {
            return s;
        }
        let id = self.slots.len() as u32;
        let fp = footprint(v, self.pages[v.buf.index()].pitch);
        let mut near = vec![id];
        self.seen.push(0);
        self.stamp += 1;
        let pages = &mut self.pages[v.buf.index()];
        for p in pages_of(&fp) {
            let list = pages.lists.entry(p).or_default();
            for &o in list.iter() {
                if self.seen[o as usize] == self.stamp {
                    continue;
                }
                self.seen[o as usize] = self.stamp;
                if overlaps(&fp, &self.slots[o as usize].fp) {
                    near.push(o);
                }
            }
            list.push(id);
        }
        for &o in &near[1..] {
            self.slots[o as usize].near.push(id);
        }
        self.slots.push(Slot {
            buf: v.buf.0,
            fp,
            near,
            write: None,
            silent: SmallVec::new(),
            reads: SmallVec::new(),
            old_reads: SmallVec::new(),
        });
        self.most = self.most.max(self.slots.len());
        self.lookup.insert(key, id);
        id
    }

    /// Forgets slots that no future access can race with, when there are many.
    pub(crate) fn collect(&mut self) {
        // Doubts name slots by their number.
        if !self.due() || !self.doubts.is_empty() {
            return;
        }
        let Some(low) = self.known_to_all() else { return };
        let live = |a: &Access| low[a.thread as usize] < a.tick;
        let mut map = vec![u32::MAX; self.slots.len()];
        let mut kept: Vec<Slot> = Vec::new();
        for (k, mut s) in std::mem::take(&mut self.slots).into_iter().enumerate() {
            s.reads.retain(|r| live(r));
            s.old_reads.retain(|r| live(r));
            s.silent.retain(|w| live(w));
            if s.write.as_ref().is_some_and(live) || !s.reads.is_empty() || !s.silent.is_empty() {
                map[k] = kept.len() as u32;
                kept.push(s);
            }
        }
        for s in &mut kept {
            s.near.retain(|n| map[*n as usize] != u32::MAX);
            s.near.iter_mut().for_each(|n| *n = map[*n as usize]);
        }
        self.lookup.retain(|_, s| map[*s as usize] != u32::MAX);
        self.lookup.values_mut().for_each(|s| *s = map[*s as usize]);
        for p in &mut self.pages {
            p.lists.clear();
        }
        for (k, s) in kept.iter().enumerate() {
            for p in pages_of(&s.fp) {
                self.pages[s.buf as usize].lists.entry(p).or_default().push(k as u32);
            }
        }
        self.slots = kept;
        self.seen.clear();
        self.seen.resize(self.slots.len(), 0);
        self.stamp = 0;
        self.arena.clear();
        self.cache.iter_mut().for_each(|c| c.fill(u32::MAX));
        self.gc_at = (2 * self.slots.len()).max(1 << 14);
    }
}

/// Runs that are compared one by one before a finding (our choice).
const MOST_COMPARED: u64 = 1 << 22;

/// Whether two footprints have a byte in common, run by run.
pub(super) fn share_a_byte(a: &Footprint, b: &Footprint) -> bool {
    let count = |f: &Footprint| f.dims.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
    if count(a).max(count(b)) > MOST_COMPARED {
        return true;
    }
    let rows = |f: &Footprint| -> Vec<i64> {
        (0..f.partitions as i64).map(|k| f.partition + k * f.partition_stride).collect()
    };
    let other = rows(b);
    if !rows(a).iter().any(|r| other.contains(r)) {
        return false;
    }
    let runs = |f: &Footprint| -> Vec<i64> {
        let mut starts = vec![f.low];
        for &(step, n) in &f.dims {
            starts = starts.iter().flat_map(|s| (0..n as i64).map(move |k| s + k * step)).collect();
        }
        starts.sort_unstable();
        starts
    };
    let (x, y) = (runs(a), runs(b));
    let (mut i, mut j) = (0, 0);
    while let (Some(p), Some(q)) = (x.get(i), y.get(j)) {
        if *p < q + b.run && *q < p + a.run {
            return true;
        }
        if p + a.run <= q + b.run {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

/// Bytes of a view: partitions apart when the buffer has a pitch.
pub(crate) fn footprint(v: &View, pitch: Option<usize>) -> Footprint {
    let elem = v.elem_size() as i64;
    let all = |from: usize| -> SmallVec<[(i64, u64); 4]> {
        v.dims[from.min(v.dims.len())..].iter().map(|d| (d.stride as i64, d.num as u64)).collect()
    };
    let made = match pitch {
        Some(p) if p > 0 => {
            let p = p as i64;
            let first = v.dims.first().map_or((0, 1), |d| (d.stride as i64, d.num as u64));
            let count = if first.0 == 0 { 1 } else { first.1 };
            let part = v.base as i64 / p;
            Footprint::of_bytes(
                Space::SharedDram,
                (part, first.0 / p, count),
                v.base as i64 % p,
                elem,
                &all(1),
            )
        }
        _ => Footprint::of_bytes(Space::SharedDram, (0, 1, 1), v.base as i64, elem, &all(0)),
    };
    made.unwrap_or_default()
}
