//! Translation validation: generated two-core programs compute the same bytes at levels `bir` and `lowered`, under every
//! transport, with remote semaphores on and off, both placements, all token modes, and several schedules.
//!
//! 2,000 programs in an optimised build, 60 in a debug build; the environment variable `PROGRAMS` says otherwise. Each runs
//! under both placements, all three token modes, each with re-used and with separate barriers (12 option sets), while the
//! transport and the remaining flags rotate: 2,000 programs give 24,000 lowerings.

mod common;
use common::generate::*;
use common::*;
use tandem_backend::{PassOptions, PtcomMode, Transport, lower, prepare};
use tandem_sim::{Ptcom, Schedule};

/// Transports (with knob) times the two settings of the remaining flags: one of these is taken for a program, another one
/// for the next.
const CARRIERS: u64 = 6;

fn option_sets(base: &PassOptions) -> Vec<(String, PassOptions)> {
    let mut all = Vec::new();
    for (transport, knob) in [(Transport::Auto, 1024), (Transport::Auto, 24), (Transport::Dma, 1024)] {
        for early in [false, true] {
            for (ptcom, separate) in [PtcomMode::P2p, PtcomMode::Notify, PtcomMode::Off]
                .into_iter()
                .flat_map(|m| [(m, false), (m, true)])
            {
                for (rsem, elide, repack) in [(false, false, false), (true, true, true)] {
                    let mut o = base.clone();
                    o.transport = transport;
                    o.sendrecv_to_gpsimd_max_bpp = knob;
                    o.run_shared_allocation_before_post_sched = early;
                    o.ptcom = ptcom;
                    o.separate_lifetime_corebarriers = separate;
                    o.enable_remote_semaphore_dma = rsem;
                    o.sb2sb_elide_end_barrier = elide;
                    o.sb2sb_repack = repack;
                    all.push((
                        format!(
                            "{transport:?}/{knob} early={early} {ptcom:?} separate={separate} rsem={rsem}"
                        ),
                        o,
                    ));
                }
            }
        }
    }
    all
}

fn sim_mode(p: PtcomMode) -> Ptcom {
    match p {
        PtcomMode::P2p => Ptcom::P2p,
        PtcomMode::Notify | PtcomMode::Off => Ptcom::Notify, // orders nothing
    }
}

#[test]
fn levels_agree_on_generated_programs() {
    let default = if cfg!(debug_assertions) { 60 } else { 2_000 };
    let programs: u64 = std::env::var("PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
    let (mut swaps, mut dmas) = (0, 0);
    for seed in 1..=programs {
        let mut b = generate(seed);
        let base = b.opts();
        let out = prepare(&mut b.p, &base);
        assert!(out.ok(), "seed {seed}: {:?}", out.diags);
        verify(&b.p);
        let x = input(&b.p, seed);
        let want = run(&b.p, &x, Schedule::Eager, Ptcom::P2p, &format!("seed {seed} bir"));
        let sets = option_sets(&base);
        // every option set on a few programs; on the others both placements with all token modes and brackets, by one carrier
        for (k, (name, o)) in sets.iter().enumerate() {
            let carrier = (k / 24 * 2 + k % 2) as u64;
            if programs > 20 && carrier != seed % CARRIERS {
                continue;
            }
            let mut p = b.p.clone();
            let out = lower(&mut p, o);
            assert!(out.ok(), "seed {seed} {name}: {:?}", out.diags);
            swaps += out.stat("lower-local-collectives", "gpsimd_swaps")
                + out.stat("lower-local-collectives@80", "gpsimd_swaps");
            dmas += out.stat("lower-local-collectives", "dma_swaps")
                + out.stat("lower-local-collectives@80", "dma_swaps");
            clean(&p, o.ptcom == PtcomMode::P2p, &format!("seed {seed} {name}"));
            for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(seed)] {
                let what = format!("seed {seed} {name} {s:?}");
                let got = run(&p, &x, s, sim_mode(o.ptcom), &what);
                assert!(got == want, "{what}: bytes differ from level bir");
            }
        }
    }
    assert!(programs < 20 || (swaps > 50 && dmas > 50), "{swaps} gpsimd, {dmas} dma");
}
