//! `tandem check`.

use crate::cli::{CheckArgs, FailOn, Format};
use crate::driver;
use crate::load::load;
use crate::out::Console;
use serde_json::json;
use tandem_bir::diag::{Diagnostic, Severity, exit_code, render};

pub(super) fn run(a: &CheckArgs, console: Console) -> u8 {
    let diags = findings(a);
    match a.format {
        Format::Text => {
            console.diagnostics(&diags);
            let errors = diags.iter().filter(|d| d.is_error()).count();
            let warnings = diags.iter().filter(|d| d.severity == Severity::Warning).count();
            console.line(&match (errors, warnings) {
                (0, 0) => "clean".to_owned(),
                (e, w) => format!("{e} error{}, {w} warning{}", plural(e), plural(w)),
            });
        }
        Format::Json => super::print_json(&json!({
            "file": a.file.display().to_string(),
            "diagnostics": diags.iter().map(render::to_json).collect::<Vec<_>>(),
        })),
    }
    let code = exit_code(&diags);
    match a.fail_on {
        FailOn::Error => code,
        FailOn::Warning if code == 0 && diags.iter().any(|d| d.severity == Severity::Warning) => 1,
        FailOn::Warning => code,
        FailOn::Never if code == 1 => 0,
        FailOn::Never => code,
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// Reads, lowers, verifies at every level, and runs the static checks at every level that was reached.
fn findings(a: &CheckArgs) -> Vec<Diagnostic> {
    match load(&a.file) {
        Err(d) => d,
        Ok(input) => driver::check(input, &a.compile),
    }
}
