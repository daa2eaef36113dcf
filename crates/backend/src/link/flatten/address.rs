//! Addresses and bounds: axes become registers or numbers, divisions become register operations.

use super::{Axis, Flat, reg};
use tandem_bir::diag::Loc;
use tandem_bir::{
    AluOp, Attr, AttrValue, CompactString, Expr, Immediate, Inst, InstId, Module, Opcode, Operand, RegId,
};

/// A run-time address that is no sum of scaled registers and indexes.
pub(super) fn run_time_division(i: &Inst) -> bool {
    i.ins
        .iter()
        .chain(&i.outs)
        .filter_map(Operand::as_ap)
        .filter_map(|a| a.dynamic.as_deref())
        .any(|d| d.terms.iter().any(|(_, e)| !is_plain(e)))
}

/// A leaf, or a sum of scaled registers and indexes: what an address says without further instructions.
fn is_plain(e: &Expr) -> bool {
    let leaf = |e: &Expr| matches!(e, Expr::Reg(_) | Expr::IndirectArg(_));
    match e {
        Expr::Const(_) => true,
        Expr::Affine { terms, .. } => terms.iter().all(|(_, e)| leaf(e)),
        e => leaf(e),
    }
}

/// An expression with every axis of an enclosing loop replaced by what it is there.
fn without_axes(e: &Expr, axes: &[(CompactString, Axis)]) -> Expr {
    e.substitute(&|l| {
        let Expr::LoopAxis(n) = l else { return None };
        axes.iter().rev().find(|(a, _)| a == n).map(|(_, v)| match v {
            Axis::Reg(r) => Expr::Reg(*r),
            Axis::Const(c) => Expr::Const(*c),
        })
    })
}

impl Flat<'_> {
    /// Replaces axes in the addresses of an instruction, and divisions by register operations before it.
    pub(super) fn addresses(&mut self, id: InstId) {
        let loc = self.m.insts[id].loc;
        let name = self.m.insts[id].name.clone();
        let mut used = 0;
        for list in 0..3 {
            let n = match list {
                0 => self.m.insts[id].ins.len(),
                1 => self.m.insts[id].outs.len(),
                _ => self.m.insts[id].indirection_ins().len(),
            };
            for k in 0..n {
                let Some(mut d) = operand(self.m, id, list, k).and_then(|a| a.dynamic.take()) else {
                    continue;
                };
                for (_, e) in &mut d.terms {
                    *e = without_axes(e, &self.axes);
                    if !is_plain(e)
                        && !mentions_index(e)
                        && let Some((terms, c)) = self.linear((&name, loc), e, &mut used)
                    {
                        *e = match terms.as_slice() {
                            [] => Expr::Const(c),
                            [(1, r)] if c == 0 => Expr::Reg(*r),
                            _ => Expr::Affine {
                                terms: terms.iter().map(|(k, r)| (*k, Expr::Reg(*r))).collect(),
                                c,
                            },
                        };
                    }
                }
                // an address that became constant is a plain one
                let constant = d.terms.iter().try_fold(0i64, |n, (k, e)| {
                    e.as_const().and_then(|c| c.checked_mul(*k)).and_then(|v| n.checked_add(v))
                });
                if let Some(a) = operand(self.m, id, list, k) {
                    match constant.and_then(|n| a.offset.checked_add(n)) {
                        Some(offset) if d.max_index.is_none() => a.offset = offset,
                        _ => a.dynamic = Some(d),
                    }
                }
            }
        }
        let axes = &self.axes;
        for (_, v) in self.m.insts[id].attrs.iter_mut() {
            if let AttrValue::Expr(e) = v {
                **e = without_axes(e, axes);
            }
        }
    }

    /// An expression over registers as a sum of scaled registers, with register operations for what is none; `None` when they
    /// cannot say it.
    fn linear(&mut self, at: (&str, Loc), e: &Expr, used: &mut usize) -> Option<(Vec<(i64, RegId)>, i64)> {
        let scaled = |(terms, c): (Vec<(i64, RegId)>, i64), k: i64| -> Option<(Vec<(i64, RegId)>, i64)> {
            let terms =
                terms.into_iter().map(|(j, r)| Some((j.checked_mul(k)?, r))).collect::<Option<Vec<_>>>()?;
            Some((terms, c.checked_mul(k)?))
        };
        match e {
            Expr::Const(c) => Some((Vec::new(), *c)),
            Expr::Reg(r) => Some((vec![(1, *r)], 0)),
            Expr::Affine { terms, c } => {
                let mut out = (Vec::new(), *c);
                for (k, e) in terms {
                    let t = scaled(self.linear(at, e, used)?, *k)?;
                    out.0.extend(t.0);
                    out.1 = out.1.checked_add(t.1)?;
                }
                Some(out)
            }
            Expr::Sum(v) => {
                let mut out = (Vec::new(), 0i64);
                for e in v {
                    let t = self.linear(at, e, used)?;
                    out.0.extend(t.0);
                    out.1 = out.1.checked_add(t.1)?;
                }
                Some(out)
            }
            Expr::Mult { var, scale } => scaled(self.linear(at, var, used)?, *scale),
            Expr::FloorDiv(n, d) | Expr::CcDiv { numer: n, denom: d, .. } | Expr::Modulo(n, d)
                if *d > 0 && d.count_ones() == 1 && i32::try_from(*d).is_ok() =>
            {
                let inner = self.linear(at, n, used)?;
                let r = self.temporary(used);
                self.sum(at, &inner, r, used)?;
                let (op, v) = if matches!(e, Expr::Modulo(..)) {
                    (AluOp::BitwiseAnd, *d - 1)
                } else {
                    (AluOp::ArithShiftRight, i64::from(d.trailing_zeros()))
                };
                self.alu(at, op, r, Operand::Imm(Immediate::i32(v as i32)));
                Some((vec![(1, r)], 0))
            }
            Expr::FloorDiv(..)
            | Expr::CcDiv { .. }
            | Expr::Modulo(..)
            | Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::CcGetRank { .. } => None,
        }
    }

    fn temporary(&mut self, used: &mut usize) -> RegId {
        *used += 1;
        if let Some(r) = self.pool.get(*used - 1) {
            return *r;
        }
        let r = self.fresh_register("part");
        self.pool.push(r);
        r
    }

    fn alu(&mut self, at: (&str, Loc), op: AluOp, r: RegId, with: Operand) {
        let mut i = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, op);
        i.ins = vec![reg(r), with];
        i.outs = vec![reg(r)];
        self.add(at.0, at.1, i);
    }

    /// A sum of scaled registers into a register.
    fn sum(
        &mut self,
        at: (&str, Loc),
        (terms, c): &(Vec<(i64, RegId)>, i64),
        to: RegId,
        used: &mut usize,
    ) -> Option<()> {
        let mut mv = Inst::new("", Opcode::RegisterMove);
        mv.ins = vec![Operand::Imm(Immediate::i32(i32::try_from(*c).ok()?))];
        mv.outs = vec![reg(to)];
        self.add(at.0, at.1, mv);
        for (k, r) in terms {
            if *k == 1 {
                self.alu(at, AluOp::Add, to, reg(*r));
                continue;
            }
            let t = self.temporary(used);
            let mut mul = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Mult);
            mul.ins = vec![reg(*r), Operand::Imm(Immediate::i32(i32::try_from(*k).ok()?))];
            mul.outs = vec![reg(t)];
            self.add(at.0, at.1, mul);
            self.alu(at, AluOp::Add, to, reg(t));
        }
        Some(())
    }

    /// The value of a loop bound into a register.
    pub(super) fn value(&mut self, at: (&str, Loc), e: &Expr, to: RegId) {
        let mut used = 0;
        match e {
            Expr::Reg(r) => {
                let mut mv = Inst::new("", Opcode::RegisterMove);
                mv.ins = vec![reg(*r)];
                mv.outs = vec![reg(to)];
                self.add(at.0, at.1, mv);
            }
            e => {
                if let Some(s) = self.linear(at, e, &mut used) {
                    let _ = self.sum(at, &s, to, &mut used);
                }
            }
        }
    }
}

fn operand(m: &mut Module, id: InstId, list: usize, k: usize) -> Option<&mut tandem_bir::AccessPattern> {
    let i = &mut m.insts[id];
    match list {
        0 => i.ins.get_mut(k),
        1 => i.outs.get_mut(k),
        _ => i.more.as_mut()?.indirection_ins.get_mut(k),
    }?
    .as_ap_mut()
}

fn mentions_index(e: &Expr) -> bool {
    let mut found = false;
    e.for_each_leaf(&mut |l| found |= matches!(l, Expr::IndirectArg(_)));
    found
}

/// Register operations can compute the expression: every division is by a power of two.
pub(super) fn by_registers(e: &Expr) -> bool {
    let power = |d: i64| d > 0 && d.count_ones() == 1;
    match e {
        Expr::Affine { terms, .. } => terms.iter().all(|(_, e)| by_registers(e)),
        Expr::Sum(v) => v.iter().all(by_registers),
        Expr::Mult { var, .. } => by_registers(var),
        Expr::FloorDiv(n, d) | Expr::CcDiv { numer: n, denom: d, .. } | Expr::Modulo(n, d) => {
            power(*d) && by_registers(n)
        }
        Expr::Const(_) | Expr::Reg(_) | Expr::LoopAxis(_) => true,
        Expr::ShardId { .. } | Expr::IndirectArg(_) | Expr::CcGetRank { .. } => false,
    }
}
