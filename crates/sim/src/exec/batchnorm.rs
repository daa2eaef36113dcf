//! Batch-norm statistics and gradients.
//!
//! Source: the specification, file 09 §6.12. Operand orders of the gradient forms are ours (no source gives them).

use super::tile::{self, Tile, input, misfit, output, per_part, refuse_packed, same_count};
use super::{Decoded, ExecCx};
use crate::state::Fault;
use tandem_bir::{Attr, Inst};

/// BNStats (IT 34): count, mean and M2 of the even and of the odd elements of each partition.
pub(crate) fn stats(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    let mut x = tile::load(cx.mem, src, cx.rules());
    if inst.get_bool(Attr::ApplyTranspose) {
        x = tile::transpose_blocks(d, &x)?;
    }
    let n = x.cols;
    if n > 512 {
        return Err(misfit(format!("BNStats: {n} elements per partition, 512 are possible")));
    }
    same_count(d, 6 * x.parts, tile::num_lanes(dst))?;
    let mut out = Vec::with_capacity(6 * x.parts);
    for p in 0..x.parts {
        out.extend_from_slice(&row_stats(x.row(p)));
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

fn row_stats(x: &[f32]) -> [f32; 6] {
    let (mut mean, mut m2) = ([0f32; 2], [0f32; 2]);
    let mut n = 0f32;
    let mut r = 0f32;
    for (i, &v) in x.iter().enumerate() {
        let lane = i % 2;
        if lane == 0 {
            n += 1.0;
            r = 1.0 / n;
        }
        let old = mean[lane];
        let new = (1.0 - r) * old + r * v;
        m2[lane] += (v - new) * (v - old);
        mean[lane] = new;
    }
    let even = x.len().div_ceil(2) as f32;
    [even, mean[0], m2[0], (x.len() / 2) as f32, mean[1], m2[1]]
}

/// BNStatsAggregate (IT 35): triples (count, mean, M2) merged left to right into mean and population variance.
pub(crate) fn aggregate(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    let n = src.elems_per_partition();
    let multiple = cx.profile.bn_aggr_multiple as usize;
    if n == 0 || !n.is_multiple_of(multiple) || !n.is_multiple_of(3) {
        return Err(misfit(format!(
            "BNStatsAggregate: {n} elements per partition are no multiple of {multiple}"
        )));
    }
    same_count(d, 2 * src.partitions(), tile::num_lanes(dst))?;
    let x = tile::load(cx.mem, src, cx.rules());
    let mut out = Vec::with_capacity(2 * x.parts);
    for p in 0..x.parts {
        let (mut n, mut mean, mut var) = (0f32, 0f32, 0f32);
        for &[nt, mt, m2] in x.row(p).as_chunks::<3>().0 {
            if nt == 0.0 {
                continue;
            }
            let total = nt + n;
            let r = 1.0 / total;
            let delta = mean - mt;
            let new_mean = (mean * n + nt * mt) * r;
            var = (var * n + m2) * r + nt * n * delta * delta * r * r;
            mean = new_mean;
            n = total;
        }
        out.extend([mean, var]);
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

fn rows(cx: &ExecCx<'_>, d: &Decoded, i: usize) -> Result<Tile, Fault> {
    let v = input(d, i)?;
    refuse_packed(d, v)?;
    Ok(tile::load(cx.mem, v, cx.rules()))
}

/// BNGradients (IT 36): inputs x, dy, mean, factor; per partition `[Σ dy, Σ t·f, Σ t]`, `t = (x − m)·dy·f`.
pub(crate) fn gradients(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (x, dy) = (rows(cx, d, 0)?, rows(cx, d, 1)?);
    same_count(d, x.data.len(), dy.data.len())?;
    let (m, f) = (per_part(cx, d, 2, x.parts)?, per_part(cx, d, 3, x.parts)?);
    let dst = output(d, 0)?;
    same_count(d, 3 * x.parts, tile::num_lanes(dst))?;
    let mut out = Vec::with_capacity(3 * x.parts);
    for p in 0..x.parts {
        let (mut s_dy, mut s_tf, mut s_t) = (0f32, 0f32, 0f32);
        for (x, dy) in x.row(p).iter().zip(dy.row(p)) {
            let t = (x - m.at(p)) * dy * f.at(p);
            s_dy += dy;
            s_tf += t * f.at(p);
            s_t += t;
        }
        out.extend([s_dy, s_tf, s_t]);
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

/// BNBackprop (IT 37; coefficients `[P, 3]` = scale, A, B in input 3) and BNBackprop2 (38; inputs 3, 4, 5): inputs x, dy,
/// mean; `dx = (dy·total − ((x − m)·B + A))·scale`.
pub(crate) fn backprop(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst, split: bool) -> Result<(), Fault> {
    let (x, dy) = (rows(cx, d, 0)?, rows(cx, d, 1)?);
    same_count(d, x.data.len(), dy.data.len())?;
    let m = per_part(cx, d, 2, x.parts)?;
    let total = inst.get_int(Attr::TotalElements).unwrap_or(x.cols as i64) as f32;
    let coef: Vec<[f32; 3]> = if split {
        let (s, a, b) =
            (per_part(cx, d, 3, x.parts)?, per_part(cx, d, 4, x.parts)?, per_part(cx, d, 5, x.parts)?);
        (0..x.parts).map(|p| [s.at(p), a.at(p), b.at(p)]).collect()
    } else {
        let c = rows(cx, d, 3)?;
        same_count(d, c.data.len(), 3 * x.parts)?;
        c.data.as_chunks::<3>().0.to_vec()
    };
    let dst = output(d, 0)?;
    same_count(d, x.data.len(), tile::num_lanes(dst))?;
    let mut out = Vec::with_capacity(x.data.len());
    for (p, [scale, a, b]) in coef.iter().enumerate() {
        for (x, dy) in x.row(p).iter().zip(dy.row(p)) {
            out.push((dy * total - ((x - m.at(p)) * b + a)) * scale);
        }
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}
