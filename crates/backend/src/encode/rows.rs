//! The rows: every record layout and every group, to be read side by side with the specification, file 07 §7.
//!
//! Layouts that the specification documents are `form`; layouts of our own on the documented anchors are `ours` and are
//! listed in `docs/rationale/`.

use super::desc::Walk;
use super::forms::{
    Field, Form, Group, Implied, Kind, OutParts, Slot, Special, channels_byte, free_bytes, spare_bits,
    tensor_rows, used_bytes,
};
use super::tables::*;
use Kind::*;
use Slot::{In, Out};
use tandem_bir::{Attr, Dtype, Opcode};

const fn fld(off: u8, width: u8, name: &'static str, kind: Kind) -> Field {
    Field { off, width, name, kind }
}
const fn konst(off: u8, width: u8, name: &'static str, v: u64) -> Field {
    fld(off, width, name, Const(v))
}
const fn tensor(off: u8, rank: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 4 + 4 * rank, name, Tensor(s, rank, Walk::Free))
}
/// A descriptor whose dimensions have meaning.
const fn kept(off: u8, rank: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 4 + 4 * rank, name, Tensor(s, rank, Walk::Kept))
}
const fn dtype(off: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 1, name, Kind::Dtype(s))
}
const fn low(off: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 1, name, DtypeLow(s))
}
const fn high(off: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 1, name, DtypeHigh(s))
}
const fn channels(off: u8, s: Slot) -> Field {
    fld(off, 1, "num_active_channels", Channels(s))
}
const fn alu(off: u8, name: &'static str, a: Attr) -> Field {
    fld(off, 1, name, Alu(a))
}
const fn member(off: u8, name: &'static str, a: Attr, t: &'static [CodeRow]) -> Field {
    fld(off, 1, name, Enum(a, t))
}
const fn int(off: u8, width: u8, name: &'static str, a: Attr) -> Field {
    fld(off, width, name, Int(a))
}
const fn float(off: u8, name: &'static str, a: Attr) -> Field {
    fld(off, 4, name, F32(a))
}
const fn flag(off: u8, bit: u8, name: &'static str, a: Attr) -> Field {
    fld(off, 1, name, Flag(a, bit))
}
const fn source(off: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 1, name, ImmSource(s))
}
const fn value(off: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 4, name, ImmValue(s))
}
const fn reg(off: u8, name: &'static str, s: Slot) -> Field {
    fld(off, 1, name, Register(s))
}
const fn special(off: u8, width: u8, name: &'static str, s: Special) -> Field {
    fld(off, width, name, Kind::Special(s))
}
/// Bytes that belong to another row of the form.
const fn part(off: u8, width: u8, name: &'static str) -> Field {
    fld(off, width, name, Kind::Part)
}
const fn form(byte: u8, fields: &'static [Field]) -> Form {
    Form {
        byte,
        authentic: true,
        out_parts: OutParts::Channels,
        imm: Dtype::Float32,
        fields,
        used: used_bytes(fields),
        free: free_bytes(used_bytes(fields)),
        spare_bits: spare_bits(fields),
        tensors: tensor_rows(fields),
        channels: channels_byte(fields),
    }
}
/// A layout of our own.
const fn ours(byte: u8, fields: &'static [Field]) -> Form {
    Form { authentic: false, ..form(byte, fields) }
}
const fn bitvec(f: Form) -> Form {
    Form { imm: Dtype::Int32, ..f }
}
const fn group(opcode: Opcode, outs: u8, forms: &'static [&'static Form]) -> Group {
    Group { opcode, forms, outs, implied: &[] }
}
const fn implying(
    opcode: Opcode,
    outs: u8,
    forms: &'static [&'static Form],
    implied: &'static [(Attr, Implied)],
) -> Group {
    Group { opcode, forms, outs, implied }
}

const I0: Slot = In(0);
const I1: Slot = In(1);
const I2: Slot = In(2);
const I3: Slot = In(3);
const I4: Slot = In(4);
const I5: Slot = In(5);
const O0: Slot = Out(0);
const O1: Slot = Out(1);

// ---- §7.1 swap ----
const SB2SB_FIELDS: &[Field] = &[
    dtype(0x0C, "in_dtype", I0),
    dtype(0x0D, "out_dtype", O0),
    tensor(0x10, 3, "src", I0),
    konst(0x20, 1, "lnc_size_fmt (cross-core enable)", 1),
    fld(0x21, 1, "num_active_channels (peer SBUF partition, by another reading)", Channels(I0)),
    tensor(0x30, 3, "dst (on the peer)", O0),
];
/// 0xBF.
pub static SB2SB: Form = form(0xBF, SB2SB_FIELDS);

// ---- §7.8 copies, fills, tensor-tensor ----
const COPY_FIELDS: &[Field] = &[
    tensor(0x0C, 4, "src", I0),
    dtype(0x20, "in_dtype", I0),
    dtype(0x21, "out_dtype", O0),
    channels(0x22, I0),
    tensor(0x2C, 4, "dst", O0),
];
/// 0x46.
pub static COPY: Form = form(0x46, COPY_FIELDS);
/// 0x47.
pub static CAST: Form = form(0x47, COPY_FIELDS);
/// 0x48.
pub static RECIPROCAL: Form = form(0x48, COPY_FIELDS);
const MEMSET_FIELDS: &[Field] = &[
    fld(0x1C, 4, "elements per partition", Elems(O0)),
    dtype(0x20, "dtype", O0),
    channels(0x22, O0),
    int(0x28, 4, "fill", Attr::Constant),
    tensor(0x2C, 4, "dst", O0),
];
/// 0x49.
pub static MEMSET: Form = form(0x49, MEMSET_FIELDS);
/// 0x4D.
pub static RANDOM: Form = form(0x4D, MEMSET_FIELDS);
const TT_FIELDS: &[Field] = &[
    low(0x0C, "in0_dtype", I0),
    high(0x0C, "in1_dtype", I1),
    dtype(0x0D, "out_dtype", O0),
    alu(0x0E, "op", Attr::Op),
    channels(0x0F, I0),
    tensor(0x10, 3, "src0", I0),
    tensor(0x20, 3, "src1", I1),
    tensor(0x30, 3, "dst", O0),
];
/// 0x41.
pub static TT_ARITH: Form = form(0x41, TT_FIELDS);
/// 0x51.
pub static TT_BITVEC: Form = form(0x51, TT_FIELDS);
const PREDICATED_FIELDS: &[Field] = &[
    low(0x0C, "predicate dtype", I1),
    high(0x0C, "data dtype", I0),
    dtype(0x0D, "out_dtype", O0),
    konst(0x0E, 1, "op", 0),
    channels(0x0F, I1),
    tensor(0x10, 3, "predicate", I1),
    tensor(0x20, 3, "data", I0),
    tensor(0x30, 3, "dst", O0),
];
/// 0x72.
pub static COPY_PREDICATED: Form = form(0x72, PREDICATED_FIELDS);
/// 0x99.
pub static CAST_PREDICATED: Form = form(0x99, PREDICATED_FIELDS);
/// 0xE8.
pub static COPY_PREDICATED_SCALAR: Form = form(
    0xE8,
    &[
        tensor(0x10, 3, "predicate", I1),
        dtype(0x20, "predicate dtype", I1),
        flag(0x21, 0, "reversed", Attr::ReversePred),
        channels(0x22, I1),
        dtype(0x29, "scalar dtype", I0),
        dtype(0x2A, "out_dtype", O0),
        source(0x2B, "scalar source", I0),
        value(0x2C, "scalar", I0),
        tensor(0x30, 3, "dst", O0),
    ],
);
/// 0xEA.
pub static SELECT_REDUCE: Form = form(
    0xEA,
    &[
        tensor(0x0C, 2, "predicate", I0),
        tensor(0x18, 2, "on-true", I1),
        konst(0x24, 1, "op0", 0),
        alu(0x25, "reduce op", Attr::ReduceOp),
        flag(0x26, 0, "reverse", Attr::ReversePred),
        source(0x27, "on-false source", I2),
        low(0x28, "predicate dtype", I0),
        high(0x28, "on-true dtype", I1),
        dtype(0x29, "out_dtype", O0),
        channels(0x2A, I0),
        dtype(0x2B, "on-false dtype", I2),
        member(0x2C, "accumulator_cmd", Attr::AccumulatorCmd, ACCUM),
        tensor(0x30, 2, "dst", O0),
        value(0x3C, "on-false", I2),
    ],
);

/// 0xF0 before 0xEA: the other side as a tile.
pub static ON_FALSE_TILE: Form = ours(
    0xF0,
    &[tensor(0x0C, 4, "on-false", I2), dtype(0x20, "on-false dtype", I2), konst(0x23, 1, "sub-opcode", 2)],
);
/// 0xEA whose other side is the tile of the record before.
pub static SELECT_TILES: Form = ours(
    0xEA,
    &[
        tensor(0x0C, 2, "predicate", I0),
        tensor(0x18, 2, "on-true", I1),
        konst(0x24, 1, "op0", 0),
        alu(0x25, "reduce op", Attr::ReduceOp),
        flag(0x26, 0, "reverse", Attr::ReversePred),
        konst(0x27, 1, "on-false source: the record before", 1),
        low(0x28, "predicate dtype", I0),
        high(0x28, "on-true dtype", I1),
        dtype(0x29, "out_dtype", O0),
        channels(0x2A, I0),
        member(0x2C, "accumulator_cmd", Attr::AccumulatorCmd, ACCUM),
        tensor(0x30, 2, "dst", O0),
    ],
);
/// 0xF0: max(x, 0) of a front end.
pub static RELU: Form = ours(
    0xF0,
    &[
        tensor(0x0C, 4, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        konst(0x23, 1, "sub-opcode", 1),
        tensor(0x2C, 4, "dst", O0),
    ],
);

// ---- §7.9 tensor-scalar ----
const TS_FIELDS: &[Field] = &[
    member(0x0C, "accumulator_cmd", Attr::Acc, ACCUM),
    tensor(0x10, 3, "src", I0),
    dtype(0x20, "in_dtype", I0),
    dtype(0x21, "out_dtype", O0),
    channels(0x22, I0),
    source(0x23, "imm0_src", I1),
    alu(0x24, "op0", Attr::Op0),
    alu(0x25, "op1", Attr::Op1),
    flag(0x26, 0, "reverse", Attr::Reverse0),
    flag(0x26, 1, "reverse", Attr::Reverse1),
    source(0x27, "imm1_src", I2),
    value(0x28, "imm0", I1),
    value(0x2C, "imm1", I2),
    tensor(0x30, 3, "dst", O0),
];
/// 0x43.
pub static TS_ARITH: Form = form(0x43, TS_FIELDS);
/// 0x53.
pub static TS_BITVEC: Form = bitvec(form(0x53, TS_FIELDS));
/// 0x93.
pub static TS_TRANSPOSED: Form = form(0x93, TS_FIELDS);
/// 0x9A.
pub static TS_CACHE_REDUCE: Form = form(0x9A, TS_FIELDS);
/// 0xE6.
pub static TS_CUMULATIVE: Form = form(0xE6, TS_FIELDS);
/// 0x30.
pub static EXPONENTIAL: Form = form(
    0x30,
    &[
        member(0x0C, "accumulator_cmd", Attr::ReduceCmd, ACCUM),
        tensor(0x10, 3, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        source(0x23, "imm0_src", I1),
        konst(0x24, 2, "op0, op1", 0),
        source(0x27, "imm1_src", I2),
        value(0x28, "max", I1),
        value(0x2C, "reduce init", I2),
        tensor(0x30, 3, "dst", O0),
    ],
);
const STT_FIELDS: &[Field] = &[
    tensor(0x0C, 2, "src0", I0),
    tensor(0x18, 2, "src1", I2),
    alu(0x24, "op0", Attr::Op0),
    alu(0x25, "op1", Attr::Op1),
    flag(0x26, 0, "reverse", Attr::Reverse0),
    flag(0x26, 1, "reverse", Attr::Reverse1),
    source(0x27, "imm0 source", I1),
    low(0x28, "src0 dtype", I0),
    high(0x28, "src1 dtype", I2),
    dtype(0x29, "out_dtype", O0),
    channels(0x2A, I0),
    dtype(0x2B, "imm0 dtype", I1),
    member(0x2C, "accumulator_cmd", Attr::Acc, ACCUM),
    tensor(0x30, 2, "dst", O0),
    value(0x3C, "imm0", I1),
];
/// 0x9D.
pub static STT_ARITH: Form = form(0x9D, STT_FIELDS);
/// 0x9E.
pub static STT_BITVEC: Form = bitvec(form(0x9E, STT_FIELDS));
/// 0xE5.
pub static STT_SCAN: Form = form(0xE5, STT_FIELDS);

/// 0x74.
pub static TS_ADDRESS: Form = ours(
    0x74,
    &[
        tensor(0x0C, 2, "src", I0),
        value(0x18, "scalar 0", I1),
        value(0x1C, "scalar 1", I2),
        low(0x28, "scalar 0 dtype", I1),
        high(0x28, "scalar 1 dtype", I2),
        low(0x29, "in_dtype", I0),
        high(0x29, "out_dtype", O0),
        source(0x2A, "scalar 0 source", I1),
        source(0x2B, "scalar 1 source", I2),
        alu(0x2C, "op0", Attr::Op0),
        alu(0x2D, "op1", Attr::Op1),
        channels(0x2E, I0),
        flag(0x2F, 0, "reverse", Attr::Reverse0),
        flag(0x2F, 1, "reverse", Attr::Reverse1),
        tensor(0x30, 2, "dst", O0),
    ],
);

const fn read_accumulator(out: Slot) -> [Field; 5] {
    [
        fld(0x1C, 4, "elements per partition", Elems(out)),
        dtype(0x20, "dtype", out),
        konst(0x21, 1, "fixed", 0),
        channels(0x22, out),
        tensor(0x2C, 1, "dst", out),
    ]
}
const DVE_READ_0: &[Field] = &{
    let [a, b, _, d, e] = read_accumulator(O0);
    [a, b, d, e, flag(0x23, 0, "negated", Attr::Negated)]
};
const DVE_READ_1: &[Field] = &{
    let [a, b, c, d, e] = read_accumulator(O1);
    [a, b, c, d, e]
};
const DVE_READ_1_NEG: &[Field] = &{
    let [a, b, _, d, e] = read_accumulator(O1);
    [a, b, d, e, flag(0x23, 0, "negated", Attr::NegateSecondOutput)]
};
/// 0x9B of its own.
pub static DVE_READ: Form = ours(0x9B, DVE_READ_0);
/// 0x9B after a record with a second output.
pub static DVE_READ_SECOND: Form = ours(0x9B, DVE_READ_1);
/// 0x9B after a tensor-scalar with a second output.
pub static DVE_READ_SECOND_NEG: Form = ours(0x9B, DVE_READ_1_NEG);

// ---- §7.10 reduce, pool, iota ----
const REDUCE_FIELDS: &[Field] = &[
    kept(0x0C, 4, "src", I0),
    dtype(0x20, "in_dtype", I0),
    dtype(0x21, "out_dtype", O0),
    channels(0x22, I0),
    flag(0x23, 0, "negate", Attr::Negate),
    alu(0x24, "op", Attr::Op),
    member(0x25, "op_dim", Attr::Axis, AXIS),
    tensor(0x2C, 4, "dst", O0),
];
/// 0x42.
pub static REDUCE_ARITH: Form = form(0x42, REDUCE_FIELDS);
/// 0x52.
pub static REDUCE_BITVEC: Form = form(0x52, REDUCE_FIELDS);
/// 0x83.
pub static REDUCE_T_ARITH: Form = form(0x83, REDUCE_FIELDS);
/// 0x84.
pub static REDUCE_T_BITVEC: Form = form(0x84, REDUCE_FIELDS);
const CROSS_FIELDS: &[Field] = &[
    kept(0x0C, 4, "src", I0),
    dtype(0x20, "in_dtype", I0),
    dtype(0x21, "out_dtype", O0),
    channels(0x22, I0),
    member(0x23, "reduce cmd", Attr::Op, CROSS_LANE),
    member(0x24, "axis flag", Attr::Axis, AXIS_CROSS),
    special(0x28, 4, "1/N", Special::CrossScale),
    tensor(0x2C, 4, "dst", O0),
];
/// 0x7C.
pub static CROSS_ARITH: Form = Form { out_parts: OutParts::One, ..form(0x7C, CROSS_FIELDS) };
/// 0x7D.
pub static CROSS_BITVEC: Form = Form { out_parts: OutParts::One, ..form(0x7D, CROSS_FIELDS) };
/// 0x45.
pub static POOL_FORM: Form = form(
    0x45,
    &[
        kept(0x0C, 4, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        member(0x24, "func", Attr::Func, POOL),
        konst(0x25, 1, "op_dim", 3),
        special(0x28, 4, "scale", Special::PoolScale),
        tensor(0x2C, 4, "dst", O0),
    ],
);
/// 0x7E.
pub static IOTA: Form = form(
    0x7E,
    &[
        int(0x0C, 4, "base", Attr::Base),
        special(0x10, 16, "pattern", Special::IotaPattern),
        konst(0x20, 1, "fixed", 0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, O0),
        int(0x24, 4, "channel_multiplier", Attr::ChannelMultiplier),
        tensor(0x2C, 4, "dst", O0),
    ],
);
/// 0x92.
pub static AFFINE_SELECT: Form = ours(
    0x92,
    &[
        tensor(0x0C, 2, "src", I0),
        int(0x18, 4, "channel_multiplier", Attr::ChannelMultiplier),
        int(0x1C, 4, "base", Attr::Base),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        alu(0x23, "compare op", Attr::CompareOp),
        float(0x24, "fill", Attr::FillValue),
        special(0x28, 8, "pattern", Special::SelectPattern),
        tensor(0x30, 2, "dst", O0),
        part(0x3C, 4, "pattern, third pair"),
    ],
);
/// 0xBC.
pub static RANGE_SELECT: Form = ours(
    0xBC,
    &[
        tensor(0x0C, 2, "src", I0),
        float(0x18, "fill", Attr::FillValue),
        float(0x1C, "base", Attr::Base),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        member(0x23, "reduce_cmd", Attr::ReduceCmd, ACCUM),
        alu(0x24, "compare op 0", Attr::CompareOp0),
        alu(0x25, "compare op 1", Attr::CompareOp1),
        alu(0x26, "reduce op", Attr::ReduceOp),
        int(0x27, 1, "active channels", Attr::NumActiveChannels),
        fld(0x28, 4, "bound 0", Pointer(I1)),
        fld(0x2C, 4, "bound 1", Pointer(I2)),
        tensor(0x30, 2, "dst", O0),
        low(0x3C, "bound 0 dtype", I1),
        high(0x3C, "bound 1 dtype", I2),
    ],
);

// ---- §7.11 transposes and shuffles, search, gather, statistics ----
/// 0x6B.
pub static STREAM_TRANSPOSE: Form = form(
    0x6B,
    &[
        tensor(0x0C, 4, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        fld(0x22, 1, "num_active_channels", Channels32(I0)),
        konst(0x26, 1, "mask_enable", 1),
        tensor(0x2C, 4, "dst", O0),
    ],
);
/// 0x69.
pub static LANE_MAP: Form = form(0x69, &[special(0x20, 32, "lane map", Special::LaneMap)]);
/// 0x6A.
pub static STREAM_SHUFFLE: Form = form(0x6A, COPY_FIELDS);
/// 0x6D.
pub static MATCH_VALUES: Form =
    ours(0x6D, &[tensor(0x0C, 4, "values", I1), dtype(0x20, "dtype", I1), channels(0x22, I1)]);
/// 0x6E as the second record of MaxIndex.
pub static FIND_INDEX: Form = ours(0x6E, COPY_FIELDS);
/// 0x6E with the indexes of the fused replace.
pub static FIND_INDEX_SECOND: Form = ours(
    0x6E,
    &[
        tensor(0x0C, 4, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O1),
        channels(0x22, I0),
        tensor(0x2C, 4, "index", O1),
    ],
);
/// 0x6F.
pub static MATCH_REPLACE: Form = ours(
    0x6F,
    &[
        tensor(0x0C, 4, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        float(0x28, "replacement", Attr::ImmValue),
        tensor(0x2C, 4, "dst", O0),
    ],
);
/// 0x6C.
pub static MAX8: Form = ours(0x6C, COPY_FIELDS);
/// 0x67.
pub static POOL_BUFFER: Form =
    ours(0x67, &[tensor(0x0C, 4, "data", I0), dtype(0x20, "dtype", I0), channels(0x22, I0)]);
/// 0x68.
pub static GATHER: Form = ours(
    0x68,
    &[
        tensor(0x0C, 4, "indices", I1),
        dtype(0x20, "index dtype", I1),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I1),
        tensor(0x2C, 4, "dst", O0),
    ],
);
/// 0xE7.
pub static INDIRECT_COPY: Form = ours(
    0xE7,
    &[
        special(0x0C, 4, "index address", Special::IndexAddress),
        special(0x10, 4, "data address", Special::GatherSource),
        int(0x14, 2, "indices", Attr::NumValidIndices),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        special(0x23, 1, "elements per index", Special::PerIndex),
        fld(0x26, 2, "buffer size", Elems(I0)),
        dtype(0x28, "index dtype", I1),
        tensor(0x2C, 4, "dst", O0),
    ],
);
const BN_FIELDS: &[Field] = &[
    kept(0x0C, 4, "src", I0),
    dtype(0x20, "in_dtype", I0),
    dtype(0x21, "out_dtype", O0),
    channels(0x22, I0),
    tensor(0x30, 2, "dst", O0),
];
/// 0x61.
pub static BN_STATS: Form = form(0x61, BN_FIELDS);
/// 0x82.
pub static BN_STATS_T: Form = form(0x82, BN_FIELDS);
/// 0x62.
pub static BN_AGGREGATE: Form = form(0x62, BN_FIELDS);
/// 0x64 before 0x63: mean and factor of each partition.
pub static BN_PARAM_GRAD: Form = ours(
    0x64,
    &[
        source(0x0C, "mean source", I2),
        source(0x0D, "factor source", I3),
        dtype(0x10, "mean dtype", I2),
        dtype(0x11, "factor dtype", I3),
        value(0x18, "mean", I2),
        value(0x1C, "factor", I3),
    ],
);
/// 0x64 before 0x65: mean of each partition, coefficients in one tile.
pub static BN_PARAM_BACK: Form = ours(
    0x64,
    &[
        source(0x0C, "mean source", I2),
        dtype(0x10, "mean dtype", I2),
        dtype(0x11, "coefficient dtype", I3),
        value(0x18, "mean", I2),
        int(0x24, 4, "total elements", Attr::TotalElements),
        tensor(0x2C, 4, "scale, A, B", I3),
    ],
);
/// 0x8E before 0x65: mean, scale, A and B of each partition.
pub static BN_PARAM_BACK2: Form = ours(
    0x8E,
    &[
        source(0x0C, "mean source", I2),
        source(0x0D, "scale source", I3),
        source(0x0E, "A source", I4),
        source(0x0F, "B source", I5),
        dtype(0x10, "mean dtype", I2),
        dtype(0x11, "scale dtype", I3),
        dtype(0x12, "A dtype", I4),
        dtype(0x13, "B dtype", I5),
        value(0x18, "mean", I2),
        value(0x1C, "scale", I3),
        int(0x24, 4, "total elements", Attr::TotalElements),
        value(0x28, "A", I4),
        value(0x2C, "B", I5),
    ],
);
const BN_GRAD_FIELDS: &[Field] = &[
    low(0x0C, "x dtype", I0),
    high(0x0C, "dy dtype", I1),
    dtype(0x0D, "out_dtype", O0),
    channels(0x0F, I0),
    tensor(0x10, 3, "x", I0),
    tensor(0x20, 3, "dy", I1),
    tensor(0x30, 3, "dst", O0),
];
/// 0x63.
pub static BN_GRAD: Form = ours(0x63, BN_GRAD_FIELDS);
/// 0x65.
pub static BN_BACK: Form = ours(0x65, BN_GRAD_FIELDS);
/// 0xBE.
pub static SEQUENCE_BOUNDS: Form = form(
    0xBE,
    &[
        konst(0x0C, 1, "input flag", 0),
        dtype(0x0E, "in_dtype", I0),
        dtype(0x0F, "out_dtype", O0),
        tensor(0x10, 3, "src", I0),
        tensor(0x20, 3, "dst", O0),
    ],
);
/// 0xF2 with integer immediates.
pub static NONZERO_INT: Form = bitvec(ours(0xF2, NONZERO_FIELDS));
const NONZERO_FIELDS: &[Field] = &[
    tensor(0x10, 3, "src", I0),
    dtype(0x20, "in_dtype", I0),
    dtype(0x21, "out_dtype", O0),
    channels(0x22, I0),
    value(0x28, "index offset", I1),
    value(0x2C, "padding", I2),
    tensor(0x30, 3, "dst", O0),
];
/// 0x7F.
pub static DROPOUT: Form = ours(
    0x7F,
    &[
        tensor(0x10, 3, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        source(0x23, "threshold source", I1),
        flag(0x26, 0, "keep", Attr::IsKeepThreshold),
        value(0x28, "threshold", I1),
        tensor(0x30, 3, "dst", O0),
    ],
);
/// 0xE2.
pub static RAND2: Form = ours(
    0xE2,
    &[
        source(0x18, "min source", I0),
        source(0x19, "max source", I1),
        value(0x1C, "min", I0),
        dtype(0x20, "dtype", O0),
        channels(0x22, O0),
        value(0x28, "max", I1),
        tensor(0x2C, 4, "dst", O0),
    ],
);
/// 0x76.
pub static RAND: Form = ours(
    0x76,
    &[
        member(0x18, "generator", Attr::RandomAlgorithm, RAND_ALGORITHM),
        member(0x19, "distribution", Attr::Distribution, RAND_DISTRIBUTION),
        int(0x1C, 4, "steps", Attr::RandNumSteps),
        dtype(0x20, "dtype", O0),
        channels(0x22, O0),
        tensor(0x2C, 4, "dst", O0),
    ],
);
const STATE_IN: &[Field] = &[tensor(0x0C, 4, "src", I0), dtype(0x20, "dtype", I0), channels(0x22, I0)];
/// 0x78.
pub static RAND_SET: Form = ours(0x78, STATE_IN);
/// 0x77.
pub static RAND_GET: Form =
    ours(0x77, &[dtype(0x20, "dtype", O0), channels(0x22, O0), tensor(0x2C, 4, "dst", O0)]);

// ---- §7.12 activation ----
/// 0x21.
pub static ACTIVATE: Form = form(
    0x21,
    &[
        part(0x0C, 1, "imm1 source"),
        part(0x0D, 1, "imm0 source"),
        member(0x0E, "accumulator_cmd", Attr::Acc, ACCUM_ACT),
        fld(0x0F, 1, "bias source", BiasSource(I1)),
        tensor(0x10, 3, "src", I0),
        low(0x20, "in_dtype", I0),
        high(0x20, "bias dtype", I1),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        member(0x23, "function", Attr::Func, ACTIVATION),
        special(0x24, 4, "imm0 (scale)", Special::ActScale),
        value(0x28, "bias", I1),
        special(0x2C, 4, "imm1 (alpha)", Special::ActAlpha),
        tensor(0x30, 3, "dst", O0),
    ],
);
/// 0x25.
pub static ACTIVATE2: Form = ours(
    0x25,
    &[
        tensor(0x0C, 2, "src", I0),
        source(0x18, "arg3 source", In(3)),
        source(0x19, "arg1 source", I1),
        member(0x1A, "accumulator_cmd", Attr::Acc, ACCUM_ACT),
        source(0x1B, "arg2 source", I2),
        alu(0x1D, "op0", Attr::Op0),
        alu(0x1E, "op1", Attr::Op1),
        alu(0x1F, "reduce op", Attr::ReduceOp),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        member(0x23, "function", Attr::Func, ACTIVATION),
        value(0x24, "arg1", I1),
        value(0x28, "arg2", I2),
        value(0x2C, "arg3", In(3)),
        tensor(0x30, 2, "dst", O0),
        flag(0x3C, 0, "reverse", Attr::Reverse0),
        flag(0x3C, 1, "reverse", Attr::Reverse1),
    ],
);
const ACT_READ_0: &[Field] = &read_accumulator(O0);
const ACT_READ_1: &[Field] = &read_accumulator(O1);
/// 0x24 of its own.
pub static ACT_READ: Form = form(0x24, ACT_READ_0);
/// 0x24 after an Activation with a second output.
pub static ACT_READ_SECOND: Form = form(0x24, ACT_READ_1);
/// 0x23.
pub static ACT_TABLE: Form = form(0x23, &[int(0x23, 1, "set", Attr::ActFuncSetId)]);

// ---- §7.13 PE ----
/// 0x01.
pub static LD_WEIGHTS: Form = form(
    0x01,
    &[
        special(0x0C, 1, "transpose", Special::PeTranspose),
        tensor(0x10, 3, "weights", I1),
        special(0x20, 2, "dtype", Special::PeDtype(I1)),
        fld(0x26, 1, "active rows", Channels(I1)),
        fld(0x27, 1, "active columns", Elems(I1)),
        special(0x2C, 2, "row and column group", Special::PeGroups),
        special(0x2E, 1, "NC-v2 mark", Special::PeMark),
    ],
);
/// 0x02.
pub static MATMUL: Form = Form {
    out_parts: OutParts::Columns,
    ..form(
        0x02,
        &[
            tensor(0x10, 3, "moving", I0),
            special(0x20, 2, "dtype", Special::PeDtype(I0)),
            dtype(0x23, "dst dtype", O0),
            fld(0x26, 1, "active rows", Channels(I0)),
            fld(0x27, 1, "moving elements per partition", Elems(I0)),
            special(0x2B, 1, "flags", Special::MatmulFlags),
            special(0x2C, 2, "row and column group", Special::PeGroups),
            special(0x2E, 1, "NC-v2 mark", Special::PeMark),
            int(0x2F, 1, "psum zero region", Attr::PsumZeroRegion),
            tensor(0x30, 3, "dst", O0),
        ],
    )
};

/// 0x09.
pub static LD_WEIGHTS_MX: Form = form(
    0x09,
    &[
        special(0x10, 16, "weights and scales", Special::MxPattern(I1, I3)),
        dtype(0x20, "dtype", I1),
        fld(0x26, 1, "K rows", Channels(I1)),
        fld(0x27, 1, "active", Elems(I1)),
        special(0x2C, 2, "row and column group", Special::MxGroups),
    ],
);
/// 0x0A.
pub static MATMUL_MX: Form = Form {
    out_parts: OutParts::Columns,
    ..form(
        0x0A,
        &[
            special(0x10, 16, "moving and scales", Special::MxPattern(I0, I2)),
            dtype(0x20, "dtype", I0),
            fld(0x26, 1, "K rows", Channels(I0)),
            fld(0x27, 1, "active", Elems(I0)),
            dtype(0x28, "dst dtype", O0),
            special(0x2B, 1, "flags", Special::MatmulFlags),
            special(0x2C, 2, "row and column group", Special::MxGroups),
            int(0x2F, 1, "psum zero region", Attr::PsumZeroRegion),
            tensor(0x30, 3, "dst", O0),
        ],
    )
};
/// 0xE3.
pub static QUANTIZE_MX: Form = ours(
    0xE3,
    &[
        tensor(0x10, 3, "src", I0),
        dtype(0x20, "in_dtype", I0),
        dtype(0x21, "out_dtype", O0),
        channels(0x22, I0),
        dtype(0x23, "scale dtype", O1),
        tensor(0x24, 2, "scales", O1),
        tensor(0x30, 3, "dst", O0),
    ],
);

// ---- §7.4 to §7.6, §7.14, §7.15 sync, registers, control ----
/// 0xD8.
pub static CORE_BARRIER: Form =
    form(0xD8, &[int(0x0C, 4, "id", Attr::Id), int(0x10, 4, "semaphore", Attr::RuntimeSemaphore)]);
/// 0xDE.
pub static COMPLETION_FORM: Form = form(
    0xDE,
    &[special(0x0C, 4, "var_id", Special::TokenVar), member(0x10, "mode", Attr::Mode, COMPLETION)],
);
/// 0xDC.
pub static RANK_ID: Form = form(0xDC, &[konst(0x0C, 1, "valid", 1), reg(0x17, "dst register", O0)]);
/// 0xDB.
pub static CUR_RANK: Form = form(
    0xDB,
    &[
        konst(0x0C, 1, "group_id", 0),
        int(0x0E, 1, "channel_id", Attr::ChannelId),
        int(0x10, 1, "iteration_id", Attr::IterId),
        reg(0x12, "dst register", O0),
        int(0x14, 2, "stream_id", Attr::StreamId),
    ],
);
/// 0xA0.
pub static EVENT_SEMAPHORE: Form = form(0xA0, &[part(0x20, 12, "extended events")]);
/// 0xA1.
pub static HALT: Form = form(0xA1, &[]);
/// 0xA2.
pub static DRAIN: Form = form(0xA2, &[konst(0x28, 1, "count", 1)]);
/// 0xA4.
pub static NOP: Form = form(0xA4, &[]);
/// 0xB0.
pub static GROUP_RESET: Form = form(
    0xB0,
    &[
        member(0x0C, "mode", Attr::Mode, CLEAR_MODE),
        special(0x0D, 2, "first and last", Special::SemaphoreGroup),
        part(0x20, 32, "mask"),
    ],
);
/// 0xD5.
pub static ENGINE_BARRIER: Form = form(0xD5, &[]);
/// 0xDF.
pub static EXIT: Form = form(0xDF, &[konst(0x0C, 1, "sub-opcode EXIT", 1)]);
/// 0xD2.
pub static RETURN: Form = form(0xD2, &[]);
/// 0xCF.
pub static SWITCH_QUEUE: Form = form(
    0xCF,
    &[
        special(0x0C, 32, "queue", Special::QueueName),
        fld(0x3B, 1, "instance flag", Flag(Attr::NoRearm, 0)),
        konst(0x3C, 4, "fixed", 1),
    ],
);
/// 0xC2.
pub static RESET_QUEUE: Form = form(0xC2, &[special(0x0C, 32, "queue", Special::QueueName)]);
/// 0xA7.
pub static REG_MOVE: Form = form(
    0xA7,
    &[
        part(0x0C, 1, "count"),
        dtype(0x0D, "dtype", O0),
        special(0x0E, 1, "source", Special::MoveSource),
        part(0x10, 1, "src register"),
        part(0x19, 1, "dst, high half"),
        part(0x20, 8, "immediate"),
        reg(0x18, "dst", O0),
    ],
);
/// 0xA8.
pub static REG_ALU: Form = form(
    0xA8,
    &[
        alu(0x0C, "op", Attr::Op),
        dtype(0x0D, "dtype", I0),
        dtype(0x0F, "dst dtype", O0),
        reg(0x10, "src0", I0),
        special(0x0E, 1, "mode", Special::AluRight),
        part(0x12, 1, "src1"),
        part(0x18, 4, "immediate"),
        reg(0x14, "dst", O0),
    ],
);
const LOAD_FIELDS: &[Field] = &[
    dtype(0x0C, "dtype", I0),
    konst(0x0E, 1, "num[0]", 1),
    konst(0x0F, 1, "num[1]", 1),
    special(0x10, 8, "var_id and offset", Special::ScalarAddress(I0)),
    reg(0x20, "register", O0),
];
/// 0xCE.
pub static TENSOR_LOAD: Form = form(0xCE, LOAD_FIELDS);
const SAVE_FIELDS: &[Field] = &[
    dtype(0x0C, "dtype", O0),
    konst(0x0E, 1, "num[0]", 1),
    konst(0x0F, 1, "num[1]", 1),
    special(0x10, 8, "var_id and offset", Special::ScalarAddress(O0)),
    reg(0x20, "register", I0),
];
/// 0xCD.
pub static TENSOR_SAVE: Form = form(0xCD, SAVE_FIELDS);
/// 0xAA.
pub static TENSOR_LOAD_REG: Form = ours(
    0xAA,
    &[
        dtype(0x0C, "dtype", I0),
        konst(0x0E, 1, "num[0]", 1),
        konst(0x0F, 1, "num[1]", 1),
        special(0x10, 8, "address register and variable", Special::ScalarRegister(I0)),
        reg(0x20, "register", O0),
    ],
);
/// 0xAB.
pub static TENSOR_SAVE_REG: Form = ours(
    0xAB,
    &[
        dtype(0x0C, "dtype", O0),
        konst(0x0E, 1, "num[0]", 1),
        konst(0x0F, 1, "num[1]", 1),
        special(0x10, 8, "address register and variable", Special::ScalarRegister(O0)),
        reg(0x20, "register", I0),
    ],
);
/// 0xA9 with a comparison.
pub static BRANCH_IF: Form = form(
    0xA9,
    &[
        member(0x0C, "compare", Attr::CompOp, BRANCH),
        dtype(0x0D, "dtype", I0),
        konst(0x0E, 1, "target mode", 3),
        reg(0x20, "left", I0),
        special(0x10, 4, "right", Special::BranchRight),
        part(0x21, 1, "right register"),
        special(0x30, 8, "target", Special::Target),
    ],
);
/// 0xA9 without one.
pub static BRANCH_ALWAYS: Form = form(
    0xA9,
    &[
        konst(0x0C, 1, "compare", 0),
        konst(0x0E, 1, "target mode", 3),
        special(0x30, 8, "target", Special::Target),
    ],
);
// ---- groups ----
macro_rules! groups {
    ($( $(#[$m:meta])* $name:ident = $e:expr; )*) => {
        $( $(#[$m])* pub static $name: Group = $e; )*
        /// Every group of row forms, longer ones first where one is the start of another.
        pub static GROUPS: &[&Group] = &[ $( &$name ),* ];
    };
}
use Implied::{Bool, Ordinal};

groups! {
    /// Swap.
    G_SB2SB = group(Opcode::GpsimdSb2Sb, 1, &[&SB2SB]);
    /// Copy of one dtype.
    G_COPY = group(Opcode::TensorCopy, 1, &[&COPY]);
    /// Copy with conversion.
    G_CAST = group(Opcode::TensorCopy, 1, &[&CAST]);
    /// Reciprocal.
    G_RECIPROCAL = group(Opcode::Reciprocal, 1, &[&RECIPROCAL]);
    /// Fill with a constant.
    G_MEMSET = implying(Opcode::Memset, 1, &[&MEMSET], &[(Attr::Mode, Ordinal(0))]);
    /// Fill with random bits.
    G_RANDOM = implying(Opcode::Memset, 1, &[&RANDOM], &[(Attr::Mode, Ordinal(1))]);
    /// Two tensors.
    G_TT = group(Opcode::TensorTensor, 1, &[&TT_ARITH]);
    /// Two tensors, bits.
    G_TT_BITS = group(Opcode::TensorTensor, 1, &[&TT_BITVEC]);
    /// Predicated copy.
    G_PRED = group(Opcode::CopyPredicated, 1, &[&COPY_PREDICATED]);
    /// Predicated copy with conversion.
    G_PRED_CAST = group(Opcode::CopyPredicated, 1, &[&CAST_PREDICATED]);
    /// Predicated scalar.
    G_PRED_SCALAR = group(Opcode::CopyPredicated, 1, &[&COPY_PREDICATED_SCALAR]);
    /// Select and reduce, with the result of the reduction.
    G_SELECT_2 = group(Opcode::CopyPredicated, 2, &[&SELECT_REDUCE, &DVE_READ_SECOND]);
    /// Select and reduce.
    G_SELECT = group(Opcode::CopyPredicated, 1, &[&SELECT_REDUCE]);
    /// Select and reduce between two tiles, with the result of the reduction.
    G_SELECT_TILES_2 = group(Opcode::CopyPredicated, 2, &[&ON_FALSE_TILE, &SELECT_TILES, &DVE_READ_SECOND]);
    /// Select between two tiles.
    G_SELECT_TILES = group(Opcode::CopyPredicated, 1, &[&ON_FALSE_TILE, &SELECT_TILES]);
    /// max(x, 0).
    G_RELU = group(Opcode::GenericRelu, 1, &[&RELU]);
    /// Tensor and scalars of types of their own.
    G_TS_ADDRESS = group(Opcode::TensorScalarPtr, 1, &[&TS_ADDRESS]);
    /// Tensor and scalars.
    G_TS = group(Opcode::TensorScalarPtr, 1, &[&TS_ARITH]);
    /// Tensor and scalars, bits.
    G_TS_BITS = group(Opcode::TensorScalarPtr, 1, &[&TS_BITVEC]);
    /// Tensor and scalars, transposed.
    G_TS_T = implying(Opcode::TensorScalarPtr, 1, &[&TS_TRANSPOSED], &[(Attr::ApplyTranspose, Bool(true))]);
    /// Tensor and scalars with a reduction.
    G_TS_2 = group(Opcode::TensorScalarPtr, 2, &[&TS_CACHE_REDUCE, &DVE_READ_SECOND_NEG]);
    /// Running value, reduce form.
    G_CACHE = implying(Opcode::TensorScalarCache, 1, &[&TS_CACHE_REDUCE], &[(Attr::Mode, Ordinal(0))]);
    /// Running value, cumulative form.
    G_CUMULATIVE = implying(Opcode::TensorScalarCache, 1, &[&TS_CUMULATIVE], &[(Attr::Mode, Ordinal(1))]);
    /// Scalar, tensor, tensor.
    G_STT = implying(Opcode::TensorScalarPtr, 1, &[&STT_ARITH], &[(Attr::IsScalarTensorTensor, Bool(true))]);
    /// Scalar, tensor, tensor, bits.
    G_STT_BITS = implying(Opcode::TensorScalarPtr, 1, &[&STT_BITVEC], &[(Attr::IsScalarTensorTensor, Bool(true))]);
    /// Scan.
    G_SCAN = implying(Opcode::TensorScalarPtr, 1, &[&STT_SCAN],
        &[(Attr::IsScalarTensorTensor, Bool(true)), (Attr::IsTensorTensorScan, Bool(true))]);
    /// Exponential.
    G_EXP = group(Opcode::Exponential, 1, &[&EXPONENTIAL]);
    /// Accumulators of the Vector engine.
    G_DVE_READ = group(Opcode::DveReadAccumulator, 1, &[&DVE_READ]);
    /// Free-axis reduction.
    G_REDUCE = group(Opcode::TensorReduce, 1, &[&REDUCE_ARITH]);
    /// Free-axis reduction, bits.
    G_REDUCE_BITS = group(Opcode::TensorReduce, 1, &[&REDUCE_BITVEC]);
    /// Transposed free-axis reduction.
    G_REDUCE_T = implying(Opcode::TensorReduce, 1, &[&REDUCE_T_ARITH], &[(Attr::ApplyTranspose, Bool(true))]);
    /// Transposed free-axis reduction, bits.
    G_REDUCE_T_BITS = implying(Opcode::TensorReduce, 1, &[&REDUCE_T_BITVEC], &[(Attr::ApplyTranspose, Bool(true))]);
    /// Reduction over the partitions.
    G_CROSS = group(Opcode::TensorReduce, 1, &[&CROSS_ARITH]);
    /// Reduction over the partitions, bits.
    G_CROSS_BITS = group(Opcode::TensorReduce, 1, &[&CROSS_BITVEC]);
    /// Pooling.
    G_POOL = group(Opcode::Pool, 1, &[&POOL_FORM]);
    /// Iota.
    G_IOTA = group(Opcode::Iota, 1, &[&IOTA]);
    /// Affine select.
    G_AFFINE = group(Opcode::TensorScalarAffineSelect, 1, &[&AFFINE_SELECT]);
    /// Range select with the result of the reduction.
    G_RANGE_2 = group(Opcode::RangeSelect, 2, &[&RANGE_SELECT, &DVE_READ_SECOND]);
    /// Range select.
    G_RANGE = group(Opcode::RangeSelect, 1, &[&RANGE_SELECT]);
    /// Tile transposition.
    G_TRANSPOSE = group(Opcode::StreamTranspose, 1, &[&STREAM_TRANSPOSE]);
    /// Shuffle: lane map, then the move.
    G_SHUFFLE = group(Opcode::StreamShuffle, 1, &[&LANE_MAP, &STREAM_SHUFFLE]);
    /// Replace with indexes.
    G_REPLACE_INDEX = group(Opcode::MaxIndexAndMatchReplace, 2, &[&MATCH_VALUES, &FIND_INDEX_SECOND, &MATCH_REPLACE]);
    /// Replace.
    G_REPLACE = group(Opcode::MatchReplace, 1, &[&MATCH_VALUES, &MATCH_REPLACE]);
    /// Indexes of values.
    G_MAX_INDEX = group(Opcode::MaxIndex, 1, &[&MATCH_VALUES, &FIND_INDEX]);
    /// Eight largest.
    G_MAX8 = group(Opcode::Max, 1, &[&MAX8]);
    /// Gather from a buffer.
    G_GATHER = group(Opcode::Gather, 1, &[&POOL_BUFFER, &GATHER]);
    /// Gather inside groups of partitions.
    G_INDIRECT = group(Opcode::IndirectCopy, 1, &[&INDIRECT_COPY]);
    /// Statistics.
    G_BN = group(Opcode::BnStats, 1, &[&BN_STATS]);
    /// Statistics, transposed.
    G_BN_T = implying(Opcode::BnStats, 1, &[&BN_STATS_T], &[(Attr::ApplyTranspose, Bool(true))]);
    /// Merged statistics.
    G_BN_AGGREGATE = group(Opcode::BnStatsAggregate, 1, &[&BN_AGGREGATE]);
    /// Gradient sums.
    G_BN_GRAD = group(Opcode::BnGradients, 1, &[&BN_PARAM_GRAD, &BN_GRAD]);
    /// Input gradient, coefficients in one tile.
    G_BN_BACK = group(Opcode::BnBackprop, 1, &[&BN_PARAM_BACK, &BN_BACK]);
    /// Input gradient, coefficients apart.
    G_BN_BACK2 = group(Opcode::BnBackprop2, 1, &[&BN_PARAM_BACK2, &BN_BACK]);
    /// Sequence bounds.
    G_BOUNDS = group(Opcode::GetSequenceBounds, 1, &[&SEQUENCE_BOUNDS]);
    /// Nonzero elements.
    G_NONZERO = group(Opcode::NonzeroWithCount, 1, &[&NONZERO_INT]);
    /// Dropout.
    G_DROPOUT = group(Opcode::Dropout, 1, &[&DROPOUT]);
    /// Random numbers of a range.
    G_RAND2 = group(Opcode::Rand2, 1, &[&RAND2]);
    /// Random numbers of a generator.
    G_RAND = group(Opcode::Rand, 1, &[&RAND]);
    /// Random state in.
    G_RAND_SET = group(Opcode::RandSetState, 0, &[&RAND_SET]);
    /// Random state out.
    G_RAND_GET = group(Opcode::RandGetState, 1, &[&RAND_GET]);
    /// Activation with the accumulated result.
    G_ACT_2 = group(Opcode::Activation, 2, &[&ACTIVATE, &ACT_READ_SECOND]);
    /// Activation.
    G_ACT = group(Opcode::Activation, 1, &[&ACTIVATE]);
    /// Two-operation activation with the accumulated result.
    G_ACT2_2 = implying(Opcode::Activation, 2, &[&ACTIVATE2, &ACT_READ_SECOND], &[(Attr::IsActivate2, Bool(true))]);
    /// Two-operation activation.
    G_ACT2 = implying(Opcode::Activation, 1, &[&ACTIVATE2], &[(Attr::IsActivate2, Bool(true))]);
    /// Accumulators of the Scalar engine.
    G_ACT_READ = group(Opcode::ActivationReadAccumulator, 1, &[&ACT_READ]);
    /// Activation table.
    G_ACT_TABLE = group(Opcode::LoadActFuncSet, 0, &[&ACT_TABLE]);
    /// Matrix product: weights, then the moving data.
    G_MATMUL = group(Opcode::Matmult, 1, &[&LD_WEIGHTS, &MATMUL]);
    /// Matrix product of block-scaled operands.
    G_MATMUL_MX = group(Opcode::MatmultMx, 1, &[&LD_WEIGHTS_MX, &MATMUL_MX]);
    /// Block-scaled quantisation.
    G_QUANTIZE_MX = group(Opcode::QuantizeMx, 2, &[&QUANTIZE_MX]);
    /// Instance of a queue.
    G_SWITCH_QUEUE = group(Opcode::SwitchQueueInstance, 0, &[&SWITCH_QUEUE]);
    /// Rewind of a queue.
    G_RESET_QUEUE = group(Opcode::ResetQueueInstance, 0, &[&RESET_QUEUE]);
    /// Core barrier.
    G_CORE_BARRIER = group(Opcode::CoreBarrier, 0, &[&CORE_BARRIER]);
    /// Completion token.
    G_COMPLETION = group(Opcode::TensorCompletion, 0, &[&COMPLETION_FORM]);
    /// Rank.
    G_RANK = group(Opcode::GetGlobalRankId, 1, &[&RANK_ID]);
    /// Rank of an iteration.
    G_CUR_RANK = group(Opcode::GetCurProcessingRankId, 1, &[&CUR_RANK]);
    /// Event semaphore.
    G_EVENT = group(Opcode::EventSemaphore, 0, &[&EVENT_SEMAPHORE]);
    /// Halt.
    G_HALT = group(Opcode::Halt, 0, &[&HALT]);
    /// Drain.
    G_DRAIN = group(Opcode::Drain, 0, &[&DRAIN]);
    /// Nothing.
    G_NOP = group(Opcode::NoOp, 0, &[&NOP]);
    /// Clear semaphores.
    G_RESET = group(Opcode::GroupResetSemaphores, 0, &[&GROUP_RESET]);
    /// Join of the engines.
    G_ENGINE_BARRIER = group(Opcode::AllEngineBarrier, 0, &[&ENGINE_BARRIER]);
    /// End.
    G_EXIT = group(Opcode::Exit, 0, &[&EXIT]);
    /// Return.
    G_RETURN = group(Opcode::Return, 0, &[&RETURN]);
    /// Register move.
    G_MOVE = group(Opcode::RegisterMove, 1, &[&REG_MOVE]);
    /// Register operation.
    G_ALU = group(Opcode::RegisterAlu, 1, &[&REG_ALU]);
    /// Register load.
    G_LOAD = group(Opcode::TensorLoad, 1, &[&TENSOR_LOAD]);
    /// Register store.
    G_SAVE = group(Opcode::TensorSave, 1, &[&TENSOR_SAVE]);
    /// Register load from an address in a register.
    G_LOAD_REG = group(Opcode::TensorLoad, 1, &[&TENSOR_LOAD_REG]);
    /// Register store to an address in a register.
    G_SAVE_REG = group(Opcode::TensorSave, 1, &[&TENSOR_SAVE_REG]);
    /// Jump.
    G_JUMP = group(Opcode::UnconditionalBranch, 0, &[&BRANCH_ALWAYS]);
    /// Branch on a comparison.
    G_BRANCH = group(Opcode::CompareAndBranch, 0, &[&BRANCH_IF]);
}
