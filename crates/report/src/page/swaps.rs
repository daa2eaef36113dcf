//! Swaps and collectives: which way each went, and why.

use super::{ReportInput, units};
use maud::{Markup, html};
use tandem_backend::explain::ExplainRow;

/// Rows shown. Our choice.
const SHOWN: usize = 300;

/// Name of a transport for people.
pub(super) fn transport(t: &str) -> &'static str {
    match t {
        "gpsimd" => "by GPSIMD",
        "dma" => "by DMA",
        "self" => "with itself",
        "kept" => "kept",
        _ => "other",
    }
}

pub(super) fn section(r: &ReportInput<'_>) -> Markup {
    let timed = r.swap_times.iter().flatten().any(Option::is_some);
    let none = [None, None];
    html! {
        section #swaps aria-labelledby="h-swaps" {
            h2 #h-swaps { "Swaps and collectives" }
            @if r.swaps.is_empty() { p.none { "None." } }
            @if !r.swaps.is_empty() {
                table.stack.swaps {
                    caption.hidden { "Swaps and collectives with their transport and the reason for it" }
                    thead { tr {
                        th scope="col" { "Name" } th scope="col" { "Source" } th scope="col" { "Tile" }
                        th scope="col" .num { "Bytes per partition" } th scope="col" { "Transport" }
                        @if timed { th scope="col" .num { "Time alone" } }
                        th scope="col" { "Reason" }
                    } }
                    tbody { @for (i, s) in r.swaps.iter().take(SHOWN).enumerate() { (row(s, timed.then(|| r.swap_times.get(i).unwrap_or(&none)))) } }
                }
                @if r.swaps.len() > SHOWN {
                    p.cut { "Shown are the first " (SHOWN) " of " (units::number(r.swaps.len() as u64)) "; tandem explain prints all." }
                }
            }
        }
    }
}

fn row(s: &ExplainRow, times: Option<&[Option<u64>; 2]>) -> Markup {
    let shape: Vec<String> = s.shape.iter().map(u64::to_string).collect();
    let tile = if shape.is_empty() { String::new() } else { format!("{} [{}]", s.dtype, shape.join(" × ")) };
    html! {
        tr {
            th scope="row" data-label="Name" { code { (s.name) } small { (s.kind) } }
            td data-label="Source" { @if let Some(p) = &s.source { code { (p.file) ":" (p.line) } } @else { "–" } }
            td data-label="Tile" { (tile) }
            td.num data-label="Bytes per partition" {
                (units::number(s.bytes_per_partition))
                @if s.effective_bytes_per_partition != s.bytes_per_partition {
                    small { "effective " (units::number(s.effective_bytes_per_partition)) }
                }
            }
            td data-label="Transport" { span class={ "tag t-" (s.transport) } { (transport(s.transport)) } }
            @if let Some(t) = times {
                td.num data-label="Time alone" {
                    @for (name, ps) in ["GPSIMD", "DMA"].iter().zip(t) {
                        @if let Some(ps) = ps { div { (name) " " (units::time(*ps)) } }
                    }
                }
            }
            td data-label="Reason" {
                (units::prose(&s.note))
                @if !s.predicates.is_empty() || !s.barriers.is_empty() {
                    details {
                        summary { "Predicates and barriers" }
                        ul.predicates {
                            @for p in s.predicates.iter() {
                                li class=(if p.holds { "yes" } else { "no" }) {
                                    b { (if p.holds { "holds" } else { "fails" }) } " " code { (p.id) } " " (p.text) ": " (p.value)
                                }
                            }
                            @for b in &s.barriers {
                                li { b { (if b.inserted { "barrier" } else { "left out" }) } " " code { (b.name) } " " (b.why) }
                            }
                        }
                    }
                }
            }
        }
    }
}
