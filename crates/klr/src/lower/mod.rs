//! KLR to BIR: a traced kernel becomes one BIR module per core.
//!
//! [`lower`] walks every statement of every body and collects all findings of a run: a statement that cannot be
//! lowered is reported with its core, block, name and source position, and the walk goes on. The result holds a
//! program only when no finding is an error.
//!
//! The contract is the specification, file 04. What it leaves to us and what we read into it:
//! * dependencies are made for `edges` and inside `noReorder` blocks only; those of the data are found later;
//! * locations are allocated only where the file gives an address;
//! * [`LowerOptions::strict_2_24`] switches off the extensions of file 04 §15 (decisions 11, 12, 13, 15, 18, 19) and
//!   the fields that 2.24 drops (priorities, the interleaved performance mode, the command of `tensorScalarReduce`).
//!
//! Everything is linear in the size of the kernel: names, labels, registers and tensors are found by hashing.
//!
//! Not modelled: the surrounding graph (kernel carriers, call operands), device dumps.

mod access;
mod cfg;
mod core;
mod cross;
mod enums;
mod fail;
mod names;
mod ops;
mod plan;
mod tensors;

use self::core::{BarrierRecord, CcRecord, Core, Done, Step, expected};
use crate::KlrFile;
use fail::Res;
use plan::{Kernel, Plan};
use tandem_bir::diag::Diagnostic;
use tandem_bir::{ArchLevel, Level, Program};

/// When an `allReduce` becomes a local one, which the backend lowers on chip (the specification, file 06 §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LocalAllReduce {
    /// When its one replica group is all cores of the LNC and ranks are cores (decision D1).
    #[default]
    Auto,
    /// Never.
    Never,
    /// Whenever there are several cores.
    Always,
}

/// What the ids of replica groups and rank instructions stand for (decision D14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RanksAre {
    /// Cores of the one LNC.
    #[default]
    Cores,
    /// This many whole LNCs.
    Lncs(u32),
}

/// Loads the file of a shared constant, given by its name relative to the kernel.
pub type ConstantLoader<'a> = &'a dyn Fn(&str) -> std::io::Result<Vec<u8>>;

/// Options of [`lower`].
#[derive(Clone, Copy)]
pub struct LowerOptions<'a> {
    /// Cores of the LNC, 1 or 2; `None`: as many as the kernel has bodies.
    pub lnc_size: Option<u32>,
    /// Generation to compile for; its memory sizes bound the addresses of a kernel.
    pub arch: ArchLevel,
    /// Exactly what 2.24 does, without our extensions.
    pub strict_2_24: bool,
    /// Treatment of `allReduce`.
    pub local_allreduce: LocalAllReduce,
    /// Meaning of replica ids.
    pub ranks: RanksAre,
    /// Give every module the id of its core. Without it only kernels of one body without swaps can be lowered.
    pub assign_cores: bool,
    /// Loads the files of shared constants.
    pub constants: ConstantLoader<'a>,
}

impl<'a> LowerOptions<'a> {
    /// The defaults for a generation.
    pub fn new(arch: ArchLevel, constants: ConstantLoader<'a>) -> LowerOptions<'a> {
        LowerOptions {
            lnc_size: None,
            arch,
            strict_2_24: false,
            local_allreduce: LocalAllReduce::Auto,
            ranks: RanksAre::Cores,
            assign_cores: true,
            constants,
        }
    }
}

impl std::fmt::Debug for LowerOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LowerOptions")
            .field("lnc_size", &self.lnc_size)
            .field("arch", &self.arch)
            .field("strict_2_24", &self.strict_2_24)
            .field("local_allreduce", &self.local_allreduce)
            .field("ranks", &self.ranks)
            .field("assign_cores", &self.assign_cores)
            .finish_non_exhaustive()
    }
}

/// What code generation gives.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program; `None` when a finding is an error.
    pub program: Option<Program>,
    /// All findings, in the order of cores and statements.
    pub diags: Vec<Diagnostic>,
}

/// Lowers a traced kernel to one BIR module per core.
pub fn lower(file: &KlrFile, opts: &LowerOptions<'_>) -> Lowered {
    let view = plan::View::of(file);
    let mut kernel = Kernel::default();
    let program = Plan::new(&view, opts, &mut kernel).and_then(|plan| generate(&plan, &mut kernel));
    let failed = kernel.diags.iter().any(Diagnostic::is_error);
    Lowered { program: program.filter(|_| !failed), diags: kernel.diags }
}

fn generate<'p>(plan: &'p Plan<'p>, kernel: &mut Kernel) -> Option<Program> {
    let mut done = Vec::with_capacity(plan.lnc_size as usize);
    let mut signature = tandem_bir::Signature::default();
    for core in 0..plan.lnc_size {
        let mut c = Core::new(plan, kernel, core);
        c.bind_border(&mut signature);
        match plan.view.bodies.get(core as usize) {
            None => c.skip_note(),
            Some(body) => {
                c.bind_shared_buffers();
                c.body(body);
                c.insert_edges();
                c.finish_prelude();
            }
        }
        done.push(c.done());
    }
    plan::order_ports(&mut signature, plan);
    cross::check(plan, kernel, &mut done);
    let modules = cross::share_and_name(&mut done);
    Some(Program {
        name: plan.view.name.to_string(),
        lnc_size: plan.lnc_size,
        level: Level::Bir,
        modules,
        locs: std::mem::take(&mut kernel.locs),
        constants: std::mem::take(&mut kernel.payloads),
        signature,
    })
}
