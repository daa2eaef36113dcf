//! Where two cores meet: the synchronising instructions of each block, matched block by block.

use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use tandem_bir::diag::{Diagnostic, Site};
use tandem_bir::{
    Attr, BlockId, CollectiveKind, CompactString, CoreId, Expr, FuncId, Inst, InstId, Module, Opcode, Program,
};

/// What kind of meeting an instruction is. Meetings of unequal kinds never release each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Collective of kind 0 or 1 on a pipe.
    Swap(i64),
    /// Any other collective.
    Collective,
    /// Barrier over both cores.
    Barrier,
    /// Barrier that lists one core: it meets nobody.
    Lone,
    /// Lowered swap.
    Sb2Sb,
    /// Completion token, by name.
    Token(CompactString),
}

impl Kind {
    pub(crate) fn text(&self) -> String {
        match self {
            Kind::Swap(p) => format!("swap on pipe {p}"),
            Kind::Collective => "collective".to_owned(),
            Kind::Barrier | Kind::Lone => "core barrier".to_owned(),
            Kind::Sb2Sb => "GPSIMD swap".to_owned(),
            Kind::Token(_) => "completion token".to_owned(),
        }
    }
}

/// One meeting of one core.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(crate) kind: Kind,
    pub(crate) func: FuncId,
    pub(crate) block: BlockId,
    pub(crate) inst: InstId,
}

/// The meetings of a block that both cores have, or that one has (`present`).
pub(crate) struct BlockPair {
    pub(crate) func: CompactString,
    pub(crate) block: CompactString,
    pub(crate) present: [bool; 2],
    pub(crate) sides: [Vec<Meeting>; 2],
}

/// Kind of the meeting that an instruction is; `None` for the others.
pub(crate) fn kind_of(inst: &Inst) -> Option<Kind> {
    if inst.opcode == Opcode::CollectiveCompute {
        let pipe = inst.get_int(Attr::PipeId).unwrap_or(0);
        let kind = inst.get_enum::<CollectiveKind>(Attr::Kind);
        let swap = matches!(kind, Some(CollectiveKind::SendRecv | CollectiveKind::SendRecvCce));
        return Some(if swap { Kind::Swap(pipe) } else { Kind::Collective });
    }
    if inst.opcode == Opcode::GpsimdSb2Sb {
        return Some(Kind::Sb2Sb);
    }
    if inst.opcode == Opcode::TensorCompletion {
        return Some(Kind::Token(inst.name.clone()));
    }
    if inst.opcode == Opcode::CoreBarrier {
        let cores = inst.get_ints(Attr::Cores);
        let alone = !cores.is_empty() && cores.iter().all(|c| *c == cores[0]);
        return Some(if alone { Kind::Lone } else { Kind::Barrier });
    }
    None
}

/// Blocks of a module in program order, regions included: `(function, block)`.
pub(crate) fn blocks(m: &Module) -> Vec<(FuncId, BlockId)> {
    let mut out = Vec::new();
    for f in m.all_functions() {
        let mut stack: Vec<BlockId> = m.funcs[f].blocks.iter().rev().copied().collect();
        while let Some(b) = stack.pop() {
            out.push((f, b));
            let at = stack.len();
            for &i in &m.blocks[b].insts {
                stack.extend(m.insts[i].regions());
            }
            stack[at..].reverse();
        }
    }
    out
}

fn meetings(m: &Module, func: FuncId, block: BlockId) -> Vec<Meeting> {
    let insts = m.blocks[block].insts.iter();
    insts
        .filter_map(|&inst| kind_of(&m.insts[inst]).map(|kind| Meeting { kind, func, block, inst }))
        .collect()
}

/// Matches the blocks of two modules: by function and block name (the n-th of a name with the n-th); when the names of a
/// function's blocks differ but their number is equal, by position. Pairs without meetings are left out.
pub(crate) fn block_pairs(modules: [&Module; 2]) -> Vec<BlockPair> {
    type Key = (CompactString, CompactString, usize);
    let lists = modules.map(|m| {
        let mut seen: IndexMap<(FuncId, CompactString), usize> = IndexMap::new();
        let mut per_func: IndexMap<CompactString, Vec<(Key, FuncId, BlockId)>> = IndexMap::new();
        for (f, b) in blocks(m) {
            let name = m.blocks[b].name.clone();
            let n = seen.entry((f, name.clone())).or_insert(0);
            let func = m.funcs[f].name.clone();
            per_func.entry(func.clone()).or_default().push(((func, name, *n), f, b));
            *n += 1;
        }
        per_func
    });
    let mut out: IndexMap<Key, BlockPair> = IndexMap::new();
    for side in 0..2 {
        for (func, list) in &lists[side] {
            let other = lists[1 - side].get(func).map_or(&[][..], |v| v);
            let names: FxHashSet<&Key> = other.iter().map(|(k, ..)| k).collect();
            let same_names = list.iter().all(|(k, ..)| names.contains(k));
            let by_position = !same_names && list.len() == other.len();
            for (i, (key, f, b)) in list.iter().enumerate() {
                // Core 0 names a pair that is matched by position.
                let key = if by_position && side == 1 { &other[i].0 } else { key };
                let pair = out.entry(key.clone()).or_insert_with(|| BlockPair {
                    func: key.0.clone(),
                    block: key.1.clone(),
                    present: [false; 2],
                    sides: [Vec::new(), Vec::new()],
                });
                pair.present[side] = true;
                pair.sides[side] = meetings(modules[side], *f, *b);
            }
        }
    }
    out.into_values().filter(|p| p.sides.iter().any(|s| !s.is_empty())).collect()
}

/// The place of a meeting.
pub(crate) fn site(program: &Program, m: &Module, x: &Meeting) -> Site {
    inst_site(program, m, x.func, x.block, x.inst)
}

pub(crate) fn inst_site(program: &Program, m: &Module, func: FuncId, block: BlockId, inst: InstId) -> Site {
    let mut s = Site::near_inst(&program.locs, m, inst);
    s.function = m.funcs[func].name.to_string();
    s.block = m.blocks[block].name.to_string();
    s
}

/// Core number of a module, or its position.
pub(crate) fn core(m: &Module, position: usize) -> u32 {
    m.core.map_or(position as u32, |c| c.0)
}

/// Value of a rank expression on a core; `None` when it is known only at run time.
pub(crate) fn rank(e: &Expr, core: Option<CoreId>) -> Option<i64> {
    e.eval(&mut |leaf| match leaf {
        Expr::ShardId { .. } => core.map(|c| i64::from(c.0)),
        _ => None,
    })
}

/// `k`-th meetings of one kind on both sides.
pub(crate) fn of_kind<'a>(
    side: &'a [Meeting],
    ok: impl Fn(&Kind) -> bool + 'a,
) -> SmallVec<[&'a Meeting; 8]> {
    side.iter().filter(|m| ok(&m.kind)).collect()
}

/// Reports that one side has more meetings of a sort than the other, pointing at the first without a partner and at the
/// last that both have.
#[allow(clippy::too_many_arguments, reason = "one call site per check, all of them facts of the finding")]
pub(crate) fn unequal(
    program: &Program,
    modules: [&Module; 2],
    d: Diagnostic,
    pair: &BlockPair,
    sides: [&[&Meeting]; 2],
    what: &str,
) -> Diagnostic {
    let [a, b] = sides;
    let (more, fewer) = if a.len() > b.len() { (0, 1) } else { (1, 0) };
    let n = sides[fewer].len();
    let cores = [core(modules[0], 0), core(modules[1], 1)];
    let extra = sides[more][n];
    let mut d = d.site(
        site(program, modules[more], extra)
            .label(format!("{what} {n} of core {} has no partner", cores[more])),
    );
    if let Some(last) = n.checked_sub(1) {
        let label = format!("the last {what} of core {}", cores[fewer]);
        d = d.site(site(program, modules[fewer], sides[fewer][last]).label(label));
    } else {
        let mut s = Site::on_core(CoreId(cores[fewer]));
        s.function = pair.func.to_string();
        s.block = pair.block.to_string();
        d = d.site(s.label(format!("core {} has no {what} in this block", cores[fewer])));
    }
    d.note(format!(
        "in block `{}` core {} has {} and core {} has {}",
        pair.block,
        cores[0],
        a.len(),
        cores[1],
        b.len()
    ))
}
