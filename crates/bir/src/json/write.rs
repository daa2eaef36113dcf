//! Modules to JSON, streaming.

use super::QUALIFIED;
use super::read_inst::unset_tile;
use crate::ap::{AccessPattern, ApPair, DynamicAp};
use crate::diag::{Loc, LocEntry, LocTable};
use crate::enums::{BirEnum, EdgeKind, IndirectDim};
use crate::expr::Expr;
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{
    AttrType, AttrValue, Dep, F32, ImmValue, Immediate, Inst, InstMore, Operand, OperandExtra, OperandList,
    OtherOperand, Presence, SemUpdate, SemWait, SyncInfo,
};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Block, Extra, Function, Module, Port, Program, Storage};
use crate::resolve::{InstRef, NameIndex};
use crate::text::Constants;
use crate::text::print::level_name;
use compact_str::CompactString;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use std::io::{self, Write};

/// Writes one module of a program as a document.
///
/// # Errors
/// What `out` returns.
pub fn write_module(
    m: &Module,
    program: &Program,
    constants: Constants,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut w = Writer::new(m, program, constants, out);
    w.module()?;
    w.end()
}

/// Writes all modules as one document: an object for one module, an array for several.
///
/// # Errors
/// What `out` returns.
pub fn write_program(program: &Program, constants: Constants, out: &mut dyn Write) -> io::Result<()> {
    if let [one] = program.modules.as_slice() {
        return write_module(one, program, constants, out);
    }
    out.write_all(b"[")?;
    for (i, m) in program.modules.iter().enumerate() {
        out.write_all(if i > 0 { b",\n  " } else { b"\n  " })?;
        // The bytes of constants stand in the first module only.
        let constants = if i == 0 { constants } else { Constants::Reference };
        let mut w = Writer::new(m, program, constants, out);
        w.indent = 1;
        w.module()?;
        w.flush()?;
    }
    out.write_all(b"\n]\n")
}

/// Value of an object's member, written when its turn comes.
#[derive(Clone, Copy)]
pub(super) enum Field<'a> {
    Bool(bool),
    Int(i64),
    U64(u64),
    F32(F32),
    Str(&'a str),
    Names(&'a [CompactString]),
    U64s(&'a [u64]),
    Ints(&'a [i64]),
    Pairs(&'a [ApPair]),
    /// Extents of pairs.
    Nums(&'a [ApPair]),
    Value(&'a Value),
    EmptyList,
    Expr(&'a Expr),
    Exprs(&'a [Expr]),
    /// `[{coeff, <key>: expression}]`.
    Terms(&'a [(i64, Expr)], &'static str),
    Attr(&'a AttrValue, Option<AttrType>),
    Functions(&'a [FuncId]),
    Values(&'a [Value]),
    /// Core id and the kept attributes of a module.
    Attributes(Option<CoreId>, Option<&'a Map<String, Value>>),
    Tandem,
    Ports(&'a [Port]),
    Payloads,
    Storages(&'a [Storage]),
    Locations(&'a [MemLocId]),
    Aliases(&'a MemoryLocation),
    Remote(&'a RemoteTarget),
    Blocks(&'a [BlockId]),
    Insts(BlockId, &'a [InstId]),
    Operands(&'a Inst, OperandList),
    Deps(BlockId, &'a [Dep]),
    Sync(&'a SyncInfo),
    Waits(&'a [SemWait]),
    Updates(&'a [SemUpdate]),
    Debug(&'a Inst),
    Position(Loc),
    Dynamic(&'a AccessPattern, &'a DynamicAp),
    Imm(ImmValue),
    Imms(&'a [Immediate]),
    /// The same, each as `{value}`.
    ImmObjects(&'a [Immediate]),
}

type Fields<'a> = SmallVec<[(&'a str, Field<'a>); 32]>;

pub(super) struct Writer<'a, 'w> {
    m: &'a Module,
    program: &'a Program,
    locs: &'a LocTable,
    names: NameIndex<'a>,
    constants: Constants,
    out: &'w mut dyn Write,
    buf: Vec<u8>,
    indent: usize,
    /// Function being written.
    func: Option<FuncId>,
}

const FLUSH_BYTES: usize = 1 << 16;

impl<'a, 'w> Writer<'a, 'w> {
    fn new(
        m: &'a Module,
        program: &'a Program,
        constants: Constants,
        out: &'w mut dyn Write,
    ) -> Writer<'a, 'w> {
        Writer {
            m,
            program,
            locs: &program.locs,
            names: NameIndex::new(m),
            constants,
            out,
            buf: Vec::with_capacity(FLUSH_BYTES * 2),
            indent: 0,
            func: None,
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buf)?;
        self.buf.clear();
        Ok(())
    }
    fn end(&mut self) -> io::Result<()> {
        self.buf.push(b'\n');
        self.flush()
    }
    fn newline(&mut self) {
        self.buf.push(b'\n');
        for _ in 0..self.indent {
            self.buf.extend_from_slice(b"  ");
        }
    }
    fn text(&mut self, s: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self.buf.push(b'"');
        let mut start = 0;
        for (i, c) in s.bytes().enumerate() {
            let escape: &[u8] = match c {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0x08 => b"\\b",
                0x0c => b"\\f",
                0..0x20 => b"\\u00",
                _ => continue,
            };
            self.buf.extend_from_slice(&s.as_bytes()[start..i]);
            self.buf.extend_from_slice(escape);
            if escape.len() > 2 {
                self.buf.push(HEX[usize::from(c >> 4)]);
                self.buf.push(HEX[usize::from(c & 15)]);
            }
            start = i + 1;
        }
        self.buf.extend_from_slice(&s.as_bytes()[start..]);
        self.buf.push(b'"');
    }
    fn int(&mut self, v: i64) {
        // Small numbers are most of a file.
        if (0..10).contains(&v) {
            self.buf.push(b'0' + v as u8);
            return;
        }
        let _ = write!(self.buf, "{v}");
    }
    fn u64(&mut self, v: u64) {
        match i64::try_from(v) {
            Ok(v) => self.int(v),
            Err(_) => {
                let _ = write!(self.buf, "{v}");
            }
        }
    }
    fn float(&mut self, f: F32) {
        let v = f.0;
        let _ = if v.is_nan() {
            write!(self.buf, "\"nan:0x{:08x}\"", v.to_bits())
        } else if v.is_infinite() {
            write!(self.buf, "\"{v}\"")
        } else {
            write!(self.buf, "{v:?}")
        };
    }

    fn list<T>(
        &mut self,
        items: &'a [T],
        mut f: impl FnMut(&mut Self, &'a T) -> io::Result<()>,
    ) -> io::Result<()> {
        if items.is_empty() {
            self.buf.extend_from_slice(b"[]");
            return Ok(());
        }
        self.buf.push(b'[');
        self.indent += 1;
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.buf.push(b',');
            }
            self.newline();
            f(self, item)?;
        }
        self.indent -= 1;
        self.newline();
        self.buf.push(b']');
        if self.buf.len() > FLUSH_BYTES { self.flush() } else { Ok(()) }
    }
    /// Members given in sorted order.
    pub(super) fn object<const N: usize>(&mut self, fields: [(&'a str, Field<'a>); N]) -> io::Result<()> {
        self.members(&fields)
    }
    fn members(&mut self, fields: &[(&'a str, Field<'a>)]) -> io::Result<()> {
        if fields.is_empty() {
            self.buf.extend_from_slice(b"{}");
            return Ok(());
        }
        self.buf.push(b'{');
        self.indent += 1;
        for (i, (key, field)) in fields.iter().enumerate() {
            if i > 0 {
                self.buf.push(b',');
            }
            self.newline();
            self.text(key);
            self.buf.extend_from_slice(b": ");
            self.field(*field)?;
        }
        self.indent -= 1;
        self.newline();
        self.buf.push(b'}');
        Ok(())
    }
    /// Members in any order, with the kept ones of the source file; a name of ours wins over a kept one.
    fn record(&mut self, mut fields: Fields<'a>, extra: &'a Extra) -> io::Result<()> {
        if let Some(extra) = extra {
            self.merge(&mut fields, extra);
        }
        fields.sort_unstable_by_key(|f| f.0);
        self.members(&fields)
    }
    fn merge(&mut self, fields: &mut Fields<'a>, extra: &'a Map<String, Value>) {
        for (k, v) in extra {
            if !fields.iter().any(|f| f.0 == k) {
                fields.push((k, Field::Value(v)));
            }
        }
    }

    fn field(&mut self, f: Field<'a>) -> io::Result<()> {
        match f {
            Field::Bool(b) => self.buf.extend_from_slice(if b { b"true" } else { b"false" }),
            Field::Int(i) => self.int(i),
            Field::U64(u) => self.u64(u),
            Field::F32(f) => self.float(f),
            Field::Str(s) => self.text(s),
            Field::Names(v) => self.list(v, |w, s| {
                w.text(s);
                Ok(())
            })?,
            Field::U64s(v) => self.list(v, |w, d| {
                w.u64(*d);
                Ok(())
            })?,
            Field::Ints(v) => self.list(v, |w, d| {
                w.int(*d);
                Ok(())
            })?,
            Field::Pairs(v) => self.list(v, |w, p| w.pair(p))?,
            Field::Nums(v) => self.list(v, |w, p| {
                w.u64(p.num);
                Ok(())
            })?,
            Field::Value(v) => self.value(v)?,
            Field::Values(v) => self.list(v, |w, v| w.value(v))?,
            Field::EmptyList => self.buf.extend_from_slice(b"[]"),
            Field::Expr(e) => self.expr(e)?,
            Field::Exprs(v) => self.list(v, |w, e| w.expr(e))?,
            Field::Terms(v, key) => {
                self.list(v, |w, (k, e)| w.object([("coeff", Field::Int(*k)), (key, Field::Expr(e))]))?;
            }
            Field::Attr(v, ty) => self.attr(v, ty)?,
            Field::Functions(v) => self.list(v, |w, f| w.function(*f))?,
            Field::Attributes(core, kept) => {
                let mut fields = Fields::new();
                fields.extend(core.map(|c| ("neuron_core_id", Field::U64(u64::from(c.0)))));
                if let Some(kept) = kept {
                    self.merge(&mut fields, kept);
                }
                fields.sort_unstable_by_key(|f| f.0);
                self.members(&fields)?;
            }
            Field::Tandem => self.tandem()?,
            Field::Ports(v) => self.list(v, |w, p| w.port(p))?,
            Field::Payloads => self.payloads()?,
            Field::Storages(v) => self.list(v, |w, s| w.storage(*s))?,
            Field::Locations(v) => self.list(v, |w, l| w.location(*l))?,
            Field::Aliases(l) => self.list(&l.aliases, |w, (set, loc, kind)| w.alias(set, loc, *kind))?,
            Field::Remote(r) => {
                self.object([("core", Field::U64(u64::from(r.core.0))), ("name", Field::Str(&r.name))])?;
            }
            Field::Blocks(v) => self.list(v, |w, b| w.block(*b))?,
            Field::Insts(b, v) => self.list(v, |w, i| w.inst(b, &w.m.insts[*i]))?,
            Field::Operands(inst, list) => self.operands(inst, list)?,
            Field::Deps(b, v) => self.list(v, |w, d| w.dep(b, d))?,
            Field::Sync(s) => {
                let mut fields = Fields::new();
                fields.push(("on_update", Field::Updates(&s.on_update)));
                fields.push(("on_wait", Field::Waits(&s.on_wait)));
                self.record(fields, &s.extra)?;
            }
            Field::Waits(v) => self.list(v, |w, s| {
                let SemWait { sem, value, from, extra } = s;
                let mut fields = Fields::new();
                fields.extend(from.as_ref().map(|f| ("from", Field::Str(f))));
                fields.push(("id", Field::U64(u64::from(*sem))));
                fields.push(("wait_value", Field::Int(*value)));
                w.record(fields, extra)
            })?,
            Field::Updates(v) => self.list(v, |w, s| {
                let SemUpdate { sem, value, target_core, extra } = s;
                let mut fields = Fields::new();
                fields.push(("id", Field::U64(u64::from(*sem))));
                fields.extend(target_core.map(|c| ("target_core", Field::U64(u64::from(c)))));
                fields.push(("update_value", Field::Int(*value)));
                w.record(fields, extra)
            })?,
            Field::Debug(inst) => self.debug(inst)?,
            Field::Position(loc) => self.position(loc)?,
            Field::Dynamic(a, d) => self.dynamic(a, d)?,
            Field::Imm(v) => self.imm(v),
            Field::Imms(v) => self.list(v, |w, i| {
                w.imm(i.value);
                Ok(())
            })?,
            Field::ImmObjects(v) => self.list(v, |w, i| w.object([("value", Field::Imm(i.value))]))?,
        }
        Ok(())
    }

    fn value(&mut self, v: &'a Value) -> io::Result<()> {
        match v {
            Value::Null => self.buf.extend_from_slice(b"null"),
            Value::Bool(b) => self.field(Field::Bool(*b))?,
            Value::Number(n) => {
                let _ = write!(self.buf, "{n}");
            }
            Value::String(s) => self.text(s),
            Value::Array(v) => self.list(v, |w, v| w.value(v))?,
            Value::Object(o) => {
                let mut fields: Fields<'a> = o.iter().map(|(k, v)| (k.as_str(), Field::Value(v))).collect();
                fields.sort_unstable_by_key(|f| f.0);
                self.members(&fields)?;
            }
        }
        Ok(())
    }
    fn pair(&mut self, p: &ApPair) -> io::Result<()> {
        self.buf.push(b'[');
        self.indent += 1;
        self.newline();
        self.int(p.step);
        self.buf.push(b',');
        self.newline();
        self.u64(p.num);
        self.indent -= 1;
        self.newline();
        self.buf.push(b']');
        Ok(())
    }

    fn module(&mut self) -> io::Result<()> {
        let Module { core, arch, functions, nki_functions, queues, extra, .. } = self.m;
        let kept = extra.as_ref().and_then(|e| e.get("attributes")).and_then(Value::as_object);
        let mut f = Fields::new();
        f.push(("arch", Field::Str(arch.name())));
        f.push(("attributes", Field::Attributes(*core, kept)));
        f.push(("functions", Field::Functions(functions)));
        if !nki_functions.is_empty() {
            f.push(("nki_functions", Field::Functions(nki_functions)));
        }
        f.push(("queues", Field::Values(queues)));
        f.push(("tandem", Field::Tandem));
        f.push(("version", Field::U64(2)));
        self.record(f, extra)
    }

    /// What our programs have and a module record has no key for.
    fn tandem(&mut self) -> io::Result<()> {
        let Program { name, lnc_size, level, modules: _, locs: _, constants, signature } = self.program;
        let mut f = Fields::new();
        if self.constants == Constants::Inline && !constants.is_empty() {
            f.push(("constants", Field::Payloads));
        }
        f.push(("inputs", Field::Ports(&signature.inputs)));
        f.push(("level", Field::Str(level_name(*level))));
        f.push(("lnc_size", Field::U64(u64::from(*lnc_size))));
        f.push(("module", Field::Str(&self.m.name)));
        f.push(("outputs", Field::Ports(&signature.outputs)));
        f.push(("program", Field::Str(name)));
        f.push(("subgraph", Field::U64(u64::from(self.m.subgraph))));
        self.record(f, &None)
    }
    fn port(&mut self, p: &'a Port) -> io::Result<()> {
        let Port { name, location, core, subgraph, dtype, shape } = p;
        let mut f = Fields::new();
        f.extend(core.map(|c| ("core", Field::U64(u64::from(c.0)))));
        f.push(("dtype", Field::Str(dtype.name())));
        f.push(("location", Field::Str(location)));
        f.push(("name", Field::Str(name)));
        f.push(("shape", Field::U64s(shape)));
        if *subgraph != 0 {
            f.push(("subgraph", Field::U64(u64::from(*subgraph))));
        }
        self.record(f, &None)
    }
    fn payloads(&mut self) -> io::Result<()> {
        self.buf.push(b'{');
        self.indent += 1;
        let mut files: Vec<_> = self.program.constants.iter().collect();
        files.sort_by_key(|f| f.0);
        for (i, (file, bytes)) in files.into_iter().enumerate() {
            if i > 0 {
                self.buf.push(b',');
            }
            self.newline();
            self.text(file);
            self.buf.extend_from_slice(b": ");
            self.text(&crate::base64::encode(bytes));
            self.flush()?;
        }
        self.indent -= 1;
        self.newline();
        self.buf.push(b'}');
        Ok(())
    }

    fn function(&mut self, id: FuncId) -> io::Result<()> {
        self.func = Some(id);
        let Function { name, storages, blocks, attributes, extra } = &self.m.funcs[id];
        let mut f = Fields::new();
        f.push(("allocations", Field::Storages(storages)));
        f.push(("attributes", Field::Names(attributes)));
        f.push(("blocks", Field::Blocks(blocks)));
        f.push(("name", Field::Str(name)));
        self.record(f, extra)
    }
    fn storage(&mut self, s: Storage) -> io::Result<()> {
        match s {
            Storage::Set(s) => self.set(s),
            Storage::Register(r) => {
                let Register { name, engine, num_physical, extra } = &self.m.regs[r];
                let mut f = Fields::new();
                f.push(("Skind", Field::Str("register")));
                f.push(("engine", Field::Str(engine.name())));
                f.push(("name", Field::Str(name)));
                f.push(("num_physical_regs", Field::U64(u64::from(*num_physical))));
                self.record(f, extra)
            }
        }
    }
    fn set(&mut self, id: SetId) -> io::Result<()> {
        let MemoryLocationSet {
            name,
            dtype,
            kind,
            class,
            addr_space,
            shape,
            partition_dim,
            locs,
            file,
            no_spill,
            volatile,
            is_virtual,
            do_not_rotate,
            extra,
        } = &self.m.sets[id];
        let mut f = Fields::new();
        f.push(("Skind", Field::Str("memory_location_set")));
        f.push(("addr_space", Field::Str(addr_space.name())));
        f.push(("dtype", Field::Str(dtype.name())));
        f.extend(file.as_ref().map(|s| ("file", Field::Str(s))));
        f.push(("kind", Field::Str(kind.name())));
        f.push(("memorylocations", Field::Locations(locs)));
        f.push(("name", Field::Str(name)));
        f.push(("partition_dim", Field::U64(u64::from(*partition_dim))));
        f.push(("tensorId2MemLocSize", Field::U64(locs.len() as u64)));
        f.push(("tensor_class", Field::Str(class.name())));
        f.push(("tensor_shape", Field::U64s(shape)));
        for (on, key) in [
            (*no_spill, "no_spill"),
            (*volatile, "volatile"),
            (*is_virtual, "virtual"),
            (*do_not_rotate, "do_not_rotate"),
        ] {
            if on {
                f.push((key, Field::Bool(true)));
            }
        }
        self.record(f, extra)
    }
    fn location(&mut self, id: MemLocId) -> io::Result<()> {
        let l = &self.m.memlocs[id];
        let MemoryLocation {
            name,
            set: _,
            mem,
            addr,
            dims,
            bank,
            base,
            allocated,
            user_allocated,
            pinned,
            tensor_id,
            remote_local_target,
            written_by_another_core,
            is_shared_post_dram_alloc,
            aliases,
            extra,
        } = l;
        let mut f = Fields::new();
        f.push(("Skind", Field::Str("memory_location")));
        f.push(("addr", Field::U64(*addr)));
        if !aliases.is_empty() {
            f.push(("alias", Field::Aliases(l)));
        }
        f.push(("allocated", Field::Bool(*allocated)));
        f.push(("bank", Field::Int(*bank)));
        f.push(("base", Field::U64(u64::from(*base))));
        f.push(("dims", Field::U64s(dims)));
        f.push(("name", Field::Str(name)));
        f.push(("pinned", Field::Bool(*pinned)));
        f.extend(remote_local_target.as_ref().map(|r| ("remote_local_target", Field::Remote(r))));
        f.push(("tensor_id", Field::Int(i64::from(*tensor_id))));
        f.push(("type", Field::Str(mem.name())));
        for (on, key) in [
            (*user_allocated, "user_allocated"),
            (*written_by_another_core, "written_by_another_core"),
            (*is_shared_post_dram_alloc, "is_shared_post_dram_alloc"),
        ] {
            if on {
                f.push((key, Field::Bool(true)));
            }
        }
        self.record(f, extra)
    }
    fn alias(&mut self, set: &'a str, loc: &'a str, kind: i64) -> io::Result<()> {
        self.buf.push(b'[');
        self.indent += 1;
        self.newline();
        if !set.is_empty() {
            self.text(set);
            self.buf.push(b',');
            self.newline();
        }
        self.text(loc);
        self.buf.push(b',');
        self.newline();
        self.int(kind);
        self.indent -= 1;
        self.newline();
        self.buf.push(b']');
        Ok(())
    }

    fn block(&mut self, id: BlockId) -> io::Result<()> {
        let Block { name, insts, extra } = &self.m.blocks[id];
        let mut f = Fields::new();
        f.push(("instructions", Field::Insts(id, insts)));
        f.push(("name", Field::Str(name)));
        self.record(f, extra)
    }

    fn inst(&mut self, block: BlockId, inst: &'a Inst) -> io::Result<()> {
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

    fn debug(&mut self, inst: &'a Inst) -> io::Result<()> {
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
    fn position(&mut self, loc: Loc) -> io::Result<()> {
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

    fn dep(&mut self, block: BlockId, d: &Dep) -> io::Result<()> {
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

    fn attr(&mut self, v: &'a AttrValue, ty: Option<AttrType>) -> io::Result<()> {
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
    pub(super) fn reg_name(&self, id: RegId) -> &'a str {
        self.m.regs.get(id).map_or("?", |r| &r.name)
    }
    fn operands(&mut self, inst: &'a Inst, list: OperandList) -> io::Result<()> {
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
    fn dynamic(&mut self, a: &'a AccessPattern, d: &'a DynamicAp) -> io::Result<()> {
        let mut f = Fields::new();
        f.push(("actual_ap", Field::Pairs(&a.pairs)));
        f.push(("aff_expr", Field::Terms(&d.terms, "expr")));
        f.push(("c", Field::Int(a.offset)));
        let dim = u16::try_from(d.indirect_dim).ok().and_then(IndirectDim::from_ordinal);
        f.push(("indirect_dim", dim.map_or(Field::Int(d.indirect_dim), |d| Field::Str(d.name()))));
        f.extend(d.max_index.map(|m| ("indirect_dim_max_index", Field::Int(m))));
        self.members(&f)
    }
    fn imm(&mut self, v: ImmValue) {
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
