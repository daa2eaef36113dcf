//! Editing helpers shared by the passes: fresh names, block rewriting, dependency remapping, barrier numbers.

use rayon::prelude::*;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use std::hash::BuildHasher as _;
use tandem_bir::enums::{AluOp, CopyMode};
use tandem_bir::{
    Attr, BlockId, CompactString, Dep, EdgeKind, Inst, InstId, MemLocId, Module, Opcode, Program, Storage,
};

/// Does the same to every module, side by side when the program is large; gives the results in the order of modules.
pub fn each_module<T: Send>(p: &mut Program, f: impl Fn(usize, &mut Module) -> T + Sync) -> Vec<T> {
    if !p.is_large() {
        return p.modules.iter_mut().enumerate().map(|(i, m)| f(i, m)).collect();
    }
    p.modules.par_iter_mut().enumerate().map(|(i, m)| f(i, m)).collect()
}

/// Names in use over all modules of one subgraph, so that a fresh name is fresh on every core.
///
/// Only hashes are held. A name that is not in use may be taken for one that is, and then gets a suffix; a name in use is
/// never given out again.
#[derive(Debug, Default)]
pub struct Names {
    insts: FxHashSet<u64>,
    locs: FxHashSet<u64>,
}

fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name)
}

impl Names {
    /// Names of the instructions, locations and sets of some modules.
    pub fn of<'a>(modules: impl IntoIterator<Item = &'a Module>) -> Names {
        let mut n = Names::default();
        for m in modules {
            n.insts.reserve(m.insts.len());
            n.insts.extend(m.walk().iter().map(|w| hash(&m.insts[w.2].name)));
            n.locs.extend(m.memlocs.values().map(|l| hash(&l.name)));
            n.locs.extend(m.sets.values().map(|s| hash(&s.name)));
        }
        n
    }
    /// An instruction name nobody has: `base`, else `base.1`, `base.2`, …
    pub fn inst(&mut self, base: &str) -> CompactString {
        fresh(&mut self.insts, base)
    }
    /// A location or set name nobody has.
    pub fn loc(&mut self, base: &str) -> CompactString {
        fresh(&mut self.locs, base)
    }
}

fn fresh(set: &mut FxHashSet<u64>, base: &str) -> CompactString {
    let mut name = CompactString::from(base);
    let mut k = 0u32;
    while !set.insert(hash(&name)) {
        k += 1;
        name = CompactString::from(format!("{base}.{k}"));
    }
    name
}

/// Edits collected for the blocks of one module, applied in one sweep over each block.
#[derive(Debug, Default)]
pub struct BlockEdits {
    /// New instructions before an instruction.
    pub before: FxHashMap<InstId, Vec<InstId>>,
    /// New instructions after an instruction.
    pub after: FxHashMap<InstId, Vec<InstId>>,
    /// Instructions that go away.
    pub remove: FxHashSet<InstId>,
    /// New instructions at the start of a block.
    pub at_start: FxHashMap<BlockId, Vec<InstId>>,
    /// New instructions before the first terminator of a block (at the end when it has none).
    pub at_end: FxHashMap<BlockId, Vec<InstId>>,
}

impl BlockEdits {
    /// Nothing to do.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
            && self.after.is_empty()
            && self.remove.is_empty()
            && self.at_start.is_empty()
            && self.at_end.is_empty()
    }
    /// Applies the edits.
    pub fn apply(mut self, m: &mut Module) {
        if self.is_empty() {
            return;
        }
        for b in m.blocks.keys().collect::<Vec<_>>() {
            let old = std::mem::take(&mut m.blocks[b].insts);
            let mut new = self.at_start.remove(&b).unwrap_or_default();
            new.reserve(old.len());
            let mut end = self.at_end.remove(&b);
            for i in old {
                if m.insts[i].opcode.is_terminator()
                    && let Some(e) = end.take()
                {
                    new.extend(e);
                }
                if let Some(v) = self.before.remove(&i) {
                    new.extend(v);
                }
                if !self.remove.contains(&i) {
                    new.push(i);
                }
                if let Some(v) = self.after.remove(&i) {
                    new.extend(v);
                }
            }
            if let Some(e) = end {
                new.extend(e);
            }
            m.blocks[b].insts = new;
        }
    }
}

/// Replaces producers in all dependencies: a producer in `last_of` by its replacement (same kind).
pub fn remap_deps(m: &mut Module, last_of: &FxHashMap<InstId, InstId>) {
    if last_of.is_empty() {
        return;
    }
    for id in m.insts.keys().collect::<Vec<_>>() {
        let hit = |d: &Dep| last_of.contains_key(&d.inst);
        let inst = &mut m.insts[id];
        if inst.deps.iter().any(hit) {
            let old = std::mem::take(&mut inst.deps);
            for d in old {
                let producer = last_of.get(&d.inst).copied().unwrap_or(d.inst);
                inst.add_dep(id, producer, d.kind);
            }
        }
        if let Some(more) = &mut inst.more {
            for d in &mut more.loop_carried {
                if let Some(&l) = last_of.get(&d.inst) {
                    d.inst = l;
                }
            }
        }
    }
}

/// Gives the i-th CoreBarrier of every module the id i (functions, blocks, nested regions in order).
/// Returns how many barriers changed their id.
pub fn renumber_core_barriers(p: &mut Program) -> u64 {
    let mut changed = 0;
    for m in &mut p.modules {
        let mut next = 0i64;
        for (_, _, i) in m.walk() {
            if m.insts[i].opcode == Opcode::CoreBarrier {
                if m.insts[i].get_int(Attr::Id) != Some(next) {
                    m.insts[i].set(Attr::Id, next);
                    changed += 1;
                }
                next += 1;
            }
        }
    }
    changed
}

/// Adds an Ordered edge between each two consecutive barriers, collectives, swaps and tokens of a block, so that no core may
/// exchange two of them (the specification, file 05 §14).
pub fn order_core_barriers_and_collectives(m: &mut Module, block: BlockId) {
    let mut last: Option<InstId> = None;
    for k in 0..m.blocks[block].insts.len() {
        let i = m.blocks[block].insts[k];
        if is_meeting_point(m.insts[i].opcode) {
            if let Some(l) = last {
                m.insts[i].add_dep(i, l, EdgeKind::Ordered);
            }
            last = Some(i);
        }
    }
}

/// The instruction meets other cores: barrier, collective, swap, completion token.
pub fn is_meeting_point(op: Opcode) -> bool {
    matches!(op, Opcode::CoreBarrier | Opcode::GpsimdSb2Sb | Opcode::TensorCompletion) || op.is_collective()
}

/// Functions of a module with their location names, for look-ups by name.
#[derive(Debug, Default)]
pub struct LocIndex {
    by_name: FxHashMap<(CompactString, CompactString), MemLocId>,
    by_tensor_id: FxHashMap<(CompactString, i32), MemLocId>,
}

impl LocIndex {
    /// Index of one module. The first location of a name wins.
    pub fn new(m: &Module) -> LocIndex {
        let mut ix = LocIndex::default();
        for f in m.all_functions() {
            let fname = m.funcs[f].name.clone();
            for s in &m.funcs[f].storages {
                let Storage::Set(set) = s else { continue };
                for &l in &m.sets[*set].locs {
                    let loc = &m.memlocs[l];
                    ix.by_name.entry((fname.clone(), loc.name.clone())).or_insert(l);
                    if loc.tensor_id >= 0 && loc.remote_local_target.is_none() {
                        ix.by_tensor_id.entry((fname.clone(), loc.tensor_id)).or_insert(l);
                    }
                }
            }
        }
        ix
    }
    /// Location by function and name.
    pub fn by_name(&self, func: &str, name: &str) -> Option<MemLocId> {
        self.by_name.get(&(CompactString::from(func), CompactString::from(name))).copied()
    }
    /// Location by function and tensor id.
    pub fn by_tensor_id(&self, func: &str, id: i32) -> Option<MemLocId> {
        self.by_tensor_id.get(&(CompactString::from(func), id)).copied()
    }
    /// Records a new location.
    pub fn add(&mut self, func: &str, name: &str, loc: MemLocId) {
        self.by_name.entry((CompactString::from(func), CompactString::from(name))).or_insert(loc);
    }
}

/// A transfer that copies bytes as they are, by addresses known before it starts, and tells no other core.
pub fn is_plain_copy(i: &Inst) -> bool {
    i.opcode == Opcode::DmaCopy
        && matches!(i.get_enum(Attr::Mode), None | Some(CopyMode::Copy))
        && matches!(i.get_enum(Attr::CceOp), None | Some(AluOp::Bypass))
        && i.indirection_ins().is_empty()
        && i.get_ints(Attr::RemoteNotification).is_empty()
}

/// Removes instructions from the blocks of a module. Whoever depended on one depends on what it depended on.
pub fn remove_insts(m: &mut Module, gone: &FxHashSet<InstId>) {
    if gone.is_empty() {
        return;
    }
    // producers that survive, per removed instruction; chains of removed ones are followed
    let mut through: FxHashMap<InstId, Vec<InstId>> = FxHashMap::default();
    for &start in m.walk().iter().map(|(_, _, i)| i).filter(|i| gone.contains(i)) {
        let (mut seen, mut stack, mut out) = (FxHashSet::default(), vec![start], Vec::new());
        while let Some(i) = stack.pop() {
            for d in &m.insts[i].deps {
                if !seen.insert(d.inst) {
                    continue;
                }
                if gone.contains(&d.inst) {
                    stack.push(d.inst);
                } else {
                    out.push(d.inst);
                }
            }
        }
        through.insert(start, out);
    }
    for b in m.blocks.keys().collect::<Vec<_>>() {
        m.blocks[b].insts.retain(|i| !gone.contains(i));
    }
    for (_, _, id) in m.walk() {
        if m.insts[id].deps.iter().any(|d| gone.contains(&d.inst)) {
            for d in std::mem::take(&mut m.insts[id].deps) {
                match through.get(&d.inst) {
                    Some(list) => {
                        for &p in list {
                            m.insts[id].add_dep(id, p, EdgeKind::Ordered);
                        }
                    }
                    None => m.insts[id].add_dep(id, d.inst, d.kind),
                }
            }
        }
        if let Some(more) = &mut m.insts[id].more {
            more.loop_carried.retain(|d| !gone.contains(&d.inst));
        }
    }
}

/// Subgraphs of a program as ranges of modules, core by core.
pub fn subgraphs(p: &Program) -> Vec<std::ops::Range<usize>> {
    let n = p.lnc_size.max(1) as usize;
    (0..p.modules.len() / n).map(|g| g * n..(g + 1) * n).collect()
}

/// Block of the function's list that an instruction of any depth belongs to, and its position there: the position of the
/// outermost region owner for nested ones.
pub fn positions(m: &Module, func: tandem_bir::FuncId) -> Vec<(usize, usize, InstId)> {
    let mut out = Vec::new();
    let nested = m.may_have_regions();
    for (bi, &b) in m.funcs[func].blocks.iter().enumerate() {
        out.reserve(m.blocks[b].insts.len());
        for (at, &top) in m.blocks[b].insts.iter().enumerate() {
            out.push((bi, at, top));
            if !nested {
                continue;
            }
            let mut stack: Vec<BlockId> = m.insts[top].regions().to_vec();
            let mut seen: FxHashSet<BlockId> = FxHashSet::default();
            while let Some(r) = stack.pop() {
                if !seen.insert(r) {
                    continue;
                }
                for &i in m.blocks.get(r).map_or(&[][..], |b| &b.insts) {
                    out.push((bi, at, i));
                    stack.extend(m.insts[i].regions());
                }
            }
        }
    }
    out
}
