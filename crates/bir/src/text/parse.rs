//! Text to program. The first fault of the grammar ends reading; references that lead nowhere are all reported.

use super::lex::{Lexer, Spot, Tok};
use super::{VERSION, level_from_name};
use crate::ap::{AccessPattern, ApPair, ApPairs, DynamicAp};
use crate::arch::ArchLevel;
use crate::diag::codes::{P0101, P0103, P0104, P0105, P0106, P0107, P0108, P0111, P0117};
use crate::diag::{Code, Diagnostic, Loc, LocEntry, LocTable, Site, SourcePos};
use crate::dtype::Dtype;
use crate::enums::{BirEnum, EdgeKind, EngineKind, EnumTable, MemoryType};
use crate::expr::Expr;
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{
    Attr, AttrSpec, AttrType, AttrValue, Dep, F32, ImmValue, Immediate, Inst, InstMore, Opcode, Operand,
    OperandExtra, OperandList, OtherOperand, RegAccess, SemUpdate, SemWait, SyncInfo,
};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Extra, Function, Module, Port, Program, Signature, Storage};
use crate::resolve::{FuncNames, NameIndex};
use compact_str::CompactString;
use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use std::borrow::Cow;

/// Deepest nesting of expressions and of blocks.
pub(crate) const MAX_DEPTH: u32 = 64;
/// Findings reported before reading gives up.
pub(crate) const MAX_ERRORS: usize = 50;

/// Options of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions<'a> {
    /// Name of the file, for findings.
    pub file: &'a str,
    /// Give instructions without a `!loc` their own place in the text as source position.
    pub own_positions: bool,
}

impl Default for ParseOptions<'_> {
    fn default() -> Self {
        ParseOptions { file: "<text>", own_positions: false }
    }
}

/// Reads a program.
///
/// # Errors
/// Everything that is wrong with the text, with line and column (codes P0101 to P0117).
pub fn parse(src: &str) -> Result<Program, Vec<Diagnostic>> {
    parse_with(src, &ParseOptions::default())
}

/// Reads a program, with options.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(src: &str, options: &ParseOptions<'_>) -> Result<Program, Vec<Diagnostic>> {
    let mut lexer = Lexer::new(src);
    let spot = lexer.spot();
    let tok = lexer.next();
    let mut p = Parser {
        lexer,
        options,
        tok,
        spot,
        end: spot,
        depth: 0,
        errors: Vec::new(),
        locs: LocTable::default(),
        m: Module::new("", None, ArchLevel::Gen3),
        funcs: Vec::new(),
        deps: Vec::new(),
        late: Vec::new(),
    };
    match p.program() {
        Ok(program) if p.errors.is_empty() => Ok(program),
        Ok(_) => Err(p.errors),
        Err(e) => {
            p.errors.push(*e);
            Err(p.errors)
        }
    }
}

/// True when a text begins like textual BIR.
pub fn looks_like_text(src: &[u8]) -> bool {
    let head = src.get(..src.len().min(4096)).unwrap_or(&[]);
    let head = String::from_utf8_lossy(head);
    let mut lexer = Lexer::new(&head);
    lexer.next() == Tok::Word("bir") && matches!(lexer.next(), Tok::Num(_))
}

type R<T> = Result<T, Box<Diagnostic>>;

struct PendingDep<'s> {
    inst: InstId,
    block: BlockId,
    carried: bool,
    kind: EdgeKind,
    path: Vec<Cow<'s, str>>,
    spot: Spot,
}

/// A location of a function that comes later in the text.
struct PendingLoc<'s> {
    inst: InstId,
    list: OperandList,
    index: usize,
    path: Vec<Cow<'s, str>>,
    spot: Spot,
}

struct Parser<'s, 'o> {
    lexer: Lexer<'s>,
    options: &'o ParseOptions<'o>,
    tok: Tok<'s>,
    spot: Spot,
    /// End of the last token taken.
    end: Spot,
    depth: u32,
    errors: Vec<Diagnostic>,
    locs: LocTable,
    m: Module,
    funcs: Vec<FuncNames>,
    deps: Vec<PendingDep<'s>>,
    late: Vec<PendingLoc<'s>>,
}

/// Where an operand is being read: function, and the operand's place in its instruction.
#[derive(Clone, Copy)]
struct At {
    func: usize,
    inst: InstId,
    list: OperandList,
    index: usize,
}

impl<'s> Parser<'s, '_> {
    // ---- tokens ----
    fn advance(&mut self) -> Tok<'s> {
        self.end = self.spot;
        self.spot = self.lexer.spot();
        let next = self.lexer.next();
        std::mem::replace(&mut self.tok, next)
    }
    fn diag(&self, code: Code, spot: Spot, message: impl Into<String>) -> Box<Diagnostic> {
        let src = self.lexer.source();
        let rest = src.get(spot.line_start..).unwrap_or("");
        let line: String = rest.lines().next().unwrap_or("").chars().take(400).collect();
        let before = src.get(spot.line_start..spot.at).unwrap_or("");
        let column = u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
        let pos = SourcePos {
            file: self.options.file.into(),
            line: spot.line,
            column,
            end_line: None,
            end_column: None,
        };
        let mut d = Diagnostic::new(code, message).site(Site::at(Some(pos)));
        if !line.trim().is_empty() {
            d = d.note(format!("line {}: {}", spot.line, line.trim()));
        }
        Box::new(d)
    }
    fn found(&self) -> String {
        match &self.tok {
            Tok::Word(w) | Tok::Num(w) => format!("`{w}`"),
            Tok::Str(s) => format!("the text \"{}\"", s.chars().take(40).collect::<String>()),
            Tok::Punct(p) => format!("`{p}`"),
            Tok::Bad(m) => (*m).to_owned(),
            Tok::Other(c) => format!("the character `{}`", c.escape_default()),
            Tok::Eof => "the end of the text".to_owned(),
        }
    }
    fn expected(&self, what: &str) -> Box<Diagnostic> {
        self.diag(P0101, self.spot, format!("expected {what}, found {}", self.found()))
    }
    fn report(&mut self, d: Box<Diagnostic>) -> R<()> {
        if self.errors.len() >= MAX_ERRORS {
            return Err(d);
        }
        self.errors.push(*d);
        Ok(())
    }
    fn is(&self, p: &str) -> bool {
        matches!(&self.tok, Tok::Punct(q) if *q == p)
    }
    fn is_word(&self, w: &str) -> bool {
        matches!(&self.tok, Tok::Word(x) if *x == w)
    }
    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        if yes {
            self.advance();
        }
        yes
    }
    fn eat_word(&mut self, w: &str) -> bool {
        let yes = self.is_word(w);
        if yes {
            self.advance();
        }
        yes
    }
    fn need(&mut self, p: &str) -> R<()> {
        if self.eat(p) { Ok(()) } else { Err(self.expected(&format!("`{p}`"))) }
    }
    fn need_word(&mut self, w: &str) -> R<()> {
        if self.eat_word(w) { Ok(()) } else { Err(self.expected(&format!("`{w}`"))) }
    }
    fn word(&mut self, what: &str) -> R<&'s str> {
        match self.tok {
            Tok::Word(w) => {
                self.advance();
                Ok(w)
            }
            _ => Err(self.expected(what)),
        }
    }
    /// A name, bare or quoted.
    fn name(&mut self, what: &str) -> R<Cow<'s, str>> {
        match self.tok {
            Tok::Word(w) => {
                self.advance();
                Ok(Cow::Borrowed(w))
            }
            Tok::Str(_) => match self.advance() {
                Tok::Str(s) => Ok(s),
                _ => Err(self.expected(what)),
            },
            _ => Err(self.expected(what)),
        }
    }
    fn quoted(&mut self, what: &str) -> R<Cow<'s, str>> {
        match self.tok {
            Tok::Str(_) => self.name(what),
            _ => Err(self.expected(what)),
        }
    }
    fn at_name(&mut self, what: &str) -> R<Cow<'s, str>> {
        self.need("@")?;
        self.name(what)
    }
    fn number<T: std::str::FromStr>(&mut self, what: &str) -> R<T> {
        let Tok::Num(text) = self.tok else { return Err(self.expected(what)) };
        match text.parse() {
            Ok(v) => {
                self.advance();
                Ok(v)
            }
            Err(_) => Err(self.diag(P0104, self.spot, format!("`{text}` does not fit: {what} is wanted"))),
        }
    }
    fn int(&mut self) -> R<i64> {
        self.number("a whole number of 64 bits")
    }
    fn u64(&mut self) -> R<u64> {
        self.number("a whole number from 0 of 64 bits")
    }
    fn u32(&mut self) -> R<u32> {
        self.number("a whole number from 0 of 32 bits")
    }
    /// Items between brackets, separated by commas.
    fn items<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        mut f: impl FnMut(&mut Self) -> R<T>,
    ) -> R<Vec<T>> {
        self.need(open)?;
        let mut out = Vec::new();
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(f(self)?);
            if !self.eat(",") {
                break;
            }
        }
        if self.eat(close) { Ok(out) } else { Err(self.expected(&format!("`,` or `{close}`"))) }
    }
    fn member<E: BirEnum>(&mut self) -> R<E> {
        let table = E::TABLE;
        let spot = self.spot;
        let Tok::Word(name) = self.tok else { return Err(self.expected_member(table)) };
        match E::from_name(name) {
            Some(v) => {
                self.advance();
                Ok(v)
            }
            None => Err(self.unknown_member(table, name, spot)),
        }
    }
    fn expected_member(&self, table: &EnumTable) -> Box<Diagnostic> {
        self.expected(&format!("a member of {}", table.name))
    }
    fn unknown_member(&self, table: &EnumTable, name: &str, spot: Spot) -> Box<Diagnostic> {
        let d = self.diag(P0103, spot, format!("`{name}` is no {}", table.name));
        let names: Vec<&str> = table.members.iter().map(|m| m.1).collect();
        Box::new(d.note(format!("members: {}", names.join(", "))))
    }
    fn json(&mut self) -> R<serde_json::Value> {
        // The current token was already read; go back to where it starts.
        let mut lexer = self.lexer.clone();
        lexer.rewind(self.spot);
        match lexer.json() {
            Ok(v) => {
                self.lexer = lexer;
                self.advance();
                Ok(v)
            }
            Err(e) => Err(self.diag(P0101, self.spot, format!("this is no JSON value: {e}"))),
        }
    }
    fn json_object(&mut self) -> R<serde_json::Map<String, serde_json::Value>> {
        if !self.is("{") {
            return Err(self.expected("a JSON object"));
        }
        match self.json()? {
            serde_json::Value::Object(o) => Ok(o),
            _ => Err(self.expected("a JSON object")),
        }
    }
    fn extra(&mut self) -> R<Extra> {
        if self.eat_word("extra") { Ok(Some(Box::new(self.json_object()?))) } else { Ok(None) }
    }
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> R<T>) -> R<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.diag(P0105, self.spot, format!("more than {MAX_DEPTH} levels of nesting")));
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    // ---- containers ----
    fn program(&mut self) -> R<Program> {
        self.need_word("bir")?;
        let spot = self.spot;
        let version = self.u32()?;
        if version != VERSION {
            return Err(self.diag(
                P0107,
                spot,
                format!("textual BIR of version {version}; this reader knows version {VERSION}"),
            ));
        }
        self.need_word("program")?;
        let name = self.name("the name of the program")?.into_owned();
        self.need_word("lnc")?;
        let lnc_size = self.u32()?;
        self.need_word("level")?;
        let spot = self.spot;
        let level = self.word("a level")?;
        let Some(level) = level_from_name(level) else {
            return Err(self.diag(
                P0103,
                spot,
                format!("`{level}` is no level; levels are bir, lowered, linked"),
            ));
        };
        let mut signature = Signature::default();
        let mut constants: IndexMap<String, std::sync::Arc<[u8]>> = IndexMap::new();
        let mut modules = Vec::new();
        loop {
            if self.eat_word("input") {
                let port = self.port()?;
                signature.inputs.push(port);
            } else if self.eat_word("output") {
                let port = self.port()?;
                signature.outputs.push(port);
            } else if self.eat_word("constant") {
                let file = self.quoted("the file name of a constant")?.into_owned();
                self.need("=")?;
                self.need_word("base64")?;
                let spot = self.spot;
                let text = self.quoted("data in base 64")?;
                match crate::base64::decode(&text) {
                    Some(bytes) => constants.insert(file, bytes.into()),
                    None => return Err(self.diag(P0117, spot, "this is not base 64")),
                };
            } else if self.eat_word("module") {
                modules.push(self.module()?);
            } else if self.tok == Tok::Eof {
                break;
            } else {
                return Err(self.expected("`input`, `output`, `constant` or `module`"));
            }
        }
        let locs = std::mem::take(&mut self.locs);
        Ok(Program { name, lnc_size, level, modules, locs, constants, signature })
    }

    fn port(&mut self) -> R<Port> {
        let name = self.quoted("the name of the tensor")?.into_owned();
        self.need("=")?;
        let location = CompactString::from(self.at_name("the name of a location")?);
        let core = if self.eat_word("core") { Some(CoreId(self.u32()?)) } else { None };
        let subgraph = if self.eat_word("subgraph") { self.u32()? } else { 0 };
        let dtype = self.member::<Dtype>()?;
        let shape = self.shape()?;
        Ok(Port { name, location, core, subgraph, dtype, shape })
    }

    fn shape(&mut self) -> R<Vec<u64>> {
        self.need("[")?;
        let mut out = Vec::new();
        if self.eat("]") {
            return Ok(out);
        }
        loop {
            out.push(self.u64()?);
            if !self.eat_word("x") {
                break;
            }
        }
        self.need("]")?;
        Ok(out)
    }

    fn module(&mut self) -> R<Module> {
        let name = self.at_name("the name of the module")?;
        let core = if self.eat_word("core") { Some(CoreId(self.u32()?)) } else { None };
        let subgraph = if self.eat_word("subgraph") { self.u32()? } else { 0 };
        self.need_word("arch")?;
        let arch = self.member::<ArchLevel>()?;
        self.m = Module::new(&name, core, arch);
        self.m.subgraph = subgraph;
        self.m.extra = self.extra()?;
        self.funcs.clear();
        self.need("{")?;
        while !self.eat("}") {
            if self.eat_word("queue") {
                let q = self.json()?;
                self.m.queues.push(q);
            } else if self.eat_word("func") {
                let id = self.function()?;
                self.m.functions.push(id);
            } else if self.eat_word("nki") {
                self.need_word("func")?;
                let id = self.function()?;
                self.m.nki_functions.push(id);
            } else {
                return Err(self.expected("`queue`, `func`, `nki func` or `}`"));
            }
        }
        self.finish_module()?;
        Ok(std::mem::replace(&mut self.m, Module::new("", None, ArchLevel::Gen3)))
    }

    /// References that may point forwards, and names used twice.
    fn finish_module(&mut self) -> R<()> {
        for late in std::mem::take(&mut self.late) {
            let found =
                self.funcs.iter().position(|f| Some(f.name.as_str()) == late.path.first().map(|p| &**p));
            let loc = found.and_then(|f| self.find_loc(f, late.path.get(1..).unwrap_or(&[])).ok());
            match loc {
                Some(loc) => {
                    if let Some(a) =
                        crate::resolve::operand_mut(&mut self.m, late.inst, late.list, late.index)
                            .and_then(Operand::as_ap_mut)
                    {
                        a.loc = loc;
                    }
                }
                None => {
                    let d = self.diag(P0108, late.spot, format!("no location `@{}`", late.path.join("/")));
                    self.report(d)?;
                }
            }
        }
        let pending = std::mem::take(&mut self.deps);
        let m = std::mem::replace(&mut self.m, Module::new("", None, ArchLevel::Gen3));
        let mut found: Vec<Option<InstId>> = Vec::with_capacity(pending.len());
        {
            let names = NameIndex::new(&m);
            for d in &pending {
                let target = match d.path.as_slice() {
                    [name] => names.resolve_inst(d.block, name),
                    [f, b, name] => names.resolve_qualified(f, b, name),
                    _ => None,
                };
                if target.is_none() {
                    let d = self.diag(P0108, d.spot, format!("no instruction `{}`", d.path.join("/")));
                    self.report(d)?;
                }
                found.push(target);
            }
        }
        self.m = m;
        for (d, target) in pending.into_iter().zip(found) {
            let Some(target) = target else { continue };
            let inst = &mut self.m.insts[d.inst];
            let dep = Dep { inst: target, kind: d.kind };
            if d.carried { inst.more_mut().loop_carried.push(dep) } else { inst.deps.push(dep) }
        }
        Ok(())
    }

    fn function(&mut self) -> R<FuncId> {
        let spot = self.spot;
        let name = CompactString::from(self.at_name("the name of the function")?);
        if self.funcs.iter().any(|f| f.name == name) {
            let d = self.diag(P0106, spot, format!("a function `{name}` was declared before"));
            self.report(d)?;
        }
        let attributes = if self.eat_word("attributes") {
            self.items("[", "]", |p| Ok(CompactString::from(p.name("a name")?)))?
        } else {
            Vec::new()
        };
        let extra = self.extra()?;
        let func = self.funcs.len();
        self.funcs.push(FuncNames { name: name.clone(), ..FuncNames::default() });
        let id =
            self.m.funcs.push(Function { name, storages: Vec::new(), blocks: Vec::new(), attributes, extra });
        self.need("{")?;
        let mut blocks = Vec::new();
        let mut seen = FxHashSet::default();
        while !self.eat("}") {
            if self.eat_word("set") {
                let s = self.set(func)?;
                self.m.funcs[id].storages.push(Storage::Set(s));
            } else if self.eat_word("reg") {
                let r = self.register(func)?;
                self.m.funcs[id].storages.push(Storage::Register(r));
            } else if self.eat_word("block") {
                blocks.push(self.block(func, &mut seen)?);
            } else {
                return Err(self.expected("`set`, `reg`, `block` or `}`"));
            }
        }
        self.m.funcs[id].blocks = blocks;
        Ok(id)
    }

    fn set(&mut self, func: usize) -> R<SetId> {
        let spot = self.spot;
        let name = CompactString::from(self.at_name("the name of the set")?);
        self.need("=")?;
        let kind = self.member()?;
        let class = self.member()?;
        let addr_space = self.member()?;
        let dtype = self.member()?;
        let shape = self.shape()?;
        let mut set = MemoryLocationSet {
            name: name.clone(),
            class,
            ..MemoryLocationSet::new("", dtype, kind, addr_space, &shape)
        };
        loop {
            match self.tok {
                Tok::Word("partition_dim") => {
                    self.advance();
                    set.partition_dim = self.u32()?;
                }
                Tok::Word("file") => {
                    self.advance();
                    set.file = Some(self.quoted("a file name")?.into());
                }
                Tok::Word("no_spill") => {
                    self.advance();
                    set.no_spill = true;
                }
                Tok::Word("volatile") => {
                    self.advance();
                    set.volatile = true;
                }
                Tok::Word("virtual") => {
                    self.advance();
                    set.is_virtual = true;
                }
                Tok::Word("do_not_rotate") => {
                    self.advance();
                    set.do_not_rotate = true;
                }
                _ => break,
            }
        }
        set.extra = self.extra()?;
        let id = self.m.sets.push(set);
        if self.funcs[func].sets.insert(name.clone(), id).is_some() {
            let d = self.diag(P0106, spot, format!("a set `{name}` was declared before"));
            self.report(d)?;
        }
        self.need("{")?;
        let mut locs = Vec::new();
        let mut own = FxHashSet::default();
        while !self.eat("}") {
            self.need_word("loc")?;
            let spot = self.spot;
            let loc = self.location(id)?;
            let name = self.m.memlocs[loc].name.clone();
            if !own.insert(name.clone()) {
                let d = self.diag(P0106, spot, format!("the set has two locations `{name}`"));
                self.report(d)?;
            }
            self.funcs[func].add_loc(name, loc);
            locs.push(loc);
        }
        self.m.sets[id].locs = locs;
        Ok(id)
    }

    fn location(&mut self, set: SetId) -> R<MemLocId> {
        let name = self.at_name("the name of the location")?;
        self.need("=")?;
        let mem = self.member::<MemoryType>()?;
        let dims = self.items("[", "]", Self::u64)?;
        let mut l = MemoryLocation::new(&name, set, mem, &dims);
        while let Tok::Word(w) = self.tok {
            match w {
                "addr" => {
                    self.advance();
                    l.addr = self.u64()?;
                }
                "bank" => {
                    self.advance();
                    l.bank = self.int()?;
                }
                "base" => {
                    self.advance();
                    l.base = self.u32()?;
                }
                "id" => {
                    self.advance();
                    l.tensor_id = self.number("a whole number of 32 bits")?;
                }
                "allocated" => {
                    self.advance();
                    l.allocated = true;
                }
                "user_allocated" => {
                    self.advance();
                    l.user_allocated = true;
                }
                "pinned" => {
                    self.advance();
                    l.pinned = true;
                }
                "written_by_another_core" => {
                    self.advance();
                    l.written_by_another_core = true;
                }
                "shared_post_dram_alloc" => {
                    self.advance();
                    l.is_shared_post_dram_alloc = true;
                }
                "remote" => {
                    self.advance();
                    let name = self.at_name("the name of the owner's location")?.into();
                    self.need_word("core")?;
                    l.remote_local_target = Some(RemoteTarget { name, core: CoreId(self.u32()?) });
                }
                "alias" => {
                    self.advance();
                    l.aliases = self.items("(", ")", |p| {
                        let set = p.at_name("the name of a set")?.into();
                        p.need("/")?;
                        let loc = p.name("the name of a location")?.into();
                        Ok((set, loc, p.int()?))
                    })?;
                }
                _ => break,
            }
        }
        l.extra = self.extra()?;
        Ok(self.m.memlocs.push(l))
    }

    fn register(&mut self, func: usize) -> R<RegId> {
        let spot = self.spot;
        self.need("$")?;
        let name = CompactString::from(self.name("the name of the register")?);
        self.need("=")?;
        let engine = self.engine()?;
        let num_physical = if self.eat_word("count") { self.u32()? } else { 1 };
        let extra = self.extra()?;
        let id = self.m.regs.push(Register { name: name.clone(), engine, num_physical, extra });
        if self.funcs[func].regs.insert(name.clone(), id).is_some() {
            let d = self.diag(P0106, spot, format!("a register `{name}` was declared before"));
            self.report(d)?;
        }
        Ok(id)
    }

    fn engine(&mut self) -> R<EngineKind> {
        let spot = self.spot;
        let name = self.word("an engine")?;
        match EngineKind::from_name(name) {
            Some(e) => Ok(e),
            None => match EngineKind::from_external_name(name) {
                Some(e) => Err(self.diag(crate::diag::codes::P0112, spot, external_engine(name, e))),
                None => Err(self.unknown_member(EngineKind::TABLE, name, spot)),
            },
        }
    }

    fn block(&mut self, func: usize, seen: &mut FxHashSet<CompactString>) -> R<BlockId> {
        let spot = self.spot;
        let name = CompactString::from(self.name("the name of the block")?);
        if !seen.insert(name.clone()) {
            let d = self.diag(P0106, spot, format!("the function has two blocks `{name}`"));
            self.report(d)?;
        }
        let extra = self.extra()?;
        let id = self.m.blocks.push(crate::module::Block { name, insts: Vec::new(), extra });
        self.need("{")?;
        let mut insts = Vec::new();
        let mut names: FxHashSet<Cow<'s, str>> = FxHashSet::default();
        while !self.eat("}") {
            let spot = self.spot;
            let name = self.name("the name of an instruction or `}`")?;
            if names.contains(&name) {
                let d = self.diag(P0106, spot, format!("the block has two instructions `{name}`"));
                self.report(d)?;
            }
            insts.push(self.inst(func, id, &name, spot, seen)?);
            names.insert(name);
        }
        self.m.blocks[id].insts = insts;
        Ok(id)
    }

    fn inst(
        &mut self,
        func: usize,
        block: BlockId,
        name: &str,
        start: Spot,
        seen: &mut FxHashSet<CompactString>,
    ) -> R<InstId> {
        self.need("=")?;
        let spot = self.spot;
        let opcode = self.word("an instruction type")?;
        let Some(opcode) = Opcode::from_name(opcode) else {
            return Err(self.diag(P0111, spot, format!("`{opcode}` is no instruction type")));
        };
        let mut inst = Inst::new(name, opcode);
        inst.engine = self.engine()?;
        // The place in the arena is taken first, so that nested instructions come after their owner.
        let id = self.m.insts.push(Inst::new("", Opcode::NoOp));
        let mut at = At { func, inst: id, list: OperandList::Outs, index: 0 };
        if self.starts_operand() {
            inst.outs = self.operands(&mut at)?;
        }
        if self.eat("<-") {
            at = At { func, inst: id, list: OperandList::Ins, index: 0 };
            inst.ins = self.operands(&mut at)?;
        }
        if self.is("{") {
            self.attrs(func, &mut inst)?;
        }
        self.clauses(func, id, block, &mut inst)?;
        if inst.loc == Loc::NONE && self.options.own_positions {
            let before = self.lexer.source().get(start.line_start..start.at).unwrap_or("");
            inst.loc = self.locs.intern(LocEntry::Pos(SourcePos {
                file: self.options.file.into(),
                line: start.line,
                column: u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1),
                end_line: None,
                end_column: None,
            }));
        }
        inst.shrink_to_fit();
        self.m.insts[id] = inst;
        if self.eat_word("regions") {
            let blocks = self.nested(|p| {
                let mut blocks = Vec::new();
                p.need("{")?;
                while !p.eat("}") {
                    p.need_word("block")?;
                    blocks.push(p.block(func, seen)?);
                }
                Ok(blocks)
            })?;
            if !blocks.is_empty() {
                self.m.insts[id].more_mut().regions = blocks;
            }
        }
        Ok(id)
    }

    fn clauses(&mut self, func: usize, id: InstId, block: BlockId, inst: &mut Inst) -> R<()> {
        loop {
            if self.eat("!") {
                self.need_word_then_loc(inst)?;
                continue;
            }
            let Tok::Word(w) = self.tok else { break };
            match w {
                "after" | "carried" => {
                    self.advance();
                    self.deps(id, block, w == "carried")?;
                    continue;
                }
                "origin" => {
                    self.advance();
                    inst.origin = self.member()?;
                    continue;
                }
                "index" => {
                    self.advance();
                    self.need("(")?;
                    let mut at = At { func, inst: id, list: OperandList::Indirection, index: 0 };
                    let v = self.operands(&mut at)?;
                    inst.more_mut().indirection_ins = v;
                    self.need(")")?;
                }
                "sync" => {
                    self.advance();
                    let v = Some(self.sync()?);
                    inst.more_mut().sync = v;
                }
                "engine_id" => {
                    self.advance();
                    let v = self.int()?;
                    inst.more_mut().engine_id = v;
                }
                "scheduled" => {
                    self.advance();
                    self.need("(")?;
                    let v = self.int()?;
                    inst.more_mut().scheduled_start = v;
                    self.need(",")?;
                    let v = self.int()?;
                    inst.more_mut().scheduled_end = v;
                    self.need(")")?;
                }
                "optin" | "loopnest" => {
                    self.advance();
                    let names = self.items("(", ")", |p| Ok(CompactString::from(p.name("a name")?)))?;
                    let more = inst.more_mut();
                    if w == "optin" { more.optin_passes = names } else { more.loopnest = names }
                }
                "predicates" | "order" => {
                    self.advance();
                    let exprs = self.items("(", ")", |p| p.expr(func))?;
                    let more = inst.more_mut();
                    if w == "order" { more.order = exprs } else { more.predicates = exprs }
                }
                "label" => {
                    self.advance();
                    let v = Some(self.quoted("a text")?.into());
                    inst.more_mut().label = v;
                }
                "unroll" => {
                    self.advance();
                    let v = Some(self.json()?);
                    inst.more_mut().unroll_deps = v;
                }
                "operand_extra" => {
                    self.advance();
                    self.need("(")?;
                    let list = if self.eat_word("in") {
                        OperandList::Ins
                    } else if self.eat_word("out") {
                        OperandList::Outs
                    } else if self.eat_word("index") {
                        OperandList::Indirection
                    } else {
                        return Err(self.expected("`in`, `out` or `index`"));
                    };
                    let index = self.u32()?;
                    self.need(")")?;
                    let extra = self.json_object()?;
                    inst.more_mut().operand_extra.push(OperandExtra { list, index, extra });
                }
                "extra" => {
                    let v = self.extra()?;
                    inst.more_mut().extra = v;
                }
                _ => break,
            }
        }
        // Clauses that say what is the default anyway leave nothing.
        if inst.more.as_deref().is_some_and(|m| *m == InstMore::default()) {
            inst.more = None;
        }
        Ok(())
    }

    fn need_word_then_loc(&mut self, inst: &mut Inst) -> R<()> {
        // A bare file name is no token: it is read right after the word `loc`.
        if !self.is_word("loc") {
            return Err(self.expected("`loc`"));
        }
        let mut lexer = self.lexer.clone();
        lexer.rewind(self.spot);
        let _loc = lexer.next();
        let path_spot = lexer.spot();
        let path = lexer.path();
        let entry = if path.is_empty() {
            self.advance();
            let file = self.quoted("a file name, `byte`, `json` or `unknown`")?.into();
            Some(self.position(file)?)
        } else {
            self.lexer = lexer;
            self.spot = path_spot;
            self.advance();
            match path {
                "unknown" => None,
                "byte" if !self.is(":") => Some(LocEntry::Byte(self.u64()?)),
                "json" if !self.is(":") => Some(LocEntry::Json(self.quoted("a JSON pointer")?.into())),
                file => Some(self.position(file.into())?),
            }
        };
        let mut loc = match entry {
            Some(e) => self.locs.intern(e),
            None => Loc::NONE,
        };
        while self.eat_word("via") {
            let pass = self.name("the name of a pass")?;
            loc = self.locs.derive(&pass, loc);
        }
        inst.loc = loc;
        Ok(())
    }
    fn position(&mut self, file: CompactString) -> R<LocEntry> {
        self.need(":")?;
        let line = self.u32()?;
        self.need(":")?;
        let column = self.u32()?;
        let (mut end_line, mut end_column) = (None, None);
        if self.eat_word("to") {
            end_line = if self.eat_word("_") { None } else { Some(self.u32()?) };
            self.need(":")?;
            end_column = if self.eat_word("_") { None } else { Some(self.u32()?) };
        }
        Ok(LocEntry::Pos(SourcePos { file, line, column, end_line, end_column }))
    }

    fn deps(&mut self, inst: InstId, block: BlockId, carried: bool) -> R<()> {
        self.items("(", ")", |p| {
            let spot = p.spot;
            let path = if p.eat("@") { p.path()? } else { vec![p.name("the name of an instruction")?] };
            let kind = if p.eat(":") { p.member()? } else { EdgeKind::Ordered };
            p.deps.push(PendingDep { inst, block, carried, kind, path, spot });
            Ok(())
        })?;
        Ok(())
    }
    /// `a/b/c` after its sigil.
    fn path(&mut self) -> R<Vec<Cow<'s, str>>> {
        let mut path = vec![self.name("a name")?];
        while path.len() < 3 && self.eat("/") {
            path.push(self.name("a name")?);
        }
        Ok(path)
    }

    fn sync(&mut self) -> R<SyncInfo> {
        let mut s = SyncInfo::default();
        self.items("(", ")", |p| {
            if p.eat_word("wait") {
                let sem = p.u32()?;
                p.need(">=")?;
                let value = p.int()?;
                let from = if p.eat_word("from") {
                    Some(p.name("the name of an instruction")?.into())
                } else {
                    None
                };
                s.on_wait.push(SemWait { sem, value, from, extra: p.extra()? });
            } else if p.eat_word("update") {
                let sem = p.u32()?;
                p.need("+=")?;
                let value = p.int()?;
                let target_core = if p.eat_word("core") { Some(p.u32()?) } else { None };
                s.on_update.push(SemUpdate { sem, value, target_core, extra: p.extra()? });
            } else {
                return Err(p.expected("`wait` or `update`"));
            }
            Ok(())
        })?;
        s.extra = self.sync_extra()?;
        Ok(s)
    }
    /// Keys of an operand; the word differs from the instruction's own `extra`, which may follow the last operand.
    fn ap_extra(&mut self) -> R<Extra> {
        if self.eat_word("ap_extra") { Ok(Some(Box::new(self.json_object()?))) } else { Ok(None) }
    }

    /// Keys of the sync record; the word differs from the instruction's own `extra`.
    fn sync_extra(&mut self) -> R<Extra> {
        if self.eat_word("sync_extra") { Ok(Some(Box::new(self.json_object()?))) } else { Ok(None) }
    }

    // ---- attributes ----
    fn attrs(&mut self, func: usize, inst: &mut Inst) -> R<()> {
        let spec = inst.spec();
        let mut seen: FxHashSet<Attr> = FxHashSet::default();
        self.items("{", "}", |p| {
            let spot = p.spot;
            let key = p.word("the key of an attribute")?;
            let Some(attr) = Attr::from_key(key).and_then(|a| spec.attr(a)) else {
                let known: Vec<&str> = spec.attrs.iter().map(|a| a.attr.key()).collect();
                let d = p.diag(P0103, spot, format!("{} has no attribute `{key}`", spec.opcode));
                return Err(Box::new(d.note(format!("attributes: {}", known.join(", ")))));
            };
            if !seen.insert(attr.attr) {
                return Err(p.diag(P0106, spot, format!("attribute `{key}` is given twice")));
            }
            p.need("=")?;
            let value = p.attr_value(func, attr)?;
            inst.set(attr.attr, value);
            Ok(())
        })?;
        Ok(())
    }
    fn attr_value(&mut self, func: usize, spec: &AttrSpec) -> R<AttrValue> {
        Ok(match spec.ty {
            AttrType::Bool => {
                if self.eat_word("true") {
                    AttrValue::Bool(true)
                } else if self.eat_word("false") {
                    AttrValue::Bool(false)
                } else if spec.affine {
                    AttrValue::Expr(Box::new(self.expr(func)?))
                } else {
                    return Err(self.expected("`true` or `false`"));
                }
            }
            AttrType::Int => match self.tok {
                Tok::Num(_) => AttrValue::Int(self.int()?),
                _ if spec.affine => AttrValue::Expr(Box::new(self.expr(func)?)),
                _ => return Err(self.expected("a whole number")),
            },
            AttrType::F32 => AttrValue::F32(self.float()?),
            AttrType::Enum(table) => {
                let spot = self.spot;
                if !matches!(self.tok, Tok::Word(_) | Tok::Str(_)) {
                    return Err(self.expected_member(table));
                }
                let name = self.name("")?;
                match table.ordinal(&name) {
                    Some(o) => AttrValue::Enum(o),
                    None => return Err(self.unknown_member(table, &name, spot)),
                }
            }
            AttrType::Str | AttrType::BlockName => AttrValue::Str(self.name("a text")?.into()),
            AttrType::Ints => AttrValue::Ints(self.items("[", "]", Self::int)?.into()),
            AttrType::Floats => AttrValue::Floats(self.items("[", "]", Self::float)?.into()),
            AttrType::Strs => {
                AttrValue::Strs(self.items("[", "]", |p| Ok(CompactString::from(p.name("a text")?)))?.into())
            }
            AttrType::Groups => AttrValue::Groups(
                self.items("[", "]", |p| Ok(p.items("[", "]", Self::int)?.into_boxed_slice()))?.into(),
            ),
            AttrType::Pairs => AttrValue::Pairs(self.items("[", "]", Self::pair)?.into()),
            AttrType::Expr => AttrValue::Expr(Box::new(self.expr(func)?)),
            AttrType::Exprs => AttrValue::Exprs(self.items("[", "]", |p| p.expr(func))?.into()),
            AttrType::Json => AttrValue::Json(Box::new(self.json()?)),
        })
    }
    fn pair(&mut self) -> R<ApPair> {
        self.need("[")?;
        let step = self.int()?;
        self.need(",")?;
        let num = self.u64()?;
        self.need("]")?;
        Ok(ApPair::new(step, num))
    }
    fn is_float(&self) -> bool {
        match self.tok {
            Tok::Num(t) => t.contains(['.', 'e', 'E', 'i']) && !t.starts_with("0x"),
            Tok::Word(w) => matches!(w, "inf" | "nan"),
            _ => false,
        }
    }
    fn float(&mut self) -> R<F32> {
        if self.eat_word("inf") {
            return Ok(F32(f32::INFINITY));
        }
        if self.eat_word("nan") {
            self.need("(")?;
            let spot = self.spot;
            let Tok::Num(text) = self.tok else { return Err(self.expected("the bits of the NaN")) };
            let bits = text.strip_prefix("0x").and_then(|h| u32::from_str_radix(h, 16).ok());
            self.advance();
            self.need(")")?;
            let value = bits.map(f32::from_bits).filter(|f| f.is_nan());
            return value
                .map(F32)
                .ok_or_else(|| self.diag(P0104, spot, format!("`{text}` are not the bits of a NaN")));
        }
        Ok(F32(self.number("a number")?))
    }

    // ---- operands ----
    fn starts_operand(&self) -> bool {
        match self.tok {
            Tok::Punct(p) => matches!(p, "@" | "$"),
            Tok::Num(_) => true,
            Tok::Word(w) => {
                matches!(
                    w,
                    "inf"
                        | "nan"
                        | "symbolic_ap"
                        | "symbolic_pwap"
                        | "register_ap"
                        | "symbolic_imm"
                        | "imm_array"
                )
            }
            _ => false,
        }
    }
    fn operands(&mut self, at: &mut At) -> R<Vec<Operand>> {
        let mut out = Vec::new();
        loop {
            at.index = out.len();
            out.push(self.operand(*at)?);
            if !self.eat(",") {
                return Ok(out);
            }
        }
    }
    fn operand(&mut self, at: At) -> R<Operand> {
        if self.is("@") {
            return Ok(Operand::Ap(self.access_pattern(at)?));
        }
        if self.is("$") {
            let reg = self.reg_ref(at.func)?;
            return Ok(Operand::Reg(RegAccess { reg, dtype: self.member()? }));
        }
        let other = match self.tok {
            Tok::Word(w @ ("symbolic_ap" | "symbolic_pwap")) => {
                self.advance();
                let set = self.set_ref(at.func)?;
                self.need("[")?;
                let pairs = self.pairs()?;
                self.need("]")?;
                let dtype = self.member()?;
                self.need_word("addrs")?;
                let addrs = self.items("(", ")", |p| p.expr(at.func))?;
                let extra = self.ap_extra()?;
                OtherOperand::Symbolic { pwap: w == "symbolic_pwap", set, dtype, pairs, addrs, extra }
            }
            Tok::Word("register_ap") => {
                self.advance();
                let set = self.set_ref(at.func)?;
                self.need("[")?;
                let pairs = self.pairs()?;
                self.need("]")?;
                let dtype = self.member()?;
                self.need_word("base")?;
                self.need("(")?;
                let reg = self.reg_ref(at.func)?;
                self.need(",")?;
                let const_offset = self.int()?;
                self.need(")")?;
                let extra = self.ap_extra()?;
                OtherOperand::RegisterAp { set, reg, dtype, pairs, const_offset, extra }
            }
            Tok::Word(w @ ("symbolic_imm" | "imm_array")) => {
                self.advance();
                let dtype = self.member::<Dtype>()?;
                let values = self.items("[", "]", |p| {
                    let value = p.imm_value()?;
                    let dtype = if matches!(p.tok, Tok::Word(_)) { p.member()? } else { dtype };
                    Ok(Immediate { dtype, value })
                })?;
                if w == "imm_array" {
                    OtherOperand::ImmArray { dtype, values }
                } else {
                    self.need_word("by")?;
                    OtherOperand::SymbolicImm { dtype, values, expr: self.expr(at.func)? }
                }
            }
            _ if self.starts_operand() => {
                let value = self.imm_value()?;
                return Ok(Operand::Imm(Immediate { dtype: self.member()?, value }));
            }
            _ => return Err(self.expected("an operand")),
        };
        Ok(Operand::Other(Box::new(other)))
    }
    fn imm_value(&mut self) -> R<ImmValue> {
        Ok(if self.is_float() { ImmValue::Float(self.float()?) } else { ImmValue::Int(self.int()?) })
    }
    fn pairs(&mut self) -> R<ApPairs> {
        let mut out = ApPairs::new();
        while self.is("[") {
            out.push(self.pair()?);
        }
        Ok(out)
    }

    fn access_pattern(&mut self, at: At) -> R<AccessPattern> {
        let loc = self.loc_ref(at)?;
        self.need("[")?;
        let mut offset = 0;
        let mut pairs = ApPairs::new();
        let mut dynamic = None;
        if !self.is("]") {
            loop {
                if self.eat_word("off") {
                    offset = self.int()?;
                } else if self.eat_word("dyn") {
                    let terms = self.items("(", ")", |p| {
                        let k = p.int()?;
                        p.need("*")?;
                        Ok((k, p.expr(at.func)?))
                    })?;
                    self.need_word("dim")?;
                    let indirect_dim = self.int()?;
                    let max_index = if self.eat_word("max") { Some(self.int()?) } else { None };
                    dynamic = Some(Box::new(DynamicAp { terms, indirect_dim, max_index }));
                } else if self.is("[") {
                    pairs = self.pairs()?;
                } else {
                    return Err(self.expected("`off`, `[step,num]` or `dyn`"));
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.need("]")?;
        let dtype = self.member()?;
        Ok(AccessPattern { loc, dtype, offset, pairs, dynamic })
    }

    /// A location by `[name]` or `[set, name]` in a function.
    fn find_loc(&self, func: usize, path: &[Cow<'s, str>]) -> Result<MemLocId, &'static str> {
        let names = self.funcs.get(func).ok_or("no such function")?;
        match path {
            [name] => names.loc(&self.m, name, None),
            [set, name] => names.loc(&self.m, name, Some(set)),
            _ => Err("no such location"),
        }
    }
    fn loc_ref(&mut self, at: At) -> R<MemLocId> {
        let spot = self.spot;
        self.need("@")?;
        let path = self.path()?;
        let found = match path.as_slice() {
            [f, rest @ ..] if path.len() == 3 => match self.funcs.iter().position(|n| n.name == **f) {
                Some(f) => self.find_loc(f, rest),
                None => {
                    self.late.push(PendingLoc { inst: at.inst, list: at.list, index: at.index, path, spot });
                    return Ok(MemLocId::from_u32(0));
                }
            },
            path => self.find_loc(at.func, path),
        };
        match found {
            Ok(l) => Ok(l),
            Err(why) => {
                let d = self.diag(P0108, spot, format!("`@{}`: {why}", path.join("/")));
                self.report(d)?;
                Ok(MemLocId::from_u32(0))
            }
        }
    }
    /// Function and name of a set or register reference.
    fn owner<'p>(&self, func: usize, path: &'p [Cow<'s, str>]) -> Option<(usize, &'p str)> {
        match path {
            [name] => Some((func, &**name)),
            [f, name] => Some((self.funcs.iter().position(|n| n.name == **f)?, &**name)),
            _ => None,
        }
    }
    fn set_ref(&mut self, func: usize) -> R<SetId> {
        let spot = self.spot;
        self.need("@")?;
        let path = self.path()?;
        let found = self.owner(func, &path).and_then(|(f, n)| self.funcs.get(f)?.sets.get(n).copied());
        if found.is_none() {
            let d = self.diag(P0108, spot, format!("no set `@{}`", path.join("/")));
            self.report(d)?;
        }
        Ok(found.unwrap_or(SetId::from_u32(0)))
    }
    fn reg_ref(&mut self, func: usize) -> R<RegId> {
        let spot = self.spot;
        self.need("$")?;
        let path = self.path()?;
        let found = self.owner(func, &path).and_then(|(f, n)| self.funcs.get(f)?.regs.get(n).copied());
        if found.is_none() {
            let d = self.diag(P0108, spot, format!("no register `${}`", path.join("/")));
            self.report(d)?;
        }
        Ok(found.unwrap_or(RegId::from_u32(0)))
    }

    // ---- expressions ----
    fn expr(&mut self, func: usize) -> R<Expr> {
        self.nested(|p| p.expr_body(func))
    }
    fn expr_body(&mut self, func: usize) -> R<Expr> {
        if matches!(self.tok, Tok::Num(_)) {
            return Ok(Expr::Const(self.int()?));
        }
        if self.is("$") {
            return Ok(Expr::Reg(self.reg_ref(func)?));
        }
        let spot = self.spot;
        let word = self.word("an expression")?;
        if word == "sum" {
            return Ok(Expr::Sum(self.items("(", ")", |p| p.expr(func))?));
        }
        self.need("(")?;
        let e = match word {
            "affine" => {
                let c = self.int()?;
                let mut terms = Vec::new();
                while self.eat(",") {
                    let k = self.int()?;
                    self.need("*")?;
                    terms.push((k, self.expr(func)?));
                }
                Expr::Affine { terms, c }
            }
            "mult" => {
                let var = Box::new(self.expr(func)?);
                Expr::Mult { var, scale: self.comma_int()? }
            }
            "div" => {
                let e = Box::new(self.expr(func)?);
                Expr::FloorDiv(e, self.comma_int()?)
            }
            "mod" => {
                let e = Box::new(self.expr(func)?);
                Expr::Modulo(e, self.comma_int()?)
            }
            "ccdiv" => {
                let numer = Box::new(self.expr(func)?);
                Expr::CcDiv { numer, denom: self.comma_int()?, replica_groups_id: self.comma_int()? }
            }
            "axis" => Expr::LoopAxis(self.name("the name of a loop axis")?.into()),
            "shard" => Expr::ShardId { ub: self.int()? },
            "arg" => Expr::IndirectArg(self.int()?),
            "rank" => Expr::CcGetRank { iteration_id: self.int()?, channel_id: self.comma_int()? },
            _ => return Err(self.diag(P0101, spot, format!("`{word}` is no kind of expression"))),
        };
        self.need(")")?;
        Ok(e)
    }
    fn comma_int(&mut self) -> R<i64> {
        self.need(",")?;
        self.int()
    }
}

/// The vendor's text for an external engine name in the place of an internal one.
pub(crate) fn external_engine(external: &str, internal: EngineKind) -> String {
    format!("ExternalEngineType used as EngineType. External: {external} Internal: {internal}")
}
