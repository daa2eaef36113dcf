//! How long an on-chip tensor is alive: from its first access to its last, in program order.
//!
//! A loop (a nested region, or the blocks between a branch that goes back and its target) counts as a whole: a tensor that is
//! accessed inside is alive throughout the outermost loop around the access, unless it hands nothing from one round to the next
//! ([`super::confined`]). Alive for the whole kernel are tensors that nothing accesses,
//! inputs, outputs and constants, tensors with aliases or with an alias on another core, and everything in a module with calls
//! or opaque kernels.
//!
//! What reuse of their bytes costs: tensors that share bytes are ordered by Anti and Output edges, so they no longer overlap in time;
//! and a read of bytes of a tensor that nothing wrote finds the bytes of the tensor before it, so the check of undefined bytes
//! may miss it. Both is why [`super::allocate`] reuses bytes only when the tensors do not fit otherwise.

use super::confined::confined;
use crate::storage::for_each_location;
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::analysis::footprint::StorageMap;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::inst::Family;
use tandem_bir::{Attr, BlockId, CompactString, InstId, MemLocId, Module, Opcode};

/// Positions of the first and the last access, in the walk over a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    first: u32,
    last: u32,
}

impl Life {
    /// Alive for the whole kernel.
    pub(super) const WHOLE: Life = Life { first: 0, last: u32::MAX };

    /// Position of the first access.
    pub(super) fn first(self) -> u32 {
        self.first
    }
    /// Position of the last access.
    pub(super) fn last(self) -> u32 {
        self.last
    }
    /// Positions between them.
    pub(super) fn length(self) -> u64 {
        u64::from(self.last - self.first)
    }
    /// Both are alive at some place.
    pub(super) fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Lifetimes of the locations of a module; `elsewhere` are the names that other cores have aliases of.
pub(super) fn lifetimes(m: &Module, elsewhere: &FxHashSet<CompactString>) -> SecondaryMap<MemLocId, Life> {
    let mut out: SecondaryMap<MemLocId, Life> = SecondaryMap::with_default(Life::WHOLE);
    let walk = m.walk();
    let opaque = walk.iter().any(|w| {
        let i = &m.insts[w.2];
        i.opcode == Opcode::Call || i.spec().family == Family::Kernel
    });
    if opaque || m.all_functions().filter(|f| !m.funcs[*f].blocks.is_empty()).count() > 1 {
        return out;
    }
    // With the block of all accesses, if it is one.
    let mut uses: IndexMap<MemLocId, (Life, Option<BlockId>)> = IndexMap::new();
    for (n, &(_, b, id)) in walk.iter().enumerate() {
        let n = n as u32;
        for_each_location(m, &m.insts[id], &mut |l, _| {
            let u = uses.entry(l).or_insert((Life { first: n, last: n }, Some(b)));
            u.0.last = n;
            u.1 = u.1.filter(|x| *x == b);
        });
    }
    let loops = loops(m, &walk);
    let stays = stay_inside(m, &uses, &loops);
    for (l, (mut life, _)) in uses {
        let loc = &m.memlocs[l];
        let set = &m.sets[loc.set];
        let kept = !loc.aliases.is_empty()
            || loc.is_remote()
            || elsewhere.contains(&loc.name)
            || set.kind.is_output()
            || set.kind.is_input()
            || set.file.as_ref().is_some_and(|f| !f.is_empty());
        if kept {
            continue;
        }
        // Loops are disjoint and in order.
        let inside = stays.contains(&l);
        for &(a, b) in loops.iter().filter(|_| !inside) {
            if a <= life.last && life.first <= b {
                life = Life { first: life.first.min(a), last: life.last.max(b) };
            }
        }
        out[l] = life;
    }
    let named: FxHashSet<&CompactString> =
        m.memlocs.values().flat_map(|l| l.aliases.iter().flat_map(|(s, l, _)| [s, l])).collect();
    for (l, loc) in m.memlocs.iter() {
        if named.contains(&loc.name) {
            out[l] = Life::WHOLE;
        }
    }
    out
}

/// Tensors of one block inside a loop that hand nothing to its next round.
fn stay_inside(
    m: &Module,
    uses: &IndexMap<MemLocId, (Life, Option<BlockId>)>,
    loops: &[(u32, u32)],
) -> FxHashSet<MemLocId> {
    let mut blocks: IndexMap<BlockId, FxHashSet<MemLocId>> = IndexMap::new();
    for (l, (life, block)) in uses {
        if let Some(b) = block
            && m.memlocs.get(*l).is_some_and(|x| x.is_on_chip())
            && loops.iter().any(|&(a, b)| a <= life.last && life.first <= b)
        {
            blocks.entry(*b).or_default().insert(*l);
        }
    }
    let mut out = FxHashSet::default();
    if blocks.is_empty() {
        return out;
    }
    let storage = StorageMap::of_module(m);
    for (b, wanted) in blocks {
        let mut accesses: IndexMap<MemLocId, Vec<InstId>> = IndexMap::new();
        for &i in &m.blocks[b].insts {
            for_each_location(m, &m.insts[i], &mut |l, _| {
                let list = accesses.entry(l).or_default();
                if wanted.contains(&l) && list.last() != Some(&i) {
                    list.push(i);
                }
            });
        }
        out.extend(
            accesses
                .iter()
                .filter(|(l, insts)| wanted.contains(l) && confined(m, &storage, insts, **l))
                .map(|x| *x.0),
        );
    }
    out
}

/// Outermost loops as ranges of positions, disjoint, in order.
fn loops(m: &Module, walk: &[(tandem_bir::FuncId, BlockId, tandem_bir::InstId)]) -> Vec<(u32, u32)> {
    let mut block: FxHashMap<BlockId, (u32, u32)> = FxHashMap::default();
    for (n, &(_, b, _)) in walk.iter().enumerate() {
        let n = n as u32;
        block.entry(b).or_insert((n, n)).1 = n;
    }
    let mut out: Vec<(u32, u32)> = Vec::new();
    let mut labels: FxHashMap<&str, Vec<BlockId>> = FxHashMap::default();
    for &(_, b, _) in walk {
        let list = labels.entry(m.blocks[b].name.as_str()).or_default();
        if list.last() != Some(&b) {
            list.push(b);
        }
    }
    for (n, &(_, _, id)) in walk.iter().enumerate() {
        let n = n as u32;
        let i = &m.insts[id];
        // Bodies follow their owner; the last of the last body ends the loop, its own bodies included.
        let mut end = n;
        let mut open: Vec<BlockId> = i.regions().to_vec();
        while let Some(b) = open.pop() {
            end = end.max(block.get(&b).map_or(n, |x| x.1));
            open.extend(m.blocks[b].insts.iter().flat_map(|i| m.insts[*i].regions()));
        }
        if end > n {
            out.push((n, end));
        }
        for a in [Attr::Target, Attr::OnTrue, Attr::OnFalse] {
            let branch = matches!(i.opcode, Opcode::CompareAndBranch | Opcode::UnconditionalBranch);
            let targets = i.get_str(a).filter(|_| branch).and_then(|t| labels.get(t));
            for t in targets.into_iter().flatten() {
                if let Some(&(start, _)) = block.get(t)
                    && start <= n
                {
                    out.push((start, n));
                }
            }
        }
    }
    out.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (a, b) in out {
        match merged.last_mut() {
            Some(l) if a <= l.1 => l.1 = l.1.max(b),
            _ => merged.push((a, b)),
        }
    }
    merged
}
