//! Movement across partitions on the Vector engine: shuffle and 32 x 32 transpose. Bits move, nothing is converted.
//!
//! Source: the specification, file 09 §6.7.

use super::tile::{self, input, misfit, output};
use super::{Decoded, ExecCx};
use crate::state::Fault;
use tandem_bir::{Attr, Inst};

/// StreamShuffle (IT 39): inside each block of 32 partitions `out[i] = in[mask[i]]`; 255 leaves a row alone.
pub(crate) fn shuffle(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    let mask = inst.get_ints(Attr::Mask);
    if mask.len() != 32 {
        return Err(misfit("StreamShuffle Mask must have 32 elements"));
    }
    if src.dtype != dst.dtype {
        return Err(misfit("StreamShuffle does not support cast"));
    }
    if mask.iter().any(|m| *m != 255 && !(0..32).contains(m)) {
        return Err(misfit("StreamShuffle Mask entry must be <32"));
    }
    if src.elems_per_partition() != dst.elems_per_partition() {
        return Err(misfit("StreamShuffle: source and destination rows differ in length"));
    }
    let rows = tile::bytes_of(cx.mem, src);
    let len = src.elems_per_partition() * src.elem_size();
    for p in 0..dst.partitions() {
        let m = mask[p % 32];
        if m == 255 {
            continue;
        }
        let from = p / 32 * 32 + m as usize;
        if from >= src.partitions() {
            return Err(misfit(format!(
                "StreamShuffle: partition {p} takes row {from} of a source of {} partitions",
                src.partitions()
            )));
        }
        tile::scatter(cx.mem, &dst.partition(p), &rows[from * len..(from + 1) * len]);
    }
    Ok(())
}

/// StreamTranspose (IT 40): each aligned 32 x 32 tile is transposed in place; block indexes stay.
pub(crate) fn transpose(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    if src.dtype != dst.dtype {
        return Err(misfit("StreamTranspose does not support cast"));
    }
    if src.num_elems() != dst.num_elems() {
        return Err(misfit("StreamTranspose: source and destination differ in size"));
    }
    let (rows, cols) = (src.partitions(), src.elems_per_partition());
    let (drows, dcols) = (dst.partitions(), dst.elems_per_partition());
    let size = src.elem_size();
    let from = tile::bytes_of(cx.mem, src);
    let mut to = vec![0u8; from.len()];
    for p in 0..rows {
        for e in 0..cols {
            let (r, c) = (p / 32 * 32 + e % 32, e / 32 * 32 + p % 32);
            if r >= drows || c >= dcols {
                return Err(misfit(format!(
                    "StreamTranspose: [{rows}, {cols}] does not transpose by 32 x 32 tiles into [{drows}, {dcols}]"
                )));
            }
            let (a, b) = ((p * cols + e) * size, (r * dcols + c) * size);
            to[b..b + size].copy_from_slice(&from[a..a + size]);
        }
    }
    tile::scatter(cx.mem, dst, &to);
    Ok(())
}
