//! Encoding of one group: a loop over the rows of its forms. The special fields are in [`super::special`].

use super::bundle::{Bundle, WireError, WireResult};
use super::desc::{Geometry, addr_of, put_pattern};
use super::events;
use super::forms::{Field, Form, Group, Kind, Slot};
use super::special;
use super::tables::{to_wire, wire_alu, wire_dtype};
use smallvec::SmallVec;
use tandem_bir::diag::codes;
use tandem_bir::inst::SyncInfo;
use tandem_bir::{
    AccessPattern, AluOp, AttrValue, Dtype, ImmValue, Immediate, Inst, MemLocId, Opcode, Operand,
};

/// Records of one instruction.
pub type Records = SmallVec<[Bundle; 4]>;

/// What a record needs beyond its instruction.
pub struct EncodeCtx<'a> {
    /// Memories.
    pub geo: Geometry,
    /// Branch displacement in records.
    pub displacement: i64,
    /// Variable number of a DRAM or remote location.
    pub var_of: &'a dyn Fn(MemLocId) -> Option<u32>,
}

/// The operand of a slot.
pub(super) fn operand(inst: &Inst, s: Slot) -> Option<&Operand> {
    match s {
        Slot::In(i) => inst.ins.get(i as usize),
        Slot::Out(i) => inst.outs.get(i as usize),
    }
}

/// The memory operand of a slot.
pub(super) fn ap(inst: &Inst, s: Slot) -> WireResult<&AccessPattern> {
    operand(inst, s).and_then(Operand::as_ap).ok_or_else(|| {
        WireError::new(codes::E0001, format!("{} has no memory operand at {s:?}", inst.opcode))
    })
}

/// dtype of an operand.
pub(super) fn operand_dtype(op: &Operand) -> Option<Dtype> {
    match op {
        Operand::Ap(a) => Some(a.dtype),
        Operand::Imm(i) => Some(i.dtype),
        Operand::Reg(r) => Some(r.dtype),
        Operand::Other(_) => None,
    }
}

/// The 32 bits of an immediate: float bits, or the integer.
pub(super) fn imm_bits(i: Immediate) -> WireResult<u32> {
    match i.value {
        ImmValue::Float(f) => Ok(f.0.to_bits()),
        ImmValue::Int(v) => u32::try_from(v)
            .or_else(|_| i32::try_from(v).map(|v| v as u32))
            .map_err(|_| WireError::new(codes::E0005, format!("immediate {v} does not fit 32 bits"))),
    }
}

/// Register number of a register operand.
pub(super) fn reg_number(op: &Operand) -> WireResult<u8> {
    let r = op.as_reg().ok_or_else(|| WireError::new(codes::E0001, "the operand must be a register"))?;
    u8::try_from(r.reg.as_u32())
        .ok()
        .filter(|r| *r < super::addr::MAX_REGISTERS)
        .ok_or_else(|| WireError::new(codes::E0005, format!("register {} has no number", r.reg)))
}

fn narrow(v: u64, width: u8, what: &str) -> WireResult<u64> {
    if width >= 8 || v < 1 << (8 * width) {
        Ok(v)
    } else {
        Err(WireError::new(codes::E0005, format!("{what} is {v}, which does not fit {width} bytes")))
    }
}

pub(super) fn signed(v: i64, width: u8, what: &str) -> WireResult<u64> {
    let bits = 8 * u32::from(width);
    let lo = -(1i64 << (bits - 1).min(62));
    let hi = 1i64 << bits.min(62);
    if v >= lo && v < hi {
        Ok(v as u64)
    } else {
        Err(WireError::new(codes::E0005, format!("{what} is {v}, which does not fit {width} bytes")))
    }
}

/// 32-bit word of a pointer operand.
pub(super) fn pointer_word(a: &AccessPattern, ctx: &EncodeCtx<'_>) -> WireResult<u32> {
    if a.elems_per_partition() != 1 {
        return Err(WireError::new(codes::E0003, "a scalar operand in memory has one element per partition"));
    }
    addr_of(a, &ctx.geo)?.to_wire()
}

fn put_field(b: &mut Bundle, f: &Field, inst: &Inst, form: &Form, ctx: &EncodeCtx<'_>) -> WireResult<()> {
    let arch = ctx.geo.arch;
    let dtype_code = |s: Slot| -> WireResult<u8> {
        match operand(inst, s).and_then(operand_dtype) {
            Some(d) => Ok(wire_dtype(d, arch)),
            // an absent optional operand
            None => Ok(wire_dtype(form.imm, arch)),
        }
    };
    match f.kind {
        Kind::Const(v) => b.put(f.off, f.width, v),
        Kind::Tensor(s, rank, walk) => {
            let a = ap(inst, s)?;
            let word = addr_of(a, &ctx.geo)?.to_wire()?;
            put_pattern(b, f.off, rank, word, &a.pairs, walk)?;
        }
        Kind::Pointer(s) => {
            let w = pointer_word(ap(inst, s)?, ctx)?;
            b.put(f.off, 4, u64::from(w));
        }
        Kind::Dtype(s) => b.put(f.off, 1, u64::from(dtype_code(s)?)),
        Kind::DtypeLow(s) => b.or(f.off, nibble(dtype_code(s)?)?),
        Kind::DtypeHigh(s) => b.or(f.off, nibble(dtype_code(s)?)? << 4),
        Kind::Channels(s) => {
            let n = ap(inst, s)?.num_partitions();
            if !(1..=128).contains(&n) {
                return Err(WireError::new(codes::E0003, format!("{n} partitions are not in 1..=128")));
            }
            b.put(f.off, 1, n);
        }
        Kind::Channels32(s) => {
            let n = ap(inst, s)?.num_partitions().div_ceil(32) * 32;
            if !(1..=128).contains(&n) {
                return Err(WireError::new(codes::E0003, format!("{n} partitions are not in 1..=128")));
            }
            b.put(f.off, 1, n);
        }
        Kind::Elems(s) => b.put(f.off, f.width, ap(inst, s)?.elems_per_partition()),
        Kind::Alu(a) => {
            let op = inst.get_enum::<AluOp>(a).unwrap_or(AluOp::Bypass);
            b.put(f.off, 1, u64::from(wire_alu(op, arch)?));
        }
        Kind::Enum(a, table) => {
            let ord = match inst.attr(a) {
                Some(AttrValue::Enum(o)) => o,
                _ => 0,
            };
            let w = to_wire(table, ord).ok_or_else(|| {
                WireError::new(codes::E0005, format!("{} {ord} of {} has no code", a.key(), inst.opcode))
            })?;
            b.put(f.off, 1, u64::from(w));
        }
        Kind::Int(a) => {
            let v = match inst.attr(a) {
                None => 0,
                Some(_) => inst.get_int(a).ok_or_else(|| {
                    WireError::new(codes::E0009, format!("{} is known only at run time", a.key()))
                })?,
            };
            b.put(f.off, f.width, signed(v, f.width, a.key())?);
        }
        Kind::F32(a) => b.put(f.off, 4, u64::from(inst.get_f32(a).unwrap_or(0.0).to_bits())),
        Kind::Flag(a, bit) => {
            if inst.get_bool(a) {
                b.or(f.off, 1 << bit);
            }
        }
        Kind::ImmSource(s) => {
            let v = match operand(inst, s) {
                None | Some(Operand::Imm(_)) => 0,
                Some(Operand::Ap(_)) => 1,
                Some(Operand::Reg(_)) => 2,
                Some(Operand::Other(_)) => return Err(other(inst)),
            };
            b.put(f.off, 1, v);
        }
        Kind::BiasSource(s) => {
            let v = match operand(inst, s) {
                Some(Operand::Ap(_)) => 0,
                None | Some(Operand::Imm(_)) => 1,
                Some(Operand::Reg(_)) => 2,
                Some(Operand::Other(_)) => return Err(other(inst)),
            };
            b.put(f.off, 1, v);
        }
        Kind::ImmValue(s) => {
            let v = match operand(inst, s) {
                None => 0,
                Some(Operand::Imm(i)) => imm_bits(*i)?,
                Some(Operand::Ap(a)) => pointer_word(a, ctx)?,
                Some(r @ Operand::Reg(_)) => u32::from(reg_number(r)?),
                Some(Operand::Other(_)) => return Err(other(inst)),
            };
            b.put(f.off, 4, u64::from(v));
        }
        Kind::Register(s) => {
            let op = operand(inst, s).ok_or_else(|| {
                WireError::new(codes::E0001, format!("{} lacks a register operand", inst.opcode))
            })?;
            b.put(f.off, 1, u64::from(reg_number(op)?));
        }
        Kind::Part => {}
        Kind::Special(s) => special::put(b, f, s, inst, form, ctx)?,
    }
    Ok(())
}

fn nibble(v: u8) -> WireResult<u8> {
    narrow(u64::from(v), 1, "dtype").and_then(|_| {
        if v < 16 { Ok(v) } else { Err(WireError::new(codes::E0005, "dtype code 16 does not fit four bits")) }
    })
}

fn other(inst: &Inst) -> WireError {
    WireError::new(codes::E0009, format!("{} has an operand of a form without encoding", inst.opcode))
}

/// Encodes an instruction in physical form by a group of row forms: waits into the first record, the update into the last.
///
/// # Errors
/// What does not fit the records.
pub fn encode_group(inst: &Inst, group: &Group, ctx: &EncodeCtx<'_>) -> WireResult<Records> {
    let mut out = Records::new();
    for form in group.forms {
        let mut b = Bundle::new(form.byte);
        for f in form.fields {
            put_field(&mut b, f, inst, form, ctx)?;
        }
        out.push(b);
    }
    if let Some(s) = sync_of(inst) {
        put_sync(&mut out, s, inst.opcode)?;
    }
    Ok(out)
}

/// Sync info of an instruction.
pub fn sync_of(inst: &Inst) -> Option<&SyncInfo> {
    inst.sync()
}

fn put_sync(out: &mut Records, s: &SyncInfo, opcode: Opcode) -> WireResult<()> {
    if opcode == Opcode::EventSemaphore {
        if let Some(b) = out.first_mut() {
            events::put_extended(b, s)?;
        }
        return Ok(());
    }
    if let Some(u) = s.on_update.iter().find(|u| u.target_core.is_some()) {
        return Err(WireError::new(
            codes::E0008,
            format!("only a transfer can update semaphore {} of another core", u.sem),
        ));
    }
    if let Some(b) = out.first_mut() {
        events::put_wait(b, &s.on_wait)?;
    }
    if let Some(b) = out.last_mut() {
        events::put_update(b, &s.on_update)?;
    }
    Ok(())
}
