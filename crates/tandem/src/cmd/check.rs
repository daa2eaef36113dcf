//! `tandem check`.

use crate::cli::{CheckArgs, ReportFormat};
use crate::driver::{self, Staged};
use crate::load::load;
use crate::out::Console;
use crate::{sarif, verdict};
use serde_json::json;
use tandem_bir::diag::{Severity, exit_code, render};

pub(super) fn run(a: &CheckArgs, console: &Console) -> u8 {
    // Reads, lowers, verifies at every level, and runs the static checks at every level that was reached.
    console.stage("reading");
    let staged = match load(&a.file) {
        Err(diags) => Staged { diags, ..Staged::default() },
        Ok(input) => driver::check_with(input, &a.compile, &console.progress),
    };
    let diags = &staged.diags;
    let verdict = verdict::of_check(staged.program.as_ref(), diags, a.compile.skip_barrier_checker);
    let code = super::fail_on(exit_code(diags), diags, a.fail_on);
    let file = a.file.display().to_string();
    match a.format {
        ReportFormat::Text => {
            console.diagnostics(diags);
            let errors = diags.iter().filter(|d| d.is_error()).count();
            let warnings = diags.iter().filter(|d| d.severity == Severity::Warning).count();
            console.line(&match (errors, warnings) {
                (0, 0) => "clean".to_owned(),
                (e, w) => format!("{e} error{}, {w} warning{}", plural(e), plural(w)),
            });
            console.line(&verdict.line());
        }
        ReportFormat::Json => console.json(&json!({
            "file": file,
            "verdict": verdict.to_json(),
            "diagnostics": render::list_to_json(diags),
        })),
        ReportFormat::Sarif => {
            console.json(&sarif::document(diags, &file, code, json!({"verdict": verdict.to_json()})));
        }
    }
    super::leave(staged);
    code
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
