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

use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Diagnostic, Loc, codes};
use tandem_bir::{
    AluOp, Attr, AttrValue, BlockId, BranchCompareOp, CompactString, Dtype, EngineKind, Expr, FuncId,
    Immediate, Inst, InstId, Module, Opcode, Operand, Origin, Program, RegAccess, RegId, Register, Storage,
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

/// A run-time address that is no sum of scaled registers and indexes.
fn run_time_division(i: &Inst) -> bool {
    let bad = |e: &Expr| !matches!(e, Expr::Reg(_) | Expr::IndirectArg(_) | Expr::Const(_)) && !is_sum(e);
    i.ins
        .iter()
        .chain(&i.outs)
        .filter_map(Operand::as_ap)
        .filter_map(|a| a.dynamic.as_deref())
        .any(|d| d.terms.iter().any(|(_, e)| bad(e)))
}

fn is_sum(e: &Expr) -> bool {
    match e {
        Expr::Affine { terms, .. } => {
            terms.iter().all(|(_, e)| matches!(e, Expr::Reg(_) | Expr::IndirectArg(_)))
        }
        _ => false,
    }
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

struct Looped {
    axis: Option<CompactString>,
    lower: Expr,
    upper: Expr,
    stride: i64,
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

    fn do_while(&mut self, i: InstId, frame: &Frame) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let cond = match self.m.insts[i].attrs.get(Attr::Cond) {
            Some(AttrValue::Json(v)) => {
                let n = v.as_str().or_else(|| v.get("regref").and_then(|r| r.as_str()));
                n.and_then(|n| register(self.m, n))
            }
            _ => None,
        };
        let Some(cond) = cond else {
            self.refuse(i, "the condition of the loop is no register");
            return;
        };
        let blocks = self.m.insts[i].regions().to_vec();
        let Some(heads) = self.heads(&blocks) else { return };
        let latch = self.fresh_block(&format!("{name}-latch"));
        let exit = self.fresh_block(&format!("{name}-exit"));
        self.jump(&name, loc, heads[0]);
        self.run(&blocks, &heads, &Frame { after: Some(latch), brk: Some(exit), ..*frame });
        self.start(latch);
        let zero = Operand::Imm(Immediate::i32(0));
        self.branch((&name, loc), BranchCompareOp::NeImm, cond, zero, [heads[0], exit]);
        self.start(exit);
    }

    fn looped(&mut self, i: InstId, frame: &Frame) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let l = match axis_of(self.m, &self.m.insts[i]) {
            Ok(l) => l,
            Err(e) => {
                self.refuse(i, e);
                return;
            }
        };
        let blocks = self.m.insts[i].regions().to_vec();
        let bounds = (l.lower.as_const(), l.upper.as_const());
        if let (Some(lo), Some(up)) = bounds
            && lo >= up
        {
            return;
        }
        if blocks.is_empty() {
            return;
        }
        if let Some(axis) = &l.axis
            && self.divides(&blocks, axis, 0)
        {
            match bounds {
                (Some(lo), Some(up)) => self.unroll(i, &blocks, axis, (lo, up, l.stride), frame),
                _ => self.refuse(
                    i,
                    "the body divides the axis of a loop with bounds known only at run time, which registers cannot do",
                ),
            }
            return;
        }
        let top = bounds.1.map(|u| u.checked_add(l.stride));
        if [bounds.0, bounds.1, top.flatten(), Some(l.stride)]
            .into_iter()
            .flatten()
            .any(|v| i32::try_from(v).is_err())
            || top == Some(None)
        {
            self.refuse(i, "the bounds of the loop do not fit a register of 32 bits");
            return;
        }
        let Some(heads) = self.heads(&blocks) else { return };
        let latch = self.fresh_block(&format!("{name}-latch"));
        let exit = self.fresh_block(&format!("{name}-exit"));
        let index = self.fresh_register("axis");
        self.value((&name, loc), &l.lower, index);
        let upper = match bounds.1 {
            Some(u) => Operand::Imm(Immediate::i32(u as i32)),
            None => {
                let r = self.fresh_register("bound");
                self.value((&name, loc), &l.upper, r);
                reg(r)
            }
        };
        let by_register = matches!(upper, Operand::Reg(_));
        let (lt, ge) = if by_register {
            (BranchCompareOp::LtReg, BranchCompareOp::GeReg)
        } else {
            (BranchCompareOp::LtImm, BranchCompareOp::GeImm)
        };
        if let (Some(_), Some(_)) = bounds {
            self.jump(&name, loc, heads[0]);
        } else {
            self.branch((&name, loc), ge, index, upper.clone(), [exit, heads[0]]);
        }
        if let Some(a) = &l.axis {
            self.axes.push((a.clone(), Axis::Reg(index)));
        }
        self.run(&blocks, &heads, &Frame { after: Some(latch), brk: Some(exit), ..*frame });
        if l.axis.is_some() {
            self.axes.pop();
        }
        self.start(latch);
        let mut step = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Add);
        step.ins = vec![reg(index), Operand::Imm(Immediate::i32(l.stride as i32))];
        step.outs = vec![reg(index)];
        self.add(&name, loc, step);
        self.branch((&name, loc), lt, index, upper, [heads[0], exit]);
        self.start(exit);
    }

    fn unroll(
        &mut self,
        i: InstId,
        blocks: &[BlockId],
        axis: &CompactString,
        bounds: (i64, i64, i64),
        frame: &Frame,
    ) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let exit = self.fresh_block(&format!("{name}-exit"));
        let (mut v, upper, stride) = bounds;
        let Some(mut heads) = self.heads(blocks) else { return };
        self.jump(&name, loc, heads[0]);
        loop {
            let next = v.saturating_add(stride);
            let following = if next < upper { self.heads(blocks) } else { None };
            let after = following.as_ref().map_or(exit, |h| h[0]);
            self.axes.push((axis.clone(), Axis::Const(v)));
            self.run(blocks, &heads, &Frame { after: Some(after), brk: Some(exit), ..*frame });
            self.axes.pop();
            if self.failed {
                break;
            }
            let Some(h) = following else { break };
            heads = h;
            v = next;
        }
        self.start(exit);
    }

    /// Some address below these blocks divides the axis by something registers cannot divide by.
    fn divides(&self, blocks: &[BlockId], axis: &str, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        blocks.iter().flat_map(|b| &self.m.blocks[*b].insts).any(|i| {
            let x = &self.m.insts[*i];
            let mut terms = x
                .ins
                .iter()
                .chain(&x.outs)
                .chain(x.indirection_ins())
                .filter_map(Operand::as_ap)
                .filter_map(|a| a.dynamic.as_deref())
                .flat_map(|d| &d.terms);
            terms.any(|(_, e)| mentions(e, axis) && !by_registers(e))
                || self.divides(x.regions(), axis, depth + 1)
        })
    }

    /// Replaces axes in the addresses of an instruction, and divisions by register operations before it.
    fn addresses(&mut self, id: InstId) {
        let loc = self.m.insts[id].loc;
        let name = self.m.insts[id].name.clone();
        let mut used = 0;
        for list in 0..3 {
            let n = match list {
                0 => self.m.insts[id].ins.len(),
                1 => self.m.insts[id].outs.len(),
                _ => self.m.insts[id].indirection_ins().len(),
            };
            for k in 0..n {
                let Some(mut d) = operand(self.m, id, list, k).and_then(|a| a.dynamic.take()) else {
                    continue;
                };
                for (_, e) in &mut d.terms {
                    *e = e.substitute(&|l| match l {
                        Expr::LoopAxis(n) => {
                            self.axes.iter().rev().find(|(a, _)| a == n).map(|(_, v)| match v {
                                Axis::Reg(r) => Expr::Reg(*r),
                                Axis::Const(c) => Expr::Const(*c),
                            })
                        }
                        _ => None,
                    });
                    let plain =
                        matches!(e, Expr::Reg(_) | Expr::IndirectArg(_) | Expr::Const(_)) || is_sum(e);
                    if !plain
                        && !mentions_index(e)
                        && let Some((terms, c)) = self.linear((&name, loc), e, &mut used)
                    {
                        *e = match terms.as_slice() {
                            [] => Expr::Const(c),
                            [(1, r)] if c == 0 => Expr::Reg(*r),
                            _ => Expr::Affine {
                                terms: terms.iter().map(|(k, r)| (*k, Expr::Reg(*r))).collect(),
                                c,
                            },
                        };
                    }
                }
                // an address that became constant is a plain one
                let constant = d.terms.iter().try_fold(0i64, |n, (k, e)| {
                    e.as_const().and_then(|c| c.checked_mul(*k)).and_then(|v| n.checked_add(v))
                });
                if let Some(a) = operand(self.m, id, list, k) {
                    match constant.and_then(|n| a.offset.checked_add(n)) {
                        Some(offset) if d.max_index.is_none() => a.offset = offset,
                        _ => a.dynamic = Some(d),
                    }
                }
            }
        }
        let axes = &self.axes;
        for (_, v) in self.m.insts[id].attrs.iter_mut() {
            if let AttrValue::Expr(e) = v {
                **e = e.substitute(&|l| match l {
                    Expr::LoopAxis(n) => axes.iter().rev().find(|(a, _)| a == n).map(|(_, v)| match v {
                        Axis::Reg(r) => Expr::Reg(*r),
                        Axis::Const(c) => Expr::Const(*c),
                    }),
                    _ => None,
                });
            }
        }
    }

    /// An expression over registers as a sum of scaled registers, with register operations for what is none; `None` when they
    /// cannot say it.
    fn linear(&mut self, at: (&str, Loc), e: &Expr, used: &mut usize) -> Option<(Vec<(i64, RegId)>, i64)> {
        let scaled = |(terms, c): (Vec<(i64, RegId)>, i64), k: i64| -> Option<(Vec<(i64, RegId)>, i64)> {
            let terms =
                terms.into_iter().map(|(j, r)| Some((j.checked_mul(k)?, r))).collect::<Option<Vec<_>>>()?;
            Some((terms, c.checked_mul(k)?))
        };
        match e {
            Expr::Const(c) => Some((Vec::new(), *c)),
            Expr::Reg(r) => Some((vec![(1, *r)], 0)),
            Expr::Affine { terms, c } => {
                let mut out = (Vec::new(), *c);
                for (k, e) in terms {
                    let t = scaled(self.linear(at, e, used)?, *k)?;
                    out.0.extend(t.0);
                    out.1 = out.1.checked_add(t.1)?;
                }
                Some(out)
            }
            Expr::Sum(v) => {
                let mut out = (Vec::new(), 0i64);
                for e in v {
                    let t = self.linear(at, e, used)?;
                    out.0.extend(t.0);
                    out.1 = out.1.checked_add(t.1)?;
                }
                Some(out)
            }
            Expr::Mult { var, scale } => scaled(self.linear(at, var, used)?, *scale),
            Expr::FloorDiv(n, d) | Expr::CcDiv { numer: n, denom: d, .. } | Expr::Modulo(n, d)
                if *d > 0 && d.count_ones() == 1 && i32::try_from(*d).is_ok() =>
            {
                let inner = self.linear(at, n, used)?;
                let r = self.temporary(used);
                self.sum(at, &inner, r, used)?;
                let (op, v) = if matches!(e, Expr::Modulo(..)) {
                    (AluOp::BitwiseAnd, *d - 1)
                } else {
                    (AluOp::ArithShiftRight, i64::from(d.trailing_zeros()))
                };
                self.alu(at, op, r, Operand::Imm(Immediate::i32(v as i32)));
                Some((vec![(1, r)], 0))
            }
            Expr::FloorDiv(..)
            | Expr::CcDiv { .. }
            | Expr::Modulo(..)
            | Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::CcGetRank { .. } => None,
        }
    }

    fn temporary(&mut self, used: &mut usize) -> RegId {
        *used += 1;
        if let Some(r) = self.pool.get(*used - 1) {
            return *r;
        }
        let r = self.fresh_register("part");
        self.pool.push(r);
        r
    }

    fn alu(&mut self, at: (&str, Loc), op: AluOp, r: RegId, with: Operand) {
        let mut i = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, op);
        i.ins = vec![reg(r), with];
        i.outs = vec![reg(r)];
        self.add(at.0, at.1, i);
    }

    /// A sum of scaled registers into a register.
    fn sum(
        &mut self,
        at: (&str, Loc),
        (terms, c): &(Vec<(i64, RegId)>, i64),
        to: RegId,
        used: &mut usize,
    ) -> Option<()> {
        let mut mv = Inst::new("", Opcode::RegisterMove);
        mv.ins = vec![Operand::Imm(Immediate::i32(i32::try_from(*c).ok()?))];
        mv.outs = vec![reg(to)];
        self.add(at.0, at.1, mv);
        for (k, r) in terms {
            if *k == 1 {
                self.alu(at, AluOp::Add, to, reg(*r));
                continue;
            }
            let t = self.temporary(used);
            let mut mul = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Mult);
            mul.ins = vec![reg(*r), Operand::Imm(Immediate::i32(i32::try_from(*k).ok()?))];
            mul.outs = vec![reg(t)];
            self.add(at.0, at.1, mul);
            self.alu(at, AluOp::Add, to, reg(t));
        }
        Some(())
    }

    /// The value of a loop bound into a register.
    fn value(&mut self, at: (&str, Loc), e: &Expr, to: RegId) {
        let mut used = 0;
        match e {
            Expr::Reg(r) => {
                let mut mv = Inst::new("", Opcode::RegisterMove);
                mv.ins = vec![reg(*r)];
                mv.outs = vec![reg(to)];
                self.add(at.0, at.1, mv);
            }
            e => {
                if let Some(s) = self.linear(at, e, &mut used) {
                    let _ = self.sum(at, &s, to, &mut used);
                }
            }
        }
    }
}

fn reg(r: RegId) -> Operand {
    Operand::Reg(RegAccess { reg: r, dtype: Dtype::Int32 })
}

fn operand(m: &mut Module, id: InstId, list: usize, k: usize) -> Option<&mut tandem_bir::AccessPattern> {
    let i = &mut m.insts[id];
    match list {
        0 => i.ins.get_mut(k),
        1 => i.outs.get_mut(k),
        _ => i.more.as_mut()?.indirection_ins.get_mut(k),
    }?
    .as_ap_mut()
}

fn mentions(e: &Expr, axis: &str) -> bool {
    let mut found = false;
    e.for_each_leaf(&mut |l| found |= matches!(l, Expr::LoopAxis(n) if n == axis));
    found
}

fn mentions_index(e: &Expr) -> bool {
    let mut found = false;
    e.for_each_leaf(&mut |l| found |= matches!(l, Expr::IndirectArg(_)));
    found
}

/// Register operations can compute the expression: every division is by a power of two.
fn by_registers(e: &Expr) -> bool {
    let power = |d: i64| d > 0 && d.count_ones() == 1;
    match e {
        Expr::Affine { terms, .. } => terms.iter().all(|(_, e)| by_registers(e)),
        Expr::Sum(v) => v.iter().all(by_registers),
        Expr::Mult { var, .. } => by_registers(var),
        Expr::FloorDiv(n, d) | Expr::CcDiv { numer: n, denom: d, .. } | Expr::Modulo(n, d) => {
            power(*d) && by_registers(n)
        }
        Expr::Const(_) | Expr::Reg(_) | Expr::LoopAxis(_) => true,
        Expr::ShardId { .. } | Expr::IndirectArg(_) | Expr::CcGetRank { .. } => false,
    }
}

fn register(m: &Module, name: &str) -> Option<RegId> {
    m.regs.iter().find(|(_, r)| r.name == name).map(|(id, _)| id)
}

/// Axis and bounds of a loop, as the simulator reads them.
fn axis_of(m: &Module, i: &Inst) -> Result<Looped, String> {
    let key = if i.opcode == Opcode::Loop { Attr::LoopAxisKey } else { Attr::DynamicForLoopAxis };
    let Some(AttrValue::Json(v)) = i.attrs.get(key) else {
        return Err("the loop has no axis".to_owned());
    };
    let bound = |k: &str| -> Result<Expr, String> {
        let v = v.get(k).ok_or_else(|| format!("the axis of the loop has no `{k}`"))?;
        let named = |v: &serde_json::Value| -> Option<Expr> {
            let n = v.as_str().or_else(|| v.get("regref").and_then(|r| r.as_str()))?;
            register(m, n).map(Expr::Reg)
        };
        if let Some(n) = v.as_i64() {
            return Ok(Expr::Const(n));
        }
        if let Some(r) = named(v) {
            return Ok(r);
        }
        let bad = || format!("bound `{k}` of the loop is neither a number nor a register");
        let terms = v.get("terms").and_then(|t| t.as_array()).ok_or_else(bad)?;
        let mut out = Vec::new();
        for t in terms {
            let c = t.get("coeff").or_else(|| t.get("coef")).and_then(|c| c.as_i64()).unwrap_or(1);
            out.push((c, named(t.get("idx").unwrap_or(t)).ok_or_else(bad)?));
        }
        let c = v.get("c").and_then(|c| c.as_i64()).unwrap_or(0);
        if out.is_empty() { Ok(Expr::Const(c)) } else { Ok(Expr::Affine { terms: out, c }) }
    };
    let stride = match v.get("stride") {
        None => 1,
        Some(s) => s.as_i64().filter(|s| *s > 0).ok_or("the stride of the loop is no positive number")?,
    };
    let axis = v.get("name").and_then(|n| n.as_str()).map(CompactString::from);
    Ok(Looped { axis, lower: bound("lb")?, upper: bound("ub")?, stride })
}
