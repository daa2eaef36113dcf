//! Operands as tiles: reading whole operands into packed temporaries, writing results back.
//!
//! Every instruction reads all of its inputs before it writes (the specification, file 09 §4), so operands are packed
//! copies: [`Tile`] has `parts` rows of `cols` fp32 lanes, row-major in walk order.

use super::{Arg, Decoded, ExecCx, stream};
use crate::memory::{Memory, View};
use crate::num::convert::{self, Rules, lanes};
use crate::num::round;
use crate::state::Fault;
use tandem_bir::diag::codes;
use tandem_bir::{Attr, Dtype, Expr, Inst};

/// A packed fp32 copy of an operand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tile {
    /// Rows: positions of dimension 0.
    pub(crate) parts: usize,
    /// fp32 lanes per row.
    pub(crate) cols: usize,
    /// Values, row by row.
    pub(crate) data: Vec<f32>,
}

impl Tile {
    pub(crate) fn new(parts: usize, cols: usize) -> Tile {
        Tile { parts, cols, data: vec![0.0; parts * cols] }
    }
    pub(crate) fn row(&self, p: usize) -> &[f32] {
        &self.data[p * self.cols..(p + 1) * self.cols]
    }
    pub(crate) fn row_mut(&mut self, p: usize) -> &mut [f32] {
        &mut self.data[p * self.cols..(p + 1) * self.cols]
    }
}

/// Transposes each aligned 32 x 32 tile, block indexes staying (`apply_transpose`). A tile of at most 32 x 32 becomes
/// `[cols, parts]`; a larger one must consist of whole blocks.
pub(crate) fn transpose_blocks(d: &Decoded, x: &Tile) -> Result<Tile, Fault> {
    let small = x.parts <= 32 && x.cols <= 32;
    if !small && (!x.parts.is_multiple_of(32) || !x.cols.is_multiple_of(32)) {
        return Err(misfit(format!("{}: [{}, {}] is not made of 32 x 32 blocks", d.opcode, x.parts, x.cols)));
    }
    let mut t = if small { Tile::new(x.cols, x.parts) } else { Tile::new(x.parts, x.cols) };
    for p in 0..x.parts {
        for e in 0..x.cols {
            let (r, c) = (p / 32 * 32 + e % 32, e / 32 * 32 + p % 32);
            let at = r * t.cols + c;
            t.data[at] = x.data[p * x.cols + e];
        }
    }
    Ok(t)
}

/// One value per partition, or the same for all.
#[derive(Clone, Debug)]
pub(crate) enum PerPart {
    All(f32),
    Each(Vec<f32>),
}

impl PerPart {
    #[inline]
    pub(crate) fn at(&self, p: usize) -> f32 {
        match self {
            PerPart::All(v) => *v,
            PerPart::Each(v) => v[p],
        }
    }
}

/// Bytes of a packed run from which on it is copied as a whole (our choice).
const LONG: usize = 32;

/// The elements lie in long packed runs.
fn in_runs(v: &View) -> bool {
    let size = v.elem_size();
    v.dims.last().is_some_and(|d| d.stride == size as isize && d.num * size >= LONG)
}

/// Copies the elements of a view into `out` in walk order, packed.
pub(crate) fn gather(mem: &Memory, v: &View, out: &mut Vec<u8>) {
    if in_runs(v) {
        mem.gather(v, out);
        return;
    }
    out.clear();
    out.resize(v.num_bytes(), 0);
    let packed = View::linear(v.buf, v.dtype, 0, v.num_elems());
    stream::move_elements(Some(mem.bytes(v.buf)), out, v, &packed, 0);
}

/// Writes packed elements to a view in walk order.
pub(crate) fn scatter(mem: &mut Memory, v: &View, data: &[u8]) {
    if in_runs(v) || data.len() < v.num_bytes() {
        mem.scatter(v, data);
        return;
    }
    let packed = View::linear(v.buf, v.dtype, 0, v.num_elems());
    stream::move_elements(Some(data), mem.bytes_mut(v.buf), &packed, v, 0);
}

/// Packed bytes of a view.
pub(crate) fn bytes_of(mem: &Memory, v: &View) -> Vec<u8> {
    let mut out = Vec::new();
    gather(mem, v, &mut out);
    out
}

/// Reads a view as fp32 lanes.
pub(crate) fn load(mem: &Memory, v: &View, rules: Rules) -> Tile {
    let k = lanes(v.dtype);
    let packed = v.dims.last().is_some_and(|d| d.stride == v.elem_size() as isize && d.num >= 8);
    if packed && matches!(v.dtype, Dtype::Float32 | Dtype::Bfloat16) {
        // Without clearing what is overwritten.
        let mut data: Vec<f32> = Vec::with_capacity(v.num_elems());
        let b = mem.bytes(v.buf);
        if v.dtype == Dtype::Float32 {
            v.for_each_run(|at, len| {
                data.extend(b[at..at + len].as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)));
            });
        } else {
            v.for_each_run(|at, len| {
                let chunks = b[at..at + len].as_chunks::<2>().0;
                data.extend(chunks.iter().map(|c| round::bf16_to_f32(u16::from_le_bytes(*c))));
            });
        }
        return Tile { parts: v.partitions(), cols: v.elems_per_partition(), data };
    }
    let mut t = Tile::new(v.partitions(), v.elems_per_partition() * k);
    load_into(mem, v, rules, &mut t.data);
    t
}

fn load_into(mem: &Memory, v: &View, rules: Rules, out: &mut [f32]) {
    let (size, k) = (v.elem_size(), lanes(v.dtype));
    let inner = v.dims.last().map_or(0, |d| if d.stride == size as isize { d.num } else { 0 });
    if inner >= 8 || v.num_elems() == 1 {
        let b = mem.bytes(v.buf);
        let mut at = 0;
        v.for_each_run(|from, len| {
            let n = len / size * k;
            convert::to_f32(v.dtype, &b[from..from + len], &mut out[at..at + n], rules);
            at += n;
        });
    } else {
        convert::to_f32(v.dtype, &bytes_of(mem, v), out, rules);
    }
}

/// Converts fp32 lanes once and writes them in walk order.
pub(crate) fn store(mem: &mut Memory, v: &View, data: &[f32], rules: Rules) {
    let (size, k) = (v.elem_size(), lanes(v.dtype));
    let inner = v.dims.last().map_or(0, |d| if d.stride == size as isize { d.num } else { 0 });
    if inner >= 8 || v.num_elems() == 1 {
        let b = mem.bytes_mut(v.buf);
        let mut at = 0;
        v.for_each_run(|to, len| {
            let n = len / size * k;
            convert::from_f32(v.dtype, &data[at..at + n], &mut b[to..to + len], rules);
            at += n;
        });
    } else {
        let mut out = vec![0u8; data.len() / k * size];
        convert::from_f32(v.dtype, data, &mut out, rules);
        scatter(mem, v, &out);
    }
}

/// The same for results of arithmetic: NaN becomes the canonical NaN first.
pub(crate) fn store_arith(mem: &mut Memory, v: &View, data: &mut [f32], rules: Rules) {
    for x in data.iter_mut() {
        *x = round::canonical(*x);
    }
    store(mem, v, data, rules);
}

/// fp32 lanes of a view.
pub(crate) fn num_lanes(v: &View) -> usize {
    v.num_elems() * lanes(v.dtype)
}

pub(crate) fn misfit(message: impl Into<String>) -> Fault {
    Fault::new(codes::S0202, message)
}

pub(crate) fn unsupported(d: &Decoded, what: impl std::fmt::Display) -> Fault {
    Fault::new(codes::S0201, format!("{}: {what} is not simulated", d.opcode))
}

/// Faults unless two operands have the same number of lanes.
pub(crate) fn same_count(d: &Decoded, a: usize, b: usize) -> Result<(), Fault> {
    if a == b {
        return Ok(());
    }
    Err(misfit(format!("{}: operands of {a} and of {b} elements", d.opcode)))
}

pub(crate) fn input(d: &Decoded, i: usize) -> Result<&View, Fault> {
    d.in_view(i).ok_or_else(|| misfit(format!("{}: input {i} is not a plain memory operand", d.opcode)))
}

pub(crate) fn output(d: &Decoded, i: usize) -> Result<&View, Fault> {
    d.out_view(i).ok_or_else(|| misfit(format!("{}: output {i} is not a plain memory operand", d.opcode)))
}

/// An operand that gives one value per partition: immediate, register, `[1]` or `[P, 1]` memory.
pub(crate) fn per_part(cx: &ExecCx<'_>, d: &Decoded, i: usize, parts: usize) -> Result<PerPart, Fault> {
    match d.ins.get(i) {
        None => Err(misfit(format!("{}: input {i} is missing", d.opcode))),
        Some(Arg::Imm(v)) => Ok(PerPart::All(v.as_f32())),
        Some(Arg::Reg(r)) => Ok(PerPart::All(cx.register(*r)? as i32 as f32)),
        Some(Arg::View(v)) => {
            let t = load(cx.mem, v, cx.rules());
            match t.data.len() {
                1 => Ok(PerPart::All(t.data[0])),
                n if n == parts => Ok(PerPart::Each(t.data)),
                n => Err(misfit(format!("{}: input {i} has {n} elements for {parts} partitions", d.opcode))),
            }
        }
        Some(Arg::Indexed(_)) => Err(unsupported(d, "an indexed scalar operand")),
    }
}

/// The same for integers.
pub(crate) fn per_part_int(cx: &ExecCx<'_>, d: &Decoded, i: usize, parts: usize) -> Result<Vec<i64>, Fault> {
    match d.ins.get(i) {
        None => Err(misfit(format!("{}: input {i} is missing", d.opcode))),
        Some(Arg::Imm(v)) => Ok(vec![v.as_int().unwrap_or_else(|| v.as_f32() as i64); parts]),
        Some(Arg::Reg(r)) => Ok(vec![cx.register(*r)?; parts]),
        Some(Arg::View(v)) => {
            let mut out = Vec::new();
            convert::to_int(v.dtype, &bytes_of(cx.mem, v), &mut out);
            match out.len() {
                1 => Ok(vec![out[0]; parts]),
                n if n == parts => Ok(out),
                n => Err(misfit(format!("{}: input {i} has {n} elements for {parts} partitions", d.opcode))),
            }
        }
        Some(Arg::Indexed(_)) => Err(unsupported(d, "an indexed scalar operand")),
    }
}

/// An integer attribute that may be an expression over registers.
pub(crate) fn attr_int(cx: &ExecCx<'_>, d: &Decoded, inst: &Inst, attr: Attr) -> Result<Option<i64>, Fault> {
    if let Some(v) = inst.get_int(attr) {
        return Ok(Some(v));
    }
    let Some(e) = inst.get_expr(attr) else { return Ok(None) };
    let mut poison = None;
    let v = e.eval(&mut |leaf| match leaf {
        Expr::Reg(r) => match cx.register(tandem_bir::entity::EntityRef::index(*r) as u32) {
            Ok(v) => Some(v),
            Err(f) => {
                poison = Some(f);
                None
            }
        },
        _ => None,
    });
    match (v, poison) {
        (Some(v), _) => Ok(Some(v)),
        (None, Some(f)) => Err(f),
        (None, None) => Err(unsupported(d, format!("the expression in `{}`", attr.key()))),
    }
}

/// Packed dtypes have no arithmetic of their own.
pub(crate) fn refuse_packed(d: &Decoded, v: &View) -> Result<(), Fault> {
    if lanes(v.dtype) != 1 {
        return Err(unsupported(d, format!("arithmetic on {} operands", v.dtype)));
    }
    Ok(())
}

/// An integer dtype of 32 bits.
pub(crate) fn is_int32(t: Dtype) -> bool {
    matches!(t, Dtype::Int32 | Dtype::Uint32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dim;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        /// Elements one by one, of every size: broadcasts, overlaps, descending steps, short and long runs.
        #[test]
        fn elements_in_walk_order(
            nums in (1usize..5, 1usize..12, 1usize..40),
            steps in (-60isize..60, -9isize..40, prop_oneof![3 => Just(1isize), 1 => -3isize..4]),
            size in 0usize..4,
        ) {
            let dtype = [Dtype::Uint8, Dtype::Bfloat16, Dtype::Float32, Dtype::Uint64][size];
            let n = dtype.bytes() as usize;
            let mut mem = Memory::new();
            let buf = mem.add(8 * 8192, 0);
            mem.bytes_mut(buf).iter_mut().enumerate().for_each(|(k, b)| *b = (k * 7 + k / 256 * 3) as u8);
            let dim = |stride: isize, num: usize| Dim { stride: stride * n as isize, num };
            let dims = [dim(steps.0, nums.0), dim(steps.1, nums.1), dim(steps.2, nums.2)];
            let v = View { buf, dtype, base: 4096 * n, dims: dims.into_iter().collect() };
            let want: Vec<u8> = v.offsets().flat_map(|o| mem.bytes(buf)[o..o + n].to_vec()).collect();
            let mut got = vec![1, 2, 3];
            gather(&mem, &v, &mut got);
            prop_assert_eq!(&got, &want);

            let data: Vec<u8> = (0..want.len()).map(|k| (k * 13 + 5) as u8).collect();
            let mut written = mem.bytes(buf).to_vec();
            v.offsets().zip(data.chunks(n)).for_each(|(o, x)| written[o..o + n].copy_from_slice(x));
            scatter(&mut mem, &v, &data);
            prop_assert!(mem.bytes(buf) == &written[..]);
        }
    }
}
