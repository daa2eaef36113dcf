//! Levels linked and bundles: the sample kernels give the bytes of level lowered, under all schedules, from a container
//! with and without its debug table.

use std::path::PathBuf;
use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{ArchLevel, Program};
use tandem_klr::lower::{LowerOptions, lower};
use tandem_sim::{
    Outcome, RunOptions, Schedule, Simulator, StopReason, Tensor, queue_style, random::random_tensor,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr")
}

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn lowered(name: &str) -> Program {
    let file = tandem_klr::read_path(&folder().join(name)).expect(name).file;
    let load = |f: &str| std::fs::read(folder().join(f));
    let l = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load));
    let mut p = l.program.unwrap_or_else(|| panic!("{name}: {}", show(&l.diags)));
    let opts = tandem_backend::PassOptions::for_program(&p);
    let out = tandem_backend::lower(&mut p, &opts);
    assert!(!out.failed, "{name}: {}", show(&out.diags));
    p
}

fn inputs(p: &Program) -> Vec<Tensor> {
    p.signature
        .inputs
        .iter()
        .map(|w| random_tensor(11, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect()
}

fn options(schedule: Schedule) -> RunOptions {
    RunOptions { schedule, ..RunOptions::default() }
}

fn reference(p: &Program) -> Outcome {
    let mut r =
        Simulator::new(p, options(Schedule::Eager)).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    r.set_inputs(&inputs(p)).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    r.run()
}

fn agrees(what: &str, l: &LinkedProgram, ins: &[Tensor], want: &Outcome, bad: &mut Vec<String>) {
    for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(1), Schedule::Seed(2), Schedule::Seed(3)] {
        match queue_style::run(l, ins, options(s)) {
            Err(e) => bad.push(format!("{what} {s:?}: {}", show(&e))),
            Ok(o) if o.stop != StopReason::Finished => {
                bad.push(format!("{what} {s:?}: {:?} {}", o.stop, show(&o.diagnostics)));
            }
            Ok(o) => {
                if o.outputs != want.outputs {
                    bad.push(format!("{what} {s:?}: other bytes"));
                }
                if o.diagnostics != want.diagnostics {
                    bad.push(format!("{what} {s:?}: {}", show(&o.diagnostics)));
                }
            }
        }
    }
}

#[test]
fn linked_and_bundles_give_the_bytes_of_lowered() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("testdata")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf-8"))
        .filter(|n| n.ends_with(".klr"))
        .collect();
    names.sort();
    assert!(names.len() >= 26);
    let mut bad = Vec::new();
    for name in &names {
        let p = lowered(name);
        let want = reference(&p);
        assert_eq!(want.stop, StopReason::Finished, "{name}");
        let ins = inputs(&p);
        let (l, _) = link(&p, LinkOptions::default()).unwrap_or_else(|e| panic!("{name}: {}", show(&e)));
        agrees(&format!("{name} linked"), &l, &ins, &want, &mut bad);
        for debug in [true, false] {
            let opts = WriteOptions { debug, ..WriteOptions::default() };
            let (bytes, _) = encode(&l, opts).unwrap_or_else(|e| panic!("{name}: {}", show(&e)));
            match decode(&bytes) {
                Ok(d) => agrees(&format!("{name} bundles, debug {debug}"), &d, &ins, &want, &mut bad),
                Err(e) => bad.push(format!("{name}: {}", show(&[e]))),
            }
        }
    }
    assert!(bad.is_empty(), "{} failures\n{}", bad.len(), bad.join("\n"));
}
