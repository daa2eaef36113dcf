//! Levels linked and bundles: the sample kernels give the bytes of level lowered, under all schedules, from a container
//! with and without its debug table.

#[path = "support/samples.rs"]
mod samples;

use samples::{kernel, names, show};
use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::{Level, Program};
use tandem_sim::{
    Outcome, RunOptions, Schedule, Simulator, StopReason, Tensor, queue_style, random::random_tensor,
};

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
    let names = names();
    let mut bad = Vec::new();
    for name in &names {
        let p = kernel(name, Level::Lowered);
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
