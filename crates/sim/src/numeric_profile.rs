//! Which reading of the undocumented or disputed numeric rules the simulator follows.
//!
//! One field per row of the specification, file 09 §15. Preset [`NumericProfile::hw`] predicts the device (the default);
//! [`NumericProfile::birsim`] reproduces the reference simulator. Both are deterministic.

/// Values of e4m3fn and e5m2 below the smallest subnormal (§3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp8Tiny {
    /// Round to nearest even, so that the upper half goes to the smallest subnormal.
    Rne,
    /// Signed zero.
    Flush,
}

/// Arithmetic of an integer reduction whose output is int32 (§5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntReduce {
    /// In fp32, as every other reduction.
    Fp32,
    /// In 32-bit integers.
    Int32,
}

/// What ZeroAccumulate resets an accumulator to (§6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccIdentity {
    /// The operation's identity.
    OpIdentity,
    /// Zero, whatever the operation.
    Zero,
}

/// The fill value of RangeSelect in a narrow float (§6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSelectFill {
    /// Minus infinity (the format's own overflow code) in fp16, bf16 and fp8.
    Infinity,
    /// The generic conversion, which saturates fp8.
    GenericCast,
}

/// Order in which the eight values claim matches (§6.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOrder {
    /// 7..0: the first match lands in the highest slot of equal values.
    Descending,
    /// 0..7.
    Ascending,
}

/// Scale of an MX block (§6.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MxScale {
    /// Exponent less EMAX − 1, all-zero block 0.
    EmaxMinusOne,
    /// Exponent less EMAX, at least 1.
    Emax,
}

/// Order of the four nibbles of an fp4 container (§3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp4LaneOrder {
    /// Lane i in bits 4i..4i+3.
    Plain,
    /// Even and odd lanes swapped inside windows of two, the reference's permutation at stride 1.
    Permuted,
}

/// Swaps of 32-bit integers (§9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sb2SbInt32 {
    /// Bits.
    BitCopy,
    /// Through fp32, losing bits above 2^24.
    ThroughF32,
}

/// PermuteReduce, collective kind 8 (§9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind8 {
    /// `op(local, received)`.
    Fold,
    /// The received value.
    Identity,
}

/// AllReduce in the reference's mode of several workers of one core each (§9.4). Sums only; other operators fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllReduceMultiworker {
    /// The fold over the members.
    TrueFold,
    /// The own value times the number of members.
    LocalTimesMembers,
}

/// Collectives of kinds 0, 1 and 3 when several LNCs run (§9.4, limits of the reference).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiLnc {
    /// By the model: kinds 0 and 1 stay inside their LNC, kind 3 follows its replica groups.
    Model,
    /// Refused.
    Refuse,
}

/// Opcodes the reference skips without a word: 2, 56, 93, 100, 104 (§7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentSkip {
    /// Run them, or refuse those that cannot be run.
    Implement,
    /// Skip them with a note.
    SkipWithNote,
}

/// How reads of bytes never written are found (§2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uninit {
    /// One bit per byte.
    InitBits,
    /// Memory starts as 0xFF and a NaN in a result is the sign.
    NanGuard,
}

/// Registers before their first write (§6.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterInit {
    /// Poison: a use is a finding.
    Poison,
    /// 0xFFFFFFFF.
    AllOnes,
}

/// Copies on the Activation engine without a change of dtype (§6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActCopy {
    /// Bits from trn2 on, through fp32 on trn1.
    ByGeneration,
    /// Bits.
    BitCopy,
}

/// max and min of the ALU when an operand is NaN (§5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AluMinMaxNan {
    /// `a > b ? a : b`: a NaN on either side gives the second operand.
    SecondOperand,
    /// NaN in, NaN out, as numpy does.
    Propagate,
}

/// Derivative_silu (§6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiluDx {
    /// The derivative: `s·(1 + x·(1 − s))`.
    True,
    /// The formula as printed: `(x·e^x + 1)·e^x / (e^x + 1)²`.
    Printed,
}

/// Accumulation of a matrix product (§6.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulAccum {
    /// Fused multiply-add in fp32, k ascending (decision D31).
    F32,
    /// Products and sums in fp64, rounded once; only to compare with goldens.
    F64,
}

/// The reading; presets [`NumericProfile::hw`] and [`NumericProfile::birsim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is named after its row and documented at its type")]
pub struct NumericProfile {
    pub fp8_tiny: Fp8Tiny,
    /// An accumulating fp8 write saturates; otherwise it overflows to infinity (§3.6).
    pub fp8_accum_saturate: bool,
    /// DMA accumulation takes max and min; otherwise that is error 1465 (§3.6).
    pub dma_accum_minmax: bool,
    pub int_reduce: IntReduce,
    pub acc_identity: AccIdentity,
    pub range_select_fill_overflow: RangeSelectFill,
    pub match_replace_order: MatchOrder,
    pub mx_scale: MxScale,
    pub fp4_lane_order: Fp4LaneOrder,
    /// Explicit mantissa bits of a float32r operand of the PE (§6.14).
    pub tf32_bits: u32,
    pub sb2sb_int32: Sb2SbInt32,
    pub kind8: Kind8,
    pub allreduce_multiworker: AllReduceMultiworker,
    /// Not a row of §15: what the reference refuses when several LNCs run.
    pub multi_lnc: MultiLnc,
    pub silent_skip: SilentSkip,
    pub uninit: Uninit,
    pub register_init: RegisterInit,
    pub act_copy_same_dtype: ActCopy,
    /// Elements per partition that BNStatsAggregate takes must be a multiple of this (§6.12).
    pub bn_aggr_multiple: u32,
    pub alu_minmax_nan: AluMinMaxNan,
    pub silu_dx: SiluDx,
    /// Not a disputed row: an option for golden comparison.
    pub matmul_accum: MatmulAccum,
}

impl NumericProfile {
    /// Predicts the device: documents of the hardware where they speak, else the reference.
    pub const fn hw() -> NumericProfile {
        NumericProfile {
            fp8_tiny: Fp8Tiny::Rne,
            fp8_accum_saturate: true,
            dma_accum_minmax: true,
            int_reduce: IntReduce::Fp32,
            acc_identity: AccIdentity::OpIdentity,
            range_select_fill_overflow: RangeSelectFill::Infinity,
            match_replace_order: MatchOrder::Descending,
            mx_scale: MxScale::EmaxMinusOne,
            fp4_lane_order: Fp4LaneOrder::Plain,
            tf32_bits: 10,
            sb2sb_int32: Sb2SbInt32::BitCopy,
            kind8: Kind8::Fold,
            allreduce_multiworker: AllReduceMultiworker::TrueFold,
            multi_lnc: MultiLnc::Model,
            silent_skip: SilentSkip::Implement,
            uninit: Uninit::InitBits,
            register_init: RegisterInit::Poison,
            act_copy_same_dtype: ActCopy::ByGeneration,
            bn_aggr_multiple: 3,
            alu_minmax_nan: AluMinMaxNan::SecondOperand,
            silu_dx: SiluDx::True,
            matmul_accum: MatmulAccum::F32,
        }
    }
    /// Reproduces the reference simulator.
    pub const fn birsim() -> NumericProfile {
        NumericProfile {
            fp8_tiny: Fp8Tiny::Flush,
            fp8_accum_saturate: false,
            dma_accum_minmax: false,
            int_reduce: IntReduce::Int32,
            acc_identity: AccIdentity::Zero,
            range_select_fill_overflow: RangeSelectFill::GenericCast,
            match_replace_order: MatchOrder::Ascending,
            mx_scale: MxScale::Emax,
            fp4_lane_order: Fp4LaneOrder::Permuted,
            tf32_bits: 11,
            sb2sb_int32: Sb2SbInt32::ThroughF32,
            kind8: Kind8::Identity,
            allreduce_multiworker: AllReduceMultiworker::LocalTimesMembers,
            multi_lnc: MultiLnc::Refuse,
            silent_skip: SilentSkip::SkipWithNote,
            uninit: Uninit::NanGuard,
            register_init: RegisterInit::AllOnes,
            act_copy_same_dtype: ActCopy::BitCopy,
            bn_aggr_multiple: 6,
            alu_minmax_nan: AluMinMaxNan::SecondOperand,
            silu_dx: SiluDx::True,
            matmul_accum: MatmulAccum::F32,
        }
    }
    /// The preset of this name (`hw`, `birsim`).
    pub fn preset(name: &str) -> Option<NumericProfile> {
        match name {
            "hw" => Some(NumericProfile::hw()),
            "birsim" => Some(NumericProfile::birsim()),
            _ => None,
        }
    }
}

impl Default for NumericProfile {
    fn default() -> Self {
        NumericProfile::hw()
    }
}
