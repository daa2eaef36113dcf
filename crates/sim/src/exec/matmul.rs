//! Matrix products, PE transposes, accumulation in PSUM.
//!
//! Source: the specification, file 09 §6.14–6.15, decision D31: each output is `acc = 0; acc = fma(a, b, acc)` for k
//! ascending, in fp32. Products are vectorised over outputs only. Not modelled: sparse weights (IT 9), the modes
//! DoubleColumn and DoublePixel.

use super::tile::{self, Tile, input, misfit, output, unsupported};
use super::{Decoded, ExecCx};
use crate::memory::View;
use crate::num::convert::lanes;
use crate::num::simd::{self, Kernel, Width};
use crate::num::{fp8, round};
use crate::numeric_profile::MatmulAccum;
use crate::state::{Fault, Note};
use tandem_bir::arch::ArchLevel;
use tandem_bir::diag::codes;
use tandem_bir::{Attr, Dtype, Inst, MatmultPerfMode};

/// Bits of `accumulation_flag` (our choice, the encoder's byte): start, stop, accumulate, automatic.
const START: i64 = 1;
const STOP: i64 = 2;
const ACCUMULATE: i64 = 4;
const AUTO: i64 = tandem_bir::inst::table::AUTO_ACCUMULATION;

/// The product is added to what the destination holds, by the instruction's own flag.
pub(crate) fn accumulates_explicitly(i: &Inst) -> bool {
    let flag = i.get_int(Attr::AccumulationFlag).unwrap_or(AUTO);
    flag & (AUTO | START) == 0 && flag & ACCUMULATE != 0
}

/// `out[m][n] = Σ_k a[k][m]·b[k][n]` in the defined order, in blocks of `BM` rows and `BN` columns whose sums stay in
/// registers. Operands are packed block by block, so that a block reads consecutive bytes. Each output is summed over k
/// ascending whatever the block is, and given out once: `sink` gets a row, the first column and the values from there on.
struct Product<'a, const BM: usize, const BN: usize, S> {
    /// `[k][m]`.
    a: &'a [f32],
    /// `[k][n]`.
    b: &'a [f32],
    k: usize,
    m: usize,
    n: usize,
    sink: S,
}

impl<const BM: usize, const BN: usize, S: FnMut(usize, usize, &[f32])> Kernel for Product<'_, BM, BN, S> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Product { a, b, k, m, n, mut sink } = self;
        let blocks = m.div_ceil(BM);
        let mut pa = vec![[0f32; BM]; blocks * k];
        for (block, m0) in (0..m).step_by(BM).enumerate() {
            let mb = BM.min(m - m0);
            for (to, from) in pa[block * k..(block + 1) * k].iter_mut().zip(a.chunks_exact(m)) {
                to[..mb].copy_from_slice(&from[m0..m0 + mb]);
            }
        }
        let mut pb = vec![[0f32; BN]; k];
        // What the sink sees: were it to see the sums themselves, they would not stay in registers.
        let mut sums = vec![[0f32; BN]; BM];
        for n0 in (0..n).step_by(BN) {
            let nb = BN.min(n - n0);
            for (to, from) in pb.iter_mut().zip(b.chunks_exact(n)) {
                to[..nb].copy_from_slice(&from[n0..n0 + nb]);
            }
            for block in 0..blocks {
                let mut acc = [[0f32; BN]; BM];
                for (ar, br) in pa[block * k..(block + 1) * k].iter().zip(&pb) {
                    for i in 0..BM {
                        for j in 0..BN {
                            acc[i][j] = ar[i].mul_add(br[j], acc[i][j]);
                        }
                    }
                }
                #[allow(clippy::manual_memcpy, reason = "a copy of the slice would keep the sums in memory")]
                for i in 0..BM {
                    sums[i] = acc[i];
                }
                let m0 = block * BM;
                for (i, row) in sums.iter().enumerate().take(m - m0) {
                    sink(m0 + i, n0, &row[..nb]);
                }
            }
        }
    }
}

/// A product in blocks that fit the registers of the vector width. On one thread: the largest product of an instruction takes a
/// fraction of a millisecond, and two threads that share it were slower.
fn blocked(a: &[f32], b: &[f32], (k, m, n): (usize, usize, usize), sink: impl FnMut(usize, usize, &[f32])) {
    if m == 0 || n == 0 {
        return;
    }
    match simd::width() {
        Width::Avx512 => simd::run(Product::<4, 64, _> { a, b, k, m, n, sink }),
        Width::Avx2 | Width::Baseline => simd::run(Product::<4, 16, _> { a, b, k, m, n, sink }),
    }
}

/// `[K, M]ᵀ · [K, N]`, row-major operands.
pub(crate) fn product(a: &[f32], b: &[f32], k: usize, m: usize, n: usize, accum: MatmulAccum) -> Vec<f32> {
    let mut out = vec![0f32; m * n];
    match accum {
        MatmulAccum::F32 => blocked(a, b, (k, m, n), |row, col, x| {
            out[row * n + col..][..x.len()].copy_from_slice(x);
        }),
        MatmulAccum::F64 => {
            let mut acc = vec![0f64; m * n];
            for kk in 0..k {
                for i in 0..m {
                    let x = f64::from(a[kk * m + i]);
                    for j in 0..n {
                        acc[i * n + j] += x * f64::from(b[kk * n + j]);
                    }
                }
            }
            out.iter_mut().zip(&acc).for_each(|(o, a)| *o = *a as f32);
        }
    }
    out
}

/// Matmult (IT 8).
pub(crate) fn matmult(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (moving, stationary, dst) = (input(d, 0)?, input(d, 1)?, output(d, 0)?);
    if inst.get_bool(Attr::IsTranspose) {
        return transpose(cx, d, inst, moving, stationary, dst);
    }
    let mut b = widen(cx, d, inst, moving, "Invalid ifmap data type for matmult", Attr::IfmapQuantOffset)?;
    let mut a =
        widen(cx, d, inst, stationary, "Invalid weights data type for matmult", Attr::WeightsQuantOffset)?;
    check_mix(d, moving, stationary)?;
    if a.parts != b.parts {
        return Err(misfit(format!("Matmult: {} rows of weights for {} rows of input", a.parts, b.parts)));
    }
    match inst.get_enum::<MatmultPerfMode>(Attr::PerfMode).unwrap_or(MatmultPerfMode::None) {
        MatmultPerfMode::None => {}
        MatmultPerfMode::DoubleRow => {
            a = double_rows(a)?;
            b = double_rows(b)?;
        }
        MatmultPerfMode::DoubleRowSwInterleave => {
            a = deinterleave(&a)?;
            b = double_rows(b)?;
        }
        mode @ (MatmultPerfMode::DoubleColumn | MatmultPerfMode::DoublePixel) => {
            return Err(unsupported(d, format!("mode {mode}")));
        }
    }
    multiply(cx, d, inst, dst, &a, &b)
}

/// Operands of a matmul as fp32.
fn widen(
    cx: &ExecCx<'_>,
    d: &Decoded,
    inst: &Inst,
    v: &View,
    message: &str,
    zero: Attr,
) -> Result<Tile, Fault> {
    let float = !v.dtype.is_int() && lanes(v.dtype) == 1 && v.dtype != Dtype::Float8E8m0Fnu;
    if !float && v.dtype != Dtype::Uint8 {
        return Err(misfit(format!("{}: {message}: {}", d.opcode, v.dtype)));
    }
    let mut t = tile::load(cx.mem, v, cx.rules());
    if v.dtype == Dtype::Float32r {
        let keep = cx.profile.tf32_bits;
        t.data.iter_mut().for_each(|x| *x = round::round_mantissa(*x, keep));
    }
    if v.dtype == Dtype::Uint8 {
        let zero = inst.get_int(zero).unwrap_or(0) as f32;
        t.data.iter_mut().for_each(|x| *x -= zero);
    }
    Ok(t)
}

fn check_mix(d: &Decoded, a: &View, b: &View) -> Result<(), Fault> {
    for t in [Dtype::Float32, Dtype::Float32r] {
        if (a.dtype == t) != (b.dtype == t) {
            return Err(misfit(format!(
                "{}: {} with {}: {t} goes only with itself",
                d.opcode, a.dtype, b.dtype
            )));
        }
    }
    let pair = [a.dtype, b.dtype];
    if pair.contains(&Dtype::Float8E4) && pair.contains(&Dtype::Float8E4m3Fn) {
        return Err(misfit(format!("{}: the two e4m3 formats may not be mixed", d.opcode)));
    }
    Ok(())
}

/// `[K, 2, M]` as `[2K, M]`: row `2k + j`.
fn double_rows(t: Tile) -> Result<Tile, Fault> {
    if !t.cols.is_multiple_of(2) {
        return Err(misfit("Matmult: a double-row operand has an odd row length"));
    }
    Ok(Tile { parts: t.parts * 2, cols: t.cols / 2, data: t.data })
}

/// `[K, M, 2]` as `[2K, M]`: row `2k + j`.
fn deinterleave(t: &Tile) -> Result<Tile, Fault> {
    if !t.cols.is_multiple_of(2) {
        return Err(misfit("Matmult: an interleaved operand has an odd row length"));
    }
    let m = t.cols / 2;
    let mut data = Vec::with_capacity(t.data.len());
    for p in 0..t.parts {
        for j in 0..2 {
            data.extend((0..m).map(|i| t.row(p)[2 * i + j]));
        }
    }
    Ok(Tile { parts: t.parts * 2, cols: m, data })
}

/// What a product is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Onto {
    Nothing,
    /// What the destination holds.
    All,
    /// What those elements of the destination hold that belong to an open group.
    Open,
}

/// Writes or accumulates the product `aᵀ·b`.
fn multiply(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    inst: &Inst,
    dst: &View,
    a: &Tile,
    b: &Tile,
) -> Result<(), Fault> {
    let (m, n) = (a.cols, b.cols);
    if dst.partitions() != m || dst.elems_per_partition() != n {
        return Err(misfit(format!(
            "{}: the product is [{m}, {n}], the destination [{}, {}]",
            d.opcode,
            dst.partitions(),
            dst.elems_per_partition()
        )));
    }
    if !matches!(dst.dtype, Dtype::Float32 | Dtype::Bfloat16 | Dtype::Float16 | Dtype::Float32r) {
        return Err(misfit(format!("{}: a result of type {}", d.opcode, dst.dtype)));
    }
    let flag = inst.get_int(Attr::AccumulationFlag).unwrap_or(AUTO);
    let onto = prepare(cx, inst, dst, flag)?;
    let stride = dst.dims[0].stride;
    if cx.profile.matmul_accum == MatmulAccum::F32
        && dst.dtype == Dtype::Float32
        && dst.is_contiguous_rows()
        && stride.unsigned_abs() >= 4 * n
        && onto != Onto::Open
    {
        // Each sum goes from its register to its place, which no other sum has.
        let to = cx.mem.bytes_mut(dst.buf);
        let add = onto == Onto::All;
        blocked(&a.data, &b.data, (a.parts, m, n), |row, col, x| {
            let at = (dst.base as isize + stride * row as isize) as usize + 4 * col;
            for (o, x) in to[at..at + 4 * x.len()].as_chunks_mut::<4>().0.iter_mut().zip(x) {
                let sum = if add { *x + f32::from_le_bytes(*o) } else { *x };
                *o = round::canonical(sum).to_le_bytes();
            }
        });
    } else {
        let mut out = product(&a.data, &b.data, a.parts, m, n, cx.profile.matmul_accum);
        store_product(cx, dst, &mut out, onto);
    }
    let len = cx.mem.bytes(dst.buf).len();
    let groups = &mut cx.core.engines.psum;
    let finished = flag & (AUTO | STOP) != 0 || flag & (START | ACCUMULATE) == 0;
    dst.for_each_run(|at, n| groups.open(dst.buf, len, at, n, finished));
    Ok(())
}

/// What the product is added to by its flag; says what there is to say about it, and clears what a first matmul clears.
fn prepare(cx: &mut ExecCx<'_>, inst: &Inst, dst: &View, flag: i64) -> Result<Onto, Fault> {
    if flag & AUTO != 0 {
        let state = cx.core.engines.psum.open_state(dst);
        if state.was_read {
            cx.notes.push(Note {
                code: codes::S0209,
                message: "auto accumulation restarted after a read".to_string(),
            });
        }
        Ok(match (state.any, state.all) {
            (false, _) => Onto::Nothing,
            (true, true) => Onto::All,
            (true, false) => Onto::Open,
        })
    } else if flag & START != 0 {
        // The write itself clears what it covers; a zero region beyond it is cleared per partition.
        clear_zero_region(cx, inst, dst);
        Ok(Onto::Nothing)
    } else if flag & ACCUMULATE != 0 {
        if cx.arch.level != ArchLevel::CoreV4 && cx.core.engines.psum.is_foreign(dst) {
            return Err(Fault::new(
                codes::S0210,
                "a matmul accumulates onto PSUM that another kind of instruction initialised",
            )
            .note("undefined before trn3"));
        }
        Ok(Onto::All)
    } else {
        Ok(Onto::Nothing)
    }
}

/// Adds to a whole product what it is added to, and writes it.
fn store_product(cx: &mut ExecCx<'_>, dst: &View, out: &mut [f32], onto: Onto) {
    let rules = cx.rules();
    let size = dst.elem_size();
    match onto {
        Onto::Nothing => {}
        Onto::All => {
            let old = tile::load(cx.mem, dst, rules);
            out.iter_mut().zip(&old.data).for_each(|(o, old)| *o += old);
        }
        Onto::Open => {
            let old = tile::load(cx.mem, dst, rules);
            let groups = &cx.core.engines.psum;
            for ((o, old), at) in out.iter_mut().zip(&old.data).zip(dst.offsets()) {
                if groups.is_open(dst.buf, at, size) {
                    *o += old;
                }
            }
        }
    }
    tile::store_arith(cx.mem, dst, out, rules);
}

/// Zeroes `2^psum_zero_region` banks per partition from the destination's start, when that exceeds the write.
fn clear_zero_region(cx: &mut ExecCx<'_>, inst: &Inst, dst: &View) {
    let Some(region) = inst.get_int(Attr::PsumZeroRegion).filter(|r| (1..=3).contains(r)) else { return };
    let bytes = (cx.arch.psum_bank_bytes << region).min(cx.arch.psum_bytes) as usize;
    let Some(pitch) = cx.mem.info(dst.buf).pitch.filter(|p| *p > 0) else { return };
    let Some(d0) = dst.dims.first().copied() else { return };
    for p in 0..d0.num {
        let at = (dst.base as isize + d0.stride * p as isize) as usize;
        let end = (at + bytes).min((at / pitch + 1) * pitch);
        if let Some(s) = cx.mem.bytes_mut(dst.buf).get_mut(at..end) {
            s.fill(0);
        }
    }
}

/// A square identity of fp values: the operand of a PE transpose that carries no data.
fn is_identity(t: &Tile) -> bool {
    t.parts == t.cols
        && (0..t.parts)
            .all(|p| t.row(p).iter().enumerate().all(|(c, v)| *v == if c == p { 1.0 } else { 0.0 }))
}

/// PE transpose. One operand is an identity, the other the data: the result is the transposed data, as bits from trn2 on.
/// By the product's formula the identity is the moving operand; front ends also write it as the stationary one, which
/// the formula would turn into a copy, so that form is read as a transpose too.
fn transpose(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    inst: &Inst,
    moving: &View,
    stationary: &View,
    dst: &View,
) -> Result<(), Fault> {
    let m = tile::load(cx.mem, moving, cx.rules());
    let s = tile::load(cx.mem, stationary, cx.rules());
    let (data, rows) = if is_identity(&m) && m.parts == s.parts {
        (stationary, s)
    } else if is_identity(&s) {
        (moving, m)
    } else {
        // No identity: an ordinary product, as the formula says.
        if m.parts != s.parts {
            return Err(misfit(format!(
                "Matmult: {} rows of weights for {} rows of input",
                s.parts, m.parts
            )));
        }
        return multiply(cx, d, inst, dst, &s, &m);
    };
    let (k, n) = (rows.parts, rows.cols);
    if dst.partitions() != n || dst.elems_per_partition() != k {
        return Err(misfit(format!(
            "Matmult: the transpose of [{k}, {n}] does not fit [{}, {}]",
            dst.partitions(),
            dst.elems_per_partition()
        )));
    }
    if cx.arch.level == ArchLevel::Sunda {
        let mut eye = Tile::new(k, k);
        for i in 0..k {
            eye.data[i * k + i] = 1.0;
        }
        return multiply(cx, d, inst, dst, &rows, &eye);
    }
    let size = data.elem_size();
    if data.dtype == dst.dtype || size == dst.elem_size() && size != 4 {
        let from = tile::bytes_of(cx.mem, data);
        let mut to = vec![0u8; from.len()];
        for r in 0..k {
            for c in 0..n {
                let (a, b) = ((r * n + c) * size, (c * k + r) * size);
                to[b..b + size].copy_from_slice(&from[a..a + size]);
            }
        }
        tile::scatter(cx.mem, dst, &to);
        if size == 1 {
            zero_high_bytes(cx, dst);
        }
    } else if size == 1 && dst.elem_size() == 2 {
        let from = tile::bytes_of(cx.mem, data);
        let mut to = vec![0u8; 2 * from.len()];
        for r in 0..k {
            for c in 0..n {
                to[2 * (c * k + r)] = from[r * n + c];
            }
        }
        tile::scatter(cx.mem, dst, &to);
    } else {
        let mut out = vec![0f32; k * n];
        for r in 0..k {
            for c in 0..n {
                out[c * k + r] = rows.data[r * n + c];
            }
        }
        let rules = cx.rules();
        tile::store(cx.mem, dst, &out, rules);
    }
    let len = cx.mem.bytes(dst.buf).len();
    cx.core.engines.psum.note_foreign(dst, len);
    Ok(())
}

/// 8-bit data arrive in 16-bit lanes: with an element distance of two bytes the upper byte becomes zero.
fn zero_high_bytes(cx: &mut ExecCx<'_>, dst: &View) {
    if dst.dims.last().is_some_and(|x| x.stride == 2) {
        let b = cx.mem.bytes_mut(dst.buf);
        for at in dst.offsets() {
            if let Some(x) = b.get_mut(at + 1) {
                *x = 0;
            }
        }
    }
}

/// MatmultMx (IT 95): operands of four lanes per container, scaled per block of 8 partitions.
pub(crate) fn matmult_mx(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (moving, stationary, dst) = (input(d, 0)?, input(d, 1)?, output(d, 0)?);
    let (ms, ss) = (input(d, 2)?, input(d, 3)?);
    let b = dequantise(cx, d, moving, ms)?;
    let a = dequantise(cx, d, stationary, ss)?;
    if a.parts != b.parts {
        return Err(misfit(format!("MatmultMx: {} rows of weights for {} rows of input", a.parts, b.parts)));
    }
    multiply(cx, d, inst, dst, &a, &b)
}

/// `[P, F]` containers as `[4P, F]` values: row `4p + lane`, times the scale of the block.
fn dequantise(cx: &ExecCx<'_>, d: &Decoded, v: &View, scale: &View) -> Result<Tile, Fault> {
    if lanes(v.dtype) != 4 {
        return Err(misfit(format!("{}: operands are packed by four, not {}", d.opcode, v.dtype)));
    }
    if scale.elem_size() != 1 {
        return Err(misfit(format!("{}: scales are bytes, not {}", d.opcode, scale.dtype)));
    }
    let x = tile::load(cx.mem, v, cx.rules());
    let (parts, cols) = (x.parts, x.cols / 4);
    let scols = scale.elems_per_partition();
    if scols != cols || !parts.is_multiple_of(8) {
        return Err(misfit(format!(
            "{}: scales [{}, {scols}] for data [{parts}, {cols}]",
            d.opcode,
            scale.partitions()
        )));
    }
    let s = tile::bytes_of(cx.mem, scale);
    let mut t = Tile::new(4 * parts, cols);
    for p in 0..parts {
        let slot = scale_slot(p / 8, parts / 8, scale.partitions()).ok_or_else(|| {
            misfit(format!("{}: {} rows of scales for {parts} partitions", d.opcode, scale.partitions()))
        })?;
        for c in 0..cols {
            let f = fp8::e8m0_to_f32(s[slot * scols + c]);
            for lane in 0..4 {
                t.data[(4 * p + lane) * cols + c] = x.data[p * 4 * cols + 4 * c + lane] * f;
            }
        }
    }
    Ok(t)
}

/// Row of a scale tile that holds scale row `i` of `rows`: four at the start of each 32-partition quadrant, or packed
/// when the tile has exactly that many rows.
pub(crate) fn scale_slot(i: usize, rows: usize, have: usize) -> Option<usize> {
    let slot = (i & 3) + 32 * (i >> 2);
    let last = ((rows - 1) & 3) + 32 * ((rows - 1) >> 2);
    if have > last {
        Some(slot)
    } else if have == rows {
        Some(i)
    } else {
        None
    }
}

/// QuantizeMx (IT 96): blocks of 8 partitions by 4 neighbours; outputs data and scales.
pub(crate) fn quantize_mx(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let (src, dst, scale) = (input(d, 0)?, output(d, 0)?, output(d, 1)?);
    if !matches!(src.dtype, Dtype::Bfloat16 | Dtype::Float16) {
        return Err(misfit(format!("QuantizeMx: a source of type {}", src.dtype)));
    }
    let emax = match dst.dtype {
        Dtype::Float8E4m3FnX4 => 8,
        Dtype::Float8E5m2X4 => 15,
        Dtype::Float4E2m1FnX4 => 2,
        other => return Err(misfit(format!("QuantizeMx: a result of type {other}"))),
    };
    let x = tile::load(cx.mem, src, cx.rules());
    let cols = dst.elems_per_partition();
    let (parts, scols) = (x.parts, scale.elems_per_partition());
    if x.cols != 4 * cols || dst.partitions() != parts || !parts.is_multiple_of(8) || scols != cols {
        return Err(misfit(format!(
            "QuantizeMx: source [{parts}, {}], result [{}, {cols}], scales [{}, {scols}]",
            x.cols,
            dst.partitions(),
            scale.partitions()
        )));
    }
    let mut scales = tile::bytes_of(cx.mem, scale);
    let mut y = Tile::new(parts, x.cols);
    for block in 0..parts / 8 {
        let slot = scale_slot(block, parts / 8, scale.partitions()).ok_or_else(|| {
            misfit(format!("QuantizeMx: {} rows of scales for {parts} partitions", scale.partitions()))
        })?;
        for c in 0..cols {
            let at = |p: usize, l: usize| (block * 8 + p) * 4 * cols + 4 * c + l;
            let biased =
                (0..32).map(|i| (x.data[at(i / 4, i % 4)].to_bits() >> 23 & 0xFF) as i32).max().unwrap_or(0);
            let s = match cx.profile.mx_scale {
                crate::numeric_profile::MxScale::EmaxMinusOne => (biased - (emax - 1)).clamp(0, 254),
                crate::numeric_profile::MxScale::Emax => (biased - emax).max(0).max(1),
            } as u8;
            scales[slot * scols + c] = s;
            // 2^(127 − s): an exact power of two; 2^127 for s = 0.
            let f = f64::from_bits(((1023 + 127 - i64::from(s)) as u64) << 52);
            for i in 0..32 {
                let k = at(i / 4, i % 4);
                y.data[k] = (f64::from(x.data[k]) * f) as f32;
            }
        }
    }
    let rules = cx.rules();
    tile::store(cx.mem, dst, &y.data, rules);
    tile::scatter(cx.mem, scale, &scales);
    Ok(())
}
