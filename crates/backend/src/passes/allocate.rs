//! `allocate`: gives every SB, PSUM and private DRAM location without an address one.
//!
//! First fit per memory with a lifetime of the whole kernel. Locations of the same function and name get the same address on
//! all cores; addresses that the input gives are kept and avoided. On-chip tensors start at partition 0 if they can. Remote aliases
//! and shared DRAM are left to later passes.
//!
//! Where the tensors of SBUF or PSUM do not fit in this way, tensors that are never alive together share bytes: the largest
//! tensors first, each at the lowest address that is free while it is alive on every core that has it. What *alive* means, and what
//! sharing may hide, says [`super::lifetimes`]. Where that is not enough in any order of placement ([`super::by_life`]), tensors of few
//! partitions lie one below the other ([`super::seats`]); where that is not enough, instructions move ([`super::make_room`]); and where
//! that is not enough either, tensors leave SBUF for a while ([`super::spill`]).

use super::by_life::{Spot, by_life};
use super::free_list::FreeList;
use super::make_room::{Budget, MakeRoom};
use super::spill;
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use std::ops::Range;
use tandem_bir::arch::ArchSpec;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{AddressSpace, CompactString, InstId, MemLocId, MemoryType, Program, Storage};

/// The pass.
#[derive(Debug)]
pub struct Allocate;

static INFO: PassInfo = PassInfo {
    name: "allocate",
    summary: "places SB, PSUM and private DRAM tensors that have no address",
    requires: &[],
    ensures: &[Fact::OnChipPlaced],
    breaks: &[],
    options: &["arch"],
    stats: &["placed", "moved", "spilled", "sbuf_bytes_used", "psum_bytes_used", "dram_bytes_used"],
};

/// Alignment of on-chip addresses in bytes (our choice).
pub const ON_CHIP_ALIGN: u64 = 64;
/// Alignment where tensors do not fit with [`ON_CHIP_ALIGN`] (our choice: the size of the largest element).
const TIGHT_ALIGN: u64 = 8;
/// Alignment of DRAM addresses in bytes (our choice).
pub const DRAM_ALIGN: u64 = 64;
/// Most tensors that a finding names (our choice).
const MAX_NAMED: usize = 24;

impl Pass for Allocate {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let lnc = p.lnc_size.max(1) as usize;
        let mut failed = false;
        for group in 0..p.modules.len().div_ceil(lnc) {
            let range = group * lnc..((group + 1) * lnc).min(p.modules.len());
            failed |= allocate_group(p, range, cx).is_err();
        }
        if failed { Err(Stop) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Sb,
    Psum,
    Dram,
}

const MEMORIES: [Memory; 3] = [Memory::Sb, Memory::Psum, Memory::Dram];

/// Tensors by function and name.
pub(super) type Wants = IndexMap<(CompactString, CompactString), Want>;

/// What a tensor needs.
#[derive(Default)]
pub(super) struct Want {
    pub(super) bytes: u64,
    pub(super) partitions: u64,
    pub(super) fixed: Option<u64>,
    /// Its locations without an address: module, location.
    pub(super) users: Vec<(usize, MemLocId)>,
    /// Locations of the name that have an address: module, location, first byte.
    pub(super) placed: Vec<(usize, MemLocId, u64)>,
}

/// The memory to place in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) limit: u64,
    pub(super) align: u64,
    /// Size of the banks no tensor crosses; 0 for none.
    pub(super) wall: u64,
}

/// Shares of the memory to aim at when instructions move, in sixteenths (our choice): what is alive at one time may fit and
/// still not be placed.
const SHARES: [u64; 4] = [16, 15, 14, 12];

fn allocate_group(p: &mut Program, range: Range<usize>, cx: &mut PassCtx) -> Result<(), Stop> {
    let Some(spec) = p.modules.get(range.start).and_then(|m| m.arch.spec()) else {
        let arch = p.arch();
        return Err(cx.fail(Diagnostic::new(codes::L0002, format!("no hardware model for {arch}"))));
    };
    let mut wants = needs(p, &range, spec).map_err(|d| cx.fail(d))?;
    let mut found = [0, 1].map(|k| find(p, &range, MEMORIES[k], &wants[k], spec));
    if found.iter().any(Result::is_err)
        && cx.pass() == INFO.name
        && let Some((made, w, f)) = rearrange(p, &range, spec, [found[0].is_ok(), found[1].is_ok()], cx)
    {
        (*p, wants, found) = (made, w, f.map(Ok));
    }
    let [sb, psum] = found;
    let mut failed = false;
    for (k, found) in [sb, psum, find(p, &range, Memory::Dram, &wants[2], spec)].into_iter().enumerate() {
        match found {
            Ok((at, end)) => commit(p, MEMORIES[k], &wants[k], at, end, spec, cx),
            Err(d) => {
                cx.report(d);
                failed = true;
            }
        }
    }
    if failed { Err(Stop) } else { Ok(()) }
}

/// Where tensors lie and the end of the bytes used.
type Found = (Vec<Spot>, u64);

/// The program in an order, or with copies of tensors, that lets SBUF and PSUM hold its tensors; moves first, copies where moves
/// do not help. `ok` are the memories that hold them already.
fn rearrange(
    p: &Program,
    range: &Range<usize>,
    spec: &ArchSpec,
    ok: [bool; 2],
    cx: &mut PassCtx,
) -> Option<(Program, [Wants; 3], [Found; 2])> {
    let mut room = MakeRoom::new(p, range.clone());
    for may_spill in [false, true] {
        for share in SHARES {
            let part = |limit: u64, ok: bool| if ok { limit } else { limit / 16 * share };
            let budget = Budget {
                sbuf: part(spec.sbuf_usable, ok[0]),
                psum: part(spec.psum_bytes, ok[1]),
                align: ON_CHIP_ALIGN,
            };
            let Some(plan) = room.plan(budget, may_spill) else { break };
            let mut made = p.clone();
            for (mi, b, insts) in &plan.orders {
                made.modules[*mi].blocks[*b].insts.clone_from(insts);
            }
            if !may_spill {
                room.take(&plan.orders);
            }
            let derive = |p: &mut Program, loc| cx.derive(p, loc);
            let traffic = spill::apply(&mut made, range.clone(), &plan.spills, &room.written, &derive);
            let Ok(wants) = needs(&made, range, spec) else { continue };
            let found = [0, 1].map(|k| find(&made, range, MEMORIES[k], &wants[k], spec));
            let [Ok(sb), Ok(psum)] = found else { continue };
            let moved: u64 = p.modules[range.clone()]
                .iter()
                .zip(&made.modules[range.clone()])
                .flat_map(|(old, new)| old.blocks.iter().map(|(b, x)| moved(&x.insts, &new.blocks[b].insts)))
                .sum();
            if moved > 0 {
                let text = "in the order given more is alive at one time than fits";
                cx.note(codes::L0004, format!("{moved} instructions moved: {text}"));
            }
            cx.count("moved", moved);
            if traffic.tensors > 0 {
                let names = traffic.names.iter().map(|(n, b)| (n.as_str(), *b)).collect();
                let list = largest(names, "bytes of transfers");
                cx.report(Diagnostic::new(codes::L0005, traffic.to_string()).note(list));
            }
            cx.count("spilled", traffic.tensors);
            return Some((made, wants, [sb, psum]));
        }
    }
    None
}

/// The fewest instructions of a block that must move to give the new order, which may have others between them.
fn moved(old: &[InstId], new: &[InstId]) -> u64 {
    let at: FxHashMap<InstId, usize> = old.iter().enumerate().map(|(k, i)| (*i, k)).collect();
    // The others are the longest sequence that keeps its order: ends of the sequences of each length.
    let mut ends: Vec<usize> = Vec::new();
    for k in new.iter().filter_map(|i| at.get(i)) {
        let n = ends.partition_point(|e| e < k);
        match ends.get_mut(n) {
            Some(e) => *e = *k,
            None => ends.push(*k),
        }
    }
    (old.len() - ends.len()) as u64
}

/// The tensors of all memories and what they need.
fn needs(p: &Program, range: &Range<usize>, spec: &ArchSpec) -> Result<[Wants; 3], Diagnostic> {
    let [sb, psum, dram] = MEMORIES.map(|mem| wanted(p, range, mem, spec));
    Ok([sb?, psum?, dram?])
}

/// The tensors of one memory and what they need.
fn wanted(p: &Program, range: &Range<usize>, mem: Memory, spec: &ArchSpec) -> Result<Wants, Diagnostic> {
    let mut wants = Wants::new();
    for mi in range.clone() {
        let m = &p.modules[mi];
        for f in m.all_functions() {
            for s in &m.funcs[f].storages {
                let Storage::Set(set) = s else { continue };
                let shared = m.sets[*set].addr_space == AddressSpace::Shared;
                for &l in &m.sets[*set].locs {
                    let loc = &m.memlocs[l];
                    let here = match (loc.mem, mem) {
                        (MemoryType::Sb, Memory::Sb) | (MemoryType::Psum, Memory::Psum) => true,
                        (MemoryType::Dram | MemoryType::Input | MemoryType::Output, Memory::Dram) => !shared,
                        (
                            MemoryType::Unallocated
                            | MemoryType::Input
                            | MemoryType::Output
                            | MemoryType::Dram
                            | MemoryType::Sb
                            | MemoryType::Psum
                            | MemoryType::RngState
                            | MemoryType::Reg,
                            Memory::Sb | Memory::Psum | Memory::Dram,
                        ) => false,
                    };
                    if !here || loc.is_remote() {
                        continue;
                    }
                    let bytes = if mem == Memory::Dram { loc.size_bytes() } else { loc.row_bytes() };
                    let w = wants.entry((m.funcs[f].name.clone(), loc.name.clone())).or_default();
                    if loc.allocated {
                        let bank = if mem == Memory::Psum {
                            loc.bank.unsigned_abs().saturating_mul(spec.psum_bank_bytes)
                        } else {
                            0
                        };
                        let at = loc.addr.saturating_add(bank);
                        w.fixed.get_or_insert(at);
                        w.placed.push((mi, l, at));
                    } else {
                        w.users.push((mi, l));
                    }
                    w.bytes = w.bytes.max(bytes);
                    w.partitions = w.partitions.max(if mem == Memory::Dram { 1 } else { loc.rows() });
                }
            }
        }
    }
    if let Some(((_, name), w)) =
        wants.iter().find(|(_, w)| !w.users.is_empty() && w.partitions > spec.partitions)
    {
        let d = Diagnostic::new(
            codes::L0003,
            format!("tensor {name} has {} partitions, the memory has {}", w.partitions, spec.partitions),
        );
        return Err(d);
    }
    Ok(wants)
}

/// Addresses of the tensors and the end of the bytes used.
fn find(
    p: &Program,
    range: &Range<usize>,
    mem: Memory,
    wants: &Wants,
    spec: &ArchSpec,
) -> Result<Found, Diagnostic> {
    let room = match mem {
        Memory::Sb => Room { limit: spec.sbuf_usable, align: ON_CHIP_ALIGN, wall: 0 },
        Memory::Psum => Room { limit: spec.psum_bytes, align: ON_CHIP_ALIGN, wall: spec.psum_bank_bytes },
        Memory::Dram => Room { limit: spec.hbm_bytes, align: DRAM_ALIGN, wall: 0 },
    };
    let error = |k: usize, alive: &[usize]| capacity_error(p, range, mem, room.limit, k, alive, wants);
    let k = match one_by_one(wants, room) {
        Ok((at, end)) => return Ok((at.into_iter().map(|at| (at, 0)).collect(), end)),
        Err(k) => k,
    };
    if mem == Memory::Dram {
        return Err(error(k, &(0..wants.len()).collect::<Vec<_>>()));
    }
    let rooms = [room, Room { align: TIGHT_ALIGN, ..room }];
    by_life(p, range.clone(), wants, rooms, spec.partitions).map_err(|(k, alive)| error(k, &alive))
}

fn commit(
    p: &mut Program,
    mem: Memory,
    wants: &Wants,
    at: Vec<Spot>,
    end: u64,
    spec: &ArchSpec,
    cx: &mut PassCtx,
) {
    let mut placed = 0;
    for ((_, w), (at, seat)) in wants.iter().zip(at) {
        for &(mi, l) in &w.users {
            let loc = &mut p.modules[mi].memlocs[l];
            loc.allocated = true;
            loc.base = seat;
            (loc.addr, loc.bank) = if mem == Memory::Psum {
                (at % spec.psum_bank_bytes, (at / spec.psum_bank_bytes) as i64)
            } else {
                (at, 0)
            };
            placed += 1;
        }
    }
    cx.count("placed", placed);
    let stat = match mem {
        Memory::Sb => "sbuf_bytes_used",
        Memory::Psum => "psum_bytes_used",
        Memory::Dram => "dram_bytes_used",
    };
    cx.count(stat, end);
}

/// Addresses with bytes of its own for every tensor; the first that does not fit is the error.
fn one_by_one(wants: &Wants, room: Room) -> Result<(Vec<u64>, u64), usize> {
    let mut used = FreeList::default();
    for w in wants.values() {
        w.placed.iter().for_each(|x| used.take(x.2, x.2.saturating_add(w.bytes)));
    }
    let mut out = vec![0; wants.len()];
    for (k, w) in wants.values().enumerate().filter(|(_, w)| !w.users.is_empty()) {
        let at = w.fixed.or_else(|| used.first_fit(w.bytes, room.align, room.limit, room.wall)).ok_or(k)?;
        // rounding up keeps the list of used ranges short
        used.take(at, at.saturating_add(rounded(w.bytes, room.align)));
        out[k] = at;
    }
    Ok((out, used.high_water()))
}

pub(super) fn rounded(bytes: u64, align: u64) -> u64 {
    bytes.checked_next_multiple_of(align).unwrap_or(bytes)
}

fn capacity_error(
    p: &Program,
    range: &Range<usize>,
    mem: Memory,
    limit: u64,
    k: usize,
    alive: &[usize],
    wants: &Wants,
) -> Diagnostic {
    let (what, per) = match mem {
        Memory::Sb => ("SBUF", " per partition"),
        Memory::Psum => ("PSUM", " per partition"),
        Memory::Dram => ("DRAM", ""),
    };
    let named = |k: &usize| wants.get_index(*k).map_or(("?", 0), |((_, n), w)| (n.as_str(), w.bytes));
    let (name, bytes) = named(&k);
    let alive: Vec<(&str, u64)> = alive.iter().map(named).collect();
    let total: u64 = alive.iter().fold(0, |a, (_, b)| a.saturating_add(*b));
    let list = largest(alive, &format!("bytes{per}"));
    let core = p.modules.get(range.start).and_then(|m| m.core).unwrap_or(tandem_bir::CoreId(0));
    Diagnostic::new(
        codes::L0003,
        format!(
            "{what} is full: {name} needs {bytes} bytes{per}, the tensors alive with it need {total} of {limit}, itself included"
        ),
    )
    .site(Site::on_core(core))
    .note(format!("alive at some time together with {name}: {list}"))
    .help("make tiles smaller, or shorten the time between the first and the last use of a tensor")
}

/// The largest of some tensors, in words.
fn largest(mut tensors: Vec<(&str, u64)>, unit: &str) -> String {
    tensors.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let more = tensors.len().saturating_sub(MAX_NAMED);
    let mut list: Vec<String> =
        tensors.iter().take(MAX_NAMED).map(|(n, b)| format!("{n} ({b} {unit})")).collect();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list.join(", ")
}

/// Placement check of one location for other passes: its bytes lie below the limit.
pub fn fits(addr: u64, bytes: u64, limit: u64) -> bool {
    addr.checked_add(bytes).is_some_and(|e| e <= limit)
}

#[cfg(test)]
mod tests {
    use super::moved;
    use tandem_bir::InstId;
    use tandem_bir::entity::EntityRef;

    #[test]
    fn the_fewest_that_move() {
        let ids = |n: &[usize]| n.iter().map(|k| InstId::new(*k)).collect::<Vec<_>>();
        let old = ids(&[0, 1, 2, 3, 4, 5]);
        for (new, want) in [
            ([0, 1, 2, 3, 4, 5], 0),
            ([0, 3, 1, 2, 4, 5], 1),
            ([1, 2, 3, 4, 5, 0], 1),
            ([3, 4, 5, 0, 1, 2], 3),
            ([5, 4, 3, 2, 1, 0], 5),
        ] {
            assert_eq!(moved(&old, &ids(&new)), want, "{new:?}");
        }
    }
}
