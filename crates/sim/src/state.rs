//! State of one core that is not memory: registers, accumulators, random state, what it printed.

use crate::exec::EngineState;
use tandem_bir::diag::Code;
use tandem_bir::{CoreId, Dtype};

/// A scalar register. A register never written is poison: its use is a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegValue {
    /// The bits, sign-extended to 64 from the width written.
    pub bits: i64,
    /// Something was written.
    pub defined: bool,
}

/// State of a core beside its memories.
#[derive(Clone, Debug)]
pub struct CoreState {
    /// The core.
    pub core: CoreId,
    /// What the rank instructions answer (decision D14): the core index, or the rank of the LNC.
    pub rank: i64,
    /// Registers by index of their [`tandem_bir::RegId`].
    pub regs: Vec<RegValue>,
    /// Accumulators, random state and the like: whatever instructions keep between each other.
    pub engines: EngineState,
    /// What DevicePrint printed so far.
    pub prints: Vec<Print>,
}

impl CoreState {
    /// State of a core that has not run: `regs` poisoned registers.
    pub fn new(core: CoreId, rank: i64, regs: usize) -> CoreState {
        CoreState {
            core,
            rank,
            regs: vec![RegValue::default(); regs],
            engines: EngineState::default(),
            prints: Vec::new(),
        }
    }
}

/// A tensor printed by DevicePrint.
#[derive(Clone, Debug, PartialEq)]
pub struct Print {
    /// Core that printed.
    pub core: CoreId,
    /// Text given with the instruction.
    pub prefix: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents, partitions first.
    pub shape: Vec<u64>,
    /// Elements, packed.
    pub bytes: Vec<u8>,
}

/// Something worth a remark that does not stop the run; becomes a diagnostic at the instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Code, whose severity counts.
    pub code: Code,
    /// One sentence.
    pub message: String,
}

/// Something that stops the run; becomes a diagnostic at the instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Code.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// The rule and its numbers.
    pub notes: Vec<String>,
}

impl Fault {
    /// A fault without notes.
    pub fn new(code: Code, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), notes: Vec::new() }
    }
    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Fault {
        self.notes.push(note.into());
        self
    }
}
