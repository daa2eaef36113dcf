//! Speed of single instructions and of the swap step: `cargo bench -p tandem-sim --bench exec`.
//!
//! Items are elements, of products operations (two per multiply-add, so that the rate is in FLOP/s), of the swap loop
//! steps of both cores; bytes are those read and written. `RAYON_NUM_THREADS=1` shows one thread.
//! `benches/peers.py` compares with numpy.

#![allow(missing_docs, reason = "a benchmark")]

#[path = "../tests/support/golden.rs"]
mod golden;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use golden::{Bench, Place, inst, view};
use tandem_bir::{
    ActivationFunctionType as Func, AluOp, Attr, AxisListType, Dtype, EngineAccumulationType as Cmd,
    EngineKind, Inst, Opcode,
};
use tandem_sim::exec::Arg;
use tandem_sim::{RunOptions, Simulator, StopReason};

fn main() {
    divan::main();
}

const P: usize = 128;
/// Columns of the element-wise families.
const F: usize = 4096;
/// Columns of a product.
const N: usize = 512;

fn setup() -> (Bench, Vec<Arg>, Vec<Arg>) {
    let mut b = Bench::hw();
    let x: Vec<f32> = (0..P * F).map(|i| ((i * 7919) % 1000) as f32 / 250.0 - 2.0).collect();
    let a = b.put_f32(&[P, F], &x);
    let c = b.put_f32(&[P, F], &x);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[P, F]);
    (b, vec![view(&a), view(&c)], vec![view(&dst)])
}

fn go(bencher: Bencher, items: usize, mut b: Bench, i: &Inst, ins: &[Arg], outs: &[Arg]) {
    let bytes: usize =
        ins.iter().chain(outs).map(|a| if let Arg::View(v) = a { v.num_bytes() } else { 0 }).sum();
    bencher.counter(ItemsCount::new(items)).counter(BytesCount::new(bytes)).bench_local(|| {
        b.notes.clear();
        black_box(b.run(i, ins, outs)).is_ok()
    });
}

#[divan::bench]
fn tensor_tensor_add(bencher: Bencher) {
    let (b, ins, outs) = setup();
    go(
        bencher,
        P * F,
        b,
        &inst(Opcode::TensorTensor, EngineKind::Dve).with(Attr::Op, AluOp::Add),
        &ins,
        &outs,
    );
}

#[divan::bench]
fn tensor_copy_f32(bencher: Bencher) {
    let (b, ins, outs) = setup();
    go(bencher, P * F, b, &inst(Opcode::TensorCopy, EngineKind::Dve), &ins[..1], &outs);
}

#[divan::bench(args = [Dtype::Bfloat16, Dtype::Float16, Dtype::Float8E4m3Fn, Dtype::Int32, Dtype::Uint8])]
fn cast_f32_to(bencher: Bencher, to: Dtype) {
    let (mut b, ins, _) = setup();
    let dst = b.place(Place::Sbuf, to, &[P, F]);
    go(bencher, P * F, b, &inst(Opcode::TensorCopy, EngineKind::Dve), &ins[..1], &[view(&dst)]);
}

#[divan::bench(args = [Func::Exp, Func::Tanh, Func::Gelu, Func::Silu, Func::Sin, Func::Sqrt, Func::Rsqrt, Func::Ln])]
fn activation(bencher: Bencher, f: Func) {
    let (b, ins, outs) = setup();
    let i = inst(Opcode::Activation, EngineKind::Activation).with(Attr::Func, f).with(Attr::Scale, 1.0f32);
    go(bencher, P * F, b, &i, &ins[..1], &outs);
}

#[divan::bench]
fn activation_accumulate(bencher: Bencher) {
    let (b, ins, outs) = setup();
    let i = inst(Opcode::Activation, EngineKind::Activation)
        .with(Attr::Func, Func::Square)
        .with(Attr::Scale, 1.0f32)
        .with(Attr::Acc, Cmd::ZeroAccumulate)
        .with(Attr::ReduceOp, AluOp::Add);
    go(bencher, P * F, b, &i, &ins[..1], &outs);
}

#[divan::bench(args = [AluOp::Add, AluOp::Max])]
fn tensor_reduce(bencher: Bencher, op: AluOp) {
    let (mut b, ins, _) = setup();
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[P, 1]);
    let i = inst(Opcode::TensorReduce, EngineKind::Dve).with(Attr::Op, op).with(Attr::Axis, AxisListType::X);
    go(bencher, P * F, b, &i, &ins[..1], &[view(&dst)]);
}

#[divan::bench]
fn strided_copy(bencher: Bencher) {
    let (b, ins, outs) = setup();
    let every_second = |a: &Arg| match a {
        Arg::View(v) => {
            let mut v = v.clone();
            v.dims[1].stride *= 2;
            v.dims[1].num /= 2;
            Arg::View(v)
        }
        other => other.clone(),
    };
    let (i, o) = (every_second(&ins[0]), every_second(&outs[0]));
    go(bencher, P * F / 2, b, &inst(Opcode::TensorCopy, EngineKind::Dve), &[i], &[o]);
}

#[divan::bench]
fn max8(bencher: Bencher) {
    let (mut b, ins, _) = setup();
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[P, 8]);
    go(bencher, P * F, b, &inst(Opcode::Max, EngineKind::Dve), &ins[..1], &[view(&dst)]);
}

#[divan::bench(args = [AluOp::Add, AluOp::Mult])]
fn scan(bencher: Bencher, op: AluOp) {
    let (mut b, ins, outs) = setup();
    let init = b.put_f32(&[P, 1], &[0.0; P]);
    let i = inst(Opcode::TensorScalarPtr, EngineKind::Dve)
        .with(Attr::Op0, op)
        .with(Attr::Op1, AluOp::Add)
        .with(Attr::Reverse0, false)
        .with(Attr::Reverse1, false)
        .with(Attr::IsTensorTensorScan, true);
    go(bencher, P * F, b, &i, &[ins[0].clone(), view(&init), ins[1].clone()], &outs);
}

/// Inputs of a product, in FLOP/s.
#[divan::bench(args = [Dtype::Float32, Dtype::Bfloat16])]
fn matmul_128x128x512(bencher: Bencher, dtype: Dtype) {
    let (mut b, ins, _) = setup();
    let cast = |b: &mut Bench, cols: usize| {
        let v = b.place(Place::Sbuf, dtype, &[P, cols]);
        let Arg::View(mut from) = ins[0].clone() else { unreachable!("a view") };
        from.dims[1].num = cols;
        let copy = inst(Opcode::TensorCopy, EngineKind::Dve);
        assert!(b.run(&copy, &[Arg::View(from)], &[view(&v)]).is_ok());
        view(&v)
    };
    let (x, w) = (cast(&mut b, N), cast(&mut b, P));
    let dst = b.place(Place::Psum, Dtype::Float32, &[P, N]);
    go(bencher, 2 * P * P * N, b, &inst(Opcode::Matmult, EngineKind::Pe), &[x, w], &[view(&dst)]);
}

#[divan::bench]
fn select(bencher: Bencher) {
    let (mut b, ins, outs) = setup();
    let mask = b.place(Place::Sbuf, Dtype::Uint8, &[P, F]);
    let i = inst(Opcode::CopyPredicated, EngineKind::Dve);
    go(bencher, P * F, b, &i, &[view(&mask), ins[0].clone(), ins[1].clone()], &outs);
}

/// Turns of the swap loop of a run.
const TURNS: usize = 500;

/// Both cores swap [128 x 64] f32, add and scale; checks on.
#[divan::bench]
fn swap_loop(bencher: Bencher) {
    let core = |c: usize| {
        let other = 1 - c;
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @f {{
    set @a_set = Internal NeuronSBTensor Local float32 [128 x 64] {{ loc @a = SB [128, 256] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local float32 [128 x 64] {{ loc @b = SB [128, 256] addr 256 allocated }}
    block main {{
      f = Memset DVE @a[[64,128] [1,64]] float32 {{mode = Const, constant = 1}}
      l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{TURNS},\"stride\":1}}}} regions {{
        block turn {{
          s = CollectiveCompute Unassigned @b[[64,128] [1,64]] float32 <- @a[[64,128] [1,64]] float32 {{kind = SendRecv, is_local = true, recv_from_rank = [{other}], send_to_rank = {other}}}
          t = TensorTensor DVE @a[[64,128] [1,64]] float32 <- @a[[64,128] [1,64]] float32, @b[[64,128] [1,64]] float32 {{op = add}}
          m = TensorScalar DVE @a[[64,128] [1,64]] float32 <- @a[[64,128] [1,64]] float32 {{op0 = mult, const0 = 0.5, op1 = bypass, const1 = 0.0}}
        }}
      }}
    }}
  }}
}}
"
        )
    };
    let text = format!("bir 1\nprogram \"s\" lnc 2 level bir\n{}{}", core(0), core(1));
    let mut p = tandem_bir::text::parse(&text).unwrap_or_else(|e| panic!("{e:?}"));
    let opts = tandem_backend::PassOptions::for_program(&p);
    assert!(!tandem_backend::lower(&mut p, &opts).failed);
    bencher.counter(ItemsCount::new(TURNS)).bench_local(|| {
        let ready = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(ready.run().stop, StopReason::Finished);
    });
}
