//! Containers: [`Program`] (all cores), [`Module`] (one core of one subgraph), [`Function`], [`Block`].

use crate::arch::ArchLevel;
use crate::diag::LocTable;
use crate::dtype::Dtype;
use crate::enums::TensorKind;
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::Inst;
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register};
use compact_str::CompactString;
use cranelift_entity::PrimaryMap;
use indexmap::IndexMap;
use std::sync::Arc;

/// Keys that the model does not name, kept so that files pass through without loss. `None` when there are none.
pub type Extra = Option<Box<serde_json::Map<String, serde_json::Value>>>;

/// How far a program has been lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Abstract collectives still present; runs in program order.
    Bir,
    /// On-chip collectives replaced; runs by dependency edges.
    Lowered,
    /// Names resolved, semaphores allocated; runs by queues and semaphores.
    Linked,
}

/// A whole program: one [`Module`] per core (times subgraphs), and what they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Kernel name, for people.
    pub name: String,
    /// Cores per logical NeuronCore: 1 or 2.
    pub lnc_size: u32,
    /// Level reached.
    pub level: Level,
    /// Slot of subgraph m, core c is `c + m · lnc_size`.
    pub modules: Vec<Module>,
    /// Source positions of all modules.
    pub locs: LocTable,
    /// Payloads of constants by the file name their sets carry (whole `.npy` files).
    pub constants: IndexMap<String, Arc<[u8]>>,
    /// Border of the kernel, in the order of its parameters.
    pub signature: Signature,
}

/// Inputs and outputs of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signature {
    /// Inputs in parameter order.
    pub inputs: Vec<Port>,
    /// Outputs in result order.
    pub outputs: Vec<Port>,
}

/// One input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name on the command line and of the file (`x`, or `nc00:x` for a tensor private to core 0 of two).
    pub name: String,
    /// Name of the memory location, equal on all cores that have it. An in-place output names its input's location.
    pub location: CompactString,
    /// Core that owns it; `None` when it is shared by all cores (or there is one core).
    pub core: Option<CoreId>,
    /// Subgraph whose modules hold it.
    pub subgraph: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Shape in elements.
    pub shape: Vec<u64>,
}

/// Instructions from which on modules are worked on side by side (our choice: well above what waking a thread costs).
const LARGE_FROM: usize = 4096;

impl Program {
    /// The module of a core in a subgraph.
    pub fn module(&self, core: CoreId, subgraph: u32) -> Option<&Module> {
        self.modules.get(core.index() + subgraph as usize * self.lnc_size as usize)
    }
    /// Architecture level of the program (of its first module).
    pub fn arch(&self) -> ArchLevel {
        self.modules.first().map_or(ArchLevel::Gen3, |m| m.arch)
    }
    /// It has so many instructions that its modules are worth a thread each.
    pub fn is_large(&self) -> bool {
        self.modules.iter().map(|m| m.insts.len()).sum::<usize>() >= LARGE_FROM
    }
    /// Number of subgraphs.
    pub fn num_subgraphs(&self) -> usize {
        self.modules.len() / (self.lnc_size.max(1) as usize)
    }
}

/// One core's program of one subgraph. Ids index the arenas here.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Module name (`nc00`).
    pub name: CompactString,
    /// The core it runs on; `None` while symbolic (one module for all cores).
    pub core: Option<CoreId>,
    /// Subgraph it belongs to.
    pub subgraph: u32,
    /// Architecture level.
    pub arch: ArchLevel,
    /// Function arena.
    pub funcs: PrimaryMap<FuncId, Function>,
    /// Block arena.
    pub blocks: PrimaryMap<BlockId, Block>,
    /// Instruction arena. An instruction lives in at most one block's list; one in no list is deleted.
    pub insts: PrimaryMap<InstId, Inst>,
    /// Set arena.
    pub sets: PrimaryMap<SetId, MemoryLocationSet>,
    /// Location arena.
    pub memlocs: PrimaryMap<MemLocId, MemoryLocation>,
    /// Register arena.
    pub regs: PrimaryMap<RegId, Register>,
    /// Ordinary functions in order.
    pub functions: Vec<FuncId>,
    /// Kernel functions (kind NKI) in order.
    pub nki_functions: Vec<FuncId>,
    /// DMA queues as read (kept, not interpreted above level linked).
    pub queues: Vec<serde_json::Value>,
    /// Keys of the source file that the model does not name (attributes included).
    pub extra: Extra,
}

impl Module {
    /// An empty module.
    pub fn new(name: &str, core: Option<CoreId>, arch: ArchLevel) -> Module {
        Module {
            name: name.into(),
            core,
            subgraph: 0,
            arch,
            funcs: PrimaryMap::new(),
            blocks: PrimaryMap::new(),
            insts: PrimaryMap::new(),
            sets: PrimaryMap::new(),
            memlocs: PrimaryMap::new(),
            regs: PrimaryMap::new(),
            functions: Vec::new(),
            nki_functions: Vec::new(),
            queues: Vec::new(),
            extra: None,
        }
    }
    /// All functions: ordinary ones first, then kernel functions.
    pub fn all_functions(&self) -> impl Iterator<Item = FuncId> + '_ {
        self.functions.iter().chain(&self.nki_functions).copied()
    }
    /// Adds an ordinary function.
    pub fn add_function(&mut self, name: &str) -> FuncId {
        let id = self.funcs.push(Function {
            name: name.into(),
            storages: Vec::new(),
            blocks: Vec::new(),
            attributes: Vec::new(),
            extra: None,
        });
        self.functions.push(id);
        id
    }
    /// Adds a block at the end of a function.
    pub fn add_block(&mut self, func: FuncId, name: &str) -> BlockId {
        let id = self.blocks.push(Block { name: name.into(), insts: Vec::new(), extra: None });
        self.funcs[func].blocks.push(id);
        id
    }
    /// Adds an instruction at the end of a block.
    pub fn push_inst(&mut self, block: BlockId, inst: Inst) -> InstId {
        let id = self.insts.push(inst);
        self.blocks[block].insts.push(id);
        id
    }
    /// Adds a set with one location of the same stem and lists it in the function.
    pub fn add_location(
        &mut self,
        func: FuncId,
        mut set: MemoryLocationSet,
        mut loc: MemoryLocation,
    ) -> MemLocId {
        let loc_id = self.memlocs.next_key();
        set.locs = vec![loc_id];
        let set_id = self.sets.push(set);
        loc.set = set_id;
        let pushed = self.memlocs.push(loc);
        debug_assert_eq!(pushed, loc_id, "arena keys are dense");
        self.funcs[func].storages.push(Storage::Set(set_id));
        loc_id
    }
    /// Location of this name in a function.
    pub fn find_location(&self, func: FuncId, name: &str) -> Option<MemLocId> {
        self.funcs.get(func)?.storages.iter().find_map(|s| match s {
            Storage::Set(set) => self.sets[*set].locs.iter().copied().find(|l| self.memlocs[*l].name == name),
            Storage::Register(_) => None,
        })
    }
    /// Function of this name.
    pub fn find_function(&self, name: &str) -> Option<FuncId> {
        self.all_functions().find(|f| self.funcs[*f].name == name)
    }
    /// The set a location belongs to.
    pub fn set_of(&self, loc: MemLocId) -> &MemoryLocationSet {
        &self.sets[self.memlocs[loc].set]
    }
    /// Role of a location's tensor.
    pub fn kind_of(&self, loc: MemLocId) -> TensorKind {
        self.set_of(loc).kind
    }
    /// Some blocks may be bodies of loop-like instructions: not all of them are in the list of a function.
    pub fn may_have_regions(&self) -> bool {
        let listed: usize = self.funcs.values().map(|f| f.blocks.len()).sum();
        listed < self.blocks.len()
    }
    /// Every `(function, block, instruction)` in program order, bodies of nested regions after their owner.
    pub fn walk(&self) -> Vec<(FuncId, BlockId, InstId)> {
        let mut out = Vec::with_capacity(self.insts.len());
        if !self.may_have_regions() {
            // the instructions themselves need not be looked at
            for f in self.all_functions() {
                for &b in &self.funcs[f].blocks {
                    out.extend(self.blocks[b].insts.iter().map(|&i| (f, b, i)));
                }
            }
            return out;
        }
        for f in self.all_functions() {
            let mut stack: Vec<(BlockId, usize)> = Vec::new();
            for &b in &self.funcs[f].blocks {
                stack.push((b, 0));
                while let Some((b, i)) = stack.pop() {
                    let Some(&inst) = self.blocks[b].insts.get(i) else { continue };
                    stack.push((b, i + 1));
                    out.push((f, b, inst));
                    for &r in self.insts[inst].regions().iter().rev() {
                        stack.push((r, 0));
                    }
                }
            }
        }
        out
    }
}

/// A function: storages and blocks in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name, unique in the module.
    pub name: CompactString,
    /// Location sets and registers in file order.
    pub storages: Vec<Storage>,
    /// Blocks in order; the first is the entry.
    pub blocks: Vec<BlockId>,
    /// Flag names as read.
    pub attributes: Vec<CompactString>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

/// One element of a function's `allocations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A memory location set.
    Set(SetId),
    /// A register.
    Register(RegId),
}

/// A basic block: instructions in program order, terminator (if any) last.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Name, unique in the function.
    pub name: CompactString,
    /// Instructions in program order.
    pub insts: Vec<InstId>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}
