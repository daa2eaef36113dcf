//! Instructions of engine ALL become one clone per used engine; transfers get their issuing engine; transfers and element-wise
//! instructions are cut so that their records hold each; run-time addresses of compute instructions become registers.
//!
//! Source: the specification, file 08 §7.3 step 6 and §9.1; decision D26 (TensorSave goes to SP alone).

use super::split::split_copy;
use super::tiles::split_tiles;
use crate::encode::desc::Geometry;
use crate::encode::phys::is_leaf;
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::Dep;
use tandem_bir::verify::effective_engine;
use tandem_bir::{
    AccessPattern, AluOp, Attr, BirEnum as _, BlockId, CompactString, EngineKind, Expr, FuncId, Immediate,
    Inst, InstId, MemoryType, Module, Opcode, Operand, Program, RegAccess, RegId, Register, Storage,
};

/// Engines with a stream, in stream order.
pub const ENGINES: [EngineKind; 5] =
    [EngineKind::Pool, EngineKind::Activation, EngineKind::Pe, EngineKind::Dve, EngineKind::Sp];

/// Position of an engine in [`ENGINES`].
pub fn engine_index(e: EngineKind) -> Option<usize> {
    ENGINES.iter().position(|x| *x == e)
}

/// Engine an instruction goes to: `None` for ALL.
///
/// # Errors
/// N0016 when it has none.
fn engine_of(i: &Inst) -> Result<Option<EngineKind>, String> {
    let e = effective_engine(i);
    if i.opcode.is_dma() {
        return match e {
            EngineKind::Dma | EngineKind::Unassigned | EngineKind::All => Ok(Some(EngineKind::Sp)),
            e => Ok(Some(e)),
        };
    }
    match (i.opcode, e) {
        (Opcode::TensorSave, _) => Ok(Some(EngineKind::Sp)),
        (Opcode::DevicePrint, EngineKind::Unassigned) => Ok(Some(EngineKind::Pool)),
        (_, EngineKind::All) => Ok(None),
        (
            _,
            EngineKind::Pool | EngineKind::Activation | EngineKind::Pe | EngineKind::Dve | EngineKind::Sp,
        ) => Ok(Some(e)),
        (_, EngineKind::Unassigned | EngineKind::Dma) => {
            Err(format!("{e}, but DMA, Unassigned and ALL are not valid TPB engines"))
        }
    }
}

/// Expansion of one core.
pub struct Expanded {
    /// Engines with instructions.
    pub used: Vec<EngineKind>,
}

/// What each old instruction became: a run of one list.
struct Became {
    /// First and number by old instruction; [`Became::SELF`] for those that stayed one and the same.
    runs: Vec<(u32, u32)>,
    list: Vec<InstId>,
    /// Some instruction did not stay one and the same.
    any: bool,
}

impl Became {
    const SELF: (u32, u32) = (u32::MAX, 1);
    /// Not in the blocks that were expanded.
    const GONE: (u32, u32) = (0, 0);

    fn new(old: usize) -> Became {
        Became { runs: vec![Became::GONE; old], list: Vec::new(), any: false }
    }
    fn set(&mut self, i: InstId, made: &[InstId]) {
        let run = if made == [i] {
            Became::SELF
        } else {
            self.any = true;
            let from = self.list.len() as u32;
            self.list.extend_from_slice(made);
            (from, made.len() as u32)
        };
        if let Some(r) = self.runs.get_mut(i.index()) {
            *r = run;
        }
    }
    fn get<'a>(&'a self, i: &'a InstId) -> &'a [InstId] {
        match self.runs.get(i.index()).copied() {
            Some(Became::SELF) => std::slice::from_ref(i),
            Some((from, n)) => self.list.get(from as usize..(from + n) as usize).unwrap_or(&[]),
            None => &[],
        }
    }
}

/// Expands a module in place; block lists hold the new instructions.
pub fn expand(
    program: &Program,
    m: &mut Module,
    func: FuncId,
    geo: &Geometry,
    diags: &mut Vec<Diagnostic>,
) -> Option<Expanded> {
    let blocks: Vec<BlockId> = m.funcs[func].blocks.clone();
    let mut used = [false; 5];
    let before = diags.len();
    for &b in &blocks {
        for &i in &m.blocks[b].insts {
            let inst = &m.insts[i];
            if inst.opcode == Opcode::BranchHint {
                continue;
            }
            match engine_of(inst) {
                Ok(Some(e)) => {
                    if let Some(k) = engine_index(e) {
                        used[k] = true;
                    }
                }
                Ok(None) => {}
                Err(e) => diags.push(Diagnostic::new(codes::N0016, e).inst(program, m, i)),
            }
        }
    }
    if diags.len() > before {
        return None;
    }
    if used.iter().all(|u| !u) {
        used[4] = true;
    }
    let used: Vec<EngineKind> =
        ENGINES.iter().copied().filter(|e| engine_index(*e).is_some_and(|k| used[k])).collect();
    let mut became = Became::new(m.insts.len());
    let (mut made, mut one) = (Vec::new(), Vec::new());
    let mut shared = Scratch::default();
    for &b in &blocks {
        let old = std::mem::take(&mut m.blocks[b].insts);
        let mut list = Vec::with_capacity(old.len());
        for i in old {
            made.clear();
            let inst = &mut m.insts[i];
            // semaphores are linking's to allocate; what a file says about them is replaced
            if let Some(more) = &mut inst.more {
                more.sync = None;
            }
            if inst.opcode == Opcode::BranchHint {
                became.set(i, &made);
                continue;
            }
            match engine_of(inst) {
                Ok(None) => match run_time(m, func, i, geo, &mut shared, &mut made) {
                    Ok(()) => {
                        one.clear();
                        one.append(&mut made);
                        one.iter().for_each(|i| clone_all(m, *i, &used, &mut made));
                    }
                    Err(e) => {
                        diags.push(Diagnostic::new(codes::E0009, e).inst(program, m, i));
                        continue;
                    }
                },
                Ok(Some(e)) if inst.opcode.is_dma() => {
                    inst.engine = e;
                    if let Err(e) = split_copy(m, i, geo, &mut made) {
                        diags.push(Diagnostic::new(codes::N0026, e.message).inst(program, m, i));
                        continue;
                    }
                }
                Ok(Some(e)) => {
                    inst.engine = e;
                    constants(m, i);
                    match run_time(m, func, i, geo, &mut shared, &mut made) {
                        Ok(()) => {
                            if let [only] = made.as_slice()
                                && !super::tiles::simple(&m.insts[*only])
                            {
                                made = split_tiles(m, *only, geo.arch);
                            }
                            if let Some(load) = immediate_source(m, func, i, &mut shared) {
                                made.insert(made.len().saturating_sub(1), load);
                            }
                        }
                        Err(e) => {
                            diags.push(Diagnostic::new(codes::E0009, e).inst(program, m, i));
                            continue;
                        }
                    }
                }
                Err(_) => continue,
            }
            list.extend_from_slice(&made);
            became.set(i, &made);
        }
        m.blocks[b].insts = list;
    }
    if diags.iter().skip(before).any(Diagnostic::is_error) {
        return None;
    }
    remap_deps(m, &blocks, &became);
    Some(Expanded { used })
}

/// Edges to an old instruction become edges to what it became.
fn remap_deps(m: &mut Module, blocks: &[BlockId], became: &Became) {
    // the instruction that last took an edge, by producer: no edge is taken twice
    let mut seen: Vec<u32> = vec![u32::MAX; if became.any { m.insts.len() } else { 0 }];
    let mut deps: Vec<Dep> = Vec::new();
    for &b in blocks {
        for &i in &m.blocks[b].insts {
            let stays = |d: &Dep| d.inst != i && became.runs.get(d.inst.index()) == Some(&Became::SELF);
            let old = &m.insts[i].deps;
            if old.is_empty() || !became.any && distinct(old) && old.iter().all(stays) {
                continue;
            }
            if seen.is_empty() {
                seen = vec![u32::MAX; m.insts.len()];
            }
            deps.clear();
            for d in old {
                for &to in became.get(&d.inst) {
                    if let Some(last) = seen.get_mut(to.index())
                        && to != i
                        && std::mem::replace(last, i.as_u32()) != i.as_u32()
                    {
                        deps.push(Dep { inst: to, kind: d.kind });
                    }
                }
            }
            let own = &mut m.insts[i].deps;
            if own.len() == deps.len() {
                own.copy_from_slice(&deps);
            } else {
                *own = deps.as_slice().into();
            }
        }
    }
}

/// No edge stands twice in a short list.
fn distinct(deps: &[Dep]) -> bool {
    deps.len() <= 8 && deps.iter().enumerate().all(|(k, d)| deps[..k].iter().all(|e| e.inst != d.inst))
}

fn clone_all(m: &mut Module, i: InstId, used: &[EngineKind], out: &mut Vec<InstId>) {
    for (k, e) in used.iter().enumerate() {
        if k == 0 {
            m.insts[i].engine = *e;
            out.push(i);
        } else {
            let mut c = m.insts[i].clone();
            c.engine = *e;
            c.name.push('.');
            c.name.push_str(e.name());
            out.push(m.insts.push(c));
        }
    }
}

/// TensorScalar (IT 28) has no record of its own: its constants become immediates of TensorScalarPtr (IT 29).
fn constants(m: &mut Module, i: InstId) {
    if m.insts[i].opcode != Opcode::TensorScalar {
        return;
    }
    let old = std::mem::replace(&mut m.insts[i], Inst::new("", Opcode::TensorScalar));
    let op = |a: Attr| old.get_enum::<AluOp>(a).unwrap_or(AluOp::Bypass);
    let bits = [op(Attr::Op0), op(Attr::Op1)].into_iter().any(crate::encode::tables::is_bitvec);
    let constant = |a: Attr| {
        let v = old.get_f32(a).unwrap_or(0.0);
        if bits {
            Operand::Imm(Immediate {
                dtype: tandem_bir::Dtype::Int32,
                value: tandem_bir::ImmValue::Int(v as i64),
            })
        } else {
            Operand::Imm(Immediate::f32(v))
        }
    };
    let mut x = Inst::new(&old.name, Opcode::TensorScalarPtr)
        .with(Attr::Op0, op(Attr::Op0))
        .with(Attr::Op1, op(Attr::Op1))
        .with(Attr::Reverse0, old.get_bool(Attr::Reverse0))
        .with(Attr::Reverse1, old.get_bool(Attr::Reverse1));
    x.engine = old.engine;
    x.origin = old.origin;
    x.loc = old.loc;
    x.ins = old.ins.iter().take(1).cloned().collect();
    x.ins.push(constant(Attr::Const0));
    if op(Attr::Op1) != AluOp::Bypass || old.get_bool(Attr::Reverse1) {
        x.ins.push(constant(Attr::Const1));
    }
    x.outs = old.outs;
    x.deps = old.deps;
    x.more = old.more;
    m.insts[i] = x;
}

/// A register store of an immediate takes it through a register.
fn immediate_source(m: &mut Module, func: FuncId, i: InstId, shared: &mut Scratch) -> Option<InstId> {
    if m.insts[i].opcode != Opcode::TensorSave {
        return None;
    }
    let Some(Operand::Imm(v)) = m.insts[i].ins.first().cloned() else { return None };
    let r = shared.register(m, func, "%imm");
    let mut mv = Inst::new(&format!("{}.imm", m.insts[i].name), Opcode::RegisterMove);
    mv.engine = m.insts[i].engine;
    mv.loc = m.insts[i].loc;
    mv.origin = tandem_bir::Origin::Internal;
    mv.ins = vec![Operand::Imm(v)];
    let to = Operand::Reg(RegAccess { reg: r, dtype: tandem_bir::Dtype::Int32 });
    mv.outs = vec![to.clone()];
    m.insts[i].ins[0] = to;
    Some(m.insts.push(mv))
}

/// Registers for values that live until the next instruction; engines have files of their own, so all share them.
#[derive(Default)]
struct Scratch(FxHashMap<CompactString, RegId>);

impl Scratch {
    fn register(&mut self, m: &mut Module, func: FuncId, name: &str) -> RegId {
        if let Some(r) = self.0.get(name) {
            return *r;
        }
        let found = m.regs.iter().find(|(_, r)| r.name == name).map(|(r, _)| r);
        let r = found.unwrap_or_else(|| {
            let (name, engine) = (name.into(), EngineKind::All);
            let r = m.regs.push(Register { name, engine, num_physical: 1, extra: None });
            m.funcs[func].storages.push(Storage::Register(r));
            r
        });
        self.0.insert(name.into(), r);
        r
    }
}

/// A compute instruction whose operand has a run-time address: register instructions on its engine form the address word,
/// and the operand becomes register-addressed. Dynamic tensor copies become plain copies.
fn run_time(
    m: &mut Module,
    func: FuncId,
    i: InstId,
    geo: &Geometry,
    shared: &mut Scratch,
    made: &mut Vec<InstId>,
) -> Result<(), String> {
    let opcode = m.insts[i].opcode;
    let copy = matches!(opcode, Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst);
    let dynamic =
        m.insts[i].ins.iter().chain(&m.insts[i].outs).filter_map(Operand::as_ap).any(|a| !a.is_static());
    if !copy && !dynamic || opcode == Opcode::CollectiveCompute {
        made.push(i);
        return Ok(());
    }
    let scalar = matches!(opcode, Opcode::TensorLoad | Opcode::TensorSave);
    if copy {
        let inst = m.insts[i].clone();
        let mut c = Inst::new(&inst.name, Opcode::TensorCopy);
        c.engine = inst.engine;
        c.origin = inst.origin;
        c.loc = inst.loc;
        c.deps = inst.deps.clone();
        c.more = inst.more.clone();
        if let Some(Operand::Ap(a)) = inst.ins.first() {
            c.ins.push(Operand::Ap(a.clone()));
        }
        c.outs = inst.outs.clone();
        if inst.get_bool(Attr::CanReadUninit) {
            c.set(Attr::CanReadUninit, true);
        }
        if let Some(off) = inst.ins.get(1)
            && !dynamic
        {
            let Operand::Reg(r) = off else {
                return Err("the offset of a dynamic copy is not a register".to_owned());
            };
            let scale = inst.get_int(Attr::Scale).unwrap_or(1);
            let side =
                if opcode == Opcode::TensorCopyDynamicSrc { c.ins.first_mut() } else { c.outs.first_mut() };
            if let Some(Operand::Ap(a)) = side {
                a.dynamic = Some(Box::new(tandem_bir::DynamicAp {
                    terms: vec![(scale, Expr::Reg(r.reg))],
                    indirect_dim: 0,
                    max_index: None,
                }));
            }
        }
        m.insts[i] = c;
    }
    let engine = m.insts[i].engine;
    let deps = m.insts[i].deps.clone();
    let (loc, name) = (m.insts[i].loc, m.insts[i].name.clone());
    for out in [false, true] {
        let n = if out { m.insts[i].outs.len() } else { m.insts[i].ins.len() };
        for k in 0..n {
            let op = if out { &m.insts[i].outs[k] } else { &m.insts[i].ins[k] };
            let Operand::Ap(a) = op else { continue };
            let Some(d) = a.dynamic.clone() else { continue };
            let a = a.clone();
            let place = m.memlocs[a.loc].clone();
            let (unit, base) = match place.mem {
                MemoryType::Sb if !place.is_remote() => (1i64 << 18, 0i64),
                MemoryType::Psum => (1 << 15, 0x0200_0000),
                _ if scalar => (0, 0),
                _ => return Err("a run-time address outside SBUF and PSUM".to_owned()),
            };
            let size = a.dtype.bytes() as i64;
            // in a variable an address is a number of bytes from its start
            let pitch = if unit == 0 { 0 } else { (place.row_bytes() / a.dtype.bytes()) as i64 };
            let fixed = if unit == 0 {
                AccessPattern { dynamic: None, ..a.clone() }
            } else {
                physical(&a, &place, geo)?
            };
            let wide = if unit == 0 { 0 } else { (geo.pitch(on_chip(place.mem)) / a.dtype.bytes()) as i64 };
            let mut word = if unit == 0 {
                fixed.offset.checked_mul(size).ok_or("a run-time address overflows")?
            } else {
                base + fixed.offset.div_euclid(wide) * unit + fixed.offset.rem_euclid(wide) * size
            };
            let mut terms: Vec<(i64, RegId)> = Vec::new();
            for (kf, e) in &d.terms {
                let bytes = |c: i64| -> Option<i64> {
                    if pitch > 0 && c % pitch == 0 {
                        (c / pitch).checked_mul(unit)
                    } else {
                        c.checked_mul(size)
                    }
                };
                let list: Vec<(i64, Expr)> = match e {
                    Expr::Const(c) => {
                        word += kf.checked_mul(*c).and_then(bytes).ok_or("a run-time address overflows")?;
                        continue;
                    }
                    Expr::Affine { terms, c } if terms.iter().all(|(_, e)| is_leaf(e)) => {
                        word += kf.checked_mul(*c).and_then(bytes).ok_or("a run-time address overflows")?;
                        terms.iter().map(|(j, e)| (kf.saturating_mul(*j), e.clone())).collect()
                    }
                    e => vec![(*kf, e.clone())],
                };
                for (c, e) in list {
                    let Expr::Reg(r) = e else {
                        return Err("a compute instruction gathers by registers only".to_owned());
                    };
                    terms.push((bytes(c).ok_or("a run-time address overflows")?, r));
                }
            }
            let acc = shared.register(m, func, &format!("%{}{k}", if out { "dst" } else { "src" }));
            let reg = |r: RegId| Operand::Reg(RegAccess { reg: r, dtype: tandem_bir::Dtype::Int32 });
            let imm = |v: i64| -> Result<Operand, String> {
                let v = i32::try_from(v).map_err(|_| "a run-time address does not fit 32 bits".to_owned())?;
                Ok(Operand::Imm(Immediate::i32(v)))
            };
            let push = |m: &mut Module, mut x: Inst, made: &mut Vec<InstId>| {
                x.engine = engine;
                x.loc = loc;
                x.origin = tandem_bir::Origin::Internal;
                x.deps = deps.clone();
                let n = made.len();
                x.name = format!("{name}.addr{n}").as_str().into();
                made.push(m.insts.push(x));
            };
            let mut mv = Inst::new("", Opcode::RegisterMove);
            mv.ins = vec![imm(word)?];
            mv.outs = vec![reg(acc)];
            push(m, mv, made);
            let tmp = shared.register(m, func, "%scaled");
            for (c, r) in terms {
                let mut mul = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Mult);
                mul.ins = vec![reg(r), imm(c)?];
                mul.outs = vec![reg(tmp)];
                push(m, mul, made);
                let mut add = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Add);
                add.ins = vec![reg(acc), reg(tmp)];
                add.outs = vec![reg(acc)];
                push(m, add, made);
            }
            if unit == 0 {
                let bytes = Expr::FloorDiv(Box::new(Expr::Reg(acc)), size);
                let new = AccessPattern {
                    offset: 0,
                    dynamic: Some(Box::new(tandem_bir::DynamicAp {
                        terms: vec![(1, bytes)],
                        indirect_dim: 0,
                        max_index: None,
                    })),
                    ..a
                };
                let list = if out { &mut m.insts[i].outs } else { &mut m.insts[i].ins };
                list[k] = Operand::Ap(new);
                continue;
            }
            // The pattern keeps its pairs; its address is the register.
            let mem = on_chip(place.mem);
            let whole = whole_memory(m, func, mem, geo);
            let mut pairs = fixed.pairs.clone();
            if let Some(p) = pairs.first_mut() {
                p.step = wide;
            }
            let new = tandem_bir::AccessPattern {
                loc: whole,
                dtype: a.dtype,
                offset: 0,
                pairs,
                dynamic: Some(Box::new(crate::encode::desc::register_dynamic(acc, a.dtype, mem, geo))),
            };
            if out {
                m.insts[i].outs[k] = Operand::Ap(new);
            } else {
                m.insts[i].ins[k] = Operand::Ap(new);
            }
        }
    }
    made.push(i);
    Ok(())
}

fn on_chip(mem: MemoryType) -> crate::encode::desc::OnChip {
    if mem == MemoryType::Psum {
        crate::encode::desc::OnChip::Psum
    } else {
        crate::encode::desc::OnChip::Sbuf
    }
}

fn physical(
    a: &AccessPattern,
    place: &tandem_bir::MemoryLocation,
    geo: &Geometry,
) -> Result<AccessPattern, String> {
    let fixed = AccessPattern { dynamic: None, ..a.clone() };
    crate::encode::desc::to_physical(&fixed, place, geo).map_err(|e| e.message)
}

/// The location that stands for a whole on-chip memory, made when missing.
pub fn whole_memory(
    m: &mut Module,
    func: FuncId,
    mem: crate::encode::desc::OnChip,
    geo: &Geometry,
) -> tandem_bir::MemLocId {
    use crate::encode::desc::OnChip;
    let (name, ty) = match mem {
        OnChip::Sbuf => ("%sbuf", MemoryType::Sb),
        OnChip::Psum => ("%psum", MemoryType::Psum),
    };
    // made last, so that it is found at once
    let storages = m.funcs[func].storages.iter().rev();
    let found = storages.take(16).find_map(|s| match s {
        Storage::Set(s) => m.sets[*s].locs.iter().copied().find(|l| m.memlocs[*l].name == name),
        Storage::Register(_) => None,
    });
    if let Some(l) = found.or_else(|| m.find_location(func, name)) {
        return l;
    }
    let dims = [geo.spec.partitions, geo.pitch(mem)];
    add_location(m, func, name, ty, &dims, tandem_bir::AddressSpace::Local, tandem_bir::TensorKind::Internal)
}

/// Adds an allocated location with a set of its own.
pub fn add_location(
    m: &mut Module,
    func: FuncId,
    name: &str,
    mem: MemoryType,
    dims: &[u64],
    space: tandem_bir::AddressSpace,
    kind: tandem_bir::TensorKind,
) -> tandem_bir::MemLocId {
    let set = tandem_bir::MemoryLocationSet::new(name, tandem_bir::Dtype::Uint8, kind, space, dims);
    let mut l = tandem_bir::MemoryLocation::new(name, tandem_bir::SetId::from_u32(0), mem, dims);
    l.allocated = true;
    m.add_location(func, set, l)
}
