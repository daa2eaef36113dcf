//! Structured control and calls to one list of blocks.
//!
//! Levels up to lowered run loops, do-while regions and calls as frames of their core. A stream has records and branches only,
//! so linking first rewrites the function that runs:
//!
//! * a **loop** counts in a register of every engine; its axis becomes that register in the addresses of its body. A body that
//!   divides its axis by no power of two, which the register operations cannot do, is written out once per iteration
//!   instead;
//! * a **do-while** region ends in a branch back;
//! * a **call** is replaced by the blocks of its function, a function that reaches itself is refused;
//! * functions that nothing calls are dropped.
//!
//! Blocks end in joins ([`super::sync`]), as the block ends of the upper levels do, so no edge is lost by cutting a block at a
//! loop. The first copy of an instruction keeps its id and name, further ones are named `NAME.K`, equally on all cores.
//!
//! Not modelled: recursion; branches into another region.

mod address;
mod loops;

use address::run_time_division;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Diagnostic, Loc, codes};
use tandem_bir::{
    Attr, BlockId, BranchCompareOp, CompactString, Dtype, EngineKind, FuncId, Inst, InstId, Module, Opcode,
    Operand, Origin, Program, RegAccess, RegId, Register, Storage,
};

/// Most instructions that writing out calls and loops may make (our choice).
pub const MAX_FLAT: usize = 1 << 20;
/// Deepest nesting of regions and calls (our choice; the verifier's depth is below it).
pub const MAX_DEPTH: usize = 256;

/// The function that runs: the first with blocks, ordinary functions before kernel functions.
pub fn entry(m: &Module) -> Option<FuncId> {
    m.all_functions().find(|f| !m.funcs[*f].blocks.is_empty())
}

/// Rewrites a module so that its entry function has plain blocks only and no other function has any. Gives the function.
///
/// # Errors
/// N0020 for what has no such form.
pub fn flatten(program: &Program, m: &mut Module, diags: &mut Vec<Diagnostic>) -> Option<FuncId> {
    let func = entry(m)?;
    let plain = m.funcs[func].blocks.iter().all(|b| {
        m.blocks[*b].insts.iter().all(|i| !structured(&m.insts[*i]) && !run_time_division(&m.insts[*i]))
    });
    if !plain {
        let before = diags.len();
        let mut f = Flat {
            program,
            func,
            labels: labels(m),
            out: Vec::new(),
            current: None,
            names: FxHashSet::default(),
            scopes: Vec::new(),
            axes: Vec::new(),
            calls: Vec::new(),
            emitted: FxHashSet::default(),
            pristine: FxHashMap::default(),
            copies: FxHashMap::default(),
            copy_of: FxHashMap::default(),
            pool: Vec::new(),
            made: 0,
            depth: 0,
            failed: false,
            diags,
            m,
        };
        let blocks = f.m.funcs[func].blocks.clone();
        f.names.extend(blocks.iter().map(|b| f.m.blocks[*b].name.clone()));
        let heads = blocks.clone();
        f.run(&blocks, &heads, &Frame { func, after: None, ret: None, brk: None });
        let out = std::mem::take(&mut f.out);
        if diags.len() > before {
            return None;
        }
        m.funcs[func].blocks = out;
    }
    for f in m.all_functions().collect::<Vec<_>>() {
        if f != func {
            m.funcs[f].blocks.clear();
        }
    }
    Some(func)
}

fn structured(i: &Inst) -> bool {
    !i.regions().is_empty()
        || matches!(
            i.opcode,
            Opcode::Call | Opcode::Break | Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile
        )
}

/// Blocks by function and name, as the simulator resolves branches: function blocks first, then those of regions.
fn labels(m: &Module) -> FxHashMap<(FuncId, CompactString), BlockId> {
    let mut out = FxHashMap::default();
    for f in m.all_functions() {
        for &b in &m.funcs[f].blocks {
            out.entry((f, m.blocks[b].name.clone())).or_insert(b);
        }
    }
    for (f, _, i) in m.walk() {
        for &r in m.insts[i].regions() {
            out.entry((f, m.blocks[r].name.clone())).or_insert(r);
        }
    }
    out
}

/// What an axis is inside its loop.
#[derive(Clone, Copy)]
enum Axis {
    Reg(RegId),
    Const(i64),
}

/// Where control goes out of a list of blocks.
#[derive(Clone, Copy)]
struct Frame {
    /// Function whose names branches use.
    func: FuncId,
    /// Behind the last block; `None` ends the program.
    after: Option<BlockId>,
    /// Of a return; `None` ends the program.
    ret: Option<BlockId>,
    /// Of a break.
    brk: Option<BlockId>,
}

struct Flat<'a> {
    program: &'a Program,
    func: FuncId,
    labels: FxHashMap<(FuncId, CompactString), BlockId>,
    out: Vec<BlockId>,
    current: Option<BlockId>,
    names: FxHashSet<CompactString>,
    /// What the blocks of the enclosing lists became, innermost last.
    scopes: Vec<FxHashMap<BlockId, BlockId>>,
    axes: Vec<(CompactString, Axis)>,
    calls: Vec<FuncId>,
    emitted: FxHashSet<InstId>,
    /// Instructions of regions and calls as they were.
    pristine: FxHashMap<InstId, Inst>,
    copies: FxHashMap<InstId, u32>,
    /// Last copy of an instruction, for edges inside a copied block.
    copy_of: FxHashMap<InstId, InstId>,
    /// Registers for intermediate values; free again after each instruction.
    pool: Vec<RegId>,
    made: usize,
    depth: usize,
    failed: bool,
    diags: &'a mut Vec<Diagnostic>,
    m: &'a mut Module,
}

impl Flat<'_> {
    fn refuse(&mut self, i: InstId, text: impl Into<String>) {
        self.failed = true;
        self.diags.push(Diagnostic::new(codes::N0020, text).inst(self.program, self.m, i));
    }

    fn fresh_block(&mut self, stem: &str) -> BlockId {
        let mut name = CompactString::from(stem);
        let mut n = 1;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}.{n}").as_str().into();
            n += 1;
        }
        self.m.blocks.push(tandem_bir::Block { name, insts: Vec::new(), extra: None })
    }

    fn fresh_register(&mut self, stem: &str) -> RegId {
        let n = self.m.regs.len();
        let r = self.m.regs.push(Register {
            name: format!("%{stem}{n}").as_str().into(),
            engine: EngineKind::All,
            num_physical: 1,
            extra: None,
        });
        self.m.funcs[self.func].storages.push(Storage::Register(r));
        r
    }

    fn start(&mut self, b: BlockId) {
        self.m.blocks[b].insts.clear();
        self.out.push(b);
        self.current = Some(b);
    }

    fn push(&mut self, i: InstId) {
        if let Some(b) = self.current {
            self.m.blocks[b].insts.push(i);
        }
        self.made += 1;
    }

    /// Adds an instruction of every engine.
    fn add(&mut self, stem: &str, loc: Loc, mut i: Inst) {
        let n = self.m.insts.len();
        i.name = format!("{stem}.{n}").as_str().into();
        i.engine = EngineKind::All;
        i.origin = Origin::Internal;
        i.loc = loc;
        let id = self.m.insts.push(i);
        self.push(id);
    }

    fn jump(&mut self, stem: &str, loc: Loc, to: BlockId) {
        let name = self.m.blocks[to].name.clone();
        self.add(stem, loc, Inst::new("", Opcode::UnconditionalBranch).with(Attr::Target, name.as_str()));
    }

    fn branch(&mut self, at: (&str, Loc), op: BranchCompareOp, l: RegId, r: Operand, to: [BlockId; 2]) {
        let [yes, no] = to.map(|b| self.m.blocks[b].name.clone());
        let mut i = Inst::new("", Opcode::CompareAndBranch)
            .with(Attr::CompOp, op)
            .with(Attr::OnTrue, yes.as_str())
            .with(Attr::OnFalse, no.as_str());
        i.ins = vec![reg(l), r];
        self.add(at.0, at.1, i);
    }

    /// Emits a list of blocks under their new heads.
    fn run(&mut self, blocks: &[BlockId], heads: &[BlockId], frame: &Frame) {
        let lists: Vec<Vec<InstId>> = blocks.iter().map(|b| self.m.blocks[*b].insts.clone()).collect();
        self.scopes.push(blocks.iter().copied().zip(heads.iter().copied()).collect());
        for (k, list) in lists.iter().enumerate() {
            self.start(heads[k]);
            let next = heads.get(k + 1).copied().or(frame.after);
            let mut ended = false;
            for &i in list {
                if self.made > MAX_FLAT {
                    self.refuse(
                        i,
                        format!("calls and loops written out have more than {MAX_FLAT} instructions"),
                    );
                    self.scopes.pop();
                    return;
                }
                if self.failed {
                    self.scopes.pop();
                    return;
                }
                ended = self.inst(i, frame);
                if ended {
                    break;
                }
            }
            if !ended && let Some(next) = next {
                self.jump("next", Loc::NONE, next);
            }
        }
        self.scopes.pop();
    }

    /// Emits one instruction; true when it ends its block.
    fn inst(&mut self, i: InstId, frame: &Frame) -> bool {
        let (opcode, loc, name) = {
            let x = &self.m.insts[i];
            (x.opcode, x.loc, x.name.clone())
        };
        match opcode {
            Opcode::Loop | Opcode::DynamicForLoop => self.nested(i, |f| f.looped(i, frame)),
            Opcode::DoWhile => self.nested(i, |f| f.do_while(i, frame)),
            Opcode::Call => self.nested(i, |f| f.call(i)),
            Opcode::Break => match frame.brk {
                Some(b) => {
                    self.jump(&name, loc, b);
                    return true;
                }
                None => self.refuse(i, "Break outside of a region"),
            },
            Opcode::Return if frame.ret.is_some() => {
                if let Some(b) = frame.ret {
                    self.jump(&name, loc, b);
                }
                return true;
            }
            _ if !self.m.insts[i].regions().is_empty() => {
                self.refuse(i, format!("{opcode} has regions and is not linked"));
            }
            _ => {
                let id = self.copy(i);
                self.addresses(id);
                if opcode.is_terminator() {
                    self.targets(i, id, frame);
                }
                self.push(id);
                return opcode.is_terminator();
            }
        }
        false
    }

    fn nested(&mut self, i: InstId, f: impl FnOnce(&mut Self)) {
        if self.depth >= MAX_DEPTH {
            self.refuse(i, format!("calls and regions nest deeper than {MAX_DEPTH}"));
            return;
        }
        self.depth += 1;
        f(self);
        self.depth -= 1;
    }

    /// The instruction itself the first time, a copy afterwards.
    fn copy(&mut self, i: InstId) -> InstId {
        if self.emitted.insert(i) {
            // inside a region or call it may come again, and this one is about to change
            if self.depth > 0 {
                self.pristine.insert(i, self.m.insts[i].clone());
            }
            return i;
        }
        let n = self.copies.entry(i).or_insert(0);
        *n += 1;
        let mut x = self.pristine.get(&i).unwrap_or(&self.m.insts[i]).clone();
        x.name = format!("{}.{n}", x.name).as_str().into();
        for d in &mut x.deps {
            if let Some(c) = self.copy_of.get(&d.inst) {
                d.inst = *c;
            }
        }
        let id = self.m.insts.push(x);
        self.copy_of.insert(i, id);
        id
    }

    /// Branches name the new blocks.
    fn targets(&mut self, old: InstId, id: InstId, frame: &Frame) {
        for a in [Attr::Target, Attr::OnTrue, Attr::OnFalse] {
            let Some(name) = self.m.insts[id].get_str(a).map(CompactString::from) else { continue };
            let b = self.labels.get(&(frame.func, name.clone()));
            let to = b.and_then(|b| self.scopes.iter().rev().find_map(|s| s.get(b))).copied();
            match to {
                Some(b) => {
                    let name = self.m.blocks[b].name.clone();
                    self.m.insts[id].set(a, name.as_str());
                }
                None => self.refuse(old, format!("a branch to block `{name}`, which is none of its region")),
            }
        }
    }

    fn call(&mut self, i: InstId) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let callee = self.m.insts[i].get_str(Attr::Target).and_then(|n| self.m.find_function(n));
        let Some(callee) = callee else {
            self.refuse(i, "the call names no function");
            return;
        };
        if callee == self.func || self.calls.contains(&callee) {
            self.refuse(i, "a function that calls itself is not linked");
            return;
        }
        let blocks = self.m.funcs[callee].blocks.clone();
        let Some(heads) = self.heads(&blocks) else { return };
        let after = self.fresh_block(&format!("{name}-return"));
        self.jump(&name, loc, heads[0]);
        self.calls.push(callee);
        let frame = Frame { func: callee, after: Some(after), ret: Some(after), brk: None };
        self.run(&blocks, &heads, &frame);
        self.calls.pop();
        self.start(after);
    }

    /// New heads for a list; `None` when it is empty.
    fn heads(&mut self, blocks: &[BlockId]) -> Option<Vec<BlockId>> {
        if blocks.is_empty() {
            return None;
        }
        let names: Vec<CompactString> = blocks.iter().map(|b| self.m.blocks[*b].name.clone()).collect();
        Some(names.iter().map(|n| self.fresh_block(n)).collect())
    }
}

fn reg(r: RegId) -> Operand {
    Operand::Reg(RegAccess { reg: r, dtype: Dtype::Int32 })
}
