//! What is certainly before what in a lowered two-core program, from first principles: a graph over the instructions of both
//! cores, its closure, and the pairs of accesses that need an order.
//!
//! Edges of the graph: dependency edges, the order of a queue (an instruction is complete before the next of its engine
//! starts, also before the next transfer of that engine; transfers of one engine follow each other), a core barrier as the
//! fence of its core that it is at this level (decision D17), the join at block ends. The k-th barrier, swap or
//! collective of one core and that of the other are one node; what follows a notified transfer follows the peer's too. A
//! loop's block stands twice, so that pairs of neighbouring iterations are seen. Blocks are taken in the order of the list,
//! which is right for the generated programs (loops of one block, no arms).

#![allow(unreachable_pub, clippy::unwrap_used, reason = "a part of one test")]

use std::collections::{BTreeMap, BTreeSet};
use tandem_bir::analysis::footprint::{Footprint, StorageMap, overlaps};
use tandem_bir::verify::effective_engine;
use tandem_bir::*;

/// An instruction of a core, and which copy of a loop's block.
pub type Key = (usize, InstId, usize);
/// Two accesses in program order.
pub type Pair = (Key, Key);

/// Blocks of the only function with the number of the copy, and instructions with their keys.
fn segments(m: &Module) -> Vec<(BlockId, usize)> {
    let f = m.all_functions().next().unwrap();
    let mut out = Vec::new();
    for &b in &m.funcs[f].blocks {
        out.push((b, 0));
        let own = m.blocks[b].name.as_str();
        let again = |i: &InstId| m.insts[*i].get_str(Attr::OnTrue) == Some(own);
        if m.blocks[b].insts.iter().any(again) {
            out.push((b, 1));
        }
    }
    out
}

pub struct Order {
    node: BTreeMap<Key, usize>,
    before: Vec<BTreeSet<usize>>,
}

impl Order {
    pub fn of(p: &Program) -> Order {
        let mut node: BTreeMap<Key, usize> = BTreeMap::new();
        let mut meetings: BTreeMap<(usize, &str, usize), usize> = BTreeMap::new();
        let mut notices: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        let mut preds: Vec<BTreeSet<usize>> = Vec::new();
        let fresh = |preds: &mut Vec<BTreeSet<usize>>| {
            preds.push(BTreeSet::new());
            preds.len() - 1
        };
        for (c, m) in p.modules.iter().enumerate() {
            let mut join: Option<usize> = None;
            for (s, (b, copy)) in segments(m).into_iter().enumerate() {
                let mut count: BTreeMap<&str, usize> = BTreeMap::new();
                let mut last: BTreeMap<(EngineKind, bool), usize> = BTreeMap::new();
                let (mut fence, mut before_fence): (Option<usize>, Vec<usize>) = (None, Vec::new());
                let end = fresh(&mut preds);
                for &i in &m.blocks[b].insts {
                    let inst = &m.insts[i];
                    let mut ordinal = |what: &'static str| {
                        let k = count.entry(what).or_insert(0);
                        *k += 1;
                        *k
                    };
                    let meets = match inst.opcode {
                        Opcode::CoreBarrier => Some("barrier"),
                        Opcode::GpsimdSb2Sb => Some("swap"),
                        o if o.is_collective() => Some("collective"),
                        _ => None,
                    };
                    let n = match meets {
                        Some(what) => {
                            let k = ordinal(what);
                            *meetings.entry((s, what, k)).or_insert_with(|| fresh(&mut preds))
                        }
                        None => fresh(&mut preds),
                    };
                    node.insert((c, i, copy), n);
                    if !inst.get_ints(Attr::RemoteNotification).is_empty() {
                        notices.entry((s, ordinal("notice"))).or_default().push(n);
                    }
                    preds[n].extend(join);
                    preds[end].insert(n);
                    let deps = inst.deps.iter().filter_map(|d| node.get(&(c, d.inst, copy)).copied());
                    let deps: Vec<usize> = deps.filter(|d| *d != n).collect();
                    preds[n].extend(deps);
                    // [compute, transfer] of each queue; engine ALL is in every one
                    let transfer = inst.opcode.is_dma();
                    let e = match effective_engine(inst) {
                        EngineKind::Dma => EngineKind::Sp,
                        e => e,
                    };
                    for (&(q, t), &y) in &last {
                        let same = q == e || q == EngineKind::All || (e == EngineKind::All && !t);
                        if y != n && same && transfer >= t {
                            preds[n].insert(y);
                        }
                    }
                    last.insert((e, transfer), n);
                    if inst.opcode == Opcode::CoreBarrier {
                        preds[n].extend(before_fence.drain(..).filter(|y| *y != n));
                        fence = Some(n);
                    } else {
                        preds[n].extend(fence);
                        before_fence.push(n);
                    }
                }
                preds[end].extend(join);
                join = Some(end);
            }
        }
        for pair in notices.values().filter(|v| v.len() == 2) {
            for s in preds.iter_mut().filter(|s| pair.iter().any(|n| s.contains(n))) {
                s.extend(pair.iter().copied());
            }
        }
        let mut before = preds.clone();
        loop {
            let mut changed = false;
            for n in 0..before.len() {
                let more: BTreeSet<usize> =
                    preds[n].iter().flat_map(|q| before[*q].iter().copied()).collect();
                let len = before[n].len();
                before[n].extend(more);
                changed |= before[n].len() != len;
            }
            if !changed {
                return Order { node, before };
            }
        }
    }

    /// One of the two is certainly before the other, or they are one operation of both cores.
    pub fn has(&self, (x, y): &Pair) -> bool {
        let (Some(&a), Some(&b)) = (self.node.get(x), self.node.get(y)) else { return false };
        a == b || self.before[a].contains(&b) || self.before[b].contains(&a)
    }
}

enum Bytes {
    Memory(Footprint),
    Register(RegId),
}

struct Access {
    key: Key,
    segment: usize,
    write: bool,
    bytes: Bytes,
}

/// Pairs of accesses to the same bytes or register of which one writes, over both cores.
pub fn conflicts(p: &Program) -> Vec<Pair> {
    let storage = StorageMap::of_program(p);
    let mut all: Vec<Access> = Vec::new();
    for (c, m) in p.modules.iter().enumerate() {
        for (segment, (b, copy)) in segments(m).into_iter().enumerate() {
            for &i in &m.blocks[b].insts {
                let inst = &m.insts[i];
                if matches!(inst.opcode, Opcode::CoreBarrier | Opcode::TensorCompletion) {
                    continue; // their operands say what they order, they touch nothing
                }
                let mut give = |write, bytes| all.push(Access { key: (c, i, copy), segment, write, bytes });
                let ins = inst.ins.iter().map(|o| (o, false));
                for (o, write) in ins.chain(inst.outs.iter().map(|o| (o, true))) {
                    match o {
                        Operand::Ap(a) => {
                            let mut foot = storage[c].footprint(m, a);
                            if !foot.exact {
                                foot = Footprint::whole(storage[c].placement(a.loc), &m.memlocs[a.loc]);
                            }
                            give(write, Bytes::Memory(foot));
                            for (_, e) in a.dynamic.iter().flat_map(|d| &d.terms) {
                                e.for_each_leaf(&mut |l| {
                                    if let Expr::Reg(r) = l {
                                        give(false, Bytes::Register(*r));
                                    }
                                });
                            }
                        }
                        Operand::Reg(r) => give(write, Bytes::Register(r.reg)),
                        Operand::Imm(_) | Operand::Other(_) => {}
                    }
                }
            }
        }
    }
    let mut out = Vec::new();
    for (n, x) in all.iter().enumerate() {
        for y in &all[n + 1..] {
            let same = x.key.0 == y.key.0;
            // the join at block ends orders a core by itself
            if !(x.write || y.write) || x.key == y.key || (same && x.segment != y.segment) {
                continue;
            }
            let meet = match (&x.bytes, &y.bytes) {
                (Bytes::Memory(a), Bytes::Memory(b)) => overlaps(a, b),
                (Bytes::Register(a), Bytes::Register(b)) => same && a == b,
                _ => false,
            };
            if meet {
                out.push((x.key, y.key));
            }
        }
    }
    out
}

/// A pair for a person.
pub fn text(p: &Program, (x, y): &Pair) -> String {
    let one = |k: &Key| format!("{}@nc{}", p.modules[k.0].insts[k.1].name, k.0);
    format!("{} against {}", one(x), one(y))
}
