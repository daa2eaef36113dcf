//! Verdict and key figures.

use super::{ReportInput, units};
use maud::{Markup, html};
use tandem_bir::diag::Severity;
use tandem_sim::timing::Certainty;

pub(super) fn section(r: &ReportInput<'_>) -> Markup {
    let (tone, mark) = match r.verdict.word.as_str() {
        "proved" => ("good", "✓"),
        "refuted" => ("bad", "✕"),
        _ => ("open", "?"),
    };
    let sentence = r.verdict.line.strip_prefix("verdict: ").unwrap_or(&r.verdict.line);
    let (first, rest) = sentence.split_once(": ").unwrap_or((sentence, ""));
    html! {
        section #summary aria-labelledby="h-summary" {
            h2 #h-summary { "Summary" }
            div class={ "verdict " (tone) } {
                span.mark aria-hidden="true" { (mark) }
                div {
                    p.word { (capital(first)) }
                    @if !rest.is_empty() { p { (capital(rest)) } }
                }
            }
            dl.figures {
                @for (name, value, more) in figures(r) {
                    div { dt { (name) } dd { (value) @if !more.is_empty() { small { (more) } } } }
                }
            }
            (certainty(r))
        }
    }
}

fn capital(s: &str) -> String {
    let mut c = s.chars();
    c.next().map_or_else(String::new, |f| f.to_uppercase().chain(c).collect())
}

fn figures(r: &ReportInput<'_>) -> Vec<(&'static str, String, String)> {
    let mut f = Vec::new();
    if let Some(t) = &r.timed {
        let p = t.report;
        f.push((
            "Predicted time",
            units::time(p.total_ps),
            format!("{}, of which {} fixed overhead", p.generation.name(), units::time(p.overhead_ps)),
        ));
    }
    if let Some(n) = r.executed {
        f.push(("Instructions executed", units::number(n), "on all cores".to_owned()));
    }
    let on = |t: &str| r.swaps.iter().filter(|s| s.transport == t).count();
    if r.program.is_some() {
        let parts: Vec<String> = ["gpsimd", "dma", "self", "kept"]
            .iter()
            .filter(|t| on(t) > 0)
            .map(|t| format!("{} {}", on(t), super::swaps::transport(t)))
            .collect();
        f.push(("Swaps and collectives", units::number(r.swaps.len() as u64), parts.join(", ")));
    }
    if let Some(t) = &r.timed {
        let (read, written) =
            t.report.cores.iter().map(|c| c.traffic).fold((0u64, 0u64), |a, c| {
                (a.0.saturating_add(c.hbm_read), a.1.saturating_add(c.hbm_written))
            });
        let moved = read.saturating_add(written);
        f.push((
            "HBM traffic",
            units::bytes(moved),
            format!("{} read, {} written", units::bytes(read), units::bytes(written)),
        ));
        let flops = t.report.cores.iter().fold(0u64, |a, c| a.saturating_add(c.flops));
        let rate = flops as f64 / (t.report.total_ps.max(1) as f64 * 1e-12);
        f.push((
            "Arithmetic",
            format!("{:.2} Gop/s", rate / 1e9),
            format!(
                "{:.2} % of the 16-bit peak",
                100.0 * rate / (t.report.peak_flops * t.report.cores.len() as f64).max(1.0)
            ),
        ));
    }
    let of = |s: Severity| r.diagnostics.iter().filter(|d| d.severity == s).count() as u64;
    f.push((
        "Findings",
        units::count(of(Severity::Error), "error"),
        format!(
            "{}, {}",
            units::count(of(Severity::Warning), "warning"),
            units::count(of(Severity::Note), "note")
        ),
    ));
    f
}

/// What the predicted time rests on.
fn certainty(r: &ReportInput<'_>) -> Markup {
    let Some(t) = &r.timed else { return html! {} };
    let whole = t.report.critical_ps;
    let parts: Vec<(&str, u64)> = Certainty::ALL
        .iter()
        .zip(t.report.by_certainty_ps)
        .filter(|(_, ps)| *ps > 0)
        .map(|(c, ps)| (c.name(), ps))
        .collect();
    let words: Vec<String> =
        parts.iter().map(|(n, ps)| format!("{} {n}", units::percent(*ps, whole))).collect();
    html! {
        figure.certainty {
            figcaption { "What the predicted time rests on, by the origin of the numbers along the critical path" }
            div.bar role="img" aria-label=(words.join(", ")) {
                @for (i, (_, ps)) in parts.iter().enumerate() {
                    span class={ "k" (i) } style={ "flex-grow:" (ps) } {}
                }
            }
            ul.legend {
                @for (i, (name, ps)) in parts.iter().enumerate() {
                    li { span class={ "dot k" (i) } {} (capital(name)) " " b { (units::percent(*ps, whole)) } }
                }
            }
        }
    }
}
