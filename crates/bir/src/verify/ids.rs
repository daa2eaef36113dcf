//! Group 1: every id is in range, everything is in one place, names are unique, branches and dependencies lead somewhere.

use super::{At, Cx, Places, inst_name};
use crate::diag::{Diagnostic, codes};
use crate::entity::EntitySet;
use crate::enums::EngineKind;
use crate::expr::Expr;
use crate::ids::{BlockId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{AttrType, AttrValue, Operand, OtherOperand};
use crate::module::{Level, Module, Storage};
use crate::names::NameTable;
use rustc_hash::FxHashSet;

pub(super) fn run(cx: &mut Cx<'_>) {
    program_shape(cx);
    let program = cx.program;
    for (i, module) in program.modules.iter().enumerate() {
        let mut places = Places::default();
        if cx.looks_at(i) {
            places = place(cx, module);
            names(cx, module);
        }
        cx.places.push(places);
    }
    if cx.found.is_empty() {
        blocks(cx);
    }
}

fn program_shape(cx: &mut Cx<'_>) {
    let p = cx.program;
    let n = p.lnc_size as usize;
    if p.modules.is_empty() {
        cx.push(Diagnostic::new(codes::V0107, "the program has no module"));
        return;
    }
    if n == 0 || n > 2 {
        return; // reported by the last group in the documented words; the modules cannot be matched to cores
    }
    let symbolic = p.modules.iter().all(|m| m.core.is_none());
    if symbolic && (p.modules.len() == 1 || n == 1) {
        return;
    }
    if !p.modules.len().is_multiple_of(n) {
        let message = format!("{} modules do not divide into groups of {n} cores", p.modules.len());
        cx.push(Diagnostic::new(codes::V0107, message));
        return;
    }
    for (i, m) in p.modules.iter().enumerate() {
        let want = (i % n) as u32;
        if m.core.map_or(n > 1, |c| c.0 != want) {
            let have = m.core.map_or("no core".to_owned(), |c| format!("core {c}"));
            let message = format!("module {i} (`{}`) has {have} where core {want} is due", m.name);
            cx.in_module(codes::V0107, m, String::new(), message);
        }
        if m.arch != p.modules[0].arch {
            let message =
                format!("module {i} (`{}`) is for {}, module 0 for {}", m.name, m.arch, p.modules[0].arch);
            cx.in_module(codes::V0107, m, String::new(), message);
        }
    }
}

/// Puts every block and instruction in its place; reports what is in two, or nowhere to be found.
fn place<'p>(cx: &mut Cx<'p>, m: &'p Module) -> Places {
    let mut places = Places::default();
    places.block_of.resize(m.insts.len());
    places.func_of.resize(m.blocks.len());
    let mut stack: Vec<BlockId> = Vec::new();
    let mut seen_funcs = EntitySet::<FuncId>::with_capacity(m.funcs.len());
    for f in m.all_functions() {
        let Some(func) = m.funcs.get(f) else {
            cx.in_module(
                codes::V0101,
                m,
                String::new(),
                format!("the module lists function {f}, which does not exist"),
            );
            continue;
        };
        if !seen_funcs.insert(f) {
            cx.in_module(codes::V0102, m, String::new(), format!("function `{}` is listed twice", func.name));
            continue;
        }
        stack.extend(func.blocks.iter().rev());
        while let Some(b) = stack.pop() {
            let Some(block) = m.blocks.get(b) else {
                let message = format!("function `{}` lists block {b}, which does not exist", func.name);
                cx.in_module(codes::V0101, m, String::new(), message);
                continue;
            };
            if places.func_of[b].is_some() {
                let message = format!("block `{}` is listed twice, or inside itself", block.name);
                cx.in_module(codes::V0102, m, func.name.to_string(), message);
                continue;
            }
            places.func_of[b] = f.into();
            places.blocks.push((f, b));
            let first_region = stack.len();
            for &i in &block.insts {
                let Some(inst) = m.insts.get(i) else {
                    let message =
                        format!("block `{}` lists instruction {i}, which does not exist", block.name);
                    cx.in_module(codes::V0101, m, func.name.to_string(), message);
                    continue;
                };
                if places.block_of[i].is_some() {
                    let message = format!("instruction {} is listed twice", inst_name(inst));
                    cx.at(codes::V0102, At { module: m, func: f, block: b, id: i, inst }, message);
                    continue;
                }
                places.block_of[i] = b.into();
                stack.extend(inst.regions());
            }
            stack[first_region..].reverse();
        }
    }
    places
}

fn names(cx: &mut Cx<'_>, m: &Module) {
    let mut funcs: FxHashSet<&str> = FxHashSet::default();
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut storages: FxHashSet<&str> = FxHashSet::default();
    for f in m.all_functions() {
        let Some(func) = m.funcs.get(f) else { continue };
        if !funcs.insert(&func.name) {
            cx.in_module(codes::V0103, m, String::new(), format!("two functions are called `{}`", func.name));
        }
        seen.clear();
        for b in func.blocks.iter().filter_map(|b| m.blocks.get(*b)) {
            if !seen.insert(&b.name) {
                let message = format!("two blocks of `{}` are called `{}`", func.name, b.name);
                cx.in_module(codes::V0103, m, func.name.to_string(), message);
            }
        }
        // Sets, locations and registers are three name spaces; a set may be called like its location.
        storages.clear();
        for set in func.storages.iter().filter_map(|s| set_of(*s)).filter_map(|s| m.sets.get(s)) {
            if !storages.insert(&set.name) {
                let message = format!("two sets of `{}` are called `{}`", func.name, set.name);
                cx.in_module(codes::V0103, m, func.name.to_string(), message);
            }
        }
        storages.clear();
        for set in func.storages.iter().filter_map(|s| set_of(*s)).filter_map(|s| m.sets.get(s)) {
            for loc in set.locs.iter().filter_map(|l| m.memlocs.get(*l)) {
                if !storages.insert(&loc.name) {
                    let message = format!("two locations of `{}` are called `{}`", func.name, loc.name);
                    cx.in_module(codes::V0103, m, func.name.to_string(), message);
                }
            }
        }
        storages.clear();
        for s in &func.storages {
            let Storage::Register(r) = s else { continue };
            let Some(reg) = m.regs.get(*r) else { continue };
            // From the linked level on an engine has a register of its own under the shared name.
            if reg.engine == EngineKind::All && !storages.insert(&reg.name) {
                let message = format!("two registers of `{}` are called `{}`", func.name, reg.name);
                cx.in_module(codes::V0103, m, func.name.to_string(), message);
            }
        }
    }
    storage_ids(cx, m);
}

fn set_of(s: Storage) -> Option<SetId> {
    match s {
        Storage::Set(s) => Some(s),
        Storage::Register(_) => None,
    }
}

/// Ids inside storages: function → set or register, set → location, location → set.
fn storage_ids(cx: &mut Cx<'_>, m: &Module) {
    let mut owned = EntitySet::<SetId>::with_capacity(m.sets.len());
    for f in m.all_functions() {
        let Some(func) = m.funcs.get(f) else { continue };
        for s in &func.storages {
            let bad = match *s {
                Storage::Set(s) if m.sets.get(s).is_none() => format!("set {s}"),
                Storage::Register(r) if m.regs.get(r).is_none() => format!("register {r}"),
                Storage::Set(s) => {
                    if !owned.insert(s) {
                        let message = format!("set `{}` is listed twice", m.sets[s].name);
                        cx.in_module(codes::V0102, m, func.name.to_string(), message);
                    }
                    continue;
                }
                Storage::Register(_) => continue,
            };
            let message = format!("function `{}` lists {bad}, which does not exist", func.name);
            cx.in_module(codes::V0101, m, func.name.to_string(), message);
        }
    }
    let mut listed = EntitySet::<MemLocId>::with_capacity(m.memlocs.len());
    for set in m.sets.values() {
        for &l in &set.locs {
            if m.memlocs.get(l).is_none() {
                let message = format!("set `{}` lists location {l}, which does not exist", set.name);
                cx.in_module(codes::V0101, m, set.name.to_string(), message);
            } else if !listed.insert(l) {
                let message = format!("location `{}` is listed twice", m.memlocs[l].name);
                cx.in_module(codes::V0102, m, set.name.to_string(), message);
            }
        }
    }
    for l in m.memlocs.values() {
        if m.sets.get(l.set).is_none() {
            let message = format!("location `{}` belongs to {}, which does not exist", l.name, l.set);
            cx.in_module(codes::V0101, m, l.name.to_string(), message);
        }
    }
}

/// What an instruction refers to exists and is in its place.
fn references<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    for (list, i, op) in super::operands(inst) {
        if let Some(bad) = bad_operand(at.module, op) {
            let message =
                format!("{} refers to {bad}, which does not exist", super::operand_name(inst, list, i));
            cx.at(codes::V0101, at, message);
        }
    }
    let own = cx.current;
    for d in inst.deps.iter().chain(inst.more.iter().flat_map(|m| &m.loop_carried)) {
        let placed = cx.places[own].block_of.get(d.inst).is_some_and(|b| b.is_some());
        if at.module.insts.get(d.inst).is_none() {
            cx.at(
                codes::V0101,
                at,
                format!("{} depends on {}, which does not exist", inst_name(inst), d.inst),
            );
        } else if !placed {
            let name = &at.module.insts[d.inst].name;
            cx.at(codes::V0105, at, format!("{} depends on `{name}`, which is in no block", inst_name(inst)));
        }
    }
    for d in &inst.deps {
        if d.inst == at.id {
            cx.at(codes::V0105, at, format!("{} depends on itself", inst_name(inst)));
        }
    }
    for (attr, value) in inst.attrs.iter() {
        if let Some(bad) = bad_attr(at.module, value) {
            let message = format!(
                "attribute {} of {} refers to {bad}, which does not exist",
                attr.key(),
                inst_name(inst)
            );
            cx.at(codes::V0101, at, message);
        }
    }
    if let Some(more) = &inst.more {
        for e in more.predicates.iter().chain(&more.order) {
            if let Some(r) = bad_reg(at.module, e) {
                let message =
                    format!("a predicate of {} reads register {r}, which does not exist", inst_name(inst));
                cx.at(codes::V0101, at, message);
            }
        }
    }
}

fn bad_reg(m: &Module, e: &Expr) -> Option<RegId> {
    let mut bad = None;
    e.for_each_leaf(&mut |l| {
        if let Expr::Reg(r) = l
            && m.regs.get(*r).is_none()
        {
            bad = Some(*r);
        }
    });
    bad
}

fn bad_attr(m: &Module, v: &AttrValue) -> Option<String> {
    let reg = match v {
        AttrValue::Expr(e) => bad_reg(m, e),
        AttrValue::Exprs(v) => v.iter().find_map(|e| bad_reg(m, e)),
        AttrValue::Bool(_)
        | AttrValue::Int(_)
        | AttrValue::F32(_)
        | AttrValue::Enum(_)
        | AttrValue::Str(_)
        | AttrValue::Ints(_)
        | AttrValue::Floats(_)
        | AttrValue::Strs(_)
        | AttrValue::Groups(_)
        | AttrValue::Pairs(_)
        | AttrValue::Json(_) => None,
    };
    reg.map(|r| format!("register {r}"))
}

fn bad_operand(m: &Module, op: &Operand) -> Option<String> {
    let set = |s: SetId| m.sets.get(s).is_none().then(|| format!("set {s}"));
    let reg = |r: RegId| m.regs.get(r).is_none().then(|| format!("register {r}"));
    match op {
        Operand::Imm(_) => None,
        Operand::Reg(r) => reg(r.reg),
        Operand::Ap(a) => {
            if m.memlocs.get(a.loc).is_none() {
                return Some(format!("location {}", a.loc));
            }
            let d = a.dynamic.as_ref()?;
            d.terms.iter().find_map(|(_, e)| bad_reg(m, e)).map(|r| format!("register {r}"))
        }
        Operand::Other(o) => match &**o {
            OtherOperand::Symbolic { set: s, addrs, .. } => {
                set(*s).or_else(|| addrs.iter().find_map(|e| bad_reg(m, e)).map(|r| format!("register {r}")))
            }
            OtherOperand::RegisterAp { set: s, reg: r, .. } => set(*s).or_else(|| reg(*r)),
            OtherOperand::SymbolicImm { expr, .. } => bad_reg(m, expr).map(|r| format!("register {r}")),
            OtherOperand::ImmArray { .. } => None,
        },
    }
}

/// References, names inside a block, terminators, branch targets.
fn blocks(cx: &mut Cx<'_>) {
    let program = cx.program;
    let mut targets: FxHashSet<&str> = FxHashSet::default();
    for (mi, m) in program.modules.iter().enumerate() {
        if !cx.looks_at(mi) {
            continue;
        }
        cx.current = mi;
        let order = std::mem::take(&mut cx.places[mi].blocks);
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            targets.clear();
            targets.extend(group.iter().map(|(_, b)| m.blocks[*b].name.as_str()));
            for &(func, block) in group {
                block_insts(cx, m, func, block, &targets);
            }
        }
        cx.places[mi].blocks = order;
    }
}

fn block_insts<'p>(cx: &mut Cx<'p>, m: &'p Module, func: FuncId, block: BlockId, targets: &FxHashSet<&str>) {
    let insts = &m.blocks[block].insts;
    // One table per block: clearing a table costs its capacity, which one large block would make all others pay.
    let mut names = NameTable::default();
    let mut ended: Option<InstId> = None;
    for &id in insts {
        let inst = &m.insts[id];
        let at = At { module: m, func, block, id, inst };
        references(cx, at);
        if names.insert(&inst.name, id).is_err() {
            let message =
                format!("two instructions of block `{}` are called `{}`", m.blocks[block].name, inst.name);
            cx.at(codes::V0103, at, message);
        }
        // From the linked level on a branch has one copy per engine, all at the end of the block.
        if let Some(t) = ended
            && !(inst.opcode.is_terminator() && cx.program.level == Level::Linked)
        {
            let message =
                format!("{} follows the terminator `{}` of its block", inst_name(inst), m.insts[t].name);
            cx.at(codes::V0106, at, message);
        }
        if inst.opcode.is_terminator() {
            ended = ended.or(Some(id));
            branch(cx, at, targets);
        }
    }
}

fn branch<'p>(cx: &mut Cx<'p>, at: At<'p>, targets: &FxHashSet<&str>) {
    for spec in at.inst.spec().attrs.iter().filter(|a| a.ty == AttrType::BlockName) {
        if let Some(name) = at.inst.get_str(spec.attr)
            && !targets.contains(name)
        {
            let message =
                format!("{} branches to `{name}`, but its function has no such block", inst_name(at.inst));
            let d = cx.diag(codes::V0104, at, message).note(format!("`{name}` BasicBlock does not exist!"));
            cx.push(d);
        }
    }
}
