//! Operands: patterns, references by name, immediates, expressions.

use super::super::lex::Tok;
use super::{At, Parser, PendingLoc, R};
use crate::ap::{AccessPattern, ApPair, ApPairs, DynamicAp};
use crate::diag::codes::{P0101, P0104, P0108};
use crate::dtype::Dtype;
use crate::expr::Expr;
use crate::ids::{MemLocId, RegId, SetId};
use crate::inst::{F32, ImmValue, Immediate, Operand, OtherOperand, RegAccess};
use std::borrow::Cow;

impl<'s> Parser<'s, '_> {
    pub(super) fn pair(&mut self) -> R<ApPair> {
        self.need("[")?;
        let step = self.int()?;
        self.need(",")?;
        let num = self.u64()?;
        self.need("]")?;
        Ok(ApPair::new(step, num))
    }
    pub(super) fn is_float(&self) -> bool {
        match self.tok {
            Tok::Num(t) => t.contains(['.', 'e', 'E', 'i']) && !t.starts_with("0x"),
            Tok::Word(w) => matches!(w, "inf" | "nan"),
            _ => false,
        }
    }
    pub(super) fn float(&mut self) -> R<F32> {
        if self.eat_word("inf") {
            return Ok(F32(f32::INFINITY));
        }
        if self.eat_word("nan") {
            self.need("(")?;
            let spot = self.spot;
            let Tok::Num(text) = self.tok else { return Err(self.expected("the bits of the NaN")) };
            let bits = text.strip_prefix("0x").and_then(|h| u32::from_str_radix(h, 16).ok());
            self.advance();
            self.need(")")?;
            let value = bits.map(f32::from_bits).filter(|f| f.is_nan());
            return value
                .map(F32)
                .ok_or_else(|| self.diag(P0104, spot, format!("`{text}` are not the bits of a NaN")));
        }
        Ok(F32(self.number("a number")?))
    }

    // ---- operands ----
    pub(super) fn starts_operand(&self) -> bool {
        match self.tok {
            Tok::Punct(p) => matches!(p, "@" | "$"),
            Tok::Num(_) => true,
            Tok::Word(w) => {
                matches!(
                    w,
                    "inf"
                        | "nan"
                        | "symbolic_ap"
                        | "symbolic_pwap"
                        | "register_ap"
                        | "symbolic_imm"
                        | "imm_array"
                )
            }
            _ => false,
        }
    }
    pub(super) fn operands(&mut self, at: &mut At) -> R<Vec<Operand>> {
        let mut out = Vec::new();
        loop {
            at.index = out.len();
            out.push(self.operand(*at)?);
            if !self.eat(",") {
                return Ok(out);
            }
        }
    }
    pub(super) fn operand(&mut self, at: At) -> R<Operand> {
        if self.is("@") {
            return Ok(Operand::Ap(self.access_pattern(at)?));
        }
        if self.is("$") {
            let reg = self.reg_ref(at.func)?;
            return Ok(Operand::Reg(RegAccess { reg, dtype: self.member()? }));
        }
        let other = match self.tok {
            Tok::Word(w @ ("symbolic_ap" | "symbolic_pwap")) => {
                self.advance();
                let set = self.set_ref(at.func)?;
                self.need("[")?;
                let pairs = self.pairs()?;
                self.need("]")?;
                let dtype = self.member()?;
                self.need_word("addrs")?;
                let addrs = self.items("(", ")", |p| p.expr(at.func))?;
                let extra = self.ap_extra()?;
                OtherOperand::Symbolic { pwap: w == "symbolic_pwap", set, dtype, pairs, addrs, extra }
            }
            Tok::Word("register_ap") => {
                self.advance();
                let set = self.set_ref(at.func)?;
                self.need("[")?;
                let pairs = self.pairs()?;
                self.need("]")?;
                let dtype = self.member()?;
                self.need_word("base")?;
                self.need("(")?;
                let reg = self.reg_ref(at.func)?;
                self.need(",")?;
                let const_offset = self.int()?;
                self.need(")")?;
                let extra = self.ap_extra()?;
                OtherOperand::RegisterAp { set, reg, dtype, pairs, const_offset, extra }
            }
            Tok::Word(w @ ("symbolic_imm" | "imm_array")) => {
                self.advance();
                let dtype = self.member::<Dtype>()?;
                let values = self.items("[", "]", |p| {
                    let value = p.imm_value()?;
                    let dtype = if matches!(p.tok, Tok::Word(_)) { p.member()? } else { dtype };
                    Ok(Immediate { dtype, value })
                })?;
                if w == "imm_array" {
                    OtherOperand::ImmArray { dtype, values }
                } else {
                    self.need_word("by")?;
                    OtherOperand::SymbolicImm { dtype, values, expr: self.expr(at.func)? }
                }
            }
            _ if self.starts_operand() => {
                let value = self.imm_value()?;
                return Ok(Operand::Imm(Immediate { dtype: self.member()?, value }));
            }
            _ => return Err(self.expected("an operand")),
        };
        Ok(Operand::Other(Box::new(other)))
    }
    pub(super) fn imm_value(&mut self) -> R<ImmValue> {
        Ok(if self.is_float() { ImmValue::Float(self.float()?) } else { ImmValue::Int(self.int()?) })
    }
    pub(super) fn pairs(&mut self) -> R<ApPairs> {
        let mut out = ApPairs::new();
        while self.is("[") {
            out.push(self.pair()?);
        }
        Ok(out)
    }

    pub(super) fn access_pattern(&mut self, at: At) -> R<AccessPattern> {
        let loc = self.loc_ref(at)?;
        self.need("[")?;
        let mut offset = 0;
        let mut pairs = ApPairs::new();
        let mut dynamic = None;
        if !self.is("]") {
            loop {
                if self.eat_word("off") {
                    offset = self.int()?;
                } else if self.eat_word("dyn") {
                    let terms = self.items("(", ")", |p| {
                        let k = p.int()?;
                        p.need("*")?;
                        Ok((k, p.expr(at.func)?))
                    })?;
                    self.need_word("dim")?;
                    let indirect_dim = self.int()?;
                    let max_index = if self.eat_word("max") { Some(self.int()?) } else { None };
                    dynamic = Some(Box::new(DynamicAp { terms, indirect_dim, max_index }));
                } else if self.is("[") {
                    pairs = self.pairs()?;
                } else {
                    return Err(self.expected("`off`, `[step,num]` or `dyn`"));
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.need("]")?;
        let dtype = self.member()?;
        Ok(AccessPattern { loc, dtype, offset, pairs, dynamic })
    }

    /// A location by `[name]` or `[set, name]` in a function.
    pub(super) fn find_loc(&self, func: usize, path: &[Cow<'s, str>]) -> Result<MemLocId, &'static str> {
        let names = self.funcs.get(func).ok_or("no such function")?;
        match path {
            [name] => names.loc(&self.m, name, None),
            [set, name] => names.loc(&self.m, name, Some(set)),
            _ => Err("no such location"),
        }
    }
    pub(super) fn loc_ref(&mut self, at: At) -> R<MemLocId> {
        let spot = self.spot;
        self.need("@")?;
        let path = self.path()?;
        let found = match path.as_slice() {
            [f, rest @ ..] if path.len() == 3 => match self.funcs.iter().position(|n| n.name == **f) {
                Some(f) => self.find_loc(f, rest),
                None => {
                    self.late.push(PendingLoc { inst: at.inst, list: at.list, index: at.index, path, spot });
                    return Ok(MemLocId::from_u32(0));
                }
            },
            path => self.find_loc(at.func, path),
        };
        match found {
            Ok(l) => Ok(l),
            Err(why) => {
                let d = self.diag(P0108, spot, format!("`@{}`: {why}", path.join("/")));
                self.report(d)?;
                Ok(MemLocId::from_u32(0))
            }
        }
    }
    /// Function and name of a set or register reference.
    pub(super) fn owner<'p>(&self, func: usize, path: &'p [Cow<'s, str>]) -> Option<(usize, &'p str)> {
        match path {
            [name] => Some((func, &**name)),
            [f, name] => Some((self.funcs.iter().position(|n| n.name == **f)?, &**name)),
            _ => None,
        }
    }
    pub(super) fn set_ref(&mut self, func: usize) -> R<SetId> {
        let spot = self.spot;
        self.need("@")?;
        let path = self.path()?;
        let found = self.owner(func, &path).and_then(|(f, n)| self.funcs.get(f)?.sets.get(n).copied());
        if found.is_none() {
            let d = self.diag(P0108, spot, format!("no set `@{}`", path.join("/")));
            self.report(d)?;
        }
        Ok(found.unwrap_or(SetId::from_u32(0)))
    }
    pub(super) fn reg_ref(&mut self, func: usize) -> R<RegId> {
        let spot = self.spot;
        self.need("$")?;
        let path = self.path()?;
        let found = self.owner(func, &path).and_then(|(f, n)| self.funcs.get(f)?.regs.get(n).copied());
        if found.is_none() {
            let d = self.diag(P0108, spot, format!("no register `${}`", path.join("/")));
            self.report(d)?;
        }
        Ok(found.unwrap_or(RegId::from_u32(0)))
    }

    // ---- expressions ----
    pub(super) fn expr(&mut self, func: usize) -> R<Expr> {
        self.nested(|p| p.expr_body(func))
    }
    pub(super) fn expr_body(&mut self, func: usize) -> R<Expr> {
        if matches!(self.tok, Tok::Num(_)) {
            return Ok(Expr::Const(self.int()?));
        }
        if self.is("$") {
            return Ok(Expr::Reg(self.reg_ref(func)?));
        }
        let spot = self.spot;
        let word = self.word("an expression")?;
        if word == "sum" {
            return Ok(Expr::Sum(self.items("(", ")", |p| p.expr(func))?));
        }
        self.need("(")?;
        let e = match word {
            "affine" => {
                let c = self.int()?;
                let mut terms = Vec::new();
                while self.eat(",") {
                    let k = self.int()?;
                    self.need("*")?;
                    terms.push((k, self.expr(func)?));
                }
                Expr::Affine { terms, c }
            }
            "mult" => {
                let var = Box::new(self.expr(func)?);
                Expr::Mult { var, scale: self.comma_int()? }
            }
            "div" => {
                let e = Box::new(self.expr(func)?);
                Expr::FloorDiv(e, self.comma_int()?)
            }
            "mod" => {
                let e = Box::new(self.expr(func)?);
                Expr::Modulo(e, self.comma_int()?)
            }
            "ccdiv" => {
                let numer = Box::new(self.expr(func)?);
                Expr::CcDiv { numer, denom: self.comma_int()?, replica_groups_id: self.comma_int()? }
            }
            "axis" => Expr::LoopAxis(self.name("the name of a loop axis")?.into()),
            "shard" => Expr::ShardId { ub: self.int()? },
            "arg" => Expr::IndirectArg(self.int()?),
            "rank" => Expr::CcGetRank { iteration_id: self.int()?, channel_id: self.comma_int()? },
            _ => return Err(self.diag(P0101, spot, format!("`{word}` is no kind of expression"))),
        };
        self.need(")")?;
        Ok(e)
    }
    pub(super) fn comma_int(&mut self) -> R<i64> {
        self.need(",")?;
        self.int()
    }
}
