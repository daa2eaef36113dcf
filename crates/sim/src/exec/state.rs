//! What instructions keep between each other on one core: accumulators, open PSUM groups, random state.

use crate::memory::{BufId, View};
use crate::num::rng::{Mt19937_64, Stream, Xorwow};
use std::collections::BTreeMap;
use std::ops::Range;
use tandem_bir::EngineKind;

/// Lanes of an engine, one per partition.
pub const LANES: usize = 128;

/// Content of one accumulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccValue {
    /// A value.
    Value(f32),
    /// Unspecified after an instruction with command Idle.
    Poison,
}

/// The accumulators of an engine, one per partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulators(pub [AccValue; LANES]);

impl Default for Accumulators {
    fn default() -> Self {
        Accumulators([AccValue::Value(0.0); LANES])
    }
}

/// A word of a [`ByteSet`], and some of its bits.
type Masked = (usize, u64);

/// A set of bytes of a buffer, one bit for each.
#[derive(Clone, Debug, Default)]
struct ByteSet {
    words: Vec<u64>,
}

impl ByteSet {
    const BITS: usize = u64::BITS as usize;

    /// The first word that has bits of a range, with those bits; the whole words; the last one, unless it is the first.
    fn parts(r: Range<usize>) -> (Masked, Range<usize>, Option<Masked>) {
        let (first, last) = (r.start / Self::BITS, r.end.saturating_sub(1) / Self::BITS);
        let head = u64::MAX << (r.start % Self::BITS);
        let tail = u64::MAX >> (Self::BITS - 1 - r.end.saturating_sub(1) % Self::BITS);
        if r.is_empty() {
            ((0, 0), 0..0, None)
        } else if first == last {
            ((first, head & tail), 0..0, None)
        } else {
            ((first, head), first + 1..last, Some((last, tail)))
        }
    }
    fn resize(&mut self, len: usize) {
        self.words.resize(len.div_ceil(Self::BITS).max(1), 0);
    }
    /// The range must lie inside the buffer.
    fn fill(&mut self, r: Range<usize>, value: bool) {
        let (head, whole, tail) = Self::parts(r);
        for (w, mask) in [head].into_iter().chain(tail) {
            self.words[w] = if value { self.words[w] | mask } else { self.words[w] & !mask };
        }
        self.words[whole].fill(if value { u64::MAX } else { 0 });
    }
    fn count(&self, r: Range<usize>) -> usize {
        let (head, whole, tail) = Self::parts(r);
        let ends =
            [head].into_iter().chain(tail).map(|(w, mask)| (self.words[w] & mask).count_ones() as usize);
        // Mostly all or nothing.
        let whole = self.words[whole]
            .iter()
            .map(|w| if *w == u64::MAX { Self::BITS } else { w.count_ones() as usize });
        ends.sum::<usize>() + whole.sum::<usize>()
    }
    fn any(&self, r: Range<usize>) -> bool {
        let (head, whole, tail) = Self::parts(r);
        [head].into_iter().chain(tail).any(|(w, mask)| self.words[w] & mask != 0)
            || self.words[whole].iter().any(|w| *w != 0)
    }
    /// Empties a range, whose members become members of `other`, and gives their number.
    fn drain_into(&mut self, r: Range<usize>, other: &mut ByteSet) -> usize {
        let (head, whole, tail) = Self::parts(r);
        let mut moved = 0;
        for (w, mask) in [head].into_iter().chain(tail).chain(whole.map(|w| (w, u64::MAX))) {
            let now = self.words[w] & mask;
            self.words[w] &= !mask;
            other.words[w] |= now;
            moved += now.count_ones() as usize;
        }
        moved
    }
}

/// Bytes of a PSUM buffer that belong to an open accumulation group, and those a non-matmul instruction wrote.
#[derive(Clone, Debug, Default)]
struct PsumBits {
    /// Bytes of the buffer.
    len: usize,
    open: ByteSet,
    /// Bytes read since they were last written by a matmul that left them open.
    read: ByteSet,
    /// Bytes last written by another kind of instruction.
    foreign: ByteSet,
    /// Bytes of an explicit group whose last matmul was not marked as the last.
    unfinished: ByteSet,
    any_unfinished: bool,
    num_open: usize,
}

/// What is known about the elements of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenState {
    /// Some byte is open.
    pub any: bool,
    /// Every byte is open.
    pub all: bool,
    /// Some byte was closed by a read.
    pub was_read: bool,
}

/// Which PSUM bytes a matmul accumulates onto (the automatic rule).
#[derive(Clone, Debug, Default)]
pub struct PsumGroups {
    bufs: BTreeMap<BufId, PsumBits>,
}

impl PsumGroups {
    /// Opens the bytes `[at, at + len)` of a buffer of `buf_len` bytes; called for every matmul write. `finished` is
    /// false for a matmul of an explicit group that is not its last.
    pub fn open(&mut self, buf: BufId, buf_len: usize, at: usize, len: usize, finished: bool) {
        let b = self.bufs.entry(buf).or_default();
        b.resize(buf_len);
        let r = at..(at + len).min(buf_len);
        b.num_open += r.len() - b.open.count(r.clone());
        b.open.fill(r.clone(), true);
        b.read.fill(r.clone(), false);
        b.any_unfinished |= !finished;
        if b.any_unfinished {
            b.unfinished.fill(r.clone(), !finished);
        }
        b.foreign.fill(r, false);
    }
    /// Some byte of the view belongs to an explicit group that has not seen its last matmul.
    pub fn is_unfinished(&self, v: &View) -> bool {
        let Some(b) = self.bufs.get(&v.buf).filter(|b| b.any_unfinished) else { return false };
        let mut found = false;
        v.for_each_run(|at, len| found |= at + len <= b.len && b.unfinished.any(at..at + len));
        found
    }
    /// How much of a view is open: a matmul accumulates onto open elements and overwrites the others.
    pub fn open_state(&self, v: &View) -> OpenState {
        let Some(b) = self.bufs.get(&v.buf).filter(|b| b.num_open > 0) else {
            return OpenState { any: false, all: false, was_read: self.was_read(v) };
        };
        let (mut any, mut all) = (false, true);
        v.for_each_run(|at, len| {
            let n = if at + len <= b.len { b.open.count(at..at + len) } else { 0 };
            any |= n > 0;
            all &= n == len;
        });
        OpenState { any, all, was_read: !all && self.was_read(v) }
    }
    /// The element at a byte is open as a whole.
    pub fn is_open(&self, buf: BufId, at: usize, size: usize) -> bool {
        self.bufs.get(&buf).is_some_and(|b| at + size <= b.len && b.open.count(at..at + size) == size)
    }
    /// Some byte was closed by a read, not by a write.
    fn was_read(&self, v: &View) -> bool {
        let Some(b) = self.bufs.get(&v.buf) else { return false };
        let mut found = false;
        v.for_each_run(|at, len| found |= at + len <= b.len && b.read.any(at..at + len));
        found
    }
    /// Some byte of the view was last written by something else than a matmul.
    pub fn is_foreign(&self, v: &View) -> bool {
        let Some(b) = self.bufs.get(&v.buf) else { return false };
        let mut found = false;
        v.for_each_run(|at, len| found |= at + len <= b.len && b.foreign.any(at..at + len));
        found
    }
    /// Any instruction read the view: its bytes close. The machine calls this for what it reads itself.
    pub fn note_read(&mut self, v: &View) {
        let Some(b) = self.bufs.get_mut(&v.buf) else { return };
        if b.num_open == 0 {
            return;
        }
        let mut closed = 0;
        v.for_each_run(|at, len| {
            closed += b.open.drain_into(at..(at + len).min(b.len), &mut b.read);
        });
        b.num_open -= closed;
    }
    /// An instruction other than a matmul wrote the view: its bytes close.
    pub fn note_foreign(&mut self, v: &View, buf_len: usize) {
        let b = self.bufs.entry(v.buf).or_default();
        b.resize(buf_len);
        let mut closed = 0;
        v.for_each_run(|at, len| {
            let r = at..(at + len).min(b.len);
            closed += b.open.count(r.clone());
            b.open.fill(r.clone(), false);
            b.read.fill(r.clone(), false);
            b.unfinished.fill(r.clone(), false);
            b.foreign.fill(r, true);
        });
        b.num_open -= closed;
    }
}

impl PsumBits {
    fn resize(&mut self, len: usize) {
        if self.len < len {
            self.len = len;
            for set in [&mut self.open, &mut self.read, &mut self.foreign, &mut self.unfinished] {
                set.resize(len);
            }
        }
    }
}

/// Random state of a core.
#[derive(Clone, Debug, Default)]
pub struct RngState {
    /// The host generator behind Memset(Random) off the Pool engine.
    pub host: Mt19937_64,
    /// XORWOW lanes by engine and partition: one lane on Pool, four elsewhere. Missing means all ones.
    pub xorwow: BTreeMap<(EngineKind, usize), Vec<Xorwow>>,
    /// Streams of IT 100.
    pub keyed: BTreeMap<(EngineKind, usize), Xorwow>,
    /// Streams of IT 60 by engine, partition and kind of generator.
    pub streams: BTreeMap<(EngineKind, usize, u8), Stream>,
}

/// State that instructions keep between each other on one core.
#[derive(Clone, Debug, Default)]
pub struct EngineState {
    /// Accumulators of the Activation engine.
    pub act: Accumulators,
    /// Accumulators of the Vector engine, shared by all its accumulating instructions.
    pub dve: Accumulators,
    /// Accumulators of GPSIMD.
    pub pool: Accumulators,
    /// Open PSUM bytes.
    pub psum: PsumGroups,
    /// Random state.
    pub rng: RngState,
}

impl EngineState {
    /// The accumulators an engine uses.
    pub fn acc_mut(&mut self, engine: EngineKind) -> &mut Accumulators {
        match engine {
            EngineKind::Activation => &mut self.act,
            EngineKind::Pool => &mut self.pool,
            EngineKind::Dve
            | EngineKind::Unassigned
            | EngineKind::Pe
            | EngineKind::Dma
            | EngineKind::Sp
            | EngineKind::All => &mut self.dve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one flag per byte.
        #[test]
        fn a_byte_set_is_a_flag_per_byte(
            len in 1usize..400,
            steps in proptest::collection::vec((0usize..500, 0usize..300, any::<bool>()), 1..20),
        ) {
            let (mut set, mut flags) = (ByteSet::default(), vec![false; len]);
            set.resize(len);
            for (at, n, value) in steps {
                let r = at.min(len)..(at + n).min(len);
                let marked = flags[r.clone()].iter().filter(|f| **f).count();
                prop_assert_eq!(set.count(r.clone()), marked);
                prop_assert_eq!(set.any(r.clone()), marked > 0);
                set.fill(r.clone(), value);
                flags[r.clone()].fill(value);
                let (mut from, mut into) = (set.clone(), ByteSet::default());
                into.resize(len);
                let all = set.count(0..len);
                prop_assert_eq!(from.drain_into(r.clone(), &mut into), set.count(r.clone()));
                prop_assert_eq!(into.count(r.clone()), set.count(r.clone()));
                prop_assert_eq!((from.any(r), from.count(0..len) + into.count(0..len)), (false, all));
                prop_assert_eq!(set.count(0..len), flags.iter().filter(|f| **f).count());
            }
        }
    }
}
