//! What a timing run hands back.
//!
//! Names of the vendor's profiler are used where it has the quantity: see [`TimingReport::summary`] and
//! [`TimingReport::core_barriers`].

mod build;
mod json;
mod path;
mod text;

pub(crate) use build::Builder;

use super::cost::LANES;
use super::params::{BackEnd, Generation};
use indexmap::IndexMap;
use tandem_bir::diag::SourcePos;
use tandem_bir::{EngineKind, Opcode};

/// Rows of [`TimingReport::barriers`] that are kept (our choice); totals count all.
pub const MAX_BARRIER_ROWS: usize = 10_000;

/// Why an engine waits.
const REASONS: [&str; 8] = ["semaphore", "dma", "join", "core barrier", "partner", "port", "pe ramp", "idle"];
const R_SEM: usize = 0;
const R_DMA: usize = 1;
const R_JOIN: usize = 2;
const R_BARRIER: usize = 3;
const R_PARTNER: usize = 4;
const R_PORT: usize = 5;
const R_RAMP: usize = 6;
const R_IDLE: usize = 7;

/// An engine over the whole run; times in picoseconds. Busy time and waits add up to the run without its fixed overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineReport {
    /// The engine.
    pub engine: EngineKind,
    /// Instructions executed.
    pub instructions: u64,
    /// Executing.
    pub busy_ps: u64,
    /// From issue until free again, over all its instructions: executing, and waiting inside an instruction.
    pub held_ps: u64,
    /// Waiting, by reason; reasons without time are left out. `idle` is after its last instruction.
    pub waits_ps: Vec<(&'static str, u64)>,
}

/// Bytes moved between memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from HBM by transfers.
    pub hbm_read: u64,
    /// Written to HBM by transfers.
    pub hbm_written: u64,
    /// Read from SBUF by instructions and transfers.
    pub sbuf_read: u64,
    /// Written to SBUF by instructions and transfers.
    pub sbuf_written: u64,
    /// Read from PSUM by instructions and transfers.
    pub psum_read: u64,
    /// Written to PSUM by instructions and transfers.
    pub psum_written: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, o: &Traffic) {
        let Traffic { hbm_read, hbm_written, sbuf_read, sbuf_written, psum_read, psum_written } = self;
        for (a, b) in [
            (hbm_read, o.hbm_read),
            (hbm_written, o.hbm_written),
            (sbuf_read, o.sbuf_read),
            (sbuf_written, o.sbuf_written),
            (psum_read, o.psum_read),
            (psum_written, o.psum_written),
        ] {
            *a = a.saturating_add(b);
        }
    }
}

/// A core over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreReport {
    /// Index of the simulated core.
    pub core: usize,
    /// Engines that executed something.
    pub engines: Vec<EngineReport>,
    /// Branches, loop edges, CoreBarriers and instructions of all engines: from issue until the engines are free again.
    pub control_ps: u64,
    /// From arrival at CoreBarriers until leaving them.
    pub barrier_ps: u64,
    /// From arrival at swaps and collectives until their end.
    pub swap_ps: u64,
    /// From arrival at completion tokens until their end.
    pub token_ps: u64,
    /// Swaps and collectives executed.
    pub swaps: u64,
    /// Transfers.
    pub transfers: u64,
    /// Transfers whose descriptors are made at run time, by software and by hardware.
    pub dynamic_transfers: [u64; 2],
    /// Bytes moved by transfers.
    pub dma_bytes: u64,
    /// Moving packets, per DMA engine.
    pub dma_busy_ps: [u64; LANES],
    /// At least one DMA engine moves a packet.
    pub dma_active_ps: u64,
    /// From trigger to last byte, over all transfers.
    pub transfer_ps: u64,
    /// Bytes moved, by memory.
    pub traffic: Traffic,
    /// Bytes handed to partners by swaps and collectives.
    pub swap_bytes: u64,
    /// Arithmetic operations; movers count none.
    pub flops: u64,
    /// Those of matrix products.
    pub matmul_flops: u64,
    /// What transposes on the PE array would count; not among [`Self::flops`].
    pub transpose_flops: u64,
    /// Matrix products.
    pub matmuls: u64,
}

/// An instruction on the critical path, all its executions together.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// Core.
    pub core: usize,
    /// Name of the instruction.
    pub name: String,
    /// Its type.
    pub opcode: Opcode,
    /// Source position, when known.
    pub pos: Option<SourcePos>,
    /// Times it is on the path.
    pub count: u64,
    /// Time of the path in it and in the wait before it.
    pub ps: u64,
}

/// A barrier, swap, collective or token, all executions on a core together.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncRow {
    /// Core.
    pub core: usize,
    /// Name of the instruction.
    pub name: String,
    /// Its type.
    pub opcode: Opcode,
    /// Source position, when known.
    pub pos: Option<SourcePos>,
    /// Executions.
    pub count: u64,
    /// From arrival to end.
    pub total_ps: u64,
    /// Part of it until the last partner arrived.
    pub partner_ps: u64,
}

/// One execution of a CoreBarrier on one core.
#[derive(Clone, Debug, PartialEq)]
pub struct BarrierRow {
    /// Core.
    pub core: usize,
    /// Name of the instruction.
    pub name: String,
    /// Barrier id.
    pub id: i64,
    /// Engine that executes it.
    pub engine: EngineKind,
    /// Source position, when known.
    pub pos: Option<SourcePos>,
    /// The core arrives.
    pub start_ps: u64,
    /// The core goes on.
    pub end_ps: u64,
    /// Until the last core has arrived.
    pub late_ps: u64,
    /// The core that arrived last.
    pub last: usize,
}

/// Predicted time of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimingReport {
    /// Back end.
    pub back_end: BackEnd,
    /// Generation.
    pub generation: Generation,
    /// Everything, with the fixed overhead.
    pub total_ps: u64,
    /// Fixed overhead.
    pub overhead_ps: u64,
    /// Length of the critical path, with the fixed overhead.
    pub critical_ps: u64,
    /// Time of the critical path by the certainty of its numbers, in the order of [`Certainty::ALL`](super::Certainty::ALL).
    pub by_certainty_ps: [u64; 4],
    /// Subgraphs, which run one after the other: their times, without the fixed overhead.
    pub subgraphs_ps: Vec<u64>,
    /// Cores.
    pub cores: Vec<CoreReport>,
    /// Critical path by instruction, longest first.
    pub critical: Vec<PathStep>,
    /// Barriers, swaps, collectives, tokens.
    pub syncs: Vec<SyncRow>,
    /// Executions of CoreBarriers by core, at most [`MAX_BARRIER_ROWS`].
    pub barriers: Vec<BarrierRow>,
    /// Executions of CoreBarriers beyond those.
    pub more_barriers: u64,
    /// Delay of packets by the HBM cap, all DMA engines together.
    pub hbm_wait_ps: u64,
    /// 16-bit peak of the PE array of one core, in operations per second.
    pub peak_flops: f64,
    /// HBM bandwidth of the cores that ran, in bytes per second.
    pub peak_hbm: f64,
}

impl TimingReport {
    /// Total in nanoseconds.
    pub fn total_ns(&self) -> f64 {
        self.total_ps as f64 / 1000.0
    }
    /// Time on the critical path per source line, longest first.
    pub fn by_line(&self) -> Vec<(String, u64)> {
        let mut m: IndexMap<String, u64> = IndexMap::new();
        for s in &self.critical {
            let at =
                s.pos.as_ref().map_or_else(|| "(no source)".to_owned(), |p| format!("{}:{}", p.file, p.line));
            *m.entry(at).or_default() += s.ps;
        }
        let mut v: Vec<(String, u64)> = m.into_iter().collect();
        v.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        v
    }
    /// Operations, bytes read from and written to HBM.
    fn sums(&self) -> (u64, u64, u64) {
        self.cores.iter().fold((0, 0, 0), |a, c| {
            (
                a.0.saturating_add(c.flops),
                a.1.saturating_add(c.traffic.hbm_read),
                a.2.saturating_add(c.traffic.hbm_written),
            )
        })
    }
    fn per_second(&self, n: u64) -> f64 {
        if self.total_ps == 0 { 0.0 } else { n as f64 / (self.total_ps as f64 * 1e-12) }
    }
    /// Peak of all cores.
    fn peak(&self) -> f64 {
        self.peak_flops * self.cores.len() as f64
    }
}
