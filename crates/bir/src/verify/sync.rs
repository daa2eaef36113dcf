//! Group 6: semaphores and barriers name things that exist.

use super::{At, Cx, inst_name};
use crate::diag::codes;
use crate::inst::{Attr, Opcode};

/// Semaphores of a core (the specification, file 09 §8.1; equal on all generations).
const SEMAPHORES: u32 = 256;

pub(super) fn inst<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    if let Some(s) = inst.sync() {
        let waits = s.on_wait.iter().map(|w| ("waits for", w.sem));
        for (word, sem) in waits.chain(s.on_update.iter().map(|u| ("updates", u.sem))) {
            if sem >= SEMAPHORES {
                let message = format!("{} {word} semaphore {sem}; a core has {SEMAPHORES}", inst_name(inst));
                cx.at(codes::V0601, at, message);
            }
        }
        for core in s.on_update.iter().filter_map(|u| u.target_core) {
            if core >= cx.program.lnc_size {
                let message = format!(
                    "{} updates a semaphore of core {core}; the LNC has {}",
                    inst_name(inst),
                    cx.program.lnc_size
                );
                cx.at(codes::V0603, at, message);
            }
        }
    }
    if inst.opcode == Opcode::GroupResetSemaphores {
        for s in inst.get_ints(Attr::SemaGroup) {
            if !(0..i64::from(SEMAPHORES)).contains(s) {
                let message = format!("{} clears semaphore {s}; a core has {SEMAPHORES}", inst_name(inst));
                cx.at(codes::V0601, at, message);
            }
        }
    }
    if inst.opcode == Opcode::CoreBarrier {
        barrier(cx, at);
    }
}

fn barrier<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let cores = at.inst.get_ints(Attr::Cores);
    let n = i64::from(cx.program.lnc_size);
    for c in cores {
        if !(0..n).contains(c) {
            let message = format!("{} lists core {c}; the LNC has cores 0..{n}", inst_name(at.inst));
            cx.at(codes::V0602, at, message);
        }
    }
    if let Some(own) = at.module.core
        && !cores.is_empty()
        && !cores.contains(&i64::from(own.0))
    {
        let message = format!("{} on core {own} lists cores {cores:?} without its own", inst_name(at.inst));
        cx.at(codes::V0602, at, message);
    }
}
