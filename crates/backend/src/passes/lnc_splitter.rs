//! `lnc-splitter`: one symbolic module becomes one module per core.
//!
//! Cores 0..N−2 get clones, core N−1 the original; slot of subgraph m, core c is `c + m·N`. In each the shard id is
//! replaced by the core index everywhere, instructions whose predicates fail are removed, and predicates that only spoke of
//! the shard id go away. A predicate holds when its expression is ≥ 0. Names survive, so cores match by name. Ranks that
//! instructions read at run time stay. With one core, or when the modules are concrete already, nothing changes.
//!
//! Not modelled: the artifact directories that the reference makes (its codes 1648–1650).

use crate::edit::remove_insts;
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use rustc_hash::FxHashSet;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::inst::OtherOperand;
use tandem_bir::{
    AccessPattern, Attr, AttrValue, BlockId, CoreId, Expr, Inst, InstId, Module, Operand, Program, SetId,
};

/// The pass.
#[derive(Debug)]
pub struct LncSplitter;

static INFO: PassInfo = PassInfo {
    name: "lnc-splitter",
    summary: "clones a symbolic module once per core and fixes the shard id in each",
    requires: &[],
    ensures: &[Fact::Concrete],
    breaks: &[],
    options: &["lnc"],
    stats: &["modules_made", "insts_removed"],
};

impl Pass for LncSplitter {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let symbolic = p.modules.iter().filter(|m| m.core.is_none()).count();
        if cx.options.lnc == 1 || symbolic == 0 {
            return Ok(());
        }
        if symbolic != p.modules.len() {
            let d = Diagnostic::new(codes::L0031, "lnc_splitter: mixed symbolic and concrete modules");
            return Err(cx.fail(d));
        }
        let n = cx.options.lnc;
        let mut out = Vec::with_capacity(p.modules.len() * n as usize);
        let mut removed = 0;
        for (sub, m) in std::mem::take(&mut p.modules).into_iter().enumerate() {
            for c in 0..n - 1 {
                let mut clone = m.clone();
                removed += concretize(&mut clone, CoreId(c), sub as u32);
                out.push(clone);
            }
            let mut last = m;
            removed += concretize(&mut last, CoreId(n - 1), sub as u32);
            out.push(last);
        }
        cx.count("modules_made", out.len() as u64);
        cx.count("insts_removed", removed);
        p.modules = out;
        p.lnc_size = n;
        Ok(())
    }
}

/// The single-module form is a hard error with the reference's code 738.
///
/// # Errors
/// Always.
pub fn run_single(_m: &mut Module) -> Result<(), Diagnostic> {
    Err(Diagnostic::new(codes::L0032, "lnc_splitter works on the vector of modules, not on one")
        .note("vendor assertion 738, predicate `false`, lnc_splitter.cpp:162"))
}

/// Fixes a symbolic module to a core. Returns how many instructions went away.
pub fn concretize(m: &mut Module, core: CoreId, subgraph: u32) -> u64 {
    m.core = Some(core);
    m.subgraph = subgraph;
    let name = format!("nc{:02}", core.0);
    if let Some(path) = m.extra.as_mut().and_then(|e| e.get_mut("artifact_path"))
        && let Some(text) = path.as_str()
    {
        *path = text.replace("nc_symbolic", &name).into();
    }
    m.name = name.as_str().into();
    let mut gone = FxHashSet::default();
    for f in m.all_functions().collect::<Vec<_>>() {
        if let Some(e) = &mut m.funcs[f].extra {
            e.remove("shard_ids");
        }
        for b in m.funcs[f].blocks.clone() {
            block(m, b, i64::from(core.0), &mut gone);
        }
    }
    let n = gone.len() as u64;
    remove_insts(m, &gone);
    n
}

/// Concretizes the instructions of a block and its regions; collects those to remove. An explicit stack, innermost first.
fn block(m: &mut Module, root: BlockId, core: i64, gone: &mut FxHashSet<InstId>) {
    let mut order = Vec::new();
    let mut stack = vec![root];
    let mut seen = FxHashSet::default();
    while let Some(b) = stack.pop() {
        if !seen.insert(b) {
            continue;
        }
        order.push(b);
        for &i in &m.blocks[b].insts {
            stack.extend(m.insts[i].regions());
        }
    }
    for b in order.into_iter().rev() {
        for i in m.blocks[b].insts.clone() {
            let regions = m.insts[i].regions().to_vec();
            let children: Vec<InstId> =
                regions.iter().flat_map(|r| m.blocks[*r].insts.iter().copied()).collect();
            let empty = !children.is_empty() && children.iter().all(|c| gone.contains(c));
            if !instruction(m, i, core) || empty {
                gone.insert(i);
                gone.extend(children);
            }
        }
    }
}

fn fix(e: &Expr, core: i64) -> Expr {
    e.substitute(&|leaf| match leaf {
        Expr::ShardId { .. } => Some(Expr::Const(core)),
        Expr::Const(_)
        | Expr::Affine { .. }
        | Expr::Sum(_)
        | Expr::Mult { .. }
        | Expr::FloorDiv(..)
        | Expr::Modulo(..)
        | Expr::CcDiv { .. }
        | Expr::LoopAxis(_)
        | Expr::IndirectArg(_)
        | Expr::Reg(_)
        | Expr::CcGetRank { .. } => None,
    })
}

/// Concretizes one instruction; false when it goes away.
fn instruction(m: &mut Module, id: InstId, core: i64) -> bool {
    let mut inst = std::mem::replace(&mut m.insts[id], Inst::new("", tandem_bir::Opcode::NoOp));
    let attrs: Vec<(Attr, AttrValue)> = inst
        .attrs
        .iter()
        .filter(|(_, v)| matches!(v, AttrValue::Expr(_) | AttrValue::Exprs(_)))
        .map(|(a, v)| (a, v.clone()))
        .collect();
    for (a, v) in attrs {
        match v {
            AttrValue::Expr(e) => inst.set(a, fix(&e, core)),
            AttrValue::Exprs(es) => inst.set(a, es.iter().map(|e| fix(e, core)).collect::<Vec<_>>()),
            _ => {}
        }
    }
    for o in inst.ins.iter_mut().chain(&mut inst.outs) {
        operand(m, o, core);
    }
    let mut keep = true;
    if let Some(more) = &mut inst.more {
        for o in &mut more.indirection_ins {
            operand(m, o, core);
        }
        for e in &mut more.order {
            *e = fix(e, core);
        }
        // the mask is judged before any predicate is dropped
        let fixed: Vec<Expr> = more.predicates.iter().map(|e| fix(e, core)).collect();
        keep = fixed.iter().all(|e| e.as_const().is_none_or(|v| v >= 0));
        more.predicates = fixed.into_iter().filter(|e| e.as_const().is_none()).collect();
    }
    m.insts[id] = inst;
    keep
}

fn operand(m: &Module, o: &mut Operand, core: i64) {
    match o {
        Operand::Ap(a) => {
            if let Some(d) = &mut a.dynamic {
                let mut rest = Vec::new();
                for (k, e) in std::mem::take(&mut d.terms) {
                    let e = fix(&e, core);
                    match e.as_const().and_then(|c| c.checked_mul(k)).and_then(|v| a.offset.checked_add(v)) {
                        Some(v) => a.offset = v,
                        None => rest.push((k, e)),
                    }
                }
                if rest.is_empty() {
                    a.dynamic = None;
                } else {
                    d.terms = rest;
                }
            }
        }
        Operand::Imm(_) | Operand::Reg(_) => {}
        Operand::Other(x) => match &mut **x {
            OtherOperand::Symbolic { set, dtype, pairs, addrs, .. } => {
                for e in addrs.iter_mut() {
                    *e = fix(e, core);
                }
                if let Some((loc, offset)) = physical(m, *set, addrs) {
                    let mut ap = AccessPattern::new(loc, *dtype, offset, &[]);
                    ap.pairs = pairs.clone();
                    *o = Operand::Ap(ap);
                }
            }
            OtherOperand::SymbolicImm { expr, .. } => *expr = fix(expr, core),
            OtherOperand::RegisterAp { .. } | OtherOperand::ImmArray { .. } => {}
        },
    }
}

/// Location and element offset of a fully constant symbolic address: one expression per tensor dimension, row-major over
/// the set's shape; only for a set of one location.
fn physical(m: &Module, set: SetId, addrs: &[Expr]) -> Option<(tandem_bir::MemLocId, i64)> {
    let s = m.sets.get(set)?;
    let [loc] = s.locs[..] else { return None };
    if addrs.len() != s.shape.len() {
        return None;
    }
    let mut stride = 1i64;
    let mut offset = 0i64;
    for (e, n) in addrs.iter().zip(&s.shape).rev() {
        offset = offset.checked_add(e.as_const()?.checked_mul(stride)?)?;
        stride = stride.checked_mul(i64::try_from(*n).ok()?)?;
    }
    Some((loc, offset))
}
