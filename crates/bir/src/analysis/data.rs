//! Does the control flow, or an address, depend on data?
//!
//! A register *derives from data* when a TensorLoad writes it, or an instruction that reads a register which does (flow is
//! ignored: one such write anywhere counts). A program depends on data when a branch, a loop bound, a loop condition, a
//! predicate, a rank or an address uses such a register, when an address comes from memory (index operands, dynamic tensor
//! copies, gathers by an index tensor), or when something that cannot be looked into may do either.
//!
//! Where nothing depends on data, one run shows the control flow and the addresses of every run. May say "depends" of a program
//! that does not (an index tensor that is a constant); never the reverse.

use crate::entity::EntityRef as _;
use crate::expr::Expr;
use crate::ids::{InstId, RegId};
use crate::inst::{AttrValue, Family, Inst, Opcode, Operand, OtherOperand};
use crate::module::{Module, Program};
use serde_json::Value;

/// A place where control flow or an address depends on data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataUse {
    /// Position of the module in the program.
    pub module: usize,
    /// The instruction.
    pub inst: InstId,
    /// What depends: `a branch`, `a loop`, `an address`, …
    pub what: &'static str,
}

/// The first place, in program order, where control flow or an address depends on data; `None` when none does.
pub fn depends_on_data(program: &Program) -> Option<DataUse> {
    program.modules.iter().enumerate().find_map(|(k, m)| {
        let (inst, what) = module(m)?;
        Some(DataUse { module: k, inst, what })
    })
}

/// Registers that derive from data, by index.
fn derived(m: &Module) -> Vec<bool> {
    let mut from_data = vec![false; m.regs.len()];
    loop {
        let mut grew = false;
        for (_, _, id) in m.walk() {
            let i = &m.insts[id];
            let tainted = i.opcode == Opcode::TensorLoad
                || i.ins.iter().any(|o| reads(o, &from_data))
                || attributes(m, i, &from_data);
            if !tainted {
                continue;
            }
            for r in i.outs.iter().filter_map(Operand::as_reg) {
                if let Some(t) = from_data.get_mut(r.reg.index()) {
                    grew |= !*t;
                    *t = true;
                }
            }
        }
        if !grew {
            return from_data;
        }
    }
}

fn is_set(set: &[bool], r: RegId) -> bool {
    set.get(r.index()).copied().unwrap_or(false)
}

fn uses(e: &Expr, set: &[bool]) -> bool {
    let mut hit = false;
    e.for_each_leaf(&mut |l| {
        hit |= match l {
            Expr::Reg(r) => is_set(set, *r),
            _ => false,
        };
    });
    hit
}

fn from_memory(e: &Expr) -> bool {
    let mut hit = false;
    e.for_each_leaf(&mut |l| hit |= matches!(l, Expr::IndirectArg(_)));
    hit
}

/// A register operand derives from data.
fn reads(o: &Operand, set: &[bool]) -> bool {
    o.as_reg().is_some_and(|r| is_set(set, r.reg))
}

/// An attribute holds an expression, or names a register in JSON, that derives from data.
fn attributes(m: &Module, i: &Inst, set: &[bool]) -> bool {
    i.attrs.iter().any(|(_, v)| match v {
        AttrValue::Expr(e) => uses(e, set),
        AttrValue::Exprs(l) => l.iter().any(|e| uses(e, set)),
        AttrValue::Json(v) => names(m, v, set),
        _ => false,
    })
}

/// A text in the value is the name of a register that derives from data.
fn names(m: &Module, v: &Value, set: &[bool]) -> bool {
    let mut stack = vec![v];
    while let Some(v) = stack.pop() {
        match v {
            Value::String(s) => {
                if m.regs.iter().any(|(r, x)| x.name == *s && is_set(set, r)) {
                    return true;
                }
            }
            Value::Array(l) => stack.extend(l),
            Value::Object(o) => stack.extend(o.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    false
}

fn module(m: &Module) -> Option<(InstId, &'static str)> {
    let set = derived(m);
    m.walk().into_iter().find_map(|(_, _, id)| Some((id, instruction(m, &m.insts[id], &set)?)))
}

fn instruction(m: &Module, i: &Inst, set: &[bool]) -> Option<&'static str> {
    if i.spec().family == Family::Kernel {
        return Some("opaque code");
    }
    if !i.indirection_ins().is_empty() {
        return Some("an address");
    }
    let memory = |o: &Operand| match o {
        Operand::Ap(a) => {
            a.dynamic.as_ref().is_some_and(|d| d.terms.iter().any(|(_, e)| uses(e, set) || from_memory(e)))
        }
        Operand::Other(o) => match &**o {
            OtherOperand::Symbolic { .. } | OtherOperand::RegisterAp { .. } => true,
            OtherOperand::SymbolicImm { .. } | OtherOperand::ImmArray { .. } => false,
        },
        Operand::Imm(_) | Operand::Reg(_) => false,
    };
    if i.ins.iter().chain(&i.outs).any(memory) {
        return Some("an address");
    }
    if let Some(more) = &i.more
        && more.predicates.iter().any(|e| uses(e, set) || from_memory(e))
    {
        return Some("a predicate");
    }
    let registers = || i.ins.iter().any(|o| reads(o, set)) || attributes(m, i, set);
    match i.opcode {
        Opcode::CompareAndBranch => registers().then_some("a branch"),
        Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => registers().then_some("a loop"),
        Opcode::CollectiveCompute | Opcode::CoreBarrier | Opcode::GpsimdSb2Sb => {
            registers().then_some("a meeting")
        }
        Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst => {
            let offset = i.ins.iter().skip(1);
            let memory = offset.clone().any(|o| o.as_ap().is_some());
            (memory || registers()).then_some("an address")
        }
        Opcode::Gather
        | Opcode::IndirectCopy
        | Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::GenericIndirectSave
        | Opcode::IndirectSave
        | Opcode::IndirectSaveAccumulate => Some("an index"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    fn program(body: &str) -> Program {
        let src = format!(
            "bir 1
program \"t\" lnc 1 level bir
module @nc00 core 0 arch gen3 {{
  func @main {{
    reg $r = ALL
    reg $s = ALL
    reg $k = ALL
    set @a_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @a = SB [4, 32] addr 0 allocated }}
    set @n_set = Internal Tensor Local int32 [1] {{ loc @n = DRAM [4] addr 0 }}
{body}
  }}
}}
"
        );
        text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"))
    }

    fn branch(first: &str) -> Program {
        program(&format!(
            "    block b0 {{
      {first}
      k = RegisterMove ALL $k int32 <- 3 int32
      copy = RegisterMove ALL $s int32 <- $r int32
      br = CompareAndBranch ALL <- $s int32, $k int32 {{comp_op = IS_EQREG, on_true = b1, on_false = b1}}
    }}
    block b1 {{
      end = NoOp SP
    }}"
        ))
    }

    #[test]
    fn a_branch_on_a_loaded_value_depends_and_one_on_a_constant_does_not() {
        let d = depends_on_data(&branch("ld = TensorLoad ALL $r int32 <- @n[[1,1]] int32"));
        assert_eq!(d.map(|d| d.what), Some("a branch"));
        assert_eq!(depends_on_data(&branch("mv = RegisterMove ALL $r int32 <- 3 int32")), None);
    }
}
