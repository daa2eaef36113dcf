//! Reading JSON: the reader and its words. Modules are in `read_module`, functions and storages in `read_function`,
//! instructions in `read_inst`, expressions in `expr`.
//!
//! The document is read in one pass straight into the arenas; only keys that the model does not name become
//! [`serde_json::Value`]s. Members of an object may come in any order: what depends on a later member is skipped and read
//! after it. References between instructions are resolved in a second pass, when every object of the module exists.

use super::Part;
use super::cursor::{Cursor, Kind, Syntax, line_column, pointer};
use crate::arch::ArchLevel;
use crate::diag::codes::{P0102, P0103, P0104, P0105, P0108, P0109, P0112};
use crate::diag::{Code, Diagnostic, LocTable, Site, SourcePos};
use crate::enums::{BirEnum, EngineKind, EnumTable};
use crate::ids::{BlockId, InstId, RegId};
use crate::inst::{F32, Operand, OperandList};
use crate::module::{Extra, Module};
use crate::resolve::FuncNames;
use crate::text::parse::{MAX_ERRORS, external_engine};
use compact_str::CompactString;
use rustc_hash::FxHashSet;
use serde_json::Value;
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
    pub(super) c: Cursor<'s>,
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
    pub(super) block_names: FxHashSet<CompactString>,
    pub(super) func_names: FxHashSet<CompactString>,
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
