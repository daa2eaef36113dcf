//! A view as an operator's access, after the check that it stays inside its storage.

use super::{Dims, Dynamic, MAX_PAIRS, PARTITIONS, View, fail};
use pyo3::prelude::*;
use std::sync::Arc;
use tandem_klr::ast::{Access, ApPair, BirAccessPattern, ScalarOffset, Str, TensorName, TensorRef};

impl View {
    /// Checks that every element lies inside the storage (of a moved view: the part known before it runs).
    pub(super) fn check_inside(&self) -> Result<(), String> {
        let mut low = i128::from(self.offset);
        let mut high = low;
        let partition = if self.base.on_chip { 1 } else { 0 };
        let mut free = (0i128, 0i128);
        for (k, d) in self.dims.iter().enumerate() {
            if d.size == 0 {
                return Err(format!("{} has no elements", self.label()));
            }
            let span = i128::from(d.stride).saturating_mul(i128::from(d.size) - 1);
            if span < 0 {
                low += span
            } else {
                high += span
            }
            if k >= partition {
                if span < 0 { free.0 += span } else { free.1 += span }
            }
        }
        let t = &self.base.tensor;
        if !self.base.on_chip {
            let bytes =
                u128::from(t.free_elements) * u128::from(t.shape.par_dim) * u128::from(self.base.elem.size());
            let n = i128::try_from(bytes / u128::from(self.elem.size().max(1))).unwrap_or(i128::MAX);
            if low < 0 || high >= n {
                return Err(format!(
                    "{} touches elements {low}..={high} of `{}`, which has {n}",
                    self.label(),
                    t.name
                ));
            }
            return Ok(());
        }
        let pitch = i128::from(self.pitch().max(1));
        let column = i128::from(self.offset).rem_euclid(pitch);
        if column + free.0 < 0 || column + free.1 >= pitch {
            return Err(format!(
                "{} touches elements {}..={} of a partition of `{}`, which has {pitch}",
                self.label(),
                column + free.0,
                column + free.1,
                t.name
            ));
        }
        let row = i128::from(self.offset).div_euclid(pitch);
        let (count, step) = match self.dims.first() {
            Some(d) if d.size > 1 && i128::from(d.stride) % pitch != 0 => {
                return Err(format!(
                    "the partition step {} of {} is no multiple of the {pitch} elements of a partition",
                    d.stride,
                    self.label()
                ));
            }
            Some(d) => (i128::from(d.size), i128::from(d.stride) / pitch),
            None => (1, 0),
        };
        let last = row + (count - 1) * step;
        let rows = i128::from(t.shape.par_dim);
        if row < 0 || row >= rows || last < 0 || last >= rows {
            return Err(format!(
                "{} touches partitions {}..={} of `{}`, which has {rows}",
                self.label(),
                row.min(last),
                row.max(last),
                t.name
            ));
        }
        if count > i128::from(PARTITIONS) {
            return Err(format!("{} has {count} partitions, the limit is {PARTITIONS}", self.label()));
        }
        Ok(())
    }

    /// The access an operator has, after the check that it stays inside the storage.
    pub(crate) fn access(&self) -> Result<Access, String> {
        self.check_inside()?;
        let drop_hidden = self.dims.len() > MAX_PAIRS && self.base.on_chip;
        let pattern = self
            .dims
            .iter()
            .enumerate()
            .filter(|(k, d)| !(drop_hidden && d.hidden && *k > 0))
            .map(|(_, d)| ApPair { step: d.stride, num: d.size, offset: d.start })
            .collect();
        let offset =
            u64::try_from(self.offset).map_err(|_| format!("{} starts before its tensor", self.label()))?;
        let (tensor, scalar_offset, vector_offset, indirect_dim) = match &self.dynamic {
            Some(d) => (d.tensor.clone(), d.scalar.clone(), d.vector.clone(), d.indirect_dim),
            None => (self.base.tensor.clone(), None, None, 0),
        };
        Ok(Access::BirPattern(Box::new(BirAccessPattern {
            tensor,
            offset,
            pattern,
            scalar_offset,
            vector_offset,
            indirect_dim,
            dtype_override: (self.elem.klr != self.base.tensor.dtype).then_some(self.elem.klr),
        })))
    }

    /// The same as an operand.
    pub(crate) fn operand(&self) -> Result<TensorRef, String> {
        self.access().map(TensorRef::Abstract)
    }

    /// The tensor with this view's shape as its own, for accesses that count dimensions of a reshaped tensor.
    pub(super) fn as_tensor(&self) -> PyResult<Arc<TensorName>> {
        let t = &self.base.tensor;
        let sizes = self.sizes();
        if sizes == t.shape.dims() && self.elem.klr == t.dtype {
            return Ok(t.clone());
        }
        if !self.covers_storage() {
            return fail(format!(
                "an access that moves at run time needs the whole tensor, {} is a part of `{}`",
                self.label(),
                t.name
            ));
        }
        if self.elem.size() != self.base.elem.size() {
            return fail(format!(
                "an access that moves at run time cannot change the element size of `{}`",
                t.name
            ));
        }
        let mut alias = TensorName::clone(t);
        let text: Vec<String> = sizes.iter().map(u64::to_string).collect();
        alias.name = Str::from(format!("{}.{}", t.name, text.join("x")));
        let (first, rest) = sizes.split_first().map_or((1, Vec::new()), |(f, r)| (*f, r.to_vec()));
        alias.free_elements = rest.iter().fold(1u64, |n, d| n.saturating_mul(*d));
        alias.shape.par_dim = first;
        alias.shape.free_dims = rest;
        alias.address.par_size = alias.address.par_size.max(first);
        alias.address.free_size =
            alias.address.free_size.max(alias.free_elements.saturating_mul(self.elem.size()));
        if !self.base.on_chip {
            // Rows of memory have no meaning of their own: the same bytes, cut into other rows.
            alias.address.par_size = first;
            alias.address.free_size = alias.free_elements.saturating_mul(self.elem.size());
        }
        Ok(Arc::new(alias))
    }

    pub(super) fn moved(&self, dim: usize, register: &str, dims: Dims, offset: i64) -> PyResult<View> {
        if self.dynamic.is_some() {
            return fail(format!(
                "{} already moves at run time; one moving index is the limit",
                self.label()
            ));
        }
        let tensor = self.as_tensor()?;
        let scalar = Some(ScalarOffset::Reg(Str::new(register)));
        let dynamic = Dynamic { tensor, scalar, vector: None, indirect_dim: i64::try_from(dim).unwrap_or(0) };
        Ok(View { dynamic: Some(Arc::new(dynamic)), ..self.with(dims, offset) })
    }

    /// [`View::as_tensor`] for an explicit pattern, which addresses the storage whatever the view shows of it.
    pub(super) fn as_moved_tensor(&self) -> PyResult<Arc<TensorName>> {
        let t = &self.base.tensor;
        if self.covers_storage() { self.as_tensor() } else { Ok(t.clone()) }
    }
}
