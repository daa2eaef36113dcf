//! Tensors as kernels hold them: views by offset, strides and sizes over named storage.
//!
//! A view never checks that it stays inside its storage; the operator that uses it does ([`View::access`]), because
//! kernels make views they do not use. Slices, permutations, splits, merges and broadcasts act as in numpy; on-chip
//! tensors keep dimension 0, the partition dimension. Offset and strides count elements of the view's own type.
//!
//! Not modelled: views of views of indirect accesses beyond slicing.

mod access;
mod index;
mod pattern;
mod shape;

use crate::dtype::Elem;
use crate::errors::TraceError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use tandem_klr::ast::{Access, ScalarOffset, TensorName};

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
        self.item(key)
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
        self.pattern(pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype)
    }

    /// The same elements under another shape, without a copy.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<View> {
        self.reshaped(shape)
    }

    /// The same bytes under another element type; the last dimension changes by the ratio of the sizes.
    fn view(&self, dtype: &str) -> PyResult<View> {
        self.viewed(dtype)
    }

    fn reinterpret_cast(&self, dtype: &str) -> PyResult<View> {
        self.view(dtype)
    }

    /// Dimensions in another order; on-chip tensors keep dimension 0.
    fn permute(&self, dims: Vec<i64>) -> PyResult<View> {
        self.permuted(dims)
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
        self.expanded(dim)
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
        self.split(dim, shape)
    }

    /// Dimensions `start_dim..=end_dim` merged into one.
    fn flatten_dims(&self, start_dim: i64, end_dim: i64) -> PyResult<View> {
        self.merged(start_dim, end_dim)
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
        self.selected(dim, index)
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

/// The element type of a name a kernel gave.
pub(crate) fn elem_of(name: &str) -> PyResult<Elem> {
    match Elem::named(name) {
        Some(e) => Ok(e),
        None => fail(format!("`{name}` is no element type of a kernel")),
    }
}
