//! Closed value sets of BIR: every enum with its in-memory ordinal and its name on disk.
//!
//! Ordinals are the in-memory ("L1") numbers of the specification, file 03 §8; they are neither KLR
//! constructor numbers nor wire codes. JSON and text always carry the **name**.

/// Names and ordinals of one closed value set, for code that treats all sets alike (printer, parser, JSON).
#[derive(Debug, PartialEq, Eq)]
pub struct EnumTable {
    /// Name of the set, for messages.
    pub name: &'static str,
    /// `(ordinal, name)` in declaration order.
    pub members: &'static [(u16, &'static str)],
}

impl EnumTable {
    /// Ordinal of a member by its exact name.
    pub fn ordinal(&self, name: &str) -> Option<u16> {
        self.members.iter().find(|(_, n)| *n == name).map(|(o, _)| *o)
    }
    /// Name of a member by ordinal.
    pub fn name_of(&self, ordinal: u16) -> Option<&'static str> {
        self.members.iter().find(|(o, _)| *o == ordinal).map(|(_, n)| *n)
    }
}

/// A closed value set that can live in an instruction attribute.
pub trait BirEnum: Copy + Eq + Sized + 'static {
    /// The set's names and ordinals.
    const TABLE: &'static EnumTable;
    /// In-memory ordinal.
    fn ordinal(self) -> u16;
    /// The member with this ordinal, if there is one.
    fn from_ordinal(ordinal: u16) -> Option<Self>;
    /// Name as written in JSON and text.
    fn name(self) -> &'static str;
    /// The member with this exact name.
    fn from_name(name: &str) -> Option<Self> {
        Self::TABLE.ordinal(name).and_then(Self::from_ordinal)
    }
}

/// Declares a closed value set: enum, ordinals, names, table.
#[macro_export]
macro_rules! bir_enum {
    ($(#[$m:meta])* $vis:vis enum $name:ident { $( $(#[$vm:meta])* $var:ident = $ord:literal => $text:literal ),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        $vis enum $name { $( $(#[$vm])* #[doc = concat!("`", $text, "`")] $var = $ord ),* }
        impl $name {
            /// Every member in declaration order.
            pub const ALL: &'static [$name] = &[ $( $name::$var ),* ];
        }
        impl $crate::enums::BirEnum for $name {
            const TABLE: &'static $crate::enums::EnumTable = &$crate::enums::EnumTable {
                name: stringify!($name), members: &[ $( ($ord, $text) ),* ] };
            fn ordinal(self) -> u16 { self as u16 }
            fn from_ordinal(ordinal: u16) -> Option<Self> {
                match ordinal { $( $ord => Some($name::$var), )* _ => None }
            }
            fn name(self) -> &'static str { match self { $( $name::$var => $text ),* } }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::enums::BirEnum::name(*self))
            }
        }
    };
}

bir_enum! {
    /// Engines of a core, internal names. *GPSIMD* is the name printed for people for [`EngineKind::Pool`].
    pub enum EngineKind {
        Unassigned = 0 => "Unassigned", Pool = 1 => "Pool", Activation = 2 => "Activation", Pe = 3 => "PE",
        Dma = 4 => "DMA", Dve = 5 => "DVE", Sp = 6 => "SP", All = 7 => "ALL",
    }
}

impl EngineKind {
    /// External name, as the vendor's tools and our output for people print it.
    pub fn external_name(self) -> &'static str {
        match self {
            EngineKind::Unassigned => "Unassigned",
            EngineKind::Pool => "GPSIMD",
            EngineKind::Activation => "Scalar",
            EngineKind::Pe => "Tensor",
            EngineKind::Dma => "SyncDMA",
            EngineKind::Dve => "Vector",
            EngineKind::Sp => "Sync",
            EngineKind::All => "All",
        }
    }
    /// The engine an external name stands for; used to explain a mixed-up name.
    pub fn from_external_name(name: &str) -> Option<EngineKind> {
        Self::ALL.iter().copied().find(|e| e.external_name() == name)
    }
}

bir_enum! {
    /// ALU operations (33).
    pub enum AluOp {
        Bypass = 0 => "bypass", BitwiseNot = 1 => "bitwise_not", ArithShiftLeft = 2 => "arith_shift_left",
        ArithShiftRight = 3 => "arith_shift_right", Add = 4 => "add", Subtract = 5 => "subtract", Mult = 6 => "mult",
        Divide = 7 => "divide", Max = 8 => "max", Min = 9 => "min", BitwiseAnd = 10 => "bitwise_and",
        BitwiseOr = 11 => "bitwise_or", BitwiseXor = 12 => "bitwise_xor", LogicalAnd = 13 => "logical_and",
        LogicalOr = 14 => "logical_or", LogicalXor = 15 => "logical_xor", LogicalShiftLeft = 16 => "logical_shift_left",
        LogicalShiftRight = 17 => "logical_shift_right", IsEqual = 18 => "is_equal", NotEqual = 19 => "not_equal",
        IsGt = 20 => "is_gt", IsGe = 21 => "is_ge", IsLt = 22 => "is_lt", IsLe = 23 => "is_le", Average = 24 => "average",
        ElemwiseMul = 25 => "elemwise_mul", Pow = 26 => "pow", Mod = 27 => "mod", Rsqrt = 28 => "rsqrt", Abs = 29 => "abs",
        AbsMax = 30 => "abs_max", AbsMin = 31 => "abs_min", ModInt = 32 => "mod_int",
    }
}

bir_enum! {
    /// Collective kinds. Only kinds 0, 1 and 2 have an on-chip lowering. There is no broadcast.
    pub enum CollectiveKind {
        SendRecv = 0 => "SendRecv", SendRecvCce = 1 => "SendRecvCCE", AllReduce = 2 => "AllReduce",
        ReduceScatter = 3 => "ReduceScatter", AllGather = 4 => "AllGather", AllToAll = 5 => "AllToAll",
        AllToAllV = 6 => "AllToAllV", Permute = 7 => "Permute", PermuteReduce = 8 => "PermuteReduce",
        PermuteImplicit = 9 => "PermuteImplicit", PermuteReduceImplicit = 10 => "PermuteReduceImplicit",
    }
}

bir_enum! {
    /// Direction a gather or scatter runs along.
    pub enum CollectiveDimension { Partition = 0 => "Partition", Free = 1 => "Free" }
}
bir_enum! {
    /// Hint about the parallelism a collective serves.
    pub enum CollectiveComputeTypeHint { Tp = 0 => "TP", Fsdp = 1 => "FSDP", None = 2 => "None" }
}
bir_enum! {
    /// Accumulator command of an engine.
    pub enum EngineAccumulationType {
        Idle = 0 => "Idle", Zero = 1 => "Zero", Accumulate = 2 => "Accumulate", ZeroAccumulate = 3 => "ZeroAccumulate",
        AddAccumulate = 4 => "AddAccumulate", LoadAccumulate = 5 => "LoadAccumulate",
    }
}
bir_enum! {
    /// Axes a reduction folds: innermost 1..4 pattern dimensions, or the partitions (`C`).
    pub enum AxisListType {
        X = 0 => "X", Xy = 1 => "XY", Xyz = 2 => "XYZ", Xyzw = 3 => "XYZW", Xyzwc = 4 => "XYZWC", C = 5 => "C",
    }
}
bir_enum! {
    /// Destination order of a transposed source `[W, Z, Y, X]`.
    pub enum TransposeOps {
        None = 0 => "None", Wzxy = 1 => "WZXY", Wxzy = 2 => "WXZY", Wyxz = 3 => "WYXZ", Zwyx = 4 => "ZWYX",
        Zywx = 5 => "ZYWX", Zyxw = 6 => "ZYXW", Yxwz = 7 => "YXWZ", Yxzw = 8 => "YXZW", Ywzx = 9 => "YWZX",
        Xwzy = 10 => "XWZY", Xzyw = 11 => "XZYW", Xyzw = 12 => "XYZW", Xywz = 13 => "XYWZ",
    }
}
bir_enum! {
    /// Pattern position an indirect offset applies to.
    pub enum IndirectDim { W = 0 => "W", Z = 1 => "Z", Y = 2 => "Y", X = 3 => "X" }
}
bir_enum! {
    /// Matmul performance mode.
    pub enum MatmultPerfMode {
        None = 0 => "None", DoubleRow = 1 => "DoubleRow", DoubleColumn = 2 => "DoubleColumn",
        DoublePixel = 3 => "DoublePixel", DoubleRowSwInterleave = 4 => "DoubleRowSwInterleave",
    }
}
bir_enum! {
    /// What a Memset writes.
    pub enum MemsetMode { Const = 0 => "Const", Random = 1 => "Random" }
}
bir_enum! {
    /// Mode of a tensor-scalar instruction with a running value.
    pub enum TscMode { Reduce = 0 => "Reduce", Cumulative = 1 => "Cumulative", TensorScan = 2 => "TensorScan" }
}
bir_enum! {
    /// Pooling function.
    pub enum PoolFunctionType { Max = 0 => "Max", Avg = 1 => "Avg" }
}
bir_enum! {
    /// Who generates a transfer's descriptors.
    pub enum DgeType { None = 0 => "None", SwDge = 1 => "SWDGE", HwDge = 2 => "HWDGE", Unassigned = 3 => "Unassigned" }
}
bir_enum! {
    /// Priority class of a DMA transfer; `P<n>` has ordinal n + 2.
    pub enum DmaQosClass {
        Unassigned = 0 => "Unassigned", Default = 1 => "Default", P0 = 2 => "P0", P1 = 3 => "P1", P2 = 4 => "P2",
        P3 = 5 => "P3", P4 = 6 => "P4", P5 = 7 => "P5", P6 = 8 => "P6", P7 = 9 => "P7", P8 = 10 => "P8", P9 = 11 => "P9",
        P10 = 12 => "P10", P11 = 13 => "P11", P12 = 14 => "P12", P13 = 15 => "P13", P14 = 16 => "P14",
    }
}
bir_enum! {
    /// How a DMA copy treats its operands. The ordinal of `Dynamic` is our choice.
    pub enum CopyMode {
        Copy = 0 => "Copy", Transpose = 1 => "Transpose", Cce = 2 => "CCE", Replicate = 3 => "Replicate", Dynamic = 4 => "Dynamic",
    }
}
bir_enum! {
    /// Comparison of a conditional branch, with an immediate or with a register.
    pub enum BranchCompareOp {
        LtImm = 0 => "IS_LTIMM", LeImm = 1 => "IS_LEIMM", EqImm = 2 => "IS_EQIMM", NeImm = 3 => "IS_NEIMM",
        GeImm = 4 => "IS_GEIMM", GtImm = 5 => "IS_GTIMM", LtReg = 6 => "IS_LTREG", LeReg = 7 => "IS_LEREG",
        EqReg = 8 => "IS_EQREG", NeReg = 9 => "IS_NEREG", GeReg = 10 => "IS_GEREG", GtReg = 11 => "IS_GTREG",
        Unsupported = 12 => "Unsupported",
    }
}
impl BranchCompareOp {
    /// Whether a branch on `a` and `b` is taken; `None` when the comparison is `Unsupported`. Unsigned operands are 32 bits wide.
    pub fn compare(self, a: i64, b: i64, unsigned: bool) -> Option<bool> {
        let order = if unsigned { (a as u32).cmp(&(b as u32)) } else { a.cmp(&b) };
        Some(match self {
            BranchCompareOp::LtImm | BranchCompareOp::LtReg => order.is_lt(),
            BranchCompareOp::LeImm | BranchCompareOp::LeReg => order.is_le(),
            BranchCompareOp::EqImm | BranchCompareOp::EqReg => order.is_eq(),
            BranchCompareOp::NeImm | BranchCompareOp::NeReg => order.is_ne(),
            BranchCompareOp::GeImm | BranchCompareOp::GeReg => order.is_ge(),
            BranchCompareOp::GtImm | BranchCompareOp::GtReg => order.is_gt(),
            BranchCompareOp::Unsupported => return None,
        })
    }
}
bir_enum! {
    /// Static prediction of a branch.
    pub enum BranchOutcomeHint { LikelyTaken = 0 => "LikelyTaken", LikelyNotTaken = 1 => "LikelyNotTaken" }
}
bir_enum! {
    /// What a completion token stands for.
    pub enum TensorCompletionMode { Default = 0 => "Default", DebugTensorRead = 1 => "DebugTensorRead" }
}
bir_enum! {
    /// Stream a device print goes to.
    pub enum DebugDeviceBuffer { Stdout = 0 => "stdout", Stderr = 1 => "stderr" }
}
bir_enum! {
    /// How a group of semaphores is cleared.
    pub enum EventSemaphoreClearMode { SemaphoreZero = 0 => "SemaphoreZero", SemaphoreZeroBitmask = 1 => "SemaphoreZeroBitmask" }
}
bir_enum! {
    /// Generator of IT 60.
    pub enum RandomAlgorithmKind { Lfsr = 0 => "LFSR", Pcg32 = 1 => "PCG32", Philox1 = 2 => "PHILOX_1" }
}
bir_enum! {
    /// Distribution of IT 60.
    pub enum RandomDistributionKind { Raw = 0 => "Raw", Uniform = 1 => "Uniform", Normal = 2 => "Normal", Binomial = 3 => "Binomial" }
}
bir_enum! {
    /// Which part of the core an instruction synchronises with (IT 93 only).
    pub enum InstSyncType { Datapath = 0 => "datapath", Sequencer = 1 => "sequencer", Dma = 2 => "dma" }
}
bir_enum! {
    /// Activation functions (31).
    pub enum ActivationFunctionType {
        Identity = 0 => "Identity", Square = 1 => "Square", Relu = 2 => "Relu", Lrelu = 3 => "Lrelu", Prelu = 4 => "Prelu",
        Sigmoid = 5 => "Sigmoid", Tanh = 6 => "Tanh", Exp = 7 => "Exp", Softplus = 8 => "Softplus", Sqrt = 9 => "Sqrt",
        Rsqrt = 10 => "Rsqrt", Ln = 11 => "Ln", Erf = 12 => "Erf", Sin = 13 => "Sin", Arctan = 14 => "Arctan", Sign = 15 => "Sign",
        Gelu = 16 => "Gelu", Mish = 17 => "Mish", GeluApprxTanh = 18 => "Gelu_apprx_tanh",
        GeluApprxSigmoid = 19 => "Gelu_apprx_sigmoid", DerivativeGeluApprxSigmoid = 20 => "Derivative_Gelu_apprx_sigmoid",
        DerivativeGelu = 21 => "Derivative_Gelu", DerivativeErf = 22 => "Derivative_Erf", Copy = 23 => "Copy", Abs = 24 => "Abs",
        Reciprocal = 25 => "Reciprocal", AbsReciprocalSqrt = 26 => "Abs_reciprocal_sqrt", Silu = 27 => "Silu",
        DerivativeSilu = 28 => "Derivative_silu", IsFinite = 29 => "Is_finite", Unknown = 30 => "Unknown",
    }
}
bir_enum! {
    /// Kind of memory a location lies in.
    pub enum MemoryType {
        Unallocated = 1 => "Unallocated", Input = 2 => "Input", Output = 4 => "Output", Dram = 8 => "DRAM", Sb = 16 => "SB",
        Psum = 32 => "PSUM", RngState = 64 => "RNGSTATE", Reg = 128 => "REG",
    }
}
bir_enum! {
    /// Who sees a DRAM location.
    pub enum AddressSpace { Local = 0 => "Local", Shared = 1 => "Shared", Debug = 2 => "Debug" }
}
bir_enum! {
    /// Role of a tensor at the border of the kernel.
    pub enum TensorKind {
        ExternalInput = 0 => "ExternalInput", ExternalInputParameter = 1 => "ExternalInputParameter", Input = 2 => "Input",
        ExternalOutput = 3 => "ExternalOutput", ExternalOutputParameter = 4 => "ExternalOutputParameter", Output = 5 => "Output",
        Const = 6 => "Const", Internal = 7 => "Internal", Pointer = 8 => "Pointer", InternalInterface = 9 => "InternalInterface",
    }
}
impl TensorKind {
    /// An input of the kernel (kinds 0..2).
    pub fn is_input(self) -> bool {
        matches!(self, TensorKind::ExternalInput | TensorKind::ExternalInputParameter | TensorKind::Input)
    }
    /// An output of the kernel (kinds 3..5).
    pub fn is_output(self) -> bool {
        matches!(self, TensorKind::ExternalOutput | TensorKind::ExternalOutputParameter | TensorKind::Output)
    }
}
bir_enum! {
    /// Storage class name of a tensor. The ordinals are ours (no source gives them).
    pub enum TensorClass {
        Tensor = 0 => "Tensor", LoopTensor = 1 => "LoopTensor", SingleValueTensor = 2 => "SingleValueTensor",
        NeuronTensor = 3 => "NeuronTensor", NeuronWeightTensor = 4 => "NeuronWeightTensor",
        IdentityWeightTensor = 5 => "IdentityWeightTensor", NeuronBlockTensor = 6 => "NeuronBlockTensor",
        Dram2DBlockTensor = 7 => "DRAM2DBlockTensor", Neuron3DBlockTensor = 8 => "Neuron3DBlockTensor",
        Dram3DBlockTensor = 9 => "DRAM3DBlockTensor", NeuronLocalTensor = 10 => "NeuronLocalTensor",
        NeuronSbTensor = 11 => "NeuronSBTensor", NeuronPsumTensor = 12 => "NeuronPSUMTensor",
    }
}
bir_enum! {
    /// Who made an object.
    pub enum Origin { Internal = 0 => "Internal", Penguin = 1 => "Penguin", Nki = 2 => "NKI" }
}
bir_enum! {
    /// Kind of a dependency edge; adding an edge twice keeps the larger ordinal.
    pub enum EdgeKind { Invalid = 0 => "Invalid", Ordered = 1 => "Ordered", Anti = 2 => "Anti", Output = 3 => "Output", Flow = 4 => "Flow" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_compare_as_their_names_say() {
        use BranchCompareOp::*;
        let pairs =
            [(LtImm, LtReg), (LeImm, LeReg), (EqImm, EqReg), (NeImm, NeReg), (GeImm, GeReg), (GtImm, GtReg)];
        for (a, b, unsigned, want) in [
            (1, 2, false, [true, true, false, true, false, false]),
            (2, 2, false, [false, true, true, false, true, false]),
            (-1, 2, false, [true, true, false, true, false, false]),
            (-1, 2, true, [false, false, false, true, true, true]),
            (1 << 32, 1, false, [false, false, false, true, true, true]),
            (1 << 32, 1, true, [true, true, false, true, false, false]),
        ] {
            for ((imm, reg), want) in pairs.into_iter().zip(want) {
                assert_eq!(imm.compare(a, b, unsigned), Some(want), "{imm} {a} {b} {unsigned}");
                assert_eq!(reg.compare(a, b, unsigned), Some(want), "{reg} {a} {b} {unsigned}");
            }
        }
        assert_eq!(Unsupported.compare(1, 1, false), None);
    }
}
