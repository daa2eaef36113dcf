//! Left folds along rows, many rows side by side.
//!
//! A fold is a chain: element `i + 1` waits for element `i`. Rows are independent of each other, so one vector holds element `i` of
//! several rows; blocks of rows are transposed on the way in. Each row keeps its own order, and the result does not depend
//! on how many go side by side.

use super::extreme::Extreme;
use super::stream::{self, Walk};
use super::tile::Tile;
use crate::memory::{Memory, View};
use crate::num::alu;
use crate::num::round;
use crate::num::simd::{self, Element, SIDE};
use crate::numeric_profile::AluMinMaxNan;
use rayon::prelude::*;
use smallvec::SmallVec;
use tandem_bir::{AluOp, Dtype};

/// Blocks of rows that go side by side: enough chains for the adders of a core to be busy.
const GROUPS: usize = 4;
/// Rows that go side by side.
const ROWS: usize = GROUPS * SIDE;
/// Elements of a row that are copied at once where they are not packed fp32 or bf16 (our choice); few in tests, so that rows have several
/// such blocks.
const WIDE: usize = if cfg!(test) { 16 } else { 128 };

/// A value as it lies in memory.
trait Packed: Element {
    /// What its word stands for.
    fn value(word: u32) -> f32;
}

impl Packed for [u8; 4] {
    #[inline(always)]
    fn value(word: u32) -> f32 {
        f32::from_bits(word)
    }
}

/// bf16.
impl Packed for [u8; 2] {
    #[inline(always)]
    fn value(word: u32) -> f32 {
        round::bf16_to_f32(word as u16)
    }
}

/// `acc[j] = op(acc[j], rows[j][i])` for `i` ascending; all rows have the same length.
struct Fold<'a, E> {
    acc: &'a mut [f32; ROWS],
    rows: [&'a [E]; ROWS],
}

impl<E: Packed> alu::OpKernel for Fold<'_, E> {
    type Out = ();
    #[inline(always)]
    fn run(self, f: impl Fn(f32, f32) -> f32) {
        let Fold { acc: result, rows } = self;
        let mut acc = [[0f32; SIDE]; GROUPS];
        acc.as_flattened_mut().copy_from_slice(result);
        let blocks = rows.map(|r| r.as_chunks::<SIDE>().0);
        let n = blocks.iter().map(|b| b.len()).min().unwrap_or(0);
        let blocks = blocks.map(|b| &b[..n]);
        for k in 0..n {
            for (g, acc) in acc.iter_mut().enumerate() {
                let columns = simd::transposed(std::array::from_fn(|j| &blocks[g * SIDE + j][k]));
                for column in &columns {
                    for j in 0..SIDE {
                        acc[j] = f(acc[j], E::value(column[j]));
                    }
                }
            }
        }
        result.copy_from_slice(acc.as_flattened());
        for (acc, row) in result.iter_mut().zip(rows) {
            for v in &row[n * SIDE..] {
                *acc = f(*acc, E::value(v.word()));
            }
        }
    }
}

/// Folds up to [`ROWS`] rows of equal length on.
fn fold_on<'a, E: Packed + 'a>(
    op: AluOp,
    acc: &mut [f32],
    rows: impl Iterator<Item = &'a [E]>,
    nan: AluMinMaxNan,
) -> Option<()> {
    // What is missing to a full set is the first row again, folded for nothing.
    let mut all: [&[E]; ROWS] = [&[]; ROWS];
    let mut n = 0;
    for (to, row) in all.iter_mut().zip(rows) {
        *to = row;
        n += 1;
    }
    let first = all[0];
    all[n..].fill(first);
    let mut values = [0f32; ROWS];
    values[..acc.len()].copy_from_slice(acc);
    alu::with(op, nan, Fold { acc: &mut values, rows: all })?;
    acc.copy_from_slice(&values[..acc.len()]);
    Some(())
}

/// `acc[r] = op(…op(op(acc[r], x[r][0]), x[r][1])…)` for rows of `cols` values. `None` when the table has no such operation.
pub(super) fn fold_rows_into(
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
    let mut block = [[[0; 4]; WIDE]; ROWS];
    for (acc, rows) in acc.chunks_mut(ROWS).zip(x.chunks(cols * ROWS)) {
        for at in (0..cols).step_by(WIDE) {
            let n = WIDE.min(cols - at);
            for (to, row) in block.iter_mut().zip(rows.chunks_exact(cols)) {
                pack(&row[at..at + n], to);
            }
            fold_on(op, acc, block[..acc.len()].iter().map(|b| &b[..n]), nan)?;
        }
    }
    Some(())
}

fn pack(from: &[f32], to: &mut [[u8; 4]]) {
    to.iter_mut().zip(from).for_each(|(to, v)| *to = v.to_le_bytes());
}

/// Left fold of the `inner` last dimensions of a view, starting with the first element; `average` seeds with first/N and adds
/// x·(1/N). The type has one lane, and no dimension is empty.
pub(super) fn fold_view(
    mem: &Memory,
    v: &View,
    inner: usize,
    op: AluOp,
    nan: AluMinMaxNan,
) -> Option<Vec<f32>> {
    let split = v.dims.len() - inner.min(v.dims.len());
    let outer = View { dims: SmallVec::from_slice(&v.dims[..split]), ..v.clone() };
    let starts: Vec<usize> = outer.offsets().collect();
    let mut out = vec![0f32; starts.len()];
    let bytes = mem.bytes(v.buf);
    let fold = |starts: &[usize], out: &mut [f32]| fold_starts(bytes, v, split, starts, out, op, nan);
    if starts.len() > ROWS && mem.is_worth_two_threads(v.num_elems(), stream::PARALLEL) {
        let blocks = starts.par_chunks(ROWS).zip(out.par_chunks_mut(ROWS)).with_max_len(1);
        blocks.try_for_each(|(starts, out)| fold(starts, out))?;
        mem.helper.was_used();
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
    let walk = |at: &usize| Walk::of(*at, dims, v.elem_size());
    if let Some(e) = Extreme::of(op, nan) {
        for (at, out) in starts.iter().zip(out) {
            *out = e.fold_walk(bytes, &mut walk(at), v.dtype, cols);
        }
        return Some(());
    }
    let (op, factor) = match op {
        AluOp::Average => (AluOp::Add, Some(1.0 / cols as f32)),
        _ => (op, None),
    };
    if cols == 0 {
        return Some(());
    }
    for (starts, out) in starts.chunks(ROWS).zip(out.chunks_mut(ROWS)) {
        let mut rows =
            Rows { bytes, dtype: v.dtype, walks: starts.iter().map(walk).collect(), left: cols, factor };
        rows.first(out);
        // One element is its own fold, whatever the operation.
        match v.dtype {
            Dtype::Float32 | Dtype::Float32r if rows.is_packed(4) => rows.fold_packed::<4>(op, out, nan)?,
            Dtype::Bfloat16 if rows.is_packed(2) => rows.fold_packed::<2>(op, out, nan)?,
            _ => rows.fold_copied(op, out, nan)?,
        }
    }
    Some(())
}

/// Rows of a view that go side by side.
struct Rows<'a> {
    bytes: &'a [u8],
    dtype: Dtype,
    walks: SmallVec<[Walk; ROWS]>,
    /// Elements of each row still to come.
    left: usize,
    /// What each element is multiplied with first.
    factor: Option<f32>,
}

impl Rows<'_> {
    fn load(&mut self, row: usize, to: &mut [f32]) {
        stream::load(self.bytes, &mut self.walks[row], self.dtype, to);
        if let Some(f) = self.factor {
            to.iter_mut().for_each(|x| *x *= f);
        }
    }

    /// The first element of each row.
    fn first(&mut self, out: &mut [f32]) {
        for (row, to) in out.chunks_mut(1).enumerate() {
            self.load(row, to);
        }
        self.left -= 1;
    }

    /// The elements are used as they lie in memory, in long runs.
    fn is_packed(&self, size: isize) -> bool {
        self.factor.is_none() && self.walks[0].stride() == size && self.walks[0].run_length() >= WIDE
    }

    fn fold_packed<const N: usize>(&mut self, op: AluOp, acc: &mut [f32], nan: AluMinMaxNan) -> Option<()>
    where
        [u8; N]: Packed,
    {
        while self.left > 0 {
            // All rows have the same shape and are at the same place in it.
            let (bytes, most) = (self.bytes, self.left);
            let mut now = most;
            let rows = self.walks.iter_mut().map(|walk| {
                let (at, n) = walk.span(most);
                now = n;
                bytes[at..at + n * N].as_chunks::<N>().0
            });
            fold_on(op, acc, rows, nan)?;
            self.left -= now;
        }
        Some(())
    }

    fn fold_copied(&mut self, op: AluOp, acc: &mut [f32], nan: AluMinMaxNan) -> Option<()> {
        let (mut block, mut line) = ([[[0; 4]; WIDE]; ROWS], [0f32; WIDE]);
        while self.left > 0 {
            let n = WIDE.min(self.left);
            for (row, to) in block.iter_mut().enumerate().take(acc.len()) {
                self.load(row, &mut line[..n]);
                pack(&line[..n], to);
            }
            fold_on(op, acc, block[..acc.len()].iter().map(|b| &b[..n]), nan)?;
            self.left -= n;
        }
        Some(())
    }
}

/// Left fold of each row of a tile, starting with its first element. `average` seeds with first/N and adds x·(1/N).
pub(super) fn fold_tile(op: AluOp, x: &Tile, nan: AluMinMaxNan) -> Option<Vec<f32>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dim;
    use crate::num::convert::{self, Rules};
    use crate::num::rng::Mt19937_64;
    use crate::num::simd::tests::in_each_width;
    use crate::numeric_profile::NumericProfile;

    const NAN: AluMinMaxNan = AluMinMaxNan::Propagate;
    /// Operations whose order shows: sums and products round, the comparisons forget.
    const OPS: [AluOp; 7] =
        [AluOp::Add, AluOp::Subtract, AluOp::Mult, AluOp::Divide, AluOp::IsGt, AluOp::Max, AluOp::Average];

    /// One element after the other.
    fn in_order(op: AluOp, acc: f32, x: &[f32]) -> f32 {
        x.iter().fold(acc, |a, v| alu::scalar(op, a, *v, NAN).expect("in the table"))
    }

    fn values(r: &mut Mt19937_64, n: usize) -> Vec<f32> {
        (0..n).map(|_| (r.next_u32() % 2001) as f32 / 1000.0 - 1.0).collect()
    }

    #[test]
    fn rows_side_by_side_keep_their_order() {
        let mut r = Mt19937_64::new(3);
        for parts in [1, 2, 7, 8, 31, 32, 33, 65] {
            for cols in [0, 1, 2, 7, 8, 9, 15, 16, 17, 40] {
                let (x, acc) = (values(&mut r, parts * cols), values(&mut r, parts));
                for op in &OPS[..6] {
                    in_each_width(|w| {
                        let mut got = acc.clone();
                        fold_rows_into(*op, &mut got, &x, cols, NAN).expect("in the table");
                        for (k, got) in got.iter().enumerate() {
                            let want = in_order(*op, acc[k], &x[k * cols..(k + 1) * cols]);
                            assert_eq!(
                                got.to_bits(),
                                want.to_bits(),
                                "{op} {w:?}, row {k} of {parts} x {cols}"
                            );
                        }
                    });
                }
            }
        }
    }

    /// Views of packed rows, of rows in runs, of steps, of a broadcast, of bf16: against the elements one by one.
    #[test]
    fn folds_of_views_keep_their_order() {
        let mut r = Mt19937_64::new(4);
        let mut mem = Memory::new();
        let buf = mem.add(1 << 16, 0);
        let data: Vec<u8> = values(&mut r, 1 << 14).iter().flat_map(|v| v.to_le_bytes()).collect();
        mem.bytes_mut(buf).copy_from_slice(&data);
        let shapes: [(&[(isize, usize)], usize); 8] = [
            (&[(300, 37), (1, 61)], 1),
            (&[(64, 33), (1, 1)], 1),
            (&[(100, 9), (50, 2), (1, 40)], 2),
            (&[(100, 9), (50, 2), (1, 40)], 1),
            (&[(200, 5), (3, 50)], 1),
            (&[(1, 40), (100, 30)], 1),
            (&[(200, 5), (0, 33)], 1),
            (&[(200, 33), (-1, 20)], 1),
        ];
        for (dims, inner) in shapes {
            for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int16] {
                let size = dtype.bytes() as isize;
                let v = View {
                    buf,
                    dtype,
                    base: 128,
                    dims: dims.iter().map(|(s, n)| Dim { stride: s * size, num: *n }).collect(),
                };
                let mut bytes = Vec::new();
                mem.gather(&v, &mut bytes);
                let mut x = vec![0.0; v.num_elems()];
                convert::to_f32(dtype, &bytes, &mut x, Rules::of(&NumericProfile::default()));
                let cols: usize = dims[dims.len() - inner..].iter().map(|d| d.1).product();
                for op in OPS {
                    in_each_width(|w| {
                        let got = fold_view(&mem, &v, inner, op, NAN).expect("in the table");
                        assert_eq!(got.len() * cols, x.len());
                        for (got, row) in got.iter().zip(x.chunks(cols)) {
                            let want = if op == AluOp::Average {
                                let f = 1.0 / cols as f32;
                                let row: Vec<f32> = row.iter().map(|v| v * f).collect();
                                in_order(AluOp::Add, row[0], &row[1..])
                            } else {
                                in_order(op, row[0], &row[1..])
                            };
                            assert_eq!(got.to_bits(), want.to_bits(), "{op} {w:?} {dtype} {dims:?}");
                        }
                    });
                }
            }
        }
    }
}
