//! Simulated memory: flat byte buffers and the strided views that operands are.
//!
//! Every storage is one flat buffer: a core's SBUF, a core's PSUM, a DRAM segment. On-chip buffers are
//! partition-major — byte `partition · pitch + offset` — so every operand, on chip or not, is a [`View`]: a base byte
//! and dimensions with byte strides, outermost first. Dimension 0 of an on-chip view runs over partitions.
//!
//! Guarantee: a view that the machine hands to an instruction has at least one element and lies inside its buffer
//! ([`View::fits`]), so that the code of an instruction may index without a check of its own.

use crate::pool::Helper;
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::Dtype;

/// Index of a buffer of [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufId(pub u32);

impl BufId {
    /// As a container index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a buffer stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufInfo {
    /// Bytes between partitions of an on-chip buffer.
    pub pitch: Option<usize>,
    /// PSUM, where matmuls accumulate.
    pub psum: bool,
}

/// All buffers of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    bufs: Vec<Vec<u8>>,
    info: Vec<BufInfo>,
    /// Per buffer the value that its bytes still have to be set to. Until then its pages are not in use.
    unfilled: Vec<Option<u8>>,
    /// Instructions that work on it stay on their thread.
    pub(crate) alone: bool,
    /// The thread that helps with large instructions.
    pub(crate) helper: Helper,
}

impl Memory {
    /// No buffers.
    pub fn new() -> Memory {
        Memory::default()
    }
    /// Adds a buffer of `len` bytes of the value `fill`.
    pub fn add(&mut self, len: usize, fill: u8) -> BufId {
        let id = BufId(self.bufs.len() as u32);
        self.bufs.push(vec![fill; len]);
        self.info.push(BufInfo::default());
        self.unfilled.push(None);
        id
    }
    /// Adds a buffer of `len` bytes that [`Memory::fill`] sets to `fill`, unless [`Memory::replace`] comes first. Nobody may look at
    /// it before.
    pub(crate) fn add_unfilled(&mut self, len: usize, fill: u8) -> BufId {
        let id = self.add(len, 0);
        self.unfilled[id.index()] = Some(fill);
        id
    }
    /// Gives a buffer its first content, if it has none yet.
    pub(crate) fn fill(&mut self, id: BufId) {
        if let Some(value) = self.unfilled[id.index()].take() {
            self.bufs[id.index()].fill(value);
        }
    }
    /// Gives all buffers their first content.
    pub(crate) fn fill_all(&mut self) {
        (0..self.bufs.len()).for_each(|b| self.fill(BufId(b as u32)));
    }
    /// The buffer consists of these bytes from now on; there are as many as it had.
    pub(crate) fn replace(&mut self, id: BufId, bytes: Vec<u8>) {
        debug_assert_eq!(bytes.len(), self.bufs[id.index()].len());
        self.unfilled[id.index()] = None;
        self.bufs[id.index()] = bytes;
    }
    /// The buffer is what it was made of, all zeros; whether it had no content yet.
    pub(crate) fn leave_zero(&mut self, id: BufId) -> bool {
        self.unfilled[id.index()].take().is_some()
    }
    /// Says what a buffer stands for.
    pub fn describe(&mut self, id: BufId, info: BufInfo) {
        self.info[id.index()] = info;
    }
    /// What a buffer stands for.
    pub fn info(&self, id: BufId) -> BufInfo {
        self.info[id.index()]
    }
    /// Number of buffers.
    pub fn len(&self) -> usize {
        self.bufs.len()
    }
    /// No buffers.
    pub fn is_empty(&self) -> bool {
        self.bufs.is_empty()
    }
    /// Bytes of a buffer.
    pub fn bytes(&self, id: BufId) -> &[u8] {
        &self.bufs[id.index()]
    }
    /// Bytes of a buffer, to write.
    pub fn bytes_mut(&mut self, id: BufId) -> &mut [u8] {
        &mut self.bufs[id.index()]
    }
    /// The same buffers, all empty.
    pub(crate) fn shell(&self) -> Memory {
        Memory {
            bufs: self.bufs.iter().map(|_| Vec::new()).collect(),
            info: self.info.clone(),
            unfilled: vec![None; self.bufs.len()],
            alone: false,
            helper: self.helper.clone(),
        }
    }
    /// An instruction on `size` elements is worth a second thread, if one on `least` is when that thread is awake.
    pub(crate) fn is_worth_two_threads(&self, size: usize, least: usize) -> bool {
        size >= least && !self.alone && rayon::current_num_threads() > 1 && self.helper.is_worth(size, least)
    }
    /// Takes a buffer out, to write it while others are read; [`Memory::put`] gives it back.
    pub(crate) fn take(&mut self, id: BufId) -> Vec<u8> {
        std::mem::take(&mut self.bufs[id.index()])
    }
    /// Gives a buffer back.
    pub(crate) fn put(&mut self, id: BufId, bytes: Vec<u8>) {
        self.bufs[id.index()] = bytes;
    }
    /// One buffer to read and another to write; `None` when they are the same.
    pub fn pair_mut(&mut self, read: BufId, write: BufId) -> Option<(&[u8], &mut [u8])> {
        let (r, w) = (read.index(), write.index());
        if r == w {
            return None;
        }
        if r < w {
            let (a, b) = self.bufs.split_at_mut(w);
            Some((&a[r], &mut b[0]))
        } else {
            let (a, b) = self.bufs.split_at_mut(r);
            Some((&b[0], &mut a[w]))
        }
    }

    /// Copies the elements of a view into `out` in walk order, packed; what `out` held is lost.
    pub fn gather(&self, v: &View, out: &mut Vec<u8>) {
        out.resize(v.num_bytes(), 0);
        let b = self.bytes(v.buf);
        let mut rest = &mut out[..];
        v.for_each_run(|at, len| {
            let (now, more) = std::mem::take(&mut rest).split_at_mut(len);
            now.copy_from_slice(&b[at..at + len]);
            rest = more;
        });
    }

    /// Writes packed elements to a view in walk order. Writes `min(view, data)` bytes.
    pub fn scatter(&mut self, v: &View, data: &[u8]) {
        let b = self.bytes_mut(v.buf);
        let mut from = 0;
        v.for_each_run(|at, len| {
            let n = len.min(data.len() - from);
            b[at..at + n].copy_from_slice(&data[from..from + n]);
            from += n;
        });
    }
}

/// One dimension of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    /// Bytes between neighbours; 0 is a broadcast, negative descends.
    pub stride: isize,
    /// Number of positions.
    pub num: usize,
}

/// Dimensions of a view. Most operands have two or three; more go to the heap, so that a million decoded instructions
/// stay small.
pub type Dims = SmallVec<[Dim; 3]>;

/// A memory operand: which bytes, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Buffer.
    pub buf: BufId,
    /// Element type.
    pub dtype: Dtype,
    /// Byte of the first element.
    pub base: usize,
    /// Dimensions, outermost first; dimension 0 is the partitions of an on-chip operand. Never empty.
    pub dims: Dims,
}

impl View {
    /// A one-dimensional packed view of `num` elements.
    pub fn linear(buf: BufId, dtype: Dtype, base: usize, num: usize) -> View {
        let mut dims = Dims::new();
        dims.push(Dim { stride: dtype.bytes() as isize, num });
        View { buf, dtype, base, dims }
    }
    /// Bytes of one element (container).
    pub fn elem_size(&self) -> usize {
        self.dtype.bytes() as usize
    }
    /// All elements.
    pub fn num_elems(&self) -> usize {
        self.dims.iter().map(|d| d.num).product()
    }
    /// All bytes.
    pub fn num_bytes(&self) -> usize {
        self.num_elems() * self.elem_size()
    }
    /// Positions of dimension 0: partitions of an on-chip operand.
    pub fn partitions(&self) -> usize {
        self.dims.first().map_or(0, |d| d.num)
    }
    /// Elements per position of dimension 0.
    pub fn elems_per_partition(&self) -> usize {
        self.dims.iter().skip(1).map(|d| d.num).product()
    }
    /// Dimensions after dimension 0.
    pub fn free_dims(&self) -> &[Dim] {
        self.dims.get(1..).unwrap_or(&[])
    }
    /// Bytes of its partition between which the elements of the first row lie, partitions being `pitch` apart; `None` when
    /// they leave it.
    pub(crate) fn columns(&self, pitch: usize) -> Option<Range<usize>> {
        let one = View { dims: SmallVec::from_slice(self.free_dims()), ..self.clone() };
        let first = (self.base / pitch * pitch) as i128;
        let (lo, hi) = one.byte_range()?;
        (lo >= first && hi <= first + pitch as i128).then(|| (lo - first) as usize..(hi - first) as usize)
    }
    /// The part of the view at position `p` of dimension 0.
    ///
    /// The result keeps a dimension 0 of one position.
    pub fn partition(&self, p: usize) -> View {
        let mut v = self.clone();
        if let Some(d) = v.dims.first_mut() {
            v.base = (v.base as isize + d.stride * p as isize) as usize;
            d.num = 1;
        }
        v
    }
    /// The elements at each position of dimension 0 are packed one after the other, in order.
    pub fn is_contiguous_rows(&self) -> bool {
        self.packed_inner(self.free_dims()) == self.free_dims().len()
    }
    /// All elements are packed one after the other, in order.
    pub fn is_contiguous(&self) -> bool {
        self.packed_inner(&self.dims) == self.dims.len()
    }
    /// It is all of a buffer of `len` bytes, in order.
    pub(crate) fn is_all_of(&self, len: usize) -> bool {
        self.base == 0 && self.num_bytes() == len && self.is_contiguous()
    }
    /// How many innermost dimensions of `dims` form one packed run.
    fn packed_inner(&self, dims: &[Dim]) -> usize {
        let mut want = self.elem_size() as isize;
        let mut k = 0;
        for d in dims.iter().rev() {
            if d.num != 1 && d.stride != want {
                break;
            }
            want *= d.num as isize;
            k += 1;
        }
        k
    }
    /// First and one-past-last byte touched, whatever lies between; `None` when empty or out of the number range.
    pub fn byte_range(&self) -> Option<(i128, i128)> {
        let (mut lo, mut hi) = (self.base as i128, self.base as i128);
        for d in &self.dims {
            let n = d.num.checked_sub(1)? as i128;
            let x = d.stride as i128 * n;
            if x < 0 {
                lo += x;
            } else {
                hi += x;
            }
        }
        Some((lo, hi + self.elem_size() as i128))
    }
    /// Has elements, all of them inside a buffer of `len` bytes.
    pub fn fits(&self, len: usize) -> bool {
        !self.dims.is_empty() && self.byte_range().is_some_and(|(lo, hi)| lo >= 0 && hi <= len as i128)
    }
    /// Byte offset of every element in walk order (row-major, last dimension fastest).
    pub fn offsets(&self) -> Offsets<'_> {
        Offsets {
            dims: &self.dims,
            pos: SmallVec::from_elem(0, self.dims.len()),
            at: self.base as isize,
            left: self.num_elems(),
        }
    }
    /// Calls `f(byte, length)` for each packed run in walk order.
    pub fn for_each_run(&self, mut f: impl FnMut(usize, usize)) {
        let k = self.packed_inner(&self.dims);
        let outer = &self.dims[..self.dims.len() - k];
        let run = self.dims[outer.len()..].iter().map(|d| d.num).product::<usize>() * self.elem_size();
        if run == 0 {
            return;
        }
        let (last, outer) = outer.split_last().map_or((Dim { stride: 0, num: 1 }, outer), |(d, o)| (*d, o));
        let it = Offsets {
            dims: outer,
            pos: SmallVec::from_elem(0, outer.len()),
            at: self.base as isize,
            left: outer.iter().map(|d| d.num).product(),
        };
        for at in it {
            let mut at = at as isize;
            for _ in 0..last.num {
                f(at as usize, run);
                at += last.stride;
            }
        }
    }
}

/// Iterator of [`View::offsets`].
#[derive(Clone, Debug)]
pub struct Offsets<'a> {
    dims: &'a [Dim],
    pos: SmallVec<[usize; 4]>,
    at: isize,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let out = self.at as usize;
        for (d, i) in self.dims.iter().zip(self.pos.iter_mut()).rev() {
            *i += 1;
            self.at += d.stride;
            if *i < d.num {
                break;
            }
            self.at -= d.stride * d.num as isize;
            *i = 0;
        }
        Some(out)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(base: usize, dims: &[(isize, usize)]) -> View {
        View {
            buf: BufId(0),
            dtype: Dtype::Uint16,
            base,
            dims: dims.iter().map(|&(stride, num)| Dim { stride, num }).collect(),
        }
    }

    /// Closed form: row-major nested loops.
    fn by_loops(v: &View) -> Vec<usize> {
        let mut out = Vec::new();
        for e in 0..v.num_elems() {
            let (mut rest, mut at) = (e, v.base as isize);
            for d in v.dims.iter().rev() {
                at += (rest % d.num) as isize * d.stride;
                rest /= d.num;
            }
            out.push(at as usize);
        }
        out
    }

    proptest! {
        #[test]
        fn walk_and_runs_agree_with_nested_loops(
            dims in proptest::collection::vec((-6isize..7, 1usize..4), 1..5)
        ) {
            let dims: Vec<_> = dims.into_iter().map(|(s, n)| (s * 2, n)).collect();
            let v = view(200, &dims);
            let want = by_loops(&v);
            prop_assert_eq!(v.offsets().collect::<Vec<_>>(), want.clone());
            let mut runs = Vec::new();
            v.for_each_run(|at, len| runs.extend((at..at + len).step_by(2)));
            prop_assert_eq!(runs, want.clone());
            let (lo, hi) = v.byte_range().unwrap();
            prop_assert_eq!(lo, *want.iter().min().unwrap() as i128);
            prop_assert_eq!(hi, *want.iter().max().unwrap() as i128 + 2);
        }
    }

    #[test]
    fn merges_packed_rows_into_one_run() {
        let v = view(0, &[(8, 3), (2, 4)]);
        assert!(v.is_contiguous() && v.is_contiguous_rows());
        let mut runs = Vec::new();
        v.for_each_run(|a, n| runs.push((a, n)));
        assert_eq!(runs, [(0, 24)]);
        assert!(!view(0, &[(16, 3), (4, 4)]).is_contiguous_rows());
    }

    #[test]
    fn fits_is_exact_at_the_end_and_below_zero() {
        let v = view(0, &[(8, 3), (2, 4)]);
        assert!(v.fits(24) && !v.fits(23));
        assert!(!view(2, &[(-4, 2)]).fits(100));
        assert!(!view(0, &[(2, 0)]).fits(100));
    }
}
