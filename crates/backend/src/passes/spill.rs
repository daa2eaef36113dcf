//! Tensors that leave SBUF between two uses: a copy in private DRAM holds the bytes, and a tensor of another name gets them
//! back before the next use.
//!
//! [`super::make_room`] decides which tensors and where, when no order of instructions lets them fit; here the program gets its
//! copies. The part of a tensor before a gap is stored after its last write, the part behind the gap is loaded before its first
//! use. What only one load from an input fills needs no store: the load is made again.

use crate::edit::{BlockEdits, Names, is_plain_copy};
use crate::storage::{for_each_location, others_reach};
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use tandem_bir::diag::Loc;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::{
    AccessPattern, AddressSpace, Attr, CompactString, Dtype, EngineKind, FuncId, Inst, InstId, MemLocId,
    MemoryLocation, MemoryLocationSet, MemoryType, Module, Opcode, Operand, Program, SetId, Storage,
    TensorClass, TensorKind, entity::EntityRef,
};

/// One part of a tensor's life: its uses and the writes among them, in the final order.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) uses: Vec<InstId>,
    pub(super) writes: Vec<InstId>,
}

/// A tensor and the parts of its life, at least two; the first one has a write.
#[derive(Clone, Debug)]
pub(super) struct Spill {
    pub(super) module: usize,
    pub(super) tensor: MemLocId,
    pub(super) parts: Vec<Part>,
}

/// What the copies add up to.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    /// Tensors of all cores.
    pub(super) tensors: u64,
    /// Their names, with the bytes of all stores and loads.
    pub(super) names: IndexMap<CompactString, u64>,
    pub(super) stores: u64,
    pub(super) loads: u64,
}

impl std::fmt::Display for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Traffic { tensors, names, stores, loads } = self;
        let bytes = names.values().fold(0u64, |a, b| a.saturating_add(*b));
        let copies = format!("stores: {stores}, loads: {loads}, {bytes} bytes in all");
        write!(f, "tensors that leave SBUF between two uses: {tensors}; {copies}")
    }
}

/// Nothing forbids the tensor to leave SBUF: its own, without an address, seen by this core alone, and every operand names it by
/// a pattern.
pub(super) fn may_spill(m: &Module, l: MemLocId) -> bool {
    let loc = &m.memlocs[l];
    let set = &m.sets[loc.set];
    let marked = set.no_spill || set.volatile || set.is_virtual || loc.pinned;
    let given = loc.allocated || loc.user_allocated || set.file.is_some();
    loc.mem == MemoryType::Sb
        && set.kind == TensorKind::Internal
        && set.locs.len() == 1
        && loc.size_bytes() > 0
        && !(marked || given || others_reach(loc))
}

/// The load of an input that alone fills a tensor, when the tensor's writes are this one and no core writes the input: it can be
/// made again.
pub(super) fn load_again(
    m: &Module,
    written: &FxHashSet<CompactString>,
    writes: &[InstId],
) -> Option<InstId> {
    let [one] = writes else { return None };
    let i = &m.insts[*one];
    let ([Operand::Ap(from)], [Operand::Ap(to)]) = (&i.ins[..], &i.outs[..]) else { return None };
    let loc = m.memlocs.get(from.loc)?;
    let input = m.kind_of(from.loc).is_input() && !loc.is_on_chip() && loc.aliases.is_empty();
    (is_plain_copy(i) && input && !written.contains(loc.owner_name()) && from.is_static() && to.is_static())
        .then_some(*one)
}

/// Names of the tensors that some core writes.
pub(super) fn written(cores: &[Module]) -> FxHashSet<CompactString> {
    let mut out = FxHashSet::default();
    for m in cores {
        for (_, _, i) in m.walk() {
            for_each_location(m, &m.insts[i], &mut |l, w| {
                if w && let Some(loc) = m.memlocs.get(l) {
                    out.insert(loc.owner_name().clone());
                }
            });
        }
    }
    out
}

/// Gives the parts of each tensor names of their own, and the copies between them. `written` are the names that some core
/// writes, `derive` makes the source positions of what is new.
pub(super) fn apply(
    p: &mut Program,
    range: Range<usize>,
    spills: &[Spill],
    written: &FxHashSet<CompactString>,
    derive: &dyn Fn(&mut Program, Loc) -> Loc,
) -> Traffic {
    if spills.is_empty() {
        return Traffic::default();
    }
    let mut names = Names::of(&p.modules[range.clone()]);
    let mut traffic = Traffic::default();
    for module in range {
        let m = &p.modules[module];
        let mut pos = SecondaryMap::<InstId, usize>::default();
        pos.resize(m.insts.len());
        m.walk().iter().enumerate().for_each(|(k, w)| pos[w.2] = k);
        let funcs = functions(m);
        let mut edits = BlockEdits::default();
        for s in spills.iter().filter(|s| s.module == module) {
            let Some(&func) = funcs.get(&p.modules[module].memlocs[s.tensor].set) else { continue };
            let (names, edits, traffic) = (&mut names, &mut edits, &mut traffic);
            let cut =
                Cut { p, module, func, tensor: s.tensor, pos: &pos, names, edits, derive, traffic, bytes: 0 };
            cut.parts(&s.parts, written);
        }
        edits.apply(&mut p.modules[module]);
    }
    traffic
}

/// The function that lists each set.
fn functions(m: &Module) -> FxHashMap<SetId, FuncId> {
    let mut out = FxHashMap::default();
    for f in m.all_functions() {
        for s in &m.funcs[f].storages {
            if let Storage::Set(set) = s {
                out.entry(*set).or_insert(f);
            }
        }
    }
    out
}

/// One tensor that is cut into parts.
struct Cut<'a> {
    p: &'a mut Program,
    module: usize,
    func: FuncId,
    tensor: MemLocId,
    /// Positions in the final order.
    pos: &'a SecondaryMap<InstId, usize>,
    names: &'a mut Names,
    edits: &'a mut BlockEdits,
    derive: &'a dyn Fn(&mut Program, Loc) -> Loc,
    traffic: &'a mut Traffic,
    /// Bytes of its stores and loads.
    bytes: u64,
}

impl Cut<'_> {
    fn parts(mut self, parts: &[Part], written: &FxHashSet<CompactString>) {
        self.traffic.tensors += 1;
        // The tensor of the part before, and the copy that holds what it ends with.
        let (mut here, mut slot) = (self.tensor, None);
        let mut writes: Vec<InstId> = Vec::new();
        for (k, part) in parts.iter().enumerate() {
            let Some(&first) = part.uses.iter().min_by_key(|i| self.pos[**i]) else { continue };
            if k > 0 {
                let next = self.tile(k);
                if let Some(load) = load_again(self.m(), written, &writes) {
                    self.repeat(load, next, first);
                } else {
                    let last = writes.iter().max_by_key(|i| self.pos[**i]).copied().unwrap_or(first);
                    let from = slot.unwrap_or_else(|| self.store(here, last));
                    slot = Some(from);
                    self.load(from, next, first);
                }
                for i in &part.uses {
                    rename(&mut self.p.modules[self.module].insts[*i], self.tensor, next);
                }
                here = next;
            }
            if !part.writes.is_empty() {
                slot = None;
                writes.extend(&part.writes);
            }
        }
        let name = self.m().memlocs[self.tensor].name.clone();
        let bytes = self.traffic.names.entry(name).or_default();
        *bytes = bytes.saturating_add(self.bytes);
    }

    fn m(&self) -> &Module {
        &self.p.modules[self.module]
    }

    /// A tensor like the one that is cut, without an address, for its part `k`.
    fn tile(&mut self, k: usize) -> MemLocId {
        let like = &self.m().memlocs[self.tensor];
        let (set, loc) = (self.m().sets[like.set].clone(), like.clone());
        let base = format!("{}.part{k}", loc.name);
        // The id pairs a tensor with another core's, and this one is nobody's.
        self.add(&base, set, MemoryLocation { tensor_id: -1, ..loc })
    }

    fn add(&mut self, base: &str, mut set: MemoryLocationSet, mut loc: MemoryLocation) -> MemLocId {
        loc.name = self.names.loc(base);
        set.name = self.names.loc(&format!("{}_set", loc.name));
        self.p.modules[self.module].add_location(self.func, set, loc)
    }

    /// All bytes of a location, as the widest unsigned integers that fill a row.
    fn whole(&self, l: MemLocId) -> AccessPattern {
        let loc = &self.m().memlocs[l];
        let dtype = match loc.row_bytes() {
            n if n.is_multiple_of(4) => Dtype::Uint32,
            n if n.is_multiple_of(2) => Dtype::Uint16,
            _ => Dtype::Uint8,
        };
        let n = loc.row_bytes() / dtype.bytes();
        AccessPattern::new(l, dtype, 0, &[(i64::try_from(n).unwrap_or(i64::MAX), loc.rows()), (1, n)])
    }

    /// Stores a tensor after its last write, into private DRAM.
    fn store(&mut self, from: MemLocId, last: InstId) -> MemLocId {
        let like = &self.m().memlocs[from];
        let (rows, bytes) = (like.rows(), like.row_bytes());
        let base = format!("{}.spilled", like.name);
        let set = MemoryLocationSet {
            class: TensorClass::Tensor,
            ..MemoryLocationSet::new(
                "",
                Dtype::Uint8,
                TensorKind::Internal,
                AddressSpace::Local,
                &[rows, bytes],
            )
        };
        let loc = MemoryLocation::new("", SetId::new(0), MemoryType::Dram, &[rows, bytes]);
        let slot = self.add(&base, set, loc);
        let copy = self.copy("spill_store", from, slot, last);
        self.edits.after.entry(last).or_default().push(copy);
        self.traffic.stores += 1;
        slot
    }

    /// Loads a stored tensor before its next use.
    fn load(&mut self, slot: MemLocId, to: MemLocId, first: InstId) {
        let copy = self.copy("spill_load", slot, to, first);
        self.edits.before.entry(first).or_default().push(copy);
        self.traffic.loads += 1;
    }

    /// Makes the one load of the tensor again before its next use.
    fn repeat(&mut self, load: InstId, to: MemLocId, first: InstId) {
        let mut i = self.m().insts[load].clone();
        i.name = self.names.inst(&format!("{}_again", i.name));
        i.deps.clear();
        i.loc = (self.derive)(self.p, i.loc);
        rename(&mut i, self.tensor, to);
        let bytes =
            i.outs.iter().filter_map(Operand::as_ap).map(|a| a.num_elems().saturating_mul(a.dtype.bytes()));
        self.bytes = bytes.fold(self.bytes, u64::saturating_add);
        let id = self.p.modules[self.module].insts.push(i);
        self.edits.before.entry(first).or_default().push(id);
        self.traffic.loads += 1;
    }

    fn copy(&mut self, what: &str, from: MemLocId, to: MemLocId, at: InstId) -> InstId {
        let (from, to) = (self.whole(from), self.whole(to));
        self.bytes = self.bytes.saturating_add(from.num_elems().saturating_mul(from.dtype.bytes()));
        let beside = &self.m().insts[at];
        let (name, loc) = (format!("{}_{what}", beside.name), beside.loc);
        let mut i = Inst::new(&self.names.inst(&name), Opcode::DmaCopy);
        i.engine = EngineKind::Dma;
        i.loc = (self.derive)(self.p, loc);
        // Bytes that nothing has written stay what they are: a use of them is the finding, not the copy.
        i.set(Attr::CanReadUninit, true);
        i.ins.push(from.into());
        i.outs.push(to.into());
        self.p.modules[self.module].insts.push(i)
    }
}

/// All operands on `from` go to `to`.
fn rename(i: &mut Inst, from: MemLocId, to: MemLocId) {
    let more = i.more.as_mut().map(|m| &mut m.indirection_ins).into_iter().flatten();
    for o in i.ins.iter_mut().chain(&mut i.outs).chain(more) {
        if let Operand::Ap(a) = o
            && a.loc == from
        {
            a.loc = to;
        }
    }
}
