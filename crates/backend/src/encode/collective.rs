//! Collectives that are kept: `0xD9` and `0xDA`, one pair of records for each pair of operands.
//!
//! Opcode, ALU code, dtype, kind and the place of the first source are documented (the specification, file 07 §7.3); the rest
//! of the layout is our choice and the records are marked. `0xD9` holds the sources (+0x10, +0x28), or the source and the
//! destination; `0xDA` the destination of a two-source operation, at +0x2A how many operand pairs follow, at +0x2B how many
//! sources there are. Groups, pairs, channel and dimensions are in the container's table.

use super::addr::{Addr8, SBUF_SHIFT};
use super::bundle::{Bundle, WireError, WireResult};
use super::codec::{Records, sync_of};
use super::dma::{DmaCtx, Place};
use super::events;
use super::forms::Slot;
use super::phys::{location_var, var_location};
use super::tables::{alu_of_wire, collective_of_wire, dtype_of_wire, wire_alu, wire_collective, wire_dtype};
use crate::decode::patch::Patch;
use smallvec::SmallVec;
use tandem_bir::ap::merge_pairs;
use tandem_bir::diag::codes;
use tandem_bir::{
    AccessPattern, AluOp, ApPair, ApPairs, Attr, CollectiveKind, Dtype, Inst, MemoryType, Opcode, Operand,
};

/// Two-pair form of an operand: rows, and one packed or strided row.
///
/// # Errors
/// E0003 when a row has more dimensions.
pub fn canonical(a: &AccessPattern) -> WireResult<AccessPattern> {
    let (p0, free) =
        a.pairs.split_first().ok_or_else(|| WireError::new(codes::E0003, "the pattern is empty"))?;
    let merged = merge_pairs(free);
    let row = match merged.as_slice() {
        [] => ApPair::new(1, 1),
        [p] => *p,
        _ => {
            return Err(WireError::new(
                codes::E0003,
                "an operand of a kept collective has at most two dimensions on the wire",
            ));
        }
    };
    Ok(AccessPattern { pairs: SmallVec::from_slice(&[*p0, row]), ..a.clone() })
}

fn on_chip(p: Place) -> bool {
    matches!(p.mem, MemoryType::Sb | MemoryType::Psum)
}

fn put_operand(b: &mut Bundle, off: u8, a: &AccessPattern, ctx: &DmaCtx<'_>) -> WireResult<()> {
    let place = (ctx.places)(a.loc).ok_or_else(|| WireError::new(codes::E0004, "no such location"))?;
    if place.mem == MemoryType::Psum || !a.is_static() {
        return Err(WireError::new(codes::E0012, "a collective works on static tiles of SBUF and DRAM"));
    }
    let size = a.dtype.bytes() as i64;
    let pitch = (place.row_bytes as i64 / size).max(1);
    let (offset, step0) = if on_chip(place) {
        if a.pairs[0].step % pitch != 0 {
            return Err(WireError::new(
                codes::E0003,
                "the partition step is not a multiple of the partition pitch",
            ));
        }
        (
            (a.offset.div_euclid(pitch) << SBUF_SHIFT) + a.offset.rem_euclid(pitch) * size,
            (a.pairs[0].step / pitch) << SBUF_SHIFT,
        )
    } else {
        (a.offset.saturating_mul(size), a.pairs[0].step.saturating_mul(size))
    };
    let offset =
        u32::try_from(offset).map_err(|_| WireError::new(codes::E0004, "the offset does not fit 32 bits"))?;
    let var = if ctx.geo.mem(a.loc).is_some() { 0 } else { location_var(a.loc).unwrap_or(0) };
    b.put(off, 8, Addr8 { offset, var }.to_wire());
    let steps = [a.pairs[1].step.saturating_mul(size), step0];
    let nums = [a.pairs[1].num, a.pairs[0].num];
    for i in 0..2u8 {
        let step = i32::try_from(steps[i as usize])
            .map_err(|_| WireError::new(codes::E0003, "a step does not fit 32 bits"))?;
        let num = u32::try_from(nums[i as usize])
            .map_err(|_| WireError::new(codes::E0003, "a count does not fit 32 bits"))?;
        b.put(off + 8 + 4 * i, 4, i64::from(step) as u64);
        b.put(off + 16 + 4 * i, 4, u64::from(num));
    }
    Ok(())
}

fn get_operand(b: &Bundle, off: u8, dtype: Dtype, ctx: &DmaCtx<'_>) -> WireResult<AccessPattern> {
    let bad = |m: &str| WireError::new(codes::E0104, m.to_owned());
    let addr = Addr8::from_wire(b.get(off, 8))?;
    let loc = if addr.var == 0 { ctx.geo.sbuf } else { var_location(addr.var) };
    let place = (ctx.places)(loc).ok_or_else(|| bad("the variable does not exist"))?;
    let size = dtype.bytes() as i64;
    let pitch = (place.row_bytes as i64 / size).max(1);
    let (steps, nums) =
        ([b.get_i(off + 8, 4), b.get_i(off + 12, 4)], [b.get(off + 16, 4), b.get(off + 20, 4)]);
    if nums.contains(&0) || steps[0] % size != 0 {
        return Err(bad("the dimensions of an operand are malformed"));
    }
    let offset = i64::from(addr.offset);
    let (offset, step) = if on_chip(place) {
        let unit = 1i64 << SBUF_SHIFT;
        let byte = offset.rem_euclid(unit);
        if steps[1] % unit != 0 || byte % size != 0 || byte >= place.row_bytes as i64 {
            return Err(bad("the address of an on-chip operand is malformed"));
        }
        (offset.div_euclid(unit) * pitch + byte / size, steps[1] / unit * pitch)
    } else {
        if steps[1] % size != 0 || offset % size != 0 {
            return Err(bad("the address of an operand is malformed"));
        }
        (offset / size, steps[1] / size)
    };
    let pairs: ApPairs =
        SmallVec::from_slice(&[ApPair::new(step, nums[1]), ApPair::new(steps[0] / size, nums[0])]);
    Ok(AccessPattern { loc, dtype, offset, pairs, dynamic: None })
}

/// Two sources are folded into each destination.
fn two_sources(i: &Inst) -> bool {
    i.ins.len() == 2 * i.outs.len()
}

/// Encodes a kept collective whose operands are canonical.
///
/// # Errors
/// What does not fit.
pub fn encode(inst: &Inst, ctx: &DmaCtx<'_>) -> WireResult<Records> {
    let kind: CollectiveKind = inst.get_enum(Attr::Kind).unwrap_or(CollectiveKind::AllReduce);
    let code = wire_collective(kind).ok_or_else(|| {
        WireError::new(codes::E0005, format!("a kept collective of kind {kind} has no code"))
    })?;
    let op: AluOp = inst.get_enum(Attr::Op).unwrap_or(AluOp::Bypass);
    let ins: Vec<&AccessPattern> = inst.ins.iter().filter_map(Operand::as_ap).collect();
    let outs: Vec<&AccessPattern> = inst.outs.iter().filter_map(Operand::as_ap).collect();
    let two = two_sources(inst);
    let n = outs.len();
    if n == 0 || n > 255 || ins.len() != if two { 2 * n } else { n } {
        return Err(WireError::new(codes::E0001, "a collective has one or two sources for each destination"));
    }
    let mut out = Records::new();
    for k in 0..n {
        let mut b = Bundle::new(0xD9);
        let mut x = Bundle::new(0xDA);
        let dtype = ins.first().map_or(Dtype::Uint8, |a| a.dtype);
        for r in [&mut b, &mut x] {
            r.put(0x0C, 1, u64::from(wire_alu(op, ctx.geo.arch)?));
            r.put(0x0D, 1, u64::from(wire_dtype(dtype, ctx.geo.arch)));
            r.put(0x0E, 1, u64::from(code));
        }
        if two {
            put_operand(&mut b, 0x10, ins[2 * k], ctx)?;
            put_operand(&mut b, 0x28, ins[2 * k + 1], ctx)?;
            put_operand(&mut x, 0x10, outs[k], ctx)?;
        } else {
            put_operand(&mut b, 0x10, ins[k], ctx)?;
            put_operand(&mut b, 0x28, outs[k], ctx)?;
        }
        x.put(0x2A, 1, (n - 1 - k) as u64);
        x.put(0x2B, 1, 1 + u64::from(two));
        out.push(b);
        out.push(x);
    }
    if let (Some(s), Some(b)) = (sync_of(inst), out.first_mut()) {
        events::put_wait(b, &s.on_wait)?;
        events::put_update(b, &s.on_update)?;
    }
    Ok(out)
}

/// Number of records of the collective that starts at `records[0]`.
pub fn group_len(records: &[Bundle]) -> usize {
    let mut n = 0;
    while n + 1 < records.len() && records[n].opcode() == 0xD9 && records[n + 1].opcode() == 0xDA {
        n += 2;
        if records[n - 1].byte(0x2A) == 0 {
            break;
        }
    }
    n.max(1)
}

/// Decodes a kept collective.
///
/// # Errors
/// E0104 for what is none.
pub fn decode(records: &[Bundle], ctx: &DmaCtx<'_>, patch: &Patch) -> WireResult<Inst> {
    let bad = |m: &str| WireError::new(codes::E0104, m.to_owned());
    let arch = ctx.geo.arch;
    let (Some(first), false) = (records.first(), records.is_empty() || !records.len().is_multiple_of(2))
    else {
        return Err(bad("a kept collective is pairs of 0xD9 and 0xDA"));
    };
    let mut inst = Inst::new("", Opcode::CollectiveCompute);
    inst.set(Attr::Kind, collective_of_wire(first.byte(0x0E)).ok_or_else(|| bad("no such collective kind"))?);
    inst.set(Attr::Op, alu_of_wire(first.byte(0x0C), arch)?);
    let s = events::get(first)?;
    if s != tandem_bir::inst::SyncInfo::default() {
        inst.more_mut().sync = Some(s);
    }
    let dtype = |s: Slot, code: u8| -> WireResult<Dtype> {
        match patch.dtypes.iter().find(|(p, _)| *p == s) {
            Some((_, d)) => Ok(*d),
            None => dtype_of_wire(code, arch),
        }
    };
    let n = records.len() / 2;
    for (k, pair) in records.chunks_exact(2).enumerate() {
        let (b, x) = (&pair[0], &pair[1]);
        if b.opcode() != 0xD9 || x.opcode() != 0xDA || usize::from(x.byte(0x2A)) != n - 1 - k {
            return Err(bad("the records of a kept collective do not count down"));
        }
        let two = x.byte(0x2B) == 2;
        let code = b.byte(0x0D);
        let (i, o) = (inst.ins.len() as u8, inst.outs.len() as u8);
        inst.ins.push(Operand::Ap(get_operand(b, 0x10, dtype(Slot::In(i), code)?, ctx)?));
        let out_type = dtype(Slot::Out(o), code)?;
        if two {
            inst.ins.push(Operand::Ap(get_operand(b, 0x28, dtype(Slot::In(i + 1), code)?, ctx)?));
            inst.outs.push(Operand::Ap(get_operand(x, 0x10, out_type, ctx)?));
        } else {
            inst.outs.push(Operand::Ap(get_operand(b, 0x28, out_type, ctx)?));
        }
    }
    Ok(inst)
}
