//! Predicted time: laws, and tiny kernels whose cost is worked out here by hand from the published figures.
//!
//! Clocks: trn2 DVE 0.96 GHz, Act/Pool/SP 1.2 GHz, PE 2.4 GHz; trn1 DVE 1.12, Act 1.4, PE 2.8. Fixed overhead 500 ns.
//! Every cost is rounded to a picosecond once, so sums are exact.

#[path = "support/timed.rs"]
mod timed;

use tandem_bir::text;
use tandem_sim::timing::params::P;
use tandem_sim::timing::{BackEnd, Params};
use tandem_sim::{RunOptions, Schedule, Simulator};
use timed::*;

const FIXED: u64 = 500_000;
/// 512 columns of fp32: 512 / 0.96 GHz, then 112 cycles.
const MEMSET512: u64 = 533_333 + 116_667;

#[test]
fn an_empty_kernel_costs_the_fixed_overhead() {
    assert_eq!(one("gen3", ""), FIXED);
}

#[test]
fn elementwise_by_hand() {
    assert_eq!(one("gen3", &memset("m", 512)), FIXED + MEMSET512);
    // The floor of 64 cycles: 64 / 0.96 GHz.
    assert_eq!(one("gen3", &memset("m", 3)), FIXED + 66_667 + 116_667);
    // fp32 from SBUF on both sides: 2N cycles.
    let tt = |x: &dyn Fn(&str, u64) -> String| {
        format!("t = TensorTensor DVE {} <- {}, {} {{op = add}}", x("b", 256), x("a", 256), x("a", 256))
    };
    assert_eq!(one("gen3", &tt(&f32s)), FIXED + 533_333 + 116_667);
    // bf16 add, contiguous: N cycles on trn1, half of them on trn2.
    assert_eq!(one("sunda", &tt(&bf16)), FIXED + 228_571 + 100_000);
    assert_eq!(one("gen3", &tt(&bf16)), FIXED + 133_333 + 116_667);
    // A bf16 copy inside SBUF moves four elements per cycle on trn2: 1024 / 4 / 0.96.
    let copy = format!("t = TensorCopy DVE {} <- {}", bf16("b", 1024), bf16("a", 1024));
    assert_eq!(one("gen3", &copy), FIXED + 266_667 + 116_667);
}

#[test]
fn dependent_scalar_instructions_on_trn1_match_the_published_189_ns() {
    let col = |l: &str| f32s(l, 1);
    let mut s = format!("i0 = TensorCopy Activation {} <- {}\n", col("b"), col("a"));
    for k in 1..10 {
        s += &format!("i{k} = TensorCopy Activation {} <- {} after(i{}:Flow)\n", col("b"), col("b"), k - 1);
    }
    let each = (one("sunda", &s) - FIXED) as f64 / 10.0;
    // 64 + 200 cycles at 1.4 GHz.
    assert_eq!(each, 45_714.0 + 142_857.0);
    assert!((each / 189_000.0 - 1.0).abs() < 0.1);
}

#[test]
fn a_producer_on_another_engine_costs_a_semaphore() {
    let s = memset("m", 512)
        + &format!("c = TensorCopy Activation {} <- {} after(m:Flow)", f32s("b", 512), f32s("a", 512));
    // 60 ns, 512 / 1.2 GHz, 172 cycles.
    assert_eq!(one("gen3", &s), FIXED + MEMSET512 + 60_000 + 426_667 + 143_333);
    // Without an edge both start at once and the longer one counts.
    let s = s.replace(" after(m:Flow)", "").replace(&f32s("a", 512), &f32s("b", 512));
    assert_eq!(one("gen3", &s), FIXED + MEMSET512);
}

#[test]
fn matmul_by_hand() {
    let mm =
        format!("m = Matmult PE @p[[512,128] [1,512]] float32 <- {}, {}", f32s("a", 512), f32s("b", 128));
    // 32 cycles to load, four passes of 512 columns at 2.8 GHz; 143 ns of fill and drain.
    assert_eq!(one("sunda", &mm), FIXED + 11_429 + 731_429 + 143_000);
    // trn2: a cold array runs at half speed.
    assert_eq!(one("gen3", &mm), FIXED + 13_333 + 2 * 853_333 + 167_000);
    let mut warm = Params::default();
    warm.set(P::PeRamp, [0.0; 3]);
    let p = program("gen3", &[&block(&mm)]);
    let t = time_with(&p, &warm, Schedule::Eager);
    assert_eq!(t.total_ps, FIXED + 13_333 + 853_333 + 167_000);
    assert_eq!(t.cores[0].flops, 2 * 128 * 128 * 512);
}

#[test]
fn products_on_disjoint_tiles_of_the_array_overlap() {
    let time = |second: &str| {
        let product = |name: &str, out: &str, weights: u64, tile: &str| {
            format!(
                "{name} = Matmult PE @{out}[[512,32] [1,512]] float32 <- @a[[8192,32] [1,512]] bfloat16, @b[off {weights}, [8192,32] [1,32]] bfloat16 {{{tile}}}\n"
            )
        };
        let first = product("m", "p", 0, "tile_size = [32, 32], tile_position = [0, 0]");
        let second = if second.is_empty() { String::new() } else { product("n", "q", 64, second) };
        let src = format!(
            "bir 1\nprogram \"t\" lnc 1 level lowered\nmodule @nc00 core 0 arch gen3 {{\n  func @main {{
    set @a_set = Internal NeuronSBTensor Local uint8 [128 x 16384] {{ loc @a = SB [128, 16384] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local uint8 [128 x 16384] {{ loc @b = SB [128, 16384] addr 16384 allocated }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [32 x 512] {{ loc @p = PSUM [32, 2048] bank 0 addr 0 allocated }}
    set @q_set = Internal NeuronPSUMTensor Local float32 [32 x 512] {{ loc @q = PSUM [32, 2048] bank 1 addr 0 allocated }}
    {}\n  }}\n}}\n",
            block(&(first + &second))
        );
        let p = text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"));
        time_with(&p, &Params::default(), Schedule::Eager).total_ps
    };
    let one = time("");
    // 512 columns at 2.4 GHz under the current limit, which doubles them; 32 / 4 cycles of loading; 167 ns of pipeline.
    assert_eq!(one, FIXED + 2 * 213_333 + 3_333 + 167_000);
    // On another tile: 64 cycles later.
    assert_eq!(time("tile_size = [32, 32], tile_position = [32, 64]") - one, 26_667);
    // On the same one, on one that shares a quarter of its rows and columns, and on the whole array: one after the other.
    for tile in [
        "tile_size = [32, 32], tile_position = [0, 0]",
        "tile_size = [64, 64], tile_position = [0, 0]",
        "is_transpose = false",
    ] {
        assert_eq!(time(tile) - one, 2 * 213_333, "{tile}");
    }
}

#[test]
fn transfers_by_hand_and_within_a_tenth_of_the_measured_ones() {
    // [4, 4096] bf16: one engine, 8 packets of 4 KiB at 23 B/ns.
    let load =
        format!("l = DMACopy SP {} <- @d[[4096,4] [1,4096]] bfloat16", tile("a", "bfloat16", 2, 4, 4096));
    let t = one("gen3", &load) - FIXED;
    assert_eq!(t, 750_000 + 8 * 178_087 + 50_000);
    assert!((t as f64 / 2_186_000.0 - 1.0).abs() < 0.1);
    // [128, 128] bf16: 16 engines, the last starts 15 * 25 ns later; 8 pieces of 256 B at the floor of 12 ns.
    let load = format!("l = DMACopy SP {} <- @d[[128,128] [1,128]] bfloat16", bf16("a", 128));
    let t = one("gen3", &load) - FIXED;
    assert_eq!(t, 750_000 + 375_000 + 8 * 12_000 + 50_000);
    assert!((t as f64 / 1_207_000.0 - 1.0).abs() < 0.1);
    // A consumer starts 300 ns after the last byte.
    let use_it = format!("{load}\nc = TensorCopy DVE {} <- {} after(l:Flow)", f32s("b", 64), f32s("a", 64));
    assert_eq!(one("gen3", &use_it), FIXED + t + 300_000 + 66_667 + 116_667);
}

#[test]
fn small_transfers_of_a_queue_keep_their_interval() {
    let n = 8u64;
    let s: String = (0..n)
        .map(|k| format!("l{k} = DMACopy SP {} <- @d[[128,128] [1,128]] bfloat16\n", bf16("a", 128)))
        .collect();
    let one_alone = 750_000 + 375_000 + 8 * 12_000 + 50_000;
    assert_eq!(one("gen3", &s), FIXED + (n - 1) * 850_000 + one_alone);
}

#[test]
fn the_transfer_curve_is_within_a_tenth_of_the_published_one() {
    // Relative throughput by bytes per partition, 32 KiB = 1 (here 16 KiB = 0.99).
    let published = [
        (32u64, 0.0135),
        (128, 0.052),
        (512, 0.207),
        (1024, 0.423),
        (2048, 0.813),
        (4096, 0.966),
        (8192, 0.983),
    ];
    let rate = |b: u64| {
        let many = |n: u64| -> u64 {
            let s: String = (0..n)
                .map(|k| {
                    format!(
                        "l{k} = DMACopy SP {} <- @d[[{b},128] [1,{b}]] uint8\n",
                        tile("a", "uint8", 1, 128, b)
                    )
                })
                .collect();
            one("gen3", &s)
        };
        // Two lengths, so that the start is not counted.
        b as f64 * 8.0 / (many(12) - many(4)) as f64
    };
    let top = rate(16384) / 0.99;
    for (b, want) in published {
        let got = rate(b) / top;
        assert!((got / want - 1.0).abs() < 0.1, "{b} bytes: {got:.4}, published {want}");
    }
}

#[test]
fn lengthening_a_contiguous_transfer_never_lowers_its_time() {
    for (to, from) in [("a", "d"), ("d", "e")] {
        let mut before = 0;
        for n in (1..9000).step_by(331) {
            let side = |l: &str| {
                if l == "a" { format!("@a[[16384,1] [1,{n}]] uint8") } else { format!("@{l}[[1,{n}]] uint8") }
            };
            let t = one("gen3", &format!("l = DMACopy SP {} <- {}", side(to), side(from)));
            assert!(t >= before, "{n} bytes take {t}, fewer took {before}");
            before = t;
        }
    }
}

fn swap_time(arch: &str, bytes: u64) -> u64 {
    let n = bytes / 4;
    let s = block(&format!("s = GPSIMDSB2SB Pool {} <- {}", f32s("b", n), f32s("a", n)));
    time(&program(arch, &[&s, &s])) - FIXED
}

#[test]
fn the_swap_curve_has_its_knee_at_56_bytes_and_differs_between_generations() {
    for (arch, base) in [("gen3", 500_000), ("core_v4", 450_000)] {
        for b in [4, 32, 56] {
            assert_eq!(swap_time(arch, b), base, "flat up to the knee");
        }
        // 0.84 ns per byte behind it.
        assert_eq!(swap_time(arch, 60), base + 3_360);
        assert_eq!(swap_time(arch, 256), base + 168_000);
        assert_eq!(swap_time(arch, 1024), base + 813_120);
    }
    // bf16 counts as four bytes per element.
    let s = block(&format!("s = GPSIMDSB2SB Pool {} <- {}", bf16("b", 64), bf16("a", 64)));
    assert_eq!(time(&program("gen3", &[&s, &s])) - FIXED, 668_000);
}

#[test]
fn a_swap_starts_when_the_later_core_is_there() {
    let swap = format!("s = GPSIMDSB2SB Pool {} <- {} after(m:Flow)", f32s("b", 8), f32s("a", 8));
    let late = block(&(memset("m", 512) + &swap));
    let soon = block(&swap.replace(" after(m:Flow)", ""));
    let t = time_with(&program("gen3", &[&late, &soon]), &Params::default(), Schedule::Eager);
    assert_eq!(t.total_ps, FIXED + MEMSET512 + 60_000 + 500_000);
    let row = |c: usize| t.syncs.iter().find(|s| s.core == c).unwrap();
    assert_eq!((row(0).partner_ps, row(1).partner_ps), (0, MEMSET512 + 60_000));
    assert_eq!(t.cores[1].swap_ps, MEMSET512 + 60_000 + 500_000);
    assert_eq!(t.cores[0].flops + t.cores[1].flops, 0, "a swap counts no arithmetic");
}

#[test]
fn a_barrier_costs_the_late_peer_and_one_remote_semaphore() {
    let bar = "c = CoreBarrier Pool {id = 0, cores = [0, 1]}\n";
    let late = block(&(memset("m", 512) + bar));
    let p = program("gen3", &[&late, &block(bar)]);
    let t = time_with(&p, &Params::default(), Schedule::Eager);
    // The join of the engines goes through a semaphore.
    assert_eq!(t.total_ps, FIXED + MEMSET512 + 60_000 + 700_000);
    assert_eq!(t.cores[0].barrier_ps, 700_000);
    assert_eq!(t.cores[1].barrier_ps, MEMSET512 + 60_000 + 700_000);
}

#[test]
fn a_loop_pays_its_edges() {
    let body = memset("m", 512);
    let s = format!(
        "block b0 {{\n l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":3,\"stride\":1}}}} regions {{\n block b1 {{\n{body}\n}}\n}}\n}}"
    );
    // Entry and two back edges of 100 cycles at 1.2 GHz; three bodies that end in a join.
    let t = time(&program("gen3", &[&s]));
    assert_eq!(t, FIXED + 3 * 83_333 + 3 * MEMSET512 + 2 * 60_000);
}

#[test]
fn unit_costs_count_instructions() {
    let s = memset("x", 512) + &memset("y", 512).replace("@a", "@b") + &memset("z", 4);
    let p = program("gen3", &[&block(&s)]);
    let t = time_with(&p, &Params::new(BackEnd::Unit), Schedule::Eager);
    assert_eq!(t.total_ps, 3_000);
    // Removing a barrier never slows.
    let bar = "c = CoreBarrier Pool {id = 0, cores = [0, 1]}\n";
    let (with, without) =
        (block(&(memset("m", 4) + bar + &memset("n", 4))), block(&(memset("m", 4) + &memset("n", 4))));
    let unit =
        |b: &str| time_with(&program("gen3", &[b, b]), &Params::new(BackEnd::Unit), Schedule::Eager).total_ps;
    assert!(unit(&without) <= unit(&with));
}

#[test]
fn published_formulas_of_the_reference() {
    let t = |arch: &str, s: &str| {
        time_with(&program(arch, &[&block(s)]), &Params::new(BackEnd::Hwm), Schedule::Eager).total_ps - FIXED
    };
    // (N + 50) / 0.96 GHz.
    assert_eq!(t("gen3", &memset("m", 512)), 585_417);
    // K/2 + 200 cycles at 1.2 GHz.
    let mm =
        format!("m = Matmult PE @p[[512,128] [1,512]] float32 <- {}, {}", f32s("a", 512), f32s("b", 128));
    assert_eq!(t("gen3", &mm), 380_000);
    // 1300 + 32 KiB / (16 * 23 B/ns).
    let load = format!("l = DMACopy SP {} <- @d[[128,128] [1,128]] bfloat16", bf16("a", 128));
    assert_eq!(t("gen3", &load), 1_300_000 + 89_043);
}

#[test]
fn the_time_is_the_same_under_every_schedule() {
    // Programs from a seed: five engines, three transfer queues, edges, swaps and barriers in step on both cores.
    for seed in 0..12u64 {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut rnd = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let mut bodies = [String::new(), String::new()];
        for k in 0..40 {
            let meets = rnd(9);
            for b in &mut bodies {
                let after = if k > 0 && rnd(2) == 0 { format!(" after(i{})", rnd(k)) } else { String::new() };
                let n = 1 + rnd(600);
                *b += &match meets {
                    0 => format!("i{k} = GPSIMDSB2SB Pool {} <- {}{after}\n", f32s("b", 16), f32s("a", 16)),
                    1 => format!("i{k} = CoreBarrier Pool {{id = {k}, cores = [0, 1]}}\n"),
                    _ => match rnd(4) {
                        0 => format!(
                            "i{k} = Memset Pool {} {{mode = Const, constant = 1}}{after}\n",
                            f32s("b", n)
                        ),
                        1 => format!(
                            "i{k} = TensorCopy Activation {} <- {}{after}\n",
                            f32s("b", n),
                            f32s("a", n)
                        ),
                        2 => format!("i{k} = TensorCopy DVE {} <- {}{after}\n", bf16("a", n), bf16("b", n)),
                        _ => {
                            let q = ["SP", "Activation", "Pool"][rnd(3) as usize];
                            format!(
                                "i{k} = DMACopy {q} {} <- @d[[{n},128] [1,{n}]] uint8{after}\n",
                                tile("a", "uint8", 1, 128, n)
                            )
                        }
                    },
                };
            }
        }
        let p = program("gen3", &[&block(&bodies[0]), &block(&bodies[1])]);
        let first = time_with(&p, &Params::default(), Schedule::Eager);
        for s in [Schedule::Late, Schedule::Seed(1), Schedule::Seed(2), Schedule::Seed(3)] {
            let t = time_with(&p, &Params::default(), s);
            assert_eq!(t, first, "seed {seed}, {s:?}");
        }
    }
}

#[test]
fn removing_a_barrier_never_slows_under_unit_costs() {
    for seed in 0..20u64 {
        let (lines, bars) = in_step(seed, 4);
        let total = |without: Option<usize>| {
            let body = |c: usize| -> String {
                let kept = lines.iter().enumerate().filter(|(k, _)| Some(*k) != without);
                block(&kept.map(|(_, l)| l[c].as_str()).collect::<String>())
            };
            let p = program("gen3", &[&body(0), &body(1)]);
            time_with(&p, &Params::new(BackEnd::Unit), Schedule::Eager).total_ps
        };
        let all = total(None);
        for b in &bars {
            assert!(total(Some(*b)) <= all, "seed {seed}: without barrier {b}");
        }
    }
}

#[test]
fn calibration_replaces_numbers_and_marks_them() {
    let mut p = Params::default();
    p.calibrate(r#"{"sb2sb_base": {"trn2": 800}, "min_interval": 32}"#).unwrap();
    assert!(p.calibrate(r#"{"no_such_number": 1}"#).is_err());
    assert!(p.calibrate(r#"{"clock_pe": 0}"#).is_err());
    assert!(p.calibrate("[]").is_err());
    let s = block(&format!("s = GPSIMDSB2SB Pool {} <- {}", f32s("b", 8), f32s("a", 8)));
    let t = time_with(&program("gen3", &[&s, &s]), &p, Schedule::Eager);
    assert_eq!(t.total_ps, FIXED + 800_000);
    assert_eq!(t.by_certainty_ps[3], 800_000);
}

#[test]
fn other_levels_are_refused_as_unsupported() {
    let src = "bir 1\nprogram \"t\" lnc 1 level bir\nmodule @nc00 core 0 arch gen3 {\n func @main {\n block b0 {\n }\n }\n}\n";
    let p = text::parse(src).unwrap_or_else(|e| panic!("{e:?}"));
    let r = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let e = r.run_timed(&Params::default()).unwrap_err();
    assert_eq!(tandem_bir::diag::exit_code(&e), 3);
}
