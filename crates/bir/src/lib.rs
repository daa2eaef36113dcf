//! BIR, the intermediate representation of Tandem.
//!
//! A [`Program`] holds one [`Module`] per NeuronCore. A module holds functions, a function blocks, a block
//! instructions. All of them live in arenas of the module and refer to each other by typed ids ([`ids`]); across
//! cores, things are matched by **name**.
//!
//! An instruction ([`Inst`]) is generic: an [`Opcode`], an engine, input and output operands, attributes, dependencies,
//! a source position. What a type of instruction means is one row of the table in [`inst::table`]; printer, parser, JSON,
//! verifier and reference page read that row.
//!
//! Memory operands are access patterns ([`ap`]): `offset + Σ step·i` in elements over a memory location ([`memloc`]).
//! SB (SBUF) and PSUM are private to a core and two-dimensional (partition, byte); DRAM is linear and either `Local` to a
//! core or `Shared` by all.
//!
//! Findings are data ([`diag`]): every one has a stable code and points at source positions.

pub mod analysis;
pub mod ap;
pub mod arch;
pub mod base64;
pub mod canon;
#[cfg(feature = "testing")]
pub mod damage;
pub mod diag;
pub mod dtype;
pub mod enums;
pub mod expr;
pub mod fs;
pub mod ids;
pub mod inst;
pub mod json;
pub mod linked;
pub mod memloc;
pub mod module;
pub mod names;
pub mod refdocs;
pub mod remarks;
pub mod resolve;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod verify;

pub use ap::{AccessPattern, ApPair, ApPairs, DynamicAp};
pub use arch::{ArchLevel, ArchSpec};
pub use compact_str::CompactString;
pub use cranelift_entity as entity;
pub use dtype::Dtype;
pub use enums::*;
pub use expr::Expr;
pub use ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
pub use inst::{Attr, AttrValue, Dep, ImmValue, Immediate, Inst, Opcode, Operand, RegAccess};
pub use memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
pub use module::{Block, Extra, Function, Level, Module, Port, Program, Signature, Storage};
