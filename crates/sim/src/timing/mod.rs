//! Predicted time: costs attached to the functional machine.
//!
//! The machine runs as ever; an observer (`record`) notes every execution with its cost, its place in its queue, its producers
//! and its meetings. The clock then gives each its times. One scheduler decides what happens; the clock only says when.
//!
//! * [`params`]: every number, with source and certainty; calibration files.
//! * `cost`: formulas per instruction type.
//! * [`report`]: what comes out.
//! * [`trace`]: the events of a run, as a stream.
//! * [`alone`](fn@alone): swaps and transfers on an idle machine, without a run.
//!
//! # Guarantees
//!
//! The time of a race-free program does not depend on the functional schedule, the host or hash orders. No two executions
//! overlap on one engine. The critical path is a gapless chain from the start to the end.
//!
//! Products on disjoint tiles of the PE array (`tile_position`, `tile_size`) overlap: a product takes the sixteenths of the array
//! (32 rows by 32 columns) that it names, and the queue goes on 64 cycles after its start (our choice; that they run in parallel is
//! documented: the specification, file 10 §7.3).
//!
//! # Not modelled
//!
//! Level `bir`, whose order of instructions says nothing about engines. Program-order estimation (the reference's per-block figure): the `hwm` back end has its published
//! formulas on our scheduler. Instruction fetch and queue depth (infinite), background transposes of the PE
//! array, HBM refresh and bank conflicts, implicit loads of activation tables (only
//! LoadActFuncSet costs). At level `lowered` a control step waits for all engines and transfers of its core, as in the functional
//! machine; at levels `linked` and `bundles` every engine takes its own branches, and a barrier holds the engine it sits on.
//! Dependencies inside an engine's pipeline are told from the operands there (an index operand counts as the place of its first
//! element).

mod alone;
mod clock;
mod cost;
mod emit;
pub mod params;
mod record;
pub mod report;
mod streams;
pub mod trace;

pub(crate) use clock::{Clock, Stage};
pub(crate) use emit::emit;
pub(crate) use record::{MeetKind, Recorder};
pub(crate) use report::Builder;

pub use alone::{Alone, alone, barrier, swap_curve};
pub use params::{BackEnd, Certainty, Generation, Param, Params, Span};
pub use report::{BarrierRow, CoreReport, EngineReport, PathStep, SyncRow, TimingReport, Traffic};
pub use trace::TraceSink;
