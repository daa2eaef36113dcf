//! What is worth saying about a program that was read, though nothing is wrong with it.
//!
//! Guarantees: at most one remark of each code per program; the program is not changed.

use crate::diag::Diagnostic;
use crate::diag::codes::{P0119, P0120};
use crate::enums::TensorKind;
use crate::module::Program;
use std::collections::BTreeSet;

/// Names shown in one remark (our choice).
const SHOWN: usize = 8;

/// Keys that the model does not name (P0119) and constants whose payload is not there (P0120).
pub fn remarks(p: &Program) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let keys = unknown_keys(p);
    if !keys.is_empty() {
        out.push(Diagnostic::new(P0119, format!("kept without a meaning: {}", list(&keys))));
    }
    let missing = missing_constants(p);
    if !missing.is_empty() {
        let text = format!("the payload of a constant is not there: {}", list(&missing));
        out.push(Diagnostic::new(P0120, text).note("the program can be lowered and checked, but not run"));
    }
    out
}

fn list(names: &BTreeSet<&str>) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn unknown_keys(p: &Program) -> BTreeSet<&str> {
    let mut out = BTreeSet::new();
    for m in &p.modules {
        let insts = m.insts.values().filter_map(|i| i.more.as_deref());
        let all = std::iter::once(&m.extra)
            .chain(m.funcs.values().map(|f| &f.extra))
            .chain(m.blocks.values().map(|b| &b.extra))
            .chain(m.sets.values().map(|s| &s.extra))
            .chain(m.memlocs.values().map(|l| &l.extra))
            .chain(m.regs.values().map(|r| &r.extra))
            .chain(insts.clone().map(|x| &x.extra));
        // Extras of a module hold its attributes as one key; those are known by name only.
        for e in all.filter_map(|e| e.as_deref()) {
            out.extend(e.keys().map(String::as_str).filter(|k| *k != "attributes"));
        }
        out.extend(insts.flat_map(|x| &x.operand_extra).flat_map(|x| x.extra.keys()).map(String::as_str));
    }
    out
}

fn missing_constants(p: &Program) -> BTreeSet<&str> {
    let sets = p.modules.iter().flat_map(|m| m.sets.values());
    sets.filter(|s| s.kind == TensorKind::Const)
        .filter_map(|s| s.file.as_deref())
        .filter(|f| !f.is_empty() && !p.constants.contains_key(*f))
        .collect()
}
