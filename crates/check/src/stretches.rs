//! What two cores execute side by side: the parts of a program that the order of [`crate::clocks`] is worked out for.

use crate::Cx;
use crate::checks::paths;
use crate::meet;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use tandem_bir::analysis::cfg::Cfg;
use tandem_bir::{Attr, BlockId, CompactString, FuncId, InstId, Module, Opcode};

/// Instructions of a block, or of a part of one.
pub(crate) type Part = (FuncId, BlockId, Vec<InstId>);

/// What both cores execute once, without choices.
pub(crate) struct Unit {
    /// Barriers before it in the order of the text.
    pub(crate) base: [u32; 2],
    /// Per core, block by block.
    pub(crate) sides: [Vec<Part>; 2],
}

impl Unit {
    /// The lists of one core alone.
    pub(crate) fn stretch(&self, side: usize) -> crate::clocks::Stretch {
        self.sides[side].iter().map(|(_, _, l)| l.clone()).collect()
    }
}

/// The whole program when neither core has a choice; otherwise the blocks that both have and may execute, from one nested
/// region or call to the next. None when `agree` is false, since then the cores do not come to a block together.
pub(crate) fn units(cx: &Cx<'_>, modules: [&Module; 2], agree: bool) -> Vec<Unit> {
    if let [Some(a), Some(b)] = modules.map(straight) {
        return vec![Unit { base: [0, 0], sides: [a, b] }];
    }
    if !agree {
        return Vec::new();
    }
    let may = modules.map(|m| possible(m, paths::rank(cx, m)));
    let before = modules.map(barriers_before);
    let parts = modules.map(by_block);
    let mut out = Vec::new();
    for (key, list) in &parts[0].0 {
        let Some(other) = parts[1].1.get(key).map(|k| &parts[1].0[*k].1) else { continue };
        let runs = |c: usize, l: &[Part]| l.first().is_some_and(|p| may[c].contains(&p.1));
        if list.len() != other.len() || !runs(0, list) || !runs(1, other) {
            continue;
        }
        for (x, y) in list.iter().zip(other) {
            let base = [(0, x), (1, y)].map(|(c, p)| base_of(modules[c], &before[c], p));
            out.push(Unit { base, sides: [vec![x.clone()], vec![y.clone()]] });
        }
    }
    out
}

/// Barriers before a part of a block.
fn base_of(m: &Module, before: &FxHashMap<BlockId, u32>, (_, b, list): &Part) -> u32 {
    let insts = &m.blocks[*b].insts;
    let at = list.first().and_then(|f| insts.iter().position(|i| i == f)).unwrap_or(0);
    let mine = insts[..at].iter().filter(|i| is_barrier(m, **i)).count() as u32;
    before.get(b).copied().unwrap_or(0) + mine
}

fn is_barrier(m: &Module, i: InstId) -> bool {
    meet::kind_of(&m.insts[i]) == Some(meet::Kind::Barrier)
}

/// Barriers before each block in the order of the text.
fn barriers_before(m: &Module) -> FxHashMap<BlockId, u32> {
    let mut n = 0;
    let mut out = FxHashMap::default();
    for (_, b) in meet::blocks(m) {
        out.insert(b, n);
        n += m.blocks[b].insts.iter().filter(|i| is_barrier(m, **i)).count() as u32;
    }
    out
}

/// What two blocks of different cores execute without a meeting between: the end of one block behind its last meeting, and the
/// beginning of another, where no block on a way from the first to the second meets. False when there were more than
/// [`MOST_STEPS`] to take.
pub(crate) fn across(cx: &Cx<'_>, modules: [&Module; 2], agree: bool) -> (Vec<Unit>, bool) {
    let none = (Vec::new(), true);
    let both = modules.map(straight);
    if !agree || both.iter().all(Option::is_some) {
        return none;
    }
    let entry = modules.map(|m| m.all_functions().find(|f| !m.funcs[*f].blocks.is_empty()));
    let [Some(f0), Some(f1)] = entry else { return none };
    let lists = [&modules[0].funcs[f0].blocks, &modules[1].funcs[f1].blocks];
    let same = |k: usize| modules[0].blocks[lists[0][k]].name == modules[1].blocks[lists[1][k]].name;
    let n = lists[0].len();
    if n != lists[1].len() || !(0..n).all(same) {
        return none;
    }
    let may = modules.map(|m| possible(m, paths::rank(cx, m)));
    let before = modules.map(barriers_before);
    let tokens = modules.map(|m| -> FxHashSet<CompactString> {
        let all = m.insts.values().filter(|i| i.opcode == Opcode::TensorCompletion);
        all.map(|i| i.name.clone()).collect()
    });
    let meets = |c: usize, i: InstId| {
        let inst = &modules[c].insts[i];
        // A token that the other core does not have hands nothing on.
        let met = match meet::kind_of(inst) {
            Some(meet::Kind::Token(name)) => tokens[1 - c].contains(&name),
            k => k.is_some(),
        };
        met || leaves(inst.opcode)
            || !inst.regions().is_empty()
            || !inst.get_ints(Attr::RemoteNotification).is_empty()
    };
    let block = |c: usize, k: usize| &modules[c].blocks[lists[c][k]].insts;
    let free: Vec<bool> = (0..n).map(|k| (0..2).all(|c| !block(c, k).iter().any(|i| meets(c, *i)))).collect();
    let cfg = Cfg::new(modules[0], f0);
    let mut out = Vec::new();
    let steps = Cell::new(0u64);
    // Blocks on ways that `next` leads along; those in `end` are come to and not passed through.
    let spread =
        |from: usize, next: &dyn Fn(usize) -> Vec<usize>, end: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let mut seen: FxHashSet<usize> = FxHashSet::default();
            let (mut open, mut list) = (next(from), Vec::new());
            while let Some(k) = open.pop() {
                steps.set(steps.get() + 1);
                if seen.insert(k) {
                    list.push(k);
                    if !end(k) {
                        open.extend(next(k));
                    }
                }
            }
            list.sort_unstable();
            list
        };
    // Behind the last block lies the exit.
    let to = |list: &[u32]| -> Vec<usize> { list.iter().map(|k| *k as usize).filter(|k| *k < n).collect() };
    let succ = |k: usize| to(cfg.successors(k as u32));
    let pred = |k: usize| to(cfg.predecessors(k as u32));
    for x in 0..n {
        if (0..2).all(|c| !may[c].contains(&lists[c][x])) {
            continue;
        }
        // Where a way without meetings leads; then all ways must be.
        for y in spread(x, &succ, &|k| k == x || !free[k]) {
            if y == x {
                continue;
            }
            let stop = |k: usize| k == x || k == y;
            let ahead = spread(x, &succ, &stop);
            let back: FxHashSet<usize> = spread(y, &pred, &stop).into_iter().collect();
            if steps.get() > MOST_STEPS {
                return (out, false);
            }
            if ahead.iter().any(|k| !stop(*k) && back.contains(k) && !free[*k]) {
                continue;
            }
            for (p, q) in [(0, 1), (1, 0)] {
                if !may[p].contains(&lists[p][x]) || !may[q].contains(&lists[q][y]) {
                    continue;
                }
                let end = block(p, x).iter().rposition(|i| meets(p, *i)).map_or(0, |k| k + 1);
                let tail = block(p, x)[end..].to_vec();
                let head: Vec<InstId> = block(q, y).iter().copied().take_while(|i| !meets(q, *i)).collect();
                if tail.is_empty() || head.is_empty() {
                    continue;
                }
                let funcs = [f0, f1];
                let mut sides: [Vec<Part>; 2] = Default::default();
                sides[p].push((funcs[p], lists[p][x], tail));
                sides[q].push((funcs[q], lists[q][y], head));
                let base = [0, 1].map(|c| base_of(modules[c], &before[c], &sides[c][0]));
                out.push(Unit { base, sides });
            }
        }
    }
    (out, true)
}

/// Steps from block to block that are taken to find out which blocks are compared (our choice).
pub(crate) const MOST_STEPS: u64 = 1 << 24;

/// Blocks that a core may execute: those on its path when known registers choose all of it, else all.
fn possible(m: &Module, rank: Option<i64>) -> FxHashSet<BlockId> {
    let walk = paths::walk(m, rank);
    if walk.complete {
        return walk.blocks.into_iter().collect();
    }
    meet::blocks(m).into_iter().map(|(_, b)| b).collect()
}

/// The instructions that a core executes, when nothing decides which: unconditional branches are followed.
pub(crate) fn straight(m: &Module) -> Option<Vec<Part>> {
    let mut out = Vec::new();
    let Some(f) = m.all_functions().find(|f| !m.funcs[*f].blocks.is_empty()) else { return Some(out) };
    let list = &m.funcs[f].blocks;
    let mut been: FxHashSet<usize> = FxHashSet::default();
    let mut at = 0;
    'blocks: while let Some(&b) = list.get(at) {
        if !been.insert(at) {
            return None;
        }
        at += 1;
        let mut run = Vec::new();
        for &i in &m.blocks[b].insts {
            let inst = &m.insts[i];
            if inst.opcode == Opcode::UnconditionalBranch {
                let name = inst.get_str(Attr::Target)?;
                at = list.iter().position(|b| m.blocks[*b].name == name)?;
                out.push((f, b, run));
                continue 'blocks;
            }
            if matches!(inst.opcode, Opcode::Return | Opcode::Exit) {
                out.push((f, b, run));
                return Some(out);
            }
            if leaves(inst.opcode) || !inst.regions().is_empty() || inst.opcode == Opcode::CompareAndBranch {
                return None;
            }
            run.push(i);
        }
        out.push((f, b, run));
    }
    Some(out)
}

fn leaves(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::Call
            | Opcode::Break
            | Opcode::Loop
            | Opcode::DynamicForLoop
            | Opcode::DoWhile
            | Opcode::DmaBlock
    )
}

type Key = (CompactString, CompactString, usize);
type Parts = (Vec<(Key, Vec<Part>)>, FxHashMap<Key, usize>);

/// Blocks of a core by function, name, and number among those of the name; cut at nested regions and calls.
fn by_block(m: &Module) -> Parts {
    let mut list: Vec<(Key, Vec<Part>)> = Vec::new();
    let mut index = FxHashMap::default();
    let mut seen: FxHashMap<(FuncId, CompactString), usize> = FxHashMap::default();
    for (f, b) in meet::blocks(m) {
        let name = m.blocks[b].name.clone();
        let n = seen.entry((f, name.clone())).or_insert(0);
        let key = (m.funcs[f].name.clone(), name, *n);
        *n += 1;
        let insts = &m.blocks[b].insts;
        let cut = |i: &InstId| leaves(m.insts[*i].opcode) || !m.insts[*i].regions().is_empty();
        let parts = insts.split(cut).map(|p| (f, b, p.to_vec())).collect();
        index.insert(key.clone(), list.len());
        list.push((key, parts));
    }
    (list, index)
}
