//! `sync-before-global-cc`: a barrier immediately before every global collective.
//!
//! All cores must have produced its inputs before the collective leaves the LNC. Where every core already has a barrier over
//! all cores right before it, nothing happens; the fence of `lower-local-collectives` usually is that barrier.

use super::lower_local_collectives::group::{Locality, group, locality};
use crate::edit::{BlockEdits, Names, renumber_core_barriers, subgraphs};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use tandem_bir::diag::Loc;
use tandem_bir::{Attr, EdgeKind, EngineKind, Inst, Opcode, Program};

/// The pass.
#[derive(Debug)]
pub struct SyncBeforeGlobalCc;

static INFO: PassInfo = PassInfo {
    name: "sync-before-global-cc",
    summary: "puts a barrier before each collective that leaves the LNC",
    requires: &[Fact::Concrete],
    ensures: &[],
    breaks: &[Fact::EdgesFinal],
    options: &["lnc"],
    stats: &["groups", "barriers_added"],
};

impl Pass for SyncBeforeGlobalCc {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        if p.lnc_size <= 1 {
            return Ok(());
        }
        let all: Vec<i64> = (0..i64::from(p.lnc_size)).collect();
        for range in subgraphs(p) {
            let blocks = match group(p, range.clone()) {
                Ok(b) => b,
                Err(errors) => {
                    cx.diags.extend(errors);
                    return Err(Stop);
                }
            };
            if blocks.iter().all(|b| b.groups.is_empty()) {
                continue;
            }
            let mut names = Names::of(&p.modules[range.clone()]);
            let mut edits: Vec<BlockEdits> = range.clone().map(|_| BlockEdits::default()).collect();
            for g in blocks.iter().flat_map(|b| &b.groups) {
                let cc0 = &p.modules[g[0].module].insts[g[0].inst];
                if locality(cc0) == Locality::Yes {
                    continue;
                }
                cx.count("groups", 1);
                let fenced = g.iter().all(|m| {
                    let module = &p.modules[m.module];
                    m.at > 0
                        && module.blocks[m.block].insts.get(m.at - 1).is_some_and(|&i| {
                            let b = &module.insts[i];
                            b.opcode == Opcode::CoreBarrier
                                && all.iter().all(|c| b.get_ints(Attr::Cores).contains(c))
                        })
                });
                if fenced {
                    continue;
                }
                let name = names.inst(&format!("{}_gcc_cb", cc0.name));
                for m in g {
                    let cc = &p.modules[m.module].insts[m.inst];
                    let (from, deps) = (cc.loc, cc.deps.clone());
                    let mut b = Inst::new(&name, Opcode::CoreBarrier);
                    b.engine = EngineKind::Pool;
                    b.origin = cc.origin;
                    b.loc = if from == Loc::NONE { from } else { p.locs.derive(INFO.name, from) };
                    b.deps = deps;
                    b.set(Attr::Cores, all.clone());
                    let module = &mut p.modules[m.module];
                    let id = module.insts.push(b);
                    module.insts[m.inst].add_dep(m.inst, id, EdgeKind::Ordered);
                    edits[m.module - range.start].before.insert(m.inst, vec![id]);
                }
                cx.count("barriers_added", 1);
            }
            for (mi, e) in range.zip(edits) {
                e.apply(&mut p.modules[mi]);
            }
        }
        renumber_core_barriers(p);
        Ok(())
    }
}
