//! The events of a timed run, as a stream: what a picture of the run is drawn from.
//!
//! A caller hands a [`TraceSink`] to [`Ready::run_traced`](crate::Ready::run_traced). Once the run has finished its methods are
//! called in this order:
//!
//! 1. [`begin`](TraceSink::begin), once;
//! 2. for each subgraph: [`lane`](TraceSink::lane) for the DMA engines' work, then [`slice`](TraceSink::slice) for every
//!    execution, core by core, then [`lifetime`](TraceSink::lifetime) and [`memory`](TraceSink::memory);
//! 3. [`end`](TraceSink::end), once.
//!
//! Nothing is called when the run does not finish. Every event is handed over once and not kept: a sink that writes at once
//! needs no memory per event. Names, types and source positions are looked up in the program by module and instruction.
//! Times are picoseconds from the start of the run, the fixed overhead included. The same program, inputs and numbers give
//! the same events in the same order.
//!
//! # Tracks
//!
//! * [`Track::Engine`]: the instructions of an in-order engine, from issue until the engine is free again. They never overlap
//!   and come in order of time.
//! * [`Track::Control`]: what holds all engines of a core (branches, loop edges, core barriers, instructions of engine ALL).
//!   Never overlaps itself, nor an instruction on an engine of that core.
//! * [`Track::Dma`]: one DMA engine working for one queue. A DMA engine serves one packet at a time, so no two runs of packets
//!   of one DMA engine overlap, whatever their queues; they come in order of time.
//!
//! A transfer is both: a short trigger on its engine (the slice) and work on DMA engines (the lanes, which name the slice).
//!
//! # Sums
//!
//! Slices on an engine and on the core's control track add up to [`EngineReport::held_ps`](super::EngineReport::held_ps);
//! lanes of a DMA engine to [`CoreReport::dma_busy_ps`](super::CoreReport::dma_busy_ps).

use super::params::{BackEnd, Generation};
use tandem_bir::{EngineKind, InstId, MemLocId, MemoryType, Program};

/// Where something happens on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// An in-order engine: PE, Activation, DVE, Pool or SP.
    Engine(EngineKind),
    /// All engines of the core together.
    Control,
    /// A DMA engine (0 to 15) serving the queue of an engine.
    Dma {
        /// The DMA engine.
        engine: u8,
        /// Whose queue it serves.
        queue: EngineKind,
    },
}

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct TraceHead<'a> {
    /// The program that ran, at level `lowered` or `linked`.
    pub program: &'a Program,
    /// Generation.
    pub generation: Generation,
    /// Formulas.
    pub back_end: BackEnd,
    /// Simulated cores; core `c` is core `c mod lnc` of LNC `c div lnc`.
    pub cores: usize,
    /// Cores of an LNC.
    pub lnc: usize,
    /// Time before the first instruction.
    pub overhead_ps: u64,
}

/// Why a flow arrow is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKind {
    /// A semaphore from an instruction on another engine.
    Semaphore,
    /// The completion of a transfer.
    Dma,
    /// The end of the block or stretch before: the last instruction on another engine to complete.
    Join,
    /// The partner of a swap who came last.
    Swap,
    /// The member of a collective who came last.
    Collective,
    /// The core that came last at a CoreBarrier.
    Barrier,
    /// The writer of a location whose completion token came last.
    Token,
    /// The transfer of another core that a transfer with remote notification waited for.
    Notify,
}

impl FlowKind {
    /// Its name, for labels.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Semaphore => "semaphore",
            FlowKind::Dma => "dma",
            FlowKind::Join => "join",
            FlowKind::Swap => "swap",
            FlowKind::Collective => "collective",
            FlowKind::Barrier => "barrier",
            FlowKind::Token => "token",
            FlowKind::Notify => "notify",
        }
    }
}

/// One end of an arrow: each id is in exactly one `flows_out` and exactly one `flows_in` of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Number of the arrow, unique in the run.
    pub id: u64,
    /// Why.
    pub kind: FlowKind,
}

/// What an execution that moves data through DMA engines does beyond its trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceTransfer {
    /// Engine whose queue takes it.
    pub queue: EngineKind,
    /// Its first DMA engine may start.
    pub start_ps: u64,
    /// Its last byte is there.
    pub end_ps: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// One execution of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct TraceSlice<'a> {
    /// Number of the execution, unique in the run.
    pub id: u64,
    /// Simulated core.
    pub core: usize,
    /// Index in the program's modules.
    pub module: usize,
    /// The instruction, of that module.
    pub inst: InstId,
    /// [`Track::Engine`] or [`Track::Control`].
    pub track: Track,
    /// Issued.
    pub start_ps: u64,
    /// Its engine is free again; the slice's end.
    pub free_ps: u64,
    /// Its result is there; for a transfer, its last byte. A meeting with remote notification may end later.
    pub done_ps: u64,
    /// Part of the slice that waits for partners (a barrier or token: all of it).
    pub partner_ps: u64,
    /// For a transfer.
    pub transfer: Option<TraceTransfer>,
    /// Arrows that start here.
    pub flows_out: &'a [Flow],
    /// Arrows that end here: what this execution waited for last, when that is on another engine, queue or core. At most one
    /// for its start, at most one for its meeting.
    pub flows_in: &'a [Flow],
}

/// A run of packets of one transfer on a DMA engine, without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLane {
    /// Simulated core.
    pub core: usize,
    /// The transfer: [`TraceSlice::id`] of its execution.
    pub slice: u64,
    /// Index in the program's modules.
    pub module: usize,
    /// The instruction, of that module.
    pub inst: InstId,
    /// DMA engine, 0 to 15.
    pub engine: u8,
    /// Engine whose queue the transfer is in.
    pub queue: EngineKind,
    /// Start of the first packet.
    pub start_ps: u64,
    /// End of the last packet.
    pub end_ps: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// An SBUF or PSUM location in use: from the first instruction that touches it to the end of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Simulated core.
    pub core: usize,
    /// Index in the program's modules.
    pub module: usize,
    /// The location, of that module; its address, bank, partitions and bytes are there.
    pub loc: MemLocId,
    /// First use.
    pub start_ps: u64,
    /// End of the last use.
    pub end_ps: u64,
}

/// Bytes of SBUF or PSUM that live locations take, from this time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Simulated core.
    pub core: usize,
    /// [`MemoryType::Sb`] or [`MemoryType::Psum`].
    pub memory: MemoryType,
    /// When.
    pub at_ps: u64,
    /// Bytes over all partitions.
    pub bytes: u64,
}

/// Takes the events of a timed run; see the [module](self) for their order. Every method may be left out.
pub trait TraceSink {
    /// The run has finished; events follow.
    fn begin(&mut self, head: &TraceHead<'_>) {
        let _ = head;
    }
    /// An execution.
    fn slice(&mut self, slice: &TraceSlice<'_>) {
        let _ = slice;
    }
    /// Work of a DMA engine.
    fn lane(&mut self, lane: &TraceLane) {
        let _ = lane;
    }
    /// A location in use.
    fn lifetime(&mut self, life: &Lifetime) {
        let _ = life;
    }
    /// A new level of memory in use; per core and memory in order of time, one event per time.
    fn memory(&mut self, usage: &MemoryUse) {
        let _ = usage;
    }
    /// There are no more events; the predicted time.
    fn end(&mut self, total_ps: u64) {
        let _ = total_ps;
    }
}
