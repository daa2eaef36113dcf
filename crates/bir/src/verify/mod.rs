//! The verifier: is this program well formed, and does it obey what the machine demands of single instructions?
//!
//! Groups run in order: [`ids`], [`memory`], [`types`], [`bounds`], [`engines`], [`sync`], [`arch`]. All findings of a
//! group are reported, then verification stops, because the next group relies on what this one established. A program
//! that passes is wrapped in [`Verified`]; later stages take that token as the statement of their precondition and
//! may index arenas, pair operands and address memory without asking again.
//!
//! Not checked here: anything that involves two cores at once (the checks do that), values that exist only at run time
//! (register offsets, gather indexes), and the limits of single machine words (the encoder's).
//!
//! Time is linear in the program; nothing is allocated per instruction while there is no finding.

mod arch;
mod bounds;
mod engines;
mod ids;
mod memory;
mod shape;
mod sync;
mod types;

pub use shape::{ShapeRule, shape_rule};

use crate::ap::AccessPattern;
use crate::diag::{Code, Diagnostic, Site};
use crate::enums::{EngineKind, MemoryType};
use crate::ids::{BlockId, FuncId, InstId};
use crate::inst::{Family, Inst, OpSpec, Operand};
use crate::memloc::MemoryLocation;
use crate::module::{Module, Program};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rayon::prelude::*;

/// What to verify, and how much to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Findings reported per group before the rest is only counted (our choice: 1000).
    pub max_findings: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions { max_findings: 1000 }
    }
}

/// Proof that a program passed, with facts that later stages use.
#[derive(Debug)]
pub struct Verified<'p> {
    program: &'p Program,
    places: Vec<Places>,
}

impl<'p> Verified<'p> {
    /// The program.
    pub fn program(&self) -> &'p Program {
        self.program
    }
    /// Function and block of an instruction; `None` when it is in no block (deleted).
    pub fn place(&self, module: usize, inst: InstId) -> Option<(FuncId, BlockId)> {
        let places = self.places.get(module)?;
        let block = places.block_of.get(inst).and_then(|b| b.expand())?;
        Some((places.func_of.get(block).and_then(|f| f.expand())?, block))
    }
    /// Blocks of a module in program order, bodies of regions after the block that owns them.
    pub fn blocks(&self, module: usize) -> &[(FuncId, BlockId)] {
        self.places.get(module).map_or(&[], |p| &p.blocks)
    }
}

impl std::ops::Deref for Verified<'_> {
    type Target = Program;
    fn deref(&self) -> &Program {
        self.program
    }
}

/// Where the blocks and instructions of one module are.
#[derive(Clone, Debug, Default)]
struct Places {
    blocks: Vec<(FuncId, BlockId)>,
    func_of: SecondaryMap<BlockId, PackedOption<FuncId>>,
    block_of: SecondaryMap<InstId, PackedOption<BlockId>>,
}

/// Groups of rules in order; a group relies on what the ones before established.
const GROUPS: [fn(&mut Cx<'_>); 3] = [ids::run, memory::run, local];

/// Verifies with default options.
///
/// # Errors
/// All findings of the first group that has any.
pub fn verify(program: &Program) -> Result<Verified<'_>, Vec<Diagnostic>> {
    verify_with(program, &VerifyOptions::default())
}

/// Verifies a program.
///
/// # Errors
/// All findings of the first group that has any (up to [`VerifyOptions::max_findings`], then their number).
pub fn verify_with<'p>(
    program: &'p Program,
    options: &VerifyOptions,
) -> Result<Verified<'p>, Vec<Diagnostic>> {
    if program.modules.len() > 1
        && program.is_large()
        && let Some(places) = clean_modules(program)
    {
        return Ok(Verified { program, places });
    }
    let mut cx = Cx::new(program, options.max_findings.max(1), None);
    for group in GROUPS {
        group(&mut cx);
        if !cx.found.is_empty() {
            if cx.more > 0
                && let Some(last) = cx.found.pop()
            {
                let n = cx.more;
                cx.found.push(last.note(format!("{n} more findings of this group are not shown")));
            }
            return Err(cx.found);
        }
    }
    Ok(Verified { program, places: cx.places })
}

/// The modules side by side, when nothing is wrong with any of them. Findings have an order across modules, so a program
/// that has some is verified once more from the start.
fn clean_modules(program: &Program) -> Option<Vec<Places>> {
    let one = |i: usize| {
        let mut cx = Cx::new(program, 1, Some(i));
        for group in GROUPS {
            group(&mut cx);
            if !cx.found.is_empty() {
                return None;
            }
        }
        cx.places.into_iter().nth(i)
    };
    (0..program.modules.len()).into_par_iter().map(one).collect()
}

/// The groups that look at one instruction at a time, [`types`] to [`arch`], in one walk: a long program passes through
/// the caches once. A finding ends the groups after its own, and what those found before is dropped.
fn local(cx: &mut Cx<'_>) {
    let look = arch::modules(cx);
    let mut last = RULES.len() - 1;
    let mut kept = std::mem::take(&mut cx.found);
    let mut more = 0;
    cx.each_inst(|cx, at| {
        let groups = if look || last + 1 < RULES.len() { last + 1 } else { last };
        for (g, group) in RULES.iter().enumerate().take(groups) {
            group(cx, at);
            if cx.found.is_empty() {
                continue;
            }
            if g < last {
                (last, more) = (g, 0);
                kept.clear();
            }
            let room = cx.max.saturating_sub(kept.len());
            more += std::mem::take(&mut cx.more) + cx.found.len().saturating_sub(room);
            kept.extend(cx.found.drain(..).take(room));
            break;
        }
    });
    (cx.found, cx.more) = (kept, more);
}

/// One group's rules for one instruction.
type Rules = for<'p> fn(&mut Cx<'p>, At<'p>);

/// The groups of [`local`], in order.
const RULES: [Rules; 5] = [types::inst, bounds::inst, engines::inst, sync::inst, arch::inst];

/// Context of one verification.
struct Cx<'p> {
    program: &'p Program,
    places: Vec<Places>,
    current: usize,
    found: Vec<Diagnostic>,
    more: usize,
    max: usize,
    /// The only module whose instructions are looked at.
    only: Option<usize>,
}

/// One instruction being looked at.
#[derive(Clone, Copy)]
struct At<'p> {
    module: &'p Module,
    func: FuncId,
    block: BlockId,
    id: InstId,
    inst: &'p Inst,
}

impl<'p> Cx<'p> {
    fn new(program: &'p Program, max: usize, only: Option<usize>) -> Cx<'p> {
        Cx { program, places: Vec::new(), current: 0, found: Vec::new(), more: 0, max, only }
    }

    fn looks_at(&self, module: usize) -> bool {
        self.only.is_none_or(|only| only == module)
    }

    fn push(&mut self, d: Diagnostic) {
        if self.found.len() < self.max {
            self.found.push(d);
        } else {
            self.more += 1;
        }
    }

    /// Reports a finding at an instruction.
    fn at(&mut self, code: Code, at: At<'p>, message: String) {
        self.push(self.diag(code, at, message));
    }

    /// A finding at an instruction, to be extended before it is pushed.
    fn diag(&self, code: Code, at: At<'p>, message: String) -> Diagnostic {
        Diagnostic::new(code, message).site(self.site(at))
    }

    fn site(&self, at: At<'p>) -> Site {
        let mut site = Site::of_inst(&self.program.locs, at.module, at.id);
        site.function = at.module.funcs.get(at.func).map_or_else(String::new, |f| f.name.to_string());
        site.block = at.module.blocks.get(at.block).map_or_else(String::new, |b| b.name.to_string());
        site
    }

    /// Reports a finding about a module or something in it that is no instruction.
    fn in_module(&mut self, code: Code, module: &Module, path: String, message: String) {
        self.push(Diagnostic::new(code, message).site(module_site(module, path)));
    }

    /// Calls `f` on every instruction of every module, in program order.
    fn each_inst(&mut self, mut f: impl FnMut(&mut Cx<'p>, At<'p>)) {
        let program = self.program;
        for (i, module) in program.modules.iter().enumerate() {
            if !self.looks_at(i) {
                continue;
            }
            self.current = i;
            let blocks = std::mem::take(&mut self.places[i].blocks);
            for &(func, block) in &blocks {
                for &id in &module.blocks[block].insts {
                    f(self, At { module, func, block, id, inst: &module.insts[id] });
                }
            }
            self.places[i].blocks = blocks;
        }
    }
}

fn module_site(module: &Module, path: String) -> Site {
    Site { core: module.core, function: module.name.to_string(), path, ..Site::default() }
}

/// Which operand list an operand is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    In,
    Out,
    Index,
}

impl List {
    fn word(self) -> &'static str {
        match self {
            List::In => "input",
            List::Out => "output",
            List::Index => "index operand",
        }
    }
}

/// All operands with their list and position.
fn operands(inst: &Inst) -> impl Iterator<Item = (List, usize, &Operand)> {
    let ins = inst.ins.iter().enumerate().map(|(i, o)| (List::In, i, o));
    let outs = inst.outs.iter().enumerate().map(|(i, o)| (List::Out, i, o));
    let index = inst.indirection_ins().iter().enumerate().map(|(i, o)| (List::Index, i, o));
    ins.chain(outs).chain(index)
}

/// `input 0 (src) of `x` (TensorCopy)`.
fn operand_name(inst: &Inst, list: List, i: usize) -> String {
    let spec = inst.spec();
    let role = match list {
        List::In => OpSpec::operand(spec.ins, i),
        List::Out => OpSpec::operand(spec.outs, i),
        List::Index => None,
    }
    .map_or(String::new(), |o| format!(" ({})", o.role));
    format!("{} {i}{role} of {}", list.word(), inst_name(inst))
}

/// `` `x` (TensorCopy) ``.
fn inst_name(inst: &Inst) -> String {
    format!("`{}` ({})", inst.name, inst.opcode)
}

/// The memory operand at a position, with its location.
fn ap_at<'p>(
    module: &'p Module,
    list: &'p [Operand],
    i: usize,
) -> Option<(&'p AccessPattern, &'p MemoryLocation)> {
    let ap = list.get(i)?.as_ap()?;
    Some((ap, module.memlocs.get(ap.loc)?))
}

/// The engine that will run an instruction: its own, or its type's default.
pub fn effective_engine(inst: &Inst) -> EngineKind {
    if inst.engine == EngineKind::Unassigned { inst.spec().engine } else { inst.engine }
}

/// True for instructions that compute on an engine's data path (not movers, not control): the start-partition rule and
/// the memories an engine reaches bind them (decision D20).
fn is_compute(family: Family) -> bool {
    match family {
        Family::Activation
        | Family::Matmul
        | Family::Fill
        | Family::Pool
        | Family::Elementwise
        | Family::Copy
        | Family::Gather
        | Family::Reduce
        | Family::TensorScalar
        | Family::BatchNorm
        | Family::DataMove
        | Family::Select
        | Family::Rng
        | Family::Search
        | Family::Mx => true,
        Family::Generic
        | Family::Rank
        | Family::Control
        | Family::Sync
        | Family::Dma
        | Family::OnChipMove
        | Family::Collective
        | Family::Kernel
        | Family::Debug
        | Family::Misc
        | Family::DmaDescriptor
        | Family::Register
        | Family::Terminator
        | Family::Queue
        | Family::Structured
        | Family::Macro => false,
    }
}

/// Bytes of the memory array per partition; `None` for other memories or levels without a model.
fn array_bytes(module: &Module, mem: MemoryType) -> Option<u64> {
    let spec = module.arch.spec()?;
    match mem {
        MemoryType::Sb => Some(spec.sbuf_bytes),
        MemoryType::Psum => Some(spec.psum_bytes),
        MemoryType::Dram
        | MemoryType::Unallocated
        | MemoryType::Input
        | MemoryType::Output
        | MemoryType::RngState
        | MemoryType::Reg => None,
    }
}
