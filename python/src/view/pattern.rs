//! Explicit access patterns: `.ap`.

use super::index::register_name;
use super::{Dim, Dynamic, View, elem_of, fail};
use crate::dtype::Elem;
use crate::errors::TraceError;
use pyo3::prelude::*;
use std::sync::Arc;
use tandem_klr::ast::{ScalarOffset, Str};

impl View {
    /// The body of `ap`.
    pub(super) fn pattern(
        &self,
        pattern: Vec<Vec<i64>>,
        offset: Option<i64>,
        scalar_offset: Option<Bound<'_, PyAny>>,
        vector_offset: Option<PyRef<'_, View>>,
        indirect_dim: i64,
        dtype: Option<&str>,
    ) -> PyResult<View> {
        let elem = match dtype {
            None => self.elem,
            Some(d) => elem_of(d)?,
        };
        let pairs = pattern
            .iter()
            .map(|p| match p.as_slice() {
                [step, num] => u64::try_from(*num).ok().map(|n| (*step, n)),
                _ => None,
            })
            .collect::<Option<Vec<_>>>();
        let pairs = match pairs {
            Some(p) if !p.is_empty() => p,
            _ => return fail(format!("an access pattern is a list of [step, num] pairs, not {pattern:?}")),
        };
        if scalar_offset.is_none()
            && vector_offset.is_none()
            && let Some(part) = self.ap_of_part(&pairs, offset.unwrap_or(0), elem)?
        {
            return Ok(part);
        }
        if self.offset != 0 && offset.is_some_and(|o| o != 0) {
            return fail(format!(
                "{} starts at element {} of its tensor: an access pattern on a part of a tensor takes no offset",
                self.label(),
                self.offset
            ));
        }
        let offset = match offset {
            Some(o) if o != 0 => o,
            _ => rescale(self.offset, self.elem, elem, || self.label())?,
        };
        let dims =
            pairs.iter().map(|&(stride, size)| Dim { stride, size, start: 0, hidden: false }).collect();
        let dynamic = match (scalar_offset, vector_offset) {
            (None, None) => None,
            (Some(_), Some(_)) => return fail("scalar_offset and vector_offset together"),
            (scalar, vector) => {
                if elem.size() != self.elem.size() {
                    return fail("an access that moves at run time cannot change the element size");
                }
                let tensor = View { elem, ..self.with(self.dims.clone(), self.offset) }.as_moved_tensor()?;
                let rank = i64::try_from(tensor.shape.rank()).unwrap_or(0);
                if !(0..rank).contains(&indirect_dim) {
                    return fail(format!("indirect_dim {indirect_dim} is no dimension of {}", self.label()));
                }
                let scalar = match scalar {
                    None => None,
                    Some(s) => Some(scalar_of(&s)?),
                };
                let vector = match vector {
                    None => None,
                    Some(v) => {
                        Some(v.access().map_err(|e| TraceError::new_err(format!("vector_offset: {e}")))?)
                    }
                };
                Some(Arc::new(Dynamic { tensor, scalar, vector, indirect_dim }))
            }
        };
        Ok(View { base: self.base.clone(), elem, dims, offset, dynamic })
    }

    /// An access pattern that addresses this part of an on-chip tensor instead of the whole storage: `None` where it
    /// addresses the storage.
    ///
    /// The vendor's text: the first step must be the number of elements in the free dimensions of the tensor, which the
    /// pattern takes as flattened. So the first step tells which tensor is meant: the storage's number addresses the storage, the
    /// part's own number the part, its elements numbered row by row, `offset` from its start. What text there is on `.ap` of a
    /// part refuses it (NKI 0.3) or addresses the storage (0.5 on); the vendor's library needs the second kind too, and its
    /// references agree with it (our choice).
    fn ap_of_part(&self, pairs: &[(i64, u64)], offset: i64, elem: Elem) -> PyResult<Option<View>> {
        let (Some(rows), Some(&(first, count))) = (self.dims.first(), pairs.first()) else { return Ok(None) };
        let (old, new) = (self.elem.size().max(1), elem.size().max(1));
        let own = self.dims.iter().skip(1).fold(1u64, |n, d| n.saturating_mul(d.size)).saturating_mul(old);
        let pitch = self.base.tensor.free_elements.saturating_mul(self.base.elem.size()).max(1);
        let meant = u64::try_from(first).is_ok_and(|f| f.saturating_mul(new) == own);
        if !self.base.on_chip || self.dynamic.is_some() || !meant || own % pitch == 0 {
            return Ok(None);
        }
        // The step between neighbours of the part, if there is one.
        let mut step = None;
        let mut next = 1i64;
        let mut even = true;
        for d in self.dims.iter().skip(1).rev().filter(|d| d.size != 1) {
            even &= step.is_none() || d.stride == next;
            step.get_or_insert(d.stride);
            next = d.stride.saturating_mul(i64::try_from(d.size).unwrap_or(i64::MAX));
        }
        let step = step.unwrap_or(1);
        if !even || (step != 1 && old != new) {
            return fail(format!(
                "an access pattern on {} needs a part whose elements follow each other evenly",
                self.label()
            ));
        }
        let (row, column) = (offset.div_euclid(first), offset.rem_euclid(first));
        let (mut low, mut high) = (i128::from(column), i128::from(column));
        for &(s, n) in pairs.iter().skip(1) {
            let span = i128::from(s).saturating_mul(i128::from(n).saturating_sub(1));
            if span < 0 { low = low.saturating_add(span) } else { high = high.saturating_add(span) }
        }
        let last = i128::from(row) + i128::from(count) - 1;
        if row < 0 || last >= i128::from(rows.size) || low < 0 || high >= i128::from(first) {
            return fail(format!(
                "an access pattern on {} touches elements {low}..={high} of its partitions {row}..={last}; it has {first} and {}",
                self.label(),
                rows.size
            ));
        }
        let stride = rescale(rows.stride, self.elem, elem, || self.label())?;
        let start = rescale(self.offset, self.elem, elem, || self.label())?
            .saturating_add(row.saturating_mul(stride))
            .saturating_add(column.saturating_mul(step));
        let dims = pairs.iter().enumerate().map(|(k, &(s, size))| Dim {
            stride: if k == 0 { stride } else { s.saturating_mul(step) },
            size,
            start: 0,
            hidden: false,
        });
        Ok(Some(View { elem, ..self.with(dims.collect(), start) }))
    }
}

/// A count of elements of one size in elements of another.
pub(super) fn rescale(value: i64, old: Elem, new: Elem, label: impl Fn() -> String) -> PyResult<i64> {
    let bytes = value.saturating_mul(i64::try_from(old.size()).unwrap_or(1));
    let size = i64::try_from(new.size()).unwrap_or(1);
    if bytes % size != 0 {
        return fail(format!("a part of {} does not start at a whole element of {}", label(), new.name));
    }
    Ok(bytes / size)
}

/// What moves an access: a register, or a tensor of one element.
pub(super) fn scalar_of(x: &Bound<'_, PyAny>) -> PyResult<ScalarOffset> {
    if let Some(register) = register_name(x) {
        return Ok(ScalarOffset::Reg(Str::from(register)));
    }
    if let Ok(v) = x.cast::<View>() {
        let v = v.get();
        if v.elements() != 1 {
            return fail(format!(
                "scalar_offset is a register or a tensor of one element, not {}",
                v.label()
            ));
        }
        let access = v.access().map_err(|e| TraceError::new_err(format!("scalar_offset: {e}")))?;
        return Ok(ScalarOffset::Acc(access));
    }
    fail(format!("scalar_offset is a register or a tensor of one element, not {}", x.get_type().name()?))
}
