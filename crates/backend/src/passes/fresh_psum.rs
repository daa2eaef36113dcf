//! `fresh-psum`: the first matmul onto a tensor overwrites what another tensor left at its address.
//!
//! The automatic rule (the specification, file 09 §6.14) accumulates onto a byte that a matmul has written and nothing has read
//! since, and closes the byte when "its location is freed/reused". Reuse is a matter of tensors, which neither PSUM nor a record
//! knows. So it is decided here: where PSUM tensors share bytes, the first matmul onto bytes of a tensor gets flags 0 (plain
//! overwrite) in place of the automatic ones.
//!
//! Ensures: nothing that later passes rely on. Decides for tensors that all matmuls write in one block, in a module of one
//! function, where the block runs once or nothing in the tensor is carried from one run of it to the next
//! ([`super::confined`]): elsewhere the first one in program order need not be the first one that runs. A matmul whose
//! destination is new in part stays automatic.

use super::confined::confined;
use crate::pass::{Pass, PassCtx, PassInfo, Stop};
use crate::storage::for_each_location;
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::analysis::cfg::Cfg;
use tandem_bir::analysis::footprint::{Footprint, StorageMap, overlaps};
use tandem_bir::analysis::scc::Scc;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::inst::table::AUTO_ACCUMULATION;
use tandem_bir::{AccessPattern, Attr, BlockId, Inst, InstId, MemLocId, MemoryType, Module, Program, SetId};

/// The pass.
#[derive(Debug)]
pub struct FreshPsum;

static INFO: PassInfo = PassInfo {
    name: "fresh-psum",
    summary: "the first matmul onto a PSUM tensor overwrites what another one left there",
    requires: &[],
    ensures: &[],
    breaks: &[],
    options: &[],
    stats: &["marked"],
};

impl Pass for FreshPsum {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        for m in &mut p.modules {
            let first = first_writes(m);
            cx.count("marked", first.len() as u64);
            for i in first {
                m.insts[i].set(Attr::AccumulationFlag, 0);
            }
        }
        Ok(())
    }
}

/// Bytes that tensors are told apart by when asking which of them share storage (our choice; coarser only marks more).
const GRANULE: i64 = 64;

/// Placed PSUM locations some of whose bytes, in whatever partitions, belong to another set as well; `None` when there are none.
fn shared(m: &Module, storage: &StorageMap) -> Option<SecondaryMap<MemLocId, bool>> {
    let granules = |l: MemLocId| {
        let f = Footprint::whole(storage.placement(l), &m.memlocs[l]);
        f.low.div_euclid(GRANULE)..=(f.high - 1).max(f.low).div_euclid(GRANULE)
    };
    let placed = || m.memlocs.iter().filter(|(_, l)| l.mem == MemoryType::Psum && l.allocated);
    // Per granule the first set that lies there, and whether others do.
    let mut owners: FxHashMap<i64, (SetId, bool)> = FxHashMap::default();
    for (id, l) in placed() {
        for g in granules(id) {
            let o = owners.entry(g).or_insert((l.set, false));
            o.1 |= o.0 != l.set;
        }
    }
    if owners.values().all(|o| !o.1) {
        return None;
    }
    let mut out = SecondaryMap::with_capacity(m.memlocs.len());
    for (id, _) in placed() {
        out[id] = granules(id).any(|g| owners[&g].1);
    }
    Some(out)
}

/// The PSUM operand that a matmul writes.
fn product<'i>(m: &Module, i: &'i Inst) -> Option<&'i AccessPattern> {
    i.spec().attr(Attr::AccumulationFlag)?;
    let a = i.outs.first()?.as_ap()?;
    (m.memlocs.get(a.loc)?.mem == MemoryType::Psum).then_some(a)
}

/// Instructions in program order.
#[derive(Default)]
struct List {
    blocks: Option<(BlockId, BlockId)>,
    insts: Vec<InstId>,
}

impl List {
    fn push(&mut self, b: BlockId, i: InstId) {
        if self.insts.last() != Some(&i) {
            self.insts.push(i);
        }
        let (first, last) = self.blocks.unwrap_or((b, b));
        self.blocks = Some((first, if last == first { b } else { last }));
    }
    /// The block of all of them, if it is one.
    fn block(&self) -> Option<BlockId> {
        self.blocks.filter(|(a, b)| a == b).map(|x| x.0)
    }
}

/// What names a PSUM location, and which of it are products onto it.
#[derive(Default)]
struct Uses {
    all: List,
    products: List,
}

/// Matmuls with automatic flags of which no earlier one touches the bytes of its destination in the same tensor.
fn first_writes(m: &Module) -> Vec<InstId> {
    let [func] = m.functions[..] else { return Vec::new() };
    let storage = StorageMap::of_module(m);
    let Some(shared) = shared(m, &storage) else { return Vec::new() };
    let mut uses: IndexMap<MemLocId, Uses> = IndexMap::new();
    for (_, b, i) in m.walk() {
        for_each_location(m, &m.insts[i], &mut |l, _| {
            if shared[l] {
                uses.entry(l).or_default().all.push(b, i);
            }
        });
        if let Some(a) = product(m, &m.insts[i]).filter(|a| shared[a.loc]) {
            uses.entry(a.loc).or_default().products.push(b, i);
        }
    }
    let cfg = Cfg::new(m, func);
    let loops = Scc::new(&cfg);
    let once =
        |b: BlockId| cfg.region_owner(b).is_none() && cfg.node_of(b).is_some_and(|node| !loops.in_loop(node));
    let mut first = Vec::new();
    for (l, u) in &uses {
        let Some(block) = u.products.block() else { continue };
        let inside = || u.all.block() == Some(block) && confined(m, &storage, &u.all.insts, *l);
        if !once(block) && !inside() {
            continue;
        }
        let mut patterns = FxHashSet::default();
        let mut written: Vec<Footprint> = Vec::new();
        for &i in &u.products.insts {
            let inst = &m.insts[i];
            let Some(a) = product(m, inst) else { continue };
            let foot = storage.footprint(m, a);
            if !foot.exact {
                break;
            }
            if !patterns.insert((a.offset, a.dtype, a.pairs.clone())) {
                continue;
            }
            let automatic = inst.get_int(Attr::AccumulationFlag).is_none_or(|f| f & AUTO_ACCUMULATION != 0);
            if automatic && !written.iter().any(|w| overlaps(w, &foot)) {
                first.push(i);
            }
            written.push(foot);
        }
    }
    first
}
