//! `tandem explain`: the reason behind each transport, or the page of a code.

use crate::cli::{ExplainArgs, Format};
use crate::driver;
use crate::load::load;
use crate::out::{self, Console};
use serde_json::json;
use std::path::Path;
use tandem_backend::pass::NoHooks;
use tandem_bir::diag::codes::{Class, Code};
use tandem_bir::diag::{Diagnostic, codes, exit_code};

pub(super) fn run(a: &ExplainArgs, console: Console) -> u8 {
    if is_code(&a.what) {
        let Some(code) = Code::from_id(&a.what) else {
            let d = [Diagnostic::new(codes::U0001, format!("there is no code {}", a.what))];
            console.diagnostics(&d);
            return exit_code(&d);
        };
        page(code, a.format);
        return 0;
    }
    let input = match load(Path::new(&a.what)) {
        Ok(i) => i,
        Err(d) => {
            console.diagnostics(&d);
            return exit_code(&d);
        }
    };
    let staged = driver::to_lowered(driver::to_bir_from(input, &a.compile, &mut NoHooks), &a.compile);
    console.diagnostics(&staged.diags);
    let rows = &staged.passes.decisions;
    match a.format {
        Format::Json => super::print_json(&json!(rows.iter().map(|r| r.to_json()).collect::<Vec<_>>())),
        Format::Text if rows.is_empty() && staged.program.is_some() => {
            console.line("no swaps and no collectives");
        }
        Format::Text => {
            for r in rows {
                out::print(&r.to_text());
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

fn page(code: Code, format: Format) {
    let i = code.info();
    let exit = match i.class {
        Class::Input => 2,
        Class::Finding => 1,
        Class::Unsupported => 3,
        Class::Internal => 70,
    };
    match format {
        Format::Text => out::print(&format!(
            "{} ({}): {}\n\n{}\n\nAn error with this code makes the exit code {exit}.\n{}",
            i.id,
            i.severity.word(),
            i.title,
            i.page,
            code.example().map(|e| format!("\n{e}")).unwrap_or_default()
        )),
        Format::Json => super::print_json(
            &json!({"code": i.id, "severity": i.severity.word(), "title": i.title, "page": i.page, "exit": exit, "example": code.example()}),
        ),
    }
}
