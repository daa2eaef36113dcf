//! Activation family: `ncActivate`, `activationReduce`, `activate2`, `exponential`, and the zero bias.

use super::{acc, inst};
use crate::ast as k;
use crate::lower::fail::Fail;
use crate::lower::{Core, Res, Step, enums, expected};
use tandem_bir::diag::codes;
use tandem_bir::{
    AccessPattern, AluOp, Attr, Dtype, EdgeKind, EngineKind, Immediate, MemsetMode, Opcode, Operand,
};

/// IT 4 from `ncActivate` and, with a required result, `activationReduce`.
pub(super) fn nc_activate(c: &mut Core<'_>, o: &k::NcActivate, reduce: bool) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::Activation);
    i.engine = EngineKind::Activation;
    i.set(Attr::Acc, acc(o.accumulator_cmd)?);
    i.set(Attr::Func, enums::func(o.activation_func));
    let (scale, tile) = scale(c, &o.scale)?;
    let bias = match &o.bias {
        Some(bias) => c.ap(bias)?,
        None => zero_bias(c, &src),
    };
    if o.reduce_op.is_some_and(|r| r != k::AluOp::Add) {
        return Err(Fail::new(codes::K0024, "Accumulation is the only supported op on activation_reduce"));
    }
    if reduce && o.reduce_res.is_none() {
        return Err(expected("a reduce result"));
    }
    i.set(Attr::Scale, scale);
    i.set(Attr::Alpha, 0.0f32);
    i.set(Attr::Op0, AluOp::Bypass);
    i.set(Attr::Op1, AluOp::Bypass);
    let reduces = o.reduce_res.is_some() || o.reduce_op.is_some();
    i.set(Attr::ReduceOp, if reduces { AluOp::Add } else { AluOp::Bypass });
    i.ins = vec![src.into(), bias.into()];
    i.ins.extend(tile.map(Operand::Ap));
    i.outs.push(dst.into());
    if let Some(res) = &o.reduce_res {
        i.outs.push(c.ap(res)?.into());
    }
    c.emit("Activation-", i);
    Ok(())
}

/// The scale as an immediate, or 1.0 and the tile that holds it.
fn scale(c: &mut Core<'_>, o: &k::Operand) -> Res<(f32, Option<AccessPattern>)> {
    match o {
        k::Operand::Imm(k::Immediate::Float(f)) => Ok((f.get(), None)),
        k::Operand::Imm(k::Immediate::Int(_)) => {
            Err(Fail::new(codes::K0022, "scale for activation must be a float32"))
        }
        k::Operand::Imm(i @ (k::Immediate::Register(_) | k::Immediate::Pointer)) => Err(Fail::new(
            codes::K0023,
            format!("Unrecognized operand type {} in activation scale", i.name()),
        )),
        k::Operand::Tile(t) => Ok((1.0, Some(c.ap(t)?))),
    }
}

/// The cached bias of zeros with at least as many partitions as the source.
fn zero_bias(c: &mut Core<'_>, src: &AccessPattern) -> AccessPattern {
    let rows = src.num_partitions().max(1);
    let loc = match c.zero_bias {
        Some((have, loc)) if rows <= have => loc,
        _ => {
            let id = c.zero_biases;
            c.zero_biases = id.wrapping_add(1);
            let loc =
                c.mint_helper(&format!("COMPILER-GENERATED-zero_bias_act_{id}"), Dtype::Float32, rows, 1);
            let mut fill = inst(Opcode::Memset);
            fill.set(Attr::Mode, MemsetMode::Const);
            fill.set(Attr::Constant, 0i64);
            fill.outs.push(AccessPattern::new(loc, Dtype::Float32, 0, &[(1, rows), (1, 1)]).into());
            c.emit_prelude(&format!("COMPILER-GENERATED-memset_zero_bias_{id}"), fill);
            c.zero_bias = Some((rows, loc));
            loc
        }
    };
    AccessPattern::new(loc, Dtype::Float32, 0, &[(1, rows), (1, 1)])
}

/// IT 4 with `is_activate2`.
pub(super) fn activate2(c: &mut Core<'_>, o: &k::Activate2) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    let mut i = inst(Opcode::Activation);
    i.set(Attr::IsActivate2, true);
    i.set(Attr::Op0, enums::alu(o.op0));
    i.set(Attr::Op1, enums::alu(o.op1));
    i.set(Attr::ReduceOp, enums::alu(o.reduce_op));
    i.set(Attr::Reverse0, o.reverse0);
    i.set(Attr::Reverse1, o.reverse1);
    i.set(Attr::Acc, acc(o.reduce_cmd)?);
    i.set(Attr::Func, enums::func(o.activation_func));
    i.set(Attr::Scale, 1.0f32);
    let relu = c.operand(&o.relu_param)?;
    i.set(Attr::Alpha, relu.as_imm().map_or(0.0, Immediate::as_f32));
    i.ins = vec![src.into(), c.operand(&o.imm0)?, c.operand(&o.imm1)?, relu];
    i.outs.push(dst.into());
    if let Some(res) = &o.reduce_res {
        i.outs.push(c.ap(res)?.into());
    }
    c.emit("Activate2-", i);
    Ok(())
}

/// IT 103, and IT 102 for the sum.
pub(super) fn exponential(c: &mut Core<'_>, o: &k::Exponential) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    let mut i = inst(Opcode::Exponential);
    i.engine = EngineKind::Dve;
    i.set(Attr::ReduceCmd, acc(o.reduce_cmd)?);
    i.ins = vec![src.into(), c.operand(&o.max_value)?, c.operand(&o.reduce_init)?];
    i.outs.push(dst.into());
    let sum = match &o.reduce_res {
        Some(res) => Some(c.ap(res)?),
        None => None,
    };
    let main = c.emit("Exponential-", i);
    if let Some(sum) = sum {
        let mut read = inst(Opcode::DveReadAccumulator);
        read.engine = EngineKind::Dve;
        read.outs.push(sum.into());
        let read = c.emit_helper("DveReadAccumulator-", read);
        c.m.insts[read].add_dep(read, main, EdgeKind::Ordered);
    }
    Ok(())
}
