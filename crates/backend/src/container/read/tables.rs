//! What the tables say: manifest, constants, variables, debug tables.

use super::super::format::*;
use super::super::write::dtype;
use crate::encode::desc::Geometry;
use crate::encode::{Bf21, phys};
use crate::link::expand::add_location;
use crate::link::{LinkedCore, Var, VarClass};
use indexmap::IndexMap;
use serde_json::Value;
use tandem_bir::diag::{Diagnostic, LocTable, codes};
use tandem_bir::linked::{DebugInst, DebugTensor};
use tandem_bir::{
    AddressSpace, BirEnum, CoreId, EngineKind, Level, MemoryType, Module, Port, Program, Register,
    RemoteTarget, Signature, Storage, TensorKind,
};

use super::layout::{Container, bad};

/// What the tables say before any stream is read.
pub(super) struct Frame {
    pub(super) program: Program,
    pub(super) cores: Vec<LinkedCore>,
    pub(super) bf21: Bf21,
    pub(super) geo: Geometry,
}

/// Manifest, constants, variables: a program without instructions.
pub(super) fn frame(c: &Container) -> Result<Frame, Diagnostic> {
    let Some(ms) = c.section(Kind::Manifest, GLOBAL, 0) else {
        return Err(bad(codes::E0103, 0, "there is no manifest"));
    };
    let shape = |at: usize| bad(codes::E0106, at, "a table has another shape than its kind");
    let (man, mo) = c.json(Kind::Manifest, GLOBAL, 0)?;
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let lnc = man["lnc"].as_u64().filter(|n| *n == u64::from(c.cores)).ok_or_else(|| shape(mo))?;
    if man["arch"].as_u64() != Some(u64::from(c.arch as u16)) {
        return Err(bad(codes::E0105, ms.offset, "the manifest names another architecture"));
    }
    let bf21 = match man["options"]["bf21"].as_str() {
        Some("count") => Bf21::Count,
        Some("peer-partition") => Bf21::PeerPartition,
        _ => return Err(shape(mo)),
    };
    let spec = c.arch.spec().ok_or_else(|| shape(mo))?;
    let geo = phys::geometry(spec);
    let ports = |v: &Value| -> Option<Vec<Port>> { v.as_array()?.iter().map(read_port).collect() };
    let signature = Signature {
        inputs: ports(&man["inputs"]).ok_or_else(|| shape(mo))?,
        outputs: ports(&man["outputs"]).ok_or_else(|| shape(mo))?,
    };
    let mut constants: IndexMap<String, std::sync::Arc<[u8]>> = IndexMap::new();
    let data = c.section(Kind::Const, GLOBAL, 0);
    for k in man["constants"].as_array().ok_or_else(|| shape(mo))? {
        let (name, o, n) = (text(&k[0]), k[1].as_u64(), k[2].as_u64());
        let (Some(name), Some(o), Some(n)) = (name, o, n) else { return Err(shape(mo)) };
        let part = data.and_then(|s| {
            let o = usize::try_from(o).ok()?;
            s.bytes.get(o..o.checked_add(usize::try_from(n).ok()?)?)
        });
        let Some(part) = part else {
            return Err(bad(codes::E0105, mo, format!("constant `{name}` has no data")));
        };
        constants.insert(name, part.into());
    }
    let mut p = Program {
        name: text(&man["name"]).ok_or_else(|| shape(mo))?,
        lnc_size: lnc as u32,
        level: Level::Linked,
        modules: Vec::new(),
        locs: LocTable::default(),
        constants,
        signature,
    };
    let mut cores: Vec<LinkedCore> = Vec::new();
    for k in 0..c.cores as usize {
        let (Some(f), Some(name)) = (text(&man["functions"][k]), text(&man["modules"][k])) else {
            return Err(shape(mo));
        };
        let core = (c.cores > 1).then_some(CoreId(k as u32));
        let mut m = Module::new(&name, Some(core.unwrap_or(CoreId(0))), c.arch);
        let func = m.add_function(&f);
        for (n, mem) in [("%sbuf", MemoryType::Sb), ("%psum", MemoryType::Psum)] {
            let row = if mem == MemoryType::Sb { spec.sbuf_bytes } else { spec.psum_bytes };
            add_location(
                &mut m,
                func,
                n,
                mem,
                &[spec.partitions, row],
                AddressSpace::Local,
                TensorKind::Internal,
            );
        }
        let (list, at) = c.json(Kind::Vars, k as u8, 0)?;
        let mut core = LinkedCore { reg_numbers: (0..64).collect(), ..LinkedCore::default() };
        for (i, v) in list.as_array().ok_or_else(|| shape(at))?.iter().enumerate() {
            if v["id"].as_u64() != Some(i as u64 + 1) {
                return Err(bad(codes::E0105, at, "variables are not numbered from 1"));
            }
            core.vars.push(read_var(&mut m, func, v).ok_or_else(|| shape(at))?);
        }
        for n in 0..64u32 {
            let r = m.regs.push(Register {
                name: format!("r{n}").as_str().into(),
                engine: EngineKind::All,
                num_physical: 1,
                extra: None,
            });
            m.funcs[func].storages.push(Storage::Register(r));
        }
        p.modules.push(m);
        cores.push(core);
    }
    own_targets(&mut p);
    Ok(Frame { program: p, cores, bf21, geo })
}

/// What the debug table says about a record; operands name tensors of their own stream.
pub(super) fn debug_inst(e: &Value, tensors: &[u32]) -> Option<DebugInst> {
    let operand = |v: &Value| -> Option<Option<u32>> {
        if v.is_null() {
            return Some(None);
        }
        tensors.get(usize::try_from(v.as_u64()?).ok()?).map(|k| Some(*k))
    };
    Some(DebugInst {
        inst: tandem_bir::InstId::from_u32(0),
        block: e[2].as_str()?.into(),
        position: u32::try_from(e[3].as_u64()?).ok()?,
        operands: e[4].as_array()?.iter().map(operand).collect::<Option<_>>()?,
    })
}

pub(super) fn debug_tensor(v: &Value) -> Option<DebugTensor> {
    let mem = MemoryType::from_ordinal(u16::try_from(v[1].as_u64()?).ok()?)?;
    Some(DebugTensor {
        name: v[0].as_str()?.into(),
        mem,
        base: u32::try_from(v[2].as_u64()?).ok()?,
        addr: v[3].as_u64()?,
        bank: v[4].as_i64()?,
        rows: v[5].as_u64()?,
        row_bytes: v[6].as_u64()?,
        aliases: v[7].as_array()?.iter().map(|a| a.as_str().map(Into::into)).collect::<Option<_>>()?,
    })
}

fn read_port(v: &Value) -> Option<Port> {
    Some(Port {
        name: v["name"].as_str()?.to_owned(),
        location: v["location"].as_str()?.into(),
        core: if v["core"].is_null() { None } else { Some(CoreId(u32::try_from(v["core"].as_u64()?).ok()?)) },
        subgraph: 0,
        dtype: dtype(&v["dtype"])?,
        shape: v["shape"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
    })
}

fn read_var(m: &mut Module, func: tandem_bir::FuncId, v: &Value) -> Option<Var> {
    let ord = |k: &str| v[k].as_u64().and_then(|x| u16::try_from(x).ok());
    let dims: Vec<u64> = v["dims"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    let mem = MemoryType::from_ordinal(ord("mem")?)?;
    let space = AddressSpace::from_ordinal(ord("space")?)?;
    let kind = TensorKind::from_ordinal(ord("kind")?)?;
    let l = add_location(m, func, v["name"].as_str()?, mem, &dims, space, kind);
    let loc = &mut m.memlocs[l];
    loc.addr = v["addr"].as_u64()?;
    loc.base = u32::try_from(v["base"].as_u64()?).ok()?;
    loc.bank = v["bank"].as_i64()?;
    loc.allocated = v["placed"].as_bool()?;
    if !v["target"].is_null() {
        loc.remote_local_target = Some(RemoteTarget {
            name: v["target"][0].as_str()?.into(),
            core: CoreId(u32::try_from(v["target"][1].as_u64()?).ok()?),
        });
    }
    let set = &mut m.sets[loc.set];
    set.name = v["set"].as_str()?.into();
    set.dtype = dtype(&v["dtype"])?;
    set.shape = v["shape"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    set.file = if v["file"].is_null() { None } else { Some(v["file"].as_str()?.into()) };
    let class = VarClass::ALL.into_iter().find(|c| Some(c.name()) == v["class"].as_str())?;
    Some(Var { loc: l, class, owner: CoreId(u32::try_from(v["owner"].as_u64()?).ok()?) })
}

/// Locations that remote variables stand for, where the owner has no variable of that name.
fn own_targets(p: &mut Program) {
    let mut missing = Vec::new();
    let mut known: Vec<rustc_hash::FxHashSet<tandem_bir::CompactString>> =
        p.modules.iter().map(|m| m.memlocs.values().map(|l| l.name.clone()).collect()).collect();
    for m in &p.modules {
        for l in m.memlocs.values() {
            let Some(t) = &l.remote_local_target else { continue };
            if known.get_mut(t.core.index()).is_some_and(|k| k.insert(t.name.clone())) {
                let space = m.sets[l.set].addr_space;
                missing.push((t.core.index(), t.name.clone(), l.clone(), m.sets[l.set].kind, space));
            }
        }
    }
    for (c, name, like, kind, space) in missing {
        let Some(m) = p.modules.get_mut(c) else { continue };
        let Some(&func) = m.functions.first() else { continue };
        let l = add_location(m, func, &name, like.mem, &like.dims, space, kind);
        let loc = &mut m.memlocs[l];
        loc.addr = like.addr;
        loc.base = like.base;
        loc.bank = like.bank;
    }
}
