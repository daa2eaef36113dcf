//! `assign-engines`: gives every instruction without an engine the default of its type.
//!
//! Ensures: no engine is Unassigned where the type's row has a default. Touches every core alike. Two types choose by
//! operands (the specification, file 04 §6.1): a TensorTensor of 32-bit integers without a PSUM operand goes to Pool, where
//! the arithmetic is native (file 09 §5.4), and a TensorReduce over partitions goes to Pool.

use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use tandem_bir::{Attr, AxisListType, Dtype, EngineKind, Inst, MemoryType, Module, Opcode, Operand, Program};

/// The pass.
#[derive(Debug)]
pub struct AssignEngines;

static INFO: PassInfo = PassInfo {
    name: "assign-engines",
    summary: "fills in the default engine of each instruction",
    requires: &[],
    ensures: &[Fact::EnginesAssigned],
    breaks: &[],
    options: &[],
    stats: &["assigned"],
};

impl Pass for AssignEngines {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let mut n = 0;
        for m in &mut p.modules {
            for (_, _, i) in m.walk() {
                if m.insts[i].engine == EngineKind::Unassigned {
                    let e = default_engine(m, &m.insts[i]);
                    n += u64::from(e != EngineKind::Unassigned);
                    m.insts[i].engine = e;
                }
            }
        }
        cx.count("assigned", n);
        Ok(())
    }
}

/// Engine an instruction gets when it has none. Types without a default that do run (device prints, raw bytes, custom
/// code) go to Pool, DMA triggers to SP: our choice.
pub fn default_engine(m: &Module, i: &Inst) -> EngineKind {
    match i.opcode {
        Opcode::TensorTensor if native_int32(m, i) => EngineKind::Pool,
        Opcode::TensorReduce if i.get_enum::<AxisListType>(Attr::Axis) == Some(AxisListType::C) => {
            EngineKind::Pool
        }
        Opcode::DevicePrint | Opcode::InlineAsmBytes | Opcode::CustomOp => EngineKind::Pool,
        Opcode::DmaTrigger => EngineKind::Sp,
        op => op.spec().engine,
    }
}

fn native_int32(m: &Module, i: &Inst) -> bool {
    i.ins.iter().chain(&i.outs).all(|o| match o {
        Operand::Ap(a) => {
            matches!(a.dtype, Dtype::Int32 | Dtype::Uint32)
                && m.memlocs.get(a.loc).is_some_and(|l| l.mem != MemoryType::Psum)
        }
        Operand::Imm(_) | Operand::Reg(_) | Operand::Other(_) => false,
    })
}
