//! Predicted time of each swap under both transports, without running anything.
//!
//! The program is lowered twice more, once with every legal swap over GPSIMD and once with every swap by DMA; what the swap
//! then consists of is costed on an idle machine whose cores arrive together.

use crate::cli::{CompileArgs, Transport};
use crate::driver::{self, Staged};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use tandem_backend::explain::ExplainRow;
use tandem_bir::{Level, Opcode, Program};
use tandem_sim::timing::{Certainty, Params, Span, alone, barrier};

/// A swap over one transport.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leg {
    /// The data, until what waits for it may start.
    pub mover: Span,
    /// Barriers around it.
    pub barriers: u64,
    /// All of it.
    pub total: Span,
}

/// A swap over both transports; `None` where it cannot go.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prediction {
    /// Over GPSIMD.
    pub gpsimd: Option<Leg>,
    /// By DMA.
    pub dma: Option<Leg>,
}

fn us(s: Span) -> String {
    format!("{:.3} us", s.ps() as f64 / 1e6)
}

impl Leg {
    fn text(&self) -> String {
        let n = self.barriers;
        format!("{} ({} + {n} barrier{})", us(self.total), us(self.mover), if n == 1 { "" } else { "s" })
    }
    /// Times in nanoseconds and how sure they are.
    pub fn to_json(&self) -> Value {
        let ns = |s: Span| s.ps() as f64 / 1000.0;
        let shares: Map<String, Value> = Certainty::ALL
            .iter()
            .zip(self.total.shares())
            .map(|(c, x)| (c.name().replace(' ', "_"), json!(x)))
            .collect();
        json!({"total_ns": ns(self.total), "mover_ns": ns(self.mover), "barriers": self.barriers, "share_by_certainty": shares})
    }
}

impl Prediction {
    /// For programs: `gpsimd` and `dma`, null where the swap cannot go.
    pub fn to_json(&self) -> Value {
        json!({"gpsimd": self.gpsimd.map(|l| l.to_json()), "dma": self.dma.map(|l| l.to_json())})
    }
    /// One line for people, without its end.
    pub fn to_text(&self) -> String {
        let mut s = String::from("predicted: ");
        match (&self.gpsimd, &self.dma) {
            (Some(g), Some(d)) => {
                let _ = write!(s, "GPSIMD {}, DMA {}", g.text(), d.text());
                let (g, d) = (g.total.ps(), d.total.ps());
                let by = |a: u64, b: u64| format!("{:.3} us", a.abs_diff(b) as f64 / 1e6);
                match g.cmp(&d) {
                    std::cmp::Ordering::Less => {
                        let _ = write!(s, "; GPSIMD is {} faster", by(g, d));
                    }
                    std::cmp::Ordering::Equal => s.push_str("; equally fast"),
                    std::cmp::Ordering::Greater => {
                        let _ = write!(s, "; DMA is {} faster", by(g, d));
                    }
                }
            }
            (Some(g), None) => {
                let _ = write!(s, "GPSIMD {}; not legal by DMA", g.text());
            }
            (None, Some(d)) => {
                let _ = write!(s, "DMA {}; not legal over GPSIMD", d.text());
            }
            (None, None) => s.push_str("neither transport has a time"),
        }
        let sure = |l: &Option<Leg>| l.map(|l| l.total.shares()[Certainty::OurChoice as usize]);
        let ours: Vec<String> = [("GPSIMD", sure(&self.gpsimd)), ("DMA", sure(&self.dma))]
            .into_iter()
            .filter_map(|(n, x)| x.map(|x| format!("{n} {:.0} %", 100.0 * x)))
            .collect();
        if !ours.is_empty() {
            let _ = write!(s, " (resting on our own choice of numbers: {})", ours.join(", "));
        }
        s
    }
}

/// The program with other options for its swaps.
pub fn lowered_with(bir: &Program, args: &CompileArgs, transport: Transport, knob: u64) -> Staged {
    let args = CompileArgs { transport, sendrecv_to_gpsimd_max_bpp: knob, ..args.clone() };
    driver::to_lowered(Staged { program: Some(bir.clone()), ..Staged::default() }, &args)
}

/// Longest name of a row that an instruction's name continues.
fn row_of(rows: &[ExplainRow], name: &str) -> Option<usize> {
    let fits = |r: &ExplainRow| name.strip_prefix(r.name.as_str()).is_some_and(|rest| rest.starts_with('_'));
    (0..rows.len()).filter(|k| fits(&rows[*k])).max_by_key(|k| rows[*k].name.len())
}

/// Legs of the swaps of a lowered program that went over a transport.
fn legs(staged: &Staged, transport: &str, params: &Params) -> Vec<(String, Leg)> {
    let rows = &staged.passes.decisions;
    let Some(p) = &staged.program else { return Vec::new() };
    let Some((meet, _)) = barrier(p, params) else { return Vec::new() };
    let Ok(all) = alone(p, params) else { return Vec::new() };
    // Per row and module: movers one after the other, then one semaphore.
    let mut sums: Vec<Vec<Option<(Span, Span)>>> = vec![vec![None; p.modules.len()]; rows.len()];
    for a in all {
        let inst = &p.modules[a.module].insts[a.inst];
        let swap = inst.opcode == Opcode::GpsimdSb2Sb;
        let Some(k) = row_of(rows, &inst.name) else { continue };
        if rows[k].kind != "SendRecv" || rows[k].transport != transport || swap != (transport == "gpsimd") {
            continue;
        }
        let at = &mut sums[k][a.module];
        *at = Some(match *at {
            None => (a.time, a.wake),
            Some((time, _)) => (time.plus(a.time), time.plus(a.wake)),
        });
    }
    let mut out = Vec::new();
    for (r, sums) in rows.iter().zip(sums) {
        let Some((_, mover)) = sums.into_iter().flatten().max_by_key(|(_, w)| w.ps()) else { continue };
        let barriers = r.barriers.iter().filter(|b| b.inserted).count() as u64;
        let total = mover.plus(meet.times(barriers));
        out.push((r.name.clone(), Leg { mover, barriers, total }));
    }
    out
}

/// A prediction per row, in row order; `None` for rows that are no swaps between cores. `bir` is the program before the
/// multi-core passes.
pub fn swaps(
    bir: &Program,
    args: &CompileArgs,
    rows: &[ExplainRow],
    params: &Params,
) -> Vec<Option<Prediction>> {
    let is_swap = |r: &ExplainRow| r.kind == "SendRecv" && matches!(r.transport, "gpsimd" | "dma");
    if bir.level != Level::Bir || !rows.iter().any(is_swap) {
        return vec![None; rows.len()];
    }
    let gpsimd = legs(&lowered_with(bir, args, Transport::Auto, u64::MAX), "gpsimd", params);
    let dma = legs(&lowered_with(bir, args, Transport::Dma, 0), "dma", params);
    let find = |v: &[(String, Leg)], name: &str| v.iter().find(|(n, _)| n == name).map(|(_, l)| *l);
    rows.iter()
        .map(|r| is_swap(r).then(|| Prediction { gpsimd: find(&gpsimd, &r.name), dma: find(&dma, &r.name) }))
        .collect()
}
