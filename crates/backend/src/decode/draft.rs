//! Decoding of one group of row forms into an instruction over the physical memories.
//!
//! A record gives an operand piecemeal — address and dimensions here, dtype there, partitions in a byte of its own — so
//! the rows first fill a [`Draft`], which is then assembled. What the wire cannot tell apart (dtypes of one code,
//! attributes without a byte) comes from a [`super::patch::Patch`] of the container's record table.

use crate::encode::addr::Addr4;
use crate::encode::bundle::{Bundle, WireError, WireResult};
use crate::encode::desc::{Geometry, OnChip, read_tensor, register_dynamic};
use crate::encode::events;
use crate::encode::forms::{Field, Form, Group, Implied, Kind, OutParts, Slot};
use crate::encode::special;
use crate::encode::tables::{alu_of_wire, dtype_of_wire, from_wire};
use tandem_bir::ap::ApPairs;
use tandem_bir::diag::codes;
use tandem_bir::inst::{F32, SemUpdate, SyncInfo};
use tandem_bir::{
    AccessPattern, AluOp, ApPair, Attr, AttrValue, Dtype, EngineAccumulationType, ImmValue, Immediate, Inst,
    MemLocId, Opcode, Operand, RegAccess, RegId,
};

/// What decoding needs to know about the core.
pub struct DecodeCtx<'a> {
    /// Memories.
    pub geo: Geometry,
    /// Location of a variable number.
    pub var_loc: &'a dyn Fn(u32) -> Option<MemLocId>,
    /// Whole-location pattern of a variable number.
    pub whole_var: &'a dyn Fn(u32) -> Option<AccessPattern>,
}

/// Kind of a drafted operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpKind {
    /// Nothing known yet.
    #[default]
    Absent,
    /// Memory.
    Ap,
    /// Immediate.
    Imm,
    /// Register.
    Reg,
    /// Complete.
    Made,
}

/// A drafted operand.
#[derive(Clone, Debug, Default)]
pub struct DraftOperand {
    /// Kind.
    pub kind: OpKind,
    /// Address word, immediate bits or register number.
    pub word: u32,
    /// Free pairs, outermost first.
    pub free: ApPairs,
    /// dtype.
    pub dtype: Option<Dtype>,
    /// Partitions; 0 when the record's channels count.
    pub parts: u64,
    /// The pattern's run-time address is into PSUM.
    pub psum: bool,
    /// The operand, when a special field made it.
    pub made: Option<Box<Operand>>,
}

/// Most inputs of an instruction of row forms.
pub const MAX_INS: usize = 6;

/// An instruction being decoded.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Opcode and attributes.
    pub inst: Inst,
    /// Inputs.
    pub ins: [DraftOperand; MAX_INS],
    /// Outputs.
    pub out: [DraftOperand; 2],
    /// Number of outputs of the group.
    pub outs: u8,
    /// Branch displacement in records.
    pub displacement: i64,
    /// Waits and updates.
    pub sync: SyncInfo,
    /// Channels of the first record that has the byte.
    channels: u64,
    out_parts: OutParts,
    imm: Dtype,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            inst: Inst::new("", Opcode::NoOp),
            ins: Default::default(),
            out: Default::default(),
            outs: 0,
            displacement: 0,
            sync: SyncInfo::default(),
            channels: 0,
            out_parts: OutParts::Channels,
            imm: Dtype::Float32,
        }
    }
}

impl Draft {
    /// Becomes the empty draft of a group; the room of the one before stays.
    fn start(&mut self, g: &Group) {
        self.inst.opcode = g.opcode;
        self.inst.attrs.clear();
        self.inst.more = None;
        for o in self.ins.iter_mut().chain(&mut self.out) {
            o.kind = OpKind::Absent;
            o.word = 0;
            o.free.clear();
            o.dtype = None;
            o.parts = 0;
            o.psum = false;
            if o.made.is_some() {
                o.made = None;
            }
        }
        self.outs = g.outs;
        self.displacement = 0;
        self.sync.on_wait.clear();
        self.sync.on_update.clear();
        self.channels = 0;
        self.out_parts = OutParts::Channels;
        self.imm = Dtype::Float32;
    }
    /// Waits and updates, when there are any.
    pub(crate) fn sync(&self) -> Option<&SyncInfo> {
        (!self.sync.on_wait.is_empty() || !self.sync.on_update.is_empty()).then_some(&self.sync)
    }
    /// The draft is this instruction as it stands: nothing has to be said beside the records, and what assembling would give
    /// is equal. Nothing is built to find that out.
    pub(crate) fn is(&self, expected: &Inst, ctx: &DecodeCtx<'_>) -> bool {
        if self.inst.opcode != expected.opcode
            || expected.ins.len() != natural_ins(self)
            || expected.outs.len() != usize::from(self.outs)
            || self.inst.attrs != expected.attrs
            || self.sync() != expected.sync()
        {
            return false;
        }
        let (ins, outs) = (self.default_parts(false), self.default_parts(true));
        let is = |o: &DraftOperand, parts: u64, want: &Operand| match (o.kind, want) {
            (OpKind::Ap, Operand::Ap(a)) => is_pattern(o, parts, a, ctx),
            (OpKind::Imm, Operand::Imm(i)) => immediate(o, self.imm) == *i,
            (OpKind::Made, want) => o.made.as_deref() == Some(want),
            (OpKind::Reg, Operand::Reg(_)) => make(o, parts, self.imm, ctx).is_ok_and(|got| got == *want),
            _ => false,
        };
        self.ins.iter().zip(&expected.ins).all(|(o, want)| is(o, ins, want))
            && self.out.iter().zip(&expected.outs).all(|(o, want)| is(o, outs, want))
    }
    /// dtype of immediates that say none.
    pub fn imm_dtype(&self) -> Dtype {
        self.imm
    }
    /// Partitions an operand gets when nothing patches it.
    pub fn natural_parts(&self, s: Slot) -> u64 {
        let (o, out) = match s {
            Slot::In(i) => (self.ins.get(i as usize), false),
            Slot::Out(i) => (self.out.get(i as usize), true),
        };
        match o {
            Some(o) if o.parts > 0 => o.parts,
            _ => self.default_parts(out),
        }
    }
    fn default_parts(&self, out: bool) -> u64 {
        match (out, self.out_parts) {
            (true, OutParts::One) => 1,
            (true, OutParts::Columns) => self.ins[1].free.iter().map(|p| p.num).product(),
            (_, OutParts::Channels | OutParts::One | OutParts::Columns) => self.channels.max(1),
        }
    }
    /// The operand of a slot.
    pub fn slot(&mut self, s: Slot) -> &mut DraftOperand {
        match s {
            Slot::In(i) => &mut self.ins[(i as usize).min(MAX_INS - 1)],
            Slot::Out(i) => &mut self.out[(i as usize).min(1)],
        }
    }
}

fn refuse(m: impl Into<String>) -> WireError {
    WireError::new(codes::E0104, m)
}

fn get_field(b: &Bundle, f: &Field, d: &mut Draft, ctx: &DecodeCtx<'_>) -> WireResult<()> {
    let arch = ctx.geo.arch;
    let v = b.get(f.off, f.width.min(8));
    match f.kind {
        Kind::Const(c) => {
            if v != c {
                return Err(refuse(format!("{} at {:#04x} is {v:#x}, not {c:#x}", f.name, f.off)));
            }
        }
        Kind::Tensor(s, rank, _) => {
            let o = d.slot(s);
            o.kind = OpKind::Ap;
            o.word = read_tensor(b, f.off, rank, &mut o.free)?;
        }
        Kind::Pointer(s) => {
            let o = d.slot(s);
            o.kind = OpKind::Ap;
            o.word = v as u32;
        }
        Kind::Dtype(s) => d.slot(s).dtype = Some(dtype_of_wire(v as u8, arch)?),
        Kind::DtypeLow(s) => d.slot(s).dtype = Some(dtype_of_wire(v as u8 & 15, arch)?),
        Kind::DtypeHigh(s) => d.slot(s).dtype = Some(dtype_of_wire(v as u8 >> 4, arch)?),
        Kind::Channels(s) | Kind::Channels32(s) => {
            if !(1..=128).contains(&v) {
                return Err(refuse(format!("{v} partitions at {:#04x} are not in 1..=128", f.off)));
            }
            d.slot(s).parts = v;
            d.channels = v;
        }
        Kind::Elems(_) | Kind::Part => {}
        Kind::Alu(a) => d.inst.set(a, alu_of_wire(v as u8, arch)?),
        Kind::Enum(a, table) => {
            let o = from_wire(table, v as u8)
                .ok_or_else(|| refuse(format!("{} at {:#04x} has no member {v}", f.name, f.off)))?;
            d.inst.set(a, AttrValue::Enum(o));
        }
        Kind::Int(a) => {
            let v = if f.width < 4 { v as i64 } else { b.get_i(f.off, f.width) };
            // an attribute of float type kept as a number (range selects) is written by an F32 row
            d.inst.set(a, v);
        }
        Kind::F32(a) => d.inst.set(a, AttrValue::F32(F32(f32::from_bits(v as u32)))),
        Kind::Flag(a, bit) => {
            if v >> bit & 1 == 1 {
                d.inst.set(a, true);
            } else if d.inst.spec().attr(a).is_some_and(|s| s.default_value().is_none()) {
                d.inst.set(a, false);
            }
        }
        Kind::ImmSource(s) => set_source(d, s, v, [OpKind::Imm, OpKind::Ap, OpKind::Reg], f)?,
        Kind::BiasSource(s) => set_source(d, s, v, [OpKind::Ap, OpKind::Imm, OpKind::Reg], f)?,
        Kind::ImmValue(s) => {
            let o = d.slot(s);
            if o.kind == OpKind::Absent {
                o.kind = OpKind::Imm;
            }
            o.word = v as u32;
        }
        Kind::Register(s) => {
            let o = d.slot(s);
            o.kind = OpKind::Reg;
            o.word = v as u32;
        }
        Kind::Special(s) => special::get(b, f, s, d, ctx)?,
    }
    Ok(())
}

fn set_source(d: &mut Draft, s: Slot, v: u64, kinds: [OpKind; 3], f: &Field) -> WireResult<()> {
    let kind = kinds
        .get(v as usize)
        .copied()
        .ok_or_else(|| refuse(format!("{} at {:#04x} is {v}", f.name, f.off)))?;
    d.slot(s).kind = kind;
    Ok(())
}

/// Reserved bytes of a record must be zero.
///
/// # Errors
/// E0104 naming the byte.
pub fn check_reserved(b: &Bundle, form: &Form) -> WireResult<()> {
    let (words, _) = b.0.as_chunks::<8>();
    if words.iter().zip(&form.free).all(|(w, free)| u64::from_le_bytes(*w) & free == 0) {
        return Ok(());
    }
    let stray = b.0.iter().enumerate().find(|(i, v)| **v != 0 && form.used >> i & 1 == 0);
    stray.map_or(Ok(()), |(i, v)| Err(refuse(format!("reserved byte {i:#04x} is {v:#04x}, not 0"))))
}

/// Whether a flag byte has bits no row names.
fn check_flag_bits(b: &Bundle, form: &Form) -> WireResult<()> {
    for (off, spare) in form.spare_bits.iter().take_while(|(_, bits)| *bits != 0) {
        if b.byte(*off) & spare != 0 {
            return Err(refuse(format!("byte {off:#04x} has bits without a meaning")));
        }
    }
    Ok(())
}

/// Decodes the records of a group.
///
/// # Errors
/// E0104 for bytes that are no instruction.
pub fn decode_group(records: &[Bundle], g: &Group, ctx: &DecodeCtx<'_>) -> WireResult<Draft> {
    let mut d = Draft::default();
    decode_into(records, g, ctx, &mut d)?;
    Ok(d)
}

/// The same into a draft that is there.
///
/// # Errors
/// Those of [`decode_group`].
pub(crate) fn decode_into(
    records: &[Bundle],
    g: &Group,
    ctx: &DecodeCtx<'_>,
    d: &mut Draft,
) -> WireResult<()> {
    d.start(g);
    for (form, b) in g.forms.iter().zip(records) {
        check_reserved(b, form)?;
        check_flag_bits(b, form)?;
        d.out_parts = form.out_parts;
        d.imm = form.imm;
        for f in form.fields {
            get_field(b, f, d, ctx)?;
        }
    }
    for (a, v) in g.implied {
        match v {
            Implied::Bool(v) => d.inst.set(*a, *v),
            Implied::Ordinal(o) => d.inst.set(*a, AttrValue::Enum(*o)),
        }
    }
    finish_attrs(d);
    sync_of_records(records, g.opcode, &mut d.sync)
}

fn sync_of_records(records: &[Bundle], opcode: Opcode, s: &mut SyncInfo) -> WireResult<()> {
    match records {
        [] => {}
        [b] if opcode == Opcode::EventSemaphore => *s = events::get_extended(b)?,
        [b] => events::read(b, s)?,
        [first, .., last] => {
            events::read(first, s)?;
            s.on_update.clear();
            let (_, update) = events::says(last)?;
            s.on_update.extend(update.map(|(sem, value)| SemUpdate { sem, value, ..SemUpdate::default() }));
        }
    }
    Ok(())
}

/// Attributes that follow from others.
fn finish_attrs(d: &mut Draft) {
    if d.inst.opcode == Opcode::TensorScalarPtr
        && !d.inst.get_bool(Attr::IsScalarTensorTensor)
        && d.ins[1..].iter().any(|o| o.kind == OpKind::Ap)
    {
        d.inst.set(Attr::IsTensorScalarAddr, true);
    }
}

/// The optional trailing operand is there, by the values of the other fields.
fn present(d: &Draft, i: usize) -> bool {
    let o = &d.ins[i];
    match o.kind {
        OpKind::Absent => false,
        OpKind::Ap | OpKind::Reg | OpKind::Made => true,
        OpKind::Imm => match (d.inst.opcode, i) {
            (Opcode::TensorScalarPtr, 2) if d.outs > 1 => loads(d, Attr::Acc),
            (Opcode::TensorScalarPtr, 2) => {
                d.inst.get_bool(Attr::IsScalarTensorTensor)
                    || d.inst.get_enum::<AluOp>(Attr::Op1) != Some(AluOp::Bypass)
            }
            (Opcode::TensorScalarCache, 2) => loads(d, Attr::Acc),
            (Opcode::Exponential, 2) => loads(d, Attr::ReduceCmd),
            _ => true,
        },
    }
}

fn loads(d: &Draft, a: Attr) -> bool {
    d.inst.get_enum::<EngineAccumulationType>(a) == Some(EngineAccumulationType::LoadAccumulate)
}

/// Number of inputs the draft has by its own rules.
pub fn natural_ins(d: &Draft) -> usize {
    let mut n = 0;
    while n < MAX_INS && present(d, n) {
        n += 1;
    }
    n
}

/// Assembles the instruction with `ins` inputs.
///
/// # Errors
/// E0104 for addresses in no memory and the like.
pub fn assemble(d: &mut Draft, ins: usize, ctx: &DecodeCtx<'_>) -> WireResult<(Inst, i64)> {
    let (in_parts, out_parts) = (d.default_parts(false), d.default_parts(true));
    let mut list = Vec::with_capacity(ins);
    for o in d.ins.iter().take(ins) {
        list.push(make(o, in_parts, d.imm, ctx)?);
    }
    let mut outs = Vec::with_capacity(d.outs as usize);
    for o in d.out.iter().take(d.outs as usize) {
        outs.push(make(o, out_parts, d.imm, ctx)?);
    }
    let mut inst = Inst::new("", d.inst.opcode);
    inst.attrs = std::mem::take(&mut d.inst.attrs);
    inst.ins = list;
    inst.outs = outs;
    if d.sync().is_some() {
        inst.more_mut().sync = Some(std::mem::take(&mut d.sync));
    }
    Ok((inst, d.displacement))
}

/// The operand of a slot as [`assemble`] makes it.
///
/// # Errors
/// E0104 for addresses in no memory and the like.
pub fn operand_of(d: &Draft, s: Slot, ctx: &DecodeCtx<'_>) -> WireResult<Operand> {
    let (o, out) = match s {
        Slot::In(i) => (d.ins.get(i as usize), false),
        Slot::Out(i) => (d.out.get(i as usize), true),
    };
    let o = o.ok_or_else(|| refuse("an operand is missing"))?;
    make(o, d.default_parts(out), d.imm, ctx)
}

/// The immediate of an operand.
fn immediate(o: &DraftOperand, imm: Dtype) -> Immediate {
    let dtype = o.dtype.unwrap_or(imm);
    let value = if dtype.is_int() {
        match dtype {
            Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => ImmValue::Int(i64::from(o.word)),
            _ => ImmValue::Int(i64::from(o.word as i32)),
        }
    } else {
        ImmValue::Float(F32(f32::from_bits(o.word)))
    };
    Immediate { dtype, value }
}

/// [`make`] would give this pattern.
fn is_pattern(o: &DraftOperand, parts: u64, want: &AccessPattern, ctx: &DecodeCtx<'_>) -> bool {
    let dtype = o.dtype.unwrap_or(Dtype::Float32);
    let (mem, partition, byte) = match Addr4::from_wire(o.word) {
        Ok(Addr4::Sbuf { partition, byte }) => (OnChip::Sbuf, partition, byte),
        Ok(Addr4::Psum { partition, byte }) => (OnChip::Psum, partition, byte),
        Ok(Addr4::Register(_)) => {
            let got = make(o, parts, Dtype::Float32, ctx);
            return got.is_ok_and(|got| matches!(got, Operand::Ap(a) if a == *want));
        }
        Err(_) => return false,
    };
    let (size, bytes) = (dtype.bytes(), ctx.geo.pitch(mem));
    let pitch = (bytes / size) as i64;
    let parts = if o.parts > 0 { o.parts } else { parts };
    let Some((first, free)) = want.pairs.split_first() else { return false };
    let same_free = if o.free.is_empty() { free == [ApPair::new(1, 1)] } else { free == o.free.as_slice() };
    dtype == want.dtype
        && ctx.geo.loc(mem) == want.loc
        && want.dynamic.is_none()
        && u64::from(byte).is_multiple_of(size)
        && u64::from(byte) < bytes
        && i64::from(partition) * pitch + i64::from(byte) / size as i64 == want.offset
        && *first == ApPair::new(pitch, parts)
        && same_free
}

fn make(o: &DraftOperand, parts: u64, imm: Dtype, ctx: &DecodeCtx<'_>) -> WireResult<Operand> {
    match o.kind {
        OpKind::Absent => Err(refuse("an operand is missing")),
        OpKind::Made => o.made.as_deref().cloned().ok_or_else(|| refuse("an operand is missing")),
        OpKind::Imm => Ok(Operand::Imm(immediate(o, imm))),
        OpKind::Reg => {
            if o.word >= u32::from(crate::encode::addr::MAX_REGISTERS) {
                return Err(refuse(format!("register {} does not exist", o.word)));
            }
            Ok(Operand::Reg(RegAccess {
                reg: RegId::from_u32(o.word),
                dtype: o.dtype.unwrap_or(Dtype::Uint32),
            }))
        }
        OpKind::Ap => {
            let dtype = o.dtype.unwrap_or(Dtype::Float32);
            let size = dtype.bytes();
            let parts = if o.parts > 0 { o.parts } else { parts };
            let (mem, offset, dynamic) = match Addr4::from_wire(o.word)? {
                Addr4::Sbuf { partition, byte } => (OnChip::Sbuf, Some((partition, byte)), None),
                Addr4::Psum { partition, byte } => (OnChip::Psum, Some((partition, byte)), None),
                Addr4::Register(r) => {
                    let mem = if o.psum { OnChip::Psum } else { OnChip::Sbuf };
                    let dynamic = register_dynamic(RegId::from_u32(u32::from(r)), dtype, mem, &ctx.geo);
                    (mem, None, Some(Box::new(dynamic)))
                }
            };
            let pitch = (ctx.geo.pitch(mem) / size) as i64;
            let offset = match offset {
                None => 0,
                Some((partition, byte)) => {
                    if u64::from(byte) % size != 0 || u64::from(byte) >= ctx.geo.pitch(mem) {
                        return Err(refuse(format!(
                            "byte {byte:#x} is no place for elements of {size} bytes"
                        )));
                    }
                    i64::from(partition) * pitch + i64::from(byte) / size as i64
                }
            };
            let mut pairs = ApPairs::new();
            pairs.push(ApPair::new(pitch, parts));
            if o.free.is_empty() {
                pairs.push(ApPair::new(1, 1));
            } else {
                pairs.extend(o.free.iter().copied());
            }
            Ok(Operand::Ap(AccessPattern { loc: ctx.geo.loc(mem), dtype, offset, pairs, dynamic }))
        }
    }
}
