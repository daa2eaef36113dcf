//! The join table: each of the 76 operators and the instructions it becomes.
//!
//! Expected InstructionTypes, engines and attributes are those of the specification, file 04 §§6.2, 7, 8 and 10,
//! written down by hand.

mod kernels;

use kernels::*;
use tandem_bir::inst::F32;
use tandem_bir::{
    ActivationFunctionType as Act, AluOp as A, ApPair, ArchLevel, Attr, AttrValue as V, AxisListType,
    BirEnum, BranchCompareOp, CollectiveDimension, CollectiveKind, CopyMode, DebugDeviceBuffer, DgeType,
    EngineAccumulationType as Acc, EngineKind as E, MatmultPerfMode, MemsetMode, Opcode, TransposeOps as T,
    TscMode,
};
use tandem_klr::ast::*;
use tandem_klr::build::{self, float, int};
use tandem_klr::lower::{LowerOptions, lower};

/// What an operator becomes.
enum Want {
    /// Text of the refusal.
    Refused(&'static str),
    /// InstructionTypes in order; engine, operand letters and attributes of the first one that is not a helper.
    Leaf(&'static [u16], E, &'static str, &'static str, Vec<(Attr, V)>),
}
use Want::{Leaf, Refused};

fn e<T: BirEnum>(v: T) -> V {
    V::Enum(v.ordinal())
}
fn i(v: i64) -> V {
    V::Int(v)
}
fn b(v: bool) -> V {
    V::Bool(v)
}
fn f(v: f32) -> V {
    V::F32(F32(v))
}
fn op_f(v: f32) -> Operand {
    Operand::Imm(float(v))
}
fn op_t(name: &str) -> Operand {
    Operand::Tile(tile(name, Dtype::Float32, &[128, 1]))
}
fn psum(name: &str, dtype: Dtype, dims: &[u64]) -> TensorRef {
    build::whole(&build::tensor(name, dtype, Memory::Psum, dims))
}
fn data_pattern() -> DataPattern {
    DataPattern { offset: 5, pattern: [build::pair(2, 64)].into_iter().collect(), channel_multiplier: 100 }
}
fn groups() -> V {
    V::Groups(Box::new([Box::new([0i64, 1])]))
}
fn cc(dst: &str, src: &str) -> CollectiveOp {
    build::collective(vec![t(dst)], vec![t(src)], &[&[0, 1]])
}
fn gathered() -> CollectiveOp {
    let mut c = build::collective(vec![hbm("g", &[256, 64])], vec![hbm("h", &[128, 64])], &[&[0, 1]]);
    c.concat_dim = Some(0);
    c
}

fn activate() -> NcActivate {
    NcActivate {
        dst: t("a"),
        src: t("b"),
        accumulator_cmd: AccumCmd::Accumulate,
        activation_func: ActivationFunc::GeluApprxTanh,
        scale: op_f(0.5),
        bias: Some(tile("bias", Dtype::Float32, &[128, 1])),
        reduce_op: None,
        reduce_res: None,
        dtype: Some(Dtype::Float32),
    }
}

fn branch(op: BrCmpOp) -> CmpBranch {
    let label = Str::new("end.0");
    let reg = Str::new("r");
    CmpBranch { reg1: reg.clone(), reg2: reg, imm: 7, op, true_label: label.clone(), false_label: label }
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn table() -> Vec<(Operator, Want)> {
    use Operator as O;
    let none = || Vec::new();
    vec![
        (
            O::Activate(Activate {
                dst: t("a"),
                src: t("b"),
                accumulator_cmd: AccumCmd::Idle,
                activation_func: ActivationFunc::Exp,
                scale: float(1.0),
                bias: float(0.0),
                imm: float(0.0),
            }),
            Refused("activate: Unsupported operator 1 (activate)"),
        ),
        (
            O::NcActivate(activate()),
            Leaf(
                &[4],
                E::Activation,
                "AA",
                "A",
                vec![
                    (Attr::Func, e(Act::GeluApprxTanh)),
                    (Attr::Acc, e(Acc::AddAccumulate)),
                    (Attr::Scale, f(0.5)),
                    (Attr::Alpha, f(0.0)),
                    (Attr::Op0, e(A::Bypass)),
                    (Attr::Op1, e(A::Bypass)),
                    (Attr::IsActivate2, b(false)),
                ],
            ),
        ),
        (
            O::ActivationReduce(NcActivate {
                scale: op_t("s"),
                reduce_op: Some(AluOp::Add),
                reduce_res: Some(tile("r", Dtype::Float32, &[128, 1])),
                accumulator_cmd: AccumCmd::ZeroAccumulate,
                ..activate()
            }),
            Leaf(
                &[4],
                E::Activation,
                "AAA",
                "AA",
                vec![(Attr::Scale, f(1.0)), (Attr::ReduceOp, e(A::Add)), (Attr::Acc, e(Acc::ZeroAccumulate))],
            ),
        ),
        (
            O::AffineSelect(AffineSelect {
                dst: t("a"),
                src: t("b"),
                fill_mode: AffineSelectCmp::Eq,
                fill_reg: 0,
                mask_pattern: data_pattern(),
            }),
            Refused("affineSelect: Unsupported operator 4 (affineSelect)"),
        ),
        (
            O::NcAffineSelect(NcAffineSelect {
                dst: t("a"),
                pred: data_pattern(),
                on_true_tile: t("b"),
                on_false_value: float(-1.5),
                dtype: None,
                cmp_op: AluOp::IsGe,
            }),
            Leaf(
                &[62],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Base, i(5)),
                    (Attr::Pattern, V::Pairs(Box::new([ApPair::new(2, 64)]))),
                    (Attr::ChannelMultiplier, i(100)),
                    (Attr::CompareOp, e(A::IsGe)),
                    (Attr::FillValue, f(-1.5)),
                ],
            ),
        ),
        (
            O::BatchNormAggregate(BatchNormAggregate {
                dst: tile("a", Dtype::Float32, &[128, 2]),
                src: tile("b", Dtype::Float32, &[128, 60]),
                dtype: None,
            }),
            Leaf(&[35], E::Unassigned, "A", "A", none()),
        ),
        (
            O::BatchNormStats(BatchNormStats {
                dst: tile("a", Dtype::Float32, &[128, 6]),
                src: t("b"),
                dtype: None,
            }),
            Leaf(&[34], E::Unassigned, "A", "A", vec![(Attr::ApplyTranspose, b(false))]),
        ),
        (
            O::Copy(CopyOp { dst: t("a"), src: t("b"), op_dim: None }),
            Refused("copy: Unsupported operator 8 (copy)"),
        ),
        (
            O::NcCopy(NcCopy { dst: t("a"), src: t("b"), dtype: None, engine: Engine::Act }),
            Leaf(&[23], E::Activation, "A", "A", none()),
        ),
        (
            O::CopyPredicated(CopyPredicated {
                dst: t("a"),
                src: t("b"),
                predicate: tile("p", Dtype::Uint8, &[128, 64]),
                dtype: None,
                reverse_pred: true,
            }),
            Leaf(
                &[52],
                E::Unassigned,
                "AA",
                "A",
                vec![
                    (Attr::ReversePred, b(true)),
                    (Attr::ReduceOp, e(A::Bypass)),
                    (Attr::AccumulatorCmd, e(Acc::Idle)),
                ],
            ),
        ),
        (
            O::DmaCopy(DmaCopy {
                dst: t("a"),
                src: t("b"),
                compute_op: DgeComputeOp::None,
                dst_bounds_check: DmaBounds::Skip,
                src_bounds_check: DmaBounds::Skip,
            }),
            Refused("dmaCopy: Unsupported operator 11 (dmaCopy)"),
        ),
        (
            O::NcDmaCopy(NcDmaCopy {
                dst: t("a"),
                src: t("b"),
                compute_op: DgeComputeOp::None,
                oob_mode: DmaBounds::Skip,
                dge_mode: 2,
                unique_indices: true,
                priority: Some(3),
                engine: Engine::Sp,
            }),
            Leaf(
                &[32],
                E::Sp,
                "A",
                "A",
                vec![
                    (Attr::Mode, e(CopyMode::Copy)),
                    (Attr::DgeTypeKey, e(DgeType::HwDge)),
                    (Attr::OobIsErr, b(false)),
                    (Attr::CceOp, e(A::Bypass)),
                    (Attr::DmaQos, V::Enum(5)),
                ],
            ),
        ),
        (
            O::DmaTranspose(DmaTranspose {
                dst: tile("a", Dtype::Float32, &[8, 2, 4, 8]),
                src: tile("b", Dtype::Float32, &[8, 2, 4, 8]),
                axes: TransposeOps::None,
                dtype: None,
                dge_mode: 1,
                oob_mode: DmaBounds::Error,
                priority: None,
            }),
            Leaf(
                &[32],
                E::Pool,
                "A",
                "A",
                vec![
                    (Attr::Mode, e(CopyMode::Transpose)),
                    (Attr::TransposeOp, e(T::Xzyw)),
                    (Attr::DgeTypeKey, e(DgeType::SwDge)),
                    (Attr::OobIsErr, b(true)),
                ],
            ),
        ),
        (
            O::Dropout(Dropout {
                dst: t("a"),
                src: t("b"),
                threshold_type: DropoutThresholdType::KeepRate,
                threshold: op_f(0.25),
                dtype: None,
            }),
            Leaf(&[65], E::Unassigned, "AF", "A", vec![(Attr::IsKeepThreshold, b(true))]),
        ),
        (
            O::FindIndex8(FindIndex8 {
                dst: tile("a", Dtype::Uint32, &[128, 8]),
                src: t("b"),
                vals: tile("v", Dtype::Float32, &[128, 8]),
                dtype: None,
            }),
            Leaf(&[89], E::Unassigned, "AA", "A", none()),
        ),
        (
            O::Iota(Iota { dst: tile("a", Dtype::Int32, &[128, 64]), pattern: data_pattern(), dtype: None }),
            Leaf(
                &[61],
                E::Unassigned,
                "",
                "A",
                vec![
                    (Attr::Base, i(5)),
                    (Attr::Pattern, V::Pairs(Box::new([ApPair::new(2, 64)]))),
                    (Attr::ChannelMultiplier, i(100)),
                ],
            ),
        ),
        (
            O::LoadMaskRegister(LoadMaskRegister { reg_num: 0 }),
            Refused("loadMaskRegister: Unsupported operator 17 (loadMaskRegister)"),
        ),
        (
            O::LoadStationary(LoadStationary { src: t("a"), is_transpose: false }),
            Refused("loadStationary: Unsupported operator 18 (loadStationary)"),
        ),
        (
            O::LocalGather(LocalGather {
                dst: t("a"),
                src: t("b"),
                index_miss_behavior: IndexMissBehavior::Skip,
                free_pool_buffer: false,
            }),
            Refused("localGather: Unsupported operator 19 (localGather)"),
        ),
        (
            O::NcLocalGather(NcLocalGather {
                dst: t("a"),
                src: t("b"),
                index: tile("x", Dtype::Uint16, &[128, 4]),
                num_elem_per_idx: int(1),
                num_valid_indicies: Some(int(40)),
            }),
            Leaf(&[26], E::Unassigned, "AAI", "A", vec![(Attr::NumValidIndices, i(40))]),
        ),
        (
            O::MatMul(MatMul { dst: t("a"), moving: t("b") }),
            Refused("matMul: Unsupported operator 21 (matMul)"),
        ),
        (
            O::NcMatMul(NcMatMul {
                dst: psum("a", Dtype::Float32, &[64, 64]),
                stationary: t("w"),
                moving: t("m"),
                is_stationary_one_zero: true,
                is_moving_zero: false,
                is_transpose: false,
                tile_position: vec![0, 64],
                tile_size: vec![64, 32],
                perf_mode: MatmulPerfMode::DoubleRowSwInterleave,
            }),
            Leaf(
                &[8],
                E::Pe,
                "AA",
                "A",
                vec![
                    (Attr::IsWeightOnezero, b(true)),
                    (Attr::IsFmapOnezero, b(false)),
                    (Attr::IsTranspose, b(false)),
                    (Attr::TilePosition, V::Ints(Box::new([0, 64]))),
                    (Attr::TileSize, V::Ints(Box::new([64, 32]))),
                    (Attr::PerfMode, e(MatmultPerfMode::DoubleRowSwInterleave)),
                    (Attr::AccumulationFlag, i(0x80)),
                ],
            ),
        ),
        (
            O::MatchReplace8(MatchReplace8 {
                dst: t("a"),
                src: t("b"),
                vals: tile("v", Dtype::Float32, &[128, 8]),
                replace_value: float(-9.0),
                dst_idx: None,
                dtype: None,
            }),
            Leaf(&[90], E::Unassigned, "AA", "A", vec![(Attr::ImmValue, f(-9.0))]),
        ),
        (
            O::MatchValueLoad(MatchValueLoad { src: t("a") }),
            Refused("matchValueLoad: Unsupported operator 24 (matchValueLoad)"),
        ),
        (
            O::Max8(Max8 { dst: tile("a", Dtype::Float32, &[128, 8]), src: t("b"), dtype: None }),
            Leaf(&[88], E::Unassigned, "A", "A", none()),
        ),
        (
            O::MemSet(MemSet { dst: t("a"), value: int(3), dtype: Dtype::Float32, engine: Engine::Pool }),
            Leaf(
                &[10],
                E::Pool,
                "",
                "A",
                vec![(Attr::Mode, e(MemsetMode::Const)), (Attr::Constant, i(0x4040_0000))],
            ),
        ),
        (
            O::RangeSelect(RangeSelect {
                dst: t("a"),
                src: t("b"),
                reduce_command: AccumCmd::Idle,
                reduce_op: AluOp::Max,
                base: 0.0.into(),
                fill_value: 0.0.into(),
                comp_op0: AluOp::IsGe,
                comp_op1: AluOp::IsLt,
                bound0: float(0.0),
                bound1: float(1.0),
            }),
            Refused("rangeSelect: Unsupported operator 27 (rangeSelect)"),
        ),
        (
            O::NcRangeSelect(NcRangeSelect {
                dst: t("a"),
                reduce_command: AccumCmd::ZeroAccumulate,
                reduce_res: Some(tile("r", Dtype::Float32, &[128, 1])),
                reduce_op: Some(AluOp::Max),
                comp_op0: AluOp::IsGe,
                comp_op1: AluOp::IsLt,
                bound0: tile("lo", Dtype::Float32, &[128, 1]),
                bound1: tile("hi", Dtype::Float32, &[128, 1]),
                range_start: int(16),
                on_true_tile: t("b"),
                on_false_value: float(-3.0),
                dtype: None,
            }),
            Leaf(
                &[63],
                E::Unassigned,
                "AAA",
                "AA",
                vec![
                    (Attr::Base, f(16.0)),
                    (Attr::CompareOp0, e(A::IsGe)),
                    (Attr::CompareOp1, e(A::IsLt)),
                    (Attr::ReduceOp, e(A::Max)),
                    (Attr::ReduceCmd, e(Acc::ZeroAccumulate)),
                    (Attr::FillValue, f(-3.0)),
                ],
            ),
        ),
        (
            O::Reciprocal(Reciprocal { dst: t("a"), src: t("b"), dtype: None }),
            Leaf(&[21], E::Unassigned, "A", "A", none()),
        ),
        (
            O::ScalarTensorTensor(ScalarTensorTensor {
                dst: t("a"),
                src0: t("b"),
                src1: t("c"),
                op0: AluOp::Add,
                op1: AluOp::Mult,
                reverse_operands: TensorScalarReverseOps::None,
                imm0: float(0.0),
                accumulator_cmd: AccumCmd::Idle,
            }),
            Refused("scalarTensorTensor: Unsupported operator 30 (scalarTensorTensor)"),
        ),
        (
            O::NcScalarTensorTensor(NcScalarTensorTensor {
                dst: t("a"),
                data: t("b"),
                src0: op_f(2.0),
                src1: Operand::Tile(t("c")),
                op0: AluOp::Subtract,
                op1: AluOp::Mult,
                reverse_operands: TensorScalarReverseOps::First,
                dtype: None,
            }),
            Leaf(
                &[29],
                E::Unassigned,
                "AFA",
                "A",
                vec![
                    (Attr::Op0, e(A::Subtract)),
                    (Attr::Op1, e(A::Mult)),
                    (Attr::Reverse0, b(true)),
                    (Attr::Reverse1, b(false)),
                    (Attr::IsScalarTensorTensor, b(true)),
                    (Attr::IsTensorTensorScan, b(false)),
                ],
            ),
        ),
        (
            O::Shuffle(Shuffle {
                dst: t("a"),
                src: t("b"),
                shuffle_mask: (0..32).map(int).collect(),
                dtype: None,
            }),
            Leaf(&[39], E::Unassigned, "A", "A", vec![(Attr::Mask, V::Ints((0..32).collect()))]),
        ),
        (
            O::TensorReduce(TensorReduce {
                dst: tile("a", Dtype::Float32, &[128, 1]),
                src: tile("b", Dtype::Float32, &[128, 4, 16]),
                op: AluOp::Max,
                op_dim: TensorSubDim::Xy,
                negated: true,
                dtype: None,
                keepdims: true,
            }),
            Leaf(
                &[27],
                E::Unassigned,
                "A",
                "A",
                vec![(Attr::Axis, e(AxisListType::Xy)), (Attr::Negate, b(true)), (Attr::Op, e(A::Max))],
            ),
        ),
        (
            O::TensorScalar(TensorScalar {
                dst: t("a"),
                src: t("b"),
                imm0: op_t("s"),
                op0: AluOp::Mult,
                imm1: Some(op_f(1.0)),
                op1: Some(AluOp::Add),
                reverse: TensorScalarReverseOps::Second,
                engine: Engine::Dve,
                dtype: None,
            }),
            Leaf(
                &[29],
                E::Dve,
                "AAF",
                "A",
                vec![
                    (Attr::Op0, e(A::Mult)),
                    (Attr::Op1, e(A::Add)),
                    (Attr::Reverse0, b(false)),
                    (Attr::Reverse1, b(true)),
                    (Attr::IsTensorScalarAddr, b(true)),
                    (Attr::IsScalarTensorTensor, b(false)),
                ],
            ),
        ),
        (
            build::tensor_tensor(t("a"), t("b"), t("c"), AluOp::Subtract, Engine::Pool),
            Leaf(&[31], E::Pool, "AA", "A", vec![(Attr::Op, e(A::Subtract)), (Attr::Acc, e(Acc::Idle))]),
        ),
        (
            O::TensorTensorScan(TensorTensorScan {
                dst: t("a"),
                src0: t("b"),
                src1: t("c"),
                op0: AluOp::Mult,
                op1: AluOp::Add,
                reverse_operands: TensorScalarReverseOps::Both,
                imm0: op_f(0.0),
                accumulator_cmd: AccumCmd::Zero,
                dtype: None,
            }),
            Leaf(
                &[29],
                E::Unassigned,
                "AFA",
                "A",
                vec![
                    (Attr::IsTensorTensorScan, b(true)),
                    (Attr::IsScalarTensorTensor, b(true)),
                    (Attr::Acc, e(Acc::Zero)),
                    (Attr::Reverse0, b(true)),
                    (Attr::Reverse1, b(true)),
                ],
            ),
        ),
        (
            O::TensorPartitionReduce(TensorPartitionReduce {
                dst: tile("a", Dtype::Float32, &[1, 64]),
                op: AluOp::Add,
                data: t("b"),
                dtype: None,
            }),
            Leaf(
                &[27],
                E::Unassigned,
                "A",
                "A",
                vec![(Attr::Axis, e(AxisListType::C)), (Attr::Negate, b(false)), (Attr::Op, e(A::Add))],
            ),
        ),
        (
            O::TensorScalarReduce(TensorScalarReduce {
                dst: t("a"),
                src: t("b"),
                operand0: op_f(2.0),
                op0: AluOp::Mult,
                reverse0: true,
                dtype: None,
                reduce_op: Some(AluOp::Max),
                reduce_res: tile("r", Dtype::Float32, &[128, 1]),
                reduce_cmd: AccumCmd::Idle,
                reduce_init: None,
            }),
            Leaf(
                &[29],
                E::Unassigned,
                "AF",
                "AA",
                vec![
                    (Attr::Op0, e(A::Mult)),
                    (Attr::Op1, e(A::Max)),
                    (Attr::Reverse0, b(true)),
                    (Attr::Acc, e(Acc::ZeroAccumulate)),
                ],
            ),
        ),
        (
            O::Transpose(Transpose {
                dst: tile("a", Dtype::Float32, &[32, 32]),
                src: tile("b", Dtype::Float32, &[32, 32]),
                dtype: None,
                engine: Engine::Dve,
            }),
            Leaf(&[40], E::Unassigned, "A", "A", none()),
        ),
        (
            O::SelectReduce(SelectReduce {
                dst: t("a"),
                predicate: tile("p", Dtype::Uint8, &[128, 64]),
                on_true: t("b"),
                on_false: op_f(-1.0),
                reduce_res: Some(tile("r", Dtype::Float32, &[128, 1])),
                reduce_cmd: AccumCmd::ZeroAccumulate,
                reduce_op: AluOp::Max,
                reverse_pred: true,
                dtype: None,
            }),
            Leaf(
                &[52],
                E::Unassigned,
                "AAF",
                "AA",
                vec![
                    (Attr::AccumulatorCmd, e(Acc::ZeroAccumulate)),
                    (Attr::ReduceOp, e(A::Max)),
                    (Attr::ReversePred, b(true)),
                ],
            ),
        ),
        (
            O::SequenceBounds(SequenceBounds {
                dst: tile("a", Dtype::Float32, &[128, 128]),
                segment_ids: t("b"),
                dtype: None,
            }),
            Leaf(&[64], E::Unassigned, "A", "A", none()),
        ),
        (
            build::send_recv(t("a"), t("b"), 1, 2),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::SendRecv)),
                    (Attr::IsLocal, b(true)),
                    (Attr::PipeId, i(2)),
                    (Attr::InitialCorebarrier, b(true)),
                    (Attr::UseGpsimdDma, b(false)),
                    (Attr::StreamId, i(-1)),
                    (Attr::Op, e(A::Bypass)),
                ],
            ),
        ),
        (
            O::SendRecvCompute(SendRecvCompute {
                dsts: vec![t("a")],
                srcs: vec![t("b")],
                send_to_ranks: vec![int(1)],
                recv_from_ranks: vec![int(1)],
                pipe_id: int(0),
                op: AluOp::Add,
            }),
            Refused("sendRecvCompute: Unsupported operator 43 (sendRecvCompute)"),
        ),
        (
            O::TensorLoad(TensorLoad { dst: Str::new("q"), src: tile("i", Dtype::Int32, &[1, 1]) }),
            Leaf(&[75], E::All, "A", "R", none()),
        ),
        (
            O::TensorStore(TensorStore { dst: tile("i", Dtype::Int32, &[1, 1]), src: Str::new("q") }),
            Leaf(&[76], E::All, "R", "A", none()),
        ),
        (O::RegisterMove(RegisterMove { dst: Str::new("q"), imm: 4 }), Leaf(&[74], E::All, "I", "R", none())),
        (
            O::CmpBranch(branch(BrCmpOp::GeReg)),
            Leaf(
                &[78],
                E::Unassigned,
                "RR",
                "",
                vec![
                    (Attr::CompOp, e(BranchCompareOp::GeReg)),
                    (Attr::OnTrue, V::Str("end.0".into())),
                    (Attr::OnFalse, V::Str("end.0".into())),
                ],
            ),
        ),
        (
            O::RegisterAluOp(RegisterAluOp {
                dst: Str::new("q"),
                src: Str::new("r"),
                imm: 8,
                op: AluOp::Mult,
            }),
            Leaf(&[73], E::All, "RI", "R", vec![(Attr::Op, e(A::Mult)), (Attr::Is64bit, b(false))]),
        ),
        (
            O::QuantizeMx(QuantizeMx {
                dst: tile("a", Dtype::Float8E4m3fnX4, &[128, 16]),
                src: tile("b", Dtype::Bfloat16, &[128, 64]),
                dst_scale: tile("s", Dtype::Uint8, &[128, 16]),
            }),
            Leaf(&[96], E::Dve, "A", "AA", none()),
        ),
        (
            O::NcMatMulMx(MatMulMx {
                dst: psum("a", Dtype::Float32, &[128, 64]),
                stationary: tile("w", Dtype::Float8E4m3fnX4, &[128, 128]),
                moving: tile("m", Dtype::Float8E4m3fnX4, &[128, 64]),
                stationary_scale: tile("ws", Dtype::Uint8, &[128, 128]),
                moving_scale: tile("ms", Dtype::Uint8, &[128, 64]),
                tile_position: None,
                tile_size: Some(vec![128, 128]),
            }),
            Leaf(&[95], E::Pe, "AAAA", "A", vec![(Attr::TileSize, V::Ints(Box::new([128, 128])))]),
        ),
        (
            O::DmaCompute(DmaCompute {
                dst: t("a"),
                srcs: vec![t("b"), t("c")],
                scales: vec![float(1.0), float(0.5)],
                reduce_op: AluOp::Add,
            }),
            Leaf(
                &[32],
                E::Unassigned,
                "AA",
                "A",
                vec![
                    (Attr::Mode, e(CopyMode::Cce)),
                    (Attr::CceOp, e(A::Add)),
                    (Attr::Constants, V::Floats(Box::new([F32(1.0), F32(0.5)]))),
                ],
            ),
        ),
        (
            O::AllReduce(CollectiveOp { op: Some(AluOp::Max), ..cc("a", "b") }),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::AllReduce)),
                    (Attr::Op, e(A::Max)),
                    (Attr::ReplicaGroups, groups()),
                    (Attr::IsLocal, b(true)),
                    (Attr::StreamId, i(-1)),
                ],
            ),
        ),
        (
            O::AllGather(CollectiveOp { priority: Some(0), ..gathered() }),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::AllGather)),
                    (Attr::CcDim, e(CollectiveDimension::Partition)),
                    (Attr::ReplicaGroups, groups()),
                    (Attr::DmaQos, V::Enum(2)),
                    (Attr::StreamId, i(-1)),
                ],
            ),
        ),
        (
            O::ReduceScatter(CollectiveOp {
                op: Some(AluOp::Add),
                concat_dim: Some(-1),
                ..build::collective(vec![hbm("g", &[128, 32])], vec![hbm("h", &[128, 64])], &[&[0, 1]])
            }),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::ReduceScatter)),
                    (Attr::CcDim, e(CollectiveDimension::Free)),
                    (Attr::Op, e(A::Add)),
                    (Attr::ReplicaGroups, groups()),
                ],
            ),
        ),
        (
            O::CollectivePermute(CollectiveOp {
                replica_group: ReplicaGroup::Unspecified,
                source_target_pairs: Some(vec![vec![0, 1], vec![1, 0]]),
                ..cc("a", "b")
            }),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::Permute)),
                    (Attr::SrcTargetPairs, V::Groups(Box::new([Box::new([0, 1]), Box::new([1, 0])]))),
                    (Attr::ReplicaGroups, V::Groups(Box::new([]))),
                    (Attr::Op, e(A::Bypass)),
                    (Attr::StreamId, i(-1)),
                ],
            ),
        ),
        (
            O::CollectivePermuteImplicit(CollectiveOp {
                channel_id: Some(3),
                num_channels: Some(4),
                ..cc("a", "b")
            }),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::PermuteImplicit)),
                    (Attr::ReplicaGroups, groups()),
                    (Attr::SrcTargetPairs, V::Groups(Box::new([]))),
                    (Attr::CcChannel, i(3)),
                ],
            ),
        ),
        (
            O::CollectivePermuteImplicitReduce(CollectiveOp {
                srcs: vec![t("b"), t("c")],
                op: Some(AluOp::Add),
                channel_id: Some(0),
                ..cc("a", "b")
            }),
            Leaf(
                &[48],
                E::Unassigned,
                "AA",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::PermuteReduceImplicit)),
                    (Attr::Op, e(A::Add)),
                    (Attr::ReplicaGroups, groups()),
                    (Attr::CcChannel, i(0)),
                    (Attr::StreamId, i(-1)),
                ],
            ),
        ),
        (O::Broadcast(cc("a", "b")), Refused("broadcast: Unsupported operator 58 (broadcast)")),
        (
            O::AllToAll(CollectiveOp { concat_dim: Some(1), ..cc("a", "b") }),
            Leaf(
                &[48],
                E::Unassigned,
                "A",
                "A",
                vec![
                    (Attr::Kind, e(CollectiveKind::AllToAll)),
                    (Attr::ConcatDim, i(1)),
                    (Attr::CcDim, e(CollectiveDimension::Free)),
                    (Attr::ReplicaGroups, groups()),
                ],
            ),
        ),
        (
            O::RankId(RankId { dst: Str::new("q") }),
            Leaf(&[11], E::All, "", "R", vec![(Attr::WorldSize, i(0))]),
        ),
        (
            O::CurrentProcessingRankId(CurrentProcessingRankId {
                dst: Str::new("q"),
                iteration_id: 1,
                channel_id: 2,
                num_channels: 4,
                replica_group: vec![vec![0, 1]],
            }),
            Leaf(
                &[66],
                E::All,
                "",
                "R",
                vec![(Attr::IterId, i(1)), (Attr::ChannelId, i(2)), (Attr::ReplicaGroups, groups())],
            ),
        ),
        (
            O::Send(SendOp { op: AluOp::Add, srcs: vec![t("a")], peer_id: 1 }),
            Refused("send: Unsupported operator 62 (send)"),
        ),
        (
            O::Recv(RecvOp { op: AluOp::Add, dsts: vec![t("a")], replica_groups: vec![0, 1], peer_id: 1 }),
            Refused("recv: Unsupported operator 63 (recv)"),
        ),
        (
            O::CoreBarrier(CoreBarrier {
                data: hbm("h", &[128, 64]),
                cores: vec![0, 1],
                engine: Engine::Pool,
            }),
            Leaf(
                &[87],
                E::Pool,
                "A",
                "A",
                vec![
                    (Attr::Cores, V::Ints(Box::new([0, 1]))),
                    (Attr::Id, i(0)),
                    (Attr::RuntimeSemaphore, i(0)),
                ],
            ),
        ),
        (
            O::Rng(Rng { dst: tile("a", Dtype::Uint32, &[128, 64]), engine: Engine::Pool }),
            Leaf(&[10], E::Pool, "", "A", vec![(Attr::Mode, e(MemsetMode::Random))]),
        ),
        (
            O::Rand2(Rand2 { dst: t("a"), min: op_f(0.0), max: op_t("s") }),
            Leaf(&[97], E::Unassigned, "FA", "A", none()),
        ),
        (
            O::RandGetState(RandGetState { dst: tile("a", Dtype::Uint32, &[128, 24]), engine: Engine::Dve }),
            Leaf(&[99], E::Dve, "", "A", none()),
        ),
        (
            O::SetRngSeed(SetRngSeed { src: tile("a", Dtype::Uint32, &[128, 1]) }),
            Leaf(&[59], E::Unassigned, "A", "", none()),
        ),
        (
            O::RandSetState(RandSetState { src: tile("a", Dtype::Uint32, &[128, 24]), engine: Engine::Pool }),
            Leaf(&[98], E::Pool, "A", "", none()),
        ),
        (
            O::ExtendedInst(ExtendedInst {
                opcode: 1,
                has_read: false,
                has_write: false,
                ports: 0,
                data0: vec![],
                data1: vec![],
            }),
            Refused("extendedInst: Unsupported operator 70 (extendedInst)"),
        ),
        (
            O::TensorScalarCumulative(TensorScalarCumulative {
                dst: t("a"),
                src: t("b"),
                op0: AluOp::Mult,
                op1: AluOp::Add,
                imm0: op_f(1.0),
                imm1: Some(op_f(0.0)),
                reduce_cmd: AccumCmd::ZeroAccumulate,
                reverse: TensorScalarReverseOps::None,
                dtype: None,
            }),
            Leaf(
                &[30],
                E::Dve,
                "AFF",
                "A",
                vec![
                    (Attr::Mode, e(TscMode::Cumulative)),
                    (Attr::Acc, e(Acc::ZeroAccumulate)),
                    (Attr::Op0, e(A::Mult)),
                    (Attr::Op1, e(A::Add)),
                ],
            ),
        ),
        (
            O::NcNGather(NcNGather {
                dst: t("a"),
                data: t("b"),
                indices: tile("x", Dtype::Uint32, &[128, 64]),
                dtype: None,
            }),
            Leaf(&[92], E::Unassigned, "AA", "A", none()),
        ),
        (
            O::NonzeroWithCount(NonzeroWithCount {
                dst: tile("a", Dtype::Int32, &[128, 65]),
                src: t("b"),
                index_offset: int(0),
                padding_val: int(-1),
            }),
            Leaf(&[104], E::Unassigned, "AII", "A", none()),
        ),
        (
            O::DevicePrint(DevicePrint {
                src: t("a"),
                print_prefix: Str::new("hello"),
                buffer: PrintOutputBuffer::Stderr,
            }),
            Leaf(
                &[57],
                E::Unassigned,
                "A",
                "",
                vec![
                    (Attr::Prefix, V::Str("hello".into())),
                    (Attr::OutputBuffer, e(DebugDeviceBuffer::Stderr)),
                ],
            ),
        ),
        (
            O::Exponential(Exponential {
                dst: t("a"),
                src: t("b"),
                max_value: op_t("m"),
                reduce_res: Some(tile("r", Dtype::Float32, &[128, 1])),
                reduce_cmd: AccumCmd::ZeroAccumulate,
                reduce_init: op_f(0.0),
            }),
            Leaf(&[103, 102], E::Dve, "AAF", "A", vec![(Attr::ReduceCmd, e(Acc::ZeroAccumulate))]),
        ),
        (
            O::Activate2(Activate2 {
                dst: t("a"),
                src: t("b"),
                op0: AluOp::Mult,
                op1: AluOp::Subtract,
                imm0: op_f(2.0),
                imm1: op_t("s"),
                activation_func: ActivationFunc::Relu,
                relu_param: op_f(0.125),
                reduce_op: AluOp::Max,
                reduce_res: Some(tile("r", Dtype::Float32, &[128, 1])),
                reduce_cmd: AccumCmd::Accumulate,
                reverse0: true,
                reverse1: false,
                dtype: None,
            }),
            Leaf(
                &[4],
                E::Unassigned,
                "AFAF",
                "AA",
                vec![
                    (Attr::IsActivate2, b(true)),
                    (Attr::Op0, e(A::Mult)),
                    (Attr::Op1, e(A::Subtract)),
                    (Attr::ReduceOp, e(A::Max)),
                    (Attr::Reverse0, b(true)),
                    (Attr::Reverse1, b(false)),
                    (Attr::Acc, e(Acc::AddAccumulate)),
                    (Attr::Func, e(Act::Relu)),
                    (Attr::Alpha, f(0.125)),
                    (Attr::Scale, f(1.0)),
                ],
            ),
        ),
    ]
}

/// The operator on core 0 between a register move and the end; core 1 mirrors what must be mirrored.
fn kernel(op: &Operator) -> LncKernel {
    let set = Operator::RegisterMove(RegisterMove { dst: Str::new("r"), imm: 1 });
    let body = |op: Operator| {
        let mut first = stmts(vec![set.clone(), op]);
        if !matches!(first[1].op, Operator::CmpBranch(_)) {
            first.push(build::stmt("jmp", 99, build::jump("end.0")));
        }
        vec![build::block("main.0", first), build::block("end.0", vec![build::stmt("fin", 100, set.clone())])]
    };
    let mut other = op.clone();
    if let Operator::SendRecv(s) = &mut other {
        s.send_to_rank = int(0);
        s.recv_from_rank = int(0);
    }
    build::lnc("k", &[], &[], vec![body(op.clone()), body(other)])
}

#[test]
fn every_operator_becomes_what_the_join_says() {
    let table = table();
    let indexes: Vec<u8> = table.iter().map(|(op, _)| op.cbor_index()).collect();
    assert_eq!(indexes, (0..76).collect::<Vec<u8>>());
    let mut reached = std::collections::BTreeSet::new();
    let mut refused = Vec::new();
    for (op, want) in &table {
        // gen4 has every instruction type
        let l = lower(&kernel(op).into(), &LowerOptions { arch: ArchLevel::CoreV4, ..options() });
        match want {
            Refused(text) => {
                refused.push(op.kind());
                assert!(l.program.is_none(), "{}", op.name());
                for d in &l.diags {
                    assert_eq!((d.code.info().id, d.message.as_str()), ("K0010", *text));
                    assert_eq!(d.sites[0].pos.as_ref().map(|p| p.line), Some(11));
                }
                assert_eq!(l.diags.len(), 2);
                assert_eq!(tandem_bir::diag::exit_code(&l.diags), 3);
            }
            Leaf(its, engine, ins, outs, attrs) => {
                let p = good(l);
                if let Err(found) = tandem_bir::verify::verify(&p) {
                    assert!(!found.iter().any(|d| d.is_error()), "{}: {found:#?}", op.name());
                }
                let m = &p.modules[0];
                let all = insts(m);
                let got: Vec<u16> = all[1..all.len() - 2]
                    .iter()
                    .chain(all.get(1).filter(|i| i.opcode == Opcode::CompareAndBranch))
                    .map(|i| i.opcode as u16)
                    .collect();
                assert_eq!(got, *its, "{}", op.name());
                reached.extend(got);
                let main = all[1];
                assert_eq!(main.engine, *engine, "{}", op.name());
                assert_eq!(letters(&main.ins), *ins, "{} inputs", op.name());
                assert_eq!(letters(&main.outs), *outs, "{} outputs", op.name());
                for (attr, value) in attrs {
                    assert_eq!(main.attr(*attr).as_ref(), Some(value), "{} {}", op.name(), attr.key());
                }
                let collective = main.opcode == Opcode::CollectiveCompute;
                assert_eq!(main.name == "s1", !collective, "{}", main.name);
            }
        }
    }
    assert_eq!(refused, [1, 4, 8, 11, 17, 18, 19, 21, 24, 27, 30, 43, 58, 62, 63, 70]);
    // 60 leaves; with the other sides of the fan-outs they reach 48 opcodes, and IT 102 as a by-product.
    for other in [24, 25, 44, 91, 79] {
        reached.insert(other);
    }
    assert_eq!(reached.len(), 49);
    assert!(!reached.contains(&(Opcode::GenericCopy as u16)));
}
