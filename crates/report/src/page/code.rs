//! Lowered code beside the source lines it came from.

use super::{ReportInput, units};
use crate::picture::Sum;
use indexmap::IndexMap;
use maud::{Markup, html};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{InstId, Program, text};

/// Bytes of instruction text shown, what markup adds to each, and longest text of one. Our choice: a page stays well below 2 MB.
const BUDGET: usize = 600_000;
const MARKUP: usize = 150;
const LONGEST: usize = 4_000;
/// Source lines shown around one that has code, and lines shown per file.
const AROUND: u32 = 2;
const LINES: usize = 3_000;
/// Longest source line shown.
const WIDEST: usize = 400;

/// One text of an instruction and the modules that have it.
struct Entry {
    text: String,
    id: (usize, InstId),
    cores: Vec<u64>,
    sum: Sum,
}

/// Instructions by source file and line.
pub(super) struct Code {
    /// Lines in order; files in the order of first use.
    files: IndexMap<String, BTreeMap<u32, Vec<Entry>>>,
    /// Anchor of an instruction that is on the page.
    anchors: FxHashMap<(usize, InstId), String>,
    shown: usize,
    all: usize,
}

impl Code {
    pub(super) fn new(r: &ReportInput<'_>) -> Code {
        let mut c = Code { files: IndexMap::new(), anchors: FxHashMap::default(), shown: 0, all: 0 };
        if let Some(p) = r.program {
            c.collect(p, r);
        }
        c
    }

    fn collect(&mut self, p: &Program, r: &ReportInput<'_>) {
        let mut left = BUDGET;
        let lnc = u64::from(p.lnc_size.max(1));
        let walks: Vec<_> = p.modules.iter().map(tandem_bir::Module::walk).collect();
        self.all = walks.iter().map(Vec::len).sum();
        for (m, module) in p.modules.iter().enumerate() {
            for text in text::print_instructions(module, &walks[m]) {
                let (id, mut line) = text;
                if left < line.len() + MARKUP {
                    // Nothing after this point, so that what is shown is a beginning.
                    left = 0;
                    break;
                }
                if line.len() > LONGEST {
                    let cut = (0..=LONGEST).rev().find(|i| line.is_char_boundary(*i)).unwrap_or(0);
                    line.truncate(cut);
                    line.push_str(" …");
                }
                self.shown += 1;
                let pos = p.locs.source(module.insts[id].loc);
                let (file, n) = pos.map_or((String::new(), 0), |p| (p.file.to_string(), p.line));
                let sum = r.timed.as_ref().and_then(|t| t.picture.sums.get(&(m, id)).copied());
                let sum = sum.unwrap_or_default();
                let core = m as u64 % lnc;
                let entries = self.files.entry(file).or_default().entry(n).or_default();
                // The cores of an LNC mostly run the same text; it stands once.
                let twin = entries.iter_mut().find(|e| {
                    e.text == line && !e.cores.contains(&core) && e.id.0 / lnc as usize == m / lnc as usize
                });
                let anchor = match twin {
                    Some(e) => {
                        e.cores.push(core);
                        e.sum.count += sum.count;
                        e.sum.span_ps = e.sum.span_ps.max(sum.span_ps);
                        e.sum.partner_ps = e.sum.partner_ps.max(sum.partner_ps);
                        anchor(e.id)
                    }
                    None => {
                        left = left.saturating_sub(line.len() + MARKUP);
                        entries.push(Entry { text: line, id: (m, id), cores: vec![core], sum });
                        anchor((m, id))
                    }
                };
                self.anchors.insert((m, id), anchor);
            }
            if left == 0 {
                break;
            }
        }
    }

    /// Anchor of an instruction, when the page has it.
    pub(super) fn anchor(&self, module: usize, inst: InstId) -> Option<&str> {
        self.anchors.get(&(module, inst)).map(String::as_str)
    }

    pub(super) fn section(&self, r: &ReportInput<'_>) -> Markup {
        html! {
            section #code aria-labelledby="h-code" {
                h2 #h-code { "Lowered code beside the source" }
                @if self.files.is_empty() { p.none { "The program did not reach level lowered." } }
                @for (file, lines) in &self.files { (self.file(r, file, lines)) }
                @if self.shown < self.all {
                    p.cut { "Shown are the first " (units::number(self.shown as u64)) " of " (units::count(self.all as u64, "instruction")) "; tandem lower prints all." }
                }
            }
        }
    }

    fn file(&self, r: &ReportInput<'_>, file: &str, lines: &BTreeMap<u32, Vec<Entry>>) -> Markup {
        let text = if file.is_empty() { None } else { (r.source)(file) };
        let source: Vec<&str> = text.as_deref().map(|t| t.lines().collect()).unwrap_or_default();
        let critical = line_times(r, file);
        let whole = r.timed.as_ref().map_or(0, |t| t.report.critical_ps);
        let wanted = wanted(lines, source.len());
        // A line, and whether lines are left out before it.
        let gaps = std::iter::once(0).chain(wanted.iter().copied());
        let shown =
            wanted.iter().zip(gaps).take(LINES).map(|(n, before)| (n, before != 0 && *n > before + 1));
        html! {
            h3 { @if file.is_empty() { "Without a source position" } @else { code { (file) } }
                @if !file.is_empty() && source.is_empty() { small { "the file cannot be read here; line numbers only" } } }
            div.code role="table" aria-label={ "Source lines and lowered instructions of " (if file.is_empty() { "unknown files" } else { file }) } {
                @for (n, gap) in shown {
                    @if gap { div.gap aria-hidden="true" { "⋯" } }
                    @let entries = lines.get(n).map(Vec::as_slice).unwrap_or_default();
                    @let share = critical.get(n).copied().unwrap_or(0);
                    div.row role="row" {
                        div.src role="cell" {
                            @if *n > 0 { span.no { (n) } }
                            @if let Some(t) = n.checked_sub(1).and_then(|i| source.get(i as usize)) { span.text { (clip(t)) } }
                            @if share > 0 {
                                span.heat title="share of the critical path" { (units::percent(share, whole)) }
                            }
                        }
                        div.out role="cell" { @for e in entries { (entry(e, r)) } }
                    }
                }
            }
            @if wanted.len() > LINES { p.cut { "Shown are the first " (LINES) " lines of this file that have code." } }
        }
    }
}

fn entry(e: &Entry, r: &ReportInput<'_>) -> Markup {
    let cores: Vec<String> = e.cores.iter().map(u64::to_string).collect();
    let several = r.program.is_some_and(|p| p.lnc_size > 1);
    html! {
        div.inst id=(anchor(e.id)) tabindex="-1" {
            @if several { span.cores { (if e.cores.len() > 1 { "cores " } else { "core " }) (cores.join(" ")) } }
            code { (e.text) }
            @if e.sum.count > 0 {
                span.cost {
                    (units::time(e.sum.span_ps))
                    @if e.sum.count > e.cores.len() as u64 { " in " (units::number(e.sum.count)) " runs" }
                }
            }
        }
    }
}

fn anchor((m, id): (usize, InstId)) -> String {
    format!("i{m}-{}", id.index())
}

fn clip(line: &str) -> String {
    if line.chars().count() > WIDEST {
        line.chars().take(WIDEST).chain(" …".chars()).collect()
    } else {
        line.to_owned()
    }
}

/// Lines with code, and those around them when the text is there.
fn wanted(lines: &BTreeMap<u32, Vec<Entry>>, len: usize) -> Vec<u32> {
    let mut v = Vec::new();
    for n in lines.keys() {
        if *n == 0 || len == 0 {
            v.push(*n);
            continue;
        }
        let end = n.saturating_add(AROUND).min(u32::try_from(len).unwrap_or(u32::MAX)).max(*n);
        v.extend((n.saturating_sub(AROUND).max(1)..=end).filter(|x| x == n || *x as usize <= len));
    }
    v.sort_unstable();
    v.dedup();
    v
}

/// Time on the critical path per line of a file.
fn line_times(r: &ReportInput<'_>, file: &str) -> FxHashMap<u32, u64> {
    let mut m = FxHashMap::default();
    if let Some(t) = &r.timed {
        for s in &t.report.critical {
            if let Some(p) = &s.pos
                && p.file == file
            {
                *m.entry(p.line).or_insert(0) += s.ps;
            }
        }
    }
    m
}
