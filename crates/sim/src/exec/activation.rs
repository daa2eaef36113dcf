//! Activation in its three forms, Exponential, accumulator read-out.
//!
//! Source: the specification, file 09 §6.4. Every function is the closed form; inputs outside the range the hardware
//! covers are reported. Not modelled: the device's piecewise tables.

use super::accumulate::{accumulate, first_lane, read_out};
use super::tile::{
    self, PerPart, Tile, input, misfit, output, per_part, refuse_packed, same_count, unsupported,
};
use super::{Decoded, ExecCx};
use crate::num::alu::{self, Src};
use crate::num::simd::{self, MapInPlace};
use crate::num::transcendental as tr;
use crate::numeric_profile::SiluDx;
use crate::state::{Fault, Note};
use tandem_bir::diag::codes;
use tandem_bir::{ActivationFunctionType as Func, AluOp, Attr, EngineAccumulationType, EngineKind, Inst};

type Cmd = EngineAccumulationType;

fn map(x: &mut [f32], f: impl Fn(f32) -> f32) {
    simd::run(MapInPlace { x, f });
}

/// Applies a function in place. `alpha` is Prelu's slope.
///
/// # Errors
/// `None` for `Unknown`.
pub(crate) fn apply_function(
    func: Func,
    x: &mut [f32],
    alpha: &PerPart,
    cols: usize,
    silu: SiluDx,
) -> Option<()> {
    match func {
        Func::Identity | Func::Copy => {}
        Func::Square => map(x, |v| v * v),
        Func::Relu => map(x, |v| if v > 0.0 { v } else { 0.0 }),
        Func::Lrelu => map(x, |v| if v > 0.0 { v } else { 0.01 * v }),
        Func::Prelu => {
            for (p, row) in x.chunks_mut(cols.max(1)).enumerate() {
                let a = alpha.at(p);
                map(row, |v| if v > 0.0 { v } else { a * v });
            }
        }
        Func::Sigmoid => map(x, tr::sigmoid),
        Func::Tanh => map(x, tr::tanh),
        Func::Exp => map(x, tr::exp),
        Func::Softplus => map(x, tr::softplus),
        Func::Sqrt => map(x, f32::sqrt),
        Func::Rsqrt => map(x, tr::rsqrt),
        Func::Ln => map(x, tr::ln),
        Func::Erf => map(x, tr::erf),
        Func::Sin => {
            let far: Vec<(usize, f32)> =
                x.iter().copied().enumerate().filter(|(_, v)| v.is_nan() || v.abs() > tr::SIN_NEAR).collect();
            map(x, tr::sin_near);
            for (i, v) in far {
                x[i] = tr::sin(v);
            }
        }
        Func::Arctan => map(x, tr::atan),
        Func::Sign => map(x, |v| f32::from(i8::from(v > 0.0) - i8::from(v < 0.0))),
        Func::Gelu => map(x, tr::gelu),
        Func::Mish => map(x, tr::mish),
        Func::GeluApprxTanh => map(x, tr::gelu_tanh),
        Func::GeluApprxSigmoid => map(x, tr::gelu_sigmoid),
        Func::DerivativeGeluApprxSigmoid => map(x, tr::gelu_sigmoid_dx),
        Func::DerivativeGelu => map(x, tr::gelu_dx),
        Func::DerivativeErf => map(x, tr::erf_dx),
        Func::Abs => map(x, f32::abs),
        Func::Reciprocal => map(x, |v| 1.0 / v),
        Func::AbsReciprocalSqrt => map(x, |v| tr::rsqrt(v.abs())),
        Func::Silu => map(x, tr::silu),
        Func::DerivativeSilu => match silu {
            SiluDx::True => map(x, tr::silu_dx),
            SiluDx::Printed => map(x, tr::silu_dx_printed),
        },
        Func::IsFinite => map(x, |v| if v.is_finite() { 1.0 } else { 0.0 }),
        Func::Unknown => return None,
    }
    Some(())
}

/// Range of inputs the hardware's tables cover: `(low, high)` of the value or, for reciprocal, of its magnitude
/// (documented: the vendor's list of activation functions).
fn hardware_range(func: Func) -> Option<(f32, f32)> {
    let p = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    match func {
        Func::Sqrt => Some((p(-116), p(118))),
        Func::Rsqrt | Func::AbsReciprocalSqrt => Some((p(-87), p(97))),
        Func::Ln => Some((p(-64), p(64))),
        Func::Sin => Some((-std::f32::consts::PI, std::f32::consts::PI)),
        Func::Arctan => Some((-std::f32::consts::FRAC_PI_2, std::f32::consts::FRAC_PI_2)),
        Func::Reciprocal => Some((p(-42), p(42))),
        Func::Identity
        | Func::Copy
        | Func::Square
        | Func::Relu
        | Func::Lrelu
        | Func::Prelu
        | Func::Sigmoid
        | Func::Tanh
        | Func::Exp
        | Func::Softplus
        | Func::Erf
        | Func::Sign
        | Func::Gelu
        | Func::Mish
        | Func::GeluApprxTanh
        | Func::GeluApprxSigmoid
        | Func::DerivativeGeluApprxSigmoid
        | Func::DerivativeGelu
        | Func::DerivativeErf
        | Func::Abs
        | Func::Silu
        | Func::DerivativeSilu
        | Func::IsFinite
        | Func::Unknown => None,
    }
}

fn check_range(cx: &mut ExecCx<'_>, func: Func, x: &[f32]) {
    let Some((lo, hi)) = hardware_range(func) else { return };
    let magnitude = matches!(func, Func::Reciprocal | Func::AbsReciprocalSqrt);
    let (mut count, mut worst, mut excess) = (0usize, 0f32, -1f32);
    for &v in x {
        let m = if magnitude { v.abs() } else { v };
        if m >= lo && m <= hi || v.is_nan() {
            continue;
        }
        count += 1;
        let e = if m < lo { lo - m } else { m - hi };
        if e > excess {
            (worst, excess) = (v, e);
        }
    }
    if count > 0 {
        cx.notes.push(Note {
            code: codes::S0206,
            message: format!(
                "activation input outside the hardware range: {count} of {} inputs of {func} lie outside [{lo:e}, {hi:e}], the worst is {worst:e}",
                x.len()
            ),
        });
    }
}

/// Activation (IT 4).
pub(crate) fn activation(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let func = inst.get_enum::<Func>(Attr::Func).unwrap_or(Func::Unknown);
    let reduce_op = inst.get_enum::<AluOp>(Attr::ReduceOp).unwrap_or(AluOp::Add);
    let cmd = inst.get_enum::<Cmd>(Attr::Acc).unwrap_or(Cmd::Idle);
    let mut x = tile::load(cx.mem, src, cx.rules());
    let mut alpha = PerPart::All(inst.get_f32(Attr::Alpha).unwrap_or(0.0));
    let two = inst.get_bool(Attr::IsActivate2);
    if two {
        let pair = [
            (inst.get_enum::<AluOp>(Attr::Op0), inst.get_bool(Attr::Reverse0)),
            (inst.get_enum::<AluOp>(Attr::Op1), inst.get_bool(Attr::Reverse1)),
        ];
        for (k, (op, rev)) in pair.into_iter().enumerate() {
            let op = op.unwrap_or(AluOp::Bypass);
            if op == AluOp::Bypass {
                continue;
            }
            if !matches!(op, AluOp::Mult | AluOp::Add | AluOp::Subtract) {
                return Err(unsupported(d, format!("`{op}` before the function")));
            }
            let s = per_part(cx, d, 1 + k, x.parts)?;
            scalar_stage(cx, op, rev, &mut x, &s);
        }
        if d.ins.len() > 3 {
            alpha = per_part(cx, d, 3, x.parts)?;
        }
    } else {
        let scale = if d.ins.len() > 2 {
            per_part(cx, d, 2, x.parts)?
        } else {
            PerPart::All(inst.get_f32(Attr::Scale).unwrap_or(1.0))
        };
        scalar_stage(cx, AluOp::Mult, false, &mut x, &scale);
        if d.ins.len() > 1 {
            let bias = per_part(cx, d, 1, x.parts)?;
            scalar_stage(cx, AluOp::Add, false, &mut x, &bias);
        }
    }
    check_range(cx, func, &x.data);
    let cols = x.cols;
    apply_function(func, &mut x.data, &alpha, cols, cx.profile.silu_dx)
        .ok_or_else(|| unsupported(d, format!("function {func}")))?;
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut x.data, rules);
    let cmd = if cmd == Cmd::Idle && d.outs.len() > 1 { Cmd::ZeroAccumulate } else { cmd };
    let allowed = if two {
        matches!(
            reduce_op,
            AluOp::Add | AluOp::Max | AluOp::Min | AluOp::AbsMax | AluOp::AbsMin | AluOp::Bypass
        )
    } else {
        matches!(reduce_op, AluOp::Add | AluOp::Bypass)
    };
    if cmd != Cmd::Idle && !allowed {
        return Err(misfit(format!("Activation: the accumulators cannot fold with `{reduce_op}`")));
    }
    let op = if reduce_op == AluOp::Bypass { AluOp::Add } else { reduce_op };
    let lane = first_lane(cx, dst);
    accumulate(cx, d, cmd, op, &x, lane, None)?;
    if d.outs.len() > 1 {
        result_at(cx, d, lane, x.parts)?;
    }
    Ok(())
}

/// Writes the accumulators of the lanes an instruction worked on to its second output.
pub(crate) fn result_at(cx: &mut ExecCx<'_>, d: &Decoded, lane: usize, parts: usize) -> Result<(), Fault> {
    let out = output(d, 1)?;
    same_count(d, out.num_elems(), parts)?;
    let acc: Vec<f32> = cx.core.engines.acc_mut(d.engine).0[lane..lane + parts]
        .iter()
        .map(|v| match v {
            super::state::AccValue::Value(v) => *v,
            super::state::AccValue::Poison => f32::NAN,
        })
        .collect();
    let rules = cx.rules();
    tile::store(cx.mem, out, &acc, rules);
    Ok(())
}

fn scalar_stage(cx: &ExecCx<'_>, op: AluOp, rev: bool, x: &mut Tile, s: &PerPart) {
    let nan = cx.profile.alu_minmax_nan;
    match s {
        // Multiplying by one and adding zero change no value but −0 + 0; NaN is made canonical on writing.
        PerPart::All(v) if op == AluOp::Mult && *v == 1.0 => {}
        PerPart::All(v) => {
            let done = alu::zip_assign(op, &mut x.data, Src::Scalar(*v), rev, nan);
            debug_assert!(done.is_some(), "only add, subtract and mult come here");
        }
        PerPart::Each(v) => {
            for (v, row) in v.iter().zip(x.data.chunks_mut(x.cols.max(1))) {
                let done = alu::zip_assign(op, row, Src::Scalar(*v), rev, nan);
                debug_assert!(done.is_some(), "only add, subtract and mult come here");
            }
        }
    }
}

/// Exponential (IT 103): `exp(x − m)`, with an optional running sum.
pub(crate) fn exponential(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let mut x = tile::load(cx.mem, src, cx.rules());
    let m = per_part(cx, d, 1, x.parts)?;
    let init = if d.ins.len() > 2 { Some(per_part(cx, d, 2, x.parts)?) } else { None };
    scalar_stage(cx, AluOp::Subtract, false, &mut x, &m);
    map(&mut x.data, tr::exp);
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut x.data, rules);
    let cmd = inst.get_enum::<Cmd>(Attr::ReduceCmd).unwrap_or(Cmd::Idle);
    let lane = first_lane(cx, dst);
    accumulate(cx, d, cmd, AluOp::Add, &x, lane, init.as_ref())
}

/// ReadActivationAccumulator (IT 5), ActivationReadAccumulator (101), DveReadAccumulator (102).
pub(crate) fn read_accumulator(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let engine = match d.opcode {
        tandem_bir::Opcode::DveReadAccumulator => EngineKind::Dve,
        _ => EngineKind::Activation,
    };
    let negate = inst.get_bool(Attr::Negated);
    let out = output(d, 0)?;
    read_out(cx, d, engine, out, negate)
}

/// LoadActFuncSet (IT 6): checks its number, changes no value.
pub(crate) fn load_func_set(d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    match inst.get_int(Attr::ActFuncSetId) {
        Some(id) if id > -1 => Ok(()),
        id => Err(misfit(format!("{}: function set {id:?} does not exist", d.opcode))),
    }
}
