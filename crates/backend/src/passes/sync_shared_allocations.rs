//! `sync-shared-allocations`: copies the placement of shared scratch from its owner to the other cores.
//!
//! Inserts nothing. A view keeps its own memory type and address space. The reference's three assertions are findings here.

use crate::edit::{LocIndex, subgraphs};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{Program, Storage, TensorKind};

/// The pass.
#[derive(Debug)]
pub struct SyncSharedAllocations;

static INFO: PassInfo = PassInfo {
    name: "sync-shared-allocations",
    summary: "copies placements of shared scratch to all cores",
    requires: &[Fact::SharedPlaced],
    ensures: &[Fact::SharedSynced],
    breaks: &[],
    options: &["lnc"],
    stats: &["copied"],
};

impl Pass for SyncSharedAllocations {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        if p.lnc_size <= 1 {
            return Ok(());
        }
        let mut failed = false;
        for range in subgraphs(p) {
            let index: Vec<LocIndex> = p.modules[range.clone()].iter().map(LocIndex::new).collect();
            for mi in range.clone() {
                for f in p.modules[mi].all_functions().collect::<Vec<_>>() {
                    let fname = p.modules[mi].funcs[f].name.clone();
                    for s in p.modules[mi].funcs[f].storages.clone() {
                        let Storage::Set(set) = s else { continue };
                        if p.modules[mi].sets[set].kind != TensorKind::Internal {
                            continue;
                        }
                        for l in p.modules[mi].sets[set].locs.clone() {
                            let loc = &p.modules[mi].memlocs[l];
                            if loc.allocated || !loc.is_shared_post_dram_alloc {
                                continue;
                            }
                            match resolve(p, &range, &index, &fname, loc) {
                                Ok((addr, bank, base, target)) => {
                                    let loc = &mut p.modules[mi].memlocs[l];
                                    (loc.addr, loc.bank, loc.base, loc.allocated) = (addr, bank, base, true);
                                    cx.log.push(format!(
                                        "Assigned memloc {} to address {addr:#x} based on its remote local target {target}",
                                        loc.name
                                    ));
                                    cx.count("copied", 1);
                                }
                                Err(text) => {
                                    let core = p.modules[mi].core;
                                    let mut d =
                                        Diagnostic::new(codes::L0041, format!("{}: {text}", loc.name));
                                    if let Some(c) = core {
                                        d = d.site(Site::on_core(c));
                                    }
                                    cx.report(d);
                                    failed = true;
                                }
                            }
                        }
                    }
                }
            }
        }
        if failed { Err(Stop) } else { Ok(()) }
    }
}

type Placement = (u64, i64, u32, String);

fn resolve(
    p: &Program,
    range: &std::ops::Range<usize>,
    index: &[LocIndex],
    func: &str,
    loc: &tandem_bir::MemoryLocation,
) -> Result<Placement, &'static str> {
    let t = loc
        .remote_local_target
        .as_ref()
        .ok_or("memloc.getRemoteLocalTarget().has_value() (sync_shared_allocations.cpp:29)")?;
    let k = t.core.index();
    let owner = index
        .get(k)
        .and_then(|ix| ix.by_name(func, &t.name))
        .map(|l| &p.modules[range.start + k].memlocs[l])
        .ok_or("remote_mloc != nullptr (sync_shared_allocations.cpp:33)")?;
    if !owner.allocated {
        return Err("remote_mloc->isAllocated() (sync_shared_allocations.cpp:34)");
    }
    Ok((owner.addr, owner.bank, owner.base, t.name.to_string()))
}
