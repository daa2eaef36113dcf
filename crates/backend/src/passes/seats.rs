//! The partitions at which a tensor of SBUF may start.
//!
//! Compute engines reach more than 64 partitions from partition 0 only, 33 to 64 from 0 or 64, up to 32 from 0, 32, 64 or 96 (decision
//! D20; the specification, file 09 §2.2). So two tensors of 64 partitions may lie one below the other in the same bytes. Moved is
//! only what instructions touch that work on each partition by itself, or transfers; and tensors that one instruction reads together
//! start at the same partition, because nothing documents whether its inputs may start at different ones.

use super::allocate::Wants;
use crate::edit::is_plain_copy;
use crate::storage::{Access, for_each_access, others_reach};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::{CompactString, Inst, MemLocId, MemoryType, Module, Opcode, Program};

/// First partitions, in the order they are tried.
pub(super) type Choices = SmallVec<[u32; 4]>;

/// Where tensors may start.
pub(super) struct Seats {
    /// The group of each tensor: all of its members start at the same partition.
    pub(super) group: Vec<usize>,
    /// Choices by group.
    pub(super) choices: Vec<Choices>,
}

/// Where each tensor may start, of `partitions` partitions. `None` when all of them start at partition 0.
pub(super) fn seats(
    p: &Program,
    range: Range<usize>,
    partitions: u64,
    wants: &Wants,
    elsewhere: &FxHashSet<CompactString>,
) -> Option<Seats> {
    let mut g = Groups { above: (0..wants.len()).collect(), stays: vec![false; wants.len()] };
    for mi in range {
        let m = &p.modules[mi];
        let mut want: SecondaryMap<MemLocId, Option<usize>> = SecondaryMap::default();
        want.resize(m.memlocs.len());
        for (k, w) in wants.values().enumerate() {
            for &(_, l) in w.users.iter().filter(|u| u.0 == mi) {
                want[l] = Some(k);
                let loc = &m.memlocs[l];
                let known =
                    !others_reach(loc) && m.sets[loc.set].file.is_none() && !elsewhere.contains(&loc.name);
                g.stays[k] |= !known || loc.mem != MemoryType::Sb || !w.placed.is_empty();
            }
        }
        for (_, _, id) in m.walk() {
            g.instruction(m, &m.insts[id], &want);
        }
    }
    let group: Vec<usize> = (0..wants.len()).map(|k| g.top(k)).collect();
    let (mut rows, mut stays) = (vec![0; wants.len()], vec![false; wants.len()]);
    for (k, w) in wants.values().enumerate() {
        rows[group[k]] = w.partitions.max(rows[group[k]]);
        stays[group[k]] |= g.stays[k];
    }
    let choose = |(rows, stays): (u64, bool)| -> Choices {
        let last = if stays { 0 } else { partitions.saturating_sub(rows) };
        let step = if rows > 32 { 64 } else { 32 };
        (0..=last).step_by(step).filter_map(|k| u32::try_from(k).ok()).collect()
    };
    let choices: Vec<Choices> = rows.into_iter().zip(stays).map(choose).collect();
    group.iter().any(|k| choices[*k].len() > 1).then_some(Seats { group, choices })
}

/// Sets of tensors that start at the same partition.
struct Groups {
    /// A tensor of the same set, or itself.
    above: Vec<usize>,
    /// It starts at partition 0.
    stays: Vec<bool>,
}

impl Groups {
    fn top(&mut self, mut k: usize) -> usize {
        while self.above[k] != k {
            self.above[k] = self.above[self.above[k]];
            k = self.above[k];
        }
        k
    }

    fn instruction(&mut self, m: &Module, i: &Inst, want: &SecondaryMap<MemLocId, Option<usize>>) {
        let alone = keeps_to_partitions(i);
        // The tensor of the inputs before, and whether some input has a place already.
        let (mut first, mut given) = (None, false);
        for_each_access(i, &mut |a, write| match a {
            Access::Ap(ap) if m.memlocs.get(ap.loc).is_some_and(|l| l.is_on_chip()) => {
                let Some(k) = want[ap.loc] else {
                    given |= !write;
                    return;
                };
                self.stays[k] |= !alone || !ap.is_static();
                if !write {
                    let other = *first.get_or_insert(k);
                    let (a, b) = (self.top(k), self.top(other));
                    self.above[a] = b;
                }
            }
            Access::Set(s) => {
                let locs = m.sets.get(s).map_or(&[][..], |s| &s.locs);
                locs.iter().filter_map(|l| want[*l]).for_each(|k| self.stays[k] = true);
            }
            Access::Ap(_) | Access::Reg(_) => {}
        });
        if let Some(k) = first {
            self.stays[k] |= given;
        }
    }
}

/// Every partition of the outputs comes from the same row of the inputs, whatever the partition is, or the instruction is a plain transfer.
fn keeps_to_partitions(i: &Inst) -> bool {
    i.indirection_ins().is_empty()
        && match i.opcode {
            Opcode::DmaCopy => is_plain_copy(i),
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
