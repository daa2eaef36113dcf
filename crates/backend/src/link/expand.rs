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
use tandem_bir::inst::Dep;
use tandem_bir::verify::effective_engine;
use tandem_bir::{
    AccessPattern, AluOp, Attr, BlockId, EngineKind, Expr, FuncId, Immediate, Inst, InstId, MemoryType,
    Module, Opcode, Operand, Program, RegAccess, RegId, Register, Storage,
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
    /// What each old instruction became.
    pub became: FxHashMap<InstId, Vec<InstId>>,
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
    let mut became: FxHashMap<InstId, Vec<InstId>> = FxHashMap::default();
    for &b in &blocks {
        let old = std::mem::take(&mut m.blocks[b].insts);
        let mut list = Vec::with_capacity(old.len());
        for i in old {
            let inst = &m.insts[i];
            if inst.opcode == Opcode::BranchHint {
                became.insert(i, Vec::new());
                continue;
            }
            let made = match engine_of(inst) {
                Ok(None) => match run_time(m, func, i, geo) {
                    Ok(v) => v.into_iter().flat_map(|i| clone_all(m, i, &used)).collect(),
                    Err(e) => {
                        diags.push(Diagnostic::new(codes::E0009, e).inst(program, m, i));
                        continue;
                    }
                },
                Ok(Some(e)) if inst.opcode.is_dma() => {
                    m.insts[i].engine = e;
                    match split_copy(m, i, geo) {
                        Ok(v) => v,
                        Err(e) => {
                            diags.push(Diagnostic::new(codes::N0026, e.message).inst(program, m, i));
                            continue;
                        }
                    }
                }
                Ok(Some(e)) => {
                    m.insts[i].engine = e;
                    constants(m, i);
                    match run_time(m, func, i, geo) {
                        Ok(mut v) => {
                            if let [only] = v.as_slice() {
                                v = split_tiles(m, *only, geo.arch);
                            }
                            if let Some(load) = immediate_source(m, func, i) {
                                v.insert(v.len().saturating_sub(1), load);
                            }
                            v
                        }
                        Err(e) => {
                            diags.push(Diagnostic::new(codes::E0009, e).inst(program, m, i));
                            continue;
                        }
                    }
                }
                Err(_) => continue,
            };
            list.extend(made.iter().copied());
            became.insert(i, made);
        }
        m.blocks[b].insts = list;
    }
    if diags.iter().skip(before).any(Diagnostic::is_error) {
        return None;
    }
    remap_deps(m, &blocks, &became);
    Some(Expanded { used, became })
}

/// Edges to an old instruction become edges to what it became.
fn remap_deps(m: &mut Module, blocks: &[BlockId], became: &FxHashMap<InstId, Vec<InstId>>) {
    let mut seen: rustc_hash::FxHashSet<InstId> = rustc_hash::FxHashSet::default();
    for &b in blocks {
        for i in m.blocks[b].insts.clone() {
            let old = std::mem::take(&mut m.insts[i].deps);
            let mut deps: Vec<Dep> = Vec::with_capacity(old.len());
            seen.clear();
            for d in old {
                for to in became.get(&d.inst).map_or(&[][..], Vec::as_slice) {
                    if *to != i && seen.insert(*to) {
                        deps.push(Dep { inst: *to, kind: d.kind });
                    }
                }
            }
            m.insts[i].deps = deps;
        }
    }
}

fn clone_all(m: &mut Module, i: InstId, used: &[EngineKind]) -> Vec<InstId> {
    let base = m.insts[i].clone();
    let mut out = Vec::new();
    for (k, e) in used.iter().enumerate() {
        if k == 0 {
            m.insts[i].engine = *e;
            out.push(i);
        } else {
            let mut c = base.clone();
            c.engine = *e;
            c.name = format!("{}.{}", base.name, e).as_str().into();
            out.push(m.insts.push(c));
        }
    }
    out
}

/// TensorScalar (IT 28) has no record of its own: its constants become immediates of TensorScalarPtr (IT 29).
fn constants(m: &mut Module, i: InstId) {
    if m.insts[i].opcode != Opcode::TensorScalar {
        return;
    }
    let old = m.insts[i].clone();
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
fn immediate_source(m: &mut Module, func: FuncId, i: InstId) -> Option<InstId> {
    if m.insts[i].opcode != Opcode::TensorSave {
        return None;
    }
    let Some(Operand::Imm(v)) = m.insts[i].ins.first().cloned() else { return None };
    let r = shared_register(m, func, "%imm");
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

/// A register for values that live until the next instruction; engines have files of their own, so all share it.
fn shared_register(m: &mut Module, func: FuncId, name: &str) -> RegId {
    if let Some((r, _)) = m.regs.iter().find(|(_, r)| r.name == name) {
        return r;
    }
    let r =
        m.regs.push(Register { name: name.into(), engine: EngineKind::All, num_physical: 1, extra: None });
    m.funcs[func].storages.push(Storage::Register(r));
    r
}

/// A compute instruction whose operand has a run-time address: register instructions on its engine form the address word,
/// and the operand becomes register-addressed. Dynamic tensor copies become plain copies.
fn run_time(m: &mut Module, func: FuncId, i: InstId, geo: &Geometry) -> Result<Vec<InstId>, String> {
    let opcode = m.insts[i].opcode;
    let copy = matches!(opcode, Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst);
    let dynamic =
        m.insts[i].ins.iter().chain(&m.insts[i].outs).filter_map(Operand::as_ap).any(|a| !a.is_static());
    if !copy && !dynamic || opcode == Opcode::CollectiveCompute {
        return Ok(vec![i]);
    }
    let scalar = matches!(opcode, Opcode::TensorLoad | Opcode::TensorSave);
    let mut made = Vec::new();
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
            let acc = shared_register(m, func, &format!("%{}{k}", if out { "dst" } else { "src" }));
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
            push(m, mv, &mut made);
            let tmp = shared_register(m, func, "%scaled");
            for (c, r) in terms {
                let mut mul = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Mult);
                mul.ins = vec![reg(r), imm(c)?];
                mul.outs = vec![reg(tmp)];
                push(m, mul, &mut made);
                let mut add = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Add);
                add.ins = vec![reg(acc), reg(tmp)];
                add.outs = vec![reg(acc)];
                push(m, add, &mut made);
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
    Ok(made)
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
