//! Reductions over free axes and over partitions, pooling, accumulator read-out.
//!
//! Source: the specification, file 09 §6.3. The order is ours (decision D31): start with the first element, fold left in
//! walk order.

use super::extreme::Extreme;
use super::stream::{self, Walk};
use super::tile::{self, Tile, input, misfit, output, refuse_packed, same_count, store_arith, unsupported};
use super::{Decoded, ExecCx};
use crate::memory::{Memory, View};
use crate::num::{alu, convert};
use crate::numeric_profile::{AluMinMaxNan, IntReduce};
use crate::state::Fault;
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::{AluOp, Attr, AxisListType, Dtype, Inst, PoolFunctionType};

/// Rows folded side by side; each keeps its own order, so the result does not depend on it.
const SIDE: usize = 16;
/// Elements of a row that are at hand at once (our choice).
const WIDE: usize = 128;

/// `acc[j] = op(acc[j], rows[j][i])` for `i` ascending.
struct Fold<'a> {
    acc: &'a mut [f32; SIDE],
    rows: &'a [[f32; WIDE]; SIDE],
    range: Range<usize>,
}

impl alu::OpKernel for Fold<'_> {
    type Out = ();
    #[inline(always)]
    fn run(self, f: impl Fn(f32, f32) -> f32) {
        let mut acc = *self.acc;
        for i in self.range {
            for j in 0..SIDE {
                acc[j] = f(acc[j], self.rows[j][i.min(WIDE - 1)]);
            }
        }
        *self.acc = acc;
    }
}

/// `acc[r] = op(…op(op(acc[r], x[r][0]), x[r][1])…)` for rows of `cols` values. `None` when the table has no such operation.
pub(crate) fn fold_rows_into(
    op: AluOp,
    acc: &mut [f32],
    x: &[f32],
    cols: usize,
    nan: AluMinMaxNan,
) -> Option<()> {
    if cols == 0 {
        return Some(());
    }
    if let Some(e) = Extreme::of(op, nan) {
        acc.iter_mut().zip(x.chunks_exact(cols)).for_each(|(a, row)| *a = e.fold(Some(*a), row));
        return Some(());
    }
    let mut block = [[0f32; WIDE]; SIDE];
    for (acc, rows) in acc.chunks_mut(SIDE).zip(x.chunks(cols * SIDE)) {
        let mut a = [0f32; SIDE];
        a[..acc.len()].copy_from_slice(acc);
        for at in (0..cols).step_by(WIDE) {
            let n = WIDE.min(cols - at);
            for (to, row) in block.iter_mut().zip(rows.chunks_exact(cols)) {
                to[..n].copy_from_slice(&row[at..at + n]);
            }
            alu::with(op, nan, Fold { acc: &mut a, rows: &block, range: 0..n })?;
        }
        acc.copy_from_slice(&a[..acc.len()]);
    }
    Some(())
}

/// Left fold of the `inner` last dimensions of a view, starting with the first element; `average` seeds with first/N and adds
/// x·(1/N).
fn fold_view(mem: &Memory, v: &View, inner: usize, op: AluOp, nan: AluMinMaxNan) -> Option<Vec<f32>> {
    let split = v.dims.len() - inner.min(v.dims.len());
    let outer = View { dims: SmallVec::from_slice(&v.dims[..split]), ..v.clone() };
    let starts: Vec<usize> = outer.offsets().collect();
    let mut out = vec![0f32; starts.len()];
    let bytes = mem.bytes(v.buf);
    let fold = |starts: &[usize], out: &mut [f32]| fold_starts(bytes, v, split, starts, out, op, nan);
    if v.num_elems() >= stream::PARALLEL && starts.len() >= 2 * SIDE && mem.threads() > 1 {
        let half = (starts.len() / 2).next_multiple_of(SIDE);
        let (low, high) = out.split_at_mut(half);
        let (x, y) = rayon::join(|| fold(&starts[..half], low), || fold(&starts[half..], high));
        x.and(y)?;
    } else {
        fold(&starts, &mut out)?;
    }
    Some(out)
}

/// The folds that start at these bytes; dimensions from `split` on are folded.
fn fold_starts(
    bytes: &[u8],
    v: &View,
    split: usize,
    starts: &[usize],
    out: &mut [f32],
    op: AluOp,
    nan: AluMinMaxNan,
) -> Option<()> {
    let dims = &v.dims[split..];
    let cols: usize = dims.iter().map(|d| d.num).product();
    if let Some(e) = Extreme::of(op, nan) {
        for (at, out) in starts.iter().zip(out) {
            *out = e.fold_walk(bytes, &mut Walk::of(*at, dims, v.elem_size()), v.dtype, cols);
        }
        return Some(());
    }
    let (op, factor) = match op {
        AluOp::Average => (AluOp::Add, Some(1.0 / cols as f32)),
        _ => (op, None),
    };
    let mut block = [[0f32; WIDE]; SIDE];
    for (starts, out) in starts.chunks(SIDE).zip(out.chunks_mut(SIDE)) {
        let mut walks: SmallVec<[Walk; SIDE]> =
            starts.iter().map(|at| Walk::of(*at, dims, v.elem_size())).collect();
        let mut acc = [0f32; SIDE];
        for at in (0..cols).step_by(WIDE) {
            let n = WIDE.min(cols - at);
            for (walk, to) in walks.iter_mut().zip(&mut block) {
                stream::load(bytes, walk, v.dtype, &mut to[..n]);
                if let Some(f) = factor {
                    to[..n].iter_mut().for_each(|x| *x *= f);
                }
            }
            let from = usize::from(at == 0);
            if at == 0 {
                acc = std::array::from_fn(|j| block[j][0]);
            }
            // One element is its own fold, whatever the operation.
            if from < n {
                alu::with(op, nan, Fold { acc: &mut acc, rows: &block, range: from..n })?;
            }
        }
        out.copy_from_slice(&acc[..out.len()]);
    }
    Some(())
}

/// Left fold of each row of a tile, starting with its first element. `average` seeds with first/N and adds x·(1/N).
fn fold_tile(op: AluOp, x: &Tile, nan: AluMinMaxNan) -> Option<Vec<f32>> {
    if op == AluOp::Average {
        let factor = 1.0 / x.cols as f32;
        let scaled: Vec<f32> = x.data.iter().map(|v| v * factor).collect();
        return fold_tile(AluOp::Add, &Tile { data: scaled, ..*x }, nan);
    }
    let mut acc: Vec<f32> = (0..x.parts).map(|p| x.row(p)[0]).collect();
    let mut rest = Vec::with_capacity(x.parts * (x.cols - 1));
    for p in 0..x.parts {
        rest.extend_from_slice(&x.row(p)[1..]);
    }
    fold_rows_into(op, &mut acc, &rest, x.cols - 1, nan)?;
    Some(acc)
}

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
