//! A timed run as a Perfetto trace: native protocol buffers, written as the events come.
//!
//! # What is in the file
//!
//! * One sequence of packets per simulated core, with its own interned names; its first packet clears the incremental state.
//! * One process track per core; below it one track per in-order engine, one for what holds all engines, one group of DMA
//!   engines with a track per DMA engine and queue, and two counters (SBUF and PSUM in use, bytes).
//! * A slice per execution, from issue until its engine is free; inside it a slice `waits for partner` where a meeting waits
//!   for another core. A slice per run of packets of a DMA engine.
//! * Flows: each arrow of the run, from the slice that was waited for to the one that waited.
//!
//! Times in the file are nanoseconds; `duration_ps` of a slice is exact. Annotations carry the names of the vendor's
//! traces (`bir_name`, `opcode`, `nki_source_location`; the specification, file 10 §5).
//!
//! # Guarantees
//!
//! Slices of a track nest. The same run gives the same bytes. Memory is that of the program's names, not of the events.

mod proto;
mod sink;
mod writer;

pub use sink::PerfettoSink;
pub use writer::{Label, LabelId, SeqId, SliceEvent, TraceWriter};
