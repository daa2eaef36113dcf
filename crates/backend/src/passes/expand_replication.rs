//! `expand-replication`: a checked no-op.
//!
//! Matmuls with replication metadata would have their tensors grown; the byte layout of a grown tensor is not documented, so
//! such a program is refused. Kernels from the tracer never have it. Runs on symbolic modules, before they are split.

use crate::pass::{Pass, PassCtx, PassInfo, Stop};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{Attr, Program, inst::Family};

/// The pass.
#[derive(Debug)]
pub struct ExpandReplication;

static INFO: PassInfo = PassInfo {
    name: "expand-replication",
    summary: "refuses matmuls with replication metadata",
    requires: &[],
    ensures: &[],
    breaks: &[],
    options: &[],
    stats: &["matmuls_checked"],
};

impl Pass for ExpandReplication {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let mut checked = 0;
        for m in p.modules.iter().filter(|m| m.core.is_none()) {
            for (_, _, i) in m.walk() {
                let inst = &m.insts[i];
                if inst.spec().family != Family::Matmul {
                    continue;
                }
                checked += 1;
                let keys =
                    [Attr::ReplicationResolution, Attr::ReplicationShiftAmnt, Attr::ReplicationNumRows];
                if keys.iter().any(|k| inst.get_int(*k).unwrap_or(0) != 0) {
                    let text = format!("expand_replication: replicated matmul not supported ({})", inst.name);
                    cx.diags.push(Diagnostic::new(codes::L0030, text).inst(p, m, i));
                }
            }
        }
        cx.count("matmuls_checked", checked);
        if cx.has_errors() { Err(Stop) } else { Ok(()) }
    }
}
