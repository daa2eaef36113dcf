//! Indices: numbers, slices, `nl.ds`, registers, `...` and `None`.

use super::pattern::scalar_of;
use super::{Dim, Dims, DynSlice, Dynamic, View, fail};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use std::sync::Arc;

impl View {
    /// The body of `__getitem__`.
    pub(super) fn item(&self, key: &Bound<'_, PyAny>) -> PyResult<View> {
        let py = key.py();
        let keys: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
            Ok(t) => t.iter().collect(),
            Err(_) => vec![key.clone()],
        };
        let shown = self.shown().count();
        let used = keys.iter().filter(|k| !k.is_none() && !k.is(PyEllipsis::get(py))).count();
        if used > shown {
            return Err(PyIndexError::new_err(format!("{used} indices for {}", self.label())));
        }
        if keys.iter().filter(|k| k.is(PyEllipsis::get(py))).count() > 1 {
            return Err(PyIndexError::new_err("more than one ... in an index"));
        }
        let mut dims = Dims::new();
        let mut offset = self.offset;
        let mut moves: Option<(usize, String)> = None;
        let mut source = self.dims.iter();
        let mut at = 0usize;
        let mut next = |dims: &mut Dims| -> Option<Dim> {
            loop {
                let d = source.next()?;
                if !d.hidden {
                    return Some(*d);
                }
                dims.push(*d);
            }
        };
        for k in &keys {
            if k.is_none() {
                dims.push(Dim { stride: 0, size: 1, start: 0, hidden: false });
                continue;
            }
            if k.is(PyEllipsis::get(py)) {
                for _ in 0..shown - used {
                    let Some(d) = next(&mut dims) else { break };
                    dims.push(d);
                    at += 1;
                }
                continue;
            }
            let Some(d) = next(&mut dims) else { break };
            let len = i64::try_from(d.size).unwrap_or(i64::MAX);
            let mut go = |by: i64| offset = offset.saturating_add(by.saturating_mul(d.stride));
            let start_of = |by: i64| d.start.saturating_add(u64::try_from(by).unwrap_or(0));
            if let Ok(s) = k.cast::<PySlice>() {
                if let Ok(Some(first)) = s.getattr("start")?.extract::<Option<i64>>()
                    && first > len
                {
                    let text =
                        format!("slice starts at {first}, dimension {at} of {} ends at {len}", self.label());
                    return Err(PyIndexError::new_err(text));
                }
                for part in ["start", "stop", "step"] {
                    let v = s.getattr(part)?;
                    if register_name(&v).is_some() {
                        return fail("a register in a slice: use nl.ds(register, size)");
                    }
                }
                let ix = s.indices(isize::try_from(len).unwrap_or(isize::MAX))?;
                let (first, step) = (ix.start as i64, ix.step as i64);
                let size = u64::try_from(ix.slicelength).unwrap_or(0);
                if size > 0 {
                    go(first);
                }
                let start = if step == 1 { start_of(first) } else { 0 };
                dims.push(Dim { stride: d.stride.saturating_mul(step), size, start, hidden: false });
            } else if let Ok(s) = k.cast::<DynSlice>() {
                let s = s.get();
                let start = s.start.bind(py);
                if let Some(register) = register_name(start) {
                    if moves.replace((at, register)).is_some() {
                        return fail(format!("two registers in one index of {}", self.label()));
                    }
                    dims.push(Dim { size: s.size, start: 0, ..d });
                } else {
                    let first = index_number(start)?;
                    let last = i64::try_from(s.size).ok().and_then(|n| first.checked_add(n));
                    if first < 0 || last.is_none_or(|l| l > len) {
                        let text =
                            format!("ds({first}, {}) leaves dimension {at} of {}", s.size, self.label());
                        return Err(PyIndexError::new_err(text));
                    }
                    go(first);
                    dims.push(Dim { size: s.size, start: start_of(first), ..d });
                }
            } else if let Some(register) = register_name(k) {
                if moves.replace((at, register)).is_some() {
                    return fail(format!("two registers in one index of {}", self.label()));
                }
                dims.push(Dim { size: 1, start: 0, hidden: !(self.base.on_chip && at == 0), ..d });
            } else {
                let i = index_number(k)?;
                let n = if i < 0 { i.saturating_add(len) } else { i };
                if n < 0 || n >= len {
                    let text = format!("index {i} is outside dimension {at} of {}", self.label());
                    return Err(PyIndexError::new_err(text));
                }
                go(n);
                let hidden = !(self.base.on_chip && at == 0);
                dims.push(Dim { size: 1, start: start_of(n), hidden, ..d });
            }
            at += 1;
        }
        while let Some(d) = next(&mut dims) {
            dims.push(d);
        }
        let least = if self.base.on_chip { 2 } else { 1 };
        let mut missing = least.min(dims.len()).saturating_sub(dims.iter().filter(|d| !d.hidden).count());
        for d in dims.iter_mut().rev().filter(|d| d.hidden) {
            if missing == 0 {
                break;
            }
            d.hidden = false;
            missing -= 1;
        }
        match moves {
            Some((dim, register)) => self.moved(dim, &register, dims, offset),
            None => Ok(self.with(dims, offset)),
        }
    }

    /// The body of `select`.
    pub(super) fn selected(&self, dim: i64, index: &Bound<'_, PyAny>) -> PyResult<View> {
        let at = self.dim_at(dim)?;
        let mut dims = self.dims.clone();
        let Some(d) = dims.get_mut(at) else { return fail("no such dimension") };
        let keep = self.base.on_chip && at == 0;
        let (stride, size) = (d.stride, d.size);
        *d = Dim { size: 1, hidden: !keep, ..*d };
        if let Ok(tile) = index.cast::<View>() {
            let _ = tile;
            let tensor = self.as_tensor()?;
            let dynamic =
                Dynamic { tensor, scalar: Some(scalar_of(index)?), vector: None, indirect_dim: dim };
            return Ok(View { dynamic: Some(Arc::new(dynamic)), ..self.with(dims, self.offset) });
        }
        if let Some(register) = register_name(index) {
            return self.moved(usize::try_from(dim).unwrap_or(0), &register, dims, self.offset);
        }
        let i = index_number(index)?;
        if i < 0 || i.unsigned_abs() >= size {
            return Err(PyIndexError::new_err(format!(
                "index {i} is outside dimension {dim} of {}",
                self.label()
            )));
        }
        Ok(self.with(dims, self.offset.saturating_add(i.saturating_mul(stride))))
    }
}

/// The register name of an object that is a register.
pub(super) fn register_name(x: &Bound<'_, PyAny>) -> Option<String> {
    x.getattr("_register").ok()?.extract().ok()
}

/// A whole number; registers, tensors and floats are none.
fn index_number(x: &Bound<'_, PyAny>) -> PyResult<i64> {
    if x.is_instance_of::<PyInt>() {
        return x.extract();
    }
    match x.call_method0("__index__") {
        Ok(n) => n.extract(),
        Err(_) => Err(PyTypeError::new_err(format!(
            "an index is a whole number, a slice, nl.ds, a register or ..., not {}",
            x.get_type().name()?
        ))),
    }
}
