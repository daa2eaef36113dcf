//! `allocate`: gives every SB, PSUM and private DRAM location without an address one.
//!
//! First fit per memory with a lifetime of the whole kernel. Locations of the same function and name get the same address on
//! all cores; addresses that the input gives are kept and avoided. On-chip tensors start at partition 0. Remote aliases
//! and shared DRAM are left to later passes. Not modelled: reuse of on-chip bytes by tensors that are never alive together.

use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use indexmap::IndexMap;
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

#[derive(Default)]
struct Want {
    bytes: u64,
    partitions: u64,
    fixed: Option<u64>,
    users: Vec<(usize, MemLocId)>,
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
    let mut wants: IndexMap<(CompactString, CompactString), Want> = IndexMap::new();
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
                    } else {
                        w.users.push((mi, l));
                    }
                    w.bytes = w.bytes.max(bytes);
                    w.partitions = w.partitions.max(if mem == Memory::Dram { 1 } else { loc.rows() });
                }
            }
        }
    }
    let mut placed = 0;
    for k in 0..wants.len() {
        let Some(((_, name), w)) = wants.get_index(k) else { continue };
        if w.users.is_empty() {
            continue;
        }
        if w.partitions > spec.partitions {
            let d = Diagnostic::new(
                codes::L0003,
                format!("tensor {name} has {} partitions, the memory has {}", w.partitions, spec.partitions),
            );
            return Err(cx.fail(d));
        }
        let at = w.fixed.or_else(|| used.first_fit(w.bytes, align, limit, wall));
        let Some(at) = at else {
            return Err(cx.fail(capacity_error(p, &range, mem, limit, name, w.bytes, &wants)));
        };
        // rounding up keeps the list of used ranges short
        used.take(at, at.saturating_add(w.bytes.checked_next_multiple_of(align).unwrap_or(w.bytes)));
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

fn capacity_error(
    p: &Program,
    range: &std::ops::Range<usize>,
    mem: Memory,
    limit: u64,
    name: &str,
    bytes: u64,
    wants: &IndexMap<(CompactString, CompactString), Want>,
) -> Diagnostic {
    let (what, per) = match mem {
        Memory::Sb => ("SBUF", " per partition"),
        Memory::Psum => ("PSUM", " per partition"),
        Memory::Dram => ("DRAM", ""),
    };
    let mut alive: Vec<(&str, u64)> = wants.iter().map(|((_, n), w)| (n.as_str(), w.bytes)).collect();
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
        format!("{what} is full: {name} needs {bytes} bytes{per}, the tensors alive need {total} of {limit}"),
    )
    .site(Site::on_core(core))
    .note(format!("alive at the same time: {}", list.join(", ")))
    .help("give tensors addresses that share bytes when they are never alive together, or make tiles smaller")
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
