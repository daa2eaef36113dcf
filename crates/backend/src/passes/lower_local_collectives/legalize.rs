//! Patterns of the transfers: unit dimensions dropped, contiguous ones merged, at most three free pairs per copy.

use tandem_bir::ap::merge_pairs;
use tandem_bir::{AccessPattern, ApPair, ApPairs};

/// Free pairs a transfer's pattern may have (the specification, file 06 §8.5).
pub const MAX_FREE_PAIRS: usize = 3;
/// Most copies one transfer is split into (our choice); beyond it the pattern is left as it is.
pub const MAX_SPLIT: u64 = 1024;

/// The same walk with the fewest pairs; pair 0 stays, at least one free pair stays.
pub(super) fn merged(ap: &AccessPattern) -> AccessPattern {
    let mut pairs = ApPairs::new();
    pairs.extend(ap.pairs.first().copied());
    let free = merge_pairs(ap.pairs.get(1..).unwrap_or(&[]));
    pairs.extend(free.iter().copied());
    if pairs.len() == 1 {
        pairs.push(ApPair::new(1, 1));
    }
    AccessPattern { pairs, ..ap.clone() }
}

/// Splits a copy whose patterns have too many free pairs along the outermost one. Each entry holds the patterns of one
/// copy, in the order given. Patterns of unequal shape are left alone.
pub(super) fn legalize(aps: &[AccessPattern]) -> Vec<Vec<AccessPattern>> {
    let small: Vec<AccessPattern> = aps.iter().map(merged).collect();
    if small.iter().all(|a| a.pairs.len() <= MAX_FREE_PAIRS + 1) {
        return vec![small];
    }
    let dense: Vec<AccessPattern> = aps
        .iter()
        .map(|a| {
            let mut pairs = ApPairs::new();
            pairs.extend(a.pairs.first().copied());
            pairs.extend(a.pairs.iter().skip(1).filter(|p| p.num != 1).copied());
            AccessPattern { pairs, ..a.clone() }
        })
        .collect();
    let extents = |a: &AccessPattern| a.pairs.iter().skip(1).map(|p| p.num).collect::<Vec<_>>();
    let first = extents(&dense[0]);
    let Some(&outer) = first.first() else { return vec![small] };
    if outer > MAX_SPLIT || dense.iter().any(|a| extents(a) != first) {
        return vec![small];
    }
    let mut out = Vec::new();
    for i in 0..outer {
        let slice: Vec<AccessPattern> = dense
            .iter()
            .map(|a| {
                let step = a.pairs[1].step.saturating_mul(i as i64);
                let mut pairs = a.pairs.clone();
                pairs.remove(1);
                AccessPattern { offset: a.offset.saturating_add(step), pairs, ..a.clone() }
            })
            .collect();
        out.extend(legalize(&slice));
        if out.len() as u64 > MAX_SPLIT {
            return vec![small];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_bir::entity::EntityRef;
    use tandem_bir::{Dtype, MemLocId};

    fn ap(pairs: &[(i64, u64)]) -> AccessPattern {
        AccessPattern::new(MemLocId::new(0), Dtype::Float32, 0, pairs)
    }

    fn elems(a: &AccessPattern) -> Vec<i64> {
        let mut v = vec![a.offset];
        for p in &a.pairs {
            v = v.iter().flat_map(|b| (0..p.num as i64).map(move |i| b + p.step * i)).collect();
        }
        v
    }

    #[test]
    fn merging_keeps_the_walk() {
        for a in [
            ap(&[(64, 4), (16, 4), (4, 4), (1, 4)]),
            ap(&[(64, 2), (1, 1)]),
            ap(&[(64, 2), (32, 2), (5, 1), (2, 3)]),
        ] {
            assert_eq!(elems(&merged(&a)), elems(&a));
        }
        assert_eq!(
            merged(&ap(&[(64, 4), (16, 4), (4, 4), (1, 4)])).pairs.as_slice(),
            ap(&[(64, 4), (1, 64)]).pairs.as_slice()
        );
    }

    #[test]
    fn five_free_dimensions_become_copies_of_three() {
        let wide = ap(&[(1000, 2), (500, 2), (200, 2), (60, 2), (20, 2), (3, 2)]);
        let dense = ap(&[(32, 2), (16, 2), (8, 2), (4, 2), (2, 2), (1, 2)]);
        let copies = legalize(&[wide.clone(), dense.clone()]);
        assert_eq!(copies.len(), 4);
        let all = |k: usize| {
            let mut v: Vec<i64> = copies.iter().flat_map(|c| elems(&c[k])).collect();
            v.sort_unstable();
            v
        };
        let sorted = |a: &AccessPattern| {
            let mut v = elems(a);
            v.sort_unstable();
            v
        };
        assert_eq!((all(0), all(1)), (sorted(&wide), sorted(&dense)));
        assert!(copies.iter().flatten().all(|a| a.pairs.len() <= 4));
    }
}
