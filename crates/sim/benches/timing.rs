//! What timing a run costs on top of the run: `cargo bench -p tandem-sim --bench timing`.
//!
//! Functional and timed runs alternate, so that a busy machine slows both; the least of each counts. The target is a ratio of
//! at most 1.3. Under `valgrind --tool=callgrind` with `TIMED=0` or `TIMED=1` each program runs once one way.

#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::path::PathBuf;
use std::time::{Duration, Instant};
use tandem_bir::{ArchLevel, Program, text};
use tandem_klr::lower::{LowerOptions, lower};
use tandem_sim::timing::Params;
use tandem_sim::{RunOptions, Simulator, StopReason, Tensor, random::random_tensor};

/// A loop of `turns` on two cores.
fn looped(body: &str, turns: u32) -> Program {
    let mut s = String::from("bir 1\nprogram \"t\" lnc 2 level lowered\n");
    for c in 0..2 {
        s += &format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @a_set = Internal NeuronSBTensor Local uint8 [128 x 4096] {{ loc @a = SB [128, 4096] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local uint8 [128 x 4096] {{ loc @b = SB [128, 4096] addr 4096 allocated }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [128 x 512] {{ loc @p = PSUM [128, 2048] addr 0 allocated }}
    set @d_set = Internal Tensor Local uint8 [1048576] {{ loc @d = DRAM [1048576] addr 0 }}
    block b0 {{
      f = Memset DVE @a[[1024,128] [1,1024]] float32 {{mode = Const, constant = 1}}
      g = Memset DVE @b[[1024,128] [1,1024]] float32 {{mode = Const, constant = 1}}
      h = DMACopy SP @d[[1024,128] [1,1024]] float32 <- @a[[1024,128] [1,1024]] float32 after(f)
      l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{turns},\"stride\":1}}}} regions {{
        block b1 {{
{body}
        }}
      }}
    }}
  }}
}}
"
        );
    }
    text::parse(&s).unwrap_or_else(|e| panic!("{e:?}\n{s}"))
}

/// The sample kernels.
fn corpus() -> Vec<Program> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("testdata").map(|e| e.expect("entry").path()).collect();
    names.sort();
    let mut out = Vec::new();
    for n in names.iter().filter(|n| n.extension().is_some_and(|x| x == "klr")) {
        let file = tandem_klr::read_path(n).expect("a kernel").file;
        let load = |f: &str| std::fs::read(folder.join(f));
        let Some(mut p) = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load)).program else { continue };
        let opts = tandem_backend::PassOptions::for_program(&p);
        if !tandem_backend::lower(&mut p, &opts).failed {
            out.push(p);
        }
    }
    out
}

fn inputs(p: &Program) -> Vec<Tensor> {
    let r = Simulator::new(p, RunOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let wanted = r.wanted().iter();
    wanted.map(|w| random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size")).collect()
}

/// Time of one run; placing memory and loading inputs are not counted.
fn once(p: &Program, inputs: &[Tensor], timed: bool) -> Duration {
    let mut r = Simulator::new(p, RunOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
    r.set_inputs(inputs).unwrap_or_else(|e| panic!("{e:?}"));
    let start = Instant::now();
    let stop = if timed {
        let (o, t) = r.run_timed(&Params::default()).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(t.is_some());
        o.stop
    } else {
        r.run().stop
    };
    let took = start.elapsed();
    assert_eq!(stop, StopReason::Finished);
    took
}

fn main() {
    let swaps = "c = CoreBarrier Pool {id = 0, cores = [0, 1]}
s = GPSIMDSB2SB Pool @b[[1024,128] [1,64]] float32 <- @a[[1024,128] [1,64]] float32
e = CoreBarrier Pool {id = 1, cores = [0, 1]}
u = TensorCopy DVE @a[[1024,128] [1,64]] float32 <- @b[[1024,128] [1,64]] float32";
    let compute = "l0 = DMACopy SP @a[[1024,128] [1,512]] float32 <- @d[[1024,128] [1,512]] float32
m = Matmult PE @p[[512,128] [1,512]] float32 <- @a[[1024,128] [1,512]] float32, @b[[1024,128] [1,128]] float32 after(l0)
x = Activation Activation @b[[1024,128] [1,512]] float32 <- @p[[512,128] [1,512]] float32, 0.0 float32 {func = Exp, scale = 0.001} after(m)
y = TensorTensor DVE @a[[1024,128] [1,512]] float32 <- @a[[1024,128] [1,512]] float32, @b[[1024,128] [1,512]] float32 {op = add} after(x)
s0 = DMACopy SP @d[[1024,128] [1,512]] float32 <- @a[[1024,128] [1,512]] float32 after(y)";
    let mut cases: Vec<(&str, Vec<Program>, usize)> = vec![
        ("swap loop", vec![looped(swaps, 3000)], 7),
        ("compute", vec![looped(compute, 20)], 5),
        ("corpus", corpus(), 9),
    ];
    if let Ok(way) = std::env::var("TIMED") {
        let only = std::env::var("CASE").unwrap_or_default();
        for (name, programs, _) in cases.iter().filter(|c| c.0.contains(&only)) {
            for p in programs {
                println!("{name}: {:?}", once(p, &inputs(p), way == "1"));
            }
        }
        return;
    }
    for (name, programs, rounds) in &mut cases {
        let all: Vec<(&Program, Vec<Tensor>)> = programs.iter().map(|p| (p, inputs(p))).collect();
        let mut least = [Duration::MAX; 2];
        for _ in 0..*rounds {
            for (k, timed) in [false, true].into_iter().enumerate() {
                let took = all.iter().map(|(p, i)| once(p, i, timed)).sum();
                least[k] = least[k].min(took);
            }
        }
        let [plain, timed] = least;
        println!(
            "{name:<10} functional {plain:>12.3?}  timed {timed:>12.3?}  ratio {:.3}",
            timed.as_secs_f64() / plain.as_secs_f64()
        );
    }
}
