//! Replay files: everything that makes a finding come again (docs/replay.md).

use crate::cli::{Cli, CompileArgs, RunArgs, Verb};
use crate::digest;
use clap::{Parser as _, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tandem_bir::diag::{Diagnostic, codes, render};
use tandem_sim::Outcome;

/// Version of the format.
pub const VERSION: u64 = 1;

/// The options of a run that decide what happens, as arguments; defaults are left out.
pub fn arguments(a: &RunArgs) -> Vec<String> {
    let mut out = Vec::new();
    let mut value = |name: &str, v: String| out.extend([format!("--{name}"), v]);
    value("level", word(&a.level));
    value("schedule", a.schedule.clone());
    value("numeric-profile", word(&a.numeric_profile));
    value("uninit", word(&a.uninit));
    value("fill", a.fill.clone());
    if let Some(n) = a.random {
        value("random", n.to_string());
    }
    if let Some(n) = a.max_steps {
        value("max-steps", n.to_string());
    }
    if let Some(n) = a.max_memory {
        value("max-memory", n.to_string());
    }
    if a.no_race_check {
        out.push("--no-race-check".to_owned());
    }
    compile_arguments(&a.compile, &mut out);
    out
}

fn word<T: ValueEnum>(v: &T) -> String {
    v.to_possible_value().map(|p| p.get_name().to_owned()).unwrap_or_default()
}

fn compile_arguments(c: &CompileArgs, out: &mut Vec<String>) {
    let mut value = |name: &str, v: Option<String>| {
        if let Some(v) = v {
            out.extend([format!("--{name}"), v]);
        }
    };
    value("target", c.target.clone());
    value("lnc", c.lnc.map(|n| n.to_string()));
    value("sendrecv-to-gpsimd-max-bpp", Some(c.sendrecv_to_gpsimd_max_bpp.to_string()));
    value("transport", Some(word(&c.transport)));
    value("ptcom", c.ptcom.as_ref().map(word));
    value("ptcom-barrier-distance", Some(c.ptcom_barrier_distance.to_string()));
    value("local-allreduce", Some(word(&c.local_allreduce)));
    value("ranks-are", c.ranks_are.as_ref().map(word));
    value("ranks", c.ranks.map(|n| n.to_string()));
    let flags = [
        ("sb2sb-repack", c.sb2sb_repack),
        ("sb2sb-elide-end-barrier", c.sb2sb_elide_end_barrier),
        ("run-shared-allocation-before-post-sched", c.run_shared_allocation_before_post_sched),
        ("enable-remote-semaphore-dma", c.enable_remote_semaphore_dma),
        ("separate-lifetime-corebarriers", c.separate_lifetime_corebarriers),
        ("skip-barrier-checker", c.skip_barrier_checker),
        ("strict-2-24", c.strict_2_24),
    ];
    out.extend(flags.iter().filter(|f| f.1).map(|f| format!("--{}", f.0)));
}

/// The replay file of a run. `inputs` are the tensors read from files.
///
/// # Errors
/// U0004 when the input or a tensor file cannot be read again (standard input never can).
pub fn document(
    a: &RunArgs,
    file: &Path,
    inputs: &[(String, PathBuf)],
    outcome: &Outcome,
    findings: &[&Diagnostic],
) -> Result<Value, Diagnostic> {
    let digest = |p: &Path| {
        digest::of_path(p).map_err(|e| {
            Diagnostic::new(codes::U0004, format!("no replay file: cannot read {} again: {e}", p.display()))
        })
    };
    let mut tensors = Vec::new();
    for (name, path) in inputs {
        tensors.push(json!({"name": name, "file": path.display().to_string(), "sha256": digest(path)?}));
    }
    Ok(json!({
        "replay": VERSION,
        "tandem": env!("CARGO_PKG_VERSION"),
        "file": {"name": file.display().to_string(), "sha256": digest(file)?},
        "level": word(&a.level),
        "schedule": a.schedule,
        "random": a.random,
        "inputs": tensors,
        "arguments": arguments(a),
        "stop": format!("{:?}", outcome.stop).to_lowercase(),
        "steps": outcome.steps,
        "findings": findings.iter().map(|d| finding(d)).collect::<Vec<_>>(),
        "wait_for": outcome.wait_for.as_ref().map(|w| w.to_json()),
    }))
}

fn finding(d: &Diagnostic) -> Value {
    let v = render::to_json(d);
    json!({"code": d.code.to_string(), "message": d.message, "sites": v.get("sites").cloned().unwrap_or(json!([]))})
}

/// A replay file that was read and belongs to the input.
#[derive(Debug)]
pub struct Replay {
    /// The run it describes; output options are those of the command line that asked for the replay.
    pub args: RunArgs,
    findings: Vec<Value>,
    version: String,
}

/// Reads a replay file for `asked.files[0]`.
///
/// # Errors
/// U0006 when it cannot be read, is of another version, or the digest of the input or of a tensor differs.
pub fn read(path: &Path, asked: &RunArgs) -> Result<Replay, Diagnostic> {
    let bad = |text: String| Diagnostic::new(codes::U0006, text);
    let bytes = std::fs::read(path).map_err(|e| bad(format!("cannot read {}: {e}", path.display())))?;
    let v: Value = serde_json::from_slice(&bytes)
        .map_err(|e| bad(format!("{} is no replay file: {e}", path.display())))?;
    if v.get("replay").and_then(Value::as_u64) != Some(VERSION) {
        return Err(bad(format!("{} is no replay file of version {VERSION}", path.display())));
    }
    let missing = |what: &str| bad(format!("{} has no {what}", path.display()));
    let text = |v: Option<&Value>, what: &str| -> Result<String, Diagnostic> {
        v.and_then(Value::as_str).map(str::to_owned).ok_or_else(|| missing(what))
    };
    let file = asked.files.first().ok_or_else(|| bad("no file given".to_owned()))?;
    let same = |p: &Path, want: &str, what: &str| -> Result<(), Diagnostic> {
        let have = digest::of_path(p).map_err(|e| bad(format!("cannot read {}: {e}", p.display())))?;
        if have == want {
            return Ok(());
        }
        Err(bad(format!("{what} {} is not the one the replay file was made from", p.display()))
            .note(format!("its digest is {have}, the replay file names {want}")))
    };
    same(file, &text(v.get("file").and_then(|f| f.get("sha256")), "digest of the input")?, "the input")?;
    let mut args = vec!["tandem".to_owned(), "run".to_owned(), file.display().to_string()];
    for a in v.get("arguments").and_then(Value::as_array).ok_or_else(|| missing("arguments"))? {
        args.push(text(Some(a), "arguments")?);
    }
    for i in v.get("inputs").and_then(Value::as_array).ok_or_else(|| missing("inputs"))? {
        let name = text(i.get("name"), "name of an input")?;
        let given = PathBuf::from(text(i.get("file"), "file of an input")?);
        let beside = path.parent().unwrap_or(Path::new("")).join(&given);
        let at = if given.exists() { given } else { beside };
        same(&at, &text(i.get("sha256"), "digest of an input")?, "the tensor")?;
        args.extend(["-i".to_owned(), format!("{name}={}", at.display())]);
    }
    let cli = Cli::try_parse_from(&args).map_err(|e| {
        bad(format!("{} holds arguments that are not understood", path.display())).note(e.to_string())
    })?;
    let Verb::Run(mut run) = cli.verb else { return Err(missing("arguments of a run")) };
    run.output.clone_from(&asked.output);
    run.format = asked.format;
    run.stats = asked.stats;
    run.fail_on = asked.fail_on;
    run.deadlock_dot.clone_from(&asked.deadlock_dot);
    run.save_replay.clone_from(&asked.save_replay);
    run.replay = None;
    Ok(Replay {
        args: run,
        findings: v.get("findings").and_then(Value::as_array).cloned().unwrap_or_default(),
        version: text(v.get("tandem"), "version of tandem").unwrap_or_default(),
    })
}

impl Replay {
    /// What a run did not show again: one finding each, by code and sites.
    pub fn missing(&self, found: &[Diagnostic]) -> Vec<Diagnostic> {
        let have: Vec<Value> = found.iter().map(finding).collect();
        let key = |v: &Value| (v.get("code").cloned(), v.get("sites").cloned());
        self.findings
            .iter()
            .filter(|f| !have.iter().any(|h| key(h) == key(f)))
            .map(|f| {
                let code = f.get("code").and_then(Value::as_str).unwrap_or("?");
                let message = f.get("message").and_then(Value::as_str).unwrap_or("");
                Diagnostic::new(codes::U0007, format!("{code} was not reproduced: {message}")).note(format!(
                    "the replay file was made by tandem {}, this is {}",
                    self.version,
                    env!("CARGO_PKG_VERSION")
                ))
            })
            .collect()
    }
    /// Number of findings that the file holds.
    pub fn len(&self) -> usize {
        self.findings.len()
    }
    /// The file holds no findings.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_read_back_to_the_same_run() {
        let given = "tandem run k.bir --level bir --schedule seed=7 --numeric-profile birsim --uninit warn --fill random=3 \
                     --random 5 --max-steps 99 --max-memory 16 --no-race-check --target trn2 --lnc 2 --sendrecv-to-gpsimd-max-bpp 24 \
                     --transport dma --ptcom notify --ptcom-barrier-distance 2 --local-allreduce never --ranks 3 \
                     --sb2sb-repack --sb2sb-elide-end-barrier --run-shared-allocation-before-post-sched \
                     --enable-remote-semaphore-dma --separate-lifetime-corebarriers --skip-barrier-checker --strict-2-24";
        let parse = |a: &[String]| -> RunArgs {
            match Cli::try_parse_from(a).expect("arguments").verb {
                Verb::Run(r) => r,
                v => panic!("{v:?}"),
            }
        };
        for line in [given, "tandem run k.bir"] {
            let a = parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
            let mut back: Vec<String> = ["tandem", "run", "k.bir"].map(str::to_owned).to_vec();
            back.extend(arguments(&a));
            assert_eq!(format!("{:?}", parse(&back)), format!("{a:?}"));
        }
    }
}
