//! Remote addressing: aliases of another core's locations, and patterns on them (the specification, file 06 §8).

use super::Lowering;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{
    AccessPattern, AddressSpace, CompactString, CoreId, FuncId, MemLocId, MemoryLocation, MemoryLocationSet,
    MemoryType, RemoteTarget, SetId, Storage, TensorKind, entity::EntityRef,
};

/// Whose location, as one requests it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// Module of the owner.
    pub(super) module: usize,
    /// Location in that module.
    pub(super) loc: MemLocId,
}

impl Lowering<'_> {
    /// The location through which `module`'s function `func` reaches a location of another core: its own same-named one for
    /// shared DRAM, else an alias, minted once per target.
    ///
    /// # Errors
    /// A diagnostic when the owner's function does not have the location, or it lies in a memory without aliases.
    pub(super) fn remote_location(
        &mut self,
        owner: Owner,
        module: usize,
        func: FuncId,
    ) -> Result<MemLocId, Box<Diagnostic>> {
        let fname = self.p.modules[module].funcs[func].name.clone();
        let (name, tensor_id, allocated, mem) = {
            let l = &self.p.modules[owner.module].memlocs[owner.loc];
            (l.name.clone(), l.tensor_id, l.allocated, l.mem)
        };
        let owner_core = self.core_of(owner.module);
        let missing = |core: u32| {
            Box::new(Diagnostic::new(
                codes::L0020,
                format!(
                    "{name} has a tensor id of {tensor_id} and isAllocated is {allocated}; no matching location on \
                     core {core}"
                ),
            ))
        };
        let found = if tensor_id >= 0 {
            self.index[owner.module].by_tensor_id(&fname, tensor_id)
        } else {
            self.index[owner.module].by_name(&fname, &name)
        };
        if found.is_none() {
            return Err(missing(owner_core.0));
        }
        if self.p.modules[owner.module].set_of(owner.loc).addr_space == AddressSpace::Shared
            && mem == MemoryType::Dram
        {
            let own = self.core_of(module).0;
            return self.index[module].by_name(&fname, &name).ok_or_else(|| missing(own));
        }
        if !matches!(mem, MemoryType::Sb | MemoryType::Dram) {
            return Err(Box::new(Diagnostic::new(
                codes::L0021,
                format!("{name} lies in {mem}; only SB and DRAM can be reached from another core"),
            )));
        }
        if let Some(&a) = self.aliases.get(&(module, func, owner.module, owner.loc)) {
            return Ok(a);
        }
        let alias = match self.existing_alias(module, func, &name, owner_core) {
            Some(a) => a,
            None => self.mint_alias(owner, module, func, owner_core),
        };
        self.p.modules[owner.module].memlocs[owner.loc].written_by_another_core = true;
        self.aliases.insert((module, func, owner.module, owner.loc), alias);
        Ok(alias)
    }

    fn existing_alias(&self, module: usize, func: FuncId, name: &str, core: CoreId) -> Option<MemLocId> {
        let m = &self.p.modules[module];
        // `<t>_remote_<core>` is where an earlier run of the pass put it
        let a = self.index[module].by_name(&m.funcs[func].name, &format!("{name}_remote_{core}"))?;
        let t = m.memlocs[a].remote_local_target.as_ref()?;
        (t.core == core && t.name == name).then_some(a)
    }

    fn mint_alias(&mut self, owner: Owner, module: usize, func: FuncId, core: CoreId) -> MemLocId {
        let ol = &self.p.modules[owner.module].memlocs[owner.loc];
        let names = self.fresh_names(&format!("{}_remote_{core}", ol.name));
        let om = &self.p.modules[owner.module];
        let (ol, os) = (&om.memlocs[owner.loc], om.set_of(owner.loc));
        let target = RemoteTarget { name: ol.name.clone(), core };
        let mut loc = MemoryLocation::new("", SetId::new(0), ol.mem, &ol.dims);
        loc.written_by_another_core = true;
        loc.remote_local_target = Some(target);
        let set = MemoryLocationSet {
            name: "".into(),
            kind: TensorKind::Internal,
            file: None,
            extra: None,
            locs: Vec::new(),
            ..os.clone()
        };
        self.add_location(module, func, &names, set, loc)
    }

    /// Fresh names `<base>` and `<base>_set` of a location and its set.
    pub(super) fn fresh_names(&mut self, base: &str) -> (CompactString, CompactString) {
        let name = self.names.loc(base);
        let set = self.names.loc(&format!("{name}_set"));
        (name, set)
    }

    /// Adds a location and its set under the names given.
    pub(super) fn add_location(
        &mut self,
        module: usize,
        func: FuncId,
        names: &(CompactString, CompactString),
        mut set: MemoryLocationSet,
        mut loc: MemoryLocation,
    ) -> MemLocId {
        let name = names.0.clone();
        set.name = names.1.clone();
        loc.name = name.clone();
        let m = &mut self.p.modules[module];
        let id = m.add_location(func, set, loc);
        debug_assert!(matches!(m.funcs[func].storages.last(), Some(Storage::Set(_))));
        let fname = m.funcs[func].name.clone();
        self.index[module].add(&fname, &name, id);
        id
    }

    /// The owner's pattern, bound to what the requesting core sees of it.
    ///
    /// # Errors
    /// As [`Lowering::remote_location`].
    pub(super) fn remote_ap(
        &mut self,
        owner_module: usize,
        ap: &AccessPattern,
        module: usize,
        func: FuncId,
    ) -> Result<AccessPattern, Box<Diagnostic>> {
        if owner_module == module {
            return Ok(ap.clone());
        }
        let loc = self.remote_location(Owner { module: owner_module, loc: ap.loc }, module, func)?;
        Ok(AccessPattern { loc, ..ap.clone() })
    }
}

/// Sub-pattern of indexes `[core · part, (core + 1) · part)` of pair `dim`.
pub(super) fn partial_ap(ap: &AccessPattern, dim: usize, part: u64, core: u64) -> AccessPattern {
    let mut out = ap.clone();
    if let Some(pair) = out.pairs.get_mut(dim) {
        let skip = i64::try_from(core.saturating_mul(part)).unwrap_or(i64::MAX).saturating_mul(pair.step);
        pair.num = part;
        out.offset = out.offset.saturating_add(skip);
    }
    out
}

/// Smallest extent that is worth splitting (seed page; its reading as an extent is doubtful, kept as named constant).
pub const MIN_SCATTER_EXTENT: u64 = 4;

/// First free dimension of at least [`MIN_SCATTER_EXTENT`] that `n` divides: `(pair index, extent)`.
pub fn scatter_dimension(ap: &AccessPattern, n: u64) -> Option<(usize, u64)> {
    ap.pairs
        .iter()
        .enumerate()
        .skip(1)
        .find(|(_, p)| p.num >= MIN_SCATTER_EXTENT && n > 0 && p.num % n == 0)
        .map(|(k, p)| (k, p.num))
}
