//! Gathers inside partitions, sequence bounds, device print.
//!
//! Source: the specification, file 09 §6.8, §6.11 (GetSequenceBounds), §6.17.

use super::tile::{self, input, misfit, output, refuse_packed, same_count};
use super::{Arg, Decoded, ExecCx};
use crate::num::convert;
use crate::state::{Fault, Print};
use tandem_bir::diag::codes;
use tandem_bir::{Attr, Inst};

/// IndirectCopy (IT 26): eight groups of 16 partitions, each with its own list of indexes.
pub(crate) fn local_gather(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, index, dst) = (input(d, 0)?, input(d, 1)?, output(d, 0)?);
    if src.dtype != dst.dtype {
        return Err(misfit(format!("{}: no cast is possible", d.opcode)));
    }
    let per = match d.ins.get(2) {
        Some(Arg::Imm(v)) => v.as_int().unwrap_or(1),
        _ => 1,
    };
    if ![1, 2, 4, 8, 16, 32].contains(&per) {
        return Err(misfit(format!(
            "{}: {per} elements per index; 1, 2, 4, 8, 16 and 32 are legal",
            d.opcode
        )));
    }
    let per = per as usize;
    let (parts, cols) = (src.partitions(), src.elems_per_partition());
    if dst.partitions() != parts || index.partitions() != parts {
        return Err(misfit(format!("{}: operands of different partition counts", d.opcode)));
    }
    let (icols, dcols) = (index.elems_per_partition(), dst.elems_per_partition());
    let mut idx = Vec::new();
    convert::to_int(index.dtype, &tile::bytes_of(cx.mem, index), &mut idx);
    let data = tile::bytes_of(cx.mem, src);
    let mut out = tile::bytes_of(cx.mem, dst);
    let size = src.elem_size();
    let valid = inst.get_int(Attr::NumValidIndices).unwrap_or(0);
    for group in (0..parts).step_by(16) {
        let rows = (parts - group).min(16);
        let mut count = dcols / per;
        if valid > 0 {
            count = count.min(valid as usize);
        }
        count = count.min(rows * icols);
        if count > 4096 {
            return Err(misfit(format!("{}: {count} indexes in a group, 4096 are possible", d.opcode)));
        }
        for k in 0..count {
            // The list is read partition first.
            let i = idx[(group + k % rows) * icols + k / rows];
            let Some(start) = usize::try_from(i).ok().filter(|s| s + per <= cols) else {
                return Err(Fault::new(
                    codes::S0203,
                    format!("{}: index {i} with {per} elements leaves a row of {cols} elements", d.opcode),
                ));
            };
            for p in group..group + rows {
                let (a, b) = ((p * cols + start) * size, (p * dcols + k * per) * size);
                out[b..b + per * size].copy_from_slice(&data[a..a + per * size]);
            }
        }
    }
    tile::scatter(cx.mem, dst, &out);
    Ok(())
}

/// Gather (IT 92): per partition, flat, by uint32 indexes.
pub(crate) fn gather(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, index, dst) = (input(d, 0)?, input(d, 1)?, output(d, 0)?);
    if src.dtype != dst.dtype {
        return Err(misfit(format!("{}: no cast is possible", d.opcode)));
    }
    same_count(d, index.num_elems(), dst.num_elems())?;
    let (parts, cols) = (src.partitions(), src.elems_per_partition());
    if dst.partitions() != parts || index.partitions() != parts {
        return Err(misfit(format!("{}: operands of different partition counts", d.opcode)));
    }
    let n = index.elems_per_partition();
    let mut idx = Vec::new();
    convert::to_int(index.dtype, &tile::bytes_of(cx.mem, index), &mut idx);
    let data = tile::bytes_of(cx.mem, src);
    let size = src.elem_size();
    let mut out = Vec::with_capacity(dst.num_bytes());
    for (k, i) in idx.iter().enumerate() {
        let p = k / n;
        let Some(c) = usize::try_from(*i).ok().filter(|c| *c < cols) else {
            return Err(Fault::new(
                codes::S0203,
                format!("{}: index {i} in partition {p} leaves a row of {cols} elements", d.opcode),
            ));
        };
        let at = (p * cols + c) * size;
        out.extend_from_slice(&data[at..at + size]);
    }
    tile::scatter(cx.mem, dst, &out);
    Ok(())
}

/// GetSequenceBounds (IT 64): for each element the first and one-past-last column of its run of equal ids; padding
/// (id 0) gives N and −1.
pub(crate) fn sequence_bounds(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let n = src.num_elems();
    same_count(d, 2 * n, dst.num_elems())?;
    let x = tile::load(cx.mem, src, cx.rules()).data;
    let (mut starts, mut ends) = (vec![n as i64; n], vec![-1i64; n]);
    let mut at = 0;
    while at < n {
        let mut end = at + 1;
        while end < n && x[end] == x[at] {
            end += 1;
        }
        if x[at] != 0.0 {
            starts[at..end].fill(at as i64);
            ends[at..end].fill(end as i64);
        }
        at = end;
    }
    starts.extend(ends);
    let mut bytes = Vec::new();
    convert::from_int(dst.dtype, &starts, &mut bytes, cx.rules());
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// DevicePrint (IT 57).
pub(crate) fn device_print(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let src = input(d, 0)?;
    let print = Print {
        core: cx.core.core,
        prefix: inst.get_str(Attr::Prefix).unwrap_or_default().to_string(),
        dtype: src.dtype,
        shape: src.dims.iter().map(|x| x.num as u64).collect(),
        bytes: tile::bytes_of(cx.mem, src),
    };
    cx.core.prints.push(print);
    Ok(())
}
