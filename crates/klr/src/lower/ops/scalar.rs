//! Tensor-scalar family: IT 29 in four forms, IT 30.

use super::{acc, inst};
use crate::ast as k;
use crate::lower::{Core, Step, enums};
use tandem_bir::{AluOp, Attr, EngineAccumulationType, EngineKind, Inst, Opcode, Operand, TscMode};

fn ops(i: &mut Inst, op0: AluOp, op1: AluOp, reverse: (bool, bool)) {
    i.set(Attr::Op0, op0);
    i.set(Attr::Op1, op1);
    i.set(Attr::Reverse0, reverse.0);
    i.set(Attr::Reverse1, reverse.1);
}

/// `tensorScalar`.
pub(super) fn tensor_scalar(c: &mut Core<'_>, o: &k::TensorScalar) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorScalarPtr);
    i.engine = enums::engine(o.engine);
    ops(&mut i, enums::alu(o.op0), o.op1.map_or(AluOp::Bypass, enums::alu), enums::reverse(o.reverse));
    i.ins = vec![src.into(), c.operand(&o.imm0)?];
    if let Some(imm1) = &o.imm1 {
        i.ins.push(c.operand(imm1)?);
    }
    let tile = i.ins.iter().skip(1).any(|o| matches!(o, Operand::Ap(_)));
    i.set(Attr::IsTensorScalarAddr, tile);
    i.outs.push(dst.into());
    c.emit("TensorScalarPtr-", i);
    Ok(())
}

/// `tensorScalarReduce`: `op1` is the operation of the fold.
pub(super) fn tensor_scalar_reduce(c: &mut Core<'_>, o: &k::TensorScalarReduce) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    let result = c.ap(&o.reduce_res)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorScalarPtr);
    ops(&mut i, enums::alu(o.op0), o.reduce_op.map_or(AluOp::Add, enums::alu), (o.reverse0, false));
    i.ins = vec![src.into(), c.operand(&o.operand0)?];
    // The 2.24 layout has no command; it reads as Idle, which a reduction cannot mean.
    let command = match o.reduce_cmd {
        k::AccumCmd::Idle => EngineAccumulationType::ZeroAccumulate,
        _ if c.plan.strict => EngineAccumulationType::ZeroAccumulate,
        cmd => acc(cmd)?,
    };
    i.set(Attr::Acc, command);
    if let Some(init) = o.reduce_init.as_ref().filter(|_| !c.plan.strict) {
        i.ins.push(c.imm(init)?.into());
    }
    i.outs = vec![dst.into(), result.into()];
    c.emit("TensorScalarPtr-", i);
    Ok(())
}

/// `ncScalarTensorTensor`.
pub(super) fn scalar_tensor_tensor(c: &mut Core<'_>, o: &k::NcScalarTensorTensor) -> Step {
    let dst = c.ap(&o.dst)?;
    let data = c.ap(&o.data)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorScalarPtr);
    ops(&mut i, enums::alu(o.op0), enums::alu(o.op1), enums::reverse(o.reverse_operands));
    i.set(Attr::IsScalarTensorTensor, true);
    i.ins = vec![data.into(), c.operand(&o.src0)?, c.operand(&o.src1)?];
    i.outs.push(dst.into());
    c.emit("TensorScalarPtr-", i);
    Ok(())
}

/// `tensorTensorScan`.
pub(super) fn tensor_tensor_scan(c: &mut Core<'_>, o: &k::TensorTensorScan) -> Step {
    let dst = c.ap(&o.dst)?;
    let src0 = c.ap(&o.src0)?;
    let src1 = c.ap(&o.src1)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorScalarPtr);
    ops(&mut i, enums::alu(o.op0), enums::alu(o.op1), enums::reverse(o.reverse_operands));
    i.set(Attr::IsTensorTensorScan, true);
    i.set(Attr::IsScalarTensorTensor, true);
    i.set(Attr::Acc, acc(o.accumulator_cmd)?);
    i.ins = vec![src0.into(), c.operand(&o.imm0)?, src1.into()];
    i.outs.push(dst.into());
    c.emit("TensorTensorScan-", i);
    Ok(())
}

/// `tensorScalarCumulative`.
pub(super) fn cumulative(c: &mut Core<'_>, o: &k::TensorScalarCumulative) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::TensorScalarCache);
    i.engine = EngineKind::Dve;
    ops(&mut i, enums::alu(o.op0), enums::alu(o.op1), enums::reverse(o.reverse));
    i.set(Attr::Mode, TscMode::Cumulative);
    i.set(Attr::Acc, acc(o.reduce_cmd)?);
    i.ins = vec![src.into(), c.operand(&o.imm0)?];
    if let Some(imm1) = &o.imm1 {
        i.ins.push(c.operand(imm1)?);
    }
    i.outs.push(dst.into());
    c.emit("TensorScalarCache-", i);
    Ok(())
}
