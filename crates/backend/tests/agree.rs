//! Translation validation: generated two-core programs compute the same bytes at levels `bir` and `lowered`, under every
//! transport, with remote semaphores on and off, both placements, all token modes, and several schedules.
//!
//! 2,000 programs in an optimised build, 60 in a debug build; the environment variable `PROGRAMS` says otherwise. Each runs
//! under every transport with remote semaphores on and off (10 option sets); placements, token modes, re-used and separate
//! barriers, and the remaining flags rotate: 2,000 programs give some 20,000 lowerings.

mod common;
use common::generate::*;
use common::*;
use tandem_backend::{PassOptions, PtcomMode, Transport, lower, prepare};
use tandem_bir::diag::codes;
use tandem_bir::{AddressSpace, Attr, CollectiveKind, Dtype, Inst, Port, Program, TensorKind};
use tandem_sim::{Ptcom, Schedule};

/// Transports, with the knob.
const TRANSPORTS: [(Transport, u64); 5] = [
    (Transport::Auto, 1024),
    (Transport::Auto, 24),
    (Transport::Gpsimd, 1024),
    (Transport::Dma, 1024),
    (Transport::Request, 1024),
];

/// Every transport with remote semaphores on and off; what else there is comes from `turn`.
fn option_sets(base: &PassOptions, turn: u64) -> Vec<(String, PassOptions)> {
    let mut all = Vec::new();
    for (k, (transport, knob)) in TRANSPORTS.into_iter().enumerate() {
        for rsem in [false, true] {
            // one of 48: placement, token mode, bracket, elision, repack
            let t = turn + 2 * k as u64 + u64::from(rsem);
            let mut o = base.clone();
            o.transport = transport;
            o.sendrecv_to_gpsimd_max_bpp = knob;
            o.enable_remote_semaphore_dma = rsem;
            o.ptcom = [PtcomMode::P2p, PtcomMode::Notify, PtcomMode::Off][(t % 3) as usize];
            o.run_shared_allocation_before_post_sched = t / 3 % 2 == 1;
            o.separate_lifetime_corebarriers = t / 6 % 2 == 1;
            o.sb2sb_elide_end_barrier = t / 12 % 2 == 1;
            o.sb2sb_repack = t / 24 % 2 == 1;
            all.push((format!("{transport:?}/{knob} rsem={rsem} set {}", t % 48), o));
        }
    }
    all
}

/// Every other swap asks for GPSIMD, on both cores.
fn ask(p: &mut Program, seed: u64) {
    for m in &mut p.modules {
        let mut k = seed;
        for (_, _, i) in m.walk() {
            let inst = &mut m.insts[i];
            if inst.get_enum::<CollectiveKind>(Attr::Kind) == Some(CollectiveKind::SendRecv) {
                k += 1;
                inst.set(Attr::UseGpsimdDma, k.is_multiple_of(2));
            }
        }
    }
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
    let (mut swaps, mut dmas, mut refused, mut asked) = (0, 0, 0, 0);
    for seed in 1..=programs {
        let mut b = generate(seed);
        ask(&mut b.p, seed);
        let base = b.opts();
        let out = prepare(&mut b.p, &base);
        assert!(out.ok(), "seed {seed}: {:?}", out.diags);
        verify(&b.p);
        let x = input(&b.p, seed);
        let want = run(&b.p, &x, Schedule::Eager, Ptcom::P2p, &format!("seed {seed} bir"));
        let mut by_dma = false;
        for (name, o) in option_sets(&base, seed) {
            let mut p = b.p.clone();
            let out = lower(&mut p, &o);
            let stat = |what| {
                ["lower-local-collectives", "lower-local-collectives@80"].map(|pass| out.stat(pass, what))
            };
            let [gpsimd, dma] = ["gpsimd_swaps", "dma_swaps"].map(|s| stat(s).iter().sum::<u64>());
            if o.transport == Transport::Auto {
                by_dma |= o.sendrecv_to_gpsimd_max_bpp == 1024 && dma > 0;
            }
            if o.transport == Transport::Gpsimd && !out.ok() {
                // refused where a swap is too large or shaped wrongly, and nowhere else
                let only = out.diags.iter().filter(|d| d.is_error()).all(|d| d.code == codes::L0023);
                assert!(only && by_dma, "seed {seed} {name}: {:?}", out.diags);
                refused += 1;
                continue;
            }
            assert!(out.ok(), "seed {seed} {name}: {:?}", out.diags);
            swaps += gpsimd;
            dmas += dma;
            asked += if o.transport == Transport::Request { gpsimd } else { 0 };
            clean(&p, o.ptcom == PtcomMode::P2p, &format!("seed {seed} {name}"));
            for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(seed)] {
                let what = format!("seed {seed} {name} {s:?}");
                let got = run(&p, &x, s, sim_mode(o.ptcom), &what);
                assert!(got == want, "{what}: bytes differ from level bir");
            }
        }
    }
    let all = [swaps, dmas, refused, asked];
    assert!(programs < 60 || all.iter().all(|n| *n > 10), "gpsimd, dma, refused, asked: {all:?}");
}

/// One kernel inlined several times, with other numbers of instructions on the two cores, so that the names of equal swaps
/// differ: GPSIMD, DMA and GPSIMD again on one pipe, back to back. What each core ends with is known in closed form.
#[test]
fn inlined_kernels_whose_names_drift_run() {
    const ROWS: u64 = 8;
    const SMALL: u64 = 16;
    const LARGE: u64 = 300; // 1,200 bytes per partition: over what GPSIMD takes
    let d = Dtype::Float32;
    for copies in [1usize, 2, 3, 8, 64] {
        let mut b = program(2);
        let shape = |n| [2 * ROWS, n];
        let (wide_x, wide_y) = (SMALL + LARGE, 2 * SMALL + LARGE);
        let x = b.dram("x", TensorKind::ExternalInput, AddressSpace::Shared, d, shape(wide_x));
        let y = b.dram("y", TensorKind::ExternalOutput, AddressSpace::Shared, d, shape(wide_y));
        let port = |name: &str, n: u64| Port {
            name: name.into(),
            location: name.into(),
            core: None,
            subgraph: 0,
            dtype: d,
            shape: shape(n).to_vec(),
        };
        b.p.signature.inputs.push(port("x", wide_x));
        b.p.signature.outputs.push(port("y", wide_y));
        let [a, got, back, idle] = ["a", "got", "back", "idle"].map(|n| b.sb(n, d, [ROWS, SMALL]));
        let [p, q] = ["p", "q"].map(|n| b.sb(n, d, [ROWS, LARGE]));
        let rows = |c: usize| c as u64 * ROWS..(c as u64 + 1) * ROWS;
        let mut n = [0usize; 2];
        let mut push = |b: &mut Build, c: usize, stem: &str, make: &dyn Fn(&str, &Build) -> Inst| {
            let i = make(&format!("{stem}_{}", n[c]), b);
            n[c] += 1;
            b.push(c, i);
        };
        for c in 0..2 {
            let from = |b: &Build, cols| tile(&b.p.modules[c], x, rows(c), cols);
            push(&mut b, c, "in", &|n, b| dma(n, from(b, 0..SMALL), b.whole(c, a)));
            push(&mut b, c, "in", &|n, b| dma(n, from(b, SMALL..wide_x), b.whole(c, p)));
            for k in 0..copies {
                for _ in 0..=c * (k % 3 + 1) {
                    push(&mut b, c, "TensorCopy", &|n, b| copy(n, b.whole(c, a), b.whole(c, idle)));
                }
                let peer = 1 - c as i64;
                for (src, dst) in [(a, got), (p, q), (got, back)] {
                    push(&mut b, c, "LocalSendRecv-0", &|n, b| {
                        sendrecv(n, peer, peer, b.whole(c, src), b.whole(c, dst))
                    });
                }
                for (src, dst) in [(got, a), (q, p)] {
                    push(&mut b, c, "TensorCopy", &|n, b| copy(n, b.whole(c, src), b.whole(c, dst)));
                }
            }
            let to = |b: &Build, cols| tile(&b.p.modules[c], y, rows(c), cols);
            push(&mut b, c, "out", &|n, b| dma(n, b.whole(c, a), to(b, 0..SMALL)));
            push(&mut b, c, "out", &|n, b| dma(n, b.whole(c, p), to(b, SMALL..wide_x)));
            push(&mut b, c, "out", &|n, b| dma(n, b.whole(c, back), to(b, wide_x..wide_y)));
        }
        let given = input(&b.p, copies as u64);
        let row = |c: usize, r: u64, cols: std::ops::Range<u64>| {
            let at = |col| ((c as u64 * ROWS + r) * wide_x + col) as usize * 4;
            given.bytes[at(cols.start)..at(cols.end)].to_vec()
        };
        // each copy exchanges `a` and `p`; `back` is what `a` was before the last
        let holder = |c: usize, times: usize| if times.is_multiple_of(2) { c } else { 1 - c };
        let want: Vec<u8> = (0..2)
            .flat_map(|c| (0..ROWS).map(move |r| (c, r)))
            .flat_map(|(c, r)| {
                let now = row(holder(c, copies), r, 0..wide_x);
                [now, row(holder(c, copies - 1), r, 0..SMALL)].concat()
            })
            .collect();
        let o = b.opts();
        let out = prepare(&mut b.p, &o);
        assert!(out.ok(), "{copies} copies: {:?}", out.diags);
        let what = format!("{copies} copies");
        assert!(run(&b.p, &given, Schedule::Eager, Ptcom::P2p, &what) == want, "{what} at level bir");
        for rsem in [false, true] {
            let mut low = b.p.clone();
            let out = lower(&mut low, &PassOptions { enable_remote_semaphore_dma: rsem, ..o.clone() });
            assert!(out.ok(), "{what}: {:?}", out.diags);
            let pass = "lower-local-collectives";
            let carried = (out.stat(pass, "gpsimd_swaps"), out.stat(pass, "dma_swaps"));
            assert_eq!(carried, (2 * copies as u64, copies as u64));
            clean(&low, true, &what);
            for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(copies as u64)] {
                assert!(run(&low, &given, s, Ptcom::P2p, &what) == want, "{what} lowered, {s:?}");
            }
        }
    }
}
