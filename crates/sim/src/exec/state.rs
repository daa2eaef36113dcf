//! What instructions keep between each other on one core: accumulators, open PSUM groups, random state.

use crate::memory::{BufId, View};
use crate::num::rng::{Mt19937_64, Stream, Xorwow};
use std::collections::BTreeMap;
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

/// Bytes of a PSUM buffer that belong to an open accumulation group, and those a non-matmul instruction wrote.
#[derive(Clone, Debug, Default)]
struct PsumBits {
    open: Vec<bool>,
    /// Bytes read since they were last written by a matmul that left them open.
    read: Vec<bool>,
    /// Bytes last written by another kind of instruction.
    foreign: Vec<bool>,
    /// Bytes of an explicit group whose last matmul was not marked as the last.
    unfinished: Vec<bool>,
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
        b.num_open += b.open[r.clone()].iter().filter(|o| !**o).count();
        b.open[r.clone()].fill(true);
        b.read[r.clone()].fill(false);
        b.any_unfinished |= !finished;
        if b.any_unfinished {
            b.unfinished[r.clone()].fill(!finished);
        }
        b.foreign[r].fill(false);
    }
    /// Some byte of the view belongs to an explicit group that has not seen its last matmul.
    pub fn is_unfinished(&self, v: &View) -> bool {
        let Some(b) = self.bufs.get(&v.buf).filter(|b| b.any_unfinished) else { return false };
        let mut found = false;
        v.for_each_run(|at, len| found |= b.unfinished.get(at..at + len).is_some_and(|s| s.contains(&true)));
        found
    }
    /// How much of a view is open: a matmul accumulates onto open elements and overwrites the others.
    pub fn open_state(&self, v: &View) -> OpenState {
        let Some(b) = self.bufs.get(&v.buf).filter(|b| b.num_open > 0) else {
            return OpenState { any: false, all: false, was_read: self.was_read(v) };
        };
        let (mut any, mut all) = (false, true);
        v.for_each_run(|at, len| match b.open.get(at..at + len) {
            Some(s) => {
                let n = s.iter().filter(|o| **o).count();
                any |= n > 0;
                all &= n == len;
            }
            None => all = false,
        });
        OpenState { any, all, was_read: !all && self.was_read(v) }
    }
    /// The element at a byte is open as a whole.
    pub fn is_open(&self, buf: BufId, at: usize, size: usize) -> bool {
        self.bufs.get(&buf).is_some_and(|b| b.open.get(at..at + size).is_some_and(|s| !s.contains(&false)))
    }
    /// Some byte was closed by a read, not by a write.
    fn was_read(&self, v: &View) -> bool {
        let Some(b) = self.bufs.get(&v.buf) else { return false };
        let mut found = false;
        v.for_each_run(|at, len| found |= b.read.get(at..at + len).is_some_and(|s| s.contains(&true)));
        found
    }
    /// Some byte of the view was last written by something else than a matmul.
    pub fn is_foreign(&self, v: &View) -> bool {
        let Some(b) = self.bufs.get(&v.buf) else { return false };
        let mut found = false;
        v.for_each_run(|at, len| found |= b.foreign.get(at..at + len).is_some_and(|s| s.contains(&true)));
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
            let r = at..(at + len).min(b.open.len());
            for (o, read) in b.open[r.clone()].iter_mut().zip(&mut b.read[r]) {
                *read |= *o;
                closed += usize::from(*o);
                *o = false;
            }
        });
        b.num_open -= closed;
    }
    /// An instruction other than a matmul wrote the view: its bytes close.
    pub fn note_foreign(&mut self, v: &View, buf_len: usize) {
        let b = self.bufs.entry(v.buf).or_default();
        b.resize(buf_len);
        let mut closed = 0;
        v.for_each_run(|at, len| {
            let r = at..(at + len).min(b.open.len());
            closed += b.open[r.clone()].iter().filter(|o| **o).count();
            b.open[r.clone()].fill(false);
            b.read[r.clone()].fill(false);
            b.unfinished[r.clone()].fill(false);
            b.foreign[r].fill(true);
        });
        b.num_open -= closed;
    }
}

impl PsumBits {
    fn resize(&mut self, len: usize) {
        if self.open.len() < len {
            self.open.resize(len, false);
            self.read.resize(len, false);
            self.foreign.resize(len, false);
            self.unfinished.resize(len, false);
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
