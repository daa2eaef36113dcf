//! Canonical order: the arenas of a program as a reader of its text or JSON makes them.
//!
//! Passes leave deleted instructions in the arenas and append new ones at the end. Two programs that print alike have
//! equal canonical forms; that is the equality the round trips keep.

use crate::diag::{Loc, LocEntry, LocTable};
use crate::expr::Expr;
use crate::ids::{BlockId, InstId, MemLocId, RegId, SetId};
use crate::inst::{AttrValue, Dep, Inst, InstMore, Operand, OtherOperand};
use crate::module::{Module, Program, Storage};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, packed_option::ReservedValue};

/// The program with every arena in the order of its text and without dead entries. References to things that are
/// declared nowhere are kept as invalid ids; dependencies on them are dropped.
pub fn canonical(p: &Program) -> Program {
    let mut locs = LocTable::default();
    let modules = p.modules.iter().map(|m| module(m, &p.locs, &mut locs)).collect();
    Program {
        name: p.name.clone(),
        lnc_size: p.lnc_size,
        level: p.level,
        modules,
        locs,
        constants: p.constants.clone(),
        signature: p.signature.clone(),
    }
}

/// A source position moved to another table.
fn move_loc(from: &LocTable, to: &mut LocTable, loc: Loc) -> Loc {
    let mut passes = Vec::new();
    let (mut at, mut entry) = (loc, from.get(loc));
    while let Some(LocEntry::Derived { pass, from: base }) = entry {
        passes.push(pass);
        entry = if base.0 < at.0 { from.get(*base) } else { None };
        at = *base;
    }
    let mut out = entry.map_or(Loc::NONE, |e| to.intern(e.clone()));
    for pass in passes.iter().rev() {
        out = to.derive(pass, out);
    }
    out
}

#[derive(Default)]
struct Maps {
    sets: SecondaryMap<SetId, Option<SetId>>,
    locs: SecondaryMap<MemLocId, Option<MemLocId>>,
    regs: SecondaryMap<RegId, Option<RegId>>,
    insts: SecondaryMap<InstId, Option<InstId>>,
}

impl Maps {
    fn set(&self, s: SetId) -> SetId {
        self.sets[s].unwrap_or(SetId::reserved_value())
    }
    fn loc(&self, l: MemLocId) -> MemLocId {
        self.locs[l].unwrap_or(MemLocId::reserved_value())
    }
    fn reg(&self, r: RegId) -> RegId {
        self.regs[r].unwrap_or(RegId::reserved_value())
    }
    fn expr(&self, e: &mut Expr) {
        match e {
            Expr::Reg(r) => *r = self.reg(*r),
            Expr::Affine { terms, .. } => terms.iter_mut().for_each(|(_, e)| self.expr(e)),
            Expr::Sum(v) => v.iter_mut().for_each(|e| self.expr(e)),
            Expr::Mult { var: e, .. }
            | Expr::FloorDiv(e, _)
            | Expr::Modulo(e, _)
            | Expr::CcDiv { numer: e, .. } => self.expr(e),
            Expr::Const(_)
            | Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::CcGetRank { .. } => {}
        }
    }
    fn operand(&self, o: &mut Operand) {
        match o {
            Operand::Ap(a) => {
                a.loc = self.loc(a.loc);
                if let Some(d) = &mut a.dynamic {
                    d.terms.iter_mut().for_each(|(_, e)| self.expr(e));
                }
            }
            Operand::Imm(_) => {}
            Operand::Reg(r) => r.reg = self.reg(r.reg),
            Operand::Other(o) => match &mut **o {
                OtherOperand::Symbolic { set, addrs, .. } => {
                    *set = self.set(*set);
                    addrs.iter_mut().for_each(|e| self.expr(e));
                }
                OtherOperand::RegisterAp { set, reg, .. } => {
                    *set = self.set(*set);
                    *reg = self.reg(*reg);
                }
                OtherOperand::SymbolicImm { expr, .. } => self.expr(expr),
                OtherOperand::ImmArray { .. } => {}
            },
        }
    }
    fn deps(&self, deps: &mut Vec<Dep>) {
        deps.retain_mut(|d| match self.insts[d.inst] {
            Some(i) => {
                d.inst = i;
                true
            }
            None => false,
        });
    }
}

fn module(m: &Module, from: &LocTable, to: &mut LocTable) -> Module {
    let mut out = Module::new(&m.name, m.core, m.arch);
    out.subgraph = m.subgraph;
    out.queues = m.queues.clone();
    out.extra = m.extra.clone();
    let mut maps = Maps::default();
    let mut block_map: SecondaryMap<BlockId, Option<BlockId>> = SecondaryMap::new();
    let mut order: Vec<InstId> = Vec::with_capacity(m.insts.len());

    for (list, nki) in [(&m.functions, false), (&m.nki_functions, true)] {
        for &f in list {
            let Some(old) = m.funcs.get(f) else { continue };
            let mut func = old.clone();
            func.storages.clear();
            func.blocks.clear();
            for s in &old.storages {
                match *s {
                    Storage::Set(s) => {
                        let Some(set) = m.sets.get(s) else { continue };
                        let id = out.sets.next_key();
                        let mut new = set.clone();
                        new.locs.clear();
                        for &l in &set.locs {
                            let Some(loc) = m.memlocs.get(l) else { continue };
                            let mut loc = loc.clone();
                            loc.set = id;
                            let lid = out.memlocs.push(loc);
                            maps.locs[l] = Some(lid);
                            new.locs.push(lid);
                        }
                        maps.sets[s] = Some(out.sets.push(new));
                        func.storages.push(Storage::Set(id));
                    }
                    Storage::Register(r) => {
                        let Some(reg) = m.regs.get(r) else { continue };
                        let id = out.regs.push(reg.clone());
                        maps.regs[r] = Some(id);
                        func.storages.push(Storage::Register(id));
                    }
                }
            }
            // Blocks and instructions in the order of the text: a nested body follows its owner.
            for &b in &old.blocks {
                let mut stack = vec![(b, 0usize)];
                while let Some((b, i)) = stack.pop() {
                    let Some(block) = m.blocks.get(b) else { continue };
                    if i == 0 {
                        if block_map[b].is_some() {
                            continue;
                        }
                        let mut new = block.clone();
                        new.insts.clear();
                        block_map[b] = Some(out.blocks.push(new));
                    }
                    let Some(&inst) = block.insts.get(i) else { continue };
                    stack.push((b, i + 1));
                    if !m.insts.is_valid(inst) {
                        continue;
                    }
                    let id = InstId::new(order.len());
                    order.push(inst);
                    maps.insts[inst] = Some(id);
                    if let Some(nb) = block_map[b] {
                        out.blocks[nb].insts.push(id);
                    }
                    if let Some(inst) = m.insts.get(inst) {
                        stack.extend(inst.regions().iter().rev().map(|r| (*r, 0)));
                    }
                }
                func.blocks.extend(block_map[b]);
            }
            let id = out.funcs.push(func);
            if nki { out.nki_functions.push(id) } else { out.functions.push(id) }
        }
    }

    let mut insts: PrimaryMap<InstId, Inst> = PrimaryMap::with_capacity(order.len());
    for &i in &order {
        let mut inst = m.insts[i].clone();
        inst.loc = move_loc(from, to, inst.loc);
        inst.ins.iter_mut().chain(&mut inst.outs).for_each(|o| maps.operand(o));
        maps.deps(&mut inst.deps);
        for (_, v) in inst.attrs.iter_mut() {
            match v {
                AttrValue::Expr(e) => maps.expr(e),
                AttrValue::Exprs(v) => v.iter_mut().for_each(|e| maps.expr(e)),
                _ => {}
            }
        }
        if let Some(more) = &mut inst.more {
            more.indirection_ins.iter_mut().for_each(|o| maps.operand(o));
            maps.deps(&mut more.loop_carried);
            more.predicates.iter_mut().chain(&mut more.order).for_each(|e| maps.expr(e));
            more.regions = more.regions.iter().filter_map(|r| block_map[*r]).collect();
            more.operand_extra.retain(|x| !x.extra.is_empty());
            more.operand_extra.sort_by_key(|x| (x.list, x.index));
            if **more == InstMore::default() {
                inst.more = None;
            }
        }
        insts.push(inst);
    }
    out.insts = insts;
    out
}
