//! Fields with code of their own: written and read side by side.

use super::addr::INDIRECT_BIT;
use super::bundle::{Bundle, WireError, WireResult};
use super::codec::{EncodeCtx, ap, imm_bits, pointer_word, reg_number, signed};
use super::desc::{addr_of, start_of};
use super::forms::{Field, Form, Slot, Special};
use super::tables::{self, to_wire};
use crate::decode::draft::{DecodeCtx, Draft, OpKind};
use tandem_bir::diag::codes;
use tandem_bir::inst::F32;
use tandem_bir::inst::table::AUTO_ACCUMULATION as AUTO;
use tandem_bir::{
    AluOp, ApPair, ArchLevel, Attr, AttrValue, AxisListType, BranchCompareOp, Dtype, Expr, ImmValue,
    Immediate, Inst, Operand, PoolFunctionType,
};

fn refuse(m: impl Into<String>) -> WireError {
    WireError::new(codes::E0104, m)
}

/// Wire code of the activation function of an instruction.
fn act_code(inst: &Inst) -> u8 {
    match inst.attr(Attr::Func) {
        Some(AttrValue::Enum(o)) => to_wire(tables::ACTIVATION, o).unwrap_or(0),
        _ => 0,
    }
}

/// Row or column group of a PE record: which 32-wide quarters of the array take part.
fn pe_group(size: u64, position: u64) -> u8 {
    if size <= 32 {
        1 << (position / 32).min(3)
    } else if size <= 64 {
        if position / 64 == 0 { 3 } else { 12 }
    } else {
        15
    }
}

/// Row and column groups of the pair of PE records.
fn pe_groups(inst: &Inst, ctx: &EncodeCtx<'_>) -> WireResult<(u8, u8)> {
    let w = ap(inst, Slot::In(1))?;
    if inst.get_bool(Attr::IsTranspose) || w.dtype == Dtype::Float32r {
        return Ok((15, 15));
    }
    let at = |s: Slot| -> WireResult<u64> {
        let a = ap(inst, s)?;
        match (ctx.geo.mem(a.loc), a.is_static()) {
            (Some(m), true) => Ok(u64::from(start_of(a.offset, a.dtype, m, &ctx.geo)?.partition)),
            _ => Ok(0),
        }
    };
    Ok((pe_group(w.num_partitions(), at(Slot::In(1))?), pe_group(w.elems_per_partition(), at(Slot::Out(0))?)))
}

/// Writes a special field.
pub(super) fn put(
    b: &mut Bundle,
    f: &Field,
    s: Special,
    inst: &Inst,
    form: &Form,
    ctx: &EncodeCtx<'_>,
) -> WireResult<()> {
    match s {
        Special::PoolScale => {
            let a = ap(inst, Slot::In(0))?;
            let n: u64 = a.pairs.iter().skip(1).rev().take(2).map(|p| p.num).product();
            let v = match inst.get_enum::<PoolFunctionType>(Attr::Func) {
                Some(PoolFunctionType::Avg) => 1.0 / n as f32,
                Some(PoolFunctionType::Max) | None => 1.0,
            };
            b.put(f.off, 4, u64::from(v.to_bits()));
        }
        Special::CrossScale => {
            if inst.get_enum::<AluOp>(Attr::Op) == Some(AluOp::Average) {
                let a = ap(inst, Slot::In(0))?;
                let n = match inst.get_enum::<AxisListType>(Attr::Axis) {
                    Some(AxisListType::Xyzwc) => a.num_elems(),
                    _ => a.num_partitions(),
                };
                b.put(f.off, 4, u64::from((1.0 / n as f32).to_bits()));
            }
        }
        Special::ActScale => match inst.ins.get(2) {
            None => b.put(f.off, 4, u64::from(inst.get_f32(Attr::Scale).unwrap_or(1.0).to_bits())),
            Some(Operand::Ap(a)) => {
                b.put(0x0D, 1, 1);
                b.put(f.off, 4, u64::from(pointer_word(a, ctx)?));
            }
            Some(_) => return Err(WireError::new(codes::E0001, "the scale operand must be in memory")),
        },
        Special::ActAlpha => {
            let code = act_code(inst);
            let alpha = inst.get_f32(Attr::Alpha).unwrap_or(0.0).to_bits();
            b.put(0x0C, 1, u64::from(code != 4));
            b.put(f.off, 4, if matches!(code, 128 | 129) { 0 } else { u64::from(alpha) });
        }
        Special::IotaPattern => put_pairs(b, inst, 4, |i| (0x10 + 2 * i, 0x18 + 2 * i))?,
        Special::SelectPattern => put_pairs(b, inst, 3, select_at)?,
        Special::LaneMap => {
            let mask = inst.get_ints(Attr::Mask);
            if mask.len() != 32 {
                return Err(WireError::new(
                    codes::E0005,
                    format!("the lane map has {} entries, not 32", mask.len()),
                ));
            }
            let channels = ap(inst, Slot::In(0))?.num_partitions();
            for (i, m) in mask.iter().enumerate() {
                let v = match m {
                    0..32 => *m as u64,
                    255 => channels | 0x20,
                    _ => {
                        return Err(WireError::new(
                            codes::E0005,
                            format!("lane {m} is neither 0..32 nor 255"),
                        ));
                    }
                };
                b.put(0x20 + i as u8, 1, v);
            }
        }
        Special::Target => b.put(f.off, 8, ctx.displacement as u64),
        Special::BranchRight => match inst.ins.get(1) {
            Some(Operand::Imm(i)) => b.put(0x10, 4, u64::from(imm_bits(*i)?)),
            Some(r @ Operand::Reg(_)) => b.put(0x21, 1, u64::from(reg_number(r)?)),
            _ => {
                return Err(WireError::new(
                    codes::E0001,
                    "a branch compares with an immediate or a register",
                ));
            }
        },
        Special::AluRight => match inst.ins.get(1) {
            Some(Operand::Imm(i)) => {
                b.put(0x0E, 1, 1);
                b.put(0x18, 4, u64::from(imm_bits(*i)?));
            }
            Some(r @ Operand::Reg(_)) => b.put(0x12, 1, u64::from(reg_number(r)?)),
            _ => {
                return Err(WireError::new(codes::E0001, "the second operand is an immediate or a register"));
            }
        },
        Special::MoveSource => match inst.ins.first() {
            Some(Operand::Imm(Immediate { value: ImmValue::Int(v), .. })) if !fits32(*v) => {
                b.put(0x0C, 1, 2);
                b.put(0x0E, 1, 1);
                b.put(0x19, 1, u64::from(reg_number(out_register(inst)?)?));
                b.put(0x20, 8, *v as u64);
            }
            Some(Operand::Imm(i)) => {
                b.put(0x0C, 1, 1);
                b.put(0x0E, 1, 1);
                b.put(0x20, 4, u64::from(imm_bits(*i)?));
            }
            Some(r @ Operand::Reg(_)) => {
                b.put(0x0C, 1, 1);
                b.put(0x10, 1, u64::from(reg_number(r)?));
            }
            _ => {
                return Err(WireError::new(codes::E0001, "a register move takes an immediate or a register"));
            }
        },
        Special::SemaphoreGroup => put_group(b, inst)?,
        Special::TokenVar => {
            let a = ap(inst, Slot::In(0))?;
            let v = (ctx.var_of)(a.loc).ok_or_else(|| {
                WireError::new(codes::E0012, "a completion token stands for a DRAM location")
            })?;
            b.put(f.off, 4, u64::from(v));
        }
        Special::ScalarAddress(slot) => {
            let a = ap(inst, slot)?;
            if a.num_elems() != 1 {
                return Err(WireError::new(codes::E0003, "a register load or store moves one scalar"));
            }
            if !a.is_static() {
                return Err(WireError::new(codes::E0009, "a register load or store at a run-time address"));
            }
            if ctx.geo.mem(a.loc).is_some() {
                b.put(f.off, 4, 0);
                b.put(f.off + 4, 4, u64::from(addr_of(a, &ctx.geo)?.to_wire()?));
            } else {
                let v = (ctx.var_of)(a.loc)
                    .ok_or_else(|| WireError::new(codes::E0012, "the scalar's location has no variable"))?;
                let byte = a
                    .offset
                    .checked_mul(a.dtype.bytes() as i64)
                    .and_then(|o| u32::try_from(o).ok())
                    .ok_or_else(|| {
                    WireError::new(codes::E0004, "the scalar's offset does not fit 32 bits")
                })?;
                b.put(f.off, 4, u64::from(v));
                b.put(f.off + 4, 4, u64::from(byte));
            }
        }
        Special::ScalarRegister(slot) => {
            let a = ap(inst, slot)?;
            if a.num_elems() != 1 {
                return Err(WireError::new(codes::E0003, "a register load or store moves one scalar"));
            }
            b.put(f.off + 7, 1, 0x80);
            if ctx.geo.mem(a.loc).is_some() {
                let super::addr::Addr4::Register(r) = addr_of(a, &ctx.geo)? else {
                    return Err(WireError::new(codes::E0009, "the scalar's address is not one register"));
                };
                b.put(f.off, 1, u64::from(r));
                return Ok(());
            }
            let v = (ctx.var_of)(a.loc)
                .ok_or_else(|| WireError::new(codes::E0012, "the scalar's location has no variable"))?;
            let r = byte_register(a)
                .ok_or_else(|| WireError::new(codes::E0009, "the scalar's address is not one register"))?;
            b.put(f.off, 1, u64::from(r));
            b.put(f.off + 2, 3, u64::from(v));
        }
        Special::MatmulFlags => {
            let flags = inst.get_int(Attr::AccumulationFlag).unwrap_or(AUTO);
            if ![0, 1, 2, 3, 4, 6].contains(&flags) {
                return Err(WireError::new(
                    codes::E0005,
                    format!(
                        "accumulation flags {flags:#x} have no code; automatic accumulation is resolved by linking"
                    ),
                ));
            }
            b.put(f.off, 1, flags as u64);
        }
        Special::PeGroups => {
            let (row, col) = pe_groups(inst, ctx)?;
            b.put(f.off, 1, u64::from(row));
            b.put(f.off + 1, 1, u64::from(col));
        }
        Special::PeMark => {
            if ctx.geo.arch == ArchLevel::Sunda {
                b.put(f.off, 1, 0x10);
            }
        }
        Special::PeTranspose => {
            if inst.get_bool(Attr::IsTranspose) {
                if ctx.geo.arch == ArchLevel::Sunda {
                    return Err(WireError::new(
                        codes::E0001,
                        "the transposition mark of NC-v2 falls on the address word of the weights",
                    ));
                }
                b.put(f.off, 1, 2);
            }
        }
        Special::PeDtype(slot) => {
            let d = ap(inst, slot)?.dtype;
            let perf = inst.attr(Attr::PerfMode).is_some_and(|v| v != AttrValue::Enum(0));
            let second = match (d, perf) {
                (Dtype::Float32r, _) => 2,
                (_, true) => 2,
                (Dtype::Float32, false) if form.byte == 0x01 => 0x80,
                (_, false) => 0,
            };
            let code = if d == Dtype::Float32r { 0x0A } else { tables::wire_dtype(d, ctx.geo.arch) };
            b.put(f.off, 1, u64::from(code));
            b.put(f.off + 1, 1, second);
        }
        Special::IndexAddress => {
            let a = ap(inst, Slot::In(1))?;
            let n = inst.get_int(Attr::NumValidIndices).unwrap_or(0).max(0) as u64;
            if a.elems_per_partition() != n.div_ceil(16) || !contiguous(&a.pairs) {
                return Err(WireError::new(
                    codes::E0003,
                    format!(
                        "{n} indexes of an indirect copy take {} packed elements per partition",
                        n.div_ceil(16)
                    ),
                ));
            }
            b.put(f.off, 4, u64::from(addr_of(a, &ctx.geo)?.to_wire()? | INDIRECT_BIT));
        }
        Special::GatherSource => {
            let a = ap(inst, Slot::In(0))?;
            if !contiguous(&a.pairs) || a.elems_per_partition() > 65_535 {
                return Err(WireError::new(codes::E0003, "the source of an indirect copy must be packed"));
            }
            b.put(f.off, 4, u64::from(addr_of(a, &ctx.geo)?.to_wire()?));
        }
        Special::PerIndex => {
            let n = match inst.ins.get(2) {
                None => 0,
                Some(o) => o.as_imm().and_then(Immediate::as_int).filter(|n| *n > 0).ok_or_else(|| {
                    WireError::new(codes::E0001, "elements per index must be a positive immediate")
                })?,
            };
            b.put(f.off, 1, signed(n, 1, "elements per index")?);
        }
        Special::MxPattern(data, scale) => {
            let (d, s) = (ap(inst, data)?, ap(inst, scale)?);
            let bad = |m: &str| WireError::new(codes::E0003, m.to_owned());
            let (step, n) =
                mx_run(&d.pairs).ok_or_else(|| bad("block-scaled data must be one packed run"))?;
            if mx_run(&s.pairs) != Some((1, n)) {
                return Err(bad("scales are one packed run of as many bytes as the data has containers"));
            }
            let extent = u16::try_from(n * 4).map_err(|_| bad("a run of block-scaled data is too long"))?;
            let start = addr_of(s, &ctx.geo)?;
            let super::addr::Addr4::Sbuf { partition, .. } = start else {
                return Err(bad("scales lie in SBUF at a fixed address"));
            };
            b.put(f.off, 4, u64::from(addr_of(d, &ctx.geo)?.to_wire()?));
            b.put(f.off + 4, 4, u64::from(start.to_wire()?));
            b.put(f.off + 8, 2, u64::from(extent));
            b.put(f.off + 10, 1, step as u64);
            b.put(f.off + 11, 1, u64::from(partition));
        }
        Special::MxGroups => {
            let (row, _) = pe_groups(inst, ctx)?;
            b.put(f.off, 1, u64::from(row));
            b.put(f.off + 1, 1, 0x0F);
        }
        Special::QueueName => {
            let name = inst.get_str(Attr::Queue).unwrap_or_default();
            if name.len() >= 32 || name.contains('\0') {
                return Err(WireError::new(
                    codes::E0005,
                    format!("queue name `{name}` does not fit 31 bytes"),
                ));
            }
            for (i, c) in name.bytes().enumerate() {
                b.put(f.off + i as u8, 1, u64::from(c));
            }
        }
    }
    Ok(())
}

/// Register that holds the byte offset of a scalar in a variable.
fn byte_register(a: &tandem_bir::AccessPattern) -> Option<u8> {
    let d = a.dynamic.as_deref()?;
    match d.terms.as_slice() {
        [(1, Expr::FloorDiv(n, size))] if a.offset == 0 && *size == a.dtype.bytes() as i64 => match **n {
            Expr::Reg(r) => u8::try_from(r.as_u32()).ok().filter(|r| *r < super::addr::MAX_REGISTERS),
            _ => None,
        },
        _ => None,
    }
}

/// Step and count of a pattern whose free dimensions are one run.
fn mx_run(pairs: &[ApPair]) -> Option<(i64, u64)> {
    match tandem_bir::ap::merge_pairs(pairs.get(1..)?).as_slice() {
        [] => Some((1, 1)),
        [p] if p.num == 1 => Some((1, 1)),
        [p] if p.step == 1 || p.step == -1 => Some((p.step, p.num)),
        _ => None,
    }
}

fn fits32(v: i64) -> bool {
    i32::try_from(v).is_ok() || u32::try_from(v).is_ok()
}

fn out_register(inst: &Inst) -> WireResult<&Operand> {
    inst.outs.first().ok_or_else(|| WireError::new(codes::E0001, "a register move writes a register"))
}

fn contiguous(pairs: &[ApPair]) -> bool {
    tandem_bir::ap::merge_pairs(pairs.get(1..).unwrap_or(&[])).iter().all(|p| p.step == 1)
        && tandem_bir::ap::merge_pairs(pairs.get(1..).unwrap_or(&[])).len() <= 1
}

fn select_at(i: u8) -> (u8, u8) {
    if i < 2 { (0x28 + 2 * i, 0x2C + 2 * i) } else { (0x3C, 0x3E) }
}

fn put_pairs(b: &mut Bundle, inst: &Inst, max: u8, at: impl Fn(u8) -> (u8, u8)) -> WireResult<()> {
    let pairs = match inst.attr(Attr::Pattern) {
        Some(AttrValue::Pairs(p)) => p,
        _ => Box::new([]),
    };
    if pairs.len() > max as usize {
        return Err(WireError::new(
            codes::E0003,
            format!("the pattern has {} pairs, more than {max}", pairs.len()),
        ));
    }
    for i in 0..max {
        let p = pairs.iter().rev().nth(i as usize).copied().unwrap_or(ApPair::new(1, 1));
        let (s, n) = at(i);
        if i16::try_from(p.step).is_err() || p.num == 0 || p.num > 65_535 {
            return Err(WireError::new(
                codes::E0003,
                format!("pair [{}, {}] does not fit 16 bits", p.step, p.num),
            ));
        }
        b.put(s, 2, p.step as u64);
        b.put(n, 2, p.num);
    }
    Ok(())
}

fn get_pairs(b: &Bundle, d: &mut Draft, max: u8, at: impl Fn(u8) -> (u8, u8)) -> WireResult<()> {
    let mut pairs: Vec<ApPair> = Vec::new();
    for i in 0..max {
        let (s, n) = at(i);
        let p = ApPair::new(b.get_i(s, 2), b.get(n, 2));
        if p.num == 0 {
            return Err(refuse("a count of the pattern is 0"));
        }
        pairs.push(p);
    }
    while pairs.len() > 1 && pairs.last() == Some(&ApPair::new(1, 1)) {
        pairs.pop();
    }
    pairs.reverse();
    d.inst.set(Attr::Pattern, AttrValue::Pairs(pairs.into()));
    Ok(())
}

fn put_group(b: &mut Bundle, inst: &Inst) -> WireResult<()> {
    let list = inst.get_ints(Attr::SemaGroup);
    let bad = || WireError::new(codes::E0008, "the semaphores to clear are not numbers of 8 bits");
    if matches!(inst.attr(Attr::Mode), Some(AttrValue::Enum(1))) {
        for s in list {
            let s = u8::try_from(*s).map_err(|_| bad())?;
            b.or(0x20 + s / 8, 1 << (s % 8));
        }
        return Ok(());
    }
    let (Some(first), Some(last)) = (list.first(), list.last()) else {
        return Err(WireError::new(codes::E0008, "no semaphores to clear"));
    };
    if list.windows(2).any(|w| w[0].checked_add(1) != Some(w[1])) {
        return Err(WireError::new(codes::E0008, "the semaphores to clear are no range; use the mask form"));
    }
    b.put(0x0D, 1, u64::from(u8::try_from(*first).map_err(|_| bad())?));
    b.put(0x0E, 1, u64::from(u8::try_from(*last).map_err(|_| bad())?));
    Ok(())
}

/// Reads a special field.
pub(crate) fn get(b: &Bundle, f: &Field, s: Special, d: &mut Draft, ctx: &DecodeCtx<'_>) -> WireResult<()> {
    let arch = ctx.geo.arch;
    match s {
        // derived from other fields; the decoder encodes every record again and compares
        Special::PoolScale
        | Special::CrossScale
        | Special::PeGroups
        | Special::PeMark
        | Special::MxGroups => {}
        Special::MxPattern(data, scale) => {
            let n = b.get(f.off + 8, 2);
            if n == 0 || !n.is_multiple_of(4) || b.get(f.off + 12, 4) != 0 {
                return Err(refuse("the extent of block-scaled data is no positive multiple of 4"));
            }
            let step = match b.byte(f.off + 10) {
                1 => 1,
                0xFF => -1,
                s => return Err(refuse(format!("step sign {s:#04x} of block-scaled data"))),
            };
            for (slot, off, step) in [(data, f.off, step), (scale, f.off + 4, 1)] {
                let o = d.slot(slot);
                o.kind = OpKind::Ap;
                o.word = b.get(off, 4) as u32;
                if n != 4 {
                    o.free.push(ApPair::new(step, n / 4));
                }
            }
            d.slot(scale).dtype = Some(Dtype::Uint8);
            let start = super::addr::Addr4::from_wire(b.get(f.off + 4, 4) as u32)?;
            let super::addr::Addr4::Sbuf { partition, .. } = start else {
                return Err(refuse("scales lie in SBUF at a fixed address"));
            };
            if u64::from(partition) != b.get(f.off + 11, 1) {
                return Err(refuse("the scales' partition is not the one of their address"));
            }
        }
        Special::QueueName => {
            let bytes: Vec<u8> = (0..32).map(|i| b.byte(f.off + i)).collect();
            let n = bytes.iter().position(|c| *c == 0).ok_or_else(|| refuse("a queue name has no end"))?;
            if bytes[n..].iter().any(|c| *c != 0) {
                return Err(refuse("bytes after the end of a queue name"));
            }
            let name = std::str::from_utf8(&bytes[..n]).map_err(|_| refuse("a queue name is no text"))?;
            if !name.is_empty() {
                d.inst.set(Attr::Queue, name);
            }
        }
        Special::ActScale => match b.byte(0x0D) {
            0 => d.inst.set(Attr::Scale, AttrValue::F32(F32(f32::from_bits(b.get(f.off, 4) as u32)))),
            1 => {
                d.inst.set(Attr::Scale, 1.0f32);
                let o = d.slot(Slot::In(2));
                o.kind = OpKind::Ap;
                o.word = b.get(f.off, 4) as u32;
                o.dtype = Some(Dtype::Float32);
            }
            v => return Err(refuse(format!("scale source {v}"))),
        },
        Special::ActAlpha => {
            d.inst.set(Attr::Alpha, AttrValue::F32(F32(f32::from_bits(b.get(f.off, 4) as u32))));
            d.inst.set(Attr::Op0, AluOp::Bypass);
            d.inst.set(Attr::Op1, AluOp::Bypass);
            d.inst.set(Attr::ReduceOp, if d.outs > 1 { AluOp::Add } else { AluOp::Bypass });
        }
        Special::IotaPattern => get_pairs(b, d, 4, |i| (0x10 + 2 * i, 0x18 + 2 * i))?,
        Special::SelectPattern => get_pairs(b, d, 3, select_at)?,
        Special::LaneMap => {
            let mask: Vec<i64> = (0..32)
                .map(|i| {
                    let v = b.byte(0x20 + i);
                    if v < 32 { i64::from(v) } else { 255 }
                })
                .collect();
            d.inst.set(Attr::Mask, mask);
        }
        Special::Target => {
            d.displacement = b.get(f.off, 8) as i64;
            let jump = d.inst.spec().attr(Attr::Target).is_some();
            if jump {
                d.inst.set(Attr::Target, "taken");
            } else {
                d.inst.set(Attr::OnTrue, "taken");
                d.inst.set(Attr::OnFalse, "next");
            }
        }
        Special::BranchRight => {
            let reg = d
                .inst
                .get_enum::<BranchCompareOp>(Attr::CompOp)
                .is_some_and(|c| (c as u8) >= BranchCompareOp::LtReg as u8);
            let o = d.slot(Slot::In(1));
            if reg {
                o.kind = OpKind::Reg;
                o.word = u32::from(b.byte(0x21));
            } else {
                o.kind = OpKind::Imm;
                o.word = b.get(0x10, 4) as u32;
            }
            o.dtype = Some(Dtype::Int32);
        }
        Special::AluRight => {
            let o = d.slot(Slot::In(1));
            o.dtype = Some(Dtype::Int32);
            match b.byte(0x0E) {
                0 => {
                    o.kind = OpKind::Reg;
                    o.word = u32::from(b.byte(0x12));
                }
                1 => {
                    o.kind = OpKind::Imm;
                    o.word = b.get(0x18, 4) as u32;
                }
                v => return Err(refuse(format!("mode {v} of a register operation"))),
            }
        }
        Special::MoveSource if b.byte(0x0C) == 2 => {
            if b.byte(0x0E) != 1 || b.byte(0x10) != 0 || b.byte(0x19) != b.byte(0x18) {
                return Err(refuse("a move of 64 bits takes an immediate and names its register twice"));
            }
            let o = d.slot(Slot::In(0));
            o.kind = OpKind::Made;
            let value = ImmValue::Int(b.get(0x20, 8) as i64);
            o.made = Some(Box::new(Operand::Imm(Immediate { dtype: Dtype::Int64, value })));
        }
        Special::MoveSource => {
            if b.byte(0x0C) != 1 || b.byte(0x19) != 0 || b.get(0x24, 4) != 0 {
                return Err(refuse("a move of 32 bits has count 1 and no high half"));
            }
            let o = d.slot(Slot::In(0));
            o.dtype = Some(Dtype::Int32);
            match b.byte(0x0E) {
                0 => {
                    o.kind = OpKind::Reg;
                    o.word = u32::from(b.byte(0x10));
                }
                1 => {
                    o.kind = OpKind::Imm;
                    o.word = b.get(0x20, 4) as u32;
                }
                v => return Err(refuse(format!("mode {v} of a register move"))),
            }
        }
        Special::SemaphoreGroup => {
            let list: Vec<i64> = if b.byte(0x0C) == 2 {
                (0..=255u8).filter(|s| b.byte(0x20 + s / 8) >> (s % 8) & 1 == 1).map(i64::from).collect()
            } else {
                (b.byte(0x0D)..=b.byte(0x0E)).map(i64::from).collect()
            };
            if list.is_empty() {
                return Err(refuse("no semaphores to clear"));
            }
            d.inst.set(Attr::SemaGroup, list);
        }
        Special::TokenVar => {
            let ap = (ctx.whole_var)(b.get(f.off, 4) as u32)
                .ok_or_else(|| refuse(format!("variable {} does not exist", b.get(f.off, 4))))?;
            let o = d.slot(Slot::In(0));
            o.kind = OpKind::Made;
            o.made = Some(Box::new(Operand::Ap(ap)));
        }
        Special::ScalarAddress(slot) => {
            let (var, off) = (b.get(f.off, 4) as u32, b.get(f.off + 4, 4) as u32);
            if var == 0 {
                let o = d.slot(slot);
                o.kind = OpKind::Ap;
                o.word = off;
                o.parts = 1;
            } else {
                let dtype = d.slot(slot).dtype.unwrap_or(Dtype::Int32);
                let size = dtype.bytes() as u32;
                if off % size != 0 {
                    return Err(refuse(format!("offset {off} is not a multiple of {size}")));
                }
                let loc =
                    (ctx.var_loc)(var).ok_or_else(|| refuse(format!("variable {var} does not exist")))?;
                let o = d.slot(slot);
                o.kind = OpKind::Made;
                o.made = Some(Box::new(Operand::Ap(tandem_bir::AccessPattern::new(
                    loc,
                    dtype,
                    i64::from(off / size),
                    &[(1, 1)],
                ))));
            }
        }
        Special::ScalarRegister(slot) => {
            if b.byte(f.off + 7) != 0x80 || b.byte(f.off + 1) != 0 || b.get(f.off + 5, 2) != 0 {
                return Err(refuse("the mode of a register address is 0x80"));
            }
            let (r, var) = (b.byte(f.off), b.get(f.off + 2, 3) as u32);
            if r >= super::addr::MAX_REGISTERS {
                return Err(refuse(format!("register {r} does not exist")));
            }
            if var == 0 {
                let o = d.slot(slot);
                o.kind = OpKind::Ap;
                o.word = super::addr::REGISTER_BIT | u32::from(r);
                o.parts = 1;
            } else {
                let dtype = d.slot(slot).dtype.unwrap_or(Dtype::Int32);
                let loc =
                    (ctx.var_loc)(var).ok_or_else(|| refuse(format!("variable {var} does not exist")))?;
                let mut a = tandem_bir::AccessPattern::new(loc, dtype, 0, &[(1, 1)]);
                let byte = Box::new(Expr::Reg(tandem_bir::RegId::from_u32(u32::from(r))));
                a.dynamic = Some(Box::new(tandem_bir::DynamicAp {
                    terms: vec![(1, Expr::FloorDiv(byte, dtype.bytes() as i64))],
                    indirect_dim: 0,
                    max_index: None,
                }));
                let o = d.slot(slot);
                o.kind = OpKind::Made;
                o.made = Some(Box::new(Operand::Ap(a)));
            }
        }
        Special::MatmulFlags => d.inst.set(Attr::AccumulationFlag, i64::from(b.byte(f.off))),
        Special::PeTranspose => match b.byte(f.off) {
            0 => {}
            2 => d.inst.set(Attr::IsTranspose, true),
            v => return Err(refuse(format!("transposition mark {v}"))),
        },
        Special::PeDtype(slot) => {
            let (code, second) = (b.byte(f.off), b.byte(f.off + 1));
            let dt = if code == 0x0A && second == 2 {
                Dtype::Float32r
            } else {
                tables::dtype_of_wire(code, arch)?
            };
            d.slot(slot).dtype = Some(dt);
        }
        Special::IndexAddress => {
            let n = b.get(0x14, 2).div_ceil(16);
            let o = d.slot(Slot::In(1));
            o.kind = OpKind::Ap;
            o.word = b.get(f.off, 4) as u32 & !INDIRECT_BIT;
            if n != 1 {
                o.free.push(ApPair::new(1, n));
            }
        }
        Special::GatherSource => {
            let n = b.get(0x26, 2);
            let o = d.slot(Slot::In(0));
            o.kind = OpKind::Ap;
            o.word = b.get(f.off, 4) as u32;
            if n != 1 {
                o.free.push(ApPair::new(1, n));
            }
        }
        Special::PerIndex => {
            if b.byte(f.off) != 0 {
                let o = d.slot(Slot::In(2));
                o.kind = OpKind::Made;
                o.made = Some(Box::new(Operand::Imm(Immediate {
                    dtype: Dtype::Int32,
                    value: ImmValue::Int(i64::from(b.byte(f.off))),
                })));
            }
        }
    }
    Ok(())
}
