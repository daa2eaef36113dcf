//! `tandem time`: a simulation with costs attached; the predicted time and where it goes.

use super::run::{gather, options};
use crate::cli::{Format, RunArgs, TimeArgs};
use crate::driver;
use crate::load::{Input, load};
use crate::out::{self, Console};
use serde_json::json;
use tandem_bir::diag::{Diagnostic, codes, exit_code, render};
use tandem_bir::{Level, Port, Program};
use tandem_sim::timing::{BackEnd, Params, TimingReport};
use tandem_sim::{Outcome, Simulator, StopReason};

pub(super) fn run(a: &TimeArgs, console: Console) -> u8 {
    let finish = |diags: &[Diagnostic], report: Option<&TimingReport>| {
        match a.format {
            Format::Text => console.diagnostics(diags),
            Format::Json => super::print_json(&json!({
                "diagnostics": diags.iter().map(render::to_json).collect::<Vec<_>>(),
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
            Format::Text => out::print(&params.to_text()),
            Format::Json => super::print_json(&params.to_json()),
        }
        return 0;
    }
    let Some((file, positional)) = a.files.split_first() else {
        return finish(&[Diagnostic::new(codes::U0001, "no file given")], None);
    };
    let input = match load(file) {
        Ok(i) => i,
        Err(d) => return finish(&d, None),
    };
    if matches!(input, Input::Container(..)) {
        let d = Diagnostic::new(
            codes::S0002,
            "time is predicted at level lowered only; this is a container of bundles",
        )
        .help("give the kernel or the BIR it was made from");
        return finish(&[d], None);
    }
    let staged = driver::to_lowered(driver::to_bir(&input, &a.compile), &a.compile);
    let mut diags = staged.diags;
    let Some(program) = staged.program else { return finish(&diags, None) };
    match simulate(&a.run_args(), &program, positional, &params) {
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
                out::print(&format!("{}\n{}", program.name, r.to_text()));
            }
            finish(&diags, report.as_ref())
        }
    }
}

fn params(a: &TimeArgs) -> Result<Params, Diagnostic> {
    let back_end = BackEnd::parse(&a.back_end).ok_or_else(|| {
        Diagnostic::new(codes::U0001, format!("unknown back end `{}`; known: doc, hwm, unit", a.back_end))
    })?;
    let mut p = Params::new(back_end);
    if let Some(f) = &a.calibration {
        let text = std::fs::read_to_string(f)
            .map_err(|e| Diagnostic::new(codes::U0002, format!("cannot read {}: {e}", f.display())))?;
        p.calibrate(&text)?;
    }
    Ok(p)
}

fn simulate(
    a: &RunArgs,
    program: &Program,
    positional: &[std::path::PathBuf],
    params: &Params,
) -> Result<(Outcome, Option<TimingReport>), Vec<Diagnostic>> {
    if program.level != Level::Lowered {
        return Err(vec![Diagnostic::new(codes::S0002, "time is predicted at level lowered only")]);
    }
    let mut ready = Simulator::new(program, options(a).map_err(|d| vec![d])?)?;
    let wanted: Vec<Port> = ready.wanted().to_vec();
    let lncs = a.compile.ranks.unwrap_or(1).max(1);
    let g = gather(a, positional, &wanted, lncs)?;
    ready.set_inputs(&g.tensors)?;
    ready.run_timed(params)
}
