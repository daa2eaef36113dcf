//! `tandem report`: checks, simulates and times, and writes a page about it.

use super::run::{gather, options};
use super::time::{back_end, calibrate};
use crate::cli::{Format, ReportArgs, RunArgs};
use crate::driver::{self, Staged};
use crate::load::{Input, load};
use crate::out::{self, Console};
use crate::predict;
use crate::progress::Passes;
use crate::source::Sources;
use crate::verdict::{self, Looked, Verdict};
use serde_json::json;
use tandem_backend::pass::NoHooks;
use tandem_bir::analysis::data::depends_on_data;
use tandem_bir::diag::{Class, Diagnostic, codes, exit_code, render};
use tandem_bir::{Level, Port, Program};
use tandem_report::{Limits, Picture, ReportInput, Timed, VerdictText, page};
use tandem_sim::timing::{Params, TimingReport};
use tandem_sim::{Outcome, RunOptions, Simulator, StopReason};

/// What the simulation gave.
#[derive(Default)]
struct Simulated {
    outcome: Option<Outcome>,
    timing: Option<TimingReport>,
    /// Why there is no timing.
    not_timed: String,
    /// Where the inputs came from.
    inputs: String,
    diags: Vec<Diagnostic>,
}

pub(super) fn run(a: &ReportArgs, console: &Console) -> u8 {
    let refuse = |d: &[Diagnostic]| finish(a, console, d, None);
    let Some((file, positional)) = a.files.split_first() else {
        return refuse(&[Diagnostic::new(codes::U0001, "no file given")]);
    };
    let mut params = match back_end(&a.back_end) {
        Ok(p) => p,
        Err(d) => return refuse(&[d]),
    };
    if let Some(f) = &a.calibration
        && let Err(d) = calibrate(&mut params, f)
    {
        return refuse(&[d]);
    }
    let input = match load(file) {
        Ok(i) => i,
        Err(d) => return refuse(&d),
    };
    if matches!(input, Input::Container(..)) {
        let text = "a report is made from level lowered; this is a container of bundles";
        return refuse(&[
            Diagnostic::new(codes::S0002, text).help("give the kernel or the BIR it was made from")
        ]);
    }
    let (staged, bir) = stage(a, input, console);
    console.stage("simulating");
    let mut picture = Picture::new(Limits::default());
    let mut diags = staged.diags.clone();
    let sim = match &staged.program {
        None => {
            Simulated { not_timed: "the program did not reach level lowered".into(), ..Simulated::default() }
        }
        Some(p) => match simulate(&a.run_args(), p, positional, &params, console, &mut picture) {
            Ok(s) => s,
            // Without inputs there is nothing to show; the user can give them.
            Err(d) => {
                diags.extend(d);
                return refuse(&diags);
            }
        },
    };
    diags.extend(sim.diags.iter().cloned());
    let verdict = match (&staged.program, &sim.outcome) {
        (Some(p), Some(o)) => {
            diags.extend(o.diagnostics.iter().filter(|d| !diags.contains(d)).cloned().collect::<Vec<_>>());
            verdict::of_run(p, &diags, o, Looked { tensors: true, races: true, undefined: true })
        }
        (p, _) => verdict::of_check(p.as_ref(), &diags, a.compile.skip_barrier_checker),
    };
    console.stage("writing the page");
    let rows = &staged.passes.decisions;
    // Both transports of each swap, when there are some.
    let swap_times: Vec<[Option<u64>; 2]> = match &bir {
        Some(p) if !rows.is_empty() && staged.program.is_some() => {
            let leg = |l: Option<predict::Leg>| l.map(|l| l.total.ps());
            let all = predict::swaps(p, &a.compile, rows, &params);
            all.into_iter().map(|t| t.map_or([None, None], |t| [leg(t.gpsimd), leg(t.dma)])).collect()
        }
        Some(_) | None => Vec::new(),
    };
    let shown =
        file.file_name().map_or_else(|| file.display().to_string(), |n| n.to_string_lossy().into_owned());
    let sources = Sources::of(file);
    let executed = sim.outcome.as_ref().map(|o| o.stats.executed.iter().flatten().sum());
    let html = page::render(&ReportInput {
        kernel: staged.program.as_ref().map_or(shown.as_str(), |p| p.name.as_str()),
        file: &shown,
        program: staged.program.as_ref(),
        verdict: &VerdictText { word: verdict.word().to_owned(), line: verdict.line() },
        diagnostics: &diags,
        swaps: &staged.passes.decisions,
        swap_times: &swap_times,
        timed: sim.timing.as_ref().map(|report| Timed { report, picture: &picture }),
        not_timed: &sim.not_timed,
        inputs: &sim.inputs,
        executed,
        source: &|name| sources.text(name),
        version: env!("CARGO_PKG_VERSION"),
    });
    let written = out::write_file(&a.output, html.as_bytes());
    if let Err(e) = &written {
        diags.push(out::cannot_write(&a.output, e));
    }
    finish(a, console, &diags, Some((&verdict, written.is_ok())))
}

/// Prints what there is to say; the exit code.
fn finish(a: &ReportArgs, console: &Console, diags: &[Diagnostic], made: Option<(&Verdict, bool)>) -> u8 {
    let written = made.filter(|m| m.1).map(|_| a.output.display().to_string());
    match a.format {
        Format::Text => {
            console.diagnostics(diags);
            if let Some((v, _)) = made {
                console.line(&v.line());
            }
            if let Some(w) = &written {
                console.line(&format!("wrote {w}"));
            }
        }
        Format::Json => console.json(&json!({
            "verdict": made.map(|m| m.0.to_json()),
            "diagnostics": render::list_to_json(diags),
            "written": written,
        })),
    }
    super::fail_on(exit_code(diags), diags, a.fail_on)
}

/// The static checks of all levels and the lowered program, also where a check stops before that level: then the page shows the
/// code that the finding is about. Second, the program at level `bir`.
fn stage(a: &ReportArgs, input: Input, console: &Console) -> (Staged, Option<Program>) {
    let (mut staged, bir) = driver::check_keeping(input, &a.compile, &console.progress);
    if let (None, Some(p)) = (&staged.program, &bir) {
        let mut none = NoHooks;
        let mut hooks = Passes::new(&console.progress, &mut none);
        let again = Staged { program: Some(p.clone()), ..Staged::default() };
        let again = driver::to_lowered_with(again, &a.compile, &mut hooks);
        let new: Vec<Diagnostic> = again.diags.into_iter().filter(|d| !staged.diags.contains(d)).collect();
        staged.diags.extend(new);
        staged.program = again.program;
        staged.passes = again.passes;
    }
    (staged, bir)
}

/// Runs the program with times.
///
/// # Errors
/// Inputs that are missing or do not fit.
fn simulate(
    asked: &RunArgs,
    program: &Program,
    positional: &[std::path::PathBuf],
    params: &Params,
    console: &Console,
    picture: &mut Picture,
) -> Result<Simulated, Vec<Diagnostic>> {
    let mut s = Simulated::default();
    if program.level != Level::Lowered {
        s.not_timed = "time is predicted at level lowered only".into();
        s.diags.push(Diagnostic::new(codes::S0002, s.not_timed.clone()));
        return Ok(s);
    }
    let new = |a: &RunArgs| {
        let o = options(a).map_err(|d| vec![d])?;
        Simulator::new(program, RunOptions { progress: console.progress.counter(), ..o })
    };
    let mut ready = match new(asked) {
        Ok(r) => r,
        Err(d) => {
            s.not_timed = "the program cannot be simulated".into();
            s.diags = d;
            return Ok(s);
        }
    };
    let wanted: Vec<Port> = ready.wanted().to_vec();
    let lncs = asked.compile.ranks.unwrap_or(1).max(1);
    let mut a = RunArgs { random: asked.random, ..RunArgs::plain(&asked.files, &asked.compile) };
    a.inputs.clone_from(&asked.inputs);
    // Times and orders are those of any data when nothing is decided by data.
    if a.random.is_none() && depends_on_data(program).is_none() {
        a.random = Some(0);
    }
    let g = gather(&a, positional, &wanted, lncs)?;
    s.inputs = g.describe(&a);
    ready.set_inputs(&g.tensors)?;
    match ready.run_traced(params, picture) {
        Ok((outcome, timing)) => {
            s.not_timed = match outcome.stop {
                StopReason::Finished => "there is no timing".into(),
                StopReason::Deadlock => "the run ends in a deadlock".into(),
                StopReason::StepLimit => "the step limit was reached".into(),
                StopReason::Fault => "an instruction could not be carried out".into(),
                StopReason::Cancelled => "the run was stopped".into(),
            };
            (s.outcome, s.timing) = (Some(outcome), timing);
        }
        // A run without times still has a verdict.
        Err(d) if d.iter().all(|d| d.code.info().class == Class::Unsupported) => {
            s.not_timed = d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ");
            s.diags = d;
            let mut ready = new(asked)?;
            ready.set_inputs(&g.tensors)?;
            s.outcome = Some(ready.run());
        }
        Err(d) => {
            s.not_timed = "the run could not begin".into();
            s.diags = d;
        }
    }
    Ok(s)
}
