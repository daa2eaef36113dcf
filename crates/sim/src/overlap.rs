//! Overlapping live allocations: bytes of one tensor destroyed by another that was placed over it.
//!
//! **Definition.** A location is an allocation of its own, unless one names the other as an alias. Two locations of one core's SBUF or
//! PSUM, placed on common bytes, are both live when a byte was written under the name of the first, then written under the
//! name of the second, and is then read under the name of the first without having been written under it again. The read is
//! a finding (S0023) with the read and the write that destroyed the byte.
//!
//! **One tensor with two names.** A byte that the first name never wrote belongs to nobody: reading it under that name while it
//! holds what the second name wrote is how a view is used. A pair of names of which a run shows this counts as one tensor, and
//! nothing is reported about it, whatever comes first.
//!
//! **What is followed.** Only locations that overlap another one on the same core and neither of which names the other as
//! an alias; where the code of a core has no loops and no branches, only those whose uses are interleaved in program order, another
//! core's uses among them, which the barriers that all cores meet at place there ([`lives`]).
//! Remote aliases count as the location of the owner. A finding whose read or write takes part in a data race is left out: the
//! race is the cause.
//! Operands that linking made an address in a register name the whole memory and are not followed, nor are those of bundles
//! whose debug table does not name their tensors.
//!
//! **May miss**: uses on paths not taken; DRAM; tensors for whose states there is no room (S0027); a pair of tensors of which one
//! also reads, as its own, bytes that only the other wrote (padding that is carried along); bytes of a predicated write that the
//! predicate leaves out. **Reports falsely** in one case: two names are meant as one tensor, no alias says so, and each name reads only bytes that it has written itself, so that the run shows
//! no use as a view. From outside that program cannot be told from one with two tensors.

mod lives;

use crate::exec::Arg;
use crate::machine::{Core, Machine};
use crate::memory::View;
use crate::place::{Names, owner};
use crate::race::Role;
use lives::{Told, lives, remote_of, told};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{ArchSpec, InstId, MemoryType, Module, Operand};

/// Byte never written under the name, and byte last written under it; larger values name the write that destroyed it, the first one
/// after the last write under the name.
const NEVER: u32 = 0;
const OWN: u32 = 1;
const FIRST_KILLER: u32 = 2;

/// A tensor by what an instruction calls it: a location of its module, or (with [`NAMED`]) a tensor of the debug table.
type Key = u32;
/// Bit of a tensor of the debug table.
const NAMED: Key = 1 << 31;

/// A followed location.
struct Followed {
    name: String,
    /// Partitions of its buffer are this far apart.
    pitch: usize,
    /// First partition and byte inside the partition; extents.
    part: usize,
    col: usize,
    rows: usize,
    cols: usize,
    /// One entry per byte.
    state: Vec<u32>,
    /// Bytes last written under the name.
    own: usize,
    /// Other followed locations on common bytes.
    others: Vec<usize>,
}

/// A tensor that may be followed.
struct Candidate<'p> {
    buf: usize,
    pitch: usize,
    part: usize,
    col: usize,
    rows: usize,
    cols: usize,
    key: Key,
    name: &'p str,
    /// Names of tensors on the same bytes on purpose.
    aliases: Vec<&'p str>,
}

/// Everything that is followed.
pub(crate) struct Overlap {
    list: Vec<Followed>,
    /// By core and tensor as an instruction names it.
    at: FxHashMap<(usize, Key), usize>,
    /// Writes that destroyed something: core, instruction, location.
    killers: Vec<(usize, InstId, usize)>,
    killer_of: FxHashMap<(usize, InstId, usize), u32>,
    /// Pairs of names that are used as one tensor, the smaller index first.
    views: FxHashSet<(usize, usize)>,
    /// Findings with their pairs.
    found: Vec<((usize, usize), Diagnostic)>,
    /// Bytes that the states of followed locations may still take.
    room: u64,
    /// Locations left out for lack of it.
    left_out: FxHashSet<(usize, Key)>,
}

/// Part of the memory limit that states may take (our choice).
const PART: u64 = 4;

/// The tensors of a core that have a place on chip.
fn candidates<'p>(core: &Core<'p>, told: Option<&Told<'_>>, arch: &ArchSpec) -> Vec<Candidate<'p>> {
    let mut out = Vec::new();
    let m = core.module;
    for (l, loc) in m.memlocs.iter() {
        if loc.is_on_chip()
            && loc.allocated
            && !loc.is_remote()
            && !is_whole_memory(loc)
            && !told.is_some_and(|t| t.contains_key(loc.name.as_str()))
            && let Some(p) = core.places[l.index()]
            && let Some(pitch) = p.pitch.filter(|p| *p > 0)
        {
            out.push(Candidate {
                buf: p.buf.index(),
                pitch,
                part: p.base / pitch,
                col: p.base % pitch,
                rows: loc.rows() as usize,
                cols: (loc.row_bytes() as usize).min(pitch),
                key: l.as_u32(),
                name: loc.name.as_str(),
                aliases: loc.aliases.iter().flat_map(|(s, l, _)| [s.as_str(), l.as_str()]).collect(),
            });
        }
    }
    // Bundles know whole memories only; the debug table knows what lies where.
    let whole = |mem: MemoryType| {
        m.memlocs
            .iter()
            .filter(|(_, l)| l.mem == mem && is_whole_memory(l))
            .find_map(|(l, _)| core.places[l.index()])
            .and_then(|p| Some((p.buf.index(), p.pitch.filter(|p| *p > 0)?)))
    };
    for (k, t) in core.debug.iter().flat_map(|d| d.tensors.iter().enumerate()) {
        let Some((buf, pitch)) = whole(t.mem) else { continue };
        let bank = if t.mem == MemoryType::Psum { t.bank.unsigned_abs() * arch.psum_bank_bytes } else { 0 };
        let (col, part) = (bank.saturating_add(t.addr) as usize, t.base as usize);
        let rows = (t.rows as usize).min(arch.partitions as usize);
        if col < pitch && t.row_bytes > 0 {
            out.push(Candidate {
                buf,
                pitch,
                part,
                col,
                rows,
                cols: (t.row_bytes as usize).min(pitch - col),
                key: k as u32 | NAMED,
                name: t.name.as_str(),
                aliases: t.aliases.iter().map(|a| a.as_str()).collect(),
            });
        }
    }
    // By the first byte, so that only neighbours are compared.
    out.sort_by_key(|c| (c.buf, c.col, c.key));
    out
}

/// The location that stands for a whole on-chip memory: run-time addresses and bundles name no tensor.
fn is_whole_memory(l: &tandem_bir::MemoryLocation) -> bool {
    l.name.starts_with('%')
}

impl Overlap {
    /// Finds the locations to follow; `None` when there are none.
    pub(crate) fn new(
        modules: &[&Module],
        names: &[Names<'_>],
        cores: &[Core<'_>],
        lnc: usize,
        arch: &ArchSpec,
        memory_limit: u64,
    ) -> Option<Overlap> {
        let mut o = Overlap {
            list: Vec::new(),
            at: FxHashMap::default(),
            killers: Vec::new(),
            killer_of: FxHashMap::default(),
            views: FxHashSet::default(),
            found: Vec::new(),
            room: memory_limit / PART,
            left_out: FxHashSet::default(),
        };
        let told: Vec<Option<Told<'_>>> = cores.iter().map(told).collect();
        let mut lives_of = None;
        for (g, core) in cores.iter().enumerate() {
            let placed = candidates(core, told[g].as_ref(), arch);
            for (k, x) in placed.iter().enumerate() {
                for y in &placed[k + 1..] {
                    if y.buf != x.buf || y.col >= x.col + x.cols {
                        break;
                    }
                    let all = lives_of.get_or_insert_with(|| lives(modules, names, cores, &told, lnc));
                    if let Some(u) = &all[g] {
                        let (Some(a), Some(b)) = (u.get(&x.key), u.get(&y.key)) else { continue };
                        if a.1 < b.0 || b.1 < a.0 {
                            continue;
                        }
                    }
                    if x.aliases.contains(&y.name) || y.aliases.contains(&x.name) {
                        continue;
                    }
                    let (Some(i), Some(j)) = (o.follow(g, x), o.follow(g, y)) else { continue };
                    if x.part < y.part + y.rows && y.part < x.part + x.rows {
                        o.list[i].others.push(j);
                        o.list[j].others.push(i);
                    }
                }
            }
        }
        if o.list.is_empty() && o.left_out.is_empty() {
            return None;
        }
        for (g, core) in cores.iter().enumerate() {
            // A location that other cores use is the tensor of its name.
            let Some(told) = &told[g] else { continue };
            for (l, loc) in core.module.memlocs.iter().filter(|(_, l)| l.is_on_chip()) {
                if let Some(&k) = told.get(loc.name.as_str()).and_then(|t| o.at.get(&(g, t | NAMED))) {
                    o.at.insert((g, l.as_u32()), k);
                }
            }
        }
        for (g, core) in cores.iter().enumerate() {
            let (r, c) = (g / lnc, g % lnc);
            for l in remote_of(core.module) {
                if let Ok((oc, ol)) = owner(modules, names, c, l)
                    && let Some(&k) = o.at.get(&(r * lnc + oc, ol.as_u32()))
                {
                    o.at.insert((g, l.as_u32()), k);
                }
            }
        }
        Some(o)
    }

    /// Bytes that a name never wrote are read under it: with every name that has written one of them it is one tensor.
    fn as_view(&mut self, k: usize, v: &View, pitch: usize) {
        let mine = &self.list[k];
        let hull = Hull::of(v, pitch);
        for other in mine.others.iter().copied().filter(|o| hull.meets(&self.list[*o])) {
            let pair = (k.min(other), k.max(other));
            if self.views.contains(&pair) {
                continue;
            }
            let theirs = &self.list[other];
            let mut is = false;
            v.for_each_run(|at, len| {
                // The part of the run that both names cover.
                let (part, col) = (at / pitch, at % pitch);
                let (lo, hi) = (col.max(theirs.col), (col + len).min(theirs.col + theirs.cols));
                let at = part * pitch + lo;
                let len = hi.saturating_sub(lo);
                let (Some(a), Some(b)) = (theirs.range(at, len, pitch), mine.range(at, len, pitch)) else {
                    return;
                };
                let from = mine.col.saturating_sub(lo);
                let pairs = mine.state[b].iter().zip(theirs.state[a].iter().skip(from));
                is |= pairs.into_iter().any(|(m, t)| *m == NEVER && *t == OWN);
            });
            if is {
                self.views.insert(pair);
            }
        }
    }

    /// Number of followed locations.
    #[cfg(test)]
    pub(crate) fn followed(&self) -> usize {
        self.list.len()
    }

    /// Follows a location; `None` when there is no room for its state.
    fn follow(&mut self, g: usize, x: &Candidate<'_>) -> Option<usize> {
        if let Some(&k) = self.at.get(&(g, x.key)) {
            return Some(k);
        }
        let state = x.rows.saturating_mul(x.cols);
        let Some(room) = self.room.checked_sub((state as u64).saturating_mul(size_of::<u32>() as u64)) else {
            self.left_out.insert((g, x.key));
            return None;
        };
        self.room = room;
        self.list.push(Followed {
            name: x.name.to_owned(),
            pitch: x.pitch,
            part: x.part,
            col: x.col,
            rows: x.rows,
            cols: x.cols,
            state: vec![NEVER; state],
            own: 0,
            others: Vec::new(),
        });
        self.at.insert((g, x.key), self.list.len() - 1);
        Some(self.list.len() - 1)
    }
}

impl Followed {
    /// Part of the entries that a run of bytes of the buffer covers.
    fn range(&self, at: usize, len: usize, pitch: usize) -> Option<Range<usize>> {
        let (part, col) = (at / pitch, at % pitch);
        let row = part.checked_sub(self.part).filter(|r| *r < self.rows)?;
        let lo = col.max(self.col);
        let hi = (col + len).min(self.col + self.cols);
        (lo < hi).then(|| row * self.cols + lo - self.col..row * self.cols + hi - self.col)
    }
}

/// Partitions and bytes inside a partition between which all bytes of a view lie.
struct Hull {
    parts: Range<usize>,
    cols: Range<usize>,
}

impl Hull {
    fn of(v: &View, pitch: usize) -> Hull {
        let part = v.base / pitch;
        match v.dims.first().zip(v.columns(pitch)) {
            Some((d, cols)) if d.stride == pitch as isize => Hull { parts: part..part + d.num, cols },
            // A pattern that crosses partitions: anything.
            _ => Hull { parts: 0..usize::MAX, cols: 0..usize::MAX },
        }
    }

    fn meets(&self, f: &Followed) -> bool {
        self.parts.start < f.part + f.rows
            && f.part < self.parts.end
            && self.cols.start < f.col + f.cols
            && f.col < self.cols.end
    }
}

impl Machine<'_> {
    /// Follows the accesses of an instruction; `lists` as for [`Machine::touch`].
    pub(crate) fn overlapping(&mut self, c: usize, id: InstId, lists: u8) {
        let Some(o) = &mut self.overlap else { return };
        let core = &self.cores[c];
        let inst = &core.module.insts[id];
        let d = &core.code.decoded[id.index()];
        let mut hit: Option<(usize, u32, usize)> = None;
        let mem = &self.mem;
        type Views = SmallVec<[View; 1]>;
        let followed = |ap: &Operand, a: &Arg, role: Role, o: &Overlap| -> Option<(usize, Views)> {
            let named = core.debug_tensor(id, role).map(|k| k | NAMED);
            let key = named.or_else(|| Some(ap.as_ap()?.loc.as_u32()))?;
            let k = *o.at.get(&(c, key))?;
            match a {
                Arg::View(v) => Some((k, SmallVec::from_iter([v.clone()]))),
                Arg::Indexed(x) => Some((k, crate::effects::rows(mem, d, x).into())),
                Arg::Imm(_) | Arg::Reg(_) => None,
            }
        };
        for (bit, args, ops) in
            [(0u8, &d.ins[..], &inst.ins[..]), (2, &d.indirect[..], inst.indirection_ins())]
        {
            if lists & (1 << bit) == 0 {
                continue;
            }
            for (n, (a, op)) in args.iter().zip(ops).enumerate() {
                let role = Role { index: n as u8, list: bit };
                let Some((k, views)) = followed(op, a, role, o) else { continue };
                for v in &views {
                    let Some(pitch) = mem.info(v.buf).pitch.filter(|p| *p > 0) else { continue };
                    let mut nobodys = false;
                    v.for_each_run(|at, len| {
                        let Some(r) = o.list[k].range(at, len, pitch) else { return };
                        for s in &o.list[k].state[r] {
                            nobodys |= *s == NEVER;
                            if hit.is_none() && *s >= FIRST_KILLER {
                                hit = Some((k, *s, at));
                            }
                        }
                    });
                    if nobodys {
                        o.as_view(k, v, pitch);
                    }
                }
            }
        }
        if lists & 2 != 0 {
            for (n, (a, op)) in d.outs.iter().zip(&inst.outs).enumerate() {
                let role = Role { index: n as u8, list: 1 };
                let Some((k, views)) = followed(op, a, role, o) else { continue };
                let next = o.killers.len() as u32 + FIRST_KILLER;
                let killer = *o.killer_of.entry((c, id, k)).or_insert(next);
                if killer == next {
                    o.killers.push((c, id, k));
                }
                for v in &views {
                    let Some(pitch) = mem.info(v.buf).pitch.filter(|p| *p > 0) else { continue };
                    v.for_each_run(|at, len| {
                        let f = &mut o.list[k];
                        if let Some(r) = f.range(at, len, pitch) {
                            let mut new = 0;
                            for s in &mut f.state[r] {
                                new += usize::from(*s != OWN);
                                *s = OWN;
                            }
                            f.own += new;
                        }
                    });
                    let hull = Hull::of(v, pitch);
                    for n in 0..o.list[k].others.len() {
                        let other = o.list[k].others[n];
                        let f = &mut o.list[other];
                        if f.own == 0 || !hull.meets(f) {
                            continue;
                        }
                        v.for_each_run(|at, len| {
                            if let Some(r) = f.range(at, len, pitch) {
                                let mut gone = 0;
                                for s in &mut f.state[r] {
                                    let own = *s == OWN;
                                    gone += usize::from(own);
                                    *s = if own { killer } else { *s };
                                }
                                f.own -= gone;
                            }
                        });
                    }
                }
            }
        }
        let Some((k, killer, at)) = hit else { return };
        let (kc, ki, kl) = o.killers[(killer - FIRST_KILLER) as usize];
        let (mine, theirs) = (o.list[k].name.clone(), o.list[kl].name.clone());
        let part = at / o.list[k].pitch.max(1);
        if !self.noted.insert((c, id, "S0023")) {
            return;
        }
        let text =
            format!("`{mine}` is read, but `{theirs}`, which lies on the same bytes, was written over it");
        let d = Diagnostic::new(codes::S0023, text)
            .site(self.site(c, id).label(format!("reads `{mine}` in partition {part}")))
            .site(self.site(kc, ki).label(format!("writes `{theirs}` over it")))
            .note("both tensors are live between the two places, and their placements overlap")
            .help("place one of them elsewhere; if they are one tensor, give it one name and two patterns");
        if let Some(o) = &mut self.overlap {
            o.found.push(((k.min(kl), k.max(kl)), d));
        }
    }

    /// Reports what was found, but for names that are used as one tensor.
    pub(crate) fn overlap_findings(&mut self) {
        let Some(o) = &mut self.overlap else { return };
        if !o.left_out.is_empty() {
            let n = o.left_out.len();
            let tensors =
                if n == 1 { "one tensor that lies".to_owned() } else { format!("{n} tensors that lie") };
            let text = format!("{tensors} on bytes of others are not followed");
            self.diagnostics.push(
                Diagnostic::new(codes::S0027, text)
                    .note(format!("states of {} others take the room there is", o.list.len())),
            );
        }
        let found = std::mem::take(&mut o.found);
        let real = found.into_iter().filter(|(pair, _)| !o.views.contains(pair)).map(|(_, d)| d);
        self.diagnostics.extend(real);
    }
}
