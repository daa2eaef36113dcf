//! What runs in order and what does not: the threads of a core, the order of its program, the completion tokens.

use crate::code::{Action, Style};
use crate::machine::Core;
use crate::place::{Names, owner};
use crate::race::Lanes;
use crate::sync::Sync;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tandem_bir::analysis::queue::{QUEUES, queue};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::linked::{LinkedProgram, is_remote_copy};
use tandem_bir::{AddressSpace, InstId, MemLocId, Module, Opcode, Operand};

/// The threads of a core.
pub(super) fn lanes(core: &Core<'_>, style: Style) -> Lanes {
    let mut l = Lanes::default();
    let m = core.module;
    match style {
        Style::Program => {}
        Style::Dependency => {
            l.queues = QUEUES;
            for (id, i) in m.insts.iter() {
                if core.code.action[id.index()] == Action::Transfer
                    && let Some(q) = queue(i)
                {
                    l.add(q, is_remote_copy(m, i));
                }
            }
        }
        Style::Queue => {
            l.queues = core.streams.len();
            for (q, s) in core.streams.iter().enumerate() {
                for &i in &s.insts {
                    if core.code.action[i.index()] == Action::Transfer {
                        l.add(q, is_remote_copy(m, &m.insts[i]));
                    }
                }
            }
        }
    }
    l.transfers.sort_unstable();
    l
}

/// Of every instruction the place in the order of blocks and of their lists, and the stretch from meeting to meeting.
pub(super) fn program_order(core: &Core<'_>) -> Vec<(u32, u32)> {
    let m = core.module;
    let mut order = vec![(u32::MAX, u32::MAX); m.insts.len()];
    let (mut place, mut stretch) = (0, 0);
    // A container has streams only; its debug table knows the blocks.
    if let Some(t) = core.debug {
        let mut block = None;
        for d in &t.insts {
            if block.replace(&d.block).is_some_and(|b| *b != d.block) {
                stretch += 1;
            }
            if let (Some(o), Some(i)) = (order.get_mut(d.inst.index()), m.insts.get(d.inst)) {
                *o = (place, stretch);
                place += 1;
                if matches!(i.opcode, Opcode::CoreBarrier | Opcode::CollectiveCompute) {
                    stretch += 1;
                }
            }
        }
        return order;
    }
    for (_, block) in m.blocks.iter() {
        stretch += 1;
        for &i in &block.insts {
            order[i.index()] = (place, stretch);
            place += 1;
            if matches!(m.insts[i].opcode, Opcode::CoreBarrier | Opcode::CollectiveCompute) {
                stretch += 1;
            }
        }
    }
    order
}

/// The tokens that linking numbered; without numbers they order nothing.
pub(super) fn linked_tokens(
    l: &LinkedProgram,
    modules: &[&Module],
    names: &[Names<'_>],
    lncs: usize,
    sync: &mut Sync,
) {
    let lnc = modules.len();
    let key = |c: usize, loc: MemLocId| owner(modules, names, c, loc).unwrap_or((c, loc));
    let shared = |c: usize, loc: MemLocId| -> (usize, String) {
        let (oc, ol) = key(c, loc);
        let m = modules[oc];
        // A shared location has one name on all cores.
        let all = m.set_of(ol).addr_space == AddressSpace::Shared;
        (if all { usize::MAX } else { oc }, m.memlocs[ol].name.to_string())
    };
    // Every location with its owner once, not once per token.
    let mut of: FxHashMap<(usize, String), Vec<(usize, MemLocId)>> = FxHashMap::default();
    if !l.tokens.is_empty() {
        for (c, m) in modules.iter().enumerate() {
            for (loc, _) in m.memlocs.iter() {
                of.entry(shared(c, loc)).or_default().push((c, loc));
            }
        }
    }
    for r in 0..lncs {
        for t in &l.tokens {
            let writers = t.writers.iter().map(|c| r * lnc + *c as usize).collect();
            let mut users: Vec<usize> = t.members.iter().map(|m| r * lnc + m.core.index()).collect();
            users.sort_unstable();
            users.dedup();
            let id = sync.add_token(t.location.to_string(), writers, users, lnc * lncs);
            for at in &t.members {
                let c = at.core.index();
                sync.token_of.insert((r * lnc + c, at.inst), id);
                let loc =
                    modules.get(c).and_then(|m| m.insts.get(at.inst)?.ins.first()?.as_ap()).map(|a| a.loc);
                for (c, x) in loc.and_then(|x| of.get(&shared(c, x))).into_iter().flatten() {
                    sync.token_loc.insert((r * lnc + c, *x), id);
                }
            }
        }
    }
}

/// Finds the completion tokens and the writers of their locations (the specification, file 06 §13.3).
pub(super) fn tokens(modules: &[&Module], names: &[Names<'_>], lncs: usize, sync: &mut Sync) {
    let lnc = modules.len();
    let key = |c: usize, l: MemLocId| -> (String, String) {
        let (oc, ol) = owner(modules, names, c, l).unwrap_or((c, l));
        (names[oc].func_of(ol).to_owned(), modules[oc].memlocs[ol].name.to_string())
    };
    type Uses = (Vec<(usize, InstId)>, Vec<usize>);
    let mut found: BTreeMap<(String, String), Uses> = BTreeMap::new();
    for (c, m) in modules.iter().enumerate() {
        for b in m.blocks.values() {
            for &id in &b.insts {
                let i = &m.insts[id];
                if i.opcode == Opcode::TensorCompletion
                    && let Some(ap) = i.ins.first().and_then(Operand::as_ap)
                {
                    found.entry(key(c, ap.loc)).or_default().0.push((c, id));
                }
            }
        }
    }
    if found.is_empty() {
        return;
    }
    for (c, m) in modules.iter().enumerate() {
        let mut written: Vec<bool> = vec![false; m.memlocs.len()];
        for b in m.blocks.values() {
            for &id in &b.insts {
                let i = &m.insts[id];
                if i.opcode == Opcode::CoreBarrier {
                    continue;
                }
                for ap in i.outs.iter().filter_map(Operand::as_ap) {
                    written[ap.loc.index()] = true;
                }
            }
        }
        for (l, _) in m.memlocs.iter().filter(|(l, _)| written[l.index()]) {
            if let Some((_, w)) = found.get_mut(&key(c, l))
                && !w.contains(&c)
            {
                w.push(c);
            }
        }
    }
    for r in 0..lncs {
        for (k, (uses, writers)) in &found {
            let name = &k.1;
            let w = writers.iter().map(|c| r * lnc + c).collect();
            let mut who: Vec<usize> = uses.iter().map(|(c, _)| r * lnc + c).collect();
            who.sort_unstable();
            who.dedup();
            let t = sync.add_token(name.clone(), w, who, lnc * lncs);
            for (c, id) in uses {
                sync.token_of.insert((r * lnc + c, *id), t);
            }
            for (c, m) in modules.iter().enumerate() {
                for (l, _) in m.memlocs.iter().filter(|(l, _)| key(c, *l) == *k) {
                    sync.token_loc.insert((r * lnc + c, l), t);
                }
            }
        }
    }
}
