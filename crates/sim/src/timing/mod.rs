//! Predicted time: costs attached to the functional machine.
//!
//! The machine runs as ever; an observer (`record`) notes every execution with its cost, its place in its queue, its producers
//! and its meetings. The clock then gives each its times. One scheduler decides what happens; the clock only says when.
//!
//! * [`params`]: every number, with source and certainty; calibration files.
//! * `cost`: formulas per instruction type.
//! * [`report`]: what comes out.
//!
//! # Guarantees
//!
//! The time of a race-free program does not depend on the functional schedule, the host or hash orders. No two executions
//! overlap on one engine. The critical path is a gapless chain from the start to the end.
//!
//! # Not modelled
//!
//! Levels other than `lowered`. Program-order estimation (the reference's per-block figure): the `hwm` back end has its published
//! formulas on our scheduler. Instruction fetch and queue depth (infinite), loading of stationary data when the previous
//! product does not hide it, parallel PE tiles, halved ports of wide strides, DMA priority classes, HBM refresh and bank
//! conflicts, implicit loads of activation tables (only LoadActFuncSet costs). A control step waits for all engines and
//! transfers of its core, as in the functional machine.

mod clock;
mod cost;
pub mod params;
mod record;
pub mod report;

pub(crate) use clock::Clock;
pub(crate) use record::{MeetKind, Recorder};

pub use params::{BackEnd, Certainty, Generation, Param, Params};
pub use report::{CoreReport, EngineReport, PathStep, Slice, SyncRow, TimingReport};
