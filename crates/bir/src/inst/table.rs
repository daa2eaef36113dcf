//! ***The*** instruction table: one row per InstructionType.
//!
//! Printer, parser, JSON reader and writer, arity and type checks and `docs/isa.md` are loops over it. To add an
//! instruction, add a row; the compiler then names every match that must learn it. Source: the specification, file 03
//! §§3, 9 and file 04 §7. Types whose operands no source gives take operands and attributes as read
//! ([`OpSpec::open`]).

use super::attr::{Attr, AttrDefault, AttrSpec, AttrType, AttrValue, F32, Presence};
use crate::enums::*;

/// Family of an instruction type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; each is a heading of docs/isa.md")]
pub enum Family {
    Generic,
    Activation,
    Matmul,
    Fill,
    Rank,
    Control,
    Sync,
    Dma,
    Pool,
    Elementwise,
    Copy,
    Gather,
    Reduce,
    TensorScalar,
    OnChipMove,
    BatchNorm,
    DataMove,
    Collective,
    Select,
    Kernel,
    Debug,
    Rng,
    Misc,
    DmaDescriptor,
    Register,
    Terminator,
    Queue,
    Search,
    Mx,
    Structured,
    Macro,
}

/// Kinds an operand may have, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandKinds(u8);
impl OperandKinds {
    /// Memory.
    pub const AP: OperandKinds = OperandKinds(1);
    /// Immediate.
    pub const IMM: OperandKinds = OperandKinds(2);
    /// Register.
    pub const REG: OperandKinds = OperandKinds(4);
    /// Memory or immediate.
    pub const AP_IMM: OperandKinds = OperandKinds(3);
    /// Immediate or register.
    pub const IMM_REG: OperandKinds = OperandKinds(6);
    /// Anything.
    pub const ANY: OperandKinds = OperandKinds(7);
    /// True when every kind of `other` is in the set.
    pub const fn contains(self, other: OperandKinds) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How many operands a position stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    One,
    /// None or one (only at the end of a list).
    Optional,
    /// Any number, at least one (only at the end).
    Many,
    /// Any number, also none (only at the end).
    Any,
}

/// Declaration of an operand position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandSpec {
    /// Role, for messages and the reference page.
    pub role: &'static str,
    /// Kinds allowed.
    pub kinds: OperandKinds,
    /// How many.
    pub arity: Arity,
}

/// What an instruction does beyond reading its inputs and writing its outputs, as a set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects(u16);
impl Effects {
    /// Nothing else.
    pub const NONE: Effects = Effects(0);
    /// May wait for another core.
    pub const BLOCKS: Effects = Effects(1);
    /// Touches another core's memory.
    pub const PEER: Effects = Effects(2);
    /// Ends a block.
    pub const TERMINATOR: Effects = Effects(4);
    /// Orders other instructions (semaphores, barriers, tokens).
    pub const SYNC: Effects = Effects(8);
    /// Runs on a DMA queue.
    pub const DMA: Effects = Effects(16);
    /// May read its destination (accumulates, or leaves parts of it).
    pub const READS_OUT: Effects = Effects(32);
    /// Reads or writes hidden engine state (accumulators, random state, tables).
    pub const STATE: Effects = Effects(64);
    /// An abstract base that no program contains.
    pub const ABSTRACT: Effects = Effects(128);
    /// A collective over cores or ranks.
    pub const COLLECTIVE: Effects = Effects(256);
    /// Has nested blocks.
    pub const REGIONS: Effects = Effects(512);
    /// Does something outside the machine (prints).
    pub const EXTERNAL: Effects = Effects(1024);
    /// True when every flag of `other` is set.
    pub const fn has(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets together.
    pub const fn or(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }
}

/// One row.
#[derive(Debug, PartialEq)]
pub struct OpSpec {
    /// The type.
    pub opcode: Opcode,
    /// Family.
    pub family: Family,
    /// Engine filled in when none is given.
    pub engine: EngineKind,
    /// Engines the verifier accepts; empty when the sources name none.
    pub legal_engines: &'static [EngineKind],
    /// Input positions.
    pub ins: &'static [OperandSpec],
    /// Output positions.
    pub outs: &'static [OperandSpec],
    /// Attributes.
    pub attrs: &'static [AttrSpec],
    /// Other effects.
    pub effects: Effects,
    /// One line of documentation.
    pub doc: &'static str,
}

impl OpSpec {
    /// Declaration of an attribute.
    pub fn attr(&self, attr: Attr) -> Option<&'static AttrSpec> {
        self.attrs.iter().find(|s| s.attr == attr)
    }
    /// No source gives its operands: they are taken as read.
    pub fn open(&self) -> bool {
        self.ins == ANY && self.outs == ANY
    }
    /// Smallest and largest number of inputs (`None`: unbounded).
    pub fn ins_range(&self) -> (usize, Option<usize>) {
        arity_range(self.ins)
    }
    /// Smallest and largest number of outputs.
    pub fn outs_range(&self) -> (usize, Option<usize>) {
        arity_range(self.outs)
    }
    /// Declaration that covers operand `i` of a list.
    pub fn operand(list: &'static [OperandSpec], i: usize) -> Option<&'static OperandSpec> {
        list.get(i).or_else(|| list.last().filter(|o| matches!(o.arity, Arity::Many | Arity::Any)))
    }
}

fn arity_range(list: &[OperandSpec]) -> (usize, Option<usize>) {
    let (mut lo, mut hi) = (0, Some(0usize));
    for o in list {
        match o.arity {
            Arity::One => {
                lo += 1;
                hi = hi.map(|h| h + 1);
            }
            Arity::Optional => hi = hi.map(|h| h + 1),
            Arity::Many => {
                lo += 1;
                hi = None;
            }
            Arity::Any => hi = None,
        }
    }
    (lo, hi)
}

impl AttrSpec {
    /// True when a value is the declared default and need not be stored.
    pub fn is_default(&self, v: &AttrValue) -> bool {
        match (self.default, v) {
            (AttrDefault::Bool(d), AttrValue::Bool(b)) => d == *b,
            (AttrDefault::Int(d), AttrValue::Int(i)) => d == *i,
            (AttrDefault::F32(d), AttrValue::F32(f)) => d.to_bits() == f.0.to_bits(),
            (AttrDefault::Enum(d), AttrValue::Enum(o)) => d == *o,
            (AttrDefault::Empty, AttrValue::Ints(v)) => v.is_empty(),
            (AttrDefault::Empty, AttrValue::Floats(v)) => v.is_empty(),
            (AttrDefault::Empty, AttrValue::Strs(v)) => v.is_empty(),
            (AttrDefault::Empty, AttrValue::Groups(v)) => v.is_empty(),
            (AttrDefault::Empty, AttrValue::Pairs(v)) => v.is_empty(),
            (AttrDefault::Empty, AttrValue::Exprs(v)) => v.is_empty(),
            _ => false,
        }
    }
    /// The default as a value; `None` for "none".
    pub fn default_value(&self) -> Option<AttrValue> {
        Some(match self.default {
            AttrDefault::None => return None,
            AttrDefault::Bool(b) => AttrValue::Bool(b),
            AttrDefault::Int(i) => AttrValue::Int(i),
            AttrDefault::F32(f) => AttrValue::F32(F32(f)),
            AttrDefault::Enum(o) => AttrValue::Enum(o),
            AttrDefault::Empty => match self.ty {
                AttrType::Floats => AttrValue::Floats(Box::new([])),
                AttrType::Strs => AttrValue::Strs(Box::new([])),
                AttrType::Groups => AttrValue::Groups(Box::new([])),
                AttrType::Pairs => AttrValue::Pairs(Box::new([])),
                AttrType::Exprs => AttrValue::Exprs(Box::new([])),
                _ => AttrValue::Ints(Box::new([])),
            },
        })
    }
}

// ---- short spellings for the rows ----
const fn one(role: &'static str) -> OperandSpec {
    OperandSpec { role, kinds: OperandKinds::AP, arity: Arity::One }
}
const fn of(role: &'static str, kinds: OperandKinds) -> OperandSpec {
    OperandSpec { role, kinds, arity: Arity::One }
}
const fn opt(role: &'static str, kinds: OperandKinds) -> OperandSpec {
    OperandSpec { role, kinds, arity: Arity::Optional }
}
const fn many(role: &'static str, kinds: OperandKinds) -> OperandSpec {
    OperandSpec { role, kinds, arity: Arity::Many }
}
const fn any(role: &'static str, kinds: OperandKinds) -> OperandSpec {
    OperandSpec { role, kinds, arity: Arity::Any }
}
const ANY: &[OperandSpec] = &[OperandSpec { role: "operand", kinds: OperandKinds::ANY, arity: Arity::Any }];
const AP: OperandKinds = OperandKinds::AP;
const IMM: OperandKinds = OperandKinds::IMM;
const REG: OperandKinds = OperandKinds::REG;
const AP_IMM: OperandKinds = OperandKinds::AP_IMM;
const IMM_REG: OperandKinds = OperandKinds::IMM_REG;

const fn attr(attr: Attr, ty: AttrType, default: AttrDefault, presence: Presence) -> AttrSpec {
    AttrSpec { attr, ty, default, presence, affine: false }
}
/// Required attribute without a default.
const fn req(a: Attr, ty: AttrType) -> AttrSpec {
    attr(a, ty, AttrDefault::None, Presence::Required)
}
/// Optional attribute whose absence means "none".
const fn maybe(a: Attr, ty: AttrType) -> AttrSpec {
    attr(a, ty, AttrDefault::None, Presence::Optional)
}
const fn flag(a: Attr) -> AttrSpec {
    attr(a, AttrType::Bool, AttrDefault::Bool(false), Presence::Optional)
}
/// Optional boolean that may be an expression.
const fn aflag(a: Attr, d: bool) -> AttrSpec {
    AttrSpec {
        attr: a,
        ty: AttrType::Bool,
        default: AttrDefault::Bool(d),
        presence: Presence::Optional,
        affine: true,
    }
}
const fn int(a: Attr, d: i64) -> AttrSpec {
    attr(a, AttrType::Int, AttrDefault::Int(d), Presence::Optional)
}
/// Optional integer that may be an expression.
const fn aint(a: Attr, d: i64) -> AttrSpec {
    AttrSpec {
        attr: a,
        ty: AttrType::Int,
        default: AttrDefault::Int(d),
        presence: Presence::Optional,
        affine: true,
    }
}
const fn enu(a: Attr, t: &'static EnumTable, d: u16) -> AttrSpec {
    attr(a, AttrType::Enum(t), AttrDefault::Enum(d), Presence::Optional)
}
const fn list(a: Attr, ty: AttrType) -> AttrSpec {
    attr(a, ty, AttrDefault::Empty, Presence::Optional)
}
const fn always(s: AttrSpec) -> AttrSpec {
    AttrSpec { presence: Presence::Always, ..s }
}
const ALU: &EnumTable = AluOp::TABLE;
const ACC: &EnumTable = EngineAccumulationType::TABLE;
const QOS: &EnumTable = DmaQosClass::TABLE;
const fn alu(a: Attr) -> AttrSpec {
    req(a, AttrType::Enum(ALU))
}
const QUEUE: AttrSpec = maybe(Attr::Queue, AttrType::Str);
const DGE: AttrSpec = enu(Attr::DgeTypeKey, DgeType::TABLE, 3);
const DUPLICATE: AttrSpec = aflag(Attr::Duplicate, false);
const READ_UNINIT: AttrSpec = aflag(Attr::CanReadUninit, false);
const MATMUL: &[AttrSpec] = &[
    always(int(Attr::AccumulationFlag, AUTO_ACCUMULATION)),
    always(int(Attr::PsumZeroRegion, 0)),
    always(int(Attr::ReplicationResolution, 0)),
    always(int(Attr::ReplicationShiftAmnt, 0)),
    always(int(Attr::ReplicationNumRows, 0)),
    always(flag(Attr::IsTranspose)),
    always(flag(Attr::IsFmapOnezero)),
    always(flag(Attr::IsWeightOnezero)),
    always(maybe(Attr::TileSize, AttrType::Ints)),
    always(maybe(Attr::TilePosition, AttrType::Ints)),
    always(enu(Attr::PerfMode, MatmultPerfMode::TABLE, 0)),
    always(int(Attr::IfmapQuantOffset, 0)),
    always(int(Attr::WeightsQuantOffset, 0)),
    int(Attr::CompressRatio, 0),
];
/// Value of `accumulation_flag` that leaves start/accumulate to the order of writes (our choice; the encoder's byte has
/// START 1, STOP 2, ACCUMULATE 4).
pub const AUTO_ACCUMULATION: i64 = 0x80;

include!("rows.rs");

impl Opcode {
    /// The type's row.
    pub fn spec(self) -> &'static OpSpec {
        &TABLE[self as usize]
    }
    /// A collective (47..=50).
    pub fn is_collective(self) -> bool {
        self.spec().family == Family::Collective
    }
    /// A DMA instruction in the sense of the passes: 18, 19, 22, 32, 41..=46, 67.
    pub fn is_dma(self) -> bool {
        self.spec().family == Family::Dma
    }
    /// A terminator: 77, 78, 79, 81, 82, 83.
    pub fn is_terminator(self) -> bool {
        self.spec().effects.has(Effects::TERMINATOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_ordinal_order_with_unique_names() {
        assert_eq!(TABLE.len(), 110);
        let mut names = std::collections::BTreeSet::new();
        for (i, r) in TABLE.iter().enumerate() {
            assert_eq!(r.opcode as usize, i);
            assert!(names.insert(r.opcode.name()));
            assert!(!r.doc.is_empty(), "{}", r.opcode);
        }
    }

    #[test]
    fn attributes_of_a_row_are_unique_and_only_the_last_operand_varies() {
        for r in TABLE {
            let mut seen = std::collections::BTreeSet::new();
            for a in r.attrs {
                assert!(seen.insert(a.attr), "{} {}", r.opcode, a.attr.key());
            }
            for l in [r.ins, r.outs] {
                let first_variable = l.iter().position(|o| o.arity != Arity::One).unwrap_or(l.len());
                assert!(l[first_variable..].iter().all(|o| o.arity != Arity::One), "{}", r.opcode);
            }
        }
    }

    #[test]
    fn keys_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for a in Attr::ALL {
            assert!(seen.insert(a.key()), "{}", a.key());
            assert_eq!(Attr::from_key(a.key()), Some(*a));
        }
    }
}
