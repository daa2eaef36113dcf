//! Tensor-tensor, reciprocal, copies on an engine.
//!
//! Source: the specification, file 09 §5.4, §6.1.

use super::stream::{self, Out, Plan};
use super::tile::{self, input, is_int32, output, refuse_packed, same_count, store_arith, unsupported};
use super::{Decoded, ExecCx, accumulate};
use crate::memory::View;
use crate::num::alu::{self, AluClass, Src};
use crate::num::convert::{self, lanes};
use crate::num::simd::{self, MapInPlace};
use crate::numeric_profile::ActCopy;
use crate::state::Fault;
use tandem_bir::arch::ArchLevel;
use tandem_bir::{AluOp, Attr, EngineAccumulationType, EngineKind, Inst};

/// TensorTensor (IT 31).
pub(crate) fn tensor_tensor(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (a, b, dst) = (input(d, 0)?, input(d, 1)?, output(d, 0)?);
    let op = inst.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Bypass);
    same_count(d, a.num_elems(), dst.num_elems())?;
    same_count(d, b.num_elems(), dst.num_elems())?;
    for v in [a, b, dst] {
        refuse_packed(d, v)?;
    }
    let native = d.engine == EngineKind::Pool && [a, b, dst].iter().all(|v| is_int32(v.dtype));
    if alu::class(op) == AluClass::BitVector || native {
        return integers(cx, d, op, a, b, dst);
    }
    let cmd = inst.get_enum::<EngineAccumulationType>(Attr::Acc).unwrap_or(EngineAccumulationType::Idle);
    let (rules, nan) = (cx.rules(), cx.profile.alu_minmax_nan);
    if cmd == EngineAccumulationType::Idle
        && let Some(plan) = Plan::new(a, Some(b), dst, Out { rules, arith: true })
    {
        let done = plan.run(cx.mem, |_: &mut (), _, x, y| alu::zip_assign(op, x, Src::Row(y), false, nan));
        return done.map(drop).ok_or_else(|| unsupported(d, format!("`{op}`")));
    }
    let mut x = tile::load(cx.mem, a, rules);
    let y = tile::load(cx.mem, b, rules);
    alu::zip_assign(op, &mut x.data, Src::Row(&y.data), false, nan)
        .ok_or_else(|| unsupported(d, format!("`{op}`")))?;
    store_arith(cx.mem, dst, &mut x.data, rules);
    if cmd != EngineAccumulationType::Idle {
        let lane = accumulate::first_lane(cx, dst);
        x.parts = dst.partitions();
        x.cols = dst.elems_per_partition();
        accumulate::accumulate(cx, d, cmd, AluOp::Add, &x, lane, None)?;
    }
    Ok(())
}

/// Two integer operands: bit-vector operations at element width, or GPSIMD's native 32-bit arithmetic.
fn integers(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    op: AluOp,
    a: &View,
    b: &View,
    dst: &View,
) -> Result<(), Fault> {
    if alu::class(op) == AluClass::BitVector && [a, b, dst].iter().any(|v| !v.dtype.is_int()) {
        return Err(tile::misfit(format!("bitvec op is not valid: `{op}` needs integer operands")));
    }
    let (mut x, mut y) = (Vec::new(), Vec::new());
    convert::to_int(a.dtype, &tile::bytes_of(cx.mem, a), &mut x);
    convert::to_int(b.dtype, &tile::bytes_of(cx.mem, b), &mut y);
    let bits = 8 * dst.elem_size() as u32;
    for (x, y) in x.iter_mut().zip(&y) {
        *x = alu::integer(op, *x, *y, bits).ok_or_else(|| unsupported(d, format!("`{op}` on integers")))?;
    }
    let mut bytes = Vec::new();
    convert::from_int_bits(dst.dtype, &x, &mut bytes);
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// Reciprocal (IT 21): exact IEEE.
pub(crate) fn reciprocal(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    unary(cx, d, |x| 1.0 / x)
}

/// GenericRelu (IT 2): `max(x, 0)`.
pub(crate) fn relu(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    unary(cx, d, |x| if x > 0.0 { x } else { 0.0 })
}

fn unary(cx: &mut ExecCx<'_>, d: &Decoded, f: impl Fn(f32) -> f32 + Sync) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, tile::num_lanes(src), tile::num_lanes(dst))?;
    refuse_packed(d, src)?;
    let rules = cx.rules();
    if let Some(plan) = Plan::new(src, None, dst, Out { rules, arith: true }) {
        let map = |_: &mut (), _, x: &mut [f32], _: &[f32]| {
            simd::run(MapInPlace { x, f: &f });
            Some(())
        };
        let done = plan.run(cx.mem, map);
        debug_assert!(done.is_some(), "nothing is refused");
        return Ok(());
    }
    let mut x = tile::load(cx.mem, src, rules);
    simd::run(MapInPlace { x: &mut x.data, f });
    store_arith(cx.mem, dst, &mut x.data, rules);
    Ok(())
}

/// Copies elements: bits when the dtypes agree, else through fp32.
pub(crate) fn copy(cx: &mut ExecCx<'_>, d: &Decoded, src: &View, dst: &View) -> Result<(), Fault> {
    if convert::copies_bits(src.dtype, dst.dtype) {
        same_count(d, src.num_elems(), dst.num_elems())?;
        if cx.arch.level == ArchLevel::Sunda
            && d.engine == EngineKind::Activation
            && cx.profile.act_copy_same_dtype == ActCopy::ByGeneration
            && lanes(src.dtype) == 1
        {
            let mut x = tile::load(cx.mem, src, cx.rules());
            let rules = cx.rules();
            store_arith(cx.mem, dst, &mut x.data, rules);
            return Ok(());
        }
        if !stream::copy(cx.mem, src, dst) {
            let bytes = tile::bytes_of(cx.mem, src);
            tile::scatter(cx.mem, dst, &bytes);
        }
        return Ok(());
    }
    same_count(d, tile::num_lanes(src), tile::num_lanes(dst))?;
    let rules = cx.rules();
    if let Some(plan) = Plan::new(src, None, dst, Out { rules, arith: false }) {
        let done = plan.run(cx.mem, |_: &mut (), _, _, _| Some(()));
        debug_assert!(done.is_some(), "nothing is refused");
        return Ok(());
    }
    let x = tile::load(cx.mem, src, rules);
    tile::store(cx.mem, dst, &x.data, rules);
    Ok(())
}

/// TensorCopy (IT 23), GenericCopy (1), AbstractCopy (3), and the dynamic forms (24, 25), whose run-time offset is
/// already in the resolved view.
pub(crate) fn tensor_copy(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    copy(cx, d, input(d, 0)?, output(d, 0)?)
}
