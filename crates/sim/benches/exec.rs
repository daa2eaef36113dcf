//! Speed of single instructions: `cargo bench -p tandem-sim --bench exec`.

#![allow(missing_docs, reason = "a benchmark")]

#[path = "../tests/support/golden.rs"]
mod golden;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use golden::{Bench, Place, inst, view};
use tandem_bir::{
    ActivationFunctionType as Func, AluOp, Attr, AxisListType, Dtype, EngineAccumulationType as Cmd,
    EngineKind, Inst, Opcode,
};
use tandem_sim::exec::Arg;

fn main() {
    divan::main();
}

const P: usize = 128;
const F: usize = 512;

fn setup() -> (Bench, Vec<Arg>, Vec<Arg>) {
    let mut b = Bench::hw();
    let x: Vec<f32> = (0..P * F).map(|i| ((i * 7919) % 1000) as f32 / 250.0 - 2.0).collect();
    let a = b.put_f32(&[P, F], &x);
    let c = b.put_f32(&[P, F], &x);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[P, F]);
    (b, vec![view(&a), view(&c)], vec![view(&dst)])
}

fn go(bencher: Bencher, items: usize, mut b: Bench, i: &Inst, ins: &[Arg], outs: &[Arg]) {
    bencher.counter(ItemsCount::new(items)).bench_local(|| {
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

/// Multiply-adds per second.
#[divan::bench]
fn matmul_128x128x512(bencher: Bencher) {
    let (mut b, ins, _) = setup();
    let s = b.put_f32(&[P, P], &vec![0.5; P * P]);
    let dst = b.place(Place::Psum, Dtype::Float32, &[P, F]);
    go(
        bencher,
        P * P * F,
        b,
        &inst(Opcode::Matmult, EngineKind::Pe),
        &[ins[0].clone(), view(&s)],
        &[view(&dst)],
    );
}
