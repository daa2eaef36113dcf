//! Automatic accumulation of matmuls, decided before encoding (the specification, files 07 §7.13 and 09 §6.14).
//!
//! A byte of PSUM is *open* after a matmul wrote it, until something reads it or something else writes it. A matmul onto open bytes
//! accumulates, onto closed ones overwrites. One bundle says one of the two for the whole destination. Where the answer differs
//! between the first iteration of a loop and the later ones, the first is peeled; where it differs otherwise, or inside one
//! destination, the instruction is refused. What overwrites is written with flags 0 and what accumulates with 4, because the
//! start flag may clear more than the destination; the last one before a read gets the stop flag.

use super::peel::peel;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::ap::merge_pairs;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::inst::table::AUTO_ACCUMULATION;
use tandem_bir::{
    AccessPattern, Attr, BlockId, FuncId, Inst, InstId, MemoryType, Module, Opcode, Operand, Program,
};

/// Two-byte units of one PSUM partition.
const UNITS: usize = 0x4000 / 2;
/// Partitions.
const PARTITIONS: usize = 128;
/// Most loops that are peeled (our choice).
const MAX_PEELS: usize = 64;

/// Nobody opened the unit.
const CLOSED: u32 = 0;
/// Open on some ways here, closed on others.
const MAYBE: u32 = 1;

fn open(i: InstId) -> u32 {
    i.as_u32().saturating_add(2)
}
fn opener(cell: u32) -> Option<InstId> {
    cell.checked_sub(2).map(InstId::from_u32)
}

/// State of PSUM: per partition its units, absent while all are closed.
#[derive(Clone, PartialEq)]
struct Psum(Vec<Option<Box<[u32]>>>);

impl Psum {
    fn new() -> Psum {
        Psum(vec![None; PARTITIONS])
    }
    fn row(&mut self, p: usize) -> &mut [u32] {
        self.0[p].get_or_insert_with(|| vec![CLOSED; UNITS].into())
    }
    /// `same` gets pairs of instructions of which either may have opened a unit.
    fn join(&mut self, other: &Psum, same: &mut FxHashSet<(u32, u32)>) -> bool {
        let mut changed = false;
        for p in 0..PARTITIONS {
            if self.0[p].is_none() && other.0[p].is_none() {
                continue;
            }
            let theirs = other.0[p].as_deref();
            let mut last = (CLOSED, CLOSED);
            for (k, c) in self.row(p).iter_mut().enumerate() {
                let t = theirs.map_or(CLOSED, |r| r[k]);
                let new = match (*c, t) {
                    (CLOSED, CLOSED) => CLOSED,
                    (a, b) if a > MAYBE && b > MAYBE => {
                        if a != b && last != (a, b) {
                            same.insert((a, b));
                            last = (a, b);
                        }
                        a
                    }
                    _ => MAYBE,
                };
                changed |= new != *c;
                *c = new;
            }
        }
        changed
    }
}

/// `(partition, first unit, units)` runs of a pattern in PSUM; `None` for other memories.
fn runs(a: &AccessPattern, m: &Module) -> Option<Vec<(usize, usize, usize)>> {
    let l = &m.memlocs[a.loc];
    if l.mem != MemoryType::Psum {
        return None;
    }
    let size = a.dtype.bytes();
    let pitch = (l.row_bytes() / size).max(1) as i64;
    let base = l.addr.saturating_add(l.bank.unsigned_abs().saturating_mul(2048));
    let mut free = merge_pairs(a.pairs.get(1..).unwrap_or(&[]));
    let inner = match free.last() {
        Some(p) if p.step == 1 => free.pop().map_or(1, |p| p.num),
        _ => 1,
    };
    let outer = free.iter().fold(1u64, |n, p| n.saturating_mul(p.num));
    let p0 = a.pairs.first().copied().unwrap_or(tandem_bir::ApPair::new(0, 1));
    if outer.saturating_mul(p0.num) > 4_000_000 {
        return None;
    }
    let mut out = Vec::with_capacity((outer * p0.num) as usize);
    let mut idx = vec![0u64; free.len()];
    for _ in 0..outer {
        let e = free
            .iter()
            .zip(&idx)
            .fold(a.offset, |s, (p, i)| s.saturating_add(p.step.saturating_mul(*i as i64)));
        for k in 0..p0.num {
            let e = e.saturating_add(p0.step.saturating_mul(k as i64));
            let part = i64::from(l.base).saturating_add(e.div_euclid(pitch));
            let byte = base.saturating_add(e.rem_euclid(pitch) as u64 * size);
            let first = (byte / 2) as usize;
            let units = (inner.saturating_mul(size).div_ceil(2)) as usize;
            if let Ok(part) = usize::try_from(part)
                && part < PARTITIONS
                && first < UNITS
            {
                out.push((part, first, units.min(UNITS - first)));
            }
        }
        for (i, p) in idx.iter_mut().zip(&free).rev() {
            *i += 1;
            if *i < p.num {
                break;
            }
            *i = 0;
        }
    }
    Some(out)
}

/// The whole of a PSUM location, for addresses known only at run time.
fn whole(a: &AccessPattern, m: &Module) -> AccessPattern {
    AccessPattern::whole(a.loc, &m.memlocs[a.loc], a.dtype)
}

/// Replaces the automatic flag of every matmul of a function. Loops may be peeled.
pub(super) fn resolve(program: &Program, m: &mut Module, func: FuncId, diags: &mut Vec<Diagnostic>) {
    let any = m.funcs[func].blocks.iter().flat_map(|b| &m.blocks[*b].insts).any(|i| is_auto(m, *i));
    if !any {
        return;
    }
    for n in 0..=MAX_PEELS {
        let (flags, refused) = decide(m, func);
        let differs = refused.iter().find(|r| r.differs).map(|r| r.block);
        if n < MAX_PEELS
            && let Some(block) = differs
            && peel(m, func, block)
        {
            continue;
        }
        for r in refused {
            diags.push(
                Diagnostic::new(codes::N0024, format!("the matmul {}", r.why)).inst(program, m, r.inst),
            );
        }
        for (i, inst) in m.insts.iter_mut() {
            if let Some(f) = flags.get(&i) {
                inst.set(Attr::AccumulationFlag, *f);
            } else if auto(inst) {
                // never reached: any explicit flag is right
                inst.set(Attr::AccumulationFlag, 0);
            }
        }
        return;
    }
}

/// A matmul that has no single answer.
struct Refused {
    inst: InstId,
    block: BlockId,
    why: &'static str,
    /// The answer differs between ways to reach it.
    differs: bool,
}

fn decide(m: &Module, func: FuncId) -> (FxHashMap<InstId, i64>, Vec<Refused>) {
    let blocks = &m.funcs[func].blocks;
    // states at block entries, to a fixed point
    let succ = successors(m, func);
    let mut entry: FxHashMap<BlockId, Psum> = FxHashMap::default();
    if let Some(first) = blocks.first() {
        entry.insert(*first, Psum::new());
    }
    let mut work: Vec<BlockId> = blocks.first().copied().into_iter().collect();
    let mut same: FxHashSet<(u32, u32)> = FxHashSet::default();
    let mut guard = 0usize;
    while let Some(b) = work.pop() {
        guard += 1;
        if guard > 64 * blocks.len().max(1) {
            break;
        }
        let Some(mut s) = entry.get(&b).cloned() else { continue };
        if blocks.len() > 1 {
            for &i in &m.blocks[b].insts {
                step(m, i, &mut s, &mut |_, _| {}, &mut |_| {});
            }
        }
        for t in succ.get(&b).map_or(&[][..], Vec::as_slice) {
            match entry.get_mut(t) {
                None => {
                    entry.insert(*t, s.clone());
                    work.push(*t);
                }
                Some(e) => {
                    if e.join(&s, &mut same) {
                        work.push(*t);
                    }
                }
            }
        }
    }
    let mut flags: FxHashMap<InstId, i64> = FxHashMap::default();
    let mut refused = Vec::new();
    let mut ends: FxHashSet<u32> = FxHashSet::default();
    for &b in blocks {
        let Some(mut s) = entry.get(&b).cloned() else { continue };
        for &i in &m.blocks[b].insts {
            let mut decided: Option<Result<i64, (&'static str, bool)>> = None;
            let mut stopped = Vec::new();
            step(m, i, &mut s, &mut |_, r| decided = Some(r), &mut |w| stopped.push(w));
            ends.extend(stopped.into_iter().map(open));
            match decided {
                Some(Ok(f)) if is_auto(m, i) => {
                    flags.insert(i, f);
                }
                Some(Err((why, differs))) if is_auto(m, i) => {
                    refused.push(Refused { inst: i, block: b, why, differs });
                }
                _ => {}
            }
        }
    }
    // the stop flag goes to every matmul that may be the last before the read
    loop {
        let more: Vec<u32> = same
            .iter()
            .filter_map(|(a, b)| match (ends.contains(a), ends.contains(b)) {
                (true, false) => Some(*b),
                (false, true) => Some(*a),
                _ => None,
            })
            .collect();
        if more.is_empty() {
            break;
        }
        ends.extend(more);
    }
    flags.iter_mut().filter(|(i, _)| ends.contains(&open(**i))).for_each(|(_, f)| *f |= 2);
    (flags, refused)
}

fn auto(i: &Inst) -> bool {
    matches!(i.opcode, Opcode::Matmult | Opcode::MatmultMx)
        && i.get_int(Attr::AccumulationFlag).is_none_or(|f| f & AUTO_ACCUMULATION != 0)
}

fn is_auto(m: &Module, i: InstId) -> bool {
    auto(&m.insts[i])
}

/// The operand's address is known only when the instruction runs.
fn moves(i: &Inst, out: bool, k: usize, a: &AccessPattern) -> bool {
    !a.is_static()
        || k == 0
            && match i.opcode {
                Opcode::TensorCopyDynamicSrc => !out,
                Opcode::TensorCopyDynamicDst => out,
                _ => false,
            }
}

/// One instruction: reads close, foreign writes close, a matmul decides and opens.
fn step(
    m: &Module,
    i: InstId,
    s: &mut Psum,
    decide: &mut dyn FnMut(InstId, Result<i64, (&'static str, bool)>),
    stopped: &mut dyn FnMut(InstId),
) {
    let inst = &m.insts[i];
    let matmul = matches!(inst.opcode, Opcode::Matmult | Opcode::MatmultMx | Opcode::MatmultSparse);
    let mut close = |s: &mut Psum, a: &AccessPattern, unsure: bool, read: bool| {
        let list = if unsure { runs(&whole(a, m), m) } else { runs(a, m) };
        let mut last = None;
        for (p, at, n) in list.unwrap_or_default() {
            if s.0[p].is_none() {
                continue;
            }
            for c in &mut s.row(p)[at..at + n] {
                if let Some(w) = opener(*c)
                    && read
                    && last != Some(w)
                {
                    stopped(w);
                    last = Some(w);
                }
                *c = if unsure && *c != CLOSED { MAYBE } else { CLOSED };
            }
        }
    };
    for (k, a) in inst.ins.iter().enumerate().filter_map(|(k, o)| o.as_ap().map(|a| (k, a))) {
        close(s, a, moves(inst, false, k, a), true);
    }
    for a in inst.indirection_ins().iter().filter_map(Operand::as_ap) {
        close(s, a, !a.is_static(), true);
    }
    for (k, a) in inst.outs.iter().enumerate().filter_map(|(k, o)| o.as_ap().map(|a| (k, a))) {
        let unsure = moves(inst, true, k, a);
        if !matmul || inst.get_bool(Attr::IsTranspose) {
            close(s, a, unsure, false);
            continue;
        }
        if unsure {
            decide(i, Err(("has a destination that is known only at run time", false)));
            close(s, a, true, false);
            continue;
        }
        let Some(list) = runs(a, m) else { continue };
        let (mut opened, mut closed, mut maybe) = (false, false, false);
        for &(p, at, n) in &list {
            match &s.0[p] {
                None => closed = true,
                Some(row) => {
                    for c in &row[at..at + n] {
                        match *c {
                            CLOSED => closed = true,
                            MAYBE => maybe = true,
                            _ => opened = true,
                        }
                    }
                }
            }
        }
        decide(
            i,
            if maybe {
                Err(("accumulates on one way through the program and overwrites on another", true))
            } else if opened && closed {
                Err(("accumulates onto a part of its destination and overwrites the rest", false))
            } else {
                Ok(if opened { 4 } else { 0 })
            },
        );
        for (p, at, n) in list {
            s.row(p)[at..at + n].fill(open(i));
        }
    }
}

fn successors(m: &Module, func: FuncId) -> FxHashMap<BlockId, Vec<BlockId>> {
    let blocks = &m.funcs[func].blocks;
    let by_name: FxHashMap<&str, BlockId> = blocks.iter().map(|b| (m.blocks[*b].name.as_str(), *b)).collect();
    let mut out = FxHashMap::default();
    for (k, b) in blocks.iter().enumerate() {
        let mut list = Vec::new();
        let mut falls = true;
        for i in &m.blocks[*b].insts {
            let i = &m.insts[*i];
            for a in [Attr::Target, Attr::OnTrue, Attr::OnFalse] {
                if i.opcode.is_terminator()
                    && let Some(t) = i.get_str(a).and_then(|n| by_name.get(n))
                {
                    list.push(*t);
                }
            }
            falls &= !i.opcode.is_terminator();
        }
        if falls && let Some(n) = blocks.get(k + 1) {
            list.push(*n);
        }
        list.dedup();
        out.insert(*b, list);
    }
    out
}
