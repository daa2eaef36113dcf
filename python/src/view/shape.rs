//! Other shapes, orders and element types of the same elements.

use super::pattern::rescale;
use super::{Dim, Dims, View, elem_of, fail};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

impl View {
    /// The body of `reshape`.
    pub(super) fn reshaped(&self, shape: &Bound<'_, PyTuple>) -> PyResult<View> {
        let list: Vec<i64> = match shape.get_item(0) {
            Ok(first) if shape.len() == 1 && !first.is_instance_of::<PyInt>() => first.extract()?,
            _ => shape.extract()?,
        };
        let total = self.elements();
        let known = list.iter().filter(|&&d| d >= 0).fold(1u64, |n, &d| n.saturating_mul(d.unsigned_abs()));
        let holes = list.iter().filter(|&&d| d == -1).count();
        if holes > 1
            || list.iter().any(|&d| d < -1)
            || (holes == 1 && (known == 0 || !total.is_multiple_of(known)))
        {
            return fail(format!("{} has no shape {list:?}", self.label()));
        }
        let new: Vec<u64> =
            list.iter().map(|&d| if d == -1 { total / known } else { d.unsigned_abs() }).collect();
        if new.iter().fold(1u64, |n, d| n.saturating_mul(*d)) != total || new.is_empty() {
            return fail(format!("{} has {total} elements, the shape {new:?} another number", self.label()));
        }
        if self.dynamic.is_some() {
            return fail(format!("{} moves at run time and cannot be reshaped", self.label()));
        }
        let old: Vec<(i64, u64)> = self.shown().map(|d| (d.stride, d.size)).collect();
        let strides = if self.base.on_chip {
            if new.first() != old.first().map(|d| &d.1) {
                return fail(format!(
                    "a reshape of an on-chip tensor keeps dimension 0, the partitions: {} to {new:?}",
                    self.label()
                ));
            }
            let first = old.first().map_or(1, |d| d.0);
            reshape_strides(old.get(1..).unwrap_or(&[]), new.get(1..).unwrap_or(&[])).map(|mut s| {
                s.insert(0, first);
                s
            })
        } else {
            reshape_strides(&old, &new)
        };
        let Some(strides) = strides else {
            return fail(format!("{} is not contiguous enough for the shape {new:?}", self.label()));
        };
        let dims = new
            .iter()
            .zip(strides)
            .map(|(&size, stride)| Dim { stride, size, start: 0, hidden: false })
            .collect();
        Ok(self.with(dims, self.offset))
    }

    /// The body of `view`.
    pub(super) fn viewed(&self, dtype: &str) -> PyResult<View> {
        let elem = elem_of(dtype)?;
        let (old, new) = (self.elem.size(), elem.size());
        let mut dims = self.dims.clone();
        let offset = rescale(self.offset, self.elem, elem, || self.label())?;
        if old != new {
            let last = dims.iter().rposition(|d| !d.hidden).unwrap_or(0);
            let ok = dims.get(last).is_some_and(|d| d.stride == 1 && (d.size * old) % new == 0);
            if !ok || self.dynamic.is_some() {
                return fail(format!("the last dimension of {} does not divide into {dtype}", self.label()));
            }
            for (k, d) in dims.iter_mut().enumerate() {
                if k == last {
                    d.size = d.size * old / new;
                } else {
                    d.stride = rescale(d.stride, self.elem, elem, || self.label())?;
                }
                d.start = 0;
            }
        }
        Ok(View { elem, ..self.with(dims, offset) })
    }

    /// The body of `permute`.
    pub(super) fn permuted(&self, dims: Vec<i64>) -> PyResult<View> {
        let order = dims.iter().map(|&d| self.dim_at(d)).collect::<PyResult<Vec<_>>>()?;
        let mut seen = order.clone();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() != self.shown().count() || order.len() != seen.len() {
            return fail(format!("{dims:?} is no order of the dimensions of {}", self.label()));
        }
        if self.base.on_chip && order.first() != Some(&0) {
            return fail(format!("a permutation of on-chip dimensions keeps dimension 0: {}", self.label()));
        }
        let taken = order.iter().map(|&i| Dim { start: 0, ..self.dims[i] }).collect();
        Ok(self.with(taken, self.offset))
    }

    /// The body of `expand_dim`.
    pub(super) fn expanded(&self, dim: i64) -> PyResult<View> {
        let mut dims: Dims = self.shown().copied().collect();
        let n = i64::try_from(dims.len()).unwrap_or(0);
        let k = if dim < 0 { dim.saturating_add(n).saturating_add(1) } else { dim };
        let least = i64::from(self.base.on_chip);
        if k < least || k > n {
            return fail(format!("no place for a dimension at {dim} of {}", self.label()));
        }
        let at = usize::try_from(k).unwrap_or(0);
        let stride = dims.get(at).map_or(1, |d| d.stride.saturating_mul(i64::try_from(d.size).unwrap_or(1)));
        dims.insert(at, Dim { stride, size: 1, start: 0, hidden: false });
        Ok(self.with(dims, self.offset))
    }

    /// The body of `reshape_dim`.
    pub(super) fn split(&self, dim: i64, shape: Vec<i64>) -> PyResult<View> {
        let at = self.dim_at(dim)?;
        let mut dims: Dims = self.dims.iter().copied().collect();
        let Some(d) = dims.get(at).copied() else { return fail("no such dimension") };
        let known =
            shape.iter().filter(|&&s| s >= 0).fold(1u64, |n, &s| n.saturating_mul(s.unsigned_abs())).max(1);
        let sizes: Vec<u64> =
            shape.iter().map(|&s| if s < 0 { d.size / known } else { s.unsigned_abs() }).collect();
        if sizes.iter().fold(1u64, |n, s| n.saturating_mul(*s)) != d.size || (self.base.on_chip && at == 0) {
            return fail(format!("dimension {dim} of {} does not split into {shape:?}", self.label()));
        }
        dims.remove(at);
        let mut stride = d.stride;
        for size in sizes.into_iter().rev() {
            dims.insert(at, Dim { stride, size, start: 0, hidden: false });
            stride = stride.saturating_mul(i64::try_from(size).unwrap_or(1));
        }
        Ok(self.with(dims, self.offset))
    }

    /// The body of `flatten_dims`.
    pub(super) fn merged(&self, start_dim: i64, end_dim: i64) -> PyResult<View> {
        let (from, to) = (self.dim_at(start_dim)?, self.dim_at(end_dim)?);
        let flat = self.dims.get(from..=to).unwrap_or(&[]);
        let pairs: Vec<(i64, u64)> = flat.iter().map(|d| (d.stride, d.size)).collect();
        let size = pairs.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
        let strides = if self.base.on_chip && from == 0 && from != to {
            None
        } else {
            reshape_strides(&pairs, &[size])
        };
        let Some(stride) = strides.and_then(|s| s.first().copied()) else {
            return fail(format!("dimensions {start_dim} to {end_dim} of {} do not merge", self.label()));
        };
        let mut dims: Dims = self.dims.iter().take(from).copied().collect();
        dims.push(Dim { stride, size, start: 0, hidden: false });
        dims.extend(self.dims.iter().skip(to.saturating_add(1)).copied());
        Ok(self.with(dims, self.offset))
    }
}

/// Strides of `new` over the memory of `old` without a copy, if there are any (dimensions of size 1 are free).
fn reshape_strides(old: &[(i64, u64)], new: &[u64]) -> Option<Vec<i64>> {
    let old: Vec<(i64, u64)> = old.iter().copied().filter(|d| d.1 != 1).collect();
    let mut strides = vec![0i64; new.len()];
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        let (mut have, mut want) = (old.get(i)?.1, *new.get(j)?);
        let (from, to) = (i, j);
        while have != want {
            if have < want {
                i += 1;
                have = have.checked_mul(old.get(i)?.1)?;
            } else {
                j += 1;
                want = want.checked_mul(*new.get(j)?)?;
            }
        }
        for k in from..i {
            let (outer, inner) = (old.get(k)?, old.get(k + 1)?);
            if outer.0 != inner.0.checked_mul(i64::try_from(inner.1).ok()?)? {
                return None;
            }
        }
        let mut step = old.get(i)?.0;
        for k in (to..=j).rev() {
            *strides.get_mut(k)? = step;
            step = step.checked_mul(i64::try_from(*new.get(k)?).ok()?)?;
        }
        i += 1;
        j += 1;
    }
    // What is left are dimensions of one element on either side.
    let mut step = 1i64;
    for k in (j..new.len()).rev() {
        if *new.get(k)? != 1 {
            return None;
        }
        *strides.get_mut(k)? = step;
        step = step.saturating_mul(i64::try_from(*new.get(k)?).ok()?);
    }
    (i >= old.len()).then_some(strides)
}
