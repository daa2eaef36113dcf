//! JSON to functions: storages and blocks.

use super::cursor::Kind;
use super::read::{R, Reader};
use crate::diag::codes::{P0104, P0106, P0108, P0109, P0110, P0113};
use crate::dtype::Dtype;
use crate::enums::{AddressSpace, BirEnum, EngineKind, MemoryType, TensorClass, TensorKind};
use crate::ids::{BlockId, CoreId, FuncId, MemLocId, RegId, SetId};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Block, Function, Storage};
use crate::resolve::FuncNames;
use compact_str::CompactString;
use rustc_hash::FxHashSet;

impl Reader<'_, '_> {
    pub(super) fn function(&mut self) -> R<FuncId> {
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

    pub(super) fn function_attributes(&mut self) -> R<Vec<CompactString>> {
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

    pub(super) fn storage(&mut self) -> R<Option<Storage>> {
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

    pub(super) fn register(&mut self, at: usize) -> R<RegId> {
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

    pub(super) fn set(&mut self, at: usize) -> R<SetId> {
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

    pub(super) fn location(&mut self, set: SetId) -> R<MemLocId> {
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
    pub(super) fn memory_type(&mut self) -> R<MemoryType> {
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

    pub(super) fn aliases(&mut self) -> R<Vec<(CompactString, CompactString, i64)>> {
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

    pub(super) fn remote(&mut self) -> R<RemoteTarget> {
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

    pub(super) fn block(&mut self) -> R<BlockId> {
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
