//! `tandem explain`: the reason behind each transport, or the page of a code.

use crate::cli::{ExplainArgs, Format};
use crate::driver;
use crate::load::load;
use crate::out::{self, Console};
use serde_json::json;
use std::path::Path;
use tandem_bir::diag::codes::{Class, Code};
use tandem_bir::diag::exit_code;

pub(super) fn run(a: &ExplainArgs, console: Console) -> u8 {
    if let Some(code) = Code::from_id(&a.what) {
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
    let staged = driver::to_lowered(driver::to_bir(&input, &a.compile), &a.compile);
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
            "{} ({}): {}\n\n{}\n\nAn error with this code makes the exit code {exit}.\n",
            i.id,
            i.severity.word(),
            i.title,
            i.page
        )),
        Format::Json => super::print_json(
            &json!({"code": i.id, "severity": i.severity.word(), "title": i.title, "page": i.page, "exit": exit}),
        ),
    }
}
