//! Writes of two cores that certainly store the same values.
//!
//! A kernel that does not divide its work runs whole on both cores, and both store the same output: the order of the
//! two writes decides nothing. The vendor's kernel library does this whenever a size is too small to divide.
//!
//! Definition. Values are numbered along the list of instructions that each core executes, with one table for both cores. The
//! number of an instruction is that of its type, engine, attributes, immediates, patterns and addresses, and of the contents
//! of the memory and registers it reads. The content of a group of locations (those of a core that share bytes) has a
//! number too, made of its former number and those of the writes. Equal numbers mean equal values. A pair of writes is
//! alike when both are plain DMA copies of one number, pattern and address included.
//!
//! Takes numbers of their own, so that nothing that depends on them is alike: what comes from the other core (swaps,
//! collectives, remote aliases, shared memory that the other core writes), ranks, random numbers, custom kernels, and everything
//! after a control-flow decision. Never says alike falsely; misses values that are equal for other reasons.

use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use tandem_bir::analysis::footprint::{Footprint, Space, StorageMap};
use tandem_bir::inst::{Family, OtherOperand};
use tandem_bir::{
    Attr, CompactString, EngineKind, Expr, Inst, InstId, MemLocId, MemsetMode, Module, Opcode, Operand, RegId,
};

/// Numbers of the writes of both cores.
pub(crate) struct Alike {
    writes: [FxHashMap<InstId, u32>; 2],
}

impl Alike {
    /// Numbers what the cores execute in these orders.
    pub(crate) fn new(modules: [&Module; 2], storage: [&StorageMap; 2], lists: [&[InstId]; 2]) -> Alike {
        let mut table = Table::default();
        let groups = [0, 1].map(|c| Groups::new(modules[c], storage[c]));
        let foreign = [0, 1].map(|c| groups[c].touched(modules[1 - c], storage[1 - c], lists[1 - c]));
        let writes = [0, 1].map(|c| {
            let mut walk = Walk {
                m: modules[c],
                storage: storage[c],
                groups: &groups[c],
                foreign: &foreign[c],
                table: &mut table,
                memory: FxHashMap::default(),
                registers: FxHashMap::default(),
                engines: FxHashMap::default(),
                text: String::new(),
            };
            lists[c].iter().filter_map(|&i| walk.step(i).map(|n| (i, n))).collect()
        });
        Alike { writes }
    }

    /// The two instructions store the same values in the same places.
    pub(crate) fn same(&self, a: InstId, b: InstId) -> bool {
        matches!((self.writes[0].get(&a), self.writes[1].get(&b)), (Some(x), Some(y)) if x == y)
    }
}

/// Numbers by what they stand for.
#[derive(Default)]
struct Table {
    known: FxHashMap<String, u32>,
    next: u32,
}

impl Table {
    fn of(&mut self, text: &str) -> u32 {
        if let Some(n) = self.known.get(text) {
            return *n;
        }
        let n = self.fresh();
        self.known.insert(text.to_owned(), n);
        n
    }
    /// A number that nothing else has.
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

/// Name of an array without the core that owns it.
fn array(s: &Space) -> &'static str {
    match s {
        Space::Sb(_) => "sb",
        Space::Psum(_) => "psum",
        Space::Dram(_) => "dram",
        Space::SharedDram => "shared",
        Space::Unplaced(..) => "unplaced",
        Space::Nowhere => "nowhere",
    }
}

/// Locations of a core that share bytes.
struct Groups {
    of: FxHashMap<MemLocId, usize>,
    /// Array, first and last byte of each.
    ranges: Vec<(Space, i64, i64)>,
    /// Name of the first location of each.
    names: Vec<CompactString>,
}

impl Groups {
    fn new(m: &Module, storage: &StorageMap) -> Groups {
        let mut all: Vec<(Space, i64, i64, MemLocId)> = m
            .memlocs
            .iter()
            .map(|(id, l)| {
                let f = Footprint::whole(storage.placement(id), l);
                (f.space, f.low, f.high, id)
            })
            .collect();
        // Unplaced locations have a space of their own each, so their ranges never meet.
        all.sort_by(|a, b| format!("{:?}", a.0).cmp(&format!("{:?}", b.0)).then(a.1.cmp(&b.1)));
        let mut out = Groups { of: FxHashMap::default(), ranges: Vec::new(), names: Vec::new() };
        for (space, low, high, id) in all {
            match out.ranges.last_mut() {
                Some((s, _, end)) if *s == space && low < *end => *end = (*end).max(high),
                _ => {
                    out.ranges.push((space, low, high));
                    out.names.push(m.memlocs[id].name.clone());
                }
            }
            out.of.insert(id, out.ranges.len() - 1);
        }
        out
    }

    /// Groups that the instructions of another core write.
    fn touched(&self, m: &Module, storage: &StorageMap, list: &[InstId]) -> Vec<bool> {
        let mut out = vec![false; self.ranges.len()];
        for i in list {
            for op in &m.insts[*i].outs {
                for f in storage.operand(m, op) {
                    for (k, (space, low, high)) in self.ranges.iter().enumerate() {
                        out[k] |= *space == f.space && f.low < *high && *low < f.high;
                    }
                }
            }
        }
        out
    }
}

struct Walk<'a> {
    m: &'a Module,
    storage: &'a StorageMap,
    groups: &'a Groups,
    /// Groups that the other core writes.
    foreign: &'a [bool],
    table: &'a mut Table,
    memory: FxHashMap<usize, u32>,
    registers: FxHashMap<RegId, u32>,
    /// What each engine has executed, for the accumulators inside engines.
    engines: FxHashMap<EngineKind, u32>,
    text: String,
}

impl Walk<'_> {
    /// Content of a group.
    fn content(&mut self, g: usize) -> u32 {
        if let Some(n) = self.memory.get(&g) {
            return *n;
        }
        // What nobody has written: inputs by their place, on-chip bytes by nothing (reading them is a finding of its own).
        let (space, low, _) = &self.groups.ranges[g];
        let text = match space {
            Space::SharedDram | Space::Dram(_) => {
                format!("from outside: {} {} {low}", array(space), self.groups.names[g])
            }
            Space::Sb(_) | Space::Psum(_) => "nothing".to_owned(),
            Space::Unplaced(_, name) => format!("from outside: {name}"),
            Space::Nowhere => format!("nowhere {}", self.table.fresh()),
        };
        self.table.of(&text)
    }

    /// Adds an operand; false when it stands for something that only this core knows.
    fn operand(&mut self, op: &Operand, reads: bool) -> bool {
        let text = &mut self.text;
        match op {
            Operand::Imm(i) => {
                let _ = write!(text, "{i:?};");
                true
            }
            Operand::Reg(r) => {
                let _ = write!(text, "r{:?} {};", r.dtype, self.registers.get(&r.reg).copied().unwrap_or(0));
                true
            }
            Operand::Ap(a) => {
                let place = self.storage.placement(a.loc);
                let _ = write!(
                    text,
                    "{} {} {} {:?} {} {:?}",
                    array(&place.space),
                    place.base,
                    place.addr,
                    a.dtype,
                    a.offset,
                    a.pairs
                );
                if let Some(d) = &a.dynamic {
                    let _ = write!(text, " {:?} {} {:?}", d.terms, d.indirect_dim, d.max_index);
                    // Registers by their values, in the order of their mention.
                    let mut ok = true;
                    for (_, e) in &d.terms {
                        e.for_each_leaf(&mut |leaf| match leaf {
                            Expr::Reg(r) => {
                                let _ = write!(text, " r{}", self.registers.get(r).copied().unwrap_or(0));
                            }
                            Expr::Const(_) | Expr::IndirectArg(_) => {}
                            Expr::Affine { .. }
                            | Expr::Sum(_)
                            | Expr::Mult { .. }
                            | Expr::FloorDiv(..)
                            | Expr::Modulo(..)
                            | Expr::CcDiv { .. }
                            | Expr::LoopAxis(_)
                            | Expr::ShardId { .. }
                            | Expr::CcGetRank { .. } => ok = false,
                        });
                    }
                    if !ok {
                        return false;
                    }
                }
                let Some(&g) = self.groups.of.get(&a.loc) else { return false };
                if reads {
                    if self.foreign[g] {
                        return false;
                    }
                    let n = self.content(g);
                    let _ = write!(self.text, " ={n}");
                }
                self.text.push(';');
                !self.m.memlocs[a.loc].is_remote()
            }
            Operand::Other(o) => match &**o {
                OtherOperand::ImmArray { .. } => {
                    let _ = write!(text, "{o:?};");
                    true
                }
                OtherOperand::Symbolic { .. }
                | OtherOperand::RegisterAp { .. }
                | OtherOperand::SymbolicImm { .. } => false,
            },
        }
    }

    /// One instruction; the number of a plain copy.
    fn step(&mut self, id: InstId) -> Option<u32> {
        let inst = &self.m.insts[id];
        self.text.clear();
        let _ = write!(self.text, "{:?} {:?} ", inst.opcode, inst.engine);
        for (a, v) in inst.attrs.iter() {
            let _ = write!(self.text, "{} {v:?};", a.key());
        }
        let mut known = plain(inst);
        for op in inst.ins.iter().chain(inst.indirection_ins()) {
            known &= self.operand(op, true);
        }
        self.text.push('>');
        for op in &inst.outs {
            known &= self.operand(op, false);
        }
        let inside = [Attr::Acc, Attr::AccumulatorCmd, Attr::AccumulationFlag];
        if inst.opcode == Opcode::ReadActivationAccumulator
            || inside.iter().any(|a| inst.attrs.get(*a).is_some())
        {
            let n = self.engines.get(&inst.engine).copied().unwrap_or(0);
            let _ = write!(self.text, " after {n}");
        }
        let value = if known { self.table.of(&std::mem::take(&mut self.text)) } else { self.table.fresh() };
        let before = self.engines.get(&inst.engine).copied().unwrap_or(0);
        let now = self.table.of(&format!("{before}, {value}"));
        self.engines.insert(inst.engine, now);
        let mut folds = inst.attrs.get(Attr::CceOp).is_some();
        for (k, op) in inst.outs.iter().enumerate() {
            match op {
                Operand::Reg(r) => {
                    let n = self.table.of(&format!("{value} {k}"));
                    self.registers.insert(r.reg, n);
                }
                Operand::Ap(a) => {
                    let Some(&g) = self.groups.of.get(&a.loc) else { continue };
                    // Partial and accumulating writes keep some of what was there; so the old content counts always.
                    let old = self.content(g);
                    let n = self.table.of(&format!("{old} then {value} {k}"));
                    self.memory.insert(g, n);
                    folds |= a.dynamic.is_some();
                }
                // An unknown place: nothing that was known is known any more.
                Operand::Other(_) => {
                    for g in 0..self.groups.ranges.len() {
                        let n = self.table.fresh();
                        self.memory.insert(g, n);
                    }
                }
                Operand::Imm(_) => {}
            }
        }
        (known && inst.opcode == Opcode::DmaCopy && !folds).then_some(value)
    }
}

/// The outputs are a function of the operands alone.
fn plain(inst: &Inst) -> bool {
    match inst.opcode {
        Opcode::Memset => return inst.get_enum::<MemsetMode>(Attr::Mode) == Some(MemsetMode::Const),
        Opcode::Dropout | Opcode::InlineAsmBytes | Opcode::DmaTrigger | Opcode::ReadVarAddr => return false,
        _ => {}
    }
    match inst.opcode.spec().family {
        Family::Activation
        | Family::Matmul
        | Family::Fill
        | Family::Dma
        | Family::Pool
        | Family::Elementwise
        | Family::Copy
        | Family::Gather
        | Family::Reduce
        | Family::TensorScalar
        | Family::BatchNorm
        | Family::DataMove
        | Family::Select
        | Family::Misc
        | Family::Register
        | Family::Search
        | Family::Mx => true,
        Family::Generic
        | Family::Rank
        | Family::Control
        | Family::Sync
        | Family::OnChipMove
        | Family::Collective
        | Family::Kernel
        | Family::Debug
        | Family::Rng
        | Family::DmaDescriptor
        | Family::Terminator
        | Family::Queue
        | Family::Structured
        | Family::Macro => false,
    }
}
