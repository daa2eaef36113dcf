//! Accesses become operands: static patterns, run-time offsets, immediates, registers.
//!
//! A KLR access numbers the elements of its tensor as one row-major array; on chip, a row of a view can be shorter
//! than the partition of its region, and the pattern is then rewritten to the region's pitch (the specification, file
//! 04 §4.2). Offsets and steps count elements of the operand's dtype. Whether a pattern stays inside its location and
//! starts at a legal partition is the verifier's business.

use super::Core;
use super::enums;
use super::fail::{Fail, Res};
use crate::ast as k;
use std::sync::Arc;
use tandem_bir::diag::codes;
use tandem_bir::{
    AccessPattern, ApPair, ApPairs, Dtype, DynamicAp, Expr, Immediate, Inst, MemLocId, Operand, RegAccess,
    RegId,
};

/// Accesses may take their offset from another access; deeper nesting is refused (the reader has the same limit).
const MAX_DEPTH: u32 = 8;

/// Geometry of a tensor on its location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub loc: MemLocId,
    /// Element type of the tensor.
    pub dtype: Dtype,
    pub on_chip: bool,
    /// Partitions (rows) of the view.
    pub rows: u64,
    /// Elements per row of the view.
    pub row_elems: u64,
    /// Bytes per row of the region.
    pub region_bytes: u64,
}

/// Where a run-time index comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Index {
    Register(RegId),
    /// One scalar in memory.
    Scalar(AccessPattern),
    /// One index per partition or row.
    Vector(AccessPattern),
}

/// Run-time part of an access.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dynamic {
    pub index: Index,
    /// Elements per unit of the index.
    pub coeff: i64,
    pub dim: i64,
    pub max_index: Option<i64>,
}

/// A lowered access.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tile {
    pub ap: AccessPattern,
    pub dynamic: Option<Dynamic>,
}

impl Tile {
    pub(crate) fn is_vector(&self) -> bool {
        matches!(&self.dynamic, Some(Dynamic { index: Index::Vector(_), .. }))
    }
    /// The operand with its run-time part; index operands go to the instruction's indirection list.
    pub(crate) fn into_operand(self, inst: &mut Inst) -> Operand {
        let mut ap = self.ap;
        if let Some(d) = self.dynamic {
            let leaf = match d.index {
                Index::Register(reg) => Expr::Reg(reg),
                Index::Scalar(index) | Index::Vector(index) => {
                    let list = &mut inst.more_mut().indirection_ins;
                    list.push(Operand::Ap(index));
                    Expr::IndirectArg(i64::try_from(list.len()).unwrap_or(i64::MAX))
                }
            };
            ap.dynamic = Some(Box::new(DynamicAp {
                terms: vec![(d.coeff, leaf)],
                indirect_dim: d.dim,
                max_index: d.max_index,
            }));
        }
        Operand::Ap(ap)
    }
}

fn overflow(t: &k::TensorName) -> Box<Fail> {
    Fail::new(codes::K0067, format!("access to `{}` does not fit 64-bit arithmetic", t.name))
}

fn misfit(t: &k::TensorName, why: &str) -> Box<Fail> {
    Fail::new(codes::K0066, format!("access pattern of {} does not fit its partition pitch", t.name))
        .note(why)
}

impl Core<'_> {
    /// A static memory operand.
    pub(crate) fn ap(&mut self, r: &k::TensorRef) -> Res<AccessPattern> {
        let tile = self.tile(r)?;
        match tile.dynamic {
            None => Ok(tile.ap),
            Some(_) => Err(Fail::new(codes::K0014, "Dynamic Access is not allowed in the instruction.")),
        }
    }

    /// A memory operand of an operator that takes run-time offsets.
    pub(crate) fn tile(&mut self, r: &k::TensorRef) -> Res<Tile> {
        match r {
            k::TensorRef::Abstract(access) => self.access(access, 0),
            k::TensorRef::Hbm(view) => {
                let (loc, elems) = self.bind_hbm_view(view)?;
                let (Ok(step), Ok(offset)) = (i64::try_from(elems), i64::try_from(view.address)) else {
                    return Err(Fail::new(
                        codes::K0067,
                        format!("access to `{}` does not fit 64-bit arithmetic", view.name),
                    ));
                };
                let ap = AccessPattern::new(loc, enums::dtype(view.dtype), offset, &[(step, 1), (1, elems)]);
                Ok(Tile { ap, dynamic: None })
            }
            k::TensorRef::Sbuf(_) | k::TensorRef::Psum(_) | k::TensorRef::Register(_) => Err(Fail::new(
                codes::K0012,
                "Unsupported tensorRef type encountered!",
            )
            .note(format!("the operand is an allocated `{}` view; traced kernels have none", r.name()))),
        }
    }

    fn access(&mut self, access: &k::Access, depth: u32) -> Res<Tile> {
        if depth >= MAX_DEPTH {
            return Err(Fail::new(codes::K0068, format!("accesses are nested more than {MAX_DEPTH} deep")));
        }
        match access {
            k::Access::Simple(t) => {
                let bound = self.bind(t)?;
                let ap = self.whole(t, &bound)?;
                Ok(Tile { ap, dynamic: None })
            }
            k::Access::BirPattern(b) => self.bir_pattern(b, depth),
            k::Access::Basic(_) | k::Access::Pattern(_) if self.plan.strict => {
                Err(Fail::new(codes::K0013, format!("Unsupported access type encountered {}", access.kind())))
            }
            k::Access::Basic(b) => {
                let bound = self.bind(&b.tensor)?;
                let ap = self.basic(b, &bound)?;
                Ok(Tile { ap, dynamic: None })
            }
            k::Access::Pattern(p) => {
                let bound = self.bind(&p.tensor)?;
                let mut offset = 0i64;
                for pair in &p.pattern {
                    let start = i64::try_from(pair.offset).ok().and_then(|o| o.checked_mul(pair.step));
                    offset = start.and_then(|s| offset.checked_add(s)).ok_or_else(|| overflow(&p.tensor))?;
                }
                let pairs = p.pattern.iter().map(|q| ApPair::new(q.step, q.num)).collect();
                let ap = normalize(&p.tensor, &bound, bound.dtype, offset, pairs)?;
                Ok(Tile { ap, dynamic: None })
            }
        }
    }

    fn whole(&self, t: &k::TensorName, bound: &Bound) -> Res<AccessPattern> {
        let pitch = if bound.on_chip { pitch(t, bound, bound.dtype)? } else { bound.row_elems };
        let step = i64::try_from(pitch).map_err(|_| overflow(t))?;
        Ok(AccessPattern::new(bound.loc, bound.dtype, 0, &[(step, bound.rows), (1, bound.row_elems)]))
    }

    fn basic(&self, b: &k::AccessBasic, bound: &Bound) -> Res<AccessPattern> {
        let t = &b.tensor;
        let dims = t.shape.dims();
        if b.indexes.len() != dims.len() {
            return Err(Fail::new(
                codes::K0069,
                format!(
                    "access to `{}` has {} indices for {} dimensions",
                    t.name,
                    b.indexes.len(),
                    dims.len()
                ),
            ));
        }
        let mut stride = 1i64;
        let mut offset = 0i64;
        let mut pairs = ApPairs::new();
        for (d, (index, extent)) in b.indexes.iter().zip(&dims).enumerate().rev() {
            let (start, step, num, last) = match index {
                k::Index::Coord(c) => (*c, 1, 1, *c),
                k::Index::Slice(s) => {
                    let n = s.len();
                    let reach = n.saturating_sub(1).saturating_mul(s.step.unsigned_abs());
                    let last = if s.step < 0 { s.l } else { s.l.saturating_add(reach) };
                    (s.l, s.step, n, last)
                }
            };
            if num > 0 && last >= *extent {
                return Err(Fail::new(
                    codes::K0069,
                    format!("index {last} of dimension {d} of `{}` is outside its extent {extent}", t.name),
                ));
            }
            let start = i64::try_from(start).ok().and_then(|s| s.checked_mul(stride));
            offset = start.and_then(|s| offset.checked_add(s)).ok_or_else(|| overflow(t))?;
            let step =
                if matches!(index, k::Index::Coord(_)) { Some(stride) } else { stride.checked_mul(step) };
            pairs.push(ApPair::new(step.ok_or_else(|| overflow(t))?, num));
            stride =
                i64::try_from(*extent).ok().and_then(|e| stride.checked_mul(e)).ok_or_else(|| overflow(t))?;
        }
        pairs.reverse();
        normalize(t, bound, bound.dtype, offset, pairs)
    }

    fn bir_pattern(&mut self, b: &k::BirAccessPattern, depth: u32) -> Res<Tile> {
        let t = &b.tensor;
        let bound = self.bind(t)?;
        let dtype = b.dtype_override.map_or(bound.dtype, enums::dtype);
        let offset = i64::try_from(b.offset).map_err(|_| overflow(t))?;
        let pairs = b.pattern.iter().map(|q| ApPair::new(q.step, q.num)).collect();
        let ap = normalize(t, &bound, dtype, offset, pairs)?;
        let dynamic = self.dynamic(b, &bound, dtype, depth)?;
        Ok(Tile { ap, dynamic })
    }

    fn dynamic(
        &mut self,
        b: &k::BirAccessPattern,
        bound: &Bound,
        dtype: Dtype,
        depth: u32,
    ) -> Res<Option<Dynamic>> {
        let t = &b.tensor;
        let index = match (&b.scalar_offset, &b.vector_offset) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Fail::new(
                    codes::K0017,
                    format!("access to `{}` has both a scalar and a vector offset", t.name),
                ));
            }
            (Some(k::ScalarOffset::Reg(name)), None) => match self.regs.get(name) {
                Some(reg) => Index::Register(*reg),
                None => {
                    return Err(Fail::new(
                        codes::K0015,
                        format!("Cannot find register: {name} for scalar offset"),
                    ));
                }
            },
            (Some(k::ScalarOffset::Acc(access)), None) => Index::Scalar(self.index_access(access, depth)?),
            (None, Some(access)) => {
                if b.indirect_dim != 0 {
                    return Err(Fail::new(
                        codes::K0017,
                        "When using vector offset, the only supported indirectDim is 0",
                    ));
                }
                Index::Vector(self.index_access(access, depth)?)
            }
        };
        let dims = t.shape.dims();
        let dim = usize::try_from(b.indirect_dim).ok().filter(|d| *d < dims.len());
        let Some(dim) = dim else {
            return Err(Fail::new(
                codes::K0017,
                format!(
                    "indirectDim {} of `{}` is not one of its {} dimensions",
                    b.indirect_dim,
                    t.name,
                    dims.len()
                ),
            ));
        };
        let elems =
            dims.iter().skip(dim + 1).try_fold(1u64, |n, d| n.checked_mul(*d)).ok_or_else(|| overflow(t))?;
        let elems = if dim == 0 && bound.on_chip {
            pitch(t, bound, dtype)?
        } else {
            rescale(t, bound, dtype, elems)?
        };
        Ok(Some(Dynamic {
            index,
            coeff: i64::try_from(elems).map_err(|_| overflow(t))?,
            dim: b.indirect_dim,
            max_index: dims.get(dim).and_then(|d| i64::try_from(*d).ok()).map(|d| d.saturating_sub(1)),
        }))
    }

    fn index_access(&mut self, access: &k::Access, depth: u32) -> Res<AccessPattern> {
        let tile = self.access(access, depth + 1)?;
        match tile.dynamic {
            None => Ok(tile.ap),
            Some(_) => Err(Fail::new(codes::K0014, "Dynamic Access is not allowed in the instruction.")
                .note("the access that holds an index has an index of its own")),
        }
    }

    /// An immediate operand: int32 or float32.
    pub(crate) fn imm(&self, i: &k::Immediate) -> Res<Immediate> {
        match i {
            k::Immediate::Int(v) => Ok(Immediate::i32(*v)),
            k::Immediate::Float(v) => Ok(Immediate::f32(v.get())),
            k::Immediate::Register(_) | k::Immediate::Pointer => {
                Err(Fail::new(codes::K0020, "Unsupported immediate type encountered")
                    .note(format!("the immediate is a {}; only int and float have a form", i.name())))
            }
        }
    }

    /// An integer immediate, or the text of what was wanted.
    pub(crate) fn int_imm(&self, i: &k::Immediate, code: tandem_bir::diag::Code, wanted: &str) -> Res<i32> {
        match i {
            k::Immediate::Int(v) => Ok(*v),
            k::Immediate::Float(_) => Err(Fail::new(code, wanted)),
            k::Immediate::Register(_) | k::Immediate::Pointer => self.imm(i).map(|_| 0),
        }
    }

    /// An immediate or a tile.
    pub(crate) fn operand(&mut self, o: &k::Operand) -> Res<Operand> {
        match o {
            k::Operand::Imm(i) => Ok(Operand::Imm(self.imm(i)?)),
            k::Operand::Tile(t) => Ok(Operand::Ap(self.ap(t)?)),
        }
    }

    /// A register of this name, minted when new.
    pub(crate) fn register(&mut self, name: &k::Str) -> RegId {
        if let Some(reg) = self.regs.get(name) {
            return *reg;
        }
        let reg = self.m.regs.push(tandem_bir::Register {
            name: name.clone(),
            engine: tandem_bir::EngineKind::All,
            num_physical: 1,
            extra: None,
        });
        self.m.funcs[self.f].storages.push(tandem_bir::Storage::Register(reg));
        self.regs.insert(name.clone(), reg);
        reg
    }

    /// The same as an int32 operand.
    pub(crate) fn reg_operand(&mut self, name: &k::Str) -> Operand {
        Operand::Reg(RegAccess { reg: self.register(name), dtype: Dtype::Int32 })
    }

    /// A register that must exist already.
    pub(crate) fn find_register(&self, name: &k::Str) -> Res<Operand> {
        match self.regs.get(name) {
            Some(reg) => Ok(Operand::Reg(RegAccess { reg: *reg, dtype: Dtype::Int32 })),
            None => Err(Fail::new(codes::K0016, format!("Cannot find register: {name}"))),
        }
    }
}

/// Elements of `dtype` per partition of the region.
fn pitch(t: &k::TensorName, bound: &Bound, dtype: Dtype) -> Res<u64> {
    let size = dtype.bytes();
    if !bound.region_bytes.is_multiple_of(size) || bound.region_bytes == 0 {
        return Err(misfit(
            t,
            &format!("{} bytes per partition are no whole number of {dtype} elements", bound.region_bytes),
        ));
    }
    Ok(bound.region_bytes / size)
}

/// Elements of the tensor counted in elements of the operand's dtype.
fn rescale(t: &k::TensorName, bound: &Bound, dtype: Dtype, elems: u64) -> Res<u64> {
    if dtype.bytes() == bound.dtype.bytes() {
        return Ok(elems);
    }
    let bytes = elems.checked_mul(bound.dtype.bytes()).ok_or_else(|| overflow(t))?;
    if bytes % dtype.bytes() != 0 {
        return Err(misfit(
            t,
            &format!("{elems} {} elements are no whole number of {dtype} elements", bound.dtype),
        ));
    }
    Ok(bytes / dtype.bytes())
}

/// The pattern on its location: on chip, rows of the view become rows of the region.
fn normalize(
    t: &Arc<k::TensorName>,
    bound: &Bound,
    dtype: Dtype,
    offset: i64,
    mut pairs: ApPairs,
) -> Res<AccessPattern> {
    if pairs.is_empty() {
        return Err(Fail::new(codes::K0069, format!("access to `{}` has no dimensions", t.name)));
    }
    let mut offset = offset;
    if bound.on_chip {
        let row = rescale(t, bound, dtype, bound.row_elems)?;
        let pitch = pitch(t, bound, dtype)?;
        if row != pitch {
            let (Ok(row), Ok(pitch)) = (i64::try_from(row), i64::try_from(pitch)) else {
                return Err(overflow(t));
            };
            if row == 0 {
                return Err(misfit(t, "the tensor has no elements per partition"));
            }
            let within = offset.rem_euclid(row);
            offset = offset
                .div_euclid(row)
                .checked_mul(pitch)
                .and_then(|o| o.checked_add(within))
                .ok_or_else(|| overflow(t))?;
            if let Some((first, rest)) = pairs.split_first_mut() {
                if first.step % row == 0 {
                    first.step = (first.step / row).checked_mul(pitch).ok_or_else(|| overflow(t))?;
                } else if first.num > 1 {
                    return Err(misfit(
                        t,
                        &format!("its partition step {} is no multiple of {row}", first.step),
                    ));
                }
                let span = tandem_bir::ap::span(within, rest);
                let empty = rest.iter().any(|p| p.num == 0);
                if !empty && !span.is_some_and(|(lo, hi)| lo >= 0 && hi < row) {
                    return Err(misfit(
                        t,
                        &format!("its free part leaves the {row} elements of a partition"),
                    ));
                }
            }
        }
    }
    Ok(AccessPattern { loc: bound.loc, dtype, offset, pairs, dynamic: None })
}
