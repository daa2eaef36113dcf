//! Cores that compute side by side give what one core after the other gives: the same bytes, findings in the same order, counts, prints,
//! predicted times and trace events, on any number of threads, at levels bir, lowered, linked and bundles, under every schedule. The programs are
//! the sample kernels, generated programs of swaps and barriers, and random programs made for what could go wrong: loops, run-time
//! addresses, registers, races, undefined bytes, faults, accumulation in PSUM, tensors that both cores touch. `PROGRAMS` sets
//! their number.

#![allow(clippy::print_stdout, reason = "what was tried is part of the result")]

mod generated;
#[path = "support/rng.rs"]
mod rng;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/timed.rs"]
mod timed;

use rayon::ThreadPool;
use rng::Rng;
use samples::{kernel, names, show};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::{Dtype, Level, Program, text};
use tandem_sim::random::{SplitMix64, random_tensor};
use tandem_sim::timing::Params;
use tandem_sim::{Outcome, Ready, RunOptions, Schedule, Simulator, Tensor};
use timed::Events;

/// A program at one of the levels.
enum At<'p> {
    Program(&'p Program),
    Linked(&'p LinkedProgram),
}

/// All that a run shows.
#[derive(PartialEq)]
struct Seen {
    bytes: Vec<Tensor>,
    rest: String,
}

struct Bench {
    pools: [ThreadPool; 3],
    put_off: u64,
    runs: u64,
    stops: BTreeMap<String, u64>,
    codes: BTreeMap<String, u64>,
}

impl Bench {
    fn new() -> Bench {
        let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads");
        Bench {
            pools: [pool(1), pool(2), pool(3)],
            put_off: 0,
            runs: 0,
            stops: BTreeMap::new(),
            codes: BTreeMap::new(),
        }
    }

    fn run(&mut self, at: &At<'_>, ins: &[Tensor], opts: RunOptions, timed: bool, pool: usize) -> Seen {
        let go = || -> Result<(Outcome, String), String> {
            let ready: Result<Ready<'_>, _> = match at {
                At::Program(p) => Simulator::new(p, opts),
                At::Linked(l) => Simulator::linked(l, opts),
            };
            let mut ready = ready.map_err(|e| show(&e))?;
            ready.set_inputs(ins).map_err(|e| show(&e))?;
            if !timed {
                return Ok((ready.run(), String::new()));
            }
            let mut events = Events::default();
            let (o, t) = ready.run_traced(&Params::default(), &mut events).map_err(|e| show(&e))?;
            Ok((o, format!("{t:?} {events:?}")))
        };
        let (o, time) = match self.pools[pool].install(go) {
            Ok(done) => done,
            Err(rest) => return Seen { bytes: Vec::new(), rest },
        };
        self.put_off += o.put_off;
        self.runs += 1;
        *self.stops.entry(format!("{:?}", o.stop)).or_default() += 1;
        for d in &o.diagnostics {
            *self.codes.entry(d.code.info().id.to_owned()).or_default() += 1;
        }
        let mut rest = format!(
            "{:?} after {} steps, {} records, by value {}\n{:?}\n{:?}\n{time}\n{}",
            o.stop,
            o.steps,
            o.race_records,
            o.carried_by_value,
            o.wait_for,
            o.prints,
            show(&o.diagnostics)
        );
        for c in &o.stats.executed {
            let _ = write!(rest, "{c:?}");
        }
        Seen { bytes: o.outputs, rest }
    }

    /// Runs a program one way and the others.
    fn agree(&mut self, what: &str, at: &At<'_>, ins: &[Tensor], schedules: &[Schedule]) {
        let timing = match at {
            At::Program(p) => p.level == Level::Lowered,
            At::Linked(_) => true,
        };
        for (k, &schedule) in schedules.iter().enumerate() {
            let timed = timing && k == 0;
            let opts = |side_by_side, equal_writes| RunOptions {
                schedule,
                side_by_side,
                equal_writes,
                step_limit: 20_000,
                ..RunOptions::default()
            };
            let ways: &[(bool, &[(u64, usize)])] = match k {
                0 => &[(false, &[(0, 0), (0, 1), (0, 2), (600, 1)]), (true, &[(0, 1)])],
                _ => &[(false, &[(0, 0), (0, 1)])],
            };
            for &(equal, others) in ways {
                let want = self.run(at, ins, opts(u64::MAX, equal), timed, 0);
                for &(from, pool) in others {
                    let got = self.run(at, ins, opts(from, equal), timed, pool);
                    let how = format!("{what} {schedule:?}, from {from} on {} threads", pool + 1);
                    assert!(got.rest == want.rest, "{how}:\n{}\ninstead of\n{}", got.rest, want.rest);
                    assert!(got.bytes == want.bytes, "{how}: other bytes\n{}", got.rest);
                }
            }
        }
    }

    /// The same at all levels that the program reaches.
    fn levels(
        &mut self,
        what: &str,
        bir: &Program,
        low: Option<&Program>,
        ins: &[Tensor],
        all: &[Schedule],
    ) -> bool {
        self.agree(&format!("{what} bir"), &At::Program(bir), ins, all);
        let Some(low) = low else { return false };
        self.agree(&format!("{what} lowered"), &At::Program(low), ins, all);
        let Ok((l, _)) = link(low, LinkOptions::default()) else { return false };
        self.agree(&format!("{what} linked"), &At::Linked(&l), ins, all);
        let Ok((bytes, _)) = encode(&l, WriteOptions::default()) else { return false };
        let d = decode(&bytes).unwrap_or_else(|e| panic!("{what}: {}", show(&[e])));
        self.agree(&format!("{what} bundles"), &At::Linked(&d), ins, all);
        true
    }
}

fn inputs(p: &Program, seed: u64) -> Vec<Tensor> {
    let one = |w: &tandem_bir::Port| random_tensor(seed, &w.name, w.dtype, &w.shape, 1 << 30).expect("size");
    p.signature.inputs.iter().map(one).collect()
}

fn count(default: u64) -> u64 {
    std::env::var("PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[test]
fn sample_kernels() {
    let mut b = Bench::new();
    for name in names() {
        let (bir, low) = (kernel(&name, Level::Bir), kernel(&name, Level::Lowered));
        let mut ins = inputs(&bir, 11);
        let all = [Schedule::Eager, Schedule::Late, Schedule::Seed(7)];
        assert!(b.levels(&name, &bir, Some(&low), &ins, &all), "{name} reaches all levels");
        // Values for which instructions leave notes.
        for t in &mut ins {
            if t.dtype == Dtype::Float32 {
                t.bytes
                    .as_chunks_mut::<4>()
                    .0
                    .iter_mut()
                    .step_by(5)
                    .for_each(|c| *c = f32::MAX.to_le_bytes());
            }
        }
        b.agree(&format!("{name} large"), &At::Program(&low), &ins, &all);
    }
    println!("{} runs, {} instructions put off; {:?} {:?}", b.runs, b.put_off, b.stops, b.codes);
    assert!(b.put_off > 3_000, "{} instructions put off", b.put_off);
}

#[test]
fn generated_programs() {
    let mut b = Bench::new();
    for seed in 0..count(if cfg!(debug_assertions) { 20 } else { 100 }) {
        let base = generated::program(seed);
        let opts = tandem_backend::PassOptions::for_program(&base);
        let (mut bir, mut low) = (base.clone(), base);
        assert!(!tandem_backend::prepare(&mut bir, &opts).failed);
        assert!(!tandem_backend::lower(&mut low, &opts).failed);
        let all = [Schedule::Eager, Schedule::Late, Schedule::Seed(seed)];
        assert!(b.levels(&format!("{seed}"), &bir, Some(&low), &inputs(&bir, seed), &all));
    }
    println!("{} runs, {} instructions put off; {:?} {:?}", b.runs, b.put_off, b.stops, b.codes);
}

// --- random programs --------------------------------------------------------------------------------------------------

/// Rows and columns of a tile.
const R: usize = 32;

/// Instructions that compute. `T`: an fp32 tile, `H`: bf16, `M`: bytes, `I`: int32, `S`: one value per partition, `P`: PSUM.
const USUAL: &[&str] = &[
    "TensorTensor DVE T <- T, T {op = add}",
    "TensorTensor DVE T <- T, T {op = max}",
    "TensorTensor Pool H <- T, H {op = mult}",
    "TensorTensor DVE M <- T, T {op = is_gt}",
    "TensorTensor Pool I <- I, I {op = add}",
    "TensorTensor DVE I <- I, I {op = bitwise_and}",
    "TensorTensor DVE T <- T, P {op = subtract}",
    "TensorTensor DVE T <- T, T {op = add, acc = ZeroAccumulate}",
    "TensorScalar DVE T <- T {op0 = mult, const0 = 0.5, op1 = add, const1 = 0.25}",
    "TensorScalar DVE I <- I {op0 = bitwise_and, const0 = 7, op1 = bypass, const1 = 0}",
    "TensorScalarPtr DVE T <- T, S {op0 = mult, op1 = bypass, reverse0 = false, reverse1 = false}",
    "TensorScalarPtr DVE T <- T, S, T {op0 = subtract, op1 = mult, reverse0 = true, reverse1 = false, is_scalar_tensor_tensor = true}",
    "TensorCopy DVE T <- T",
    "TensorCopy Pool H <- T",
    "TensorCopy DVE T <- P",
    "TensorCopy Activation P <- T",
    "TensorCopy DVE @t0[off 1, [32,32] [1,31]] float32 <- @t0[[32,32] [1,31]] float32",
    "TensorCopy DVE @t1[[32,32] [2,16]] float32 <- @t0[[32,32] [1,16]] float32",
    "Reciprocal DVE T <- T",
    "Activation Activation T <- T, 0.0 float32 {func = Tanh, scale = 1.0, alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}",
    "Activation Activation H <- P, S {func = Exp, scale = 0.1, alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}",
    "Activation Activation T <- T, 0.0 float32 {func = Ln, scale = 1.0, alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}",
    "Activation Activation T <- T, 0.0 float32 {func = Sqrt, scale = 1e30, alpha = 0.0, acc = ZeroAccumulate, op0 = mult, op1 = add, reduce_op = add}",
    "Activation Activation T, S <- T, 0.0 float32 {func = Square, scale = 1.0, alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}",
    "TensorReduce DVE S <- T {op = add, axis = A}",
    "TensorReduce DVE S <- T {op = max, axis = A}",
    "Memset DVE T {mode = Const, constant = 1065353216}",
    "Memset Pool S {mode = Const, constant = 0}",
    "TensorScalarAffineSelect Pool T <- T {compare_op = is_ge, base = -9, channel_multiplier = 1, pattern = [[1,32]], fill_value = 0.5}",
    "CopyPredicated DVE T <- T, M",
    "CopyPredicated DVE T <- M, T, T",
    "CopyPredicated DVE T <- M, T, S",
    "Matmult PE P <- T, T {accumulation_flag = 3}",
    "Matmult PE P <- H, H {accumulation_flag = 1}",
    "Matmult PE @p0[[32,32] [1,32]] float32 <- T, T {accumulation_flag = 1}; Matmult PE @p0[[32,32] [1,32]] float32 <- T, T {accumulation_flag = 6}",
    "Matmult PE @p1[[32,32] [1,32]] float32 <- T, T {accumulation_flag = 1}; TensorScalar DVE T <- T {op0 = mult, const0 = 0.5, op1 = bypass, const1 = 0.0}; Matmult PE @p1[[32,32] [1,32]] float32 <- H, H {accumulation_flag = 4}; Matmult PE @p1[[32,32] [1,32]] float32 <- T, T {accumulation_flag = 6}",
    "Matmult PE P <- H, H",
    "Matmult PE P <- T, T {is_transpose = true}",
    "Rng DVE I",
    "Dropout DVE T <- T, 0.25 float32 {is_keep_threshold = false}",
    "Pool Pool @t0[[32,32] [1,8]] float32 <- @t1[[32,32] [4,8] [2,2] [1,2]] float32 {func = Avg}",
    "BNStats DVE @t3[[32,32] [1,6]] float32 <- T",
    "StreamTranspose DVE T <- T",
    "Max DVE @t3[[32,32] [1,8]] float32 <- T",
    "MaxIndex DVE @i1[[32,32] [1,8]] int32 <- T, @t3[[32,32] [1,8]] float32",
    "TensorReduce DVE @t3[[32,1] [1,32]] float32 <- T {op = add, axis = C}",
    "TensorScalarPtr DVE T, S <- T, S {op0 = mult, op1 = add, reverse0 = false, reverse1 = false}",
    "TensorScalarPtr DVE T <- T, 0.5 float32, T {op0 = mult, op1 = add, reverse0 = false, reverse1 = false, is_tensor_tensor_scan = true}",
    "Iota Pool I {base = 3, channel_multiplier = 2, pattern = [[1,32]]}",
    "DMACopy SP T <- T",
    "DMACopy Activation H <- T",
    "DMACopy SP T <- D",
    "DMACopy SP D <- T",
    "DMACopy Pool T <- X",
    "DMACopy SP T <- W",
    "DMACopy SP W <- T",
    "DMACopy Pool O <- T",
    "TensorLoad ALL $r int32 <- @i0[[32,1] [1,1]] int32",
    "RegisterAlu ALL $q int32 <- $q int32, 1 int32 {op = add}",
    "TensorSave ALL @i0[off 1, [32,1] [1,1]] int32 <- $q int32",
    "TensorCopy DVE @t2[[32,32] [1,8], dyn(1*$n) dim 0] float32 <- @t3[[32,32] [1,8], dyn(2*$n) dim 0] float32",
    "TensorScalar DVE @t2[[32,32] [1,8], dyn(3*$n) dim 0] float32 <- @t2[[32,32] [1,8], dyn(3*$n) dim 0] float32 {op0 = add, const0 = 1.5, op1 = bypass, const1 = 0.0}",
    "DMACopy SP @w[[64,32] [1,32], dyn(64*$n) dim 0] float32 <- T",
    "DevicePrint Pool <- T {prefix = \"t\"}",
];

/// Instructions that fault, or may.
const ODD: &[&str] = &[
    "TensorTensor DVE T <- T, T {op = bitwise_and}",
    "TensorTensor DVE T <- T, S {op = add}",
    "TensorTensor DVE T <- T, T {op = add, acc = Accumulate}",
    "TensorTensor DVE T <- T, T {op = rsqrt}",
    "TensorTensor DVE T <- T, T {op = average}",
    "TensorScalar DVE T <- T {op0 = bitwise_not, const0 = 0.5, op1 = add, const1 = 0.25}",
    "TensorScalar DVE T <- T {op0 = average, const0 = 0.5, op1 = bypass, const1 = 0.25}",
    "TensorScalarPtr DVE T <- T, @t0[[32,32] [1,2]] float32 {op0 = mult, op1 = bypass, reverse0 = false, reverse1 = false}",
    "TensorScalarPtr DVE T <- T, S {op0 = mult, op1 = add, reverse0 = false, reverse1 = false}",
    "TensorScalarPtr DVE T <- T, $z float32 {op0 = mult, op1 = bypass, reverse0 = false, reverse1 = false}",
    "Activation Activation T <- T, 0.0 float32 {func = Unknown, scale = 1.0, alpha = 0.0, acc = Idle, op0 = mult, op1 = add, reduce_op = add}",
    "Activation Activation T <- T, 0.0 float32 {func = Exp, scale = 1.0, alpha = 0.0, acc = Accumulate, op0 = mult, op1 = add, reduce_op = add}",
    "Activation Activation T <- T, 0.0 float32 {func = Exp, scale = 1.0, alpha = 0.0, acc = ZeroAccumulate, op0 = mult, op1 = add, reduce_op = max}",
    "ReadActivationAccumulator Activation S",
    "TensorReduce DVE S <- T {op = bitwise_or, axis = A}",
    "TensorReduce DVE S <- T {op = add, axis = XYZW}",
    "TensorReduce DVE T <- T {op = add, axis = A}",
    "TensorReduce DVE S <- T {op = divide, axis = A}",
    "Select DVE T <- T, T, T",
    "Matmult PE P <- T, T {accumulation_flag = 6}",
    "Matmult PE @p0[[32,32] [1,32]] float32 <- T, T {accumulation_flag = 1}; TensorCopy DVE @p0[[32,32] [2,16]] float32 <- @t0[[32,32] [1,16]] float32; Matmult PE @p0[[32,32] [1,32]] float32 <- T, T {accumulation_flag = 6}",
    "Matmult PE P <- T, H {accumulation_flag = 3}",
    "Matmult PE P <- @t0[[32,16] [1,32]] float32, T {accumulation_flag = 3}",
    "Matmult PE @p0[[32,16] [1,32]] float32 <- T, T {accumulation_flag = 3}",
    "Matmult PE P <- @t0[[32,16] [1,32]] float32, T {is_transpose = true}",
    "Matmult PE P <- I, T {accumulation_flag = 3}",
    "Matmult PE I <- T, T {accumulation_flag = 3}",
    "TensorCopy DVE T <- S",
    "DMACopy SP T <- @t0[[32,16] [1,32]] float32",
    "TensorScalarAffineSelect Pool T <- T {compare_op = add, base = -9, channel_multiplier = 1, pattern = [[1,32]], fill_value = 0.5}",
    "TensorScalarAffineSelect Pool T <- T {compare_op = is_ge, base = -9, channel_multiplier = 1, pattern = [[1,31]], fill_value = 0.5}",
    "CopyPredicated DVE T <- T, S",
    "CopyPredicated DVE T <- M, T, @t0[[32,32] [1,2]] float32",
    "TensorCopy DVE @t2[[32,32] [1,8], dyn(8*$n) dim 0] float32 <- @t3[[32,32] [1,8]] float32",
    "TensorCopy DVE @t2[[32,32] [1,8], dyn(1*$z) dim 0] float32 <- @t3[[32,32] [1,8]] float32",
];

/// A line with its tiles chosen.
fn fill(r: &mut Rng, core: usize, line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    let whole = format!("[[{R},{R}] [1,{R}]]");
    while let Some(at) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let (before, from) = rest.split_at(at);
        out += before;
        let n = from.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(from.len());
        let (word, after) = from.split_at(n);
        rest = after;
        // Rows of a shared tensor: usually one's own, now and then all the same; or every other column.
        let own = if r.one_in(12) { 0 } else { core };
        let (rows, cols) = (r.below(2) as usize, r.below(2) as usize);
        let k = r.below(4);
        out += &match word {
            "T" => format!("@t{k}{whole} float32"),
            "H" => format!("@h{}{whole} bfloat16", k % 2),
            "M" => format!("@m0{whole} uint8"),
            "I" => format!("@i{}{whole} int32", k % 2),
            "S" => format!("@s{}[[1,{R}] [1,1]] float32", k % 2),
            "P" => format!("@p{}{whole} float32", k % 2),
            "A" if before.ends_with("axis = ") => "X".to_owned(),
            "D" => format!("@d[off {}, [32,32] [1,32]] float32", 32 * 32 * rows),
            "X" => format!("@x[off {}, [64,32] [1,32]] float32", 64 * 32 * rows + 32 * cols),
            // Read and written by both: halves of rows, or of columns.
            "W" if r.one_in(2) => format!("@w[off {}, [64,32] [2,32]] float32", own + 64 * 32 * rows),
            "W" => format!("@w[off {}, [64,32] [1,32]] float32", 64 * 32 * rows + 32 * own),
            "O" => format!("@out[off {}, [64,32] [1,32]] float32", 64 * 32 * own + 32 * cols),
            other => other.to_owned(),
        };
    }
    out + rest
}

/// A program of two cores: what each loads, a loop, what comes after it. Meetings are the same on both.
fn random_program(seed: u64) -> String {
    let mut r = Rng(SplitMix64(seed));
    let looped = !r.one_in(3);
    let turns = 1 + r.below(4);
    let odd = r.one_in(4).then(|| r.below(2) as usize);
    let parts: Vec<u64> = (0..1 + r.below(3)).map(|_| r.below(5)).collect();
    let undefined = r.one_in(4);
    let mut out = format!(
        "bir 1\nprogram \"s\" lnc 2 level bir\ninput \"x\" = @x float32 [{0} x {0}]\noutput \"out\" = @out float32 [{0} x {0}]\n",
        2 * R
    );
    for core in 0..2usize {
        let sb = |name: &str, t: &str, cols: usize, size: usize, at: &mut usize| {
            let s = format!(
                "set @{name}_set = Internal NeuronSBTensor Local {t} [{R} x {cols}] {{ loc @{name} = SB [{R}, {}] addr {at} allocated }}\n",
                cols * size
            );
            *at += (cols * size).next_multiple_of(64);
            s
        };
        let mut at = 0;
        let mut sets = String::new();
        for k in 0..4 {
            sets += &sb(&format!("t{k}"), "float32", R, 4, &mut at);
        }
        for k in 0..2 {
            sets += &sb(&format!("h{k}"), "bfloat16", R, 2, &mut at);
            sets += &sb(&format!("i{k}"), "int32", R, 4, &mut at);
            sets += &sb(&format!("s{k}"), "float32", 1, 4, &mut at);
            let _ = writeln!(
                sets,
                "set @p{k}_set = Internal NeuronPSUMTensor Local float32 [{R} x {R}] {{ loc @p{k} = PSUM [{R}, {}] addr {} allocated }}",
                4 * R,
                4 * R * k
            );
        }
        sets += &sb("m0", "uint8", R, 1, &mut at);
        let big = format!("[{0} x {0}]", 2 * R);
        let dram = format!("DRAM [{}, {}]", 2 * R, 8 * R);
        let _ = write!(
            sets,
            "set @x_set = ExternalInput Tensor Shared float32 {big} {{ loc @x = {dram} }}\n\
             set @out_set = ExternalOutput Tensor Shared float32 {big} {{ loc @out = {dram} }}\n\
             set @w_set = Internal Tensor Shared float32 {big} {{ loc @w = {dram} addr 0 allocated }}\n\
             set @d_set = Internal Tensor Local float32 {big} {{ loc @d = {dram} addr 65536 allocated }}\n\
             reg $n = ALL\nreg $q = ALL\nreg $r = ALL\nreg $z = ALL\n"
        );
        let mut lines: Vec<String> = Vec::new();
        for (k, what) in ["T", "T", "H", "T", "W", "D"].iter().enumerate() {
            if undefined && r.one_in(3) {
                continue;
            }
            // Each tile once, so that most of what is read is there.
            let to = match *what {
                "T" => format!("@t{}[[{R},{R}] [1,{R}]] float32", [0, 1, 0, 2][k.min(3)]),
                other => other.to_owned(),
            };
            lines.push(fill(&mut r, core, &format!("DMACopy SP {to} <- X")));
        }
        for name in ["t3", "h1", "m0", "p0", "p1", "i0", "i1", "s0", "s1"] {
            if undefined && r.one_in(6) {
                continue;
            }
            let (t, cols) = match &name[..1] {
                "h" => ("bfloat16", R),
                "m" => ("uint8", R),
                "i" => ("int32", R),
                "s" => ("float32", 1),
                _ => ("float32", R),
            };
            let c = if t == "float32" || t == "bfloat16" { 1_056_964_608 } else { 1 };
            lines.push(format!(
                "Memset DVE @{name}[[{cols},{R}] [1,{cols}]] {t} {{mode = Const, constant = {c}}}"
            ));
        }
        for reg in ["n", "q", "r"] {
            lines.push(format!("RegisterMove ALL ${reg} int32 <- {} int32", r.below(3)));
        }
        let mut inside: Vec<String> = Vec::new();
        for (k, meeting) in parts.iter().enumerate() {
            for _ in 0..2 + r.below(6) {
                let line = r.pick(USUAL);
                inside.extend(line.split("; ").map(|l| fill(&mut r, core, l)));
            }
            if odd == Some(core) && k == 0 {
                let line = r.pick(ODD);
                inside.extend(line.split("; ").map(|l| fill(&mut r, core, l)));
            }
            let whole = format!("[[{R},{R}] [1,{R}]] float32");
            match meeting {
                0 => inside.push("CoreBarrier Pool {cores = [0, 1]}".to_owned()),
                1 => inside.push(format!(
                    "CollectiveCompute Pool @t{k}{whole} <- @t{}{whole} {{kind = SendRecv, is_local = true, recv_from_rank = [{o}], send_to_rank = {o}}}",
                    k + 1,
                    o = 1 - core
                )),
                _ => {}
            }
        }
        let name = |lines: &[String], mark: &str| -> String {
            lines.iter().enumerate().map(|(k, l)| format!("{mark}{k} = {l}\n")).collect()
        };
        let mut after: Vec<String> = Vec::new();
        for _ in 0..r.below(4) {
            let line = r.pick(USUAL);
            after.extend(line.split("; ").map(|l| fill(&mut r, core, l)));
        }
        for _ in 0..1 + r.below(2) {
            after.push(fill(&mut r, core, "DMACopy SP O <- T"));
        }
        let mut block = name(&lines, "a");
        if looped {
            let _ = write!(
                block,
                "l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{turns},\"stride\":1}}}} regions {{\n block b1 {{\n{} }}\n}}\n",
                name(&inside, "b").replace("$n)", "axis(k))")
            );
        } else {
            block += &name(&inside, "b");
        }
        block += &name(&after, "c");
        let _ = write!(
            out,
            "module @nc0{core} core {core} arch gen3 {{\n func @f {{\n{sets} block main {{\n{block} }}\n }}\n}}\n"
        );
    }
    out
}

#[test]
fn random_programs() {
    let mut b = Bench::new();
    let (mut linked, mut lowered, mut raced) = (0, 0, 0);
    let n = count(if cfg!(debug_assertions) { 30 } else { 200 });
    let first: u64 = std::env::var("FIRST").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    for seed in first..first + n {
        let source = random_program(seed);
        let base = text::parse(&source).unwrap_or_else(|e| panic!("{}\n{source}", show(&e)));
        let opts = tandem_backend::PassOptions::for_program(&base);
        let (mut bir, mut low) = (base.clone(), base);
        let o = tandem_backend::prepare(&mut bir, &opts);
        assert!(!o.failed, "{seed}: {}\n{source}", show(&o.diags));
        let ok = !tandem_backend::lower(&mut low, &opts).failed;
        lowered += u64::from(ok);
        let ins = inputs(&bir, seed);
        let all = [Schedule::Eager, Schedule::Late, Schedule::Seed(seed)];
        linked += u64::from(b.levels(&format!("{seed}\n{source}\n"), &bir, ok.then_some(&low), &ins, &all));
        // Races inside a core: some of the order that the passes found is gone.
        if ok {
            let mut r = SplitMix64(seed);
            let insts = low.modules.iter_mut().flat_map(|m| m.insts.values_mut());
            insts.for_each(|i| i.deps.retain(|_| r.below(3) != 0));
            raced += 1;
            b.agree(&format!("{seed} with edges gone\n{source}\n"), &At::Program(&low), &ins, &all);
        }
    }
    println!(
        "{n} programs, {lowered} lowered, {linked} linked, {raced} with edges gone; {} runs, {} instructions put off; {:?} {:?}",
        b.runs, b.put_off, b.stops, b.codes
    );
    assert!(b.put_off > 20 * n, "{} instructions put off", b.put_off);
}
