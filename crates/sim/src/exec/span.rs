//! Reading and writing the elements of a walk: spans of neighbours, of small distances, and columns of a matrix in square blocks.
//!
//! Elements are carried as [`Word`]s: fp32 values, or bits. Elements are read and written in walk order wherever the order can
//! be seen; a block of columns is written only when no byte of it belongs to two elements.

use super::stream::Walk;
use crate::num::simd::{self, Kernel, SIDE};

/// What an element is between reading and writing.
pub(crate) trait Word: Copy + Default {
    /// Has 32 bits, so that blocks can be transposed.
    const IS_SHORT: bool;
    /// The transpose of a block of short words: `out[i][j]` is word `i` of row `j`.
    fn turn(rows: [&[Self; SIDE]; SIDE]) -> [[Self; SIDE]; SIDE];
}

impl Word for f32 {
    const IS_SHORT: bool = true;
    #[inline(always)]
    fn turn(rows: [&[f32; SIDE]; SIDE]) -> [[f32; SIDE]; SIDE] {
        let words = simd::transposed(rows);
        let mut out = [[0f32; SIDE]; SIDE];
        for (to, from) in out.as_flattened_mut().iter_mut().zip(words.as_flattened()) {
            *to = f32::from_bits(*from);
        }
        out
    }
}

impl Word for u32 {
    const IS_SHORT: bool = true;
    #[inline(always)]
    fn turn(rows: [&[u32; SIDE]; SIDE]) -> [[u32; SIDE]; SIDE] {
        simd::transposed(rows)
    }
}

impl Word for u64 {
    const IS_SHORT: bool = false;
    #[inline(always)]
    fn turn(rows: [&[u64; SIDE]; SIDE]) -> [[u64; SIDE]; SIDE] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }
}

/// The low bytes of a word.
#[inline(always)]
fn low<const N: usize>(word: u32) -> [u8; N] {
    let (mut bytes, from) = ([0; N], word.to_le_bytes());
    bytes[..N.min(4)].copy_from_slice(&from[..N.min(4)]);
    bytes
}

/// `rows` runs of `cols` elements of distance `stride`, each run one element after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) at: usize,
    pub(crate) stride: isize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl Columns {
    /// First byte of element `j` of the first run.
    #[inline(always)]
    fn column(&self, j: usize) -> usize {
        (self.at as isize + self.stride * j as isize) as usize
    }
    /// Rows and columns that make up whole blocks.
    #[inline(always)]
    fn whole(&self) -> (usize, usize) {
        (self.rows / SIDE * SIDE, self.cols / SIDE * SIDE)
    }
}

/// Reads the next `out.len()` elements of a walk over `bytes`, each of `N` bytes, through `f`.
pub(crate) struct Load<'a, const N: usize, T, F> {
    pub(crate) bytes: &'a [u8],
    pub(crate) walk: &'a mut Walk,
    pub(crate) out: &'a mut [T],
    pub(crate) f: F,
}

impl<const N: usize, T: Word, F: Fn([u8; N]) -> T> Kernel for Load<'_, N, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Load { bytes, walk, mut out, f } = self;
        let stride = walk.stride();
        while !out.is_empty() {
            if T::IS_SHORT
                && N <= 4
                && let Some(c) = walk.columns(out.len(), N)
            {
                let (now, rest) = out.split_at_mut(c.rows * c.cols);
                out = rest;
                load_columns(bytes, c, now, &f);
                continue;
            }
            if stride == N as isize {
                let (at, step, spans, n) = walk.spans(out.len());
                let (now, rest) = out.split_at_mut(spans * n);
                out = rest;
                let mut at = at as isize;
                for now in now.chunks_exact_mut(n) {
                    for (o, c) in now.iter_mut().zip(bytes[at as usize..][..n * N].as_chunks::<N>().0) {
                        *o = f(*c);
                    }
                    at += step;
                }
                continue;
            }
            let (at, n) = walk.span(out.len());
            let (now, rest) = out.split_at_mut(n);
            out = rest;
            if stride == 2 * N as isize {
                load_apart::<N, 2, T>(bytes, at, now, &f);
            } else if stride == 3 * N as isize {
                load_apart::<N, 3, T>(bytes, at, now, &f);
            } else if stride == 4 * N as isize {
                load_apart::<N, 4, T>(bytes, at, now, &f);
            } else {
                let mut at = at as isize;
                for o in now {
                    let Some(c) = bytes.get(at as usize..).and_then(|b| b.first_chunk::<N>()) else { return };
                    *o = f(*c);
                    at += stride;
                }
            }
        }
    }
}

/// Elements whose distance is `K` elements.
#[inline(always)]
fn load_apart<const N: usize, const K: usize, T>(
    bytes: &[u8],
    at: usize,
    out: &mut [T],
    f: &impl Fn([u8; N]) -> T,
) {
    let Some((last, out)) = out.split_last_mut() else { return };
    let (groups, rest) = bytes[at..].as_chunks::<N>().0.as_chunks::<K>();
    let (groups, after) = groups.split_at(out.len());
    for (o, c) in out.iter_mut().zip(groups) {
        *o = f(c[0]);
    }
    // The bytes behind the last element need not exist.
    if let Some(c) = after.first().map(|g| &g[0]).or(rest.first()) {
        *last = f(*c);
    }
}

#[inline(always)]
fn load_columns<const N: usize, T: Word>(bytes: &[u8], c: Columns, out: &mut [T], f: &impl Fn([u8; N]) -> T) {
    let run = |j: usize| bytes[c.column(j)..][..c.rows * N].as_chunks::<N>().0;
    let (rows, cols) = c.whole();
    let none = [[0; N]; SIDE];
    // Closures of `map` and the like would not be compiled for the vector width; loops are.
    for j0 in (0..cols).step_by(SIDE) {
        let mut runs: [&[[u8; N]]; SIDE] = [&[]; SIDE];
        for (j, r) in runs.iter_mut().enumerate() {
            *r = run(j0 + j);
        }
        for i0 in (0..rows).step_by(SIDE) {
            let mut from = [&none; SIDE];
            for (to, r) in from.iter_mut().zip(&runs) {
                *to = r[i0..].first_chunk().unwrap_or(&none);
            }
            let block = simd::transposed(from);
            for (k, row) in block.iter().enumerate() {
                let to = &mut out[(i0 + k) * c.cols + j0..][..SIDE];
                for j in 0..SIDE {
                    to[j] = f(low(row[j]));
                }
            }
        }
    }
    for j in 0..c.cols {
        let from = if j < cols { rows } else { 0 };
        for (i, x) in run(j).iter().enumerate().skip(from) {
            out[i * c.cols + j] = f(*x);
        }
    }
}

/// Writes `data` to the next elements of a walk over `bytes`, each of `N` bytes, through `f`.
pub(crate) struct Store<'a, const N: usize, T, F> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) walk: &'a mut Walk,
    pub(crate) data: &'a [T],
    pub(crate) f: F,
}

impl<const N: usize, T: Word, F: Fn(T) -> [u8; N]> Kernel for Store<'_, N, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Store { bytes, walk, mut data, f } = self;
        let stride = walk.stride();
        while !data.is_empty() {
            if T::IS_SHORT
                && N <= 4
                && let Some(c) = walk.columns_apart(data.len(), N)
            {
                let (now, rest) = data.split_at(c.rows * c.cols);
                data = rest;
                store_columns(bytes, c, now, &f);
                continue;
            }
            if stride == N as isize {
                let (at, step, spans, n) = walk.spans(data.len());
                let (now, rest) = data.split_at(spans * n);
                data = rest;
                let mut at = at as isize;
                for now in now.chunks_exact(n) {
                    let to = bytes[at as usize..][..n * N].as_chunks_mut::<N>().0;
                    for (o, x) in to.iter_mut().zip(now) {
                        *o = f(*x);
                    }
                    at += step;
                }
                continue;
            }
            let (at, n) = walk.span(data.len());
            let (now, rest) = data.split_at(n);
            data = rest;
            if stride == 2 * N as isize {
                store_apart::<N, 2, T>(bytes, at, now, &f);
            } else if stride == 3 * N as isize {
                store_apart::<N, 3, T>(bytes, at, now, &f);
            } else if stride == 4 * N as isize {
                store_apart::<N, 4, T>(bytes, at, now, &f);
            } else {
                let mut at = at as isize;
                for x in now {
                    let Some(o) = bytes.get_mut(at as usize..).and_then(|b| b.first_chunk_mut::<N>()) else {
                        return;
                    };
                    *o = f(*x);
                    at += stride;
                }
            }
        }
    }
}

/// Elements whose distance is `K` elements.
#[inline(always)]
fn store_apart<const N: usize, const K: usize, T: Copy>(
    bytes: &mut [u8],
    at: usize,
    data: &[T],
    f: &impl Fn(T) -> [u8; N],
) {
    let Some((last, data)) = data.split_last() else { return };
    let (groups, rest) = bytes[at..].as_chunks_mut::<N>().0.as_chunks_mut::<K>();
    let (groups, after) = groups.split_at_mut(data.len());
    for (c, x) in groups.iter_mut().zip(data) {
        c[0] = f(*x);
    }
    if let Some(c) = after.first_mut().map(|g| &mut g[0]).or(rest.first_mut()) {
        *c = f(*last);
    }
}

#[inline(always)]
fn store_columns<const N: usize, T: Word>(
    bytes: &mut [u8],
    c: Columns,
    data: &[T],
    f: &impl Fn(T) -> [u8; N],
) {
    let (rows, cols) = c.whole();
    let none = [T::default(); SIDE];
    for j0 in (0..cols).step_by(SIDE) {
        for i0 in (0..rows).step_by(SIDE) {
            let mut from = [&none; SIDE];
            for (k, row) in from.iter_mut().enumerate() {
                *row = data[(i0 + k) * c.cols + j0..].first_chunk().unwrap_or(&none);
            }
            let block = T::turn(from);
            for (j, run) in block.iter().enumerate() {
                let to = bytes[c.column(j0 + j) + i0 * N..][..SIDE * N].as_chunks_mut::<N>().0;
                for k in 0..SIDE {
                    to[k] = f(run[k]);
                }
            }
        }
    }
    for j in 0..c.cols {
        let from = if j < cols { rows } else { 0 };
        let to = bytes[c.column(j)..][..c.rows * N].as_chunks_mut::<N>().0;
        for (i, o) in to.iter_mut().enumerate().skip(from) {
            *o = f(data[i * c.cols + j]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{BufId, Dim, View};
    use crate::num::simd::tests::in_each_width;
    use proptest::prelude::*;
    use tandem_bir::Dtype;

    /// Reads and writes a view of `N`-byte elements in parts of `most`, and compares with its elements one by one.
    fn check<const N: usize, T: Word + PartialEq + std::fmt::Debug>(
        v: &View,
        most: usize,
        word: impl Fn([u8; N]) -> T + Copy,
        bytes: impl Fn(T) -> [u8; N] + Copy,
    ) {
        let (lo, hi) = v.byte_range().expect("small");
        // Exactly as many bytes as the view reaches: nothing behind the last element.
        let v = View { base: (v.base as i128 - lo) as usize, ..v.clone() };
        let memory: Vec<u8> = (0..(hi - lo) as usize).map(|k| (k * 7 + k / 256 * 3) as u8).collect();
        let n = v.num_elems();
        let at = |o: usize| -> [u8; N] { memory[o..o + N].try_into().expect("inside") };
        let want: Vec<T> = v.offsets().map(|o| word(at(o))).collect();
        let data: Vec<T> = (0..n)
            .map(|k| {
                word(
                    0x9E37_79B9_7F4A_7C15u64.wrapping_mul(k as u64 + 1).to_le_bytes()[8 - N..]
                        .try_into()
                        .expect("N"),
                )
            })
            .collect();
        let mut written = memory.clone();
        v.offsets().zip(&data).for_each(|(o, x)| written[o..o + N].copy_from_slice(&bytes(*x)));
        in_each_width(|w| {
            let mut got = vec![T::default(); n];
            let mut walk = Walk::new(&v);
            for out in got.chunks_mut(most) {
                simd::run(Load { bytes: &memory, walk: &mut walk, out, f: word });
            }
            assert_eq!(got, want, "read, {w:?}");
            let mut into = memory.clone();
            let mut walk = Walk::new(&v);
            for data in data.chunks(most) {
                simd::run(Store { bytes: &mut into, walk: &mut walk, data, f: bytes });
            }
            assert!(into == written, "written, {w:?}");
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        /// Columns, small distances, broadcasts, descending and overlapping patterns of every size of element.
        #[test]
        fn elements_are_those_of_the_view(
            nums in (1usize..4, 1usize..30, 1usize..30),
            strides in (-700isize..700, prop_oneof![3 => Just(1isize), 1 => -3isize..6], prop_oneof![1 => -5isize..6, 1 => 20isize..80]),
            most in prop_oneof![1usize..40, 100usize..900],
            size in 0usize..4,
        ) {
            let (size, dtype) = [(1, Dtype::Uint8), (2, Dtype::Uint16), (4, Dtype::Uint32), (8, Dtype::Uint64)][size];
            let dim = |stride: isize, num: usize| Dim { stride: stride * size, num };
            let dims = [dim(strides.0, nums.0), dim(strides.1, nums.1), dim(strides.2, nums.2)].into_iter().collect();
            let v = View { buf: BufId(0), dtype, base: 1 << 20, dims };
            match size {
                1 => check::<1, u32>(&v, most, |[b]| u32::from(b), |x| [x as u8]),
                2 => check::<2, u32>(&v, most, |b| u32::from(u16::from_le_bytes(b)), |x| (x as u16).to_le_bytes()),
                4 => check::<4, u32>(&v, most, u32::from_le_bytes, u32::to_le_bytes),
                _ => check::<8, u64>(&v, most, u64::from_le_bytes, u64::to_le_bytes),
            }
        }
    }
}
