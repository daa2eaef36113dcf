//! Both cores come to their meetings equally often and in the same order, along the paths that they take.
//!
//! Definition: each core is walked from its first block: registers that hold known numbers are computed, branches on them
//! are taken, and the meetings (swaps, collectives, barriers) are noted in the order in which they are executed. The two
//! sequences must be equal. This finds unequal trip counts and branches that leave a meeting out, where control flow does
//! not depend on data.
//!
//! May miss: everything behind a branch on a register loaded from memory, behind a loop region or a call, or beyond
//! a million steps; there the walk ends, and the meetings until then are compared. Reports falsely: no. It is silent when
//! the checks of single blocks have found a fault of the meetings. Completion tokens may stand on one core alone and are left
//! to another check.

use crate::meet::{self, Kind};
use crate::{Cx, Ranks};
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::dtype::NumericClass;
use tandem_bir::inst::Family;
use tandem_bir::{
    AluOp, Attr, BlockId, BranchCompareOp, CompactString, CoreId, FuncId, Inst, InstId, Module, Opcode,
    Operand, RegId,
};

/// Instructions that a walk looks at (our choice).
const MAX_STEPS: usize = 1_000_000;

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    let meetings = ["C01", "C02", "C03", "C04", "C11"];
    if found.iter().any(|d| d.is_error() && meetings.iter().any(|p| d.code.info().id.starts_with(p))) {
        return;
    }
    for (modules, _) in &cx.pairs {
        if let Some(d) = pair(cx, *modules) {
            found.push(d);
        }
    }
}

fn pair(cx: &Cx<'_>, modules: [&Module; 2]) -> Option<Diagnostic> {
    let walks = [0, 1].map(|c| walk(modules[c], rank(cx, modules[c])));
    let [a, b] = &walks;
    let n = a.met.iter().zip(&b.met).take_while(|(x, y)| x.kind == y.kind).count();
    // Where a walk ended early nothing is known about what comes next.
    let next = |w: &Walk| -> Option<Option<usize>> {
        if n < w.met.len() { Some(Some(n)) } else { w.complete.then_some(None) }
    };
    let ends = [next(a)?, next(b)?];
    if ends == [None, None] {
        return None;
    }
    let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
    let text = |i: usize| match ends[i] {
        Some(k) => {
            let m = &walks[i].met[k];
            let times = walks[i].met[..=k].iter().filter(|x| x.inst == m.inst).count();
            let again = if times > 1 { format!(" (execution {times})") } else { String::new() };
            format!("core {} waits at {} `{}`{again}", cores[i], m.kind.text(), modules[i].insts[m.inst].name)
        }
        None => format!("core {} has ended", cores[i]),
    };
    let mut d = Diagnostic::new(codes::C0407, format!("deadlock: {}, {}", text(0), text(1)));
    for i in 0..2 {
        d = d.site(match ends[i] {
            Some(k) => site(cx, modules[i], &walks[i].met[k]).label("first unmatched"),
            None => Site::on_core(CoreId(cores[i])).label("has ended"),
        });
    }
    if let Some(p) = n.checked_sub(1) {
        for i in 0..2 {
            d = d.site(site(cx, modules[i], &walks[i].met[p]).label("last matched"));
        }
    }
    let count = |i: usize| {
        format!(
            "core {}: {}{}",
            cores[i],
            walks[i].met.len(),
            if walks[i].complete { "" } else { " or more" }
        )
    };
    d = d.note(format!("meetings along the path of {}, of {}", count(0), count(1)));
    Some(d.help("both cores must execute every swap, barrier and collective equally often: compare the trip counts and branches"))
}

fn site(cx: &Cx<'_>, m: &Module, x: &Met) -> Site {
    meet::inst_site(cx.program, m, x.func, x.block, x.inst)
}

/// What the rank instructions answer on a core (decision D14).
pub(crate) fn rank(cx: &Cx<'_>, m: &Module) -> Option<i64> {
    (cx.options.ranks == Ranks::Cores).then_some(m.core?).map(|c| i64::from(c.0))
}

struct Met {
    kind: Kind,
    func: FuncId,
    block: BlockId,
    inst: InstId,
}

/// The path of a core, as far as it is known.
pub(crate) struct Walk {
    met: Vec<Met>,
    /// The walk came to the end of the program.
    pub(crate) complete: bool,
    /// Blocks that it came to; in the last one it ended.
    pub(crate) blocks: Vec<BlockId>,
}

/// Walks a core from its first block. `rank` is what the rank instructions answer.
pub(crate) fn walk(m: &Module, rank: Option<i64>) -> Walk {
    let mut w = Walk { met: Vec::new(), complete: false, blocks: Vec::new() };
    let mut been: FxHashSet<BlockId> = FxHashSet::default();
    let Some(func) = m.all_functions().find(|f| !m.funcs[*f].blocks.is_empty()) else {
        w.complete = true;
        return w;
    };
    let list = &m.funcs[func].blocks;
    let mut labels: FxHashMap<CompactString, usize> = FxHashMap::default();
    for (k, b) in list.iter().enumerate() {
        labels.entry(m.blocks[*b].name.clone()).or_insert(k);
    }
    let mut regs: FxHashMap<RegId, i64> = FxHashMap::default();
    let (mut at, mut steps) = (0usize, 0usize);
    'blocks: while let Some(&block) = list.get(at) {
        at += 1;
        if been.insert(block) {
            w.blocks.push(block);
        }
        for &i in &m.blocks[block].insts {
            steps += 1;
            if steps > MAX_STEPS {
                return w;
            }
            let inst = &m.insts[i];
            if let Some(kind) = meet::kind_of(inst) {
                if !matches!(kind, Kind::Lone | Kind::Token(_)) {
                    w.met.push(Met { kind, func, block, inst: i });
                }
                continue;
            }
            let target = |a: Attr| inst.get_str(a).and_then(|n| labels.get(n).copied());
            if inst.opcode == Opcode::UnconditionalBranch {
                let Some(to) = target(Attr::Target) else { return w };
                at = to;
                continue 'blocks;
            }
            if inst.opcode == Opcode::CompareAndBranch {
                let Some(yes) = taken(inst, &regs) else { return w };
                let Some(to) = target(if yes { Attr::OnTrue } else { Attr::OnFalse }) else { return w };
                at = to;
                continue 'blocks;
            }
            if inst.opcode == Opcode::Return || inst.opcode == Opcode::Exit {
                w.complete = true;
                return w;
            }
            let leaves = !inst.regions().is_empty() || inst.opcode == Opcode::Call;
            if leaves || inst.spec().family == Family::Terminator {
                return w;
            }
            registers(inst, rank, &mut regs);
        }
    }
    w.complete = true;
    w
}

fn value(o: Option<&Operand>, regs: &FxHashMap<RegId, i64>) -> Option<i64> {
    match o? {
        Operand::Imm(v) => v.as_int(),
        Operand::Reg(r) => regs.get(&r.reg).copied(),
        Operand::Ap(_) | Operand::Other(_) => None,
    }
}

/// What an instruction does to registers; those whose value is not known are forgotten.
fn registers(inst: &Inst, rank: Option<i64>, regs: &mut FxHashMap<RegId, i64>) {
    let first = value(inst.ins.first(), regs);
    let known = if inst.opcode == Opcode::GetGlobalRankId {
        rank
    } else if inst.opcode == Opcode::RegisterMove {
        first
    } else if inst.opcode == Opcode::RegisterAlu && !inst.get_bool(Attr::Is64bit) {
        let op: AluOp = inst.get_enum(Attr::Op).unwrap_or(AluOp::Bypass);
        let operands = first.zip(value(inst.ins.get(1), regs));
        operands.and_then(|(a, b)| compute(op, a as i32, b as i32)).map(i64::from)
    } else {
        None
    };
    for r in inst.outs.iter().filter_map(Operand::as_reg) {
        match known {
            Some(v) => regs.insert(r.reg, v),
            None => regs.remove(&r.reg),
        };
    }
}

/// The operations that loops are made of; `None` for the others.
fn compute(op: AluOp, a: i32, b: i32) -> Option<i32> {
    let shift = u32::try_from(b).ok().filter(|s| *s < 32);
    match op {
        AluOp::Bypass => Some(a),
        AluOp::Add => Some(a.wrapping_add(b)),
        AluOp::Subtract => Some(a.wrapping_sub(b)),
        AluOp::Mult => Some(a.wrapping_mul(b)),
        AluOp::Max => Some(a.max(b)),
        AluOp::Min => Some(a.min(b)),
        AluOp::BitwiseAnd => Some(a & b),
        AluOp::BitwiseOr => Some(a | b),
        AluOp::BitwiseXor => Some(a ^ b),
        AluOp::ArithShiftRight => shift.map(|s| a >> s),
        _ => None,
    }
}

/// Whether a branch is taken; `None` when its operands are not known.
fn taken(inst: &Inst, regs: &FxHashMap<RegId, i64>) -> Option<bool> {
    let op: BranchCompareOp = inst.get_enum(Attr::CompOp)?;
    let left = inst.ins.first()?;
    let unsigned = left.as_reg().is_some_and(|r| r.dtype.class() == NumericClass::Unsigned);
    let (a, b) = (value(Some(left), regs)?, value(inst.ins.get(1), regs)?);
    op.compare(a, b, unsigned)
}
