//! Records of instructions that differ from a verified one in nothing but byte addresses and semaphores.
//!
//! Long programs repeat few shapes: the same operation over tiles that lie at other bytes. The first instruction of a shape
//! goes the whole way — fields, the machine's rules, decoding, comparison. A later one takes the records of the first, with its
//! own address words and its own sync region.
//!
//! # Why this is as strict as the whole way
//!
//! Two instructions have one shape when type, engine, attributes, immediates and, for every memory operand, memory, first
//! partition, dtype, number of partitions and free pairs are **equal** (compared, not only hashed). Every row of a form but those
//! that [`sites`] lists computes its bytes, and its decoder its value, from these alone; the exhaustive match there is what
//! a new kind of field has to answer. So what remains to be checked for a later instruction is what differs: each
//! address word must read back as the operand's partition and byte, the sync region as the waits and updates, and the
//! machine's rules, which look at alignment, must hold for the new bytes. All three are checked for every record. A property
//! test compares both ways on generated programs.

use super::addr::{Addr4, INDIRECT_BIT};
use super::bundle::{Bundle, WireResult};
use super::codec::{self, Records};
use super::desc::{Geometry, OnChip, Start, start_of};
use super::forms::{Field, Group, Kind, Slot, Special};
use super::{events, validate};
use crate::decode::patch::Patch;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash as _, Hasher as _};
use tandem_bir::inst::Attrs;
use tandem_bir::inst::SyncInfo;
use tandem_bir::{AccessPattern, ApPair, Dtype, EngineKind, Immediate, Inst, Opcode, Operand};

/// Most shapes that are kept (our choice: programs have hundreds; what comes later goes the whole way).
const MAX_SHAPES: usize = 4096;
/// Most shapes of one hash, which leaves out attributes (our choice).
const MAX_ALIKE: usize = 16;

/// Place of a pattern over one of the two memories, as decoding gives them.
pub(crate) fn place_of_physical(a: &AccessPattern, geo: &Geometry) -> Option<Start> {
    let mem = geo.mem(a.loc)?;
    let pitch = (geo.pitch(mem) / a.dtype.bytes()) as i64;
    if a.pairs.first().is_none_or(|p| p.num > 1 && p.step != pitch) {
        return None;
    }
    start_of(a.offset, a.dtype, mem, geo).ok()
}

/// A memory operand without its byte.
#[derive(Debug, PartialEq)]
struct Tile {
    mem: OnChip,
    partition: u32,
    dtype: Dtype,
    parts: u64,
    free: SmallVec<[ApPair; 3]>,
}

#[derive(Debug, PartialEq)]
enum Part {
    Tile(Tile),
    Imm(Immediate),
}

/// An address word of a record.
#[derive(Clone, Copy, Debug)]
struct Site {
    record: u8,
    off: u8,
    /// Operand: inputs, then outputs.
    operand: u8,
    /// Bits beside the address.
    mark: u32,
}

/// A verified instruction.
struct Entry {
    opcode: Opcode,
    engine: EngineKind,
    attrs: Attrs,
    ins: usize,
    parts: SmallVec<[Part; 4]>,
    group: &'static Group,
    /// Records with an empty sync region.
    records: Records,
    sites: SmallVec<[Site; 6]>,
    patch: Patch,
    authentic: bool,
}

/// Shapes that were verified in one stream.
///
/// A stream that repeats no shape would only pay for looking: where few of the last instructions were found, those that come
/// are neither looked for nor kept for a while, longer each time.
#[derive(Default)]
pub(crate) struct Memo {
    shapes: FxHashMap<u64, Vec<Entry>>,
    /// Hashes that came once. A shape is kept when it comes again.
    once: FxHashSet<u64>,
    kept: usize,
    watch: Watch,
}

/// When to look.
#[derive(Default)]
struct Watch {
    seen: u32,
    found: u32,
    /// Instructions that are still let through, and how many the last time.
    rest: u32,
    last: u32,
}

/// Instructions after which is decided, and how many of them must have been found (our choice).
const LOOKS: u32 = 1024;
const ENOUGH: u32 = LOOKS / 16;
/// Fewest and most instructions that are let through (our choice).
const LET_THROUGH: (u32, u32) = (4096, 65_536);

impl Watch {
    /// An instruction comes: whether to look for it.
    fn look(&mut self) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        if self.seen >= LOOKS {
            let enough = self.found >= ENOUGH;
            (self.seen, self.found) = (0, 0);
            if !enough {
                self.last = (2 * self.last).clamp(LET_THROUGH.0, LET_THROUGH.1);
                self.rest = self.last - 1;
                return false;
            }
            self.last = 0;
        }
        self.seen += 1;
        true
    }
}

/// Records found for an instruction.
pub(crate) struct Found<'m> {
    /// Its records.
    pub records: Records,
    /// What they cannot say.
    pub patch: &'m Patch,
    /// Every layout is documented.
    pub authentic: bool,
}

/// Places of the memory operands, inputs then outputs; `None` for immediates.
type Places = SmallVec<[Option<Start>; 4]>;

/// Instructions whose records hang on more than their shape: branches (displacement), swaps (the partner's tile), barriers and
/// tokens (tables), register instructions, and the first records that may merge with what stands before them.
fn excluded(i: &Inst) -> bool {
    matches!(
        i.opcode,
        Opcode::GpsimdSb2Sb
            | Opcode::CompareAndBranch
            | Opcode::UnconditionalBranch
            | Opcode::CoreBarrier
            | Opcode::TensorCompletion
            | Opcode::EventSemaphore
            | Opcode::DevicePrint
            | Opcode::TensorLoad
            | Opcode::TensorSave
            | Opcode::CollectiveCompute
    ) || i.opcode.is_dma()
        || i.outs.is_empty()
        || !i.indirection_ins().is_empty()
}

/// Places of all operands; `None` when an operand is neither a fixed tile on chip nor an immediate.
fn places(i: &Inst, place: &dyn Fn(&AccessPattern) -> Option<Start>) -> Option<Places> {
    let mut out = Places::new();
    for o in i.ins.iter().chain(&i.outs) {
        out.push(match o {
            Operand::Ap(a) if a.dynamic.is_none() => Some(place(a)?),
            Operand::Imm(_) => None,
            Operand::Ap(_) | Operand::Reg(_) | Operand::Other(_) => return None,
        });
    }
    Some(out)
}

fn hash(i: &Inst, at: &Places) -> u64 {
    let mut h = FxHasher::default();
    (i.opcode as u16).hash(&mut h);
    for (o, p) in i.ins.iter().chain(&i.outs).zip(at) {
        if let (Operand::Ap(a), Some(p)) = (o, p) {
            (a.dtype as u8, p.partition, a.pairs.len()).hash(&mut h);
            a.pairs.iter().skip(1).for_each(|p| p.hash(&mut h));
        }
    }
    h.finish()
}

impl Part {
    fn of(o: &Operand, at: Option<Start>) -> Option<Part> {
        Some(match (o, at) {
            (Operand::Ap(a), Some(p)) => Part::Tile(Tile {
                mem: p.mem,
                partition: p.partition,
                dtype: a.dtype,
                parts: a.num_partitions(),
                free: a.pairs.get(1..)?.into(),
            }),
            (Operand::Imm(i), None) => Part::Imm(*i),
            _ => return None,
        })
    }
    fn is(&self, o: &Operand, at: Option<Start>) -> bool {
        match (self, o, at) {
            (Part::Tile(t), Operand::Ap(a), Some(p)) => {
                t.mem == p.mem
                    && t.partition == p.partition
                    && t.dtype == a.dtype
                    && t.parts == a.num_partitions()
                    && a.pairs.get(1..) == Some(t.free.as_slice())
            }
            (Part::Imm(i), Operand::Imm(j), None) => i == j,
            _ => false,
        }
    }
}

/// The address words of a field, as `(offset, slot, mark)`; `None` when its bytes hang on an address in another way, or on something
/// outside the instruction.
fn sites(f: &Field) -> Option<SmallVec<[(u8, Slot, u32); 2]>> {
    let one = |off: u8, s: Slot, mark: u32| Some(SmallVec::from_slice(&[(off, s, mark)]));
    match f.kind {
        Kind::Tensor(s, ..) | Kind::Pointer(s) | Kind::ImmValue(s) => one(f.off, s, 0),
        Kind::Const(_)
        | Kind::Dtype(_)
        | Kind::DtypeLow(_)
        | Kind::DtypeHigh(_)
        | Kind::Channels(_)
        | Kind::Channels32(_)
        | Kind::Elems(_)
        | Kind::Alu(_)
        | Kind::Enum(..)
        | Kind::Int(_)
        | Kind::F32(_)
        | Kind::Flag(..)
        | Kind::ImmSource(_)
        | Kind::BiasSource(_)
        | Kind::Part => Some(SmallVec::new()),
        Kind::Register(_) => None,
        Kind::Special(s) => match s {
            Special::ActScale => one(f.off, Slot::In(2), 0),
            Special::IndexAddress => one(f.off, Slot::In(1), INDIRECT_BIT),
            Special::GatherSource => one(f.off, Slot::In(0), 0),
            Special::MxPattern(d, s) => Some(SmallVec::from_slice(&[(f.off, d, 0), (f.off + 4, s, 0)])),
            // from attributes, counts, dtypes and first partitions, which are part of the shape
            Special::PoolScale
            | Special::CrossScale
            | Special::ActAlpha
            | Special::IotaPattern
            | Special::SelectPattern
            | Special::LaneMap
            | Special::MatmulFlags
            | Special::PeGroups
            | Special::PeTranspose
            | Special::PeDtype(_)
            | Special::PerIndex
            | Special::PeMark
            | Special::MxGroups => Some(SmallVec::new()),
            Special::Target
            | Special::BranchRight
            | Special::AluRight
            | Special::MoveSource
            | Special::SemaphoreGroup
            | Special::TokenVar
            | Special::ScalarAddress(_)
            | Special::ScalarRegister(_)
            | Special::QueueName => None,
        },
    }
}

fn word(p: Start) -> WireResult<u32> {
    match p.mem {
        OnChip::Sbuf => Addr4::Sbuf { partition: p.partition, byte: p.byte },
        OnChip::Psum => Addr4::Psum { partition: p.partition, byte: p.byte },
    }
    .to_wire()
}

/// A word names a place.
fn names(w: u32, p: Start) -> bool {
    match Addr4::from_wire(w) {
        Ok(Addr4::Sbuf { partition, byte }) => p == Start { mem: OnChip::Sbuf, partition, byte },
        Ok(Addr4::Psum { partition, byte }) => p == Start { mem: OnChip::Psum, partition, byte },
        Ok(Addr4::Register(_)) | Err(_) => false,
    }
}

/// Writes waits and updates and reads them back; false when they must go the whole way.
fn sync(records: &mut Records, s: Option<&SyncInfo>) -> bool {
    let Some(s) = s else { return true };
    if s.on_update.iter().any(|u| u.target_core.is_some()) {
        return false;
    }
    let n = records.len();
    let wrote = records.first_mut().is_some_and(|b| events::put_wait(b, &s.on_wait).is_ok())
        && records.last_mut().is_some_and(|b| events::put_update(b, &s.on_update).is_ok());
    let wait = s.on_wait.first().map(|w| (w.sem, w.value));
    let update = s.on_update.first().map(|u| (u.sem, u.value));
    let says = |b: Option<&Bundle>, want| b.and_then(|b| events::says(b).ok()) == Some(want);
    wrote
        && if n == 1 {
            says(records.first(), (wait, update))
        } else {
            says(records.first(), (wait, None)) && says(records.last(), (None, update))
        }
}

impl Memo {
    /// The records of an instruction whose shape was verified before, with its own addresses and sync region. `None`: it must
    /// go the whole way, which also finds what is wrong with it.
    pub(crate) fn find(
        &mut self,
        i: &Inst,
        engine: EngineKind,
        place: &dyn Fn(&AccessPattern) -> Option<Start>,
        geo: &Geometry,
    ) -> Option<Found<'_>> {
        if excluded(i) || !self.watch.look() {
            return None;
        }
        let at = places(i, place)?;
        let e = self.shapes.get(&hash(i, &at))?.iter().find(|e| {
            e.opcode == i.opcode
                && e.engine == engine
                && e.ins == i.ins.len()
                && e.parts.len() == at.len()
                && e.parts.iter().zip(i.ins.iter().chain(&i.outs)).zip(&at).all(|((p, o), at)| p.is(o, *at))
                && e.attrs == i.attrs
        })?;
        let mut records = e.records.clone();
        for s in &e.sites {
            let p = (*at.get(usize::from(s.operand))?)?;
            let w = word(p).ok()?;
            if !names(w, p) {
                return None;
            }
            records.get_mut(usize::from(s.record))?.put(s.off, 4, u64::from(w | s.mark));
        }
        if !sync(&mut records, codec::sync_of(i)) {
            return None;
        }
        for (f, b) in e.group.forms.iter().zip(&records) {
            validate::validate_form(b, f, engine, geo.spec).ok()?;
        }
        self.watch.found += 1;
        Some(Found { records, patch: &e.patch, authentic: e.authentic })
    }

    /// Keeps an instruction that went the whole way.
    pub(crate) fn keep(
        &mut self,
        i: &Inst,
        engine: EngineKind,
        place: &dyn Fn(&AccessPattern) -> Option<Start>,
        encoded: &super::Encoded,
    ) {
        let Some(group) = encoded.group else { return };
        if self.watch.rest > 0 || self.kept >= MAX_SHAPES || excluded(i) {
            return;
        }
        let Some(at) = places(i, place) else { return };
        let hash = hash(i, &at);
        if self.once.insert(hash) {
            return;
        }
        let alike = self.shapes.entry(hash).or_default();
        if alike.len() < MAX_ALIKE
            && let Some(entry) = entry(i, engine, &at, encoded, group)
        {
            alike.push(entry);
            self.kept += 1;
        }
    }
}

fn entry(
    i: &Inst,
    engine: EngineKind,
    at: &Places,
    encoded: &super::Encoded,
    group: &'static Group,
) -> Option<Entry> {
    let parts = i.ins.iter().chain(&i.outs).zip(at).map(|(o, p)| Part::of(o, *p)).collect::<Option<_>>()?;
    let mut list: SmallVec<[Site; 6]> = SmallVec::new();
    for (r, form) in group.forms.iter().enumerate() {
        for f in form.fields {
            for (off, slot, mark) in sites(f)? {
                let operand = match slot {
                    Slot::In(k) if usize::from(k) < i.ins.len() => usize::from(k),
                    Slot::Out(k) if usize::from(k) < i.outs.len() => i.ins.len() + usize::from(k),
                    // an operand that is not there has no address
                    Slot::In(_) | Slot::Out(_) => continue,
                };
                let Some(p) = *at.get(operand)? else { continue };
                // the whole way wrote this operand's address here
                if encoded.records.get(r)?.get(off, 4) != u64::from(word(p).ok()? | mark) {
                    return None;
                }
                list.push(Site { record: r as u8, off, operand: operand as u8, mark });
            }
        }
    }
    let mut records = encoded.records.clone();
    records.iter_mut().for_each(|b| b.put(4, 8, 0));
    Some(Entry {
        opcode: i.opcode,
        engine,
        attrs: i.attrs.clone(),
        ins: i.ins.len(),
        parts,
        group,
        records,
        sites: list,
        patch: encoded.patch.clone(),
        authentic: encoded.authentic,
    })
}
