//! Every record form: encode, read back, encode again; opcodes by instruction and generation; code tables.

mod wire;

use std::collections::BTreeSet;
use tandem_backend::encode::desc::{OnChip, register_dynamic};
use tandem_backend::encode::opcodes;
use tandem_backend::encode::rows::GROUPS;
use tandem_backend::encode::tables::{alu_of_wire, dtype_of_wire, wire_alu, wire_dtype};
use tandem_bir::*;
use wire::Bench;

fn act(op: Opcode, engine: EngineKind) -> Inst {
    let mut i = Inst::new("i", op);
    i.engine = engine;
    i
}

fn tile(b: &Bench, at: u64, d: Dtype, n: u64) -> Operand {
    b.sb(0, 128, at, d, &[(1, n)])
}

/// One instruction of every group of the generation.
fn samples(b: &Bench, arch: ArchLevel) -> Vec<Inst> {
    use EngineKind::{Activation, Dve, Pe, Pool, Sp};
    let f = Dtype::Float32;
    let t = |at: u64| tile(b, at, f, 64);
    let one = |at: u64| tile(b, at, f, 1);
    let imm = |v: f32| Operand::Imm(Immediate::f32(v));
    let mut out = Vec::new();
    let mut add = |mut i: Inst, ins: Vec<Operand>, outs: Vec<Operand>| {
        i.ins = ins;
        i.outs = outs;
        out.push(i);
    };
    let add_op = AluOp::Add;
    add(act(Opcode::TensorCopy, Dve), vec![t(0)], vec![t(0x1000)]);
    add(act(Opcode::TensorCopy, Dve), vec![t(0)], vec![tile(b, 0x1000, Dtype::Float8E4m3Fn, 64)]);
    add(act(Opcode::Reciprocal, Dve), vec![t(0)], vec![t(0x1000)]);
    for (mode, c) in [(MemsetMode::Const, 0x3f80_0000), (MemsetMode::Random, 0)] {
        add(act(Opcode::Memset, Dve).with(Attr::Mode, mode).with(Attr::Constant, c), vec![], vec![t(0)]);
    }
    for op in [AluOp::Add, AluOp::BitwiseXor] {
        add(act(Opcode::TensorTensor, Dve).with(Attr::Op, op), vec![t(0), t(0x1000)], vec![t(0x2000)]);
    }
    add(act(Opcode::CopyPredicated, Dve), vec![t(0), tile(b, 0x800, Dtype::Uint8, 64)], vec![t(0x2000)]);
    add(
        act(Opcode::CopyPredicated, Dve).with(Attr::ReversePred, true),
        vec![tile(b, 0, Dtype::Bfloat16, 64), tile(b, 0x800, Dtype::Uint8, 64)],
        vec![t(0x2000)],
    );
    for outs in [1, 2] {
        let mut o = vec![t(0x2000)];
        if outs == 2 {
            o.push(one(0x3000));
        }
        let i = act(Opcode::CopyPredicated, Dve)
            .with(Attr::ReduceOp, AluOp::Max)
            .with(Attr::AccumulatorCmd, EngineAccumulationType::ZeroAccumulate);
        add(i, vec![t(0), t(0x1000), imm(-1.0)], o.clone());
        let i = act(Opcode::RangeSelect, Dve)
            .with(Attr::CompareOp0, AluOp::IsGe)
            .with(Attr::CompareOp1, AluOp::IsLt)
            .with(Attr::ReduceOp, AluOp::Max)
            .with(Attr::Base, 3.0f32)
            .with(Attr::FillValue, -9.0f32);
        if arch >= ArchLevel::Gen3 {
            add(i, vec![t(0), one(0x1000), one(0x1004)], o.clone());
        }
        let i = act(Opcode::Activation, Activation)
            .with(Attr::Func, ActivationFunctionType::Exp)
            .with(Attr::Acc, EngineAccumulationType::Idle)
            .with(Attr::Scale, 0.5f32)
            .with(Attr::Alpha, 0.25f32)
            .with(Attr::Op0, AluOp::Bypass)
            .with(Attr::Op1, AluOp::Bypass)
            .with(Attr::ReduceOp, add_op);
        add(i, vec![t(0), one(0x1000)], o);
    }
    let scaled = act(Opcode::Activation, Activation)
        .with(Attr::Func, ActivationFunctionType::Prelu)
        .with(Attr::Acc, EngineAccumulationType::ZeroAccumulate)
        .with(Attr::Scale, 1.0f32)
        .with(Attr::Alpha, 0.1f32)
        .with(Attr::Op0, AluOp::Bypass)
        .with(Attr::Op1, AluOp::Bypass)
        .with(Attr::ReduceOp, AluOp::Bypass);
    add(scaled, vec![t(0), one(0x1000), one(0x1004)], vec![t(0x2000)]);
    let ts = |op0: AluOp, op1: AluOp| {
        act(Opcode::TensorScalarPtr, Dve)
            .with(Attr::Op0, op0)
            .with(Attr::Op1, op1)
            .with(Attr::Reverse0, true)
            .with(Attr::Reverse1, false)
    };
    add(ts(AluOp::Subtract, AluOp::Max), vec![t(0), imm(2.0), imm(0.0)], vec![t(0x2000)]);
    add(ts(AluOp::Mult, AluOp::Bypass), vec![t(0), one(0x1000)], vec![t(0x2000)]);
    let int = Operand::Imm(Immediate::i32(-3));
    add(
        ts(AluOp::BitwiseAnd, AluOp::Bypass),
        vec![tile(b, 0, Dtype::Int32, 64), int],
        vec![tile(b, 0x2000, Dtype::Int32, 64)],
    );
    add(
        ts(AluOp::Add, AluOp::Bypass).with(Attr::ApplyTranspose, true),
        vec![t(0), imm(1.0)],
        vec![t(0x2000)],
    );
    add(
        ts(AluOp::Add, AluOp::Max).with(Attr::Acc, EngineAccumulationType::ZeroAccumulate),
        vec![t(0), imm(1.0)],
        vec![t(0x2000), one(0x3000)],
    );
    let stt = ts(AluOp::Mult, add_op).with(Attr::IsScalarTensorTensor, true);
    add(stt.clone(), vec![t(0), imm(2.0), t(0x1000)], vec![t(0x2000)]);
    add(stt.with(Attr::IsTensorTensorScan, true), vec![t(0), one(0x800), t(0x1000)], vec![t(0x2000)]);
    for mode in [TscMode::Reduce, TscMode::Cumulative] {
        let i = act(Opcode::TensorScalarCache, Dve)
            .with(Attr::Op0, AluOp::Mult)
            .with(Attr::Op1, add_op)
            .with(Attr::Reverse0, false)
            .with(Attr::Reverse1, false)
            .with(Attr::Mode, mode)
            .with(Attr::Acc, EngineAccumulationType::LoadAccumulate);
        add(i, vec![t(0), imm(2.0), imm(7.0)], vec![t(0x2000)]);
    }
    for (op, axis, tr) in [
        (add_op, AxisListType::X, false),
        (AluOp::BitwiseOr, AxisListType::Xy, false),
        (add_op, AxisListType::Xyz, true),
        (AluOp::BitwiseAnd, AxisListType::Xyzw, true),
    ] {
        let i = act(Opcode::TensorReduce, Dve)
            .with(Attr::Op, op)
            .with(Attr::Axis, axis)
            .with(Attr::ApplyTranspose, tr)
            .with(Attr::Negate, true);
        add(
            i,
            vec![b.sb(0, 128, 0, Dtype::Int32, &[(32, 4), (8, 4), (1, 8)])],
            vec![tile(b, 0x2000, Dtype::Int32, 4)],
        );
    }
    for (op, axis) in [(AluOp::Max, AxisListType::C), (AluOp::BitwiseXor, AxisListType::Xyzwc)] {
        let i = act(Opcode::TensorReduce, Pool).with(Attr::Op, op).with(Attr::Axis, axis);
        add(i, vec![tile(b, 0, Dtype::Int32, 8)], vec![b.sb(0, 1, 0x2000, Dtype::Int32, &[(1, 8)])]);
    }
    for func in [PoolFunctionType::Max, PoolFunctionType::Avg] {
        add(
            act(Opcode::Pool, Dve).with(Attr::Func, func),
            vec![b.sb(0, 128, 0, f, &[(16, 4), (4, 4), (1, 4)])],
            vec![t(0x2000)],
        );
    }
    let pattern = |p: &[(i64, u64)]| AttrValue::Pairs(p.iter().map(|&(s, n)| ApPair::new(s, n)).collect());
    let mut iota = act(Opcode::Iota, Pool).with(Attr::Base, 5).with(Attr::ChannelMultiplier, -2);
    iota.set(Attr::Pattern, pattern(&[(8, 8), (1, 8)]));
    add(iota, vec![], vec![tile(b, 0x2000, Dtype::Int32, 64)]);
    let mut sel = act(Opcode::TensorScalarAffineSelect, Pool)
        .with(Attr::Base, -5)
        .with(Attr::ChannelMultiplier, 1)
        .with(Attr::CompareOp, AluOp::NotEqual)
        .with(Attr::FillValue, 1.5f32);
    sel.set(Attr::Pattern, pattern(&[(-1, 4), (8, 4), (1, 4)]));
    add(sel, vec![t(0)], vec![t(0x2000)]);
    add(act(Opcode::StreamTranspose, Dve), vec![t(0)], vec![t(0x2000)]);
    let mask: Vec<i64> = (0..32).map(|i| if i == 7 { 255 } else { 31 - i }).collect();
    add(act(Opcode::StreamShuffle, Dve).with(Attr::Mask, mask), vec![t(0)], vec![t(0x2000)]);
    let eight = |at: u64| tile(b, at, f, 8);
    add(act(Opcode::Max, Dve), vec![t(0)], vec![eight(0x2000)]);
    add(act(Opcode::MaxIndex, Dve), vec![t(0), eight(0x1000)], vec![tile(b, 0x2000, Dtype::Uint32, 8)]);
    add(
        act(Opcode::MatchReplace, Dve).with(Attr::ImmValue, -1.0f32),
        vec![t(0), eight(0x1000)],
        vec![t(0x2000)],
    );
    add(
        act(Opcode::MaxIndexAndMatchReplace, Dve).with(Attr::ImmValue, -1.0f32),
        vec![t(0), eight(0x1000)],
        vec![t(0x2000), tile(b, 0x3000, Dtype::Uint16, 8)],
    );
    add(
        act(Opcode::Gather, Pool),
        vec![t(0), tile(b, 0x1000, Dtype::Uint32, 16)],
        vec![tile(b, 0x2000, f, 16)],
    );
    add(
        act(Opcode::IndirectCopy, Pool).with(Attr::NumValidIndices, 40),
        vec![t(0), tile(b, 0x1000, Dtype::Uint16, 3), Operand::Imm(Immediate::i32(2))],
        vec![tile(b, 0x2000, f, 80)],
    );
    for tr in [false, true] {
        add(
            act(Opcode::BnStats, Dve).with(Attr::ApplyTranspose, tr),
            vec![t(0)],
            vec![tile(b, 0x2000, f, 6)],
        );
    }
    add(act(Opcode::BnStatsAggregate, Dve), vec![tile(b, 0, f, 12)], vec![tile(b, 0x2000, f, 2)]);
    add(act(Opcode::Dropout, Dve).with(Attr::IsKeepThreshold, true), vec![t(0), imm(0.5)], vec![t(0x2000)]);
    add(act(Opcode::RandSetState, Dve), vec![tile(b, 0, Dtype::Uint32, 6)], vec![]);
    add(act(Opcode::SetRandState, Pool), vec![tile(b, 0, Dtype::Uint32, 1)], vec![]);
    add(act(Opcode::RandGetState, Dve), vec![], vec![tile(b, 0, Dtype::Uint32, 6)]);
    add(act(Opcode::DveReadAccumulator, Dve), vec![], vec![one(0x2000)]);
    add(act(Opcode::ActivationReadAccumulator, Activation), vec![], vec![one(0x2000)]);
    add(act(Opcode::LoadActFuncSet, Activation).with(Attr::ActFuncSetId, 3), vec![], vec![]);
    for (d, flags) in [(f, 0), (Dtype::Bfloat16, 4), (Dtype::Float32r, 6)] {
        add(
            act(Opcode::Matmult, Pe).with(Attr::AccumulationFlag, flags),
            vec![b.sb(0, 64, 0, d, &[(1, 300)]), b.sb(0, 64, 0x1000, d, &[(1, 32)])],
            vec![b.psum(0, 32, 2048, f, &[(1, 300)])],
        );
    }
    let reg = |n: u32| Operand::Reg(RegAccess { reg: RegId::from_u32(n), dtype: Dtype::Int32 });
    let ureg = |n: u32| Operand::Reg(RegAccess { reg: RegId::from_u32(n), dtype: Dtype::Uint32 });
    add(act(Opcode::GetGlobalRankId, Sp).with(Attr::WorldSize, 2), vec![], vec![ureg(3)]);
    add(act(Opcode::RegisterMove, Sp), vec![Operand::Imm(Immediate::i32(-7))], vec![reg(2)]);
    add(act(Opcode::RegisterMove, Sp), vec![reg(1)], vec![reg(2)]);
    add(
        act(Opcode::RegisterAlu, Sp).with(Attr::Op, AluOp::Mult),
        vec![reg(1), Operand::Imm(Immediate::i32(9))],
        vec![reg(2)],
    );
    add(act(Opcode::RegisterAlu, Sp).with(Attr::Op, AluOp::Add), vec![reg(1), reg(4)], vec![reg(2)]);
    add(act(Opcode::TensorLoad, Sp), vec![b.var(2, Dtype::Int32, 9, &[(1, 1)])], vec![reg(5)]);
    add(act(Opcode::TensorLoad, Sp), vec![b.sb(3, 1, 0x40, Dtype::Int32, &[(1, 1)])], vec![reg(5)]);
    add(act(Opcode::TensorSave, Sp), vec![reg(5)], vec![b.var(2, Dtype::Int32, 9, &[(1, 1)])]);
    for op in [
        Opcode::EventSemaphore,
        Opcode::Halt,
        Opcode::Drain,
        Opcode::NoOp,
        Opcode::AllEngineBarrier,
        Opcode::Exit,
        Opcode::Return,
    ] {
        add(act(op, Sp), vec![], vec![]);
    }
    add(
        act(Opcode::GroupResetSemaphores, Sp)
            .with(Attr::Mode, EventSemaphoreClearMode::SemaphoreZeroBitmask)
            .with(Attr::SemaGroup, vec![0i64, 9, 255]),
        vec![],
        vec![],
    );
    add(act(Opcode::GroupResetSemaphores, Sp).with(Attr::SemaGroup, vec![4i64, 5, 6]), vec![], vec![]);
    if arch >= ArchLevel::Gen3 {
        add(
            act(Opcode::CoreBarrier, Pool).with(Attr::Id, 12).with(Attr::RuntimeSemaphore, 244),
            vec![],
            vec![],
        );
        add(
            act(Opcode::GpsimdSb2Sb, Pool),
            vec![tile(b, 0, Dtype::Uint8, 64)],
            vec![tile(b, 0x1000, Dtype::Uint8, 64)],
        );
        add(
            act(Opcode::GetSequenceBounds, Pool),
            vec![b.sb(0, 1, 0, f, &[(1, 64)])],
            vec![b.sb(0, 1, 0x100, f, &[(2, 64), (1, 2)])],
        );
        let int = |v| Operand::Imm(Immediate::i32(v));
        add(
            act(Opcode::NonzeroWithCount, Pool),
            vec![t(0), int(4), int(-1)],
            vec![tile(b, 0x2000, Dtype::Int32, 65)],
        );
    }
    if arch >= ArchLevel::CoreV4 {
        add(
            act(Opcode::Exponential, Dve).with(Attr::ReduceCmd, EngineAccumulationType::LoadAccumulate),
            vec![t(0), one(0x800), imm(0.0)],
            vec![t(0x2000)],
        );
        add(act(Opcode::Rand2, Dve), vec![imm(0.0), imm(2.0)], vec![t(0x2000)]);
    }
    // bit-vector scalar-tensor-tensor, predicated scalar, completion, branches, rank of an iteration
    let w = |at: u64| tile(b, at, Dtype::Int32, 64);
    add(
        ts(AluOp::BitwiseAnd, AluOp::BitwiseXor).with(Attr::IsScalarTensorTensor, true),
        vec![w(0), Operand::Imm(Immediate::i32(0x55)), w(0x1000)],
        vec![w(0x2000)],
    );
    add(act(Opcode::CopyPredicated, Dve), vec![imm(-1.5), tile(b, 0x800, Dtype::Uint8, 64)], vec![t(0x2000)]);
    add(
        act(Opcode::TensorCompletion, Pool),
        vec![b.var(3, Dtype::Uint8, 0, &[(2048, 128), (1, 2048)])],
        vec![],
    );
    add(act(Opcode::UnconditionalBranch, Sp).with(Attr::Target, "taken"), vec![], vec![]);
    for (op, right) in
        [(BranchCompareOp::LtImm, Operand::Imm(Immediate::i32(-4))), (BranchCompareOp::NeReg, reg(7))]
    {
        let i = act(Opcode::CompareAndBranch, Sp)
            .with(Attr::CompOp, op)
            .with(Attr::OnTrue, "taken")
            .with(Attr::OnFalse, "next");
        add(i, vec![reg(1), right], vec![]);
    }
    add(
        act(Opcode::GetCurProcessingRankId, Sp)
            .with(Attr::IterId, 1)
            .with(Attr::ChannelId, 2)
            .with(Attr::StreamId, 3)
            .with(Attr::ReplicaGroups, vec![vec![0i64, 1]]),
        vec![],
        vec![ureg(3)],
    );
    // scalars of types of their own, register addresses, wide registers
    add(
        ts(AluOp::Mult, AluOp::Add),
        vec![t(0), tile(b, 0x800, Dtype::Bfloat16, 1), imm(3.0)],
        vec![t(0x2000)],
    );
    add(
        act(Opcode::RegisterMove, Sp),
        vec![Operand::Imm(Immediate { dtype: Dtype::Int64, value: ImmValue::Int(1 << 40) })],
        vec![reg(2)],
    );
    add(
        act(Opcode::RegisterAlu, Sp).with(Attr::Op, AluOp::Add).with(Attr::Is64bit, true),
        vec![reg(1), reg(4)],
        vec![reg(2)],
    );
    let at_register = |o: Operand, terms: Vec<(i64, Expr)>| -> Operand {
        let Operand::Ap(mut a) = o else { unreachable!() };
        a.dynamic = Some(Box::new(DynamicAp { terms, indirect_dim: 0, max_index: None }));
        Operand::Ap(a)
    };
    let r9 = || Box::new(Expr::Reg(RegId::from_u32(9)));
    let scalar = || b.var(2, Dtype::Int32, 0, &[(1, 1)]);
    add(
        act(Opcode::TensorLoad, Sp),
        vec![at_register(scalar(), vec![(1, Expr::FloorDiv(r9(), 4))])],
        vec![reg(5)],
    );
    add(
        act(Opcode::TensorSave, Sp),
        vec![reg(5)],
        vec![at_register(scalar(), vec![(1, Expr::FloorDiv(r9(), 4))])],
    );
    for mem in [OnChip::Sbuf, OnChip::Psum] {
        let d = register_dynamic(RegId::from_u32(9), Dtype::Int32, mem, &b.geo);
        let o = if mem == OnChip::Sbuf {
            b.sb(0, 1, 0, Dtype::Int32, &[(1, 1)])
        } else {
            b.psum(0, 1, 0, Dtype::Int32, &[(1, 1)])
        };
        add(act(Opcode::TensorLoad, Sp), vec![at_register(o, d.terms)], vec![reg(5)]);
    }
    // forms of front ends, selects of two tiles, batch normalisation, random bits, queues
    for op in [Opcode::GenericCopy, Opcode::AbstractCopy, Opcode::GenericRelu] {
        add(act(op, Dve), vec![t(0)], vec![t(0x2000)]);
    }
    add(act(Opcode::ReadActivationAccumulator, Activation), vec![], vec![one(0x2000)]);
    add(act(Opcode::GetRandState, Dve), vec![], vec![tile(b, 0, Dtype::Uint32, 24)]);
    add(act(Opcode::Rng, Dve), vec![], vec![w(0x2000)]);
    add(act(Opcode::Rand, Dve), vec![], vec![w(0x2000)]);
    add(
        act(Opcode::Rand, Dve)
            .with(Attr::RandomAlgorithm, RandomAlgorithmKind::Pcg32)
            .with(Attr::Distribution, RandomDistributionKind::Uniform)
            .with(Attr::RandNumSteps, 7),
        vec![],
        vec![t(0x2000)],
    );
    let pred = || tile(b, 0x800, Dtype::Uint8, 64);
    add(act(Opcode::Select, Dve), vec![pred(), t(0x1000), t(0x3000)], vec![t(0x2000)]);
    add(act(Opcode::Select, Dve), vec![pred(), t(0x1000), imm(0.25)], vec![t(0x2000)]);
    for outs in [1, 2] {
        let mut o = vec![t(0x2000)];
        if outs == 2 {
            o.push(one(0x3000));
        }
        add(
            act(Opcode::CopyPredicated, Dve).with(Attr::ReversePred, true).with(Attr::ReduceOp, AluOp::Max),
            vec![pred(), t(0x1000), t(0x3000)],
            o,
        );
    }
    add(
        act(Opcode::BnGradients, Dve),
        vec![t(0), t(0x1000), one(0x800), imm(2.0)],
        vec![tile(b, 0x2000, f, 3)],
    );
    add(
        act(Opcode::BnBackprop, Dve).with(Attr::TotalElements, 640),
        vec![t(0), t(0x1000), one(0x800), tile(b, 0x900, f, 3)],
        vec![t(0x2000)],
    );
    add(
        act(Opcode::BnBackprop2, Dve),
        vec![t(0), t(0x1000), one(0x800), imm(1.0), one(0x904), imm(-2.0)],
        vec![t(0x2000)],
    );
    add(
        act(Opcode::SwitchQueueInstance, Sp).with(Attr::Queue, "q-a").with(Attr::NoRearm, true),
        vec![],
        vec![],
    );
    add(act(Opcode::ResetQueueInstance, Sp).with(Attr::Queue, "q-a"), vec![], vec![]);
    add(act(Opcode::DevicePrint, Pool), vec![t(0)], vec![]);
    if arch >= ArchLevel::CoreV4 {
        let i = act(Opcode::Activation, Activation)
            .with(Attr::Func, ActivationFunctionType::Exp)
            .with(Attr::Acc, EngineAccumulationType::ZeroAccumulate)
            .with(Attr::Scale, 1.0f32)
            .with(Attr::Alpha, 0.0f32)
            .with(Attr::Op0, AluOp::Mult)
            .with(Attr::Op1, AluOp::Add)
            .with(Attr::ReduceOp, AluOp::Add)
            .with(Attr::IsActivate2, true)
            .with(Attr::Reverse1, true);
        add(i.clone(), vec![t(0), one(0x800), imm(0.5), imm(0.0)], vec![t(0x2000)]);
        add(i, vec![t(0), imm(2.0), imm(0.5), imm(0.0)], vec![t(0x2000), one(0x3000)]);
        let mx = |at: u64, n: u64| b.sb(0, 64, at, Dtype::Float8E4m3FnX4, &[(1, n)]);
        let sc = |at: u64, n: u64| b.sb(0, 64, at, Dtype::Uint8, &[(1, n)]);
        for flags in [0, 6] {
            add(
                act(Opcode::MatmultMx, Pe).with(Attr::AccumulationFlag, flags),
                vec![mx(0, 128), mx(0x1000, 32), sc(0x2000, 128), sc(0x3000, 32)],
                vec![b.psum(0, 32, 2048, f, &[(1, 128)])],
            );
        }
        add(
            act(Opcode::QuantizeMx, Dve),
            vec![b.sb(0, 64, 0, Dtype::Bfloat16, &[(1, 128)])],
            vec![mx(0x1000, 32), sc(0x2000, 32)],
        );
    }
    // transfers
    let rows = |v: u32, k: i64| {
        let mut a =
            AccessPattern::new(tandem_backend::encode::phys::var_location(v), f, 0, &[(0, 128), (1, 64)]);
        a.dynamic = Some(Box::new(DynamicAp {
            terms: vec![(k, Expr::IndirectArg(1))],
            indirect_dim: 0,
            max_index: Some(99),
        }));
        Operand::Ap(a)
    };
    for op in [
        Opcode::GenericIndirectLoad,
        Opcode::IndirectLoad,
        Opcode::GenericIndirectSave,
        Opcode::IndirectSave,
        Opcode::IndirectSaveAccumulate,
    ] {
        let mut i = act(op, if op == Opcode::IndirectSaveAccumulate { Pool } else { Sp });
        i.more_mut().indirection_ins = vec![tile(b, 0x800, Dtype::Int32, 1)];
        let load = matches!(op, Opcode::GenericIndirectLoad | Opcode::IndirectLoad);
        let (s, d) = if load { (rows(1, 64), t(0)) } else { (t(0), rows(1, 64)) };
        add(i, vec![s], vec![d]);
    }
    for op in [Opcode::Load, Opcode::Save] {
        let at = b.var(1, f, 0, &[(512, 128), (1, 64)]);
        let (s, d) = if op == Opcode::Load { (at, t(0)) } else { (t(0), at) };
        add(act(op, Sp), vec![s], vec![d]);
    }
    let mut notifying = act(Opcode::DmaCopy, Sp);
    notifying.more_mut().sync = Some(inst::SyncInfo {
        on_wait: vec![inst::SemWait { sem: 4, value: 3, ..Default::default() }],
        on_update: vec![
            inst::SemUpdate { sem: 129, value: 1, ..Default::default() },
            inst::SemUpdate { sem: 193, value: 1, target_core: Some(1), extra: None },
        ],
        extra: None,
    });
    add(notifying, vec![b.var(6, f, 0, &[(512, 128), (1, 64)])], vec![t(0)]);
    let dram = |v: u32, d: Dtype| b.var(v, d, 0, &[(512, 128), (1, 64)]);
    add(act(Opcode::DmaCopy, Sp), vec![dram(1, f)], vec![t(0)]);
    add(act(Opcode::DmaCopy, Sp).with(Attr::CceOp, AluOp::Add), vec![t(0)], vec![dram(1, f)]);
    let mut fold = act(Opcode::DmaCopy, Sp).with(Attr::Mode, CopyMode::Cce).with(Attr::CceOp, AluOp::Max);
    fold.set(Attr::Constants, AttrValue::Floats([inst::F32(1.0), inst::F32(2.0), inst::F32(0.5)].into()));
    add(fold, vec![dram(1, f), dram(2, f), dram(3, f)], vec![t(0)]);
    add(
        act(Opcode::DmaCopy, Sp)
            .with(Attr::Mode, CopyMode::Transpose)
            .with(Attr::TransposeOp, TransposeOps::Xzyw),
        vec![b.var(1, Dtype::Bfloat16, 0, &[(1024, 128), (64, 1), (64, 2), (1, 64)])],
        vec![b.sb(0, 64, 0, Dtype::Bfloat16, &[(256, 2), (128, 1), (1, 128)])],
    );
    let mut dynamic = act(Opcode::DmaCopy, Sp);
    dynamic.set(Attr::OobIsErr, false);
    let mut src = dram(1, f);
    if let Operand::Ap(a) = &mut src {
        a.dynamic = Some(Box::new(DynamicAp {
            terms: vec![(64, Expr::Reg(RegId::from_u32(7)))],
            indirect_dim: 1,
            max_index: Some(7),
        }));
    }
    add(dynamic, vec![src], vec![t(0)]);
    out
}

#[test]
fn every_form_reads_back_and_encodes_to_itself() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for arch in [ArchLevel::Sunda, ArchLevel::Gen3, ArchLevel::CoreV4] {
        let b = Bench::new(arch);
        for i in samples(&b, arch) {
            let e = b
                .encode_full(&i, i.engine, 0)
                .unwrap_or_else(|e| panic!("{arch} {} {}: {}", i.opcode, i.engine, e.message));
            let back = b
                .decode_patched(&e.records, &e.patch)
                .unwrap_or_else(|x| panic!("{arch} {}: {}\n{:?}", i.opcode, x.message, e.records));
            let mut back = back;
            back.engine = i.engine;
            let again =
                b.encode_full(&back, i.engine, 0).unwrap_or_else(|e| panic!("{}: {}", i.opcode, e.message));
            assert_eq!(again.records, e.records, "{arch} {}", i.opcode);
            assert_eq!(again.patch, e.patch, "{arch} {}", i.opcode);
            // the same instruction up to what the physical form drops: engine, name, hints
            let sync = |i: &Inst| i.more.as_ref().and_then(|m| m.sync.clone()).unwrap_or_default();
            assert_eq!(sync(&back), sync(&i), "{arch} {}", i.opcode);
            let printed = i.opcode == Opcode::DevicePrint;
            assert!(printed || back.opcode == i.opcode, "{arch} {} became {}", i.opcode, back.opcode);
            let json = tandem_backend::decode::patch::Patch::from_json(&e.patch.to_json());
            assert_eq!(json.as_ref(), Some(&e.patch), "{arch} {}", i.opcode);
            let list: Vec<String> = e.records.iter().map(|r| format!("{:02x}", r.opcode())).collect();
            seen.insert(list.join(","));
        }
    }
    let missing: Vec<String> = GROUPS
        .iter()
        .map(|g| g.forms.iter().map(|f| format!("{:02x}", f.byte)).collect::<Vec<_>>().join(","))
        .filter(|k| !seen.contains(k))
        .collect();
    assert!(missing.is_empty(), "no sample encodes {missing:?}");
}

/// Every type that the simulator runs has a record, or linking turns it into types that have.
#[test]
fn every_simulated_type_has_a_record() {
    use tandem_sim::exec::{Coverage, coverage};
    // What linking makes of them: `link/flatten.rs`, `link/expand.rs`.
    let rewritten = [
        Opcode::TensorCopyDynamicSrc,
        Opcode::TensorCopyDynamicDst,
        Opcode::TensorScalar,
        Opcode::BranchHint,
        Opcode::Break,
        Opcode::Call,
        Opcode::Loop,
        Opcode::DynamicForLoop,
        Opcode::DoWhile,
        // kept ones are in the tests of collectives
        Opcode::CollectiveCompute,
    ];
    let b = Bench::new(ArchLevel::CoreV4);
    let have: BTreeSet<u16> = samples(&b, ArchLevel::CoreV4).iter().map(|i| i.opcode as u16).collect();
    let missing: Vec<&Opcode> = Opcode::ALL
        .iter()
        .filter(|op| matches!(coverage(**op), Coverage::Computed | Coverage::Machine | Coverage::NoEffect))
        .filter(|op| !have.contains(&(**op as u16)) && !rewritten.contains(op))
        .collect();
    assert!(missing.is_empty(), "no sample of {missing:?}");
}

#[test]
fn the_six_opcodes_of_a_reduction() {
    let b = Bench::new(ArchLevel::Gen3);
    let first: Vec<u8> = samples(&b, ArchLevel::Gen3)
        .iter()
        .filter(|i| i.opcode == Opcode::TensorReduce)
        .map(|i| b.encode(i).unwrap()[0].opcode())
        .collect();
    assert_eq!(first, [0x42, 0x52, 0x83, 0x84, 0x7C, 0x7D]);
}

#[test]
fn match_values_come_before_index_and_replace() {
    let b = Bench::new(ArchLevel::Gen3);
    let list = |op: Opcode| -> Vec<u8> {
        let all = samples(&b, ArchLevel::Gen3);
        let i = all.iter().find(|i| i.opcode == op).unwrap();
        b.encode(i).unwrap().iter().map(|r| r.opcode()).collect()
    };
    assert_eq!(list(Opcode::MaxIndex), [0x6D, 0x6E]);
    assert_eq!(list(Opcode::MatchReplace), [0x6D, 0x6F]);
    assert_eq!(list(Opcode::MaxIndexAndMatchReplace), [0x6D, 0x6E, 0x6F]);
    assert_eq!(list(Opcode::StreamShuffle), [0x69, 0x6A]);
    assert_eq!(list(Opcode::Matmult), [0x01, 0x02]);
    assert_eq!(list(Opcode::Max), [0x6C]);
}

#[test]
fn generations_refuse_what_they_lack() {
    let (v2, v3) = (Bench::new(ArchLevel::Sunda), Bench::new(ArchLevel::Gen3));
    let b4 = Bench::new(ArchLevel::CoreV4);
    for i in samples(&b4, ArchLevel::CoreV4) {
        let bytes: Vec<u8> = b4.encode(&i).unwrap().iter().map(|r| r.opcode()).collect();
        for (arch, b) in [(ArchLevel::Sunda, &v2), (ArchLevel::Gen3, &v3)] {
            if bytes.iter().any(|o| !opcodes::exists(*o, arch)) {
                assert!(b.encode(&i).is_err(), "{} on {arch}", i.opcode);
            }
        }
    }
}

/// The code tables of the specification, file 07 §5, typed again.
#[test]
fn code_tables() {
    let v3: [u8; 20] = [3, 2, 5, 13, 14, 14, 3, 15, 14, 15, 5, 4, 6, 7, 9, 8, 10, 11, 1, 12];
    for (d, want) in Dtype::ALL.iter().zip(v3) {
        assert_eq!(wire_dtype(*d, ArchLevel::Gen3), want, "{d}");
        let v4 = if *d == Dtype::Float4E2m1FnX4 { 16 } else { want };
        assert_eq!(wire_dtype(*d, ArchLevel::CoreV4), v4, "{d}");
        let back = dtype_of_wire(want, ArchLevel::Gen3).unwrap();
        assert_eq!(wire_dtype(back, ArchLevel::Gen3), want);
    }
    assert!(dtype_of_wire(0, ArchLevel::Gen3).is_err() && dtype_of_wire(16, ArchLevel::Gen3).is_err());
    let alu: [(AluOp, u8); 13] = [
        (AluOp::Bypass, 0),
        (AluOp::Add, 4),
        (AluOp::LogicalShiftRight, 0x11),
        (AluOp::IsEqual, 0x12),
        (AluOp::NotEqual, 0x18),
        (AluOp::IsGt, 0x13),
        (AluOp::IsGe, 0x14),
        (AluOp::IsLt, 0x16),
        (AluOp::IsLe, 0x15),
        (AluOp::Pow, 0x1A),
        (AluOp::Mod, 0x1B),
        (AluOp::Rsqrt, 0x1D),
        (AluOp::Abs, 0x19),
    ];
    for (op, want) in alu {
        assert_eq!(wire_alu(op, ArchLevel::Gen3).unwrap(), want);
        assert_eq!(alu_of_wire(want, ArchLevel::Gen3).unwrap(), op);
    }
    for op in [AluOp::Average, AluOp::ElemwiseMul] {
        assert!(wire_alu(op, ArchLevel::CoreV4).is_err());
    }
    assert_eq!(wire_alu(AluOp::ModInt, ArchLevel::CoreV4).unwrap(), 0xC8);
    assert!(wire_alu(AluOp::AbsMax, ArchLevel::Gen3).is_err());
}

#[test]
fn reserved_bytes_are_checked_in_every_record() {
    let b = Bench::new(ArchLevel::Gen3);
    let (mut flips, mut refused) = (0, 0);
    for i in samples(&b, ArchLevel::Gen3) {
        let e = b.encode_full(&i, i.engine, 0).unwrap();
        for r in 0..e.records.len() {
            for k in 0..64 {
                let mut rec = e.records.clone();
                rec[r].0[k] ^= 0x40;
                flips += 1;
                // a mutated record is refused, or reads as another instruction, or encodes to other bytes
                let pieces_ok = tandem_backend::decode::pieces(&rec).len() == 1
                    && tandem_backend::decode::pieces(&rec)[0].is_ok();
                let whole = pieces_ok
                    && tandem_backend::decode::Index::default().at(&rec).is_ok_and(|(n, _)| n == rec.len());
                let back = if whole {
                    b.decode_patched(&rec, &e.patch)
                } else {
                    Err(tandem_backend::encode::WireError::new(diag::codes::E0104, ""))
                };
                match back {
                    Err(_) => refused += 1,
                    Ok(mut x) => {
                        x.engine = i.engine;
                        let same = b.encode_full(&x, i.engine, 0).is_ok_and(|y| y.records == rec);
                        let original = b.decode_patched(&e.records, &e.patch).unwrap();
                        if same {
                            x.engine = original.engine;
                            assert!(
                                x != original,
                                "{} byte {k:#04x} of record {r} changes nothing",
                                i.opcode
                            );
                        } else {
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(refused * 2 > flips, "{refused} of {flips} refused");
}
