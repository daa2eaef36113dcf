//! Pipelines as data: named, ordered lists of slots, and the runner.
//!
//! A slot names a pass, its place in the documented order, and the placement it belongs to (decision D4). Both placements
//! are in one list; a pass that has a slot in each finds nothing to do in the second.

use crate::pass::{Fact, Hooks, NoHooks, Pass, PassCtx, PassInfo, PassOptions, PassOutcome};
use crate::passes::{
    allocate::Allocate, anti_dependency::AntiDependency, assign_engines::AssignEngines,
    build_deps::BuildDeps, dead_code_elim::DeadCodeElim, expand_replication::ExpandReplication,
    extend_shared_lifetimes::ExtendSharedLifetimes, fresh_psum::FreshPsum, insert_ptcom::InsertPtcom,
    lnc_splitter::LncSplitter, local_allreduce::MarkLocalAllReduce,
    localize_shared_memory::LocalizeSharedMemory, lower_control::LowerControl,
    lower_local_collectives::LowerLocalCollectives, shared_dram_alloc::SharedDramAlloc,
    sync_before_global_cc::SyncBeforeGlobalCc, sync_shared_allocations::SyncSharedAllocations,
};
use std::time::Instant;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{ArchLevel, Level, Program};

/// When a slot is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In both placements.
    Always,
    /// Only when the shared allocation comes before scheduling.
    P,
    /// Only when it comes after.
    Q,
}

/// One place of a pipeline.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Name of the slot: the pass's name, with a suffix for a second slot of the same pass. Statistics go by it.
    pub label: &'static str,
    /// The pass.
    pub pass: &'static dyn Pass,
    /// When it is active.
    pub when: When,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.label, self.when)
    }
}

const fn slot(label: &'static str, pass: &'static dyn Pass, when: When) -> Slot {
    Slot { label, pass, when }
}

/// Level `bir`: one module per core, default engines, local AllReduce, on-chip addresses.
pub static TO_BIR: &[Slot] = &[
    slot("expand-replication", &ExpandReplication, When::Always),
    slot("lnc-splitter", &LncSplitter, When::Always),
    slot("assign-engines", &AssignEngines, When::Always),
    slot("mark-local-allreduce", &MarkLocalAllReduce, When::Always),
    slot("allocate", &Allocate, When::Always),
    slot("fresh-psum", &FreshPsum, When::Always),
];

/// Level `lowered`, both placements (the specification, file 05 §11.3). Slots of placement P carry its position numbers of
/// file 05 §11.2; the second slot of `lower-local-collectives` is always there and finds nothing after the first.
pub static TO_LOWERED: &[Slot] = &[
    slot("dead-code-elim", &DeadCodeElim, When::Always),
    slot("localize-shared-memory", &LocalizeSharedMemory, When::Always),
    slot("build-deps", &BuildDeps, When::Always),
    slot("lower-local-collectives@80", &LowerLocalCollectives, When::P),
    slot("extend-shared-lifetimes@81", &ExtendSharedLifetimes, When::P),
    slot("shared-dram-alloc@82", &SharedDramAlloc, When::P),
    slot("sync-shared-allocations@83", &SyncSharedAllocations, When::P),
    slot("insert-ptcom-flat@95", &InsertPtcom, When::P),
    slot("lower-local-collectives", &LowerLocalCollectives, When::Always),
    slot("insert-ptcom-flat", &InsertPtcom, When::Q),
    slot("extend-shared-lifetimes", &ExtendSharedLifetimes, When::Q),
    slot("sync-before-global-cc", &SyncBeforeGlobalCc, When::Always),
    slot("shared-dram-alloc", &SharedDramAlloc, When::Q),
    slot("sync-shared-allocations", &SyncSharedAllocations, When::Q),
    slot("allocate-temporaries", &Allocate, When::Always),
    slot("lower-control", &LowerControl, When::Always),
    slot("anti-dependency-post-shared-dram", &AntiDependency, When::Always),
];

/// A named, ordered list of slots.
#[derive(Clone, Debug)]
pub struct Pipeline {
    name: &'static str,
    slots: Vec<Slot>,
}

impl Pipeline {
    /// The active slots of a list.
    ///
    /// # Errors
    /// An internal diagnostic naming the first pass whose requirement no earlier pass ensures.
    pub fn new(
        name: &'static str,
        slots: &[Slot],
        opts: &PassOptions,
        given: &[Fact],
    ) -> Result<Pipeline, Diagnostic> {
        let placement_p = is_placement_p(opts);
        let active: Vec<Slot> = slots
            .iter()
            .copied()
            .filter(|s| match s.when {
                When::Always => true,
                When::P => placement_p,
                When::Q => !placement_p,
            })
            .collect();
        check_order(name, &active, given)?;
        Ok(Pipeline { name, slots: active })
    }
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Labels of the active slots in order.
    pub fn labels(&self) -> Vec<&'static str> {
        self.slots.iter().map(|s| s.label).collect()
    }
    /// Runs every slot; stops at the first error.
    pub fn run(&self, p: &mut Program, cx: &mut PassCtx, hooks: &mut dyn Hooks, out: &mut PassOutcome) {
        for s in &self.slots {
            let info: &'static PassInfo = s.pass.info();
            cx.enter_slot(s.label, info);
            let start = Instant::now();
            let result = s.pass.run(p, cx);
            hooks.elapsed(info, start.elapsed());
            out.ran.push(s.label);
            hooks.after_pass(info, p);
            let found = hooks.verify(info, p);
            cx.diags.extend(found);
            if result.is_err() || cx.has_errors() {
                out.failed = true;
                return;
            }
        }
    }
}

/// Placement P applies: asked for, and the chip is the one it matters on.
fn is_placement_p(opts: &PassOptions) -> bool {
    opts.run_shared_allocation_before_post_sched && opts.arch == ArchLevel::Gen3
}

/// Refuses an order in which a pass runs without what it requires.
///
/// # Errors
/// An internal diagnostic naming pass and fact.
pub fn check_order(name: &str, slots: &[Slot], given: &[Fact]) -> Result<(), Diagnostic> {
    let mut have: Vec<Fact> = given.to_vec();
    for s in slots {
        let info = s.pass.info();
        for r in info.requires {
            if !have.contains(r) {
                return Err(Diagnostic::new(
                    codes::I0001,
                    format!(
                        "pipeline {name}: pass {} requires {r:?}, which nothing before it ensures",
                        s.label
                    ),
                ));
            }
        }
        have.retain(|f| !info.breaks.contains(f));
        have.extend(info.ensures);
    }
    Ok(())
}

/// Takes a program as read to level `bir`: every pass of [`TO_BIR`].
pub fn prepare(p: &mut Program, opts: &PassOptions) -> PassOutcome {
    prepare_with(p, opts, &mut NoHooks)
}

/// [`prepare`] with hooks.
pub fn prepare_with(p: &mut Program, opts: &PassOptions, hooks: &mut dyn Hooks) -> PassOutcome {
    run_list("bir", TO_BIR, p, opts, &[], hooks)
}

/// Takes a program of level `bir` (after [`prepare`]) to level `lowered`: every active pass of [`TO_LOWERED`].
pub fn lower(p: &mut Program, opts: &PassOptions) -> PassOutcome {
    lower_with(p, opts, &mut NoHooks)
}

/// [`lower`] with hooks.
pub fn lower_with(p: &mut Program, opts: &PassOptions, hooks: &mut dyn Hooks) -> PassOutcome {
    let given = [Fact::EnginesAssigned, Fact::OnChipPlaced, Fact::Concrete];
    let mut out = run_list("lowered", TO_LOWERED, p, opts, &given, hooks);
    if opts.run_shared_allocation_before_post_sched && !is_placement_p(opts) {
        let mut d = Diagnostic::new(
            codes::L0001,
            format!("--run-shared-allocation-before-post-sched has no effect on {}", p.arch()),
        );
        d.severity = tandem_bir::diag::Severity::Warning;
        out.diags.push(d);
    }
    if out.ok() {
        p.level = Level::Lowered;
    }
    out
}

fn run_list(
    name: &'static str,
    slots: &[Slot],
    p: &mut Program,
    opts: &PassOptions,
    given: &[Fact],
    hooks: &mut dyn Hooks,
) -> PassOutcome {
    let mut out = PassOutcome::default();
    let pipeline = opts.validate().and_then(|()| Pipeline::new(name, slots, opts, given));
    let pipeline = match pipeline {
        Ok(pl) => pl,
        Err(d) => {
            out.diags.push(d);
            out.failed = true;
            return out;
        }
    };
    let mut cx = PassCtx::new(opts.clone());
    pipeline.run(p, &mut cx, hooks, &mut out);
    out.failed |= cx.has_errors();
    out.diags = cx.diags;
    out.stats = cx.stats;
    out.decisions = cx.decisions;
    out.log = cx.log;
    out
}
