//! Group 4: every access lies inside its location and inside the machine, engines reach the memories they use, and the
//! element counts of an instruction's operands agree.
//!
//! Together with the second group this keeps every access below the last partition: an allocated location ends there.
//! Patterns with a run-time address are tested only for being non-empty: where they land is known when they run.

use super::{At, Cx, List, ap_at, effective_engine, inst_name, is_compute, operand_name};
use crate::ap::AccessPattern;
use crate::arch::ArchLevel;
use crate::diag::codes;
use crate::enums::{AxisListType, CopyMode, EngineKind, MatmultPerfMode, MemoryType, TscMode};
use crate::inst::{Attr, Family, Opcode, Operand};
use crate::memloc::MemoryLocation;
use crate::verify::{ShapeRule, shape_rule};

pub(super) fn inst<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let before = cx.found.len() + cx.more;
    for (list, i, op) in super::operands(at.inst) {
        if let Operand::Ap(ap) = op {
            access(cx, at, list, i, ap);
        }
    }
    if cx.found.len() + cx.more == before {
        memories(cx, at);
        shapes(cx, at);
    }
}

fn access<'p>(cx: &mut Cx<'p>, at: At<'p>, list: List, i: usize, ap: &AccessPattern) {
    let l = &at.module.memlocs[ap.loc];
    let who = || operand_name(at.inst, list, i);
    if ap.pairs.is_empty() || ap.pairs.iter().any(|p| p.num == 0) {
        cx.at(codes::V0401, at, format!("{} has an empty pattern over `{}`", who(), l.name));
        return;
    }
    match l.mem {
        MemoryType::Sb | MemoryType::Psum => {
            if ap.is_static() {
                on_chip(cx, at, list, i, ap, l);
            }
        }
        MemoryType::Dram => {
            if ap.is_static() {
                dram(cx, at, list, i, ap, l);
            }
        }
        MemoryType::Unallocated
        | MemoryType::Input
        | MemoryType::Output
        | MemoryType::RngState
        | MemoryType::Reg => {
            let message =
                format!("{} lies in {} (`{}`), which is no memory to address", who(), l.mem, l.name);
            let d = cx.diag(codes::V0406, at, message).note("Unexpected memory type");
            cx.push(d);
        }
    }
}

fn dram<'p>(cx: &mut Cx<'p>, at: At<'p>, list: List, i: usize, ap: &AccessPattern, l: &MemoryLocation) {
    let size = l.size_bytes() / ap.dtype.bytes().max(1);
    let inside = ap.elem_range().is_some_and(|(lo, hi)| lo >= 0 && u64::try_from(hi).is_ok_and(|h| h < size));
    if !inside {
        let range =
            ap.elem_range().map_or("out of number range".to_owned(), |(lo, hi)| format!("{lo}..={hi}"));
        let message = format!(
            "{} touches elements {range} of `{}`, which has {size} of {}",
            operand_name(at.inst, list, i),
            l.name,
            ap.dtype
        );
        cx.at(codes::V0402, at, message);
    }
}

fn on_chip<'p>(cx: &mut Cx<'p>, at: At<'p>, list: List, i: usize, ap: &AccessPattern, l: &MemoryLocation) {
    let who = || operand_name(at.inst, list, i);
    let b = match ap.on_chip_box(l) {
        Ok(b) => b,
        Err(why) => {
            let pitch = l.row_bytes() / ap.dtype.bytes().max(1);
            let message = format!("{} over `{}`: {why}", who(), l.name);
            let pairs: Vec<(i64, u64)> = ap.pairs.iter().map(|p| (p.step, p.num)).collect();
            let d = cx.diag(codes::V0403, at, message);
            cx.push(d.note(format!(
                "offset {}, pairs {pairs:?}, pitch {pitch} elements of {}",
                ap.offset, ap.dtype
            )));
            return;
        }
    };
    let rows = i64::try_from(l.rows()).unwrap_or(i64::MAX);
    if b.first_partition < 0 || b.last_partition >= rows {
        let message = format!(
            "{} touches partitions {}..={} of `{}`, which has {rows}",
            who(),
            b.first_partition,
            b.last_partition,
            l.name
        );
        cx.at(codes::V0402, at, message);
        return;
    }
    let base = if l.allocated { i64::from(l.base) } else { 0 };
    let first = base.saturating_add(b.first_partition);
    // Only an allocated location has a start partition. Index operands ride along with their data operand.
    if l.allocated
        && list != List::Index
        && is_compute(at.inst.spec().family)
        && computes(effective_engine(at.inst))
    {
        let n = ap.num_partitions();
        let ok = match n {
            0..=32 => first % 32 == 0,
            33..=64 => first % 64 == 0,
            _ => first == 0,
        };
        if !ok {
            let message = format!("{} accesses {n} partitions from partition {first}", who());
            let d = cx.diag(codes::V0404, at, message);
            cx.push(d.note(
                "more than 64 partitions start at 0, 33 to 64 at 0 or 64, up to 32 at 0, 32, 64 or 96",
            ));
        }
    }
}

fn computes(e: EngineKind) -> bool {
    match e {
        EngineKind::Pool | EngineKind::Activation | EngineKind::Pe | EngineKind::Dve => true,
        EngineKind::Unassigned | EngineKind::Dma | EngineKind::Sp | EngineKind::All => false,
    }
}

/// Which memories the engine reaches (the specification, file 09 §2.2, file 07 §4.2).
fn memories<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let family = at.inst.spec().family;
    let engine = effective_engine(at.inst);
    if !is_compute(family) || !computes(engine) {
        return;
    }
    for (list, i, op) in super::operands(at.inst) {
        let Operand::Ap(ap) = op else { continue };
        let mem = at.module.memlocs[ap.loc].mem;
        let why = if mem == MemoryType::Dram {
            "compute engines address SBUF and PSUM only"
        } else if engine == EngineKind::Pool && mem == MemoryType::Psum {
            "GPSIMD (engine Pool) cannot read or write PSUM"
        } else if family == Family::Matmul && list == List::In && mem != MemoryType::Sb {
            "PE reads SBUF"
        } else if family == Family::Matmul && list == List::Out && mem != MemoryType::Psum {
            "PE writes PSUM"
        } else {
            continue;
        };
        let message = format!(
            "{} lies in {mem} (`{}`) on engine {engine}",
            operand_name(at.inst, list, i),
            at.module.memlocs[ap.loc].name
        );
        let d = cx.diag(codes::V0406, at, message).note(why);
        cx.push(d);
    }
    let tiles: &[usize] = if at.inst.opcode == Opcode::TensorTensor {
        &[0, 1]
    } else if at.inst.opcode == Opcode::TensorScalarPtr && at.inst.get_bool(Attr::IsScalarTensorTensor) {
        &[0, 2]
    } else {
        return;
    };
    let in_psum =
        |i: &usize| ap_at(at.module, &at.inst.ins, *i).is_some_and(|(_, l)| l.mem == MemoryType::Psum);
    if engine == EngineKind::Dve && tiles.iter().all(in_psum) {
        let message = format!("{} reads both of its tensor inputs from PSUM", inst_name(at.inst));
        let d = cx.diag(codes::V0406, at, message);
        cx.push(d.note("the Vector engine reads at most one of two tensor inputs from PSUM"));
    }
}

fn disagree<'p>(cx: &mut Cx<'p>, at: At<'p>, i: usize, have: u64, want: u64, why: &str) {
    if have != want {
        let message =
            format!("{} has {have} elements, {want} are needed", operand_name(at.inst, List::In, i));
        let d = cx.diag(codes::V0405, at, message).note(why.to_owned());
        cx.push(d);
    }
}

fn wrong_out<'p>(cx: &mut Cx<'p>, at: At<'p>, have: u64, want: u64, why: &str) {
    if have != want {
        let message =
            format!("{} has {have} elements, {want} are needed", operand_name(at.inst, List::Out, 0));
        let d = cx.diag(codes::V0405, at, message).note(why.to_owned());
        cx.push(d);
    }
}

fn too_big<'p>(cx: &mut Cx<'p>, at: At<'p>, what: &str, have: u64, lo: u64, hi: u64) {
    if have < lo || have > hi {
        let message = format!("{}: {what} is {have}", inst_name(at.inst));
        let d = cx.diag(codes::V0407, at, message);
        cx.push(d.note(format!("the machine takes {lo} to {hi}")));
    }
}

fn vector_dynamic(ap: &AccessPattern) -> bool {
    ap.dynamic.as_ref().is_some_and(|d| d.is_vector())
}

fn shapes<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let input = |i: usize| inst.ins.get(i).and_then(Operand::as_ap);
    let out = inst.outs.first().and_then(Operand::as_ap);
    let elems = |i: usize| input(i).map(AccessPattern::num_elems);
    const SAME: &str = "inputs and output of this instruction have equal element counts";
    match shape_rule(inst.opcode) {
        ShapeRule::Free => {}
        ShapeRule::Same(which) => {
            let Some(out) = out else { return };
            for &i in which {
                if let Some(n) = elems(i) {
                    disagree(cx, at, i, n, out.num_elems(), SAME);
                }
            }
        }
        ShapeRule::TensorScalar => {
            let Some(out) = out else { return };
            if inst.get_bool(Attr::ApplyTranspose)
                || inst.get_enum::<TscMode>(Attr::Mode) == Some(TscMode::Reduce)
            {
                return;
            }
            if let Some(n) = elems(0) {
                disagree(cx, at, 0, n, out.num_elems(), SAME);
            }
            if inst.get_bool(Attr::IsScalarTensorTensor)
                && let Some(n) = elems(2)
            {
                disagree(cx, at, 2, n, out.num_elems(), SAME);
            }
        }
        ShapeRule::Shuffle => shuffle(cx, at),
        ShapeRule::Reduce => reduce(cx, at),
        ShapeRule::Pool => {
            let (Some(i), Some(o)) = (input(0), out) else { return };
            let free = i.pairs.get(1..).unwrap_or(&[]);
            let folded = free.iter().rev().take(2).fold(1u64, |a, p| a.saturating_mul(p.num));
            wrong_out(
                cx,
                at,
                o.num_elems(),
                i.num_elems() / folded.max(1),
                "the two innermost pairs fold away",
            );
        }
        ShapeRule::Matmul => matmul(cx, at),
        ShapeRule::PerPartition(n) => {
            let (Some(i), Some(o)) = (input(0), out) else { return };
            let len = i.elems_per_partition();
            if inst.get_bool(Attr::ApplyTranspose) || (inst.opcode == Opcode::BnStats && len == 1) {
                return;
            }
            wrong_out(
                cx,
                at,
                o.elems_per_partition(),
                n,
                "elements per partition of this instruction's result",
            );
            if inst.opcode == Opcode::BnStats {
                too_big(cx, at, "the number of elements per partition", len, 1, 512);
            } else if inst.opcode == Opcode::Max {
                too_big(cx, at, "the number of elements per partition", len, 8, 16_384);
            } else if !len.is_multiple_of(3) {
                let message = format!("{} reads {len} elements per partition", inst_name(inst));
                let d = cx.diag(codes::V0405, at, message);
                cx.push(d.note("statistics come as triples (count, mean, M2): a multiple of 3"));
            }
        }
        ShapeRule::Eight => {
            let Some(o) = out else { return };
            wrong_out(cx, at, o.elems_per_partition(), 8, "eight indexes per partition");
            eight_values(cx, at, input(1));
        }
        ShapeRule::ReplaceEight => {
            let Some(o) = out else { return };
            if let Some(n) = elems(0) {
                disagree(cx, at, 0, n, o.num_elems(), SAME);
            }
            eight_values(cx, at, input(1));
        }
        ShapeRule::Twice => {
            let (Some(i), Some(o)) = (input(0), out) else { return };
            wrong_out(
                cx,
                at,
                o.num_elems(),
                i.num_elems().saturating_mul(2),
                "a start and an end for each element",
            );
        }
        ShapeRule::Scalar => {
            let found = super::operands(inst).find_map(|(l, i, o)| {
                o.as_ap().filter(|a| a.num_elems() != 1).map(|a| (l, i, a.num_elems()))
            });
            if let Some((l, i, n)) = found {
                let message = format!("{} has {n} elements, 1 is needed", operand_name(inst, l, i));
                let d = cx.diag(codes::V0405, at, message);
                cx.push(d.note("a register and memory exchange one scalar"));
            }
        }
        ShapeRule::DmaCopy => dma(cx, at),
        ShapeRule::Predicated => {
            let Some(o) = out else { return };
            let (pred, data) = if inst.ins.len() == 2 { (1, 0) } else { (0, 1) };
            if let Some(n) = elems(pred) {
                disagree(cx, at, pred, n, o.num_elems(), "one predicate for each element of the output");
            }
            // A scalar source is allowed: one value in all, or one per partition.
            if let Some(a) = input(data)
                && a.elems_per_partition() != 1
            {
                disagree(cx, at, data, a.num_elems(), o.num_elems(), SAME);
            }
        }
    }
}

fn eight_values<'p>(cx: &mut Cx<'p>, at: At<'p>, vals: Option<&AccessPattern>) {
    if let Some(v) = vals {
        let n = v.elems_per_partition();
        disagree(cx, at, 1, n, 8, "the instruction searches eight values per partition");
    }
}

/// A shuffle copies whole rows; its source may have fewer partitions than its destination, as a row spread over a block of
/// 32 has (the vendor's kernel library does that with biases).
fn shuffle<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let (Some(i), Some(o)) =
        (at.inst.ins.first().and_then(Operand::as_ap), at.inst.outs.first().and_then(Operand::as_ap))
    else {
        return;
    };
    let why = "rows of source and destination of a shuffle have equal element counts";
    disagree(cx, at, 0, i.elems_per_partition(), o.elems_per_partition(), why);
    let mask = at.inst.get_ints(Attr::Mask);
    if mask.len() != 32 {
        return;
    }
    // Blocks are alike, and the source has as many partitions in each but the last.
    let (have, rows) = (i.num_partitions(), o.num_partitions());
    for p in 0..rows.min(128) {
        let Some(from) = mask.get((p % 32) as usize).filter(|m| (0..32).contains(*m)) else { continue };
        let from = p / 32 * 32 + from.unsigned_abs();
        if from >= have {
            let message = format!(
                "{} has {have} partitions, row {from} goes to {p}",
                operand_name(at.inst, List::In, 0)
            );
            let d = cx.diag(codes::V0405, at, message);
            cx.push(d.note("row mask[i] of a block of 32 partitions goes to row i"));
            return;
        }
    }
}

fn reduce<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let (Some(i), Some(o)) =
        (inst.ins.first().and_then(Operand::as_ap), inst.outs.first().and_then(Operand::as_ap))
    else {
        return;
    };
    if inst.get_bool(Attr::ApplyTranspose) {
        return;
    }
    let folded = match inst.get_enum::<AxisListType>(Attr::Axis) {
        Some(AxisListType::X) => 1,
        Some(AxisListType::Xy) => 2,
        Some(AxisListType::Xyz) => 3,
        Some(AxisListType::Xyzw) => 4,
        Some(AxisListType::C) => {
            wrong_out(
                cx,
                at,
                o.num_elems(),
                i.elems_per_partition(),
                "axis C folds the partitions into one row",
            );
            return;
        }
        Some(AxisListType::Xyzwc) | None => return,
    };
    if i.pairs.len() <= folded {
        let message = format!("{} folds {folded} pairs of a pattern of {}", inst_name(inst), i.pairs.len());
        let d = cx.diag(codes::V0408, at, message);
        cx.push(d.note(format!("Input AP dimension should be larger than num_dims, which is {folded}")));
        return;
    }
    let kept = i.pairs[..i.pairs.len() - folded].iter().fold(1u64, |a, p| a.saturating_mul(p.num));
    wrong_out(cx, at, o.num_elems(), kept, "one result for each position of the pairs that are not folded");
}

fn matmul<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let input = |i: usize| inst.ins.get(i).and_then(Operand::as_ap);
    let (Some(m), Some(s), Some(o)) = (input(0), input(1), inst.outs.first().and_then(Operand::as_ap)) else {
        return;
    };
    let plain = inst.get_enum::<MatmultPerfMode>(Attr::PerfMode) == Some(MatmultPerfMode::None)
        && inst.get_ints(Attr::TileSize).iter().all(|t| *t < 0)
        && inst.get_ints(Attr::TilePosition).iter().all(|t| *t < 0);
    if !plain {
        return;
    }
    let (rows, cols) = (s.elems_per_partition(), m.elems_per_partition());
    too_big(cx, at, "the number of stationary columns", rows, 1, 128);
    let most = if at.module.arch >= ArchLevel::CoreV4 { 16_384 / m.dtype.bytes().clamp(2, 4) } else { 512 };
    too_big(cx, at, "the number of moving columns", cols, 1, most);
    let large = !(1..=128).contains(&rows) || !(1..=most).contains(&cols);
    if large || inst.get_bool(Attr::IsTranspose) {
        return; // which operand is the identity is the front end's business
    }
    if m.num_partitions() != s.num_partitions() {
        let message = format!(
            "{} multiplies {} rows of the moving tile with {} of the stationary one",
            inst_name(inst),
            m.num_partitions(),
            s.num_partitions()
        );
        let d = cx.diag(codes::V0405, at, message);
        cx.push(d.note("both operands have the contracted dimension on their partitions"));
    }
    if o.num_partitions() != rows || o.elems_per_partition() != cols {
        let message = format!(
            "{} writes {} x {} elements, the product has {rows} x {cols}",
            inst_name(inst),
            o.num_partitions(),
            o.elems_per_partition()
        );
        let d = cx.diag(codes::V0405, at, message);
        cx.push(d.note("dst[m, n] = sum over k of stationary[k, m] * moving[k, n]"));
    }
}

fn dma<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let Some(o) = inst.outs.first().and_then(Operand::as_ap) else { return };
    if vector_dynamic(o) {
        return;
    }
    let want = o.num_elems();
    for (i, op) in inst.ins.iter().enumerate() {
        let Operand::Ap(a) = op else { continue };
        if vector_dynamic(a) {
            continue;
        }
        match inst.get_enum::<CopyMode>(Attr::Mode) {
            Some(CopyMode::Copy | CopyMode::Transpose | CopyMode::Cce) => {
                let why = "source and destination of a transfer have equal element counts";
                disagree(cx, at, i, a.num_elems(), want, why);
            }
            Some(CopyMode::Replicate) => {
                if !want.is_multiple_of(a.num_elems().max(1)) {
                    let message =
                        format!("{} replicates {} elements into {want}", inst_name(inst), a.num_elems());
                    let d = cx.diag(codes::V0405, at, message);
                    cx.push(d.note("the destination of a replication is a multiple of its source"));
                }
            }
            Some(CopyMode::Dynamic) | None => {}
        }
    }
}
