//! Access patterns: which elements of a location an operand touches, and the bytes they are.
//!
//! An access pattern is `offset + Σ step_k · i_k` over `0 ≤ i_k < num_k`, outermost pair first. For an on-chip
//! location (SB, PSUM) pair 0 runs over partitions: its step is a multiple of the location's pitch (elements per
//! partition), and the other pairs must stay inside one partition. `offset` and every step count **elements of the
//! operand's dtype**. Source: the specification, file 03 §5.1–5.2 (documented).

use crate::dtype::Dtype;
use crate::expr::Expr;
use crate::ids::MemLocId;
use crate::memloc::MemoryLocation;
use smallvec::SmallVec;

/// One dimension of a pattern: `num` positions, `step` elements apart. `step` 0 is a broadcast, negative descends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApPair {
    /// Elements between neighbours.
    pub step: i64,
    /// Number of positions.
    pub num: u64,
}

impl ApPair {
    /// A pair.
    pub const fn new(step: i64, num: u64) -> ApPair {
        ApPair { step, num }
    }
}

/// Pairs of a pattern, outermost first.
pub type ApPairs = SmallVec<[ApPair; 3]>;

/// Run-time part of an address: `Σ coeff · expr` elements are added to the static offset.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicAp {
    /// `(elements per unit, expression)`; leaves are [`Expr::Reg`] (scalar offset) or [`Expr::IndirectArg`]
    /// (one index per partition or row, read from the instruction's indirection operands).
    pub terms: Vec<(i64, Expr)>,
    /// Tensor dimension the offset indexes, as KLR counts dimensions.
    pub indirect_dim: i64,
    /// Largest legal index along that dimension (extent − 1); `None` when unknown.
    pub max_index: Option<i64>,
}

impl DynamicAp {
    /// True when the offset is one index per partition or row (gather/scatter), not one scalar.
    pub fn is_vector(&self) -> bool {
        let mut found = false;
        for (_, e) in &self.terms {
            e.for_each_leaf(&mut |l| found |= matches!(l, Expr::IndirectArg(_)));
        }
        found
    }
}

/// A memory operand: location, element type, pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPattern {
    /// Location touched.
    pub loc: MemLocId,
    /// Element type of this access (may differ from the location's).
    pub dtype: Dtype,
    /// First element, counted from the start of the location as one row-major array.
    pub offset: i64,
    /// Pairs, outermost (partition) first; never empty in a verified program.
    pub pairs: ApPairs,
    /// Run-time offset, if the address is dynamic.
    pub dynamic: Option<Box<DynamicAp>>,
}

impl AccessPattern {
    /// A static pattern.
    pub fn new(loc: MemLocId, dtype: Dtype, offset: i64, pairs: &[(i64, u64)]) -> AccessPattern {
        AccessPattern {
            loc,
            dtype,
            offset,
            pairs: pairs.iter().map(|&(s, n)| ApPair::new(s, n)).collect(),
            dynamic: None,
        }
    }

    /// The whole of a location in its own row-major order: `[[pitch, rows], [1, pitch]]`, pitch in elements of `dtype`. A
    /// DRAM location of one dimension (bytes), or whose rows are no whole number of elements, is one run `[[1, elements]]`.
    pub fn whole(loc: MemLocId, l: &MemoryLocation, dtype: Dtype) -> AccessPattern {
        let size = dtype.bytes().max(1);
        if !l.is_on_chip() && (l.dims.len() < 2 || !l.row_bytes().is_multiple_of(size)) {
            return AccessPattern::new(loc, dtype, 0, &[(1, (l.size_bytes() / size).max(1))]);
        }
        let pitch = (l.row_bytes() / size).max(1);
        AccessPattern::new(loc, dtype, 0, &[(pitch as i64, l.rows()), (1, pitch)])
    }

    /// Extent of pair 0 (partitions of an on-chip operand).
    pub fn num_partitions(&self) -> u64 {
        self.pairs.first().map_or(0, |p| p.num)
    }
    /// Elements per partition: product of the extents after pair 0, saturating.
    pub fn elems_per_partition(&self) -> u64 {
        self.pairs.iter().skip(1).fold(1u64, |a, p| a.saturating_mul(p.num))
    }
    /// All elements, saturating.
    pub fn num_elems(&self) -> u64 {
        self.pairs.iter().fold(1u64, |a, p| a.saturating_mul(p.num))
    }
    /// Bytes per partition, saturating.
    pub fn bytes_per_partition(&self) -> u64 {
        self.elems_per_partition().saturating_mul(self.dtype.bytes())
    }
    /// Bytes per partition as a swap is charged: narrow elements count as four bytes
    /// (the specification, file 06 §7.4; decision D21 for packed types).
    pub fn effective_bytes_per_partition(&self) -> u64 {
        self.bytes_per_partition().saturating_mul(self.dtype.sb2sb_factor())
    }
    /// No run-time part.
    pub fn is_static(&self) -> bool {
        self.dynamic.is_none()
    }

    /// Smallest and largest element index touched by the static part; `None` when empty or on overflow.
    pub fn elem_range(&self) -> Option<(i64, i64)> {
        span(self.offset, &self.pairs)
    }

    /// Pairs after pair 0 with unit pairs dropped and contiguous neighbours merged (a reader sees the same walk).
    pub fn merged_free_pairs(&self) -> ApPairs {
        merge_pairs(self.pairs.get(1..).unwrap_or(&[]))
    }

    /// Where the pattern lies on an on-chip location: partitions `[first, last]` relative to the location and the
    /// byte span `[low, high)` inside each partition, relative to the location's address.
    ///
    /// # Errors
    /// A text when the partition step is not a multiple of the pitch, a free part leaves its partition, or numbers overflow.
    pub fn on_chip_box(&self, l: &MemoryLocation) -> Result<OnChipBox, &'static str> {
        let size = self.dtype.bytes();
        if size == 0 || l.row_bytes() < size {
            return Err("the location is narrower than one element");
        }
        let pitch = i64::try_from(l.row_bytes() / size).map_err(|_| "the location is too large")?;
        let (p0, free) = self.pairs.split_first().ok_or("the pattern is empty")?;
        if self.num_elems() == 0 {
            return Err("the pattern has no elements");
        }
        if p0.num > 1 && p0.step.rem_euclid(pitch) != 0 {
            return Err("the partition step is not a multiple of the partition pitch");
        }
        if p0.num > 1 && p0.step < 0 {
            return Err("the partition step is negative");
        }
        let first = self.offset.div_euclid(pitch);
        let within = self.offset.rem_euclid(pitch);
        let stride = if p0.num > 1 { p0.step / pitch } else { 0 };
        let count = i64::try_from(p0.num).map_err(|_| "partition range overflows")?;
        let last = first
            .checked_add(
                count
                    .checked_sub(1)
                    .and_then(|n| stride.checked_mul(n))
                    .ok_or("partition range overflows")?,
            )
            .ok_or("partition range overflows")?;
        let (lo, hi) = span(within, free).ok_or("the free part overflows")?;
        if lo < 0 || hi >= pitch {
            return Err("the free part crosses the partition pitch");
        }
        Ok(OnChipBox {
            first_partition: first,
            last_partition: last,
            partition_stride: stride,
            low_byte: lo as u64 * size,
            high_byte: (hi as u64 + 1) * size,
        })
    }
}

/// Bounding box of an on-chip operand, relative to its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnChipBox {
    /// First partition (may be negative for a malformed offset).
    pub first_partition: i64,
    /// Last partition.
    pub last_partition: i64,
    /// Distance between partitions; 0 for a broadcast.
    pub partition_stride: i64,
    /// First byte inside the partition.
    pub low_byte: u64,
    /// One past the last byte inside the partition.
    pub high_byte: u64,
}

/// Smallest and largest value of `base + Σ step·i`; `None` when a pair is empty or on overflow.
pub fn span(base: i64, pairs: &[ApPair]) -> Option<(i64, i64)> {
    let (mut lo, mut hi) = (base, base);
    for p in pairs {
        let n = i64::try_from(p.num.checked_sub(1)?).ok()?;
        let d = p.step.checked_mul(n)?;
        if d < 0 {
            lo = lo.checked_add(d)?;
        } else {
            hi = hi.checked_add(d)?;
        }
    }
    Some((lo, hi))
}

/// Drops unit pairs and merges neighbours that walk contiguously (`step[i] == step[i+1] · num[i+1]`).
pub fn merge_pairs(pairs: &[ApPair]) -> ApPairs {
    let mut out = ApPairs::new();
    for &p in pairs {
        if p.num == 1 {
            continue;
        }
        if let Some(last) = out.last_mut()
            && i64::try_from(p.num).ok().and_then(|n| p.step.checked_mul(n)) == Some(last.step)
            && let Some(num) = last.num.checked_mul(p.num)
        {
            *last = ApPair::new(p.step, num);
            continue;
        }
        out.push(p);
    }
    out
}
