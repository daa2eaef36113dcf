//! How the element counts of an instruction's operands depend on each other: one rule per type.
//!
//! A type whose sources give no rule has [`ShapeRule::Free`]: no restriction is invented. Source: the specification,
//! file 09 §6, file 04 §7.

use crate::inst::Opcode;

/// Relation between the element counts of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// Nothing is documented, or nothing is related.
    Free,
    /// The inputs at these positions that are memory have as many elements as output 0.
    Same(&'static [usize]),
    /// Input 0 has as many elements per partition as output 0, and the rows that the `mask` takes.
    Shuffle,
    /// The innermost pairs that the `axis` attribute names fold away; `C` folds the partitions.
    Reduce,
    /// The two innermost pairs fold away.
    Pool,
    /// stationary [K, M], moving [K, N], destination [M, N].
    Matmul,
    /// Output 0 has this many elements per partition.
    PerPartition(u64),
    /// Output 0 has as many elements per partition as given, and so has input 1.
    Eight,
    /// Input 1 has eight elements per partition; input 0 equals output 0.
    ReplaceEight,
    /// Output 0 has twice the elements of input 0.
    Twice,
    /// Memory operands hold one scalar.
    Scalar,
    /// The `mode` attribute of a DMA copy decides.
    DmaCopy,
    /// The flags of the tensor-scalar family decide which inputs are whole tiles.
    TensorScalar,
    /// Predicated copy (two inputs) or select (three).
    Predicated,
}

/// The rule of a type.
pub fn shape_rule(op: Opcode) -> ShapeRule {
    use ShapeRule as R;
    match op {
        Opcode::GenericCopy
        | Opcode::GenericRelu
        | Opcode::AbstractCopy
        | Opcode::Activation
        | Opcode::Reciprocal
        | Opcode::TensorCopy
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst
        | Opcode::Load
        | Opcode::Save
        | Opcode::TensorScalar
        | Opcode::GpsimdSb2Sb
        | Opcode::StreamTranspose
        | Opcode::Dropout
        | Opcode::TensorScalarAffineSelect
        | Opcode::RangeSelect
        | Opcode::Exponential => R::Same(&[0]),
        Opcode::StreamShuffle => R::Shuffle,
        Opcode::TensorTensor => R::Same(&[0, 1]),
        Opcode::TensorScalarPtr | Opcode::TensorScalarCache => R::TensorScalar,
        Opcode::Matmult => R::Matmul,
        Opcode::TensorReduce => R::Reduce,
        Opcode::Pool => R::Pool,
        Opcode::DmaCopy => R::DmaCopy,
        Opcode::BnStats => R::PerPartition(6),
        Opcode::BnStatsAggregate => R::PerPartition(2),
        Opcode::Max => R::PerPartition(8),
        Opcode::MaxIndex => R::Eight,
        Opcode::MatchReplace | Opcode::MaxIndexAndMatchReplace => R::ReplaceEight,
        Opcode::CopyPredicated => R::Predicated,
        Opcode::GetSequenceBounds => R::Twice,
        Opcode::TensorLoad | Opcode::TensorSave => R::Scalar,
        Opcode::Generic
        | Opcode::ReadActivationAccumulator
        | Opcode::LoadActFuncSet
        | Opcode::MatmultBase
        | Opcode::MatmultSparse
        | Opcode::Memset
        | Opcode::GetGlobalRankId
        | Opcode::NoOp
        | Opcode::EventSemaphore
        | Opcode::GroupResetSemaphores
        | Opcode::AllEngineBarrier
        | Opcode::Drain
        | Opcode::Halt
        | Opcode::Dma
        | Opcode::IndirectCopy
        | Opcode::BnGradients
        | Opcode::BnBackprop
        | Opcode::BnBackprop2
        | Opcode::ReadVarAddr
        | Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::GenericIndirectSave
        | Opcode::IndirectSave
        | Opcode::IndirectSaveAccumulate
        | Opcode::Collective
        | Opcode::CollectiveCompute
        | Opcode::CollectiveSend
        | Opcode::CollectiveRecv
        | Opcode::Select
        | Opcode::CustomOp
        | Opcode::BirKernel
        | Opcode::NkiKernel
        | Opcode::NkiKlirKernel
        | Opcode::DevicePrint
        | Opcode::GetRandState
        | Opcode::SetRandState
        | Opcode::Rand
        | Opcode::Iota
        | Opcode::GetCurProcessingRankId
        | Opcode::DmaTrigger
        | Opcode::DmaDescriptor
        | Opcode::DmaDescriptorCopy
        | Opcode::DmaDescriptorCce
        | Opcode::DmaDescriptorTranspose
        | Opcode::DmaDescriptorReplicate
        | Opcode::RegisterAlu
        | Opcode::RegisterMove
        | Opcode::Terminator
        | Opcode::CompareAndBranch
        | Opcode::UnconditionalBranch
        | Opcode::BranchHint
        | Opcode::Return
        | Opcode::Exit
        | Opcode::Break
        | Opcode::Call
        | Opcode::SwitchQueueInstance
        | Opcode::ResetQueueInstance
        | Opcode::CoreBarrier
        | Opcode::Gather
        | Opcode::InlineAsmBytes
        | Opcode::TensorCompletion
        | Opcode::MatmultMx
        | Opcode::QuantizeMx
        | Opcode::Rand2
        | Opcode::RandSetState
        | Opcode::RandGetState
        | Opcode::Rng
        | Opcode::ActivationReadAccumulator
        | Opcode::DveReadAccumulator
        | Opcode::NonzeroWithCount
        | Opcode::Loop
        | Opcode::DynamicForLoop
        | Opcode::DmaBlock
        | Opcode::DoWhile
        | Opcode::TongaReduceMacroSymbolic => R::Free,
    }
}
