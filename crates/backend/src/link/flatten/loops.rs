//! Loops and do-while regions: a register of every engine counts, or the body is written out once per iteration.

use super::address::by_registers;
use super::{Axis, Flat, Frame, MAX_DEPTH, reg};
use tandem_bir::{
    AluOp, Attr, AttrValue, BlockId, BranchCompareOp, CompactString, Expr, Immediate, Inst, InstId, Module,
    Opcode, Operand, RegId,
};

struct Looped {
    axis: Option<CompactString>,
    lower: Expr,
    upper: Expr,
    stride: i64,
}

impl Flat<'_> {
    pub(super) fn do_while(&mut self, i: InstId, frame: &Frame) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let cond = match self.m.insts[i].attrs.get(Attr::Cond) {
            Some(AttrValue::Json(v)) => {
                let n = v.as_str().or_else(|| v.get("regref").and_then(|r| r.as_str()));
                n.and_then(|n| register(self.m, n))
            }
            _ => None,
        };
        let Some(cond) = cond else {
            self.refuse(i, "the condition of the loop is no register");
            return;
        };
        let blocks = self.m.insts[i].regions().to_vec();
        let Some(heads) = self.heads(&blocks) else { return };
        let latch = self.fresh_block(&format!("{name}-latch"));
        let exit = self.fresh_block(&format!("{name}-exit"));
        self.jump(&name, loc, heads[0]);
        self.run(&blocks, &heads, &Frame { after: Some(latch), brk: Some(exit), ..*frame });
        self.start(latch);
        let zero = Operand::Imm(Immediate::i32(0));
        self.branch((&name, loc), BranchCompareOp::NeImm, cond, zero, [heads[0], exit]);
        self.start(exit);
    }

    pub(super) fn looped(&mut self, i: InstId, frame: &Frame) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let l = match axis_of(self.m, &self.m.insts[i]) {
            Ok(l) => l,
            Err(e) => {
                self.refuse(i, e);
                return;
            }
        };
        let blocks = self.m.insts[i].regions().to_vec();
        let bounds = (l.lower.as_const(), l.upper.as_const());
        if let (Some(lo), Some(up)) = bounds
            && lo >= up
        {
            return;
        }
        if blocks.is_empty() {
            return;
        }
        if let Some(axis) = &l.axis
            && self.divides(&blocks, axis, 0)
        {
            match bounds {
                (Some(lo), Some(up)) => self.unroll(i, &blocks, axis, (lo, up, l.stride), frame),
                _ => self.refuse(
                    i,
                    "the body divides the axis of a loop with bounds known only at run time, which registers cannot do",
                ),
            }
            return;
        }
        let top = bounds.1.map(|u| u.checked_add(l.stride));
        if [bounds.0, bounds.1, top.flatten(), Some(l.stride)]
            .into_iter()
            .flatten()
            .any(|v| i32::try_from(v).is_err())
            || top == Some(None)
        {
            self.refuse(i, "the bounds of the loop do not fit a register of 32 bits");
            return;
        }
        let Some(heads) = self.heads(&blocks) else { return };
        let latch = self.fresh_block(&format!("{name}-latch"));
        let exit = self.fresh_block(&format!("{name}-exit"));
        let index = self.fresh_register("axis");
        self.value((&name, loc), &l.lower, index);
        let upper = match bounds.1 {
            Some(u) => Operand::Imm(Immediate::i32(u as i32)),
            None => {
                let r = self.fresh_register("bound");
                self.value((&name, loc), &l.upper, r);
                reg(r)
            }
        };
        let by_register = matches!(upper, Operand::Reg(_));
        let (lt, ge) = if by_register {
            (BranchCompareOp::LtReg, BranchCompareOp::GeReg)
        } else {
            (BranchCompareOp::LtImm, BranchCompareOp::GeImm)
        };
        if let (Some(_), Some(_)) = bounds {
            self.jump(&name, loc, heads[0]);
        } else {
            self.branch((&name, loc), ge, index, upper.clone(), [exit, heads[0]]);
        }
        if let Some(a) = &l.axis {
            self.axes.push((a.clone(), Axis::Reg(index)));
        }
        self.run(&blocks, &heads, &Frame { after: Some(latch), brk: Some(exit), ..*frame });
        if l.axis.is_some() {
            self.axes.pop();
        }
        self.start(latch);
        let mut step = Inst::new("", Opcode::RegisterAlu).with(Attr::Op, AluOp::Add);
        step.ins = vec![reg(index), Operand::Imm(Immediate::i32(l.stride as i32))];
        step.outs = vec![reg(index)];
        self.add(&name, loc, step);
        self.branch((&name, loc), lt, index, upper, [heads[0], exit]);
        self.start(exit);
    }

    fn unroll(
        &mut self,
        i: InstId,
        blocks: &[BlockId],
        axis: &CompactString,
        bounds: (i64, i64, i64),
        frame: &Frame,
    ) {
        let (loc, name) = (self.m.insts[i].loc, self.m.insts[i].name.clone());
        let exit = self.fresh_block(&format!("{name}-exit"));
        let (mut v, upper, stride) = bounds;
        let Some(mut heads) = self.heads(blocks) else { return };
        self.jump(&name, loc, heads[0]);
        loop {
            let next = v.saturating_add(stride);
            let following = if next < upper { self.heads(blocks) } else { None };
            let after = following.as_ref().map_or(exit, |h| h[0]);
            self.axes.push((axis.clone(), Axis::Const(v)));
            self.run(blocks, &heads, &Frame { after: Some(after), brk: Some(exit), ..*frame });
            self.axes.pop();
            if self.failed {
                break;
            }
            let Some(h) = following else { break };
            heads = h;
            v = next;
        }
        self.start(exit);
    }

    /// Some address below these blocks divides the axis by something registers cannot divide by.
    fn divides(&self, blocks: &[BlockId], axis: &str, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        blocks.iter().flat_map(|b| &self.m.blocks[*b].insts).any(|i| {
            let x = &self.m.insts[*i];
            let mut terms = x
                .ins
                .iter()
                .chain(&x.outs)
                .chain(x.indirection_ins())
                .filter_map(Operand::as_ap)
                .filter_map(|a| a.dynamic.as_deref())
                .flat_map(|d| &d.terms);
            terms.any(|(_, e)| mentions(e, axis) && !by_registers(e))
                || self.divides(x.regions(), axis, depth + 1)
        })
    }
}

fn mentions(e: &Expr, axis: &str) -> bool {
    let mut found = false;
    e.for_each_leaf(&mut |l| found |= matches!(l, Expr::LoopAxis(n) if n == axis));
    found
}

fn register(m: &Module, name: &str) -> Option<RegId> {
    m.regs.iter().find(|(_, r)| r.name == name).map(|(id, _)| id)
}

/// Axis and bounds of a loop, as the simulator reads them.
fn axis_of(m: &Module, i: &Inst) -> Result<Looped, String> {
    let key = if i.opcode == Opcode::Loop { Attr::LoopAxisKey } else { Attr::DynamicForLoopAxis };
    let Some(AttrValue::Json(v)) = i.attrs.get(key) else {
        return Err("the loop has no axis".to_owned());
    };
    let bound = |k: &str| -> Result<Expr, String> {
        let v = v.get(k).ok_or_else(|| format!("the axis of the loop has no `{k}`"))?;
        let named = |v: &serde_json::Value| -> Option<Expr> {
            let n = v.as_str().or_else(|| v.get("regref").and_then(|r| r.as_str()))?;
            register(m, n).map(Expr::Reg)
        };
        if let Some(n) = v.as_i64() {
            return Ok(Expr::Const(n));
        }
        if let Some(r) = named(v) {
            return Ok(r);
        }
        let bad = || format!("bound `{k}` of the loop is neither a number nor a register");
        let terms = v.get("terms").and_then(|t| t.as_array()).ok_or_else(bad)?;
        let mut out = Vec::new();
        for t in terms {
            let c = t.get("coeff").or_else(|| t.get("coef")).and_then(|c| c.as_i64()).unwrap_or(1);
            out.push((c, named(t.get("idx").unwrap_or(t)).ok_or_else(bad)?));
        }
        let c = v.get("c").and_then(|c| c.as_i64()).unwrap_or(0);
        if out.is_empty() { Ok(Expr::Const(c)) } else { Ok(Expr::Affine { terms: out, c }) }
    };
    let stride = match v.get("stride") {
        None => 1,
        Some(s) => s.as_i64().filter(|s| *s > 0).ok_or("the stride of the loop is no positive number")?,
    };
    let axis = v.get("name").and_then(|n| n.as_str()).map(CompactString::from);
    Ok(Looped { axis, lower: bound("lb")?, upper: bound("ub")?, stride })
}
