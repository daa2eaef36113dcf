//! The operators: every one of the 76 has an arm here, a leaf or a refusal.
//!
//! Source: the specification, file 04 §§6–10.

mod activation;
mod collective;
mod dma;
mod elementwise;
mod pe;
mod random;
mod registers;
mod scalar;
mod select;

use super::fail::{Fail, Res};
use super::{Core, Step, enums};
use crate::ast::{self as k, Operator as Op};
use tandem_bir::diag::codes;
use tandem_bir::{AccessPattern, AttrValue, EngineAccumulationType, Inst, Opcode};

/// Lowers one operator at the end of the current block.
pub(crate) fn leaf(c: &mut Core<'_>, op: &Op) -> Step {
    match op {
        Op::NcActivate(o) => activation::nc_activate(c, o, false),
        Op::ActivationReduce(o) => activation::nc_activate(c, o, true),
        Op::Activate2(o) => activation::activate2(c, o),
        Op::Exponential(o) => activation::exponential(c, o),
        Op::NcAffineSelect(o) => select::affine_select(c, o),
        Op::CopyPredicated(o) => select::copy_predicated(c, o),
        Op::SelectReduce(o) => select::select_reduce(c, o),
        Op::NcRangeSelect(o) => select::range_select(c, o),
        Op::FindIndex8(o) => select::find_index8(c, o),
        Op::MatchReplace8(o) => select::match_replace8(c, o),
        Op::NcLocalGather(o) => select::local_gather(c, o),
        Op::NcNGather(o) => select::gather(c, o),
        Op::NonzeroWithCount(o) => select::nonzero_with_count(c, o),
        Op::Max8(o) => elementwise::unary(c, "Max-", Opcode::Max, &o.dst, &o.src, o.dtype),
        Op::BatchNormAggregate(o) => {
            elementwise::unary(c, "BNStatsAggregate-", Opcode::BnStatsAggregate, &o.dst, &o.src, o.dtype)
        }
        Op::BatchNormStats(o) => elementwise::unary(c, "BNStats-", Opcode::BnStats, &o.dst, &o.src, o.dtype),
        Op::Reciprocal(o) => {
            elementwise::unary(c, "Reciprocal-", Opcode::Reciprocal, &o.dst, &o.src, o.dtype)
        }
        Op::SequenceBounds(o) => elementwise::unary(
            c,
            "SequenceBounds-",
            Opcode::GetSequenceBounds,
            &o.dst,
            &o.segment_ids,
            o.dtype,
        ),
        Op::NcCopy(o) => elementwise::nc_copy(c, o),
        Op::TensorTensor(o) => elementwise::tensor_tensor(c, o),
        Op::TensorReduce(o) => elementwise::tensor_reduce(c, o),
        Op::TensorPartitionReduce(o) => elementwise::partition_reduce(c, o),
        Op::MemSet(o) => elementwise::mem_set(c, o),
        Op::Iota(o) => elementwise::iota(c, o),
        Op::Dropout(o) => elementwise::dropout(c, o),
        Op::Shuffle(o) => elementwise::shuffle(c, o),
        Op::DevicePrint(o) => elementwise::device_print(c, o),
        Op::TensorScalar(o) => scalar::tensor_scalar(c, o),
        Op::TensorScalarReduce(o) => scalar::tensor_scalar_reduce(c, o),
        Op::NcScalarTensorTensor(o) => scalar::scalar_tensor_tensor(c, o),
        Op::TensorTensorScan(o) => scalar::tensor_tensor_scan(c, o),
        Op::TensorScalarCumulative(o) => scalar::cumulative(c, o),
        Op::NcDmaCopy(o) => dma::copy(c, o),
        Op::DmaTranspose(o) => dma::transpose(c, o),
        Op::DmaCompute(o) => dma::compute(c, o),
        Op::NcMatMul(o) => pe::matmul(c, o),
        Op::NcMatMulMx(o) => pe::matmul_mx(c, o),
        Op::QuantizeMx(o) => pe::quantize_mx(c, o),
        Op::Transpose(o) => pe::transpose(c, o),
        Op::Rng(o) => random::rng(c, o),
        Op::Rand2(o) => random::rand2(c, o),
        Op::RandGetState(o) => random::get_state(c, o),
        Op::RandSetState(o) => random::set_state(c, o),
        Op::SetRngSeed(o) => random::set_seed(c, o),
        Op::TensorLoad(o) => registers::load(c, o),
        Op::TensorStore(o) => registers::store(c, o),
        Op::RegisterMove(o) => registers::set(c, o),
        Op::RegisterAluOp(o) => registers::alu(c, o),
        Op::CmpBranch(o) => registers::branch(c, o),
        Op::RankId(o) => registers::rank_id(c, o),
        Op::CurrentProcessingRankId(o) => registers::processing_rank_id(c, o),
        Op::SendRecv(o) => collective::send_recv(c, o),
        Op::CoreBarrier(o) => collective::core_barrier(c, o),
        Op::AllReduce(o)
        | Op::AllGather(o)
        | Op::ReduceScatter(o)
        | Op::AllToAll(o)
        | Op::CollectivePermute(o)
        | Op::CollectivePermuteImplicit(o)
        | Op::CollectivePermuteImplicitReduce(o) => collective::collective(c, op, o),
        Op::Activate(_)
        | Op::AffineSelect(_)
        | Op::Copy(_)
        | Op::DmaCopy(_)
        | Op::LocalGather(_)
        | Op::MatMul(_)
        | Op::RangeSelect(_)
        | Op::ScalarTensorTensor(_) => Err(unsupported(op, "its `nc` form is the one that is lowered")),
        Op::LoadMaskRegister(_) | Op::LoadStationary(_) | Op::MatchValueLoad(_) => {
            Err(unsupported(op, "it is a part of another instruction"))
        }
        Op::SendRecvCompute(_) | Op::Broadcast(_) | Op::Send(_) | Op::Recv(_) => {
            Err(unsupported(op, "no compiler lowers this operator; it is never left out silently"))
        }
        Op::ExtendedInst(_) => Err(unsupported(op, "it carries raw machine words")),
    }
}

fn unsupported(op: &Op, why: &str) -> Box<Fail> {
    Fail::new(codes::K0010, format!("Unsupported operator {} ({})", op.kind(), op.name())).note(why)
}

/// Accumulator command.
pub(super) fn acc(a: k::AccumCmd) -> Res<EngineAccumulationType> {
    enums::acc(a).ok_or_else(|| Fail::new(codes::K0021, "LoadAccumulate is not supported"))
}

/// Pairs of a data pattern as an attribute.
pub(super) fn pairs(p: &k::DataPattern) -> AttrValue {
    AttrValue::Pairs(p.pattern.iter().map(|q| tandem_bir::ApPair::new(q.step, q.num)).collect())
}

impl Core<'_> {
    /// The `dtype` option repeats the type of the destination; warns when it does not.
    pub(crate) fn same_dtype(&mut self, option: Option<k::Dtype>, dst: &AccessPattern) {
        if let Some(option) = option.map(enums::dtype)
            && option != dst.dtype
        {
            let text = format!("dtype {option} differs from the destination's {}, which counts", dst.dtype);
            self.report(*Fail::new(codes::K0090, text));
        }
    }
}

/// An instruction of a type.
pub(super) fn inst(opcode: Opcode) -> Inst {
    Inst::new("", opcode)
}
