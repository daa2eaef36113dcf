//! KLR enumerations as BIR enumerations, one table each.
//!
//! Source: the specification, file 04 §5 (documented). A table is indexed by the KLR constructor number on disk; the
//! KLR enums are closed, so an index can not leave its table.

use crate::ast as k;
use tandem_bir as b;
use tandem_bir::{
    ActivationFunctionType as Act, AluOp, BirEnum, Dtype, EngineAccumulationType as Acc, EngineKind,
};

const DTYPES: [Dtype; k::Dtype::ALL.len()] = [
    Dtype::Bfloat16,
    Dtype::Float8E3,
    Dtype::Float8E4,
    Dtype::Float8E5,
    Dtype::Float16,
    Dtype::Float32,
    Dtype::Float32r,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int64,
    Dtype::Int32,
    Dtype::Uint8,
    Dtype::Uint16,
    Dtype::Uint32,
    Dtype::Uint64,
    Dtype::Float8E4,
    Dtype::Float8E4m3Fn,
    Dtype::Float8E5m2X4,
    Dtype::Float8E4m3FnX4,
    Dtype::Float4E2m1FnX4,
];

const ENGINES: [EngineKind; k::Engine::ALL.len()] = [
    EngineKind::Unassigned,
    EngineKind::Activation,
    EngineKind::Dma,
    EngineKind::Dve,
    EngineKind::Pe,
    EngineKind::Pool,
    EngineKind::Sp,
];

const ALU: [AluOp; k::AluOp::ALL.len()] = [
    AluOp::Abs,
    AluOp::Add,
    AluOp::ArithShiftLeft,
    AluOp::ArithShiftRight,
    AluOp::Average,
    AluOp::BitwiseAnd,
    AluOp::BitwiseNot,
    AluOp::BitwiseOr,
    AluOp::BitwiseXor,
    AluOp::Bypass,
    AluOp::Divide,
    AluOp::IsEqual,
    AluOp::IsGe,
    AluOp::IsGt,
    AluOp::IsLe,
    AluOp::IsLt,
    AluOp::LogicalAnd,
    AluOp::LogicalOr,
    AluOp::LogicalShiftLeft,
    AluOp::LogicalShiftRight,
    AluOp::LogicalXor,
    AluOp::Max,
    AluOp::Min,
    AluOp::Mod,
    AluOp::Mult,
    AluOp::NotEqual,
    AluOp::Pow,
    AluOp::Rsqrt,
    AluOp::Subtract,
];

const FUNCS: [Act; k::ActivationFunc::ALL.len()] = [
    Act::Abs,
    Act::Arctan,
    Act::Copy,
    Act::Erf,
    Act::DerivativeErf,
    Act::Exp,
    Act::Gelu,
    Act::GeluApprxTanh,
    Act::DerivativeGelu,
    Act::Ln,
    Act::Mish,
    Act::Reciprocal,
    Act::Relu,
    Act::Rsqrt,
    Act::Sigmoid,
    Act::Sign,
    Act::Silu,
    Act::DerivativeSilu,
    Act::Sin,
    Act::Softplus,
    Act::Sqrt,
    Act::Square,
    Act::Tanh,
    Act::GeluApprxSigmoid,
    Act::DerivativeGeluApprxSigmoid,
];

/// `None`: `LoadAccumulate` has no form in code generation.
const ACCS: [Option<Acc>; k::AccumCmd::ALL.len()] =
    [Some(Acc::Idle), Some(Acc::Zero), Some(Acc::AddAccumulate), Some(Acc::ZeroAccumulate), None];

const DGE: [b::DgeType; 4] = [b::DgeType::Unassigned, b::DgeType::SwDge, b::DgeType::HwDge, b::DgeType::None];

/// Element type.
pub(crate) fn dtype(d: k::Dtype) -> Dtype {
    DTYPES[d as usize]
}
/// Engine.
pub(crate) fn engine(e: k::Engine) -> EngineKind {
    ENGINES[e as usize]
}
/// ALU operation.
pub(crate) fn alu(op: k::AluOp) -> AluOp {
    ALU[op as usize]
}
/// Activation function.
pub(crate) fn func(f: k::ActivationFunc) -> Act {
    FUNCS[f as usize]
}
/// Accumulator command; `None` for the one without a form.
pub(crate) fn acc(a: k::AccumCmd) -> Option<Acc> {
    ACCS[a as usize]
}
/// Descriptor generation of the plain number in the file; `None` beyond 3.
pub(crate) fn dge(mode: u64) -> Option<b::DgeType> {
    DGE.get(usize::try_from(mode).ok()?).copied()
}
/// Order of a transposition: the numbers agree.
pub(crate) fn transpose(t: k::TransposeOps) -> b::TransposeOps {
    b::TransposeOps::from_ordinal(t.cbor_index().into()).unwrap_or(b::TransposeOps::None)
}
/// `(reverse0, reverse1)`.
pub(crate) fn reverse(r: k::TensorScalarReverseOps) -> (bool, bool) {
    match r {
        k::TensorScalarReverseOps::None => (false, false),
        k::TensorScalarReverseOps::First => (true, false),
        k::TensorScalarReverseOps::Second => (false, true),
        k::TensorScalarReverseOps::Both => (true, true),
    }
}
/// Axes of a reduction.
pub(crate) fn axis(d: k::TensorSubDim) -> b::AxisListType {
    match d {
        k::TensorSubDim::X => b::AxisListType::X,
        k::TensorSubDim::Xy => b::AxisListType::Xy,
        k::TensorSubDim::Xyz => b::AxisListType::Xyz,
        k::TensorSubDim::Xyzw => b::AxisListType::Xyzw,
    }
}
/// Performance mode of a matmul; 2.24 loses the interleaved one.
pub(crate) fn perf_mode(p: k::MatmulPerfMode, strict: bool) -> b::MatmultPerfMode {
    match p {
        k::MatmulPerfMode::None => b::MatmultPerfMode::None,
        k::MatmulPerfMode::DoubleRow => b::MatmultPerfMode::DoubleRow,
        k::MatmulPerfMode::DoubleRowSwInterleave if strict => b::MatmultPerfMode::None,
        k::MatmulPerfMode::DoubleRowSwInterleave => b::MatmultPerfMode::DoubleRowSwInterleave,
    }
}
/// Comparison of a conditional branch; `None` for the unconditional one.
pub(crate) fn branch(op: k::BrCmpOp) -> Option<b::BranchCompareOp> {
    let ordinal = op.cbor_index().checked_sub(1)?;
    b::BranchCompareOp::from_ordinal(ordinal.into())
}
/// Priority class of a DMA; `None` beyond P14.
pub(crate) fn qos(priority: u64) -> Option<b::DmaQosClass> {
    let ordinal = u16::try_from(priority).ok()?.checked_add(2)?;
    b::DmaQosClass::from_ordinal(ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs printed in the specification, file 04 §5: KLR number (1-based), BIR ordinal.
    #[test]
    fn tables_are_those_of_the_specification() {
        let dtypes = [12, 3, 4, 7, 13, 16, 17, 1, 11, 19, 15, 0, 10, 14, 18, 4, 5, 9, 8, 2];
        for (d, want) in k::Dtype::ALL.iter().zip(dtypes) {
            assert_eq!(dtype(*d).ordinal(), want, "{d}");
            assert_eq!(dtype(*d).bytes(), d.size_bytes(), "{d}");
        }
        let engines = [0, 2, 4, 5, 3, 1, 6];
        for (e, want) in k::Engine::ALL.iter().zip(engines) {
            assert_eq!(engine(*e).ordinal(), want, "{e}");
        }
        let alus = [
            29, 4, 2, 3, 24, 10, 1, 11, 12, 0, 7, 18, 21, 20, 23, 22, 13, 14, 16, 17, 15, 8, 9, 27, 6, 19,
            26, 28, 5,
        ];
        for (a, want) in k::AluOp::ALL.iter().zip(alus) {
            assert_eq!(alu(*a).ordinal(), want, "{a}");
            assert_eq!(alu(*a).name(), a.name());
        }
        let funcs =
            [24, 14, 23, 12, 22, 7, 16, 18, 21, 11, 17, 25, 2, 10, 5, 15, 27, 28, 13, 8, 9, 1, 6, 19, 20];
        for (f, want) in k::ActivationFunc::ALL.iter().zip(funcs) {
            assert_eq!(func(*f).ordinal(), want, "{f}");
        }
        for t in k::TransposeOps::ALL {
            assert_eq!(transpose(*t).name(), t.name());
        }
        for (i, op) in k::BrCmpOp::ALL.iter().enumerate() {
            assert_eq!(branch(*op).map(|c| c.ordinal()), (i as u16).checked_sub(1), "{op}");
        }
        assert_eq!(
            k::AccumCmd::ALL.iter().map(|c| acc(*c).map(|a| a.ordinal())).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(4), Some(3), None]
        );
        assert_eq!(
            (0..5).map(|m| dge(m).map(|d| d.ordinal())).collect::<Vec<_>>(),
            [Some(3), Some(1), Some(2), Some(0), None]
        );
        assert_eq!([qos(0), qos(14), qos(15)].map(|q| q.map(|q| q.ordinal())), [Some(2), Some(16), None]);
    }
}
