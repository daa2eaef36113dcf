//! Transfers: copy, transpose, fold (CCE), replicate, accumulate, gather and scatter by index.
//!
//! Source: the specification, file 09 §3.6, §6.9, §6.10. A transfer is atomic here; the race checker treats its bytes as
//! touched during the whole transfer. Who generates the descriptors changes no value.

use super::elementwise;
use super::tile::{self, input, misfit, output, refuse_packed, same_count, unsupported};
use super::{Arg, Decoded, ExecCx, Indexed};
use crate::memory::View;
use crate::num::convert;
use crate::num::packed::{self, RmwClass, RmwOp};
use crate::num::round;
use crate::state::{Fault, Note};
use smallvec::SmallVec;
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, Attr, AttrValue, CopyMode, Dtype, Inst, Opcode, TransposeOps};

/// DMACopy (IT 32).
pub(crate) fn dma_copy(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    match inst.get_enum::<CopyMode>(Attr::Mode).unwrap_or(CopyMode::Copy) {
        CopyMode::Copy | CopyMode::Dynamic => {
            let op = rmw_op(cx, d, inst.get_enum::<AluOp>(Attr::CceOp).unwrap_or(AluOp::Bypass))?;
            transfer(cx, d, inst, op)
        }
        CopyMode::Transpose => {
            let op = inst.get_enum::<TransposeOps>(Attr::TransposeOp).unwrap_or(TransposeOps::None);
            transpose(cx, d, inst, op)
        }
        CopyMode::Cce => fold(cx, d, inst, inst.get_enum::<AluOp>(Attr::CceOp).unwrap_or(AluOp::Add)),
        CopyMode::Replicate => replicate(cx, d),
    }
}

/// Load, Save and the descriptor forms.
pub(crate) fn plain(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    transfer(cx, d, inst, RmwOp::Copy)
}

/// DMADescriptorCCE (IT 70).
pub(crate) fn descriptor_cce(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    fold(cx, d, inst, inst.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Add))
}

/// DMADescriptorTranspose (IT 71).
pub(crate) fn descriptor_transpose(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let op = inst.get_enum::<TransposeOps>(Attr::TransposeOp).unwrap_or(TransposeOps::None);
    transpose(cx, d, inst, op)
}

/// GenericIndirectSave (44), IndirectSave (45), IndirectSaveAccumulate (46) and the loads (42, 43).
pub(crate) fn indirect(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let op = match d.opcode {
        Opcode::GenericIndirectSave | Opcode::IndirectSaveAccumulate => {
            inst.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Add)
        }
        _ => AluOp::Bypass,
    };
    let any_indexed = d.ins.iter().chain(&d.outs).any(|a| matches!(a, Arg::Indexed(_)));
    if !any_indexed && d.opcode != Opcode::GenericIndirectSave {
        return Err(unsupported(d, "a form without an indexed operand"));
    }
    if d.opcode == Opcode::IndirectSaveAccumulate
        && let Some(Arg::Indexed(x)) = d.outs.first()
        && let Some(want) = inst.get_int(Attr::NumIndices)
        && (x.view.partitions() as i64) < want
    {
        return Err(misfit("IndirectSaveAccumulate: insufficient indices"));
    }
    let op = rmw_op(cx, d, op)?;
    transfer(cx, d, inst, op)
}

/// The accumulation a DMA can do for an ALU operation.
fn rmw_op(cx: &ExecCx<'_>, d: &Decoded, op: AluOp) -> Result<RmwOp, Fault> {
    match op {
        AluOp::Bypass => Ok(RmwOp::Copy),
        AluOp::Add => Ok(RmwOp::Add),
        AluOp::Max if cx.profile.dma_accum_minmax => Ok(RmwOp::Max),
        AluOp::Min if cx.profile.dma_accum_minmax => Ok(RmwOp::Min),
        other => Err(unsupported(d, format!("accumulating with `{other}`"))
            .note("error 1465: the accumulation of a transfer is bypass or add")),
    }
}

fn oob_is_error(inst: &Inst) -> bool {
    match inst.spec().attr(Attr::OobIsErr) {
        Some(_) => inst.get_bool(Attr::OobIsErr),
        None => true,
    }
}

/// One row of an indexed operand, or `None` when its index is out of bounds and such rows are skipped.
fn row_at(d: &Decoded, x: &Indexed, i: i64, is_err: bool) -> Result<Option<View>, Fault> {
    let start = i
        .checked_mul(x.coeff_bytes as i64)
        .and_then(|o| (x.view.base as i64).checked_add(o))
        .and_then(|at| usize::try_from(at).ok());
    let mut v = x.view.clone();
    v.dims[0].num = 1;
    let inside = match start {
        Some(at) => {
            v.base = at;
            v.byte_range().is_some_and(|(lo, hi)| lo >= x.limits.start as i128 && hi <= x.limits.end as i128)
        }
        None => false,
    };
    if inside && i >= 0 && x.max_index.is_none_or(|m| i <= m) {
        return Ok(Some(v));
    }
    if !is_err {
        return Ok(None);
    }
    let most = x.max_index.map_or(String::new(), |m| format!(", the largest legal index is {m}"));
    Err(Fault::new(codes::S0203, format!("{}: index {i} leaves the tensor{most}", d.opcode))
        .note("!DMAInst->getOobIsErr()"))
}

/// The indexes of an indexed operand, in walk order.
fn indexes(cx: &ExecCx<'_>, d: &Decoded, x: &Indexed) -> Result<Vec<i64>, Fault> {
    let Some(Arg::View(v)) = d.indirect.get(x.index) else {
        return Err(misfit(format!("{}: the index operand is missing", d.opcode)));
    };
    if !v.dtype.is_int() {
        return Err(misfit(format!("{}: indexes of type {}", d.opcode, v.dtype)));
    }
    let mut out = Vec::new();
    convert::to_int(v.dtype, &tile::bytes_of(cx.mem, v), &mut out);
    if out.len() < x.view.partitions() {
        return Err(misfit(format!("{}: {} indexes for {} rows", d.opcode, out.len(), x.view.partitions())));
    }
    out.truncate(x.view.partitions());
    Ok(out)
}

/// read pattern -> convert -> write pattern, either side possibly indexed.
fn transfer(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst, op: RmwOp) -> Result<(), Fault> {
    let is_err = oob_is_error(inst);
    match (d.ins.first(), d.outs.first()) {
        (Some(Arg::View(src)), Some(Arg::View(dst))) => write(cx, d, src, dst, op),
        (Some(Arg::Indexed(x)), Some(Arg::View(dst))) => {
            let idx = indexes(cx, d, x)?;
            let rows = row_views(d, dst, idx.len())?;
            // All inputs are read before anything is written.
            let mut moves = Vec::with_capacity(idx.len());
            for (i, to) in idx.iter().zip(rows) {
                if let Some(from) = row_at(d, x, *i, is_err)? {
                    moves.push((from, to));
                }
            }
            write_rows(cx, d, &moves, op)
        }
        (Some(Arg::View(src)), Some(Arg::Indexed(x))) => {
            let idx = indexes(cx, d, x)?;
            warn_duplicates(cx, d, &idx);
            let rows = row_views(d, src, idx.len())?;
            let mut moves = Vec::with_capacity(idx.len());
            for (i, from) in idx.iter().zip(rows) {
                if let Some(to) = row_at(d, x, *i, is_err)? {
                    moves.push((from, to));
                }
            }
            write_rows(cx, d, &moves, op)
        }
        (Some(Arg::Imm(v)), Some(Arg::View(dst))) => {
            let (b, n) = convert::value_bytes(dst.dtype, v.as_f32(), cx.rules());
            let bytes: Vec<u8> = b[..n].iter().copied().cycle().take(dst.num_bytes()).collect();
            tile::scatter(cx.mem, dst, &bytes);
            Ok(())
        }
        _ => Err(unsupported(d, "this combination of operands")),
    }
}

/// The rows of a plain operand that pair with `n` indexes: positions of dimension 0, or equal parts of the walk.
fn row_views(d: &Decoded, v: &View, n: usize) -> Result<Vec<View>, Fault> {
    if v.partitions() == n {
        return Ok((0..n).map(|p| v.partition(p)).collect());
    }
    // Leading dimensions whose product is n enumerate the rows.
    let mut k = 0;
    let mut have = 1;
    while have < n && k < v.dims.len() {
        have *= v.dims[k].num;
        k += 1;
    }
    if have != n {
        return Err(misfit(format!("{}: {n} indexes for a side of {} rows", d.opcode, v.partitions())));
    }
    let outer = View { dims: v.dims[..k].into(), ..v.clone() };
    let inner: SmallVec<_> = if k == v.dims.len() {
        SmallVec::from_slice(&[crate::memory::Dim { stride: v.elem_size() as isize, num: 1 }])
    } else {
        v.dims[k..].into()
    };
    Ok(outer.offsets().map(|at| View { base: at, dims: inner.clone(), ..v.clone() }).collect())
}

fn warn_duplicates(cx: &mut ExecCx<'_>, d: &Decoded, idx: &[i64]) {
    let mut seen = std::collections::BTreeMap::new();
    for (k, i) in idx.iter().enumerate() {
        if *i < 0 {
            continue;
        }
        if let Some(first) = seen.insert(*i, k) {
            cx.notes.push(Note {
                code: codes::S0208,
                message: format!(
                    "{}: duplicate scatter indices: rows {first} and {k} both go to index {i}",
                    d.opcode
                ),
            });
            return;
        }
    }
}

/// Moves rows in order; what a later row reads is what was there before the transfer.
fn write_rows(cx: &mut ExecCx<'_>, d: &Decoded, moves: &[(View, View)], op: RmwOp) -> Result<(), Fault> {
    let mut temps = Vec::with_capacity(moves.len());
    for (from, to) in moves {
        if convert::copies_bits(from.dtype, to.dtype) {
            same_count(d, from.num_elems(), to.num_elems())?;
        } else {
            same_count(d, tile::num_lanes(from), tile::num_lanes(to))?;
        }
        temps.push(tile::bytes_of(cx.mem, from));
    }
    for ((from, to), bytes) in moves.iter().zip(&temps) {
        put(cx, d, from.dtype, bytes, to, op)?;
    }
    Ok(())
}

fn write(cx: &mut ExecCx<'_>, d: &Decoded, src: &View, dst: &View, op: RmwOp) -> Result<(), Fault> {
    if op == RmwOp::Copy {
        return elementwise::copy(cx, d, src, dst);
    }
    same_count(d, tile::num_lanes(src), tile::num_lanes(dst))?;
    let bytes = tile::bytes_of(cx.mem, src);
    put(cx, d, src.dtype, &bytes, dst, op)
}

/// Writes packed elements of type `from` to a view, accumulating.
fn put(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    from: Dtype,
    bytes: &[u8],
    dst: &View,
    op: RmwOp,
) -> Result<(), Fault> {
    let rules = cx.rules();
    let same = convert::copies_bits(from, dst.dtype);
    if op != RmwOp::Copy && packed::class(dst.dtype) == RmwClass::CopyOnly {
        return Err(misfit(format!("{}: accumulating into {}", d.opcode, dst.dtype))
            .note(format!("cast_accumulate: unsupported dtype {}", dst.dtype)));
    }
    if same {
        if op == RmwOp::Copy {
            tile::scatter(cx.mem, dst, bytes);
            return Ok(());
        }
        let mut acc = tile::bytes_of(cx.mem, dst);
        let done = packed::accumulate(dst.dtype, op, &mut acc, bytes, cx.profile);
        debug_assert!(done, "the class was checked");
        tile::scatter(cx.mem, dst, &acc);
        return Ok(());
    }
    let mut x = vec![0f32; bytes.len() / from.bytes() as usize * convert::lanes(from)];
    convert::to_f32(from, bytes, &mut x, rules);
    if op == RmwOp::Copy || packed::class(dst.dtype) == RmwClass::Integer {
        let mut out = vec![0u8; dst.num_bytes()];
        convert::from_f32(dst.dtype, &x, &mut out, rules);
        if op != RmwOp::Copy {
            let mut acc = tile::bytes_of(cx.mem, dst);
            let done = packed::accumulate(dst.dtype, op, &mut acc, &out, cx.profile);
            debug_assert!(done, "the class was checked");
            out = acc;
        }
        tile::scatter(cx.mem, dst, &out);
        return Ok(());
    }
    // Float destination: widen what is there, combine in fp32, round once.
    let mut acc = tile::load(cx.mem, dst, rules);
    for (a, x) in acc.data.iter_mut().zip(&x) {
        *a = match op {
            RmwOp::Copy => *x,
            RmwOp::Add => round::canonical(*a + *x),
            RmwOp::Max => {
                if *x > *a {
                    *x
                } else {
                    *a
                }
            }
            RmwOp::Min => {
                if *x < *a {
                    *x
                } else {
                    *a
                }
            }
        };
    }
    let rules = if packed::class(dst.dtype) == RmwClass::Fp8 && !cx.profile.fp8_accum_saturate {
        rules.unsaturated()
    } else {
        rules
    };
    tile::store(cx.mem, dst, &acc.data, rules);
    Ok(())
}

/// Axes of the source `[W, Z, Y, X]` in destination order.
fn order(op: TransposeOps) -> [usize; 4] {
    let (w, z, y, x) = (0, 1, 2, 3);
    match op {
        TransposeOps::None => [w, z, y, x],
        TransposeOps::Wzxy => [w, z, x, y],
        TransposeOps::Wxzy => [w, x, z, y],
        TransposeOps::Wyxz => [w, y, x, z],
        TransposeOps::Zwyx => [z, w, y, x],
        TransposeOps::Zywx => [z, y, w, x],
        TransposeOps::Zyxw => [z, y, x, w],
        TransposeOps::Yxwz => [y, x, w, z],
        TransposeOps::Yxzw => [y, x, z, w],
        TransposeOps::Ywzx => [y, w, z, x],
        TransposeOps::Xwzy => [x, w, z, y],
        TransposeOps::Xzyw => [x, z, y, w],
        TransposeOps::Xyzw => [x, y, z, w],
        TransposeOps::Xywz => [x, y, w, z],
    }
}

/// A permuted walk over the source, written in the destination's walk order. An indexed source is gathered first.
fn transpose(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst, op: TransposeOps) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    let src = match d.ins.first() {
        Some(Arg::View(v)) => v,
        Some(Arg::Indexed(x)) => return gather_transpose(cx, d, inst, x, dst, op),
        _ => return Err(unsupported(d, "this combination of operands")),
    };
    if src.dims.len() > 4 {
        return Err(misfit("DMA transpose: more than four dimensions"));
    }
    let mut permuted = src.clone();
    let dims = four(&src.dims);
    permuted.dims = order(op).iter().map(|&k| dims[k]).collect();
    write(cx, d, &permuted, dst, RmwOp::Copy)
}

/// Two and three dimensions stand for `[W, 1, 1, X]` and `[W, 1, Y, X]`.
fn four(dims: &[crate::memory::Dim]) -> [crate::memory::Dim; 4] {
    let unit = crate::memory::Dim { stride: 0, num: 1 };
    match dims {
        [a] => [*a, unit, unit, unit],
        [a, x] => [*a, unit, unit, *x],
        [a, y, x] => [*a, unit, *y, *x],
        [w, z, y, x, ..] => [*w, *z, *y, *x],
        [] => [unit; 4],
    }
}

/// Rows chosen by index, then transposed. Rows whose index is out of bounds leave the destination alone.
fn gather_transpose(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    inst: &Inst,
    x: &Indexed,
    dst: &View,
    op: TransposeOps,
) -> Result<(), Fault> {
    if x.view.dtype != dst.dtype {
        return Err(unsupported(d, "a change of dtype in a gathering transpose"));
    }
    let idx = indexes(cx, d, x)?;
    let row = x.view.num_elems() / idx.len().max(1);
    same_count(d, row * idx.len(), dst.num_elems())?;
    let size = dst.elem_size();
    let mut packed = Vec::with_capacity(idx.len() * row * size);
    let mut valid = Vec::with_capacity(idx.len() * row);
    for i in &idx {
        match row_at(d, x, *i, oob_is_error(inst))? {
            Some(v) => {
                packed.extend_from_slice(&tile::bytes_of(cx.mem, &v));
                valid.resize(valid.len() + row, true);
            }
            None => {
                packed.resize(packed.len() + row * size, 0);
                valid.resize(valid.len() + row, false);
            }
        }
    }
    // Strides of the packed rows in elements, walked in permuted order.
    let mut dims = x.view.dims.clone();
    let mut stride = 1isize;
    for q in dims.iter_mut().rev() {
        q.stride = stride;
        stride *= q.num as isize;
    }
    let dims = four(&dims);
    let walk = View { dims: order(op).iter().map(|&k| dims[k]).collect(), base: 0, ..dst.clone() };
    let mut out = tile::bytes_of(cx.mem, dst);
    for (slot, e) in out.chunks_exact_mut(size).zip(walk.offsets()) {
        if valid[e] {
            slot.copy_from_slice(&packed[e * size..(e + 1) * size]);
        }
    }
    tile::scatter(cx.mem, dst, &out);
    Ok(())
}

/// CCE: `Σ c_i · in_i`, or max/min that ignore NaN, left to right from the first term, one conversion (decision D22).
fn fold(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst, op: AluOp) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    refuse_packed(d, dst)?;
    let scales: &[tandem_bir::inst::F32] = match inst.attrs.get(Attr::Constants) {
        Some(AttrValue::Floats(v)) => v,
        _ => &[],
    };
    if !scales.is_empty() && scales.len() != d.ins.len() {
        return Err(misfit(format!("{}: {} constants for {} sources", d.opcode, scales.len(), d.ins.len())));
    }
    let f = |a: f32, x: f32| match op {
        AluOp::Max => fold_max(a, x),
        AluOp::Min => fold_min(a, x),
        _ => a + x,
    };
    if !matches!(op, AluOp::Add | AluOp::Max | AluOp::Min) {
        return Err(unsupported(d, format!("folding with `{op}`")).note("Unsupported OP type"));
    }
    let mut acc: Option<Vec<f32>> = None;
    for i in 0..d.ins.len() {
        let v = input(d, i)?;
        refuse_packed(d, v)?;
        same_count(d, v.num_elems(), dst.num_elems())?;
        let mut x = tile::load(cx.mem, v, cx.rules()).data;
        if let Some(c) = scales.get(i)
            && c.0 != 1.0
        {
            x.iter_mut().for_each(|x| *x *= c.0);
        }
        acc = Some(match acc {
            None => x,
            Some(mut a) => {
                a.iter_mut().zip(&x).for_each(|(a, x)| *a = f(*a, *x));
                a
            }
        });
    }
    let mut out = acc.ok_or_else(|| misfit(format!("{}: no source", d.opcode)))?;
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

/// Larger value; a NaN is ignored, a tie keeps the accumulator.
pub fn fold_max(acc: f32, x: f32) -> f32 {
    if x > acc || acc.is_nan() { x } else { acc }
}

/// Smaller value; a NaN is ignored, a tie keeps the accumulator.
pub fn fold_min(acc: f32, x: f32) -> f32 {
    if x < acc || acc.is_nan() { x } else { acc }
}

/// Replicate: the block of source rows is repeated over the destination partitions (our reading of "repeated").
pub(crate) fn replicate(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    let (sp, dp) = (src.partitions(), dst.partitions());
    if sp == 0 || !dp.is_multiple_of(sp) {
        return Err(misfit(format!("{}: {dp} destination partitions are no multiple of {sp}", d.opcode)));
    }
    same_count(d, src.elems_per_partition(), dst.elems_per_partition())?;
    let moves: Vec<_> = (0..dp).map(|p| (src.partition(p % sp), dst.partition(p))).collect();
    write_rows(cx, d, &moves, RmwOp::Copy)
}
