//! Activation in its three forms, Exponential, accumulator read-out.
//!
//! Source: the specification, file 09 §6.4. Every function is the closed form; inputs outside the range the hardware
//! covers are reported. Not modelled: the device's piecewise tables.

use super::accumulate::{self, accumulate, first_lane, read_out};
use super::scalar::by_part;
use super::stream::{Out, Plan};
use super::tile::{self, PerPart, input, misfit, output, per_part, refuse_packed, same_count, unsupported};
use super::{Decoded, ExecCx};
use crate::num::quick;
use crate::num::simd::{self, Kernel, MapInPlace};
use crate::num::transcendental as tr;
use crate::numeric_profile::{AluMinMaxNan, SiluDx};
use crate::state::{Fault, Note};
use smallvec::SmallVec;
use tandem_bir::diag::codes;
use tandem_bir::{ActivationFunctionType as Func, AluOp, Attr, EngineAccumulationType, EngineKind, Inst};

type Cmd = EngineAccumulationType;

fn map(x: &mut [f32], f: impl Fn(f32) -> f32) {
    simd::run(MapInPlace { x, f });
}

/// Some value is too far from zero for [`tr::sin_near`], or NaN.
struct AnyFar<'a> {
    x: &'a [f32],
}

impl Kernel for AnyFar<'_> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        self.x.iter().fold(false, |far, v| far | (v.to_bits() & 0x7FFF_FFFF > tr::SIN_NEAR.to_bits()))
    }
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
        Func::Tanh => quick::map(quick::Function::Tanh, x),
        Func::Exp => quick::map(quick::Function::Exp, x),
        Func::Softplus => map(x, tr::softplus),
        Func::Sqrt => map(x, f32::sqrt),
        Func::Rsqrt => quick::map(quick::Function::Rsqrt, x),
        Func::Ln => quick::map(quick::Function::Ln, x),
        Func::Erf => map(x, tr::erf),
        Func::Sin => {
            let is_far = |v: f32| v.is_nan() || v.abs() > tr::SIN_NEAR;
            let far: Vec<(usize, f32)> = if simd::run(AnyFar { x }) {
                x.iter().copied().enumerate().filter(|(_, v)| is_far(*v)).collect()
            } else {
                Vec::new()
            };
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
        Func::AbsReciprocalSqrt => quick::map(quick::Function::AbsRsqrt, x),
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

/// Inputs outside the range of a function: how many, the worst and by how much.
#[derive(Clone, Copy, Debug, Default)]
struct Outside {
    count: usize,
    worst: f32,
    excess: f32,
}

impl Outside {
    fn look(&mut self, range: Option<(f32, f32)>, magnitude: bool, x: &[f32]) {
        let Some((lo, hi)) = range else { return };
        let beyond = Beyond { x, lo, hi, magnitude };
        let (count, most) = simd::run(&beyond);
        if count > 0 && (self.count == 0 || f32::from_bits(most) > self.excess) {
            let worst = x.iter().find(|v| beyond.excess(**v) == Some(most));
            (self.worst, self.excess) = (worst.copied().unwrap_or(0.0), f32::from_bits(most));
        }
        self.count += count as usize;
    }
    /// What a later part of the same operand has found.
    fn join(&mut self, later: Outside) {
        if later.count > 0 && (self.count == 0 || later.excess > self.excess) {
            (self.worst, self.excess) = (later.worst, later.excess);
        }
        self.count += later.count;
    }
}

/// How many values lie outside a range, and the bits of the largest distance from it. NaN counts as inside.
struct Beyond<'a> {
    x: &'a [f32],
    lo: f32,
    hi: f32,
    magnitude: bool,
}

impl Beyond<'_> {
    /// Bits of the distance of a value from the range when it lies outside; distances are not negative, so that their bits are in
    /// the order of the distances.
    #[inline(always)]
    fn excess(&self, v: f32) -> Option<u32> {
        let m = f32::from_bits(v.to_bits() & if self.magnitude { 0x7FFF_FFFF } else { u32::MAX });
        let e = if m < self.lo { self.lo - m } else { m - self.hi };
        ((m < self.lo) | (m > self.hi)).then_some(e.to_bits())
    }
}

impl Kernel for &Beyond<'_> {
    type Out = (u32, u32);
    #[inline(always)]
    fn run(self) -> (u32, u32) {
        let (mut count, mut most) = (0u32, 0u32);
        for v in self.x {
            let e = self.excess(*v);
            count += u32::from(e.is_some());
            most = most.max(e.unwrap_or(0));
        }
        (count, most)
    }
}

fn by_magnitude(func: Func) -> bool {
    matches!(func, Func::Reciprocal | Func::AbsReciprocalSqrt)
}

fn report_outside(cx: &mut ExecCx<'_>, func: Func, out: Outside, all: usize) {
    let Outside { count, worst, .. } = out;
    if let Some((lo, hi)) = hardware_range(func).filter(|_| count > 0) {
        cx.notes.push(Note {
            code: codes::S0206,
            message: format!(
                "activation input outside the hardware range: {count} of {all} inputs of {func} lie outside [{lo:e}, {hi:e}], the worst is {worst:e}"
            ),
        });
    }
}

/// What happens to the elements of an activation before and in its function.
struct Work {
    func: Func,
    /// At most two, in order.
    before: SmallVec<[(AluOp, bool, PerPart); 2]>,
    alpha: PerPart,
    cols: usize,
    nan: AluMinMaxNan,
    silu: SiluDx,
}

impl Work {
    /// Works on elements from `at` on; anything but a whole operand must not have a slope per partition.
    fn run(&self, outside: &mut Outside, at: usize, x: &mut [f32]) -> Option<()> {
        for (op, rev, s) in &self.before {
            scalar_stage(*op, *rev, s, x, (at, self.cols), self.nan);
        }
        outside.look(hardware_range(self.func), by_magnitude(self.func), x);
        apply_function(self.func, x, &self.alpha, self.cols, self.silu)
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
    let parts = src.partitions();
    let mut before = SmallVec::new();
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
            before.push((op, rev, per_part(cx, d, 1 + k, parts)?));
        }
        if d.ins.len() > 3 {
            alpha = per_part(cx, d, 3, parts)?;
        }
    } else {
        let scale = if d.ins.len() > 2 {
            per_part(cx, d, 2, parts)?
        } else {
            PerPart::All(inst.get_f32(Attr::Scale).unwrap_or(1.0))
        };
        before.push((AluOp::Mult, false, scale));
        if d.ins.len() > 1 {
            before.push((AluOp::Add, false, per_part(cx, d, 1, parts)?));
        }
    }
    let (cols, nan, silu) = (src.elems_per_partition(), cx.profile.alu_minmax_nan, cx.profile.silu_dx);
    let piecewise = func != Func::Prelu || matches!(alpha, PerPart::All(_));
    let work = Work { func, before, alpha, cols, nan, silu };
    let rules = cx.rules();
    let refused = || unsupported(d, format!("function {func}"));
    let plan = Plan::new(src, None, dst, Out { rules, arith: true });
    if cmd == Cmd::Idle
        && d.outs.len() == 1
        && piecewise
        && let Some(plan) = plan
    {
        let bands = plan
            .heavy()
            .run(cx.mem, |out: &mut Outside, at, x: &mut [f32], _: &[f32]| work.run(out, at, x))
            .ok_or_else(refused)?;
        let mut outside = Outside::default();
        bands.into_iter().for_each(|b| outside.join(b));
        report_outside(cx, func, outside, src.num_elems());
        let lane = first_lane(cx, dst);
        return accumulate::idle(cx, d, lane, parts);
    }
    let mut x = tile::load(cx.mem, src, rules);
    let mut outside = Outside::default();
    let done = work.run(&mut outside, 0, &mut x.data);
    report_outside(cx, func, outside, x.data.len());
    done.ok_or_else(refused)?;
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

fn scalar_stage(op: AluOp, rev: bool, s: &PerPart, x: &mut [f32], at: (usize, usize), nan: AluMinMaxNan) {
    // Multiplying by one and adding zero change no value but −0 + 0; NaN is made canonical on writing.
    if op == AluOp::Mult && matches!(s, PerPart::All(v) if *v == 1.0) {
        return;
    }
    let done = by_part(op, rev, s, x, at.0, at.1, nan);
    debug_assert!(done.is_some(), "only add, subtract and mult come here");
}

/// Exponential (IT 103): `exp(x − m)`, with an optional running sum.
pub(crate) fn exponential(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let (parts, cols) = (src.partitions(), src.elems_per_partition());
    let m = per_part(cx, d, 1, parts)?;
    let init = if d.ins.len() > 2 { Some(per_part(cx, d, 2, parts)?) } else { None };
    let (rules, nan) = (cx.rules(), cx.profile.alu_minmax_nan);
    let work = |at: usize, x: &mut [f32]| {
        scalar_stage(AluOp::Subtract, false, &m, x, (at, cols), nan);
        quick::map(quick::Function::Exp, x);
        Some(())
    };
    let cmd = inst.get_enum::<Cmd>(Attr::ReduceCmd).unwrap_or(Cmd::Idle);
    let lane = first_lane(cx, dst);
    let plan = Plan::new(src, None, dst, Out { rules, arith: true });
    if cmd == Cmd::Idle
        && let Some(plan) = plan
    {
        let done = plan.heavy().run(cx.mem, |_: &mut (), at, x: &mut [f32], _: &[f32]| work(at, x));
        debug_assert!(done.is_some(), "nothing is refused");
        return accumulate::idle(cx, d, lane, parts);
    }
    let mut x = tile::load(cx.mem, src, rules);
    work(0, &mut x.data);
    tile::store_arith(cx.mem, dst, &mut x.data, rules);
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
