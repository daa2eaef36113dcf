//! The 76 operators of a traced kernel and the structures that hold their fields.
//!
//! Fields, numbers and engines: the specification, file 02 §5.4 and §5.5. A field written with `= value` is absent
//! from files of the 2.24 layout and gets that value there (file 04 §13).

use super::enums::*;
use super::prim::{F32, Str};
use super::tensor::*;

klr_operators! {
    /// One operator with its fields: what a statement does.
    ///
    /// The number in front is the constructor index on disk, after the arrow stands the engine upstream assigns
    /// for ordering inside a no-reorder block (`Own`: the engine field of the operator itself).
    Operator("Operator") = 218 {
        0 Activate("activate"): Activate => Act,
        1 NcActivate("ncActivate"): NcActivate => Act,
        2 ActivationReduce("activationReduce"): NcActivate => Act,
        3 AffineSelect("affineSelect"): AffineSelect => Pool,
        4 NcAffineSelect("ncAffineSelect"): NcAffineSelect => Pool,
        5 BatchNormAggregate("batchNormAggregate"): BatchNormAggregate => Dve,
        6 BatchNormStats("batchNormStats"): BatchNormStats => Dve,
        7 Copy("copy"): CopyOp => Unassigned,
        8 NcCopy("ncCopy"): NcCopy => Own,
        9 CopyPredicated("copyPredicated"): CopyPredicated => Dve,
        10 DmaCopy("dmaCopy"): DmaCopy => Dma,
        11 NcDmaCopy("ncDmaCopy"): NcDmaCopy => Own,
        12 DmaTranspose("dmaTranspose"): DmaTranspose => Dma,
        13 Dropout("dropout"): Dropout => Dve,
        14 FindIndex8("findIndex8"): FindIndex8 => Dve,
        15 Iota("iota"): Iota => Pool,
        16 LoadMaskRegister("loadMaskRegister"): LoadMaskRegister => Dve,
        17 LoadStationary("loadStationary"): LoadStationary => Pe,
        18 LocalGather("localGather"): LocalGather => Pool,
        19 NcLocalGather("ncLocalGather"): NcLocalGather => Pool,
        20 MatMul("matMul"): MatMul => Pe,
        21 NcMatMul("ncMatMul"): NcMatMul => Pe,
        22 MatchReplace8("matchReplace8"): MatchReplace8 => Dve,
        23 MatchValueLoad("matchValueLoad"): MatchValueLoad => Dve,
        24 Max8("max8"): Max8 => Dve,
        25 MemSet("memSet"): MemSet => Own,
        26 RangeSelect("rangeSelect"): RangeSelect => Dve,
        27 NcRangeSelect("ncRangeSelect"): NcRangeSelect => Dve,
        28 Reciprocal("reciprocal"): Reciprocal => Dve,
        29 ScalarTensorTensor("scalarTensorTensor"): ScalarTensorTensor => Dve,
        30 NcScalarTensorTensor("ncScalarTensorTensor"): NcScalarTensorTensor => Dve,
        31 Shuffle("shuffle"): Shuffle => Dve,
        32 TensorReduce("tensorReduce"): TensorReduce => Unassigned,
        33 TensorScalar("tensorScalar"): TensorScalar => Own,
        34 TensorTensor("tensorTensor"): TensorTensor => Own,
        35 TensorTensorScan("tensorTensorScan"): TensorTensorScan => Dve,
        36 TensorPartitionReduce("tensorPartitionReduce"): TensorPartitionReduce => Pool,
        37 TensorScalarReduce("tensorScalarReduce"): TensorScalarReduce => Dve,
        38 Transpose("transpose"): Transpose => Own,
        39 SelectReduce("selectReduce"): SelectReduce => Dve,
        40 SequenceBounds("sequenceBounds"): SequenceBounds => Pool,
        41 SendRecv("sendRecv"): SendRecv => Unassigned,
        42 SendRecvCompute("sendRecvCompute"): SendRecvCompute => Unassigned,
        43 TensorLoad("tensorLoad"): TensorLoad => Unassigned,
        44 TensorStore("tensorStore"): TensorStore => Unassigned,
        45 RegisterMove("registerMove"): RegisterMove => Unassigned,
        46 CmpBranch("cmpBranch"): CmpBranch => Unassigned,
        47 RegisterAluOp("registerAluOp"): RegisterAluOp => Unassigned,
        48 QuantizeMx("quantizeMX"): QuantizeMx => Dve,
        49 NcMatMulMx("ncMatMulMX"): MatMulMx => Pe,
        50 DmaCompute("dmaCompute"): DmaCompute => Dma,
        51 AllReduce("allReduce"): CollectiveOp => Unassigned,
        52 AllGather("allGather"): CollectiveOp => Unassigned,
        53 ReduceScatter("reduceScatter"): CollectiveOp => Unassigned,
        54 CollectivePermute("collectivePermute"): CollectiveOp => Unassigned,
        55 CollectivePermuteImplicit("collectivePermuteImplicit"): CollectiveOp => Unassigned,
        56 CollectivePermuteImplicitReduce("collectivePermuteImplicitReduce"): CollectiveOp => Unassigned,
        57 Broadcast("broadcast"): CollectiveOp => Unassigned,
        58 AllToAll("allToAll"): CollectiveOp => Unassigned,
        59 RankId("rankId"): RankId => Unassigned,
        60 CurrentProcessingRankId("currentProcessingRankId"): CurrentProcessingRankId => Unassigned,
        61 Send("send"): SendOp => Unassigned,
        62 Recv("recv"): RecvOp => Unassigned,
        63 CoreBarrier("coreBarrier"): CoreBarrier => Own,
        64 Rng("rng"): Rng => Own,
        65 Rand2("rand2"): Rand2 => Unassigned,
        66 RandGetState("randGetState"): RandGetState => Own,
        67 SetRngSeed("setRngSeed"): SetRngSeed => Unassigned,
        68 RandSetState("randSetState"): RandSetState => Own,
        69 ExtendedInst("extendedInst"): ExtendedInst => Unassigned,
        70 TensorScalarCumulative("tensorScalarCumulative"): TensorScalarCumulative => Dve,
        71 NcNGather("ncNGather"): NcNGather => Unassigned,
        72 NonzeroWithCount("nonzeroWithCount"): NonzeroWithCount => Unassigned,
        73 DevicePrint("devicePrint"): DevicePrint => Unassigned,
        74 Exponential("exponential"): Exponential => Dve,
        75 Activate2("activate2"): Activate2 => Act,
    }
}

klr_op_struct! {
    /// Fields of `dropout`.
    Dropout("Dropout") = 147 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        threshold_type("thresholdType"): DropoutThresholdType,
        threshold("threshold"): Operand,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `activate`.
    Activate("Activate") = 148 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        accumulator_cmd("accumulatorCmd"): AccumCmd,
        activation_func("activationFunc"): ActivationFunc,
        scale("scale"): Immediate,
        bias("bias"): Immediate,
        imm("imm"): Immediate,
    }
}

klr_op_struct! {
    /// Fields of `ncActivate` and `activationReduce`.
    NcActivate("NcActivate") = 149 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        accumulator_cmd("accumulatorCmd"): AccumCmd,
        activation_func("activationFunc"): ActivationFunc,
        scale("scale"): Operand,
        bias("bias"): Option<TensorRef>,
        reduce_op("reduceOp"): Option<AluOp>,
        reduce_res("reduceRes"): Option<TensorRef>,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `affineSelect`.
    AffineSelect("AffineSelect") = 150 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        fill_mode("fillMode"): AffineSelectCmp,
        fill_reg("fillReg"): u64,
        mask_pattern("maskPattern"): DataPattern,
    }
}

klr_op_struct! {
    /// Fields of `ncAffineSelect`.
    NcAffineSelect("NcAffineSelect") = 151 {
        dst("dst"): TensorRef,
        pred("pred"): DataPattern,
        on_true_tile("onTrueTile"): TensorRef,
        on_false_value("onFalseValue"): Immediate,
        dtype("dtype"): Option<Dtype>,
        cmp_op("cmpOp"): AluOp,
    }
}

klr_op_struct! {
    /// Fields of `dmaCopy`.
    DmaCopy("DmaCopy") = 152 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        compute_op("compute_op"): DgeComputeOp,
        dst_bounds_check("dstBoundsCheck"): DmaBounds,
        src_bounds_check("srcBoundsCheck"): DmaBounds,
    }
}

klr_op_struct! {
    /// Fields of `ncDmaCopy`, the copy every traced load and store becomes.
    NcDmaCopy("NcDmaCopy") = 153 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        compute_op("compute_op"): DgeComputeOp,
        oob_mode("oobMode"): DmaBounds,
        dge_mode("dgeMode"): u64,
        unique_indices("uniqueIndices"): bool,
        priority("priority"): Option<u64> = None,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `dmaTranspose`.
    DmaTranspose("DmaTranspose") = 154 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        axes("axes"): TransposeOps,
        dtype("dtype"): Option<Dtype>,
        dge_mode("dgeMode"): u64,
        oob_mode("oobMode"): DmaBounds,
        priority("priority"): Option<u64> = None,
    }
}

klr_op_struct! {
    /// Fields of `transpose`.
    Transpose("Transpose") = 155 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dtype("dtype"): Option<Dtype>,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `loadMaskRegister`.
    LoadMaskRegister("LoadMaskRegister") = 156 {
        reg_num("regNum"): u64,
    }
}

klr_op_struct! {
    /// Fields of `shuffle`.
    Shuffle("Shuffle") = 157 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        shuffle_mask("shuffleMask"): Vec<Immediate>,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `memSet`.
    MemSet("MemSet") = 158 {
        dst("dst"): TensorRef,
        value("value"): Immediate,
        dtype("dtype"): Dtype,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `iota`.
    Iota("Iota") = 159 {
        dst("dst"): TensorRef,
        pattern("pattern"): DataPattern,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `loadStationary`.
    LoadStationary("LoadStationary") = 160 {
        src("src"): TensorRef,
        is_transpose("isTranspose"): bool,
    }
}

klr_op_struct! {
    /// Fields of `matMul`.
    MatMul("MatMul") = 161 {
        dst("dst"): TensorRef,
        moving("moving"): TensorRef,
    }
}

klr_op_struct! {
    /// Fields of `localGather`.
    LocalGather("LocalGather") = 162 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        index_miss_behavior("indexMissBehavior"): IndexMissBehavior,
        free_pool_buffer("freePoolBuffer"): bool,
    }
}

klr_op_struct! {
    /// Fields of `ncLocalGather`.
    NcLocalGather("NcLocalGather") = 163 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        index("index"): TensorRef,
        num_elem_per_idx("numElemPerIdx"): Immediate,
        num_valid_indicies("numValidIndicies"): Option<Immediate>,
    }
}

klr_op_struct! {
    /// Fields of `rangeSelect`.
    RangeSelect("RangeSelect") = 164 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        reduce_command("reduceCommand"): AccumCmd,
        reduce_op("reduceOp"): AluOp,
        base("base"): F32,
        fill_value("fillValue"): F32,
        comp_op0("compOp0"): AluOp,
        comp_op1("compOp1"): AluOp,
        bound0("bound0"): Immediate,
        bound1("bound1"): Immediate,
    }
}

klr_op_struct! {
    /// Fields of `ncRangeSelect`.
    NcRangeSelect("NcRangeSelect") = 165 {
        dst("dst"): TensorRef,
        reduce_command("reduceCommand"): AccumCmd,
        reduce_res("reduceRes"): Option<TensorRef>,
        reduce_op("reduceOp"): Option<AluOp>,
        comp_op0("compOp0"): AluOp,
        comp_op1("compOp1"): AluOp,
        bound0("bound0"): TensorRef,
        bound1("bound1"): TensorRef,
        range_start("rangeStart"): Immediate,
        on_true_tile("onTrueTile"): TensorRef,
        on_false_value("onFalseValue"): Immediate,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `scalarTensorTensor`.
    ScalarTensorTensor("ScalarTensorTensor") = 166 {
        dst("dst"): TensorRef,
        src0("src0"): TensorRef,
        src1("src1"): TensorRef,
        op0("op0"): AluOp,
        op1("op1"): AluOp,
        reverse_operands("reverseOperands"): TensorScalarReverseOps,
        imm0("imm0"): Immediate,
        accumulator_cmd("accumulatorCmd"): AccumCmd,
    }
}

klr_op_struct! {
    /// Fields of `ncScalarTensorTensor`.
    NcScalarTensorTensor("NcScalarTensorTensor") = 167 {
        dst("dst"): TensorRef,
        data("data"): TensorRef,
        src0("src0"): Operand,
        src1("src1"): Operand,
        op0("op0"): AluOp,
        op1("op1"): AluOp,
        reverse_operands("reverseOperands"): TensorScalarReverseOps,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `copyPredicated`.
    CopyPredicated("CopyPredicated") = 168 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        predicate("predicate"): TensorRef,
        dtype("dtype"): Option<Dtype>,
        reverse_pred("reversePred"): bool,
    }
}

klr_op_struct! {
    /// Fields of `tensorTensorScan`.
    TensorTensorScan("TensorTensorScan") = 169 {
        dst("dst"): TensorRef,
        src0("src0"): TensorRef,
        src1("src1"): TensorRef,
        op0("op0"): AluOp,
        op1("op1"): AluOp,
        reverse_operands("reverseOperands"): TensorScalarReverseOps,
        imm0("imm0"): Operand,
        accumulator_cmd("accumulatorCmd"): AccumCmd,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `matchValueLoad`.
    MatchValueLoad("MatchValueLoad") = 170 {
        src("src"): TensorRef,
    }
}

klr_op_struct! {
    /// Fields of `findIndex8`.
    FindIndex8("FindIndex8") = 171 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        vals("vals"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `matchReplace8`.
    MatchReplace8("MatchReplace8") = 172 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        vals("vals"): TensorRef,
        replace_value("replaceValue"): Immediate,
        dst_idx("dstIdx"): Option<TensorRef>,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `max8`.
    Max8("Max8") = 173 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `batchNormAggregate`.
    BatchNormAggregate("BatchNormAggregate") = 174 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `batchNormStats`.
    BatchNormStats("BatchNormStats") = 175 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `reciprocal`.
    Reciprocal("Reciprocal") = 176 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `copy`.
    CopyOp("Copy") = 177 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        op_dim("opDim"): Option<TensorSubDim>,
    }
}

klr_op_struct! {
    /// Fields of `ncCopy`.
    NcCopy("NcCopy") = 178 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dtype("dtype"): Option<Dtype>,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `tensorReduce`.
    TensorReduce("TensorReduce") = 179 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        op("op"): AluOp,
        op_dim("opDim"): TensorSubDim,
        negated("negated"): bool,
        dtype("dtype"): Option<Dtype>,
        keepdims("keepdims"): bool,
    }
}

klr_op_struct! {
    /// Fields of `tensorScalar`.
    TensorScalar("TensorScalar") = 180 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        imm0("imm0"): Operand,
        op0("op0"): AluOp,
        imm1("imm1"): Option<Operand>,
        op1("op1"): Option<AluOp>,
        reverse("reverse"): TensorScalarReverseOps,
        engine("engine"): Engine,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `tensorScalarReduce`.
    TensorScalarReduce("TensorScalarReduce") = 181 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        operand0("operand0"): Operand,
        op0("op0"): AluOp,
        reverse0("reverse0"): bool,
        dtype("dtype"): Option<Dtype>,
        reduce_op("reduceOp"): Option<AluOp>,
        reduce_res("reduceRes"): TensorRef,
        reduce_cmd("reduceCmd"): AccumCmd = AccumCmd::Idle,
        reduce_init("reduceInit"): Option<Immediate> = None,
    }
}

klr_op_struct! {
    /// Fields of `tensorTensor`.
    TensorTensor("TensorTensor") = 182 {
        dst("dst"): TensorRef,
        src0("src0"): TensorRef,
        src1("src1"): TensorRef,
        op("op"): AluOp,
        dtype("dtype"): Option<Dtype>,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `ncMatMul`.
    NcMatMul("NcMatMul") = 183 {
        dst("dst"): TensorRef,
        stationary("stationary"): TensorRef,
        moving("moving"): TensorRef,
        is_stationary_one_zero("isStationaryOneZero"): bool,
        is_moving_zero("isMovingZero"): bool,
        is_transpose("isTranspose"): bool,
        tile_position("tilePosition"): Vec<u64>,
        tile_size("tileSize"): Vec<u64>,
        perf_mode("perfMode"): MatmulPerfMode,
    }
}

klr_op_struct! {
    /// Fields of `tensorPartitionReduce`.
    TensorPartitionReduce("TensorPartitionReduce") = 184 {
        dst("dst"): TensorRef,
        op("op"): AluOp,
        data("data"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `selectReduce`.
    SelectReduce("SelectReduce") = 185 {
        dst("dst"): TensorRef,
        predicate("predicate"): TensorRef,
        on_true("onTrue"): TensorRef,
        on_false("onFalse"): Operand,
        reduce_res("reduceRes"): Option<TensorRef>,
        reduce_cmd("reduceCmd"): AccumCmd,
        reduce_op("reduceOp"): AluOp,
        reverse_pred("reversePred"): bool,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `sequenceBounds`.
    SequenceBounds("SequenceBounds") = 186 {
        dst("dst"): TensorRef,
        segment_ids("segmentIds"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `sendRecv`: a swap with another core of the same LNC.
    SendRecv("SendRecv") = 187 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        send_to_rank("sendToRank"): Immediate,
        recv_from_rank("recvFromRank"): Immediate,
        pipe_id("pipeId"): Immediate,
        use_gpsimd_dma("useGpsimdDma"): bool,
    }
}

klr_op_struct! {
    /// Fields of `sendRecvCompute`.
    SendRecvCompute("SendRecvCompute") = 188 {
        dsts("dsts"): Vec<TensorRef>,
        srcs("srcs"): Vec<TensorRef>,
        send_to_ranks("sendToRanks"): Vec<Immediate>,
        recv_from_ranks("recvFromRanks"): Vec<Immediate>,
        pipe_id("pipeId"): Immediate,
        op("op"): AluOp,
    }
}

klr_op_struct! {
    /// Fields of `tensorLoad`: register from a tile of one element.
    TensorLoad("TensorLoad") = 190 {
        dst("dst"): Str,
        src("src"): TensorRef,
    }
}

klr_op_struct! {
    /// Fields of `tensorStore`: register to a tile of one element.
    TensorStore("TensorStore") = 191 {
        dst("dst"): TensorRef,
        src("src"): Str,
    }
}

klr_op_struct! {
    /// Fields of `registerMove`.
    RegisterMove("RegisterMove") = 192 {
        dst("dst"): Str,
        imm("imm"): i32,
    }
}

klr_op_struct! {
    /// Fields of `cmpBranch`; strings a condition does not use are empty.
    CmpBranch("CmpBranch") = 193 {
        reg1("reg1"): Str,
        reg2("reg2"): Str,
        imm("imm"): i32,
        op("op"): BrCmpOp,
        true_label("trueLabel"): Str,
        false_label("falseLabel"): Str,
    }
}

klr_op_struct! {
    /// Fields of `registerAluOp`: `dst := src op imm`.
    RegisterAluOp("RegisterAluOp") = 194 {
        dst("dst"): Str,
        src("src"): Str,
        imm("imm"): i32,
        op("op"): AluOp,
    }
}

klr_op_struct! {
    /// Fields of `quantizeMX`.
    QuantizeMx("QuantizeMX") = 195 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        dst_scale("dstScale"): TensorRef,
    }
}

klr_op_struct! {
    /// Fields of `ncMatMulMX`.
    MatMulMx("MatMulMX") = 196 {
        dst("dst"): TensorRef,
        stationary("stationary"): TensorRef,
        moving("moving"): TensorRef,
        stationary_scale("stationaryScale"): TensorRef,
        moving_scale("movingScale"): TensorRef,
        tile_position("tilePosition"): Option<Vec<u64>>,
        tile_size("tileSize"): Option<Vec<u64>>,
    }
}

klr_op_struct! {
    /// Fields of `dmaCompute`.
    DmaCompute("DmaCompute") = 197 {
        dst("dst"): TensorRef,
        srcs("srcs"): Vec<TensorRef>,
        scales("scales"): Vec<Immediate>,
        reduce_op("reduceOp"): AluOp,
    }
}

klr_op_struct! {
    /// Fields of the eight collectives (`allReduce` to `allToAll`).
    CollectiveOp("CollectiveOp") = 199 {
        dsts("dsts"): Vec<TensorRef>,
        srcs("srcs"): Vec<TensorRef>,
        op("op"): Option<AluOp>,
        replica_group("replicaGroup"): ReplicaGroup,
        concat_dim("concatDim"): Option<i64>,
        source_target_pairs("sourceTargetPairs"): Option<Vec<Vec<i64>>>,
        channel_id("channel_id"): Option<i64>,
        num_channels("num_channels"): Option<i64>,
        priority("priority"): Option<u64> = None,
    }
}

klr_op_struct! {
    /// Fields of `rankId`.
    RankId("RankId") = 200 {
        dst("dst"): Str,
    }
}

klr_op_struct! {
    /// Fields of `currentProcessingRankId`.
    CurrentProcessingRankId("CurrentProcessingRankId") = 201 {
        dst("dst"): Str,
        iteration_id("iterationId"): i64,
        channel_id("channelId"): i64,
        num_channels("numChannels"): i64,
        replica_group("replicaGroup"): Vec<Vec<i64>>,
    }
}

klr_op_struct! {
    /// Fields of `send`.
    SendOp("Send") = 202 {
        op("op"): AluOp,
        srcs("srcs"): Vec<TensorRef>,
        peer_id("peerId"): i64,
    }
}

klr_op_struct! {
    /// Fields of `recv`.
    RecvOp("Recv") = 203 {
        op("op"): AluOp,
        dsts("dsts"): Vec<TensorRef>,
        replica_groups("replicaGroups"): Vec<i64>,
        peer_id("peerId"): i64,
    }
}

klr_op_struct! {
    /// Fields of `coreBarrier`.
    CoreBarrier("CoreBarrier") = 204 {
        data("data"): TensorRef,
        cores("cores"): Vec<i64>,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `rng`.
    Rng("Rng") = 205 {
        dst("dst"): TensorRef,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `rand2`.
    Rand2("Rand2") = 206 {
        dst("dst"): TensorRef,
        min("min"): Operand,
        max("max"): Operand,
    }
}

klr_op_struct! {
    /// Fields of `randGetState`.
    RandGetState("RandGetState") = 207 {
        dst("dst"): TensorRef,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `setRngSeed`.
    SetRngSeed("SetRngSeed") = 208 {
        src("src"): TensorRef,
    }
}

klr_op_struct! {
    /// Fields of `randSetState`.
    RandSetState("RandSetState") = 209 {
        src("src"): TensorRef,
        engine("engine"): Engine,
    }
}

klr_op_struct! {
    /// Fields of `extendedInst`.
    ExtendedInst("ExtendedInst") = 210 {
        opcode("opcode"): u64,
        has_read("hasRead"): bool,
        has_write("hasWrite"): bool,
        ports("ports"): u64,
        data0("data0"): Vec<u64>,
        data1("data1"): Vec<u64>,
    }
}

klr_op_struct! {
    /// Fields of `tensorScalarCumulative`.
    TensorScalarCumulative("TensorScalarCumulative") = 211 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        op0("op0"): AluOp,
        op1("op1"): AluOp,
        imm0("imm0"): Operand,
        imm1("imm1"): Option<Operand>,
        reduce_cmd("reduceCmd"): AccumCmd,
        reverse("reverse"): TensorScalarReverseOps,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `ncNGather`.
    NcNGather("NcNGather") = 212 {
        dst("dst"): TensorRef,
        data("data"): TensorRef,
        indices("indices"): TensorRef,
        dtype("dtype"): Option<Dtype>,
    }
}

klr_op_struct! {
    /// Fields of `nonzeroWithCount`.
    NonzeroWithCount("NonzeroWithCount") = 213 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        index_offset("indexOffset"): Immediate,
        padding_val("paddingVal"): Immediate,
    }
}

klr_op_struct! {
    /// Fields of `devicePrint`.
    DevicePrint("DevicePrint") = 215 {
        src("src"): TensorRef,
        print_prefix("printPrefix"): Str,
        buffer("buffer"): PrintOutputBuffer,
    }
}

klr_op_struct! {
    /// Fields of `exponential`.
    Exponential("Exponential") = 216 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        max_value("maxValue"): Operand,
        reduce_res("reduceRes"): Option<TensorRef>,
        reduce_cmd("reducecmd"): AccumCmd,
        reduce_init("reduceInit"): Operand,
    }
}

klr_op_struct! {
    /// Fields of `activate2`.
    Activate2("Activate2") = 217 {
        dst("dst"): TensorRef,
        src("src"): TensorRef,
        op0("op0"): AluOp,
        op1("op1"): AluOp,
        imm0("imm0"): Operand,
        imm1("imm1"): Operand,
        activation_func("activationFunc"): ActivationFunc,
        relu_param("reluParam"): Operand,
        reduce_op("reduceOp"): AluOp,
        reduce_res("reduceRes"): Option<TensorRef>,
        reduce_cmd("reduceCmd"): AccumCmd,
        reverse0("reverse0"): bool,
        reverse1("reverse1"): bool,
        dtype("dtype"): Option<Dtype>,
    }
}
