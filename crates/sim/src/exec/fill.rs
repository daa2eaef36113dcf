//! Fills: memset, iota, dropout.
//!
//! Source: the specification, file 09 §6.1 (Dropout), §6.6, §6.13.

use super::rng;
use super::tile::{self, attr_int, input, misfit, output, per_part, refuse_packed, same_count};
use super::{Decoded, ExecCx};
use crate::num::convert::{self, lanes};
use crate::num::rng::unit;
use crate::state::Fault;
use tandem_bir::{ApPair, Attr, AttrValue, EngineKind, Inst, MemsetMode};

/// Memset (IT 10).
pub(crate) fn memset(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    match inst.get_enum::<MemsetMode>(Attr::Mode).unwrap_or(MemsetMode::Const) {
        MemsetMode::Const => {
            let raw = attr_int(cx, d, inst, Attr::Constant)?.unwrap_or(0);
            let (b, n) = if dst.dtype.is_int() {
                // Two's complement, cut to the width; 64-bit elements extend the sign of the 32-bit constant.
                let v = if dst.elem_size() == 8 { i64::from(raw as i32) } else { raw };
                (v.to_le_bytes(), dst.elem_size())
            } else {
                convert::value_bytes(dst.dtype, f32::from_bits(raw as u32), cx.rules())
            };
            let mut bytes = Vec::with_capacity(dst.num_bytes());
            for _ in 0..dst.num_elems() {
                bytes.extend_from_slice(&b[..n]);
            }
            tile::scatter(cx.mem, dst, &bytes);
        }
        MemsetMode::Random => {
            let size = dst.elem_size();
            let mut bytes = Vec::with_capacity(dst.num_bytes());
            let lane = super::accumulate::first_lane(cx, dst);
            for p in 0..dst.partitions() {
                for c in 0..dst.elems_per_partition() {
                    let mut draw = || {
                        if d.engine == EngineKind::Pool {
                            rng::next(cx, EngineKind::Pool, lane + p, c)
                        } else {
                            cx.core.engines.rng.host.next_u32()
                        }
                    };
                    let lo = draw();
                    let word =
                        if size == 8 { u64::from(draw()) << 32 | u64::from(lo) } else { u64::from(lo) };
                    bytes.extend_from_slice(&word.to_le_bytes()[..size]);
                }
            }
            tile::scatter(cx.mem, dst, &bytes);
        }
    }
    Ok(())
}

/// Values of an affine pattern in one partition: `base + multiplier · p + Σ step · index`, wrapping at 32 bits.
pub(crate) fn affine_row(
    d: &Decoded,
    inst: &Inst,
    base: i64,
    p: usize,
    out: &mut [i32],
) -> Result<(), Fault> {
    let pairs: &[ApPair] = match inst.attrs.get(Attr::Pattern) {
        Some(AttrValue::Pairs(v)) => v,
        _ => &[],
    };
    let total = pairs.iter().fold(1u64, |a, q| a.saturating_mul(q.num));
    if total != out.len() as u64 && !(pairs.is_empty() && out.len() == 1) {
        return Err(misfit(format!(
            "{}: the pattern has {total} positions for {} elements per partition",
            d.opcode,
            out.len()
        )));
    }
    let mult = inst.get_int(Attr::ChannelMultiplier).unwrap_or(0);
    let start = base.wrapping_add(mult.wrapping_mul(p as i64)) as i32;
    // Row-major nest, last pair fastest.
    let mut index = vec![0u64; pairs.len()];
    let mut v = start;
    for o in out.iter_mut() {
        *o = v;
        for (q, i) in pairs.iter().zip(index.iter_mut()).rev() {
            *i += 1;
            v = v.wrapping_add(q.step as i32);
            if *i < q.num {
                break;
            }
            v = v.wrapping_sub((q.step as i32).wrapping_mul(q.num as i32));
            *i = 0;
        }
    }
    Ok(())
}

/// Iota (IT 61).
pub(crate) fn iota(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    refuse_packed(d, dst)?;
    let base = attr_int(cx, d, inst, Attr::Base)?.unwrap_or(0);
    let cols = dst.elems_per_partition();
    let mut row = vec![0i32; cols];
    let mut all = Vec::with_capacity(dst.num_elems());
    for p in 0..dst.partitions() {
        affine_row(d, inst, base, p, &mut row)?;
        all.extend(row.iter().map(|v| i64::from(*v)));
    }
    let mut bytes = Vec::new();
    convert::from_int(dst.dtype, &all, &mut bytes, cx.rules());
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// Dropout (IT 65): an element is dropped when its draw `u` in `[0, 1)` is below the rate; kept elements are unchanged.
pub(crate) fn dropout(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    let parts = src.partitions();
    let threshold = per_part(cx, d, 1, parts)?;
    let keep_rate = inst.get_bool(Attr::IsKeepThreshold);
    let cols = src.elems_per_partition();
    let same = convert::copies_bits(src.dtype, dst.dtype);
    let mut bytes = if same {
        tile::bytes_of(cx.mem, src)
    } else {
        same_count(d, lanes(src.dtype), lanes(dst.dtype))?;
        let x = tile::load(cx.mem, src, cx.rules());
        let mut out = vec![0u8; dst.num_bytes()];
        convert::from_f32(dst.dtype, &x.data, &mut out, cx.rules());
        out
    };
    let lane = super::accumulate::first_lane(cx, src);
    let size = dst.elem_size();
    for p in 0..parts {
        let t = threshold.at(p);
        let rate = if keep_rate { 1.0 - t } else { t };
        for c in 0..cols {
            if unit(rng::next(cx, d.engine, lane + p, c)) < rate {
                let at = (p * cols + c) * size;
                bytes[at..at + size].fill(0);
            }
        }
    }
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}
