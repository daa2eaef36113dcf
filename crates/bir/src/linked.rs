//! A program of level `linked` ([`LinkedProgram`]): what linking makes, the container stores and the simulator runs.
//!
//! Source: the specification, file 08 §2.3 and §9 (our choice).

use crate::{
    ArchLevel, CompactString, CoreId, EngineKind, Inst, InstId, MemLocId, MemoryType, Module, Operand,
    Program,
};

/// Registers a program may use per engine (the machine has 64, two are its own).
pub const USABLE_REGISTERS: usize = 62;
/// First semaphore of engine completion.
pub const SEM_ENGINE: u32 = 0;
/// First semaphore of transfer queues.
pub const SEM_QUEUE: u32 = 128;
/// First semaphore of core barriers.
pub const SEM_BARRIER: u32 = 240;

/// A program of level `linked`: one module per core in which every instruction of a block sits on one engine's stream and
/// carries its semaphore waits and updates, and the tables the cores share.
#[derive(Clone, Debug)]
pub struct LinkedProgram {
    /// Modules (level `linked`), ports, constants, source positions.
    pub program: Program,
    /// Per core: streams and numbers.
    pub cores: Vec<LinkedCore>,
    /// Core barriers by id.
    pub barriers: Vec<Barrier>,
    /// Completion tokens by id; empty when tokens order nothing.
    pub tokens: Vec<Token>,
    /// Swaps by ordinal.
    pub swaps: Vec<SwapPair>,
}

impl LinkedProgram {
    /// Architecture level.
    pub fn arch(&self) -> ArchLevel {
        self.program.arch()
    }
    /// The instruction a reference names.
    pub fn inst(&self, r: InstRef) -> Option<&Inst> {
        self.program.modules.get(r.core.index())?.insts.get(r.inst)
    }
    /// Instructions in all streams.
    pub fn num_insts(&self) -> usize {
        self.cores.iter().flat_map(|c| &c.streams).map(|s| s.insts.len()).sum()
    }
}

/// An instruction of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstRef {
    /// Core.
    pub core: CoreId,
    /// Instruction of its module.
    pub inst: InstId,
}

/// One core.
#[derive(Clone, Debug, Default)]
pub struct LinkedCore {
    /// Streams in the order Pool, Activation, PE, DVE, SP; engines without instructions have none.
    pub streams: Vec<Stream>,
    /// Variables by number, the first is number 1.
    pub vars: Vec<Var>,
    /// Register number by register index.
    pub reg_numbers: Vec<u8>,
    /// What the debug table of a container says; empty without one, and for a program made by linking, whose module says it.
    pub debug: DebugTable,
}

/// What only people need to know of a decoded program. Nothing that runs reads it; findings name things by it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DebugTable {
    /// Instructions in program order.
    pub insts: Vec<DebugInst>,
    /// On-chip tensors.
    pub tensors: Vec<DebugTensor>,
}

/// Where an instruction stood before it went to a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct DebugInst {
    /// Instruction.
    pub inst: InstId,
    /// Its block.
    pub block: CompactString,
    /// Its place in the program.
    pub position: u32,
    /// Tensor of each operand (inputs, outputs, index operands): position in [`DebugTable::tensors`].
    pub operands: Vec<Option<u32>>,
}

/// An on-chip tensor by name and place.
#[derive(Clone, Debug, PartialEq)]
pub struct DebugTensor {
    /// Name.
    pub name: CompactString,
    /// SB or PSUM.
    pub mem: MemoryType,
    /// First partition.
    pub base: u32,
    /// Byte inside the partition; for PSUM inside the bank.
    pub addr: u64,
    /// PSUM bank.
    pub bank: i64,
    /// Partitions.
    pub rows: u64,
    /// Bytes per partition.
    pub row_bytes: u64,
    /// Names of tensors that share its bytes on purpose.
    pub aliases: Vec<CompactString>,
}

/// The instructions of one engine in order. Its last instruction is Exit.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Engine.
    pub engine: EngineKind,
    /// Instructions.
    pub insts: Vec<InstId>,
    /// `(position of a branch, position it jumps to when taken)`, ascending; a branch not taken goes on to the next
    /// position.
    pub branches: Vec<(u32, u32)>,
}

impl Stream {
    /// Where a branch at a position jumps.
    pub fn target(&self, position: usize) -> Option<usize> {
        let p = u32::try_from(position).ok()?;
        self.branches.binary_search_by_key(&p, |(b, _)| *b).ok().map(|i| self.branches[i].1 as usize)
    }
}

/// Class of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarClass {
    /// External input.
    Input,
    /// External output.
    Output,
    /// Internal DRAM of one core.
    TmpBuf,
    /// Shared DRAM.
    Shared,
    /// Memory of another core.
    Remote,
    /// Constant with a data section.
    File,
}

impl VarClass {
    /// Every class.
    pub const ALL: [VarClass; 6] = [
        VarClass::Input,
        VarClass::Output,
        VarClass::TmpBuf,
        VarClass::Shared,
        VarClass::Remote,
        VarClass::File,
    ];
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            VarClass::Input => "input",
            VarClass::Output => "output",
            VarClass::TmpBuf => "tmp-buf",
            VarClass::Shared => "shared",
            VarClass::Remote => "remote",
            VarClass::File => "file",
        }
    }
}

/// A numbered variable of a core.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// Location of the core's module.
    pub loc: MemLocId,
    /// Class.
    pub class: VarClass,
    /// Core that owns the bytes.
    pub owner: CoreId,
}

/// One logical core barrier.
#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    /// Name on core 0.
    pub name: CompactString,
    /// Cores that meet.
    pub cores: Vec<u32>,
    /// The instruction of each core.
    pub members: Vec<InstRef>,
}

/// One completion token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Location it stands for, name on core 0.
    pub location: CompactString,
    /// Cores that write the location.
    pub writers: Vec<u32>,
    /// The instruction of each core that has it.
    pub members: Vec<InstRef>,
}

/// A pair of swaps.
#[derive(Clone, Debug, PartialEq)]
pub struct SwapPair {
    /// Core 0's instruction.
    pub a: InstRef,
    /// Core 1's instruction.
    pub b: InstRef,
}

/// The transfer touches another core's memory; it goes by the remote queue of its engine.
pub fn is_remote_copy(m: &Module, i: &Inst) -> bool {
    i.ins.iter().chain(&i.outs).filter_map(Operand::as_ap).any(|a| m.memlocs[a.loc].is_remote())
}
