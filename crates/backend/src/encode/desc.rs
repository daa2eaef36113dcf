//! Descriptors: TENSORnD / MEM_PATTERNnD, and the canonical form of on-chip patterns.
//!
//! Source: the specification, file 07 §4 (documented). Free dimensions are stored innermost first, strides before counts,
//! unit dimensions dropped, spare slots `{1, 1}`; the partition dimension is no slot. Where more dimensions remain
//! than there are slots, contiguous neighbours are merged (our choice, file 06 §7.3).
//!
//! The encoder works on **physical** patterns: the location is the whole SBUF, the whole PSUM or a variable of the core
//! ([`Geometry`]), so that a pattern's offset and pairs are its address.

use super::addr::Addr4;
use super::bundle::{Bundle, WireError, WireResult};
use smallvec::SmallVec;
use tandem_bir::ap::{ApPairs, DynamicAp, merge_pairs};
use tandem_bir::diag::codes;
use tandem_bir::{
    AccessPattern, ApPair, ArchLevel, ArchSpec, Dtype, Expr, MemLocId, MemoryLocation, MemoryType, RegId,
};

/// Free dimensions of a descriptor, innermost first.
pub type Slots = SmallVec<[ApPair; 4]>;

/// How the walk order of a pattern's free dimensions may be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Only the sequence of elements counts: unit pairs are dropped, and neighbours merged when slots are short.
    Free,
    /// Dimensions have meaning (an axis is reduced, a row count read): kept as they are.
    Kept,
}

/// The memories of a core as the records address them.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Generation.
    pub arch: ArchLevel,
    /// Its limits.
    pub spec: &'static ArchSpec,
    /// Location that is the whole SBUF.
    pub sbuf: MemLocId,
    /// Location that is the whole PSUM, all banks.
    pub psum: MemLocId,
}

impl Geometry {
    /// Location of a memory.
    pub fn loc(&self, mem: OnChip) -> MemLocId {
        match mem {
            OnChip::Sbuf => self.sbuf,
            OnChip::Psum => self.psum,
        }
    }
    /// Which memory a location is, when it is one.
    pub fn mem(&self, loc: MemLocId) -> Option<OnChip> {
        if loc == self.sbuf {
            Some(OnChip::Sbuf)
        } else if loc == self.psum {
            Some(OnChip::Psum)
        } else {
            None
        }
    }
    /// Bytes per partition.
    pub fn pitch(&self, mem: OnChip) -> u64 {
        match mem {
            OnChip::Sbuf => self.spec.sbuf_bytes,
            OnChip::Psum => self.spec.psum_bytes,
        }
    }
}

/// The two on-chip memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChip {
    /// SBUF.
    Sbuf,
    /// PSUM.
    Psum,
}

/// Start of a physical pattern on chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Memory.
    pub mem: OnChip,
    /// First partition.
    pub partition: u32,
    /// Byte inside the partition.
    pub byte: u32,
}

/// Address word of a physical on-chip pattern.
///
/// # Errors
/// E0004, E0009, E0012 when the pattern has no such address.
pub fn addr_of(ap: &AccessPattern, g: &Geometry) -> WireResult<Addr4> {
    let Some(mem) = g.mem(ap.loc) else {
        return Err(WireError::new(codes::E0012, "the operand lies in DRAM; only transfers reach it"));
    };
    if let Some(d) = &ap.dynamic {
        return match register_of(d, ap, mem, g) {
            Some(r) => Ok(Addr4::Register(r)),
            None => Err(WireError::new(codes::E0009, "the run-time address is not one register")),
        };
    }
    let s = start_of(ap.offset, ap.dtype, mem, g)?;
    Ok(match mem {
        OnChip::Sbuf => Addr4::Sbuf { partition: s.partition, byte: s.byte },
        OnChip::Psum => Addr4::Psum { partition: s.partition, byte: s.byte },
    })
}

/// Partition and byte of an element offset.
///
/// # Errors
/// E0004 when it is outside the memory.
pub fn start_of(offset: i64, dtype: Dtype, mem: OnChip, g: &Geometry) -> WireResult<Start> {
    let size = dtype.bytes();
    let pitch = (g.pitch(mem) / size) as i64;
    let partition = offset.div_euclid(pitch);
    if !(0..128).contains(&partition) {
        return Err(WireError::new(codes::E0004, format!("partition {partition} does not exist")));
    }
    Ok(Start { mem, partition: partition as u32, byte: (offset.rem_euclid(pitch) as u64 * size) as u32 })
}

/// The run-time part of a pattern whose whole address is in a register of ADDR4 form.
pub fn register_dynamic(reg: RegId, dtype: Dtype, mem: OnChip, g: &Geometry) -> DynamicAp {
    let size = dtype.bytes() as i64;
    let pitch = (g.pitch(mem) / dtype.bytes()) as i64;
    let (shift, base) = match mem {
        OnChip::Sbuf => (super::addr::SBUF_SHIFT, 0),
        OnChip::Psum => (super::addr::PSUM_SHIFT, i64::from(super::addr::PSUM_BASE)),
    };
    let word = Expr::Affine { terms: vec![(1, Expr::Reg(reg))], c: -base };
    let unit = 1i64 << shift;
    DynamicAp {
        terms: vec![
            (pitch, Expr::FloorDiv(Box::new(word.clone()), unit)),
            (1, Expr::FloorDiv(Box::new(Expr::Modulo(Box::new(word), unit)), size)),
        ],
        indirect_dim: 0,
        max_index: None,
    }
}

/// Register number of a pattern made by [`register_dynamic`] (the id's index is the number).
fn register_of(d: &DynamicAp, ap: &AccessPattern, mem: OnChip, g: &Geometry) -> Option<u8> {
    let mut reg = None;
    for (_, e) in &d.terms {
        e.for_each_leaf(&mut |l| {
            if let Expr::Reg(r) = l {
                reg = Some(*r);
            }
        });
    }
    let reg = reg?;
    (ap.offset == 0 && *d == register_dynamic(reg, ap.dtype, mem, g))
        .then(|| u8::try_from(reg.as_u32()).ok())?
}

/// Free pairs of a physical pattern as slots of a descriptor of `rank` dimensions.
///
/// # Errors
/// E0003 when they do not fit.
pub fn slots_of(pairs: &[ApPair], rank: usize, walk: Walk) -> WireResult<Slots> {
    let free = canonical_free(pairs, rank, walk);
    if free.len() > rank {
        return Err(WireError::new(
            codes::E0003,
            format!(
                "Illegal ISA memory access dimension {}, which must be in range of [1, {rank}]D tensor for ISA mem pattern",
                free.len()
            ),
        ));
    }
    let mut out = Slots::new();
    for p in free.iter().rev() {
        if i16::try_from(p.step).is_err() {
            return Err(WireError::new(codes::E0003, format!("stride {} does not fit 16 bits", p.step)));
        }
        if p.num == 0 || p.num > 65_535 {
            return Err(WireError::new(codes::E0003, format!("count {} is not in 1..=65535", p.num)));
        }
        out.push(*p);
    }
    Ok(out)
}

/// The canonical free pairs (outermost first) that encoding and decoding agree on.
pub fn canonical_free(pairs: &[ApPair], rank: usize, walk: Walk) -> ApPairs {
    let free = pairs.get(1..).unwrap_or(&[]);
    match walk {
        Walk::Free => {
            let kept: ApPairs = free.iter().copied().filter(|p| p.num != 1).collect();
            if kept.len() > rank { merge_pairs(&kept) } else { kept }
        }
        Walk::Kept => {
            let start = free.iter().position(|p| p.num != 1).unwrap_or(free.len());
            let rest = &free[start..];
            rest.iter().map(|p| if p.num == 1 { ApPair::new(1, 1) } else { *p }).collect()
        }
    }
}

/// The free pairs are what [`canonical_free`] would give.
pub fn is_canonical_free(free: &[ApPair], rank: usize, walk: Walk) -> bool {
    match walk {
        Walk::Free => free.len() <= rank && free.iter().all(|p| p.num != 1),
        Walk::Kept => {
            free.first().is_none_or(|p| p.num != 1)
                && free.iter().all(|p| p.num != 1 || *p == ApPair::new(1, 1))
        }
    }
}

/// Writes the free pairs of a pattern as a descriptor.
///
/// # Errors
/// Those of [`slots_of`].
pub fn put_pattern(
    b: &mut Bundle,
    off: u8,
    rank: u8,
    addr: u32,
    pairs: &[ApPair],
    walk: Walk,
) -> WireResult<()> {
    let free = pairs.get(1..).unwrap_or(&[]);
    let fits = |p: &ApPair| p.step >= -0x8000 && p.step < 0x8000 && p.num.wrapping_sub(1) < 65_535;
    let n = usize::from(rank.min(4));
    if free.len() <= n && is_canonical_free(free, usize::from(rank), walk) && free.iter().all(fits) {
        let mut inner = [(1i16, 1u16); 4];
        for (slot, p) in inner.iter_mut().zip(free.iter().rev()) {
            *slot = (p.step as i16, p.num as u16);
        }
        let at = usize::from(off) + 4;
        if let Some(bytes) = b.0.get_mut(at..at + 4 * n) {
            let (steps, nums) = bytes.split_at_mut(2 * n);
            let both = steps.as_chunks_mut::<2>().0.iter_mut().zip(nums.as_chunks_mut::<2>().0);
            for ((step, num), (s, c)) in both.zip(inner) {
                *step = s.to_le_bytes();
                *num = c.to_le_bytes();
            }
        }
        b.put(off, 4, u64::from(addr));
        return Ok(());
    }
    let slots = slots_of(pairs, usize::from(rank), walk)?;
    put_tensor(b, off, rank, addr, &slots);
    Ok(())
}

/// Writes a descriptor.
pub fn put_tensor(b: &mut Bundle, off: u8, rank: u8, addr: u32, slots: &[ApPair]) {
    b.put(off, 4, u64::from(addr));
    for i in 0..rank {
        let p = slots.get(i as usize).copied().unwrap_or(ApPair::new(1, 1));
        b.put(off + 4 + 2 * i, 2, p.step as u64);
        b.put(off + 4 + 2 * rank + 2 * i, 2, p.num);
    }
}

/// Reads a descriptor: address word, free pairs outermost first with spare slots dropped.
///
/// # Errors
/// E0104 for a zero count.
pub fn get_tensor(b: &Bundle, off: u8, rank: u8) -> WireResult<(u32, ApPairs)> {
    let mut free = ApPairs::new();
    let word = read_tensor(b, off, rank, &mut free)?;
    Ok((word, free))
}

/// The same into a list that is there.
pub(crate) fn read_tensor(b: &Bundle, off: u8, rank: u8, free: &mut ApPairs) -> WireResult<u32> {
    free.clear();
    let (at, n) = (usize::from(off) + 4, usize::from(rank.min(4)));
    let (steps, nums) = (b.0.get(at..at + 2 * n), b.0.get(at + 2 * n..at + 4 * n));
    let (steps, nums) = (steps.unwrap_or(&[]).as_chunks::<2>().0, nums.unwrap_or(&[]).as_chunks::<2>().0);
    let mut pairs = [ApPair::new(1, 1); 4];
    let mut used = 0;
    for (i, (s, c)) in steps.iter().zip(nums).enumerate().take(4) {
        let (step, num) = (i16::from_le_bytes(*s), u16::from_le_bytes(*c));
        if num == 0 {
            return Err(WireError::new(
                codes::E0104,
                format!("count {i} of the descriptor at {off:#04x} is 0"),
            ));
        }
        if (step, num) != (1, 1) {
            pairs[i] = ApPair::new(i64::from(step), u64::from(num));
            used = i + 1;
        }
    }
    pairs[..used].reverse();
    free.extend_from_slice(&pairs[..used]);
    Ok(b.get(off, 4) as u32)
}

/// Memory, partition, element inside the partition and the location's elements per partition of an on-chip pattern over a
/// placed location.
struct Origin {
    mem: OnChip,
    part: i64,
    within: i64,
    pitch_loc: i64,
    pitch: i64,
}

fn origin(ap: &AccessPattern, l: &MemoryLocation, g: &Geometry) -> WireResult<Origin> {
    let mem = match l.mem {
        MemoryType::Sb => OnChip::Sbuf,
        MemoryType::Psum => OnChip::Psum,
        MemoryType::Unallocated
        | MemoryType::Input
        | MemoryType::Output
        | MemoryType::Dram
        | MemoryType::RngState
        | MemoryType::Reg => {
            return Err(WireError::new(codes::E0012, format!("location {} is neither SB nor PSUM", l.name)));
        }
    };
    let bad = |m: String| WireError::new(codes::E0004, m);
    let size = ap.dtype.bytes();
    let pitch_loc = l.row_bytes() / size;
    if pitch_loc == 0 {
        return Err(bad(format!("location {} is narrower than one element", l.name)));
    }
    let pitch_loc = i64::try_from(pitch_loc).map_err(|_| bad("location too wide".to_owned()))?;
    let pitch = (g.pitch(mem) / size) as i64;
    let part = i64::from(l.base).saturating_add(ap.offset.div_euclid(pitch_loc));
    let byte = match mem {
        OnChip::Sbuf => l.addr,
        OnChip::Psum => l.addr.saturating_add(l.bank.unsigned_abs().saturating_mul(g.spec.psum_bank_bytes)),
    };
    if byte % size != 0 {
        return Err(bad(format!("byte {byte:#x} of {} is not a multiple of {size}", l.name)));
    }
    let within =
        i64::try_from(byte / size).unwrap_or(i64::MAX).saturating_add(ap.offset.rem_euclid(pitch_loc));
    if within >= pitch || !(0..128).contains(&part) {
        return Err(bad(format!("partition {part}, byte {byte:#x} of {} is outside the memory", l.name)));
    }
    let (p0, _) =
        ap.pairs.split_first().ok_or_else(|| WireError::new(codes::E0003, "the pattern is empty"))?;
    if p0.num > 1 && p0.step != pitch_loc {
        return Err(WireError::new(
            codes::E0003,
            format!("partition step {} is not one partition ({pitch_loc} elements)", p0.step),
        ));
    }
    Ok(Origin { mem, part, within, pitch_loc, pitch })
}

/// Where a pattern over a placed location starts.
///
/// # Errors
/// Those of [`to_physical`].
pub fn start_on_chip(ap: &AccessPattern, l: &MemoryLocation, g: &Geometry) -> WireResult<Start> {
    let o = origin(ap, l, g)?;
    let byte = o.within as u64 * ap.dtype.bytes();
    Ok(Start { mem: o.mem, partition: o.part as u32, byte: byte as u32 })
}

/// Physical form of an on-chip pattern over a placed location: offset and pairs over the whole memory.
///
/// # Errors
/// E0003, E0004 when the location or the pattern cannot be addressed so.
pub fn to_physical(ap: &AccessPattern, l: &MemoryLocation, g: &Geometry) -> WireResult<AccessPattern> {
    let Origin { mem, part, within, pitch_loc, pitch } = origin(ap, l, g)?;
    let mut pairs = ApPairs::from_slice(&ap.pairs);
    match pairs.first_mut() {
        Some(p) => p.step = pitch,
        None => return Err(WireError::new(codes::E0003, "the pattern is empty")),
    }
    let mut out = AccessPattern {
        loc: g.loc(mem),
        dtype: ap.dtype,
        offset: part.saturating_mul(pitch).saturating_add(within),
        pairs,
        dynamic: None,
    };
    if let Some(d) = &ap.dynamic {
        let terms = d
            .terms
            .iter()
            .map(|(k, e)| {
                let k = if k % pitch_loc == 0 { (k / pitch_loc).saturating_mul(pitch) } else { *k };
                (k, e.clone())
            })
            .collect();
        out.dynamic =
            Some(Box::new(DynamicAp { terms, indirect_dim: d.indirect_dim, max_index: d.max_index }));
    }
    Ok(out)
}
