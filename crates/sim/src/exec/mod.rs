//! What each instruction computes.
//!
//! [`exec`] runs one instruction to its end: it reads all inputs, computes, converts once, writes the outputs. Operands
//! come resolved ([`Arg`]); attributes are read from the [`Inst`].
//!
//! Not here: register and rank instructions, branches, loops and calls, barriers, completion tokens, swaps, collectives
//! (the machine runs those itself), and scheduling.

use crate::memory::{Memory, View};
use crate::numeric_profile::NumericProfile;
use crate::state::{CoreState, Fault, Note};
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::arch::ArchSpec;
use tandem_bir::diag::codes;
use tandem_bir::{EngineKind, Immediate, Inst, InstId, Opcode};

/// A resolved operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Memory; inside its buffer.
    View(View),
    /// Immediate value.
    Imm(Immediate),
    /// Register, by index into [`CoreState::regs`].
    Reg(u32),
    /// Memory addressed by one index per partition or row (a gather or scatter).
    Indexed(Box<Indexed>),
}

/// An operand whose address holds an index per position: element `i` of the index operand moves row `i`.
///
/// Position `i` (in walk order of the index view) stands for position `i` of dimension 0 of the *other* side of the
/// transfer; its bytes start at `view.base + coeff_bytes · index[i]` and follow `view.dims[1..]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed {
    /// The pattern at index 0. Dimension 0 has as many positions as the program's pattern and stride 0: the index alone
    /// says where a row is.
    pub view: View,
    /// Which of [`Decoded::indirect`] holds the indexes.
    pub index: usize,
    /// Bytes per unit of the index.
    pub coeff_bytes: isize,
    /// Largest legal index, when known.
    pub max_index: Option<i64>,
    /// Tensor dimension the index runs along, as the program counts.
    pub dim: i64,
    /// Bytes of the buffer that belong to the location; an access outside is out of bounds.
    pub limits: Range<usize>,
}

/// An instruction with its operands resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The instruction.
    pub inst: InstId,
    /// Its type.
    pub opcode: Opcode,
    /// Its engine; the default of the type when the program names none.
    pub engine: EngineKind,
    /// Inputs in order.
    pub ins: SmallVec<[Arg; 3]>,
    /// Outputs in order.
    pub outs: SmallVec<[Arg; 2]>,
    /// Index operands.
    pub indirect: SmallVec<[Arg; 1]>,
}

impl Decoded {
    /// Input `i` as plain memory.
    pub fn in_view(&self, i: usize) -> Option<&View> {
        match self.ins.get(i) {
            Some(Arg::View(v)) => Some(v),
            Some(Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_)) | None => None,
        }
    }
    /// Output `i` as plain memory.
    pub fn out_view(&self, i: usize) -> Option<&View> {
        match self.outs.get(i) {
            Some(Arg::View(v)) => Some(v),
            Some(Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_)) | None => None,
        }
    }
}

/// What an instruction may touch.
pub struct ExecCx<'a> {
    /// Memory of all cores.
    pub mem: &'a mut Memory,
    /// The core that runs it.
    pub core: &'a mut CoreState,
    /// Which reading of the undocumented numeric rules.
    pub profile: &'a NumericProfile,
    /// Geometry.
    pub arch: &'a ArchSpec,
    /// Remarks.
    pub notes: &'a mut Vec<Note>,
}

/// State that instructions keep between each other on one core: accumulators, random state, open PSUM groups.
#[derive(Clone, Debug, Default)]
pub struct EngineState {}

/// Runs one instruction.
///
/// # Errors
/// A [`Fault`] when the instruction cannot be carried out; memory may be partly written then.
pub fn exec(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let _ = (cx, inst);
    Err(Fault::new(codes::S0002, format!("the simulator does not run {}", d.opcode)))
}
