//! Search: eight largest, their columns, match and replace, nonzero list.
//!
//! Source: the specification, file 09 §6.11. Comparison is after fp32 widening; rows are partitions.

use super::tile::{self, Tile, input, misfit, output, refuse_packed, same_count};
use super::{Arg, Decoded, ExecCx};
use crate::num::convert;
use crate::numeric_profile::MatchOrder;
use crate::state::Fault;
use tandem_bir::{Attr, Dtype, Inst};

/// The eight largest of a row, descending. Ties keep their order; a NaN stays in the slot it first took.
pub(crate) fn top8(row: &[f32]) -> [f32; 8] {
    let mut top = [f32::NAN; 8];
    let mut n = 0;
    for &v in row {
        let mut x = v;
        for t in top.iter_mut().take(n) {
            if x > *t {
                std::mem::swap(&mut x, t);
            }
        }
        if n < 8 {
            top[n] = x;
            n += 1;
        }
    }
    top
}

/// Max (IT 88).
pub(crate) fn max8(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    let n = src.elems_per_partition();
    if !(8..=16_384).contains(&n) {
        return Err(misfit(format!("Max: {n} elements per partition, 8 to 16384 are legal")));
    }
    same_count(d, 8 * src.partitions(), tile::num_lanes(dst))?;
    let x = tile::load(cx.mem, src, cx.rules());
    let mut out = Vec::with_capacity(8 * x.parts);
    for p in 0..x.parts {
        out.extend_from_slice(&top8(x.row(p)));
    }
    let rules = cx.rules();
    tile::store(cx.mem, dst, &out, rules);
    Ok(())
}

/// Writes column numbers; `None` becomes all ones of the element's width.
fn store_columns(cx: &mut ExecCx<'_>, dst: &crate::memory::View, cols: &[Option<usize>]) {
    if dst.dtype.is_int() {
        let ints: Vec<i64> = cols.iter().map(|c| c.map_or(-1, |c| c as i64)).collect();
        let mut bytes = Vec::new();
        convert::from_int_bits(dst.dtype, &ints, &mut bytes);
        tile::scatter(cx.mem, dst, &bytes);
    } else {
        let f: Vec<f32> = cols.iter().map(|c| c.map_or(u32::MAX as f32, |c| c as f32)).collect();
        let rules = cx.rules();
        tile::store(cx.mem, dst, &f, rules);
    }
}

/// MaxIndex (IT 89): for each value its first column; equal values take successive columns; all ones where there is none.
pub(crate) fn find_index8(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (x, vals) = data_and_values(cx, d)?;
    let dst = output(d, 0)?;
    same_count(d, 8 * x.parts, dst.num_elems())?;
    let mut cols = Vec::with_capacity(8 * x.parts);
    for p in 0..x.parts {
        cols.extend(matches(x.row(p), vals.row(p), MatchOrder::Ascending));
    }
    store_columns(cx, dst, &cols);
    Ok(())
}

fn data_and_values(cx: &ExecCx<'_>, d: &Decoded) -> Result<(Tile, Tile), Fault> {
    let (src, vals) = (input(d, 0)?, input(d, 1)?);
    refuse_packed(d, src)?;
    refuse_packed(d, vals)?;
    let (x, v) = (tile::load(cx.mem, src, cx.rules()), tile::load(cx.mem, vals, cx.rules()));
    if v.parts != x.parts || v.cols != 8 {
        return Err(misfit(format!(
            "{}: the values are [{}, {}], not [{}, 8]",
            d.opcode, v.parts, v.cols, x.parts
        )));
    }
    Ok((x, v))
}

/// Column each of eight values matches: elements are scanned in order, each takes the first free value equal to it in the
/// given order.
pub(crate) fn matches(row: &[f32], vals: &[f32], order: MatchOrder) -> [Option<usize>; 8] {
    let mut found = [None; 8];
    for (c, x) in row.iter().enumerate() {
        let hit = |k: &usize| found[*k].is_none() && vals[*k] == *x;
        let k = match order {
            MatchOrder::Ascending => (0..8).find(hit),
            MatchOrder::Descending => (0..8).rev().find(hit),
        };
        if let Some(k) = k {
            found[k] = Some(c);
            if found.iter().all(Option::is_some) {
                break;
            }
        }
    }
    found
}

/// MatchReplace (IT 90), MaxIndexAndMatchReplace (91).
pub(crate) fn match_replace(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    inst: &Inst,
    with_index: bool,
) -> Result<(), Fault> {
    let (x, vals) = data_and_values(cx, d)?;
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, x.data.len(), dst.num_elems())?;
    refuse_packed(d, dst)?;
    let imm = inst.get_f32(Attr::ImmValue).unwrap_or(0.0);
    let mut bytes = if convert::copies_bits(src.dtype, dst.dtype) {
        tile::bytes_of(cx.mem, src)
    } else {
        let mut out = vec![0u8; dst.num_bytes()];
        convert::from_f32(dst.dtype, &x.data, &mut out, cx.rules());
        out
    };
    let (fill, size) = convert::value_bytes(dst.dtype, imm, cx.rules());
    let mut cols = Vec::with_capacity(8 * x.parts);
    for p in 0..x.parts {
        let m = matches(x.row(p), vals.row(p), cx.profile.match_replace_order);
        for c in m.iter().flatten() {
            let at = (p * x.cols + c) * size;
            bytes[at..at + size].copy_from_slice(&fill[..size]);
        }
        cols.extend(m);
    }
    tile::scatter(cx.mem, dst, &bytes);
    if with_index {
        let out = output(d, 1)?;
        same_count(d, cols.len(), out.num_elems())?;
        store_columns(cx, out, &cols);
    }
    Ok(())
}

/// NonzeroWithCount (IT 104): partitions 0, 16, … 112 only: columns of the nonzero elements plus an offset, padding, and
/// the count in the last slot.
pub(crate) fn nonzero_with_count(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    let imm = |i: usize| match d.ins.get(i) {
        Some(Arg::Imm(v)) => Ok(v.as_int().unwrap_or_else(|| v.as_f32() as i64)),
        Some(Arg::Reg(r)) => cx.register(*r),
        _ => Err(misfit(format!("{}: input {i} is not an integer", d.opcode))),
    };
    let (offset, padding) = (imm(1)?, imm(2)?);
    let x = tile::load(cx.mem, src, cx.rules());
    let slots = dst.elems_per_partition();
    if slots != x.cols + 1 || dst.partitions() != x.parts || dst.dtype != Dtype::Int32 {
        return Err(misfit(format!("{}: the result is int32 with one slot more than the source", d.opcode)));
    }
    for p in (0..x.parts).step_by(16) {
        let mut list: Vec<i64> =
            (0..x.cols).filter(|c| x.row(p)[*c] != 0.0).map(|c| (c as i64).wrapping_add(offset)).collect();
        let count = list.len() as i64;
        list.resize(x.cols, padding);
        list.push(count);
        let mut bytes = Vec::new();
        convert::from_int_bits(dst.dtype, &list, &mut bytes);
        tile::scatter(cx.mem, &dst.partition(p), &bytes);
    }
    Ok(())
}
