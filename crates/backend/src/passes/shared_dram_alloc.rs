//! `shared-dram-alloc`: places every shared DRAM tensor once.
//!
//! The lowest core that has a tensor owns its placement. Scratch (kind Internal) gets an address on the owner; on the other
//! cores it is marked as standing for the owner's and stays unallocated until `sync-shared-allocations`. Kernel inputs and
//! outputs get one address on all cores and live for the whole kernel. Two scratch tensors share bytes only when a barrier that
//! ends one lies, on every way, before or at the barrier that starts the other. Bytes count once, not per core.

use super::allocate::DRAM_ALIGN;
use super::free_list::FreeList;
use super::localize_shared_memory::shared_internals;
use crate::edit::{positions, subgraphs};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use std::ops::Range;
use tandem_bir::analysis::cfg::{Cfg, Node};
use tandem_bir::analysis::dom::DomTree;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{
    AddressSpace, CompactString, CoreId, FuncId, MemLocId, MemoryType, Module, Opcode, Program, RemoteTarget,
    Storage, TensorKind,
};

/// The pass.
#[derive(Debug)]
pub struct SharedDramAlloc;

static INFO: PassInfo = PassInfo {
    name: "shared-dram-alloc",
    summary: "places shared DRAM once, on the core that owns it",
    requires: &[Fact::LifetimesFenced],
    ensures: &[Fact::SharedPlaced],
    breaks: &[Fact::EdgesFinal],
    options: &["lnc"],
    stats: &["tensors", "views", "bytes_used", "bytes_wanted"],
};

/// Tensors of one subgraph beyond which lifetimes are not compared (our choice: the comparison is pairwise).
const MAX_COMPARED: usize = 2000;

impl Pass for SharedDramAlloc {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        for range in subgraphs(p) {
            place(p, range, cx)?;
        }
        Ok(())
    }
}

type Key = (CompactString, CompactString);

/// A lifetime: function, and the positions of its barriers on the owner core.
#[derive(Clone, Debug, Default)]
struct Life {
    func: CompactString,
    from: Option<(Node, usize)>,
    to: Option<(Node, usize)>,
}

struct Tensor {
    bytes: u64,
    internal: bool,
    holders: Vec<(usize, MemLocId)>,
    life: Life,
}

fn shared_locations(m: &Module) -> Vec<(Key, MemLocId)> {
    let mut out = Vec::new();
    for f in m.all_functions() {
        for s in &m.funcs[f].storages {
            let Storage::Set(set) = s else { continue };
            if m.sets[*set].addr_space != AddressSpace::Shared {
                continue;
            }
            for &l in &m.sets[*set].locs {
                let dram =
                    matches!(m.memlocs[l].mem, MemoryType::Dram | MemoryType::Input | MemoryType::Output);
                if dram {
                    out.push(((m.funcs[f].name.clone(), m.memlocs[l].name.clone()), l));
                }
            }
        }
    }
    out
}

fn place(p: &mut Program, range: Range<usize>, cx: &mut PassCtx) -> Result<(), Stop> {
    let mut tensors: IndexMap<Key, Tensor> = IndexMap::new();
    for mi in range.clone() {
        let m = &p.modules[mi];
        for (key, l) in shared_locations(m) {
            let t = tensors.entry(key).or_insert_with(|| Tensor {
                bytes: 0,
                internal: m.kind_of(l) == TensorKind::Internal,
                holders: Vec::new(),
                life: Life::default(),
            });
            t.bytes = t.bytes.max(m.memlocs[l].size_bytes());
            t.holders.push((mi, l));
        }
    }
    if tensors.is_empty() {
        return Ok(());
    }
    let trees = lifetimes(p, range.start, &mut tensors);
    let limit = p.arch().spec().map_or(u64::MAX, |s| s.hbm_bytes);
    let compare = tensors.len() <= MAX_COMPARED;
    let mut fixed: IndexMap<usize, u64> = IndexMap::new();
    for (k, t) in tensors.values().enumerate() {
        if let Some(&(mi, l)) = t.holders.iter().find(|(mi, l)| p.modules[*mi].memlocs[*l].allocated) {
            fixed.insert(k, p.modules[mi].memlocs[l].addr);
        }
    }
    let mut placed: Vec<(usize, u64)> = fixed.iter().map(|(k, at)| (*k, *at)).collect();
    // What is taken while lifetimes are not compared.
    let mut all = FreeList::default();
    let size_of = |t: &Tensor| t.bytes.checked_next_multiple_of(DRAM_ALIGN).unwrap_or(t.bytes);
    for (k, at) in &fixed {
        if let Some((_, t)) = tensors.get_index(*k) {
            all.take(*at, at.saturating_add(size_of(t)));
        }
    }
    let (mut wanted, mut high) = (0u64, 0u64);
    for k in 0..tensors.len() {
        let Some((key, t)) = tensors.get_index(k) else { continue };
        wanted = wanted.saturating_add(t.bytes);
        let at = match fixed.get(&k) {
            Some(at) => *at,
            None => {
                let mut used = FreeList::default();
                for &(j, at) in placed.iter().filter(|_| compare) {
                    let Some((_, o)) = tensors.get_index(j) else { continue };
                    if !apart(&trees, &t.life, &o.life) {
                        used.take(at, at.saturating_add(size_of(o)));
                    }
                }
                let used = if compare { &used } else { &all };
                let Some(at) = used.first_fit(t.bytes, DRAM_ALIGN, limit, 0) else {
                    let text = format!("shared DRAM is full: {} needs {} bytes of {limit}", key.1, t.bytes);
                    return Err(cx.fail(Diagnostic::new(codes::L0003, text)));
                };
                if compare {
                    placed.push((k, at));
                } else {
                    all.take(at, at.saturating_add(size_of(t)));
                }
                at
            }
        };
        high = high.max(at.saturating_add(t.bytes));
        let owner = t.holders[0].0;
        let owner_core = p.modules[owner].core.unwrap_or(CoreId((owner - range.start) as u32));
        for &(mi, l) in &t.holders {
            let loc = &mut p.modules[mi].memlocs[l];
            if t.internal && range.len() > 1 {
                loc.is_shared_post_dram_alloc = true;
            }
            if mi == owner || !t.internal {
                loc.allocated = true;
                (loc.addr, loc.bank, loc.base) = (at, 0, 0);
            } else {
                loc.allocated = false;
                loc.remote_local_target = Some(RemoteTarget { name: loc.name.clone(), core: owner_core });
                cx.count("views", 1);
            }
        }
        cx.count("tensors", 1);
    }
    for (core, _) in range.clone().enumerate().skip(1) {
        cx.log.push(format!(
            "Skipping shared tensor allocations on core {core}, marking as remoteLocalTarget instead"
        ));
    }
    cx.count("bytes_used", high);
    cx.count("bytes_wanted", wanted);
    Ok(())
}

type Trees = FxHashMap<CompactString, DomTree>;

/// Reads lifetimes from the barrier operands of the owner core.
fn lifetimes(p: &Program, first: usize, tensors: &mut IndexMap<Key, Tensor>) -> Trees {
    let m = &p.modules[first];
    let mut trees = Trees::default();
    let names: FxHashMap<MemLocId, Key> = shared_internals(m).into_iter().map(|(k, l)| (l, k)).collect();
    for f in m.all_functions() {
        let fname = m.funcs[f].name.clone();
        let pairs: Vec<(&Module, FuncId)> = p.modules[first..]
            .iter()
            .take(p.lnc_size as usize)
            .filter_map(|m| m.find_function(&fname).map(|f| (m, f)))
            .collect();
        trees.insert(fname.clone(), DomTree::dominators(&Cfg::merged(&pairs)));
        for (bi, at, i) in positions(m, f) {
            let inst = &m.insts[i];
            if inst.opcode != Opcode::CoreBarrier {
                continue;
            }
            let here = Some((bi as Node, at));
            let locs = |v: &[tandem_bir::Operand]| -> Vec<MemLocId> {
                v.iter().filter_map(|o| o.as_ap()).map(|a| a.loc).collect()
            };
            let (ins, outs) = (locs(&inst.ins), locs(&inst.outs));
            for l in &outs {
                // a semaphore tensor is both input and output of its barrier: it lives throughout
                if !ins.contains(l)
                    && let Some(t) = names.get(l).and_then(|k| tensors.get_mut(k))
                {
                    t.life = Life { func: fname.clone(), from: here, to: t.life.to };
                }
            }
            for l in &ins {
                if !outs.contains(l)
                    && let Some(t) = names.get(l).and_then(|k| tensors.get_mut(k))
                {
                    t.life = Life { func: fname.clone(), from: t.life.from, to: here };
                }
            }
        }
    }
    trees
}

/// One lifetime certainly ends before or where the other starts.
fn apart(trees: &Trees, a: &Life, b: &Life) -> bool {
    let before = |x: Option<(Node, usize)>, y: Option<(Node, usize)>| match (x, y) {
        (Some((bx, ix)), Some((by, iy))) => {
            (bx == by && ix <= iy) || (bx != by && trees.get(&a.func).is_some_and(|t| t.dominates(bx, by)))
        }
        _ => false,
    };
    !a.func.is_empty() && a.func == b.func && (before(a.to, b.from) || before(b.to, a.from))
}
