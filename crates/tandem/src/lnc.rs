//! The mandatory places of `lnc_verifier`: on a symbolic module, after the split, after the collectives are lowered, and on
//! the lowered program; with `--verify-each` and in builds with debug assertions after every pass (the specification, file 05
//! §8.1).
//!
//! Who made the modules decides what a failure is. On modules as given it is a finding; on modules that our passes made from
//! modules without that failure it is a fault of ours, reported as I0001 with the vendor's check in the notes. What the cores
//! of a given program have in different number or under different names stays what it is, a finding of the checks and of
//! the simulator, which know the places.

use std::time::Duration;
use tandem_backend::pass::{Hooks, PassInfo};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{CompactString, Module, Opcode, Program};
use tandem_check::{VerifierError, lnc_verifier};

/// Checks whose failure leaves cores that no pass can bring together: core ids, shard ids, functions and blocks.
const STRUCTURE: [u16; 6] = [1203, 1199, 1193, 1191, 1192, 1194];

/// Checks that fail when cores meet in different order or number.
const MEETINGS: [u16; 4] = [1187, 1198, 1188, 1189];

/// What the verifier says of modules as given, before any pass of ours.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// They were one module for all cores.
    symbolic: bool,
    /// Codes that modules per core fail already.
    known: Vec<u16>,
    /// They can be lowered.
    pub(crate) ok: bool,
}

/// Verifies modules as given: everything on a symbolic one, the structure on one per core.
pub(crate) fn given(p: &Program, diags: &mut Vec<Diagnostic>) -> Given {
    let symbolic = is_symbolic(p);
    let found = lnc_verifier(p);
    let mut known: Vec<u16> = Vec::new();
    if !symbolic {
        known.extend(found.iter().map(|e| e.code));
        if !meetings_agree(p) {
            known.extend(MEETINGS);
        }
    }
    let before = diags.len();
    diags.extend(found.into_iter().filter(|e| symbolic || STRUCTURE.contains(&e.code)).map(|e| e.diagnostic));
    Given { symbolic, known, ok: diags.len() == before }
}

fn is_symbolic(p: &Program) -> bool {
    p.modules.len() == 1 && p.modules[0].core.is_none()
}

/// The cores of each subgraph meet in the same order: barriers, swaps and collectives, block by block. Where a given program
/// does not, the barriers of its lowered form pair up crosswise, and that is the kernel's deadlock, not a fault of a pass.
fn meetings_agree(p: &Program) -> bool {
    let n = p.lnc_size.max(1) as usize;
    let meetings = |m: &Module| -> Vec<(CompactString, Opcode)> {
        let all = m.walk().into_iter().map(|(_, b, i)| (b, m.insts[i].opcode));
        let met =
            all.filter(|(_, o)| matches!(o, Opcode::CoreBarrier | Opcode::GpsimdSb2Sb) || o.is_collective());
        met.map(|(b, o)| (m.blocks[b].name.clone(), o)).collect()
    };
    p.modules.chunks(n).all(|cores| {
        let mut lists = cores.iter().map(meetings);
        let first = lists.next();
        lists.all(|l| first.as_ref() == Some(&l))
    })
}

/// Hooks that verify after the passes that split and lower, around the hooks of a command.
pub(crate) struct Verifying<'a> {
    inner: &'a mut dyn Hooks,
    given: &'a Given,
}

impl<'a> Verifying<'a> {
    /// Around `inner`, for a program whose modules were these.
    pub(crate) fn new(inner: &'a mut dyn Hooks, given: &'a Given) -> Verifying<'a> {
        Verifying { inner, given }
    }

    /// Verifies the program after the last pass, ids of barriers included. False when our passes broke it.
    pub(crate) fn finished(&self, p: &Program, diags: &mut Vec<Diagnostic>) -> bool {
        let found = self.ours(p);
        let ok = found.is_empty();
        diags.extend(found);
        ok
    }

    /// Failures that the program given did not have.
    fn ours(&self, p: &Program) -> Vec<Diagnostic> {
        self.ours_but(p, &[])
    }

    /// The same without checks that cannot hold yet.
    fn ours_but(&self, p: &Program, without: &[u16]) -> Vec<Diagnostic> {
        let new = |e: &&VerifierError| !self.given.known.contains(&e.code) && !without.contains(&e.code);
        lnc_verifier(p).iter().filter(new).map(internal).collect()
    }
}

/// A failure on modules of our own.
fn internal(e: &VerifierError) -> Diagnostic {
    let mut d = Diagnostic::new(
        codes::I0001,
        format!("the passes made modules that do not agree: {}", e.diagnostic.message),
    );
    d.sites.clone_from(&e.diagnostic.sites);
    d.notes.clone_from(&e.diagnostic.notes);
    d
}

impl Hooks for Verifying<'_> {
    fn after_pass(&mut self, info: &'static PassInfo, p: &Program) {
        self.inner.after_pass(info, p);
    }
    fn verify(&mut self, info: &'static PassInfo, p: &Program) -> Vec<Diagnostic> {
        let mut found = self.inner.verify(info, p);
        match info.name {
            // A mask on a region around a barrier is the kernel's; core and shard ids are the splitter's.
            "lnc-splitter" if self.given.symbolic => found.extend(
                lnc_verifier(p)
                    .into_iter()
                    .map(|e| if matches!(e.code, 1199 | 1203) { internal(&e) } else { e.diagnostic }),
            ),
            "lower-local-collectives" => found.extend(self.ours(p)),
            // Before the split there is one module; its barriers and swaps fire as they did.
            _ if self.verify_each() && is_symbolic(p) => {
                found.extend(lnc_verifier(p).into_iter().map(|e| e.diagnostic));
            }
            // Between the two passes the views of shared tensors have no address yet.
            "shared-dram-alloc" => {
                if self.verify_each() {
                    found.extend(self.ours_but(p, &[1195, 1196]));
                }
            }
            _ => {
                if self.verify_each() {
                    found.extend(self.ours(p));
                }
            }
        }
        found
    }
    fn verify_each(&self) -> bool {
        cfg!(debug_assertions) || self.inner.verify_each()
    }
    fn elapsed(&mut self, info: &'static PassInfo, time: Duration) {
        self.inner.elapsed(info, time);
    }
}
