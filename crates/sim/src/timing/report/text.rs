//! The report for people.

use super::TimingReport;
use super::json::profiler_name;
use crate::timing::params::Certainty;
use std::fmt::Write as _;
use tandem_bir::diag::SourcePos;

/// Rows of a table before the rest is left to the JSON form.
const ROWS: usize = 15;

fn us(ps: u64) -> String {
    format!("{:.3} us", ps as f64 / 1e6)
}

fn at(p: &Option<SourcePos>) -> String {
    p.as_ref().map_or_else(String::new, |p| format!(" ({}:{})", p.file, p.line))
}

fn more(s: &mut String, n: u64) {
    if n > 0 {
        let _ = writeln!(s, "  and {n} more (all in --format json)");
    }
}

impl TimingReport {
    /// The report for people.
    pub fn to_text(&self) -> String {
        let part = |ps: u64| format!("{:.1} %", 100.0 * ps as f64 / self.critical_ps.max(1) as f64);
        let of_total = |ps: u64| format!("{:.2} %", 100.0 * ps as f64 / self.total_ps.max(1) as f64);
        let (flops, read, written) = self.sums();
        let mut s = String::new();
        let _ = writeln!(
            s,
            "predicted time {} on {} (back end {}), fixed overhead {}",
            us(self.total_ps),
            self.generation.name(),
            self.back_end.name(),
            us(self.overhead_ps)
        );
        if self.subgraphs_ps.len() > 1 {
            let each: Vec<String> =
                self.subgraphs_ps.iter().enumerate().map(|(k, t)| format!("sg{k:02} {}", us(*t))).collect();
            let _ = writeln!(s, "  subgraphs, one after the other: {}", each.join(", "));
        }
        let shares: Vec<String> = Certainty::ALL
            .iter()
            .zip(self.by_certainty_ps)
            .filter(|(_, x)| *x > 0)
            .map(|(k, x)| format!("{} {}", k.name(), part(x)))
            .collect();
        let _ = writeln!(s, "  rests on numbers: {}", shares.join(", "));
        let hbm = read.saturating_add(written);
        let _ = writeln!(
            s,
            "  {flops} operations, {:.3} Gop/s ({:.2} % of the 16-bit peak); HBM {read} bytes read, {written} written, {:.3} GB/s ({:.2} % of peak)",
            self.per_second(flops) / 1e9,
            100.0 * self.per_second(flops) / self.peak().max(1.0),
            self.per_second(hbm) / 1e9,
            100.0 * self.per_second(hbm) / self.peak_hbm.max(1.0)
        );
        for c in &self.cores {
            let _ = writeln!(
                s,
                "core {}: core barriers {}, swaps {}, tokens {}; {} bytes swapped",
                c.core,
                us(c.barrier_ps),
                us(c.swap_ps),
                us(c.token_ps),
                c.swap_bytes
            );
            let _ = writeln!(
                s,
                "  dma_transfer_count {}, dma_transfer_total_bytes {}, dma_active_time {} ({})",
                c.transfers,
                c.dma_bytes,
                us(c.dma_active_ps),
                of_total(c.dma_active_ps)
            );
            let _ = writeln!(
                s,
                "  {:<8} {:>17} {:>14} {:>19}  waits",
                "engine", "instruction_count", "active_time", "active_time_percent"
            );
            for e in &c.engines {
                let waits: Vec<String> = e.waits_ps.iter().map(|(k, x)| format!("{k} {}", us(*x))).collect();
                let _ = writeln!(
                    s,
                    "  {:<8} {:>17} {:>14} {:>19}  {}",
                    profiler_name(e.engine).1,
                    e.instructions,
                    us(e.busy_ps),
                    of_total(e.busy_ps),
                    waits.join(", ")
                );
            }
        }
        if !self.syncs.is_empty() {
            s.push_str("synchronisation\n");
            for x in self.syncs.iter().take(2 * ROWS) {
                let _ = writeln!(
                    s,
                    "  core {} {} {}{}: {} times, {}, of which partner late {}",
                    x.core,
                    x.opcode,
                    x.name,
                    at(&x.pos),
                    x.count,
                    us(x.total_ps),
                    us(x.partner_ps)
                );
            }
            more(&mut s, self.syncs.len().saturating_sub(2 * ROWS) as u64);
        }
        if !self.barriers.is_empty() {
            let _ = writeln!(
                s,
                "CoreBarriers\n  {:>9} {:>5} {:>14} {:>14} {:>12} {:>11}  late_ns",
                "pcore_idx", "id", "start_ts", "end_ts", "duration_ns", "engine_name"
            );
            let ns = |ps: u64| format!("{:.3}", ps as f64 / 1e3);
            for b in self.barriers.iter().take(2 * ROWS) {
                let _ = writeln!(
                    s,
                    "  {:>9} {:>5} {:>14} {:>14} {:>12} {:>11}  {:<9} {}{}",
                    b.core,
                    b.id,
                    ns(b.start_ps),
                    ns(b.end_ps),
                    ns(b.end_ps.saturating_sub(b.start_ps)),
                    profiler_name(b.engine).1,
                    ns(b.late_ps),
                    b.name,
                    at(&b.pos)
                );
            }
            let rest = self.barriers.len().saturating_sub(2 * ROWS) as u64;
            more(&mut s, rest.saturating_add(self.more_barriers));
        }
        let _ = writeln!(s, "critical path {}", us(self.critical_ps));
        for x in self.critical.iter().take(ROWS) {
            let _ = writeln!(
                s,
                "  {:>7}  {:>12}  core {} {} {}{}",
                part(x.ps),
                us(x.ps),
                x.core,
                x.opcode,
                x.name,
                at(&x.pos)
            );
        }
        more(&mut s, self.critical.len().saturating_sub(ROWS) as u64);
        let lines = self.by_line();
        if lines.iter().any(|(l, _)| l != "(no source)") {
            s.push_str("critical path by source line\n");
            for (l, t) in lines.iter().take(ROWS) {
                let _ = writeln!(s, "  {:>7}  {:>12}  {l}", part(*t), us(*t));
            }
            more(&mut s, lines.len().saturating_sub(ROWS) as u64);
        }
        s
    }
}
