//! Element-wise work in pieces that stay in the first-level cache: read, compute, write, without whole copies of the operands.
//!
//! An instruction reads all of its inputs before it writes (the specification, file 09 §4). Working piece by piece gives the
//! same bytes when every input either is the destination, element for element, or shares no byte with it; [`Plan::new`]
//! refuses everything else, and the caller then works on whole copies ([`super::tile`]).
//!
//! Large instructions are cut into bands of partitions that threads work on; a band reads and writes the partitions of its own
//! buffer only, and elements are independent of each other, so that the result does not depend on the number of threads.

use super::span::{Columns, Load, Store, Word};
use super::touches;
use crate::memory::{Dim, Memory, View};
use crate::num::convert::{self, Decoder, Encoder, Rules, lanes};
use crate::num::round::canonical;
use crate::num::simd::{self, Kernel, SIDE};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// Elements of a piece (our choice); few in tests, so that small operands have several.
pub(crate) const PIECE: usize = if cfg!(test) { 16 } else { 1024 };

/// Elements from which on an instruction is worth a second thread that is awake (our choice).
pub(crate) const PARALLEL: usize = 1 << 17;
/// The same for one that computes much for each element (our choice).
const PARALLEL_HEAVY: usize = 1 << 15;

/// Walks the elements of a view in spans of equal distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    outer: SmallVec<[(Dim, usize); 4]>,
    inner: Dim,
    /// First byte of the current innermost run.
    start: isize,
    /// Elements of that run already given out.
    done: usize,
}

impl Walk {
    pub(crate) fn new(v: &View) -> Walk {
        Walk::of(v.base, &v.dims, v.elem_size())
    }

    /// Neighbouring dimensions that continue each other count as one.
    pub(crate) fn of(base: usize, dims: &[Dim], size: usize) -> Walk {
        let mut merged: SmallVec<[Dim; 4]> = SmallVec::new();
        for d in dims.iter().filter(|d| d.num != 1) {
            match merged.last_mut() {
                Some(o) if o.stride == d.stride.saturating_mul(d.num as isize) => {
                    *o = Dim { stride: d.stride, num: o.num * d.num };
                }
                Some(_) | None => merged.push(*d),
            }
        }
        let inner = merged.pop().unwrap_or(Dim { stride: size as isize, num: 1 });
        Walk { outer: merged.iter().map(|d| (*d, 0)).collect(), inner, start: base as isize, done: 0 }
    }

    /// No byte belongs to two elements; may say no when it is so.
    fn visits_once(&self, size: usize) -> bool {
        let mut dims: SmallVec<[Dim; 4]> = self.outer.iter().map(|d| d.0).chain([self.inner]).collect();
        dims.sort_unstable_by_key(|d| d.stride.unsigned_abs());
        let mut reach = size;
        dims.iter().filter(|d| d.num > 1).all(|d| {
            let step = d.stride.unsigned_abs();
            let apart = step >= reach;
            reach = reach.saturating_add(step.saturating_mul(d.num - 1));
            apart
        })
    }

    /// Distance of neighbours inside a span.
    #[inline(always)]
    pub(crate) fn stride(&self) -> isize {
        self.inner.stride
    }

    /// Elements of a span at most.
    pub(crate) fn run_length(&self) -> usize {
        self.inner.num
    }

    /// Up to `most` further elements: the first byte, and how many.
    #[inline(always)]
    pub(crate) fn span(&mut self, most: usize) -> (usize, usize) {
        let n = (self.inner.num - self.done).min(most);
        let at = self.start + self.inner.stride * self.done as isize;
        self.done += n;
        if self.done == self.inner.num {
            self.done = 0;
            self.advance(1);
        }
        (at as usize, n)
    }

    /// Up to `most` further elements as equal spans: the first byte, bytes between spans, spans, elements of each.
    #[inline(always)]
    pub(crate) fn spans(&mut self, most: usize) -> (usize, isize, usize, usize) {
        let whole = self.inner.num;
        if self.done == 0
            && most >= 2 * whole
            && let Some((d, i)) = self.outer.last()
        {
            let (at, step, n) = (self.start, d.stride, (d.num - i).min(most / whole));
            self.advance(n);
            return (at as usize, step, n, whole);
        }
        let (at, n) = self.span(most);
        (at, 0, 1, n)
    }

    /// Goes on by whole runs of the innermost dimension, at most to the end of the dimension around it.
    #[inline(always)]
    fn advance(&mut self, mut by: usize) {
        for (d, i) in self.outer.iter_mut().rev() {
            *i += by;
            self.start += d.stride * by as isize;
            if *i < d.num {
                break;
            }
            self.start -= d.stride * d.num as isize;
            *i = 0;
            by = 1;
        }
    }

    /// Up to `most` further elements of `size` bytes, when they are columns of a matrix, enough of them for blocks.
    #[inline(always)]
    pub(crate) fn columns(&mut self, most: usize, size: usize) -> Option<Columns> {
        self.columns_if(most, size, |_| true)
    }

    /// The same when no byte belongs to two of the elements.
    #[inline(always)]
    pub(crate) fn columns_apart(&mut self, most: usize, size: usize) -> Option<Columns> {
        self.columns_if(most, size, |c| c.stride.unsigned_abs() >= c.rows * size)
    }

    #[inline(always)]
    fn columns_if(&mut self, most: usize, size: usize, good: impl Fn(&Columns) -> bool) -> Option<Columns> {
        let (d, i) = self.outer.last()?;
        let Dim { stride, num: cols } = self.inner;
        if self.done != 0 || d.stride != size as isize || cols < SIDE {
            return None;
        }
        let rows = (d.num - i).min(most / cols);
        let c = Columns { at: self.start as usize, stride, rows, cols };
        if rows < SIDE || !good(&c) {
            return None;
        }
        self.advance(rows);
        Some(c)
    }
}

/// A load whose type is still to be looked at.
struct Loading<'a> {
    bytes: &'a [u8],
    walk: &'a mut Walk,
    out: &'a mut [f32],
}

impl Decoder for Loading<'_> {
    type Out = ();
    fn with<const N: usize>(self, f: impl Fn([u8; N]) -> f32 + Copy) {
        simd::run(Load { bytes: self.bytes, walk: self.walk, out: self.out, f });
    }
}

/// A store whose type is still to be looked at.
struct Storing<'a> {
    bytes: &'a mut [u8],
    walk: &'a mut Walk,
    data: &'a [f32],
    arith: bool,
}

impl Encoder for Storing<'_> {
    type Out = ();
    fn with<const N: usize>(self, f: impl Fn(f32) -> [u8; N] + Copy) {
        let Storing { bytes, walk, data, arith } = self;
        if arith {
            simd::run(Store { bytes, walk, data, f: |x| f(canonical(x)) });
        } else {
            simd::run(Store { bytes, walk, data, f });
        }
    }
}

/// The next `out.len()` elements of a walk as fp32; the type has one lane.
pub(crate) fn load(bytes: &[u8], walk: &mut Walk, dtype: tandem_bir::Dtype, out: &mut [f32]) {
    let done = convert::decoder(dtype, Loading { bytes, walk, out });
    debug_assert!(done.is_some(), "types of one lane only");
}

/// How results are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) rules: Rules,
    /// Results of arithmetic: NaN becomes the canonical NaN first.
    pub(crate) arith: bool,
}

/// Writes the next elements of a walk; the type has one lane.
fn store(bytes: &mut [u8], walk: &mut Walk, dtype: tandem_bir::Dtype, data: &[f32], out: Out) {
    let done = convert::encoder(dtype, Storing { bytes, walk, data, arith: out.arith }, out.rules);
    debug_assert!(done.is_some(), "types of one lane only");
}

/// Reading `src` piece by piece while `dst` is written gives what reading it first gives.
pub(crate) fn in_step(src: &View, dst: &View) -> bool {
    src.buf != dst.buf
        || (src.elem_size() == dst.elem_size() && {
            let walk = Walk::new(dst);
            walk == Walk::new(src) && walk.visits_once(dst.elem_size())
        })
        || !touches(dst, src)
}

/// The rows `from..to` of an operand.
pub(crate) fn rows(v: &View, from: usize, to: usize) -> View {
    let mut v = v.clone();
    v.base = (v.base as isize + v.dims[0].stride * from as isize) as usize;
    v.dims[0].num = to - from;
    v
}

/// Where to cut the destination's buffer, and before which row, when two threads can work apart.
pub(crate) fn cut(mem: &Memory, dst: &View, reads: &[&View], least: usize) -> Option<(usize, usize)> {
    let rows = dst.partitions();
    if rows < 2 || !mem.is_worth_two_threads(dst.num_elems(), least) {
        return None;
    }
    let pitch = mem.info(dst.buf).pitch.filter(|p| *p > 0)?;
    let row = rows / 2;
    for v in reads.iter().copied().chain([dst]) {
        if v.partitions() != rows || v.dims.len() < 2 {
            return None;
        }
        if v.buf != dst.buf {
            continue;
        }
        // Row `k` of each operand lies in partition `first + k`.
        if v.dims[0].stride != pitch as isize || v.base / pitch != dst.base / pitch {
            return None;
        }
        v.columns(pitch)?;
    }
    Some(((dst.base / pitch + row) * pitch, row))
}

/// An element-wise instruction that can be done piece by piece.
pub(crate) struct Plan<'a> {
    a: &'a View,
    b: Option<&'a View>,
    dst: &'a View,
    out: Out,
    /// Elements from which on two threads work.
    least: usize,
}

impl<'a> Plan<'a> {
    /// Each element is much work: smaller instructions are worth two threads.
    pub(crate) fn heavy(self) -> Plan<'a> {
        Plan { least: PARALLEL_HEAVY, ..self }
    }

    /// `None` when whole copies are needed. All operands have the same number of elements.
    pub(crate) fn new(a: &'a View, b: Option<&'a View>, dst: &'a View, out: Out) -> Option<Plan<'a>> {
        let all = [Some(a), b, Some(dst)];
        let good = |v: &View| lanes(v.dtype) == 1 && v.num_elems() == dst.num_elems();
        let ok =
            all.iter().flatten().all(|v| good(v)) && in_step(a, dst) && b.is_none_or(|b| in_step(b, dst));
        ok.then_some(Plan { a, b, dst, out, least: PARALLEL })
    }

    /// Calls `f(state, first element, x, y)` for every piece: `x` holds elements of `a` and becomes the result, `y` those of
    /// `b`. One state per band, in order. `None` as soon as `f` gives it.
    pub(crate) fn run<S, F>(&self, mem: &mut Memory, f: F) -> Option<SmallVec<[S; 1]>>
    where
        S: Default + Send,
        F: Fn(&mut S, usize, &mut [f32], &[f32]) -> Option<()> + Sync,
    {
        let own = self.dst.buf;
        let mut buf = mem.take(own);
        let reads: SmallVec<[&View; 2]> = std::iter::once(self.a).chain(self.b).collect();
        let done = match cut(mem, self.dst, &reads, self.least) {
            None => self.band(&mut buf, 0, mem, 0, &f).map(|s| SmallVec::from_iter([s])),
            Some((cut, row)) => {
                let (low, high) = (self.part(0, row), self.part(row, self.dst.dims[0].num));
                let per = self.dst.elems_per_partition();
                let (lo, hi) = buf.split_at_mut(cut);
                let mem = &*mem;
                let (x, y) = mem.helper.join(
                    || self.with(&low).band(lo, 0, mem, 0, &f),
                    || self.with(&high).band(hi, cut, mem, row * per, &f),
                );
                x.zip(y).map(|(x, y)| SmallVec::from_iter([x, y]))
            }
        };
        mem.put(own, buf);
        done
    }

    /// The rows `from..to` of all operands.
    fn part(&self, from: usize, to: usize) -> (View, Option<View>, View) {
        let r = |v: &View| rows(v, from, to);
        (r(self.a), self.b.map(r), r(self.dst))
    }

    fn with<'b>(&self, (a, b, dst): &'b (View, Option<View>, View)) -> Plan<'b> {
        Plan { a, b: b.as_ref(), dst, out: self.out, least: self.least }
    }

    /// All pieces of a band; `buf` holds the destination's buffer from byte `cut` on.
    fn band<S: Default>(
        &self,
        buf: &mut [u8],
        cut: usize,
        others: &Memory,
        first: usize,
        f: &impl Fn(&mut S, usize, &mut [f32], &[f32]) -> Option<()>,
    ) -> Option<S> {
        let own = self.dst.buf;
        let walk = |v: &View| {
            let base = if v.buf == own { v.base - cut } else { v.base };
            Walk::of(base, &v.dims, v.elem_size())
        };
        let (mut a, mut d) = (walk(self.a), walk(self.dst));
        let mut b = self.b.map(|v| (v, walk(v)));
        let (mut x, mut y) = ([0f32; PIECE], [0f32; PIECE]);
        let n = self.dst.num_elems();
        let mut state = S::default();
        let mut at = 0;
        while at < n {
            let k = PIECE.min(n - at);
            let from = if self.a.buf == own { &*buf } else { others.bytes(self.a.buf) };
            load(from, &mut a, self.a.dtype, &mut x[..k]);
            let second = match &mut b {
                Some((v, walk)) => {
                    let from = if v.buf == own { &*buf } else { others.bytes(v.buf) };
                    load(from, walk, v.dtype, &mut y[..k]);
                    &y[..k]
                }
                None => &[][..],
            };
            f(&mut state, first + at, &mut x[..k], second)?;
            store(buf, &mut d, self.dst.dtype, &x[..k], self.out);
            at += k;
        }
        Some(state)
    }
}

struct Moving<'a, const N: usize, T, In, Out> {
    from: Option<&'a [u8]>,
    to: &'a mut [u8],
    src: Walk,
    dst: Walk,
    left: usize,
    word: In,
    bytes: Out,
    carried: PhantomData<T>,
}

impl<const N: usize, T, In, Out> Kernel for Moving<'_, N, T, In, Out>
where
    T: Word,
    In: Fn([u8; N]) -> T,
    Out: Fn(T) -> [u8; N],
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Moving { from, to, mut src, mut dst, mut left, word, bytes, .. } = self;
        if src.stride() != N as isize || dst.stride() != N as isize {
            let mut piece = [T::default(); PIECE];
            while left > 0 {
                let piece = &mut piece[..PIECE.min(left)];
                Load { bytes: from.unwrap_or(to), walk: &mut src, out: piece, f: &word }.run();
                Store { bytes: to, walk: &mut dst, data: piece, f: &bytes }.run();
                left -= piece.len();
            }
            return;
        }
        let (mut a, mut an) = (0usize, 0usize);
        let (mut b, mut bn) = (0usize, 0usize);
        while left > 0 {
            if an == 0 {
                (a, an) = src.span(left);
            }
            if bn == 0 {
                (b, bn) = dst.span(left);
            }
            let n = an.min(bn);
            match from {
                Some(from) => to[b..b + n * N].copy_from_slice(&from[a..a + n * N]),
                None => to.copy_within(a..a + n * N, b),
            }
            a += n * N;
            b += n * N;
            an -= n;
            bn -= n;
            left -= n;
        }
    }
}

/// Copies the elements of `src` to `dst` as bits, without a copy in between; false, and nothing is done, when that would read
/// what was written. Both have the same number of elements of the same size.
pub(crate) fn copy(mem: &mut Memory, src: &View, dst: &View) -> bool {
    if dst.elem_size() != src.elem_size() || dst.num_elems() != src.num_elems() || !in_step(src, dst) {
        return false;
    }
    let cut = cut(mem, dst, &[src], PARALLEL);
    let mut to = mem.take(dst.buf);
    let from = (src.buf != dst.buf).then(|| mem.bytes(src.buf));
    match cut {
        None => move_elements(from, &mut to, src, dst, 0),
        Some((cut, row)) => {
            let (low, high) = to.split_at_mut(cut);
            let all = dst.partitions();
            mem.helper.join(
                || move_elements(from, low, &rows(src, 0, row), &rows(dst, 0, row), 0),
                || move_elements(from, high, &rows(src, row, all), &rows(dst, row, all), cut),
            );
        }
    }
    mem.put(dst.buf, to);
    true
}

/// Moves all elements as bits, in walk order; `to` holds the destination's buffer from byte `cut` on, which is read too where `from` is `None`.
pub(super) fn move_elements(from: Option<&[u8]>, to: &mut [u8], src: &View, dst: &View, cut: usize) {
    let walk = |v: &View, cut: usize| Walk::of(v.base - cut, &v.dims, v.elem_size());
    let src = walk(src, if from.is_none() { cut } else { 0 });
    let left = dst.num_elems();
    macro_rules! moving {
        ($n:literal, $t:ty, $word:expr, $bytes:expr) => {
            simd::run(Moving::<$n, $t, _, _> {
                from,
                to,
                src,
                dst: walk(dst, cut),
                left,
                word: $word,
                bytes: $bytes,
                carried: PhantomData,
            })
        };
    }
    match dst.elem_size() {
        1 => moving!(1, u32, |[b]: [u8; 1]| u32::from(b), |x| [x as u8]),
        2 => moving!(2, u32, |b| u32::from(u16::from_le_bytes(b)), |x| (x as u16).to_le_bytes()),
        4 => moving!(4, u32, u32::from_le_bytes, u32::to_le_bytes),
        _ => moving!(8, u64, u64::from_le_bytes, u64::to_le_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::BufId;
    use proptest::prelude::*;
    use tandem_bir::Dtype;

    fn view(base: usize, dims: &[(isize, usize)]) -> View {
        let dims = dims.iter().map(|&(stride, num)| Dim { stride: 4 * stride, num }).collect();
        View { buf: BufId(0), dtype: Dtype::Float32, base: 4 * base, dims }
    }

    fn memory() -> Memory {
        let mut m = Memory::new();
        let b = m.add(4 * 4096, 0);
        let words = m.bytes_mut(b).as_chunks_mut::<4>().0;
        words.iter_mut().enumerate().for_each(|(k, w)| *w = (k as f32).to_le_bytes());
        m
    }

    fn patterns() -> impl Strategy<Value = (Vec<usize>, Vec<isize>, Vec<isize>, usize, usize)> {
        (1usize..4).prop_flat_map(|n| {
            let steps = || proptest::collection::vec(-12isize..40, n);
            let near = 1500usize..1600;
            (proptest::collection::vec(1usize..9, n), steps(), steps(), near.clone(), near)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// Spans visit the elements that `offsets` names, in its order, whatever pieces are asked for.
        #[test]
        fn spans_are_the_walk((nums, a, _, base, _) in patterns(), most in 1usize..7) {
            let v = view(base, &a.into_iter().zip(nums).collect::<Vec<_>>());
            let mut w = Walk::new(&v);
            let mut got = Vec::new();
            while got.len() < v.num_elems() {
                let (at, n) = w.span(most.min(v.num_elems() - got.len()));
                got.extend((0..n as isize).map(|k| (at as isize + k * w.stride()) as usize));
            }
            prop_assert_eq!(got, v.offsets().collect::<Vec<_>>());
        }

        /// Copies and element-wise work without whole copies give what reading everything first gives, or are refused.
        #[test]
        fn pieces_give_what_whole_copies_give((nums, a, b, from, to) in patterns()) {
            let src = view(from, &a.into_iter().zip(nums.clone()).collect::<Vec<_>>());
            let dst = view(to, &b.into_iter().zip(nums).collect::<Vec<_>>());
            let (mut whole, mut piece) = (memory(), memory());
            let mut bytes = Vec::new();
            whole.gather(&src, &mut bytes);
            whole.scatter(&dst, &bytes);
            if copy(&mut piece, &src, &dst) {
                prop_assert_eq!(whole.bytes(BufId(0)), piece.bytes(BufId(0)));
            }
            let (mut whole, mut piece) = (memory(), memory());
            let rules = Rules::of(&crate::numeric_profile::NumericProfile::hw());
            if let Some(p) = Plan::new(&src, Some(&dst), &dst, Out { rules, arith: true }) {
                let done = p.run(&mut piece, |_: &mut (), _, x, y| {
                    x.iter_mut().zip(y).for_each(|(x, y)| *x = 2.0 * *x + y);
                    Some(())
                });
                prop_assert!(done.is_some());
                let (mut x, mut y) = (Vec::new(), Vec::new());
                whole.gather(&src, &mut x);
                whole.gather(&dst, &mut y);
                let f = |b: &[u8]| -> Vec<f32> {
                    b.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
                };
                let r: Vec<u8> =
                    f(&x).iter().zip(f(&y)).flat_map(|(x, y)| (2.0 * x + y).to_le_bytes()).collect();
                whole.scatter(&dst, &r);
                prop_assert_eq!(whole.bytes(BufId(0)), piece.bytes(BufId(0)));
            }
        }
    }
}
