//! What the bytes of a record mean: fields, forms (one record), groups (the records of one instruction).
//!
//! A [`Form`] is a list of [`Field`] rows; encoder, decoder, disassembler and the check of reserved bytes are loops over
//! them. Bytes that no row of a form names must be zero. The rows are in [`super::rows`].

use super::desc::Walk;
use super::tables::CodeRow;
use tandem_bir::{Attr, Dtype, Opcode};

/// An operand position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Input.
    In(u8),
    /// Output.
    Out(u8),
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A fixed number.
    Const(u64),
    /// Descriptor of `rank` free dimensions.
    Tensor(Slot, u8, Walk),
    /// Address word alone; the operand is one element per partition.
    Pointer(Slot),
    /// Wire dtype.
    Dtype(Slot),
    /// Wire dtype in the low four bits.
    DtypeLow(Slot),
    /// Wire dtype in the high four bits.
    DtypeHigh(Slot),
    /// Partitions of an operand; the count of every operand of the record that says nothing else.
    Channels(Slot),
    /// Partitions rounded up to 32.
    Channels32(Slot),
    /// Elements per partition, derived; cut to the field's width.
    Elems(Slot),
    /// ALU operation.
    Alu(Attr),
    /// Member of a closed set through a code table.
    Enum(Attr, &'static [CodeRow]),
    /// Signed integer.
    Int(Attr),
    /// Bits of a 32-bit float.
    F32(Attr),
    /// One bit.
    Flag(Attr, u8),
    /// A scalar operand's source: 0 immediate, 1 pointer, 2 register (IMM_SRC).
    ImmSource(Slot),
    /// The same with the Activation bias's codes: 0 pointer, 1 immediate, 2 register.
    BiasSource(Slot),
    /// A scalar operand's value: immediate bits, address word, or register number.
    ImmValue(Slot),
    /// Register number.
    Register(Slot),
    /// Bytes of another row of the form.
    Part,
    /// Something with code of its own.
    Special(Special),
}

/// Fields with code of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// f32 1/N of an average pool over the two innermost dimensions, else 1.
    PoolScale,
    /// f32 1/N of a cross-lane average, else 0.
    CrossScale,
    /// Activation scale: pointer or immediate at two places.
    ActScale,
    /// Activation alpha at +0x2C with its source at +0x0C.
    ActAlpha,
    /// Base, steps and counts of an Iota pattern at +0x10.
    IotaPattern,
    /// Three pairs of an affine select's pattern.
    SelectPattern,
    /// 32-byte lane map.
    LaneMap,
    /// Branch displacement in records.
    Target,
    /// Second operand of a branch: immediate or register.
    BranchRight,
    /// Second operand of a register operation.
    AluRight,
    /// Source of a register move.
    MoveSource,
    /// Semaphore list.
    SemaphoreGroup,
    /// Variable number of a completion token.
    TokenVar,
    /// Scalar in memory of a register load or store.
    ScalarAddress(Slot),
    /// The same with the address in a register: bytes from the start of a variable, or an address word.
    ScalarRegister(Slot),
    /// Matmul accumulation flags.
    MatmulFlags,
    /// PE row and column groups.
    PeGroups,
    /// Transposition mark of the stationary load.
    PeTranspose,
    /// dtype word of a PE record (fp32r sets a second byte).
    PeDtype(Slot),
    /// Index address of an indirect copy, with the indirect marker.
    IndexAddress,
    /// Contiguous source of an indirect copy.
    GatherSource,
    /// Elements per index.
    PerIndex,
    /// Byte +0x2E of PE records, 0x10 on NC-v2.
    PeMark,
    /// One-dimensional pattern of block-scaled data (first slot) with its scales (second slot).
    MxPattern(Slot, Slot),
    /// Row group of a block-scaled PE record; the column group is always whole.
    MxGroups,
    /// Name of a queue, at most 31 bytes.
    QueueName,
}

/// A named piece of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// First byte.
    pub off: u8,
    /// Bytes.
    pub width: u8,
    /// Name, for the disassembler.
    pub name: &'static str,
    /// Meaning.
    pub kind: Kind,
}

/// Partitions of outputs that no field gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutParts {
    /// Those of the record's channels field.
    Channels,
    /// One.
    One,
    /// The stationary operand's elements per partition.
    Columns,
}

/// Layout of one record.
#[derive(Debug)]
pub struct Form {
    /// Opcode byte.
    pub byte: u8,
    /// The layout is documented; false when it is our choice on the documented anchors.
    pub authentic: bool,
    /// Partitions of outputs.
    pub out_parts: OutParts,
    /// dtype of immediates that the record does not name.
    pub imm: Dtype,
    /// Fields in byte order of their purpose.
    pub fields: &'static [Field],
    /// Bytes that header, events and fields use, one bit each.
    pub used: u64,
    /// The other bytes, which must be zero: a mask per eight bytes.
    pub free: [u64; 8],
    /// Bytes of flags with the bits that no row names, as `(offset, bits)`; unused rows are `(0, 0)`.
    pub spare_bits: [(u8, u8); 8],
    /// The descriptors, as the machine's rules look at them; unused rows have rank 0.
    pub tensors: [TensorRow; 4],
    /// Offset of the byte of active partitions, 0 when there is none.
    pub channels: u8,
}

/// A descriptor of a form.
#[derive(Clone, Copy, Debug)]
pub struct TensorRow {
    /// First byte.
    pub off: u8,
    /// Free dimensions.
    pub rank: u8,
    /// The operand is written.
    pub write: bool,
    /// Byte of its wire dtype, 0 when the record names none.
    pub dtype: u8,
    /// Which bits: 0 the byte, 1 the low half, 2 the high half.
    pub half: u8,
    /// The byte of active partitions is this operand's own.
    pub own: bool,
}

const fn slot_number(s: Slot) -> u8 {
    match s {
        Slot::In(i) => i,
        Slot::Out(i) => 16 + i,
    }
}

/// Descriptors of a list of fields.
pub const fn tensor_rows(fields: &[Field]) -> [TensorRow; 4] {
    let mut out = [TensorRow { off: 0, rank: 0, write: false, dtype: 0, half: 0, own: false }; 4];
    let (mut n, mut i) = (0, 0);
    while i < fields.len() {
        if let Kind::Tensor(s, rank, _) = fields[i].kind {
            out[n].off = fields[i].off;
            out[n].rank = rank;
            out[n].write = matches!(s, Slot::Out(_));
            let mut k = 0;
            while k < fields.len() {
                let (of, half) = match fields[k].kind {
                    Kind::Dtype(x) => (slot_number(x), 0),
                    Kind::DtypeLow(x) => (slot_number(x), 1),
                    Kind::DtypeHigh(x) => (slot_number(x), 2),
                    Kind::Channels(x) if slot_number(x) == slot_number(s) => {
                        out[n].own = true;
                        (255, 0)
                    }
                    _ => (255, 0),
                };
                if of == slot_number(s) && out[n].dtype == 0 {
                    out[n].dtype = fields[k].off;
                    out[n].half = half;
                }
                k += 1;
            }
            n += 1;
        }
        i += 1;
    }
    out
}

/// Offset of the byte of active partitions.
pub const fn channels_byte(fields: &[Field]) -> u8 {
    let mut i = 0;
    while i < fields.len() {
        if matches!(fields[i].kind, Kind::Channels(_) | Kind::Channels32(_)) {
            return fields[i].off;
        }
        i += 1;
    }
    0
}

/// Bytes that header, events and a list of fields use.
pub const fn used_bytes(fields: &[Field]) -> u64 {
    let mut used: u64 = 0xFFF;
    let mut i = 0;
    while i < fields.len() {
        let n = fields[i].width as u32;
        used |= if n >= 64 { u64::MAX } else { ((1u64 << n) - 1) << fields[i].off };
        i += 1;
    }
    used
}

/// Masks of the bytes that are not used.
pub const fn free_bytes(used: u64) -> [u64; 8] {
    let mut out = [0u64; 8];
    let mut i = 0;
    while i < 64 {
        if used >> i & 1 == 0 {
            out[i / 8] |= 0xFF << (8 * (i % 8));
        }
        i += 1;
    }
    out
}

/// Bytes that hold flags and nothing else, with the bits that are none.
pub const fn spare_bits(fields: &[Field]) -> [(u8, u8); 8] {
    let mut out = [(0u8, 0u8); 8];
    let (mut n, mut i) = (0, 0);
    while i < fields.len() {
        if let Kind::Flag(..) = fields[i].kind {
            let (mut allowed, mut first, mut k) = (0u8, true, 0);
            while k < fields.len() {
                if fields[k].off == fields[i].off {
                    allowed |= if let Kind::Flag(_, bit) = fields[k].kind { 1 << bit } else { 0xFF };
                    first &= k >= i;
                }
                k += 1;
            }
            if first && allowed != 0xFF {
                out[n] = (fields[i].off, !allowed);
                n += 1;
            }
        }
        i += 1;
    }
    out
}

/// The records of one instruction.
#[derive(Debug)]
pub struct Group {
    /// Type of the instruction.
    pub opcode: Opcode,
    /// Records in stream order.
    pub forms: &'static [&'static Form],
    /// Outputs of the instruction.
    pub outs: u8,
    /// Attribute that the choice of the group stands for, with its value.
    pub implied: &'static [(Attr, Implied)],
}

/// Value of an attribute that an opcode implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implied {
    /// Boolean.
    Bool(bool),
    /// Ordinal of an enum.
    Ordinal(u16),
}
