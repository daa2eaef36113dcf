//! From a traced kernel to a program at a level, to findings and to numbers. No Python here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::link::{self, LinkOptions};
use tandem_backend::{LocalAllReduce, PassOptions, PassOutcome, PtcomMode, Transport, pipeline};
use tandem_bir::diag::{Diagnostic, Severity, Site, codes};
use tandem_bir::{ArchLevel, Program, verify};
use tandem_check::CheckOptions;
use tandem_klr::KlrFile;
use tandem_klr::lower::{self, LowerOptions, RanksAre};
use tandem_sim::numeric_profile::NumericProfile;
use tandem_sim::options::Progress;
use tandem_sim::{Outcome, Ranks, RunOptions, Schedule, Simulator, Tensor};

/// Files of shared constants by name.
pub(crate) type Constants = Vec<(String, Vec<u8>)>;

/// Levels a program can run at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLevel {
    /// Program order on each core.
    Bir,
    /// Engines and queues, started by dependency edges.
    Lowered,
    /// Queue order and semaphores.
    Linked,
    /// The same, decoded from the bundles.
    Bundles,
}

/// What a use of bytes that nothing has written is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uninit {
    /// A finding of severity error.
    Error,
    /// A warning.
    Warn,
    /// Not looked for.
    Off,
}

/// Options of all stages.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) arch: ArchLevel,
    pub(crate) level: RunLevel,
    pub(crate) transport: Transport,
    pub(crate) max_bpp: u64,
    pub(crate) local_allreduce: LocalAllReduce,
    pub(crate) ptcom: Option<PtcomMode>,
    pub(crate) ptcom_barrier_distance: u32,
    pub(crate) ranks: Option<u32>,
    pub(crate) repack: bool,
    pub(crate) elide_end_barrier: bool,
    pub(crate) remote_semaphore_dma: bool,
    pub(crate) early_placement: bool,
    pub(crate) separate_barriers: bool,
    pub(crate) skip_barrier_checker: bool,
    pub(crate) strict_2_24: bool,
    pub(crate) schedule: Schedule,
    pub(crate) birsim: bool,
    pub(crate) step_limit: Option<u64>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) race_check: bool,
    pub(crate) uninit: Uninit,
}

impl Options {
    fn passes(&self, p: &Program) -> PassOptions {
        let mut o = PassOptions::for_program(p);
        o.sendrecv_to_gpsimd_max_bpp = self.max_bpp;
        o.transport = self.transport;
        o.local_allreduce = self.local_allreduce;
        o.ranks_are_cores = self.ranks.is_none();
        o.sb2sb_elide_end_barrier = self.elide_end_barrier;
        o.sb2sb_repack = self.repack;
        o.enable_remote_semaphore_dma = self.remote_semaphore_dma;
        if let Some(p) = self.ptcom {
            o.ptcom = p;
        }
        o.ptcom_barrier_distance = self.ptcom_barrier_distance;
        o.run_shared_allocation_before_post_sched = self.early_placement;
        o.separate_lifetime_corebarriers = self.separate_barriers;
        o.skip_barrier_checker = self.skip_barrier_checker;
        o.strict_2_24 = self.strict_2_24;
        o
    }

    fn checks(&self, p: &Program) -> CheckOptions {
        CheckOptions {
            equal_writes: true,
            ranks: self.ranks.map_or(tandem_check::Ranks::Cores, tandem_check::Ranks::Lncs),
            tokens_order: self.passes(p).ptcom == PtcomMode::P2p,
            skip: if self.skip_barrier_checker { vec!["barriercheck".to_owned()] } else { Vec::new() },
            ..CheckOptions::default()
        }
    }

    fn run(&self) -> RunOptions {
        let mut o = RunOptions {
            schedule: self.schedule,
            race_check: self.race_check,
            equal_writes: true,
            ..RunOptions::default()
        };
        o.undefined_check = self.uninit != Uninit::Off;
        if self.uninit == Uninit::Warn {
            o.undefined_severity = Severity::Warning;
        }
        if self.birsim {
            o.profile = NumericProfile::birsim();
        }
        if let Some(n) = self.ranks {
            o.ranks = Ranks::Lncs(n);
        }
        if self.ptcom == Some(PtcomMode::Notify) {
            o.ptcom = tandem_sim::Ptcom::Notify;
        }
        if let Some(n) = self.step_limit {
            o.step_limit = n;
        }
        if let Some(n) = self.memory_limit {
            o.memory_limit = n;
        }
        o
    }
}

/// A program as far as it came, and the findings.
#[derive(Default)]
pub(crate) struct Staged {
    pub(crate) program: Option<Program>,
    pub(crate) diags: Vec<Diagnostic>,
    pub(crate) passes: PassOutcome,
}

impl Staged {
    /// Findings in order, each said once although several levels may find it.
    fn add(&mut self, found: impl IntoIterator<Item = Diagnostic>) {
        for d in found {
            if !self.diags.iter().any(|e| same(e, &d)) {
                self.diags.push(d);
            }
        }
    }

    fn take(&mut self, o: PassOutcome) -> bool {
        let failed = o.failed;
        self.add(o.diags.iter().cloned());
        self.passes.decisions.extend(o.decisions);
        failed
    }
}

/// The same finding at two levels: instructions may have been renamed in between.
fn same(a: &Diagnostic, b: &Diagnostic) -> bool {
    let places = |d: &Diagnostic| d.sites.iter().map(|s| (s.core, s.pos.clone())).collect::<Vec<_>>();
    a == b || (a.code == b.code && a.message == b.message && places(a) == places(b))
}

/// Brings a kernel to the level of the options; with `check` the static checks run at every level on the way.
pub(crate) fn stage(file: &KlrFile, constants: &Constants, o: &Options, check: bool) -> Staged {
    let mut out = Staged::default();
    let load = |name: &str| match constants.iter().find(|(n, _)| n == name) {
        Some((_, bytes)) => Ok(bytes.clone()),
        None => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "the constant was not traced")),
    };
    let lowered = lower::lower(
        file,
        &LowerOptions {
            strict_2_24: o.strict_2_24,
            local_allreduce: match o.local_allreduce {
                LocalAllReduce::Auto => lower::LocalAllReduce::Auto,
                LocalAllReduce::Never => lower::LocalAllReduce::Never,
                LocalAllReduce::Always => lower::LocalAllReduce::Always,
            },
            ranks: o.ranks.map_or(RanksAre::Cores, RanksAre::Lncs),
            ..LowerOptions::new(o.arch, &load)
        },
    );
    out.add(lowered.diags);
    let Some(mut program) = lowered.program else { return out };
    let passes = o.passes(&program);
    if let Err(d) = passes.validate() {
        out.add([d]);
        return out;
    }
    if !verified(&program, &mut out) {
        return out;
    }
    let prepared = pipeline::prepare(&mut program, &passes);
    if out.take(prepared) || !verified(&program, &mut out) || (check && !checked(&program, o, &mut out)) {
        return out;
    }
    if o.level != RunLevel::Bir {
        let passes = o.passes(&program);
        let done = pipeline::lower(&mut program, &passes);
        if out.take(done) || !verified(&program, &mut out) || (check && !checked(&program, o, &mut out)) {
            return out;
        }
    }
    out.program = Some(program);
    out
}

fn checked(p: &Program, o: &Options, out: &mut Staged) -> bool {
    let found = tandem_check::check(p, &o.checks(p));
    let fatal = found.iter().any(Diagnostic::is_error);
    out.add(found);
    !fatal
}

fn verified(p: &Program, out: &mut Staged) -> bool {
    match verify::verify(p) {
        Ok(_) => true,
        Err(found) => {
            let fatal = found.iter().any(Diagnostic::is_error);
            out.add(found);
            !fatal
        }
    }
}

/// Runs a program on inputs.
pub(crate) fn simulate(
    program: Program,
    inputs: Vec<Tensor>,
    o: &Options,
    progress: Progress,
    cancel: Arc<AtomicBool>,
) -> Result<Outcome, Vec<Diagnostic>> {
    let opts = RunOptions { progress: Some(progress), cancel: Some(cancel), ..o.run() };
    let bundles = match o.level {
        RunLevel::Bir | RunLevel::Lowered => {
            let mut ready = Simulator::new(&program, opts)?;
            ready.give_inputs(inputs)?;
            return Ok(ready.run());
        }
        RunLevel::Linked => false,
        RunLevel::Bundles => true,
    };
    let tokens_order = o.passes(&program).ptcom == PtcomMode::P2p;
    let (mut linked, mut notes) = link::link_owned(program, LinkOptions { tokens_order })?;
    if bundles {
        let (bytes, more) = container::encode(&linked, WriteOptions::default())?;
        notes.extend(more);
        linked = container::decode(&bytes).map_err(|d| vec![d])?;
    }
    let mut ready = Simulator::linked(&linked, opts)?;
    ready.give_inputs(inputs)?;
    let mut outcome = ready.run();
    notes.append(&mut outcome.diagnostics);
    outcome.diagnostics = notes;
    Ok(outcome)
}

/// A finding of our own about usage.
pub(crate) fn usage(text: String) -> Diagnostic {
    Diagnostic::new(codes::U0003, text).site(Site::default())
}
