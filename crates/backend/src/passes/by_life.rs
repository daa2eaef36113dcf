//! Places tensors so that those never alive together share bytes.

use super::allocate::{FreeList, Room, Wants, rounded};
use super::lifetimes::{Life, lifetimes};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::ops::Range;
use tandem_bir::{CompactString, MemLocId, Program};

/// Orders of placement that are tried, and tensors above which only the first one is (our choice: a placement compares all pairs).
const ORDERS: usize = 5;
const MANY: usize = 1 << 14;

/// Lifetimes of a tensor by module.
type Lives = SmallVec<[(usize, Life); 2]>;

fn together(a: &Lives, b: &Lives) -> bool {
    a.iter().any(|(m, x)| b.iter().any(|(n, y)| m == n && x.meets(*y)))
}

/// Names of which another core has an alias.
pub(super) fn aliased(p: &Program, range: Range<usize>) -> FxHashSet<CompactString> {
    let targets = p.modules[range].iter().flat_map(|m| m.memlocs.values());
    targets.filter_map(|l| l.remote_local_target.as_ref().map(|t| t.name.clone())).collect()
}

/// Addresses where tensors that are never alive together may share bytes, and the end of the bytes used. The error is the first
/// tensor that does not fit when the largest are placed first, with those that are alive together with it.
///
/// What one order of placement leaves in pieces may fit in another: the largest first; those alive for over half of the time, then the
/// largest; the longest alive first; the most bytes times time first; in the order of their first access (our choice).
pub(super) fn by_life(
    p: &Program,
    range: Range<usize>,
    wants: &Wants,
    room: Room,
) -> Result<(Vec<u64>, u64), (usize, Vec<usize>)> {
    let elsewhere = aliased(p, range.clone());
    let lives: Vec<_> = range.clone().map(|mi| lifetimes(&p.modules[mi], &elsewhere)).collect();
    let life = |mi: usize, l: MemLocId| lives[mi - range.start][l];
    let mine: Vec<Lives> =
        wants.values().map(|w| w.users.iter().map(|&(mi, l)| (mi, life(mi, l))).collect()).collect();
    let mut given: Vec<(u64, u64, Lives)> = Vec::new();
    for w in wants.values() {
        for &(mi, l, at) in &w.placed {
            given.push((at, at.saturating_add(w.bytes), Lives::from_iter([(mi, life(mi, l))])));
        }
    }
    let first = |k: usize| mine[k].iter().map(|x| x.1.first()).min().unwrap_or(0);
    let length = |k: usize| mine[k].iter().map(|x| x.1.length()).max().unwrap_or(0);
    let bytes = |k: usize| wants[k].bytes;
    let mut order: Vec<usize> = (0..wants.len()).filter(|k| !wants[*k].users.is_empty()).collect();
    let mut failed = None;
    let longest = order.iter().map(|k| length(*k)).max().unwrap_or(0);
    for attempt in 0..if order.len() > MANY { 1 } else { ORDERS } {
        order.sort_by_key(|&k| {
            let rank = match attempt {
                0 => (Reverse(bytes(k)), Reverse(0)),
                1 => (Reverse(u64::from(length(k) > longest / 2)), Reverse(bytes(k))),
                2 => (Reverse(length(k)), Reverse(bytes(k))),
                3 => (Reverse(length(k).saturating_mul(bytes(k))), Reverse(0)),
                _ => (Reverse(u64::from(u32::MAX - first(k))), Reverse(bytes(k))),
            };
            (wants[k].fixed.is_none(), rank, first(k), k)
        });
        match place(&order, wants, &mine, &given, room) {
            Ok(done) => return Ok(done),
            Err(k) => failed = failed.or(Some(k)),
        }
    }
    let k = failed.unwrap_or(0);
    let alive = |j: usize| {
        let placed = wants[j].placed.iter().map(|x| (x.0, life(x.0, x.1)));
        together(&mine[k], &mine[j].iter().copied().chain(placed).collect())
    };
    Err((k, (0..wants.len()).filter(|j| alive(*j)).collect()))
}

/// Each tensor at the lowest address that is free while it is alive; the first without one is the error.
fn place(
    order: &[usize],
    wants: &Wants,
    mine: &[Lives],
    given: &[(u64, u64, Lives)],
    room: Room,
) -> Result<(Vec<u64>, u64), usize> {
    let mut taken: Vec<(u64, u64, &Lives)> = given.iter().map(|g| (g.0, g.1, &g.2)).collect();
    let mut used = given.iter().map(|g| g.1).max().unwrap_or(0);
    let mut out = vec![0; wants.len()];
    for &k in order {
        let w = &wants[k];
        let mut free = FreeList::default();
        taken.iter().filter(|t| together(&mine[k], t.2)).for_each(|t| free.take(t.0, t.1));
        let at = w.fixed.or_else(|| free.first_fit(w.bytes, room.align, room.limit, room.wall)).ok_or(k)?;
        let end = at.saturating_add(rounded(w.bytes, room.align));
        used = used.max(end);
        taken.push((at, end, &mine[k]));
        out[k] = at;
    }
    Ok((out, used))
}
