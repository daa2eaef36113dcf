//! `tandem time --sweep`: the transports of a swap by size, and a kernel by the option that chooses between them.

use super::time::{Subject, simulate};
use crate::cli::{CompileArgs, Format, TimeArgs, Transport};
use crate::driver;
use crate::load::{Input, load};
use crate::out::Console;
use crate::predict::{self, Leg, Prediction};
use serde_json::{Value, json};
use std::fmt::Write as _;
use tandem_bir::diag::{Diagnostic, codes, exit_code, render};
use tandem_bir::{ArchLevel, Level, Program, text};
use tandem_sim::StopReason;
use tandem_sim::timing::{Generation, Params, swap_curve};

/// Effective bytes per partition that GPSIMD may carry (the specification, file 06 §7.3, C8).
const LEGAL: u64 = 1024;
/// Settings of the option that a kernel is run with, at most (our choice).
const MAX_SETTINGS: usize = 32;
/// Partitions of the swap that sizes are compared with.
const PARTITIONS: u64 = 128;

enum What {
    Knob,
    Bytes(u64, u64),
}

fn parse(what: &str) -> Result<What, Diagnostic> {
    if what == "sendrecv-to-gpsimd-max-bpp" {
        return Ok(What::Knob);
    }
    let bad = |text: String| Diagnostic::new(codes::U0001, text);
    let Some(range) = what.strip_prefix("bytes=") else {
        return Err(bad(format!(
            "`--sweep {what}`: known are sendrecv-to-gpsimd-max-bpp and bytes=FROM..TO (bytes per partition)"
        )));
    };
    let ends = range.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match ends {
        Some((a, b)) if a <= b && a >= 4 && a % 4 == 0 && b % 4 == 0 && b <= 65_536 => Ok(What::Bytes(a, b)),
        _ => Err(Diagnostic::new(
            codes::U0005,
            format!("`--sweep {what}`: a range of multiples of 4 from 4 to 65536, as in bytes=4..65536"),
        )),
    }
}

/// Sizes of a table: its ends, the powers of two between, the knee of the swap's curve and its largest legal size.
fn sizes(from: u64, to: u64, knee: u64) -> Vec<u64> {
    let mut v: Vec<u64> = (2..=16).map(|k| 1 << k).chain([from, to, knee / 4 * 4, LEGAL]).collect();
    v.retain(|b| (from..=to).contains(b));
    v.sort_unstable();
    v.dedup();
    v
}

/// Two cores that fill a tile, swap it, and read what came.
fn one_swap(arch: ArchLevel, bytes: u64) -> Result<Program, Vec<Diagnostic>> {
    let n = bytes / 4;
    let tile = |l: &str| format!("@{l}[[{n},{PARTITIONS}] [1,{n}]] float32");
    let mut s = String::from("bir 1\nprogram \"swap\" lnc 2 level bir\n");
    for core in 0..2u32 {
        let other = 1 - core;
        let set = |l: &str| {
            format!(
                "set @{l}_set = Internal NeuronSBTensor Local float32 [{PARTITIONS} x {n}] {{ loc @{l} = SB [{PARTITIONS}, {bytes}] }}"
            )
        };
        let _ = write!(
            s,
            "module @nc0{core} core {core} arch {arch} {{
  func @main {{
    {}
    {}
    block b0 {{
      fill = Memset DVE {} {{mode = Const, constant = 1}}
      swap = CollectiveCompute Unassigned {} <- {} {{kind = SendRecv, is_local = true, recv_from_rank = [{other}], send_to_rank = {other}}}
      use = TensorCopy DVE {} <- {}
    }}
  }}
}}
",
            set("a"),
            set("b"),
            tile("a"),
            tile("b"),
            tile("a"),
            tile("a"),
            tile("b")
        );
    }
    text::parse(&s)
}

/// Options that only choose the program's shape.
fn plain(args: &CompileArgs) -> CompileArgs {
    CompileArgs { lnc: None, ..args.clone() }
}

/// Both transports for a swap of a size.
fn at_size(
    arch: ArchLevel,
    bytes: u64,
    args: &CompileArgs,
    params: &Params,
) -> Result<Prediction, Vec<Diagnostic>> {
    let p = one_swap(arch, bytes)?;
    let bir = driver::to_bir_from(
        Input::Bir(Box::new(p), crate::load::BirForm::Text),
        &plain(args),
        &mut tandem_backend::pass::NoHooks,
    );
    let Some(program) = bir.program.clone() else { return Err(bir.diags) };
    let lowered = driver::to_lowered(bir, args);
    if lowered.program.is_none() {
        return Err(lowered.diags);
    }
    let all = predict::swaps(&program, args, &lowered.passes.decisions, params);
    all.into_iter().flatten().next().ok_or_else(|| {
        vec![Diagnostic::new(codes::I0001, "the swap of a size sweep was not found in its program")]
    })
}

struct Sizes {
    rows: Vec<(u64, Prediction)>,
    /// Largest legal size at which GPSIMD is not slower; `None` when DMA always wins.
    best: Option<u64>,
    /// Size from which DMA is faster, on the model's curves, also beyond the largest legal size.
    crossover: Option<u64>,
}

fn compare(
    arch: ArchLevel,
    range: (u64, u64),
    args: &CompileArgs,
    params: &Params,
) -> Result<Sizes, Vec<Diagnostic>> {
    let Some(g) = Generation::of(arch) else {
        return Err(vec![Diagnostic::new(codes::S0002, format!("there is no timing model of {arch}"))]);
    };
    let knee = params.get(tandem_sim::timing::params::P::SwapKnee, g) as u64;
    let mut rows = Vec::new();
    for b in sizes(range.0, range.1, knee) {
        rows.push((b, at_size(arch, b, args, params)?));
    }
    // What the curve of GPSIMD adds to the largest legal size, against DMA.
    let legal = at_size(arch, LEGAL, args, params)?.gpsimd;
    let wins = |b: u64| -> Result<bool, Vec<Diagnostic>> {
        let p = at_size(arch, b, args, params)?;
        let gpsimd = p.gpsimd.map(|l| l.total.ps()).or_else(|| {
            let more = swap_curve(params, g, b).ps().saturating_sub(swap_curve(params, g, LEGAL).ps());
            legal.map(|l| l.total.ps().saturating_add(more))
        });
        Ok(gpsimd.zip(p.dma).is_some_and(|(g, d)| g <= d.total.ps()))
    };
    // Both curves are steps and lines; the first size at which DMA wins, in multiples of 4.
    let (mut low, mut high) = (1u64, 65_536 / 4);
    let crossover = if !wins(4)? {
        Some(4)
    } else if wins(65_536)? {
        None
    } else {
        while high - low > 1 {
            let mid = low + (high - low) / 2;
            if wins(mid * 4)? { low = mid } else { high = mid }
        }
        Some(high * 4)
    };
    let best = match crossover {
        None => Some(LEGAL),
        Some(4) => None,
        Some(c) => Some((c - 4).min(LEGAL)),
    };
    Ok(Sizes { rows, best, crossover })
}

fn rate(leg: &Option<Leg>, bytes: u64) -> Option<f64> {
    leg.map(|l| (bytes * PARTITIONS) as f64 / (l.total.ps().max(1) as f64 * 1e-12))
}

impl Sizes {
    fn to_json(&self) -> Value {
        let leg = |l: &Option<Leg>, b: u64| {
            l.map(|x| {
                let mut v = x.to_json();
                if let Some(m) = v.as_object_mut() {
                    m.insert("bytes_per_second".into(), json!(rate(l, b)));
                }
                v
            })
        };
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|(b, p)| {
                json!({"bytes_per_partition": b, "bytes": b * PARTITIONS, "gpsimd": leg(&p.gpsimd, *b), "dma": leg(&p.dma, *b)})
            })
            .collect();
        json!({"sizes": rows, "crossover_bytes_per_partition": self.crossover, "largest_legal": LEGAL})
    }
    fn to_text(&self) -> String {
        let mut s = String::from(
            "swap of 128 partitions of float32 between two barriers, by effective bytes per partition\n",
        );
        let _ = writeln!(
            s,
            "  {:>7} {:>10} {:>14} {:>14} {:>14} {:>14}  faster",
            "bytes/p", "bytes", "GPSIMD", "bytes/s", "DMA", "bytes/s"
        );
        for (b, p) in &self.rows {
            let time = |l: &Option<Leg>| {
                l.map_or_else(|| "-".into(), |l| format!("{:.3} us", l.total.ps() as f64 / 1e6))
            };
            let speed =
                |l: &Option<Leg>| rate(l, *b).map_or_else(|| "-".into(), |r| format!("{:.3} GB/s", r / 1e9));
            let faster = match (p.gpsimd, p.dma) {
                (Some(g), Some(d)) if g.total.ps() <= d.total.ps() => "GPSIMD",
                (Some(_) | None, Some(_)) => "DMA",
                (Some(_), None) => "GPSIMD",
                (None, None) => "-",
            };
            let _ = writeln!(
                s,
                "  {b:>7} {:>10} {:>14} {:>14} {:>14} {:>14}  {faster}",
                b * PARTITIONS,
                time(&p.gpsimd),
                speed(&p.gpsimd),
                time(&p.dma),
                speed(&p.dma)
            );
        }
        let _ = match self.crossover {
            None => {
                writeln!(s, "crossover: none up to 65536 bytes per partition; GPSIMD carries at most {LEGAL}")
            }
            Some(4) => writeln!(s, "crossover: DMA is faster at every size"),
            Some(c) if c > LEGAL => writeln!(
                s,
                "crossover: the curves cross at {c} bytes per partition, beyond the {LEGAL} that GPSIMD may carry: it is faster wherever it is legal"
            ),
            Some(c) => writeln!(s, "crossover: DMA is faster from {c} bytes per partition"),
        };
        s
    }
}

/// A kernel with one setting of the option.
struct Setting {
    knob: u64,
    gpsimd: usize,
    dma: usize,
    total_ps: u64,
    swap_ps: u64,
    barrier_ps: u64,
}

/// Settings that differ: none over GPSIMD, and up to each size that may go there.
fn settings(rows: &[(u64, Prediction)]) -> Vec<u64> {
    let mut v: Vec<u64> = rows.iter().filter(|(_, p)| p.gpsimd.is_some()).map(|(b, _)| *b).collect();
    v.push(0);
    v.sort_unstable();
    v.dedup();
    if v.len() > MAX_SETTINGS {
        let last = v.len() - 1;
        v = (0..MAX_SETTINGS).map(|k| v[k * last / (MAX_SETTINGS - 1)]).collect();
        v.dedup();
    }
    v
}

/// The kernel's swaps: effective size and prediction of each.
type Swaps = Vec<(u64, Prediction)>;

fn swaps_of(bir: &Program, args: &CompileArgs, params: &Params) -> Result<Swaps, Vec<Diagnostic>> {
    let lowered = predict::lowered_with(bir, args, Transport::Auto, args.sendrecv_to_gpsimd_max_bpp);
    if lowered.program.is_none() {
        return Err(lowered.diags);
    }
    let rows = &lowered.passes.decisions;
    let times = predict::swaps(bir, args, rows, params);
    Ok(rows.iter().zip(times).filter_map(|(r, t)| Some((r.effective_bytes_per_partition, t?))).collect())
}

/// Time with a setting: that of the largest one in the list that is not above it.
fn at(times: &[(u64, u64)], setting: u64) -> u64 {
    times.iter().rev().find(|t| t.0 <= setting).map_or(0, |t| t.1)
}

/// The best of `(setting, time)`: least time; of equals the one in force, else the largest.
fn best_of(times: &[(u64, u64)], now: u64) -> Option<u64> {
    let least = times.iter().map(|t| t.1).min()?;
    if at(times, now) == least {
        return Some(now);
    }
    times.iter().filter(|t| t.1 == least).map(|t| t.0).max()
}

fn run_settings(
    a: &TimeArgs,
    bir: &Program,
    swaps: &Swaps,
    params: &Params,
    console: &Console,
) -> Result<(Vec<Setting>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let positional = a.files.get(1..).unwrap_or_default();
    let mut out = Vec::new();
    let mut diags = Vec::new();
    let all = settings(swaps);
    for (k, knob) in all.iter().enumerate() {
        console.stage(&format!("setting {} of {}", k + 1, all.len()));
        let staged = predict::lowered_with(bir, &a.compile, Transport::Auto, *knob);
        let Some(p) = &staged.program else { return Err(staged.diags) };
        let (outcome, report) =
            simulate(&a.run_args(), Subject::Lowered(p), positional, params, console, None)?;
        for d in outcome.diagnostics {
            if !diags.contains(&d) {
                diags.push(d);
            }
        }
        if outcome.stop != StopReason::Finished && !diags.iter().any(Diagnostic::is_error) {
            diags.push(Diagnostic::new(codes::S0015, "the run did not finish; there is no time to give"));
        }
        let Some(r) = report else { return Err(diags) };
        let count = |t: &str| {
            let rows = &staged.passes.decisions;
            rows.iter().filter(|r| r.kind == "SendRecv" && r.transport == t).count()
        };
        out.push(Setting {
            knob: *knob,
            gpsimd: count("gpsimd"),
            dma: count("dma"),
            total_ps: r.total_ps,
            swap_ps: r.cores.iter().map(|c| c.swap_ps).max().unwrap_or(0),
            barrier_ps: r.cores.iter().map(|c| c.barrier_ps).max().unwrap_or(0),
        });
    }
    Ok((out, diags))
}

pub(super) fn run(a: &TimeArgs, what: &str, params: &Params, console: &Console) -> u8 {
    let mut diags = Vec::new();
    let result = sweep(a, what, params, console, &mut diags);
    let (value, text) = match result {
        Ok(x) => x,
        Err(d) => {
            diags.extend(d);
            (Value::Null, String::new())
        }
    };
    match a.format {
        Format::Text => {
            console.print(&text);
            console.diagnostics(&diags);
        }
        Format::Json => console.json(&json!({
            "diagnostics": render::list_to_json(&diags),
            "sweep": value,
        })),
    }
    exit_code(&diags)
}

fn sweep(
    a: &TimeArgs,
    what: &str,
    params: &Params,
    console: &Console,
    diags: &mut Vec<Diagnostic>,
) -> Result<(Value, String), Vec<Diagnostic>> {
    let kind = parse(what).map_err(|d| vec![d])?;
    let mut bir = None;
    if let Some(file) = a.files.first() {
        let input = load(file)?;
        if matches!(input, Input::Container(..)) {
            let d = Diagnostic::new(
                codes::S0002,
                "a container is already encoded: its swaps have their transports",
            )
            .help("give the kernel or the BIR it was made from");
            return Err(vec![d]);
        }
        let staged = driver::to_bir(input, &a.compile);
        diags.extend(staged.diags);
        let Some(p) = staged.program else { return Ok((Value::Null, String::new())) };
        if p.level != Level::Bir {
            let d = Diagnostic::new(codes::S0002, "a lowered program's swaps already have their transports")
                .help("give the kernel or the BIR it was made from");
            return Err(vec![d]);
        }
        bir = Some(p);
    } else if matches!(kind, What::Knob) {
        return Err(vec![
            Diagnostic::new(codes::U0001, "no file given").help("`--sweep bytes=4..65536` needs none"),
        ]);
    }
    let arch = match (&bir, driver::target(&a.compile).map_err(|d| vec![d])?) {
        (_, Some(t)) => t,
        (Some(p), None) => p.arch(),
        (None, None) => ArchLevel::Gen3,
    };
    let range = match kind {
        What::Bytes(from, to) => (from, to),
        What::Knob => (4, 65_536),
    };
    let sizes = compare(arch, range, &a.compile, params)?;
    let mut text = sizes.to_text();
    let mut value = sizes.to_json();
    let default = a.compile.sendrecv_to_gpsimd_max_bpp;
    let mut hint = match sizes.best {
        None => "hint: --sendrecv-to-gpsimd-max-bpp 0".to_owned(),
        Some(b) => format!("hint: --sendrecv-to-gpsimd-max-bpp {b}"),
    };
    let mut best = Some(sizes.best.unwrap_or(0));
    let mut kernel = Value::Null;
    if let Some(bir) = &bir {
        let swaps = swaps_of(bir, &a.compile, params)?;
        // Time of the kernel's swaps by setting: predicted one by one, or the whole kernel run.
        let times: Vec<(u64, u64)> = match kind {
            What::Bytes(..) => settings(&swaps)
                .into_iter()
                .map(|k| {
                    let one = |(b, p): &(u64, Prediction)| {
                        let leg = if *b <= k { p.gpsimd.or(p.dma) } else { p.dma.or(p.gpsimd) };
                        leg.map_or(0, |l| l.total.ps())
                    };
                    (k, swaps.iter().map(one).fold(0, u64::saturating_add))
                })
                .collect(),
            What::Knob => {
                let (rows, found) = run_settings(a, bir, &swaps, params, console)?;
                diags.extend(found);
                let _ = writeln!(
                    text,
                    "{} with --sendrecv-to-gpsimd-max-bpp\n  {:>7} {:>7} {:>7} {:>14} {:>14} {:>14}",
                    bir.name, "setting", "GPSIMD", "DMA", "total", "in swaps", "in barriers"
                );
                let us = |ps: u64| format!("{:.3} us", ps as f64 / 1e6);
                for r in &rows {
                    let _ = writeln!(
                        text,
                        "  {:>7} {:>7} {:>7} {:>14} {:>14} {:>14}",
                        r.knob,
                        r.gpsimd,
                        r.dma,
                        us(r.total_ps),
                        us(r.swap_ps),
                        us(r.barrier_ps)
                    );
                }
                let ns = |ps: u64| ps as f64 / 1000.0;
                kernel = json!(rows.iter().map(|r| json!({
                    "setting": r.knob, "swaps_by_gpsimd": r.gpsimd, "swaps_by_dma": r.dma, "total_ns": ns(r.total_ps),
                    "swaps_ns": ns(r.swap_ps), "core_barriers_ns": ns(r.barrier_ps)})).collect::<Vec<_>>());
                rows.iter().map(|r| (r.knob, r.total_ps)).collect()
            }
        };
        if swaps.is_empty() {
            best = None;
            hint = "hint: this kernel has no swaps between its cores; the option changes nothing".to_owned();
        } else if let Some(k) = best_of(&times, default) {
            best = Some(k);
            let worst = times.iter().map(|t| t.1).max().unwrap_or(0);
            let what = if matches!(kind, What::Knob) { "the whole kernel" } else { "its swaps, each alone," };
            hint = format!(
                "hint: --sendrecv-to-gpsimd-max-bpp {k} is best for this kernel{}: {what} in {:.3} us, up to {:.3} us otherwise",
                if k == default { " (as it is now)" } else { "" },
                at(&times, k) as f64 / 1e6,
                worst as f64 / 1e6
            );
        }
    }
    text.push_str(&hint);
    text.push('\n');
    if let Some(m) = value.as_object_mut() {
        m.insert("target".into(), json!(Generation::of(arch).map(Generation::name)));
        m.insert("kernel".into(), kernel);
        m.insert("best_setting".into(), json!(best));
        m.insert("hint".into(), json!(hint));
    }
    Ok((value, text))
}
