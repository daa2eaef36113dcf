//! Pictures of a run: a Perfetto trace ([`perfetto`]), one in the reference's form ([`perf_sim`]), and a self-contained HTML page ([`page`]).
//!
//! All are made from what the other crates hand back: the program, findings, explanations, and the events of a timed run
//! ([`tandem_sim::timing::trace`]). This crate does not print, does not exit, and reads no files: the text of kernels' source files comes
//! from the caller.
//!
//! ```text
//! Ready::run_traced(params, &mut PerfettoSink::new(file))   ->  file.pftrace
//! Ready::run_traced(params, &mut Picture::new(limits))      ->  Picture  --  page::render  ->  report.html
//! ```
//!
//! # Guarantees
//!
//! The same input gives the same bytes. A page fetches nothing, runs no script but its own (its content policy names that
//! script's digest), and shows names and source text as text whatever they contain. What a limit leaves out is said on the page.

pub mod page;
pub mod perf_sim;
pub mod perfetto;
pub mod picture;

pub use page::{ReportInput, Timed, VerdictText};
pub use perf_sim::PerfSimSink;
pub use perfetto::PerfettoSink;
pub use picture::{Limits, Picture};
