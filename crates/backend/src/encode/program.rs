//! A linked program to the records of its streams.

use super::bundle::{Bundle, WireError};
use super::desc::Geometry;
use super::dma::Place;
use super::memo::Memo;
use super::phys::{self, CoreEnv};
use super::{Bf21, Scratch, Surroundings, encode_with};
use crate::decode::Index;
use crate::decode::patch::Patch;
use crate::link::{LinkedProgram, Stream};
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{AccessPattern, Attr, EngineKind, InstId, MemLocId, MemoryType, Opcode, Operand, RegId};

/// Options of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Meaning of byte +0x21 of the swap.
    pub bf21: Bf21,
    /// Records of an instruction whose shape was verified before are made from those; the bytes are the same either way.
    pub remember_shapes: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions { bf21: Bf21::Count, remember_shapes: true }
    }
}

/// Records of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamImage {
    /// Engine.
    pub engine: EngineKind,
    /// Records.
    pub records: Vec<Bundle>,
    /// First record of each instruction of the stream.
    pub starts: Vec<u32>,
    /// What records cannot say, by first record.
    pub patches: Vec<(u32, Patch)>,
    /// First records of instructions with a layout of our own.
    pub non_authentic: Vec<u32>,
}

impl StreamImage {
    /// Appends the records of an instruction.
    fn push(&mut self, records: &[Bundle], patch: &Patch, authentic: bool) {
        let at = self.records.len() as u32;
        self.starts.push(at);
        if !authentic {
            self.non_authentic.push(at);
        }
        if !patch.is_empty() {
            self.patches.push((at, patch.clone()));
        }
        self.records.extend_from_slice(records);
    }
}

/// The records begin with one that may belong to the instruction before.
fn may_merge(records: &[Bundle]) -> bool {
    records.first().is_some_and(|b| matches!(b.opcode(), 0x24 | 0x9B | 0x6E | 0x6F))
}

/// Records of all streams, per core.
pub type Image = Vec<Vec<StreamImage>>;

/// Encodes every stream.
///
/// # Errors
/// Every instruction that cannot be.
pub fn encode_streams(
    p: &LinkedProgram,
    opts: EncodeOptions,
) -> Result<(Image, Vec<Diagnostic>), Vec<Diagnostic>> {
    let Some(spec) = p.arch().spec() else {
        return Err(vec![Diagnostic::new(codes::E0002, format!("there is no model of {}", p.arch()))]);
    };
    let geo = phys::geometry(spec);
    let mut errors = Vec::new();
    let mut notes = Vec::new();
    let mut image = Vec::new();
    let mut own: std::collections::BTreeMap<u8, usize> = std::collections::BTreeMap::new();
    for c in 0..p.cores.len() {
        let mut list = Vec::new();
        for s in &p.cores[c].streams {
            list.push(stream(p, c, s, &geo, opts, &mut errors, &mut notes));
        }
        for s in &list {
            for r in &s.non_authentic {
                if let Some(b) = s.records.get(*r as usize) {
                    *own.entry(b.opcode()).or_default() += 1;
                }
            }
        }
        image.push(list);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if !own.is_empty() {
        let total: usize = own.values().sum();
        let list: Vec<String> =
            own.iter().map(|(b, n)| format!("{n} x {} ({b:#04x})", super::opcodes::name(*b))).collect();
        notes.push(
            Diagnostic::new(codes::E0014, format!("{total} instructions use record layouts of our own"))
                .note(list.join(", ")),
        );
    }
    Ok((image, notes))
}

/// Looks up numbers of one core.
pub(crate) struct CoreNumbers {
    vars: FxHashMap<MemLocId, u32>,
}

impl CoreNumbers {
    pub(crate) fn of(p: &LinkedProgram, c: usize) -> CoreNumbers {
        let vars = p.cores[c]
            .vars
            .iter()
            .enumerate()
            .map(|(k, v)| (v.loc, k as u32 + 1))
            .collect::<FxHashMap<_, _>>();
        CoreNumbers { vars }
    }
}

/// Place of a physical location of a core.
pub(crate) fn place_of(p: &LinkedProgram, c: usize, geo: &Geometry, l: MemLocId) -> Option<Place> {
    if l == geo.sbuf {
        return Some(Place { mem: MemoryType::Sb, row_bytes: geo.spec.sbuf_bytes });
    }
    if l == geo.psum {
        return Some(Place { mem: MemoryType::Psum, row_bytes: geo.spec.psum_bytes });
    }
    let v = p.cores[c].vars.get(phys::location_var(l)? as usize - 1)?;
    let loc = p.program.modules[c].memlocs.get(v.loc)?;
    Some(Place { mem: loc.mem, row_bytes: loc.row_bytes() })
}

/// Whole-location pattern of a variable.
pub(crate) fn whole_var(p: &LinkedProgram, c: usize, v: u32) -> Option<AccessPattern> {
    let var = p.cores[c].vars.get((v as usize).checked_sub(1)?)?;
    let m = &p.program.modules[c];
    let l = m.memlocs.get(var.loc)?;
    let dtype = m.set_of(var.loc).dtype;
    Some(AccessPattern { loc: phys::var_location(v), ..AccessPattern::whole(var.loc, l, dtype) })
}

fn stream(
    p: &LinkedProgram,
    c: usize,
    s: &Stream,
    geo: &Geometry,
    opts: EncodeOptions,
    errors: &mut Vec<Diagnostic>,
    notes: &mut Vec<Diagnostic>,
) -> StreamImage {
    let m = &p.program.modules[c];
    let numbers = CoreNumbers::of(p, c);
    let peers: FxHashMap<InstId, AccessPattern> = peer_destinations(p, c, geo);
    let vars = |l: MemLocId| numbers.vars.get(&l).copied();
    let regs = |r: RegId| p.cores[c].reg_numbers.get(r.as_u32() as usize).copied().filter(|n| *n != u8::MAX);
    let places = |l: MemLocId| place_of(p, c, geo, l);
    let count = p.cores[c].vars.len() as u32;
    let around = Surroundings {
        lnc: p.program.lnc_size,
        bf21: opts.bf21,
        places: &places,
        var_loc: &|v| (v >= 1 && v <= count).then(|| phys::var_location(v)),
        whole_var: &|v| whole_var(p, c, v),
    };
    let index = Index::default();
    let mut env = CoreEnv { module: m, geo: *geo, vars: &vars, regs: &regs, peer_dst: None };
    let mut out = StreamImage {
        engine: s.engine,
        records: Vec::with_capacity(s.insts.len() + s.insts.len() / 4),
        starts: Vec::with_capacity(s.insts.len()),
        patches: Vec::new(),
        non_authentic: Vec::new(),
    };
    let mut previous = 0usize;
    let mut memo = Memo::default();
    let mut scratch = Scratch::default();
    let fail = |i: InstId, e: WireError, errors: &mut Vec<Diagnostic>| {
        let mut d = Diagnostic::new(e.code, e.message).inst(&p.program, m, i);
        if let Some(s) = d.sites.first_mut() {
            s.core = m.core;
        }
        errors.push(d);
    };
    for &i in &s.insts {
        let inst = &m.insts[i];
        if inst.opcode == Opcode::DevicePrint {
            notes.push(
                Diagnostic::new(codes::E0013, "a print has no record; a NoOp stands in its place")
                    .inst(&p.program, m, i),
            );
        }
        let found =
            if opts.remember_shapes { memo.find(inst, s.engine, &|a| env.place(a), geo) } else { None };
        if let Some(f) = found.filter(|f| !may_merge(&f.records)) {
            previous = out.records.len();
            out.push(&f.records, f.patch, f.authentic);
            continue;
        }
        env.peer_dst = if inst.opcode == Opcode::GpsimdSb2Sb { peers.get(&i).cloned() } else { None };
        match encode_with(inst, s.engine, 0, &env, &around, &mut scratch) {
            Ok(e) => {
                if opts.remember_shapes {
                    memo.keep(inst, s.engine, &|a| env.place(a), &e);
                }
                if may_merge(&e.records) && previous < out.records.len() {
                    let own = out.records.len() - previous;
                    let mut probe: Vec<Bundle> = out.records[previous..].to_vec();
                    probe.extend(e.records.iter().copied());
                    if index.at(&probe).is_ok_and(|(n, _)| n > own) {
                        out.records.push(Bundle::new(0xA4));
                    }
                }
                previous = out.records.len();
                out.push(&e.records, &e.patch, e.authentic);
            }
            Err(e) => {
                out.starts.push(out.records.len() as u32);
                fail(i, e, errors);
            }
        }
    }
    for &(at, to) in &s.branches {
        let (Some(&i), Some(&from), Some(&target)) =
            (s.insts.get(at as usize), out.starts.get(at as usize), out.starts.get(to as usize))
        else {
            errors.push(Diagnostic::new(codes::N0017, "a branch leaves its stream"));
            continue;
        };
        let by = i64::from(target) - i64::from(from);
        match encode_with(&m.insts[i], s.engine, by, &env, &around, &mut scratch) {
            Ok(e) => {
                if let (Some(slot), Some(b)) = (out.records.get_mut(from as usize), e.records.first()) {
                    *slot = *b;
                }
            }
            Err(e) => fail(i, e, errors),
        }
    }
    out
}

/// Physical destinations of the partner's swaps, by own swap.
fn peer_destinations(p: &LinkedProgram, c: usize, geo: &Geometry) -> FxHashMap<InstId, AccessPattern> {
    let mut out = FxHashMap::default();
    for s in &p.swaps {
        let (own, other) = if s.a.core.index() == c { (s.a, s.b) } else { (s.b, s.a) };
        let m = &p.program.modules[other.core.index()];
        let dst = m.insts.get(other.inst).and_then(|i| i.outs.first()).and_then(Operand::as_ap);
        if let Some(a) = dst
            && let Ok(a) = super::desc::to_physical(a, &m.memlocs[a.loc], geo)
        {
            out.insert(own.inst, a);
        }
    }
    out
}

/// Barrier id of a core barrier.
pub fn barrier_id(i: &tandem_bir::Inst) -> i64 {
    i.get_int(Attr::Id).unwrap_or(0)
}
