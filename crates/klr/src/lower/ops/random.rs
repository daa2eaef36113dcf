//! Random numbers and their state.

use super::inst;
use crate::ast as k;
use crate::lower::{Core, Step, enums};
use tandem_bir::{Attr, MemsetMode, Opcode};

/// IT 10 in random mode.
pub(super) fn rng(c: &mut Core<'_>, o: &k::Rng) -> Step {
    let dst = c.ap(&o.dst)?;
    let mut i = inst(Opcode::Memset);
    i.engine = enums::engine(o.engine);
    i.set(Attr::Mode, MemsetMode::Random);
    i.set(Attr::Constant, 0i64);
    i.outs.push(dst.into());
    c.emit("Rng-", i);
    Ok(())
}

/// IT 97.
pub(super) fn rand2(c: &mut Core<'_>, o: &k::Rand2) -> Step {
    let dst = c.ap(&o.dst)?;
    let mut i = inst(Opcode::Rand2);
    i.ins = vec![c.operand(&o.min)?, c.operand(&o.max)?];
    i.outs.push(dst.into());
    c.emit("Rand2-", i);
    Ok(())
}

/// IT 99.
pub(super) fn get_state(c: &mut Core<'_>, o: &k::RandGetState) -> Step {
    let dst = c.ap(&o.dst)?;
    let mut i = inst(Opcode::RandGetState);
    i.engine = enums::engine(o.engine);
    i.outs.push(dst.into());
    c.emit("RandGetState-", i);
    Ok(())
}

/// IT 98.
pub(super) fn set_state(c: &mut Core<'_>, o: &k::RandSetState) -> Step {
    let src = c.ap(&o.src)?;
    let mut i = inst(Opcode::RandSetState);
    i.engine = enums::engine(o.engine);
    i.ins.push(src.into());
    c.emit("RandSetState-", i);
    Ok(())
}

/// IT 59.
pub(super) fn set_seed(c: &mut Core<'_>, o: &k::SetRngSeed) -> Step {
    let src = c.ap(&o.src)?;
    let mut i = inst(Opcode::SetRandState);
    i.ins.push(src.into());
    c.emit("SetRandState-", i);
    Ok(())
}
