//! Timeline and where the time goes.

use super::{ReportInput, Timed, units};
use maud::{Markup, html};

/// Lines of the critical path shown. Our choice.
const SHOWN: usize = 12;

pub(super) fn section(r: &ReportInput<'_>) -> Markup {
    html! {
        section #timeline aria-labelledby="h-timeline" {
            h2 #h-timeline { "Timeline" }
            @match &r.timed {
                None => p.none { "No timeline: " (r.not_timed) "." },
                Some(t) => { (chart(t)) (engines(t)) (path(t)) },
            }
        }
    }
}

fn chart(t: &Timed<'_>) -> Markup {
    let p = t.picture;
    let label = format!(
        "Timeline of {} over {}, one lane per core and engine",
        units::count(p.slices, "slice"),
        units::time(p.total_ps)
    );
    html! {
        noscript { p.cut { "The chart needs scripts; the tables below it do not." } }
        div.toolbar role="group" aria-label="View of the timeline and the memory map" {
            button type="button" data-do="in" { "Zoom in" }
            button type="button" data-do="out" { "Zoom out" }
            button type="button" data-do="left" aria-label="Earlier" { "←" }
            button type="button" data-do="right" aria-label="Later" { "→" }
            button type="button" data-do="all" { "Whole run" }
            span.range #range aria-live="off" {}
        }
        div.chart #chart-timeline tabindex="0" role="application" aria-roledescription="timeline" aria-label=(label)
            aria-describedby="timeline-help timeline-detail" { canvas aria-hidden="true" {} }
        p.detail #timeline-detail role="status" aria-live="polite" { "Point at a slice, or focus the chart and use the arrow keys." }
        ul.legend aria-label="Colours" {
            li { span.dot.compute {} "Compute" }
            li { span.dot.move {} "Moving data" }
            li { span.dot.sync {} "Swaps, barriers, tokens" }
            li { span.dot.control {} "Control flow" }
            li { span.dot.wait {} "Waits for a partner" }
            li { span.dot.link {} "Arrow between cores" }
        }
        p.help #timeline-help {
            "Keys: " kbd { "←" } " " kbd { "→" } " slice, " kbd { "↑" } " " kbd { "↓" } " lane, " kbd { "Shift" } " with "
            kbd { "←" } " " kbd { "→" } " pan, " kbd { "+" } " " kbd { "−" } " zoom, " kbd { "0" } " whole run, "
            kbd { "Enter" } " its code, " kbd { "Esc" } " nothing selected. Pointer: drag to pan, "
            kbd { "Ctrl" } " with the wheel or pinch to zoom."
        }
        @if p.bucket_ps > 0 {
            p.cut {
                "The run has " (units::number(p.slices)) " slices. Neighbours within " (units::time(p.bucket_ps))
                " are drawn as one; tandem time --trace writes all of them."
            }
        }
        @if p.arrows_left_out > 0 {
            p.cut { (units::count(p.arrows_left_out, "arrow")) " left out of the picture; all are in the trace." }
        }
    }
}

fn engines(t: &Timed<'_>) -> Markup {
    let whole = t.report.total_ps.saturating_sub(t.report.overhead_ps);
    html! {
        h3 { "Engines" }
        table.stack {
            caption.hidden { "Busy and waiting time per core and engine" }
            thead { tr {
                th scope="col" { "Engine" } th scope="col" .num { "Instructions" } th scope="col" .num { "Busy" }
                th scope="col" { "Share of the run" } th scope="col" { "Waits for" }
            } }
            tbody {
                @for c in &t.report.cores {
                    @for e in &c.engines {
                        tr {
                            th scope="row" data-label="Engine" { "Core " (c.core) " · " (e.engine.external_name()) }
                            td.num data-label="Instructions" { (units::number(e.instructions)) }
                            td.num data-label="Busy" { (units::time(e.busy_ps)) }
                            td data-label="Share of the run" {
                                span.meter { span style={ "width:" (share(e.busy_ps, whole)) "%" } {} } " " (units::percent(e.busy_ps, whole))
                            }
                            td data-label="Waits for" { (waits(&e.waits_ps)) }
                        }
                    }
                }
            }
        }
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1}", (100.0 * part as f64 / whole.max(1) as f64).min(100.0))
}

/// The longest waits, in words.
fn waits(w: &[(&'static str, u64)]) -> String {
    let mut w: Vec<&(&str, u64)> = w.iter().collect();
    w.sort_by_key(|x| std::cmp::Reverse(x.1));
    let mut s: Vec<String> = w.iter().take(3).map(|(k, ps)| format!("{k} {}", units::time(*ps))).collect();
    if w.len() > 3 {
        s.push(format!("{} more", w.len() - 3));
    }
    s.join(", ")
}

fn path(t: &Timed<'_>) -> Markup {
    let lines = t.report.by_line();
    let whole = t.report.critical_ps;
    html! {
        @if !lines.is_empty() {
            h3 { "Critical path by source line" }
            table.stack {
                caption.hidden { "Time on the critical path per source line, longest first" }
                thead { tr { th scope="col" { "Line" } th scope="col" .num { "Time" } th scope="col" { "Share of the path" } } }
                tbody {
                    @for (line, ps) in lines.iter().take(SHOWN) {
                        tr {
                            th scope="row" data-label="Line" { code { (line) } }
                            td.num data-label="Time" { (units::time(*ps)) }
                            td data-label="Share of the path" {
                                span.meter { span style={ "width:" (share(*ps, whole)) "%" } {} } " " (units::percent(*ps, whole))
                            }
                        }
                    }
                }
            }
            @if lines.len() > SHOWN { p.cut { "And " (units::count((lines.len() - SHOWN) as u64, "more line")) "; tandem time prints all." } }
        }
    }
}
