//! `tandem time`: a simulation with costs attached; the predicted time and where it goes.

use super::run::{gather, options, stage};
use crate::cli::{Format, OnOff, Preset, RunArgs, RunLevel, TimeArgs};
use crate::load::load;
use crate::out::{self, Console, Unfinished};
use serde_json::json;
use std::path::Path;
use tandem_backend::link::LinkedProgram;
use tandem_bir::diag::{Diagnostic, codes, exit_code, render};
use tandem_bir::{Port, Program};
use tandem_report::{PerfSimSink, PerfettoSink};
use tandem_sim::timing::{BackEnd, Params, TimingReport};
use tandem_sim::{Outcome, RunOptions, Simulator, StopReason};

pub(super) fn run(a: &TimeArgs, console: &Console) -> u8 {
    let finish = |diags: &[Diagnostic], report: Option<&TimingReport>| {
        match a.format {
            Format::Text => console.diagnostics(diags),
            Format::Json => console.json(&json!({
                "diagnostics": render::list_to_json(diags),
                "timing": report.map(TimingReport::to_json),
            })),
        }
        exit_code(diags)
    };
    let params = match params(a) {
        Ok(p) => p,
        Err(d) => return finish(&[d], None),
    };
    if a.list_params {
        match a.format {
            Format::Text => console.print(&params.to_text()),
            Format::Json => console.json(&params.to_json()),
        }
        return 0;
    }
    if a.level == RunLevel::Bir {
        let text =
            "time is predicted at levels lowered, linked and bundles; level bir has no engines and queues";
        return finish(&[Diagnostic::new(codes::S0002, text)], None);
    }
    if let Some(what) = &a.sweep {
        if a.level != RunLevel::Lowered {
            let text = "a sweep compares ways of lowering: it runs at level lowered";
            return finish(&[Diagnostic::new(codes::U0001, text).help("leave --level out")], None);
        }
        return super::sweep::run(a, what, &params, console);
    }
    let Some((file, positional)) = a.files.split_first() else {
        return finish(&[Diagnostic::new(codes::U0001, "no file given")], None);
    };
    let input = match load(file) {
        Ok(i) => i,
        Err(d) => return finish(&d, None),
    };
    let run = a.run_args();
    let (staged, linked) = stage(&run, input, console);
    let mut diags = staged.diags;
    let subject = match (&linked, &staged.program) {
        (Some(l), _) => Subject::Linked(l),
        (None, Some(p)) => Subject::Lowered(p),
        (None, None) => return finish(&diags, None),
    };
    console.stage("simulating");
    match simulate(&run, subject, positional, &params, console, a.trace.as_deref()) {
        Err(d) => {
            diags.extend(d);
            finish(&diags, None)
        }
        Ok((outcome, report)) => {
            diags.extend(outcome.diagnostics);
            if outcome.stop != StopReason::Finished && !diags.iter().any(Diagnostic::is_error) {
                diags.push(Diagnostic::new(codes::S0015, "the run did not finish; there is no time to give"));
            }
            if let (Format::Text, Some(r)) = (a.format, &report) {
                console.print(&format!("{}\n{}", subject.program().name, r.to_text()));
            }
            finish(&diags, report.as_ref())
        }
    }
}

/// What is timed.
#[derive(Clone, Copy)]
pub(super) enum Subject<'p> {
    /// A program of level `lowered`.
    Lowered(&'p Program),
    /// Streams: levels `linked` and `bundles`.
    Linked(&'p LinkedProgram),
}

impl<'p> Subject<'p> {
    fn program(self) -> &'p Program {
        match self {
            Subject::Lowered(p) => p,
            Subject::Linked(l) => &l.program,
        }
    }
}

fn params(a: &TimeArgs) -> Result<Params, Diagnostic> {
    let mut p = back_end(&a.back_end)?;
    if a.preset == Preset::Conservative {
        p.conservative();
    }
    if let Some(f) = &a.calibration {
        calibrate(&mut p, f)?;
    }
    if a.pe_ramp == Some(OnOff::Off) {
        p.without_pe_ramp();
    }
    Ok(p)
}

/// Numbers of a back end by its name.
pub(super) fn back_end(name: &str) -> Result<Params, Diagnostic> {
    let back_end = BackEnd::parse(name).ok_or_else(|| {
        Diagnostic::new(codes::U0001, format!("unknown back end `{name}`; known: doc, hwm, unit"))
    })?;
    Ok(Params::new(back_end))
}

/// Takes numbers from a calibration file.
pub(super) fn calibrate(p: &mut Params, file: &Path) -> Result<(), Diagnostic> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Diagnostic::new(codes::U0002, format!("cannot read {}: {e}", file.display())))?;
    p.calibrate(&text)
}

/// Runs a program with costs attached; a trace goes to the file when the run finishes.
pub(super) fn simulate(
    a: &RunArgs,
    subject: Subject<'_>,
    positional: &[std::path::PathBuf],
    params: &Params,
    console: &Console,
    trace: Option<&Path>,
) -> Result<(Outcome, Option<TimingReport>), Vec<Diagnostic>> {
    let opts = RunOptions { progress: console.progress.counter(), ..options(a).map_err(|d| vec![d])? };
    let mut ready = match subject {
        Subject::Lowered(p) => Simulator::new(p, opts)?,
        Subject::Linked(l) => Simulator::linked(l, opts)?,
    };
    let wanted: Vec<Port> = ready.wanted().to_vec();
    let lncs = a.compile.ranks.unwrap_or(1).max(1);
    ready.give_inputs(gather(a, positional, &wanted, lncs)?.tensors)?;
    let Some(path) = trace else { return ready.run_timed(params) };
    let failed = |e: std::io::Error| vec![out::cannot_write(path, &e)];
    let file = Unfinished::create(path).map_err(failed)?;
    // Without a report there were no events: no file then.
    if path.extension().is_some_and(|x| x == "json") {
        let mut sink = PerfSimSink::new(file);
        let (outcome, report) = ready.run_traced(params, &mut sink)?;
        if report.is_some() {
            sink.finish().and_then(Unfinished::commit).map_err(failed)?;
        }
        return Ok((outcome, report));
    }
    let mut sink = PerfettoSink::new(file);
    let (outcome, report) = ready.run_traced(params, &mut sink)?;
    if report.is_some() {
        sink.finish().and_then(Unfinished::commit).map_err(failed)?;
    }
    Ok((outcome, report))
}
