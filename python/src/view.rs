//! Tensors as kernels hold them: views by offset, strides and sizes over named storage.
//!
//! A view never checks that it stays inside its storage; the operator that uses it does ([`View::access`]), because
//! kernels make views they do not use. Slices, permutations, splits, merges and broadcasts act as in numpy; on-chip
//! tensors keep dimension 0, the partition dimension. Offset and strides count elements of the view's own type.
//!
//! Not modelled: views of views of indirect accesses beyond slicing.

use crate::dtype::Elem;
use crate::errors::TraceError;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis, PyInt, PySlice, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use tandem_klr::ast::{Access, ApPair, BirAccessPattern, ScalarOffset, Str, TensorName, TensorRef};

/// Partitions of SBUF and PSUM.
pub(crate) const PARTITIONS: u64 = 128;
/// Pairs of an on-chip operand the machine addresses: the partition pair and four free ones.
const MAX_PAIRS: usize = 5;

/// Error of a trace, to be completed with the function and the argument by the caller.
pub(crate) fn fail<T>(text: impl Into<String>) -> PyResult<T> {
    Err(TraceError::new_err(text.into()))
}

/// The tensor a view looks at.
#[derive(Debug)]
pub(crate) struct Base {
    /// Name, type, shape and address as KLR has them.
    pub(crate) tensor: Arc<TensorName>,
    /// Element type as the kernel named it.
    pub(crate) elem: Elem,
    /// The memory region object the kernel sees as `t.buffer`.
    pub(crate) buffer: Py<PyAny>,
    /// SBUF or PSUM: dimension 0 is the partition dimension.
    pub(crate) on_chip: bool,
    /// Matrix results accumulate here.
    pub(crate) psum: bool,
    /// Ordinal of the core whose trace made it.
    pub(crate) core: u32,
}

/// One dimension of a view. A hidden one was indexed by a number: it has one element and is not part of the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) stride: i64,
    pub(crate) size: u64,
    pub(crate) start: u64,
    pub(crate) hidden: bool,
}

pub(crate) type Dims = SmallVec<[Dim; 5]>;

/// What moves a view at run time.
#[derive(Debug)]
pub(crate) struct Dynamic {
    /// The tensor whose dimensions `indirect_dim` counts.
    tensor: Arc<TensorName>,
    scalar: Option<ScalarOffset>,
    vector: Option<Access>,
    indirect_dim: i64,
}

/// A tensor of a kernel: `nl.ndarray`.
#[pyclass(frozen, name = "NkiTensor", module = "tandem.nki.language")]
pub struct View {
    pub(crate) base: Arc<Base>,
    pub(crate) elem: Elem,
    pub(crate) dims: Dims,
    pub(crate) offset: i64,
    pub(crate) dynamic: Option<Arc<Dynamic>>,
}

/// `nl.ds(start, size)`: `size` elements from `start`.
#[pyclass(frozen, name = "ds", module = "tandem.nki.language")]
pub struct DynSlice {
    start: Py<PyAny>,
    size: u64,
}

#[pymethods]
impl DynSlice {
    #[new]
    fn new(start: Py<PyAny>, size: u64) -> DynSlice {
        DynSlice { start, size }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("ds({}, {})", self.start.bind(py), self.size)
    }
}

fn row_major(shape: &[u64]) -> Dims {
    let mut dims: Dims = shape.iter().map(|&size| Dim { stride: 1, size, start: 0, hidden: false }).collect();
    let mut step = 1i64;
    for d in dims.iter_mut().rev() {
        d.stride = step;
        step = step.saturating_mul(i64::try_from(d.size).unwrap_or(i64::MAX));
    }
    dims
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

impl View {
    /// The whole tensor.
    pub(crate) fn whole(base: Base) -> View {
        let dims = row_major(&base.tensor.shape.dims());
        View { elem: base.elem, base: Arc::new(base), dims, offset: 0, dynamic: None }
    }

    fn with(&self, dims: Dims, offset: i64) -> View {
        View { base: self.base.clone(), elem: self.elem, dims, offset, dynamic: self.dynamic.clone() }
    }

    /// The dimensions of the shape.
    pub(crate) fn shown(&self) -> impl DoubleEndedIterator<Item = &Dim> {
        self.dims.iter().filter(|d| !d.hidden)
    }

    pub(crate) fn sizes(&self) -> Vec<u64> {
        self.shown().map(|d| d.size).collect()
    }

    fn elements(&self) -> u64 {
        self.dims.iter().fold(1u64, |n, d| n.saturating_mul(d.size))
    }

    fn label(&self) -> String {
        let shape: Vec<String> = self.sizes().iter().map(u64::to_string).collect();
        format!("`{}` [{}] {}", self.base.tensor.name, shape.join(", "), self.elem.name)
    }

    /// Whether the view is the row-major image of its shape from the start of the storage.
    fn covers_storage(&self) -> bool {
        self.offset == 0 && self.is_row_major()
    }

    fn is_row_major(&self) -> bool {
        let mut step = 1i64;
        for d in self.dims.iter().rev() {
            if d.size != 1 && d.stride != step {
                return false;
            }
            step = step.saturating_mul(i64::try_from(d.size).unwrap_or(i64::MAX));
        }
        true
    }

    /// Elements of one partition of the storage, in this view's type.
    fn pitch(&self) -> i64 {
        let bytes = self.base.tensor.free_elements.saturating_mul(self.base.elem.size());
        i64::try_from(bytes / self.elem.size().max(1)).unwrap_or(i64::MAX)
    }

    /// Position of a shown dimension in `dims`; negative numbers count from the end.
    fn dim_at(&self, dim: i64) -> PyResult<usize> {
        let shown: Vec<usize> = (0..self.dims.len()).filter(|&i| !self.dims[i].hidden).collect();
        let n = i64::try_from(shown.len()).unwrap_or(i64::MAX);
        let k = if dim < 0 { dim.saturating_add(n) } else { dim };
        match usize::try_from(k).ok().and_then(|k| shown.get(k)) {
            Some(&i) => Ok(i),
            None => fail(format!("dimension {dim} does not exist in {}", self.label())),
        }
    }

    /// Checks that every element lies inside the storage (of a moved view: the part known before it runs).
    fn check_inside(&self) -> Result<(), String> {
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
    fn as_tensor(&self) -> PyResult<Arc<TensorName>> {
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

    fn moved(&self, dim: usize, register: &str, dims: Dims, offset: i64) -> PyResult<View> {
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
}

/// The register name of an object that is a register.
pub(crate) fn register_name(x: &Bound<'_, PyAny>) -> Option<String> {
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

#[pymethods]
impl View {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sizes())
    }

    /// Elements to the next index of each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shown().map(|d| d.stride).collect::<Vec<_>>())
    }

    /// First element, counted in the storage.
    #[getter]
    fn offset(&self) -> i64 {
        self.offset
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.elem.name
    }

    #[getter]
    fn buffer(&self, py: Python<'_>) -> Py<PyAny> {
        self.base.buffer.clone_ref(py)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.base.tensor.name
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shown().count()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.elements()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> u64 {
        self.elem.size()
    }

    #[getter]
    fn _on_chip(&self) -> bool {
        self.base.on_chip
    }

    #[getter]
    fn _psum(&self) -> bool {
        self.base.psum
    }

    #[getter]
    fn _core(&self) -> u32 {
        self.base.core
    }

    #[getter]
    fn _storage_offset(&self) -> i64 {
        self.offset
    }

    fn is_contiguous(&self) -> bool {
        self.is_row_major()
    }

    fn is_indirect(&self) -> bool {
        self.dynamic.is_some()
    }

    /// `[[stride, size], ...]` of the shape.
    fn get_pattern(&self) -> Vec<(i64, u64)> {
        self.shown().map(|d| (d.stride, d.size)).collect()
    }

    /// Elements of one partition or row.
    #[getter]
    fn _free(&self) -> u64 {
        self.shown().skip(1).fold(1u64, |n, d| n.saturating_mul(d.size))
    }

    /// First partition of an on-chip view.
    #[getter]
    fn _partition(&self) -> i64 {
        self.offset.div_euclid(self.pitch().max(1))
    }

    /// The same view without the dimensions that were indexed by numbers.
    fn _squeezed(&self) -> View {
        let keep = self.dims.iter().enumerate().filter(|(k, d)| !d.hidden || (*k == 0 && self.base.on_chip));
        self.with(keep.map(|(_, d)| *d).collect(), self.offset)
    }

    /// Byte ranges `(first, end)` inside a partition and the partitions of an on-chip view, for overlap tests.
    fn _extent(&self) -> (i64, i64, i64, i64) {
        let pitch = self.pitch().max(1);
        let size = i64::try_from(self.elem.size()).unwrap_or(1);
        let span: i64 = self
            .dims
            .iter()
            .skip(1)
            .map(|d| d.stride.abs().saturating_mul(i64::try_from(d.size.saturating_sub(1)).unwrap_or(0)))
            .fold(0, i64::saturating_add);
        let row = self.offset.div_euclid(pitch);
        let rows = self.dims.first().map_or(1, |d| i64::try_from(d.size).unwrap_or(1));
        let first = self.offset.rem_euclid(pitch).saturating_mul(size);
        (
            row,
            row.saturating_add(rows),
            first,
            first.saturating_add(span.saturating_add(1).saturating_mul(size)),
        )
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<View> {
        let py = key.py();
        let keys: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
            Ok(t) => t.iter().collect(),
            Err(_) => vec![key.clone()],
        };
        let shown = self.shown().count();
        let used = keys.iter().filter(|k| !k.is_none() && !k.is(&PyEllipsis::get(py))).count();
        if used > shown {
            return Err(PyIndexError::new_err(format!("{used} indices for {}", self.label())));
        }
        if keys.iter().filter(|k| k.is(&PyEllipsis::get(py))).count() > 1 {
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
            if k.is(&PyEllipsis::get(py)) {
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

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        fail(format!("{} cannot be assigned to; use nisa.tensor_copy or nisa.dma_copy", self.label()))
    }

    /// A view addressed in the storage: `offset` and `[[step, num], ...]` count elements of `dtype`. On a part of an on-chip
    /// tensor, a first step that is the part's own number of elements per partition addresses the part ([`View::ap_of_part`]).
    #[pyo3(signature = (pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None))]
    fn ap(
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

    /// The same elements under another shape, without a copy.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<View> {
        let list: Vec<i64> = match shape.get_item(0) {
            Ok(first) if shape.len() == 1 && !first.is_instance_of::<PyInt>() => first.extract()?,
            _ => shape.extract()?,
        };
        let total = self.elements();
        let known = list.iter().filter(|&&d| d >= 0).fold(1u64, |n, &d| n.saturating_mul(d.unsigned_abs()));
        let holes = list.iter().filter(|&&d| d == -1).count();
        if holes > 1 || list.iter().any(|&d| d < -1) || (holes == 1 && (known == 0 || total % known != 0)) {
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

    /// The same bytes under another element type; the last dimension changes by the ratio of the sizes.
    fn view(&self, dtype: &str) -> PyResult<View> {
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

    fn reinterpret_cast(&self, dtype: &str) -> PyResult<View> {
        self.view(dtype)
    }

    /// Dimensions in another order; on-chip tensors keep dimension 0.
    fn permute(&self, dims: Vec<i64>) -> PyResult<View> {
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

    /// A dimension of one element repeated `size` times.
    fn broadcast(&self, dim: i64, size: u64) -> PyResult<View> {
        let at = self.dim_at(dim)?;
        let mut dims = self.dims.clone();
        match dims.get_mut(at) {
            Some(d) if d.size == 1 => *d = Dim { stride: 0, size, ..*d },
            _ => return fail(format!("dimension {dim} of {} has more than one element", self.label())),
        }
        Ok(self.with(dims, self.offset))
    }

    /// A new dimension of one element.
    fn expand_dim(&self, dim: i64) -> PyResult<View> {
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

    /// Without a dimension of one element.
    fn squeeze_dim(&self, dim: i64) -> PyResult<View> {
        let at = self.dim_at(dim)?;
        let mut dims = self.dims.clone();
        match dims.get(at) {
            Some(d) if d.size == 1 && !(self.base.on_chip && at == 0) => dims.remove(at),
            _ => return fail(format!("dimension {dim} of {} cannot be dropped", self.label())),
        };
        Ok(self.with(dims, self.offset))
    }

    /// One dimension split into several.
    fn reshape_dim(&self, dim: i64, shape: Vec<i64>) -> PyResult<View> {
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

    /// Dimensions `start_dim..=end_dim` merged into one.
    fn flatten_dims(&self, start_dim: i64, end_dim: i64) -> PyResult<View> {
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

    /// `start:end:step` of one dimension.
    #[pyo3(signature = (dim, start, end, step=1))]
    fn slice(&self, dim: i64, start: i64, end: i64, step: i64) -> PyResult<View> {
        let at = self.dim_at(dim)?;
        let mut dims = self.dims.clone();
        let Some(d) = dims.get_mut(at) else { return fail("no such dimension") };
        let len = i64::try_from(d.size).unwrap_or(i64::MAX);
        if step < 1 || start < 0 || end < start || end > len {
            return fail(format!("slice {start}:{end}:{step} leaves dimension {dim} of {}", self.label()));
        }
        let offset = self.offset.saturating_add(start.saturating_mul(d.stride));
        d.size = (end - start).unsigned_abs().div_ceil(step.unsigned_abs());
        d.start = if step == 1 { d.start.saturating_add(start.unsigned_abs()) } else { 0 };
        d.stride = d.stride.saturating_mul(step);
        Ok(self.with(dims, offset))
    }

    /// One index of a dimension: a number, a register or a tensor of one element.
    fn select(&self, dim: i64, index: &Bound<'_, PyAny>) -> PyResult<View> {
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

    /// A tensor is there: kernels ask `if scale:` of an argument that may be `None`. What it holds is not known while
    /// tracing, so this never looks at values.
    fn __bool__(&self) -> bool {
        true
    }

    fn __iter__(&self) -> PyResult<Py<PyAny>> {
        Err(PyTypeError::new_err(format!("{} cannot be iterated; index it", self.label())))
    }

    fn __float__(&self) -> PyResult<f64> {
        Err(PyTypeError::new_err(format!("the value of {} is not known while tracing", self.label())))
    }

    fn __repr__(&self) -> String {
        format!("<tensor {}>", self.label())
    }

    fn __deepcopy__(slf: PyRef<'_, Self>, _memo: &Bound<'_, PyDict>) -> Py<View> {
        slf.into()
    }
}

impl View {
    /// [`View::as_tensor`] for an explicit pattern, which addresses the storage whatever the view shows of it.
    fn as_moved_tensor(&self) -> PyResult<Arc<TensorName>> {
        let t = &self.base.tensor;
        if self.covers_storage() { self.as_tensor() } else { Ok(t.clone()) }
    }
}

fn rescale(value: i64, old: Elem, new: Elem, label: impl Fn() -> String) -> PyResult<i64> {
    let bytes = value.saturating_mul(i64::try_from(old.size()).unwrap_or(1));
    let size = i64::try_from(new.size()).unwrap_or(1);
    if bytes % size != 0 {
        return fail(format!("a part of {} does not start at a whole element of {}", label(), new.name));
    }
    Ok(bytes / size)
}

/// The element type of a name a kernel gave.
pub(crate) fn elem_of(name: &str) -> PyResult<Elem> {
    match Elem::named(name) {
        Some(e) => Ok(e),
        None => fail(format!("`{name}` is no element type of a kernel")),
    }
}

fn scalar_of(x: &Bound<'_, PyAny>) -> PyResult<ScalarOffset> {
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
