//! One test per row of the numeric profile that instructions read; each shows both answers.
//!
//! The rows `sb2sb_int32`, `kind8`, `allreduce_multiworker` and `uninit` are read by the machine; `collectives.rs` tests them.

#[path = "support/golden.rs"]
mod golden;

use golden::{Bench, Place, inst, view};
use tandem_bir::arch::ArchLevel;
use tandem_bir::{
    AluOp, Attr, AxisListType, CopyMode, Dtype, EngineAccumulationType as Cmd, EngineKind, Expr, Immediate,
    Inst, MatmultPerfMode, Opcode, RandomDistributionKind, RegId, TscMode,
};
use tandem_sim::exec::Arg;
use tandem_sim::numeric_profile::*;

fn both(f: impl Fn(NumericProfile) -> Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    (f(NumericProfile::hw()), f(NumericProfile::birsim()))
}

/// A TensorCopy of one row.
fn cast(p: NumericProfile, to: Dtype, x: &[f32]) -> Vec<u8> {
    let mut b = Bench::new(p, ArchLevel::Gen3);
    let src = b.put_f32(&[1, x.len()], x);
    let dst = b.place(Place::Sbuf, to, &[1, x.len() / if to == Dtype::Float4E2m1FnX4 { 4 } else { 1 }]);
    b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&src)], &[view(&dst)]).unwrap();
    b.get(&dst)
}

#[test]
fn fp8_tiny() {
    // Three quarters of the smallest subnormal: up to it, or to zero.
    let x = [0.75 * 2f32.powi(-9), -0.75 * 2f32.powi(-9)];
    assert_eq!(both(|p| cast(p, Dtype::Float8E4m3Fn, &x)), (vec![0x01, 0x81], vec![0x00, 0x80]));
    let y = [0.75 * 2f32.powi(-16)];
    assert_eq!(both(|p| cast(p, Dtype::Float8E5, &y)), (vec![0x01], vec![0x00]));
}

#[test]
fn fp8_accum_saturate() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put(Dtype::Float8E5, &[1, 1], &[0x7B]);
        let dst = b.put(Dtype::Float8E5, &[1, 1], &[0x7B]);
        b.run(
            &inst(Opcode::DmaCopy, EngineKind::Dma).with(Attr::CceOp, AluOp::Add),
            &[view(&src)],
            &[view(&dst)],
        )
        .unwrap();
        b.get(&dst)
    };
    assert_eq!(both(run), (vec![0x7B], vec![0x7C]));
}

#[test]
fn dma_accum_minmax() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_f32(&[1, 3], &[5.0, f32::NAN, 2.0]);
        let dst = b.put_f32(&[1, 3], &[4.0, 7.0, 9.0]);
        let i = inst(Opcode::DmaCopy, EngineKind::Dma).with(Attr::CceOp, AluOp::Max);
        b.run(&i, &[view(&src)], &[view(&dst)]).map(|()| b.get_f32(&dst))
    };
    assert_eq!(run(NumericProfile::hw()).unwrap(), [5.0, 7.0, 9.0]);
    let f = run(NumericProfile::birsim()).unwrap_err();
    assert!(f.notes[0].contains("1465"), "{f:?}");
}

#[test]
fn int_reduce() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_i32(&[1, 2], &[16_777_217, 2]);
        let dst = b.place(Place::Sbuf, Dtype::Int32, &[1, 1]);
        let i = inst(Opcode::TensorReduce, EngineKind::Dve)
            .with(Attr::Op, AluOp::Add)
            .with(Attr::Axis, AxisListType::X);
        b.run(&i, &[view(&src)], &[view(&dst)]).unwrap();
        b.get_i32(&dst)
    };
    // In fp32 the first operand is already 16777216.
    assert_eq!(
        (run(NumericProfile::hw()), run(NumericProfile::birsim())),
        (vec![16_777_218], vec![16_777_219])
    );
}

fn cumulative(p: NumericProfile, op: AluOp, x: &[f32]) -> Vec<f32> {
    let mut b = Bench::new(p, ArchLevel::Gen3);
    let src = b.put_f32(&[1, x.len()], x);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, x.len()]);
    let i = inst(Opcode::TensorScalarCache, EngineKind::Dve)
        .with(Attr::Op0, AluOp::Add)
        .with(Attr::Op1, op)
        .with(Attr::Mode, TscMode::Cumulative)
        .with(Attr::Acc, Cmd::ZeroAccumulate);
    b.run(&i, &[view(&src), Arg::Imm(Immediate::f32(0.0))], &[view(&dst)]).unwrap();
    b.get_f32(&dst)
}

#[test]
fn acc_identity() {
    let x = [-3.0, -1.0, -2.0];
    assert_eq!(cumulative(NumericProfile::hw(), AluOp::Max, &x), [-3.0, -1.0, -1.0]);
    assert_eq!(cumulative(NumericProfile::birsim(), AluOp::Max, &x), [0.0, 0.0, 0.0]);
}

#[test]
fn range_select_fill_overflow() {
    let run = |p, to| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_f32(&[1, 2], &[1.0, 1.0]);
        let (lo, hi) = (b.put_f32(&[1, 1], &[0.0]), b.put_f32(&[1, 1], &[1.0]));
        let dst = b.place(Place::Sbuf, to, &[1, 2]);
        let i = inst(Opcode::RangeSelect, EngineKind::Dve)
            .with(Attr::CompareOp0, AluOp::IsGe)
            .with(Attr::CompareOp1, AluOp::IsLt)
            .with(Attr::FillValue, f32::MIN);
        b.run(&i, &[view(&src), view(&lo), view(&hi)], &[view(&dst)]).unwrap();
        b.get(&dst)
    };
    assert_eq!(both(|p| run(p, Dtype::Float8E5)), (vec![0x3C, 0xFC], vec![0x3C, 0xFB]));
    assert_eq!(run(NumericProfile::hw(), Dtype::Float16), [0x00, 0x3C, 0x00, 0xFC]);
    assert_eq!(run(NumericProfile::hw(), Dtype::Bfloat16), [0x80, 0x3F, 0x80, 0xFF]);
}

#[test]
fn match_replace_order() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_f32(&[1, 3], &[5.0, 5.0, 1.0]);
        let vals = b.put_f32(&[1, 8], &[5.0, 5.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
        let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 3]);
        let idx = b.place(Place::Sbuf, Dtype::Int32, &[1, 8]);
        let i = inst(Opcode::MaxIndexAndMatchReplace, EngineKind::Dve).with(Attr::ImmValue, -1.0f32);
        b.run(&i, &[view(&src), view(&vals)], &[view(&dst), view(&idx)]).unwrap();
        assert_eq!(b.get_f32(&dst), [-1.0, -1.0, 1.0]);
        b.get_i32(&idx)[..2].to_vec()
    };
    assert_eq!((run(NumericProfile::hw()), run(NumericProfile::birsim())), (vec![1, 0], vec![0, 1]));
}

fn quantise(p: NumericProfile, x: f32) -> (u8, u8) {
    let mut b = Bench::new(p, ArchLevel::CoreV4);
    let half = (x.to_bits() >> 16) as u16;
    let bytes: Vec<u8> = std::iter::repeat_n(half.to_le_bytes(), 32).flatten().collect();
    let src = b.put(Dtype::Bfloat16, &[8, 4], &bytes);
    let dst = b.place(Place::Sbuf, Dtype::Float8E4m3FnX4, &[8, 1]);
    let scale = b.place(Place::Sbuf, Dtype::Uint8, &[1, 1]);
    b.run(&inst(Opcode::QuantizeMx, EngineKind::Dve), &[view(&src)], &[view(&dst), view(&scale)]).unwrap();
    (b.get(&scale)[0], b.get(&dst)[0])
}

#[test]
fn mx_scale() {
    // 1.0: exponent 127. Data 1·2^(127−s): 2^7 is code 0x70, 2^8 is 0x78.
    assert_eq!(quantise(NumericProfile::hw(), 1.0), (120, 0x70));
    assert_eq!(quantise(NumericProfile::birsim(), 1.0), (119, 0x78));
    assert_eq!(quantise(NumericProfile::hw(), 0.0), (0, 0));
    assert_eq!(quantise(NumericProfile::birsim(), 0.0), (1, 0));
}

#[test]
fn fp4_lane_order() {
    let x = [0.5, 1.0, 1.5, 2.0];
    assert_eq!(both(|p| cast(p, Dtype::Float4E2m1FnX4, &x)), (vec![0x21, 0x43], vec![0x12, 0x34]));
}

#[test]
fn tf32_bits() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        // 1 + 2^-11 is a value of 11 explicit bits, and a tie that goes to 1.0 with 10.
        let x = 1.0 + 2f32.powi(-11);
        let bits = x.to_le_bytes();
        let m = b.put(Dtype::Float32r, &[1, 1], &bits);
        let s = b.put(Dtype::Float32r, &[1, 1], &1f32.to_le_bytes());
        let dst = b.place(Place::Psum, Dtype::Float32, &[1, 1]);
        b.run(&inst(Opcode::Matmult, EngineKind::Pe), &[view(&m), view(&s)], &[view(&dst)]).unwrap();
        b.get_f32(&dst)[0]
    };
    assert_eq!((run(NumericProfile::hw()), run(NumericProfile::birsim())), (1.0, 1.0 + 2f32.powi(-11)));
}

#[test]
fn silent_skip() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_f32(&[1, 2], &[-1.0, 2.0]);
        let dst = b.put_f32(&[1, 2], &[7.0, 7.0]);
        b.run(&inst(Opcode::GenericRelu, EngineKind::Dve), &[view(&src)], &[view(&dst)]).unwrap();
        (b.get_f32(&dst), b.notes.iter().map(|n| n.code.info().id).collect::<Vec<_>>())
    };
    assert_eq!(run(NumericProfile::hw()), (vec![0.0, 2.0], vec![]));
    assert_eq!(run(NumericProfile::birsim()), (vec![7.0, 7.0], vec!["S0211"]));
    let asm =
        |p| Bench::new(p, ArchLevel::Gen3).run(&inst(Opcode::InlineAsmBytes, EngineKind::Dve), &[], &[]);
    assert_eq!(asm(NumericProfile::hw()).unwrap_err().code.info().id, "S0201");
    assert!(asm(NumericProfile::birsim()).is_ok());
}

#[test]
fn register_init() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let dst = b.place(Place::Sbuf, Dtype::Int32, &[1, 1]);
        let base = Expr::Affine { terms: vec![(3, Expr::Reg(RegId::from_u32(0)))], c: 10 };
        let i = inst(Opcode::Iota, EngineKind::Pool).with(Attr::Base, base);
        b.run(&i, &[], &[view(&dst)]).map(|()| b.get_i32(&dst)[0])
    };
    assert_eq!(run(NumericProfile::hw()).unwrap_err().code.info().id, "S0004");
    // −1: 10 − 3.
    assert_eq!(run(NumericProfile::birsim()).unwrap(), 7);
}

#[test]
fn act_copy_same_dtype() {
    let run = |p, arch| {
        let mut b = Bench::new(p, arch);
        let src = b.put_i32(&[1, 1], &[16_777_217]);
        let dst = b.place(Place::Sbuf, Dtype::Int32, &[1, 1]);
        b.run(&inst(Opcode::TensorCopy, EngineKind::Activation), &[view(&src)], &[view(&dst)]).unwrap();
        b.get_i32(&dst)[0]
    };
    assert_eq!(run(NumericProfile::hw(), ArchLevel::Sunda), 16_777_216);
    assert_eq!(run(NumericProfile::birsim(), ArchLevel::Sunda), 16_777_217);
    assert_eq!(run(NumericProfile::hw(), ArchLevel::Gen3), 16_777_217);
}

#[test]
fn bn_aggr_multiple() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_f32(&[1, 3], &[4.0, 2.5, 8.0]);
        let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 2]);
        b.run(&inst(Opcode::BnStatsAggregate, EngineKind::Dve), &[view(&src)], &[view(&dst)])
            .map(|()| b.get_f32(&dst))
    };
    assert_eq!(run(NumericProfile::hw()).unwrap(), [2.5, 2.0]);
    assert_eq!(run(NumericProfile::birsim()).unwrap_err().code.info().id, "S0202");
}

#[test]
fn alu_minmax_nan() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let a = b.put_f32(&[1, 2], &[f32::NAN, 1.0]);
        let c = b.put_f32(&[1, 2], &[1.0, f32::NAN]);
        let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 2]);
        let i = inst(Opcode::TensorTensor, EngineKind::Dve).with(Attr::Op, AluOp::Max);
        b.run(&i, &[view(&a), view(&c)], &[view(&dst)]).unwrap();
        b.get_f32(&dst).iter().map(|x| x.is_nan()).collect::<Vec<_>>()
    };
    // The presets agree on the second operand; the alternative propagates.
    assert_eq!(run(NumericProfile::hw()), [false, true]);
    assert_eq!(run(NumericProfile::birsim()), [false, true]);
    let other = NumericProfile { alu_minmax_nan: AluMinMaxNan::Propagate, ..NumericProfile::hw() };
    assert_eq!(run(other), [true, true]);
}

#[test]
fn silu_dx() {
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let src = b.put_f32(&[1, 1], &[1.0]);
        let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 1]);
        let i = inst(Opcode::Activation, EngineKind::Activation)
            .with(Attr::Func, tandem_bir::ActivationFunctionType::DerivativeSilu)
            .with(Attr::Scale, 1.0f32);
        b.run(&i, &[view(&src)], &[view(&dst)]).unwrap();
        b.get_f32(&dst)[0]
    };
    assert!((run(NumericProfile::hw()) - 0.927_670_5).abs() < 1e-6);
    assert!((run(NumericProfile::birsim()) - 0.927_670_5).abs() < 1e-6);
    let printed = NumericProfile { silu_dx: SiluDx::Printed, ..NumericProfile::hw() };
    assert!((run(printed) - 0.731_058_6).abs() < 1e-6);
}

#[test]
fn matmul_accum() {
    // 1 + 2^-24 + 2^-24: each half is lost in fp32 and kept in fp64.
    let run = |p| {
        let mut b = Bench::new(p, ArchLevel::Gen3);
        let t = 2f32.powi(-24);
        let m = b.put_f32(&[3, 1], &[1.0, t, t]);
        let s = b.put_f32(&[3, 1], &[1.0; 3]);
        let dst = b.place(Place::Psum, Dtype::Float32, &[1, 1]);
        b.run(&inst(Opcode::Matmult, EngineKind::Pe), &[view(&m), view(&s)], &[view(&dst)]).unwrap();
        b.get_f32(&dst)[0]
    };
    assert_eq!(run(NumericProfile::hw()), 1.0);
    let wide = NumericProfile { matmul_accum: MatmulAccum::F64, ..NumericProfile::hw() };
    assert_eq!(run(wide), 1.0 + 2f32.powi(-23));
}

#[test]
fn presets_differ_exactly_in_the_documented_rows() {
    let (h, b) = (NumericProfile::hw(), NumericProfile::birsim());
    assert_ne!(h.sb2sb_int32, b.sb2sb_int32);
    assert_ne!(h.kind8, b.kind8);
    assert_ne!(h.allreduce_multiworker, b.allreduce_multiworker);
    assert_ne!(h.uninit, b.uninit);
    assert_ne!(h.multi_lnc, b.multi_lnc);
    assert_eq!(h.alu_minmax_nan, b.alu_minmax_nan);
    assert_eq!(h.silu_dx, b.silu_dx);
    assert_eq!(NumericProfile::default(), h);
    assert_eq!(NumericProfile::preset("birsim"), Some(b));
    assert_eq!(NumericProfile::preset("other"), None);
}

#[test]
fn refuses_a_broadcast_of_absurd_size() {
    let mut b = Bench::hw();
    let mut v = b.put_f32(&[1, 1], &[1.0]);
    v.dims[0] = tandem_sim::memory::Dim { stride: 0, num: usize::MAX / 2 };
    v.dims[1] = tandem_sim::memory::Dim { stride: 0, num: 16 };
    let f = b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&v)], &[view(&v)]).unwrap_err();
    assert_eq!(f.code.info().id, "S0201");
}

#[test]
fn refuses_what_it_does_not_model() {
    let mut b = Bench::hw();
    let m = b.put_f32(&[2, 2], &[0.0; 4]);
    let dst = b.place(Place::Psum, Dtype::Float32, &[2, 2]);
    let refuse: Vec<Inst> = vec![
        inst(Opcode::Matmult, EngineKind::Pe).with(Attr::PerfMode, MatmultPerfMode::DoublePixel),
        inst(Opcode::Matmult, EngineKind::Pe).with(Attr::PerfMode, MatmultPerfMode::DoubleColumn),
        inst(Opcode::TensorScalarCache, EngineKind::Dve).with(Attr::Mode, TscMode::Reduce),
        inst(Opcode::TensorScalarCache, EngineKind::Dve).with(Attr::Mode, TscMode::TensorScan),
        inst(Opcode::TensorScalarPtr, EngineKind::Dve).with(Attr::ApplyTranspose, true),
        inst(Opcode::MatmultSparse, EngineKind::Pe),
        inst(Opcode::CustomOp, EngineKind::Pool),
        inst(Opcode::Rand, EngineKind::Dve).with(Attr::Distribution, RandomDistributionKind::Normal),
        inst(Opcode::TensorTensor, EngineKind::Dve).with(Attr::Op, AluOp::Mod),
        inst(Opcode::DmaCopy, EngineKind::Dma).with(Attr::Mode, CopyMode::Cce).with(Attr::CceOp, AluOp::Mult),
    ];
    for i in refuse {
        let f = b.run(&i, &[view(&m), view(&m)], &[view(&dst)]).unwrap_err();
        assert_eq!(f.code.info().id, "S0201", "{}: {}", i.opcode, f.message);
        assert_eq!(f.code.info().class, tandem_bir::diag::Class::Unsupported);
        assert!(f.message.contains(&i.opcode.to_string()), "{}", f.message);
    }
}
