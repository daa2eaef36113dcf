//! JSON to instructions, operands and attributes.

use super::cursor::Kind;
use super::read::{PendingDep, PendingLoc, R, Reader, Stop};
use crate::ap::{AccessPattern, ApPair, ApPairs, DynamicAp};
use crate::diag::codes::{P0104, P0105, P0108, P0109, P0110, P0111, P0113};
use crate::diag::{Loc, LocEntry, SourcePos};
use crate::dtype::Dtype;
use crate::enums::{BirEnum, EdgeKind, EngineKind, IndirectDim};
use crate::expr::Expr;
use crate::ids::{BlockId, InstId, MemLocId, RegId, SetId};
use crate::inst::{
    Attr, AttrSpec, AttrType, AttrValue, ImmValue, Immediate, Inst, InstMore, Opcode, Operand, OperandExtra,
    OperandList, OtherOperand, Presence, RegAccess, SemUpdate, SemWait, SyncInfo,
};
use crate::module::Extra;
use crate::text::parse::MAX_DEPTH;
use compact_str::CompactString;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Members of an instruction that wait until its opcode is known: key and offset of the value.
type Later<'s> = SmallVec<[(Cow<'s, str>, usize); 16]>;

/// Members of an operand, in whatever order they come.
#[derive(Default)]
struct Parts<'s> {
    kind: Option<Cow<'s, str>>,
    dtype: Option<Dtype>,
    ap: ApPairs,
    offset: i64,
    memref: Option<Cow<'s, str>>,
    memsetref: Option<Cow<'s, str>>,
    owner: Option<Cow<'s, str>>,
    regref: Option<Cow<'s, str>>,
    const_offset: i64,
    /// Offsets of values that need other members first.
    value: Option<usize>,
    values: Option<usize>,
    addrs: Option<usize>,
    expr: Option<usize>,
    dynamic: Option<usize>,
    extra: Extra,
}

impl<'s> Reader<'s, '_> {
    pub(super) fn inst(&mut self, block: BlockId) -> R<InstId> {
        let at = self.at()?;
        if self.depth >= MAX_DEPTH {
            self.error(P0105, at, format!("more than {MAX_DEPTH} levels of nested blocks"))?;
            return Err(Stop);
        }
        let id = self.m.insts.push(Inst::new("", Opcode::NoOp));
        let mut inst = Inst::new("", Opcode::NoOp);
        let mut more = InstMore::default();
        let mut opcode = None;
        let mut later: Later<'s> = Later::new();
        let mut regions_at = None;
        let mut debug_rest = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "name" => inst.name = self.name()?,
                "opcode" => opcode = Some(self.opcode()?),
                "engine" => inst.engine = self.engine()?.unwrap_or(EngineKind::Unassigned),
                "engine_id" => more.engine_id = self.int()?.unwrap_or(0),
                "origin" => inst.origin = self.member()?.unwrap_or(inst.origin),
                "optin_passes" => more.optin_passes = self.names()?,
                "scheduled_start" => more.scheduled_start = self.int()?.unwrap_or(0),
                "scheduled_end" => more.scheduled_end = self.int()?.unwrap_or(0),
                "dependencies" => self.read_deps(id, block, false)?,
                "loop_carried_dependencies" => self.read_deps(id, block, true)?,
                "unroll_dependencies" => more.unroll_deps = Some(self.value()?),
                "sync_info" => {
                    if self.is_null()? {
                        self.skip()?;
                    } else {
                        more.sync = Some(self.sync_info()?);
                    }
                }
                "ins" => inst.ins = self.operand_list(id, OperandList::Ins, &mut more)?,
                "outs" => inst.outs = self.operand_list(id, OperandList::Outs, &mut more)?,
                "indirection_ins" => {
                    more.indirection_ins = self.operand_list(id, OperandList::Indirection, &mut more)?;
                }
                "debug" if self.kind()? == Kind::Object => {
                    let rest = self.debug(&mut inst, &mut more)?;
                    debug_rest = rest;
                }
                "loopnest" => more.loopnest = self.names()?,
                "predicates" => more.predicates = self.exprs()?,
                "order" => more.order = self.exprs()?,
                "blocks" => {
                    regions_at = Some(self.at()?);
                    self.skip()?;
                }
                _ => {
                    later.push((key, self.at()?));
                    self.skip()?;
                }
            }
        }
        let end = self.at()?;
        match opcode {
            Some(Some(op)) => inst.opcode = op,
            Some(None) => return Ok(id),
            None => {
                self.error(P0110, at, format!("the instruction `{}` needs `opcode`", inst.name))?;
                return Ok(id);
            }
        }
        self.attributes(at, &mut inst, later, &mut more.extra)?;
        if let Some(d) = debug_rest {
            more.extra.get_or_insert_default().insert("debug".to_owned(), d);
        }
        if let Some(at) = regions_at {
            // The owner's name must be in place before its body is read.
            self.seek(at);
            self.depth += 1;
            more.regions = self.blocks()?;
            self.depth -= 1;
        }
        self.seek(end);
        more.operand_extra.sort_by_key(|x| (x.list, x.index));
        if more != InstMore::default() {
            inst.more = Some(Box::new(more));
        }
        inst.shrink_to_fit();
        self.m.insts[id] = inst;
        Ok(id)
    }

    fn opcode(&mut self) -> R<Option<Opcode>> {
        let at = self.at()?;
        let Some(name) = self.text()? else { return Ok(None) };
        let op = Opcode::from_name(&name);
        if op.is_none() {
            self.error(P0111, at, format!("`{name}` is no instruction type"))?;
        }
        Ok(op)
    }

    fn read_deps(&mut self, inst: InstId, block: BlockId, carried: bool) -> R<()> {
        let at = self.at()?;
        if self.kind()? != Kind::Array {
            let key = if carried { "loop_carried_dependencies" } else { "dependencies" };
            self.error(P0109, at, format!("'{key}' must be a JSON array"))?;
            return self.skip();
        }
        let start = self.deps.len();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            let at = self.at()?;
            let mut name = None;
            let mut kind = EdgeKind::Flow;
            if self.kind()? == Kind::String {
                name = self.text()?;
            } else {
                let mut i = 0;
                let mut first = self.array()?;
                while self.element(&mut first)? {
                    match i {
                        0 => name = self.text()?,
                        1 => kind = self.edge_kind()?,
                        _ => self.skip()?,
                    }
                    i += 1;
                }
            }
            let Some(name) = name else {
                self.error(P0109, at, "a dependency is a name or a pair of name and kind")?;
                continue;
            };
            if carried {
                kind = EdgeKind::Flow;
            } else if let Some(same) = self.deps.get_mut(start..).and_then(|d| {
                // The same producer again keeps the larger kind. Long lists come from fences and name each once.
                if d.len() > 64 { None } else { d.iter_mut().find(|d| d.name == name) }
            }) {
                same.kind = same.kind.max(kind);
                continue;
            }
            self.deps.push(PendingDep { inst, block, carried, kind, name, at });
        }
        Ok(())
    }
    fn edge_kind(&mut self) -> R<EdgeKind> {
        let at = self.at()?;
        if self.kind()? == Kind::Number {
            let v = self.int()?.unwrap_or(0);
            let k = u16::try_from(v).ok().and_then(EdgeKind::from_ordinal);
            if k.is_none() {
                self.unknown(EdgeKind::TABLE, &v.to_string(), at)?;
            }
            return Ok(k.unwrap_or(EdgeKind::Flow));
        }
        Ok(self.member()?.unwrap_or(EdgeKind::Flow))
    }

    fn sync_info(&mut self) -> R<SyncInfo> {
        let mut s = SyncInfo::default();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "on_wait" => {
                    let mut more = self.array()?;
                    while self.element(&mut more)? {
                        let mut w = SemWait::default();
                        let mut first = self.object()?;
                        while let Some(key) = self.key(&mut first)? {
                            match &*key {
                                "id" => w.sem = self.u32()?.unwrap_or(0),
                                "wait_value" => w.value = self.int()?.unwrap_or(0),
                                "from" => w.from = Some(self.name()?),
                                _ => self.keep(&mut w.extra, key)?,
                            }
                        }
                        s.on_wait.push(w);
                    }
                }
                "on_update" => {
                    let mut more = self.array()?;
                    while self.element(&mut more)? {
                        let mut u = SemUpdate::default();
                        let mut first = self.object()?;
                        while let Some(key) = self.key(&mut first)? {
                            match &*key {
                                "id" => u.sem = self.u32()?.unwrap_or(0),
                                "update_value" => u.value = self.int()?.unwrap_or(0),
                                "target_core" => u.target_core = self.u32()?,
                                _ => self.keep(&mut u.extra, key)?,
                            }
                        }
                        s.on_update.push(u);
                    }
                }
                _ => self.keep(&mut s.extra, key)?,
            }
        }
        Ok(s)
    }

    /// Source position and label; gives back the members that the model does not name.
    fn debug(&mut self, inst: &mut Inst, more: &mut InstMore) -> R<Option<serde_json::Value>> {
        let mut file = None;
        let mut pos = SourcePos {
            file: CompactString::default(),
            line: 0,
            column: 0,
            end_line: None,
            end_column: None,
        };
        let mut entry = None;
        let mut passes = Vec::new();
        let mut derived = false;
        let mut rest: Extra = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "filename" if self.kind()? == Kind::String => file = Some(self.name()?),
                "lineno" if self.kind()? == Kind::Number => pos.line = self.u32()?.unwrap_or(0),
                "op_name" if self.kind()? == Kind::String => more.label = Some(self.name()?),
                "tandem" => {
                    let mut first = self.object()?;
                    while let Some(key) = self.key(&mut first)? {
                        match &*key {
                            "column" => pos.column = self.u32()?.unwrap_or(0),
                            "end_line" => pos.end_line = self.u32()?,
                            "end_column" => pos.end_column = self.u32()?,
                            "byte" => entry = self.u64()?.map(LocEntry::Byte),
                            "json" => entry = Some(LocEntry::Json(self.name()?)),
                            "via" => {
                                derived = true;
                                passes = self.names()?;
                            }
                            _ => self.skip()?,
                        }
                    }
                }
                _ => self.keep(&mut rest, key)?,
            }
        }
        if let Some(f) = file {
            pos.file = f;
            entry = Some(LocEntry::Pos(pos));
        } else if pos.line != 0 {
            rest.get_or_insert_default().insert("lineno".to_owned(), pos.line.into());
        }
        let mut loc = entry.map_or(Loc::NONE, |e| self.locs.intern(e));
        if derived {
            for p in &passes {
                loc = self.locs.derive(p, loc);
            }
        }
        inst.loc = loc;
        Ok(rest.map(|m| serde_json::Value::Object(*m)))
    }

    fn exprs(&mut self) -> R<Vec<Expr>> {
        let mut out = Vec::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            out.extend(self.expr()?);
        }
        Ok(out)
    }

    // ---- attributes ----
    fn attributes(&mut self, at: usize, inst: &mut Inst, later: Later<'s>, extra: &mut Extra) -> R<()> {
        let spec = inst.spec();
        let mut given: u128 = 0;
        let mut nested = None;
        let mut calc: [Option<bool>; 2] = [None, None];
        for (key, value_at) in later {
            self.seek(value_at);
            if key == "cc_channel"
                && self.kind()? == Kind::Object
                && !self.peek_kind().is_some_and(|k| k.ends_with("Kind") || k == "IndirectArgId")
                && spec.attr(Attr::CcChannel).is_some()
            {
                nested = Some(value_at);
                continue;
            }
            if matches!(&*key, "start_tensor_calc" | "stop_tensor_calc")
                && spec.attr(Attr::AccumulationFlag).is_some()
            {
                calc[usize::from(key == "stop_tensor_calc")] = self.bool()?;
                continue;
            }
            match self.declared(inst.opcode, &key) {
                Some(s) => self.attribute(inst, s, &mut given, extra, key)?,
                None => self.keep(extra, key)?,
            }
        }
        if let Some(value_at) = nested {
            self.nested_collective(inst, value_at, &mut given, extra)?;
        }
        if calc != [None, None] && inst.attrs.get(Attr::AccumulationFlag).is_none() {
            // Encoder bits: START 1, STOP 2, ACCUMULATE 4.
            let start = if calc[0] == Some(true) { 1 } else { 4 };
            let stop = if calc[1] == Some(true) { 2 } else { 0 };
            inst.set(Attr::AccumulationFlag, start | stop);
            given |= bit(spec.attrs, Attr::AccumulationFlag);
        }
        for s in spec.attrs {
            if s.presence == Presence::Required && given & bit(spec.attrs, s.attr) == 0 {
                let text = format!("{} `{}` needs `{}`", inst.opcode, inst.name, s.attr.key());
                self.error(P0110, at, text)?;
            }
        }
        Ok(())
    }
    fn peek_kind(&mut self) -> Option<String> {
        self.peek_member("kind").map(Cow::into_owned)
    }
    fn declared(&self, opcode: Opcode, key: &str) -> Option<&'static AttrSpec> {
        let key = match key {
            "onTrue" => "on_true",
            "onFalse" => "on_false",
            k => k,
        };
        opcode.spec().attr(Attr::from_key(key)?)
    }
    /// The older form of a collective: kind, groups and operation inside `cc_channel`.
    fn nested_collective(
        &mut self,
        inst: &mut Inst,
        at: usize,
        given: &mut u128,
        extra: &mut Extra,
    ) -> R<()> {
        self.seek(at);
        let spec = inst.spec();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            let key: Cow<'s, str> = match &*key {
                "id" | "channel_id" | "channel" => Cow::Borrowed("cc_channel"),
                _ => key,
            };
            match self.declared(inst.opcode, &key) {
                Some(s) if *given & bit(spec.attrs, s.attr) == 0 => {
                    self.attribute(inst, s, given, extra, key)?
                }
                Some(_) => self.skip()?,
                None => self.keep(extra, key)?,
            }
        }
        Ok(())
    }

    /// One declared attribute; the cursor is on its value.
    fn attribute(
        &mut self,
        inst: &mut Inst,
        s: &'static AttrSpec,
        given: &mut u128,
        extra: &mut Extra,
        key: Cow<'s, str>,
    ) -> R<()> {
        if self.is_null()? && s.ty != AttrType::Json {
            return self.skip();
        }
        if s.attr == Attr::Queue && self.kind()? != Kind::String {
            // Sources disagree about the type of this field; anything else is kept as it is.
            return self.keep(extra, key);
        }
        *given |= bit(inst.spec().attrs, s.attr);
        let at = self.at()?;
        if let Some(v) = self.attr_value(s)? {
            match &v {
                AttrValue::Str(name) if s.ty == AttrType::BlockName => {
                    self.targets.push((Cow::Owned(name.to_string()), at));
                }
                AttrValue::Str(name) if s.attr == Attr::Queue => self.queue_uses.push((name.clone(), at)),
                AttrValue::Ints(v) if unset_tile(s.attr, v) => return Ok(()),
                _ => {}
            }
            inst.set(s.attr, v);
        }
        Ok(())
    }

    fn attr_value(&mut self, s: &AttrSpec) -> R<Option<AttrValue>> {
        if s.affine && self.kind()? == Kind::Object {
            return Ok(self.expr()?.map(|e| AttrValue::Expr(Box::new(e))));
        }
        Ok(match s.ty {
            AttrType::Bool => self.bool()?.map(AttrValue::Bool),
            AttrType::Int if self.kind()? == Kind::Bool => self.bool()?.map(|b| AttrValue::Int(i64::from(b))),
            AttrType::Int => self.int()?.map(AttrValue::Int),
            AttrType::F32 => self.float()?.map(AttrValue::F32),
            AttrType::Enum(t) => {
                let at = self.at()?;
                match self.text()? {
                    Some(name) => {
                        let o = t.ordinal(&name);
                        if o.is_none() {
                            self.unknown(t, &name, at)?;
                        }
                        o.map(AttrValue::Enum)
                    }
                    None => None,
                }
            }
            AttrType::Str | AttrType::BlockName => self.text()?.map(|t| AttrValue::Str(t.into())),
            AttrType::Ints => Some(AttrValue::Ints(self.ints()?.into())),
            AttrType::Floats => {
                let mut out = Vec::new();
                let mut more = self.array()?;
                while self.element(&mut more)? {
                    out.extend(self.float()?);
                }
                Some(AttrValue::Floats(out.into()))
            }
            AttrType::Strs => Some(AttrValue::Strs(self.names()?.into())),
            AttrType::Groups => {
                let mut out: Vec<Box<[i64]>> = Vec::new();
                let mut more = self.array()?;
                while self.element(&mut more)? {
                    out.push(self.ints()?.into());
                }
                Some(AttrValue::Groups(out.into()))
            }
            AttrType::Pairs => Some(AttrValue::Pairs(self.pairs()?.to_vec().into())),
            AttrType::Expr => self.expr()?.map(|e| AttrValue::Expr(Box::new(e))),
            AttrType::Exprs if self.kind()? == Kind::Array => Some(AttrValue::Exprs(self.exprs()?.into())),
            AttrType::Exprs => self.expr()?.map(|e| AttrValue::Exprs(Box::new([e]))),
            AttrType::Json => Some(AttrValue::Json(Box::new(self.value()?))),
        })
    }

    fn pairs(&mut self) -> R<ApPairs> {
        let mut out = ApPairs::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            let at = self.at()?;
            let mut first = self.array()?;
            let (mut step, mut num, mut n) = (None, None, 0);
            while self.element(&mut first)? {
                match n {
                    0 => step = self.int()?,
                    1 => num = self.u64()?,
                    _ => self.skip()?,
                }
                n += 1;
            }
            if n != 2 {
                self.error(P0109, at, "a pair is [step, num]")?;
            }
            out.push(ApPair::new(step.unwrap_or(0), num.unwrap_or(0)));
        }
        Ok(out)
    }

    // ---- operands ----
    fn operand_list(&mut self, inst: InstId, list: OperandList, more: &mut InstMore) -> R<Vec<Operand>> {
        let mut scratch = std::mem::take(&mut self.operands);
        scratch.clear();
        let mut first = self.array()?;
        while self.element(&mut first)? {
            let index = scratch.len();
            if let Some(o) = self.operand(inst, list, index, more)? {
                scratch.push(o);
            }
        }
        // An exact copy: most lists hold one or two operands, and growing would reserve four.
        let mut out = Vec::with_capacity(scratch.len());
        out.append(&mut scratch);
        self.operands = scratch;
        Ok(out)
    }

    fn operand(
        &mut self,
        inst: InstId,
        list: OperandList,
        index: usize,
        more: &mut InstMore,
    ) -> R<Option<Operand>> {
        let at = self.at()?;
        let mut p = Parts::default();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "kind" => p.kind = self.text()?,
                "dtype" => p.dtype = self.member()?,
                "ap" => p.ap = self.pairs()?,
                "offset" => p.offset = self.int()?.unwrap_or(0),
                "memref" => p.memref = self.text()?,
                "memsetref" => p.memsetref = self.text()?,
                "memref_owner_func" => p.owner = self.text()?,
                "regref" => p.regref = self.text()?,
                "const_ap_offset" => p.const_offset = self.int()?.unwrap_or(0),
                "access_shape" => self.skip()?,
                "value" => p.value = Some(self.note()?),
                "value_list" | "value_array" => p.values = Some(self.note()?),
                "addrs" => p.addrs = Some(self.note()?),
                "expr" => p.expr = Some(self.note()?),
                "dynamic_ap_info" => p.dynamic = Some(self.note()?),
                _ => self.keep(&mut p.extra, key)?,
            }
        }
        let end = self.at()?;
        let Some(kind) = p.kind.take() else {
            self.error(P0110, at, "an operand needs `kind`")?;
            return Ok(None);
        };
        let Some(dtype) = p.dtype else {
            self.error(P0110, at, "an operand needs `dtype`")?;
            return Ok(None);
        };
        let extra = p.extra.take();
        let mut own_extra = None;
        let out = match &*kind {
            "physical_ap" => self.physical(at, dtype, &mut p, (inst, list, index))?.map(Operand::Ap),
            "register_access" => self.reg(at, &p)?.map(|reg| Operand::Reg(RegAccess { reg, dtype })),
            "imm_value" => match p.value {
                Some(v) => {
                    self.seek(v);
                    self.immediate(dtype)?.map(Operand::Imm)
                }
                None => {
                    self.error(P0110, at, "an immediate needs `value`")?;
                    None
                }
            },
            "symbolic_ap" | "symbolic_pwap" => {
                own_extra = extra.clone();
                let addrs = self.later(p.addrs, Self::exprs)?.unwrap_or_default();
                self.set_named(at, &p)?.map(|set| {
                    other(OtherOperand::Symbolic {
                        pwap: kind == "symbolic_pwap",
                        set,
                        dtype,
                        pairs: std::mem::take(&mut p.ap),
                        addrs,
                        extra: extra.clone(),
                    })
                })
            }
            "register_ap" => {
                own_extra = extra.clone();
                match (self.set_named(at, &p)?, self.reg(at, &p)?) {
                    (Some(set), Some(reg)) => Some(other(OtherOperand::RegisterAp {
                        set,
                        reg,
                        dtype,
                        pairs: std::mem::take(&mut p.ap),
                        const_offset: p.const_offset,
                        extra: extra.clone(),
                    })),
                    _ => None,
                }
            }
            "imm_array" => {
                let values = self.later(p.values, |r| r.immediates(dtype))?.unwrap_or_default();
                Some(other(OtherOperand::ImmArray { dtype, values }))
            }
            "symbolic_imm_value" => {
                let values = self.later(p.values, |r| r.immediates(dtype))?.unwrap_or_default();
                match self.later(p.expr, Self::expr)? {
                    Some(Some(expr)) => Some(other(OtherOperand::SymbolicImm { dtype, values, expr })),
                    Some(None) => None,
                    None => {
                        self.error(P0110, at, "a symbolic immediate needs `expr`")?;
                        None
                    }
                }
            }
            _ => {
                self.error(P0113, at, format!("Unsupported argument kind: {kind}"))?;
                None
            }
        };
        self.seek(end);
        if own_extra.is_none()
            && let Some(extra) = extra
        {
            more.operand_extra.push(OperandExtra { list, index: index as u32, extra: *extra });
        }
        Ok(out)
    }
    /// Offset of the next value, which is skipped.
    fn note(&mut self) -> R<usize> {
        let at = self.at()?;
        self.skip()?;
        Ok(at)
    }
    /// Reads a noted value.
    fn later<T>(&mut self, at: Option<usize>, f: impl FnOnce(&mut Self) -> R<T>) -> R<Option<T>> {
        let Some(at) = at else { return Ok(None) };
        let back = self.seek(at);
        let out = f(self)?;
        self.seek(back);
        Ok(Some(out))
    }

    fn immediates(&mut self, dtype: Dtype) -> R<Vec<Immediate>> {
        let mut out = Vec::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            if self.kind()? == Kind::Object {
                let mut first = self.object()?;
                while let Some(key) = self.key(&mut first)? {
                    if key == "value" { out.extend(self.immediate(dtype)?) } else { self.skip()? }
                }
            } else {
                out.extend(self.immediate(dtype)?);
            }
        }
        Ok(out)
    }
    fn immediate(&mut self, dtype: Dtype) -> R<Option<Immediate>> {
        if !dtype.is_int() {
            return Ok(self.float()?.map(|f| Immediate { dtype, value: ImmValue::Float(f) }));
        }
        let at = self.at()?;
        let Some(text) = self.number()? else { return Ok(None) };
        let value = text.parse::<i64>().ok().or_else(|| {
            // Some writers put integers as floats.
            let f = text.parse::<f64>().ok()?;
            (f.fract() == 0.0 && f.abs() < 9.0e15).then_some(f as i64)
        });
        if value.is_none() {
            self.error(P0104, at, format!("`{text}` does not fit: a whole number of 64 bits is wanted"))?;
        }
        Ok(value.map(|v| Immediate { dtype, value: ImmValue::Int(v) }))
    }

    fn reg(&mut self, at: usize, p: &Parts<'s>) -> R<Option<RegId>> {
        let Some(name) = &p.regref else {
            self.error(P0110, at, "a register operand needs `regref`")?;
            return Ok(None);
        };
        let found = self.find_reg(name);
        if found.is_none() {
            self.no_register(at, &name.clone())?;
        }
        Ok(found)
    }
    fn set_named(&mut self, at: usize, p: &Parts<'s>) -> R<Option<SetId>> {
        let Some(name) = &p.memsetref else {
            self.error(P0110, at, "this operand needs `memsetref`")?;
            return Ok(None);
        };
        let found = self.funcs.last().and_then(|f| f.sets.get(&**name).copied());
        if found.is_none() {
            self.error(P0108, at, format!("no set `{name}` in the function"))?;
        }
        Ok(found)
    }

    fn physical(
        &mut self,
        at: usize,
        dtype: Dtype,
        p: &mut Parts<'s>,
        place: (InstId, OperandList, usize),
    ) -> R<Option<AccessPattern>> {
        let Some(name) = p.memref.take() else {
            self.error(P0110, at, "an access pattern needs `memref`")?;
            return Ok(None);
        };
        let set = p.memsetref.take();
        let names = match &p.owner {
            None => self.funcs.last(),
            Some(f) => self.funcs.iter().find(|n| n.name == **f),
        };
        let loc = match (names, &p.owner) {
            (Some(n), _) => match n.loc(&self.m, &name, set.as_deref()) {
                Ok(l) => l,
                Err(why) => {
                    let set = set.map_or(String::new(), |s| format!(" of set `{s}`"));
                    self.error(P0108, at, format!("location `{name}`{set}: {why}"))?;
                    return Ok(None);
                }
            },
            (None, Some(f)) => {
                let (inst, list, index) = place;
                self.late.push(PendingLoc { inst, list, index, func: f.clone(), loc: name, set, at });
                MemLocId::from_u32(0)
            }
            (None, None) => return Ok(None),
        };
        let mut offset = p.offset;
        let dynamic = match self.later(p.dynamic, Self::dynamic)? {
            Some((d, c)) => {
                offset = c.unwrap_or(offset);
                Some(Box::new(d))
            }
            None => None,
        };
        Ok(Some(AccessPattern { loc, dtype, offset, pairs: std::mem::take(&mut p.ap), dynamic }))
    }

    /// The run-time part of an address, and its constant.
    fn dynamic(&mut self) -> R<(DynamicAp, Option<i64>)> {
        let mut d = DynamicAp { terms: Vec::new(), indirect_dim: 0, max_index: None };
        let mut c = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "aff_expr" => {
                    let mut more = self.array()?;
                    while self.element(&mut more)? {
                        let (mut coeff, mut expr) = (1, None);
                        let mut first = self.object()?;
                        while let Some(key) = self.key(&mut first)? {
                            match &*key {
                                "coeff" => coeff = self.int()?.unwrap_or(1),
                                "expr" => expr = self.expr()?,
                                _ => self.skip()?,
                            }
                        }
                        d.terms.extend(expr.map(|e| (coeff, e)));
                    }
                }
                "c" => c = self.int()?,
                "indirect_dim" if self.kind()? == Kind::Number => d.indirect_dim = self.int()?.unwrap_or(0),
                "indirect_dim" => {
                    d.indirect_dim = self.member::<IndirectDim>()?.map_or(0, |v| i64::from(v.ordinal()));
                }
                "indirect_dim_max_index" => d.max_index = self.int()?,
                _ => self.skip()?,
            }
        }
        Ok((d, c))
    }
}

fn other(o: OtherOperand) -> Operand {
    Operand::Other(Box::new(o))
}

/// Bit of an attribute in a set over a row's attributes (no row has more than 128; a test checks).
fn bit(attrs: &[AttrSpec], attr: Attr) -> u128 {
    attrs.iter().position(|s| s.attr == attr).map_or(0, |i| 1u128 << (i & 127))
}

/// The value that stands for "not set" of the two tile attributes.
pub(super) fn unset_tile(attr: Attr, v: &[i64]) -> bool {
    matches!(attr, Attr::TileSize | Attr::TilePosition) && v == [-1, -1]
}
