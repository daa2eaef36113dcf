//! An instruction whose operands have more dimensions than their descriptors hold becomes several of one engine.
//!
//! Where every output element depends on a part of its own of the inputs, the walk can be cut anywhere between two of them; the
//! engine works in order, so the last piece's completion is that of all. That is so for element-wise instructions (the
//! input elements of the same place), for reductions over free dimensions (a run of as many elements as are folded) and for
//! matmuls along the moving tile (its column, and the whole stationary tile). Not cut: instructions that carry something
//! from element to element (scans, accumulators, random numbers), matmuls with the start flag, which may clear more than
//! their own destination, transpositions, and those whose output lies over an input in another pattern, because the
//! whole reads everything before a piece would have written it.

use super::split::{MAX_PIECES, slice, suffixes};
use crate::encode::desc::slots_of;
use crate::encode::forms::{Group, Kind, Slot};
use crate::encode::select::{Plan, plan};
use smallvec::SmallVec;
use tandem_bir::analysis::footprint::{Footprint, Placement, overlaps};
use tandem_bir::{
    AccessPattern, ApPairs, ArchLevel, Attr, AxisListType, EngineAccumulationType, Inst, InstId, MemsetMode,
    Module, Opcode, Operand,
};

/// Cuts an instruction so that every piece fits its records; what fits, or cannot be cut, stays whole.
pub fn split_tiles(m: &mut Module, i: InstId, arch: ArchLevel) -> Vec<InstId> {
    let whole = vec![i];
    let inst = &m.insts[i];
    if simple(inst) {
        return whole;
    }
    let Some(total) = inst.outs.first().and_then(Operand::as_ap).map(AccessPattern::elems_per_partition)
    else {
        return whole;
    };
    let Some(shares) = shares(inst, total) else { return whole };
    let Ok(Plan::Rows(group)) = plan(inst, arch) else { return whole };
    if fits(inst, group) {
        return whole;
    }
    let mut tiles = inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap);
    if total < 2 || tiles.any(|a| !a.is_static()) || hazard(m, inst) {
        return whole;
    }
    // lengths in output elements
    let walked = |(o, n): (&Operand, &Share)| {
        let n = n.elements()?;
        let all = suffixes(&free(o.as_ap()?)?);
        Some(all.into_iter().filter(move |l| l.is_multiple_of(n)).map(move |l| l / n))
    };
    let mut lengths: Vec<u64> = inst.ins.iter().zip(&shares).filter_map(walked).flatten().collect();
    lengths.extend(inst.outs.first().and_then(Operand::as_ap).and_then(free).iter().flat_map(suffixes));
    lengths.sort_unstable();
    lengths.dedup();
    for len in lengths.into_iter().rev().filter(|l| *l > 0 && *l < total && total.is_multiple_of(*l)) {
        if total / len > MAX_PIECES {
            break;
        }
        let made: Option<Vec<Inst>> =
            (0..total / len).map(|k| piece(inst, &shares, k * len, len).filter(|x| fits(x, group))).collect();
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

/// What of an input an output element needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// All of it, or something that is not in memory.
    Whole,
    /// The element of its place.
    One,
    /// A run of elements; the innermost dimensions have a meaning of their own, and there are so many of them.
    Run { elements: u64, dims: usize },
}

impl Share {
    fn elements(self) -> Option<u64> {
        match self {
            Share::Whole => None,
            Share::One => Some(1),
            Share::Run { elements, .. } => Some(elements),
        }
    }
}

/// What of each input an output element needs; `None` when that is not a part of its own.
fn shares(i: &Inst, total: u64) -> Option<SmallVec<[Share; 4]>> {
    if i.outs.len() != 1 || !i.indirection_ins().is_empty() {
        return None;
    }
    match i.opcode {
        Opcode::TensorReduce => {
            let dims = match i.get_enum(Attr::Axis)? {
                AxisListType::X => 1,
                AxisListType::Xy => 2,
                AxisListType::Xyz => 3,
                AxisListType::Xyzw => 4,
                AxisListType::C | AxisListType::Xyzwc => return None,
            };
            let a = i.ins.first()?.as_ap()?;
            let folded = a.pairs.get(1..)?.len().checked_sub(dims).and_then(|k| a.pairs.get(1 + k..))?;
            let elements = folded.iter().try_fold(1u64, |n, p| n.checked_mul(p.num))?;
            let sound = elements > 0
                && elements.checked_mul(total) == Some(a.elems_per_partition())
                && i.ins.len() == 1
                && !i.get_bool(Attr::ApplyTranspose);
            sound.then(|| SmallVec::from_slice(&[Share::Run { elements, dims }]))
        }
        Opcode::Matmult => {
            let moving = i.ins.first()?.as_ap()?;
            // bit 0 starts an accumulation
            let starts = i.get_int(Attr::AccumulationFlag).is_none_or(|f| f & 1 != 0);
            let sound = moving.elems_per_partition() == total
                && i.ins.len() == 2
                && !starts
                && !i.get_bool(Attr::IsTranspose);
            sound.then(|| SmallVec::from_slice(&[Share::One, Share::Whole]))
        }
        _ if element_wise(i) => i
            .ins
            .iter()
            .map(|o| match o.as_ap().map(AccessPattern::elems_per_partition) {
                None | Some(1) => Some(Share::Whole),
                Some(n) => (n == total).then_some(Share::One),
            })
            .collect(),
        _ => None,
    }
}

/// Every output element depends on the input elements of its place alone.
fn element_wise(i: &Inst) -> bool {
    let idle =
        |a: Attr| i.get_enum::<EngineAccumulationType>(a).is_none_or(|v| v == EngineAccumulationType::Idle);
    match i.opcode {
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

/// Elements `start .. start + len` of every partition of a tile. The innermost `keep` dimensions stay as they are.
fn cut(a: &AccessPattern, start: u64, len: u64, keep: usize) -> Option<AccessPattern> {
    let part = slice(&free(a)?, start, len)?;
    let mut pairs = ApPairs::new();
    pairs.push(*a.pairs.first()?);
    let (outer, inner) = part.pairs.split_at(part.pairs.len().checked_sub(keep)?);
    pairs.extend(outer.iter().copied().filter(|p| p.num != 1));
    pairs.extend_from_slice(inner);
    if pairs.len() == 1 {
        pairs.push(tandem_bir::ApPair::new(1, 1));
    }
    Some(AccessPattern { pairs, ..part })
}

fn piece(inst: &Inst, shares: &[Share], start: u64, len: u64) -> Option<Inst> {
    let mut x = inst.clone();
    for (o, share) in x.ins.iter_mut().zip(shares) {
        let Operand::Ap(a) = o else { continue };
        match *share {
            Share::Whole => {}
            Share::One => *a = cut(a, start, len, 0)?,
            Share::Run { elements, dims } => *a = cut(a, start * elements, len * elements, dims)?,
        }
    }
    let out = x.outs.first_mut()?.as_ap_mut()?;
    *out = cut(out, start, len, 0)?;
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
        slots_of(&a.pairs, usize::from(rank), walk).is_ok()
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
