//! On-chip memory over time.

use super::{ReportInput, Timed, units};
use crate::picture::Life;
use maud::{Markup, html};
use tandem_bir::{MemoryLocation, MemoryType, Program};

/// Tensors in the table, and in the map. Our choice.
const LISTED: usize = 60;
const DRAWN: usize = 1_500;

/// A location in use, with its place.
pub(super) struct Placed<'a> {
    pub(super) life: &'a Life,
    pub(super) loc: &'a MemoryLocation,
    /// First byte inside a partition; PSUM counts from bank 0.
    pub(super) addr: u64,
}

impl Placed<'_> {
    pub(super) fn memory(&self) -> &'static str {
        if self.loc.mem == MemoryType::Psum { "PSUM" } else { "SBUF" }
    }
}

/// All locations in use, largest first.
pub(super) fn placed<'a>(program: &'a Program, t: &Timed<'a>) -> Vec<Placed<'a>> {
    let bank = program.arch().spec().map_or(2048, |s| s.psum_bank_bytes);
    let mut v: Vec<Placed<'a>> = t
        .picture
        .lives
        .iter()
        .filter_map(|life| {
            let loc = program.modules.get(life.module)?.memlocs.get(life.loc)?;
            let start =
                if loc.mem == MemoryType::Psum { loc.bank.unsigned_abs().saturating_mul(bank) } else { 0 };
            Some(Placed { life, loc, addr: start.saturating_add(loc.addr) })
        })
        .collect();
    v.sort_by(|a, b| {
        let key = |p: &Placed<'_>| (p.life.core, p.life.start_ps, p.addr);
        b.loc.size_bytes().cmp(&a.loc.size_bytes()).then_with(|| key(a).cmp(&key(b)))
    });
    v
}

/// The part of it that the map shows.
pub(super) fn drawn(mut v: Vec<Placed<'_>>) -> Vec<Placed<'_>> {
    v.truncate(DRAWN);
    v
}

pub(super) fn section(r: &ReportInput<'_>) -> Markup {
    let picture = r.program.zip(r.timed.as_ref());
    html! {
        section #memory aria-labelledby="h-memory" {
            h2 #h-memory { "On-chip memory over time" }
            @match picture {
                None => p.none { "No memory map: " (r.not_timed) "." },
                Some((p, t)) => (map(p, t)),
            }
        }
    }
}

fn map(program: &Program, t: &Timed<'_>) -> Markup {
    let all = placed(program, t);
    let mut charts: Vec<(usize, &str)> = all.iter().map(|p| (p.life.core, p.memory())).collect();
    charts.sort_by_key(|(c, m)| (*c, *m == "PSUM"));
    charts.dedup();
    html! {
        @if charts.is_empty() { p.none { "No SBUF or PSUM is used." } }
        @if !charts.is_empty() {
            p.help { "A box is a tensor from its first to its last use; above it, the bytes in use. The time axis is that of the timeline. "
                "Keys: " kbd { "←" } " " kbd { "→" } " tensor, " kbd { "+" } " " kbd { "−" } " zoom, " kbd { "0" } " whole run." }
        }
        @for (core, memory) in &charts {
            @let peak = peak(t, *core, memory);
            h3 { "Core " (core) ": " (memory) small { "at most " (units::bytes(peak)) " of " (units::bytes(capacity(program, memory))) " in use" } }
            div.chart.memory data-core=(core) data-memory=(memory) tabindex="0" role="application" aria-roledescription="memory map"
                aria-label={ "Memory map of " (memory) " on core " (core) ": address inside a partition over time" }
                aria-describedby={ "memory-detail-" (core) "-" (memory) } { canvas aria-hidden="true" {} }
            p.detail id={ "memory-detail-" (core) "-" (memory) } role="status" aria-live="polite" { "Point at a tensor, or focus the map and use the arrow keys." }
        }
        @if all.len() > DRAWN { p.cut { "Drawn are the " (DRAWN) " largest of " (units::number(all.len() as u64)) " tensors." } }
        @if t.picture.thinned { p.cut { "The curves of memory in use are thinned out; peaks are kept." } }
        @if !all.is_empty() { (table(&all)) }
    }
}

fn peak(t: &Timed<'_>, core: usize, memory: &str) -> u64 {
    let psum = memory == "PSUM";
    t.picture
        .curves
        .iter()
        .find(|c| c.core == core && (c.memory == MemoryType::Psum) == psum)
        .map_or(0, |c| c.peak)
}

/// Bytes of a memory over all partitions.
fn capacity(program: &Program, memory: &str) -> u64 {
    program.arch().spec().map_or(0, |s| {
        let per = if memory == "PSUM" { s.psum_bytes } else { s.sbuf_bytes };
        per.saturating_mul(s.partitions)
    })
}

fn table(all: &[Placed<'_>]) -> Markup {
    html! {
        details {
            summary { "Tensors as a table" }
            table.stack {
                caption.hidden { "Tensors in SBUF and PSUM, largest first" }
                thead { tr {
                    th scope="col" { "Tensor" } th scope="col" { "Where" } th scope="col" .num { "Address" }
                    th scope="col" .num { "Bytes per partition" } th scope="col" .num { "Partitions" }
                    th scope="col" .num { "First use" } th scope="col" .num { "Last use" }
                } }
                tbody {
                    @for p in all.iter().take(LISTED) {
                        tr {
                            th scope="row" data-label="Tensor" { code { (p.loc.name) } }
                            td data-label="Where" { "Core " (p.life.core) ", " (p.memory()) }
                            td.num data-label="Address" { (units::number(p.addr)) }
                            td.num data-label="Bytes per partition" { (units::number(p.loc.row_bytes())) }
                            td.num data-label="Partitions" { (p.loc.base) "–" (u64::from(p.loc.base).saturating_add(p.loc.rows()).saturating_sub(1)) }
                            td.num data-label="First use" { (units::time(p.life.start_ps)) }
                            td.num data-label="Last use" { (units::time(p.life.end_ps)) }
                        }
                    }
                }
            }
            @if all.len() > LISTED { p.cut { "The " (LISTED) " largest of " (units::number(all.len() as u64)) "." } }
        }
    }
}
