//! Register and rank instructions (the specification, file 09 §6.16).

use crate::decode::{poison, read_index};
use crate::exec::{Arg, Decoded};
use crate::memory::Memory;
use crate::num::alu::integer;
use crate::state::{CoreState, Fault, RegValue};
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, Attr, ImmValue, Inst, Module, Opcode, RegId};

/// Runs one.
pub(crate) fn run(
    mem: &mut Memory,
    st: &mut CoreState,
    m: &Module,
    d: &Decoded,
    i: &Inst,
) -> Result<(), Fault> {
    match i.opcode {
        Opcode::RegisterMove => {
            let v = value(st, m, d.ins.first())?;
            write(st, d, v, true)
        }
        Opcode::RegisterAlu => {
            let op: AluOp = i.get_enum(Attr::Op).unwrap_or(AluOp::Bypass);
            let wide = i.get_bool(Attr::Is64bit);
            let (a, b) = (value(st, m, d.ins.first())?, value(st, m, d.ins.get(1))?);
            let wrap = |v: i64| if wide { v } else { i64::from(v as i32) };
            let bits = if wide { 64 } else { 32 };
            let r = integer(op, wrap(a), wrap(b), bits)
                .ok_or_else(|| Fault::new(codes::S0002, format!("registers have no operation {op}")))?;
            write(st, d, r, wide)
        }
        Opcode::TensorLoad => {
            let v = d.in_view(0).ok_or_else(|| shape(i))?;
            if v.num_elems() != 1 {
                return Err(shape(i));
            }
            let x = read_index(mem, v);
            st.engines.psum.note_read(v);
            write(st, d, x, v.elem_size() == 8)
        }
        Opcode::TensorSave => {
            let x = value(st, m, d.ins.first())?;
            let v = d.out_view(0).ok_or_else(|| shape(i))?;
            if v.num_elems() != 1 {
                return Err(shape(i));
            }
            let n = v.elem_size();
            mem.bytes_mut(v.buf)[v.base..v.base + n].copy_from_slice(&x.to_le_bytes()[..n]);
            Ok(())
        }
        Opcode::GetGlobalRankId => {
            let r = st.rank;
            write(st, d, r, false)
        }
        Opcode::GetCurProcessingRankId => {
            // Ring: in iteration n a member works on the data of the n-th before it (our choice).
            let iter = i.get_int(Attr::IterId).unwrap_or(0);
            let groups = i.get_groups(Attr::ReplicaGroups);
            let group = groups.iter().find(|g| g.contains(&st.rank));
            let group = group.ok_or_else(|| {
                Fault::new(codes::S0017, format!("rank {} is in no replica group", st.rank))
            })?;
            let pos = group.iter().position(|r| *r == st.rank).unwrap_or(0) as i64;
            let r = group[(pos - iter).rem_euclid(group.len() as i64) as usize];
            write(st, d, r, false)
        }
        _ => Err(Fault::new(codes::S0002, format!("{} is no register instruction", i.opcode))),
    }
}

fn shape(i: &Inst) -> Fault {
    Fault::new(codes::S0001, format!("{} moves one element between memory and a register", i.opcode))
}

/// Value of a scalar operand.
pub(crate) fn value(st: &CoreState, m: &Module, a: Option<&Arg>) -> Result<i64, Fault> {
    match a {
        Some(Arg::Imm(i)) => Ok(match i.value {
            ImmValue::Int(v) => v,
            ImmValue::Float(f) => i64::from(f.0.to_bits() as i32),
        }),
        Some(Arg::Reg(r)) => register(st, m, RegId::from_u32(*r)),
        Some(Arg::View(_) | Arg::Indexed(_)) | None => {
            Err(Fault::new(codes::S0002, "a register instruction needs a register or an immediate"))
        }
    }
}

/// Value of a register.
pub(crate) fn register(st: &CoreState, m: &Module, r: RegId) -> Result<i64, Fault> {
    match st.regs.get(r.as_u32() as usize) {
        Some(RegValue { bits, defined: true }) => Ok(*bits),
        _ => Err(poison(m, r)),
    }
}

fn write(st: &mut CoreState, d: &Decoded, v: i64, wide: bool) -> Result<(), Fault> {
    let Some(Arg::Reg(r)) = d.outs.first() else {
        return Err(Fault::new(codes::S0002, "a register instruction without a destination register"));
    };
    let bits = if wide { v } else { i64::from(v as i32) };
    if let Some(slot) = st.regs.get_mut(*r as usize) {
        *slot = RegValue { bits, defined: true };
    }
    Ok(())
}
