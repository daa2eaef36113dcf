//! Quasi-affine expressions in JSON: version 2 trees and the older version 1.
//!
//! Version 2 nodes have a `kind`. Version 1 nodes have none: `{terms: [{AxisLabel, coef}], c}` with an optional `op` and
//! `op_param`. Both are read wherever an expression may stand; only version 2 is written.

use super::read::{R, Reader};
use super::write::{Field, Writer};
use crate::diag::codes::{P0105, P0109, P0110, P0114};
use crate::expr::Expr;
use crate::text::parse::MAX_DEPTH;

/// What an object can be inside an expression.
enum Node {
    Expr(Expr),
    /// `{idx, coeff}` of a sum.
    Term(i64, Expr),
}

/// Members of a node, in whatever order they come.
#[derive(Default)]
struct Parts {
    c: Option<i64>,
    terms: Option<Vec<Node>>,
    idx: Option<Expr>,
    coeff: Option<i64>,
    label: Option<String>,
    var: Option<Expr>,
    scale: Option<i64>,
    denom: Option<i64>,
    groups: Option<i64>,
    axis: Option<String>,
    ub: Option<i64>,
    arg_id: Option<i64>,
    regref: Option<String>,
    iteration: Option<i64>,
    channel: Option<i64>,
    op: Option<String>,
    op_param: Vec<i64>,
}

impl Reader<'_, '_> {
    /// One expression: an object, or a scalar for a constant. `None` when it was refused (and reported).
    pub(super) fn expr(&mut self) -> R<Option<Expr>> {
        let at = self.at()?;
        Ok(match self.node(0)? {
            Some(Node::Expr(e)) => Some(e),
            Some(Node::Term(..)) => {
                self.error(P0109, at, "an expression is wanted here, this is a term of a sum")?;
                None
            }
            None => None,
        })
    }

    /// An expression where a plain number is wanted: the value of a constant one.
    fn constant(&mut self, depth: u32) -> R<Option<i64>> {
        let at = self.at()?;
        match self.node(depth)? {
            Some(Node::Expr(e)) => {
                let c = e.as_const();
                if c.is_none() {
                    self.error(P0109, at, "a constant is wanted here")?;
                }
                Ok(c)
            }
            Some(Node::Term(..)) => {
                self.error(P0109, at, "a constant is wanted here")?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn inner(&mut self, depth: u32) -> R<Option<Expr>> {
        Ok(match self.node(depth)? {
            Some(Node::Expr(e)) => Some(e),
            Some(Node::Term(k, e)) => Some(Expr::Mult { var: Box::new(e), scale: k }),
            None => None,
        })
    }

    fn node(&mut self, depth: u32) -> R<Option<Node>> {
        use super::cursor::Kind;
        let at = self.at()?;
        if depth >= MAX_DEPTH {
            self.error(P0105, at, format!("more than {MAX_DEPTH} levels of nesting"))?;
            return Err(super::read::Stop);
        }
        match self.kind()? {
            Kind::Number => return Ok(self.int()?.map(|c| Node::Expr(Expr::Const(c)))),
            Kind::Bool => return Ok(self.bool()?.map(|b| Node::Expr(Expr::Const(i64::from(b))))),
            Kind::Object => {}
            Kind::Array | Kind::String | Kind::Null => {
                self.wrong("an expression")?;
                return Ok(None);
            }
        }
        let mut kind: Option<String> = None;
        let mut p = Parts::default();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "kind" => kind = self.text()?.map(|t| t.into_owned()),
                "c" => p.c = self.int()?,
                "terms" => {
                    let mut terms = Vec::new();
                    let mut more = self.array()?;
                    while self.element(&mut more)? {
                        match self.node(depth + 1)? {
                            Some(t) => terms.push(t),
                            None => return self.give_up(),
                        }
                    }
                    p.terms = Some(terms);
                }
                "idx" => p.idx = self.inner(depth + 1)?,
                "coeff" | "coef" => p.coeff = self.int()?,
                "AxisLabel" => p.label = self.text()?.map(|t| t.into_owned()),
                "var" | "numer" => p.var = self.inner(depth + 1)?,
                "scale" => p.scale = self.constant(depth + 1)?,
                "denom" => p.denom = self.constant(depth + 1)?,
                "replica_groups_id" => p.groups = self.int()?,
                "axis" => p.axis = self.text()?.map(|t| t.into_owned()),
                "ub" => p.ub = self.int()?,
                "arg_id" => p.arg_id = self.int()?,
                "regref" => p.regref = self.text()?.map(|t| t.into_owned()),
                "iteration_id" => p.iteration = self.int()?,
                "channel_id" => p.channel = self.int()?,
                "op" => p.op = self.text()?.map(|t| t.into_owned()),
                "op_param" => {
                    if self.kind()? == Kind::Array {
                        p.op_param = self.ints()?;
                    } else {
                        p.op_param.extend(self.constant(depth + 1)?);
                    }
                }
                _ => self.skip()?,
            }
        }
        match kind {
            Some(kind) => self.version2(at, &kind, p),
            None => self.version1(at, p),
        }
    }

    /// Ends reading: the rest of a broken expression cannot be trusted.
    fn give_up<T>(&mut self) -> R<T> {
        Err(super::read::Stop)
    }

    fn need<T>(&mut self, at: usize, v: Option<T>, kind: &str, key: &str) -> R<T> {
        match v {
            Some(v) => Ok(v),
            None => {
                self.error(P0110, at, format!("an expression of kind {kind} needs `{key}`"))?;
                self.give_up()
            }
        }
    }

    fn sum(terms: Vec<Node>) -> Vec<Expr> {
        terms
            .into_iter()
            .map(|t| match t {
                Node::Expr(e) => e,
                Node::Term(k, e) => Expr::Mult { var: Box::new(e), scale: k },
            })
            .collect()
    }
    fn affine(c: i64, terms: Vec<Node>) -> Expr {
        if terms.is_empty() {
            return Expr::Const(c);
        }
        let terms = terms
            .into_iter()
            .map(|t| match t {
                Node::Term(k, e) => (k, e),
                Node::Expr(e) => (1, e),
            })
            .collect();
        Expr::Affine { terms, c }
    }

    fn version2(&mut self, at: usize, kind: &str, p: Parts) -> R<Option<Node>> {
        let e = match kind {
            "AffExprKind" => Self::affine(p.c.unwrap_or(0), p.terms.unwrap_or_default()),
            "SumKind" => Expr::Sum(Self::sum(p.terms.unwrap_or_default())),
            "MultKind" => Expr::Mult {
                var: Box::new(self.need(at, p.var, kind, "var")?),
                scale: self.need(at, p.scale, kind, "scale")?,
            },
            "FloorDivKind" => Expr::FloorDiv(
                Box::new(self.need(at, p.var, kind, "numer")?),
                self.need(at, p.denom, kind, "denom")?,
            ),
            "ModuloKind" | "CCModKind" => Expr::Modulo(
                Box::new(self.need(at, p.var, kind, "numer")?),
                self.need(at, p.denom, kind, "denom")?,
            ),
            "CCDivKind" => Expr::CcDiv {
                numer: Box::new(self.need(at, p.var, kind, "numer")?),
                denom: self.need(at, p.denom, kind, "denom")?,
                replica_groups_id: p.groups.unwrap_or(0),
            },
            "AffIVKind" => Expr::LoopAxis(self.need(at, p.axis, kind, "axis")?.into()),
            "ShardIDKind" => Expr::ShardId { ub: self.need(at, p.ub, kind, "ub")? },
            "IndirectArgId" => Expr::IndirectArg(self.need(at, p.arg_id, kind, "arg_id")?),
            "IntRuntimeValueKind" => {
                let name = self.need(at, p.regref, kind, "regref")?;
                match self.find_reg(&name) {
                    Some(r) => Expr::Reg(r),
                    None => {
                        self.no_register(at, &name)?;
                        return Ok(None);
                    }
                }
            }
            "CCGetRankKind" => Expr::CcGetRank {
                iteration_id: self.need(at, p.iteration, kind, "iteration_id")?,
                channel_id: self.need(at, p.channel, kind, "channel_id")?,
            },
            _ => {
                self.error(P0114, at, format!("Walrus doesn't support this kind of Expr: {kind}"))?;
                return Ok(None);
            }
        };
        Ok(Some(Node::Expr(e)))
    }

    fn version1(&mut self, at: usize, p: Parts) -> R<Option<Node>> {
        if p.c.is_none() && p.terms.is_none() && p.op.is_none() {
            let idx = match (p.idx, p.label) {
                (Some(e), _) => e,
                (None, Some(l)) => Expr::LoopAxis(l.into()),
                (None, None) => {
                    self.error(P0109, at, "this object is neither an expression nor a term of one")?;
                    return Ok(None);
                }
            };
            return Ok(Some(Node::Term(p.coeff.unwrap_or(1), idx)));
        }
        let base = Self::affine(p.c.unwrap_or(0), p.terms.unwrap_or_default());
        let param = p.op_param.first().copied();
        let e = match p.op.as_deref() {
            None => base,
            Some(op @ "Mod") => Expr::Modulo(Box::new(base), self.need(at, param, op, "op_param")?),
            Some(op @ "Div") => Expr::FloorDiv(Box::new(base), self.need(at, param, op, "op_param")?),
            Some(op @ "IndirectArgId") => Expr::IndirectArg(self.need(at, param, op, "op_param")?),
            Some(op @ "CCGetRank") => Expr::CcGetRank {
                iteration_id: self.need(at, param, op, "op_param")?,
                channel_id: p.op_param.get(1).copied().unwrap_or(0),
            },
            Some(op) => {
                self.error(P0114, at, format!("Walrus doesn't support this kind of Expr: {op}"))?;
                return Ok(None);
            }
        };
        Ok(Some(Node::Expr(e)))
    }
}

impl<'a> Writer<'a, '_> {
    /// An expression as a version 2 object.
    pub(super) fn expr(&mut self, e: &'a Expr) -> std::io::Result<()> {
        let kind = |k: &'static str| ("kind", Field::Str(k));
        match e {
            Expr::Const(c) => {
                self.object([("c", Field::Int(*c)), kind("AffExprKind"), ("terms", Field::EmptyList)])
            }
            Expr::Affine { terms, c } => self.object([
                ("c", Field::Int(*c)),
                kind("AffExprKind"),
                ("terms", Field::Terms(terms, "idx")),
            ]),
            Expr::Sum(v) => self.object([
                kind("SumKind"),
                ("n_terms", Field::U64(v.len() as u64)),
                ("terms", Field::Exprs(v)),
            ]),
            Expr::Mult { var, scale } => {
                self.object([kind("MultKind"), ("scale", Field::Int(*scale)), ("var", Field::Expr(var))])
            }
            Expr::FloorDiv(n, d) => {
                self.object([("denom", Field::Int(*d)), kind("FloorDivKind"), ("numer", Field::Expr(n))])
            }
            Expr::Modulo(n, d) => {
                self.object([("denom", Field::Int(*d)), kind("ModuloKind"), ("numer", Field::Expr(n))])
            }
            Expr::CcDiv { numer, denom, replica_groups_id } => self.object([
                ("denom", Field::Int(*denom)),
                kind("CCDivKind"),
                ("numer", Field::Expr(numer)),
                ("replica_groups_id", Field::Int(*replica_groups_id)),
            ]),
            Expr::LoopAxis(n) => self.object([("axis", Field::Str(n)), kind("AffIVKind")]),
            Expr::ShardId { ub } => self.object([kind("ShardIDKind"), ("ub", Field::Int(*ub))]),
            Expr::IndirectArg(n) => self.object([("arg_id", Field::Int(*n)), kind("IndirectArgId")]),
            Expr::Reg(r) => {
                let name = self.reg_name(*r);
                self.object([kind("IntRuntimeValueKind"), ("regref", Field::Str(name))])
            }
            Expr::CcGetRank { iteration_id, channel_id } => self.object([
                ("channel_id", Field::Int(*channel_id)),
                ("iteration_id", Field::Int(*iteration_id)),
                kind("CCGetRankKind"),
            ]),
        }
    }
}
