//! Text to program. The first fault of the grammar ends reading; references that lead nowhere are all reported.

mod inst;
mod operand;
mod program;
mod side;

use super::lex::{Lexer, Spot, Tok};
use crate::arch::ArchLevel;
use crate::diag::codes::{P0101, P0103, P0104, P0105};
use crate::diag::{Code, Diagnostic, LocTable, Site, SourcePos};
use crate::enums::{BirEnum, EdgeKind, EngineKind, EnumTable};
use crate::ids::{BlockId, InstId};
use crate::inst::OperandList;
use crate::module::{Extra, Module, Program};
use crate::resolve::FuncNames;
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
    let ahead = if src.len() >= side::FROM_BYTES { side::modules(src, options) } else { Vec::new() };
    read(src, options, ahead)
}

/// Reads a program of which some modules are read already.
fn read(src: &str, options: &ParseOptions<'_>, ahead: Vec<side::Ahead>) -> Result<Program, Vec<Diagnostic>> {
    let mut p = Parser::new(src, options, None);
    p.ahead = ahead;
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
    depth: u32,
    errors: Vec<Diagnostic>,
    locs: LocTable,
    m: Module,
    funcs: Vec<FuncNames>,
    deps: Vec<PendingDep<'s>>,
    late: Vec<PendingLoc<'s>>,
    /// Modules that were read beside this parser, by where they start.
    ahead: Vec<side::Ahead>,
}

/// Where an operand is being read: function, and the operand's place in its instruction.
#[derive(Clone, Copy)]
struct At {
    func: usize,
    inst: InstId,
    list: OperandList,
    index: usize,
}

impl<'s, 'o> Parser<'s, 'o> {
    /// A parser at a place of the text, or at its beginning.
    fn new(src: &'s str, options: &'o ParseOptions<'o>, at: Option<Spot>) -> Parser<'s, 'o> {
        let mut lexer = Lexer::new(src);
        if let Some(at) = at {
            lexer.rewind(at);
        }
        let spot = lexer.spot();
        let tok = lexer.next();
        Parser {
            lexer,
            options,
            tok,
            spot,
            depth: 0,
            errors: Vec::new(),
            locs: LocTable::default(),
            m: Module::new("", None, ArchLevel::Gen3),
            funcs: Vec::new(),
            deps: Vec::new(),
            late: Vec::new(),
            ahead: Vec::new(),
        }
    }
}

impl<'s> Parser<'s, '_> {
    // ---- tokens ----
    #[inline(never)]
    fn advance(&mut self) -> Tok<'s> {
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
    #[inline(always)]
    fn is(&self, p: &str) -> bool {
        matches!(&self.tok, Tok::Punct(q) if *q == p)
    }
    #[inline(always)]
    fn is_word(&self, w: &str) -> bool {
        matches!(&self.tok, Tok::Word(x) if *x == w)
    }
    #[inline(always)]
    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        if yes {
            self.advance();
        }
        yes
    }
    #[inline(always)]
    fn eat_word(&mut self, w: &str) -> bool {
        let yes = self.is_word(w);
        if yes {
            self.advance();
        }
        yes
    }
    #[inline(always)]
    fn need(&mut self, p: &str) -> R<()> {
        if self.eat(p) { Ok(()) } else { Err(self.expected_punct(p)) }
    }
    #[cold]
    fn expected_punct(&self, p: &str) -> Box<Diagnostic> {
        self.expected(&format!("`{p}`"))
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
}

/// The vendor's text for an external engine name in the place of an internal one.
pub(crate) fn external_engine(external: &str, internal: EngineKind) -> String {
    format!("ExternalEngineType used as EngineType. External: {external} Internal: {internal}")
}
