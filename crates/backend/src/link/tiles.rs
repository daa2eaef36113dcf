//! An element-wise instruction whose operands have more dimensions than their descriptors hold becomes several of one engine.
//!
//! Every output element depends on the input elements of its place alone, so the walk can be cut anywhere; the engine works in
//! order, so the last piece's completion is that of all. Not cut: instructions that carry something from element to
//! element (scans, reductions, accumulators, random numbers), and those whose output lies over an input in another
//! pattern, because the whole reads everything before a piece would have written it.

use super::split::{MAX_PIECES, slice, suffixes};
use crate::encode::desc::{Walk, slots_of};
use crate::encode::forms::{Group, Kind, Slot};
use crate::encode::select::{Plan, plan};
use tandem_bir::analysis::footprint::{Footprint, Placement, overlaps};
use tandem_bir::{
    AccessPattern, ApPairs, ArchLevel, Attr, EngineAccumulationType, Inst, InstId, MemsetMode, Module,
    Opcode, Operand,
};

/// Cuts an instruction so that every piece fits its records; what fits, or cannot be cut, stays whole.
pub fn split_tiles(m: &mut Module, i: InstId, arch: ArchLevel) -> Vec<InstId> {
    let whole = vec![i];
    let inst = &m.insts[i];
    if simple(inst) || !element_wise(inst) {
        return whole;
    }
    let Ok(Plan::Rows(group)) = plan(inst, arch) else { return whole };
    if fits(inst, group) {
        return whole;
    }
    let Some(total) = inst.outs.first().and_then(Operand::as_ap).map(AccessPattern::elems_per_partition)
    else {
        return whole;
    };
    let tiles: Vec<&AccessPattern> = inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap).collect();
    let walks = |a: &AccessPattern| a.elems_per_partition() == total;
    if total < 2 || tiles.iter().any(|a| !a.is_static() || !(walks(a) || a.elems_per_partition() == 1)) {
        return whole;
    }
    if hazard(m, inst) {
        return whole;
    }
    let mut lengths: Vec<u64> =
        tiles.iter().filter(|a| walks(a)).filter_map(|a| free(a)).flat_map(|f| suffixes(&f)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for len in lengths.into_iter().rev().filter(|l| *l > 0 && *l < total && total.is_multiple_of(*l)) {
        if total / len > MAX_PIECES {
            break;
        }
        let made: Option<Vec<Inst>> =
            (0..total / len).map(|k| piece(inst, total, k * len, len).filter(|x| fits(x, group))).collect();
        let Some(mut made) = made else { continue };
        let n = made.len();
        let name = inst.name.clone();
        let Some(last) = made.pop() else { continue };
        let mut out = Vec::with_capacity(n);
        for (k, mut x) in made.into_iter().enumerate() {
            x.name = format!("{name}.{k}").as_str().into();
            out.push(m.insts.push(x));
        }
        m.insts[i] = last;
        out.push(i);
        return out;
    }
    whole
}

/// All operands fit any descriptor: every one holds two dimensions.
pub(super) fn simple(i: &Inst) -> bool {
    let fits = |o: &Operand| {
        let Operand::Ap(a) = o else { return true };
        let pairs = a.pairs.as_slice();
        pairs.len() <= 3
            && pairs
                .iter()
                .skip(1)
                .all(|p| p.step >= -0x8000 && p.step < 0x8000 && p.num.wrapping_sub(1) < 65_535)
    };
    i.ins.iter().all(fits) && i.outs.iter().all(fits)
}

/// Every output element depends on the input elements of its place alone.
fn element_wise(i: &Inst) -> bool {
    let idle =
        |a: Attr| i.get_enum::<EngineAccumulationType>(a).is_none_or(|v| v == EngineAccumulationType::Idle);
    i.outs.len() == 1
        && i.indirection_ins().is_empty()
        && match i.opcode {
            Opcode::TensorCopy
            | Opcode::GenericCopy
            | Opcode::AbstractCopy
            | Opcode::Reciprocal
            | Opcode::GenericRelu
            | Opcode::Select => true,
            Opcode::Memset => i.get_enum::<MemsetMode>(Attr::Mode) != Some(MemsetMode::Random),
            Opcode::TensorTensor | Opcode::Activation => idle(Attr::Acc),
            Opcode::CopyPredicated => idle(Attr::AccumulatorCmd),
            Opcode::TensorScalarPtr => {
                idle(Attr::Acc) && !i.get_bool(Attr::IsTensorTensorScan) && !i.get_bool(Attr::ApplyTranspose)
            }
            _ => false,
        }
}

/// The free dimensions of a tile as a pattern of their own.
fn free(a: &AccessPattern) -> Option<AccessPattern> {
    Some(AccessPattern { pairs: ApPairs::from_slice(a.pairs.get(1..)?), ..a.clone() })
}

/// Elements `start .. start + len` of every partition of a tile.
fn cut(a: &AccessPattern, start: u64, len: u64) -> Option<AccessPattern> {
    let part = slice(&free(a)?, start, len)?;
    let mut pairs = ApPairs::new();
    pairs.push(*a.pairs.first()?);
    pairs.extend(part.pairs.iter().copied().filter(|p| p.num != 1));
    if pairs.len() == 1 {
        pairs.push(tandem_bir::ApPair::new(1, 1));
    }
    Some(AccessPattern { pairs, ..part })
}

fn piece(inst: &Inst, total: u64, start: u64, len: u64) -> Option<Inst> {
    let mut x = inst.clone();
    for o in x.ins.iter_mut().chain(&mut x.outs) {
        if let Operand::Ap(a) = o
            && a.elems_per_partition() == total
        {
            *a = cut(a, start, len)?;
        }
    }
    Some(x)
}

/// Every operand fits the descriptor of its slot.
fn fits(i: &Inst, g: &Group) -> bool {
    g.forms.iter().flat_map(|f| f.fields).all(|f| {
        let Kind::Tensor(s, rank, walk) = f.kind else { return true };
        let o = match s {
            Slot::In(k) => i.ins.get(usize::from(k)),
            Slot::Out(k) => i.outs.get(usize::from(k)),
        };
        let Some(a) = o.and_then(Operand::as_ap) else { return true };
        walk == Walk::Kept || slots_of(&a.pairs, usize::from(rank), walk).is_ok()
    })
}

/// The output lies over an input in another pattern.
fn hazard(m: &Module, i: &Inst) -> bool {
    let print =
        |a: &AccessPattern| m.memlocs.get(a.loc).map(|l| Footprint::new(&Placement::of(m, a.loc), l, a));
    let Some(out) = i.outs.first().and_then(Operand::as_ap) else { return true };
    let Some(written) = print(out) else { return true };
    i.ins.iter().filter_map(Operand::as_ap).any(|a| {
        let same = (a.loc, a.dtype, a.offset) == (out.loc, out.dtype, out.offset) && a.pairs == out.pairs;
        !same && print(a).is_none_or(|read| overlaps(&read, &written))
    })
}
