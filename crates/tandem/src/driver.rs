//! From an input to a program at a level, and from there to numbers.
//!
//! - level `bir`: per-core modules with abstract collectives, engines and on-chip addresses filled in;
//! - level `lowered`: after the multi-core passes.
//!
//! Every stage verifies what it takes over. A finding of error severity ends the stage; later stages see only verified
//! programs.

use crate::cli::{CompileArgs, LocalAllReduce, Ptcom, Transport};
use crate::lnc;
use crate::load::{Input, read_relative};
use crate::progress::{Passes, Progress};
use std::collections::HashMap;
use std::path::Path;
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::link::{LinkOptions, LinkedProgram};
use tandem_backend::pass::{self, Hooks, NoHooks, PassOptions, PassOutcome};
use tandem_backend::pipeline;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{ArchLevel, Level, Program, verify};
use tandem_check::CheckOptions;
use tandem_klr::ReadOutcome;
use tandem_klr::lower as klr_lower;

/// What a stage gave: the program unless a finding is an error, and all findings.
#[derive(Debug, Default)]
pub struct Staged {
    /// The program.
    pub program: Option<Program>,
    /// Findings of every severity.
    pub diags: Vec<Diagnostic>,
    /// What the passes said, when they ran.
    pub passes: PassOutcome,
    /// What the verifier of cores said before the passes.
    pub(crate) given: Option<lnc::Given>,
}

/// `--target`, else the program's own level, else trn2.
///
/// # Errors
/// U0001 for a name that is no target.
pub fn target(args: &CompileArgs) -> Result<Option<ArchLevel>, Diagnostic> {
    args.target
        .as_deref()
        .map(|t| {
            ArchLevel::from_target(t).ok_or_else(|| {
                Diagnostic::new(codes::U0001, format!("unknown target `{t}`; known: trn1, trn2, trn3"))
            })
        })
        .transpose()
}

/// Options of the passes for a program.
pub fn pass_options(args: &CompileArgs, p: &Program) -> PassOptions {
    let mut o = PassOptions::for_program(p);
    o.sendrecv_to_gpsimd_max_bpp = args.sendrecv_to_gpsimd_max_bpp;
    o.transport = match args.transport {
        Transport::Auto => pass::Transport::Auto,
        Transport::Gpsimd => pass::Transport::Gpsimd,
        Transport::Dma => pass::Transport::Dma,
        Transport::Request => pass::Transport::Request,
    };
    o.local_allreduce = match args.local_allreduce {
        LocalAllReduce::Auto => pass::LocalAllReduce::Auto,
        LocalAllReduce::Never => pass::LocalAllReduce::Never,
        LocalAllReduce::Always => pass::LocalAllReduce::Always,
    };
    o.ranks_are_cores = args.ranks.is_none();
    o.sb2sb_elide_end_barrier = args.sb2sb_elide_end_barrier;
    o.sb2sb_repack = args.sb2sb_repack;
    o.enable_remote_semaphore_dma = args.enable_remote_semaphore_dma;
    if let Some(p) = args.ptcom {
        o.ptcom = match p {
            Ptcom::Off => pass::PtcomMode::Off,
            Ptcom::P2p => pass::PtcomMode::P2p,
            Ptcom::Notify => pass::PtcomMode::Notify,
        };
    }
    o.ptcom_barrier_distance = args.ptcom_barrier_distance;
    o.run_shared_allocation_before_post_sched = args.run_shared_allocation_before_post_sched;
    o.separate_lifetime_corebarriers = args.separate_lifetime_corebarriers;
    o.skip_barrier_checker = args.skip_barrier_checker;
    o.strict_2_24 = args.strict_2_24;
    o
}

fn check_lnc(lnc: Option<u32>, arch: ArchLevel) -> Result<(), Diagnostic> {
    match lnc {
        Some(n) => PassOptions::new(n, arch).validate(),
        None => Ok(()),
    }
}

/// Brings an input to level `bir` (verified, engines and on-chip addresses filled in). The input is consumed: a kernel's tree
/// is gone before later stages need memory.
pub fn to_bir(input: Input, args: &CompileArgs) -> Staged {
    to_bir_from(input, args, &mut NoHooks)
}

/// The same with hooks, which run around passes.
pub fn to_bir_from(input: Input, args: &CompileArgs, hooks: &mut dyn Hooks) -> Staged {
    stage_bir(input, args, hooks, false)
}

/// The stage of level `bir` for a program whose cores do not meet as they should: modules of different structure are let through.
/// `None` when there is none.
pub fn to_bir_as_given(input: Input, args: &CompileArgs) -> Option<Staged> {
    let mut staged = stage_bir(input, args, &mut NoHooks, true);
    staged.program.as_ref()?;
    staged.diags.retain(|d| !d.is_error());
    Some(staged)
}

/// The findings say that the program cannot be lowered because its cores do not meet in the same way.
pub fn cores_disagree(diags: &[Diagnostic]) -> bool {
    let is = |d: &&Diagnostic| {
        d.code == codes::L0010 || d.code == codes::L0011 || d.code.info().id.starts_with("C11")
    };
    let mut errors = diags.iter().filter(|d| d.is_error()).peekable();
    errors.peek().is_some() && errors.all(|d| is(&d))
}

/// `lenient`: cores of different structure are a finding, but the program comes back for the checks that say more.
fn stage_bir(input: Input, args: &CompileArgs, hooks: &mut dyn Hooks, lenient: bool) -> Staged {
    let mut out = Staged::default();
    let arch = match target(args) {
        Ok(a) => a,
        Err(d) => {
            out.diags.push(d);
            return out;
        }
    };
    let program = match input {
        Input::Klr(outcome, folder) => lower_kernel(&outcome, &folder, arch, args, &mut out),
        Input::Bir(p, _) => take_program(*p, arch, args, &mut out),
        Input::Container(..) => {
            let text = "a container is already encoded: it has no level bir or lowered";
            out.diags.push(Diagnostic::new(codes::U0001, text));
            None
        }
    };
    match program {
        Some(p) => finish(p, args, hooks, out, lenient),
        None => out,
    }
}

/// A program that was read, for the architecture asked for; `None` after an error.
fn take_program(
    mut p: Program,
    arch: Option<ArchLevel>,
    args: &CompileArgs,
    out: &mut Staged,
) -> Option<Program> {
    out.diags.extend(tandem_bir::remarks::remarks(&p));
    if let Some(a) = arch {
        for m in &mut p.modules {
            m.arch = a;
        }
    }
    if let Err(d) = check_lnc(args.lnc.or(Some(p.lnc_size)), p.arch()) {
        out.diags.push(d);
        return None;
    }
    Some(p)
}

/// The BIR image of a kernel; `None` after an error.
fn lower_kernel(
    outcome: &ReadOutcome,
    folder: &Path,
    arch: Option<ArchLevel>,
    args: &CompileArgs,
    out: &mut Staged,
) -> Option<Program> {
    let arch = arch.unwrap_or(ArchLevel::Gen3);
    if let Err(d) = check_lnc(args.lnc, arch) {
        out.diags.push(d);
        return None;
    }
    out.diags.extend(outcome.notes.iter().cloned().map(Diagnostic::from));
    let constants = |name: &str| read_relative(folder, name);
    let lowered = klr_lower::lower(
        &outcome.file,
        &klr_lower::LowerOptions {
            lnc_size: args.lnc,
            arch,
            strict_2_24: args.strict_2_24,
            local_allreduce: match args.local_allreduce {
                LocalAllReduce::Auto => klr_lower::LocalAllReduce::Auto,
                LocalAllReduce::Never => klr_lower::LocalAllReduce::Never,
                LocalAllReduce::Always => klr_lower::LocalAllReduce::Always,
            },
            ranks: match args.ranks {
                Some(n) => klr_lower::RanksAre::Lncs(n),
                None => klr_lower::RanksAre::Cores,
            },
            ..klr_lower::LowerOptions::new(arch, &constants)
        },
    );
    out.diags.extend(lowered.diags);
    lowered.program
}

/// Verifies and prepares.
fn finish(
    mut program: Program,
    args: &CompileArgs,
    hooks: &mut dyn Hooks,
    mut out: Staged,
    lenient: bool,
) -> Staged {
    let symbolic = program.modules.len() == 1 && program.modules[0].core.is_none();
    if let Some(n) = args.lnc
        && !symbolic
        && n < program.lnc_size
    {
        let text = format!("the input has {} cores but the LNC size is {n}", program.lnc_size);
        out.diags.push(Diagnostic::new(codes::U0005, text));
        return out;
    }
    if symbolic {
        // Unset, a module with shard ids is for two cores.
        let two = program.lnc_size == 1 && tandem_check::uses_shard_ids(&program.modules[0]);
        program.lnc_size = args.lnc.unwrap_or(if two { 2 } else { program.lnc_size });
        if let Err(d) = check_lnc(Some(program.lnc_size), program.arch()) {
            out.diags.push(d);
            return out;
        }
    }
    if !verified(&program, &mut out.diags) {
        return out;
    }
    if program.level == Level::Bir {
        let given = lnc::given(&program, &mut out.diags);
        if !given.ok && (symbolic || !lenient) {
            return out;
        }
        let opts = pass_options(args, &program);
        let mut hooks = lnc::Verifying::new(hooks, &given);
        let o = pipeline::prepare_with(&mut program, &opts, &mut hooks);
        out.take(o);
        out.given = (!symbolic).then_some(given);
        if out.passes.failed || !verified(&program, &mut out.diags) {
            return out;
        }
    }
    out.program = Some(program);
    out
}

/// Brings a program of level `bir` to level `lowered`.
pub fn to_lowered_with(mut staged: Staged, args: &CompileArgs, hooks: &mut dyn Hooks) -> Staged {
    let Some(mut program) = staged.program.take() else { return staged };
    if program.level == Level::Bir {
        let opts = pass_options(args, &program);
        // The modules that came out of a symbolic one are looked at for the first time.
        let given = staged.given.take().unwrap_or_else(|| lnc::given(&program, &mut Vec::new()));
        let mut hooks = lnc::Verifying::new(hooks, &given);
        let o = pipeline::lower_with(&mut program, &opts, &mut hooks);
        staged.take(o);
        let ok = !staged.passes.failed && verified(&program, &mut staged.diags);
        if !ok || !hooks.finished(&program, &mut staged.diags) {
            return staged;
        }
    }
    staged.program = Some(program);
    staged
}

/// The same without hooks.
pub fn to_lowered(staged: Staged, args: &CompileArgs) -> Staged {
    to_lowered_with(staged, args, &mut NoHooks)
}

/// Links a program of level `lowered`, which `staged` no longer has then; findings go to `staged`.
pub fn link(staged: &mut Staged, args: &CompileArgs) -> Option<LinkedProgram> {
    let p = staged.program.take()?;
    let tokens_order = pass_options(args, &p).ptcom == pass::PtcomMode::P2p;
    match tandem_backend::link::link_owned(p, LinkOptions { tokens_order }) {
        Ok((l, notes)) => {
            staged.diags.extend(notes);
            Some(l)
        }
        Err(found) => {
            staged.diags.extend(found);
            None
        }
    }
}

/// Encodes a linked program; findings go to `diags`.
pub fn encode(l: &LinkedProgram, opts: WriteOptions, diags: &mut Vec<Diagnostic>) -> Option<Vec<u8>> {
    match container::encode(l, opts) {
        Ok((bytes, notes)) => {
            diags.extend(notes);
            Some(bytes)
        }
        Err(found) => {
            diags.extend(found);
            None
        }
    }
}

impl Staged {
    fn take(&mut self, o: PassOutcome) {
        self.diags.extend(o.diags.iter().cloned());
        self.passes.stats.extend(o.stats);
        self.passes.decisions.extend(o.decisions);
        self.passes.log.extend(o.log);
        self.passes.ran.extend(o.ran);
        self.passes.failed |= o.failed;
    }
}

fn verified(p: &Program, diags: &mut Vec<Diagnostic>) -> bool {
    match verify::verify(p) {
        Ok(_) => true,
        Err(found) => {
            let fatal = found.iter().any(Diagnostic::is_error);
            diags.extend(found);
            !fatal
        }
    }
}

fn check_options(args: &CompileArgs, p: &Program) -> CheckOptions {
    let opts = pass_options(args, p);
    CheckOptions {
        equal_writes: true,
        ranks: args.ranks.map_or(tandem_check::Ranks::Cores, tandem_check::Ranks::Lncs),
        tokens_order: opts.ptcom == pass::PtcomMode::P2p,
        skip: if opts.skip_barrier_checker { vec!["barriercheck".to_owned()] } else { Vec::new() },
        max_pairs: args.barrier_checker_pairs,
    }
}

/// Everything that can be said without inputs: read, lower, verify, and the static checks of both levels. The program is the
/// lowered one, when that level was reached.
pub fn check(input: Input, args: &CompileArgs) -> Staged {
    check_with(input, args, &Progress::off())
}

/// The same, saying what is under way.
pub fn check_with(input: Input, args: &CompileArgs, progress: &Progress) -> Staged {
    checked(input, args, progress, false).0
}

/// The same; second, the program at level `bir`, when nothing was wrong with it before the checks.
pub fn check_keeping(input: Input, args: &CompileArgs, progress: &Progress) -> (Staged, Option<Program>) {
    checked(input, args, progress, true)
}

fn checked(input: Input, args: &CompileArgs, progress: &Progress, keep: bool) -> (Staged, Option<Program>) {
    if let Input::Container(..) = input {
        // Reading has checked it: layout, checksums, and that every record encodes back to itself.
        return (Staged::default(), None);
    }
    let mut none = NoHooks;
    let mut staged = stage_bir(input, args, &mut Passes::new(progress, &mut none), true);
    let sound = keep && !staged.diags.iter().any(Diagnostic::is_error);
    let kept = staged.program.as_ref().filter(|_| sound).cloned();
    if let Some(p) = &staged.program {
        progress.stage("checking", 0);
        staged.diags.extend(tandem_check::check(p, &check_options(args, p)));
        if staged.diags.iter().any(Diagnostic::is_error) {
            staged.program = None;
        } else {
            staged = to_lowered_with(staged, args, &mut Passes::new(progress, &mut none));
            if let Some(p) = &staged.program {
                progress.stage("checking", 0);
                let mut found = tandem_check::check(p, &check_options(args, p));
                let mut known: HashMap<&str, Vec<&Diagnostic>> = HashMap::new();
                for d in &staged.diags {
                    known.entry(&d.message).or_default().push(d);
                }
                found.retain(|d| !known.get(d.message.as_str()).is_some_and(|same| same.contains(&d)));
                staged.diags.extend(found);
            }
        }
    }
    (staged, kept)
}
