//! The shape of a pass, its options, and the context it runs in.

use crate::explain::ExplainRow;
use indexmap::IndexMap;
use std::time::Duration;
use tandem_bir::diag::{Code, Diagnostic, Loc, Severity, codes};
use tandem_bir::{ArchLevel, Program};

/// How swaps are carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// GPSIMD when the predicate and the knob allow it, else DMA.
    #[default]
    Auto,
    /// GPSIMD always; a swap whose predicate does not hold is an error. The knob is ignored.
    Gpsimd,
    /// DMA always.
    Dma,
    /// GPSIMD for the swaps whose kernel asked for it, DMA for the others.
    Request,
}

/// Meaning of completion tokens (decision D3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtcomMode {
    /// No tokens.
    #[default]
    Off,
    /// Point-to-point: a token waits for the last writes of a location on every core.
    P2p,
    /// A notice to the runtime per output; orders nothing.
    Notify,
}

/// Which global AllReduce becomes a local one (the specification, file 06 §1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalAllReduce {
    /// One whose replica groups are exactly one group of all cores of the LNC, when replica ids are cores.
    #[default]
    Auto,
    /// None.
    Never,
    /// Every one.
    Always,
}

/// Options of all passes. Values no source gives are our choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassOptions {
    /// Cores per LNC: 1 or 2.
    pub lnc: u32,
    /// Architecture level.
    pub arch: ArchLevel,
    /// Effective bytes per partition up to which a swap goes to GPSIMD; 0 disables it (default 1024, decision D8).
    pub sendrecv_to_gpsimd_max_bpp: u64,
    /// How swaps are carried.
    pub transport: Transport,
    /// Which AllReduce is taken as local.
    pub local_allreduce: LocalAllReduce,
    /// Replica ids are core indexes (decision D14). `local_allreduce = Auto` acts only then.
    pub ranks_are_cores: bool,
    /// Leave out the closing barrier of a GPSIMD swap.
    pub sb2sb_elide_end_barrier: bool,
    /// Repack a swap whose only failure is the number of free pairs (decision D7).
    pub sb2sb_repack: bool,
    /// Replace the closing barrier of a DMA swap by a remote notification (decision D24).
    pub enable_remote_semaphore_dma: bool,
    /// Meaning of completion tokens.
    pub ptcom: PtcomMode,
    /// Barriers after the last write at which a `notify` token stands.
    pub ptcom_barrier_distance: u32,
    /// Placement P: the shared allocation comes before scheduling (decision D4; gen3 only).
    pub run_shared_allocation_before_post_sched: bool,
    /// Give every shared lifetime its own barriers instead of using those that exist.
    pub separate_lifetime_corebarriers: bool,
    /// Do not run the missing-barrier check (read by the caller of the check).
    pub skip_barrier_checker: bool,
    /// Follow release 2.24 where we otherwise choose differently (barriers at block ends, decision D25).
    pub strict_2_24: bool,
}

impl PassOptions {
    /// Defaults for a program of `lnc` cores at a level: tokens are `p2p` on two cores, else off.
    pub fn new(lnc: u32, arch: ArchLevel) -> PassOptions {
        PassOptions {
            lnc,
            arch,
            sendrecv_to_gpsimd_max_bpp: 1024,
            transport: Transport::Auto,
            local_allreduce: LocalAllReduce::Auto,
            ranks_are_cores: true,
            sb2sb_elide_end_barrier: false,
            sb2sb_repack: false,
            enable_remote_semaphore_dma: false,
            ptcom: if lnc > 1 { PtcomMode::P2p } else { PtcomMode::Off },
            ptcom_barrier_distance: 3,
            run_shared_allocation_before_post_sched: false,
            separate_lifetime_corebarriers: false,
            skip_barrier_checker: false,
            strict_2_24: false,
        }
    }
    /// Defaults for a program: its own core count and level.
    pub fn for_program(p: &Program) -> PassOptions {
        PassOptions::new(p.lnc_size, p.arch())
    }
    /// Checks the combination of core count and level.
    ///
    /// # Errors
    /// A usage diagnostic (exit 2) that names the rule.
    pub fn validate(&self) -> Result<(), Diagnostic> {
        if !matches!(self.lnc, 1 | 2) {
            return Err(Diagnostic::new(codes::U0005, format!("LNC size must be 1 or 2, got {}", self.lnc))
                .note("the cross-core instructions of the machine have room for one peer only"));
        }
        let max = self.arch.spec().map_or(1, |s| s.max_lnc);
        if self.lnc > max {
            return Err(Diagnostic::new(
                codes::U0005,
                format!("LNC size 2 needs architecture gen3 or later, got {}", self.arch),
            )
            .note("CoreBarrier and GPSIMDSB2SB exist from ArchLevel 30 on"));
        }
        Ok(())
    }
}

/// What is known about a program at a point of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// One module per core.
    Concrete,
    /// No engine is unassigned where the type has a default.
    EnginesAssigned,
    /// SB, PSUM and private DRAM have addresses.
    OnChipPlaced,
    /// Dependency edges carry the order of conflicting accesses.
    DepsBuilt,
    /// No local collective of kind 0, 1 or 2 is left.
    CollectivesLowered,
    /// Every shared lifetime is bracketed by barriers.
    LifetimesFenced,
    /// Shared DRAM is placed on its owner.
    SharedPlaced,
    /// Placements of shared DRAM are equal on all cores.
    SharedSynced,
    /// Barriers carry their final numbers.
    BarriersNumbered,
    /// Edges are complete for the final storage and instructions.
    EdgesFinal,
}

/// Static description of a pass.
#[derive(Debug, PartialEq, Eq)]
pub struct PassInfo {
    /// Kebab-case name.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What must hold before.
    pub requires: &'static [Fact],
    /// What holds after.
    pub ensures: &'static [Fact],
    /// What may no longer hold after.
    pub breaks: &'static [Fact],
    /// Option fields it reads.
    pub options: &'static [&'static str],
    /// Statistics it counts.
    pub stats: &'static [&'static str],
}

/// A pass over a whole program.
pub trait Pass: Sync {
    /// Its description.
    fn info(&self) -> &'static PassInfo;
    /// Runs it. Findings go to the context.
    ///
    /// # Errors
    /// [`Stop`] when nothing after it can run; the reason is a finding of the context.
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop>;
}

/// A pass cannot go on; the context holds the finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// What passes read and write besides the program.
#[derive(Debug)]
pub struct PassCtx {
    /// Options.
    pub options: PassOptions,
    /// Counters by `(pass, name)`, in the order first counted.
    pub stats: IndexMap<(&'static str, &'static str), u64>,
    /// Findings.
    pub diags: Vec<Diagnostic>,
    /// One row per swap and collective lowered or kept.
    pub decisions: Vec<ExplainRow>,
    /// Log lines (the reference's wording where it has one).
    pub log: Vec<String>,
    pass: &'static str,
}

impl PassCtx {
    /// A fresh context.
    pub fn new(options: PassOptions) -> PassCtx {
        PassCtx {
            options,
            stats: IndexMap::new(),
            diags: Vec::new(),
            decisions: Vec::new(),
            log: Vec::new(),
            pass: "",
        }
    }
    /// Marks the start of a pass: its counters appear with 0.
    pub fn enter(&mut self, info: &'static PassInfo) {
        self.enter_slot(info.name, info);
    }
    /// The same for a slot with a label of its own; counters go by the label.
    pub fn enter_slot(&mut self, label: &'static str, info: &'static PassInfo) {
        self.pass = label;
        for s in info.stats {
            self.stats.entry((label, s)).or_insert(0);
        }
    }
    /// Name of the running pass or slot.
    pub fn pass(&self) -> &'static str {
        self.pass
    }
    /// Adds to a counter of the running pass.
    pub fn count(&mut self, stat: &'static str, n: u64) {
        *self.stats.entry((self.pass, stat)).or_insert(0) += n;
    }
    /// A counter's value; 0 when never counted.
    pub fn stat(&self, pass: &str, stat: &str) -> u64 {
        self.stats.iter().find(|((p, s), _)| *p == pass && *s == stat).map_or(0, |(_, v)| *v)
    }
    /// Records a finding.
    pub fn report(&mut self, d: Diagnostic) {
        self.diags.push(d);
    }
    /// Records an error and gives the [`Stop`] to return.
    pub fn fail(&mut self, d: Diagnostic) -> Stop {
        self.diags.push(d);
        Stop
    }
    /// A note-severity finding.
    pub fn note(&mut self, code: Code, message: impl Into<String>) {
        let mut d = Diagnostic::new(code, message);
        d.severity = Severity::Note;
        self.diags.push(d);
    }
    /// A source position derived by the running pass.
    pub fn derive(&self, p: &mut Program, from: Loc) -> Loc {
        if from == Loc::NONE { from } else { p.locs.derive(self.pass, from) }
    }
    /// Some finding is an error.
    pub fn has_errors(&self) -> bool {
        self.diags.iter().any(Diagnostic::is_error)
    }
}

/// What a caller may do around passes. All methods have empty defaults.
pub trait Hooks {
    /// Called after every pass that ran (for `--print-after`).
    fn after_pass(&mut self, info: &'static PassInfo, p: &Program) {
        let _ = (info, p);
    }
    /// Called after every pass (for `--verify-each`); findings are added to the outcome, an error stops the pipeline.
    fn verify(&mut self, info: &'static PassInfo, p: &Program) -> Vec<Diagnostic> {
        let _ = (info, p);
        Vec::new()
    }
    /// The caller wants everything verified that can be, after every pass (for `--verify-each`).
    fn verify_each(&self) -> bool {
        false
    }
    /// Called with the wall time of every pass (for `--time-passes`).
    fn elapsed(&mut self, info: &'static PassInfo, time: Duration) {
        let _ = (info, time);
    }
}

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;
impl Hooks for NoHooks {}

/// Result of a pipeline.
#[derive(Debug, Default)]
pub struct PassOutcome {
    /// Findings of all passes.
    pub diags: Vec<Diagnostic>,
    /// Counters by `(pass, name)`.
    pub stats: IndexMap<(&'static str, &'static str), u64>,
    /// One row per swap and collective.
    pub decisions: Vec<ExplainRow>,
    /// Log lines.
    pub log: Vec<String>,
    /// Names of the passes that ran, in order.
    pub ran: Vec<&'static str>,
    /// A pass stopped the pipeline, or a finding is an error.
    pub failed: bool,
}

impl PassOutcome {
    /// No error.
    pub fn ok(&self) -> bool {
        !self.failed
    }
    /// A counter's value; 0 when never counted.
    pub fn stat(&self, pass: &str, stat: &str) -> u64 {
        self.stats.iter().find(|((p, s), _)| *p == pass && *s == stat).map_or(0, |(_, v)| *v)
    }
}
