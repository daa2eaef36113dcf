//! JSON to modules: containers and storages. Instructions are in `read_inst`, expressions in `expr`.
//!
//! The document is read in one pass straight into the arenas; only keys that the model does not name become
//! [`serde_json::Value`]s. Members of an object may come in any order: what depends on a later member is skipped and read
//! after it. References between instructions are resolved in a second pass, when every object of the module exists.

use super::cursor::{Cursor, Kind, Syntax, line_column, pointer};
use super::{Part, ProgramInfo};
use crate::arch::ArchLevel;
use crate::diag::codes::{
    P0102, P0103, P0104, P0105, P0106, P0107, P0108, P0109, P0110, P0112, P0113, P0117,
};
use crate::diag::{Code, Diagnostic, LocTable, Site, SourcePos};
use crate::dtype::Dtype;
use crate::enums::{AddressSpace, BirEnum, EngineKind, EnumTable, MemoryType, TensorClass, TensorKind};
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{Dep, F32, Operand, OperandList};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Block, Extra, Function, Module, Port, Signature, Storage};
use crate::resolve::{FuncNames, NameIndex, operand_mut};
use crate::text::level_from_name;
use crate::text::parse::{MAX_ERRORS, external_engine};
use compact_str::CompactString;
use rustc_hash::FxHashSet;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Reading cannot go on; what was wrong is in the list of errors.
#[derive(Debug)]
pub(super) struct Stop;

pub(super) type R<T> = Result<T, Stop>;

/// An error before it is rendered: code, byte offset, message, note.
pub(super) struct Fault {
    code: Code,
    at: usize,
    message: String,
    note: Option<String>,
}

pub(super) struct PendingDep<'s> {
    pub(super) inst: InstId,
    pub(super) block: BlockId,
    pub(super) carried: bool,
    pub(super) kind: crate::EdgeKind,
    pub(super) name: Cow<'s, str>,
    pub(super) at: usize,
}

/// A location of a function that was not read yet.
pub(super) struct PendingLoc<'s> {
    pub(super) inst: InstId,
    pub(super) list: OperandList,
    pub(super) index: usize,
    pub(super) func: Cow<'s, str>,
    pub(super) loc: Cow<'s, str>,
    pub(super) set: Option<Cow<'s, str>>,
    pub(super) at: usize,
}

pub(super) struct Reader<'s, 'l> {
    c: Cursor<'s>,
    errors: Vec<Fault>,
    pub(super) locs: &'l mut LocTable,
    pub(super) m: Module,
    /// Names of each function read so far; the last one is being read.
    pub(super) funcs: Vec<FuncNames>,
    pub(super) deps: Vec<PendingDep<'s>>,
    pub(super) late: Vec<PendingLoc<'s>>,
    /// Block names that instructions of the function name, with offsets.
    pub(super) targets: Vec<(Cow<'s, str>, usize)>,
    /// Queue names that instructions name, with offsets.
    pub(super) queue_uses: Vec<(CompactString, usize)>,
    pub(super) operands: Vec<Operand>,
    pub(super) depth: u32,
    block_names: FxHashSet<CompactString>,
    func_names: FxHashSet<CompactString>,
}

/// Reads every module of a document.
pub(super) fn read(bytes: &[u8], origin: &str, locs: &mut LocTable) -> Result<Vec<Part>, Vec<Diagnostic>> {
    let src = match std::str::from_utf8(bytes) {
        Ok(s) => s.strip_prefix('\u{feff}').unwrap_or(s),
        Err(e) => {
            let d = Diagnostic::new(P0102, "the file is not UTF-8 text");
            let site =
                Site { path: origin.to_owned(), offset: Some(e.valid_up_to() as u64), ..Site::default() };
            return Err(vec![d.site(site)]);
        }
    };
    let mut r = Reader {
        c: Cursor::new(src),
        errors: Vec::new(),
        locs,
        m: Module::new("", None, ArchLevel::Gen3),
        funcs: Vec::new(),
        deps: Vec::new(),
        late: Vec::new(),
        targets: Vec::new(),
        queue_uses: Vec::new(),
        operands: Vec::new(),
        depth: 0,
        block_names: FxHashSet::default(),
        func_names: FxHashSet::default(),
    };
    let parts = r.document();
    if r.errors.is_empty()
        && let Ok(parts) = parts
    {
        return Ok(parts);
    }
    Err(r
        .errors
        .into_iter()
        .map(|f| {
            let (line, column) = line_column(src, f.at);
            let pos = SourcePos { file: origin.into(), line, column, end_line: None, end_column: None };
            let site = Site { pos: Some(pos), path: pointer(src, f.at), ..Site::default() };
            let d = Diagnostic::new(f.code, f.message).site(site);
            match f.note {
                Some(n) => d.note(n),
                None => d,
            }
        })
        .collect())
}

// Thin wrappers over the cursor: a fault of the grammar is recorded and ends reading; a value of the wrong type is
// recorded and skipped.
impl<'s> Reader<'s, '_> {
    fn lift<T>(&mut self, r: Result<T, Syntax>) -> R<T> {
        r.map_err(|e| {
            let code = if e.too_deep { P0105 } else { P0102 };
            self.errors.push(Fault { code, at: e.at, message: e.message, note: None });
            Stop
        })
    }
    pub(super) fn error(&mut self, code: Code, at: usize, message: impl Into<String>) -> R<()> {
        self.error_with(code, at, message, None)
    }
    pub(super) fn error_with(
        &mut self,
        code: Code,
        at: usize,
        message: impl Into<String>,
        note: Option<String>,
    ) -> R<()> {
        self.errors.push(Fault { code, at, message: message.into(), note });
        if self.errors.len() > MAX_ERRORS { Err(Stop) } else { Ok(()) }
    }
    /// Offset of the next value.
    pub(super) fn at(&mut self) -> R<usize> {
        self.c.space();
        Ok(self.c.offset())
    }
    pub(super) fn seek(&mut self, at: usize) -> usize {
        let old = self.c.offset();
        self.c.seek(at);
        old
    }
    pub(super) fn kind(&mut self) -> R<Kind> {
        let r = self.c.kind();
        self.lift(r)
    }
    pub(super) fn skip(&mut self) -> R<()> {
        let r = self.c.skip();
        self.lift(r)
    }
    pub(super) fn value(&mut self) -> R<Value> {
        let r = self.c.value();
        self.lift(r)
    }
    /// Records that the next value has the wrong type, and skips it.
    pub(super) fn wrong(&mut self, wanted: &str) -> R<()> {
        let kind = self.kind()?;
        let at = self.at()?;
        self.error(P0109, at, format!("expected {wanted}, found {}", kind.word()))?;
        self.skip()
    }
    /// Enters an object; a value that is none is fatal only for its container.
    pub(super) fn object(&mut self) -> R<bool> {
        if self.kind()? != Kind::Object {
            self.wrong("an object")?;
            return Err(Stop);
        }
        let r = self.c.object();
        self.lift(r)
    }
    pub(super) fn key(&mut self, first: &mut bool) -> R<Option<Cow<'s, str>>> {
        let r = self.c.key(first);
        self.lift(r)
    }
    pub(super) fn array(&mut self) -> R<bool> {
        if self.kind()? != Kind::Array {
            self.wrong("an array")?;
            return Err(Stop);
        }
        let r = self.c.array();
        self.lift(r)
    }
    pub(super) fn element(&mut self, first: &mut bool) -> R<bool> {
        let r = self.c.element(first);
        self.lift(r)
    }
    pub(super) fn is_null(&mut self) -> R<bool> {
        Ok(self.kind()? == Kind::Null)
    }
    pub(super) fn text(&mut self) -> R<Option<Cow<'s, str>>> {
        if self.kind()? != Kind::String {
            self.wrong("a text")?;
            return Ok(None);
        }
        let r = self.c.string();
        self.lift(r).map(Some)
    }
    pub(super) fn name(&mut self) -> R<CompactString> {
        Ok(self.text()?.map_or_else(CompactString::default, CompactString::from))
    }
    pub(super) fn bool(&mut self) -> R<Option<bool>> {
        match self.kind()? {
            Kind::Bool => {
                let r = self.c.bool();
                self.lift(r).map(Some)
            }
            Kind::Number => Ok(self.int()?.map(|i| i != 0)),
            Kind::Object | Kind::Array | Kind::String | Kind::Null => {
                self.wrong("a boolean")?;
                Ok(None)
            }
        }
    }
    pub(super) fn flag(&mut self) -> R<bool> {
        Ok(self.bool()?.unwrap_or(false))
    }
    /// The text of the next number.
    pub(super) fn number(&mut self) -> R<Option<&'s str>> {
        if self.kind()? != Kind::Number {
            self.wrong("a number")?;
            return Ok(None);
        }
        let r = self.c.number();
        self.lift(r).map(Some)
    }
    fn whole<T: std::str::FromStr>(&mut self, range: &str) -> R<Option<T>> {
        let at = self.at()?;
        let Some(text) = self.number()? else { return Ok(None) };
        match text.parse() {
            Ok(v) => Ok(Some(v)),
            Err(_) => {
                self.error(P0104, at, format!("`{text}` does not fit: a whole number {range} is wanted"))?;
                Ok(None)
            }
        }
    }
    pub(super) fn int(&mut self) -> R<Option<i64>> {
        self.whole("of 64 bits")
    }
    pub(super) fn u64(&mut self) -> R<Option<u64>> {
        self.whole("from 0 of 64 bits")
    }
    pub(super) fn u32(&mut self) -> R<Option<u32>> {
        self.whole("from 0 of 32 bits")
    }
    pub(super) fn ints(&mut self) -> R<Vec<i64>> {
        let mut out = Vec::new();
        let mut first = self.array()?;
        while self.element(&mut first)? {
            out.extend(self.int()?);
        }
        Ok(out)
    }
    pub(super) fn names(&mut self) -> R<Vec<CompactString>> {
        let mut out = Vec::new();
        let mut first = self.array()?;
        while self.element(&mut first)? {
            out.push(self.name()?);
        }
        Ok(out)
    }
    /// A float: a number, or one of the texts that stand for values JSON has no number for.
    pub(super) fn float(&mut self) -> R<Option<F32>> {
        let at = self.at()?;
        match self.kind()? {
            Kind::Number => {
                let text = self.number()?.unwrap_or("");
                Ok(text.parse().ok().map(F32))
            }
            Kind::String => {
                let text = self.text()?.unwrap_or_default();
                let v = match &*text {
                    "inf" | "Infinity" => Some(f32::INFINITY),
                    "-inf" | "-Infinity" => Some(f32::NEG_INFINITY),
                    "nan" | "NaN" => Some(f32::NAN),
                    t => t
                        .strip_prefix("nan:0x")
                        .and_then(|h| u32::from_str_radix(h, 16).ok())
                        .map(f32::from_bits)
                        .filter(|f| f.is_nan()),
                };
                if v.is_none() {
                    self.error(
                        P0109,
                        at,
                        format!("`{text}` is no number; inf, -inf, nan and nan:0x<bits> are"),
                    )?;
                }
                Ok(v.map(F32))
            }
            Kind::Object | Kind::Array | Kind::Bool | Kind::Null => {
                self.wrong("a number")?;
                Ok(None)
            }
        }
    }
    pub(super) fn unknown(&mut self, table: &EnumTable, name: &str, at: usize) -> R<()> {
        let names: Vec<&str> = table.members.iter().map(|m| m.1).collect();
        let note = format!("members: {}", names.join(", "));
        self.error_with(P0103, at, format!("`{name}` is no {}", table.name), Some(note))
    }
    pub(super) fn member<E: BirEnum>(&mut self) -> R<Option<E>> {
        let at = self.at()?;
        let Some(name) = self.text()? else { return Ok(None) };
        let v = E::from_name(&name);
        if v.is_none() {
            self.unknown(E::TABLE, &name, at)?;
        }
        Ok(v)
    }
    pub(super) fn engine(&mut self) -> R<Option<EngineKind>> {
        let at = self.at()?;
        let Some(name) = self.text()? else { return Ok(None) };
        if let Some(e) = EngineKind::from_name(&name) {
            return Ok(Some(e));
        }
        match EngineKind::from_external_name(&name) {
            Some(e) => self.error(P0112, at, external_engine(&name, e))?,
            None => self.unknown(EngineKind::TABLE, &name, at)?,
        }
        Ok(None)
    }
    /// Keeps a member that the model does not name.
    pub(super) fn keep(&mut self, extra: &mut Extra, key: Cow<'s, str>) -> R<()> {
        let v = self.value()?;
        extra.get_or_insert_default().insert(key.into_owned(), v);
        Ok(())
    }
    /// A text member of the object that comes next.
    pub(super) fn peek_member(&self, name: &str) -> Option<Cow<'s, str>> {
        self.c.peek_text(name)
    }
    pub(super) fn find_reg(&self, name: &str) -> Option<RegId> {
        self.funcs.last()?.regs.get(name).copied()
    }
    pub(super) fn no_register(&mut self, at: usize, name: &str) -> R<()> {
        self.error(P0108, at, format!("no register `{name}` in the function"))
    }
}

impl<'s> Reader<'s, '_> {
    fn document(&mut self) -> R<Vec<Part>> {
        let mut parts = Vec::new();
        if self.kind()? == Kind::Array {
            let mut first = self.array()?;
            while self.element(&mut first)? {
                parts.push(self.wrapped_module()?);
            }
        } else {
            parts.push(self.wrapped_module()?);
        }
        self.c.space();
        if self.c.offset() < self.c.source().len() {
            let at = self.c.offset();
            self.error(P0102, at, "the document goes on after its end")?;
            return Err(Stop);
        }
        Ok(parts)
    }

    fn wrapped_module(&mut self) -> R<Part> {
        if self.kind()? != Kind::Object || self.c.has_member("functions") || !self.c.has_member("module") {
            return self.module();
        }
        let mut part = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            if key == "module" {
                part = Some(self.module()?);
            } else {
                self.skip()?;
            }
        }
        part.ok_or(Stop)
    }

    fn module(&mut self) -> R<Part> {
        self.m = Module::new("", None, ArchLevel::Gen3);
        self.funcs.clear();
        self.func_names.clear();
        let mut info = None;
        let mut constants = Vec::new();
        let mut extra: Extra = None;
        let mut attributes = Map::new();
        let mut has_functions = false;
        let start = self.at()?;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            has_functions |= matches!(&*key, "functions" | "nki_functions");
            match &*key {
                "arch" => {
                    if let Some(a) = self.member()? {
                        self.m.arch = a;
                    }
                }
                "version" => {
                    let at = self.at()?;
                    if let Some(v) = self.int()?
                        && !matches!(v, 1 | 2)
                    {
                        let text = "Check the version of bir json file - should be 1 (old) or 2 (new)";
                        self.error(P0107, at, text)?;
                    }
                }
                "archRev" => {
                    let v = self.value()?;
                    extra.get_or_insert_default().insert("revision".to_owned(), v);
                }
                "attributes" if self.kind()? == Kind::Object => {
                    let mut first = self.object()?;
                    while let Some(key) = self.key(&mut first)? {
                        if key == "neuron_core_id" && !self.is_null()? {
                            self.m.core = self.u32()?.map(CoreId);
                        } else {
                            let v = self.value()?;
                            attributes.insert(key.into_owned(), v);
                        }
                    }
                }
                "functions" | "nki_functions" => {
                    let mut first = self.array()?;
                    while self.element(&mut first)? {
                        let f = self.function()?;
                        if key == "functions" {
                            self.m.functions.push(f)
                        } else {
                            self.m.nki_functions.push(f)
                        }
                    }
                }
                "queues" => {
                    let mut first = self.array()?;
                    while self.element(&mut first)? {
                        let q = self.value()?;
                        self.m.queues.push(q);
                    }
                }
                "tandem" => info = Some(self.tandem(&mut constants)?),
                _ => self.keep(&mut extra, key)?,
            }
        }
        if !has_functions {
            // Any other JSON object would otherwise pass as an empty module.
            self.error(P0110, start, "this is no BIR module: it has no `functions`")?;
        }
        if !attributes.is_empty() {
            extra.get_or_insert_default().insert("attributes".to_owned(), Value::Object(attributes));
        }
        self.m.extra = extra;
        self.second_pass(info.is_some())?;
        let module = std::mem::replace(&mut self.m, Module::new("", None, ArchLevel::Gen3));
        Ok(Part { module, place: None, info, constants })
    }

    /// Our own key of a module.
    fn tandem(&mut self, constants: &mut Vec<(String, Vec<u8>)>) -> R<ProgramInfo> {
        let mut info = ProgramInfo::default();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "module" => self.m.name = self.name()?,
                "subgraph" => self.m.subgraph = self.u32()?.unwrap_or(0),
                "program" => info.name = self.name()?.to_string(),
                "lnc_size" => info.lnc_size = self.u32()?.unwrap_or(1),
                "level" => {
                    let at = self.at()?;
                    let name = self.name()?;
                    match level_from_name(&name) {
                        Some(l) => info.level = l,
                        None => self.error(P0103, at, format!("`{name}` is no level"))?,
                    }
                }
                "inputs" => info.signature.inputs = self.ports()?,
                "outputs" => info.signature.outputs = self.ports()?,
                "constants" => {
                    let mut first = self.object()?;
                    while let Some(file) = self.key(&mut first)? {
                        let at = self.at()?;
                        let text = self.text()?.unwrap_or_default();
                        match crate::base64::decode(&text) {
                            Some(b) => constants.push((file.into_owned(), b)),
                            None => self.error(P0117, at, "this is not base 64")?,
                        }
                    }
                }
                _ => self.skip()?,
            }
        }
        Ok(info)
    }

    fn ports(&mut self) -> R<Vec<Port>> {
        let mut out = Vec::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            let mut p = Port {
                name: String::new(),
                location: CompactString::default(),
                core: None,
                subgraph: 0,
                dtype: Dtype::Float32,
                shape: Vec::new(),
            };
            let mut first = self.object()?;
            while let Some(key) = self.key(&mut first)? {
                match &*key {
                    "name" => p.name = self.name()?.to_string(),
                    "location" => p.location = self.name()?,
                    "core" => p.core = self.u32()?.map(CoreId),
                    "subgraph" => p.subgraph = self.u32()?.unwrap_or(0),
                    "dtype" => p.dtype = self.member()?.unwrap_or(Dtype::Float32),
                    "shape" => p.shape = self.u64s()?,
                    _ => self.skip()?,
                }
            }
            out.push(p);
        }
        Ok(out)
    }
    fn u64s(&mut self) -> R<Vec<u64>> {
        let mut out = Vec::new();
        let mut first = self.array()?;
        while self.element(&mut first)? {
            out.extend(self.u64()?);
        }
        Ok(out)
    }

    /// What needs every object of the module: dependencies, locations of later functions, queues.
    fn second_pass(&mut self, ours: bool) -> R<()> {
        for late in std::mem::take(&mut self.late) {
            let names = self.funcs.iter().find(|f| f.name == *late.func);
            match names.and_then(|n| n.loc(&self.m, &late.loc, late.set.as_deref()).ok()) {
                Some(l) => {
                    if let Some(a) = operand_mut(&mut self.m, late.inst, late.list, late.index)
                        .and_then(Operand::as_ap_mut)
                    {
                        a.loc = l;
                    }
                }
                None => {
                    let text = format!("no location `{}` in function `{}`", late.loc, late.func);
                    self.error(P0108, late.at, text)?;
                }
            }
        }
        let deps = std::mem::take(&mut self.deps);
        let m = std::mem::replace(&mut self.m, Module::new("", None, ArchLevel::Gen3));
        let mut found = Vec::with_capacity(deps.len());
        {
            let names = NameIndex::new(&m);
            for d in &deps {
                let target = names.resolve_inst(d.block, &d.name).or_else(|| {
                    let (func, rest) = d.name.strip_prefix(super::QUALIFIED)?.split_once(super::QUALIFIED)?;
                    let (block, name) = rest.split_once(super::QUALIFIED)?;
                    names.resolve_qualified(func, block, name)
                });
                if target.is_none() {
                    let what =
                        if d.carried { "Unknown loop-carried dependency" } else { "Unknown dependency" };
                    self.error(P0108, d.at, format!("{what}: no instruction `{}`", d.name))?;
                }
                found.push(target);
            }
        }
        self.m = m;
        for (d, target) in deps.into_iter().zip(found) {
            let Some(target) = target else { continue };
            let inst = &mut self.m.insts[d.inst];
            if d.carried {
                inst.more_mut().loop_carried.push(Dep { inst: target, kind: d.kind });
            } else {
                // Reading merges entries only when a producer comes twice; see `read_deps`.
                inst.deps.push(Dep { inst: target, kind: d.kind });
            }
        }
        let uses = std::mem::take(&mut self.queue_uses);
        if !ours && !uses.is_empty() {
            let known: FxHashSet<&str> =
                self.m.queues.iter().filter_map(|q| q.get("name").and_then(Value::as_str)).collect();
            let missing: Vec<(CompactString, usize)> =
                uses.into_iter().filter(|(q, _)| !known.contains(q.as_str())).collect();
            for (q, at) in missing {
                self.error(P0108, at, format!("Queue does not exist! `{q}`"))?;
            }
        }
        Ok(())
    }

    fn function(&mut self) -> R<FuncId> {
        let start = self.at()?;
        let id = self.m.funcs.push(Function {
            name: CompactString::default(),
            storages: Vec::new(),
            blocks: Vec::new(),
            attributes: Vec::new(),
            extra: None,
        });
        self.funcs.push(FuncNames::default());
        self.block_names.clear();
        self.targets.clear();
        let mut extra = None;
        let mut storages_read = false;
        let mut blocks_at = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "name" => {
                    let name = self.name()?;
                    if let Some(f) = self.funcs.last_mut() {
                        f.name = name.clone();
                    }
                    self.m.funcs[id].name = name;
                }
                "attributes" => self.m.funcs[id].attributes = self.function_attributes()?,
                "allocations" => {
                    storages_read = true;
                    let mut first = self.array()?;
                    while self.element(&mut first)? {
                        if let Some(s) = self.storage()? {
                            self.m.funcs[id].storages.push(s);
                        }
                    }
                }
                "blocks" if storages_read => self.m.funcs[id].blocks = self.blocks()?,
                "blocks" => {
                    blocks_at = Some(self.at()?);
                    self.skip()?;
                }
                _ => self.keep(&mut extra, key)?,
            }
        }
        if let Some(at) = blocks_at {
            let end = self.seek(at);
            self.m.funcs[id].blocks = self.blocks()?;
            self.seek(end);
        }
        self.m.funcs[id].extra = extra;
        let name = self.m.funcs[id].name.clone();
        if !self.func_names.insert(name.clone()) {
            self.error(P0106, start, format!("the module has two functions `{name}`"))?;
        }
        for (target, at) in std::mem::take(&mut self.targets) {
            if !self.block_names.contains(&*target) {
                self.error(P0108, at, format!("`{target}`: BasicBlock does not exist!"))?;
            }
        }
        Ok(id)
    }

    fn function_attributes(&mut self) -> R<Vec<CompactString>> {
        if self.kind()? == Kind::Array {
            return self.names();
        }
        let mut out = Vec::new();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            if self.flag()? {
                out.push(key.into());
            }
        }
        Ok(out)
    }

    fn storage(&mut self) -> R<Option<Storage>> {
        let at = self.at()?;
        if self.kind()? != Kind::Object {
            self.wrong("an object")?;
            return Ok(None);
        }
        let kind = self.c.peek_text("Skind");
        match kind.as_deref() {
            Some("register") => Ok(Some(Storage::Register(self.register(at)?))),
            Some("memory_location_set") => Ok(Some(Storage::Set(self.set(at)?))),
            None if self.c.has_member("memorylocations") => Ok(Some(Storage::Set(self.set(at)?))),
            None if self.c.has_member("num_physical_regs") => Ok(Some(Storage::Register(self.register(at)?))),
            other => {
                let what = other.unwrap_or("none given").to_owned();
                self.error(P0113, at, format!("storage kind `{what}` has no place among allocations"))?;
                self.skip()?;
                Ok(None)
            }
        }
    }

    fn register(&mut self, at: usize) -> R<RegId> {
        let mut r = Register {
            name: CompactString::default(),
            engine: EngineKind::All,
            num_physical: 1,
            extra: None,
        };
        let mut extra = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "Skind" => self.skip()?,
                "name" => r.name = self.name()?,
                "engine" => r.engine = self.engine()?.unwrap_or(EngineKind::All),
                "num_physical_regs" => r.num_physical = self.u32()?.unwrap_or(1),
                _ => self.keep(&mut extra, key)?,
            }
        }
        r.extra = extra;
        let name = r.name.clone();
        let id = self.m.regs.push(r);
        if let Some(f) = self.funcs.last_mut()
            && f.regs.insert(name.clone(), id).is_some()
        {
            self.error(P0106, at, format!("the function has two registers `{name}`"))?;
        }
        Ok(id)
    }

    fn set(&mut self, at: usize) -> R<SetId> {
        let id = self.m.sets.next_key();
        let mut class = None;
        let mut dtype = None;
        let mut s = MemoryLocationSet {
            name: CompactString::default(),
            ..MemoryLocationSet::new("", Dtype::Float32, TensorKind::Internal, AddressSpace::Local, &[])
        };
        let mut extra = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "Skind" | "tensorId2MemLocSize" => self.skip()?,
                "name" => s.name = self.name()?,
                "dtype" => dtype = self.member()?,
                "kind" => s.kind = self.member()?.unwrap_or(s.kind),
                "tensor_class" => class = self.member()?,
                "addr_space" => s.addr_space = self.member()?.unwrap_or(s.addr_space),
                "tensor_shape" => s.shape = self.u64s()?.into(),
                "partition_dim" => s.partition_dim = self.u32()?.unwrap_or(0),
                "file" => {
                    let file = self.name()?;
                    s.file = if file.is_empty() { None } else { Some(file) };
                }
                "no_spill" | "do_not_spill" => s.no_spill = self.flag()?,
                "volatile" => s.volatile = self.flag()?,
                "virtual" => s.is_virtual = self.flag()?,
                "do_not_rotate" => s.do_not_rotate = self.flag()?,
                "memorylocations" => {
                    let mut own: FxHashSet<CompactString> = FxHashSet::default();
                    let mut more = self.array()?;
                    while self.element(&mut more)? {
                        let at = self.at()?;
                        let l = self.location(id)?;
                        let name = self.m.memlocs[l].name.clone();
                        if let Some(f) = self.funcs.last_mut() {
                            f.add_loc(name.clone(), l);
                        }
                        if !own.insert(name.clone()) {
                            self.error(P0106, at, format!("the set has two locations `{name}`"))?;
                        }
                        s.locs.push(l);
                    }
                }
                _ => self.keep(&mut extra, key)?,
            }
        }
        match dtype {
            Some(d) => s.dtype = d,
            None => self.error(P0110, at, format!("the set `{}` needs `dtype`", s.name))?,
        }
        s.class = class.unwrap_or(if s.kind == TensorKind::Internal {
            TensorClass::NeuronSbTensor
        } else {
            TensorClass::Tensor
        });
        s.extra = extra;
        let name = s.name.clone();
        let id = self.m.sets.push(s);
        if let Some(f) = self.funcs.last_mut()
            && f.sets.insert(name.clone(), id).is_some()
        {
            self.error(P0106, at, format!("the function has two sets `{name}`"))?;
        }
        Ok(id)
    }

    fn location(&mut self, set: SetId) -> R<MemLocId> {
        let at = self.at()?;
        let mut l = MemoryLocation::new("", set, MemoryType::Unallocated, &[]);
        let mut extra = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "Skind" => self.skip()?,
                "name" => l.name = self.name()?,
                "type" => l.mem = self.memory_type()?,
                "addr" => l.addr = self.u64()?.unwrap_or(0),
                "dims" => l.dims = self.u64s()?.into(),
                "bank" => l.bank = self.int()?.unwrap_or(0),
                "base" => l.base = self.u32()?.unwrap_or(0),
                "allocated" => l.allocated = self.flag()?,
                "user_allocated" => l.user_allocated = self.flag()?,
                "pinned" => l.pinned = self.flag()?,
                "tensor_id" => {
                    let at = self.at()?;
                    let v = self.int()?.unwrap_or(-1);
                    match i32::try_from(v) {
                        Ok(v) => l.tensor_id = v,
                        Err(_) => self.error(P0104, at, format!("`{v}` does not fit into 32 bits"))?,
                    }
                }
                "alias" => l.aliases = self.aliases()?,
                "remote_local_target" => {
                    if self.is_null()? {
                        self.skip()?;
                    } else {
                        l.remote_local_target = Some(self.remote()?);
                    }
                }
                "written_by_another_core" => l.written_by_another_core = self.flag()?,
                "is_shared_post_dram_alloc" => l.is_shared_post_dram_alloc = self.flag()?,
                _ => self.keep(&mut extra, key)?,
            }
        }
        if l.name.is_empty() {
            self.error(P0110, at, "a memory location needs `name`")?;
        }
        l.extra = extra;
        Ok(self.m.memlocs.push(l))
    }

    /// A name, or the flag integer that some writers use.
    fn memory_type(&mut self) -> R<MemoryType> {
        let at = self.at()?;
        if self.kind()? == Kind::Number {
            let v = self.int()?.unwrap_or(0);
            let m = u16::try_from(v).ok().and_then(MemoryType::from_ordinal);
            if m.is_none() {
                self.unknown(MemoryType::TABLE, &v.to_string(), at)?;
            }
            return Ok(m.unwrap_or(MemoryType::Unallocated));
        }
        Ok(self.member()?.unwrap_or(MemoryType::Unallocated))
    }

    fn aliases(&mut self) -> R<Vec<(CompactString, CompactString, i64)>> {
        let mut out = Vec::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            let at = self.at()?;
            let mut names = Vec::new();
            let mut kind = None;
            let mut first = self.array()?;
            while self.element(&mut first)? {
                if self.kind()? == Kind::Number { kind = self.int()? } else { names.push(self.name()?) }
            }
            match (names.as_mut_slice(), kind) {
                ([set, loc], Some(k)) => out.push((std::mem::take(set), std::mem::take(loc), k)),
                ([loc], Some(k)) => out.push((CompactString::default(), std::mem::take(loc), k)),
                _ => self.error(P0109, at, "an alias is [set, location, kind] or [location, kind]")?,
            }
        }
        Ok(out)
    }

    fn remote(&mut self) -> R<RemoteTarget> {
        let at = self.at()?;
        let mut name = None;
        let mut core = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "name" => name = Some(self.name()?),
                "core" => core = self.u32()?,
                _ => self.skip()?,
            }
        }
        if name.is_none() || core.is_none() {
            self.error(P0110, at, "a remote target needs `name` and `core`")?;
        }
        Ok(RemoteTarget { name: name.unwrap_or_default(), core: CoreId(core.unwrap_or(0)) })
    }

    /// Blocks of a function or of a loop-like instruction.
    pub(super) fn blocks(&mut self) -> R<Vec<BlockId>> {
        let mut out = Vec::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            out.push(self.block()?);
        }
        Ok(out)
    }

    fn block(&mut self) -> R<BlockId> {
        let at = self.at()?;
        let id = self.m.blocks.push(Block { name: CompactString::default(), insts: Vec::new(), extra: None });
        let mut extra = None;
        let mut insts = Vec::new();
        let mut names: FxHashSet<CompactString> = FxHashSet::default();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "name" => self.m.blocks[id].name = self.name()?,
                "instructions" => {
                    let mut more = self.array()?;
                    while self.element(&mut more)? {
                        let at = self.at()?;
                        let i = self.inst(id)?;
                        let name = self.m.insts[i].name.clone();
                        if names.contains(&name) {
                            self.error(P0106, at, format!("the block has two instructions `{name}`"))?;
                        }
                        names.insert(name);
                        insts.push(i);
                    }
                }
                _ => self.keep(&mut extra, key)?,
            }
        }
        insts.shrink_to_fit();
        let block = &mut self.m.blocks[id];
        block.insts = insts;
        block.extra = extra;
        let name = block.name.clone();
        if !self.block_names.insert(name.clone()) {
            self.error(P0106, at, format!("the function has two blocks `{name}`"))?;
        }
        Ok(id)
    }
}

impl Default for ProgramInfo {
    fn default() -> Self {
        ProgramInfo {
            name: String::new(),
            lnc_size: 1,
            level: crate::Level::Bir,
            signature: Signature::default(),
        }
    }
}
