//! The partitions at which a tensor of SBUF may start.
//!
//! Compute engines reach more than 64 partitions from partition 0 only, 33 to 64 from 0 or 64, up to 32 from 0, 32, 64 or 96 (decision
//! D20; the specification, file 09 §2.2). So two tensors of 64 partitions may lie one below the other in the same bytes. Moved is
//! only what instructions touch that work on each partition by itself, or transfers, and where no other tensor on chip
//! is an input beside it: nothing documents whether inputs may start at different partitions.

use super::allocate::Wants;
use crate::edit::is_meeting_point;
use crate::storage::{Access, for_each_access};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::entity::EntitySet;
use tandem_bir::enums::{AluOp, CopyMode};
use tandem_bir::{Attr, CompactString, Inst, MemLocId, MemoryType, Module, Opcode, Operand, Program};

/// First partitions of a tensor, in the order they are tried.
pub(super) type Seats = SmallVec<[u32; 4]>;

/// Where each tensor may start, of `partitions` partitions. `None` when all of them start at partition 0.
pub(super) fn seats(
    p: &Program,
    range: Range<usize>,
    partitions: u64,
    wants: &Wants,
    elsewhere: &FxHashSet<CompactString>,
) -> Option<Vec<Seats>> {
    let fixed: FxHashMap<usize, EntitySet<MemLocId>> = range.map(|mi| (mi, bound(&p.modules[mi]))).collect();
    let free = |&(mi, l): &(usize, MemLocId)| {
        let m = &p.modules[mi];
        let loc = &m.memlocs[l];
        let seen = loc.is_remote() || loc.written_by_another_core || !loc.aliases.is_empty();
        let known = !seen && m.sets[loc.set].file.is_none() && !elsewhere.contains(&loc.name);
        known && loc.mem == MemoryType::Sb && !fixed[&mi].contains(l)
    };
    let out: Vec<Seats> = wants
        .values()
        .map(|w| {
            let may_move = w.placed.is_empty() && w.users.iter().all(free);
            let last = if may_move { partitions.saturating_sub(w.partitions) } else { 0 };
            let step = if w.partitions > 32 { 64 } else { 32 };
            (0..=last).step_by(step).filter_map(|k| u32::try_from(k).ok()).collect()
        })
        .collect();
    out.iter().any(|s| s.len() > 1).then_some(out)
}

/// Locations that must start at partition 0.
fn bound(m: &Module) -> EntitySet<MemLocId> {
    let mut out = EntitySet::with_capacity(m.memlocs.len());
    for (_, _, id) in m.walk() {
        let i = &m.insts[id];
        let alone = keeps_to_partitions(i);
        let on_chip = |o: &Operand| o.as_ap().map(|a| a.loc).filter(|l| m.memlocs[*l].is_on_chip());
        let mut inputs = i.ins.iter().filter_map(on_chip);
        let first = inputs.next();
        let one = inputs.all(|l| Some(l) == first);
        for_each_access(i, &mut |a, write| match a {
            Access::Ap(ap) => {
                if !alone || !ap.is_static() || !(write || one) {
                    out.insert(ap.loc);
                }
            }
            Access::Set(s) => m.sets[s].locs.iter().for_each(|l| {
                out.insert(*l);
            }),
            Access::Reg(_) => {}
        });
    }
    out
}

/// Every partition of the outputs comes from the same row of the inputs, whatever the partition is, or the instruction is a plain transfer.
fn keeps_to_partitions(i: &Inst) -> bool {
    let plain = i.indirection_ins().is_empty() && !is_meeting_point(i.opcode);
    plain
        && match i.opcode {
            Opcode::DmaCopy => {
                matches!(i.get_enum(Attr::Mode), None | Some(CopyMode::Copy))
                    && matches!(i.get_enum(Attr::CceOp), None | Some(AluOp::Bypass))
                    && i.get_ints(Attr::RemoteNotification).is_empty()
            }
            Opcode::Activation
            | Opcode::Memset
            | Opcode::Reciprocal
            | Opcode::TensorCopy
            | Opcode::TensorReduce
            | Opcode::TensorScalar
            | Opcode::TensorScalarPtr
            | Opcode::TensorTensor
            | Opcode::Exponential => true,
            _ => false,
        }
}
