//! Every on-chip location that a lowered program uses has a place.
//!
//! Definition: at level lowered, a location in SB or PSUM that an operand names directly is allocated, or names its owner on
//! another core (whose place the linker takes over), and that owner has it. Without either nobody knows which bytes are touched: the barrier check
//! would see an array of its own instead of the owner's bytes. Source: the specification, file 05 §9 (remote addresses).
//!
//! May miss: locations reached through symbolic operands. Reports falsely: no.

use crate::Cx;
use crate::meet;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{CoreId, Level, MemLocId};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    if cx.program.level != Level::Lowered {
        return;
    }
    // Names of the locations of each core of a subgraph.
    let names: FxHashMap<(u32, Option<CoreId>), FxHashSet<&str>> = cx
        .program
        .modules
        .iter()
        .map(|m| ((m.subgraph, m.core), m.memlocs.values().map(|l| l.name.as_str()).collect()))
        .collect();
    for m in &cx.program.modules {
        let mut said: FxHashSet<MemLocId> = FxHashSet::default();
        for (f, b) in meet::blocks(m) {
            for &i in &m.blocks[b].insts {
                let inst = &m.insts[i];
                let all = inst.operands();
                for a in all.filter_map(|o| o.as_ap()) {
                    let l = &m.memlocs[a.loc];
                    let site = || meet::inst_site(cx.program, m, f, b, i).label("uses it");
                    if let Some(t) = &l.remote_local_target {
                        let owned = names
                            .get(&(m.subgraph, Some(t.core)))
                            .is_some_and(|n| n.contains(t.name.as_str()));
                        if !owned && said.insert(a.loc) {
                            let message = format!(
                                "`{}` stands for `{}` of core {}, which has no such location",
                                l.name, t.name, t.core
                            );
                            found.push(Diagnostic::new(codes::C0603, message).site(site()).note(
                                "vendor check 1514 of the linker: the owner of a remote location must have it",
                            ));
                        }
                        continue;
                    }
                    if !l.is_on_chip() || l.allocated || !said.insert(a.loc) {
                        continue;
                    }
                    let message = format!(
                        "`{}` lies in {} and is neither allocated nor an alias of another core's location",
                        l.name, l.mem
                    );
                    found.push(Diagnostic::new(codes::C0603, message).site(site()));
                }
            }
        }
    }
}
