//! Selections: affine, range, predicated copy, select with reduction.
//!
//! Source: the specification, file 09 §6.5.

use super::accumulate::{self, accumulate, first_lane};
use super::blend::{self, Mask, Side};
use super::fill::affine_row;
use super::tile::{
    self, PerPart, Tile, attr_int, input, misfit, output, per_part, refuse_packed, same_count, unsupported,
};
use super::{Arg, Decoded, ExecCx, activation};
use crate::memory::View;
use crate::num::alu;
use crate::num::convert::{self, Rules};
use crate::num::simd::{self, Kernel};
use crate::numeric_profile::RangeSelectFill;
use crate::state::Fault;
use tandem_bir::{AluOp, Attr, EngineAccumulationType, Inst};

type Cmd = EngineAccumulationType;

/// TensorScalarAffineSelect (IT 62): `cmp(v, 0) ? x : fill`, v affine in partition and column.
pub(crate) fn affine_select(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    let op = inst.get_enum::<AluOp>(Attr::CompareOp).unwrap_or(AluOp::IsEqual);
    if alu::integer(op, 0, 0, 32).is_none() || !is_comparison(op) {
        return Err(misfit(format!("{}: `{op}` is not a comparison", d.opcode)));
    }
    let base = attr_int(cx, d, inst, Attr::Base)?.unwrap_or(0);
    let fill = inst.get_f32(Attr::FillValue).unwrap_or(0.0);
    let (parts, cols) = (dst.partitions(), dst.elems_per_partition());
    // The values of partition 0; the others differ by a multiple of the channel multiplier.
    let mut row = vec![0i32; cols];
    affine_row(d, inst, base, 0, &mut row)?;
    let step = inst.get_int(Attr::ChannelMultiplier).unwrap_or(0);
    let rule = |at: usize, out: &mut [u8]| {
        let (mut rest, mut at) = (out, at);
        while !rest.is_empty() {
            let (p, c) = (at / cols, at % cols);
            let n = (cols - c).min(rest.len());
            let (now, more) = rest.split_at_mut(n);
            let add = step.wrapping_mul(p as i64) as i32;
            simd::run(Against { x: &row[c..c + n], add, op, out: now });
            (rest, at) = (more, at + n);
        }
    };
    let rules = cx.rules();
    let other = Side::Fixed(PerPart::All(fill), rules);
    if blend::blend(cx.mem, dst, &Mask::Rule(&rule), &Side::View(src), &other) {
        return Ok(());
    }
    let mut mask = vec![0u8; parts * cols];
    rule(0, &mut mask);
    blend_whole(cx, d, src, dst, &mask, fill, None)
}

/// `out[i] = op(x[i] + add, 0)` on wrapping 32-bit integers; `op` is a comparison.
struct Against<'a> {
    x: &'a [i32],
    add: i32,
    op: AluOp,
    out: &'a mut [u8],
}

impl Kernel for Against<'_> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        #[inline(always)]
        fn all(x: &[i32], add: i32, out: &mut [u8], f: impl Fn(i32) -> bool) {
            for (o, x) in out.iter_mut().zip(x) {
                *o = u8::from(f(x.wrapping_add(add)));
            }
        }
        let Against { x, add, op, out } = self;
        match op {
            AluOp::IsEqual => all(x, add, out, |v| v == 0),
            AluOp::NotEqual => all(x, add, out, |v| v != 0),
            AluOp::IsGt => all(x, add, out, |v| v > 0),
            AluOp::IsGe => all(x, add, out, |v| v >= 0),
            AluOp::IsLt => all(x, add, out, |v| v < 0),
            _ => all(x, add, out, |v| v <= 0),
        }
    }
}

fn is_comparison(op: AluOp) -> bool {
    matches!(op, AluOp::IsEqual | AluOp::NotEqual | AluOp::IsGt | AluOp::IsGe | AluOp::IsLt | AluOp::IsLe)
}

/// Writes `mask ? src : fill`: kept elements as bits when the dtypes agree, the fill value converted under `fill_rules`.
fn blend_whole(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    src: &View,
    dst: &View,
    mask: &[u8],
    fill: f32,
    fill_rules: Option<Rules>,
) -> Result<(), Fault> {
    let rules = cx.rules();
    let mut bytes = converted(cx, d, src, dst)?;
    let (f, n) = convert::value_bytes(dst.dtype, fill, fill_rules.unwrap_or(rules));
    for (slot, keep) in bytes.chunks_exact_mut(n).zip(mask) {
        if *keep == 0 {
            slot.copy_from_slice(&f[..n]);
        }
    }
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// Packed elements of `src` in the dtype of `dst`: bits when they agree, else through fp32.
fn converted(cx: &ExecCx<'_>, d: &Decoded, src: &View, dst: &View) -> Result<Vec<u8>, Fault> {
    if convert::copies_bits(src.dtype, dst.dtype) {
        return Ok(tile::bytes_of(cx.mem, src));
    }
    same_count(d, tile::num_lanes(src), src.num_elems() * convert::lanes(dst.dtype))?;
    let x = tile::load(cx.mem, src, cx.rules());
    let mut out = vec![0u8; src.num_elems() * dst.elem_size()];
    convert::from_f32(dst.dtype, &x.data, &mut out, cx.rules());
    Ok(out)
}

/// RangeSelect (IT 63): keeps x where the column index passes both comparisons with the partition's bounds.
pub(crate) fn range_select(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let (parts, cols) = (src.partitions(), src.elems_per_partition());
    let (b0, b1) = (per_part(cx, d, 1, parts)?, per_part(cx, d, 2, parts)?);
    let base = inst.get_f32(Attr::Base).unwrap_or(0.0);
    let fill = inst.get_f32(Attr::FillValue).unwrap_or(0.0);
    let op0 = inst.get_enum::<AluOp>(Attr::CompareOp0).unwrap_or(AluOp::IsGe);
    let op1 = inst.get_enum::<AluOp>(Attr::CompareOp1).unwrap_or(AluOp::IsLt);
    let ok = |o| matches!(o, AluOp::IsEqual | AluOp::IsLt | AluOp::IsLe | AluOp::IsGt | AluOp::IsGe);
    if !ok(op0) || !ok(op1) {
        return Err(misfit(format!(
            "RangeSelect: `{op0}`, `{op1}` must be comparisons other than not_equal"
        )));
    }
    let index: Vec<f32> = (0..cols).map(|c| base + c as f32).collect();
    let rule = |at: usize, out: &mut [u8]| {
        let (mut rest, mut at) = (out, at);
        while !rest.is_empty() {
            let (p, c) = (at / cols, at % cols);
            let n = (cols - c).min(rest.len());
            let (now, more) = rest.split_at_mut(n);
            let bounds = [(op0, b0.at(p)), (op1, b1.at(p))];
            simd::run(Inside { x: &index[c..c + n], bounds, out: now });
            (rest, at) = (more, at + n);
        }
    };
    let fill_rules = match cx.profile.range_select_fill_overflow {
        RangeSelectFill::Infinity => Some(cx.rules().unsaturated()),
        RangeSelectFill::GenericCast => None,
    };
    let cmd = inst.get_enum::<Cmd>(Attr::ReduceCmd).unwrap_or(Cmd::Idle);
    if cmd == Cmd::Idle && d.outs.len() == 1 {
        let other = Side::Fixed(PerPart::All(fill), fill_rules.unwrap_or(cx.rules()));
        if blend::blend(cx.mem, dst, &Mask::Rule(&rule), &Side::View(src), &other) {
            return accumulate::idle(cx, d, first_lane(cx, dst), parts);
        }
    }
    let mut y = tile::load(cx.mem, src, cx.rules());
    let mut mask = vec![0u8; parts * cols];
    rule(0, &mut mask);
    for (y, keep) in y.data.iter_mut().zip(&mask) {
        *y = if *keep != 0 { *y } else { fill };
    }
    blend_whole(cx, d, src, dst, &mask, fill, fill_rules)?;
    let op = inst.get_enum::<AluOp>(Attr::ReduceOp).unwrap_or(AluOp::Bypass);
    let op = if op == AluOp::Bypass { AluOp::Max } else { op };
    finish(cx, d, dst, cmd, op, &y)
}

/// 1 where `x` passes both comparisons, else 0.
struct Inside<'a> {
    x: &'a [f32],
    bounds: [(AluOp, f32); 2],
    out: &'a mut [u8],
}

impl Kernel for Inside<'_> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        #[inline(always)]
        fn and(x: &[f32], out: &mut [u8], f: impl Fn(f32) -> bool) {
            for (o, x) in out.iter_mut().zip(x) {
                *o &= u8::from(f(*x));
            }
        }
        let Inside { x, bounds, out } = self;
        out.fill(1);
        for (op, b) in bounds {
            match op {
                AluOp::IsEqual => and(x, out, |v| v == b),
                AluOp::IsGt => and(x, out, |v| v > b),
                AluOp::IsGe => and(x, out, |v| v >= b),
                AluOp::IsLt => and(x, out, |v| v < b),
                _ => and(x, out, |v| v <= b),
            }
        }
    }
}

/// The accumulator step of a selection, and its second output.
fn finish(cx: &mut ExecCx<'_>, d: &Decoded, dst: &View, cmd: Cmd, op: AluOp, y: &Tile) -> Result<(), Fault> {
    let cmd = if cmd == Cmd::Idle && d.outs.len() > 1 { Cmd::ZeroAccumulate } else { cmd };
    let lane = first_lane(cx, dst);
    accumulate(cx, d, cmd, op, y, lane, None)?;
    if d.outs.len() > 1 {
        activation::result_at(cx, d, lane, y.parts)?;
    }
    Ok(())
}

/// Predicate elements of a view: nonzero, exclusive or `reverse`.
fn predicate(cx: &ExecCx<'_>, d: &Decoded, v: &View, reverse: bool) -> Result<Vec<bool>, Fault> {
    refuse_packed(d, v)?;
    let mut out = Vec::new();
    if v.dtype.is_int() {
        convert::to_int(v.dtype, &tile::bytes_of(cx.mem, v), &mut out);
        Ok(out.into_iter().map(|v| (v != 0) != reverse).collect())
    } else {
        let t = tile::load(cx.mem, v, cx.rules());
        Ok(t.data.into_iter().map(|v| (v != 0.0) != reverse).collect())
    }
}

/// CopyPredicated (IT 52): with two inputs a predicated copy, with three a select (KLR's SelectReduce).
pub(crate) fn copy_predicated(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let reverse = inst.get_bool(Attr::ReversePred);
    let cmd = inst.get_enum::<Cmd>(Attr::AccumulatorCmd).unwrap_or(Cmd::Idle);
    let op = inst.get_enum::<AluOp>(Attr::ReduceOp).unwrap_or(AluOp::Bypass);
    let dst = output(d, 0)?;
    if d.ins.len() > 2 {
        return select_reduce(cx, d, reverse, cmd, op);
    }
    let pred_view = input(d, 1)?;
    refuse_packed(d, pred_view)?;
    same_count(d, pred_view.num_elems(), dst.num_elems())?;
    if cmd == Cmd::Idle {
        let from = match d.ins.first() {
            Some(Arg::View(src)) if src.num_elems() == dst.num_elems() => Some(Side::View(src)),
            Some(_) => Some(Side::Fixed(per_part(cx, d, 0, dst.partitions())?, cx.rules())),
            None => None,
        };
        let mask = Mask::View { view: pred_view, reverse };
        if let Some(from) = from
            && blend::blend(cx.mem, dst, &mask, &from, &Side::Keep)
        {
            return Ok(());
        }
    }
    let pred = predicate(cx, d, pred_view, reverse)?;
    // Elements where the predicate does not hold keep what is there, so the destination is read too.
    let old = tile::bytes_of(cx.mem, dst);
    let size = dst.elem_size();
    let new = match d.ins.first() {
        Some(Arg::View(src)) if src.num_elems() == pred.len() => converted(cx, d, src, dst)?,
        Some(_) => {
            let parts = dst.partitions();
            let s = per_part(cx, d, 0, parts)?;
            spread(dst, &s, cx.rules())
        }
        None => return Err(misfit(format!("{}: no source", d.opcode))),
    };
    let mut bytes = old;
    for ((slot, new), hold) in bytes.chunks_exact_mut(size).zip(new.chunks_exact(size)).zip(&pred) {
        if *hold {
            slot.copy_from_slice(new);
        }
    }
    tile::scatter(cx.mem, dst, &bytes);
    if cmd != Cmd::Idle {
        let y = tile::load(cx.mem, dst, cx.rules());
        let op = if op == AluOp::Bypass { AluOp::Max } else { op };
        return finish(cx, d, dst, cmd, op, &y);
    }
    Ok(())
}

/// One value per partition in every column, as packed elements of the destination.
fn spread(dst: &View, s: &PerPart, rules: Rules) -> Vec<u8> {
    let mut out = Vec::with_capacity(dst.num_bytes());
    for p in 0..dst.partitions() {
        let (b, n) = convert::value_bytes(dst.dtype, s.at(p), rules);
        for _ in 0..dst.elems_per_partition() {
            out.extend_from_slice(&b[..n]);
        }
    }
    out
}

/// Inputs predicate, on-true, on-false.
fn select_reduce(cx: &mut ExecCx<'_>, d: &Decoded, reverse: bool, cmd: Cmd, op: AluOp) -> Result<(), Fault> {
    let (pred_view, on_true, dst) = (input(d, 0)?, input(d, 1)?, output(d, 0)?);
    refuse_packed(d, pred_view)?;
    same_count(d, pred_view.num_elems(), dst.num_elems())?;
    same_count(d, on_true.num_elems(), dst.num_elems())?;
    refuse_packed(d, on_true)?;
    refuse_packed(d, dst)?;
    if cmd == Cmd::Idle && d.outs.len() == 1 {
        let cols = dst.elems_per_partition();
        let other = match d.ins.get(2) {
            Some(Arg::View(v)) if v.num_elems() == dst.num_elems() && cols != 1 => Side::View(v),
            _ => Side::Fixed(per_part(cx, d, 2, dst.partitions())?, cx.rules()),
        };
        let mask = Mask::View { view: pred_view, reverse };
        if blend::blend(cx.mem, dst, &mask, &Side::View(on_true), &other) {
            return accumulate::idle(cx, d, first_lane(cx, dst), dst.partitions());
        }
    }
    let pred = predicate(cx, d, pred_view, reverse)?;
    let x = tile::load(cx.mem, on_true, cx.rules());
    let cols = dst.elems_per_partition();
    let mut y = Tile { parts: dst.partitions(), cols, data: x.data };
    let mut bytes = converted(cx, d, on_true, dst)?;
    let (other, other_bytes) = match d.ins.get(2) {
        Some(Arg::View(v)) if v.num_elems() == pred.len() && cols != 1 => {
            (tile::load(cx.mem, v, cx.rules()).data, converted(cx, d, v, dst)?)
        }
        _ => {
            let s = per_part(cx, d, 2, y.parts)?;
            let vals = (0..y.parts).flat_map(|p| std::iter::repeat_n(s.at(p), cols)).collect();
            (vals, spread(dst, &s, cx.rules()))
        }
    };
    let size = dst.elem_size();
    for (i, hold) in pred.iter().enumerate() {
        if !hold {
            y.data[i] = other[i];
            bytes[i * size..(i + 1) * size].copy_from_slice(&other_bytes[i * size..(i + 1) * size]);
        }
    }
    tile::scatter(cx.mem, dst, &bytes);
    let op = if op == AluOp::Bypass { AluOp::Max } else { op };
    finish(cx, d, dst, cmd, op, &y)
}

/// Select (IT 51): `p ? t : f`; the predicate must be exactly 0 or 1. Inputs predicate, t, f (our order).
pub(crate) fn select(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (pred, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, pred)?;
    refuse_packed(d, dst)?;
    same_count(d, pred.num_elems(), dst.num_elems())?;
    let p = tile::load(cx.mem, pred, cx.rules());
    if let Some(v) = p.data.iter().find(|v| **v != 0.0 && **v != 1.0) {
        return Err(misfit(format!("Select: the predicate is {v}, neither 0 nor 1")));
    }
    let parts = dst.partitions();
    let cols = dst.elems_per_partition();
    let side = |cx: &ExecCx<'_>, i: usize| -> Result<Vec<u8>, Fault> {
        match d.ins.get(i) {
            Some(Arg::View(v)) if v.num_elems() == parts * cols => converted(cx, d, v, dst),
            Some(_) => Ok(spread(dst, &per_part(cx, d, i, parts)?, cx.rules())),
            None => Err(unsupported(d, "a form without both sides")),
        }
    };
    let (t, f) = (side(cx, 1)?, side(cx, 2)?);
    let size = dst.elem_size();
    let mut out = f;
    for (i, v) in p.data.iter().enumerate() {
        if *v == 1.0 {
            out[i * size..(i + 1) * size].copy_from_slice(&t[i * size..(i + 1) * size]);
        }
    }
    tile::scatter(cx.mem, dst, &out);
    Ok(())
}
