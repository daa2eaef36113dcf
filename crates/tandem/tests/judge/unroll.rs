//! Programs with loops as programs without: every core is walked along its path, and each execution becomes an instruction of one
//! block. So the judge, which knows single blocks, can judge the edges, barriers and swaps of a loop.
//!
//! Registers that hold known numbers are computed; addresses that move with them become static. Where a block ends, and at an
//! AllEngineBarrier, everything of the core is complete: an instruction of all engines stands there that waits for all.

use std::collections::{BTreeMap, BTreeSet};
use tandem_bir::inst::Dep;
use tandem_bir::{
    AluOp, Attr, BlockId, BranchCompareOp, EdgeKind, EngineKind, Expr, Inst, InstId, Module, Opcode, Operand,
    Program, RegId,
};

/// Executions of one core beyond which a test has gone wrong.
const MOST: usize = 10_000;

type Regs = BTreeMap<RegId, i64>;

fn value(o: Option<&Operand>, regs: &Regs) -> i64 {
    match o {
        Some(Operand::Imm(v)) => v.as_int().expect("an integer"),
        Some(Operand::Reg(r)) => *regs.get(&r.reg).expect("a register that was set"),
        other => panic!("{other:?} is no number"),
    }
}

fn eval(e: &Expr, regs: &Regs) -> i64 {
    match e {
        Expr::Const(v) => *v,
        Expr::Reg(r) => *regs.get(r).expect("a register that was set"),
        other => panic!("{other:?} is not unrolled"),
    }
}

/// The operand with its address worked out.
fn fixed(o: &mut Operand, regs: &Regs) {
    if let Operand::Ap(a) = o
        && let Some(d) = a.dynamic.take()
    {
        a.offset += d.terms.iter().map(|(k, e)| k * eval(e, regs)).sum::<i64>();
    }
}

fn taken(i: &Inst, regs: &Regs) -> bool {
    let (a, b) = (value(i.ins.first(), regs), value(i.ins.get(1), regs));
    let op: BranchCompareOp = i.get_enum(Attr::CompOp).expect("a comparison");
    match op {
        BranchCompareOp::LtImm | BranchCompareOp::LtReg => a < b,
        BranchCompareOp::NeImm | BranchCompareOp::NeReg => a != b,
        other => panic!("{other} is not unrolled"),
    }
}

/// One core, unrolled.
fn core(m: &mut Module) {
    let func = m.all_functions().find(|f| !m.funcs[*f].blocks.is_empty()).expect("a function");
    let list: Vec<BlockId> = m.funcs[func].blocks.clone();
    let place = |name: &str| list.iter().position(|b| m.blocks[*b].name == name).expect("a block");
    let mut regs = Regs::new();
    // Executions: what, its copy, and where segments end.
    let mut out: Vec<Inst> = Vec::new();
    let mut deps: Vec<Vec<usize>> = Vec::new();
    let mut at = 0;
    while let Some(&b) = list.get(at) {
        at += 1;
        let mut copies: BTreeMap<InstId, usize> = BTreeMap::new();
        let mut open: Vec<usize> = Vec::new();
        let join = |out: &mut Vec<Inst>, deps: &mut Vec<Vec<usize>>, open: &mut Vec<usize>| {
            let mut i = Inst::new(&format!("join-{}", out.len()), Opcode::NoOp);
            i.engine = EngineKind::All;
            out.push(i);
            deps.push(std::mem::take(open));
        };
        let mut next = None;
        for &id in &m.blocks[b].insts {
            assert!(out.len() < MOST, "{} does not end", m.blocks[b].name);
            let inst = &m.insts[id];
            match inst.opcode {
                Opcode::AllEngineBarrier => {
                    join(&mut out, &mut deps, &mut open);
                    continue;
                }
                Opcode::UnconditionalBranch => {
                    next = Some(place(inst.get_str(Attr::Target).expect("a target")));
                    continue;
                }
                Opcode::CompareAndBranch => {
                    let a = if taken(inst, &regs) { Attr::OnTrue } else { Attr::OnFalse };
                    next = Some(place(inst.get_str(a).expect("a target")));
                    continue;
                }
                Opcode::RegisterMove | Opcode::RegisterAlu => {
                    let a = value(inst.ins.first(), &regs);
                    let v = match inst.get_enum::<AluOp>(Attr::Op) {
                        _ if inst.opcode == Opcode::RegisterMove => a,
                        Some(AluOp::Add) => a + value(inst.ins.get(1), &regs),
                        Some(AluOp::BitwiseAnd) => a & value(inst.ins.get(1), &regs),
                        other => panic!("{other:?} is not unrolled"),
                    };
                    for r in inst.outs.iter().filter_map(Operand::as_reg) {
                        regs.insert(r.reg, v);
                    }
                }
                _ => {}
            }
            let mut copy = inst.clone();
            copy.name = format!("{}#{}", inst.name, out.len()).into();
            copy.deps.clear();
            copy.ins.iter_mut().chain(&mut copy.outs).for_each(|o| fixed(o, &regs));
            copies.insert(id, out.len());
            open.push(out.len());
            out.push(copy);
            deps.push(Vec::new());
        }
        // Edges inside the block, also forward ones; those to other blocks are met where the block begins.
        for (id, k) in &copies {
            deps[*k].extend(m.insts[*id].deps.iter().filter_map(|d| copies.get(&d.inst)));
        }
        join(&mut out, &mut deps, &mut open);
        at = next.unwrap_or(at);
    }
    let ids: Vec<InstId> = out.into_iter().map(|i| m.insts.push(i)).collect();
    for (id, deps) in ids.iter().zip(deps) {
        let all: BTreeSet<usize> = deps.into_iter().collect();
        m.insts[*id].deps = all.into_iter().map(|k| Dep { inst: ids[k], kind: EdgeKind::Ordered }).collect();
    }
    let first = list[0];
    m.blocks[first].insts = ids;
    // The judge looks at the first block alone.
    for b in &list[1..] {
        m.blocks[*b].insts.clear();
    }
}

/// The program with every execution as an instruction of one block per core.
pub(crate) fn unrolled(p: &Program) -> Program {
    let mut p = p.clone();
    p.modules.iter_mut().for_each(core);
    p
}
