//! Arbitrary programs for property tests (feature `testing`).
//!
//! Programs are well formed for the readers: names are unique in their container, references resolve, required
//! attributes are there, immediates hold the number class of their type. They need not make sense: patterns may leave
//! their location, engines may be wrong. Every opcode, operand kind, attribute type and optional field occurs. They are in
//! canonical order ([`crate::canon`]).

pub mod by_hand;
pub mod two_core;

use crate::ap::{AccessPattern, ApPair, ApPairs, DynamicAp};
use crate::arch::ArchLevel;
use crate::diag::{Loc, LocEntry, LocTable, SourcePos};
use crate::dtype::{Dtype, NumericClass};
use crate::enums::{BirEnum, EdgeKind, EngineKind};
use crate::expr::Expr;
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{
    Attr, AttrSpec, AttrType, AttrValue, Dep, Effects, F32, ImmValue, Immediate, Inst, Opcode, Operand,
    OperandExtra, OperandKinds, OperandList, OperandSpec, OtherOperand, Presence, RegAccess, SemUpdate,
    SemWait, SyncInfo,
};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register, RemoteTarget};
use crate::module::{Extra, Level, Module, Port, Program, Signature, Storage};
use compact_str::{CompactString, format_compact};
use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// An arbitrary program of up to two cores and two subgraphs; `size` bounds the instructions of a module.
pub fn program() -> impl Strategy<Value = Program> {
    (any::<u64>(), 0u32..24).prop_map(|(seed, size)| build(seed, size))
}

/// The program of a seed. Equal arguments give equal programs.
pub fn build(seed: u64, size: u32) -> Program {
    let mut g = Gen { state: seed ^ 0x9e37_79b9_7f4a_7c15, locs: LocTable::default(), queues: Vec::new() };
    let lnc_size = 1 + g.below(2) as u32;
    let subgraphs = 1 + u32::from(g.chance(4));
    let mut modules = Vec::new();
    for subgraph in 0..subgraphs {
        for core in 0..lnc_size {
            let mut m = g.module(core, size);
            m.subgraph = subgraph;
            modules.push(m);
        }
    }
    let mut signature = Signature::default();
    for list in [&mut signature.inputs, &mut signature.outputs] {
        for _ in 0..g.below(3) {
            list.push(Port {
                name: g.text().to_string(),
                location: g.text(),
                core: if g.chance(2) { Some(CoreId(g.below(2) as u32)) } else { None },
                subgraph: g.below(u64::from(subgraphs)) as u32,
                dtype: g.member(),
                shape: (0..g.below(4)).map(|_| g.below(1000)).collect(),
            });
        }
    }
    let mut constants = IndexMap::new();
    for i in 0..g.below(3) {
        let bytes: Vec<u8> = (0..g.below(20)).map(|_| g.next() as u8).collect();
        constants.insert(format!("c{i}.npy"), bytes.into());
    }
    let level = [Level::Bir, Level::Lowered, Level::Linked][g.below(3) as usize];
    let program = Program {
        name: g.text().to_string(),
        lnc_size,
        level,
        modules,
        locs: std::mem::take(&mut g.locs),
        constants,
        signature,
    };
    crate::canon::canonical(&program)
}

struct Gen {
    state: u64,
    locs: LocTable,
    queues: Vec<CompactString>,
}

/// What an instruction can refer to.
struct Scope {
    sets: Vec<SetId>,
    locs: Vec<MemLocId>,
    regs: Vec<RegId>,
}

impl Gen {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }
    /// One time in `n`.
    fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
    fn member<E: BirEnum>(&mut self) -> E {
        let members = E::TABLE.members;
        let (ordinal, _) = members[self.below(members.len() as u64) as usize];
        E::from_ordinal(ordinal).expect("an ordinal of the table")
    }
    fn int(&mut self) -> i64 {
        match self.below(8) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => self.next() as i64,
            3 => -(self.below(1000) as i64),
            _ => self.below(1000) as i64,
        }
    }
    fn f32(&mut self) -> F32 {
        F32(match self.below(10) {
            0 => f32::INFINITY,
            1 => f32::NEG_INFINITY,
            2 => f32::from_bits(0x7fc0_0000 | (self.next() as u32 & 0x3f_ffff)),
            3 => -0.0,
            4 => self.below(100) as f32,
            5 => 0.5,
            6 => f32::MIN_POSITIVE / 4.0,
            _ => {
                let f = f32::from_bits(self.next() as u32);
                if f.is_nan() { 1.5 } else { f }
            }
        })
    }
    fn text(&mut self) -> CompactString {
        let n = self.below(12);
        let mut out = CompactString::default();
        for _ in 0..n {
            out.push(match self.below(12) {
                0 => self.pick(&[
                    '"', '\\', '\n', '\t', '\r', '/', ':', ';', '@', '$', '{', '}', '#', '\u{7f}', '\u{0}',
                ]),
                1 => self.pick(&['é', '\u{2028}', '😀', '\u{1b}', '中', '\u{feff}']),
                2 => ' ',
                _ => char::from(b'a' + self.below(26) as u8),
            });
        }
        out
    }
    /// A name that no other index has.
    fn name(&mut self, stem: &str, i: usize) -> CompactString {
        if self.chance(6) {
            format_compact!("{stem} {i}/{}", self.text())
        } else {
            format_compact!("{stem}-{i}_x.{i}")
        }
    }
    fn value(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.int()),
            2 => json!(f64::from_bits(self.next()).clamp(-1e300, 1e300)),
            3 => json!(self.text().as_str()),
            4 => json!(self.chance(2)),
            5 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.map(depth - 1)),
        }
    }
    fn map(&mut self, depth: u32) -> Map<String, Value> {
        let mut map = Map::new();
        for i in 0..1 + self.below(2) {
            map.insert(format!("zz{i} {}", self.text()), self.value(depth));
        }
        map
    }
    fn extra(&mut self) -> Extra {
        if self.chance(8) { Some(Box::new(self.map(2))) } else { None }
    }
    fn loc(&mut self) -> Loc {
        let mut loc = match self.below(6) {
            0 => Loc::NONE,
            1 => {
                let b = self.below(1 << 40);
                self.locs.intern(LocEntry::Byte(b))
            }
            2 => {
                let t = self.text();
                self.locs.intern(LocEntry::Json(t))
            }
            _ => {
                let file = match self.below(8) {
                    0 => self.text(),
                    1 => self.pick(&["unknown", "byte", "json"]).into(),
                    _ => "dir/kernel-1.py".into(),
                };
                let part = |g: &mut Gen| if g.chance(2) { Some(g.below(1 << 32) as u32) } else { None };
                let pos = SourcePos {
                    file,
                    line: self.below(1 << 32) as u32,
                    column: self.below(100) as u32,
                    end_line: part(self),
                    end_column: part(self),
                };
                self.locs.intern(LocEntry::Pos(pos))
            }
        };
        for _ in 0..self.below(8).saturating_sub(5) {
            let pass = self.text();
            loc = self.locs.derive(&pass, loc);
        }
        loc
    }

    fn module(&mut self, core: u32, size: u32) -> Module {
        let core = if self.chance(8) { None } else { Some(CoreId(core)) };
        let mut m = Module::new(&format!("nc{:02}", core.map_or(0, |c| c.0)), core, ArchLevel::Gen3);
        m.extra = self.extra();
        self.queues = (0..self.below(3)).map(|i| self.name("q", i as usize)).collect();
        m.queues = self.queues.iter().map(|q| json!({"name": q.as_str(), "blocks": []})).collect();
        for i in 0..1 + self.below(3) {
            self.function(&mut m, i as usize, size);
        }
        m
    }

    fn function(&mut self, m: &mut Module, i: usize, size: u32) {
        let name = self.name("sg", i);
        let f = m.add_function(&name);
        if self.chance(4) {
            m.functions.pop();
            m.nki_functions.push(f);
        }
        m.funcs[f].attributes = (0..self.below(3)).map(|_| self.text()).collect();
        m.funcs[f].extra = self.extra();
        let mut scope = Scope { sets: Vec::new(), locs: Vec::new(), regs: Vec::new() };
        for k in 0..1 + self.below(4) as usize {
            self.set(m, f, k, &mut scope);
        }
        for k in 0..1 + self.below(3) as usize {
            let name = self.name("r", k);
            let reg = m.regs.push(Register {
                name,
                engine: self.member(),
                num_physical: self.below(3) as u32,
                extra: self.extra(),
            });
            m.funcs[f].storages.push(Storage::Register(reg));
            scope.regs.push(reg);
        }
        let blocks: Vec<BlockId> = (0..1 + self.below(3) as usize)
            .map(|k| {
                let name = self.name("bb", k);
                m.add_block(f, &name)
            })
            .collect();
        let mut counter = 0;
        for b in &blocks {
            m.blocks[*b].extra = self.extra();
            for _ in 0..self.below(u64::from(size) + 1) {
                self.inst(m, f, *b, &scope, &mut counter, 3);
            }
        }
    }

    fn set(&mut self, m: &mut Module, f: FuncId, k: usize, scope: &mut Scope) {
        let name = self.name("t", k);
        let set = MemoryLocationSet {
            name: format_compact!("{name}_set"),
            dtype: self.member(),
            kind: self.member(),
            class: self.member(),
            addr_space: self.member(),
            shape: (0..self.below(4)).map(|_| self.below(1 << 40)).collect(),
            partition_dim: self.below(2) as u32,
            locs: Vec::new(),
            file: if self.chance(5) { Some(format_compact!("f{}.npy", self.text())) } else { None },
            no_spill: self.chance(5),
            volatile: self.chance(5),
            is_virtual: self.chance(5),
            do_not_rotate: self.chance(5),
            extra: self.extra(),
        };
        let id = m.sets.push(set);
        for j in 0..self.below(8).saturating_sub(4).max(1) as usize {
            // Now and then the same name in two sets of one function.
            let name =
                if self.chance(10) { format_compact!("same-{j}") } else { format_compact!("{name}.{j}") };
            let dims: Vec<u64> = (0..1 + self.below(3)).map(|_| self.below(1 << 20)).collect();
            let mut l = MemoryLocation::new(&name, id, self.member(), &dims);
            l.addr = if self.chance(2) { self.below(1 << 50) } else { 0 };
            l.bank = self.below(16) as i64 - 8;
            l.base = self.pick(&[0, 32, 64, 96]);
            l.allocated = self.chance(2);
            l.user_allocated = self.chance(4);
            l.pinned = self.chance(4);
            l.tensor_id = self.below(10) as i32 - 1;
            if self.chance(5) {
                l.remote_local_target =
                    Some(RemoteTarget { name: self.text(), core: CoreId(self.below(2) as u32) });
            }
            l.written_by_another_core = self.chance(4);
            l.is_shared_post_dram_alloc = self.chance(4);
            for _ in 0..self.below(8).saturating_sub(5) {
                l.aliases.push((self.text(), self.text(), self.below(4) as i64));
            }
            l.extra = self.extra();
            let l = m.memlocs.push(l);
            m.sets[id].locs.push(l);
            scope.locs.push(l);
        }
        m.funcs[f].storages.push(Storage::Set(id));
        scope.sets.push(id);
    }

    fn expr(&mut self, scope: &Scope, depth: u32) -> Expr {
        match self.below(if depth == 0 { 6 } else { 12 }) {
            0 => Expr::Const(self.int()),
            1 => Expr::LoopAxis(self.text()),
            2 => Expr::ShardId { ub: self.int() },
            3 => Expr::IndirectArg(self.int()),
            4 => Expr::Reg(self.pick(&scope.regs)),
            5 => Expr::CcGetRank { iteration_id: self.int(), channel_id: self.int() },
            6 => Expr::Affine {
                terms: (0..1 + self.below(2)).map(|_| (self.int(), self.expr(scope, depth - 1))).collect(),
                c: self.int(),
            },
            7 => Expr::Sum((0..self.below(3)).map(|_| self.expr(scope, depth - 1)).collect()),
            8 => Expr::Mult { var: Box::new(self.expr(scope, depth - 1)), scale: self.int() },
            9 => Expr::FloorDiv(Box::new(self.expr(scope, depth - 1)), self.int()),
            10 => Expr::Modulo(Box::new(self.expr(scope, depth - 1)), self.int()),
            _ => Expr::CcDiv {
                numer: Box::new(self.expr(scope, depth - 1)),
                denom: self.int(),
                replica_groups_id: self.int(),
            },
        }
    }
    fn pairs(&mut self, n: u64) -> ApPairs {
        (0..n).map(|_| ApPair::new(self.int(), self.below(1 << 40))).collect()
    }
    fn immediate(&mut self, dtype: Dtype) -> Immediate {
        let value = match dtype.class() {
            NumericClass::Signed | NumericClass::Unsigned => ImmValue::Int(self.int()),
            NumericClass::Float | NumericClass::PackedFloat => ImmValue::Float(self.f32()),
        };
        Immediate { dtype, value }
    }
    fn access(&mut self, scope: &Scope) -> AccessPattern {
        let n = 1 + self.below(5);
        let dynamic = if self.chance(6) {
            Some(Box::new(DynamicAp {
                terms: (0..self.below(3)).map(|_| (self.int(), self.expr(scope, 1))).collect(),
                indirect_dim: self.below(6) as i64 - 1,
                max_index: if self.chance(2) { Some(self.int()) } else { None },
            }))
        } else {
            None
        };
        AccessPattern {
            loc: self.pick(&scope.locs),
            dtype: self.member(),
            offset: if self.chance(2) { 0 } else { self.int() },
            pairs: self.pairs(n),
            dynamic,
        }
    }
    fn operand(&mut self, scope: &Scope, kinds: OperandKinds) -> Operand {
        let mut choices = Vec::new();
        for (k, i) in [(OperandKinds::AP, 0), (OperandKinds::IMM, 1), (OperandKinds::REG, 2)] {
            if kinds.contains(k) {
                choices.push(i);
            }
        }
        if self.chance(12) {
            let dtype = self.member();
            let (set, reg) = (self.pick(&scope.sets), self.pick(&scope.regs));
            let n = self.below(4);
            let values = (0..n).map(|_| self.immediate(dtype)).collect();
            return Operand::Other(Box::new(match self.below(4) {
                0 => OtherOperand::Symbolic {
                    pwap: self.chance(2),
                    set,
                    dtype,
                    pairs: self.pairs(n),
                    addrs: (0..self.below(3)).map(|_| self.expr(scope, 2)).collect(),
                    extra: self.extra(),
                },
                1 => OtherOperand::RegisterAp {
                    set,
                    reg,
                    dtype,
                    pairs: self.pairs(n),
                    const_offset: self.int(),
                    extra: self.extra(),
                },
                2 => OtherOperand::SymbolicImm { dtype, values, expr: self.expr(scope, 2) },
                _ => OtherOperand::ImmArray { dtype, values },
            }));
        }
        match self.pick(&choices) {
            0 => Operand::Ap(self.access(scope)),
            1 => {
                let dtype = self.member();
                Operand::Imm(self.immediate(dtype))
            }
            _ => Operand::Reg(RegAccess { reg: self.pick(&scope.regs), dtype: self.member() }),
        }
    }
    fn operands(&mut self, scope: &Scope, specs: &'static [OperandSpec]) -> Vec<Operand> {
        let mut out = Vec::new();
        for s in specs {
            let (lo, hi) = match s.arity {
                crate::inst::Arity::One => (1, 1),
                crate::inst::Arity::Optional => (0, 1),
                crate::inst::Arity::Many => (1, 3),
                crate::inst::Arity::Any => (0, 3),
            };
            let n = lo + self.below(hi - lo + 1);
            for _ in 0..n {
                out.push(self.operand(scope, s.kinds));
            }
            if n < hi && matches!(s.arity, crate::inst::Arity::Optional) {
                break;
            }
        }
        out
    }
    fn attr_value(&mut self, scope: &Scope, s: &AttrSpec, blocks: &[CompactString]) -> AttrValue {
        if s.affine && self.chance(3) {
            return AttrValue::Expr(Box::new(self.expr(scope, 3)));
        }
        let n = self.below(3);
        match s.ty {
            AttrType::Bool => AttrValue::Bool(self.chance(2)),
            AttrType::Int => AttrValue::Int(self.int()),
            AttrType::F32 => AttrValue::F32(self.f32()),
            AttrType::Enum(t) => AttrValue::Enum(t.members[self.below(t.members.len() as u64) as usize].0),
            AttrType::Str if s.attr == Attr::Queue => {
                let i = self.below(self.queues.len() as u64) as usize;
                AttrValue::Str(self.queues.get(i).cloned().unwrap_or_default())
            }
            AttrType::Str => AttrValue::Str(self.text()),
            AttrType::BlockName => AttrValue::Str(blocks[self.below(blocks.len() as u64) as usize].clone()),
            AttrType::Ints => AttrValue::Ints((0..n).map(|_| self.int()).collect()),
            AttrType::Floats => AttrValue::Floats((0..n).map(|_| self.f32()).collect()),
            AttrType::Strs => AttrValue::Strs((0..n).map(|_| self.text()).collect()),
            AttrType::Groups => {
                AttrValue::Groups((0..n).map(|_| (0..self.below(3)).map(|_| self.int()).collect()).collect())
            }
            AttrType::Pairs => AttrValue::Pairs(self.pairs(n).to_vec().into()),
            AttrType::Expr => AttrValue::Expr(Box::new(self.expr(scope, 3))),
            AttrType::Exprs => AttrValue::Exprs((0..n).map(|_| self.expr(scope, 3)).collect()),
            AttrType::Json => AttrValue::Json(Box::new(match self.value(2) {
                Value::Null => json!(1),
                v => v,
            })),
        }
    }

    fn inst(
        &mut self,
        m: &mut Module,
        f: FuncId,
        b: BlockId,
        scope: &Scope,
        counter: &mut usize,
        depth: u32,
    ) {
        let opcode: Opcode = self.member();
        let spec = opcode.spec();
        *counter += 1;
        let name = self.name("i", *counter);
        let mut inst = Inst::new(&name, opcode);
        inst.engine = self.member::<EngineKind>();
        inst.origin = self.member();
        inst.loc = self.loc();
        inst.ins = self.operands(scope, spec.ins);
        inst.outs = self.operands(scope, spec.outs);
        let blocks: Vec<CompactString> =
            m.funcs[f].blocks.iter().map(|b| m.blocks[*b].name.clone()).collect();
        for s in spec.attrs {
            let no_queue = s.attr == Attr::Queue && self.queues.is_empty();
            if s.presence == Presence::Required || (!no_queue && self.chance(2)) {
                let v = self.attr_value(scope, s, &blocks);
                inst.set(s.attr, v);
            }
        }
        let before: Vec<InstId> = m.blocks[b].insts.clone();
        let all = m.insts.len() as u64;
        for _ in 0..self.below(4) {
            // Mostly the same block; now and then anywhere before, which may need a qualified name.
            let target = if before.is_empty() { continue } else { self.pick(&before) };
            let own = m.insts.next_key();
            inst.add_dep(own, target, self.member());
        }
        if all > 0 && self.chance(12) {
            let target = InstId::from_u32(self.below(all) as u32);
            let own = m.insts.next_key();
            inst.add_dep(own, target, EdgeKind::Flow);
        }
        if self.chance(4) {
            self.more(m, &mut inst, scope, &before);
        }
        let id = m.push_inst(b, inst);
        if depth > 0 && spec.effects.has(Effects::REGIONS) {
            let mut regions = Vec::new();
            for k in 0..self.below(3) {
                let name = format_compact!("body {}.{k}", *counter);
                let r = m.blocks.push(crate::Block { name, insts: Vec::new(), extra: self.extra() });
                regions.push(r);
            }
            if !regions.is_empty() {
                m.insts[id].more_mut().regions = regions.clone();
            }
            for r in regions {
                for _ in 0..self.below(3) {
                    self.inst(m, f, r, scope, counter, depth - 1);
                }
            }
        }
    }

    fn more(&mut self, m: &Module, inst: &mut Inst, scope: &Scope, before: &[InstId]) {
        let (ins, outs) = (inst.ins.len() as u64, inst.outs.len() as u64);
        let own = m.insts.next_key();
        let more = inst.more_mut();
        more.engine_id = self.below(3) as i64;
        if self.chance(3) {
            more.scheduled_start = self.int();
            more.scheduled_end = self.int();
        }
        more.optin_passes = (0..self.below(3)).map(|_| self.text()).collect();
        more.indirection_ins = (0..self.below(2)).map(|_| self.operand(scope, OperandKinds::ANY)).collect();
        if !before.is_empty() && self.chance(3) {
            // The loader forces the kind of loop-carried edges.
            more.loop_carried.push(Dep { inst: self.pick(before), kind: EdgeKind::Flow });
        } else if self.chance(6) {
            more.loop_carried.push(Dep { inst: own, kind: EdgeKind::Flow });
        }
        if self.chance(4) {
            more.unroll_deps = Some(json!([["x", "Flow", [], []]]));
        }
        if self.chance(2) {
            more.sync = Some(SyncInfo {
                on_wait: (0..self.below(3))
                    .map(|_| SemWait {
                        sem: self.next() as u32,
                        value: self.int(),
                        from: if self.chance(2) { Some(self.text()) } else { None },
                        extra: self.extra(),
                    })
                    .collect(),
                on_update: (0..self.below(3))
                    .map(|_| SemUpdate {
                        sem: self.next() as u32,
                        value: self.int(),
                        target_core: if self.chance(2) { Some(self.below(2) as u32) } else { None },
                        extra: self.extra(),
                    })
                    .collect(),
                extra: self.extra(),
            });
        }
        if self.chance(3) {
            more.label = Some(self.text());
        }
        more.loopnest = (0..self.below(2)).map(|_| self.text()).collect();
        more.predicates = (0..self.below(2)).map(|_| self.expr(scope, 2)).collect();
        more.order = (0..self.below(2)).map(|_| self.expr(scope, 2)).collect();
        more.extra = self.extra();
        for (list, n) in [(OperandList::Ins, ins), (OperandList::Outs, outs)] {
            let ops = if list == OperandList::Ins { &inst.ins } else { &inst.outs };
            let index = self.below(n);
            // Kinds that have their own map keep it there.
            if n > 0 && self.chance(4) && !matches!(ops[index as usize], Operand::Other(_)) {
                let extra = self.map(1);
                inst.more_mut().operand_extra.push(OperandExtra { list, index: index as u32, extra });
            }
        }
    }
}
