//! Passes over BIR: default engines, placement, dependencies, and the lowering of a program for several cores.
//!
//! Two pipelines, each a list of passes ([`pipeline`]): [`prepare`] makes a program of level `bir` printable and
//! runnable (engines and on-chip addresses), [`lower`] takes it to level `lowered`, where on-chip collectives have
//! become swaps, transfers and barriers, shared DRAM has its place, and dependency edges carry all the order that a
//! core's engines need. Passes see the whole [`Program`](tandem_bir::Program); what two cores must agree on is decided
//! once and written to both.
//!
//! Not here: linking, encoding (later levels) and the verifier (`tandem_bir`).

pub mod container;
pub mod decode;
pub mod edit;
pub mod encode;
pub mod explain;
pub mod link;
pub mod pass;
pub mod passes;
pub mod pipeline;
pub mod storage;

pub use explain::ExplainRow;
pub use pass::{
    Fact, Hooks, LocalAllReduce, NoHooks, Pass, PassCtx, PassInfo, PassOptions, PassOutcome, PtcomMode, Stop,
    Transport,
};
pub use pipeline::{Pipeline, lower, lower_with, prepare, prepare_with};
