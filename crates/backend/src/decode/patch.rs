//! What the records cannot say, per instruction: dtypes that share a code, partition counts without a byte, attributes
//! without a field. The encoder finds it by decoding what it wrote; the container keeps it in its record table.

use super::draft::{DecodeCtx, Draft, MAX_INS, OpKind, assemble, natural_ins, operand_of};
use crate::encode::bundle::{WireError, WireResult};
use crate::encode::forms::Slot;
use serde_json::{Map, Value, json};
use tandem_bir::diag::codes;
use tandem_bir::inst::F32;
use tandem_bir::{Attr, AttrValue, BirEnum, Dtype, Inst, MemLocId, Opcode, Operand};

/// Differences between an instruction and what its records say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// The type, when several share the records.
    pub opcode: Option<Opcode>,
    /// dtypes by slot.
    pub dtypes: Vec<(Slot, Dtype)>,
    /// Partitions by slot.
    pub parts: Vec<(Slot, u64)>,
    /// Slots whose register holds an address in PSUM.
    pub psum: Vec<Slot>,
    /// Number of inputs.
    pub ins: Option<usize>,
    /// Core whose semaphore the completion bytes of a transfer update, when it is not the own one.
    pub target: Option<u32>,
    /// Attributes; `None` removes one.
    pub attrs: Vec<(Attr, Option<AttrValue>)>,
}

impl Patch {
    /// Nothing to say.
    pub fn is_empty(&self) -> bool {
        let Patch { opcode, dtypes, parts, psum, ins, target, attrs } = self;
        opcode.is_none()
            && dtypes.is_empty()
            && parts.is_empty()
            && psum.is_empty()
            && ins.is_none()
            && target.is_none()
            && attrs.is_empty()
    }

    /// The patch that turns a draft into the expected instruction.
    pub fn between(expected: &Inst, d: &Draft, psum: MemLocId) -> Patch {
        let mut p = Patch::default();
        if expected.opcode != d.inst.opcode {
            p.opcode = Some(expected.opcode);
        }
        if expected.ins.len() != natural_ins(d) {
            p.ins = Some(expected.ins.len());
        }
        let slots = expected
            .ins
            .iter()
            .enumerate()
            .map(|(i, o)| (Slot::In(i as u8), o, d.ins.get(i)))
            .chain(expected.outs.iter().enumerate().map(|(i, o)| (Slot::Out(i as u8), o, d.out.get(i))));
        for (s, o, draft) in slots {
            let Some(draft) = draft else { continue };
            if draft.kind == OpKind::Made {
                continue;
            }
            let dtype = match o {
                Operand::Ap(a) => Some(a.dtype),
                Operand::Imm(i) => Some(i.dtype),
                Operand::Reg(r) => Some(r.dtype),
                Operand::Other(_) => None,
            };
            if let Some(t) = dtype
                && draft.dtype != Some(t)
                && default_dtype(draft.kind, d) != (draft.dtype, t)
            {
                p.dtypes.push((s, t));
            }
            if let Operand::Ap(a) = o {
                let natural = d.natural_parts(s);
                if a.num_partitions() != natural {
                    p.parts.push((s, a.num_partitions()));
                }
                if a.dynamic.is_some() && a.loc == psum {
                    p.psum.push(s);
                }
            }
        }
        for (a, v) in expected.attrs.iter() {
            if d.inst.attrs.get(a) != Some(v) {
                p.attrs.push((a, Some(v.clone())));
            }
        }
        for (a, _) in d.inst.attrs.iter() {
            if expected.attrs.get(a).is_none() {
                p.attrs.push((a, None));
            }
        }
        p
    }

    /// Applies the patch to a draft; number of inputs.
    fn apply(&self, d: &mut Draft) -> usize {
        for (s, t) in &self.dtypes {
            d.slot(*s).dtype = Some(*t);
        }
        for (s, n) in &self.parts {
            d.slot(*s).parts = *n;
        }
        for s in &self.psum {
            d.slot(*s).psum = true;
        }
        let ins = self.ins.unwrap_or_else(|| natural_ins(d)).min(MAX_INS);
        apply_attrs(&mut d.inst, self);
        ins
    }

    /// Applies the patch and assembles.
    ///
    /// # Errors
    /// E0104 when the result is no instruction.
    pub fn finish(&self, mut d: Draft, ctx: &DecodeCtx<'_>) -> WireResult<(Inst, i64)> {
        self.finish_in(&mut d, ctx)
    }

    /// The same with a draft that is used again.
    pub(crate) fn finish_in(&self, d: &mut Draft, ctx: &DecodeCtx<'_>) -> WireResult<(Inst, i64)> {
        let ins = self.apply(d);
        assemble(d, ins, ctx)
    }

    /// The patched draft is the expected instruction: what [`Patch::finish`] and [`same`] would find, without building the
    /// instruction. Gives the branch displacement.
    ///
    /// # Errors
    /// E0104 when the result is no instruction, E0011 naming the first difference.
    pub fn verify(&self, d: &mut Draft, expected: &Inst, ctx: &DecodeCtx<'_>) -> WireResult<i64> {
        let differs = |what: String| WireError::new(codes::E0011, what);
        let ins = self.apply(d);
        if expected.opcode != d.inst.opcode {
            return Err(differs(format!("type {} became {}", expected.opcode, d.inst.opcode)));
        }
        if expected.ins.len() != ins || expected.outs.len() != usize::from(d.outs) {
            return Err(differs(format!("{ins} inputs and {} outputs read back", d.outs)));
        }
        let all = expected
            .ins
            .iter()
            .enumerate()
            .map(|(i, o)| (Slot::In(i as u8), o))
            .chain(expected.outs.iter().enumerate().map(|(i, o)| (Slot::Out(i as u8), o)));
        for (s, want) in all {
            let got = operand_of(d, s, ctx)?;
            if got != *want {
                return Err(differs(format!("{s:?} {want:?} became {got:?}")));
            }
        }
        if expected.attrs != d.inst.attrs {
            return Err(differs(format!("attributes {:?} became {:?}", expected.attrs, d.inst.attrs)));
        }
        let (e, g) = (expected.sync(), d.sync());
        if e != g {
            return Err(differs(format!("waits and updates {e:?} became {g:?}")));
        }
        Ok(d.displacement)
    }

    /// The patch as canonical JSON.
    pub fn to_json(&self) -> Value {
        let mut o = Map::new();
        if let Some(op) = self.opcode {
            o.insert("opcode".into(), json!(op.ordinal()));
        }
        if !self.dtypes.is_empty() {
            o.insert("dtypes".into(), pairs(self.dtypes.iter().map(|(s, t)| (*s, u64::from(t.ordinal())))));
        }
        if !self.parts.is_empty() {
            o.insert("parts".into(), pairs(self.parts.iter().map(|(s, n)| (*s, *n))));
        }
        if !self.psum.is_empty() {
            o.insert("psum".into(), Value::Array(self.psum.iter().map(|s| json!(slot_code(*s))).collect()));
        }
        if let Some(n) = self.ins {
            o.insert("ins".into(), json!(n));
        }
        if let Some(t) = self.target {
            o.insert("target".into(), json!(t));
        }
        if !self.attrs.is_empty() {
            let m: Map<String, Value> = self
                .attrs
                .iter()
                .map(|(a, v)| (a.key().to_owned(), v.as_ref().map_or(Value::Null, attr_json)))
                .collect();
            o.insert("attrs".into(), Value::Object(m));
        }
        Value::Object(o)
    }

    /// Reads the JSON form; `None` when it has another shape.
    pub fn from_json(v: &Value) -> Option<Patch> {
        let o = v.as_object()?;
        let mut p = Patch::default();
        for (k, v) in o {
            match k.as_str() {
                "opcode" => p.opcode = Some(Opcode::from_ordinal(u16::try_from(v.as_u64()?).ok()?)?),
                "dtypes" => {
                    for (s, t) in read_pairs(v)? {
                        p.dtypes.push((s, Dtype::from_ordinal(u16::try_from(t).ok()?)?));
                    }
                }
                "parts" => {
                    p.parts = read_pairs(v)?;
                    if p.parts.iter().any(|(_, n)| !(1..=128).contains(n)) {
                        return None;
                    }
                }
                "psum" => {
                    for s in v.as_array()? {
                        p.psum.push(slot_of(s.as_u64()?)?);
                    }
                }
                "ins" => p.ins = Some(usize::try_from(v.as_u64()?).ok().filter(|n| *n <= MAX_INS)?),
                "target" => p.target = Some(u32::try_from(v.as_u64()?).ok().filter(|t| *t < 256)?),
                "attrs" => {
                    for (k, v) in v.as_object()? {
                        let a = Attr::from_key(k)?;
                        p.attrs.push((a, if v.is_null() { None } else { Some(attr_value(v)?) }));
                    }
                    p.attrs.sort_by_key(|(a, _)| *a);
                }
                _ => return None,
            }
        }
        Some(p)
    }
}

/// Sets the patched opcode and attributes.
pub fn apply_attrs(inst: &mut Inst, p: &Patch) {
    if let Some(op) = p.opcode {
        inst.opcode = op;
    }
    for (a, v) in &p.attrs {
        match v {
            None => {
                inst.attrs.remove(*a);
            }
            Some(v) if inst.spec().attr(*a).is_some() => inst.set(*a, v.clone()),
            Some(_) => {}
        }
    }
}

/// `(what the draft has, what it defaults to)` for comparison.
fn default_dtype(kind: OpKind, d: &Draft) -> (Option<Dtype>, Dtype) {
    match kind {
        OpKind::Imm => (None, d.imm_dtype()),
        OpKind::Reg => (None, Dtype::Uint32),
        OpKind::Ap | OpKind::Absent | OpKind::Made => (None, Dtype::Float32),
    }
}

fn slot_code(s: Slot) -> u64 {
    match s {
        Slot::In(i) => u64::from(i),
        Slot::Out(i) => 16 + u64::from(i),
    }
}

fn slot_of(v: u64) -> Option<Slot> {
    match v {
        0..=5 => Some(Slot::In(v as u8)),
        16..=17 => Some(Slot::Out(v as u8 - 16)),
        _ => None,
    }
}

fn pairs(it: impl Iterator<Item = (Slot, u64)>) -> Value {
    Value::Array(it.map(|(s, v)| json!([slot_code(s), v])).collect())
}

fn read_pairs(v: &Value) -> Option<Vec<(Slot, u64)>> {
    v.as_array()?
        .iter()
        .map(|p| match p.as_array()?.as_slice() {
            [s, n] => Some((slot_of(s.as_u64()?)?, n.as_u64()?)),
            _ => None,
        })
        .collect()
}

/// An attribute value as JSON with integers only: a kind letter and the value.
pub fn attr_json(v: &AttrValue) -> Value {
    match v {
        AttrValue::Bool(b) => json!(["b", u8::from(*b)]),
        AttrValue::Int(i) => json!(["i", i]),
        AttrValue::F32(f) => json!(["f", f.0.to_bits()]),
        AttrValue::Enum(o) => json!(["e", o]),
        AttrValue::Str(s) => json!(["s", s.as_str()]),
        AttrValue::Ints(l) => json!(["l", l]),
        AttrValue::Floats(l) => json!(["g", l.iter().map(|f| f.0.to_bits()).collect::<Vec<_>>()]),
        AttrValue::Groups(l) => json!(["m", l.iter().map(|r| r.to_vec()).collect::<Vec<_>>()]),
        AttrValue::Pairs(l) => json!(["p", l.iter().map(|p| (p.step, p.num)).collect::<Vec<_>>()]),
        AttrValue::Strs(l) => json!(["t", l.iter().map(|s| s.as_str()).collect::<Vec<_>>()]),
        AttrValue::Json(j) if whole_numbers(j) => json!(["j", j]),
        AttrValue::Expr(_) | AttrValue::Exprs(_) | AttrValue::Json(_) => Value::Null,
    }
}

/// Tables hold integers only, nested no deeper than a reader likes.
fn whole_numbers(v: &Value) -> bool {
    fn walk(v: &Value, depth: u32) -> bool {
        depth < 16
            && match v {
                Value::Number(n) => n.is_i64() || n.is_u64(),
                Value::Array(a) => a.iter().all(|v| walk(v, depth + 1)),
                Value::Object(o) => o.values().all(|v| walk(v, depth + 1)),
                Value::Null | Value::Bool(_) | Value::String(_) => true,
            }
    }
    walk(v, 0)
}

/// Reads what [`attr_json`] wrote.
pub fn attr_value(v: &Value) -> Option<AttrValue> {
    let [k, v] = v.as_array()?.as_slice() else { return None };
    let bits = |v: &Value| Some(F32(f32::from_bits(u32::try_from(v.as_u64()?).ok()?)));
    Some(match k.as_str()? {
        "b" => AttrValue::Bool(v.as_u64()? != 0),
        "i" => AttrValue::Int(v.as_i64()?),
        "f" => AttrValue::F32(bits(v)?),
        "e" => AttrValue::Enum(u16::try_from(v.as_u64()?).ok()?),
        "s" => AttrValue::Str(v.as_str()?.into()),
        "l" => AttrValue::Ints(v.as_array()?.iter().map(Value::as_i64).collect::<Option<Vec<_>>>()?.into()),
        "g" => AttrValue::Floats(v.as_array()?.iter().map(bits).collect::<Option<Vec<_>>>()?.into()),
        "m" => AttrValue::Groups(
            v.as_array()?
                .iter()
                .map(|r| Some(r.as_array()?.iter().map(Value::as_i64).collect::<Option<Vec<_>>>()?.into()))
                .collect::<Option<Vec<Box<[i64]>>>>()?
                .into(),
        ),
        "p" => AttrValue::Pairs(
            v.as_array()?
                .iter()
                .map(|r| match r.as_array()?.as_slice() {
                    [s, n] => Some(tandem_bir::ApPair::new(s.as_i64()?, n.as_u64()?)),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        "j" => AttrValue::Json(v.clone().into()),
        "t" => AttrValue::Strs(
            v.as_array()?.iter().map(|s| Some(s.as_str()?.into())).collect::<Option<Vec<_>>>()?.into(),
        ),
        _ => return None,
    })
}

/// Compares what matters of two instructions: type, operands, attributes.
///
/// # Errors
/// E0011 naming the first difference.
pub fn same(expected: &Inst, got: &Inst) -> WireResult<()> {
    let differs = |what: String| Err(WireError::new(codes::E0011, what));
    if expected.opcode != got.opcode {
        return differs(format!("type {} became {}", expected.opcode, got.opcode));
    }
    if expected.ins != got.ins {
        return differs(format!("inputs {:?} became {:?}", expected.ins, got.ins));
    }
    if expected.outs != got.outs {
        return differs(format!("outputs {:?} became {:?}", expected.outs, got.outs));
    }
    if expected.attrs != got.attrs {
        return differs(format!("attributes {:?} became {:?}", expected.attrs, got.attrs));
    }
    Ok(())
}
