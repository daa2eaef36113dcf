//! A linked program to a container.

use super::format::{FLAG_CONST, FLAG_DEBUG, FLAG_OWN, GLOBAL, Kind, Section, assemble, engine_ordinal};
use super::json::canonical;
use crate::decode::patch::Patch;
use crate::encode::BUNDLE_BYTES;
use crate::encode::Bf21;
use crate::encode::Bundle;
use crate::encode::addr::Addr8;
use crate::encode::dma::notified;
use crate::encode::program::{EncodeOptions, Image, StreamImage, encode_streams};
use crate::link::sync::queue_name;
use crate::link::{InstRef, LinkedProgram};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::linked::{DebugInst, DebugTensor, is_remote_copy};
use tandem_bir::{BirEnum, BlockId, Dtype, InstId, MemLocId, Module, Opcode, Operand, Port};

/// What goes into a container.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Meaning of byte +0x21 of the swap.
    pub bf21: Bf21,
    /// With the table of names and source positions.
    pub debug: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { bf21: Bf21::Count, debug: true }
    }
}

/// Encodes a linked program. Notes and warnings come with the bytes.
///
/// # Errors
/// Every instruction that has no encoding, and limits of the container.
pub fn encode(p: &LinkedProgram, opts: WriteOptions) -> Result<(Vec<u8>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (image, notes) = encode_streams(p, EncodeOptions { bf21: opts.bf21, ..EncodeOptions::default() })?;
    let bytes = write_image(p, &image, opts)?;
    Ok((bytes, notes))
}

/// Position of an instruction: core, engine ordinal, record.
type Position = [u64; 3];

/// Writes encoded streams with their tables.
///
/// # Errors
/// E0107 for sizes beyond the container's limits.
pub fn write_image(p: &LinkedProgram, image: &Image, opts: WriteOptions) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let views: Vec<Vec<View<'_>>> = image.iter().map(|core| core.iter().map(View::of).collect()).collect();
    let own = image.iter().flatten().any(|s| !s.non_authentic.is_empty());
    let (mut sections, flags) = table_sections(p, &views, opts, own)?;
    for (c, core) in image.iter().enumerate() {
        for s in core {
            if s.records.len() > super::format::MAX_RECORDS {
                return Err(vec![Diagnostic::new(
                    codes::E0107,
                    format!("the stream of {} on core {c} has {} records", s.engine, s.records.len()),
                )]);
            }
            let mut bytes = Vec::with_capacity(s.records.len() * BUNDLE_BYTES);
            s.records.iter().for_each(|b| bytes.extend_from_slice(&b.0));
            let (core, engine) = (c as u8, engine_ordinal(s.engine));
            sections.push(Section { kind: Kind::Stream, core, engine, offset: 0, bytes });
        }
    }
    if sections.len() > super::format::MAX_SECTIONS || sections.iter().any(|s| s.bytes.len() as u64 > 1 << 32)
    {
        return Err(vec![Diagnostic::new(codes::E0107, "a section is larger than the container allows")]);
    }
    Ok(assemble(p.arch() as u16, p.program.lnc_size as u8, flags, &mut sections))
}

/// The records of a stream, where they lie.
#[derive(Clone, Copy)]
pub(super) enum Records<'a> {
    /// Just encoded.
    Encoded(&'a [Bundle]),
    /// In a file.
    File(&'a [u8]),
}

impl Records<'_> {
    fn get(&self, k: u32) -> Option<Bundle> {
        match self {
            Records::Encoded(l) => l.get(k as usize).copied(),
            Records::File(b) => b.as_chunks::<BUNDLE_BYTES>().0.get(k as usize).map(|c| Bundle(*c)),
        }
    }
}

/// First record of each instruction.
#[derive(Clone, Copy)]
pub(super) enum Starts<'a> {
    List(&'a [u32]),
    Bits(&'a StartBits),
}

impl Starts<'_> {
    fn iter(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Starts::List(l) => Box::new(l.iter().copied()),
            Starts::Bits(b) => Box::new(b.iter()),
        }
    }
}

/// First records of instructions as one bit for every record: a long stream has millions.
#[derive(Default)]
pub(super) struct StartBits(Vec<u64>);

impl StartBits {
    pub(super) fn add(&mut self, record: u32) {
        let k = record as usize / 64;
        if self.0.len() <= k {
            self.0.resize(k + 1, 0);
        }
        if let Some(w) = self.0.get_mut(k) {
            *w |= 1 << (record % 64);
        }
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(k, w)| {
            let mut w = *w;
            std::iter::from_fn(move || {
                let b = (w != 0).then(|| w.trailing_zeros())?;
                w &= w - 1;
                Some(64 * k as u32 + b)
            })
        })
    }
    /// Records before each word at which an instruction starts, for [`StartBits::place`].
    pub(super) fn counts(&self) -> Vec<u32> {
        let add = |n: &mut u32, w: &u64| Some(std::mem::replace(n, *n + w.count_ones()));
        self.0.iter().scan(0u32, add).collect()
    }
    /// Which instruction starts at a record.
    pub(super) fn place(&self, counts: &[u32], record: u32) -> Option<u32> {
        let (w, n) = (*self.0.get(record as usize / 64)?, *counts.get(record as usize / 64)?);
        let below = (1u64 << (record % 64)) - 1;
        (w >> (record % 64) & 1 == 1).then(|| n + (w & below).count_ones())
    }
}

/// What tables need to know of a stream.
pub(super) struct View<'a> {
    pub(super) records: Records<'a>,
    pub(super) starts: Starts<'a>,
    pub(super) patches: &'a [(u32, Patch)],
}

impl<'a> View<'a> {
    fn of(s: &'a StreamImage) -> View<'a> {
        View { records: Records::Encoded(&s.records), starts: Starts::List(&s.starts), patches: &s.patches }
    }
}

/// Every section but the streams, with the flags of the header. `own` says that some layout is our own.
///
/// # Errors
/// E0107 for what no table can hold.
pub(super) fn table_sections(
    p: &LinkedProgram,
    image: &[Vec<View<'_>>],
    opts: WriteOptions,
    own: bool,
) -> Result<(Vec<Section>, u8), Vec<Diagnostic>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut push = |kind: Kind, core: u8, engine: u8, bytes: Vec<u8>| {
        sections.push(Section { kind, core, engine, offset: 0, bytes });
    };
    let json_section = |v: &Value| canonical(v);
    let positions = positions(p, image);
    let at = |r: InstRef| -> Option<Position> { positions.get(&(r.core.0, r.inst)).copied() };

    let mut constants: Vec<u8> = Vec::new();
    let mut files: FxHashMap<&str, (u64, u64)> = FxHashMap::default();
    for (name, bytes) in &p.program.constants {
        files.insert(name, (constants.len() as u64, bytes.len() as u64));
        constants.extend_from_slice(bytes);
    }
    push(Kind::Manifest, GLOBAL, 0, json_section(&manifest(p, opts, &files)));
    let mut cc = Vec::new();
    for (c, core) in image.iter().enumerate() {
        let cb = c as u8;
        push(Kind::Vars, cb, 0, json_section(&vars(p, c)));
        let order = if opts.debug { order_of(p, c) } else { Order::default() };
        for (s, stream) in core.iter().zip(&p.cores[c].streams) {
            let e = engine_ordinal(stream.engine);
            let m = &p.program.modules[c];
            let mut dma = Vec::new();
            let mut queues: Vec<String> = Vec::new();
            let mut debug = Vec::new();
            let mut tensors = Tensors::default();
            for (i, start) in stream.insts.iter().zip(s.starts.iter()) {
                let inst = &m.insts[*i];
                let b = s.records.get(start);
                if let Some(b) = b.filter(|b| b.opcode() == 0xD4) {
                    let q = queue_name(stream.engine, is_remote_copy(m, inst));
                    let addr =
                        |off: u8| Addr8::from_wire(b.get(off, 8)).map_or([0, 0], |a| [a.var, a.offset]);
                    dma.push(match notified(inst) {
                        None => json!([start, q, addr(0x10), addr(0x28)]),
                        Some(core) => json!([start, q, addr(0x10), addr(0x28), core]),
                    });
                    if !queues.contains(&q) {
                        queues.push(q);
                    }
                }
                if opts.debug {
                    debug.push(debug_entry(p, c, *i, start, &order, &mut tensors));
                }
            }
            if !dma.is_empty() {
                queues.sort();
                push(Kind::Dma, cb, e, json_section(&json!({"queues": queues, "records": dma})));
            }
            if opts.debug {
                let table = json!({"records": debug, "tensors": tensors.list});
                push(Kind::Debug, cb, e, json_section(&table));
            }
            let mut records = Vec::new();
            for (r, patch) in s.patches {
                let collective = s.records.get(*r).is_some_and(|b| b.opcode() == 0xD9);
                if collective {
                    cc.push(json!([cb, e, r, patch.to_json()]));
                } else {
                    records.push(json!([r, patch.to_json()]));
                }
            }
            if !records.is_empty() {
                push(Kind::Records, cb, e, json_section(&Value::Array(records)));
            }
        }
    }
    let member = |list: &[InstRef]| -> Value {
        Value::Array(list.iter().filter_map(|r| at(*r)).map(|p| json!(p)).collect())
    };
    let barriers: Vec<Value> = p
        .barriers
        .iter()
        .enumerate()
        .map(|(id, b)| json!({"id": id, "name": b.name.as_str(), "cores": b.cores, "members": member(&b.members)}))
        .collect();
    let tokens: Vec<Value> = p
        .tokens
        .iter()
        .enumerate()
        .map(|(id, t)| {
            json!({"id": id, "location": t.location.as_str(), "writers": t.writers, "members": member(&t.members)})
        })
        .collect();
    let swaps: Vec<Value> = p.swaps.iter().enumerate().map(|(k, s)| swap(p, image, k, s, &at)).collect();
    if !barriers.is_empty() {
        push(Kind::Barriers, GLOBAL, 0, json_section(&Value::Array(barriers)));
    }
    if !swaps.is_empty() {
        push(Kind::Swaps, GLOBAL, 0, json_section(&Value::Array(swaps)));
    }
    if !tokens.is_empty() {
        push(Kind::Tokens, GLOBAL, 0, json_section(&Value::Array(tokens)));
    }
    if !cc.is_empty() {
        push(Kind::CcTable, GLOBAL, 0, json_section(&Value::Array(cc)));
    }
    let names = |l: &[Port]| -> Vec<String> { l.iter().map(|p| p.name.clone()).collect() };
    let sig = &p.program.signature;
    let aliased: Vec<Value> = sig
        .outputs
        .iter()
        .filter_map(|o| {
            let i = sig.inputs.iter().find(|i| i.location == o.location && i.core == o.core)?;
            Some(json!({"input_name": i.name, "output_name": o.name, "must_alias": true}))
        })
        .collect();
    push(
        Kind::TensorMap,
        GLOBAL,
        0,
        json_section(
            &json!({"inputs": names(&sig.inputs), "outputs": names(&sig.outputs), "alias_map": aliased}),
        ),
    );
    if !p.program.constants.is_empty() {
        push(Kind::Const, GLOBAL, 0, constants);
    }
    let mut flags = 0;
    flags |= if opts.debug { FLAG_DEBUG } else { 0 };
    flags |= if p.program.constants.is_empty() { 0 } else { FLAG_CONST };
    flags |= if own { FLAG_OWN } else { 0 };
    Ok((sections, flags))
}

fn positions(p: &LinkedProgram, image: &[Vec<View<'_>>]) -> FxHashMap<(u32, InstId), Position> {
    let mut out = FxHashMap::default();
    for (c, core) in image.iter().enumerate() {
        for (s, stream) in core.iter().zip(&p.cores[c].streams) {
            for (i, start) in stream.insts.iter().zip(s.starts.iter()) {
                let interesting = matches!(
                    p.program.modules[c].insts[*i].opcode,
                    Opcode::CoreBarrier | Opcode::TensorCompletion | Opcode::GpsimdSb2Sb
                );
                if interesting {
                    out.insert(
                        (c as u32, *i),
                        [c as u64, u64::from(engine_ordinal(stream.engine)), u64::from(start)],
                    );
                }
            }
        }
    }
    out
}

fn port(p: &Port) -> Value {
    json!({
        "name": p.name, "location": p.location.as_str(), "core": p.core.map(|c| c.0),
        "dtype": p.dtype.ordinal(), "shape": p.shape,
    })
}

fn manifest(p: &LinkedProgram, opts: WriteOptions, files: &FxHashMap<&str, (u64, u64)>) -> Value {
    let functions: Vec<&str> = p
        .program
        .modules
        .iter()
        .map(|m| {
            let f =
                m.all_functions().find(|f| m.funcs[*f].blocks.iter().any(|b| !m.blocks[*b].insts.is_empty()));
            f.or_else(|| m.all_functions().next()).map_or("main", |f| m.funcs[f].name.as_str())
        })
        .collect();
    let consts: Vec<Value> = p
        .program
        .constants
        .keys()
        .filter_map(|k| files.get(k.as_str()).map(|(o, n)| json!([k.as_str(), o, n])))
        .collect();
    json!({
        "tool": concat!("tandem ", env!("CARGO_PKG_VERSION")),
        "name": p.program.name, "arch": p.arch() as u16, "lnc": p.program.lnc_size,
        "modules": p.program.modules.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
        "functions": functions,
        "options": {"bf21": match opts.bf21 { Bf21::Count => "count", Bf21::PeerPartition => "peer-partition" }},
        "inputs": p.program.signature.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": p.program.signature.outputs.iter().map(port).collect::<Vec<_>>(),
        "constants": consts,
    })
}

fn vars(p: &LinkedProgram, c: usize) -> Value {
    let m = &p.program.modules[c];
    let list = p.cores[c].vars.iter().enumerate().map(|(k, v)| {
        let l = &m.memlocs[v.loc];
        let s = m.set_of(v.loc);
        json!({
            "id": k + 1, "name": l.name.as_str(), "set": s.name.as_str(), "class": v.class.name(), "owner": v.owner.0,
            "mem": l.mem.ordinal(), "addr": l.addr, "base": l.base, "bank": l.bank, "placed": l.allocated,
            "dims": l.dims.as_slice(), "dtype": s.dtype.ordinal(), "kind": s.kind.ordinal(),
            "space": s.addr_space.ordinal(), "shape": s.shape.as_slice(),
            "file": s.file.as_ref().map(|f| f.as_str()),
            "target": l.remote_local_target.as_ref().map(|t| json!([t.name.as_str(), t.core.0])),
        })
    });
    Value::Array(list.collect())
}

/// Where every instruction stood in the program.
#[derive(Default)]
struct Order<'p> {
    /// Of a linked program: place and block.
    linked: FxHashMap<InstId, (u32, BlockId)>,
    /// Of a decoded one: its own table.
    decoded: FxHashMap<InstId, &'p DebugInst>,
}

fn order_of(p: &LinkedProgram, c: usize) -> Order<'_> {
    let own = &p.cores[c].debug;
    if !own.insts.is_empty() {
        return Order { decoded: own.insts.iter().map(|d| (d.inst, d)).collect(), ..Order::default() };
    }
    let walk = p.program.modules[c].walk().into_iter().enumerate();
    Order { linked: walk.map(|(n, (_, b, i))| (i, (n as u32, b))).collect(), ..Order::default() }
}

/// On-chip tensors that the records of a stream name.
#[derive(Default)]
struct Tensors {
    list: Vec<Value>,
    at: FxHashMap<MemLocId, usize>,
}

impl Tensors {
    /// The tensor of a table that was read.
    fn known(&mut self, t: &DebugTensor, at: u32) -> usize {
        if let Some(k) = self.at.get(&MemLocId::from_u32(at)) {
            return *k;
        }
        let aliases: Vec<&str> = t.aliases.iter().map(|a| a.as_str()).collect();
        self.list.push(json!([
            t.name.as_str(),
            t.mem.ordinal(),
            t.base,
            t.addr,
            t.bank,
            t.rows,
            t.row_bytes,
            aliases
        ]));
        self.at.insert(MemLocId::from_u32(at), self.list.len() - 1);
        self.list.len() - 1
    }
    fn of(&mut self, m: &Module, o: &Operand) -> Option<usize> {
        let loc = o.as_ap()?.loc;
        let l = &m.memlocs[loc];
        if !l.is_on_chip() || l.is_remote() || !l.allocated || l.name.starts_with('%') {
            return None;
        }
        if let Some(k) = self.at.get(&loc) {
            return Some(*k);
        }
        let aliases: Vec<&str> = l
            .aliases
            .iter()
            .flat_map(|(s, l, _)| [s.as_str(), l.as_str()])
            .filter(|n| !n.is_empty())
            .collect();
        self.list.push(json!([
            l.name.as_str(),
            l.mem.ordinal(),
            l.base,
            l.addr,
            l.bank,
            l.rows(),
            l.row_bytes(),
            aliases
        ]));
        self.at.insert(loc, self.list.len() - 1);
        Some(self.list.len() - 1)
    }
}

/// Record, name, block, place in the program, tensor of each operand; file, line and column where known.
fn debug_entry(
    p: &LinkedProgram,
    c: usize,
    i: InstId,
    start: u32,
    order: &Order<'_>,
    tensors: &mut Tensors,
) -> Value {
    let m = &p.program.modules[c];
    let inst = &m.insts[i];
    let (position, block, operands): (u32, &str, Vec<Option<usize>>) = match order.decoded.get(&i) {
        Some(d) => {
            let own = &p.cores[c].debug.tensors;
            let mut of = |k: &Option<u32>| k.and_then(|k| Some(tensors.known(own.get(k as usize)?, k)));
            (d.position, d.block.as_str(), d.operands.iter().map(&mut of).collect())
        }
        None => {
            let at = order.linked.get(&i);
            let all = inst.operands();
            let (position, block) = at.map_or((0, ""), |(n, b)| (*n, m.blocks[*b].name.as_str()));
            (position, block, all.map(|o| tensors.of(m, o)).collect())
        }
    };
    let name = inst.name.as_str();
    match p.program.locs.source(inst.loc) {
        Some(s) => json!([start, name, block, position, operands, s.file.as_str(), s.line, s.column]),
        None => json!([start, name, block, position, operands]),
    }
}

fn swap(
    p: &LinkedProgram,
    image: &[Vec<View<'_>>],
    k: usize,
    s: &crate::link::SwapPair,
    at: &dyn Fn(InstRef) -> Option<Position>,
) -> Value {
    let word = |r: InstRef| -> u64 {
        let Some([c, e, rec]) = at(r) else { return 0 };
        let (Some(l), Some(core)) = (image.get(c as usize), p.cores.get(c as usize)) else { return 0 };
        let s = core.streams.iter().zip(l).find(|(s, _)| u64::from(engine_ordinal(s.engine)) == e);
        s.and_then(|(_, v)| v.records.get(rec as u32)).map_or(0, |b| b.get(0x30, 4))
    };
    let src = p.inst(s.a).and_then(|i| i.ins.first()).and_then(Operand::as_ap);
    json!({
        "ordinal": k, "a": at(s.a), "b": at(s.b),
        "bytes_per_partition": src.map_or(0, |a| a.bytes_per_partition()),
        "partitions": src.map_or(0, |a| a.num_partitions()),
        "dst_of_a": word(s.a), "dst_of_b": word(s.b),
    })
}

/// dtype of an ordinal in a table.
pub(super) fn dtype(v: &Value) -> Option<Dtype> {
    Dtype::from_ordinal(u16::try_from(v.as_u64()?).ok()?)
}
