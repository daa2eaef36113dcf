//! Group 5: may this engine run this instruction?
//!
//! The rule is the vendor's (the specification, file 03 §7): an instruction passes when its engine is open or ALL, when
//! the type's legal set is unknown, contains the engine, or contains ALL.

use super::{At, Cx, inst_name};
use crate::diag::codes;
use crate::enums::{BirEnum, EngineKind};

pub(super) fn inst<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let legal = at.inst.spec().legal_engines;
    let e = at.inst.engine;
    if legal.is_empty()
        || matches!(e, EngineKind::Unassigned | EngineKind::All)
        || legal.contains(&e)
        || legal.contains(&EngineKind::All)
    {
        return;
    }
    let names: Vec<&str> = legal.iter().map(|e| e.name()).collect();
    let message = format!("{} cannot run on {e}", inst_name(at.inst));
    let d = cx.diag(codes::V0501, at, message);
    let note = format!(
        "valid engines: {}; opcode {}; arch {}; engine {e} (vendor assertion 400)",
        names.join(", "),
        at.inst.opcode,
        at.module.arch
    );
    cx.push(d.note(note));
}
