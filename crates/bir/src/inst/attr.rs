//! Instruction attributes: their keys, value types, and storage.

use crate::ap::ApPair;
use crate::enums::{BirEnum, EnumTable};
use crate::expr::Expr;
use compact_str::CompactString;

macro_rules! attrs {
    ($( $name:ident $key:literal ),* $(,)?) => {
        /// Key of an instruction attribute. [`Attr::key`] is its JSON and text spelling.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Attr { $( #[doc = concat!("`", $key, "`")] $name ),* }
        impl Attr {
            /// Every key in declaration order.
            pub const ALL: &'static [Attr] = &[ $( Attr::$name ),* ];
            /// Spelling in JSON and text.
            pub const fn key(self) -> &'static str { match self { $( Attr::$name => $key ),* } }
            /// Key by spelling.
            pub fn from_key(key: &str) -> Option<Attr> { match key { $( $key => Some(Attr::$name), )* _ => None } }
        }
    };
}

attrs! {
    Acc "acc", AccumulationFlag "accumulation_flag", AccumulatorCmd "accumulator_cmd", ActFuncSetId "act_func_set_id",
    Alpha "alpha", ApplyTranspose "apply_transpose", Arguments "arguments", AsmBytes "asm_bytes",
    AssociateBranch "associate_branch", Axis "axis", Base "base", CanReadUninit "can_read_uninit", CcChannel "cc_channel",
    CcDim "cc_dim", CcTypeHint "cc_type_hint", CceOp "cce_op", ChannelId "channel_id",
    ChannelMultiplier "channel_multiplier", CompOp "comp_op", CompareOp "compare_op", CompareOp0 "compare_op0",
    CompareOp1 "compare_op1", CompressRatio "compress_ratio", ConcatDim "concat_dim", Cond "cond", Const0 "const0", Const1 "const1",
    Constant "constant", Constants "constants", Cores "cores", DgeTypeKey "dge_type", Distribution "distribution",
    DmaBlocks "dma_blocks", DmaQos "dma_qos", Duplicate "duplicate", EntryStepElements "entry_step_elements",
    FillValue "fill_value", Func "func", Hint "hint", Id "id", IfmapQuantOffset "ifmap_quant_offset", ImmValue "imm_value",
    IndirectDims "indirect_dims", InitialCorebarrier "initial_corebarrier", Instance "instance", Is64bit "is_64bit",
    IsActivate2 "is_activate2", IsFmapOnezero "is_fmap_onezero", IsKeepThreshold "is_keep_threshold", IsLocal "is_local",
    IsResetSema "is_reset_sema", IsScalarTensorTensor "is_scalar_tensor_tensor", IsTensorScalarAddr "is_tensor_scalar_addr",
    IsTensorTensorScan "is_tensor_tensor_scan", IsTranspose "is_transpose", IsWeightOnezero "is_weight_onezero",
    IterId "iter_id", Kind "kind", LatencyEstimate "latency_estimate", Mask "mask", Mode "mode", Negate "negate",
    NegateSecondOutput "negate_second_output", Negated "negated", NoRearm "no_rearm", NumActiveChannels "num_active_channels",
    NumIndices "num_indices", NumTilingDimensions "num_tiling_dimensions", NumValidIndices "num_valid_indices",
    OnFalse "on_false", OnTrue "on_true", OobIsErr "oob_is_err", Op "op", Op0 "op0", Op1 "op1", OutputBuffer "output_buffer",
    Params "params", Pattern "pattern", PerfMode "perf_mode", PermuteChain "permute_chain", PipeId "pipe_id", Prefix "prefix",
    PsumZeroRegion "psum_zero_region", Queue "queue", RandNumSteps "rand_num_steps", RandomAlgorithm "random_algorithm",
    RecvFromRank "recv_from_rank", ReduceCmd "reduce_cmd", ReduceOp "reduce_op", RemoteNotification "remote_notification",
    ReplicaGroups "replica_groups", ReplicationNumRows "replication_num_rows",
    ReplicationResolution "replication_resolution", ReplicationShiftAmnt "replication_shift_amnt", Reverse0 "reverse0",
    Reverse1 "reverse1", ReversePred "reverse_pred", RngEngine "rng_engine", RuntimeSemaphore "runtime_semaphore",
    RuntimeSemaphoreWaitValue "runtime_semaphore_wait_value", Scale "scale", SemaGroup "sema_group",
    SendToRank "send_to_rank", SrcTargetPairs "src_target_pairs", StreamId "stream_id", SyncType "sync_type",
    TableId "table_id", Target "target", TilePosition "tile_position", TileSize "tile_size", TotalElements "total_elements",
    TransposeOp "transpose_op", UseGpsimdDma "use_gpsimd_dma", WeightsQuantOffset "weights_quant_offset",
    WorldSize "world_size", LoopAxisKey "LoopAxis", DynamicForLoopAxis "DynamicForLoopAxis", IsParallel "isParallel",
    Unroll "unroll", IsBasicBlock "isBasicBlock",
}

/// Type of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttrType {
    /// Boolean.
    Bool,
    /// Integer.
    Int,
    /// 32-bit float.
    F32,
    /// Member of a closed set.
    Enum(&'static EnumTable),
    /// Text.
    Str,
    /// Name of a block of the same function.
    BlockName,
    /// List of integers.
    Ints,
    /// List of 32-bit floats.
    Floats,
    /// List of texts.
    Strs,
    /// List of lists of integers.
    Groups,
    /// List of `[step, num]` pairs.
    Pairs,
    /// Quasi-affine expression.
    Expr,
    /// List of quasi-affine expressions.
    Exprs,
    /// Anything, kept as read.
    Json,
}

/// Default of an attribute that a file may leave out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttrDefault {
    /// Absent means "none".
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    F32(f32),
    /// Ordinal of an enum member.
    Enum(u16),
    /// The empty list.
    Empty,
}

/// When an attribute is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A reader refuses an instruction without it; always written.
    Required,
    /// Always written, read with its default when absent.
    Always,
    /// Left out at its default.
    Optional,
}

/// Declaration of one attribute of one instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttrSpec {
    /// Key.
    pub attr: Attr,
    /// Type of the value.
    pub ty: AttrType,
    /// Value when absent.
    pub default: AttrDefault,
    /// When it is written.
    pub presence: Presence,
    /// The value may be an expression instead of a constant.
    pub affine: bool,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrValue {
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// 32-bit float.
    F32(F32),
    /// Ordinal in the set the declaration names.
    Enum(u16),
    /// Text, also block names.
    Str(CompactString),
    /// List of integers.
    Ints(Box<[i64]>),
    /// List of 32-bit floats.
    Floats(Box<[F32]>),
    /// List of texts.
    Strs(Box<[CompactString]>),
    /// List of lists of integers.
    Groups(Box<[Box<[i64]>]>),
    /// List of pairs.
    Pairs(Box<[ApPair]>),
    /// Expression; also the non-constant form of an affine scalar.
    Expr(Box<Expr>),
    /// List of expressions.
    Exprs(Box<[Expr]>),
    /// Anything, kept as read.
    Json(Box<serde_json::Value>),
}

/// A 32-bit float compared by its bits, so that equality is an equivalence and NaN payloads survive.
#[derive(Clone, Copy)]
pub struct F32(pub f32);

impl PartialEq for F32 {
    fn eq(&self, other: &F32) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for F32 {}
impl std::fmt::Debug for F32 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Attributes of one instruction, sorted by key. Values equal to the declared default are not stored, so that
/// equality does not depend on how a value came to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(Vec<(Attr, AttrValue)>);

impl Attrs {
    /// Stored value of a key (`None` also when it is at its default).
    pub fn get(&self, attr: Attr) -> Option<&AttrValue> {
        self.0.binary_search_by_key(&attr, |(a, _)| *a).ok().map(|i| &self.0[i].1)
    }
    pub(crate) fn shrink_to_fit(&mut self) {
        super::fit(&mut self.0);
    }
    /// Takes all values out; the room stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// Becomes a copy of another set, in the room that is there.
    pub fn copy_from(&mut self, other: &Attrs) {
        self.0.clone_from(&other.0);
    }
    /// Stores a value as given.
    pub(crate) fn put(&mut self, attr: Attr, value: AttrValue) {
        match self.0.binary_search_by_key(&attr, |(a, _)| *a) {
            Ok(i) => self.0[i].1 = value,
            Err(i) => self.0.insert(i, (attr, value)),
        }
    }
    /// Removes a value, so that the key is at its default.
    pub fn remove(&mut self, attr: Attr) -> Option<AttrValue> {
        self.0.binary_search_by_key(&attr, |(a, _)| *a).ok().map(|i| self.0.remove(i).1)
    }
    /// Stored values, changeable. A value must not become its declared default.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Attr, &mut AttrValue)> {
        self.0.iter_mut().map(|(a, v)| (*a, v))
    }
    /// Stored `(key, value)` pairs in key order.
    pub fn iter(&self) -> impl Iterator<Item = (Attr, &AttrValue)> {
        self.0.iter().map(|(a, v)| (*a, v))
    }
}

impl From<bool> for AttrValue {
    fn from(v: bool) -> Self {
        AttrValue::Bool(v)
    }
}
impl From<i64> for AttrValue {
    fn from(v: i64) -> Self {
        AttrValue::Int(v)
    }
}
impl From<f32> for AttrValue {
    fn from(v: f32) -> Self {
        AttrValue::F32(F32(v))
    }
}
impl From<&str> for AttrValue {
    fn from(v: &str) -> Self {
        AttrValue::Str(v.into())
    }
}
impl<E: BirEnum> From<E> for AttrValue {
    fn from(v: E) -> Self {
        AttrValue::Enum(v.ordinal())
    }
}
impl From<Vec<i64>> for AttrValue {
    fn from(v: Vec<i64>) -> Self {
        AttrValue::Ints(v.into())
    }
}
impl From<Vec<Vec<i64>>> for AttrValue {
    fn from(v: Vec<Vec<i64>>) -> Self {
        AttrValue::Groups(v.into_iter().map(Into::into).collect())
    }
}
impl From<Expr> for AttrValue {
    fn from(v: Expr) -> Self {
        AttrValue::Expr(Box::new(v))
    }
}
impl From<Vec<Expr>> for AttrValue {
    fn from(v: Vec<Expr>) -> Self {
        AttrValue::Exprs(v.into())
    }
}
