//! `tandem run`: inputs from files or a seed, a simulation, outputs to files.

use crate::cli::{FailOn, Format, Profile, ReportFormat, RunArgs, RunLevel, Uninit};
use crate::driver::{self, Staged};
use crate::load::{self, Input};
use crate::out::{self, Console};
use crate::progress::Passes;
use crate::verdict::{self, Verdict};
use crate::{replay, sarif};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::explain::ExplainRow;
use tandem_backend::link::LinkedProgram;
use tandem_backend::pass::NoHooks;
use tandem_bir::diag::{Class, Diagnostic, Severity, codes, exit_code, render};
use tandem_bir::dtype::NumericClass;
use tandem_bir::{Dtype, Port, Program};
use tandem_sim::num::convert;
use tandem_sim::numeric_profile::{NumericProfile, Uninit as Uninits};
use tandem_sim::state::Print;
use tandem_sim::tensor::describe;
use tandem_sim::{
    Fill, Outcome, Ranks, Ready, RunOptions, Schedule, Simulator, StopReason, Tensor, npy, random,
};

pub(super) fn run(asked: &RunArgs, console: &Console) -> u8 {
    let mut report = Report { file: String::new(), console, format: asked.format, fail_on: asked.fail_on };
    let Some(file) = asked.files.first() else {
        return report.refused(&[Diagnostic::new(codes::U0001, "no file given")]);
    };
    report.file = file.display().to_string();
    let replay = match asked.replay.as_ref().map(|r| replay::read(r, asked)).transpose() {
        Ok(r) => r,
        Err(d) => return report.refused(&[d]),
    };
    let a = replay.as_ref().map_or(asked, |r| &r.args);
    let positional = a.files.get(1..).unwrap_or_default();
    // Standard input is read once; a file can be read again.
    let kept = match (file.as_os_str() == "-").then(|| load::bytes(file)).transpose() {
        Ok(b) => b,
        Err(d) => return report.refused(&d),
    };
    let again = || kept.as_ref().map_or_else(|| load::load(file), |b| load::parse(b.clone(), file));
    let input = match again() {
        Ok(i) => i,
        Err(d) => return report.refused(&d),
    };
    let opts = match options(a) {
        Ok(o) => RunOptions { progress: console.progress.counter(), ..o },
        Err(d) => return report.refused(&[d]),
    };
    let mut looked = verdict::Looked {
        tensors: true,
        races: opts.race_check,
        undefined: opts.undefined_check && opts.profile.uninit == Uninits::InitBits,
    };
    let mut level = if matches!(input, Input::Container(..)) { RunLevel::Bundles } else { a.level };
    let (mut staged, linked) = stage(a, input, console);
    if let (RunLevel::Bundles, Some(l)) = (level, &linked) {
        looked.tensors = l.cores.iter().any(|c| !c.debug.insts.is_empty());
    }
    let mut refused = Vec::new();
    if linked.is_none() && staged.program.is_none() && driver::cores_disagree(&staged.diags) {
        // The cores do not meet as they should, so there is nothing to lower: the program as given is run to the place where
        // they wait for each other.
        if let Some(given) = again().ok().and_then(|input| driver::to_bir_as_given(input, &a.compile)) {
            refused = std::mem::replace(&mut staged, given).diags;
            level = RunLevel::Bir;
        }
    }
    console.stage("simulating");
    let Some(program) = linked.as_ref().map(|l| &l.program).or(staged.program.as_ref()) else {
        return report.refused(&staged.diags);
    };
    let ready = match &linked {
        Some(l) => Simulator::linked(l, opts),
        None => Simulator::new(program, opts),
    };
    let result = ready.and_then(|r| simulate(a, r, positional));
    let (mut outcome, gathered) = match result {
        Ok(o) => o,
        Err(_) if !refused.is_empty() => return report.refused(&refused),
        Err(d) => {
            let mut all = staged.diags;
            all.extend(d);
            return report.refused(&all);
        }
    };
    if !refused.is_empty() && !explain_refusal(&mut outcome, &refused) {
        return report.refused(&refused);
    }
    let mut diags = staged.diags.clone();
    diags.extend(outcome.diagnostics.iter().cloned());
    let verdict = verdict::of_run(program, &diags, &outcome, looked);
    for p in &outcome.prints {
        console.print(&print_text(p));
    }
    let mut written = Vec::new();
    if outcome.stop == StopReason::Finished
        && let Some(dir) = &a.output
    {
        match write_outputs(dir, &outcome.outputs) {
            Ok(w) => written = w,
            Err(d) => diags.push(d),
        }
    }
    let mut lines = Vec::new();
    if let (Some(path), Some(w)) = (&a.deadlock_dot, &outcome.wait_for) {
        match out::write_file(path, w.to_dot().as_bytes()) {
            Ok(()) => lines.push(format!("wrote who waits for whom to {}", path.display())),
            Err(e) => {
                diags.push(out::cannot_write(path, &e));
            }
        }
    }
    let found: Vec<&Diagnostic> = outcome.diagnostics.iter().filter(|d| verdict::refutes(d)).collect();
    let beside = a.output.as_ref().map(|o| o.join("replay.json"));
    let saved = a.save_replay.clone().or(beside.filter(|_| replay.is_none()));
    if let (true, Some(path)) = (verdict.is_refuted() && !found.is_empty(), &saved) {
        let made = replay::document(a, file, &gathered.files, &outcome, &found).and_then(|v| {
            let mut text = serde_json::to_string_pretty(&v).unwrap_or_default();
            text.push('\n');
            out::write_file(path, text.as_bytes()).map_err(|e| out::cannot_write(path, &e))
        });
        match made {
            Ok(()) => lines.push(format!("replay file: {}", path.display())),
            Err(d) => diags.push(d),
        }
    }
    if let Some(r) = &replay {
        let missing = r.missing(&outcome.diagnostics);
        lines.push(format!("replay: {} of {} findings reproduced", r.len() - missing.len(), r.len()));
        diags.extend(missing);
    }
    if a.format == ReportFormat::Text {
        console.line(summary(a, level, program, &staged, &outcome, &gathered.made, &written).trim_end());
        console.line(&verdict.line());
        lines.iter().for_each(|l| console.line(l));
    }
    match a.stats {
        Some(Format::Json) => console.json(&outcome.stats.to_json()),
        Some(Format::Text) => console.print(&stats_text(&outcome)),
        None => {}
    }
    let code = report.finish(
        &diags,
        &verdict,
        json!({
            "stop": format!("{:?}", outcome.stop).to_lowercase(),
            "outputs": outcome.outputs.iter()
                .map(|t| json!({"name": t.name, "dtype": t.dtype.to_string(), "shape": t.shape})).collect::<Vec<_>>(),
            "written": written.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(),
            "wait_for": outcome.wait_for.as_ref().map(|w| w.to_json()),
        }),
    );
    super::leave((staged, linked));
    code
}

/// The run of a program that could not be lowered shows why: the first finding that refutes it says what the passes said. False
/// when the run found nothing.
fn explain_refusal(o: &mut Outcome, refused: &[Diagnostic]) -> bool {
    let Some(d) = o.diagnostics.iter_mut().find(|d| verdict::refutes(d)) else { return false };
    let mut with = d.clone();
    for r in refused.iter().filter(|r| r.is_error()) {
        with = with.note(format!(
            "run at level bir, since the program cannot be lowered: {}: {}",
            r.code, r.message
        ));
    }
    *d = with;
    true
}

/// Where findings go.
struct Report<'a> {
    file: String,
    console: &'a Console,
    format: ReportFormat,
    fail_on: FailOn,
}

impl Report<'_> {
    /// Reports that nothing was run.
    fn refused(&self, diags: &[Diagnostic]) -> u8 {
        let verdict = verdict::of_refused(diags);
        // A mistake on the command line says nothing about the kernel.
        let usage = diags.iter().all(|d| d.code.info().class == Class::Input);
        if self.format == ReportFormat::Text && !usage {
            self.console.line(&verdict.line());
        }
        self.finish(diags, &verdict, json!({}))
    }

    fn finish(&self, diags: &[Diagnostic], verdict: &Verdict, extra: serde_json::Value) -> u8 {
        let code = super::fail_on(exit_code(diags), diags, self.fail_on);
        match self.format {
            ReportFormat::Text => self.console.diagnostics(diags),
            ReportFormat::Json => {
                let mut v = json!({
                    "verdict": verdict.to_json(),
                    "diagnostics": render::list_to_json(diags),
                });
                if let (Some(v), serde_json::Value::Object(e)) = (v.as_object_mut(), extra) {
                    v.extend(e);
                }
                self.console.json(&v);
            }
            ReportFormat::Sarif => {
                let properties = json!({"verdict": verdict.to_json(), "run": extra});
                self.console.json(&sarif::document(diags, &self.file, code, properties));
            }
        }
        code
    }
}

/// Inputs of a run, where they came from.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) tensors: Vec<Tensor>,
    /// Names of those made from the seed.
    made: Vec<String>,
    /// Names and files of the others.
    files: Vec<(String, PathBuf)>,
}

impl Gathered {
    /// Where the inputs came from, in words.
    pub(super) fn describe(&self, a: &RunArgs) -> String {
        let mut parts = Vec::new();
        if !self.files.is_empty() {
            let names: Vec<&str> = self.files.iter().map(|(n, _)| n.as_str()).collect();
            parts.push(format!("{} from files", names.join(", ")));
        }
        if let (false, Some(seed)) = (self.made.is_empty(), a.random) {
            parts.push(format!("{} from seed {seed}", self.made.join(", ")));
        }
        if parts.is_empty() { "no inputs".to_owned() } else { format!("inputs: {}", parts.join("; ")) }
    }
}

/// Brings the input to the level that is to run. The second part is there for levels `linked` and `bundles`.
pub(super) fn stage(a: &RunArgs, input: Input, console: &Console) -> (Staged, Option<LinkedProgram>) {
    if let Input::Container(_, linked) = input {
        return (Staged::default(), Some(*linked));
    }
    let mut none = NoHooks;
    let mut hooks = Passes::new(&console.progress, &mut none);
    let mut staged = driver::to_bir_from(input, &a.compile, &mut hooks);
    if a.level != RunLevel::Bir {
        staged = driver::to_lowered_with(staged, &a.compile, &mut hooks);
    }
    let linked = match a.level {
        RunLevel::Bir | RunLevel::Lowered => return (staged, None),
        RunLevel::Linked => driver::link(&mut staged, &a.compile),
        RunLevel::Bundles => driver::link(&mut staged, &a.compile)
            .and_then(|l| driver::encode(&l, WriteOptions::default(), &mut staged.diags))
            .and_then(|bytes| container::decode(&bytes).map_err(|d| staged.diags.push(d)).ok()),
    };
    // Without a linked program there is nothing to run at this level.
    staged.program = None;
    (staged, linked)
}

pub(super) fn options(a: &RunArgs) -> Result<RunOptions, Diagnostic> {
    let mut o = RunOptions {
        schedule: Schedule::parse(&a.schedule).ok_or_else(|| {
            Diagnostic::new(
                codes::U0001,
                format!("unknown schedule `{}`; known: eager, late, seed=N", a.schedule),
            )
        })?,
        profile: match a.numeric_profile {
            Profile::Hw => NumericProfile::hw(),
            Profile::Birsim => NumericProfile::birsim(),
        },
        race_check: !a.no_race_check,
        equal_writes: true,
        undefined_check: a.uninit != Uninit::Off,
        undefined_severity: if a.uninit == Uninit::Warn { Severity::Warning } else { Severity::Error },
        fill: Fill::parse(&a.fill).ok_or_else(|| {
            Diagnostic::new(codes::U0001, format!("unknown fill `{}`; known: ff, nan4, random=N", a.fill))
        })?,
        memory_limit: a.memory_limit(),
        ..RunOptions::default()
    };
    if let Some(n) = a.compile.ranks {
        o.ranks = Ranks::Lncs(n);
    }
    if a.compile.ptcom == Some(crate::cli::Ptcom::Notify) {
        o.ptcom = tandem_sim::Ptcom::Notify;
    }
    if let Some(n) = a.max_steps {
        o.step_limit = n;
    }
    Ok(o)
}

/// Runs; also where the inputs came from.
fn simulate(
    a: &RunArgs,
    mut ready: Ready<'_>,
    positional: &[PathBuf],
) -> Result<(Outcome, Gathered), Vec<Diagnostic>> {
    let wanted: Vec<Port> = ready.wanted().to_vec();
    let lncs = a.compile.ranks.unwrap_or(1).max(1);
    let mut g = gather(a, positional, &wanted, lncs)?;
    ready.give_inputs(std::mem::take(&mut g.tensors))?;
    Ok((ready.run(), g))
}

fn wants(wanted: &[Port]) -> String {
    if wanted.is_empty() {
        return "the kernel wants no inputs".to_owned();
    }
    let list: Vec<String> = wanted.iter().map(|p| describe(&p.name, p.dtype, &p.shape)).collect();
    format!("the kernel wants: {}", list.join(", "))
}

/// Port that the name of an input means: with several LNCs `rank1:x` is the `x` of the second.
fn port_of<'w>(name: &str, wanted: &'w [Port], lncs: u32) -> Option<&'w Port> {
    let find = |name: &str| wanted.iter().find(|p| p.name == name);
    if let Some(p) = find(name) {
        return Some(p);
    }
    let (rank, port) = name.strip_prefix("rank")?.split_once(':')?;
    let rank = rank.parse().ok().filter(|r| *r < lncs && lncs > 1)?;
    // A rank has one spelling.
    find(port).filter(|_| name == rank_name(rank, port))
}

fn rank_name(rank: u32, port: &str) -> String {
    format!("rank{rank}:{port}")
}

/// Inputs from files, and what is missing from the seed.
pub(super) fn gather(
    a: &RunArgs,
    positional: &[PathBuf],
    wanted: &[Port],
    lncs: u32,
) -> Result<Gathered, Vec<Diagnostic>> {
    let bad = |text: String| vec![Diagnostic::new(codes::U0003, text).note(wants(wanted))];
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    if positional.len() > wanted.len() {
        return Err(bad(format!("{} input files for {} inputs", positional.len(), wanted.len())));
    }
    for (p, f) in wanted.iter().zip(positional) {
        files.push((p.name.clone(), f.clone()));
    }
    for i in &a.inputs {
        let Some((name, file)) = i.split_once('=') else {
            return Err(bad(format!("`{i}` is not of the form name=file.npy")));
        };
        if files.iter().any(|(n, _)| n == name) {
            return Err(bad(format!("input `{name}` is given twice")));
        }
        files.push((name.to_owned(), PathBuf::from(file)));
    }
    let mut out = Vec::new();
    for (name, file) in &files {
        let Some(port) = port_of(name, wanted, lncs) else {
            return Err(bad(format!("the kernel has no input `{name}`")));
        };
        let bytes = std::fs::read(file).map_err(|e| {
            vec![Diagnostic::new(codes::U0002, format!("cannot read {}: {e}", file.display()))]
        })?;
        let t = npy::read_owned(bytes)
            .and_then(|x| x.into_tensor(name, port.dtype))
            .map_err(|e| bad(format!("input `{name}` from {}: {e}", file.display())))?;
        out.push(t);
    }
    let mut made = Vec::new();
    for port in wanted {
        let given = |name: &str| out.iter().any(|t| t.name == name);
        if given(&port.name) {
            continue;
        }
        // One rank's own input leaves those of the others to be given, or made.
        let missing: Vec<String> =
            (0..lncs).map(|r| rank_name(r, &port.name)).filter(|n| !given(n)).collect();
        let missing = match missing.len() {
            0 => continue,
            n if n == lncs as usize => vec![port.name.clone()],
            _ => missing,
        };
        let Some(seed) = a.random else {
            return Err(bad(format!("input `{}` is missing", missing[0]))
                .into_iter()
                .map(|d| d.help("give it with `-i name=file.npy`, or fill all with `--random SEED`"))
                .collect());
        };
        for name in missing {
            let t = random::random_tensor(seed, &name, port.dtype, &port.shape, a.memory_limit())
                .ok_or_else(|| bad(format!("input `{name}` is too large to make")))?;
            out.push(t);
            made.push(name);
        }
    }
    Ok(Gathered { tensors: out, made, files })
}

/// Writes each output to `DIR/<name>.npy`; a tensor private to a core (`nc00:y`) to `DIR/nc00/y.npy`.
fn write_outputs(dir: &Path, outputs: &[Tensor]) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut written = Vec::new();
    for t in outputs {
        let path = dir.join(file_name(&t.name));
        out::write_file(&path, &npy::write(t)).map_err(|e| out::cannot_write(&path, &e))?;
        written.push(path);
    }
    Ok(written)
}

/// File of a port: `:` separates folders; whatever a file system may read otherwise becomes `_`.
fn file_name(port: &str) -> PathBuf {
    let clean = |s: &str| -> String {
        let t: String = s.chars().map(|c| if c == '/' || c == '\\' || c == '\0' { '_' } else { c }).collect();
        if t.is_empty() || t == "." || t == ".." { format!("_{t}") } else { t }
    };
    let mut parts: Vec<String> = port.split(':').map(clean).collect();
    if let Some(last) = parts.last_mut() {
        last.push_str(".npy");
    }
    parts.iter().collect()
}

fn summary(
    a: &RunArgs,
    level: RunLevel,
    p: &Program,
    staged: &Staged,
    o: &Outcome,
    made: &[String],
    written: &[PathBuf],
) -> String {
    let mut s = String::new();
    let level = match level {
        RunLevel::Bir => "bir",
        RunLevel::Lowered => "lowered",
        RunLevel::Linked => "linked",
        RunLevel::Bundles => "bundles",
    };
    let cores = p.lnc_size;
    let _ = writeln!(s, "{}: {cores} core{}, level {level}", p.name, if cores == 1 { "" } else { "s" });
    if let (false, Some(seed)) = (made.is_empty(), a.random) {
        let _ = writeln!(s, "  inputs from seed {seed}: {}", made.join(", "));
    }
    for r in &staged.passes.decisions {
        let _ = writeln!(s, "  {}", decision_line(r));
    }
    let total: u64 = o.stats.executed.iter().flatten().sum();
    let each: Vec<String> = o.stats.executed.iter().map(|c| c.iter().sum::<u64>().to_string()).collect();
    let _ = writeln!(s, "  {total} instructions executed ({} per core)", each.join(" + "));
    match o.stop {
        StopReason::Finished if written.is_empty() => {
            for t in &o.outputs {
                let _ = writeln!(s, "  output {} (not written: no -o)", describe(&t.name, t.dtype, &t.shape));
            }
        }
        StopReason::Finished => {
            for (t, f) in o.outputs.iter().zip(written) {
                let _ = writeln!(s, "  wrote {} to {}", describe(&t.name, t.dtype, &t.shape), f.display());
            }
        }
        StopReason::Deadlock => s.push_str("  stopped: nothing can run any more\n"),
        StopReason::StepLimit => s.push_str("  stopped: the step limit was reached\n"),
        StopReason::Fault => s.push_str("  stopped: an instruction could not be carried out\n"),
        StopReason::Cancelled => s.push_str("  stopped on request\n"),
    }
    s
}

/// One line about a swap or collective.
fn decision_line(r: &ExplainRow) -> String {
    let transport = match r.transport {
        "gpsimd" => "GPSIMD",
        "dma" => "DMA",
        other => other,
    };
    let source = r.source.as_ref().map(|s| format!(" ({}:{})", s.file, s.line)).unwrap_or_default();
    format!("{} {}{source}: {transport}, {} bytes per partition", r.kind, r.name, r.bytes_per_partition)
}

fn stats_text(o: &Outcome) -> String {
    let mut s = String::new();
    for (core, counts) in o.stats.executed.iter().enumerate() {
        let _ = writeln!(s, "core {core}");
        for (row, n) in tandem_bir::inst::table::TABLE.iter().zip(counts) {
            if *n > 0 {
                let _ = writeln!(s, "  {n:>10} {}", row.opcode);
            }
        }
    }
    s
}

/// What a DevicePrint printed: core, prefix, type, shape, then one line per partition.
fn print_text(p: &Print) -> String {
    let mut s = format!("core {}: {}\n", p.core, describe(&p.prefix, p.dtype, &p.shape));
    let row = p.shape.iter().skip(1).product::<u64>().max(1) as usize;
    let values: Vec<String> =
        p.bytes.chunks(p.dtype.bytes() as usize).map(|e| number_text(p.dtype, e)).collect();
    for r in values.chunks(row) {
        let _ = writeln!(s, "  {}", r.join(" "));
    }
    s
}

/// One element as text: integers exactly, floats in the shortest form that reads back, packed types as hex.
fn number_text(dtype: Dtype, e: &[u8]) -> String {
    let mut w = [0u8; 8];
    for (d, b) in w.iter_mut().zip(e) {
        *d = *b;
    }
    let raw = u64::from_le_bytes(w);
    let bits = 64 - 8 * e.len().min(8) as u32;
    match dtype.class() {
        NumericClass::Unsigned => raw.to_string(),
        NumericClass::Signed => (((raw << bits) as i64) >> bits).to_string(),
        NumericClass::Float => {
            let mut v = [0.0f32];
            convert::to_f32(dtype, e, &mut v, convert::Rules::of(&NumericProfile::hw()));
            format!("{:?}", v[0])
        }
        NumericClass::PackedFloat => format!("{raw:#x}"),
    }
}
