//! `anti-dependency-post-shared-dram`: completes the edges after placement and after everything that inserts instructions.
//!
//! Memory that is reused under another name conflicts only once addresses are known; level `lowered` runs by edges alone,
//! so this pass must come last. It is the builder of `build-deps` over the final program. Adds edges, removes none.

use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use tandem_bir::Program;

/// The pass.
#[derive(Debug)]
pub struct AntiDependency;

static INFO: PassInfo = PassInfo {
    name: "anti-dependency-post-shared-dram",
    summary: "completes the edges for the final placement",
    requires: &[Fact::DepsBuilt, Fact::OnChipPlaced],
    ensures: &[Fact::EdgesFinal],
    breaks: &[],
    options: &[],
    stats: &["edges_added"],
};

impl Pass for AntiDependency {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let (edges, _) = super::build_deps::build(p);
        cx.count("edges_added", edges);
        Ok(())
    }
}
