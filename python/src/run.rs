//! Compiling and simulating for Python: options from a dict, work on a thread without the interpreter lock, findings
//! and rows as JSON text. Ctrl-C stops the work.

use crate::compile::{self, Constants, Options, RunLevel, Staged, Uninit};
use crate::kernel::Kernel;
use crate::view::elem_of;
use clap::Parser as _;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tandem_backend::{LocalAllReduce, PtcomMode, Transport};
use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{ArchLevel, text};
use tandem_klr::{Contents, KlrFile};
use tandem_sim::{Outcome, Schedule, StopReason, Tensor};

/// How often a waiting call looks for Ctrl-C and reports progress.
const TICK: Duration = Duration::from_millis(50);

fn one<T: for<'a, 'py> FromPyObject<'a, 'py>>(d: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<T>> {
    match d.get_item(key)? {
        Some(v) if !v.is_none() => match v.extract::<T>() {
            Ok(v) => Ok(Some(v)),
            Err(_) => Err(PyValueError::new_err(format!("option `{key}` does not take {}", v.repr()?))),
        },
        _ => Ok(None),
    }
}

fn word<T: Copy>(d: &Bound<'_, PyDict>, key: &str, table: &[(&str, T)]) -> PyResult<Option<T>> {
    let Some(text) = one::<String>(d, key)? else { return Ok(None) };
    match table.iter().find(|(name, _)| *name == text) {
        Some((_, v)) => Ok(Some(*v)),
        None => {
            let names: Vec<&str> = table.iter().map(|(n, _)| *n).collect();
            Err(PyValueError::new_err(format!("option `{key}` is one of {}, not {text}", names.join(", "))))
        }
    }
}

/// Options from a dict. Unknown keys are an error.
fn options(d: &Bound<'_, PyDict>) -> PyResult<Options> {
    const KNOWN: &[&str] = &[
        "target",
        "level",
        "transport",
        "sendrecv_to_gpsimd_max_bpp",
        "local_allreduce",
        "ptcom",
        "ptcom_barrier_distance",
        "ranks",
        "sb2sb_repack",
        "sb2sb_elide_end_barrier",
        "enable_remote_semaphore_dma",
        "run_shared_allocation_before_post_sched",
        "separate_lifetime_corebarriers",
        "skip_barrier_checker",
        "strict_2_24",
        "schedule",
        "numeric_profile",
        "max_steps",
        "max_memory",
        "race_check",
        "uninit",
    ];
    for key in d.keys() {
        let key: String = key.extract()?;
        if !KNOWN.contains(&key.as_str()) {
            return Err(PyValueError::new_err(format!(
                "there is no option `{key}`; there are {}",
                KNOWN.join(", ")
            )));
        }
    }
    let target = one::<String>(d, "target")?.unwrap_or_else(|| "trn2".to_owned());
    let Some(arch) = ArchLevel::from_target(&target) else {
        return Err(PyValueError::new_err(format!("unknown target `{target}`; there are trn1, trn2, trn3")));
    };
    let schedule = one::<String>(d, "schedule")?.unwrap_or_else(|| "eager".to_owned());
    let Some(schedule) = Schedule::parse(&schedule) else {
        return Err(PyValueError::new_err(format!(
            "unknown schedule `{schedule}`; there are eager, late, seed=N"
        )));
    };
    let flag = |key: &str| one::<bool>(d, key).map(|v| v.unwrap_or(false));
    let levels = [
        ("bir", RunLevel::Bir),
        ("lowered", RunLevel::Lowered),
        ("linked", RunLevel::Linked),
        ("bundles", RunLevel::Bundles),
    ];
    let transports = [
        ("auto", Transport::Auto),
        ("gpsimd", Transport::Gpsimd),
        ("dma", Transport::Dma),
        ("request", Transport::Request),
    ];
    let reduces = [
        ("auto", LocalAllReduce::Auto),
        ("never", LocalAllReduce::Never),
        ("always", LocalAllReduce::Always),
    ];
    let tokens = [("off", PtcomMode::Off), ("p2p", PtcomMode::P2p), ("notify", PtcomMode::Notify)];
    Ok(Options {
        arch,
        level: word(d, "level", &levels)?.unwrap_or(RunLevel::Lowered),
        transport: word(d, "transport", &transports)?.unwrap_or_default(),
        max_bpp: one(d, "sendrecv_to_gpsimd_max_bpp")?.unwrap_or(1024),
        local_allreduce: word(d, "local_allreduce", &reduces)?.unwrap_or_default(),
        ptcom: word(d, "ptcom", &tokens)?,
        ptcom_barrier_distance: one(d, "ptcom_barrier_distance")?.unwrap_or(3),
        ranks: one(d, "ranks")?,
        repack: flag("sb2sb_repack")?,
        elide_end_barrier: flag("sb2sb_elide_end_barrier")?,
        remote_semaphore_dma: flag("enable_remote_semaphore_dma")?,
        early_placement: flag("run_shared_allocation_before_post_sched")?,
        separate_barriers: flag("separate_lifetime_corebarriers")?,
        skip_barrier_checker: flag("skip_barrier_checker")?,
        strict_2_24: flag("strict_2_24")?,
        schedule,
        birsim: word(d, "numeric_profile", &[("hw", false), ("birsim", true)])?.unwrap_or(false),
        step_limit: one(d, "max_steps")?,
        memory_limit: one::<u64>(d, "max_memory")?.map(|gib| gib.saturating_mul(1 << 30)),
        race_check: one(d, "race_check")?.unwrap_or(true),
        uninit: word(d, "uninit", &[("error", Uninit::Error), ("warn", Uninit::Warn), ("off", Uninit::Off)])?
            .unwrap_or(Uninit::Error),
    })
}

fn findings(diags: &[Diagnostic]) -> Value {
    render::list_to_json(diags)
}

/// Says that the work is over.
#[derive(Default)]
struct Over {
    done: Mutex<bool>,
    bell: Condvar,
}

impl Over {
    /// Waits at most so long; whether the work is over.
    fn wait(&self, time: Duration) -> bool {
        let done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        match self.bell.wait_timeout_while(done, time, |d| !*d) {
            Ok((done, _)) => *done,
            Err(e) => *e.into_inner().0,
        }
    }
}

struct Ring<'a>(&'a Over);

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        *self.0.done.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.0.bell.notify_all();
    }
}

/// Runs `work` on a thread without the interpreter lock. Ctrl-C sets `cancel` and raises; `progress` is called with
/// the number of instructions done.
fn away<T: Send>(
    py: Python<'_>,
    cancel: &AtomicBool,
    done: &AtomicU64,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let over = Over::default();
    let signal = &over;
    std::thread::scope(|scope| {
        let handle = std::thread::Builder::new().name("tandem".to_owned()).stack_size(64 << 20).spawn_scoped(
            scope,
            move || {
                // Dropped at the end of the work, also when it panics.
                let _ring = Ring(signal);
                work()
            },
        );
        let handle = handle.map_err(|e| PyRuntimeError::new_err(format!("no thread: {e}")))?;
        let mut stopped = None;
        while !py.detach(|| over.wait(TICK)) {
            let mut look = py.check_signals();
            if let (Ok(()), Some(p), None) = (&look, progress, &stopped) {
                look = p.call1(py, (done.load(Ordering::Relaxed),)).map(|_| ());
            }
            if let Err(e) = look {
                cancel.store(true, Ordering::Relaxed);
                stopped.get_or_insert(e);
            }
        }
        let joined = py.detach(|| handle.join());
        match (joined, stopped) {
            (_, Some(e)) => Err(e),
            (Ok(out), None) => Ok(out),
            (Err(_), None) => {
                Err(PyRuntimeError::new_err("internal error of Tandem; please report the kernel"))
            }
        }
    })
}

/// The kernel with inputs that it writes as outputs too, so that their new values come back.
fn with_outputs(file: &KlrFile, extra: &[String]) -> KlrFile {
    let mut file = file.clone();
    if let Contents::Lnc(k) = &mut file.contents {
        for name in extra {
            if let Some(t) = k.inputs.iter().find(|t| t.name == name.as_str()) {
                k.outputs.push(t.clone());
            }
        }
    }
    file
}

/// What a stage of the compiler is asked for.
fn staged(
    py: Python<'_>,
    file: &Arc<KlrFile>,
    constants: &Constants,
    o: &Options,
    check: bool,
) -> PyResult<Staged> {
    let (cancel, done) = (AtomicBool::new(false), AtomicU64::new(0));
    away(py, &cancel, &done, None, || compile::stage(file, constants, o, check))
}

#[pyfunction]
/// Verifies and checks at every level without inputs; the findings as JSON.
pub(crate) fn check(
    py: Python<'_>,
    kernel: PyRef<'_, Kernel>,
    constants: Constants,
    opts: &Bound<'_, PyDict>,
) -> PyResult<String> {
    let o = options(opts)?;
    Ok(findings(&staged(py, &kernel.file, &constants, &o, true)?.diags).to_string())
}

#[pyfunction]
/// The program at a level as text, and the findings as JSON.
pub(crate) fn lower(
    py: Python<'_>,
    kernel: PyRef<'_, Kernel>,
    constants: Constants,
    opts: &Bound<'_, PyDict>,
) -> PyResult<(Option<String>, String)> {
    let o = options(opts)?;
    if matches!(o.level, RunLevel::Linked | RunLevel::Bundles) {
        return Err(PyValueError::new_err("a program prints at the levels bir and lowered"));
    }
    let s = staged(py, &kernel.file, &constants, &o, false)?;
    Ok((s.program.as_ref().map(text::print), findings(&s.diags).to_string()))
}

#[pyfunction]
/// Why each swap and collective went the way it did: `(rows as JSON, rows as text, findings as JSON)`.
pub(crate) fn explain(
    py: Python<'_>,
    kernel: PyRef<'_, Kernel>,
    constants: Constants,
    opts: &Bound<'_, PyDict>,
) -> PyResult<(String, String, String)> {
    let o = Options { level: RunLevel::Lowered, ..options(opts)? };
    let s = staged(py, &kernel.file, &constants, &o, false)?;
    let rows = &s.passes.decisions;
    let json = Value::Array(rows.iter().map(|r| r.to_json()).collect());
    let text = rows.iter().map(|r| r.to_text()).collect::<Vec<_>>().join("\n");
    Ok((json.to_string(), text, findings(&s.diags).to_string()))
}

/// An output: name, shape, bytes.
type Made<'py> = (String, Vec<u64>, Bound<'py, PyByteArray>);

#[pyfunction]
/// Simulates. Inputs are `(name, element type, shape, bytes)`, the bytes as a buffer that is read once;
/// `extra` names inputs whose new values are wanted.
///
/// Returns the outputs as `(name, shape, bytes)` — none unless every core reached its end — and a report as JSON.
#[pyo3(signature = (kernel, inputs, extra, constants, opts, check=true, progress=None))]
#[expect(clippy::too_many_arguments, reason = "one call from Python")]
pub(crate) fn run<'py>(
    py: Python<'py>,
    kernel: PyRef<'_, Kernel>,
    inputs: Vec<(String, String, Vec<u64>, PyBuffer<u8>)>,
    extra: Vec<String>,
    constants: Constants,
    opts: &Bound<'_, PyDict>,
    check: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<Made<'py>>, String)> {
    let o = options(opts)?;
    let given = inputs
        .into_iter()
        .map(|(name, dtype, shape, bytes)| Ok((name, elem_of(&dtype)?, shape, bytes.to_vec(py)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let file = with_outputs(&kernel.file, &extra);
    let (cancel, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (flag, count) = (cancel.clone(), done.clone());
    let work = move || -> (Vec<Diagnostic>, Option<Outcome>) {
        let mut s = compile::stage(&file, &constants, &o, check);
        let Some(program) = s.program.take() else { return (s.diags, None) };
        let mut tensors = Vec::new();
        for (name, _, shape, bytes) in given {
            // With several logical cores `rank<k>:x` is the tensor `x` of one of them.
            let port = match name.strip_prefix("rank").and_then(|n| n.split_once(':')) {
                Some((k, port)) if o.ranks.is_some() && k.parse::<u32>().is_ok() => port,
                _ => name.as_str(),
            };
            match program.signature.inputs.iter().find(|p| p.name == port) {
                // The type is the port's: names of a kernel and of the machine need not agree.
                Some(p) => tensors.push(Tensor { name, dtype: p.dtype, shape, bytes }),
                None => s.diags.push(compile::usage(format!("the kernel has no input `{name}`"))),
            }
        }
        let progress = Arc::new(move |n| count.store(n, Ordering::Relaxed));
        match compile::simulate(program, tensors, &o, progress, flag) {
            Ok(outcome) => (s.diags, Some(outcome)),
            Err(found) => {
                s.diags.extend(found);
                (s.diags, None)
            }
        }
    };
    let (mut diags, outcome) = away(py, &cancel, &done, progress.as_ref(), work)?;
    let Some(outcome) = outcome else {
        return Ok((Vec::new(), json!({"stop": "not run", "findings": findings(&diags)}).to_string()));
    };
    diags.extend(outcome.diagnostics.iter().cloned());
    let prints: Vec<Value> = outcome
        .prints
        .iter()
        .map(
            |p| json!({"core": p.core.0, "prefix": p.prefix, "dtype": p.dtype.to_string(), "shape": p.shape}),
        )
        .collect();
    let report = json!({
        "stop": format!("{:?}", outcome.stop).to_lowercase(),
        "findings": findings(&diags),
        "stats": outcome.stats.to_json(),
        "prints": prints,
        "wait_for": outcome.wait_for.as_ref().map(|w| w.to_json()),
    });
    let mut outputs = Vec::new();
    if outcome.stop == StopReason::Finished {
        for t in outcome.outputs {
            outputs.push((t.name, t.shape, PyByteArray::new(py, &t.bytes)));
        }
    }
    Ok((outputs, report.to_string()))
}

/// The command `tandem` with these arguments (the program's name first); its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, argv: Vec<String>) -> i32 {
    py.detach(|| match tandem::cli::Cli::try_parse_from(argv) {
        Ok(cli) => i32::from(tandem::cmd::dispatch(&cli)),
        Err(e) => {
            // Help and version go to standard output, mistakes to standard error. A closed pipe is no concern of ours.
            let _ = e.print();
            e.exit_code()
        }
    })
}
