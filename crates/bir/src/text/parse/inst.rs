//! Blocks and instructions: clauses, dependencies, synchronisation, attributes.

use super::super::lex::{Spot, Tok};
use super::{At, Parser, PendingDep, R};
use crate::diag::codes::{P0103, P0106, P0111};
use crate::diag::{Loc, LocEntry, SourcePos};
use crate::enums::{BirEnum, EdgeKind};
use crate::ids::{BlockId, InstId};
use crate::inst::{
    Attr, AttrSpec, AttrType, AttrValue, Inst, InstMore, Opcode, OperandExtra, OperandList, SemUpdate,
    SemWait, SyncInfo,
};
use crate::module::Extra;
use crate::names::NameTable;
use compact_str::CompactString;
use rustc_hash::FxHashSet;
use std::borrow::Cow;

impl<'s> Parser<'s, '_> {
    pub(super) fn block(&mut self, func: usize, seen: &mut FxHashSet<CompactString>) -> R<BlockId> {
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
        let mut names = NameTable::default();
        while !self.eat("}") {
            let spot = self.spot;
            let name = self.name("the name of an instruction or `}`")?;
            if names.insert(&name, self.m.insts.next_key()).is_err() {
                let d = self.diag(P0106, spot, format!("the block has two instructions `{name}`"));
                self.report(d)?;
            }
            insts.push(self.inst(func, id, &name, spot, seen)?);
        }
        self.m.blocks[id].insts = insts;
        Ok(id)
    }

    pub(super) fn inst(
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

    pub(super) fn clauses(&mut self, func: usize, id: InstId, block: BlockId, inst: &mut Inst) -> R<()> {
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

    pub(super) fn need_word_then_loc(&mut self, inst: &mut Inst) -> R<()> {
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
    pub(super) fn position(&mut self, file: CompactString) -> R<LocEntry> {
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

    pub(super) fn deps(&mut self, inst: InstId, block: BlockId, carried: bool) -> R<()> {
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
    pub(super) fn path(&mut self) -> R<Vec<Cow<'s, str>>> {
        let mut path = vec![self.name("a name")?];
        while path.len() < 3 && self.eat("/") {
            path.push(self.name("a name")?);
        }
        Ok(path)
    }

    pub(super) fn sync(&mut self) -> R<SyncInfo> {
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
    pub(super) fn ap_extra(&mut self) -> R<Extra> {
        if self.eat_word("ap_extra") { Ok(Some(Box::new(self.json_object()?))) } else { Ok(None) }
    }

    /// Keys of the sync record; the word differs from the instruction's own `extra`.
    pub(super) fn sync_extra(&mut self) -> R<Extra> {
        if self.eat_word("sync_extra") { Ok(Some(Box::new(self.json_object()?))) } else { Ok(None) }
    }

    // ---- attributes ----
    pub(super) fn attrs(&mut self, func: usize, inst: &mut Inst) -> R<()> {
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
    pub(super) fn attr_value(&mut self, func: usize, spec: &AttrSpec) -> R<AttrValue> {
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
}
