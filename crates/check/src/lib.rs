//! Static checks: what is wrong with a program that can be said without running it.
//!
//! [`check`] verifies the program and then runs every check of the [`registry`]. A check looks at all cores of a program
//! at once: it pairs what must pair (swaps, barriers, collectives) and follows what must be ordered. Each check's module
//! says what it defines, what it may miss, and whether it can report falsely.
//!
//! What the checks leave to the simulator's exact run: data races inside a core, undefined bytes, and tensors placed over each
//! other while both are live (S0023).
//!
//! Control flow is taken as static: blocks of the same name on both cores are compared with each other. What depends on
//! values at run time (trip counts, branches, register addresses) is the simulator's to find.

mod alike;
pub mod checks;
mod clocks;
mod meet;
pub mod registry;
mod stretches;

pub use checks::lnc_verifier::{VerifierError, lnc_verifier, uses_shard_ids};
pub use registry::{CHECKS, CheckInfo};

use std::cell::OnceCell;
use tandem_bir::analysis::footprint::StorageMap;
use tandem_bir::diag::Diagnostic;
use tandem_bir::verify::{Verified, verify};
use tandem_bir::{Module, Program};

/// What the ids of replica groups mean (decision D14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ranks {
    /// The cores of the one LNC.
    #[default]
    Cores,
    /// This many whole LNCs.
    Lncs(u32),
}

/// What to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Meaning of replica ids.
    pub ranks: Ranks,
    /// Completion tokens order writes across cores (`--ptcom=p2p`).
    pub tokens_order: bool,
    /// Names of checks to leave out (`barriercheck` for `--skip-barrier-checker`).
    pub skip: Vec<String>,
    /// Pairs of accesses that the barrier check compares before it gives up (our choice: 20 million).
    pub max_pairs: u64,
    /// Two writes of the very same bytes by different cores are nothing when both compute their values in the same way, and a
    /// warning otherwise, since a run can compare the values.
    pub equal_writes: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions {
            ranks: Ranks::Cores,
            tokens_order: true,
            skip: Vec::new(),
            max_pairs: 20_000_000,
            equal_writes: false,
        }
    }
}

/// Verifies a program, then runs all checks. Findings come in the order of the registry; a program that does not verify
/// gives the verifier's findings alone.
pub fn check(program: &Program, options: &CheckOptions) -> Vec<Diagnostic> {
    match verify(program) {
        Ok(v) => check_verified(&v, options),
        Err(found) => found,
    }
}

/// Runs all checks on a program that has been verified.
pub fn check_verified(verified: &Verified<'_>, options: &CheckOptions) -> Vec<Diagnostic> {
    let cx = Cx::new(verified.program(), options);
    let mut found = Vec::new();
    for c in CHECKS {
        if !options.skip.iter().any(|s| s == c.name) {
            (c.run)(&cx, &mut found);
        }
    }
    found
}

/// What every check looks at.
pub(crate) struct Cx<'p> {
    pub(crate) program: &'p Program,
    pub(crate) options: &'p CheckOptions,
    pub(crate) groups: Vec<Group<'p>>,
    /// Groups of two cores with their matched blocks.
    pub(crate) pairs: Vec<([&'p Module; 2], Vec<meet::BlockPair>)>,
    /// What their stretches share, worked out when the first check asks; one for every pair, and one more for none.
    shared: Vec<OnceCell<clocks::Shared>>,
}

/// The modules of one subgraph, in core order.
pub(crate) struct Group<'p> {
    /// Position of the first module in the program.
    pub(crate) first: usize,
    pub(crate) cores: &'p [Module],
}

impl<'p> Cx<'p> {
    fn new(program: &'p Program, options: &'p CheckOptions) -> Cx<'p> {
        let n = program.lnc_size.max(1) as usize;
        let groups: Vec<Group<'p>> = if program.modules.len().is_multiple_of(n) {
            let chunks = program.modules.chunks(n).enumerate();
            chunks.map(|(i, cores)| Group { first: i * n, cores }).collect()
        } else {
            Vec::new() // one symbolic module for several cores
        };
        let two = groups.iter().filter_map(|g| match g.cores {
            [a, b] => Some([a, b]),
            _ => None,
        });
        let pairs: Vec<_> = two.map(|m| (m, meet::block_pairs(m))).collect();
        let shared = (0..=pairs.len()).map(|_| OnceCell::new()).collect();
        Cx { program, options, groups, pairs, shared }
    }

    /// What the stretches of two cores share.
    pub(crate) fn shared(&self, modules: [&Module; 2]) -> &clocks::Shared {
        let at = self.pairs.iter().position(|p| std::ptr::eq(p.0[0], modules[0]));
        self.shared[at.unwrap_or(self.pairs.len())].get_or_init(|| clocks::Shared::new(modules))
    }

    pub(crate) fn storage(&self) -> Vec<StorageMap> {
        StorageMap::of_program(self.program)
    }
}
