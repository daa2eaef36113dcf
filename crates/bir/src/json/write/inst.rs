//! Instructions and their operands as JSON.

use super::super::QUALIFIED;
use super::super::read_inst::unset_tile;
use super::{Field, Fields, Writer};
use crate::ap::{AccessPattern, DynamicAp};
use crate::diag::{Loc, LocEntry, LocTable};
use crate::enums::{BirEnum, EdgeKind, IndirectDim};
use crate::ids::{BlockId, MemLocId, RegId, SetId};
use crate::inst::{
    AttrType, AttrValue, Dep, F32, ImmValue, Inst, InstMore, Operand, OperandExtra, OperandList,
    OtherOperand, Presence,
};
use crate::module::Extra;
use crate::resolve::InstRef;
use serde_json::{Map, Value};
use std::io;

impl<'a> Writer<'a, '_> {
    pub(super) fn inst(&mut self, block: BlockId, inst: &'a Inst) -> io::Result<()> {
        let Inst { name, opcode, engine, origin, loc, ins: _, outs: _, attrs, deps, more } = inst;
        let mut f = Fields::new();
        f.push(("name", Field::Str(name)));
        f.push(("opcode", Field::Str(opcode.name())));
        f.push(("engine", Field::Str(engine.name())));
        f.push(("origin", Field::Str(origin.name())));
        f.push(("ins", Field::Operands(inst, OperandList::Ins)));
        f.push(("outs", Field::Operands(inst, OperandList::Outs)));
        if !deps.is_empty() {
            f.push(("dependencies", Field::Deps(block, deps)));
        }
        let (id, start, end, passes) = match more {
            Some(m) => (m.engine_id, m.scheduled_start, m.scheduled_end, m.optin_passes.as_slice()),
            None => (0, 0, 0, [].as_slice()),
        };
        f.push(("engine_id", Field::Int(id)));
        f.push(("scheduled_start", Field::Int(start)));
        f.push(("scheduled_end", Field::Int(end)));
        f.push(("optin_passes", Field::Names(passes)));
        for s in inst.spec().attrs {
            match attrs.get(s.attr) {
                Some(v) => f.push((s.attr.key(), Field::Attr(v, Some(s.ty)))),
                None if s.presence == Presence::Optional => {}
                None => f.extend(default_field(s).map(|d| (s.attr.key(), d))),
            }
        }
        let label = more.as_ref().is_some_and(|m| m.label.is_some());
        let kept = more.as_ref().and_then(|m| m.extra.as_ref()).and_then(|e| e.get("debug"));
        if (self.locs.get(*loc).is_some() || label) && kept.is_none_or(Value::is_object) {
            f.push(("debug", Field::Debug(inst)));
        }
        let Some(more) = more else {
            f.sort_unstable_by_key(|f| f.0);
            return self.members(&f);
        };
        let InstMore {
            engine_id: _,
            scheduled_start: _,
            scheduled_end: _,
            optin_passes: _,
            indirection_ins,
            loop_carried,
            unroll_deps,
            sync,
            label: _,
            loopnest,
            predicates,
            order,
            regions,
            operand_extra: _,
            extra,
        } = &**more;
        if !indirection_ins.is_empty() {
            f.push(("indirection_ins", Field::Operands(inst, OperandList::Indirection)));
        }
        if !loop_carried.is_empty() {
            f.push(("loop_carried_dependencies", Field::Deps(block, loop_carried)));
        }
        f.extend(unroll_deps.as_ref().map(|v| ("unroll_dependencies", Field::Value(v))));
        f.extend(sync.as_ref().map(|s| ("sync_info", Field::Sync(s))));
        if !loopnest.is_empty() {
            f.push(("loopnest", Field::Names(loopnest)));
        }
        if !predicates.is_empty() {
            f.push(("predicates", Field::Exprs(predicates)));
        }
        if !order.is_empty() {
            f.push(("order", Field::Exprs(order)));
        }
        if !regions.is_empty() {
            f.push(("blocks", Field::Blocks(regions)));
        }
        self.record(f, extra)
    }

    pub(super) fn debug(&mut self, inst: &'a Inst) -> io::Result<()> {
        let more = inst.more.as_deref();
        let kept =
            more.and_then(|m| m.extra.as_ref()).and_then(|e| e.get("debug")).and_then(Value::as_object);
        let mut f = Fields::new();
        let mut ours = false;
        if let Some(entry) = self.locs.get(inst.loc) {
            ours = !matches!(entry, LocEntry::Pos(p)
                if p.column == 0 && p.end_line.is_none() && p.end_column.is_none());
        }
        if let Some(LocEntry::Pos(p)) = root(self.locs, inst.loc).1 {
            f.push(("filename", Field::Str(&p.file)));
            f.push(("lineno", Field::U64(u64::from(p.line))));
        }
        f.extend(more.and_then(|m| m.label.as_ref()).map(|l| ("op_name", Field::Str(l))));
        if ours {
            f.push(("tandem", Field::Position(inst.loc)));
        }
        if let Some(kept) = kept {
            self.merge(&mut f, kept);
        }
        f.sort_unstable_by_key(|f| f.0);
        self.members(&f)
    }
    /// What `filename` and `lineno` cannot say about a position.
    pub(super) fn position(&mut self, loc: Loc) -> io::Result<()> {
        let (passes, entry) = root(self.locs, loc);
        let mut f = Fields::new();
        match entry {
            Some(LocEntry::Pos(p)) => {
                if p.column != 0 {
                    f.push(("column", Field::U64(u64::from(p.column))));
                }
                f.extend(p.end_column.map(|c| ("end_column", Field::U64(u64::from(c)))));
                f.extend(p.end_line.map(|c| ("end_line", Field::U64(u64::from(c)))));
            }
            Some(LocEntry::Byte(b)) => f.push(("byte", Field::U64(*b))),
            Some(LocEntry::Json(j)) => f.push(("json", Field::Str(j))),
            Some(LocEntry::Derived { .. }) | None => {}
        }
        if passes.is_empty() {
            return self.members(&f);
        }
        // The list of passes lives only here: written in place.
        f.sort_unstable_by_key(|f| f.0);
        self.buf.push(b'{');
        self.indent += 1;
        for (key, field) in &f {
            self.newline();
            self.text(key);
            self.buf.extend_from_slice(b": ");
            self.field(*field)?;
            self.buf.push(b',');
        }
        self.newline();
        self.buf.extend_from_slice(b"\"via\": [");
        self.indent += 1;
        for (i, p) in passes.iter().rev().enumerate() {
            if i > 0 {
                self.buf.push(b',');
            }
            self.newline();
            self.text(p);
        }
        self.indent -= 1;
        self.newline();
        self.buf.push(b']');
        self.indent -= 1;
        self.newline();
        self.buf.push(b'}');
        Ok(())
    }

    pub(super) fn dep(&mut self, block: BlockId, d: &Dep) -> io::Result<()> {
        self.buf.push(b'[');
        self.indent += 1;
        self.newline();
        match self.names.inst_ref(block, d.inst) {
            InstRef::Name(n) => self.text(n),
            InstRef::Qualified(f, b, n) => {
                self.text(&format!("{QUALIFIED}{f}{QUALIFIED}{b}{QUALIFIED}{n}"));
            }
            InstRef::Dangling => self.text(&format!("?{}", d.inst)),
        }
        self.buf.push(b',');
        self.newline();
        self.text(EdgeKind::name(d.kind));
        self.indent -= 1;
        self.newline();
        self.buf.push(b']');
        Ok(())
    }

    pub(super) fn attr(&mut self, v: &'a AttrValue, ty: Option<AttrType>) -> io::Result<()> {
        match v {
            AttrValue::Bool(b) => self.field(Field::Bool(*b)),
            AttrValue::Int(i) => self.field(Field::Int(*i)),
            AttrValue::F32(f) => self.field(Field::F32(*f)),
            AttrValue::Enum(o) => {
                let name = match ty {
                    Some(AttrType::Enum(t)) => t.name_of(*o),
                    _ => None,
                };
                self.field(name.map_or(Field::Int(i64::from(*o)), Field::Str))
            }
            AttrValue::Str(s) => self.field(Field::Str(s)),
            AttrValue::Ints(v) => self.field(Field::Ints(v)),
            AttrValue::Floats(v) => self.list(v, |w, f| w.field(Field::F32(*f))),
            AttrValue::Strs(v) => self.field(Field::Names(v)),
            AttrValue::Groups(v) => self.list(v, |w, g| w.field(Field::Ints(g))),
            AttrValue::Pairs(v) => self.field(Field::Pairs(v)),
            AttrValue::Expr(e) => self.expr(e),
            AttrValue::Exprs(v) => self.field(Field::Exprs(v)),
            AttrValue::Json(v) => self.value(v),
        }
    }

    // ---- operands ----
    fn loc_names(&self, id: MemLocId) -> (&'a str, &'a str, Option<&'a str>) {
        let Some(l) = self.m.memlocs.get(id) else { return ("?", "?", None) };
        let set = self.m.sets.get(l.set).map_or("?", |s| s.name.as_str());
        let owner = self.names.func_of_set(l.set);
        let other = owner.filter(|f| Some(*f) != self.func).and_then(|f| self.m.funcs.get(f));
        (&l.name, set, other.map(|f| f.name.as_str()))
    }
    fn set_name(&self, id: SetId) -> &'a str {
        self.m.sets.get(id).map_or("?", |s| &s.name)
    }
    pub(in crate::json) fn reg_name(&self, id: RegId) -> &'a str {
        self.m.regs.get(id).map_or("?", |r| &r.name)
    }
    pub(super) fn operands(&mut self, inst: &'a Inst, list: OperandList) -> io::Result<()> {
        let (items, extras): (&'a [Operand], &'a [OperandExtra]) = {
            let extras = inst.more.as_ref().map_or(&[][..], |m| &m.operand_extra);
            match list {
                OperandList::Ins => (&inst.ins, extras),
                OperandList::Outs => (&inst.outs, extras),
                OperandList::Indirection => (inst.indirection_ins(), extras),
            }
        };
        let mut index = 0u32;
        self.list(items, |w, o| {
            let extra = extras.iter().find(|x| x.list == list && x.index == index).map(|x| &x.extra);
            index += 1;
            w.operand(o, extra)
        })
    }
    fn operand(&mut self, o: &'a Operand, extra: Option<&'a Map<String, Value>>) -> io::Result<()> {
        let mut f = Fields::new();
        let mut own: &'a Extra = &None;
        match o {
            Operand::Ap(a) => {
                let (loc, set, owner) = self.loc_names(a.loc);
                f.push(("access_shape", Field::Nums(&a.pairs)));
                f.push(("ap", Field::Pairs(&a.pairs)));
                f.push(("dtype", Field::Str(a.dtype.name())));
                f.extend(a.dynamic.as_ref().map(|d| ("dynamic_ap_info", Field::Dynamic(a, d))));
                f.push(("kind", Field::Str("physical_ap")));
                f.push(("memref", Field::Str(loc)));
                f.extend(owner.map(|o| ("memref_owner_func", Field::Str(o))));
                f.push(("memsetref", Field::Str(set)));
                f.push(("offset", Field::Int(a.offset)));
            }
            Operand::Imm(i) => {
                f.push(("dtype", Field::Str(i.dtype.name())));
                f.push(("kind", Field::Str("imm_value")));
                f.push(("value", Field::Imm(i.value)));
            }
            Operand::Reg(r) => {
                f.push(("dtype", Field::Str(r.dtype.name())));
                f.push(("kind", Field::Str("register_access")));
                f.push(("regref", Field::Str(self.reg_name(r.reg))));
            }
            Operand::Other(o) => match &**o {
                OtherOperand::Symbolic { pwap, set, dtype, pairs, addrs, extra } => {
                    own = extra;
                    f.push(("access_shape", Field::Nums(pairs)));
                    f.push(("addrs", Field::Exprs(addrs)));
                    f.push(("ap", Field::Pairs(pairs)));
                    f.push(("dtype", Field::Str(dtype.name())));
                    f.push(("kind", Field::Str(if *pwap { "symbolic_pwap" } else { "symbolic_ap" })));
                    f.push(("memsetref", Field::Str(self.set_name(*set))));
                }
                OtherOperand::RegisterAp { set, reg, dtype, pairs, const_offset, extra } => {
                    own = extra;
                    f.push(("ap", Field::Pairs(pairs)));
                    f.push(("const_ap_offset", Field::Int(*const_offset)));
                    f.push(("dtype", Field::Str(dtype.name())));
                    f.push(("kind", Field::Str("register_ap")));
                    f.push(("memsetref", Field::Str(self.set_name(*set))));
                    f.push(("regref", Field::Str(self.reg_name(*reg))));
                }
                OtherOperand::SymbolicImm { dtype, values, expr } => {
                    f.push(("dtype", Field::Str(dtype.name())));
                    f.push(("expr", Field::Expr(expr)));
                    f.push(("kind", Field::Str("symbolic_imm_value")));
                    f.push(("value_list", Field::ImmObjects(values)));
                }
                OtherOperand::ImmArray { dtype, values } => {
                    f.push(("dtype", Field::Str(dtype.name())));
                    f.push(("kind", Field::Str("imm_array")));
                    f.push(("value_array", Field::Imms(values)));
                }
            },
        }
        if let Some(extra) = extra {
            self.merge(&mut f, extra);
        }
        self.record(f, own)
    }
    pub(super) fn dynamic(&mut self, a: &'a AccessPattern, d: &'a DynamicAp) -> io::Result<()> {
        let mut f = Fields::new();
        f.push(("actual_ap", Field::Pairs(&a.pairs)));
        f.push(("aff_expr", Field::Terms(&d.terms, "expr")));
        f.push(("c", Field::Int(a.offset)));
        let dim = u16::try_from(d.indirect_dim).ok().and_then(IndirectDim::from_ordinal);
        f.push(("indirect_dim", dim.map_or(Field::Int(d.indirect_dim), |d| Field::Str(d.name()))));
        f.extend(d.max_index.map(|m| ("indirect_dim_max_index", Field::Int(m))));
        self.members(&f)
    }
    pub(super) fn imm(&mut self, v: ImmValue) {
        match v {
            ImmValue::Int(i) => self.int(i),
            ImmValue::Float(f) => self.float(f),
        }
    }
}

/// Passes of a derived position, outermost first, and the entry at its root.
fn root(locs: &LocTable, loc: Loc) -> (Vec<&str>, Option<&LocEntry>) {
    let mut passes = Vec::new();
    let (mut at, mut entry) = (loc, locs.get(loc));
    while let Some(LocEntry::Derived { pass, from }) = entry {
        passes.push(pass.as_str());
        entry = if from.0 < at.0 { locs.get(*from) } else { None };
        at = *from;
    }
    (passes, entry)
}

/// Default of an attribute that is always written.
fn default_field(s: &crate::inst::AttrSpec) -> Option<Field<'static>> {
    use crate::inst::AttrDefault;
    const UNSET: &[i64] = &[-1, -1];
    Some(match s.default {
        AttrDefault::Bool(b) => Field::Bool(b),
        AttrDefault::Int(i) => Field::Int(i),
        AttrDefault::F32(f) => Field::F32(F32(f)),
        AttrDefault::Enum(o) => match s.ty {
            AttrType::Enum(t) => Field::Str(t.name_of(o)?),
            _ => return None,
        },
        AttrDefault::Empty => Field::EmptyList,
        AttrDefault::None if unset_tile(s.attr, UNSET) => Field::Ints(UNSET),
        AttrDefault::None => return None,
    })
}
