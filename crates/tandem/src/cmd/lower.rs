//! `tandem lower`.

use crate::cli::{Emit, Format, LowerArgs};
use crate::driver;
use crate::load::{Input, load};
use crate::out::{self, Console};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use tandem_backend::pass::{Hooks, PassInfo};
use tandem_bir::diag::{Diagnostic, codes, exit_code};
use tandem_bir::{Program, json, text, verify};

pub(super) fn run(a: &LowerArgs, console: Console) -> u8 {
    let input = match load(&a.file) {
        Ok(i) => i,
        Err(d) => {
            console.diagnostics(&d);
            return exit_code(&d);
        }
    };
    if a.emit == Emit::Klr {
        return emit_klr(&input, a, console);
    }
    let mut hooks = LowerHooks { args: a, times: Vec::new() };
    let mut staged = driver::to_bir_with(&input, &a.compile, &mut hooks);
    if a.emit == Emit::Lowered {
        staged = driver::to_lowered_with(staged, &a.compile, &mut hooks);
    }
    if a.time_passes {
        for (name, t) in &hooks.times {
            out::eprint(&format!("{:>12.6} s  {name}\n", t.as_secs_f64()));
        }
    }
    if a.stats {
        for ((pass, stat), n) in &staged.passes.stats {
            out::eprint(&format!("{n:>10}  {pass}: {stat}\n"));
        }
    }
    console.diagnostics(&staged.diags);
    let Some(p) = &staged.program else { return exit_code(&staged.diags).max(1) };
    if let Err(e) = emit(p, a) {
        let d = [Diagnostic::new(codes::U0004, format!("cannot write the output: {e}"))];
        console.diagnostics(&d);
        return exit_code(&d);
    }
    exit_code(&staged.diags)
}

fn emit_klr(input: &Input, a: &LowerArgs, console: Console) -> u8 {
    let d = match (input, a.format) {
        (Input::Klr(outcome, _), Format::Text) => {
            let s = tandem_klr::print::print_file(&outcome.file);
            match &a.output {
                None => {
                    out::print(&s);
                    return 0;
                }
                Some(path) => match out::write_file(path, s.as_bytes()) {
                    Ok(()) => return 0,
                    Err(e) => Diagnostic::new(codes::U0004, format!("cannot write {}: {e}", path.display())),
                },
            }
        }
        (Input::Klr(..), Format::Json) => Diagnostic::new(codes::U0001, "level klr has no JSON form; use --format text"),
        (Input::Bir(..), _) => Diagnostic::new(codes::U0001, "the input is BIR: it has no level klr"),
    };
    console.diagnostics(std::slice::from_ref(&d));
    exit_code(&[d])
}

/// Writes the program: to standard output with constants inline, or to a path with each constant beside it.
fn emit(p: &Program, a: &LowerArgs) -> std::io::Result<()> {
    match (&a.output, a.format) {
        (None, Format::Text) => {
            out::print(&text::print_with(p, text::PrintOptions { constants: text::Constants::Inline }));
            Ok(())
        }
        (None, Format::Json) => {
            let stdout = std::io::stdout();
            let mut w = std::io::BufWriter::new(stdout.lock());
            json::write_document(p, json::Constants::Inline, &mut w)?;
            std::io::Write::flush(&mut w)
        }
        (Some(path), Format::Text) => {
            out::write_file(path, text::print(p).as_bytes())?;
            write_constants(p, path.parent().unwrap_or(Path::new("")))
        }
        (Some(path), Format::Json) if p.modules.len() == 1 => {
            let mut buf = Vec::new();
            json::write_module(p, 0, json::Constants::Reference, &mut buf)?;
            out::write_file(path, &buf)?;
            write_constants(p, path.parent().unwrap_or(Path::new("")))
        }
        (Some(path), Format::Json) => {
            for (i, m) in p.modules.iter().enumerate() {
                let core = m.core.map_or(0, |c| c.0);
                let dir = path.join(format!("nc{core:02}/sg{:02}", m.subgraph));
                let mut buf = Vec::new();
                json::write_module(p, i, json::Constants::Reference, &mut buf)?;
                out::write_file(&dir.join("bir.json"), &buf)?;
                write_constants(p, &dir)?;
            }
            Ok(())
        }
    }
}

fn write_constants(p: &Program, dir: &Path) -> std::io::Result<()> {
    for (name, bytes) in &p.constants {
        out::write_file(&dir.join(name), bytes)?;
    }
    Ok(())
}

struct LowerHooks<'a> {
    args: &'a LowerArgs,
    times: Vec<(&'static str, Duration)>,
}

impl Hooks for LowerHooks<'_> {
    fn after_pass(&mut self, info: &'static PassInfo, p: &Program) {
        if self.args.print_after.iter().any(|n| n == "all" || n == info.name) {
            let mut s = String::new();
            let _ = writeln!(s, "; after {}", info.name);
            s.push_str(&text::print(p));
            out::eprint(&s);
        }
    }
    fn verify(&mut self, _info: &'static PassInfo, p: &Program) -> Vec<Diagnostic> {
        if self.args.verify_each { verify::verify(p).err().unwrap_or_default() } else { Vec::new() }
    }
    fn elapsed(&mut self, info: &'static PassInfo, time: Duration) {
        self.times.push((info.name, time));
    }
}
