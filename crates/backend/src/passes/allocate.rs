//! `allocate`: gives every SB, PSUM and private DRAM location without an address one.
//!
//! First fit per memory with a lifetime of the whole kernel. Locations of the same function and name get the same address on
//! all cores; addresses that the input gives are kept and avoided. On-chip tensors start at partition 0. Remote aliases
//! and shared DRAM are left to later passes.
//!
//! Where the tensors of SBUF or PSUM do not fit in this way, tensors that are never alive together share bytes: the largest
//! tensors first, each at the lowest address that is free while it is alive on every core that has it. What *alive* means, and what
//! sharing may hide, says [`super::lifetimes`].

use super::lifetimes::{Life, lifetimes};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{AddressSpace, CompactString, MemLocId, MemoryType, Program, Storage};

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
    stats: &["placed", "sbuf_bytes_used", "psum_bytes_used", "dram_bytes_used"],
};

/// Alignment of on-chip addresses in bytes (our choice).
pub const ON_CHIP_ALIGN: u64 = 64;
/// Alignment of DRAM addresses in bytes (our choice).
pub const DRAM_ALIGN: u64 = 64;
/// Most tensors a capacity error names (our choice).
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
            for mem in [Memory::Sb, Memory::Psum, Memory::Dram] {
                failed |= allocate_memory(p, range.clone(), mem, cx).is_err();
            }
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

/// Where something lies: all on-chip tensors are taken as full columns of partitions.
#[derive(Clone, Debug, Default)]
pub struct FreeList {
    /// Used ranges, start to end, disjoint.
    used: BTreeMap<u64, u64>,
}

impl FreeList {
    /// Marks `[lo, hi)` as used.
    pub fn take(&mut self, mut lo: u64, mut hi: u64) {
        if lo >= hi {
            return;
        }
        while let Some((&l, &h)) = self.used.range(..=hi).next_back() {
            if h < lo {
                break;
            }
            lo = lo.min(l);
            hi = hi.max(h);
            self.used.remove(&l);
        }
        self.used.insert(lo, hi);
    }
    /// Lowest aligned start of `size` free bytes inside `[0, limit)` that crosses no multiple of `wall` (0: none) unless it
    /// starts on one.
    pub fn first_fit(&self, size: u64, align: u64, limit: u64, wall: u64) -> Option<u64> {
        let fit = |start: u64, end: u64| -> Option<u64> {
            let mut at = start.checked_next_multiple_of(align.max(1))?;
            if wall > 0 && !at.is_multiple_of(wall) && at / wall != (at + size.max(1) - 1) / wall {
                at = at.checked_next_multiple_of(wall)?;
            }
            (at.checked_add(size)? <= end).then_some(at)
        };
        let mut start = 0;
        for (&l, &h) in &self.used {
            if l > start
                && let Some(a) = fit(start, l.min(limit))
            {
                return Some(a);
            }
            start = start.max(h);
        }
        fit(start, limit)
    }
    /// Largest used end.
    pub fn high_water(&self) -> u64 {
        self.used.values().next_back().copied().unwrap_or(0)
    }
}

/// Tensors by function and name.
type Wants = IndexMap<(CompactString, CompactString), Want>;

#[derive(Default)]
struct Want {
    bytes: u64,
    partitions: u64,
    fixed: Option<u64>,
    users: Vec<(usize, MemLocId)>,
    /// Locations of the name that have an address: module, location, first byte.
    placed: Vec<(usize, MemLocId, u64)>,
}

fn allocate_memory(
    p: &mut Program,
    range: std::ops::Range<usize>,
    mem: Memory,
    cx: &mut PassCtx,
) -> Result<(), Stop> {
    let Some(spec) = p.modules.get(range.start).and_then(|m| m.arch.spec()) else {
        if mem == Memory::Sb {
            let arch = p.arch();
            return Err(cx.fail(Diagnostic::new(codes::L0002, format!("no hardware model for {arch}"))));
        }
        return Ok(());
    };
    let (limit, align, wall) = match mem {
        Memory::Sb => (spec.sbuf_usable, ON_CHIP_ALIGN, 0),
        Memory::Psum => (spec.psum_bytes, ON_CHIP_ALIGN, spec.psum_bank_bytes),
        Memory::Dram => (spec.hbm_bytes, DRAM_ALIGN, 0),
    };
    let mut wants = Wants::new();
    let mut used = FreeList::default();
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
                        used.take(at, at.saturating_add(bytes));
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
        return Err(cx.fail(d));
    }
    let given = used.clone();
    let at = match one_by_one(&wants, &mut used, align, limit, wall) {
        Ok(at) => at,
        Err(k) if mem == Memory::Dram => {
            let alive: Vec<usize> = (0..wants.len()).collect();
            return Err(cx.fail(capacity_error(p, &range, mem, limit, k, &alive, &wants)));
        }
        Err(_) => {
            used = given;
            match by_life(p, range.clone(), &wants, &mut used, align, limit, wall) {
                Ok(at) => at,
                Err((k, alive)) => {
                    return Err(cx.fail(capacity_error(p, &range, mem, limit, k, &alive, &wants)));
                }
            }
        }
    };
    let mut placed = 0;
    for ((_, w), at) in wants.iter().zip(at) {
        for &(mi, l) in &w.users {
            let loc = &mut p.modules[mi].memlocs[l];
            loc.allocated = true;
            loc.base = 0;
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
    cx.count(stat, used.high_water());
    Ok(())
}

/// Addresses with bytes of its own for every tensor; the first that does not fit is the error.
fn one_by_one(
    wants: &Wants,
    used: &mut FreeList,
    align: u64,
    limit: u64,
    wall: u64,
) -> Result<Vec<u64>, usize> {
    let mut out = vec![0; wants.len()];
    for (k, w) in wants.values().enumerate().filter(|(_, w)| !w.users.is_empty()) {
        let at = w.fixed.or_else(|| used.first_fit(w.bytes, align, limit, wall)).ok_or(k)?;
        // rounding up keeps the list of used ranges short
        used.take(at, at.saturating_add(rounded(w.bytes, align)));
        out[k] = at;
    }
    Ok(out)
}

fn rounded(bytes: u64, align: u64) -> u64 {
    bytes.checked_next_multiple_of(align).unwrap_or(bytes)
}

/// Addresses where tensors that are never alive together may share bytes. The error is the tensor that does not fit, with those
/// that are alive together with it.
fn by_life(
    p: &Program,
    range: std::ops::Range<usize>,
    wants: &Wants,
    used: &mut FreeList,
    align: u64,
    limit: u64,
    wall: u64,
) -> Result<Vec<u64>, (usize, Vec<usize>)> {
    let elsewhere: FxHashSet<CompactString> = p.modules[range.clone()]
        .iter()
        .flat_map(|m| {
            m.memlocs.values().filter_map(|l| l.remote_local_target.as_ref().map(|t| t.name.clone()))
        })
        .collect();
    let lives: Vec<_> = range.clone().map(|mi| lifetimes(&p.modules[mi], &elsewhere)).collect();
    let life = |mi: usize, l: MemLocId| lives[mi - range.start][l];
    // What lies where: first byte, end, lifetimes by module.
    type Taken = (u64, u64, SmallVec<[(usize, Life); 2]>);
    let mut taken: Vec<Taken> = Vec::new();
    for w in wants.values() {
        for &(mi, l, at) in &w.placed {
            taken.push((at, at.saturating_add(w.bytes), SmallVec::from_iter([(mi, life(mi, l))])));
        }
    }
    let mut out = vec![0; wants.len()];
    let mut order: Vec<usize> = (0..wants.len()).filter(|k| !wants[*k].users.is_empty()).collect();
    order.sort_by_key(|k| (wants[*k].fixed.is_none(), std::cmp::Reverse(wants[*k].bytes), *k));
    for k in order {
        let w = &wants[k];
        let mine: SmallVec<[(usize, Life); 2]> = w.users.iter().map(|&(mi, l)| (mi, life(mi, l))).collect();
        let together = |other: &[(usize, Life)]| {
            mine.iter().any(|(m, a)| other.iter().any(|(n, b)| m == n && a.meets(*b)))
        };
        let mut free = FreeList::default();
        taken.iter().filter(|t| together(&t.2)).for_each(|t| free.take(t.0, t.1));
        let Some(at) = w.fixed.or_else(|| free.first_fit(w.bytes, align, limit, wall)) else {
            let alive = |w: &Want| {
                let l: Vec<(usize, Life)> = w
                    .users
                    .iter()
                    .copied()
                    .chain(w.placed.iter().map(|x| (x.0, x.1)))
                    .map(|(mi, l)| (mi, life(mi, l)))
                    .collect();
                together(&l)
            };
            return Err((k, (0..wants.len()).filter(|j| alive(&wants[*j])).collect()));
        };
        let end = at.saturating_add(rounded(w.bytes, align));
        used.take(at, end);
        taken.push((at, end, mine));
        out[k] = at;
    }
    Ok(out)
}

fn capacity_error(
    p: &Program,
    range: &std::ops::Range<usize>,
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
    let mut alive: Vec<(&str, u64)> = alive.iter().map(named).collect();
    let total: u64 = alive.iter().fold(0, |a, (_, b)| a.saturating_add(*b));
    alive.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let more = alive.len().saturating_sub(MAX_NAMED);
    let mut list: Vec<String> =
        alive.iter().take(MAX_NAMED).map(|(n, b)| format!("{n} ({b} bytes{per})")).collect();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    let core = p.modules.get(range.start).and_then(|m| m.core).unwrap_or(tandem_bir::CoreId(0));
    Diagnostic::new(
        codes::L0003,
        format!(
            "{what} is full: {name} needs {bytes} bytes{per}, the tensors alive with it need {total} of {limit}, itself included"
        ),
    )
    .site(Site::on_core(core))
    .note(format!("alive at some time together with {name}: {}", list.join(", ")))
    .help("make tiles smaller, or shorten the time between the first and the last use of a tensor")
}

/// Placement check of one location for other passes: its bytes lie below the limit.
pub fn fits(addr: u64, bytes: u64, limit: u64) -> bool {
    addr.checked_add(bytes).is_some_and(|e| e <= limit)
}

#[cfg(test)]
mod tests {
    use super::FreeList;

    #[test]
    fn first_fit_fills_the_lowest_hole() {
        let mut f = FreeList::default();
        f.take(0, 100);
        f.take(256, 300);
        assert_eq!(f.first_fit(64, 64, 1000, 0), Some(128));
        assert_eq!(f.first_fit(200, 64, 1000, 0), Some(320));
        assert_eq!(f.first_fit(900, 64, 1000, 0), None);
        f.take(100, 256);
        assert_eq!(f.high_water(), 300);
        assert_eq!(f.first_fit(1, 1, 1000, 0), Some(300));
    }

    #[test]
    fn small_tensors_do_not_cross_a_bank_and_large_ones_start_at_one() {
        let mut f = FreeList::default();
        f.take(0, 1024);
        assert_eq!(f.first_fit(1024, 64, 16384, 2048), Some(1024));
        assert_eq!(f.first_fit(1088, 64, 16384, 2048), Some(2048));
        assert_eq!(f.first_fit(4096, 64, 16384, 2048), Some(2048));
    }
}
