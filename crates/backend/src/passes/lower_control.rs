//! `lower-control`: block ends join the engines of their core.
//!
//! In a function of several blocks every block gets an AllEngineBarrier `<block>-end-cb` before its terminator, behind edges
//! from every instruction of the block, and edges that leave a block go away. With `strict_2_24` it is a CoreBarrier over all
//! cores instead (decision D25: that form hangs cores with different trip counts). Functions of one block are left alone.

use crate::edit::{BlockEdits, renumber_core_barriers};
use crate::pass::{Pass, PassCtx, PassInfo, Stop};
use rustc_hash::FxHashSet;
use tandem_bir::{Attr, EngineKind, Inst, InstId, Opcode, Origin, Program};

/// The pass.
#[derive(Debug)]
pub struct LowerControl;

static INFO: PassInfo = PassInfo {
    name: "lower-control",
    summary: "joins the engines at block ends and drops edges between blocks",
    requires: &[],
    ensures: &[],
    breaks: &[],
    options: &["strict_2_24"],
    stats: &["joins_added", "edges_dropped"],
};

impl Pass for LowerControl {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let lnc = i64::from(p.lnc_size);
        let core_barrier = cx.options.strict_2_24 && lnc > 1;
        let (mut joins, mut dropped) = (0, 0);
        for m in &mut p.modules {
            let mut edits = BlockEdits::default();
            for f in m.all_functions().collect::<Vec<_>>() {
                if m.funcs[f].blocks.len() < 2 {
                    continue;
                }
                for b in m.funcs[f].blocks.clone() {
                    let name = format!("{}-end-cb", m.blocks[b].name);
                    let own: FxHashSet<InstId> = m.blocks[b].insts.iter().copied().collect();
                    for &i in &m.blocks[b].insts {
                        let deps = &mut m.insts[i].deps;
                        let before = deps.len();
                        deps.retain(|d| own.contains(&d.inst));
                        dropped += (before - deps.len()) as u64;
                    }
                    if m.blocks[b].insts.is_empty()
                        || m.blocks[b].insts.iter().any(|i| m.insts[*i].name == name.as_str())
                    {
                        continue;
                    }
                    let mut join = if core_barrier {
                        let mut j = Inst::new(&name, Opcode::CoreBarrier);
                        j.engine = EngineKind::Pool;
                        j.set(Attr::Cores, (0..lnc).collect::<Vec<_>>());
                        j
                    } else {
                        let mut j = Inst::new(&name, Opcode::AllEngineBarrier);
                        j.engine = EngineKind::All;
                        j
                    };
                    join.origin = Origin::Internal;
                    let id = m.insts.push(join);
                    edits.at_end.insert(b, vec![id]);
                    joins += 1;
                }
            }
            edits.apply(m);
        }
        renumber_core_barriers(p);
        cx.count("joins_added", joins);
        cx.count("edges_dropped", dropped);
        Ok(())
    }
}
