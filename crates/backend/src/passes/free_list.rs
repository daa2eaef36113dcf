//! Used ranges of a linear memory, and where something still fits.

use std::collections::BTreeMap;

/// Which bytes are used.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeList {
    /// Used ranges, start to end, disjoint.
    used: BTreeMap<u64, u64>,
}

impl FreeList {
    /// Marks `[lo, hi)` as used.
    pub(super) fn take(&mut self, mut lo: u64, mut hi: u64) {
        if lo >= hi {
            return;
        }
        while let Some((&l, &h)) = self.used.range(..=hi).next_back() {
            if h < lo {
                break;
            }
            lo = lo.min(l);
            hi = hi.max(h);
            self.used.remove(&l);
        }
        self.used.insert(lo, hi);
    }
    /// Lowest aligned start of `size` free bytes inside `[0, limit)` that crosses no multiple of `wall` (0: none) unless it
    /// starts on one.
    pub(super) fn first_fit(&self, size: u64, align: u64, limit: u64, wall: u64) -> Option<u64> {
        let fit = |start: u64, end: u64| -> Option<u64> {
            let mut at = start.checked_next_multiple_of(align.max(1))?;
            if wall > 0 && !at.is_multiple_of(wall) && at / wall != (at + size.max(1) - 1) / wall {
                at = at.checked_next_multiple_of(wall)?;
            }
            (at.checked_add(size)? <= end).then_some(at)
        };
        let mut start = 0;
        for (&l, &h) in &self.used {
            if l > start
                && let Some(a) = fit(start, l.min(limit))
            {
                return Some(a);
            }
            start = start.max(h);
        }
        fit(start, limit)
    }
    /// Largest used end.
    pub(super) fn high_water(&self) -> u64 {
        self.used.values().next_back().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::FreeList;

    #[test]
    fn first_fit_fills_the_lowest_hole() {
        let mut f = FreeList::default();
        f.take(0, 100);
        f.take(256, 300);
        assert_eq!(f.first_fit(64, 64, 1000, 0), Some(128));
        assert_eq!(f.first_fit(200, 64, 1000, 0), Some(320));
        assert_eq!(f.first_fit(900, 64, 1000, 0), None);
        f.take(100, 256);
        assert_eq!(f.high_water(), 300);
        assert_eq!(f.first_fit(1, 1, 1000, 0), Some(300));
    }

    #[test]
    fn small_tensors_do_not_cross_a_bank_and_large_ones_start_at_one() {
        let mut f = FreeList::default();
        f.take(0, 1024);
        assert_eq!(f.first_fit(1024, 64, 16384, 2048), Some(1024));
        assert_eq!(f.first_fit(1088, 64, 16384, 2048), Some(2048));
        assert_eq!(f.first_fit(4096, 64, 16384, 2048), Some(2048));
    }
}
