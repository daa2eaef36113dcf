//! A container to a linked program over the physical memories.
//!
//! Two kinds of checks. The layout — header, table, checksums, padding, JSON — is checked first, each fault with its offset.
//! Then the program is rebuilt from the bundles and **written again**: the bytes must be equal, so every table that
//! repeats what bundles say agrees with them, and every bundle is the one its instruction encodes to.

mod layout;
mod tables;
mod walk;

use super::format::*;
use super::write::{Records, StartBits, Starts, View, WriteOptions, table_sections};
use crate::decode::patch::Patch;
use crate::encode::bundle::BUNDLE_BYTES;
use crate::link::{Barrier, InstRef, LinkedCore, LinkedProgram, Stream, SwapPair, Token};
use rustc_hash::FxHashMap;
use serde_json::Value;
use tandem_bir::diag::{Diagnostic, LocEntry, SourcePos, codes};
use tandem_bir::{Attr, BirEnum, CompactString, CoreId, EngineKind, Inst, Opcode, Operand, Origin, Program};

pub use layout::{Container, is_container, read_sections};
use layout::{Layout, bad, layout, patches};
use tables::{Frame, debug_inst, debug_tensor, frame};
use walk::{Step, Variables, walk};

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
