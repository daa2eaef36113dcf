//! Places tensors so that those never alive together share bytes.

use super::allocate::{Room, Wants, rounded};
use super::free_list::FreeList;
use super::lifetimes::{Life, lifetimes};
use super::seats::{Seats, seats};
use rustc_hash::{FxHashMap, FxHashSet};
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

/// Where a tensor lies: first byte and first partition.
pub(super) type Spot = (u64, u32);

/// Bytes that are taken, on partitions, for a time.
struct Taken<'a> {
    lo: u64,
    hi: u64,
    partitions: Range<u64>,
    lives: &'a Lives,
}

/// Spots where tensors that are never alive together may share bytes, and the end of the bytes used. The error is the first
/// tensor that does not fit when the largest are placed first, with those that are alive together with it. `rooms` are tried in order, with all
/// tensors at partition 0, then with tensors at other ones of the `partitions`.
///
/// What one order of placement leaves in pieces may fit in another: the largest first; those alive for over half of the time, then the
/// largest; the longest alive first; the most bytes times time first; in the order of their first access (our choice).
pub(super) fn by_life(
    p: &Program,
    range: Range<usize>,
    wants: &Wants,
    rooms: [Room; 2],
    partitions: u64,
) -> Result<(Vec<Spot>, u64), (usize, Vec<usize>)> {
    let elsewhere = aliased(p, range.clone());
    let lives: Vec<_> = range.clone().map(|mi| lifetimes(&p.modules[mi], &elsewhere)).collect();
    let life = |mi: usize, l: MemLocId| lives[mi - range.start][l];
    let mine: Vec<Lives> =
        wants.values().map(|w| w.users.iter().map(|&(mi, l)| (mi, life(mi, l))).collect()).collect();
    let mut given: Vec<(u64, u64, Range<u64>, Lives)> = Vec::new();
    for w in wants.values() {
        for &(mi, l, at) in &w.placed {
            let loc = &p.modules[mi].memlocs[l];
            let partitions = u64::from(loc.base)..u64::from(loc.base).saturating_add(loc.rows());
            given.push((at, at.saturating_add(w.bytes), partitions, Lives::from_iter([(mi, life(mi, l))])));
        }
    }
    let first = |k: usize| mine[k].iter().map(|x| x.1.first()).min().unwrap_or(0);
    let length = |k: usize| mine[k].iter().map(|x| x.1.length()).max().unwrap_or(0);
    let bytes = |k: usize| wants[k].bytes;
    let mut order: Vec<usize> = (0..wants.len()).filter(|k| !wants[*k].users.is_empty()).collect();
    let mut failed = None;
    let longest = order.iter().map(|k| length(*k)).max().unwrap_or(0);
    for below in [false, true] {
        let seats = if below { seats(p, range.clone(), partitions, wants, &elsewhere) } else { None };
        if below && seats.is_none() {
            break;
        }
        for room in rooms {
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
                match place(&order, wants, &mine, &given, room, seats.as_ref()) {
                    Ok(done) => return Ok(done),
                    Err(k) => failed = failed.or(Some(k)),
                }
            }
        }
    }
    let k = failed.unwrap_or(0);
    let alive = |j: usize| {
        let placed = wants[j].placed.iter().map(|x| (x.0, life(x.0, x.1)));
        together(&mine[k], &mine[j].iter().copied().chain(placed).collect())
    };
    Err((k, (0..wants.len()).filter(|j| alive(*j)).collect()))
}

/// Each tensor at the lowest address that is free while it is alive, on the first partitions that have one; the first without one is
/// the error.
fn place(
    order: &[usize],
    wants: &Wants,
    mine: &[Lives],
    given: &[(u64, u64, Range<u64>, Lives)],
    room: Room,
    seats: Option<&Seats>,
) -> Result<(Vec<Spot>, u64), usize> {
    let mut taken: Vec<Taken<'_>> = given
        .iter()
        .map(|(lo, hi, partitions, lives)| Taken { lo: *lo, hi: *hi, partitions: partitions.clone(), lives })
        .collect();
    let mut used = given.iter().map(|g| g.1).max().unwrap_or(0);
    let mut out = vec![(0, 0); wants.len()];
    let mut chosen: FxHashMap<usize, u32> = FxHashMap::default();
    for &k in order {
        let w = &wants[k];
        let fit = |seat: u32| {
            let partitions = u64::from(seat)..u64::from(seat).saturating_add(w.partitions);
            let mut free = FreeList::default();
            taken
                .iter()
                .filter(|t| t.partitions.start < partitions.end && partitions.start < t.partitions.end)
                .filter(|t| together(&mine[k], t.lives))
                .for_each(|t| free.take(t.lo, t.hi));
            let at = w.fixed.or_else(|| free.first_fit(w.bytes, room.align, room.limit, room.wall))?;
            Some((at, seat, partitions))
        };
        let group = seats.map_or(0, |s| s.group[k]);
        let choices = match (seats, chosen.get(&group)) {
            (None, _) => &[0][..],
            (Some(_), Some(seat)) => std::slice::from_ref(seat),
            (Some(s), None) => &s.choices[group],
        };
        let (at, seat, partitions) = choices.iter().find_map(|s| fit(*s)).ok_or(k)?;
        chosen.insert(group, seat);
        let end = at.saturating_add(rounded(w.bytes, room.align));
        used = used.max(end);
        taken.push(Taken { lo: at, hi: end, partitions, lives: &mine[k] });
        out[k] = (at, seat);
    }
    Ok((out, used))
}
