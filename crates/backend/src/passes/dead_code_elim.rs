//! `dead-code-elim`: removes locations that no instruction names.
//!
//! What the multi-core passes need of the reference's pass, and no more: instructions stay, so that every level runs the same
//! ones. A location stays when it is shared, touched by another core, an alias, visible to the host, a constant with a
//! payload, or named by another location's `alias` list or by foreign call bindings.

use crate::pass::{Pass, PassCtx, PassInfo, Stop};
use crate::storage::for_each_location;
use rustc_hash::FxHashSet;
use tandem_bir::entity::EntitySet;
use tandem_bir::{
    AddressSpace, CompactString, MemLocId, MemoryLocation, MemoryLocationSet, Module, Program, Storage,
    TensorKind,
};

/// The pass.
#[derive(Debug)]
pub struct DeadCodeElim;

static INFO: PassInfo = PassInfo {
    name: "dead-code-elim",
    summary: "removes tensors that nothing names",
    requires: &[],
    ensures: &[],
    breaks: &[],
    options: &[],
    stats: &["locations_removed"],
};

impl Pass for DeadCodeElim {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let mut n = 0;
        let ports: FxHashSet<CompactString> =
            p.signature.inputs.iter().chain(&p.signature.outputs).map(|x| x.location.clone()).collect();
        for m in &mut p.modules {
            if m.extra.as_ref().is_some_and(|e| e.contains_key("call_to_physical_memlocs")) {
                continue;
            }
            let used = used_locations(m);
            let listed: FxHashSet<CompactString> =
                m.memlocs.values().flat_map(|l| l.aliases.iter().map(|a| a.1.clone())).collect();
            let dead: FxHashSet<MemLocId> = m
                .memlocs
                .iter()
                .filter(|(id, l)| {
                    !used.contains(*id)
                        && removable(m.set_of(*id), l)
                        && !ports.contains(&l.name)
                        && !listed.contains(&l.name)
                })
                .map(|(id, _)| id)
                .collect();
            n += remove_locations(m, &dead);
        }
        cx.count("locations_removed", n);
        Ok(())
    }
}

fn removable(s: &MemoryLocationSet, l: &MemoryLocation) -> bool {
    s.kind == TensorKind::Internal
        && s.addr_space == AddressSpace::Local
        && s.file.is_none()
        && !l.written_by_another_core
        && !l.is_remote()
        && l.aliases.is_empty()
}

/// Locations that some listed instruction names.
pub fn used_locations(m: &Module) -> EntitySet<MemLocId> {
    let mut used = EntitySet::with_capacity(m.memlocs.len());
    for (_, _, i) in m.walk() {
        for_each_location(m, &m.insts[i], &mut |l, _| {
            used.insert(l);
        });
    }
    used
}

/// Takes sets all of whose locations are dead out of their functions (a set with a live location stays whole). The arenas keep
/// them. Returns how many locations went.
pub fn remove_locations(m: &mut Module, dead: &FxHashSet<MemLocId>) -> u64 {
    if dead.is_empty() {
        return 0;
    }
    let mut n = 0;
    for f in m.all_functions().collect::<Vec<_>>() {
        let mut storages = std::mem::take(&mut m.funcs[f].storages);
        storages.retain(|s| match s {
            Storage::Set(set) => {
                let locs = &m.sets[*set].locs;
                let gone = !locs.is_empty() && locs.iter().all(|l| dead.contains(l));
                n += if gone { locs.len() as u64 } else { 0 };
                !gone
            }
            Storage::Register(_) => true,
        });
        m.funcs[f].storages = storages;
    }
    n
}
