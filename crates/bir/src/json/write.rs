//! Modules to JSON, streaming.

mod inst;
mod module;

use crate::ap::{AccessPattern, ApPair, DynamicAp};
use crate::diag::{Loc, LocTable};
use crate::expr::Expr;
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId};
use crate::inst::{
    AttrType, AttrValue, Dep, F32, ImmValue, Immediate, Inst, OperandList, SemUpdate, SemWait, SyncInfo,
};
use crate::memloc::{MemoryLocation, RemoteTarget};
use crate::module::{Extra, Module, Port, Program, Storage};
use crate::resolve::NameIndex;
use crate::text::Constants;
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
}
