//! What a run or a check may claim: proved, refuted, or not covered.
//!
//! A run on the exact happens-before order *proves* for its control flow that there is no race, no deadlock and no use of
//! undefined bytes, under every schedule. Where neither control flow nor an address depends on data
//! ([`tandem_bir::analysis::data`]), that control flow is the one of every input. The static checks alone prove that meetings pair and
//! that the cores' accesses are ordered, for programs without loops, branches and run-time addresses.

use serde_json::{Value, json};
use tandem_bir::analysis::data::depends_on_data;
use tandem_bir::diag::Site;
use tandem_bir::diag::{Class, Diagnostic, Severity, codes, render::site_text};
use tandem_bir::{Opcode, Program};
use tandem_sim::{Outcome, StopReason};

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Proved {
        /// For every input, not only for those of the run.
        all_inputs: bool,
        /// Only what happens between the cores was judged (static checks).
        between_cores: bool,
        /// What was proved, and what limits it.
        why: String,
    },
    /// Something is wrong.
    Refuted {
        /// Codes of the findings, each once.
        codes: Vec<String>,
        /// Titles of the codes.
        why: String,
    },
    /// Nothing can be said.
    NotCovered {
        /// The reason.
        why: String,
    },
}

impl Verdict {
    /// `proved`, `refuted` or `not covered`.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Proved { .. } => "proved",
            Verdict::Refuted { .. } => "refuted",
            Verdict::NotCovered { .. } => "not covered",
        }
    }
    /// One line for people.
    pub fn line(&self) -> String {
        match self {
            Verdict::Proved { between_cores: true, why, .. } => {
                format!("verdict: proved between the cores for all inputs: {why}")
            }
            Verdict::Proved { all_inputs: true, why, .. } => format!("verdict: proved for all inputs: {why}"),
            Verdict::Proved { all_inputs: false, why, .. } => {
                format!("verdict: proved for these inputs: {why}")
            }
            Verdict::Refuted { why, .. } => format!("verdict: refuted: {why}"),
            Verdict::NotCovered { why } => format!("verdict: not covered: {why}"),
        }
    }
    /// For programs: `verdict`, `why`, and `inputs` (`all`, `these`) with `scope` (`everything`, `between cores`), or `codes`.
    pub fn to_json(&self) -> Value {
        match self {
            Verdict::Proved { all_inputs, between_cores, why } => json!({
                "verdict": "proved",
                "inputs": if *all_inputs { "all" } else { "these" },
                "scope": if *between_cores { "between cores" } else { "everything" },
                "why": why,
            }),
            Verdict::Refuted { codes, why } => json!({"verdict": "refuted", "codes": codes, "why": why}),
            Verdict::NotCovered { why } => json!({"verdict": "not covered", "why": why}),
        }
    }
    /// Something is wrong.
    pub fn is_refuted(&self) -> bool {
        matches!(self, Verdict::Refuted { .. })
    }
}

/// A finding that the program's behaviour is wrong: a pass, a static check or a simulated fault whose own severity is error
/// (also when an option made it a warning), or meetings of the cores that linking cannot pair. The step limit only ends what
/// is known.
pub fn refutes(d: &Diagnostic) -> bool {
    let i = d.code.info();
    let unpaired = [codes::N0008, codes::N0009, codes::N0011, codes::N0012].contains(&d.code);
    i.class == Class::Finding
        && i.severity == Severity::Error
        && (i.id.starts_with(['L', 'C', 'S']) || unpaired)
        && d.code != codes::S0015
        // Writes of the same places, whose values only a run knows.
        && (d.code != codes::C0601 || d.is_error())
}

/// The verdict of findings alone: refuted, or not covered when an error kept the program from being judged.
fn of_findings(diags: &[Diagnostic]) -> Option<Verdict> {
    let mut found: Vec<String> = Vec::new();
    let mut titles: Vec<String> = Vec::new();
    for d in diags.iter().filter(|d| refutes(d)) {
        let id = d.code.to_string();
        if !found.contains(&id) {
            titles.push(format!("{id} ({})", d.code.info().title));
            found.push(id);
        }
    }
    if !found.is_empty() {
        return Some(Verdict::Refuted { codes: found, why: titles.join(", ") });
    }
    let e = diags.iter().find(|d| d.is_error())?;
    let why = match e.code.info().class {
        _ if e.code == codes::S0015 => e.message.clone(),
        Class::Unsupported => format!("not supported: {} ({})", e.message, e.code),
        Class::Input | Class::Finding | Class::Internal => format!("refused: {} ({})", e.message, e.code),
    };
    Some(Verdict::NotCovered { why })
}

/// A stage gave no program: the verdict of its findings.
pub fn of_refused(diags: &[Diagnostic]) -> Verdict {
    of_findings(diags).unwrap_or_else(|| Verdict::NotCovered { why: "there is no program".to_owned() })
}

/// Which checks of a run were on.
#[derive(Debug, Clone, Copy)]
pub struct Looked {
    /// Data races and overlapping allocations.
    pub races: bool,
    /// Undefined bytes.
    pub undefined: bool,
    /// On-chip tensors are known by name, so that their overlaps are seen.
    pub tensors: bool,
}

/// The verdict of a run.
pub fn of_run(program: &Program, diags: &[Diagnostic], outcome: &Outcome, looked: Looked) -> Verdict {
    if let Some(v) = of_findings(diags) {
        return v;
    }
    let off = |what: &str| Verdict::NotCovered { why: what.to_owned() };
    match outcome.stop {
        StopReason::Finished => {}
        StopReason::Deadlock => return off("the run came to no end"),
        StopReason::StepLimit => return off("the step limit was reached"),
        StopReason::Fault => return off("an instruction could not be carried out"),
        StopReason::Cancelled => return off("the run was stopped"),
    }
    if !looked.races {
        return off("the race check was switched off");
    }
    if !looked.undefined {
        return off("the check of undefined bytes was switched off");
    }
    let mut what = "no race, no deadlock, no use of undefined bytes, under every schedule".to_owned();
    if !looked.tensors {
        what.push_str(" (without a debug table, tensors placed over each other are not seen)");
    }
    if outcome.diagnostics.iter().any(|d| d.code == codes::S0027) {
        what.push_str(" (some tensors placed over each other were not followed)");
    }
    if let Some(place) = data_use(program) {
        return Verdict::Proved { all_inputs: false, between_cores: false, why: format!("{what}; {place}") };
    }
    if outcome.diagnostics.iter().any(|d| d.code == codes::S0026) {
        let why = format!("{what}; two cores store the same bytes, with other values they might not");
        return Verdict::Proved { all_inputs: false, between_cores: false, why };
    }
    if outcome.carried_by_value {
        let why = format!("{what}; with other values undefined bytes may be selected");
        return Verdict::Proved { all_inputs: false, between_cores: false, why };
    }
    let why = format!("{what}; neither control flow nor addresses depend on data");
    Verdict::Proved { all_inputs: true, between_cores: false, why }
}

/// Where control flow or an address depends on data, in words.
fn data_use(program: &Program) -> Option<String> {
    let u = depends_on_data(program)?;
    let m = program.modules.get(u.module)?;
    Some(format!("{} depends on data: {}", u.what, site_text(&Site::of_inst(&program.locs, m, u.inst))))
}

/// The verdict of the static checks; `program` is the lowered one, when that level was reached.
pub fn of_check(program: Option<&Program>, diags: &[Diagnostic], skipped: bool) -> Verdict {
    if let Some(v) = of_findings(diags) {
        return v;
    }
    let Some(p) = program else {
        return Verdict::NotCovered {
            why: "the static checks need a program of level bir or lowered".to_owned(),
        };
    };
    if p.lnc_size < 2 {
        let why = "one core; order inside a core and undefined bytes are judged by `tandem run`";
        return Verdict::NotCovered { why: why.to_owned() };
    }
    if skipped {
        return Verdict::NotCovered { why: "the barrier check was switched off".to_owned() };
    }
    if diags.iter().any(|d| d.code == codes::C0602) {
        return Verdict::NotCovered { why: "the barrier check was not completed".to_owned() };
    }
    if diags.iter().any(|d| d.code == codes::C0601) {
        let why = "two cores write the same places; `tandem run` compares the values";
        return Verdict::NotCovered { why: why.to_owned() };
    }
    if let Some(place) = data_use(p) {
        return Verdict::NotCovered { why: format!("{place}; `tandem run` judges single inputs") };
    }
    let repeats = |op: Opcode| {
        matches!(
            op,
            Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile | Opcode::CompareAndBranch | Opcode::Call
        )
    };
    for m in &p.modules {
        if let Some((_, _, id)) = m.walk().into_iter().find(|(_, _, i)| repeats(m.insts[*i].opcode)) {
            let at = site_text(&Site::of_inst(&p.locs, m, id));
            let why = format!("{at} makes control flow; orders across it are judged by `tandem run`");
            return Verdict::NotCovered { why };
        }
    }
    for m in &p.modules {
        let moves = |i: &tandem_bir::Inst| {
            let all = i.operands();
            all.filter_map(tandem_bir::Operand::as_ap).any(|ap| !ap.is_static())
        };
        if let Some((_, _, id)) = m.walk().into_iter().find(|(_, _, i)| moves(&m.insts[*i])) {
            let at = site_text(&Site::of_inst(&p.locs, m, id));
            let why = format!("{at} has an address that is worked out at run time; `tandem run` judges it");
            return Verdict::NotCovered { why };
        }
    }
    let why = "they meet in the same order, and what both touch is separated; order inside a core and undefined bytes \
               are judged by `tandem run`";
    Verdict::Proved { all_inputs: true, between_cores: true, why: why.to_owned() }
}
