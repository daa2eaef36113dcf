//! The subgraphs of one core to one module.
//!
//! Source: the specification, file 08 §7.2 and §7.3. Subgraphs run one after the other on all cores: the blocks of a subgraph
//! follow those of the one before, behind a core barrier of all cores. Names of subgraph 1 and later get the prefix
//! `sgNN.`, so that a location, function or block of one subgraph is never taken for another's; ports follow their
//! location. Memory at an address is shared, as it is at the upper levels.
//!
//! Not modelled: random state across subgraphs (it starts anew in each at the upper levels, so a later subgraph that draws
//! from it is refused).

use super::flatten::entry;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::OtherOperand;
use tandem_bir::{
    Attr, AttrValue, BlockId, CompactString, EngineKind, Expr, FuncId, Inst, InstId, MemLocId, Module,
    Opcode, Operand, Origin, Program, RegId, SetId, Storage,
};

/// Where the ids of an appended module start.
struct Base {
    funcs: usize,
    blocks: usize,
    insts: usize,
    sets: usize,
    locs: usize,
    regs: usize,
}

impl Base {
    fn inst(&self, i: InstId) -> InstId {
        InstId::new(i.index() + self.insts)
    }
    fn block(&self, b: BlockId) -> BlockId {
        BlockId::new(b.index() + self.blocks)
    }
    fn reg(&self, r: RegId) -> RegId {
        RegId::new(r.index() + self.regs)
    }
    fn set(&self, s: SetId) -> SetId {
        SetId::new(s.index() + self.sets)
    }
    fn loc(&self, l: MemLocId) -> MemLocId {
        MemLocId::new(l.index() + self.locs)
    }
    fn expr(&self, e: &Expr) -> Expr {
        e.substitute(&|l| match l {
            Expr::Reg(r) => Some(Expr::Reg(self.reg(*r))),
            _ => None,
        })
    }
    fn operand(&self, o: &mut Operand) {
        match o {
            Operand::Ap(a) => {
                a.loc = self.loc(a.loc);
                for (_, e) in a.dynamic.iter_mut().flat_map(|d| &mut d.terms) {
                    *e = self.expr(e);
                }
            }
            Operand::Reg(r) => r.reg = self.reg(r.reg),
            Operand::Imm(_) => {}
            Operand::Other(o) => match &mut **o {
                OtherOperand::Symbolic { set, addrs, .. } => {
                    *set = self.set(*set);
                    addrs.iter_mut().for_each(|e| *e = self.expr(e));
                }
                OtherOperand::RegisterAp { set, reg, .. } => {
                    *set = self.set(*set);
                    *reg = self.reg(*reg);
                }
                OtherOperand::SymbolicImm { expr, .. } => *expr = self.expr(expr),
                OtherOperand::ImmArray { .. } => {}
            },
        }
    }
    fn instruction(&self, i: &mut Inst, prefix: &str) {
        i.ins.iter_mut().chain(&mut i.outs).for_each(|o| self.operand(o));
        for (_, v) in i.attrs.iter_mut() {
            match v {
                AttrValue::Expr(e) => **e = self.expr(e),
                AttrValue::Exprs(l) => l.iter_mut().for_each(|e| *e = self.expr(e)),
                _ => {}
            }
        }
        for d in &mut i.deps {
            d.inst = self.inst(d.inst);
        }
        if let Some(more) = &mut i.more {
            more.indirection_ins.iter_mut().for_each(|o| self.operand(o));
            more.loop_carried.iter_mut().for_each(|d| d.inst = self.inst(d.inst));
            more.regions.iter_mut().for_each(|b| *b = self.block(*b));
            more.predicates.iter_mut().chain(&mut more.order).for_each(|e| *e = self.expr(e));
        }
        i.name = prefixed(prefix, &i.name);
        for a in [Attr::Target, Attr::OnTrue, Attr::OnFalse] {
            if i.spec().attr(a).is_some()
                && let Some(n) = i.get_str(a).map(|n| prefixed(prefix, n))
            {
                i.set(a, n.as_str());
            }
        }
        for a in [Attr::Cond, Attr::LoopAxisKey, Attr::DynamicForLoopAxis] {
            for (k, v) in i.attrs.iter_mut() {
                if k == a
                    && let AttrValue::Json(j) = v
                {
                    registers(j, prefix, true);
                }
            }
        }
    }
}

fn prefixed(prefix: &str, name: &str) -> CompactString {
    format!("{prefix}{name}").as_str().into()
}

/// Names of registers in a loop's axis or condition. The axis' own name stays: it is one of the enclosing loops.
fn registers(v: &mut serde_json::Value, prefix: &str, top: bool) {
    match v {
        serde_json::Value::String(s) => *s = format!("{prefix}{s}"),
        serde_json::Value::Array(a) => a.iter_mut().for_each(|v| registers(v, prefix, false)),
        serde_json::Value::Object(o) => {
            for (k, v) in o.iter_mut() {
                if !(top && k == "name") {
                    registers(v, prefix, false);
                }
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

/// Joins the subgraphs of each core; a program of one subgraph is left alone.
///
/// # Errors
/// N0020 for random state that a later subgraph draws from.
pub fn merge_subgraphs(p: &mut Program, diags: &mut Vec<Diagnostic>) {
    let n = p.lnc_size.max(1) as usize;
    if p.modules.len() <= n || !p.modules.len().is_multiple_of(n) {
        return;
    }
    for (k, m) in p.modules.iter().enumerate().skip(n) {
        if m.subgraph as usize != k / n {
            return; // the caller reports the set of modules
        }
        if let Some((_, _, i)) = m.walk().into_iter().find(|(_, _, i)| draws(&m.insts[*i])) {
            let text = format!("{} in a later subgraph, whose random state starts anew", m.insts[i].opcode);
            diags.push(Diagnostic::new(codes::N0020, text).inst(p, m, i));
        }
    }
    if diags.iter().any(Diagnostic::is_error) {
        return;
    }
    let rest = p.modules.split_off(n);
    let count = rest.len() / n + 1;
    let mut funcs: Vec<Option<FuncId>> = Vec::new();
    for m in &mut p.modules {
        let f = entry(m);
        if let Some(f) = f {
            leave_to(m, f, "sg01.%begin");
        }
        funcs.push(f);
    }
    for (k, other) in rest.into_iter().enumerate() {
        let (sg, c) = (k / n + 1, k % n);
        let prefix = format!("sg{sg:02}.");
        let next = (sg + 1 < count).then(|| format!("sg{:02}.%begin", sg + 1));
        append(&mut p.modules[c], &mut funcs[c], other, &prefix, next.as_deref(), n);
    }
    for port in p.signature.inputs.iter_mut().chain(&mut p.signature.outputs) {
        if port.subgraph > 0 {
            port.location = prefixed(&format!("sg{:02}.", port.subgraph), &port.location);
            port.subgraph = 0;
        }
    }
}

fn draws(i: &Inst) -> bool {
    matches!(
        i.opcode,
        Opcode::Dropout
            | Opcode::Rand
            | Opcode::Rand2
            | Opcode::Rng
            | Opcode::RandGetState
            | Opcode::GetRandState
    ) || i.opcode == Opcode::Memset
        && i.get_enum::<tandem_bir::MemsetMode>(Attr::Mode) == Some(tandem_bir::MemsetMode::Random)
}

/// Makes every end of a function go to a block, and the last block too.
fn leave_to(m: &mut Module, f: FuncId, to: &str) {
    let mut lists: Vec<BlockId> = m.funcs[f].blocks.clone();
    let mut at = 0;
    while let Some(&b) = lists.get(at) {
        at += 1;
        for i in m.blocks[b].insts.clone() {
            lists.extend(m.insts[i].regions());
            if matches!(m.insts[i].opcode, Opcode::Return | Opcode::Exit) {
                let mut j = jump(&m.insts[i].name, to);
                j.origin = Origin::Nki;
                j.loc = m.insts[i].loc;
                j.deps = std::mem::take(&mut m.insts[i].deps);
                m.insts[i] = j;
            }
        }
    }
    let last = m.funcs[f].blocks.last().copied();
    if let Some(b) = last
        && m.blocks[b].insts.last().is_none_or(|i| !m.insts[*i].opcode.is_terminator())
    {
        m.push_inst(b, jump("subgraph-end", to));
    }
}

/// A jump of every engine.
fn jump(name: &str, to: &str) -> Inst {
    let mut j = Inst::new(name, Opcode::UnconditionalBranch).with(Attr::Target, to);
    j.engine = EngineKind::All;
    j.origin = Origin::Internal;
    j
}

fn append(
    m: &mut Module,
    func: &mut Option<FuncId>,
    mut other: Module,
    prefix: &str,
    next: Option<&str>,
    cores: usize,
) {
    let base = Base {
        funcs: m.funcs.len(),
        blocks: m.blocks.len(),
        insts: m.insts.len(),
        sets: m.sets.len(),
        locs: m.memlocs.len(),
        regs: m.regs.len(),
    };
    let other_entry = entry(&other);
    for (_, mut i) in std::mem::take(&mut other.insts) {
        base.instruction(&mut i, prefix);
        m.insts.push(i);
    }
    for (_, mut b) in std::mem::take(&mut other.blocks) {
        b.name = prefixed(prefix, &b.name);
        b.insts.iter_mut().for_each(|i| *i = base.inst(*i));
        m.blocks.push(b);
    }
    for (_, mut s) in std::mem::take(&mut other.sets) {
        s.name = prefixed(prefix, &s.name);
        s.locs.iter_mut().for_each(|l| *l = base.loc(*l));
        m.sets.push(s);
    }
    for (_, mut l) in std::mem::take(&mut other.memlocs) {
        l.name = prefixed(prefix, &l.name);
        l.set = base.set(l.set);
        if let Some(t) = &mut l.remote_local_target {
            t.name = prefixed(prefix, &t.name);
        }
        m.memlocs.push(l);
    }
    for (_, mut r) in std::mem::take(&mut other.regs) {
        r.name = prefixed(prefix, &r.name);
        m.regs.push(r);
    }
    for (_, mut f) in std::mem::take(&mut other.funcs) {
        f.name = prefixed(prefix, &f.name);
        f.blocks.iter_mut().for_each(|b| *b = base.block(*b));
        for s in &mut f.storages {
            *s = match *s {
                Storage::Set(s) => Storage::Set(base.set(s)),
                Storage::Register(r) => Storage::Register(base.reg(r)),
            };
        }
        m.funcs.push(f);
    }
    let id = |f: &FuncId| FuncId::new(f.index() + base.funcs);
    m.functions.extend(other.functions.iter().map(id));
    m.nki_functions.extend(other.nki_functions.iter().map(id));
    // the first block: all cores have ended the subgraph before
    let begin =
        m.blocks.push(tandem_bir::Block { name: prefixed(prefix, "%begin"), insts: Vec::new(), extra: None });
    if cores > 1 {
        let mut cb = Inst::new(&format!("{prefix}cb_begin"), Opcode::CoreBarrier);
        cb.engine = EngineKind::Pool;
        cb.origin = Origin::Internal;
        cb.set(Attr::Cores, (0..cores as i64).collect::<Vec<_>>());
        m.push_inst(begin, cb);
    }
    let blocks = match other_entry.map(|f| id(&f)) {
        None => Vec::new(),
        Some(f) => {
            if let Some(next) = next {
                leave_to(m, f, next);
            }
            std::mem::take(&mut m.funcs[f].blocks)
        }
    };
    let home =
        *func.get_or_insert_with(|| m.functions.first().copied().unwrap_or_else(|| m.add_function("main")));
    if blocks.is_empty()
        && let Some(next) = next
    {
        m.push_inst(begin, jump("subgraph-end", next));
    }
    m.funcs[home].blocks.push(begin);
    m.funcs[home].blocks.extend(blocks);
}

/// Names that several functions of a core use for a location get the function's name in front, on all cores alike.
pub fn unique_names(p: &mut Program) {
    // Names to change, per function name.
    let mut clash: FxHashMap<CompactString, FxHashSet<CompactString>> = FxHashMap::default();
    for m in &p.modules {
        // one function alone cannot clash with another
        if m.all_functions().filter(|f| !m.funcs[*f].storages.is_empty()).take(2).count() < 2 {
            continue;
        }
        let mut seen: FxHashMap<CompactString, FuncId> = FxHashMap::default();
        for f in m.all_functions() {
            for l in locations(m, f) {
                let name = &m.memlocs[l].name;
                if *seen.entry(name.clone()).or_insert(f) != f {
                    clash.entry(m.funcs[f].name.clone()).or_default().insert(name.clone());
                }
            }
        }
    }
    if clash.is_empty() {
        return;
    }
    for m in &mut p.modules {
        for f in m.all_functions().collect::<Vec<_>>() {
            let func = m.funcs[f].name.clone();
            let Some(names) = clash.get(&func) else { continue };
            let renamed = |n: &CompactString| names.contains(n);
            for l in locations(m, f) {
                if renamed(&m.memlocs[l].name) {
                    m.memlocs[l].name = format!("{func}.{}", m.memlocs[l].name).as_str().into();
                }
                if let Some(t) = &mut m.memlocs[l].remote_local_target
                    && renamed(&t.name)
                {
                    t.name = format!("{func}.{}", t.name).as_str().into();
                }
            }
        }
    }
}

fn locations(m: &Module, f: FuncId) -> Vec<MemLocId> {
    m.funcs[f]
        .storages
        .iter()
        .filter_map(|s| match s {
            Storage::Set(s) => Some(*s),
            Storage::Register(_) => None,
        })
        .flat_map(|s| m.sets[s].locs.iter().copied())
        .collect()
}
