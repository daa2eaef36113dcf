//! The operators a trace can emit: one row per KLR operator with its fields in the declared order.

use crate::args::{Args, BadField};
use tandem_klr::ast::{self, Operator};

/// Why no operator was made.
pub(crate) enum NoOperator {
    /// There is no operator of that name.
    Unknown,
    /// A field does not fit.
    Field(BadField),
    /// More values than fields.
    TooMany,
}

macro_rules! operators {
    ($($name:literal => $V:ident($T:ident { $($f:ident),* $(,)? })),* $(,)?) => {
        /// The operator of a KLR name from values in the order of its fields.
        pub(crate) fn operator(name: &str, args: &mut Args<'_, '_>) -> Result<Operator, NoOperator> {
            let op = match name {
                $($name => Operator::$V(ast::$T {
                    $($f: args.take(stringify!($f)).map_err(NoOperator::Field)?),*
                }),)*
                _ => return Err(NoOperator::Unknown),
            };
            if args.done() { Ok(op) } else { Err(NoOperator::TooMany) }
        }

        /// Names and fields of the table, for the tests of the rows in Python.
        pub(crate) const TABLE: &[(&str, &[&str])] = &[$(($name, &[$(stringify!($f)),*])),*];
    };
}

operators! {
    "ncActivate" => NcActivate(NcActivate {
        dst, src, accumulator_cmd, activation_func, scale, bias, reduce_op, reduce_res, dtype }),
    "activationReduce" => ActivationReduce(NcActivate {
        dst, src, accumulator_cmd, activation_func, scale, bias, reduce_op, reduce_res, dtype }),
    "ncAffineSelect" => NcAffineSelect(NcAffineSelect { dst, pred, on_true_tile, on_false_value, dtype, cmp_op }),
    "batchNormAggregate" => BatchNormAggregate(BatchNormAggregate { dst, src, dtype }),
    "batchNormStats" => BatchNormStats(BatchNormStats { dst, src, dtype }),
    "ncCopy" => NcCopy(NcCopy { dst, src, dtype, engine }),
    "copyPredicated" => CopyPredicated(CopyPredicated { dst, src, predicate, dtype, reverse_pred }),
    "ncDmaCopy" => NcDmaCopy(NcDmaCopy {
        dst, src, compute_op, oob_mode, dge_mode, unique_indices, priority, engine }),
    "dmaTranspose" => DmaTranspose(DmaTranspose { dst, src, axes, dtype, dge_mode, oob_mode, priority }),
    "dropout" => Dropout(Dropout { dst, src, threshold_type, threshold, dtype }),
    "findIndex8" => FindIndex8(FindIndex8 { dst, src, vals, dtype }),
    "iota" => Iota(Iota { dst, pattern, dtype }),
    "ncLocalGather" => NcLocalGather(NcLocalGather { dst, src, index, num_elem_per_idx, num_valid_indicies }),
    "ncMatMul" => NcMatMul(NcMatMul {
        dst, stationary, moving, is_stationary_one_zero, is_moving_zero, is_transpose, tile_position, tile_size,
        perf_mode }),
    "matchReplace8" => MatchReplace8(MatchReplace8 { dst, src, vals, replace_value, dst_idx, dtype }),
    "max8" => Max8(Max8 { dst, src, dtype }),
    "memSet" => MemSet(MemSet { dst, value, dtype, engine }),
    "ncRangeSelect" => NcRangeSelect(NcRangeSelect {
        dst, reduce_command, reduce_res, reduce_op, comp_op0, comp_op1, bound0, bound1, range_start, on_true_tile,
        on_false_value, dtype }),
    "reciprocal" => Reciprocal(Reciprocal { dst, src, dtype }),
    "ncScalarTensorTensor" => NcScalarTensorTensor(NcScalarTensorTensor {
        dst, data, src0, src1, op0, op1, reverse_operands, dtype }),
    "shuffle" => Shuffle(Shuffle { dst, src, shuffle_mask, dtype }),
    "tensorReduce" => TensorReduce(TensorReduce { dst, src, op, op_dim, negated, dtype, keepdims }),
    "tensorScalar" => TensorScalar(TensorScalar { dst, src, imm0, op0, imm1, op1, reverse, engine, dtype }),
    "tensorTensor" => TensorTensor(TensorTensor { dst, src0, src1, op, dtype, engine }),
    "tensorTensorScan" => TensorTensorScan(TensorTensorScan {
        dst, src0, src1, op0, op1, reverse_operands, imm0, accumulator_cmd, dtype }),
    "tensorPartitionReduce" => TensorPartitionReduce(TensorPartitionReduce { dst, op, data, dtype }),
    "tensorScalarReduce" => TensorScalarReduce(TensorScalarReduce {
        dst, src, operand0, op0, reverse0, dtype, reduce_op, reduce_res, reduce_cmd, reduce_init }),
    "transpose" => Transpose(Transpose { dst, src, dtype, engine }),
    "selectReduce" => SelectReduce(SelectReduce {
        dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred, dtype }),
    "sequenceBounds" => SequenceBounds(SequenceBounds { dst, segment_ids, dtype }),
    "sendRecv" => SendRecv(SendRecv { dst, src, send_to_rank, recv_from_rank, pipe_id, use_gpsimd_dma }),
    "tensorLoad" => TensorLoad(TensorLoad { dst, src }),
    "tensorStore" => TensorStore(TensorStore { dst, src }),
    "registerMove" => RegisterMove(RegisterMove { dst, imm }),
    "cmpBranch" => CmpBranch(CmpBranch { reg1, reg2, imm, op, true_label, false_label }),
    "registerAluOp" => RegisterAluOp(RegisterAluOp { dst, src, imm, op }),
    "quantizeMX" => QuantizeMx(QuantizeMx { dst, src, dst_scale }),
    "ncMatMulMX" => NcMatMulMx(MatMulMx {
        dst, stationary, moving, stationary_scale, moving_scale, tile_position, tile_size }),
    "dmaCompute" => DmaCompute(DmaCompute { dst, srcs, scales, reduce_op }),
    "allReduce" => AllReduce(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "allGather" => AllGather(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "reduceScatter" => ReduceScatter(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "collectivePermute" => CollectivePermute(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "collectivePermuteImplicit" => CollectivePermuteImplicit(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "collectivePermuteImplicitReduce" => CollectivePermuteImplicitReduce(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "allToAll" => AllToAll(CollectiveOp {
        dsts, srcs, op, replica_group, concat_dim, source_target_pairs, channel_id, num_channels, priority }),
    "rankId" => RankId(RankId { dst }),
    "currentProcessingRankId" => CurrentProcessingRankId(CurrentProcessingRankId {
        dst, iteration_id, channel_id, num_channels, replica_group }),
    "coreBarrier" => CoreBarrier(CoreBarrier { data, cores, engine }),
    "rng" => Rng(Rng { dst, engine }),
    "rand2" => Rand2(Rand2 { dst, min, max }),
    "randGetState" => RandGetState(RandGetState { dst, engine }),
    "setRngSeed" => SetRngSeed(SetRngSeed { src }),
    "randSetState" => RandSetState(RandSetState { src, engine }),
    "tensorScalarCumulative" => TensorScalarCumulative(TensorScalarCumulative {
        dst, src, op0, op1, imm0, imm1, reduce_cmd, reverse, dtype }),
    "ncNGather" => NcNGather(NcNGather { dst, data, indices, dtype }),
    "nonzeroWithCount" => NonzeroWithCount(NonzeroWithCount { dst, src, index_offset, padding_val }),
    "devicePrint" => DevicePrint(DevicePrint { src, print_prefix, buffer }),
    "exponential" => Exponential(Exponential { dst, src, max_value, reduce_res, reduce_cmd, reduce_init }),
    "activate2" => Activate2(Activate2 {
        dst, src, op0, op1, imm0, imm1, activation_func, relu_param, reduce_op, reduce_res, reduce_cmd, reverse0,
        reverse1, dtype }),
}
