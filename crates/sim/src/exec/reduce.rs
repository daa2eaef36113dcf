//! Reductions over free axes and over partitions, pooling, accumulator read-out.
//!
//! Source: the specification, file 09 §6.3. The order is ours (decision D31): start with the first element, fold left in
//! walk order.

use super::fold::{fold_tile, fold_view};
use super::tile::{self, input, misfit, output, refuse_packed, same_count, store_arith, unsupported};
use super::{Decoded, ExecCx};
use crate::num::{alu, convert};
use crate::numeric_profile::IntReduce;
use crate::state::Fault;
use tandem_bir::{AluOp, Attr, AxisListType, Dtype, Inst, PoolFunctionType};

/// TensorReduce (IT 27).
pub(crate) fn tensor_reduce(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let op = inst.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Add);
    let axis = inst.get_enum::<AxisListType>(Attr::Axis).unwrap_or(AxisListType::X);
    let negate = inst.get_bool(Attr::Negate);
    if inst.get_bool(Attr::ApplyTranspose) {
        return transposed(cx, d, op, axis, negate);
    }
    let count = match axis {
        AxisListType::X => 1,
        AxisListType::Xy => 2,
        AxisListType::Xyz => 3,
        AxisListType::Xyzw => 4,
        AxisListType::C | AxisListType::Xyzwc => 0,
    };
    let bitwise = alu::class(op) == alu::AluClass::BitVector;
    let as_int = cx.profile.int_reduce == IntReduce::Int32 && dst.dtype == Dtype::Int32 && src.dtype.is_int();
    let free = src.free_dims();
    let reduced = if count == 0 {
        src.partitions()
    } else if free.len() >= count {
        free[free.len() - count..].iter().map(|x| x.num).product()
    } else if dst.num_elems() == src.partitions() {
        // A pattern whose unit or mergeable dimensions were dropped: one result per partition has one reading.
        src.elems_per_partition()
    } else {
        return Err(misfit(format!("Input AP dimension should be larger than num_dims, which is {count}")));
    };
    let outer = src.num_elems() / reduced.max(1);
    let (results, reduced) = match axis {
        AxisListType::Xyzwc => (1, src.num_elems()),
        AxisListType::C | AxisListType::X | AxisListType::Xy | AxisListType::Xyz | AxisListType::Xyzw => {
            (outer, reduced)
        }
    };
    same_count(d, results, dst.num_elems())?;
    let over_partitions = axis == AxisListType::C;
    if bitwise || as_int {
        let mut x = Vec::new();
        convert::to_int(src.dtype, &tile::bytes_of(cx.mem, src), &mut x);
        let bits = 8 * src.elem_size() as u32;
        let out = fold_ints(op, &x, results, reduced, over_partitions, if as_int { 32 } else { bits })
            .ok_or_else(|| unsupported(d, format!("reducing integers with `{op}`")))?;
        let out: Vec<i64> = out.into_iter().map(|v| if negate { v.wrapping_neg() } else { v }).collect();
        let mut bytes = Vec::new();
        convert::from_int_bits(dst.dtype, &out, &mut bytes);
        tile::scatter(cx.mem, dst, &bytes);
        return Ok(());
    }
    let nan = cx.profile.alu_minmax_nan;
    let folded = if over_partitions {
        let x = tile::load(cx.mem, src, cx.rules());
        if op == AluOp::Average {
            let f = 1.0 / reduced as f32;
            let mut acc: Vec<f32> = x.row(0).iter().map(|v| v * f).collect();
            for p in 1..x.parts {
                acc.iter_mut().zip(x.row(p)).for_each(|(a, v)| *a += v * f);
            }
            Some(acc)
        } else {
            let mut acc = x.row(0).to_vec();
            alu::fold_columns(op, &mut acc, &x.data[results..], nan).map(|()| acc)
        }
    } else {
        // The dimensions that are folded: those named, all free ones, or everything.
        let inner = match axis {
            AxisListType::Xyzwc => src.dims.len(),
            _ if free.len() >= count => count,
            _ => free.len(),
        };
        fold_view(cx.mem, src, inner, op, nan)
    };
    let mut out = folded.ok_or_else(|| unsupported(d, format!("reducing with `{op}`")))?;
    if negate {
        out.iter_mut().for_each(|v| *v = -*v);
    }
    let rules = cx.rules();
    store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

/// A reduction along the innermost axis of the block-transposed source.
fn transposed(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    op: AluOp,
    axis: AxisListType,
    negate: bool,
) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    if axis == AxisListType::C || axis == AxisListType::Xyzwc {
        return Err(unsupported(d, "`apply_transpose` over partitions"));
    }
    let x = tile::transpose_blocks(d, &tile::load(cx.mem, src, cx.rules()))?;
    same_count(d, x.parts, dst.num_elems())?;
    let mut out = fold_tile(op, &x, cx.profile.alu_minmax_nan)
        .ok_or_else(|| unsupported(d, format!("reducing with `{op}`")))?;
    if negate {
        out.iter_mut().for_each(|v| *v = -*v);
    }
    let rules = cx.rules();
    store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

/// Left folds of integers; results wrap to `bits`.
fn fold_ints(
    op: AluOp,
    x: &[i64],
    results: usize,
    reduced: usize,
    columns: bool,
    bits: u32,
) -> Option<Vec<i64>> {
    let shift = 64 - bits;
    (0..results)
        .map(|r| {
            let at = |k: usize| if columns { x[k * results + r] } else { x[r * reduced + k] };
            (1..reduced).try_fold(at(0), |acc, k| Some(alu::integer(op, acc, at(k), bits)? << shift >> shift))
        })
        .collect()
}

/// Pool (IT 20): maximum or average over the two innermost dimensions.
pub(crate) fn pool(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    let free = src.free_dims();
    if free.len() < 2 {
        return Err(misfit("Pool: the source needs two free dimensions"));
    }
    let n: usize = free[free.len() - 2..].iter().map(|x| x.num).product();
    let results = src.num_elems() / n.max(1);
    same_count(d, results, tile::num_lanes(dst))?;
    let x = tile::load(cx.mem, src, cx.rules());
    let func = inst.get_enum::<PoolFunctionType>(Attr::Func).unwrap_or(PoolFunctionType::Max);
    let mut out: Vec<f32> = x
        .data
        .chunks_exact(n)
        .map(|w| match func {
            // fmax: a NaN is ignored.
            PoolFunctionType::Max => w.iter().fold(f32::MIN, |a, &v| if v > a { v } else { a }),
            PoolFunctionType::Avg => {
                let sum = w.iter().fold(0f32, |a, &v| a + v);
                (f64::from(sum) * (1.0 / n as f64)) as f32
            }
        })
        .collect();
    let rules = cx.rules();
    store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}
