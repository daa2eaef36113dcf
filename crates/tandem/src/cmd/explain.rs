//! `tandem explain`: the reason behind each transport, or the page of a code.

use crate::cli::{ExplainArgs, Format};
use crate::driver;
use crate::load::load;
use crate::out::Console;
use crate::predict;
use crate::progress::Passes;
use serde_json::{Value, json};
use std::path::Path;
use tandem_backend::pass::NoHooks;
use tandem_bir::diag::codes::{Class, Code};
use tandem_bir::diag::{Diagnostic, codes, exit_code};
use tandem_sim::timing::Params;

pub(super) fn run(a: &ExplainArgs, console: &Console) -> u8 {
    if is_code(&a.what) {
        let Some(code) = Code::from_id(&a.what) else {
            let d = [Diagnostic::new(codes::U0001, format!("there is no code {}", a.what))];
            console.findings(&d, a.format);
            return exit_code(&d);
        };
        page(code, a.format, console);
        return 0;
    }
    let input = match load(Path::new(&a.what)) {
        Ok(i) => i,
        Err(d) => {
            console.findings(&d, a.format);
            return exit_code(&d);
        }
    };
    let mut params = Params::default();
    if let Some(f) = &a.calibration
        && let Err(d) = super::time::calibrate(&mut params, f)
    {
        console.findings(std::slice::from_ref(&d), a.format);
        return exit_code(&[d]);
    }
    let mut none = NoHooks;
    let mut hooks = Passes::new(&console.progress, &mut none);
    let staged = driver::to_bir_from(input, &a.compile, &mut hooks);
    let bir = staged.program.clone();
    let staged = driver::to_lowered_with(staged, &a.compile, &mut hooks);
    if a.format == Format::Json && staged.program.is_none() {
        console.findings(&staged.diags, a.format);
        return exit_code(&staged.diags);
    }
    console.stage("predicting");
    let rows = &staged.passes.decisions;
    let times = match &bir {
        Some(p) if staged.program.is_some() => predict::swaps(p, &a.compile, rows, &params),
        Some(_) | None => vec![None; rows.len()],
    };
    console.beside(&staged.diags, a.format);
    match a.format {
        Format::Json => {
            let all: Vec<Value> = rows
                .iter()
                .zip(&times)
                .map(|(r, t)| {
                    let mut v = r.to_json();
                    if let (Some(m), Some(t)) = (v.as_object_mut(), t) {
                        m.insert("predicted".to_owned(), t.to_json());
                    }
                    v
                })
                .collect();
            console.json(&json!(all));
        }
        Format::Text if rows.is_empty() && staged.program.is_some() => {
            console.line("no swaps and no collectives");
        }
        Format::Text => {
            for (r, t) in rows.iter().zip(&times) {
                console.print(&r.to_text());
                if let Some(t) = t {
                    console.print(&format!("  {}\n", t.to_text()));
                }
            }
        }
    }
    exit_code(&staged.diags)
}

/// A capital letter and four digits that is no file here.
fn is_code(what: &str) -> bool {
    let b = what.as_bytes();
    b.len() == 5
        && b[0].is_ascii_uppercase()
        && b[1..].iter().all(u8::is_ascii_digit)
        && !Path::new(what).exists()
}

fn page(code: Code, format: Format, console: &Console) {
    let i = code.info();
    let exit = match i.class {
        Class::Input => 2,
        Class::Finding => 1,
        Class::Unsupported => 3,
        Class::Internal => 70,
    };
    match format {
        Format::Text => console.print(&format!(
            "{} ({}): {}\n\n{}\n\nAn error with this code makes the exit code {exit}.\n{}",
            i.id,
            i.severity.word(),
            i.title,
            i.page,
            code.example().map(|e| format!("\n{e}")).unwrap_or_default()
        )),
        Format::Json => console.json(
            &json!({"code": i.id, "severity": i.severity.word(), "title": i.title, "page": i.page, "exit": exit, "example": code.example()}),
        ),
    }
}
