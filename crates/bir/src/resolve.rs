//! Names to ids and back, inside one module.
//!
//! On disk everything refers to everything by name. This index says which function and block a thing lives in, which
//! names are unambiguous, and what a name means seen from a place. It models nothing else.

use crate::ids::{BlockId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{Operand, OperandList};
use crate::module::{Module, Storage};
use crate::names::NameTable;
use compact_str::CompactString;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// How an instruction can be named from inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstRef<'m> {
    /// Its name is enough.
    Name(&'m str),
    /// Function, block and name are needed.
    Qualified(&'m str, &'m str, &'m str),
    /// It is in no block.
    Dangling,
}

/// Where the things of a module live, and what names mean. A snapshot: make a new one after a change.
pub struct NameIndex<'m> {
    module: &'m Module,
    block_of: SecondaryMap<InstId, Option<BlockId>>,
    func_of_block: SecondaryMap<BlockId, Option<FuncId>>,
    func_of_set: SecondaryMap<SetId, Option<FuncId>>,
    func_of_reg: SecondaryMap<RegId, Option<FuncId>>,
    ambiguous_loc: SecondaryMap<MemLocId, bool>,
    in_block: OnceCell<FxHashMap<BlockId, NameTable>>,
    in_func: OnceCell<FxHashMap<FuncId, NameTable>>,
    in_module: OnceCell<NameTable>,
}

impl<'m> NameIndex<'m> {
    /// Indexes a module.
    pub fn new(module: &'m Module) -> NameIndex<'m> {
        let mut ix = NameIndex {
            module,
            block_of: SecondaryMap::with_capacity(module.insts.len()),
            func_of_block: SecondaryMap::new(),
            func_of_set: SecondaryMap::new(),
            func_of_reg: SecondaryMap::new(),
            ambiguous_loc: SecondaryMap::new(),
            in_block: OnceCell::new(),
            in_func: OnceCell::new(),
            in_module: OnceCell::new(),
        };
        for f in module.all_functions() {
            let Some(func) = module.funcs.get(f) else { continue };
            let mut seen: FxHashMap<&str, MemLocId> = FxHashMap::default();
            for s in &func.storages {
                match *s {
                    Storage::Set(set) => {
                        let Some(data) = module.sets.get(set) else { continue };
                        ix.func_of_set[set] = Some(f);
                        for &l in &data.locs {
                            let Some(loc) = module.memlocs.get(l) else { continue };
                            if let Some(&first) = seen.get(loc.name.as_str()) {
                                ix.ambiguous_loc[first] = true;
                                ix.ambiguous_loc[l] = true;
                            } else {
                                seen.insert(&loc.name, l);
                            }
                        }
                    }
                    Storage::Register(r) if module.regs.is_valid(r) => ix.func_of_reg[r] = Some(f),
                    Storage::Register(_) => {}
                }
            }
            let mut work: Vec<BlockId> = func.blocks.clone();
            while let Some(b) = work.pop() {
                if ix.func_of_block[b].is_some() {
                    continue;
                }
                let Some(block) = module.blocks.get(b) else { continue };
                ix.func_of_block[b] = Some(f);
                for &i in &block.insts {
                    if module.insts.is_valid(i) {
                        ix.block_of[i] = Some(b);
                    }
                    if let Some(inst) = module.insts.get(i) {
                        work.extend_from_slice(inst.regions());
                    }
                }
            }
        }
        ix
    }
    /// Block an instruction is in.
    pub fn block_of(&self, i: InstId) -> Option<BlockId> {
        self.block_of[i]
    }
    /// Function a block is in (nested blocks included).
    pub fn func_of_block(&self, b: BlockId) -> Option<FuncId> {
        self.func_of_block[b]
    }
    /// Function a set is declared in.
    pub fn func_of_set(&self, s: SetId) -> Option<FuncId> {
        self.func_of_set[s]
    }
    /// Function a register is declared in.
    pub fn func_of_reg(&self, r: RegId) -> Option<FuncId> {
        self.func_of_reg[r]
    }
    /// True when another location of the same function has the same name.
    pub fn is_ambiguous_loc(&self, l: MemLocId) -> bool {
        self.ambiguous_loc[l]
    }

    // Of several instructions of one name the first keeps it.
    fn in_block(&self) -> &FxHashMap<BlockId, NameTable> {
        self.in_block.get_or_init(|| {
            let mut map: FxHashMap<BlockId, NameTable> = FxHashMap::default();
            for (i, inst) in self.module.insts.iter() {
                if let Some(b) = self.block_of[i] {
                    let _ = map.entry(b).or_default().insert(&inst.name, i);
                }
            }
            map
        })
    }
    fn in_func(&self) -> &FxHashMap<FuncId, NameTable> {
        self.in_func.get_or_init(|| {
            let mut map: FxHashMap<FuncId, NameTable> = FxHashMap::default();
            for (f, _, i) in self.module.walk() {
                let _ = map.entry(f).or_default().insert(&self.module.insts[i].name, i);
            }
            map
        })
    }
    fn in_module(&self) -> &NameTable {
        self.in_module.get_or_init(|| {
            let mut table = NameTable::default();
            for (_, _, i) in self.module.walk() {
                let _ = table.insert(&self.module.insts[i].name, i);
            }
            table
        })
    }

    /// The instruction a name means in a block: one of the same block, else the first of the same function in program
    /// order, else the first of the module.
    pub fn resolve_inst(&self, from: BlockId, name: &str) -> Option<InstId> {
        let block = || self.in_block().get(&from)?.get(name);
        let func = || self.in_func().get(&self.func_of_block[from]?)?.get(name);
        block().or_else(func).or_else(|| self.in_module().get(name))
    }
    /// The instruction named by function, block and name.
    pub fn resolve_qualified(&self, func: &str, block: &str, name: &str) -> Option<InstId> {
        let f = self.module.find_function(func)?;
        self.module
            .blocks
            .keys()
            .filter(|b| self.func_of_block[*b] == Some(f) && self.module.blocks[*b].name == block)
            .find_map(|b| self.in_block().get(&b)?.get(name))
    }
    /// How `target` is named from inside a block, so that reading gives it back.
    pub fn inst_ref(&self, from: BlockId, target: InstId) -> InstRef<'m> {
        let (Some(inst), Some(block)) = (self.module.insts.get(target), self.block_of[target]) else {
            return InstRef::Dangling;
        };
        if block == from || self.resolve_inst(from, &inst.name) == Some(target) {
            return InstRef::Name(&inst.name);
        }
        match self.func_of_block[block].and_then(|f| self.module.funcs.get(f)) {
            Some(f) => InstRef::Qualified(&f.name, &self.module.blocks[block].name, &inst.name),
            None => InstRef::Dangling,
        }
    }
}

/// Storage names of one function, while it is being read.
#[derive(Default)]
pub(crate) struct FuncNames {
    /// The function.
    pub(crate) name: CompactString,
    /// Sets.
    pub(crate) sets: FxHashMap<CompactString, SetId>,
    /// Locations; the flag says that several sets have one of this name.
    pub(crate) locs: FxHashMap<CompactString, (MemLocId, bool)>,
    /// Registers.
    pub(crate) regs: FxHashMap<CompactString, RegId>,
}

impl FuncNames {
    /// Adds a location.
    pub(crate) fn add_loc(&mut self, name: CompactString, loc: MemLocId) {
        self.locs.entry(name).and_modify(|e| e.1 = true).or_insert((loc, false));
    }
    /// A location by name; the set is needed where the name alone is ambiguous.
    pub(crate) fn loc(&self, m: &Module, name: &str, set: Option<&str>) -> Result<MemLocId, &'static str> {
        if let Some((l, ambiguous)) = self.locs.get(name) {
            let Some(set) = set else {
                return if *ambiguous {
                    Err("several sets have a location of this name; the set must be named too")
                } else {
                    Ok(*l)
                };
            };
            let owner = m.memlocs.get(*l).and_then(|l| m.sets.get(l.set));
            if owner.is_some_and(|s| s.name == set) {
                return Ok(*l);
            }
            let found = self.sets.get(set).and_then(|s| m.sets.get(*s)).and_then(|s| {
                s.locs.iter().copied().find(|l| m.memlocs.get(*l).is_some_and(|l| l.name == name))
            });
            return found.ok_or("no location of this name in this set");
        }
        Err("no location of this name")
    }
}

/// An operand by its place.
pub(crate) fn operand_mut(
    m: &mut Module,
    inst: InstId,
    list: OperandList,
    index: usize,
) -> Option<&mut Operand> {
    let inst = m.insts.get_mut(inst)?;
    match list {
        OperandList::Ins => inst.ins.get_mut(index),
        OperandList::Outs => inst.outs.get_mut(index),
        OperandList::Indirection => inst.more.as_mut()?.indirection_ins.get_mut(index),
    }
}
