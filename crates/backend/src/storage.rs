//! Where operands lie: one key per physical storage, and rectangles (partitions × bytes) inside it.
//!
//! Two operands conflict only if their keys are equal and their rectangles meet. A remote alias resolves to its owner's
//! storage; a shared DRAM location to the one shared space, by address once placed, by name before. Rectangles are exact
//! for dense patterns and for patterns of few rows; everything else, dynamic addresses included, is covered by a bounding
//! rectangle. Not modelled: bytes outside the location of a malformed operand beyond what its pattern says.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tandem_bir::{
    AccessPattern, AddressSpace, CompactString, Expr, FuncId, Inst, MemLocId, MemoryLocation, MemoryType,
    Module, Operand, Program, RegId, SetId, Storage, inst::OtherOperand,
};

/// Identity of a physical storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorageKey {
    /// SBUF of a core.
    Sb(u32),
    /// PSUM of a core.
    Psum(u32),
    /// Private DRAM of a core.
    Dram(u32),
    /// Shared DRAM.
    Shared,
    /// Location without an address: number of its `(owner core or shared, function, name)`.
    Unplaced(u32),
}

/// A rectangle of a storage: partitions `[part_lo, part_hi)` (0..1 for DRAM), bytes `[lo, hi)` of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Storage.
    pub key: StorageKey,
    /// First partition.
    pub part_lo: u32,
    /// One past the last partition.
    pub part_hi: u32,
    /// First byte.
    pub lo: u64,
    /// One past the last byte.
    pub hi: u64,
}

impl Region {
    /// The two rectangles share a byte.
    pub fn meets(&self, o: &Region) -> bool {
        self.key == o.key
            && self.part_lo < o.part_hi
            && o.part_lo < self.part_hi
            && self.lo < o.hi
            && o.lo < self.hi
    }
}

/// Rectangles of one operand.
pub type Regions = SmallVec<[Region; 2]>;

/// Most rectangles one operand is split into before a bounding rectangle is used (our choice).
pub const MAX_REGIONS_PER_OPERAND: u64 = 128;

#[derive(Clone, Copy, Debug)]
struct Place {
    key: StorageKey,
    addr: u64,
    base: u32,
    on_chip: bool,
}

/// Storage of every location of a program. Build once per pass; placement changes invalidate it.
#[derive(Debug)]
pub struct StorageMap {
    places: Vec<Vec<Place>>,
}

type NameKey<'a> = (usize, &'a str, &'a str);

impl StorageMap {
    /// Resolves every location.
    pub fn new(p: &Program) -> StorageMap {
        let mut by_name: FxHashMap<NameKey<'_>, MemLocId> = FxHashMap::default();
        let mut func_of: Vec<Vec<Option<FuncId>>> = Vec::new();
        for (mi, m) in p.modules.iter().enumerate() {
            let mut owner = vec![None; m.memlocs.len()];
            for f in m.all_functions() {
                for s in &m.funcs[f].storages {
                    let Storage::Set(set) = s else { continue };
                    for &l in &m.sets[*set].locs {
                        owner[tandem_bir::entity::EntityRef::index(l)] = Some(f);
                        by_name
                            .entry((mi, m.funcs[f].name.as_str(), m.memlocs[l].name.as_str()))
                            .or_insert(l);
                    }
                }
            }
            func_of.push(owner);
        }
        let lnc = p.lnc_size.max(1) as usize;
        let mut unplaced: FxHashMap<(Option<usize>, usize, &str, &str), u32> = FxHashMap::default();
        let mut places = Vec::with_capacity(p.modules.len());
        for (mi, m) in p.modules.iter().enumerate() {
            let group = mi / lnc * lnc;
            let mut v = Vec::with_capacity(m.memlocs.len());
            for (id, _) in m.memlocs.iter() {
                let fname = func_of[mi][tandem_bir::entity::EntityRef::index(id)]
                    .map_or("", |f| m.funcs[f].name.as_str());
                // an alias stands for its owner's storage; a chain is followed once (owners are no aliases)
                let (omi, om, oid) = match &m.memlocs[id].remote_local_target {
                    Some(t) if !m.memlocs[id].allocated || m.memlocs[id].is_on_chip() => {
                        let o = group + t.core.index();
                        match by_name.get(&(o, fname, t.name.as_str())) {
                            Some(&l) if o < p.modules.len() => (o, &p.modules[o], l),
                            _ => (mi, m, id),
                        }
                    }
                    _ => (mi, m, id),
                };
                let l = &om.memlocs[oid];
                let core = om.core.map_or((omi % lnc) as u32, |c| c.0);
                let shared = om.set_of(oid).addr_space == AddressSpace::Shared;
                let on_chip = l.is_on_chip();
                let key = match (l.allocated, l.mem) {
                    (true, MemoryType::Sb) => StorageKey::Sb(core),
                    (true, MemoryType::Psum) => StorageKey::Psum(core),
                    (true, MemoryType::Dram | MemoryType::Input | MemoryType::Output) => {
                        if shared {
                            StorageKey::Shared
                        } else {
                            StorageKey::Dram(core)
                        }
                    }
                    (true, MemoryType::Unallocated | MemoryType::RngState | MemoryType::Reg) | (false, _) => {
                        let who = if shared && !on_chip { None } else { Some(omi) };
                        let n = unplaced.len() as u32;
                        StorageKey::Unplaced(
                            *unplaced.entry((who, group, fname, l.name.as_str())).or_insert(n),
                        )
                    }
                };
                let placed = !matches!(key, StorageKey::Unplaced(_));
                let bank = if l.mem == MemoryType::Psum {
                    l.bank.unsigned_abs().saturating_mul(om.arch.spec().map_or(2048, |s| s.psum_bank_bytes))
                } else {
                    0
                };
                v.push(Place {
                    key,
                    addr: if placed { l.addr.saturating_add(bank) } else { 0 },
                    base: if placed { l.base } else { 0 },
                    on_chip,
                });
            }
            places.push(v);
        }
        StorageMap { places }
    }

    fn place(&self, module: usize, loc: MemLocId) -> Option<&Place> {
        self.places.get(module)?.get(tandem_bir::entity::EntityRef::index(loc))
    }

    /// Storage of a location.
    pub fn key(&self, module: usize, loc: MemLocId) -> Option<StorageKey> {
        self.place(module, loc).map(|p| p.key)
    }

    /// The whole of a location.
    pub fn whole(&self, module: usize, m: &Module, loc: MemLocId) -> Option<Region> {
        let place = self.place(module, loc)?;
        let l = m.memlocs.get(loc)?;
        Some(if place.on_chip {
            Region {
                key: place.key,
                part_lo: place.base,
                part_hi: place.base.saturating_add(u32::try_from(l.rows()).unwrap_or(u32::MAX)),
                lo: place.addr,
                hi: place.addr.saturating_add(l.row_bytes()),
            }
        } else {
            Region {
                key: place.key,
                part_lo: 0,
                part_hi: 1,
                lo: place.addr,
                hi: place.addr.saturating_add(l.size_bytes()),
            }
        })
    }

    /// Bounding rectangle of an operand.
    pub fn bounds(&self, module: usize, m: &Module, ap: &AccessPattern) -> Option<Region> {
        let place = self.place(module, ap.loc)?;
        let whole = self.whole(module, m, ap.loc)?;
        if !ap.is_static() {
            return Some(whole);
        }
        let l = m.memlocs.get(ap.loc)?;
        if place.on_chip {
            let Ok(b) = ap.on_chip_box(l) else { return Some(whole) };
            let part = |x: i64| place.base.saturating_add(u32::try_from(x.max(0)).unwrap_or(u32::MAX));
            Some(Region {
                key: place.key,
                part_lo: part(b.first_partition),
                part_hi: part(b.last_partition).saturating_add(1),
                lo: place.addr.saturating_add(b.low_byte),
                hi: place.addr.saturating_add(b.high_byte),
            })
        } else {
            let Some((lo, hi)) = ap.elem_range() else { return Some(whole) };
            let size = ap.dtype.bytes();
            let byte = |x: i64| place.addr.saturating_add((x.max(0) as u64).saturating_mul(size));
            Some(Region {
                key: place.key,
                part_lo: 0,
                part_hi: 1,
                lo: byte(lo),
                hi: byte(hi.saturating_add(1)),
            })
        }
    }

    /// Rectangles that cover an operand, exactly when there are few enough.
    pub fn regions(&self, module: usize, m: &Module, ap: &AccessPattern, out: &mut Regions) {
        let Some(b) = self.bounds(module, m, ap) else { return };
        if !ap.is_static() {
            out.push(b);
            return;
        }
        let on_chip = self.place(module, ap.loc).is_some_and(|p| p.on_chip);
        let free = if on_chip { ap.merged_free_pairs() } else { tandem_bir::ap::merge_pairs(&ap.pairs) };
        // one run, or rows of runs
        let size = ap.dtype.bytes();
        if let [row, run] = free.as_slice()
            && run.step == 1
            && row.step >= run.num as i64
            && row.num <= MAX_REGIONS_PER_OPERAND
            && b.lo < b.hi
        {
            let (stride, len) = ((row.step as u64).saturating_mul(size), run.num.saturating_mul(size));
            for i in 0..row.num {
                let lo = b.lo.saturating_add(stride.saturating_mul(i));
                out.push(Region { lo, hi: lo.saturating_add(len), ..b });
            }
            return;
        }
        out.push(b);
    }
}

/// One thing an instruction touches.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Memory by a pattern.
    Ap(&'a AccessPattern),
    /// All of a set (operand forms without a static pattern).
    Set(SetId),
    /// A register.
    Reg(RegId),
}

fn expr_regs(e: &Expr, f: &mut dyn FnMut(RegId)) {
    e.for_each_leaf(&mut |l| {
        if let Expr::Reg(r) = l {
            f(*r);
        }
    });
}

fn operand<'a>(o: &'a Operand, write: bool, f: &mut dyn FnMut(Access<'a>, bool)) {
    match o {
        Operand::Ap(a) => {
            f(Access::Ap(a), write);
            if let Some(d) = &a.dynamic {
                for (_, e) in &d.terms {
                    expr_regs(e, &mut |r| f(Access::Reg(r), false));
                }
            }
        }
        Operand::Imm(_) => {}
        Operand::Reg(r) => f(Access::Reg(r.reg), write),
        Operand::Other(x) => match &**x {
            OtherOperand::Symbolic { set, addrs, .. } => {
                f(Access::Set(*set), write);
                for e in addrs {
                    expr_regs(e, &mut |r| f(Access::Reg(r), false));
                }
            }
            OtherOperand::RegisterAp { set, reg, .. } => {
                f(Access::Set(*set), write);
                f(Access::Reg(*reg), false);
            }
            OtherOperand::SymbolicImm { expr, .. } => expr_regs(expr, &mut |r| f(Access::Reg(r), false)),
            OtherOperand::ImmArray { .. } => {}
        },
    }
}

/// Calls `f(access, is_write)` for everything an instruction's operands name: inputs, index operands, then outputs.
/// Bodies of nested regions are not entered.
pub fn for_each_access<'a>(inst: &'a Inst, f: &mut dyn FnMut(Access<'a>, bool)) {
    for o in inst.ins.iter().chain(inst.indirection_ins()) {
        operand(o, false, f);
    }
    for (_, v) in inst.attrs.iter() {
        match v {
            tandem_bir::AttrValue::Expr(e) => expr_regs(e, &mut |r| f(Access::Reg(r), false)),
            tandem_bir::AttrValue::Exprs(es) => {
                for e in es.iter() {
                    expr_regs(e, &mut |r| f(Access::Reg(r), false));
                }
            }
            tandem_bir::AttrValue::Bool(_)
            | tandem_bir::AttrValue::Int(_)
            | tandem_bir::AttrValue::F32(_)
            | tandem_bir::AttrValue::Enum(_)
            | tandem_bir::AttrValue::Str(_)
            | tandem_bir::AttrValue::Ints(_)
            | tandem_bir::AttrValue::Floats(_)
            | tandem_bir::AttrValue::Strs(_)
            | tandem_bir::AttrValue::Groups(_)
            | tandem_bir::AttrValue::Pairs(_)
            | tandem_bir::AttrValue::Json(_) => {}
        }
    }
    for o in &inst.outs {
        operand(o, true, f);
    }
}

/// Calls `f(location, is_write)` for every location an instruction's operands name.
pub fn for_each_location(m: &Module, inst: &Inst, f: &mut dyn FnMut(MemLocId, bool)) {
    for_each_access(inst, &mut |a, w| match a {
        Access::Ap(ap) => f(ap.loc, w),
        Access::Set(s) => {
            if let Some(set) = m.sets.get(s) {
                set.locs.iter().for_each(|l| f(*l, w));
            }
        }
        Access::Reg(_) => {}
    });
}

/// Another core, or another name, may reach the location's bytes.
pub fn others_reach(l: &MemoryLocation) -> bool {
    l.is_remote() || l.written_by_another_core || !l.aliases.is_empty()
}

/// Name of a location, for messages.
pub fn loc_name(m: &Module, l: MemLocId) -> CompactString {
    m.memlocs.get(l).map_or_else(|| "?".into(), |x| x.name.clone())
}
