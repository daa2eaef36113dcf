//! `localize-shared-memory`: shared scratch that only one core touches becomes private to it.
//!
//! A location is matched by function and name. Touched by one core of several: Local there, removed elsewhere. Touched by two
//! cores: stays shared. With one core nothing changes (the specification, file 05 §7).

use super::dead_code_elim::{remove_locations, used_locations};
use crate::edit::subgraphs;
use crate::pass::{Pass, PassCtx, PassInfo, Stop};
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::{AddressSpace, CompactString, MemLocId, Module, Program, Storage, TensorKind};

/// The pass.
#[derive(Debug)]
pub struct LocalizeSharedMemory;

static INFO: PassInfo = PassInfo {
    name: "localize-shared-memory",
    summary: "makes shared scratch private where one core alone touches it",
    requires: &[],
    ensures: &[],
    breaks: &[],
    options: &["lnc"],
    stats: &["localized", "removed"],
};

type Key = (CompactString, CompactString);

/// Shared internal locations of a module with their function and name.
pub(super) fn shared_internals(m: &Module) -> Vec<(Key, MemLocId)> {
    let mut out = Vec::new();
    for f in m.all_functions() {
        for s in &m.funcs[f].storages {
            let Storage::Set(set) = s else { continue };
            let set = &m.sets[*set];
            if set.addr_space == AddressSpace::Shared && set.kind == TensorKind::Internal {
                out.extend(
                    set.locs.iter().map(|l| ((m.funcs[f].name.clone(), m.memlocs[*l].name.clone()), *l)),
                );
            }
        }
    }
    out
}

impl Pass for LocalizeSharedMemory {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        for range in subgraphs(p) {
            let n = range.len();
            let mut count: FxHashMap<Key, usize> = FxHashMap::default();
            let mut per_core = Vec::new();
            if n == 1 || range.clone().all(|mi| shared_internals(&p.modules[mi]).is_empty()) {
                continue;
            }
            for mi in range.clone() {
                let m = &p.modules[mi];
                let used = used_locations(m);
                let list = shared_internals(m);
                for (k, l) in &list {
                    if used.contains(*l) {
                        *count.entry(k.clone()).or_default() += 1;
                    }
                }
                per_core.push((list, used));
            }
            for (mi, (list, used)) in range.zip(per_core) {
                let m = &mut p.modules[mi];
                let mut dead = FxHashSet::default();
                for (k, l) in list {
                    let touched = count.get(&k).copied().unwrap_or(0);
                    if !used.contains(l) {
                        if !m.memlocs[l].is_remote() && !m.memlocs[l].written_by_another_core && touched < n {
                            dead.insert(l);
                        }
                    } else if touched == 1 && !m.memlocs[l].allocated {
                        let set = m.memlocs[l].set;
                        m.sets[set].addr_space = AddressSpace::Local;
                        cx.count("localized", 1);
                    }
                }
                let gone = remove_locations(m, &dead);
                cx.count("removed", gone);
            }
        }
        Ok(())
    }
}
