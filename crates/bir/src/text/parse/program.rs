//! Programs, modules, functions and what they store.

use super::super::lex::Tok;
use super::super::{VERSION, level_from_name};
use super::{Parser, R, external_engine};
use crate::arch::ArchLevel;
use crate::diag::codes::{P0103, P0106, P0107, P0108, P0117};
use crate::dtype::Dtype;
use crate::enums::{BirEnum, EngineKind, MemoryType};
use crate::ids::{CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{Dep, Operand};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Function, Module, Port, Program, Signature, Storage};
use crate::resolve::{FuncNames, NameIndex};
use compact_str::CompactString;
use indexmap::IndexMap;
use rustc_hash::FxHashSet;

impl<'s> Parser<'s, '_> {
    // ---- containers ----
    pub(super) fn program(&mut self) -> R<Program> {
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
            } else if self.is_word("module") {
                let module = match self.take_ahead() {
                    Some(module) => module,
                    None => {
                        self.advance();
                        self.module()?
                    }
                };
                modules.push(module);
            } else if self.tok == Tok::Eof {
                break;
            } else {
                return Err(self.expected("`input`, `output`, `constant` or `module`"));
            }
        }
        let locs = std::mem::take(&mut self.locs);
        Ok(Program { name, lnc_size, level, modules, locs, constants, signature })
    }

    pub(super) fn port(&mut self) -> R<Port> {
        let name = self.quoted("the name of the tensor")?.into_owned();
        self.need("=")?;
        let location = CompactString::from(self.at_name("the name of a location")?);
        let core = if self.eat_word("core") { Some(CoreId(self.u32()?)) } else { None };
        let subgraph = if self.eat_word("subgraph") { self.u32()? } else { 0 };
        let dtype = self.member::<Dtype>()?;
        let shape = self.shape()?;
        Ok(Port { name, location, core, subgraph, dtype, shape })
    }

    pub(super) fn shape(&mut self) -> R<Vec<u64>> {
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

    pub(super) fn module(&mut self) -> R<Module> {
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
    pub(super) fn finish_module(&mut self) -> R<()> {
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

    pub(super) fn function(&mut self) -> R<FuncId> {
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

    pub(super) fn set(&mut self, func: usize) -> R<SetId> {
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

    pub(super) fn location(&mut self, set: SetId) -> R<MemLocId> {
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

    pub(super) fn register(&mut self, func: usize) -> R<RegId> {
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

    pub(super) fn engine(&mut self) -> R<EngineKind> {
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
}
