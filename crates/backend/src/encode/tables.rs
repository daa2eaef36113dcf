//! Codes on the wire: dtypes, ALU operations, activation functions and the small enums.
//!
//! Each table is a list of `(BIR ordinal, wire code)` rows in the order of the specification, file 07 §5 (documented).
//! The dtype map is not injective: [`dtype_of_wire`] gives the first BIR type of a code, and what it loses travels in
//! the container's record table.

use super::bundle::{WireError, WireResult};
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, ArchLevel, BirEnum, CollectiveKind, Dtype};

/// One row of a code table: BIR ordinal, wire code.
pub type CodeRow = (u16, u8);

/// Wire code of a dtype.
///
/// # Errors
/// E0005 when the generation has no code (none at present: every type has one).
pub fn wire_dtype(d: Dtype, arch: ArchLevel) -> u8 {
    match d {
        Dtype::Uint8 => 3,
        Dtype::Int8 => 2,
        Dtype::Float4E2m1FnX4 => {
            if arch >= ArchLevel::CoreV4 {
                16
            } else {
                5
            }
        }
        Dtype::Float8E3 => 13,
        Dtype::Float8E4 | Dtype::Float8E4m3Fn | Dtype::Float8E4m3FnX4 => 14,
        Dtype::Float8E8m0Fnu => 3,
        Dtype::Float8E5 | Dtype::Float8E5m2X4 => 15,
        Dtype::Uint16 => 5,
        Dtype::Int16 => 4,
        Dtype::Bfloat16 => 6,
        Dtype::Float16 => 7,
        Dtype::Uint32 => 9,
        Dtype::Int32 => 8,
        Dtype::Float32 => 10,
        Dtype::Float32r => 11,
        Dtype::Uint64 => 1,
        Dtype::Int64 => 12,
    }
}

/// The BIR dtype a wire code stands for when nothing else is known.
///
/// # Errors
/// E0104 for a code no type has on this generation.
pub fn dtype_of_wire(w: u8, arch: ArchLevel) -> WireResult<Dtype> {
    Ok(match w {
        1 => Dtype::Uint64,
        2 => Dtype::Int8,
        3 => Dtype::Uint8,
        4 => Dtype::Int16,
        5 => Dtype::Uint16,
        6 => Dtype::Bfloat16,
        7 => Dtype::Float16,
        8 => Dtype::Int32,
        9 => Dtype::Uint32,
        10 => Dtype::Float32,
        11 => Dtype::Float32r,
        12 => Dtype::Int64,
        13 => Dtype::Float8E3,
        14 => Dtype::Float8E4,
        15 => Dtype::Float8E5,
        16 if arch >= ArchLevel::CoreV4 => Dtype::Float4E2m1FnX4,
        _ => return Err(WireError::new(codes::E0104, format!("{w} is no dtype code"))),
    })
}

/// Address alignment of a wire dtype in bytes; 0 for codes without one.
pub fn wire_alignment(w: u8, arch: ArchLevel) -> u64 {
    match w {
        2 | 3 | 13 | 14 | 15 => 1,
        4..=7 => 2,
        8..=11 => 4,
        1 | 12 => 8,
        16 if arch >= ArchLevel::CoreV4 => 1,
        _ => 0,
    }
}

/// ALU operations; 255 marks "no code".
pub const ALU: &[CodeRow] = &[
    (0, 0x00),
    (1, 0x01),
    (2, 0x02),
    (3, 0x03),
    (4, 0x04),
    (5, 0x05),
    (6, 0x06),
    (7, 0x07),
    (8, 0x08),
    (9, 0x09),
    (10, 0x0A),
    (11, 0x0B),
    (12, 0x0C),
    (13, 0x0D),
    (14, 0x0E),
    (15, 0x0F),
    (16, 0x10),
    (17, 0x11),
    (18, 0x12),
    (19, 0x18),
    (20, 0x13),
    (21, 0x14),
    (22, 0x16),
    (23, 0x15),
    (26, 0x1A),
    (27, 0x1B),
    (28, 0x1D),
    (29, 0x19),
    (30, 0x20),
    (31, 0x21),
    (32, 0xC8),
];

/// ALU operations of CoreV4 only.
const NO_CODE: u8 = 255;
/// [`ALU`] by ordinal and by code; the first row that has it counts.
const CODE_OF_ALU: [u8; 64] = {
    let mut t = [NO_CODE; 64];
    let mut i = ALU.len();
    while i > 0 {
        i -= 1;
        t[ALU[i].0 as usize] = ALU[i].1;
    }
    t
};
const ALU_OF_CODE: [u8; 256] = {
    let mut t = [NO_CODE; 256];
    let mut i = ALU.len();
    while i > 0 {
        i -= 1;
        t[ALU[i].1 as usize] = ALU[i].0 as u8;
    }
    t
};
const ALU_V4: [AluOp; 3] = [AluOp::AbsMax, AluOp::AbsMin, AluOp::ModInt];

/// Wire code of an ALU operation.
///
/// # Errors
/// E0005 for `average` and `elemwise_mul`, and for the operations of CoreV4 on older generations.
pub fn wire_alu(op: AluOp, arch: ArchLevel) -> WireResult<u8> {
    let code = CODE_OF_ALU.get(usize::from(op.ordinal())).copied().filter(|w| *w != NO_CODE);
    match code {
        Some(w) if arch >= ArchLevel::CoreV4 || !ALU_V4.contains(&op) => Ok(w),
        Some(_) | None => Err(WireError::new(
            codes::E0005,
            format!("Invalid enum variant for enum AluOpType: {op} has no code on {arch}"),
        )),
    }
}

/// The ALU operation of a wire code.
///
/// # Errors
/// E0104 for a code no operation has.
pub fn alu_of_wire(w: u8, arch: ArchLevel) -> WireResult<AluOp> {
    let ordinal = ALU_OF_CODE.get(usize::from(w)).copied().filter(|o| *o != NO_CODE);
    ordinal
        .and_then(|o| AluOp::from_ordinal(u16::from(o)))
        .filter(|op| arch >= ArchLevel::CoreV4 || !ALU_V4.contains(op))
        .ok_or_else(|| WireError::new(codes::E0104, format!("{w:#04x} is no ALU code on {arch}")))
}

/// The bit-vector class of ALU operations: they select the `Bitvec` opcodes.
pub fn is_bitvec(op: AluOp) -> bool {
    match op {
        AluOp::BitwiseNot
        | AluOp::ArithShiftLeft
        | AluOp::ArithShiftRight
        | AluOp::BitwiseAnd
        | AluOp::BitwiseOr
        | AluOp::BitwiseXor
        | AluOp::LogicalShiftLeft
        | AluOp::LogicalShiftRight => true,
        AluOp::Bypass
        | AluOp::Add
        | AluOp::Subtract
        | AluOp::Mult
        | AluOp::Divide
        | AluOp::Max
        | AluOp::Min
        | AluOp::LogicalAnd
        | AluOp::LogicalOr
        | AluOp::LogicalXor
        | AluOp::IsEqual
        | AluOp::NotEqual
        | AluOp::IsGt
        | AluOp::IsGe
        | AluOp::IsLt
        | AluOp::IsLe
        | AluOp::Average
        | AluOp::ElemwiseMul
        | AluOp::Pow
        | AluOp::Mod
        | AluOp::Rsqrt
        | AluOp::Abs
        | AluOp::AbsMax
        | AluOp::AbsMin
        | AluOp::ModInt => false,
    }
}

/// Activation functions: wire code by BIR ordinal 0..=29.
pub const ACTIVATION: &[CodeRow] = &[
    (0, 1),
    (1, 30),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (8, 9),
    (9, 8),
    (10, 29),
    (11, 10),
    (12, 21),
    (13, 19),
    (14, 28),
    (15, 31),
    (16, 23),
    (17, 24),
    (18, 25),
    (19, 26),
    (20, 38),
    (21, 32),
    (22, 22),
    (23, 128),
    (24, 33),
    (25, 129),
    (26, 34),
    (27, 36),
    (28, 37),
    (29, 35),
];

/// Accumulator commands of DVE records.
pub const ACCUM: &[CodeRow] = &[(0, 0), (1, 1), (3, 3), (4, 2), (5, 4)];
/// Accumulator commands of Activation records: idle is stored as 3. Reading 3 gives idle; an instruction with
/// ZeroAccumulate says so in the container's record table.
pub const ACCUM_ACT: &[CodeRow] = &[(0, 3), (3, 3), (1, 1), (4, 2), (5, 4)];
/// Reduced axes of free-axis reductions.
pub const AXIS: &[CodeRow] = &[(0, 2), (1, 3), (2, 4), (3, 5)];
/// Flag of cross-lane reductions.
pub const AXIS_CROSS: &[CodeRow] = &[(5, 1), (4, 0)];
/// Command of cross-lane reductions, by ALU ordinal: add, average, max, or, and, xor.
pub const CROSS_LANE: &[CodeRow] = &[(4, 0), (24, 1), (8, 2), (11, 3), (10, 4), (12, 5)];
/// Pool functions.
pub const POOL: &[CodeRow] = &[(0, 1), (1, 2)];
/// Matmul performance modes.
pub const PERF: &[CodeRow] = &[(0, 0), (1, 1), (2, 2), (3, 3)];
/// Branch comparisons: immediate 1..6, register 9..14, in the order LT LE EQ NE GE GT.
pub const BRANCH: &[CodeRow] =
    &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 9), (7, 10), (8, 11), (9, 12), (10, 13), (11, 14)];
/// Negation of a branch comparison, by BIR ordinal.
pub const BRANCH_NEGATION: [u16; 12] = [4, 5, 3, 2, 0, 1, 10, 11, 9, 8, 6, 7];
/// Ways of clearing a group of semaphores: range, bit mask.
pub const CLEAR_MODE: &[CodeRow] = &[(0, 1), (1, 2)];
/// Completion modes: the only documented value of the byte is 0.
pub const COMPLETION: &[CodeRow] = &[(0, 0), (1, 1)];

/// Collective kinds; 0 and 1 have no record.
pub fn wire_collective(k: CollectiveKind) -> Option<u8> {
    match k {
        CollectiveKind::SendRecv | CollectiveKind::SendRecvCce => None,
        CollectiveKind::AllReduce => Some(1),
        CollectiveKind::ReduceScatter => Some(2),
        CollectiveKind::AllGather => Some(3),
        CollectiveKind::AllToAll => Some(4),
        CollectiveKind::AllToAllV => Some(9),
        CollectiveKind::Permute => Some(5),
        CollectiveKind::PermuteReduce => Some(6),
        CollectiveKind::PermuteImplicit => Some(7),
        CollectiveKind::PermuteReduceImplicit => Some(8),
    }
}

/// The collective kind of a wire code.
pub fn collective_of_wire(w: u8) -> Option<CollectiveKind> {
    CollectiveKind::ALL.iter().copied().find(|k| wire_collective(*k) == Some(w))
}

/// Wire code of an ordinal in a table.
#[inline]
pub fn to_wire(table: &[CodeRow], ordinal: u16) -> Option<u8> {
    table.iter().find(|(o, _)| *o == ordinal).map(|(_, w)| *w)
}

/// Ordinal of a wire code: the first row that has it.
#[inline]
pub fn from_wire(table: &[CodeRow], wire: u8) -> Option<u16> {
    table.iter().find(|(_, w)| *w == wire).map(|(o, _)| *o)
}

/// Random generators.
pub const RAND_ALGORITHM: &[CodeRow] = &[(0, 0), (1, 1), (2, 2)];
/// Random distributions.
pub const RAND_DISTRIBUTION: &[CodeRow] = &[(0, 0), (1, 1), (2, 2), (3, 3)];
