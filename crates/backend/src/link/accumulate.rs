//! Automatic accumulation of matmuls, decided before encoding (the specification, files 07 §7.13 and 09 §6.14).
//!
//! A byte of PSUM is *open* after a matmul wrote it, until something reads it or something else writes it. A matmul onto open bytes
//! accumulates, onto closed ones overwrites. One bundle says one of the two for the whole destination, so an instruction
//! whose bytes disagree, or whose answer differs between the ways to reach it, is refused. What overwrites is written
//! with flags 0 and what accumulates with 4, because the start flag may clear more than the destination; the last one before a read gets
//! the stop flag.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::table::AUTO_ACCUMULATION;
use tandem_bir::{
    AccessPattern, Attr, BlockId, FuncId, InstId, MemoryType, Module, Opcode, Operand, Program,
};

/// Bytes of one PSUM partition.
const PARTITION: usize = 0x4000;

/// State of PSUM bytes: per 4-byte word of each partition, who opened it last (0 = closed).
#[derive(Clone, PartialEq)]
struct Psum(BTreeMap<(u32, u32), Cell>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Open, last written by this matmul.
    Open(InstId),
    /// Open on some ways here, closed on others.
    Maybe,
}

/// `(partition, two-byte unit)` cells of a pattern.
fn cells(a: &AccessPattern, m: &Module) -> Option<Vec<(u32, u32)>> {
    let l = &m.memlocs[a.loc];
    if l.mem != MemoryType::Psum {
        return None;
    }
    let size = a.dtype.bytes();
    let pitch = (l.row_bytes() / size).max(1) as i64;
    let n = a.num_elems();
    if n > 4_000_000 {
        return None;
    }
    let mut out = Vec::with_capacity(n as usize);
    let mut idx = vec![0u64; a.pairs.len()];
    for _ in 0..n {
        let e = a
            .pairs
            .iter()
            .zip(&idx)
            .fold(a.offset, |s, (p, i)| s.saturating_add(p.step.saturating_mul(*i as i64)));
        let part = i64::from(l.base) + e.div_euclid(pitch);
        let byte = l.addr + l.bank.unsigned_abs() * 2048 + e.rem_euclid(pitch) as u64 * size;
        for k in 0..size.div_ceil(2) {
            out.push((part as u32, (byte / 2 + k) as u32));
        }
        for (i, p) in idx.iter_mut().zip(&a.pairs).rev() {
            *i += 1;
            if *i < p.num {
                break;
            }
            *i = 0;
        }
    }
    debug_assert!(out.iter().all(|c| (c.1 as usize) < PARTITION));
    Some(out)
}

impl Psum {
    fn join(&mut self, other: &Psum) -> bool {
        let mut changed = false;
        for (k, c) in &mut self.0 {
            let new = match (other.0.get(k), *c) {
                (Some(Cell::Open(_)), Cell::Open(i)) => Cell::Open(i),
                _ => Cell::Maybe,
            };
            if new != *c {
                *c = new;
                changed = true;
            }
        }
        let missing: Vec<(u32, u32)> = other.0.keys().filter(|k| !self.0.contains_key(k)).copied().collect();
        for k in missing {
            self.0.insert(k, Cell::Maybe);
            changed = true;
        }
        changed
    }
}

/// Replaces the automatic flag of every matmul of a function.
pub(super) fn resolve(program: &Program, m: &mut Module, func: FuncId, diags: &mut Vec<Diagnostic>) {
    let blocks = m.funcs[func].blocks.clone();
    let any = blocks.iter().flat_map(|b| &m.blocks[*b].insts).any(|i| is_auto(m, *i));
    if !any {
        return;
    }
    // states at block entries, to a fixed point
    let succ = successors(m, func);
    let mut entry: FxHashMap<BlockId, Psum> = FxHashMap::default();
    if let Some(first) = blocks.first() {
        entry.insert(*first, Psum(BTreeMap::new()));
    }
    let mut work: Vec<BlockId> = blocks.first().copied().into_iter().collect();
    let mut guard = 0usize;
    while let Some(b) = work.pop() {
        guard += 1;
        if guard > 64 * blocks.len().max(1) {
            break;
        }
        let Some(mut s) = entry.get(&b).cloned() else { continue };
        for &i in &m.blocks[b].insts {
            step(m, i, &mut s, &mut |_, _| {}, &mut |_| {});
        }
        for t in succ.get(&b).map_or(&[][..], Vec::as_slice) {
            match entry.get_mut(t) {
                None => {
                    entry.insert(*t, s.clone());
                    work.push(*t);
                }
                Some(e) => {
                    if e.join(&s) {
                        work.push(*t);
                    }
                }
            }
        }
    }
    let mut flags: FxHashMap<InstId, i64> = FxHashMap::default();
    for &b in &blocks {
        let Some(mut s) = entry.get(&b).cloned() else { continue };
        for &i in &m.blocks[b].insts {
            let mut decided: Option<Result<i64, &'static str>> = None;
            let mut stopped = Vec::new();
            step(m, i, &mut s, &mut |_, r| decided = Some(r), &mut |w| stopped.push(w));
            for w in stopped {
                if let Some(f) = flags.get_mut(&w) {
                    *f |= 2;
                }
            }
            match decided {
                Some(Ok(f)) if is_auto(m, i) => {
                    flags.insert(i, f);
                }
                Some(Err(why)) if is_auto(m, i) => {
                    diags
                        .push(Diagnostic::new(codes::N0024, format!("the matmul {why}")).inst(program, m, i));
                }
                _ => {}
            }
        }
    }
    for (i, inst) in m.insts.iter_mut() {
        if let Some(f) = flags.get(&i) {
            inst.set(Attr::AccumulationFlag, *f);
        } else if inst.opcode == Opcode::Matmult
            && inst.get_int(Attr::AccumulationFlag) == Some(AUTO_ACCUMULATION)
        {
            // never reached: any explicit flag is right
            inst.set(Attr::AccumulationFlag, 0);
        }
    }
}

fn is_auto(m: &Module, i: InstId) -> bool {
    m.insts[i].opcode == Opcode::Matmult
        && m.insts[i].get_int(Attr::AccumulationFlag).is_none_or(|f| f & AUTO_ACCUMULATION != 0)
}

/// One instruction: reads close, foreign writes close, a matmul decides and opens.
fn step(
    m: &Module,
    i: InstId,
    s: &mut Psum,
    decide: &mut dyn FnMut(InstId, Result<i64, &'static str>),
    stopped: &mut dyn FnMut(InstId),
) {
    let inst = &m.insts[i];
    let matmul = matches!(inst.opcode, Opcode::Matmult | Opcode::MatmultMx | Opcode::MatmultSparse);
    for a in inst.ins.iter().filter_map(Operand::as_ap) {
        for c in cells(a, m).unwrap_or_default() {
            if let Some(Cell::Open(w)) = s.0.remove(&c) {
                stopped(w);
            }
        }
    }
    for a in inst.outs.iter().filter_map(Operand::as_ap) {
        let Some(list) = cells(a, m) else { continue };
        if !matmul || inst.get_bool(Attr::IsTranspose) {
            for c in list {
                s.0.remove(&c);
            }
            continue;
        }
        let (mut open, mut closed, mut maybe) = (0usize, 0usize, 0usize);
        for c in &list {
            match s.0.get(c) {
                Some(Cell::Open(_)) => open += 1,
                Some(Cell::Maybe) => maybe += 1,
                None => closed += 1,
            }
        }
        decide(
            i,
            if maybe > 0 {
                Err("accumulates on one way through the program and overwrites on another")
            } else if open > 0 && closed > 0 {
                Err("accumulates onto a part of its destination and overwrites the rest")
            } else {
                Ok(if open > 0 { 4 } else { 0 })
            },
        );
        for c in list {
            s.0.insert(c, Cell::Open(i));
        }
    }
}

fn successors(m: &Module, func: FuncId) -> FxHashMap<BlockId, Vec<BlockId>> {
    let blocks = &m.funcs[func].blocks;
    let by_name: FxHashMap<&str, BlockId> = blocks.iter().map(|b| (m.blocks[*b].name.as_str(), *b)).collect();
    let mut out: FxHashMap<BlockId, Vec<BlockId>> = FxHashMap::default();
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
    debug_assert!(out.len() == blocks.len() || blocks.first().is_none_or(|b| b.index() < m.blocks.len()));
    out
}
