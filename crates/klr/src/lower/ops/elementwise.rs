//! Element by element: copies (fan-out F1), arithmetic of two tensors, reductions, fills, shuffles, prints.

use super::{inst, pairs};
use crate::ast as k;
use crate::lower::access::{Dynamic, Index, Tile};
use crate::lower::fail::Fail;
use crate::lower::{Core, Res, Step, enums};
use tandem_bir::diag::codes;
use tandem_bir::inst::ImmValue;
use tandem_bir::{
    AccessPattern, Attr, AxisListType, BirEnum, DebugDeviceBuffer, Dtype, Immediate, MemsetMode, Opcode,
    Operand, RegAccess,
};

/// One input, one output, nothing else.
pub(super) fn unary(
    c: &mut Core<'_>,
    prefix: &str,
    opcode: Opcode,
    dst: &k::TensorRef,
    src: &k::TensorRef,
    dtype: Option<k::Dtype>,
) -> Step {
    let dst = c.ap(dst)?;
    let src = c.ap(src)?;
    c.same_dtype(dtype, &dst);
    let mut i = inst(opcode);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    c.emit(prefix, i);
    Ok(())
}

/// IT 23, or IT 24 and 25 with a run-time offset: the operand keeps its static pattern, `scale` and the last input
/// hold the run-time part.
pub(super) fn nc_copy(c: &mut Core<'_>, o: &k::NcCopy) -> Step {
    let dst = c.tile(&o.dst)?;
    let src = c.tile(&o.src)?;
    c.same_dtype(o.dtype, &dst.ap);
    let (opcode, prefix) = match (&src.dynamic, &dst.dynamic) {
        (None, None) => (Opcode::TensorCopy, "TensorCopy_"),
        (Some(_), None) => (Opcode::TensorCopyDynamicSrc, "TensorCopyDynamicSrc_"),
        (None, Some(_)) => (Opcode::TensorCopyDynamicDst, "TensorCopyDynamicDst_"),
        (Some(_), Some(_)) => {
            return Err(Fail::new(
                codes::K0025,
                "Only one of src and dst can have dynamic access in tensor_copy.",
            ));
        }
    };
    let mut i = inst(opcode);
    i.engine = enums::engine(o.engine);
    let Tile { ap: src, dynamic: from } = src;
    let Tile { ap: dst, dynamic: to } = dst;
    i.ins.push(src.into());
    if let Some(d) = from.or(to) {
        i.set(Attr::Scale, d.coeff);
        i.ins.push(offset_operand(d)?);
    }
    i.outs.push(dst.into());
    c.emit(prefix, i);
    Ok(())
}

fn offset_operand(d: Dynamic) -> Res<Operand> {
    match d.index {
        Index::Register(reg) => Ok(Operand::Reg(RegAccess { reg, dtype: Dtype::Int32 })),
        Index::Scalar(ap) => Ok(Operand::Ap(ap)),
        Index::Vector(_) => Err(Fail::new(
            codes::K0027,
            "tensor_copy only supports scalar_offset for dynamic access, not vector_offset.",
        )
        .note("the vendor's compiler also says: Dynamic access must have scalarOffset")),
    }
}

/// IT 31.
pub(super) fn tensor_tensor(c: &mut Core<'_>, o: &k::TensorTensor) -> Step {
    let dst = c.ap(&o.dst)?;
    let src0 = c.ap(&o.src0)?;
    let src1 = c.ap(&o.src1)?;
    c.same_dtype(o.dtype, &dst);
    let op = enums::alu(o.op);
    let locs = [dst.loc, src0.loc, src1.loc];
    let mut i = inst(Opcode::TensorTensor);
    i.engine = enums::engine(o.engine);
    i.set(Attr::Op, op);
    i.ins = vec![src0.into(), src1.into()];
    i.outs.push(dst.into());
    c.emit_named(i, |c| {
        let [out, in0, in1] = locs.map(|l| c.m.memlocs[l].name.clone());
        format!("{out}=TensorTensor_{}({in0}, {in1})", op.name())
    });
    Ok(())
}

/// IT 27 over free dimensions.
pub(super) fn tensor_reduce(c: &mut Core<'_>, o: &k::TensorReduce) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorReduce);
    i.set(Attr::Op, enums::alu(o.op));
    i.set(Attr::Axis, enums::axis(o.op_dim));
    i.set(Attr::Negate, o.negated);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    c.emit("TensorReduce-", i);
    Ok(())
}

/// IT 27 over partitions.
pub(super) fn partition_reduce(c: &mut Core<'_>, o: &k::TensorPartitionReduce) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.data)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorReduce);
    i.set(Attr::Op, enums::alu(o.op));
    i.set(Attr::Axis, AxisListType::C);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    c.emit("TensorPartitionReduce-", i);
    Ok(())
}

/// The 32 bits of a fill: the value first becomes one of the destination's class.
fn fill_bits(value: Immediate, dst: &AccessPattern) -> i64 {
    let bits = match (dst.dtype.is_int(), value.value) {
        (false, _) => value.as_f32().to_bits(),
        (true, ImmValue::Int(v)) => v as u32,
        // Nearest even, saturating; NaN is 0 (our choice).
        (true, ImmValue::Float(f)) => {
            let v = f.0.round_ties_even();
            if v < 0.0 { (v as i32) as u32 } else { v as u32 }
        }
    };
    i64::from(bits)
}

/// IT 10 with a constant.
pub(super) fn mem_set(c: &mut Core<'_>, o: &k::MemSet) -> Step {
    let dst = c.ap(&o.dst)?;
    c.same_dtype(Some(o.dtype), &dst);
    let value = c.imm(&o.value)?;
    let mut i = inst(Opcode::Memset);
    i.engine = enums::engine(o.engine);
    i.set(Attr::Mode, MemsetMode::Const);
    i.set(Attr::Constant, fill_bits(value, &dst));
    i.outs.push(dst.into());
    c.emit("Memset-", i);
    Ok(())
}

/// IT 61.
pub(super) fn iota(c: &mut Core<'_>, o: &k::Iota) -> Step {
    let dst = c.ap(&o.dst)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::Iota);
    i.set(Attr::Base, o.pattern.offset);
    i.set(Attr::Pattern, pairs(&o.pattern));
    i.set(Attr::ChannelMultiplier, o.pattern.channel_multiplier);
    i.outs.push(dst.into());
    c.emit("Iota-", i);
    Ok(())
}

/// IT 65.
pub(super) fn dropout(c: &mut Core<'_>, o: &k::Dropout) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::Dropout);
    i.set(Attr::IsKeepThreshold, o.threshold_type == k::DropoutThresholdType::KeepRate);
    i.ins = vec![src.into(), c.operand(&o.threshold)?];
    i.outs.push(dst.into());
    c.emit("Dropout-", i);
    Ok(())
}

/// IT 39.
pub(super) fn shuffle(c: &mut Core<'_>, o: &k::Shuffle) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let wanted = "the shuffle mask must be 32 integers";
    let mut mask = Vec::with_capacity(32);
    for m in &o.shuffle_mask {
        mask.push(i64::from(c.int_imm(m, codes::K0094, wanted)?));
    }
    if mask.len() != 32 {
        return Err(Fail::new(codes::K0094, format!("{wanted}, found {}", mask.len())));
    }
    let mut i = inst(Opcode::StreamShuffle);
    i.set(Attr::Mask, mask);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    c.emit("StreamShuffle-", i);
    Ok(())
}

/// IT 57.
pub(super) fn device_print(c: &mut Core<'_>, o: &k::DevicePrint) -> Step {
    let src = c.ap(&o.src)?;
    let mut i = inst(Opcode::DevicePrint);
    i.set(Attr::Prefix, o.print_prefix.as_str());
    i.set(
        Attr::OutputBuffer,
        match o.buffer {
            k::PrintOutputBuffer::Stdout => DebugDeviceBuffer::Stdout,
            k::PrintOutputBuffer::Stderr => DebugDeviceBuffer::Stderr,
        },
    );
    i.ins.push(src.into());
    c.emit("DevicePrint-", i);
    Ok(())
}
