//! Quasi-affine expressions (QAE): values that depend on loop indexes, shard ids, registers or gather indexes.
//!
//! Source: the specification, file 03 §6. Tree form, no sharing. All arithmetic is checked.

use crate::ids::RegId;
use compact_str::CompactString;

/// A quasi-affine expression over 64-bit integers.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Const(i64),
    /// `c + Σ coeff · term`.
    Affine {
        /// `(coefficient, term)` pairs in file order.
        terms: Vec<(i64, Expr)>,
        /// Constant part.
        c: i64,
    },
    /// Sum of terms.
    Sum(Vec<Expr>),
    /// `var · scale`.
    Mult {
        /// Factor.
        var: Box<Expr>,
        /// Constant factor.
        scale: i64,
    },
    /// `floor(numer / denom)`.
    FloorDiv(Box<Expr>, i64),
    /// `numer mod denom`, result in `0..denom`.
    Modulo(Box<Expr>, i64),
    /// Division used by collectives, with the id of a replica-group list.
    CcDiv {
        /// Numerator.
        numer: Box<Expr>,
        /// Denominator.
        denom: i64,
        /// Index of the replica groups meant.
        replica_groups_id: i64,
    },
    /// Index of a named loop axis.
    LoopAxis(CompactString),
    /// The core index of a symbolic module, `0..ub`.
    ShardId {
        /// Exclusive upper bound.
        ub: i64,
    },
    /// Value of the n-th indirection operand (1-based).
    IndirectArg(i64),
    /// Value of a register at run time.
    Reg(RegId),
    /// Rank of the member a channel processes in an iteration.
    CcGetRank {
        /// Iteration.
        iteration_id: i64,
        /// Channel.
        channel_id: i64,
    },
}

impl Expr {
    /// The value, when the expression is constant.
    pub fn as_const(&self) -> Option<i64> {
        self.eval(&mut |_| None)
    }

    /// Evaluates with `leaf` giving the value of each non-constant leaf; `None` when a leaf has none or on overflow.
    pub fn eval(&self, leaf: &mut dyn FnMut(&Expr) -> Option<i64>) -> Option<i64> {
        match self {
            Expr::Const(c) => Some(*c),
            Expr::Affine { terms, c } => {
                terms.iter().try_fold(*c, |acc, (k, e)| acc.checked_add(k.checked_mul(e.eval(leaf)?)?))
            }
            Expr::Sum(v) => v.iter().try_fold(0i64, |acc, e| acc.checked_add(e.eval(leaf)?)),
            Expr::Mult { var, scale } => var.eval(leaf)?.checked_mul(*scale),
            Expr::FloorDiv(n, d) | Expr::CcDiv { numer: n, denom: d, .. } => {
                let n = n.eval(leaf)?;
                if *d > 0 { Some(n.div_euclid(*d)) } else { None }
            }
            Expr::Modulo(n, d) => {
                let n = n.eval(leaf)?;
                if *d > 0 { Some(n.rem_euclid(*d)) } else { None }
            }
            Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::Reg(_)
            | Expr::CcGetRank { .. } => leaf(self),
        }
    }

    /// Calls `f` on every leaf that is not a constant.
    pub fn for_each_leaf(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Expr::Const(_) => {}
            Expr::Affine { terms, .. } => terms.iter().for_each(|(_, e)| e.for_each_leaf(f)),
            Expr::Sum(v) => v.iter().for_each(|e| e.for_each_leaf(f)),
            Expr::Mult { var: e, .. }
            | Expr::FloorDiv(e, _)
            | Expr::Modulo(e, _)
            | Expr::CcDiv { numer: e, .. } => {
                e.for_each_leaf(f);
            }
            Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::Reg(_)
            | Expr::CcGetRank { .. } => f(self),
        }
    }

    /// Replaces every leaf for which `f` gives an expression, then folds constants.
    pub fn substitute(&self, f: &dyn Fn(&Expr) -> Option<Expr>) -> Expr {
        let out = match self {
            Expr::Const(c) => Expr::Const(*c),
            Expr::Affine { terms, c } => {
                let mut sum = *c;
                let mut rest = Vec::new();
                for (k, e) in terms {
                    let e = e.substitute(f);
                    match e.as_const().and_then(|v| v.checked_mul(*k)).and_then(|v| sum.checked_add(v)) {
                        Some(v) => sum = v,
                        None => rest.push((*k, e)),
                    }
                }
                Expr::Affine { terms: rest, c: sum }
            }
            Expr::Sum(v) => Expr::Sum(v.iter().map(|e| e.substitute(f)).collect()),
            Expr::Mult { var, scale } => Expr::Mult { var: Box::new(var.substitute(f)), scale: *scale },
            Expr::FloorDiv(n, d) => Expr::FloorDiv(Box::new(n.substitute(f)), *d),
            Expr::Modulo(n, d) => Expr::Modulo(Box::new(n.substitute(f)), *d),
            Expr::CcDiv { numer, denom, replica_groups_id } => Expr::CcDiv {
                numer: Box::new(numer.substitute(f)),
                denom: *denom,
                replica_groups_id: *replica_groups_id,
            },
            Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::Reg(_)
            | Expr::CcGetRank { .. } => f(self).unwrap_or_else(|| self.clone()),
        };
        match out.as_const() {
            Some(c) => Expr::Const(c),
            None => out,
        }
    }
}
