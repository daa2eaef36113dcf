//! `tandem lower`.

use crate::cli::{Emit, Format, LowerArgs};
use crate::driver;
use crate::load::{Input, load};
use crate::out::{self, Console};
use crate::progress::Passes;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;
use tandem_backend::pass::{Hooks, PassInfo};
use tandem_backend::pipeline;
use tandem_bir::diag::{Diagnostic, codes, exit_code};
use tandem_bir::{Program, fs, json, text, verify};

pub(super) fn run(a: &LowerArgs, console: &Console) -> u8 {
    console.stage("reading");
    let input = match load(&a.file) {
        Ok(i) => i,
        Err(d) => {
            console.findings(&d, a.format);
            return exit_code(&d);
        }
    };
    if a.emit == Emit::Klr {
        return emit_klr(&input, a, console);
    }
    if let Some(d) = unknown_pass(a) {
        console.findings(std::slice::from_ref(&d), a.format);
        return exit_code(&[d]);
    }
    let mut hooks = LowerHooks { args: a, times: Vec::new(), console };
    let mut passes = Passes::new(&console.progress, &mut hooks);
    let mut staged = driver::to_bir_from(input, &a.compile, &mut passes);
    if a.emit != Emit::Bir {
        staged = driver::to_lowered_with(staged, &a.compile, &mut passes);
    }
    if a.emit == Emit::Linked {
        staged.program = driver::link(&mut staged, &a.compile).map(|l| l.program);
    }
    console.progress.finish();
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
    let Some(p) = &staged.program else {
        console.findings(&staged.diags, a.format);
        return exit_code(&staged.diags).max(1);
    };
    // The program is on standard output: what was found goes beside it.
    console.beside(&staged.diags, a.format);
    if let Err(d) = emit(p, a) {
        console.findings(&d, a.format);
        return exit_code(&d);
    }
    let code = exit_code(&staged.diags);
    super::leave(staged);
    code
}

/// A name of `--print-after` that no pass has.
fn unknown_pass(a: &LowerArgs) -> Option<Diagnostic> {
    let mut known: Vec<&str> = Vec::new();
    for s in pipeline::TO_BIR.iter().chain(pipeline::TO_LOWERED) {
        if !known.contains(&s.pass.info().name) {
            known.push(s.pass.info().name);
        }
    }
    let unknown = a.print_after.iter().find(|n| *n != "all" && !known.contains(&n.as_str()))?;
    let text = format!("there is no pass `{unknown}`");
    Some(Diagnostic::new(codes::U0001, text).note(format!("the passes are: all, {}", known.join(", "))))
}

fn emit_klr(input: &Input, a: &LowerArgs, console: &Console) -> u8 {
    let d = match (input, a.format) {
        (Input::Klr(outcome, _), Format::Text) => {
            let s = tandem_klr::print::print_file(&outcome.file);
            match &a.output {
                None => {
                    console.print(&s);
                    return 0;
                }
                Some(path) => match out::write_file(path, s.as_bytes()) {
                    Ok(()) => return 0,
                    Err(e) => out::cannot_write(path, &e),
                },
            }
        }
        (Input::Klr(..), Format::Json) => {
            Diagnostic::new(codes::U0001, "level klr has no JSON form; use --format text")
        }
        (Input::Bir(..) | Input::Container(..), _) => {
            Diagnostic::new(codes::U0001, "only a traced kernel has level klr")
        }
    };
    console.findings(std::slice::from_ref(&d), a.format);
    exit_code(&[d])
}

/// Writes the program: to standard output with constants inline, or to a path with each constant beside it.
fn emit(p: &Program, a: &LowerArgs) -> Result<(), Vec<Diagnostic>> {
    match (&a.output, a.format) {
        (None, Format::Text) => {
            let options = text::PrintOptions { constants: text::Constants::Inline };
            // A closed pipe is not an error of ours.
            let _ = text::write_program_to(p, options, &mut std::io::stdout().lock());
            Ok(())
        }
        (None, Format::Json) => {
            let stdout = std::io::stdout();
            let mut w = std::io::BufWriter::new(stdout.lock());
            // A closed pipe is not an error of ours.
            let _ = json::write_program(p, text::Constants::Inline, &mut w).and_then(|()| w.flush());
            Ok(())
        }
        (Some(path), Format::Text) => fs::write_text(p, path),
        (Some(path), Format::Json) => fs::write_json(p, path),
    }
}

struct LowerHooks<'a> {
    console: &'a Console,
    args: &'a LowerArgs,
    times: Vec<(&'static str, Duration)>,
}

impl Hooks for LowerHooks<'_> {
    fn after_pass(&mut self, info: &'static PassInfo, p: &Program) {
        if self.args.print_after.iter().any(|n| n == "all" || n == info.name) {
            self.console.progress.finish();
            let mut s = String::new();
            let _ = writeln!(s, "; after {}", info.name);
            s.push_str(&text::print(p));
            out::eprint(&s);
        }
    }
    fn verify(&mut self, _info: &'static PassInfo, p: &Program) -> Vec<Diagnostic> {
        if self.args.verify_each { verify::verify(p).err().unwrap_or_default() } else { Vec::new() }
    }
    fn verify_each(&self) -> bool {
        self.args.verify_each
    }
    fn elapsed(&mut self, info: &'static PassInfo, time: Duration) {
        self.times.push((info.name, time));
    }
}
