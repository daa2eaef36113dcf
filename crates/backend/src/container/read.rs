//! A container to a linked program over the physical memories.
//!
//! Two kinds of checks. The layout — header, table, checksums, padding, JSON — is checked first, each fault with its offset.
//! Then the program is rebuilt from the bundles and **written again**: the bytes must be equal, so every table that
//! repeats what bundles say agrees with them, and every bundle is the one its instruction encodes to.

use super::format::*;
use super::json;
use super::write::{Records, StartBits, Starts, View, WriteOptions, dtype, table_sections};
use crate::decode::Index;
use crate::decode::draft::{DecodeCtx, Draft};
use crate::decode::patch::Patch;
use crate::decode::program::one;
use crate::encode::bundle::{BUNDLE_BYTES, Bundle, WireError};
use crate::encode::desc::Geometry;
use crate::encode::dma::{DmaCtx, Place};
use crate::encode::memo::{Memo, place_of_physical};
use crate::encode::{Bf21, Scratch, Surroundings, encode_physical, phys};
use crate::link::expand::add_location;
use crate::link::{Barrier, InstRef, LinkedCore, LinkedProgram, Stream, SwapPair, Token, Var, VarClass};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tandem_bir::diag::{Code, Diagnostic, LocEntry, LocTable, Site, SourcePos, codes};
use tandem_bir::linked::{DebugInst, DebugTensor};
use tandem_bir::{
    AccessPattern, AddressSpace, ArchLevel, Attr, BirEnum, CompactString, CoreId, EngineKind, Inst, Level,
    MemLocId, MemoryType, Module, Opcode, Operand, Origin, Port, Program, Register, RemoteTarget, Signature,
    Storage, TensorKind,
};

/// A container in memory: its sections, checked.
#[derive(Clone, Debug)]
pub struct Container {
    /// Architecture level.
    pub arch: ArchLevel,
    /// Cores.
    pub cores: u8,
    /// Flags.
    pub flags: u8,
    /// Sections in table order.
    pub sections: Vec<Section>,
}

fn bad(code: Code, offset: usize, m: impl Into<String>) -> Diagnostic {
    Diagnostic::new(code, m).site(Site { offset: Some(offset as u64), ..Site::default() })
}

fn le(b: &[u8], at: usize, n: usize) -> u64 {
    (0..n).rev().fold(0, |v, i| v << 8 | u64::from(b.get(at + i).copied().unwrap_or(0)))
}

/// True when the bytes start like a container.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads and checks the layout of a container.
///
/// # Errors
/// The first fault, with its offset.
pub fn read_sections(b: &[u8]) -> Result<Container, Diagnostic> {
    let l = layout(b)?;
    let sections = l.parts.iter().map(|p| p.section(b)).collect();
    Ok(Container { arch: l.arch, cores: l.cores, flags: l.flags, sections })
}

/// A section where it lies in the file.
struct Part {
    kind: Kind,
    core: u8,
    engine: u8,
    bytes: std::ops::Range<usize>,
}

impl Part {
    /// A copy of it.
    fn section(&self, b: &[u8]) -> Section {
        Section {
            kind: self.kind,
            core: self.core,
            engine: self.engine,
            offset: self.bytes.start,
            bytes: b[self.bytes.clone()].to_vec(),
        }
    }
}

/// Header and section table of a container.
struct Layout {
    arch: ArchLevel,
    cores: u8,
    flags: u8,
    parts: Vec<Part>,
}

impl Layout {
    fn streams(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|p| p.kind == Kind::Stream)
    }
    /// The container without its streams, which stay where they lie.
    fn tables(&self, b: &[u8]) -> Container {
        let sections = self.parts.iter().filter(|p| p.kind != Kind::Stream).map(|p| p.section(b)).collect();
        Container { arch: self.arch, cores: self.cores, flags: self.flags, sections }
    }
}

/// Checks the layout of a container without copying its sections.
fn layout(b: &[u8]) -> Result<Layout, Diagnostic> {
    if !is_container(b) {
        return Err(bad(codes::E0101, 0, "the magic bytes are missing"));
    }
    if b.len() < HEADER {
        return Err(bad(codes::E0102, b.len(), "the header is cut short"));
    }
    let (major, minor) = (le(b, 8, 2), le(b, 10, 2));
    if (major, minor) != (u64::from(MAJOR), u64::from(MINOR)) {
        return Err(bad(codes::E0101, 8, format!("version {major}.{minor} is not 1.0")));
    }
    let arch = ArchLevel::from_ordinal(le(b, 12, 2) as u16).filter(|a| a.spec().is_some());
    let Some(arch) = arch else {
        return Err(bad(codes::E0101, 12, format!("architecture {} has no model", le(b, 12, 2))));
    };
    let (cores, flags) = (b[14], b[15]);
    if !(1..=2).contains(&cores) {
        return Err(bad(codes::E0101, 14, format!("{cores} cores")));
    }
    if flags & !7 != 0 {
        return Err(bad(codes::E0102, 15, "unknown flags"));
    }
    if le(b, 16, 8) != b.len() as u64 {
        return Err(bad(
            codes::E0102,
            16,
            format!("the file has {} bytes, the header says {}", b.len(), le(b, 16, 8)),
        ));
    }
    let n = le(b, 24, 4) as usize;
    if n > MAX_SECTIONS {
        return Err(bad(codes::E0107, 24, format!("{n} sections")));
    }
    let table = (HEADER + ENTRY * n).next_multiple_of(64);
    if le(b, 28, 4) as usize != table || table > b.len() {
        return Err(bad(codes::E0103, 28, "the length of the table does not fit"));
    }
    if b[40..64].iter().any(|x| *x != 0) {
        return Err(bad(codes::E0102, 40, "reserved bytes of the header are not zero"));
    }
    if let Some(k) = b[HEADER + ENTRY * n..table].iter().position(|x| *x != 0) {
        return Err(bad(codes::E0102, HEADER + ENTRY * n + k, "padding is not zero"));
    }
    let mut sections: Vec<Part> = Vec::new();
    let mut end = table;
    let mut id = FNV_START;
    for k in 0..n {
        let at = HEADER + ENTRY * k;
        let Some(kind) = Kind::of(le(b, at, 2) as u16) else {
            return Err(bad(codes::E0103, at, format!("section kind {} is unknown", le(b, at, 2))));
        };
        let (core, engine) = (b[at + 2], b[at + 3]);
        if kind.per_core() != (core != GLOBAL) || (core != GLOBAL && core >= cores) {
            return Err(bad(codes::E0103, at + 2, format!("core {core} of a section")));
        }
        if kind.per_engine() != matches!(engine, 1 | 2 | 3 | 5 | 6) || (!kind.per_engine() && engine != 0) {
            return Err(bad(codes::E0103, at + 3, format!("engine {engine} of a section")));
        }
        if le(b, at + 4, 4) != 0 || le(b, at + 28, 4) != 0 {
            return Err(bad(codes::E0102, at + 4, "reserved bytes of a section entry are not zero"));
        }
        if let Some(p) = sections.last()
            && (p.kind, p.core, p.engine) >= (kind, core, engine)
        {
            return Err(bad(codes::E0103, at, "the section table is not sorted"));
        }
        let (offset, len) = (le(b, at + 8, 8), le(b, at + 16, 8));
        if offset != end.next_multiple_of(64) as u64 {
            return Err(bad(codes::E0103, at + 8, "sections are not adjacent or not aligned"));
        }
        let offset = offset as usize;
        if len > (b.len().saturating_sub(offset)) as u64 {
            return Err(bad(codes::E0102, at + 16, "a section reaches beyond the end of the file"));
        }
        let len = len as usize;
        if let Some(k) = b[end..offset].iter().position(|x| *x != 0) {
            return Err(bad(codes::E0102, end + k, "padding is not zero"));
        }
        let bytes = &b[offset..offset + len];
        if u64::from(crc32(bytes)) != le(b, at + 24, 4) {
            return Err(bad(codes::E0102, offset, "the checksum of a section is wrong"));
        }
        if kind == Kind::Stream && (!len.is_multiple_of(BUNDLE_BYTES) || len / BUNDLE_BYTES > MAX_RECORDS) {
            return Err(bad(codes::E0103, at + 16, "a stream is not a whole number of records, or too long"));
        }
        id = fnv(id, bytes);
        end = offset + len;
        sections.push(Part { kind, core, engine, bytes: offset..end });
    }
    if end != b.len() {
        return Err(bad(codes::E0102, end, "bytes after the last section"));
    }
    if id != le(b, 32, 8) {
        return Err(bad(codes::E0102, 32, "the content id is wrong"));
    }
    Ok(Layout { arch, cores, flags, parts: sections })
}

impl Container {
    /// A section.
    pub fn section(&self, kind: Kind, core: u8, engine: u8) -> Option<&Section> {
        self.sections.iter().find(|s| (s.kind, s.core, s.engine) == (kind, core, engine))
    }
    /// A JSON section; an absent one is an empty list.
    fn json(&self, kind: Kind, core: u8, engine: u8) -> Result<(Value, usize), Diagnostic> {
        match self.section(kind, core, engine) {
            None => Ok((Value::Array(Vec::new()), 0)),
            Some(s) => json::parse(&s.bytes)
                .map(|v| (v, s.offset))
                .ok_or_else(|| bad(codes::E0106, s.offset, "a table is not canonical JSON")),
        }
    }
    /// Records of a stream.
    pub fn records(&self, s: &Section) -> Vec<Bundle> {
        let (chunks, _) = s.bytes.as_chunks::<BUNDLE_BYTES>();
        chunks.iter().map(|c| Bundle(*c)).collect()
    }
    /// What the records of a stream cannot say, by first record.
    ///
    /// # Errors
    /// E0106 for a table of another shape.
    pub fn patches(&self, core: u8, engine: u8) -> Result<Vec<(u32, Patch)>, Diagnostic> {
        patches(self, core, engine)
    }
    /// Number of bundles in all streams.
    pub fn num_bundles(&self) -> usize {
        self.sections.iter().filter(|s| s.kind == Kind::Stream).map(|s| s.bytes.len() / BUNDLE_BYTES).sum()
    }
}

/// Reads a container into a program that can run.
///
/// # Errors
/// The first fault, with its offset.
pub fn decode(bytes: &[u8]) -> Result<LinkedProgram, Diagnostic> {
    Ok(built(bytes, Keep::All)?.0)
}

/// Checks a container as [`decode`] does, without keeping its program; gives the number of records. What a few tables are compared
/// with stays in memory, so that long containers can be looked at.
///
/// # Errors
/// Those of [`decode`].
pub fn check(bytes: &[u8]) -> Result<usize, Diagnostic> {
    Ok(built(bytes, Keep::Tables)?.1)
}

/// Which instructions are kept whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Every one.
    All,
    /// Those that tables are compared with; of the others name and place.
    Tables,
}

impl Keep {
    /// A table repeats something of the instruction.
    fn whole(self, i: &Inst) -> bool {
        self == Keep::All
            || i.opcode.is_dma()
            || matches!(
                i.opcode,
                Opcode::CoreBarrier
                    | Opcode::TensorCompletion
                    | Opcode::GpsimdSb2Sb
                    | Opcode::CollectiveCompute
            )
    }
}

fn built(bytes: &[u8], keep: Keep) -> Result<(LinkedProgram, usize), Diagnostic> {
    let l = layout(bytes)?;
    let c = l.tables(bytes);
    let Built { program, options, streams, records, own } = build(bytes, &l, &c, keep)?;
    let starts = &streams;
    let views: Vec<Vec<View<'_>>> = starts
        .iter()
        .map(|list| {
            list.iter()
                .map(|s| View {
                    records: Records::File(bytes.get(s.bytes.clone()).unwrap_or(&[])),
                    starts: Starts::Bits(&s.starts),
                    patches: &s.patches,
                })
                .collect()
        })
        .collect();
    let (mut tables, flags) = table_sections(&program, &views, options, own).map_err(|e| {
        let why = e.first().map_or_else(String::new, |d| d.message.clone());
        bad(codes::E0105, 0, format!("the tables cannot be written again: {why}"))
    })?;
    tables.sort_by_key(|s| (s.kind, s.core, s.engine));
    let text = "a table and the records disagree, or a record is not in its canonical form";
    if flags != c.flags {
        return Err(bad(codes::E0105, 15, text));
    }
    for k in 0..tables.len().max(c.sections.len()) {
        match (tables.get(k), c.sections.get(k)) {
            (Some(a), Some(b)) if (a.kind, a.core, a.engine) == (b.kind, b.core, b.engine) => {
                if a.bytes != b.bytes {
                    let at = a.bytes.iter().zip(&b.bytes).position(|(a, b)| a != b);
                    let at = at.unwrap_or(a.bytes.len().min(b.bytes.len()));
                    return Err(bad(codes::E0105, b.offset + at, text));
                }
            }
            (_, b) => return Err(bad(codes::E0105, b.map_or(HEADER, |b| b.offset), text)),
        }
    }
    Ok((program, records))
}

/// Records that are decoded and encoded at a time.
const CHUNK: usize = 8192;

/// Decodes every record of a container and encodes it again, a few thousand at a time, so that no program is ever held: the
/// bytes that come back are those that went in. Gives the number of records. Branches keep their displacement.
///
/// # Errors
/// The first fault, with its offset.
pub fn round_trip(b: &[u8]) -> Result<(Vec<u8>, usize), Diagnostic> {
    let l = layout(b)?;
    let c = l.tables(b);
    let frame = frame(&c)?;
    let mut out = b.to_vec();
    let mut count = 0;
    for part in l.streams() {
        let patches = patches(&c, part.core, part.engine)?;
        let vars = Variables::of(&frame, part.core);
        count += walk(b, part, &patches, &vars, &mut |at, step| {
            for (i, r) in step.records.iter().enumerate() {
                let to = part.bytes.start + (at + i) * BUNDLE_BYTES;
                if let Some(to) = out.get_mut(to..to + BUNDLE_BYTES) {
                    to.copy_from_slice(&r.0);
                }
            }
            Ok(())
        })?;
    }
    if let Some(k) = out.iter().zip(b).position(|(x, y)| x != y) {
        return Err(bad(codes::E0105, k, "a record is not in its canonical form"));
    }
    Ok((out, count))
}

/// What the variables of a core look like to decoder and encoder.
struct Variables {
    geo: Geometry,
    lnc: u32,
    bf21: Bf21,
    /// SBUF, PSUM, then the variables.
    places: Vec<Option<Place>>,
    wholes: Vec<Option<AccessPattern>>,
}

impl Variables {
    fn of(f: &Frame, core: u8) -> Variables {
        let k = core as usize;
        let (m, vars) = (&f.program.modules[k], &f.cores[k].vars);
        let n = vars.len() as u32;
        let place = |l: MemLocId| place_of_var(m, vars, &f.geo, l);
        Variables {
            geo: f.geo,
            lnc: f.program.lnc_size,
            bf21: f.bf21,
            places: (0..n + 2).map(|l| place(MemLocId::from_u32(l))).collect(),
            wholes: (1..=n).map(|v| whole_of_var(m, vars, v)).collect(),
        }
    }
}

/// An instruction of a stream that was decoded, encoded again and compared.
struct Step<'a> {
    inst: Inst,
    /// Its branch displacement.
    to: i64,
    records: &'a [Bundle],
    /// Every layout is documented.
    authentic: bool,
}

/// Decodes a stream, encodes every instruction again and compares, a few thousand records at a time. Gives the number of
/// records.
fn walk(
    b: &[u8],
    part: &Part,
    patches: &[(u32, Patch)],
    vars: &Variables,
    sink: &mut dyn FnMut(usize, Step<'_>) -> Result<(), Diagnostic>,
) -> Result<usize, Diagnostic> {
    let engine = EngineKind::from_ordinal(u16::from(part.engine))
        .ok_or_else(|| bad(codes::E0103, part.bytes.start, "no engine has this number"))?;
    let geo = vars.geo;
    let index = Index::default();
    let places = |l: MemLocId| vars.places.get(l.as_u32() as usize).copied().flatten();
    let whole = |v: u32| vars.wholes.get((v as usize).checked_sub(1)?).cloned().flatten();
    let n = vars.wholes.len() as u32;
    let var_loc = |v: u32| (v >= 1 && v <= n).then(|| phys::var_location(v));
    let ctx = DecodeCtx { geo, var_loc: &var_loc, whole_var: &whole };
    let dctx = DmaCtx { geo, places: &places };
    // decoded instructions are in physical form already: locations are those of the physical module
    let around = Surroundings {
        lnc: vars.lnc,
        bf21: vars.bf21,
        places: &places,
        var_loc: &var_loc,
        whole_var: &whole,
    };
    let mut memo = Memo::default();
    let (mut draft, mut scratch) = (Draft::default(), Scratch::default());
    let place = |a: &AccessPattern| place_of_physical(a, &geo);
    let (records, _) = b.get(part.bytes.clone()).unwrap_or(&[]).as_chunks::<BUNDLE_BYTES>();
    let mut window: Vec<Bundle> = Vec::with_capacity(CHUNK.min(records.len()));
    let (mut base, mut at, mut next) = (0usize, 0usize, 0usize);
    let none = Patch::default();
    while base + at < records.len() {
        if window.len() - at < 1024 && base + window.len() < records.len() {
            // a group of records is never longer than what is kept in view
            base += at;
            at = 0;
            window.clear();
            window.extend(records[base..].iter().take(CHUNK).map(|r| Bundle(*r)));
        }
        let start = base + at;
        let offset = part.bytes.start + start * BUNDLE_BYTES;
        let fault = |e: WireError| bad(e.code, offset, e.message);
        let again = |e: WireError| {
            bad(codes::E0105, offset, format!("a record does not encode again: {}", e.message))
        };
        let (len, piece) = index.at(&window[at..]).map_err(fault)?;
        let len = len.clamp(1, window.len() - at);
        let patch = match patches.get(next) {
            Some((r, p)) if *r as usize == start => {
                next += 1;
                p
            }
            _ => &none,
        };
        let own = &window[at..at + len];
        let (mut inst, to) = one(own, piece, patch, &ctx, &dctx, &mut draft).map_err(fault)?;
        inst.engine = engine;
        let found = memo.find(&inst, engine, &place, &geo);
        let found = found.map(|f| (f.records.as_slice() == own && f.patch == patch, f.authentic));
        let (equal, authentic) = match found {
            Some(f) => f,
            None => {
                let mut canonical = inst.clone();
                phys::normalise(&mut canonical, &geo);
                if canonical != inst {
                    let text = "a record table says what no encoder writes";
                    return Err(bad(codes::E0105, offset, text));
                }
                let e = encode_physical(canonical, engine, to, geo, &around, &mut scratch).map_err(again)?;
                memo.keep(&inst, engine, &place, &e);
                (e.records.as_slice() == own && e.patch == *patch, e.authentic)
            }
        };
        if !equal {
            return Err(bad(codes::E0105, offset, "a record is not in its canonical form"));
        }
        sink(start, Step { inst, to, records: own, authentic })?;
        at += len;
    }
    if next != patches.len() {
        let record = patches.get(next).map_or(0, |p| p.0 as usize);
        return Err(bad(
            codes::E0105,
            part.bytes.start.saturating_add(record.saturating_mul(BUNDLE_BYTES)),
            "the record table names a record where no instruction starts",
        ));
    }
    Ok(records.len())
}

/// What the tables say before any stream is read.
struct Frame {
    program: Program,
    cores: Vec<LinkedCore>,
    bf21: Bf21,
    geo: Geometry,
}

fn place_of_var(m: &Module, vars: &[Var], geo: &Geometry, l: MemLocId) -> Option<Place> {
    let loc = if l == geo.sbuf || l == geo.psum {
        l
    } else {
        vars.get((phys::location_var(l)? as usize).checked_sub(1)?)?.loc
    };
    m.memlocs.get(loc).map(|l| Place { mem: l.mem, row_bytes: l.row_bytes() })
}

fn whole_of_var(m: &Module, vars: &[Var], v: u32) -> Option<AccessPattern> {
    let var = vars.get((v as usize).checked_sub(1)?)?;
    let l = m.memlocs.get(var.loc)?;
    Some(AccessPattern::whole(var.loc, l, m.set_of(var.loc).dtype))
}

/// What the records of a stream cannot say, by first record.
fn patches(c: &Container, core: u8, engine: u8) -> Result<Vec<(u32, Patch)>, Diagnostic> {
    let shape = |at: usize| bad(codes::E0106, at, "a table has another shape than its kind");
    let mut patches: Vec<(u32, Patch)> = Vec::new();
    let (list, at) = c.json(Kind::Records, core, engine)?;
    for e in list.as_array().ok_or_else(|| shape(at))? {
        let r = e[0].as_u64().and_then(|r| u32::try_from(r).ok()).ok_or_else(|| shape(at))?;
        patches.push((r, Patch::from_json(&e[1]).ok_or_else(|| shape(at))?));
    }
    let (cc, at) = c.json(Kind::CcTable, GLOBAL, 0)?;
    for e in cc.as_array().ok_or_else(|| shape(at))? {
        if e[0].as_u64() == Some(u64::from(core)) && e[1].as_u64() == Some(u64::from(engine)) {
            let r = e[2].as_u64().and_then(|r| u32::try_from(r).ok()).ok_or_else(|| shape(at))?;
            patches.push((r, Patch::from_json(&e[3]).ok_or_else(|| shape(at))?));
        }
    }
    patches.sort_by_key(|p| p.0);
    Ok(patches)
}

/// A stream that was built: where its records lie, and the first of each instruction.
struct BuiltStream {
    bytes: std::ops::Range<usize>,
    starts: StartBits,
    patches: Vec<(u32, Patch)>,
}

/// A program rebuilt from its records.
struct Built {
    program: LinkedProgram,
    options: WriteOptions,
    /// Streams per core.
    streams: Vec<Vec<BuiltStream>>,
    /// Number of records.
    records: usize,
    /// Some layout is our own.
    own: bool,
}

/// Rebuilds the program; every record is encoded again and compared on the way, tables are not.
fn build(b: &[u8], l: &Layout, c: &Container, keep: Keep) -> Result<Built, Diagnostic> {
    let shape = |at: usize| bad(codes::E0106, at, "a table has another shape than its kind");
    let f = frame(c)?;
    let bf21 = f.bf21;
    let variables: Vec<Variables> = (0..c.cores).map(|k| Variables::of(&f, k)).collect();
    let Frame { program: mut p, mut cores, .. } = f;
    // instructions that tables point at
    let mut record_of: Vec<FxHashMap<(u64, u64), tandem_bir::InstId>> =
        vec![FxHashMap::default(); c.cores as usize];
    let mut streams: Vec<Vec<BuiltStream>> = Vec::new();
    let (mut records, mut own) = (0, false);
    for k in 0..c.cores {
        let core = k as usize;
        // tensors of the debug tables by name
        let mut told: FxHashMap<CompactString, u32> = FxHashMap::default();
        let mut list = Vec::new();
        for part in l.streams().filter(|s| s.core == k) {
            let (from, end) = (part.bytes.start, part.bytes.end);
            let engine = EngineKind::from_ordinal(u16::from(part.engine)).ok_or_else(|| shape(from))?;
            let patches = patches(c, k, part.engine)?;
            let (debug, dat) = c.json(Kind::Debug, k, part.engine)?;
            let mut local: Vec<u32> = Vec::new();
            for t in debug["tensors"].as_array().into_iter().flatten() {
                let t = debug_tensor(t).ok_or_else(|| shape(dat))?;
                let list = &mut cores[core].debug.tensors;
                let known = told.get(&t.name).copied().filter(|at| list.get(*at as usize) == Some(&t));
                local.push(known.unwrap_or_else(|| {
                    told.insert(t.name.clone(), list.len() as u32);
                    list.push(t);
                    list.len() as u32 - 1
                }));
            }
            let debug = debug["records"].as_array().map_or(&[][..], Vec::as_slice);
            let mut d = debug.iter().peekable();
            let mut known = Vec::new();
            let mut starts = StartBits::default();
            let mut targets: Vec<(u32, i64)> = Vec::new();
            let mut last = Opcode::NoOp;
            let locs = &mut p.locs;
            let m = &mut p.modules[core];
            let block = m.add_block(m.functions[0], engine.name());
            let most = part.bytes.len() / BUNDLE_BYTES;
            m.insts.reserve_exact(most);
            m.blocks[block].insts.reserve_exact(most);
            let mut insts = Vec::with_capacity(most);
            records += walk(b, part, &patches, &variables[core], &mut |at, step| {
                let Step { mut inst, to, authentic, .. } = step;
                let start = at as u32;
                own |= !authentic;
                last = inst.opcode;
                inst.name = format!("{}.{start}", engine.name()).as_str().into();
                inst.origin = Origin::Internal;
                if let Some(e) = d.next_if(|e| e[0].as_u64() == Some(u64::from(start))) {
                    inst.name = e[1].as_str().ok_or_else(|| shape(dat))?.into();
                    let told = debug_inst(e, &local);
                    known.push((insts.len(), told.ok_or_else(|| shape(dat))?));
                    if let (Some(file), Some(line), Some(col)) = (e[5].as_str(), e[6].as_u64(), e[7].as_u64())
                    {
                        inst.loc = locs.intern(LocEntry::Pos(SourcePos {
                            file: file.into(),
                            line: line as u32,
                            column: col as u32,
                            end_line: None,
                            end_column: None,
                        }));
                    }
                }
                let all = inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap);
                if all.into_iter().any(|a| m.memlocs.get(a.loc).is_none()) {
                    return Err(bad(
                        codes::E0105,
                        from + at * BUNDLE_BYTES,
                        "an operand names a variable that does not exist",
                    ));
                }
                if matches!(inst.opcode, Opcode::CompareAndBranch | Opcode::UnconditionalBranch) {
                    targets.push((insts.len() as u32, to + i64::from(start)));
                }
                let pointed = matches!(inst.opcode, Opcode::CoreBarrier | Opcode::TensorCompletion);
                if !keep.whole(&inst) {
                    inst.ins = Vec::new();
                    inst.outs = Vec::new();
                    inst.attrs = Default::default();
                    inst.more = None;
                }
                inst.shrink_to_fit();
                let id = m.push_inst(block, inst);
                if pointed {
                    record_of[core].insert((u64::from(part.engine), u64::from(start)), id);
                }
                starts.add(start);
                insts.push(id);
                Ok(())
            })?;
            if last != Opcode::Exit {
                return Err(bad(codes::E0104, end, "a stream does not end with Exit"));
            }
            if c.flags & FLAG_DEBUG != 0 && debug.len() > insts.len() {
                return Err(bad(codes::E0105, dat, "the debug table has another length than its stream"));
            }
            let mut branches = Vec::with_capacity(targets.len());
            let counts = starts.counts();
            for (k, to) in targets {
                let t = u32::try_from(to).ok().and_then(|t| starts.place(&counts, t));
                let Some(t) = t else {
                    let at = starts.iter().nth(k as usize).unwrap_or(0) as usize;
                    let text = format!("the branch jumps to record {to}, where no instruction starts");
                    return Err(bad(codes::E0104, from + at * BUNDLE_BYTES, text));
                };
                branches.push((k, t));
            }
            for (at, mut told) in known {
                told.inst = insts[at];
                cores[core].debug.insts.push(told);
            }
            cores[core].streams.push(Stream { engine, insts, branches });
            list.push(BuiltStream { bytes: part.bytes.clone(), starts, patches });
        }
        streams.push(list);
    }
    for c in &mut cores {
        c.debug.insts.sort_by_key(|d| d.position);
    }
    let find = |v: &Value| -> Option<InstRef> {
        let (k, e, r) = (v[0].as_u64()?, v[1].as_u64()?, v[2].as_u64()?);
        let inst = *record_of.get(usize::try_from(k).ok()?)?.get(&(e, r))?;
        Some(InstRef { core: CoreId(k as u32), inst })
    };
    let members = |v: &Value, at: usize, p: &Program, op: Opcode| -> Result<Vec<InstRef>, Diagnostic> {
        let list = v.as_array().ok_or_else(|| shape(at))?;
        list.iter()
            .map(|v| {
                find(v).filter(|r| p.modules[r.core.index()].insts[r.inst].opcode == op).ok_or_else(|| {
                    bad(codes::E0105, at, format!("a table points at a record that is no {op}"))
                })
            })
            .collect()
    };
    let small = |v: &Value| -> Option<Vec<u32>> {
        v.as_array()?.iter().map(|x| x.as_u64().and_then(|x| u32::try_from(x).ok())).collect()
    };
    let mut barriers = Vec::new();
    let (list, at) = c.json(Kind::Barriers, GLOBAL, 0)?;
    for b in list.as_array().ok_or_else(|| shape(at))? {
        let id = barriers.len() as i64;
        let b = Barrier {
            name: b["name"].as_str().ok_or_else(|| shape(at))?.into(),
            cores: small(&b["cores"]).ok_or_else(|| shape(at))?,
            members: members(&b["members"], at, &p, Opcode::CoreBarrier)?,
        };
        for r in &b.members {
            let i = &mut p.modules[r.core.index()].insts[r.inst];
            if i.get_int(Attr::Id) != Some(id) {
                return Err(bad(codes::E0105, at, format!("barrier {id} points at a record of another id")));
            }
            i.set(Attr::Cores, b.cores.iter().map(|c| i64::from(*c)).collect::<Vec<_>>());
        }
        barriers.push(b);
    }
    let mut tokens = Vec::new();
    let (list, at) = c.json(Kind::Tokens, GLOBAL, 0)?;
    for t in list.as_array().ok_or_else(|| shape(at))? {
        tokens.push(Token {
            location: t["location"].as_str().ok_or_else(|| shape(at))?.into(),
            writers: small(&t["writers"]).ok_or_else(|| shape(at))?,
            members: members(&t["members"], at, &p, Opcode::TensorCompletion)?,
        });
    }
    // every barrier record is in the table
    let listed: usize = barriers.iter().map(|b: &Barrier| b.members.len()).sum();
    let there = count(&p, Opcode::CoreBarrier);
    if listed != there {
        return Err(bad(codes::E0105, at, format!("{there} barrier records, {listed} in the table")));
    }
    let swaps = pair(&mut p, &cores)
        .ok_or_else(|| bad(codes::E0105, 0, "the cores have different numbers of swaps"))?;
    let options = WriteOptions { bf21, debug: c.flags & FLAG_DEBUG != 0 };
    let program = LinkedProgram { program: p, cores, barriers, tokens, swaps };
    Ok(Built { program, options, streams, records, own })
}

/// Manifest, constants, variables: a program without instructions.
fn frame(c: &Container) -> Result<Frame, Diagnostic> {
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

fn count(p: &Program, op: Opcode) -> usize {
    p.modules.iter().map(|m| m.insts.values().filter(|i| i.opcode == op).count()).sum()
}

/// Pairs the k-th swap of each core and exchanges their destinations: a record names the tile on its peer, an instruction its
/// own.
fn pair(p: &mut Program, cores: &[LinkedCore]) -> Option<Vec<SwapPair>> {
    let list = |k: usize| -> Vec<tandem_bir::InstId> {
        let Some(c) = cores.get(k) else { return Vec::new() };
        c.streams
            .iter()
            .flat_map(|s| s.insts.iter().copied())
            .filter(|i| p.modules[k].insts[*i].opcode == Opcode::GpsimdSb2Sb)
            .collect()
    };
    let (a, b) = (list(0), list(1));
    if a.len() != b.len() {
        return None;
    }
    let mut out = Vec::new();
    for (i, j) in a.into_iter().zip(b) {
        let mine = std::mem::take(&mut p.modules[0].insts[i].outs);
        let theirs = std::mem::replace(&mut p.modules[1].insts[j].outs, mine);
        p.modules[0].insts[i].outs = theirs;
        out.push(SwapPair {
            a: InstRef { core: CoreId(0), inst: i },
            b: InstRef { core: CoreId(1), inst: j },
        });
    }
    Some(out)
}

/// What the debug table says about a record; operands name tensors of their own stream.
fn debug_inst(e: &Value, tensors: &[u32]) -> Option<DebugInst> {
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

fn debug_tensor(v: &Value) -> Option<DebugTensor> {
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
