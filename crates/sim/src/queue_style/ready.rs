//! Which moves are possible, and which comes next.

use super::{ENGINES, Run, sync_of};
use crate::machine::Wait;
use crate::options::Schedule;
use crate::random::SplitMix64;

/// Bit of `ISSUE + e`: the head of engine `e` may start.
const ISSUE: u32 = 0;
/// Bit of `FINISH + e`: the head of engine `e` has met its partners and may end.
const FINISH: u32 = ENGINES as u32;
/// Bit of `LAND + 2 e + r`: the oldest local (0) or remote (1) transfer of engine `e` may land.
const LAND: u32 = 2 * ENGINES as u32;
/// Moves that land transfers.
const LANDS: u32 = ((1 << (2 * ENGINES)) - 1) << LAND;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Issue(usize),
    Finish(usize),
    Land(usize, usize),
}

fn move_of(bit: u32) -> Move {
    match bit {
        b if b >= LAND => Move::Land(((b - LAND) / 2) as usize, ((b - LAND) % 2) as usize),
        b if b >= FINISH => Move::Finish((b - FINISH) as usize),
        b => Move::Issue((b - ISSUE) as usize),
    }
}

/// The possible moves of all cores. A step costs as much as the number of cores over 64.
pub(super) struct ReadyList {
    bits: Vec<u32>,
    /// Cores with any move, with a move that lands nothing, with one that lands something.
    any: Vec<u64>,
    other: Vec<u64>,
    lands: Vec<u64>,
    /// Moves of 64 cores.
    count: Vec<u32>,
    total: u64,
}

impl ReadyList {
    pub(super) fn new(cores: usize) -> ReadyList {
        let words = cores.div_ceil(64);
        ReadyList {
            bits: vec![0; cores],
            any: vec![0; words],
            other: vec![0; words],
            lands: vec![0; words],
            count: vec![0; words],
            total: 0,
        }
    }

    /// The moves of a core are these now.
    pub(super) fn set(&mut self, c: usize, bits: u32) {
        let old = std::mem::replace(&mut self.bits[c], bits);
        if old == bits {
            return;
        }
        let (w, b) = (c / 64, 1u64 << (c % 64));
        let put = |list: &mut Vec<u64>, on: bool| if on { list[w] |= b } else { list[w] &= !b };
        put(&mut self.any, bits != 0);
        put(&mut self.other, bits & !LANDS != 0);
        put(&mut self.lands, bits & LANDS != 0);
        self.count[w] = self.count[w] + bits.count_ones() - old.count_ones();
        self.total = self.total + u64::from(bits.count_ones()) - u64::from(old.count_ones());
    }

    /// The next move, by the rules of the other levels.
    pub(super) fn pick(&self, schedule: Schedule, rng: &mut SplitMix64) -> Option<(usize, Move)> {
        let first = |list: &[u64]| {
            let w = list.iter().position(|w| *w != 0)?;
            Some(64 * w + list[w].trailing_zeros() as usize)
        };
        let last = |list: &[u64]| {
            let w = list.iter().rposition(|w| *w != 0)?;
            Some(64 * w + 63 - list[w].leading_zeros() as usize)
        };
        match schedule {
            Schedule::Eager => {
                let c = first(&self.any)?;
                let lands = self.bits[c] & LANDS;
                let bits = if lands != 0 { lands } else { self.bits[c] };
                Some((c, move_of(bits.trailing_zeros())))
            }
            Schedule::Late => {
                let (c, bits) = match last(&self.other) {
                    Some(c) => (c, self.bits[c] & !LANDS),
                    None => last(&self.lands).map(|c| (c, self.bits[c]))?,
                };
                Some((c, move_of(31 - bits.leading_zeros())))
            }
            Schedule::Seed(_) => {
                if self.total == 0 {
                    return None;
                }
                let mut k = rng.below(self.total) as u32;
                let w = self.count.iter().position(|n| {
                    let here = k < *n;
                    k -= if here { 0 } else { *n };
                    here
                })?;
                for (c, bits) in self.bits.iter().enumerate().skip(64 * w).take(64) {
                    let n = bits.count_ones();
                    if k < n {
                        let mut bits = *bits;
                        for _ in 0..k {
                            bits &= bits - 1;
                        }
                        return Some((c, move_of(bits.trailing_zeros())));
                    }
                    k -= n;
                }
                None
            }
        }
    }
}

impl Run<'_, '_> {
    /// Recomputes the possible moves of a core.
    pub(super) fn refresh(&mut self, c: usize) {
        let mut bits = 0u32;
        for (e, x) in self.engines[c].iter().enumerate() {
            for (r, q) in x.queues.iter().enumerate() {
                if !q.flights.is_empty() {
                    bits |= 1 << (LAND + (2 * e + r) as u32);
                }
            }
            match self.m.cores[c].run.waits[e] {
                Some(Wait::Group { released, .. } | Wait::Token { released, .. }) => {
                    if released {
                        bits |= 1 << (FINISH + e as u32);
                    }
                    continue;
                }
                None => {}
            }
            if !x.joining && self.may_start(c, e) {
                bits |= 1 << (ISSUE + e as u32);
            }
        }
        self.ready.set(c, bits);
    }

    fn may_start(&self, c: usize, e: usize) -> bool {
        let Some(i) = self.head(c, e) else { return false };
        sync_of(self.inst(c, i))
            .is_none_or(|s| s.on_wait.iter().all(|w| self.sems.value(c, w.sem) >= w.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_as_the_other_levels_do() {
        let mut l = ReadyList::new(130);
        let mut rng = SplitMix64(1);
        assert_eq!(l.pick(Schedule::Eager, &mut rng), None);
        assert_eq!(l.pick(Schedule::Late, &mut rng), None);
        assert_eq!(l.pick(Schedule::Seed(1), &mut rng), None);
        l.set(2, 1 << (ISSUE + 3));
        l.set(129, 1 << (LAND + 1) | 1 << ISSUE);
        assert_eq!(l.pick(Schedule::Eager, &mut rng), Some((2, Move::Issue(3))));
        assert_eq!(l.pick(Schedule::Late, &mut rng), Some((129, Move::Issue(0))));
        l.set(2, 0);
        assert_eq!(l.pick(Schedule::Eager, &mut rng), Some((129, Move::Land(0, 1))));
        l.set(129, 1 << (LAND + 1));
        l.set(3, 1 << (LAND + 4));
        assert_eq!(l.pick(Schedule::Late, &mut rng), Some((129, Move::Land(0, 1))));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..64 {
            seen.insert(l.pick(Schedule::Seed(1), &mut rng).map(|(c, _)| c));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [Some(3), Some(129)]);
    }
}
