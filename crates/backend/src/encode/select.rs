//! Which records an instruction becomes.

use super::bundle::{WireError, WireResult};
use super::forms::Group;
use super::opcodes;
use super::rows::*;
use super::tables::is_bitvec;
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, ArchLevel, Attr, AxisListType, BirEnum, Inst, MemsetMode, Opcode, Operand, TscMode};

/// How an instruction is written.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// By a group of row forms.
    Rows(&'static Group),
    /// As a transfer (`super::dma`).
    Dma,
    /// As a kept collective (`super::collective`).
    Collective,
}

fn none(inst: &Inst, why: &str) -> WireError {
    WireError::new(codes::E0001, format!("{} has no encoding{why}", inst.opcode))
}

fn dtype(inst: &Inst, out: bool) -> Option<tandem_bir::Dtype> {
    let list = if out { &inst.outs } else { &inst.ins };
    list.first().and_then(Operand::as_ap).map(|a| a.dtype)
}

/// The operand's address is known only when the instruction runs.
fn moves(o: Option<&Operand>) -> bool {
    o.and_then(Operand::as_ap).is_some_and(|a| !a.is_static())
}

/// An input is memory with more than one element per partition.
fn tile(inst: &Inst, i: usize) -> bool {
    inst.ins.get(i).and_then(Operand::as_ap).is_some_and(|a| a.elems_per_partition() > 1)
}

/// A tensor-scalar instruction whose scalars in memory are not all fp32, which 0x43 could not say, and that fits 0x74.
fn typed_scalars(inst: &Inst) -> bool {
    let scalars = inst.ins.get(1..).unwrap_or(&[]);
    let fits = |o: Option<&Operand>| {
        o.and_then(Operand::as_ap).is_some_and(|a| {
            let free = super::desc::canonical_free(&a.pairs, 2, super::desc::Walk::Free);
            free.len() <= 2 && a.dtype != tandem_bir::Dtype::Float4E2m1FnX4
        })
    };
    let typed = |o: &Operand| {
        o.as_ap().is_some_and(|a| {
            !matches!(a.dtype, tandem_bir::Dtype::Float32 | tandem_bir::Dtype::Float4E2m1FnX4)
                && a.elems_per_partition() == 1
        })
    };
    let idle = inst
        .get_enum::<tandem_bir::EngineAccumulationType>(Attr::Acc)
        .is_none_or(|a| a == tandem_bir::EngineAccumulationType::Idle);
    idle && scalars.len() <= 2
        && scalars.iter().any(typed)
        && fits(inst.ins.first())
        && fits(inst.outs.first())
}

/// Chooses the records of an instruction.
///
/// # Errors
/// E0001 for what has no records, E0002 for opcodes of other generations.
pub fn plan(inst: &Inst, arch: ArchLevel) -> WireResult<Plan> {
    let p = choose(inst)?;
    if let Plan::Rows(g) = p {
        for f in g.forms {
            if !opcodes::exists(f.byte, arch) {
                return Err(WireError::new(
                    codes::E0002,
                    format!("{} ({:#04x}) does not exist on {}", opcodes::name(f.byte), f.byte, arch.name()),
                ));
            }
        }
    }
    Ok(p)
}

fn choose(inst: &Inst) -> WireResult<Plan> {
    let bits = |a: Attr| inst.get_enum::<AluOp>(a).is_some_and(is_bitvec);
    let two = inst.outs.len() > 1;
    let g: &'static Group = match inst.opcode {
        Opcode::GpsimdSb2Sb => &G_SB2SB,
        Opcode::TensorCopy | Opcode::GenericCopy | Opcode::AbstractCopy => {
            if dtype(inst, false) == dtype(inst, true) { &G_COPY } else { &G_CAST }
        }
        Opcode::Reciprocal => &G_RECIPROCAL,
        Opcode::Memset => match inst.get_enum::<MemsetMode>(Attr::Mode) {
            Some(MemsetMode::Random) => &G_RANDOM,
            Some(MemsetMode::Const) | None => &G_MEMSET,
        },
        Opcode::TensorTensor => {
            if bits(Attr::Op) {
                &G_TT_BITS
            } else {
                &G_TT
            }
        }
        Opcode::CopyPredicated => match inst.ins.len() {
            2 if matches!(inst.ins.first(), Some(Operand::Imm(_))) => &G_PRED_SCALAR,
            2 => {
                if dtype(inst, false) == dtype(inst, true) {
                    &G_PRED
                } else {
                    &G_PRED_CAST
                }
            }
            _ => match (tile(inst, 2), two) {
                (true, true) => &G_SELECT_TILES_2,
                (true, false) => &G_SELECT_TILES,
                (false, true) => &G_SELECT_2,
                (false, false) => &G_SELECT,
            },
        },
        Opcode::Select => {
            if tile(inst, 2) {
                &G_SELECT_TILES
            } else {
                &G_SELECT
            }
        }
        Opcode::GenericRelu => &G_RELU,
        Opcode::TensorScalarPtr => {
            if inst.get_bool(Attr::IsTensorTensorScan) {
                &G_SCAN
            } else if inst.get_bool(Attr::IsScalarTensorTensor) {
                if bits(Attr::Op0) || bits(Attr::Op1) { &G_STT_BITS } else { &G_STT }
            } else if two {
                &G_TS_2
            } else if inst.get_bool(Attr::ApplyTranspose) {
                &G_TS_T
            } else if typed_scalars(inst) {
                &G_TS_ADDRESS
            } else if bits(Attr::Op0) || bits(Attr::Op1) {
                &G_TS_BITS
            } else {
                &G_TS
            }
        }
        Opcode::TensorScalarCache => match inst.get_enum::<TscMode>(Attr::Mode) {
            Some(TscMode::Reduce) => &G_CACHE,
            Some(TscMode::Cumulative) => &G_CUMULATIVE,
            Some(TscMode::TensorScan) | None => return Err(none(inst, " in this mode")),
        },
        Opcode::Exponential => &G_EXP,
        Opcode::DveReadAccumulator => &G_DVE_READ,
        Opcode::TensorReduce => {
            let cross = matches!(
                inst.get_enum::<AxisListType>(Attr::Axis),
                Some(AxisListType::C | AxisListType::Xyzwc)
            );
            let t = inst.get_bool(Attr::ApplyTranspose);
            let b = bits(Attr::Op);
            if cross && inst.get_bool(Attr::Negate) {
                return Err(WireError::new(codes::E0001, "Cross-lane-reduce cannot perform negate"));
            }
            match (cross, t, b) {
                (true, true, _) => return Err(none(inst, " across partitions with a transposition")),
                (true, false, false) => &G_CROSS,
                (true, false, true) => &G_CROSS_BITS,
                (false, false, false) => &G_REDUCE,
                (false, false, true) => &G_REDUCE_BITS,
                (false, true, false) => &G_REDUCE_T,
                (false, true, true) => &G_REDUCE_T_BITS,
            }
        }
        Opcode::Pool => &G_POOL,
        Opcode::Iota => &G_IOTA,
        Opcode::TensorScalarAffineSelect => &G_AFFINE,
        Opcode::RangeSelect => {
            if two {
                &G_RANGE_2
            } else {
                &G_RANGE
            }
        }
        Opcode::StreamTranspose => &G_TRANSPOSE,
        Opcode::StreamShuffle => &G_SHUFFLE,
        Opcode::MaxIndexAndMatchReplace => &G_REPLACE_INDEX,
        Opcode::MatchReplace => &G_REPLACE,
        Opcode::MaxIndex => &G_MAX_INDEX,
        Opcode::Max => &G_MAX8,
        Opcode::Gather => &G_GATHER,
        Opcode::IndirectCopy => &G_INDIRECT,
        Opcode::BnStats => {
            if inst.get_bool(Attr::ApplyTranspose) {
                &G_BN_T
            } else {
                &G_BN
            }
        }
        Opcode::BnStatsAggregate => &G_BN_AGGREGATE,
        Opcode::BnGradients => &G_BN_GRAD,
        Opcode::BnBackprop => &G_BN_BACK,
        Opcode::BnBackprop2 => &G_BN_BACK2,
        Opcode::MatmultMx => &G_MATMUL_MX,
        Opcode::QuantizeMx => &G_QUANTIZE_MX,
        Opcode::Rng => &G_RANDOM,
        Opcode::Rand => &G_RAND,
        Opcode::SwitchQueueInstance => &G_SWITCH_QUEUE,
        Opcode::ResetQueueInstance => &G_RESET_QUEUE,
        Opcode::GetSequenceBounds => &G_BOUNDS,
        Opcode::NonzeroWithCount => &G_NONZERO,
        Opcode::Dropout => &G_DROPOUT,
        Opcode::Rand2 => &G_RAND2,
        Opcode::RandSetState | Opcode::SetRandState => &G_RAND_SET,
        Opcode::RandGetState | Opcode::GetRandState => &G_RAND_GET,
        Opcode::Activation => match (inst.get_bool(Attr::IsActivate2), two) {
            (true, true) => &G_ACT2_2,
            (true, false) => &G_ACT2,
            (false, true) => &G_ACT_2,
            (false, false) => &G_ACT,
        },
        Opcode::ActivationReadAccumulator | Opcode::ReadActivationAccumulator => &G_ACT_READ,
        Opcode::LoadActFuncSet => &G_ACT_TABLE,
        Opcode::Matmult => &G_MATMUL,
        Opcode::CoreBarrier => &G_CORE_BARRIER,
        Opcode::TensorCompletion => &G_COMPLETION,
        Opcode::GetGlobalRankId => &G_RANK,
        Opcode::GetCurProcessingRankId => &G_CUR_RANK,
        Opcode::EventSemaphore => &G_EVENT,
        Opcode::Halt => &G_HALT,
        Opcode::Drain => &G_DRAIN,
        Opcode::NoOp | Opcode::DevicePrint => &G_NOP,
        Opcode::GroupResetSemaphores => &G_RESET,
        Opcode::AllEngineBarrier => &G_ENGINE_BARRIER,
        Opcode::Exit => &G_EXIT,
        Opcode::Return => &G_RETURN,
        Opcode::RegisterMove => &G_MOVE,
        Opcode::RegisterAlu => &G_ALU,
        Opcode::TensorLoad if moves(inst.ins.first()) => &G_LOAD_REG,
        Opcode::TensorLoad => &G_LOAD,
        Opcode::TensorSave if moves(inst.outs.first()) => &G_SAVE_REG,
        Opcode::TensorSave => &G_SAVE,
        Opcode::CompareAndBranch => &G_BRANCH,
        Opcode::UnconditionalBranch => &G_JUMP,
        Opcode::DmaCopy
        | Opcode::Load
        | Opcode::Save
        | Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::GenericIndirectSave
        | Opcode::IndirectSave
        | Opcode::IndirectSaveAccumulate => return Ok(Plan::Dma),
        Opcode::CollectiveCompute => return Ok(Plan::Collective),
        Opcode::Generic
        | Opcode::MatmultBase
        | Opcode::MatmultSparse
        | Opcode::Dma
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst
        | Opcode::TensorScalar
        | Opcode::ReadVarAddr
        | Opcode::Collective
        | Opcode::CollectiveSend
        | Opcode::CollectiveRecv
        | Opcode::CustomOp
        | Opcode::BirKernel
        | Opcode::NkiKernel
        | Opcode::NkiKlirKernel
        | Opcode::DmaTrigger
        | Opcode::DmaDescriptor
        | Opcode::DmaDescriptorCopy
        | Opcode::DmaDescriptorCce
        | Opcode::DmaDescriptorTranspose
        | Opcode::DmaDescriptorReplicate
        | Opcode::Terminator
        | Opcode::BranchHint
        | Opcode::Break
        | Opcode::Call
        | Opcode::InlineAsmBytes
        | Opcode::Loop
        | Opcode::DynamicForLoop
        | Opcode::DmaBlock
        | Opcode::DoWhile
        | Opcode::TongaReduceMacroSymbolic => return Err(none(inst, "")),
    };
    Ok(Plan::Rows(g))
}
