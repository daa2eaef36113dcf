//! `mark-local-allreduce`: says of each AllReduce whether it stays inside the LNC.
//!
//! A traced kernel does not say it. With `auto` an AllReduce is local when the LNC has several cores, replica ids are core
//! indexes (decision D14) and the replica groups are exactly one group of all cores in order (the specification, file 06 §1).
//! An `is_local` that the input gives is left alone.

use crate::pass::{LocalAllReduce, Pass, PassCtx, PassInfo, Stop};
use tandem_bir::{Attr, CollectiveKind, Inst, Opcode, Program};

/// The pass.
#[derive(Debug)]
pub struct MarkLocalAllReduce;

static INFO: PassInfo = PassInfo {
    name: "mark-local-allreduce",
    summary: "marks an AllReduce over exactly the cores of the LNC as local",
    requires: &[],
    ensures: &[],
    breaks: &[],
    options: &["local_allreduce", "ranks_are_cores"],
    stats: &["marked"],
};

impl Pass for MarkLocalAllReduce {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let mut n = 0;
        let candidate = |inst: &Inst| {
            inst.opcode == Opcode::CollectiveCompute
                && inst.get_enum::<CollectiveKind>(Attr::Kind) == Some(CollectiveKind::AllReduce)
                && inst.attr(Attr::IsLocal).is_none()
        };
        for m in &mut p.modules {
            // few programs have any: one sweep over the arena tells, and only listed instructions count
            if !m.insts.values().any(candidate) {
                continue;
            }
            for (_, _, i) in m.walk() {
                let inst = &mut m.insts[i];
                if candidate(inst) && is_local(inst, &cx.options) {
                    inst.set(Attr::IsLocal, true);
                    n += 1;
                }
            }
        }
        cx.count("marked", n);
        Ok(())
    }
}

fn is_local(inst: &Inst, o: &crate::pass::PassOptions) -> bool {
    let whole_group = match inst.get_groups(Attr::ReplicaGroups) {
        [g] => g.iter().copied().eq(0..i64::from(o.lnc)),
        _ => false,
    };
    match o.local_allreduce {
        LocalAllReduce::Auto => o.lnc > 1 && o.ranks_are_cores && whole_group,
        LocalAllReduce::Never => false,
        LocalAllReduce::Always => o.lnc > 1,
    }
}
