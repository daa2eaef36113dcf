//! The sample kernels: both levels and all schedules give the same bytes, for ordinary and for awkward inputs.

#[path = "support/samples.rs"]
mod samples;

use samples::{kernel, names, show};
use tandem_bir::diag::Diagnostic;
use tandem_bir::{Dtype, Level, Opcode, Program};
use tandem_sim::{Outcome, RunOptions, Schedule, Simulator, StopReason, Tensor, random::random_tensor};

/// Values at the edges of a type: zeros of both signs, infinities, NaN, subnormals, largest.
fn awkward(t: &mut Tensor) {
    let special: &[u64] = match t.dtype {
        Dtype::Float32 => {
            &[0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 1, 0x807f_ffff, 0x7f7f_ffff, 0]
        }
        Dtype::Bfloat16 => &[0x8000, 0x7f80, 0xff80, 0x7fc1, 1, 0x807f, 0x7f7f, 0],
        Dtype::Float16 => &[0x8000, 0x7c00, 0xfc00, 0x7e01, 1, 0x83ff, 0x7bff, 0],
        _ => &[0, u64::MAX, 1 << 31, 0x7fff_ffff, 0x8000, 0x7f],
    };
    let n = t.dtype.bytes() as usize;
    for (k, e) in t.bytes.chunks_exact_mut(n).enumerate().step_by(7) {
        e.copy_from_slice(&special[(k / 7) % special.len()].to_le_bytes()[..n]);
    }
}

fn run(p: &Program, schedule: Schedule, odd: bool) -> Outcome {
    let mut r = Simulator::new(p, RunOptions { schedule, ..RunOptions::default() })
        .unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    let inputs: Vec<Tensor> = r
        .wanted()
        .iter()
        .map(|w| {
            let mut t = random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size");
            if odd {
                awkward(&mut t);
            }
            t
        })
        .collect();
    r.set_inputs(&inputs).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    let o = r.run();
    assert_eq!(o.stop, StopReason::Finished, "{} {schedule:?}: {}", p.name, show(&o.diagnostics));
    assert!(
        !o.diagnostics.iter().any(Diagnostic::is_error),
        "{} {schedule:?}: {}",
        p.name,
        show(&o.diagnostics)
    );
    o
}

#[test]
fn levels_and_schedules_agree_byte_for_byte() {
    let names = names();
    let seeds = if cfg!(debug_assertions) { 3 } else { 100 };
    for name in &names {
        let (bir, low) = (kernel(name, Level::Bir), kernel(name, Level::Lowered));
        for odd in [false, true] {
            let want = run(&bir, Schedule::Eager, odd);
            assert!(!want.outputs.is_empty(), "{name}");
            let small = want.outputs.iter().map(|t| t.bytes.len()).sum::<usize>() < 1 << 20;
            for s in [Schedule::Eager, Schedule::Late]
                .into_iter()
                .chain((0..if small { seeds } else { 1 }).map(Schedule::Seed))
            {
                let o = run(&low, s, odd);
                assert!(o.outputs == want.outputs, "{name}, lowered, {s:?}, odd inputs {odd}");
                for core in 0..low.lnc_size as usize {
                    let swaps = low.modules[core].insts.values();
                    let kept = swaps.filter(|i| i.opcode == Opcode::CollectiveCompute).count() as u64;
                    assert!(o.stats.count(core, Opcode::CollectiveCompute) <= kept, "{name}");
                }
            }
            for s in [Schedule::Late, Schedule::Seed(1)] {
                assert!(run(&bir, s, odd).outputs == want.outputs, "{name}, bir, {s:?}");
            }
        }
    }
}

#[test]
fn swaps_run_by_the_transport_that_the_lowering_chose() {
    // [128 x 64] float32 fits the budget of a GPSIMD swap, [128 x 4096] bfloat16 does not.
    let o = run(&kernel("01_sendrecv_swap_f32_128x64.klr", Level::Lowered), Schedule::Eager, false);
    for core in 0..2 {
        assert_eq!(o.stats.count(core, Opcode::GpsimdSb2Sb), 1);
        assert_eq!(o.stats.count(core, Opcode::CollectiveCompute), 0);
        assert!(o.stats.count(core, Opcode::CoreBarrier) >= 1);
    }
    let o = run(&kernel("02_sendrecv_swap_bf16_128x4096.klr", Level::Lowered), Schedule::Eager, false);
    for core in 0..2 {
        assert_eq!(o.stats.count(core, Opcode::GpsimdSb2Sb), 0);
        assert!(o.stats.count(core, Opcode::DmaCopy) >= 3);
    }
}
