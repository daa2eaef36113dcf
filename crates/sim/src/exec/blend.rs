//! Selections piece by piece: every element of the destination takes the bits of one of two sides.
//!
//! The rules of [`super::stream`] hold: whatever is read is the destination, element for element, or shares no byte with it.

use super::stream::{PARALLEL, PIECE, Walk, cut, in_step, load, rows};
use super::tile::PerPart;
use crate::memory::{Memory, View};
use crate::num::convert::{self, Rules, lanes};
use crate::num::simd::{self, Kernel};

/// Where an element comes from.
#[derive(Clone, Debug)]
pub(crate) enum Side<'a> {
    /// An element of the destination's type.
    View(&'a View),
    /// One value for each partition of the destination.
    Fixed(PerPart, Rules),
    /// What is there.
    Keep,
}

/// Which side an element comes from.
pub(crate) enum Mask<'a> {
    /// The first where the element is not zero (or where it is zero, with `reverse`).
    View {
        /// The predicate.
        view: &'a View,
        /// Zero selects.
        reverse: bool,
    },
    /// Fills in 1 or 0 for the elements from a position on.
    Rule(&'a (dyn Fn(usize, &mut [u8]) + Sync)),
}

/// Unsigned integers as bits of elements.
trait Bits: Copy + Default + Send + Sync + PartialEq {
    const SIZE: usize;
    fn read(b: &[u8]) -> Self;
    fn write(self, b: &mut [u8]);
    /// `first` where `yes`, else `second`, without a branch.
    fn choose(yes: bool, first: Self, second: Self) -> Self;
}

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            const SIZE: usize = size_of::<$t>();
            #[inline(always)]
            fn read(b: &[u8]) -> $t {
                b.first_chunk().map_or(0, |b| <$t>::from_le_bytes(*b))
            }
            #[inline(always)]
            fn write(self, b: &mut [u8]) {
                if let Some(b) = b.first_chunk_mut() {
                    *b = self.to_le_bytes();
                }
            }
            #[inline(always)]
            fn choose(yes: bool, first: $t, second: $t) -> $t {
                let all: $t = (0 as $t).wrapping_sub(<$t>::from(yes));
                (first & all) | (second & !all)
            }
        }
    )*};
}
bits!(u8 u16 u32 u64);

struct LoadBits<'a, B> {
    bytes: &'a [u8],
    walk: &'a mut Walk,
    out: &'a mut [B],
}

impl<B: Bits> Kernel for LoadBits<'_, B> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let LoadBits { bytes, walk, mut out } = self;
        let stride = walk.stride();
        while !out.is_empty() {
            let (at, n) = walk.span(out.len());
            let (now, rest) = out.split_at_mut(n);
            out = rest;
            if stride == B::SIZE as isize {
                for (o, c) in now.iter_mut().zip(bytes[at..at + n * B::SIZE].chunks_exact(B::SIZE)) {
                    *o = B::read(c);
                }
                continue;
            }
            let mut at = at as isize;
            for o in now {
                *o = B::read(bytes.get(at as usize..).unwrap_or_default());
                at += stride;
            }
        }
    }
}

struct StoreBits<'a, B> {
    bytes: &'a mut [u8],
    walk: &'a mut Walk,
    data: &'a [B],
}

impl<B: Bits> Kernel for StoreBits<'_, B> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let StoreBits { bytes, walk, mut data } = self;
        let stride = walk.stride();
        while !data.is_empty() {
            let (at, n) = walk.span(data.len());
            let (now, rest) = data.split_at(n);
            data = rest;
            if stride == B::SIZE as isize {
                for (o, x) in bytes[at..at + n * B::SIZE].chunks_exact_mut(B::SIZE).zip(now) {
                    x.write(o);
                }
                continue;
            }
            let mut at = at as isize;
            for x in now {
                x.write(bytes.get_mut(at as usize..).unwrap_or_default());
                at += stride;
            }
        }
    }
}

struct Choose<'a, B> {
    mask: &'a [u8],
    first: &'a mut [B],
    second: &'a [B],
}

impl<B: Bits> Kernel for Choose<'_, B> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for ((a, b), m) in self.first.iter_mut().zip(self.second).zip(self.mask) {
            *a = B::choose(*m != 0, *a, *b);
        }
    }
}

struct NonZero<'a, T> {
    x: &'a [T],
    out: &'a mut [u8],
    reverse: bool,
}

impl<T: Copy + Default + PartialEq> Kernel for NonZero<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (o, x) in self.out.iter_mut().zip(self.x) {
            *o = u8::from((*x != T::default()) != self.reverse);
        }
    }
}

/// Writes `mask ? first : second` to `dst`; false, and nothing is done, when that would read what was written or types differ.
pub(crate) fn blend(
    mem: &mut Memory,
    dst: &View,
    mask: &Mask<'_>,
    first: &Side<'_>,
    second: &Side<'_>,
) -> bool {
    let n = dst.num_elems();
    let side = |s: &Side<'_>| match s {
        Side::View(v) => convert::copies_bits(v.dtype, dst.dtype) && v.num_elems() == n && in_step(v, dst),
        Side::Fixed(..) => lanes(dst.dtype) == 1,
        Side::Keep => true,
    };
    let known = match mask {
        Mask::View { view, .. } => lanes(view.dtype) == 1 && view.num_elems() == n && in_step(view, dst),
        Mask::Rule(_) => true,
    };
    if !known || !side(first) || !side(second) {
        return false;
    }
    match dst.elem_size() {
        1 => go::<u8>(mem, dst, mask, first, second),
        2 => go::<u16>(mem, dst, mask, first, second),
        4 => go::<u32>(mem, dst, mask, first, second),
        _ => go::<u64>(mem, dst, mask, first, second),
    }
    true
}

/// One thread's part: rows of the destination from `row` on, in the buffer from byte `cut` on.
struct Band<'a> {
    dst: &'a View,
    cut: usize,
    row: usize,
    rows: usize,
}

fn go<B: Bits>(mem: &mut Memory, dst: &View, mask: &Mask<'_>, first: &Side<'_>, second: &Side<'_>) {
    let mut reads: Vec<&View> = Vec::new();
    for s in [first, second] {
        if let Side::View(v) = s {
            reads.push(v);
        }
    }
    if let Mask::View { view, .. } = mask {
        reads.push(view);
    }
    let mut buf = mem.take(dst.buf);
    let all = dst.partitions();
    match cut(mem, dst, &reads, PARALLEL) {
        None => Band { dst, cut: 0, row: 0, rows: all }.run::<B>(&mut buf, mem, mask, first, second),
        Some((cut, row)) => {
            let (lo, hi) = buf.split_at_mut(cut);
            let mem = &*mem;
            mem.helper.join(
                || Band { dst, cut: 0, row: 0, rows: row }.run::<B>(lo, mem, mask, first, second),
                || Band { dst, cut, row, rows: all - row }.run::<B>(hi, mem, mask, first, second),
            );
        }
    }
    mem.put(dst.buf, buf);
}

impl Band<'_> {
    /// The band's rows of a view; a band of everything takes it as it is, whatever its rows are.
    fn walk(&self, v: &View) -> Walk {
        let mut part = if self.rows == self.dst.partitions() {
            v.clone()
        } else {
            rows(v, self.row, self.row + self.rows)
        };
        if v.buf == self.dst.buf {
            part.base -= self.cut;
        }
        Walk::new(&part)
    }

    fn run<B: Bits>(
        &self,
        buf: &mut [u8],
        others: &Memory,
        mask: &Mask<'_>,
        first: &Side<'_>,
        second: &Side<'_>,
    ) {
        let own = self.dst.buf;
        let cols = self.dst.elems_per_partition();
        let walks = [first, second].map(|s| match s {
            Side::View(v) => Some(self.walk(v)),
            Side::Keep => Some(self.walk(self.dst)),
            Side::Fixed(..) => None,
        });
        let [mut wa, mut wb] = walks;
        let mut wm = match mask {
            Mask::View { view, .. } => Some(self.walk(view)),
            Mask::Rule(_) => None,
        };
        let mut out = self.walk(self.dst);
        let (mut a, mut b) = ([B::default(); PIECE], [B::default(); PIECE]);
        let mut m = [0u8; PIECE];
        let (n, start) = (self.rows * cols, self.row * cols);
        let mut at = 0;
        while at < n {
            let k = PIECE.min(n - at);
            let bytes = |v: &View| if v.buf == own { &*buf } else { others.bytes(v.buf) };
            match (mask, &mut wm) {
                (Mask::View { view, reverse }, Some(w)) => {
                    nonzero(bytes(view), view, w, &mut m[..k], *reverse)
                }
                (Mask::Rule(f), _) => f(start + at, &mut m[..k]),
                (Mask::View { .. }, None) => {}
            }
            for (side, walk, x) in [(first, &mut wa, &mut a), (second, &mut wb, &mut b)] {
                let x = &mut x[..k];
                match (side, walk) {
                    (Side::View(v), Some(w)) => simd::run(LoadBits { bytes: bytes(v), walk: w, out: x }),
                    (Side::Keep, Some(w)) => simd::run(LoadBits { bytes: bytes(self.dst), walk: w, out: x }),
                    (Side::Fixed(s, rules), _) => fixed(self.dst, s, *rules, start + at, cols, x),
                    (Side::View(_) | Side::Keep, None) => {}
                }
            }
            simd::run(Choose { mask: &m[..k], first: &mut a[..k], second: &b[..k] });
            simd::run(StoreBits { bytes: buf, walk: &mut out, data: &a[..k] });
            at += k;
        }
    }
}

/// One value per partition, as elements of the destination from position `at` on.
fn fixed<B: Bits>(dst: &View, s: &PerPart, rules: Rules, at: usize, cols: usize, x: &mut [B]) {
    let mut rest = x;
    let mut at = at;
    while !rest.is_empty() {
        let (p, n) = match s {
            PerPart::All(_) => (0, rest.len()),
            PerPart::Each(_) => (at / cols, (cols - at % cols).min(rest.len())),
        };
        let (now, more) = rest.split_at_mut(n);
        let (v, _) = convert::value_bytes(dst.dtype, s.at(p), rules);
        now.fill(B::read(&v));
        (rest, at) = (more, at + n);
    }
}

/// The next elements of a predicate as 1 or 0.
fn nonzero(bytes: &[u8], view: &View, walk: &mut Walk, out: &mut [u8], reverse: bool) {
    fn bits<B: Bits>(bytes: &[u8], walk: &mut Walk, out: &mut [u8], reverse: bool) {
        let mut x = [B::default(); PIECE];
        let x = &mut x[..out.len()];
        simd::run(LoadBits { bytes, walk, out: &mut *x });
        simd::run(NonZero { x, out, reverse });
    }
    if !view.dtype.is_int() {
        let mut x = [0f32; PIECE];
        let x = &mut x[..out.len()];
        load(bytes, walk, view.dtype, x);
        return simd::run(NonZero { x, out, reverse });
    }
    match view.elem_size() {
        1 => bits::<u8>(bytes, walk, out, reverse),
        2 => bits::<u16>(bytes, walk, out, reverse),
        4 => bits::<u32>(bytes, walk, out, reverse),
        _ => bits::<u64>(bytes, walk, out, reverse),
    }
}
