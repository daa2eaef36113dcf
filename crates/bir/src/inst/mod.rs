//! Instructions: one generic [`Inst`] for all types; what each type means is a row of [`table`].

pub mod attr;
pub mod table;

pub use attr::{Attr, AttrDefault, AttrSpec, AttrType, AttrValue, Attrs, F32, Presence};
pub use table::{Arity, Effects, Family, OpSpec, Opcode, OperandKinds, OperandSpec};

use crate::ap::AccessPattern;
use crate::diag::Loc;
use crate::dtype::Dtype;
use crate::enums::{AluOp, BirEnum, CopyMode, EdgeKind, EngineKind, Origin};
use crate::expr::Expr;
use crate::ids::{BlockId, InstId, RegId, SetId};
use crate::module::Extra;
use compact_str::CompactString;

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// Name, unique in its block container.
    pub name: CompactString,
    /// Instruction type.
    pub opcode: Opcode,
    /// Engine that runs it; `Unassigned` until the default is filled in.
    pub engine: EngineKind,
    /// Who made it.
    pub origin: Origin,
    /// Source position.
    pub loc: Loc,
    /// Inputs in order, immediates included.
    pub ins: Vec<Operand>,
    /// Outputs in order.
    pub outs: Vec<Operand>,
    /// Attributes; read them with the typed getters, which know the defaults.
    pub attrs: Attrs,
    /// Instructions of the same module that must be complete before this one starts.
    pub deps: Vec<Dep>,
    /// Rare state.
    pub more: Option<Box<InstMore>>,
}

/// State that few instructions have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstMore {
    /// Instance of the engine.
    pub engine_id: i64,
    /// Scheduled start in cycles.
    pub scheduled_start: i64,
    /// Scheduled end in cycles.
    pub scheduled_end: i64,
    /// Names of opt-in passes.
    pub optin_passes: Vec<CompactString>,
    /// Index operands of gathers and scatters; [`Expr::IndirectArg`] n is entry n − 1.
    pub indirection_ins: Vec<Operand>,
    /// Loop-carried dependencies.
    pub loop_carried: Vec<Dep>,
    /// Unroll dependencies, kept as read.
    pub unroll_deps: Option<serde_json::Value>,
    /// Semaphore waits and updates.
    pub sync: Option<SyncInfo>,
    /// Label of the statement it came from, when that is not its name.
    pub label: Option<CompactString>,
    /// Enclosing loop axes.
    pub loopnest: Vec<CompactString>,
    /// Affine predicates: the instruction runs when each evaluates to a value ≥ 0 — kept as expressions.
    pub predicates: Vec<Expr>,
    /// Symbolic schedule.
    pub order: Vec<Expr>,
    /// Blocks of a loop-like instruction.
    pub regions: Vec<BlockId>,
    /// Keys of operands that the model does not name, in operand order (outputs after inputs, index operands last).
    pub operand_extra: Vec<OperandExtra>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

/// Which operand list of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperandList {
    /// Inputs.
    Ins,
    /// Outputs.
    Outs,
    /// Index operands.
    Indirection,
}

/// Keys of one operand that the model does not name.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandExtra {
    /// List the operand is in.
    pub list: OperandList,
    /// Its position there.
    pub index: u32,
    /// The keys.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// A dependency on another instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dep {
    /// Producer.
    pub inst: InstId,
    /// Why.
    pub kind: EdgeKind,
}

/// Semaphore waits and updates of an instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncInfo {
    /// All must hold before it starts.
    pub on_wait: Vec<SemWait>,
    /// Applied when it completes.
    pub on_update: Vec<SemUpdate>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

/// A semaphore wait: counter ≥ value (compared as signed 32 bits).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SemWait {
    /// Semaphore number.
    pub sem: u32,
    /// Value.
    pub value: i64,
    /// Name of the instruction or DMA block it waits for, for people.
    pub from: Option<CompactString>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

/// A semaphore update: adds `value`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SemUpdate {
    /// Semaphore number.
    pub sem: u32,
    /// Added to the counter.
    pub value: i64,
    /// Core whose bank is updated; `None` for the own core.
    pub target_core: Option<u32>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Memory (`physical_ap`).
    Ap(AccessPattern),
    /// Immediate value.
    Imm(Immediate),
    /// Scalar register.
    Reg(RegAccess),
    /// Operand forms that only symbolic or foreign BIR has.
    Other(Box<OtherOperand>),
}

/// Operand forms without a lowering of their own.
#[derive(Clone, Debug, PartialEq)]
pub enum OtherOperand {
    /// `symbolic_ap`: a set addressed by one expression per dimension.
    Symbolic {
        /// `symbolic_ap` or `symbolic_pwap`.
        pwap: bool,
        /// Set addressed.
        set: SetId,
        /// Element type.
        dtype: Dtype,
        /// Pattern.
        pairs: crate::ap::ApPairs,
        /// Address expression per dimension.
        addrs: Vec<Expr>,
        /// Keys that the model does not name.
        extra: Extra,
    },
    /// `register_ap`: base address in a register.
    RegisterAp {
        /// Set addressed.
        set: SetId,
        /// Register with the base.
        reg: RegId,
        /// Element type.
        dtype: Dtype,
        /// Pattern.
        pairs: crate::ap::ApPairs,
        /// Constant part of the offset.
        const_offset: i64,
        /// Keys that the model does not name.
        extra: Extra,
    },
    /// `symbolic_imm_value`.
    SymbolicImm {
        /// Element type.
        dtype: Dtype,
        /// Values.
        values: Vec<Immediate>,
        /// Selecting expression.
        expr: Expr,
    },
    /// `imm_array`.
    ImmArray {
        /// Element type.
        dtype: Dtype,
        /// Values.
        values: Vec<Immediate>,
    },
}

/// An immediate: integer types hold an integer, float types a 32-bit float (converted to `dtype` where used).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// Element type.
    pub dtype: Dtype,
    /// Value.
    pub value: ImmValue,
}

/// Value of an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImmValue {
    /// Integer.
    Int(i64),
    /// Float.
    Float(F32),
}

impl Immediate {
    /// A float32 immediate.
    pub fn f32(v: f32) -> Immediate {
        Immediate { dtype: Dtype::Float32, value: ImmValue::Float(F32(v)) }
    }
    /// An int32 immediate.
    pub fn i32(v: i32) -> Immediate {
        Immediate { dtype: Dtype::Int32, value: ImmValue::Int(i64::from(v)) }
    }
    /// The value as a float (integers convert with one rounding).
    pub fn as_f32(self) -> f32 {
        match self.value {
            ImmValue::Int(i) => i as f32,
            ImmValue::Float(f) => f.0,
        }
    }
    /// The value as an integer, when it is one.
    pub fn as_int(self) -> Option<i64> {
        match self.value {
            ImmValue::Int(i) => Some(i),
            ImmValue::Float(_) => None,
        }
    }
}

/// A register operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegAccess {
    /// Register.
    pub reg: RegId,
    /// How its bits are read (int32; uint32 for rank instructions).
    pub dtype: Dtype,
}

impl Operand {
    /// The memory operand, if it is one.
    pub fn as_ap(&self) -> Option<&AccessPattern> {
        match self {
            Operand::Ap(a) => Some(a),
            Operand::Imm(_) | Operand::Reg(_) | Operand::Other(_) => None,
        }
    }
    /// The memory operand, if it is one.
    pub fn as_ap_mut(&mut self) -> Option<&mut AccessPattern> {
        match self {
            Operand::Ap(a) => Some(a),
            Operand::Imm(_) | Operand::Reg(_) | Operand::Other(_) => None,
        }
    }
    /// The immediate, if it is one.
    pub fn as_imm(&self) -> Option<Immediate> {
        match self {
            Operand::Imm(i) => Some(*i),
            Operand::Ap(_) | Operand::Reg(_) | Operand::Other(_) => None,
        }
    }
    /// The register access, if it is one.
    pub fn as_reg(&self) -> Option<RegAccess> {
        match self {
            Operand::Reg(r) => Some(*r),
            Operand::Ap(_) | Operand::Imm(_) | Operand::Other(_) => None,
        }
    }
}

/// Moves a list to a block of memory of its own length. Cutting the block short in place would leave a hole behind every
/// list; freed whole, it serves the next instruction, and the lists of a program lie one after the other.
pub(crate) fn fit<T>(list: &mut Vec<T>) {
    if list.capacity() > list.len() {
        let mut exact = Vec::with_capacity(list.len());
        exact.append(list);
        *list = exact;
    }
}

impl From<AccessPattern> for Operand {
    fn from(a: AccessPattern) -> Self {
        Operand::Ap(a)
    }
}
impl From<Immediate> for Operand {
    fn from(i: Immediate) -> Self {
        Operand::Imm(i)
    }
}
impl From<RegAccess> for Operand {
    fn from(r: RegAccess) -> Self {
        Operand::Reg(r)
    }
}

impl Inst {
    /// An instruction with no operands, engine unassigned, origin NKI, every attribute at its default.
    pub fn new(name: &str, opcode: Opcode) -> Inst {
        Inst {
            name: name.into(),
            opcode,
            engine: EngineKind::Unassigned,
            origin: Origin::Nki,
            loc: Loc::NONE,
            ins: Vec::new(),
            outs: Vec::new(),
            attrs: Attrs::default(),
            deps: Vec::new(),
            more: None,
        }
    }
    /// Gives back the room that growing lists keep. Lists of operands are short and programs are long: the room for four
    /// operands that a first push makes would be most of a program's memory.
    pub fn shrink_to_fit(&mut self) {
        fit(&mut self.ins);
        fit(&mut self.outs);
        fit(&mut self.deps);
        self.attrs.shrink_to_fit();
    }
    /// The row of its type.
    pub fn spec(&self) -> &'static OpSpec {
        self.opcode.spec()
    }
    /// Rare state, made when missing.
    pub fn more_mut(&mut self) -> &mut InstMore {
        self.more.get_or_insert_default()
    }
    /// Blocks of a loop-like instruction.
    pub fn regions(&self) -> &[BlockId] {
        self.more.as_ref().map_or(&[], |m| &m.regions)
    }
    /// Semaphore waits and updates.
    pub fn sync(&self) -> Option<&SyncInfo> {
        self.more.as_ref().and_then(|m| m.sync.as_ref())
    }
    /// Index operands of gathers and scatters.
    pub fn indirection_ins(&self) -> &[Operand] {
        self.more.as_ref().map_or(&[], |m| &m.indirection_ins)
    }
    /// All operands: inputs, outputs, index operands.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.ins.iter().chain(&self.outs).chain(self.indirection_ins())
    }
    /// A plain transfer of bytes onto themselves, which kernels use to wait for the stores before it: whatever stands there
    /// stays, so it counts as a read where the order of accesses matters.
    pub fn copies_onto_itself(&self) -> bool {
        if self.opcode != Opcode::DmaCopy {
            return false;
        }
        let ([from], [to]) = (&self.ins[..], &self.outs[..]) else { return false };
        from.as_ap().is_some()
            && from.as_ap() == to.as_ap()
            && self.indirection_ins().is_empty()
            && matches!(self.get_enum(Attr::Mode), None | Some(CopyMode::Copy))
            && matches!(self.get_enum(Attr::CceOp), None | Some(AluOp::Bypass))
    }
    /// Sets an attribute. A value equal to its declared default is dropped unless the attribute is always written;
    /// an affine attribute given a constant expression is stored as the constant.
    ///
    /// # Panics
    /// In debug builds, when the type's row does not declare the attribute (a fault of the caller).
    pub fn set(&mut self, attr: Attr, value: impl Into<AttrValue>) {
        let mut value = value.into();
        let spec = self.spec().attr(attr);
        debug_assert!(spec.is_some(), "{} has no attribute {}", self.opcode, attr.key());
        if let Some(spec) = spec {
            if spec.ty == AttrType::Expr
                && let AttrValue::Int(i) = value
            {
                value = AttrValue::Expr(Box::new(Expr::Const(i)));
            }
            if spec.affine
                && let AttrValue::Expr(e) = &value
                && let Some(c) = e.as_const()
            {
                value = match spec.ty {
                    AttrType::Bool => AttrValue::Bool(c != 0),
                    _ => AttrValue::Int(c),
                };
            }
            if spec.is_default(&value) {
                self.attrs.remove(attr);
                return;
            }
        }
        self.attrs.put(attr, value);
    }
    /// The same, chained.
    pub fn with(mut self, attr: Attr, value: impl Into<AttrValue>) -> Inst {
        self.set(attr, value);
        self
    }
    /// Value of an attribute, its declared default when absent; `None` when that is "none".
    pub fn attr(&self, attr: Attr) -> Option<AttrValue> {
        match self.attrs.get(attr) {
            Some(v) => Some(v.clone()),
            None => self.spec().attr(attr).and_then(|s| s.default_value()),
        }
    }
    fn raw_default(&self, attr: Attr) -> AttrDefault {
        self.spec().attr(attr).map_or(AttrDefault::None, |s| s.default)
    }
    /// A boolean attribute; false when it has no value or is not constant.
    pub fn get_bool(&self, attr: Attr) -> bool {
        match self.attrs.get(attr) {
            Some(AttrValue::Bool(b)) => *b,
            Some(AttrValue::Int(i)) => *i != 0,
            Some(_) => false,
            None => matches!(self.raw_default(attr), AttrDefault::Bool(true)),
        }
    }
    /// An integer attribute; `None` when it has no constant value.
    pub fn get_int(&self, attr: Attr) -> Option<i64> {
        match self.attrs.get(attr) {
            Some(AttrValue::Int(i)) => Some(*i),
            Some(AttrValue::Expr(e)) => e.as_const(),
            Some(_) => None,
            None => match self.raw_default(attr) {
                AttrDefault::Int(i) => Some(i),
                _ => None,
            },
        }
    }
    /// A float attribute; `None` when it has no value.
    pub fn get_f32(&self, attr: Attr) -> Option<f32> {
        match self.attrs.get(attr) {
            Some(AttrValue::F32(f)) => Some(f.0),
            Some(AttrValue::Int(i)) => Some(*i as f32),
            Some(_) => None,
            None => match self.raw_default(attr) {
                AttrDefault::F32(f) => Some(f),
                _ => None,
            },
        }
    }
    /// A closed-set attribute; `None` when it has no value.
    pub fn get_enum<E: BirEnum>(&self, attr: Attr) -> Option<E> {
        match self.attrs.get(attr) {
            Some(AttrValue::Enum(o)) => E::from_ordinal(*o),
            Some(_) => None,
            None => match self.raw_default(attr) {
                AttrDefault::Enum(o) => E::from_ordinal(o),
                _ => None,
            },
        }
    }
    /// A text attribute.
    pub fn get_str(&self, attr: Attr) -> Option<&str> {
        match self.attrs.get(attr) {
            Some(AttrValue::Str(s)) => Some(s),
            _ => None,
        }
    }
    /// A list of integers; empty when absent.
    pub fn get_ints(&self, attr: Attr) -> &[i64] {
        match self.attrs.get(attr) {
            Some(AttrValue::Ints(v)) => v,
            _ => &[],
        }
    }
    /// A list of lists of integers; empty when absent.
    pub fn get_groups(&self, attr: Attr) -> &[Box<[i64]>] {
        match self.attrs.get(attr) {
            Some(AttrValue::Groups(v)) => v,
            _ => &[],
        }
    }
    /// An expression attribute (also a constant one).
    pub fn get_expr(&self, attr: Attr) -> Option<Expr> {
        match self.attrs.get(attr) {
            Some(AttrValue::Expr(e)) => Some((**e).clone()),
            Some(AttrValue::Int(i)) => Some(Expr::Const(*i)),
            _ => None,
        }
    }
    /// A list of expressions; empty when absent.
    pub fn get_exprs(&self, attr: Attr) -> &[Expr] {
        match self.attrs.get(attr) {
            Some(AttrValue::Exprs(v)) => v,
            _ => &[],
        }
    }
    /// Adds a dependency; the same producer keeps the larger kind, a self edge is ignored.
    pub fn add_dep(&mut self, own: InstId, producer: InstId, kind: EdgeKind) {
        if own == producer {
            return;
        }
        match self.deps.iter_mut().find(|d| d.inst == producer) {
            Some(d) => d.kind = d.kind.max(kind),
            None => self.deps.push(Dep { inst: producer, kind }),
        }
    }
}
