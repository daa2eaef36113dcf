//! The typed tree of a traced kernel.
//!
//! Every type is declared once, by one of the macros of `macros.rs`; the declaration makes the Rust type, the table
//! of its KLR names, its reader and its writer. Field names are the KLR names in snake case, types and constructors
//! in Pascal case; the original spelling stays available (`name()`, `FIELDS`) for messages and for printing.
//!
//! Tensors are shared by [`std::sync::Arc`]: a file repeats a tensor at each access, the reader makes one value of
//! equal bytes. Access forms are boxed, which keeps an operator small.
//!
//! Not modelled: the Python and NKI syntax trees a `.klr` file may hold instead of a traced kernel, and
//! `TGROperator`, which never occurs inside files.

#[macro_use]
mod macros;

pub mod enums;
pub mod kernel;
pub mod operators;
pub mod prim;
pub mod rules;
pub mod tensor;

pub use enums::*;
pub use kernel::*;
pub use operators::*;
pub use prim::{ApList, F32, Str};
pub use rules::Broken;
pub use tensor::*;

/// Name of the KLR type of a type tag, for messages. Tag 255 is `Option`.
pub fn type_name(tag: u8) -> Option<&'static str> {
    let at = TYPES.binary_search_by_key(&tag, |(t, _)| *t).ok()?;
    TYPES.get(at).map(|(_, name)| *name)
}

/// Type tags and names, sorted by tag. Tag 217 is also the file header (constructor 247).
pub const TYPES: &[(u8, &str)] = &[
    (100, "Pos"),
    (103, "Stmt"),
    (104, "Block"),
    (105, "Kernel"),
    (106, "SharedConstantFile"),
    (107, "Edges"),
    (108, "LncKernel"),
    (110, "Memory"),
    (111, "Dtype"),
    (112, "Shape"),
    (113, "Address"),
    (114, "TensorName"),
    (115, "Slice"),
    (117, "Index"),
    (118, "AccessBasic"),
    (119, "APPair"),
    (120, "AccessPattern"),
    (123, "ScalarOffset"),
    (124, "BirAccessPattern"),
    (125, "Access"),
    (126, "TensorHbm"),
    (127, "TensorSram"),
    (128, "TensorRef"),
    (129, "MatmulPerfMode"),
    (130, "Engine"),
    (131, "Immediate"),
    (132, "ActivationImm"),
    (133, "Operand"),
    (134, "DataPattern"),
    (135, "AluOp"),
    (136, "DropoutThresholdType"),
    (137, "AccumCmd"),
    (138, "ActivationFunc"),
    (139, "AffineSelectCmp"),
    (140, "DgeComputeOp"),
    (141, "DmaBounds"),
    (142, "MatmulGroupElement"),
    (143, "IndexMissBehavior"),
    (144, "TensorScalarReverseOps"),
    (145, "TensorSubDim"),
    (146, "TransposeOps"),
    (147, "Dropout"),
    (148, "Activate"),
    (149, "NcActivate"),
    (150, "AffineSelect"),
    (151, "NcAffineSelect"),
    (152, "DmaCopy"),
    (153, "NcDmaCopy"),
    (154, "DmaTranspose"),
    (155, "Transpose"),
    (156, "LoadMaskRegister"),
    (157, "Shuffle"),
    (158, "MemSet"),
    (159, "Iota"),
    (160, "LoadStationary"),
    (161, "MatMul"),
    (162, "LocalGather"),
    (163, "NcLocalGather"),
    (164, "RangeSelect"),
    (165, "NcRangeSelect"),
    (166, "ScalarTensorTensor"),
    (167, "NcScalarTensorTensor"),
    (168, "CopyPredicated"),
    (169, "TensorTensorScan"),
    (170, "MatchValueLoad"),
    (171, "FindIndex8"),
    (172, "MatchReplace8"),
    (173, "Max8"),
    (174, "BatchNormAggregate"),
    (175, "BatchNormStats"),
    (176, "Reciprocal"),
    (177, "Copy"),
    (178, "NcCopy"),
    (179, "TensorReduce"),
    (180, "TensorScalar"),
    (181, "TensorScalarReduce"),
    (182, "TensorTensor"),
    (183, "NcMatMul"),
    (184, "TensorPartitionReduce"),
    (185, "SelectReduce"),
    (186, "SequenceBounds"),
    (187, "SendRecv"),
    (188, "SendRecvCompute"),
    (189, "BrCmpOp"),
    (190, "TensorLoad"),
    (191, "TensorStore"),
    (192, "RegisterMove"),
    (193, "CmpBranch"),
    (194, "RegisterAluOp"),
    (195, "QuantizeMX"),
    (196, "MatMulMX"),
    (197, "DmaCompute"),
    (198, "ReplicaGroup"),
    (199, "CollectiveOp"),
    (200, "RankId"),
    (201, "CurrentProcessingRankId"),
    (202, "Send"),
    (203, "Recv"),
    (204, "CoreBarrier"),
    (205, "Rng"),
    (206, "Rand2"),
    (207, "RandGetState"),
    (208, "SetRngSeed"),
    (209, "RandSetState"),
    (210, "ExtendedInst"),
    (211, "TensorScalarCumulative"),
    (212, "NcNGather"),
    (213, "NonzeroWithCount"),
    (214, "PrintOutputBuffer"),
    (215, "DevicePrint"),
    (216, "Exponential"),
    (217, "Activate2"),
    (218, "Operator"),
    (235, "KLRMetaData"),
    (236, "Contents"),
    (255, "Option"),
];
