//! Which bytes of which physical storage an operand touches, and whether two operands touch a common byte.
//!
//! A [`Footprint`] is a product: a set of partitions (an arithmetic progression) times a set of bytes inside each
//! partition (`base + Σ step·i`, each a run of bytes). DRAM is one partition. [`overlaps`] is exact for static
//! patterns: a bounding test first, then an integer test of the two byte sets; only when that test exceeds
//! [`SEARCH_BUDGET`] steps (nested strides without a common structure) it answers "yes" without proof. Patterns with a
//! run-time address, malformed ones, and symbolic operands stand for the whole location.
//!
//! Storage is identified by [`Space`]. Locations that have an address are compared by address, others by owner and
//! name; a located and an unlocated location are taken as different storage.

use crate::ap::AccessPattern;
use crate::enums::{AddressSpace, MemoryType};
use crate::ids::{CoreId, MemLocId};
use crate::inst::{Operand, OtherOperand};
use crate::memloc::MemoryLocation;
use crate::module::{Module, Program};
use compact_str::CompactString;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Steps after which the integer test gives up and answers "may overlap" (our choice).
pub const SEARCH_BUDGET: u32 = 1 << 16;

/// One physical storage array (or one location without an address).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Space {
    /// SBUF of a core (`None`: of the one symbolic core).
    Sb(Option<CoreId>),
    /// PSUM of a core; bytes count from bank 0.
    Psum(Option<CoreId>),
    /// DRAM window of a core.
    Dram(Option<CoreId>),
    /// DRAM that all cores see.
    SharedDram,
    /// A location without an address: the core that owns it (`None` when shared) and its name there.
    Unplaced(Option<CoreId>, CompactString),
    /// Not a location.
    #[default]
    Nowhere,
}

/// Where one location lies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placement {
    /// Array.
    pub space: Space,
    /// First partition (0 for DRAM).
    pub base: i64,
    /// First byte inside the partition, or of the DRAM array.
    pub addr: i64,
}

impl Placement {
    /// The placement of a location as its own module states it. An alias that has no address stands for its owner by name.
    pub fn of(module: &Module, loc: MemLocId) -> Placement {
        let Some(l) = module.memlocs.get(loc) else { return Placement::default() };
        let shared = l.mem == MemoryType::Dram
            && module.sets.get(l.set).is_some_and(|s| s.addr_space == AddressSpace::Shared);
        let owner = match &l.remote_local_target {
            Some(t) => Some(t.core),
            None => module.core,
        };
        if !l.allocated {
            let core = if shared { None } else { owner };
            return Placement { space: Space::Unplaced(core, l.owner_name().clone()), base: 0, addr: 0 };
        }
        let addr = i64::try_from(l.addr).unwrap_or(i64::MAX);
        match l.mem {
            MemoryType::Sb => Placement { space: Space::Sb(owner), base: i64::from(l.base), addr },
            MemoryType::Psum => {
                let bank = i64::try_from(l.bank.unsigned_abs()).unwrap_or(i64::MAX);
                let addr = bank.saturating_mul(PSUM_BANK_BYTES).saturating_add(addr);
                Placement { space: Space::Psum(owner), base: i64::from(l.base), addr }
            }
            MemoryType::Dram | MemoryType::Input | MemoryType::Output => {
                let space = if shared { Space::SharedDram } else { Space::Dram(owner) };
                Placement { space, base: 0, addr }
            }
            MemoryType::Unallocated | MemoryType::RngState | MemoryType::Reg => {
                Placement { space: Space::Unplaced(owner, l.name.clone()), base: 0, addr: 0 }
            }
        }
    }
}

/// Bytes of a PSUM bank per partition; equal on all generations.
const PSUM_BANK_BYTES: i64 = 2048;

/// Placements of all locations of one module, worked out once.
#[derive(Clone, Debug, Default)]
pub struct StorageMap {
    placements: SecondaryMap<MemLocId, Placement>,
}

impl StorageMap {
    /// Placements as the module states them.
    pub fn of_module(module: &Module) -> StorageMap {
        let mut placements = SecondaryMap::with_capacity(module.memlocs.len());
        for loc in module.memlocs.keys() {
            placements[loc] = Placement::of(module, loc);
        }
        StorageMap { placements }
    }

    /// Placements of every module, aliases resolved to their owners' placements by name; same order as the modules.
    /// An alias whose owner is missing keeps what its own module states.
    pub fn of_program(program: &Program) -> Vec<StorageMap> {
        let mut maps: Vec<StorageMap> = program.modules.iter().map(StorageMap::of_module).collect();
        let mut owners: FxHashMap<(u32, CoreId, &str), (usize, MemLocId)> = FxHashMap::default();
        for (i, m) in program.modules.iter().enumerate() {
            let Some(core) = m.core else { continue };
            for (loc, l) in m.memlocs.iter().filter(|(_, l)| !l.is_remote()) {
                owners.entry((m.subgraph, core, l.name.as_str())).or_insert((i, loc));
            }
        }
        for (i, m) in program.modules.iter().enumerate() {
            for (loc, l) in m.memlocs.iter() {
                let Some(t) = &l.remote_local_target else { continue };
                if let Some(&(j, owner)) = owners.get(&(m.subgraph, t.core, t.name.as_str())) {
                    let p = maps[j].placements[owner].clone();
                    maps[i].placements[loc] = p;
                }
            }
        }
        maps
    }

    /// Placement of a location.
    pub fn placement(&self, loc: MemLocId) -> &Placement {
        &self.placements[loc]
    }

    /// Footprint of a memory operand.
    pub fn footprint(&self, module: &Module, ap: &AccessPattern) -> Footprint {
        match module.memlocs.get(ap.loc) {
            Some(l) => Footprint::new(&self.placements[ap.loc], l, ap),
            None => Footprint::default(),
        }
    }

    /// Footprints of an operand: none for immediates and registers, the whole of every location of the set for
    /// symbolic and register-addressed operands.
    pub fn operand(&self, module: &Module, op: &Operand) -> SmallVec<[Footprint; 1]> {
        match op {
            Operand::Ap(a) => SmallVec::from_iter([self.footprint(module, a)]),
            Operand::Imm(_) | Operand::Reg(_) => SmallVec::new(),
            Operand::Other(o) => {
                let set = match &**o {
                    OtherOperand::Symbolic { set, .. } | OtherOperand::RegisterAp { set, .. } => *set,
                    OtherOperand::SymbolicImm { .. } | OtherOperand::ImmArray { .. } => {
                        return SmallVec::new();
                    }
                };
                let locs = module.sets.get(set).map_or(&[][..], |s| &s.locs);
                locs.iter()
                    .filter_map(|l| Some(Footprint::whole(&self.placements[*l], module.memlocs.get(*l)?)))
                    .collect()
            }
        }
    }
}

/// The bytes an operand touches.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Storage array.
    pub space: Space,
    /// First partition.
    pub partition: i64,
    /// Distance between partitions, at least 1 when there are several.
    pub partition_stride: i64,
    /// Number of partitions; 0 for an empty footprint.
    pub partitions: u64,
    /// First byte, inside each partition.
    pub low: i64,
    /// One past the last byte.
    pub high: i64,
    /// Length of each run of bytes.
    pub run: i64,
    /// Distances and counts of the runs: steps positive, largest first, no unit counts.
    pub dims: SmallVec<[(i64, u64); 2]>,
    /// The footprint is the pattern's own; otherwise it stands for the whole location.
    pub exact: bool,
}

impl Footprint {
    /// Footprint of a pattern over a location with this placement.
    pub fn new(place: &Placement, l: &MemoryLocation, ap: &AccessPattern) -> Footprint {
        if !ap.is_static() {
            return Footprint::whole(place, l);
        }
        Footprint::of_static(place, l, ap).unwrap_or_else(|| Footprint::whole(place, l))
    }

    fn of_static(place: &Placement, l: &MemoryLocation, ap: &AccessPattern) -> Option<Footprint> {
        let size = i64::try_from(ap.dtype.bytes()).ok()?;
        let (partition, stride, partitions, start, free) = if l.is_on_chip() {
            let b = ap.on_chip_box(l).ok()?;
            let pitch = i64::try_from(l.row_bytes()).ok()? / size;
            let within = ap.offset.rem_euclid(pitch);
            let n = if b.partition_stride == 0 { 1 } else { ap.num_partitions() };
            let first = place.base.checked_add(b.first_partition)?;
            (first, b.partition_stride, n, within, ap.pairs.get(1..)?)
        } else {
            if ap.num_elems() == 0 {
                return None;
            }
            (0, 0, 1, ap.offset, &ap.pairs[..])
        };
        let low = place.addr.checked_add(start.checked_mul(size)?)?;
        let dims: Option<SmallVec<[(i64, u64); 4]>> =
            free.iter().map(|p| Some((p.step.checked_mul(size)?, p.num))).collect();
        Footprint::of_bytes(place.space.clone(), (partition, stride, partitions), low, size, &dims?)
    }

    /// Footprint given by its bytes: partitions `(first, stride, count)`, first byte, bytes per element, and `(step, count)` in
    /// bytes of every further dimension, in any order. `None` when a number overflows.
    pub fn of_bytes(
        space: Space,
        (partition, stride, partitions): (i64, i64, u64),
        start: i64,
        elem: i64,
        free: &[(i64, u64)],
    ) -> Option<Footprint> {
        let mut low = start;
        let mut dims: SmallVec<[(i64, u64); 2]> = SmallVec::new();
        for &(step, num) in free {
            if num == 1 || step == 0 {
                continue;
            }
            if step < 0 {
                low = low.checked_add(step.checked_mul(i64::try_from(num.checked_sub(1)?).ok()?)?)?;
            }
            dims.push((step.checked_abs()?, num));
        }
        let mut run = elem;
        normalise(&mut dims, &mut run)?;
        let mut high = low.checked_add(run)?;
        for &(s, n) in &dims {
            high = high.checked_add(s.checked_mul(i64::try_from(n.checked_sub(1)?).ok()?)?)?;
        }
        let partition_stride = stride.max(1);
        Some(Footprint { space, partition, partition_stride, partitions, low, high, run, dims, exact: true })
    }

    /// The whole of a location.
    pub fn whole(place: &Placement, l: &MemoryLocation) -> Footprint {
        let clamp = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let (partitions, bytes) =
            if l.is_on_chip() { (l.rows(), clamp(l.row_bytes())) } else { (1, clamp(l.size_bytes())) };
        Footprint {
            space: place.space.clone(),
            partition: place.base,
            partition_stride: 1,
            partitions,
            low: place.addr,
            high: place.addr.saturating_add(bytes),
            run: bytes,
            dims: SmallVec::new(),
            exact: false,
        }
    }

    /// No byte at all.
    pub fn is_empty(&self) -> bool {
        self.partitions == 0 || self.low >= self.high
    }
    /// Last partition.
    pub fn last_partition(&self) -> i64 {
        let n = i64::try_from(self.partitions).unwrap_or(i64::MAX).saturating_sub(1);
        self.partition.saturating_add(self.partition_stride.saturating_mul(n))
    }
    /// Every byte between `low` and `high` on every partition between the first and the last is touched.
    pub fn is_dense(&self) -> bool {
        self.dims.is_empty() && (self.partition_stride == 1 || self.partitions <= 1)
    }
    /// Certainly touches every byte that `other` touches (used to forget older accesses): a dense exact footprint around
    /// the other's bounding box.
    pub fn covers(&self, other: &Footprint) -> bool {
        self.exact
            && self.is_dense()
            && self.space == other.space
            && self.low <= other.low
            && other.high <= self.high
            && self.partition <= other.partition
            && other.last_partition() <= self.last_partition()
    }
}

/// Sorts the dimensions by descending step and merges what walks without gaps; the byte set stays the same.
fn normalise(dims: &mut SmallVec<[(i64, u64); 2]>, run: &mut i64) -> Option<()> {
    dims.sort_unstable_by_key(|d| std::cmp::Reverse(d.0));
    // A step no larger than the run below it makes one longer run; a step inside the next-smaller progression extends it.
    let mut out: SmallVec<[(i64, u64); 2]> = SmallVec::new(); // smallest step first
    for &(step, num) in dims.iter().rev() {
        let last = i64::try_from(num - 1).ok()?;
        match out.last_mut() {
            None if step <= *run => *run = step.checked_mul(last)?.checked_add(*run)?,
            Some((s, n)) if step % *s == 0 && step / *s <= i64::try_from(*n).ok()? => {
                let more = u64::try_from((step / *s).checked_mul(last)?).ok()?;
                *n = n.checked_add(more)?;
            }
            _ => out.push((step, num)),
        }
    }
    out.reverse();
    *dims = out;
    Some(())
}

/// True when the two operands touch a common byte.
pub fn overlaps(a: &Footprint, b: &Footprint) -> bool {
    if a.space != b.space || a.space == Space::Nowhere || a.is_empty() || b.is_empty() {
        return false;
    }
    if a.low >= b.high || b.low >= a.high {
        return false;
    }
    if a.partition > b.last_partition() || b.partition > a.last_partition() {
        return false;
    }
    let partition = |f: &Footprint| (f.partition_stride, f.partitions);
    partitions_meet(a.partition, partition(a), b.partition, partition(b)) && bytes_meet(a, b)
}

fn partitions_meet(a: i64, (sa, na): (i64, u64), b: i64, (sb, nb): (i64, u64)) -> bool {
    if (sa == 1 || na == 1) && (sb == 1 || nb == 1) {
        return true; // two intervals whose bounds meet
    }
    let mut terms: SmallVec<[(i128, i128); 8]> = SmallVec::new();
    let mut d = i128::from(a) - i128::from(b);
    push_terms(&mut terms, &mut d, &[(sa, na)], &[(sb, nb)]);
    let mut budget = SEARCH_BUDGET;
    reachable(&terms, -d, -d, &mut budget)
}

fn bytes_meet(a: &Footprint, b: &Footprint) -> bool {
    if a.dims.is_empty() && b.dims.is_empty() {
        return true;
    }
    // Starts x of a run of a and y of a run of b meet when x − y lies in [1 − run_a, run_b − 1].
    let mut terms: SmallVec<[(i128, i128); 8]> = SmallVec::new();
    let mut d = i128::from(a.low) - i128::from(b.low);
    push_terms(&mut terms, &mut d, &a.dims, &b.dims);
    let mut budget = SEARCH_BUDGET;
    reachable(&terms, 1 - i128::from(a.run) - d, i128::from(b.run) - 1 - d, &mut budget)
}

/// Writes `d + Σ sa·i − Σ sb·j` as `d' + Σ c·z` with positive `c`, largest first, `0 ≤ z ≤ top`.
fn push_terms(terms: &mut SmallVec<[(i128, i128); 8]>, d: &mut i128, a: &[(i64, u64)], b: &[(i64, u64)]) {
    for &(s, n) in a {
        terms.push((i128::from(s), i128::from(n) - 1));
    }
    for &(s, n) in b {
        *d -= i128::from(s) * (i128::from(n) - 1);
        terms.push((i128::from(s), i128::from(n) - 1));
    }
    terms.retain(|t| t.0 > 0 && t.1 > 0);
    terms.sort_unstable_by_key(|t| std::cmp::Reverse(t.0));
}

/// Is a value of `[lo, hi]` of the form `Σ c·z`? Terms largest coefficient first. Recursion depth = number of terms.
fn reachable(terms: &[(i128, i128)], lo: i128, hi: i128, budget: &mut u32) -> bool {
    let total: i128 = terms.iter().map(|(c, t)| c * t).sum();
    if lo > hi || hi < 0 || lo > total {
        return false;
    }
    if lo <= 0 || hi >= total {
        return true; // 0 or the largest sum is inside
    }
    let g = terms.iter().fold(0, |g, (c, _)| gcd(g, *c));
    if g > 0 && hi.div_euclid(g) * g < lo {
        return false;
    }
    match terms {
        [] => false,
        [(c, _)] => hi.div_euclid(*c) * c >= lo, // the bounds above place the multiple inside the range
        [(c1, t1), (c2, t2)] => two_terms(*c1, *t1, *c2, *t2, lo, hi),
        [(c, t), rest @ ..] => {
            let below: i128 = total - c * t;
            let first = div_ceil(lo - below, *c).max(0);
            let last = hi.div_euclid(*c).min(*t);
            let mut z = first;
            while z <= last {
                if *budget == 0 {
                    return true;
                }
                *budget -= 1;
                if reachable(rest, lo - c * z, hi - c * z, budget) {
                    return true;
                }
                z += 1;
            }
            false
        }
    }
}

/// The same for two terms, in logarithmic time.
fn two_terms(c1: i128, t1: i128, c2: i128, t2: i128, lo: i128, hi: i128) -> bool {
    let multiple = |l: i128, h: i128| div_ceil(l, c1).max(0) <= h.div_euclid(c1).min(t1);
    let top = c2 * t2;
    if multiple(lo, hi) || multiple(lo - top, hi - top) {
        return true; // z2 at an end
    }
    // z1 for which the wanted interval lies strictly between the ends of term 2: any multiple of c2 in it will do.
    let z_lo = ((hi - top).div_euclid(c1) + 1).max(0);
    let z_hi = (div_ceil(lo, c1) - 1).min(t1);
    if z_lo > z_hi {
        return false;
    }
    let width = hi - lo;
    let base = (hi - c1 * z_lo).rem_euclid(c2);
    if base <= width {
        return true;
    }
    let step = (-c1).rem_euclid(c2);
    match first_in_range(step, c2, c2 - base, c2 - base + width) {
        Some(x) => x <= z_hi - z_lo,
        None => false,
    }
}

/// Smallest `x ≥ 0` with `l ≤ a·x mod m ≤ r`, for `0 ≤ a < m`, `0 ≤ l ≤ r < m`.
fn first_in_range(a: i128, m: i128, l: i128, r: i128) -> Option<i128> {
    if l == 0 {
        return Some(0);
    }
    if a == 0 {
        return None;
    }
    let c = div_ceil(l, a);
    if a * c <= r {
        return Some(c);
    }
    let y = first_in_range(m % a, a, (-r).rem_euclid(a), (-l).rem_euclid(a))?;
    Some(div_ceil(l + m * y, a))
}

fn div_ceil(a: i128, b: i128) -> i128 {
    -((-a).div_euclid(b))
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::ids::SetId;
    use cranelift_entity::EntityRef;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn loc(mem: MemoryType, dims: &[u64]) -> MemoryLocation {
        MemoryLocation { allocated: true, ..MemoryLocation::new("t", SetId::new(0), mem, dims) }
    }

    /// Byte set by plain enumeration of the address rule (the specification, file 03 §5.2).
    fn brute(l: &MemoryLocation, base: i64, addr: i64, ap: &AccessPattern) -> BTreeSet<(i64, i64)> {
        let s = ap.dtype.bytes() as i64;
        let mut elems = vec![(ap.offset, true)];
        let mut set = BTreeSet::new();
        let pitch = l.row_bytes() as i64 / s;
        let (p0, free) =
            if l.is_on_chip() { (Some(ap.pairs[0]), &ap.pairs[1..]) } else { (None, &ap.pairs[..]) };
        let mut parts = vec![(ap.offset).div_euclid(pitch.max(1))];
        if let Some(p) = p0 {
            parts = (0..p.num as i64).map(|i| (ap.offset + i * p.step).div_euclid(pitch)).collect();
            elems = vec![(ap.offset.rem_euclid(pitch), true)];
        }
        for p in free {
            elems = elems
                .iter()
                .flat_map(|&(e, _)| (0..p.num as i64).map(move |i| (e + i * p.step, true)))
                .collect();
        }
        for &(e, _) in &elems {
            for b in 0..s {
                if l.is_on_chip() {
                    for p in &parts {
                        set.insert((base + p, addr + e * s + b));
                    }
                } else {
                    set.insert((0, addr + e * s + b));
                }
            }
        }
        set
    }

    fn dt() -> impl Strategy<Value = Dtype> {
        prop::sample::select(vec![Dtype::Uint8, Dtype::Bfloat16, Dtype::Float32, Dtype::Int64])
    }

    fn dram() -> impl Strategy<Value = (i64, AccessPattern)> {
        (dt(), 0i64..6, 0i64..30, prop::collection::vec((-9i64..12, 1u64..5), 1..5))
            .prop_map(|(d, addr, off, p)| (addr * 8, AccessPattern::new(MemLocId::new(0), d, off + 80, &p)))
    }

    fn chip() -> impl Strategy<Value = (i64, i64, AccessPattern)> {
        let free = prop::collection::vec((-4i64..8, 1u64..4), 0..4);
        (dt(), 0i64..3, 0i64..3, 0i64..4, 0i64..8, 0i64..3, 1u64..5, free).prop_map(
            |(d, base, addr, row, col, stride, n, free)| {
                let pitch = 512 / d.bytes() as i64;
                let mut pairs = vec![(stride * pitch, n)];
                pairs.extend(free);
                (base, addr * 4, AccessPattern::new(MemLocId::new(0), d, row * pitch + col + 20, &pairs))
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn dram_overlap_equals_brute_force((addr_a, a) in dram(), (addr_b, b) in dram()) {
            let l = loc(MemoryType::Dram, &[1 << 20]);
            let place = |addr| Placement { space: Space::SharedDram, base: 0, addr };
            let (fa, fb) = (Footprint::new(&place(addr_a), &l, &a), Footprint::new(&place(addr_b), &l, &b));
            prop_assert!(fa.exact && fb.exact);
            let (sa, sb) = (brute(&l, 0, addr_a, &a), brute(&l, 0, addr_b, &b));
            prop_assert_eq!(overlaps(&fa, &fb), !sa.is_disjoint(&sb));
            prop_assert_eq!(overlaps(&fb, &fa), !sa.is_disjoint(&sb));
            prop_assert_eq!(fa.low, sa.iter().next().unwrap().1);
            prop_assert_eq!(fa.high, sa.iter().last().unwrap().1 + 1);
            if fa.covers(&fb) { prop_assert!(sb.is_subset(&sa)); }
            if fa.is_dense() { prop_assert_eq!(sa.len() as i64, fa.high - fa.low); }
        }

        #[test]
        fn on_chip_overlap_equals_brute_force((ba, aa, a) in chip(), (bb, ab, b) in chip()) {
            let l = loc(MemoryType::Sb, &[64, 512]);
            let place = |base, addr| Placement { space: Space::Sb(None), base, addr };
            let (fa, fb) = (Footprint::new(&place(ba, aa), &l, &a), Footprint::new(&place(bb, ab), &l, &b));
            prop_assume!(fa.exact && fb.exact);
            let (sa, sb) = (brute(&l, ba, aa, &a), brute(&l, bb, ab, &b));
            prop_assert_eq!(overlaps(&fa, &fb), !sa.is_disjoint(&sb));
            if fa.covers(&fb) { prop_assert!(sb.is_subset(&sa)); }
        }

        #[test]
        fn two_term_search_equals_enumeration(c1 in 1i128..40, t1 in 0i128..12, c2 in 1i128..40, t2 in 0i128..12,
                                              lo in -20i128..400, w in 0i128..6) {
            let mut want = false;
            for x in 0..=t1 { for y in 0..=t2 { want |= (lo..=lo + w).contains(&(c1 * x + c2 * y)); } }
            let mut terms = vec![(c1, t1), (c2, t2)];
            terms.retain(|t| t.1 > 0);
            terms.sort_by_key(|t| std::cmp::Reverse(t.0));
            let mut budget = SEARCH_BUDGET;
            prop_assert_eq!(reachable(&terms, lo, lo + w, &mut budget), want);
        }
    }

    #[test]
    fn interleaved_columns_do_not_meet_and_dynamic_patterns_stand_for_the_location() {
        let l = loc(MemoryType::Sb, &[128, 1024]);
        let place = Placement { space: Space::Sb(None), base: 0, addr: 0 };
        let even = AccessPattern::new(MemLocId::new(0), Dtype::Float32, 0, &[(256, 128), (2, 64)]);
        let odd = AccessPattern { offset: 1, ..even.clone() };
        let (e, o) = (Footprint::new(&place, &l, &even), Footprint::new(&place, &l, &odd));
        assert!(!overlaps(&e, &o) && overlaps(&e, &e));
        let dynamic = AccessPattern {
            dynamic: Some(Box::new(crate::ap::DynamicAp { terms: vec![], indirect_dim: 0, max_index: None })),
            ..odd
        };
        let d = Footprint::new(&place, &l, &dynamic);
        assert!(!d.exact && overlaps(&e, &d) && (d.partitions, d.high) == (128, 1024));
        let other = Placement { space: Space::Sb(Some(CoreId(1))), ..place };
        assert!(!overlaps(&e, &Footprint::new(&other, &l, &even)));
    }

    #[test]
    fn a_search_without_structure_ends() {
        let l = loc(MemoryType::Dram, &[u64::MAX]);
        let place = Placement { space: Space::SharedDram, base: 0, addr: 0 };
        let p = |o, s: [i64; 4]| {
            let pairs: Vec<(i64, u64)> = s.iter().map(|s| (*s, 60_000)).collect();
            AccessPattern::new(MemLocId::new(0), Dtype::Uint8, o, &pairs)
        };
        let a = Footprint::new(&place, &l, &p(0, [1_000_002, 1_000_032, 1_000_036, 1_000_038]));
        let b = Footprint::new(&place, &l, &p(1, [1_000_004, 1_000_006, 1_000_010, 1_000_012]));
        let _ = overlaps(&a, &b); // all steps even, offsets odd: either answer is safe, it must only end
    }
}
