//! Findings, with the lines they point at.

use super::{ReportInput, units};
use maud::{Markup, html};
use tandem_bir::diag::{Diagnostic, Severity, Site, render::site_text};

/// Findings shown. Our choice; worst first, so that what is left out is the least.
const SHOWN: usize = 200;

pub(super) fn section(r: &ReportInput<'_>) -> Markup {
    let mut all: Vec<&Diagnostic> = r.diagnostics.iter().collect();
    all.sort_by_key(|d| std::cmp::Reverse(d.severity));
    html! {
        section #findings aria-labelledby="h-findings" {
            h2 #h-findings { "Findings" }
            @if all.is_empty() { p.none { "None." } }
            @if !all.is_empty() {
                ol.findings { @for d in all.iter().take(SHOWN) { li { (finding(r, d)) } } }
            }
            @if all.len() > SHOWN {
                p.cut { "Shown are the " (SHOWN) " worst of " (units::number(all.len() as u64)) " findings; tandem check and tandem run print all." }
            }
        }
    }
}

fn finding(r: &ReportInput<'_>, d: &Diagnostic) -> Markup {
    let tone = match d.severity {
        Severity::Error => "bad",
        Severity::Warning => "warn",
        Severity::Note => "open",
    };
    html! {
        article class={ "finding " (tone) } {
            h3 { span.tag { (d.severity.word()) } " " code { (d.code) } " " (units::prose(&d.message)) }
            @if !d.sites.is_empty() {
                ul.sites { @for s in &d.sites { li { (site(r, s)) } } }
            }
            @for n in &d.notes { p.note { b { "Note" } " " (units::prose(n)) } }
            @if let Some(h) = &d.help { p.note { b { "Way out" } " " (units::prose(h)) } }
        }
    }
}

fn site(r: &ReportInput<'_>, s: &Site) -> Markup {
    let place = site_text(s);
    let line = s.pos.as_ref().and_then(|p| {
        let text = (r.source)(&p.file)?;
        text.lines().nth(p.line.checked_sub(1)? as usize).map(|l| (p.line, l.trim_end().to_owned()))
    });
    html! {
        @if !s.label.is_empty() { span.label { (units::prose(&s.label)) } " " }
        @if !place.is_empty() { code.place { (place) } }
        @if let Some((n, text)) = line {
            pre.line { span.no { (n) } (text) }
        }
    }
}
