//! One module per verb. Each returns the exit code.

mod check;
mod disasm;
mod encode;
mod explain;
mod info;
mod lower;
mod report;
mod run;
mod sweep;
mod time;

use crate::cli::{Cli, FailOn, Verb};
use crate::out::{self, Console};
use crate::progress::Progress;
use clap::CommandFactory as _;
use tandem_bir::diag::{Diagnostic, Severity};

/// Runs the verb of a command line; the exit code.
pub fn dispatch(cli: &Cli) -> u8 {
    let console = &Console { quiet: cli.quiet, verbose: cli.verbose, progress: Progress::stderr() };
    let code = match &cli.verb {
        Verb::Info(a) => info::run(a, console),
        Verb::Lower(a) => lower::run(a, console),
        Verb::Check(a) => check::run(a, console),
        Verb::Run(a) => run::run(a, console),
        Verb::Time(a) => time::run(a, console),
        Verb::Report(a) => report::run(a, console),
        Verb::Encode(a) => encode::run(a, console),
        Verb::Disasm(a) => disasm::run(a, console),
        Verb::Explain(a) => explain::run(a, console),
        Verb::Completions { shell } => {
            let mut buf = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tandem", &mut buf);
            out::print(&String::from_utf8_lossy(&buf));
            0
        }
    };
    console.progress.finish();
    code
}

/// Leaves what a verb made to the end of the process: taking a large program apart piece by piece would take longer.
fn leave<T>(made: T) {
    std::mem::forget(made);
}

/// The exit code under `--fail-on`.
fn fail_on(code: u8, diags: &[Diagnostic], on: FailOn) -> u8 {
    match on {
        FailOn::Error => code,
        FailOn::Warning if code == 0 && diags.iter().any(|d| d.severity == Severity::Warning) => 1,
        FailOn::Warning => code,
        FailOn::Never if code == 1 => 0,
        FailOn::Never => code,
    }
}
