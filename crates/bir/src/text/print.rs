//! Programs as text. Prints everything, attributes at their defaults left out.

use super::{VERSION, is_bare, is_bare_path};
use crate::ap::{AccessPattern, ApPair};
use crate::diag::{Loc, LocEntry, LocTable};
use crate::enums::{EdgeKind, Origin};
use crate::expr::Expr;
use crate::ids::{BlockId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{
    AttrType, AttrValue, Attrs, Dep, F32, ImmValue, Immediate, Inst, InstMore, Operand, OtherOperand,
};
use crate::inst::{OperandExtra, OperandList, SemUpdate, SemWait, SyncInfo};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Block, Extra, Function, Level, Module, Port, Program, Storage};
use crate::resolve::{InstRef, NameIndex};
use std::fmt::{self, Write};

/// What to do with the payloads of constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Constants {
    /// Name the file only; the caller keeps the bytes beside the text.
    #[default]
    Reference,
    /// Put the bytes into the text, in base 64.
    Inline,
}

/// Options of the printer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// Payloads of constants.
    pub constants: Constants,
}

/// The whole program; constants by reference.
pub fn print(p: &Program) -> String {
    print_with(p, PrintOptions::default())
}

/// The whole program.
pub fn print_with(p: &Program, options: PrintOptions) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_program(p, options, &mut out);
    out
}

/// One module; `locs` is the table of its program.
pub fn print_module(m: &Module, locs: &LocTable) -> String {
    let mut out = String::new();
    let _ = write_module(m, locs, &mut out);
    out
}

/// The text of instructions of a module, one line each: without source position and without the blocks of loops.
pub fn print_instructions<'m>(
    m: &'m Module,
    insts: &'m [(FuncId, BlockId, InstId)],
) -> impl Iterator<Item = (InstId, String)> + 'm {
    let names = NameIndex::new(m);
    let locs = LocTable::default();
    insts.iter().map(move |&(func, block, id)| {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = Printer { m, locs: &locs, names: &names, out: &mut out }
            .head(Place { func, block }, &m.insts[id]);
        (id, out)
    })
}

/// Prints the whole program into a file or a pipe; the text is never in memory as a whole.
///
/// # Errors
/// Only what `out` returns.
pub fn write_program_to(
    p: &Program,
    options: PrintOptions,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    struct Adapter<'a> {
        out: std::io::BufWriter<&'a mut dyn std::io::Write>,
        failed: std::io::Result<()>,
    }
    impl Write for Adapter<'_> {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            std::io::Write::write_all(&mut self.out, s.as_bytes()).map_err(|e| {
                self.failed = Err(e);
                fmt::Error
            })
        }
    }
    let mut to = Adapter { out: std::io::BufWriter::with_capacity(1 << 16, out), failed: Ok(()) };
    // An error of formatting is one of writing.
    let _ = write_program(p, options, &mut to);
    to.failed?;
    std::io::Write::flush(&mut to.out)
}

/// Prints the whole program piece by piece.
///
/// # Errors
/// Only what `out` returns.
pub fn write_program(p: &Program, options: PrintOptions, out: &mut dyn Write) -> fmt::Result {
    let Program { name, lnc_size, level, modules, locs, constants, signature } = p;
    write!(out, "bir {VERSION}\nprogram {} lnc {lnc_size} level {}\n", Quoted(name), level_name(*level))?;
    for (word, ports) in [("input", &signature.inputs), ("output", &signature.outputs)] {
        for port in ports {
            let Port { name, location, core, subgraph, dtype, shape } = port;
            write!(out, "{word} {} = @{}", Quoted(name), Name(location))?;
            if let Some(c) = core {
                write!(out, " core {c}")?;
            }
            if *subgraph != 0 {
                write!(out, " subgraph {subgraph}")?;
            }
            writeln!(out, " {dtype} {}", Shape(shape))?;
        }
    }
    if options.constants == Constants::Inline {
        for (file, bytes) in constants {
            writeln!(out, "constant {} = base64 \"{}\"", Quoted(file), crate::base64::encode(bytes))?;
        }
    }
    for m in modules {
        write_module(m, locs, out)?;
    }
    Ok(())
}

/// Prints one module.
///
/// # Errors
/// Only what `out` returns.
pub fn write_module(m: &Module, locs: &LocTable, out: &mut dyn Write) -> fmt::Result {
    Printer { m, locs, names: &NameIndex::new(m), out }.module()
}

pub(crate) fn level_name(l: Level) -> &'static str {
    match l {
        Level::Bir => "bir",
        Level::Lowered => "lowered",
        Level::Linked => "linked",
    }
}

struct Quoted<'a>(&'a str);
impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                    write!(f, "\\u{{{:x}}}", c as u32)?
                }
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// A name, quoted where it must be.
struct Name<'a>(&'a str);
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_bare(self.0) { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

struct Shape<'a>(&'a [u64]);
impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (i, d) in self.0.iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { " x " } else { "" })?;
        }
        f.write_char(']')
    }
}

/// A float that reads back bit by bit and never looks like an integer.
pub(crate) struct Float(pub(crate) F32);
impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0.0;
        if v.is_nan() { write!(f, "nan(0x{:08x})", v.to_bits()) } else { write!(f, "{v:?}") }
    }
}

struct Imm(ImmValue);
impl fmt::Display for Imm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ImmValue::Int(i) => write!(f, "{i}"),
            ImmValue::Float(v) => Float(v).fmt(f),
        }
    }
}

struct Printer<'a, 'm> {
    m: &'m Module,
    locs: &'a LocTable,
    names: &'a NameIndex<'m>,
    out: &'a mut dyn Write,
}

/// Place an operand or expression is printed at.
#[derive(Clone, Copy)]
struct Place {
    func: FuncId,
    block: BlockId,
}

impl Printer<'_, '_> {
    fn list<T>(&mut self, items: &[T], mut f: impl FnMut(&mut Self, &T) -> fmt::Result) -> fmt::Result {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.write_str(", ")?;
            }
            f(self, item)?;
        }
        Ok(())
    }
    fn json(&mut self, v: &serde_json::Value) -> fmt::Result {
        // Serialising a Value to a string cannot fail: its keys are strings.
        self.out.write_str(&serde_json::to_string(v).map_err(|_| fmt::Error)?)
    }
    fn extra(&mut self, e: &Extra) -> fmt::Result {
        if let Some(map) = e {
            self.out.write_str(" extra ")?;
            self.json_map(map)?;
        }
        Ok(())
    }
    fn json_map(&mut self, map: &serde_json::Map<String, serde_json::Value>) -> fmt::Result {
        self.out.write_str(&serde_json::to_string(map).map_err(|_| fmt::Error)?)
    }

    fn module(&mut self) -> fmt::Result {
        let m = self.m;
        let Module { name, core, subgraph, arch, functions, nki_functions, queues, extra, .. } = m;
        write!(self.out, "module @{}", Name(name))?;
        if let Some(c) = core {
            write!(self.out, " core {c}")?;
        }
        if *subgraph != 0 {
            write!(self.out, " subgraph {subgraph}")?;
        }
        write!(self.out, " arch {arch}")?;
        self.extra(extra)?;
        self.out.write_str(" {\n")?;
        for q in queues {
            self.out.write_str("  queue ")?;
            self.json(q)?;
            self.out.write_char('\n')?;
        }
        for (word, list) in [("func", functions), ("nki func", nki_functions)] {
            for &f in list {
                write!(self.out, "  {word} ")?;
                self.function(f)?;
            }
        }
        self.out.write_str("}\n")
    }

    fn function(&mut self, id: FuncId) -> fmt::Result {
        let Function { name, storages, blocks, attributes, extra } = &self.m.funcs[id];
        write!(self.out, "@{}", Name(name))?;
        if !attributes.is_empty() {
            self.out.write_str(" attributes [")?;
            self.list(attributes, |p, a| write!(p.out, "{}", Name(a)))?;
            self.out.write_char(']')?;
        }
        self.extra(extra)?;
        self.out.write_str(" {\n")?;
        for s in storages {
            match *s {
                Storage::Set(s) => self.set(s)?,
                Storage::Register(r) => {
                    let Register { name, engine, num_physical, extra } = &self.m.regs[r];
                    write!(self.out, "    reg ${} = {engine}", Name(name))?;
                    if *num_physical != 1 {
                        write!(self.out, " count {num_physical}")?;
                    }
                    self.extra(extra)?;
                    self.out.write_char('\n')?;
                }
            }
        }
        for &b in blocks {
            self.block(id, b, 4)?;
        }
        self.out.write_str("  }\n")
    }

    fn set(&mut self, id: SetId) -> fmt::Result {
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
        write!(self.out, "    set @{} = {kind} {class} {addr_space} {dtype} {}", Name(name), Shape(shape))?;
        if *partition_dim != 0 {
            write!(self.out, " partition_dim {partition_dim}")?;
        }
        if let Some(f) = file {
            write!(self.out, " file {}", Quoted(f))?;
        }
        for (on, word) in [
            (*no_spill, "no_spill"),
            (*volatile, "volatile"),
            (*is_virtual, "virtual"),
            (*do_not_rotate, "do_not_rotate"),
        ] {
            if on {
                write!(self.out, " {word}")?;
            }
        }
        self.extra(extra)?;
        match locs.as_slice() {
            [] => self.out.write_str(" {}\n"),
            [one] => {
                self.out.write_str(" { ")?;
                self.location(*one)?;
                self.out.write_str(" }\n")
            }
            many => {
                self.out.write_str(" {\n")?;
                for l in many {
                    self.out.write_str("      ")?;
                    self.location(*l)?;
                    self.out.write_char('\n')?;
                }
                self.out.write_str("    }\n")
            }
        }
    }

    fn location(&mut self, id: MemLocId) -> fmt::Result {
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
        } = &self.m.memlocs[id];
        write!(self.out, "loc @{} = {mem} [", Name(name))?;
        self.list(dims, |p, d| write!(p.out, "{d}"))?;
        self.out.write_char(']')?;
        if *allocated || *addr != 0 {
            write!(self.out, " addr {addr}")?;
        }
        if *bank != 0 {
            write!(self.out, " bank {bank}")?;
        }
        if *base != 0 {
            write!(self.out, " base {base}")?;
        }
        for (on, word) in
            [(*allocated, "allocated"), (*user_allocated, "user_allocated"), (*pinned, "pinned")]
        {
            if on {
                write!(self.out, " {word}")?;
            }
        }
        if *tensor_id != -1 {
            write!(self.out, " id {tensor_id}")?;
        }
        if let Some(RemoteTarget { name, core }) = remote_local_target {
            write!(self.out, " remote @{} core {core}", Name(name))?;
        }
        for (on, word) in [
            (*written_by_another_core, "written_by_another_core"),
            (*is_shared_post_dram_alloc, "shared_post_dram_alloc"),
        ] {
            if on {
                write!(self.out, " {word}")?;
            }
        }
        if !aliases.is_empty() {
            self.out.write_str(" alias(")?;
            self.list(aliases, |p, (set, loc, kind)| write!(p.out, "@{}/{} {kind}", Name(set), Name(loc)))?;
            self.out.write_char(')')?;
        }
        self.extra(extra)
    }

    fn block(&mut self, func: FuncId, id: BlockId, indent: usize) -> fmt::Result {
        let Block { name, insts, extra } = &self.m.blocks[id];
        write!(self.out, "{:indent$}block {}", "", Name(name))?;
        self.extra(extra)?;
        self.out.write_str(" {\n")?;
        for &i in insts {
            write!(self.out, "{:width$}", "", width = indent + 2)?;
            self.inst(Place { func, block: id }, &self.m.insts[i], indent + 2)?;
        }
        writeln!(self.out, "{:indent$}}}", "")
    }

    /// All of an instruction but its source position and its blocks.
    fn head(&mut self, at: Place, inst: &Inst) -> fmt::Result {
        let Inst { name, opcode, engine, origin, loc: _, ins, outs, attrs, deps, more } = inst;
        write!(self.out, "{} = {opcode} {engine}", Name(name))?;
        if !outs.is_empty() {
            self.out.write_char(' ')?;
            self.list(outs, |p, o| p.operand(at, o))?;
        }
        if !ins.is_empty() {
            self.out.write_str(" <- ")?;
            self.list(ins, |p, o| p.operand(at, o))?;
        }
        self.attrs(at, inst, attrs)?;
        self.deps(at, "after", deps)?;
        if *origin != Origin::Nki {
            write!(self.out, " origin {origin}")?;
        }
        if let Some(more) = more {
            self.more(at, more)?;
        }
        Ok(())
    }

    fn inst(&mut self, at: Place, inst: &Inst, indent: usize) -> fmt::Result {
        self.head(at, inst)?;
        self.loc(inst.loc)?;
        if !inst.regions().is_empty() {
            self.out.write_str(" regions {\n")?;
            for &b in inst.regions() {
                self.block(at.func, b, indent + 2)?;
            }
            write!(self.out, "{:indent$}}}", "")?;
        }
        self.out.write_char('\n')
    }

    fn more(&mut self, at: Place, more: &InstMore) -> fmt::Result {
        let InstMore {
            engine_id,
            scheduled_start,
            scheduled_end,
            optin_passes,
            indirection_ins,
            loop_carried,
            unroll_deps,
            sync,
            label,
            loopnest,
            predicates,
            order,
            regions: _,
            operand_extra,
            extra,
        } = more;
        if !indirection_ins.is_empty() {
            self.out.write_str(" index(")?;
            self.list(indirection_ins, |p, o| p.operand(at, o))?;
            self.out.write_char(')')?;
        }
        self.deps(at, "carried", loop_carried)?;
        if let Some(s) = sync {
            self.sync(s)?;
        }
        if *engine_id != 0 {
            write!(self.out, " engine_id {engine_id}")?;
        }
        if *scheduled_start != 0 || *scheduled_end != 0 {
            write!(self.out, " scheduled({scheduled_start}, {scheduled_end})")?;
        }
        for (word, names) in [("optin", optin_passes), ("loopnest", loopnest)] {
            if !names.is_empty() {
                write!(self.out, " {word}(")?;
                self.list(names, |p, n| write!(p.out, "{}", Name(n)))?;
                self.out.write_char(')')?;
            }
        }
        for (word, exprs) in [("predicates", predicates), ("order", order)] {
            if !exprs.is_empty() {
                write!(self.out, " {word}(")?;
                self.list(exprs, |p, e| p.expr(at.func, e))?;
                self.out.write_char(')')?;
            }
        }
        if let Some(l) = label {
            write!(self.out, " label {}", Quoted(l))?;
        }
        if let Some(v) = unroll_deps {
            self.out.write_str(" unroll ")?;
            self.json(v)?;
        }
        for OperandExtra { list, index, extra } in operand_extra {
            let word = match list {
                OperandList::Ins => "in",
                OperandList::Outs => "out",
                OperandList::Indirection => "index",
            };
            write!(self.out, " operand_extra({word} {index}) ")?;
            self.json_map(extra)?;
        }
        self.extra(extra)
    }

    /// Keys of an operand, under a word that cannot be the instruction's `extra`.
    fn ap_extra(&mut self, e: &Extra) -> fmt::Result {
        if let Some(map) = e {
            self.out.write_str(" ap_extra ")?;
            self.json_map(map)?;
        }
        Ok(())
    }

    fn sync(&mut self, s: &SyncInfo) -> fmt::Result {
        let SyncInfo { on_wait, on_update, extra } = s;
        self.out.write_str(" sync(")?;
        self.list(on_wait, |p, SemWait { sem, value, from, extra }| {
            write!(p.out, "wait {sem} >= {value}")?;
            if let Some(f) = from {
                write!(p.out, " from {}", Name(f))?;
            }
            p.extra(extra)
        })?;
        if !on_wait.is_empty() && !on_update.is_empty() {
            self.out.write_str(", ")?;
        }
        self.list(on_update, |p, SemUpdate { sem, value, target_core, extra }| {
            write!(p.out, "update {sem} += {value}")?;
            if let Some(c) = target_core {
                write!(p.out, " core {c}")?;
            }
            p.extra(extra)
        })?;
        self.out.write_char(')')?;
        if let Some(map) = extra {
            self.out.write_str(" sync_extra ")?;
            self.json_map(map)?;
        }
        Ok(())
    }

    fn deps(&mut self, at: Place, word: &str, deps: &[Dep]) -> fmt::Result {
        if deps.is_empty() {
            return Ok(());
        }
        write!(self.out, " {word}(")?;
        self.list(deps, |p, d| {
            match p.names.inst_ref(at.block, d.inst) {
                InstRef::Name(n) => write!(p.out, "{}", Name(n))?,
                InstRef::Qualified(f, b, n) => write!(p.out, "@{}/{}/{}", Name(f), Name(b), Name(n))?,
                InstRef::Dangling => write!(p.out, "{}", Quoted(&format!("?{}", d.inst)))?,
            }
            if d.kind != EdgeKind::Ordered {
                write!(p.out, ":{}", d.kind)?;
            }
            Ok(())
        })?;
        self.out.write_char(')')
    }

    fn loc(&mut self, loc: Loc) -> fmt::Result {
        let Some(first) = self.locs.get(loc) else { return Ok(()) };
        self.out.write_str(" !loc ")?;
        let mut passes = Vec::new();
        let (mut at, mut entry) = (loc, Some(first));
        while let Some(LocEntry::Derived { pass, from }) = entry {
            passes.push(pass);
            entry = if from.0 < at.0 { self.locs.get(*from) } else { None };
            at = *from;
        }
        match entry {
            None => self.out.write_str("unknown")?,
            Some(LocEntry::Byte(b)) => write!(self.out, "byte {b}")?,
            Some(LocEntry::Json(j)) => write!(self.out, "json {}", Quoted(j))?,
            Some(LocEntry::Derived { .. }) => {}
            Some(LocEntry::Pos(p)) => {
                if is_bare_path(&p.file) && !matches!(p.file.as_str(), "unknown" | "byte" | "json") {
                    write!(self.out, "{}", p.file)?;
                } else {
                    write!(self.out, "{}", Quoted(&p.file))?;
                }
                write!(self.out, ":{}:{}", p.line, p.column)?;
                let part = |v: Option<u32>| v.map_or("_".to_owned(), |v| v.to_string());
                if p.end_line.is_some() || p.end_column.is_some() {
                    write!(self.out, " to {}:{}", part(p.end_line), part(p.end_column))?;
                }
            }
        }
        for pass in passes.iter().rev() {
            write!(self.out, " via {}", Name(pass))?;
        }
        Ok(())
    }

    fn attrs(&mut self, at: Place, inst: &Inst, attrs: &Attrs) -> fmt::Result {
        let mut first = true;
        // Declared attributes in the order of the row; anything else (a fault elsewhere) after them.
        let spec = inst.spec();
        let declared = spec.attrs.iter().filter_map(|s| Some((s.attr, attrs.get(s.attr)?, Some(s))));
        let rest = attrs.iter().filter(|(a, _)| spec.attr(*a).is_none()).map(|(a, v)| (a, v, None));
        for (a, v, s) in declared.chain(rest) {
            write!(self.out, "{}{} = ", if first { " {" } else { ", " }, a.key())?;
            first = false;
            self.attr_value(at, v, s.map(|s| s.ty))?;
        }
        if first { Ok(()) } else { self.out.write_char('}') }
    }

    fn attr_value(&mut self, at: Place, v: &AttrValue, ty: Option<AttrType>) -> fmt::Result {
        match v {
            AttrValue::Bool(b) => write!(self.out, "{b}"),
            AttrValue::Int(i) => write!(self.out, "{i}"),
            AttrValue::F32(f) => write!(self.out, "{}", Float(*f)),
            AttrValue::Enum(o) => match ty {
                Some(AttrType::Enum(t)) => match t.name_of(*o) {
                    Some(n) => write!(self.out, "{}", Name(n)),
                    None => write!(self.out, "{o}"),
                },
                _ => write!(self.out, "{o}"),
            },
            AttrValue::Str(s) => write!(self.out, "{}", Quoted(s)),
            AttrValue::Ints(v) => self.bracketed(v, |p, i| write!(p.out, "{i}")),
            AttrValue::Floats(v) => self.bracketed(v, |p, f| write!(p.out, "{}", Float(*f))),
            AttrValue::Strs(v) => self.bracketed(v, |p, s| write!(p.out, "{}", Quoted(s))),
            AttrValue::Groups(v) => self.bracketed(v, |p, g| p.bracketed(g, |p, i| write!(p.out, "{i}"))),
            AttrValue::Pairs(v) => self.bracketed(v, |p, x| write!(p.out, "[{}, {}]", x.step, x.num)),
            AttrValue::Expr(e) => self.expr(at.func, e),
            AttrValue::Exprs(v) => self.bracketed(v, |p, e| p.expr(at.func, e)),
            AttrValue::Json(v) => self.json(v),
        }
    }
    fn bracketed<T>(&mut self, items: &[T], f: impl FnMut(&mut Self, &T) -> fmt::Result) -> fmt::Result {
        self.out.write_char('[')?;
        self.list(items, f)?;
        self.out.write_char(']')
    }

    fn loc_ref(&mut self, func: FuncId, id: MemLocId) -> fmt::Result {
        let Some(l) = self.m.memlocs.get(id) else {
            return write!(self.out, "@{}", Quoted(&format!("?{id}")));
        };
        let owner = self.names.func_of_set(l.set);
        let set = self.m.sets.get(l.set).map_or("", |s| s.name.as_str());
        if owner != Some(func)
            && let Some(f) = owner.and_then(|f| self.m.funcs.get(f))
        {
            write!(self.out, "@{}/{}/{}", Name(&f.name), Name(set), Name(&l.name))
        } else if self.names.is_ambiguous_loc(id) {
            write!(self.out, "@{}/{}", Name(set), Name(&l.name))
        } else {
            write!(self.out, "@{}", Name(&l.name))
        }
    }
    fn set_ref(&mut self, func: FuncId, id: SetId) -> fmt::Result {
        let Some(s) = self.m.sets.get(id) else { return write!(self.out, "@{}", Quoted(&format!("?{id}"))) };
        match self.names.func_of_set(id) {
            Some(f) if f != func => write!(self.out, "@{}/{}", Name(&self.m.funcs[f].name), Name(&s.name)),
            _ => write!(self.out, "@{}", Name(&s.name)),
        }
    }
    fn reg_ref(&mut self, func: FuncId, id: RegId) -> fmt::Result {
        let Some(r) = self.m.regs.get(id) else { return write!(self.out, "${}", Quoted(&format!("?{id}"))) };
        match self.names.func_of_reg(id) {
            Some(f) if f != func => write!(self.out, "${}/{}", Name(&self.m.funcs[f].name), Name(&r.name)),
            _ => write!(self.out, "${}", Name(&r.name)),
        }
    }
    fn pairs(&mut self, pairs: &[ApPair]) -> fmt::Result {
        for (i, p) in pairs.iter().enumerate() {
            write!(self.out, "{}[{},{}]", if i > 0 { " " } else { "" }, p.step, p.num)?;
        }
        Ok(())
    }

    fn operand(&mut self, at: Place, o: &Operand) -> fmt::Result {
        match o {
            Operand::Ap(a) => self.access_pattern(at, a),
            Operand::Imm(i) => write!(self.out, "{} {}", Imm(i.value), i.dtype),
            Operand::Reg(r) => {
                self.reg_ref(at.func, r.reg)?;
                write!(self.out, " {}", r.dtype)
            }
            Operand::Other(o) => self.other(at, o),
        }
    }

    fn access_pattern(&mut self, at: Place, a: &AccessPattern) -> fmt::Result {
        let AccessPattern { loc, dtype, offset, pairs, dynamic } = a;
        self.loc_ref(at.func, *loc)?;
        self.out.write_char('[')?;
        let mut sep = "";
        if *offset != 0 {
            write!(self.out, "off {offset}")?;
            sep = ", ";
        }
        if !pairs.is_empty() {
            self.out.write_str(sep)?;
            self.pairs(pairs)?;
            sep = ", ";
        }
        if let Some(d) = dynamic {
            write!(self.out, "{sep}dyn(")?;
            self.list(&d.terms, |p, (k, e)| {
                write!(p.out, "{k}*")?;
                p.expr(at.func, e)
            })?;
            write!(self.out, ") dim {}", d.indirect_dim)?;
            if let Some(m) = d.max_index {
                write!(self.out, " max {m}")?;
            }
        }
        write!(self.out, "] {dtype}")
    }

    fn other(&mut self, at: Place, o: &OtherOperand) -> fmt::Result {
        let imm = |p: &mut Self, dtype: crate::Dtype, i: &Immediate| {
            if i.dtype == dtype {
                write!(p.out, "{}", Imm(i.value))
            } else {
                write!(p.out, "{} {}", Imm(i.value), i.dtype)
            }
        };
        match o {
            OtherOperand::Symbolic { pwap, set, dtype, pairs, addrs, extra } => {
                self.out.write_str(if *pwap { "symbolic_pwap " } else { "symbolic_ap " })?;
                self.set_ref(at.func, *set)?;
                self.out.write_char('[')?;
                self.pairs(pairs)?;
                write!(self.out, "] {dtype} addrs(")?;
                self.list(addrs, |p, e| p.expr(at.func, e))?;
                self.out.write_char(')')?;
                self.ap_extra(extra)
            }
            OtherOperand::RegisterAp { set, reg, dtype, pairs, const_offset, extra } => {
                self.out.write_str("register_ap ")?;
                self.set_ref(at.func, *set)?;
                self.out.write_char('[')?;
                self.pairs(pairs)?;
                write!(self.out, "] {dtype} base(")?;
                self.reg_ref(at.func, *reg)?;
                write!(self.out, ", {const_offset})")?;
                self.ap_extra(extra)
            }
            OtherOperand::SymbolicImm { dtype, values, expr } => {
                write!(self.out, "symbolic_imm {dtype} [")?;
                self.list(values, |p, i| imm(p, *dtype, i))?;
                self.out.write_str("] by ")?;
                self.expr(at.func, expr)
            }
            OtherOperand::ImmArray { dtype, values } => {
                write!(self.out, "imm_array {dtype} [")?;
                self.list(values, |p, i| imm(p, *dtype, i))?;
                self.out.write_char(']')
            }
        }
    }

    fn expr(&mut self, func: FuncId, e: &Expr) -> fmt::Result {
        match e {
            Expr::Const(c) => write!(self.out, "{c}"),
            Expr::Affine { terms, c } => {
                write!(self.out, "affine({c}")?;
                for (k, t) in terms {
                    write!(self.out, ", {k}*")?;
                    self.expr(func, t)?;
                }
                self.out.write_char(')')
            }
            Expr::Sum(v) => {
                self.out.write_str("sum(")?;
                self.list(v, |p, e| p.expr(func, e))?;
                self.out.write_char(')')
            }
            Expr::Mult { var, scale } => self.call(func, "mult", var, &[*scale]),
            Expr::FloorDiv(n, d) => self.call(func, "div", n, &[*d]),
            Expr::Modulo(n, d) => self.call(func, "mod", n, &[*d]),
            Expr::CcDiv { numer, denom, replica_groups_id } => {
                self.call(func, "ccdiv", numer, &[*denom, *replica_groups_id])
            }
            Expr::LoopAxis(n) => write!(self.out, "axis({})", Name(n)),
            Expr::ShardId { ub } => write!(self.out, "shard({ub})"),
            Expr::IndirectArg(n) => write!(self.out, "arg({n})"),
            Expr::Reg(r) => self.reg_ref(func, *r),
            Expr::CcGetRank { iteration_id, channel_id } => {
                write!(self.out, "rank({iteration_id}, {channel_id})")
            }
        }
    }
    fn call(&mut self, func: FuncId, word: &str, e: &Expr, numbers: &[i64]) -> fmt::Result {
        write!(self.out, "{word}(")?;
        self.expr(func, e)?;
        for n in numbers {
            write!(self.out, ", {n}")?;
        }
        self.out.write_char(')')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_never_look_like_integers() {
        for (v, want) in [
            (1.0f32, "1.0"),
            (-0.0, "-0.0"),
            (1e20, "1e20"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::from_bits(0x7fc0_0001), "nan(0x7fc00001)"),
        ] {
            assert_eq!(Float(F32(v)).to_string(), want);
        }
    }

    #[test]
    fn names_are_quoted_where_needed() {
        assert_eq!(Name("LocalSendRecv-0_476.a").to_string(), "LocalSendRecv-0_476.a");
        assert_eq!(Name("0x").to_string(), "\"0x\"");
        assert_eq!(Name("a b\"\n").to_string(), "\"a b\\\"\\n\"");
        assert_eq!(Name("").to_string(), "\"\"");
    }
}
