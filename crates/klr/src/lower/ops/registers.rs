//! Registers, branches (fan-out F5) and rank instructions.

use super::{collective, inst};
use crate::ast as k;
use crate::lower::{Core, Step, enums};
use tandem_bir::{Attr, Dtype, EngineKind, Immediate, Opcode, Operand, RegAccess};

/// IT 75.
pub(super) fn load(c: &mut Core<'_>, o: &k::TensorLoad) -> Step {
    // First, so that later statements know the register also when the access is bad.
    let dst = c.reg_operand(&o.dst);
    let src = c.tile(&o.src)?;
    let mut i = inst(Opcode::TensorLoad);
    i.engine = EngineKind::All;
    let src = src.into_operand(&mut i);
    i.ins.push(src);
    i.outs.push(dst);
    c.emit("TensorLoad-", i);
    Ok(())
}

/// IT 76.
pub(super) fn store(c: &mut Core<'_>, o: &k::TensorStore) -> Step {
    let dst = c.tile(&o.dst)?;
    let mut i = inst(Opcode::TensorSave);
    i.engine = EngineKind::All;
    i.ins.push(c.reg_operand(&o.src));
    let dst = dst.into_operand(&mut i);
    i.outs.push(dst);
    c.emit("TensorStore-", i);
    Ok(())
}

/// IT 74.
pub(super) fn set(c: &mut Core<'_>, o: &k::RegisterMove) -> Step {
    let mut i = inst(Opcode::RegisterMove);
    i.engine = EngineKind::All;
    i.ins.push(Immediate::i32(o.imm).into());
    i.outs.push(c.reg_operand(&o.dst));
    c.emit("RegisterMove-", i);
    Ok(())
}

/// IT 73.
pub(super) fn alu(c: &mut Core<'_>, o: &k::RegisterAluOp) -> Step {
    let mut i = inst(Opcode::RegisterAlu);
    i.engine = EngineKind::All;
    i.set(Attr::Op, enums::alu(o.op));
    i.ins = vec![c.reg_operand(&o.src), Immediate::i32(o.imm).into()];
    i.outs.push(c.reg_operand(&o.dst));
    c.emit("RegisterAlu-", i);
    Ok(())
}

/// IT 79 or 78. A branch into a `noReorder` block never comes here.
pub(super) fn branch(c: &mut Core<'_>, o: &k::CmpBranch) -> Step {
    let Some(compare) = enums::branch(o.op) else {
        let target = c.branch_target(&o.true_label)?;
        let mut i = inst(Opcode::UnconditionalBranch);
        i.set(Attr::Target, target.as_str());
        c.emit("UnconditionalBranch-", i);
        return Ok(());
    };
    let left = c.find_register(&o.reg1)?;
    let right = if o.op.kind() <= k::BrCmpOp::GtImm.kind() {
        Operand::Imm(Immediate::i32(o.imm))
    } else {
        c.find_register(&o.reg2)?
    };
    let on_true = c.branch_target(&o.true_label)?;
    let on_false = c.branch_target(&o.false_label)?;
    let mut i = inst(Opcode::CompareAndBranch);
    i.set(Attr::CompOp, compare);
    i.set(Attr::OnTrue, on_true.as_str());
    i.set(Attr::OnFalse, on_false.as_str());
    i.ins = vec![left, right];
    c.emit("CmpAndBranch-", i);
    Ok(())
}

fn rank_register(c: &mut Core<'_>, name: &k::Str) -> Operand {
    Operand::Reg(RegAccess { reg: c.register(name), dtype: Dtype::Uint32 })
}

/// IT 11.
pub(super) fn rank_id(c: &mut Core<'_>, o: &k::RankId) -> Step {
    let mut i = inst(Opcode::GetGlobalRankId);
    i.engine = EngineKind::All;
    i.set(Attr::WorldSize, 0i64);
    i.outs.push(rank_register(c, &o.dst));
    c.emit("GetGlobalRankId-", i);
    Ok(())
}

/// IT 66.
pub(super) fn processing_rank_id(c: &mut Core<'_>, o: &k::CurrentProcessingRankId) -> Step {
    let dst = rank_register(c, &o.dst);
    collective::check_groups(c, &o.replica_group)?;
    let mut i = inst(Opcode::GetCurProcessingRankId);
    i.engine = EngineKind::All;
    i.set(Attr::IterId, o.iteration_id);
    i.set(Attr::ChannelId, o.channel_id);
    i.set(Attr::ReplicaGroups, o.replica_group.clone());
    i.outs.push(dst);
    c.emit("GetCurProcessingRankID-", i);
    Ok(())
}
