//! Tiny kernels whose time is worked out here by hand, under every back end; the figures are those of the specification,
//! file 10 (`hwm`: §4, §5; `doc`: §2, §3, §7).
//!
//! Clocks in GHz: trn2 DVE 0.96, Activation, Pool and SP 1.2, PE 2.4; trn1 Activation 1.4. The fixed overhead is 500 ns, none
//! under `unit`. Every cost is rounded to a picosecond once.

#[path = "support/timed.rs"]
mod timed;

use tandem_sim::Schedule;
use tandem_sim::timing::{BackEnd, Params};
use timed::*;

const FIXED: u64 = 500_000;

struct Kernel {
    what: &'static str,
    arch: &'static str,
    bodies: Vec<String>,
    doc: u64,
    hwm: u64,
    unit: u64,
}

/// Cycles at a clock, in picoseconds.
fn cycles(n: f64, ghz: f64) -> u64 {
    (n / ghz * 1000.0).round() as u64
}

fn kernels() -> Vec<Kernel> {
    let dve = |n: f64| cycles(n, 0.96);
    let act = |n: f64| cycles(n, 1.2);
    // max(64, N) cycles of DVE and 112 until the result is there; N + 50 in the reference.
    let memset = |n: f64| dve(f64::max(n, 64.0)) + dve(112.0);
    let memset_hwm = |n: f64| dve(n + 50.0);
    let fill = |name: &str, n: u64| timed::memset(name, n);
    let load = format!("l = DMACopy SP {} <- @d[[128,128] [1,128]] bfloat16\n", bf16("a", 128));
    // 16 DMA engines, the last starts 375 ns later; 8 rows of 256 bytes each at 12 ns; 32 KiB at 16 x 23 B/ns.
    let load_doc = 750_000 + 15 * 25_000 + 8 * 12_000 + 50_000;
    let load_exec = (32_768.0 / (16.0 * 23.0) * 1000.0f64).round() as u64;
    let load_hwm = 1_300_000 + load_exec;
    let pair = |x: &str| vec![block(x), block(x)];
    let mut v = Vec::new();
    let mut add = |what, arch, bodies: Vec<String>, doc: u64, hwm: u64, unit: u64| {
        v.push(Kernel { what, arch, bodies, doc, hwm, unit });
    };

    add("nothing", "gen3", vec![block("")], 0, 0, 0);
    add(
        "one memset of 512 columns",
        "gen3",
        vec![block(&fill("m", 512))],
        memset(512.0),
        memset_hwm(512.0),
        1,
    );
    add(
        "a one-column copy on Activation, trn1",
        "sunda",
        vec![block(&format!("c = TensorCopy Activation {} <- {}", f32s("b", 1), f32s("a", 1)))],
        cycles(64.0, 1.4) + cycles(200.0, 1.4),
        cycles(1.0, 1.4),
        1,
    );
    add(
        "DVE feeds Activation",
        "gen3",
        vec![block(
            &(fill("m", 512)
                + &format!(
                    "c = TensorCopy Activation {} <- {} after(m:Flow)",
                    f32s("b", 512),
                    f32s("a", 512)
                )),
        )],
        memset(512.0) + 60_000 + act(512.0) + act(172.0),
        memset_hwm(512.0) + act(512.0),
        2,
    );
    add(
        "a cold fp32 product: load, four passes at half speed, fill and drain",
        "gen3",
        vec![block(&format!(
            "m = Matmult PE @p[[512,128] [1,512]] float32 <- {}, {}",
            f32s("a", 512),
            f32s("b", 128)
        ))],
        cycles(32.0, 2.4) + 2 * cycles(4.0 * 512.0, 2.4) + 167_000,
        // (K / 2 + 200) / 1.2 GHz, K the streamed columns.
        act(512.0 / 2.0 + 200.0),
        1,
    );
    add("one load", "gen3", vec![block(&load)], load_doc, load_hwm, 1);
    add(
        "a load and who uses it",
        "gen3",
        vec![block(&format!(
            "{load}c = TensorCopy DVE {} <- {} after(l:Flow)",
            f32s("b", 64),
            f32s("a", 64)
        ))],
        load_doc + 300_000 + dve(64.0) + dve(112.0),
        load_hwm + dve(64.0),
        2,
    );
    add(
        "two loads in one queue of a descriptor generator",
        "gen3",
        vec![block(&(load.clone() + &load.replacen("l =", "k =", 1)))],
        850_000 + load_doc,
        // One timeline for all transfers: the data of the second follows that of the first.
        load_exec + load_hwm,
        2,
    );
    let fixed =
        load.replace("DMACopy SP", "DMACopy Pool").replace("bfloat16\n", "bfloat16 {dge_type = None}\n");
    add(
        "two loads with descriptors from the compiler: no interval between them",
        "gen3",
        vec![block(&(fixed.clone() + &fixed.replacen("l =", "k =", 1)))],
        // The second follows on each DMA engine after data and tail of the first.
        750_000 + 15 * 25_000 + 2 * (8 * 12_000 + 50_000),
        load_exec + load_hwm,
        2,
    );
    let swap = format!("s = GPSIMDSB2SB Pool {} <- {}", f32s("b", 64), f32s("a", 64));
    // 500 ns up to 56 bytes per partition, 0.84 ns for each of the other 200.
    add("a swap of 256 bytes per partition", "gen3", pair(&swap), 668_000, 668_000, 1);
    let bar = "c = CoreBarrier Pool {id = 0, cores = [0, 1]}\n";
    add(
        "a barrier with a late peer",
        "gen3",
        vec![block(&(fill("m", 512) + bar)), block(bar)],
        memset(512.0) + 60_000 + 700_000,
        memset_hwm(512.0),
        2,
    );
    let body = fill("m", 512);
    add(
        "three turns of a loop",
        "gen3",
        vec![format!(
            "block b0 {{\n l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":3,\"stride\":1}}}} regions {{\n block b1 {{\n{body}\n}}\n}}\n}}"
        )],
        // Entry and two back edges of 100 cycles; between the turns the engines join.
        3 * act(100.0) + 3 * memset(512.0) + 2 * 60_000,
        3 * memset_hwm(512.0),
        6,
    );
    v
}

#[test]
fn every_back_end_agrees_with_the_hand() {
    let all = kernels();
    assert!(all.len() >= 10);
    for k in all {
        let bodies: Vec<&str> = k.bodies.iter().map(String::as_str).collect();
        let p = program(k.arch, &bodies);
        for (back_end, want) in
            [(BackEnd::Doc, FIXED + k.doc), (BackEnd::Hwm, FIXED + k.hwm), (BackEnd::Unit, 1000 * k.unit)]
        {
            let t = time_with(&p, &Params::new(back_end), Schedule::Eager);
            assert_eq!(t.total_ps, want, "{} under {}", k.what, back_end.name());
        }
    }
}
