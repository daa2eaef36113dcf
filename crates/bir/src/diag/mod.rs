//! Findings as data: [`Diagnostic`], its [`Code`], the sites it points at, source positions, and the one renderer.
//!
//! Libraries return diagnostics; only [`render`] turns them into text or JSON. A code's letter is the stage:
//! P read, K KLR to BIR, V verify, L lowering, N link, E encode, C check, S simulated fault, U usage. Codes are never reused.

pub mod codes;
mod loc;
pub mod render;

pub use codes::{Class, Code, CodeInfo};
pub use loc::{Loc, LocEntry, LocTable, SourcePos};

use crate::ids::{CoreId, InstId};
use crate::module::{Module, Program};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Note,
    /// Worth a look; never changes the exit code by default.
    Warning,
    /// Wrong.
    Error,
}

/// One place a finding points at. Self-contained: no ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Core, when the place is on one.
    pub core: Option<CoreId>,
    /// Names from outside in: function, block, instruction (each may be empty).
    pub function: String,
    /// Block name.
    pub block: String,
    /// Instruction name.
    pub inst: String,
    /// Source position.
    pub pos: Option<SourcePos>,
    /// Byte offset in a binary input.
    pub offset: Option<u64>,
    /// Path of field names or JSON pointer.
    pub path: String,
    /// What is to be said about this place.
    pub label: String,
}

impl Site {
    /// The place of an instruction of a program's module. `block` may be unknown.
    pub fn of_inst(locs: &LocTable, module: &Module, inst: InstId) -> Site {
        let i = &module.insts[inst];
        Site {
            core: module.core,
            inst: i.name.to_string(),
            pos: locs.source(i.loc).cloned(),
            ..Site::default()
        }
    }
    /// The same for an instruction that a pass may have inserted: without a position of its own it stands at that of the last
    /// instruction before it in its block that has one, else of the first behind it.
    pub fn near_inst(locs: &LocTable, module: &Module, inst: InstId) -> Site {
        let mut s = Site::of_inst(locs, module, inst);
        if s.pos.is_none()
            && let Some(list) = module.blocks.values().map(|b| &b.insts).find(|l| l.contains(&inst))
        {
            let at = list.iter().position(|i| *i == inst).unwrap_or(0);
            let (before, behind) = list.split_at(at);
            s.pos =
                before.iter().rev().chain(behind).find_map(|i| locs.source(module.insts[*i].loc)).cloned();
        }
        s
    }
    /// The same with a label.
    pub fn label(mut self, label: impl Into<String>) -> Site {
        self.label = label.into();
        self
    }
    /// A place given only by a source position.
    pub fn at(pos: Option<SourcePos>) -> Site {
        Site { pos, ..Site::default() }
    }
    /// A core as a whole.
    pub fn on_core(core: CoreId) -> Site {
        Site { core: Some(core), ..Site::default() }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code.
    pub code: Code,
    /// Severity.
    pub severity: Severity,
    /// One sentence.
    pub message: String,
    /// Places, the main one first.
    pub sites: Vec<Site>,
    /// The rule and its numbers; the vendor's text or code where it has one.
    pub notes: Vec<String>,
    /// A way out.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A finding with its code's default severity.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: code.info().severity,
            message: message.into(),
            sites: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }
    /// Adds a place.
    pub fn site(mut self, site: Site) -> Diagnostic {
        self.sites.push(site);
        self
    }
    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }
    /// Sets the way out.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
    /// Adds the place of an instruction.
    pub fn inst(self, program: &Program, module: &Module, inst: InstId) -> Diagnostic {
        self.site(Site::of_inst(&program.locs, module, inst))
    }
    /// An error-severity finding.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Exit code of a set of findings: 1 when an error is a finding, else 2 for bad input or usage, else 3 for something
/// unsupported, else 0 (the specification, file 01 §4: findings win over "not supported").
pub fn exit_code(diags: &[Diagnostic]) -> u8 {
    let has = |c: Class| diags.iter().any(|d| d.is_error() && d.code.info().class == c);
    if has(Class::Internal) {
        70
    } else if has(Class::Finding) {
        1
    } else if has(Class::Input) {
        2
    } else if has(Class::Unsupported) {
        3
    } else {
        0
    }
}
