//! Selection, search and gathers.

use super::{acc, inst, pairs};
use crate::ast as k;
use crate::lower::fail::Fail;
use crate::lower::{Core, Step, enums, expected};
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, Attr, Immediate, Opcode};

/// IT 62.
pub(super) fn affine_select(c: &mut Core<'_>, o: &k::NcAffineSelect) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.on_true_tile)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorScalarAffineSelect);
    i.set(Attr::Base, o.pred.offset);
    i.set(Attr::Pattern, pairs(&o.pred));
    i.set(Attr::ChannelMultiplier, o.pred.channel_multiplier);
    i.set(Attr::CompareOp, enums::alu(o.cmp_op));
    i.set(Attr::FillValue, c.imm(&o.on_false_value)?.as_f32());
    i.ins.push(src.into());
    i.outs.push(dst.into());
    c.emit("TensorScalarAffineSelect-", i);
    Ok(())
}

/// IT 52 with two inputs.
pub(super) fn copy_predicated(c: &mut Core<'_>, o: &k::CopyPredicated) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    let predicate = c.ap(&o.predicate)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::CopyPredicated);
    i.set(Attr::ReversePred, o.reverse_pred && !c.plan.strict);
    i.ins = vec![src.into(), predicate.into()];
    i.outs.push(dst.into());
    c.emit("CopyPredicated-", i);
    Ok(())
}

/// IT 52 with three inputs.
pub(super) fn select_reduce(c: &mut Core<'_>, o: &k::SelectReduce) -> Step {
    let dst = c.ap(&o.dst)?;
    let predicate = c.ap(&o.predicate)?;
    let on_true = c.ap(&o.on_true)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::CopyPredicated);
    i.set(Attr::AccumulatorCmd, acc(o.reduce_cmd)?);
    i.set(Attr::ReduceOp, enums::alu(o.reduce_op));
    i.set(Attr::ReversePred, o.reverse_pred);
    i.ins = vec![predicate.into(), on_true.into(), c.operand(&o.on_false)?];
    i.outs.push(dst.into());
    if let Some(res) = &o.reduce_res {
        i.outs.push(c.ap(res)?.into());
    }
    c.emit("SelectReduce-", i);
    Ok(())
}

/// IT 63.
pub(super) fn range_select(c: &mut Core<'_>, o: &k::NcRangeSelect) -> Step {
    let dst = c.ap(&o.dst)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::RangeSelect);
    for src in [&o.on_true_tile, &o.bound0, &o.bound1] {
        i.ins.push(c.ap(src)?.into());
    }
    i.set(Attr::Base, c.imm(&o.range_start)?.as_f32());
    i.set(Attr::CompareOp0, enums::alu(o.comp_op0));
    i.set(Attr::CompareOp1, enums::alu(o.comp_op1));
    i.set(Attr::ReduceOp, o.reduce_op.map_or(AluOp::Bypass, enums::alu));
    i.set(Attr::ReduceCmd, acc(o.reduce_command)?);
    i.set(Attr::FillValue, c.imm(&o.on_false_value)?.as_f32());
    i.outs.push(dst.into());
    if let Some(res) = &o.reduce_res {
        i.outs.push(c.ap(res)?.into());
    }
    c.emit("RangeSelect-", i);
    Ok(())
}

/// IT 89.
pub(super) fn find_index8(c: &mut Core<'_>, o: &k::FindIndex8) -> Step {
    let dst = c.ap(&o.dst)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::MaxIndex);
    i.ins = vec![c.ap(&o.src)?.into(), c.ap(&o.vals)?.into()];
    i.outs.push(dst.into());
    c.emit("MaxIndex-", i);
    Ok(())
}

/// IT 90, or IT 91 when the indexes are wanted too.
pub(super) fn match_replace8(c: &mut Core<'_>, o: &k::MatchReplace8) -> Step {
    let dst = c.ap(&o.dst)?;
    c.same_dtype(o.dtype, &dst);
    let (opcode, prefix) = match o.dst_idx {
        None => (Opcode::MatchReplace, "MatchReplace-"),
        Some(_) => (Opcode::MaxIndexAndMatchReplace, "MaxIndexAndMatchReplace-"),
    };
    let mut i = inst(opcode);
    i.ins = vec![c.ap(&o.src)?.into(), c.ap(&o.vals)?.into()];
    match &o.replace_value {
        k::Immediate::Float(f) => i.set(Attr::ImmValue, f.get()),
        k::Immediate::Int(_) | k::Immediate::Register(_) | k::Immediate::Pointer => {
            return Err(Fail::new(codes::K0035, "The replace value for MatchReplace8 must be a float"));
        }
    }
    i.outs.push(dst.into());
    if let Some(idx) = &o.dst_idx {
        i.outs.push(c.ap(idx)?.into());
    }
    c.emit(prefix, i);
    Ok(())
}

/// IT 26.
pub(super) fn local_gather(c: &mut Core<'_>, o: &k::NcLocalGather) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    let index = c.ap(&o.index)?;
    let valid = match &o.num_valid_indicies {
        Some(n) => {
            let text = "num_valid_indices for local gather must be an integer";
            i64::from(c.int_imm(n, codes::K0040, text)?)
        }
        None => i64::try_from(index.num_elems()).unwrap_or(i64::MAX),
    };
    let Immediate { value: tandem_bir::inst::ImmValue::Int(_), .. } = c.imm(&o.num_elem_per_idx)? else {
        return Err(expected("an integer numElemPerIdx"));
    };
    let mut i = inst(Opcode::IndirectCopy);
    i.set(Attr::NumValidIndices, valid);
    i.ins = vec![src.into(), index.into(), c.imm(&o.num_elem_per_idx)?.into()];
    i.outs.push(dst.into());
    c.emit("LocalGather-", i);
    Ok(())
}

/// IT 92.
pub(super) fn gather(c: &mut Core<'_>, o: &k::NcNGather) -> Step {
    let dst = c.ap(&o.dst)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::Gather);
    i.ins = vec![c.ap(&o.data)?.into(), c.ap(&o.indices)?.into()];
    i.outs.push(dst.into());
    c.emit("Gather-", i);
    Ok(())
}

/// IT 104.
pub(super) fn nonzero_with_count(c: &mut Core<'_>, o: &k::NonzeroWithCount) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    let offset = c.int_imm(&o.index_offset, codes::K0041, "indexOffset must be int32")?;
    let padding = c.int_imm(&o.padding_val, codes::K0041, "paddingVal must be int32")?;
    let mut i = inst(Opcode::NonzeroWithCount);
    i.ins = vec![src.into(), Immediate::i32(offset).into(), Immediate::i32(padding).into()];
    i.outs.push(dst.into());
    c.emit("NonzeroWithCount-", i);
    Ok(())
}
