//! Parts of the timing model one by one: who makes descriptors, priority classes, HBM, stationary data, strides, presets, and
//! what is predicted without a run.

#[path = "support/timed.rs"]
mod timed;

use tandem_bir::{EngineKind, MemoryType, text};
use tandem_sim::timing::trace::{FlowKind, Track};
use tandem_sim::timing::{BackEnd, Generation, Params, alone};
use tandem_sim::{RunOptions, Schedule, Simulator};
use timed::*;

const FIXED: u64 = 500_000;
/// [128, 128] bf16 into SBUF: start, stagger, 8 short pieces, tail.
const LOAD: u64 = 750_000 + 15 * 25_000 + 8 * 12_000 + 50_000;

fn load(name: &str, engine: &str, attrs: &str) -> String {
    format!("{name} = DMACopy {engine} {} <- @d[[128,128] [1,128]] bfloat16{attrs}\n", bf16("a", 128))
}

#[test]
fn who_makes_the_descriptors_decides_what_a_transfer_waits_for() {
    let two = |e: &str, attrs: &str| {
        let one = load("l", e, attrs);
        one_time("gen3", &(one.clone() + &one.replacen("l =", "k =", 1)))
    };
    let after = LOAD - 750_000 - 15 * 25_000;
    // The compiler: nothing but the DMA engines.
    assert_eq!(two("SP", " {dge_type = None}"), FIXED + LOAD + after);
    // A hardware generator: one start in 850 ns per queue.
    assert_eq!(two("SP", " {dge_type = HWDGE}"), FIXED + 850_000 + LOAD);
    assert_eq!(two("Activation", ""), FIXED + 850_000 + LOAD);
    // Software: Pool makes each list in 583 ns before its transfer starts.
    assert_eq!(one_time("gen3", &load("l", "Pool", " {dge_type = SWDGE}")), FIXED + 583_000 + LOAD);
    assert_eq!(two("Pool", " {dge_type = SWDGE}"), FIXED + 583_000 + 850_000 + LOAD);
    // No generator in hardware on trn1: software.
    assert_eq!(
        one_time("sunda", &load("l", "Activation", " {dge_type = HWDGE}")),
        FIXED + 357_000 + {
            // 256 bytes at 17 B/ns take 15.059 ns.
            750_000 + 15 * 25_000 + 8 * 15_059 + 50_000
        }
    );
    // Three queues on two generators: the third waits 600 ns for one.
    let three = load("x", "SP", "") + &load("y", "Activation", "") + &load("z", "PE", " {dge_type = HWDGE}");
    let (t, ev) = trace_with(&program("gen3", &[&block(&three)]), &Params::default(), Schedule::Eager);
    let mut starts: Vec<u64> = ev.slices.iter().filter_map(|s| s.transfer.map(|x| x.start_ps)).collect();
    starts.sort_unstable();
    assert_eq!(starts, [FIXED + 750_000, FIXED + 750_000, FIXED + 600_000 + 750_000]);
    assert_eq!(t.cores[0].dynamic_transfers, [0, 3]);
}

fn one_time(arch: &str, lines: &str) -> u64 {
    time(&program(arch, &[&block(lines)]))
}

#[test]
fn urgent_transfers_go_first_on_trn3_only() {
    // Two long transfers to the same DMA engine from two queues; the second to be asked for is the urgent one.
    let long = |name: &str, e: &str, at: u64, attrs: &str| {
        format!(
            "{name} = DMACopy {e} @a[off {at}, [16384,1] [1,8192]] uint8 <- @d[off {at}, [1,8192]] uint8 {{dge_type = None{attrs}}}\n"
        )
    };
    let body = long("slow", "Activation", 0, ", dma_qos = P5") + &long("fast", "SP", 8192, ", dma_qos = P0");
    let ends = |arch: &str| {
        let (_, ev) = trace_with(&program(arch, &[&block(&body)]), &Params::default(), Schedule::Eager);
        let end = |n: &str| ev.slices.iter().find(|s| s.name == n).map(|s| s.done_ps).unwrap();
        (end("slow"), end("fast"))
    };
    let (slow, fast) = ends("core_v4");
    assert!(fast < slow, "trn3: the urgent one ends first: {fast} {slow}");
    let (slow, fast) = ends("gen3");
    assert!(fast > slow, "trn2: in turn, the first one ends first: {fast} {slow}");
}

#[test]
fn two_cores_share_the_bandwidth_of_hbm() {
    let one = |k: u64| {
        format!(
            "l{k} = DMACopy SP {} <- @d[[16384,128] [1,16384]] uint8\n",
            tile("a", "uint8", 1, 128, 16384)
        )
    };
    let body: String = (0..16).map(one).collect();
    let time = |bodies: &[&str]| time_with(&program("gen3", bodies), &Params::default(), Schedule::Eager);
    let both = time(&[&block(&body), &block(&body)]);
    let lone = time(&[&block(&body), &block("")]);
    assert!(both.total_ps > lone.total_ps, "{} {}", both.total_ps, lone.total_ps);
    assert!(both.hbm_wait_ps > 0 && lone.hbm_wait_ps == 0);
    // Not more than the cap allows, but for the window.
    let bytes = 2.0 * 16.0 * 128.0 * 16384.0;
    let least = bytes / 716.0 - 1000.0;
    assert!(both.total_ps as f64 / 1000.0 >= least, "{} ns for {bytes} bytes", both.total_ps / 1000);
    // 16 engines at 23 B/ns are faster than what one core alone may draw.
    let single = time_with(&program("gen3", &[&block(&body)]), &Params::default(), Schedule::Eager);
    assert!(single.hbm_wait_ps > 0);
}

#[test]
fn stationary_data_is_loaded_once_and_behind_the_product_before() {
    let mm = |name: &str, w: &str, attrs: &str| {
        format!("{name} = Matmult PE @p[[512,128] [1,512]] float32 <- {}, {w}{attrs}\n", bf16("a", 512))
    };
    let (w0, w1) = (bf16("b", 128), "@b[off 128, [8192,128] [1,128]] bfloat16".to_owned());
    let mut warm = Params::default();
    warm.without_pe_ramp();
    let t =
        |body: &str| time_with(&program("gen3", &[&block(body)]), &warm, Schedule::Eager).total_ps - FIXED;
    // 512 columns at 2.4 GHz; 32 cycles to load.
    let (product, loading, drain) = (213_333, 13_333, 167_000);
    assert_eq!(t(&mm("m", &w0, "")), loading + product + drain);
    assert_eq!(t(&(mm("m", &w0, "") + &mm("n", &w0, ""))), loading + 2 * product + drain, "loaded already");
    assert_eq!(t(&(mm("m", &w0, "") + &mm("n", &w1, ""))), loading + 2 * product + drain, "hidden");
    // Behind a pause the load shows.
    let late = mm("n", &w1, " after(m:Flow)");
    assert_eq!(t(&(mm("m", &w0, "") + &late)), 2 * (loading + product + drain));
}

#[test]
fn a_wide_innermost_stride_halves_the_port() {
    let copy = |step: u64| {
        let lines = format!(
            "c = TensorCopy DVE @b[[4096,128] [1,256]] float32 <- @a[[4096,128] [{step},256]] float32"
        );
        one_time("gen3", &lines) - FIXED - 116_667
    };
    // 16 bytes are not wide.
    assert_eq!(copy(1), 266_667);
    assert_eq!(copy(4), 266_667);
    assert_eq!(copy(5), 533_333);
}

#[test]
fn presets_and_switches() {
    let p = program("gen3", &[&block(&load("l", "SP", ""))]);
    let mut slow = Params::default();
    slow.conservative();
    let t = time_with(&p, &slow, Schedule::Eager);
    assert_eq!(t.total_ps, FIXED + LOAD + 250_000);
    assert_eq!(t.by_certainty_ps[3], 0, "a preset is no calibration");
    let mm =
        format!("m = Matmult PE @p[[512,128] [1,512]] float32 <- {}, {}", bf16("a", 512), bf16("b", 128));
    let p = program("gen3", &[&block(&mm)]);
    let ramp = time_with(&p, &Params::default(), Schedule::Eager);
    let waits = &ramp.cores[0].engines[0].waits_ps;
    assert!(waits.contains(&("pe ramp", 213_333)), "{waits:?}");
    let mut off = Params::default();
    off.without_pe_ramp();
    assert_eq!(time_with(&p, &off, Schedule::Eager).total_ps + 213_333, ramp.total_ps);
}

#[test]
fn time_alone_is_the_time_on_an_idle_machine() {
    let swap = format!("x = GPSIMDSB2SB Pool {} <- {}", f32s("b", 64), f32s("a", 64));
    let lines = [
        load("x", "SP", ""),
        load("x", "Pool", " {dge_type = SWDGE}"),
        format!(
            "x = DMACopy SP {} <- {}",
            tile("b", "uint8", 1, 128, 9000),
            tile("a", "uint8", 1, 128, 9000)
        ),
        format!("x = DMACopy SP {} <- {}", tile("b", "uint8", 1, 3, 9000), tile("a", "uint8", 1, 3, 9000)),
        "x = DMACopy SP @a[off 507904, [16384,20] [3,100]] uint8 <- @b[off 507904, [16384,20] [3,100]] uint8"
            .to_owned(),
        "x = DMACopy SP @e[[1,5000]] uint8 <- @d[[1,5000]] uint8".to_owned(),
        swap,
    ];
    for arch in ["gen3", "core_v4"] {
        for back_end in [BackEnd::Doc, BackEnd::Hwm, BackEnd::Unit] {
            for l in &lines {
                let params = Params::new(back_end);
                let p = program(arch, &[&block(l), &block(l)]);
                let t = time_with(&p, &params, Schedule::Eager);
                let all = alone(&p, &params).unwrap();
                assert_eq!(all.len(), 2, "{l}");
                assert_eq!(all[0].time.ps() + t.overhead_ps, t.total_ps, "{arch} {} {l}", back_end.name());
            }
        }
    }
    assert_eq!(Generation::of(tandem_bir::ArchLevel::Gen3), Some(Generation::Trn2));
}

#[test]
fn subgraphs_run_one_after_the_other() {
    let part = |sg: u32, n: u64| {
        format!(
            "module @nc00 core 0 subgraph {sg} arch gen3 {{
  func @main {{
    set @a_set = Internal NeuronSBTensor Local uint8 [128 x 16384] {{ loc @a = SB [128, 16384] addr 0 allocated }}
    {}
  }}
}}
",
            block(&memset("m", n))
        )
    };
    let s = format!("bir 1\nprogram \"t\" lnc 1 level lowered\n{}{}", part(0, 512), part(1, 256));
    let p = text::parse(&s).unwrap_or_else(|e| panic!("{e:?}"));
    let (t, ev) = trace_with(&p, &Params::default(), Schedule::Eager);
    let memset = |n: u64| (n as f64 / 0.96 * 1000.0).round() as u64 + 116_667;
    assert_eq!(t.subgraphs_ps, [memset(512), memset(256)]);
    assert_eq!(t.total_ps, FIXED + memset(512) + memset(256));
    assert_eq!(ev.slices.iter().map(|s| s.module).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(t.critical.len(), 2);
}

#[test]
fn events_say_who_waits_for_whom_and_what_is_in_memory() {
    let bar = "c = CoreBarrier Pool {id = 0, cores = [0, 1]}\n";
    let swap = format!("s = GPSIMDSB2SB Pool {} <- {} after(m:Flow)\n", f32s("b", 8), f32s("a", 8));
    let use_it = format!("u = TensorCopy Activation {} <- {} after(s:Flow)\n", f32s("a", 8), f32s("b", 8));
    let soon = block(&(memset("m", 8) + &swap + &use_it + bar));
    let late = block(&(memset("m", 512) + &swap + &use_it + bar));
    let (_, ev) = trace_with(&program("gen3", &[&late, &soon]), &Params::default(), Schedule::Eager);
    let at = |c: usize, n: &str| ev.slices.iter().find(|s| s.core == c && s.name == n).unwrap();
    let kinds = |c: usize, n: &str| at(c, n).into.iter().map(|f| f.kind).collect::<Vec<_>>();
    assert_eq!(kinds(0, "s"), [FlowKind::Semaphore]);
    assert_eq!(kinds(1, "s"), [FlowKind::Semaphore, FlowKind::Swap]);
    assert_eq!(kinds(0, "u"), [FlowKind::Semaphore]);
    assert!(kinds(1, "c").contains(&FlowKind::Join));
    let swap_flow = at(1, "s").into[1];
    assert!(at(0, "s").out.contains(&swap_flow), "the late core's swap is where the arrow starts");
    assert_eq!(at(0, "c").track, Track::Control);
    assert_eq!(at(0, "m").track, Track::Engine(EngineKind::Dve));
    // 128 x 16 KiB for `a` from the start; `b` comes with the swap.
    let tile = 128 * 16384;
    let levels: Vec<(u64, u64)> = ev
        .memory
        .iter()
        .filter(|m| m.core == 0 && m.memory == MemoryType::Sb)
        .map(|m| (m.at_ps, m.bytes))
        .collect();
    assert_eq!(levels, [(FIXED, tile), (at(0, "s").start_ps, 2 * tile), (at(0, "u").done_ps, 0)]);
    assert!(ev.memory.iter().all(|m| m.memory == MemoryType::Sb));
}

#[test]
fn no_more_is_recorded_than_memory_allows() {
    let s = (0..100).map(|k| memset(&format!("m{k}"), 4)).collect::<String>();
    let p = program("gen3", &[&block(&s)]);
    let opts = RunOptions {
        race_check: false,
        undefined_check: false,
        memory_limit: 9_000,
        ..RunOptions::default()
    };
    let r = Simulator::new(&p, opts).unwrap_or_else(|e| panic!("{e:?}"));
    let (o, t) = r.run_timed(&Params::default()).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(t.is_none());
    assert_eq!(tandem_bir::diag::exit_code(&o.diagnostics), 3, "{:?}", o.diagnostics);
}
