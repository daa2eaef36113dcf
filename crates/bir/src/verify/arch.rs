//! Group 7: what the generation and the size of the LNC allow.

use super::{At, Cx, inst_name, operand_name};
use crate::analysis::sb2sb::{self, Predicate};
use crate::arch::ArchLevel;
use crate::diag::{Diagnostic, codes};
use crate::enums::{AddressSpace, BirEnum, MemoryType};
use crate::inst::{Family, Opcode};

/// The size of the LNC and the generation of each module. False: there is no such LNC, and nothing can be said about
/// its instructions.
pub(super) fn modules(cx: &mut Cx<'_>) -> bool {
    let program = cx.program;
    let n = program.lnc_size;
    if n != 1 && n != 2 {
        cx.push(Diagnostic::new(codes::V0701, format!("LNC size must be 1 or 2, got {n}")));
        return false;
    }
    for m in &program.modules {
        match m.arch.spec() {
            None => {
                let message =
                    format!("module `{}` is for {}, which has no hardware model here", m.name, m.arch);
                cx.in_module(codes::V0706, m, String::new(), message);
            }
            Some(s) if n > s.max_lnc => {
                let message =
                    format!("{} ({}) has {} core per LNC, the program has {n}", m.arch, s.target, s.max_lnc);
                cx.in_module(codes::V0703, m, String::new(), message);
            }
            Some(_) => {}
        }
    }
    true
}

/// First generation that has the instruction (the specification, file 03 §3, marks g3 and g4); `None`: all of them.
pub(super) fn first_arch(op: Opcode) -> Option<ArchLevel> {
    const GEN3: &[Opcode] = &[
        Opcode::MatmultSparse,
        Opcode::GpsimdSb2Sb,
        Opcode::RangeSelect,
        Opcode::GetSequenceBounds,
        Opcode::CoreBarrier,
        Opcode::MaxIndexAndMatchReplace,
        Opcode::RandSetState,
        Opcode::RandGetState,
        Opcode::NonzeroWithCount,
    ];
    const GEN4: &[Opcode] = &[Opcode::MatmultMx, Opcode::QuantizeMx, Opcode::Rand2, Opcode::Exponential];
    if GEN3.contains(&op) {
        Some(ArchLevel::Gen3)
    } else if GEN4.contains(&op) {
        Some(ArchLevel::CoreV4)
    } else {
        None
    }
}

pub(super) fn inst<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let op = inst.opcode;
    let n = cx.program.lnc_size;
    if let Some(first) = first_arch(op)
        && at.module.arch < first
    {
        let message =
            format!("{} exists from {first} on; the program is for {}", inst_name(inst), at.module.arch);
        let d = cx.diag(codes::V0702, at, message);
        let note = format!("needs ArchLevel {}, has {}", first.ordinal(), at.module.arch.ordinal());
        cx.push(d.note(note));
    } else if matches!(op, Opcode::CoreBarrier | Opcode::GpsimdSb2Sb) && n != 2 {
        let message = format!("{} needs an LNC of 2 cores; the program has {n}", inst_name(inst));
        let mut d = cx.diag(codes::V0703, at, message);
        if op == Opcode::GpsimdSb2Sb {
            d = d.note(format!("predicate C1; vendor assertion 936 (actual {n}, supported 2)"));
        }
        cx.push(d);
    } else if op == Opcode::GpsimdSb2Sb {
        swap(cx, at);
    }
    aliases(cx, at);
}

fn swap<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let n = cx.program.lnc_size;
    let Some(p) = sb2sb::verify_inst(n, at.module, at.inst) else { return };
    let message = format!("{} cannot run as a GPSIMD swap: {} does not hold", inst_name(at.inst), p.id());
    let mut d = cx.diag(codes::V0704, at, message).note(format!("{}: {}", p.id(), p.text()));
    let src = at.inst.ins.first().and_then(|o| o.as_ap());
    let dst = at.inst.outs.first().and_then(|o| o.as_ap());
    if let (Some(s), Some(t)) = (src, dst) {
        let c = sb2sb::compatibility(n, at.module.arch, s, t, at.module);
        if let Some(r) = c.predicates.iter().find(|r| r.predicate == p) {
            d = d.note(format!("value: {}", r.value));
        }
    } else if p == Predicate::V1 {
        d = d.note(format!("value: {}", at.inst.engine));
    }
    cx.push(d);
}

/// Only DMA copies and descriptors may use another core's memory; tokens and barriers may name it. A shared DRAM location
/// that is marked as remote on a core is the same memory, not an alias.
fn aliases<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let op = at.inst.opcode;
    let allowed = op == Opcode::DmaCopy
        || op.spec().family == Family::DmaDescriptor
        || matches!(op, Opcode::TensorCompletion | Opcode::CoreBarrier);
    if allowed {
        return;
    }
    for (list, i, o) in super::operands(at.inst) {
        let Some(ap) = o.as_ap() else { continue };
        let l = &at.module.memlocs[ap.loc];
        let Some(t) = &l.remote_local_target else { continue };
        let shared = l.mem == MemoryType::Dram && at.module.sets[l.set].addr_space == AddressSpace::Shared;
        if !shared {
            let message = format!(
                "{} is `{}`, an alias of `{}` on core {}; only a DMACopy reaches it",
                operand_name(at.inst, list, i),
                l.name,
                t.name,
                t.core
            );
            cx.at(codes::V0705, at, message);
        }
    }
}
