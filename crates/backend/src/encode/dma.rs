//! Transfers: `0xD4` with its extensions.
//!
//! Source: the specification, file 07 §7.7. A plain copy is one `0xD4` and authentic. Everything else is our choice and
//! marked: two `0xB2` records carry the exact patterns of transpositions, replications and run-time addresses, and
//! `0xDA` records carry a further source of a fold, an accumulation into the destination, or one run-time term.
//!
//! | +0x0E of `0xDA` | meaning |
//! |---|---|
//! | 0 | the destination takes part: accumulate with the ALU code at +0x0C |
//! | 1 | a further source at +0x10 (ADDR8, steps, counts), its scale at +0x30, that of the first source at +0x34 |
//! | 2 | a run-time term, see [`Term`] |
//! | 3 | the fold has a single source and the destination takes no part |

use super::addr::{Addr8, PSUM_BASE, PSUM_SHIFT, SBUF_SHIFT};
use super::bundle::{Bundle, WireError, WireResult};
use super::codec::{Records, sync_of};
use super::desc::Geometry;
use super::events;
use super::forms::Slot;
use super::phys::{copy_mode, location_var, var_location};
use super::tables::{alu_of_wire, dtype_of_wire, wire_alu, wire_dtype};
use crate::decode::patch::Patch;
use smallvec::SmallVec;
use tandem_bir::diag::codes;
use tandem_bir::inst::{F32, SemUpdate};
use tandem_bir::{
    AccessPattern, AluOp, ApPair, ApPairs, Attr, AttrValue, BirEnum, CopyMode, DmaQosClass, Dtype, DynamicAp,
    Expr, Inst, MemLocId, MemoryType, Opcode, Operand, RegId, TransposeOps,
};

/// Largest packed run of a record, in bytes.
pub const MAX_RUN: u64 = 65_536;
/// Largest count of a dimension.
pub const MAX_NUM: u64 = 65_535;

/// A variable or memory as transfers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Memory.
    pub mem: MemoryType,
    /// Bytes per partition of an on-chip place.
    pub row_bytes: u64,
}

/// Looks up the place of a physical location.
pub type Places<'a> = &'a dyn Fn(MemLocId) -> Option<Place>;

/// A pattern as a record stores it: byte offset, outer dimensions (outermost first), packed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Byte offset.
    pub offset: i64,
    /// `(bytes, count)`, unit counts dropped.
    pub dims: SmallVec<[(i64, u64); 4]>,
    /// Bytes of the packed run.
    pub run: u64,
}

impl View {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.dims.iter().fold(self.run, |a, d| a.saturating_mul(d.1))
    }
    /// One record holds it.
    pub fn fits(&self) -> bool {
        self.dims.len() <= 2
            && self.run <= MAX_RUN
            && self.dims.iter().all(|d| d.1 <= MAX_NUM && i32::try_from(d.0).is_ok())
    }
}

/// Bytes between partitions in the address form of a memory.
fn partition_unit(mem: MemoryType) -> i64 {
    if mem == MemoryType::Psum { 1 << PSUM_SHIFT } else { 1 << SBUF_SHIFT }
}

/// The view of a physical pattern (its static part), with a given run length where one is forced.
///
/// # Errors
/// E0003, E0004 for patterns no transfer can express.
pub fn view(ap: &AccessPattern, place: Place, geo: &Geometry, run: Option<u64>) -> WireResult<View> {
    let size = ap.dtype.bytes();
    let bad = |m: &str| WireError::new(codes::E0003, m.to_owned());
    let on_chip = matches!(place.mem, MemoryType::Sb | MemoryType::Psum);
    let mut dims: SmallVec<[(i64, u64); 4]> = SmallVec::new();
    let (offset, free) = if on_chip {
        let pitch = i64::try_from(place.row_bytes / size).unwrap_or(i64::MAX);
        if pitch == 0 {
            return Err(bad("the location is narrower than one element"));
        }
        let unit = partition_unit(place.mem);
        let base =
            if place.mem == MemoryType::Psum && geo.mem(ap.loc).is_some() { i64::from(PSUM_BASE) } else { 0 };
        let offset = ap
            .offset
            .div_euclid(pitch)
            .checked_mul(unit)
            .and_then(|p| p.checked_add(ap.offset.rem_euclid(pitch).checked_mul(size as i64)?))
            .and_then(|p| p.checked_add(base))
            .ok_or_else(|| bad("the offset overflows"))?;
        let (p0, free) = ap.pairs.split_first().ok_or_else(|| bad("the pattern is empty"))?;
        if p0.num != 1 {
            if p0.step % pitch != 0 {
                return Err(bad("the partition step is not a multiple of the partition pitch"));
            }
            let step = (p0.step / pitch).checked_mul(unit).ok_or_else(|| bad("a step overflows"))?;
            dims.push((step, p0.num));
        }
        (offset, free)
    } else {
        (ap.offset.checked_mul(size as i64).ok_or_else(|| bad("the offset overflows"))?, &ap.pairs[..])
    };
    let fixed = dims.len();
    let mut merged: SmallVec<[(i64, u64); 4]> = SmallVec::new();
    for p in free.iter().filter(|p| p.num != 1) {
        let step = p.step.checked_mul(size as i64).ok_or_else(|| bad("a step overflows"))?;
        if let Some(last) = merged.last_mut()
            && i64::try_from(p.num).ok().and_then(|n| step.checked_mul(n)) == Some(last.0)
            && let Some(n) = last.1.checked_mul(p.num)
        {
            *last = (step, n);
        } else {
            merged.push((step, p.num));
        }
    }
    let mut packed = size;
    if let Some(&(step, n)) = merged.last()
        && step == size as i64
    {
        packed = n.checked_mul(size).ok_or_else(|| bad("a run overflows"))?;
        merged.pop();
    }
    let want = match run {
        Some(r) => r,
        None if packed <= MAX_RUN => packed,
        None => largest_part(packed, size),
    };
    if want == 0 || !packed.is_multiple_of(want) {
        return Err(bad("the packed run cannot be cut to the length of the others"));
    }
    if packed != want {
        merged.push((want as i64, packed / want));
    }
    dims.extend(merged);
    debug_assert!(fixed <= dims.len());
    Ok(View { offset, dims, run: want })
}

/// Largest divisor of `packed` that is a multiple of `size` and at most [`MAX_RUN`].
fn largest_part(packed: u64, size: u64) -> u64 {
    let n = packed / size.max(1);
    let mut best = size;
    let mut d = 1;
    while d * d <= n && d <= MAX_RUN {
        if n.is_multiple_of(d) {
            for c in [d, n / d] {
                let b = c.saturating_mul(size);
                if b <= MAX_RUN && b > best {
                    best = b;
                }
            }
        }
        d += 1;
    }
    best
}

/// The pattern of a view over a place.
fn pattern(v: &View, loc: MemLocId, dtype: Dtype, place: Place, geo: &Geometry) -> WireResult<AccessPattern> {
    let size = dtype.bytes() as i64;
    let bad = |m: String| WireError::new(codes::E0104, m);
    let mut pairs = ApPairs::new();
    let mut dims = &v.dims[..];
    let elements = |b: i64| -> WireResult<i64> {
        if b % size == 0 {
            Ok(b / size)
        } else {
            Err(bad(format!("{b} bytes are no multiple of the element size")))
        }
    };
    let offset = if matches!(place.mem, MemoryType::Sb | MemoryType::Psum) {
        let unit = partition_unit(place.mem);
        let base =
            if place.mem == MemoryType::Psum && geo.mem(loc).is_some() { i64::from(PSUM_BASE) } else { 0 };
        let at = v.offset - base;
        let pitch = place.row_bytes as i64 / size;
        let byte = at.rem_euclid(unit);
        if byte >= place.row_bytes as i64 {
            return Err(bad(format!("byte {byte:#x} is beyond the partition")));
        }
        match dims.first() {
            Some(&(step, n)) if step % unit == 0 => {
                pairs.push(ApPair::new(step / unit * pitch, n));
                dims = &dims[1..];
            }
            _ => pairs.push(ApPair::new(pitch, 1)),
        }
        at.div_euclid(unit) * pitch + elements(byte)?
    } else {
        elements(v.offset)?
    };
    for &(step, n) in dims {
        pairs.push(ApPair::new(elements(step)?, n));
    }
    let run = elements(v.run as i64)?;
    if run != 1 || pairs.len() < 2 {
        pairs.push(ApPair::new(1, run as u64));
    }
    Ok(AccessPattern { loc, dtype, offset, pairs, dynamic: None })
}

/// What a transfer needs beyond its instruction.
pub struct DmaCtx<'a> {
    /// Memories.
    pub geo: Geometry,
    /// Places of physical locations.
    pub places: Places<'a>,
}

impl DmaCtx<'_> {
    fn place(&self, loc: MemLocId) -> WireResult<Place> {
        (self.places)(loc).ok_or_else(|| WireError::new(codes::E0004, "a transfer's location does not exist"))
    }
    fn addr(&self, offset: i64, loc: MemLocId) -> WireResult<Addr8> {
        let offset = u32::try_from(offset)
            .map_err(|_| WireError::new(codes::E0004, format!("offset {offset:#x} does not fit 32 bits")))?;
        let var = if self.geo.mem(loc).is_some() {
            0
        } else {
            location_var(loc)
                .ok_or_else(|| WireError::new(codes::E0004, "a transfer's location has no variable"))?
        };
        Ok(Addr8 { offset, var })
    }
    fn loc_of(&self, a: Addr8) -> MemLocId {
        if a.var == 0 {
            if a.offset >= PSUM_BASE { self.geo.psum } else { self.geo.sbuf }
        } else {
            var_location(a.var)
        }
    }
}

fn put_side(b: &mut Bundle, off: u8, addr: Addr8, v: &View, dtype: u8, dtype_off: u8) {
    b.put(off, 8, addr.to_wire());
    // slot 0 is the dimension next to the run
    for (i, d) in v.dims.iter().rev().enumerate() {
        b.put(off + 8 + 4 * i as u8, 4, d.0 as u64);
        b.put(off + 16 + 2 * i as u8, 2, d.1);
    }
    for i in v.dims.len()..2 {
        b.put(off + 16 + 2 * i as u8, 2, 1);
    }
    b.put(off + 20, 2, v.run & 0xFFFF);
    b.put(dtype_off, 1, u64::from(dtype));
}

fn get_side(b: &Bundle, off: u8) -> WireResult<(Addr8, View)> {
    let addr = Addr8::from_wire(b.get(off, 8))?;
    let mut dims: SmallVec<[(i64, u64); 4]> = SmallVec::new();
    for i in (0..2u8).rev() {
        let (step, num) = (b.get_i(off + 8 + 4 * i, 4), b.get(off + 16 + 2 * i, 2));
        if num == 0 {
            return Err(WireError::new(codes::E0104, "a count of a transfer is 0"));
        }
        if num == 1 {
            if step != 0 {
                return Err(WireError::new(codes::E0104, "an unused dimension of a transfer has a step"));
            }
        } else {
            dims.push((step, num));
        }
    }
    let run = match b.get(off + 20, 2) {
        0 => MAX_RUN,
        n => n,
    };
    Ok((addr, View { offset: i64::from(addr.offset), dims, run }))
}

/// Priority class code; 0 on NC-v2 and for the default.
fn qos_code(q: Option<DmaQosClass>) -> u64 {
    match q.map_or(0, |q| q.ordinal()) {
        0 | 1 => 0,
        n => u64::from(n - 1).min(7),
    }
}

/// Sync commands of `0xD4`: transpose and copy are documented, replicate is ours.
const CMD_TRANSPOSE: u8 = 1;
const CMD_COPY: u8 = 3;
const CMD_REPLICATE: u8 = 4;

/// The fold operation of a transfer, when it has one.
fn fold_op(inst: &Inst) -> Option<AluOp> {
    inst.get_enum::<AluOp>(Attr::CceOp).filter(|op| *op != AluOp::Bypass)
}

/// The transfer is one authentic `0xD4`.
pub fn is_plain(inst: &Inst) -> bool {
    inst.ins.len() == 1
        && copy_mode(inst) == CopyMode::Copy
        && inst.opcode != Opcode::GenericIndirectSave
        && fold_op(inst).is_none()
        && inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap).all(AccessPattern::is_static)
}

/// The core whose semaphore a transfer updates, when it is another one.
pub fn notified(inst: &Inst) -> Option<u32> {
    sync_of(inst).and_then(|s| s.on_update.iter().find_map(|u| u.target_core))
}

/// Encodes a transfer in physical form.
///
/// # Errors
/// What does not fit.
pub fn encode(inst: &Inst, qos: Option<DmaQosClass>, ctx: &DmaCtx<'_>) -> WireResult<Records> {
    let arch = ctx.geo.arch;
    let srcs: Vec<&AccessPattern> = inst.ins.iter().filter_map(Operand::as_ap).collect();
    let dst = inst.outs.first().and_then(Operand::as_ap);
    let (Some(dst), Some(first), true) = (dst, srcs.first().copied(), srcs.len() == inst.ins.len()) else {
        return Err(WireError::new(codes::E0001, "DGE's number of args/outputs is wrong"));
    };
    let mode = copy_mode(inst);
    let dynamic = srcs.iter().chain([&dst]).any(|a| !a.is_static());
    let exact = dynamic || matches!(mode, CopyMode::Transpose | CopyMode::Replicate);
    let mut b = Bundle::new(0xD4);
    if arch >= tandem_bir::ArchLevel::Gen3 {
        b.put(0x0C, 1, qos_code(qos));
    }
    if let Some(s) = sync_of(inst) {
        events::put_wait(&mut b, &s.on_wait)?;
        let (local, remote): (Vec<_>, Vec<_>) =
            s.on_update.iter().cloned().partition(|u| u.target_core.is_none());
        let completion = if remote.is_empty() { &local } else { &remote };
        if !remote.is_empty() {
            // the completion bytes take the peer's semaphore, the events region the own one
            events::put_update(&mut b, &local)?;
        }
        match completion.as_slice() {
            [] => {}
            [u] => {
                let sem = u8::try_from(u.sem);
                let value = u8::try_from(u.value);
                let (Ok(sem), Ok(value)) = (sem, value) else {
                    return Err(WireError::new(
                        codes::E0008,
                        "the completion of a transfer does not fit 8 bits",
                    ));
                };
                b.put(0x0D, 1, u64::from(sem));
                b.put(0x0E, 1, u64::from(value));
            }
            _ => return Err(WireError::new(codes::E0008, "Too many sync update commands")),
        }
    }
    let cmd = match mode {
        CopyMode::Copy | CopyMode::Cce | CopyMode::Dynamic => CMD_COPY,
        CopyMode::Transpose => CMD_TRANSPOSE,
        CopyMode::Replicate => CMD_REPLICATE,
    };
    b.put(0x0F, 1, u64::from(cmd));
    let mut out = Records::new();
    let code = |d: Dtype| wire_dtype(d, arch);
    if exact {
        if srcs.len() != 1 {
            return Err(WireError::new(codes::E0009, "a fold of sources at run-time addresses"));
        }
        for (a, off, d) in [(first, 0x10, 0x3E), (dst, 0x28, 0x3F)] {
            let whole = AccessPattern {
                pairs: SmallVec::from_slice(&[ApPair::new(1, 1)]),
                dynamic: None,
                ..a.clone()
            };
            let v = view(&whole, ctx.place(a.loc)?, &ctx.geo, None)?;
            put_side(&mut b, off, ctx.addr(v.offset, a.loc)?, &v, code(a.dtype), d);
        }
        out.push(b);
        out.push(shape_record(first, inst)?);
        out.push(shape_record(dst, inst)?);
        for (i, a) in [(0u8, first), (1, dst)] {
            for (k, e) in a.dynamic.iter().flat_map(|d| &d.terms) {
                out.push(Term::of(i, *k, e, inst)?.record(ctx)?);
            }
        }
    } else {
        // all sources share one run with the first
        let v0 = view(first, ctx.place(first.loc)?, &ctx.geo, None)?;
        let mut run = v0.run;
        for s in srcs.iter().skip(1) {
            run = gcd(run, view(s, ctx.place(s.loc)?, &ctx.geo, None)?.run);
        }
        let vs = view(first, ctx.place(first.loc)?, &ctx.geo, Some(run).filter(|r| *r != v0.run))?;
        let vd = view(dst, ctx.place(dst.loc)?, &ctx.geo, None)?;
        if vs.bytes() / first.dtype.bytes() != vd.bytes() / dst.dtype.bytes() {
            return Err(WireError::new(
                codes::E0003,
                "DMA instruction must read and write same number of elements",
            ));
        }
        for (v, a, off, d) in [(&vs, first, 0x10, 0x3E), (&vd, dst, 0x28, 0x3F)] {
            if !v.fits() {
                return Err(WireError::new(
                    codes::E0003,
                    "a transfer holds two dimensions beside the packed run",
                ));
            }
            put_side(&mut b, off, ctx.addr(v.offset, a.loc)?, v, code(a.dtype), d);
        }
        out.push(b);
        for (i, s) in srcs.iter().enumerate().skip(1) {
            out.push(source_record(s, i, run, inst, ctx)?);
        }
    }
    let op = fold_op(inst);
    if mode == CopyMode::Cce && srcs.len() == 1 {
        out.push(fold_record(3, op.unwrap_or(AluOp::Add), dst.dtype, inst, ctx)?);
    } else if let Some(op) = op.filter(|_| mode != CopyMode::Cce) {
        out.push(fold_record(0, op, dst.dtype, inst, ctx)?);
    }
    Ok(out)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn scale(inst: &Inst, i: usize) -> f32 {
    match inst.attr(Attr::Constants) {
        Some(AttrValue::Floats(f)) => f.get(i).map_or(1.0, |f| f.0),
        _ => 1.0,
    }
}

fn fold_record(kind: u8, op: AluOp, dtype: Dtype, inst: &Inst, ctx: &DmaCtx<'_>) -> WireResult<Bundle> {
    let mut b = Bundle::new(0xDA);
    b.put(0x0C, 1, u64::from(wire_alu(op, ctx.geo.arch)?));
    b.put(0x0D, 1, u64::from(wire_dtype(dtype, ctx.geo.arch)));
    b.put(0x0E, 1, u64::from(kind));
    b.put(0x34, 4, u64::from(scale(inst, 0).to_bits()));
    Ok(b)
}

fn source_record(s: &AccessPattern, i: usize, run: u64, inst: &Inst, ctx: &DmaCtx<'_>) -> WireResult<Bundle> {
    let mut b = fold_record(1, fold_op(inst).unwrap_or(AluOp::Add), s.dtype, inst, ctx)?;
    let v = view(s, ctx.place(s.loc)?, &ctx.geo, Some(run))?;
    if !v.fits() {
        return Err(WireError::new(codes::E0003, "a further source has more than two dimensions"));
    }
    b.put(0x10, 8, ctx.addr(v.offset, s.loc)?.to_wire());
    for (j, d) in v.dims.iter().rev().enumerate() {
        b.put(0x18 + 4 * j as u8, 4, d.0 as u64);
        b.put(0x20 + 4 * j as u8, 4, d.1);
    }
    for j in v.dims.len()..2 {
        b.put(0x20 + 4 * j as u8, 4, 1);
    }
    b.put(0x30, 4, u64::from(scale(inst, i).to_bits()));
    Ok(b)
}

/// `0xB2`: up to four exact pairs; the transposition and the rank at +0x10.
fn shape_record(a: &AccessPattern, inst: &Inst) -> WireResult<Bundle> {
    let mut b = Bundle::new(0xB2);
    b.put(0x0C, 2, 0x0100);
    b.put(0x0E, 1, 1);
    let t = if inst.opcode == Opcode::DmaCopy {
        inst.get_enum::<TransposeOps>(Attr::TransposeOp).unwrap_or(TransposeOps::None)
    } else {
        TransposeOps::None
    };
    b.put(0x10, 1, u64::from(t.ordinal()));
    b.put(0x11, 1, a.pairs.len() as u64);
    if a.pairs.len() > 4 {
        return Err(WireError::new(codes::E0003, "a shape record holds four pairs"));
    }
    for (i, p) in a.pairs.iter().enumerate() {
        let (Ok(step), Ok(num)) = (i32::try_from(p.step), u32::try_from(p.num)) else {
            return Err(WireError::new(codes::E0003, "a pair does not fit 32 bits"));
        };
        b.put(0x20 + 4 * i as u8, 4, i64::from(step) as u64);
        b.put(0x30 + 4 * i as u8, 4, u64::from(num));
    }
    Ok(b)
}

/// A run-time term of an address: `coefficient · (register | index operand)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// 0 source, 1 destination.
    side: u8,
    /// Elements per unit.
    coefficient: i64,
    /// Register, or the operand of indexes.
    what: TermSource,
    indirect_dim: i64,
    max_index: Option<i64>,
    oob_is_err: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum TermSource {
    Reg(u8),
    Index(AccessPattern),
}

impl Term {
    fn of(side: u8, k: i64, e: &Expr, inst: &Inst) -> WireResult<Term> {
        let a = if side == 0 { inst.ins.first() } else { inst.outs.first() }.and_then(Operand::as_ap);
        let d = a.and_then(|a| a.dynamic.as_deref());
        let what = match e {
            Expr::Reg(r) => TermSource::Reg(u8::try_from(r.as_u32()).unwrap_or(u8::MAX)),
            Expr::IndirectArg(n) => {
                let op = usize::try_from(n - 1).ok().and_then(|n| inst.indirection_ins().get(n));
                match op.and_then(Operand::as_ap) {
                    Some(a) => TermSource::Index(a.clone()),
                    None => {
                        return Err(WireError::new(codes::E0009, format!("index operand {n} is missing")));
                    }
                }
            }
            _ => {
                return Err(WireError::new(
                    codes::E0009,
                    "a run-time address is a sum of scaled registers or indexes",
                ));
            }
        };
        Ok(Term {
            side,
            coefficient: k,
            what,
            indirect_dim: d.map_or(0, |d| d.indirect_dim),
            max_index: d.and_then(|d| d.max_index),
            oob_is_err: inst.spec().attr(Attr::OobIsErr).is_some() && inst.get_bool(Attr::OobIsErr),
        })
    }

    fn record(&self, ctx: &DmaCtx<'_>) -> WireResult<Bundle> {
        let mut b = Bundle::new(0xDA);
        b.put(0x0C, 1, u64::from(self.side));
        b.put(0x0E, 1, 2);
        b.put(0x0F, 1, u64::from(self.oob_is_err) | u64::from(self.max_index.is_some()) << 1);
        b.put(0x10, 8, self.coefficient as u64);
        b.put(0x18, 8, self.max_index.unwrap_or(0) as u64);
        let Ok(dim) = i16::try_from(self.indirect_dim) else {
            return Err(WireError::new(codes::E0005, "the indirect dimension does not fit"));
        };
        b.put(0x20, 2, dim as u64);
        match &self.what {
            TermSource::Reg(r) => {
                b.put(0x0D, 1, 1);
                b.put(0x22, 1, u64::from(*r));
            }
            TermSource::Index(a) => {
                b.put(0x0D, 1, 2);
                if a.pairs.len() > 3 || !a.is_static() {
                    return Err(WireError::new(codes::E0003, "an index operand has at most three pairs"));
                }
                b.put(0x22, 1, u64::from(wire_dtype(a.dtype, ctx.geo.arch)));
                b.put(0x23, 1, a.pairs.len() as u64);
                let whole = AccessPattern { pairs: SmallVec::from_slice(&[ApPair::new(1, 1)]), ..a.clone() };
                let v = view(&whole, ctx.place(a.loc)?, &ctx.geo, None)?;
                b.put(0x24, 8, ctx.addr(v.offset, a.loc)?.to_wire());
                for (i, p) in a.pairs.iter().enumerate() {
                    let (Ok(step), Ok(num)) = (i32::try_from(p.step), u16::try_from(p.num)) else {
                        return Err(WireError::new(codes::E0003, "a pair of the index operand does not fit"));
                    };
                    b.put(0x2C + 4 * i as u8, 4, i64::from(step) as u64);
                    b.put(0x38 + 2 * i as u8, 2, u64::from(num));
                }
            }
        }
        Ok(b)
    }

    fn read(b: &Bundle, ctx: &DmaCtx<'_>) -> WireResult<Term> {
        let bad = |m: &str| WireError::new(codes::E0104, m.to_owned());
        let what = match b.byte(0x0D) {
            1 => TermSource::Reg(b.byte(0x22)),
            2 => {
                let dtype = dtype_of_wire(b.byte(0x22), ctx.geo.arch)?;
                let rank = b.byte(0x23);
                if rank > 3 {
                    return Err(bad("an index operand has at most three pairs"));
                }
                let addr = Addr8::from_wire(b.get(0x24, 8))?;
                let loc = ctx.loc_of(addr);
                let v = View { offset: i64::from(addr.offset), dims: SmallVec::new(), run: dtype.bytes() };
                let mut a = pattern(&v, loc, dtype, ctx.place(loc)?, &ctx.geo)?;
                a.pairs = (0..rank)
                    .map(|i| ApPair::new(b.get_i(0x2C + 4 * i, 4), b.get(0x38 + 2 * i, 2)))
                    .collect();
                TermSource::Index(a)
            }
            _ => return Err(bad("a run-time term is a register or an index operand")),
        };
        let flags = b.byte(0x0F);
        Ok(Term {
            side: b.byte(0x0C),
            coefficient: b.get(0x10, 8) as i64,
            what,
            indirect_dim: b.get_i(0x20, 2),
            max_index: (flags & 2 != 0).then(|| b.get(0x18, 8) as i64),
            oob_is_err: flags & 1 != 0,
        })
    }
}

/// Number of records of the transfer that starts at `records[0]`.
pub fn group_len(records: &[Bundle]) -> usize {
    let mut n = 1;
    while n < records.len() && n < 3 && records[n].opcode() == 0xB2 {
        n += 1;
    }
    while n < records.len() && records[n].opcode() == 0xDA {
        n += 1;
    }
    n
}

/// Decodes the records of a transfer.
///
/// # Errors
/// E0104 for what is no transfer.
pub fn decode(records: &[Bundle], ctx: &DmaCtx<'_>, patch: &Patch) -> WireResult<Inst> {
    let bad = |m: &str| WireError::new(codes::E0104, m.to_owned());
    let Some((b, rest)) = records.split_first() else { return Err(bad("no record")) };
    let arch = ctx.geo.arch;
    let mut inst = Inst::new("", Opcode::DmaCopy);
    let mut s = events::get(b)?;
    if !s.on_update.is_empty() && patch.target.is_none() {
        return Err(bad("a transfer updates through its completion bytes"));
    }
    if b.byte(0x0E) != 0 {
        s.on_update.push(SemUpdate {
            sem: u32::from(b.byte(0x0D)),
            value: i64::from(b.byte(0x0E)),
            target_core: patch.target,
            ..SemUpdate::default()
        });
    } else if patch.target.is_some() {
        return Err(bad("a transfer of the record table notifies nobody"));
    } else if b.byte(0x0D) != 0 {
        return Err(bad("a completion semaphore with increment 0"));
    }
    if s != tandem_bir::inst::SyncInfo::default() {
        inst.more_mut().sync = Some(s);
    }
    if b.byte(0x0C) > 7 || (arch < tandem_bir::ArchLevel::Gen3 && b.byte(0x0C) != 0) {
        return Err(bad("the priority class has more than three bits"));
    }
    match b.byte(0x0C) {
        0 => {}
        n => inst.set(Attr::DmaQos, AttrValue::Enum(u16::from(n) + 1)),
    }
    if b.get(0x26, 2) != 0 {
        return Err(bad("offset registers are given in extension records"));
    }
    match b.byte(0x0F) {
        CMD_COPY => {}
        CMD_TRANSPOSE => inst.set(Attr::Mode, CopyMode::Transpose),
        CMD_REPLICATE => inst.set(Attr::Mode, CopyMode::Replicate),
        c => return Err(bad(&format!("sync command {c}"))),
    }
    let (sa, sv) = get_side(b, 0x10)?;
    let (da, dv) = get_side(b, 0x28)?;
    let dtype = |s: Slot, code: u8| -> WireResult<Dtype> {
        match patch.dtypes.iter().find(|(p, d)| *p == s && wire_dtype(*d, arch) == code) {
            Some((_, d)) => Ok(*d),
            None => dtype_of_wire(code, arch),
        }
    };
    let (st, dt) = (dtype(Slot::In(0), b.byte(0x3E))?, dtype(Slot::Out(0), b.byte(0x3F))?);
    let (sl, dl) = (ctx.loc_of(sa), ctx.loc_of(da));
    let mut src = pattern(&sv, sl, st, ctx.place(sl)?, &ctx.geo)?;
    let mut dst = pattern(&dv, dl, dt, ctx.place(dl)?, &ctx.geo)?;
    let shapes = rest.iter().take_while(|b| b.opcode() == 0xB2).count();
    match shapes {
        0 => {
            if b.byte(0x0F) != CMD_COPY {
                return Err(bad("a transposition or replication lacks its shape records"));
            }
            if sv.bytes() / st.bytes() != dv.bytes() / dt.bytes() {
                return Err(bad("a transfer reads and writes different numbers of elements"));
            }
        }
        2 => {
            read_shape(&rest[0], &mut src, Some(&mut inst))?;
            read_shape(&rest[1], &mut dst, None)?;
        }
        _ => return Err(bad("shape records come in pairs")),
    }
    let mut sources = vec![src];
    let mut scales = Vec::new();
    for x in &rest[shapes..] {
        if x.opcode() != 0xDA || x.get(4, 8) != 0 {
            return Err(bad("an extension of a transfer is 0xDA without events"));
        }
        match x.byte(0x0E) {
            2 => {
                let t = Term::read(x, ctx)?;
                let a = match t.side {
                    0 => &mut sources[0],
                    1 => &mut dst,
                    _ => return Err(bad("a run-time term belongs to side 0 or 1")),
                };
                let d = a.dynamic.get_or_insert_with(|| {
                    Box::new(DynamicAp {
                        terms: Vec::new(),
                        indirect_dim: t.indirect_dim,
                        max_index: t.max_index,
                    })
                });
                let e = match t.what {
                    TermSource::Reg(r) => Expr::Reg(RegId::from_u32(u32::from(r))),
                    TermSource::Index(a) => {
                        let list = &mut inst.more_mut().indirection_ins;
                        list.push(Operand::Ap(a));
                        Expr::IndirectArg(list.len() as i64)
                    }
                };
                d.terms.push((t.coefficient, e));
                inst.set(Attr::OobIsErr, t.oob_is_err);
            }
            k @ (0 | 1 | 3) => {
                inst.set(Attr::CceOp, alu_of_wire(x.byte(0x0C), arch)?);
                if k != 0 {
                    inst.set(Attr::Mode, CopyMode::Cce);
                }
                if scales.is_empty() {
                    scales.push(F32(f32::from_bits(x.get(0x34, 4) as u32)));
                }
                if k == 1 {
                    let addr = Addr8::from_wire(x.get(0x10, 8))?;
                    let mut v = View { offset: i64::from(addr.offset), dims: SmallVec::new(), run: sv.run };
                    for j in (0..2u8).rev() {
                        match (x.get_i(0x18 + 4 * j, 4), x.get(0x20 + 4 * j, 4)) {
                            (0, 1) => {}
                            (_, 0 | 1) => return Err(bad("a dimension of a further source is no dimension")),
                            d => v.dims.push(d),
                        }
                    }
                    let dtype = dtype(Slot::In(sources.len() as u8), x.byte(0x0D))?;
                    let loc = ctx.loc_of(addr);
                    sources.push(pattern(&v, loc, dtype, ctx.place(loc)?, &ctx.geo)?);
                    scales.push(F32(f32::from_bits(x.get(0x30, 4) as u32)));
                }
            }
            k => return Err(bad(&format!("extension kind {k}"))),
        }
    }
    if scales.iter().any(|s| *s != F32(1.0)) {
        inst.set(Attr::Constants, AttrValue::Floats(scales.into()));
    }
    inst.ins = sources.into_iter().map(Operand::Ap).collect();
    inst.outs = vec![Operand::Ap(dst)];
    Ok(inst)
}

fn read_shape(b: &Bundle, a: &mut AccessPattern, inst: Option<&mut Inst>) -> WireResult<()> {
    let bad = |m: &str| WireError::new(codes::E0104, m.to_owned());
    if b.get(4, 8) != 0 || b.get(0x0C, 3) != 0x01_0100 {
        return Err(bad("a shape record of a transfer has fixed bytes at +0x0C and no events"));
    }
    let rank = b.byte(0x11);
    if !(1..=4).contains(&rank) {
        return Err(bad("a shape record has one to four pairs"));
    }
    a.pairs = (0..rank).map(|i| ApPair::new(b.get_i(0x20 + 4 * i, 4), b.get(0x30 + 4 * i, 4))).collect();
    if a.pairs.iter().any(|p| p.num == 0) {
        return Err(bad("a count of a shape record is 0"));
    }
    if let Some(inst) = inst {
        let t = TransposeOps::from_ordinal(u16::from(b.byte(0x10)))
            .ok_or_else(|| bad("no such transposition"))?;
        inst.set(Attr::TransposeOp, t);
    }
    Ok(())
}

/// A decoded transfer says the same as the instruction: dtypes and attributes may differ by what a patch holds.
///
/// # Errors
/// E0011 when the walks differ.
pub fn same_walk(expected: &Inst, got: &Inst, ctx: &DmaCtx<'_>) -> WireResult<()> {
    let list = |i: &Inst| -> Vec<AccessPattern> {
        i.ins.iter().chain(&i.outs).filter_map(Operand::as_ap).cloned().collect()
    };
    let (e, g) = (list(expected), list(got));
    if e.len() != g.len() {
        return Err(WireError::new(codes::E0011, "the number of operands changed"));
    }
    for (a, b) in e.iter().zip(&g) {
        let same = a.loc == b.loc
            && a.dynamic == b.dynamic
            && a.dtype == b.dtype
            && (a.pairs == b.pairs && a.offset == b.offset
                || view(a, ctx.place(a.loc)?, &ctx.geo, Some(a.dtype.bytes()))?
                    == view(b, ctx.place(b.loc)?, &ctx.geo, Some(b.dtype.bytes()))?
                || walk_equal(a, b, ctx)?);
        if !same {
            return Err(WireError::new(codes::E0011, format!("{a:?} became {b:?}")));
        }
    }
    Ok(())
}

/// Equal after merging runs that were cut.
fn walk_equal(a: &AccessPattern, b: &AccessPattern, ctx: &DmaCtx<'_>) -> WireResult<bool> {
    let canon = |v: View| -> Vec<(i64, u64)> {
        let mut out: Vec<(i64, u64)> = Vec::new();
        for d in v.dims {
            match out.last_mut() {
                Some(l) if d.0.checked_mul(d.1 as i64) == Some(l.0) => *l = (d.0, l.1.saturating_mul(d.1)),
                _ => out.push(d),
            }
        }
        out
    };
    let (va, vb) = (
        view(a, ctx.place(a.loc)?, &ctx.geo, Some(a.dtype.bytes()))?,
        view(b, ctx.place(b.loc)?, &ctx.geo, Some(b.dtype.bytes()))?,
    );
    Ok(va.offset == vb.offset && canon(va) == canon(vb))
}
