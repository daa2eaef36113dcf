//! Functional simulator of the NeuronCores of one LNC (or of several, one per rank): runs a [`Program`](tandem_bir::Program) on
//! simulated memory and says what came out, how often each instruction ran, and why it stopped.
//!
//! ```text
//! Simulator::new(&program, options)  ->  Ready  -- set_inputs, run -->  Outcome
//! ```
//!
//! A linked program, or one read from a container of bundles, runs the same way from `Simulator::linked`: its streams,
//! queues and semaphores take the place of edges and segments ([`queue_style`]).
//!
//! # The machine
//!
//! * **Memory** ([`memory`], `place`): flat byte buffers. A core's SBUF and PSUM are partition-major; shared DRAM exists once;
//!   an alias of another core's location is the owner's bytes. An operand is a byte-strided [`memory::View`].
//! * **Code** (`code`, `decode`): every instruction is decoded once; operands with a run-time offset are resolved when the
//!   instruction starts. A block is cut into *segments* of ordinary instructions and *control steps* (branches, loops, calls,
//!   CoreBarriers), which run when the segment before them is complete.
//! * **Order inside a segment** (`machine`): at level `bir` program order, one instruction at a time. At level `lowered` five
//!   in-order queues (PE, Activation, DVE, Pool, SP); the head of a queue starts when all instructions its edges name have
//!   completed. A transfer leaves its engine at once and lands later, in order among the transfers of that engine;
//!   transfers that name no engine are SP's (our choice). An instruction of engine ALL sits in all five queues and runs once.
//! * **Meetings** ([`collective`], `sync`): swaps, collectives, CoreBarriers and completion tokens pair by ordinal per channel
//!   and are compared when all have arrived. A CoreBarrier is a full fence of its core (decision D17).
//! * **Schedules** ([`options::Schedule`]): who acts next when several may. A program without races gives the same bytes
//!   under all of them.
//! * **Stops** ([`outcome::StopReason`]): the end, quiescence with something unfinished (then [`report::WaitFor`]), a fault,
//!   the step limit, or the caller.
//!
//! * **Threads of the host** (`deferred`): the scheduler is one thread; the cores' computations run side by side, and neither bytes nor
//!   findings depend on it ([`RunOptions::side_by_side`]).
//! * **Checks while it runs**: data races by exact happens-before and exact byte sets (`race`), and undefined bytes, which
//!   travel through movers and are a finding where they are used (`undef`). Each module states what it may miss.
//!
//! What each instruction computes is [`exec`], on the number formats of [`num`].
//!
//! * **Time** ([`timing`]): costs attached to the run at level `lowered` ([`Ready::run_timed`]).
//!
//! # Not modelled
//!
//! Descriptor blocks (DMATrigger); opaque kernels. A transfer is atomic at
//! the moment it lands. Programs of several subgraphs are refused.

pub mod build;
mod code;
pub mod collective;
mod control;
mod decode;
mod deferred;
mod effects;
pub mod exec;
mod machine;
pub mod memory;
pub mod npy;
pub mod num;
pub mod numeric_profile;
pub mod options;
pub mod outcome;
mod overlap;
mod place;
mod pool;
pub mod queue_style;
mod race;
pub mod random;
pub mod report;
mod scalar;
pub mod state;
mod sync;
pub mod tensor;
pub mod timing;
mod undef;
mod undef_report;

pub use build::{Ready, Simulator};
pub use options::{Fill, Ptcom, Ranks, RunOptions, Schedule};
pub use outcome::{Outcome, Stats, StopReason};
pub use tensor::Tensor;
