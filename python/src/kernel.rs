//! A whole traced kernel: assembled from the cores' traces, or read from a file.

use crate::body::Body;
use crate::errors::TraceError;
use crate::view::{View, fail};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use tandem_klr::ast::*;
use tandem_klr::{Contents, KlrFile};

/// A traced kernel.
#[pyclass(frozen)]
pub struct Kernel {
    pub(crate) file: Arc<KlrFile>,
}

impl Kernel {
    pub(crate) fn lnc(&self) -> PyResult<&LncKernel> {
        match &self.file.contents {
            Contents::Lnc(k) => Ok(k),
            _ => fail("the file holds no kernel of an LNC"),
        }
    }
}

#[pymethods]
impl Kernel {
    /// Puts the traces of the cores together: inputs and outputs as views of core 0, names of shared buffers.
    #[staticmethod]
    fn assemble(
        name: &str,
        inputs: Vec<PyRef<'_, View>>,
        outputs: Vec<PyRef<'_, View>>,
        bodies: Vec<PyRef<'_, Body>>,
        shared_buffers: Vec<String>,
        shared_constants: Vec<(String, String)>,
        edges: Vec<(String, String)>,
    ) -> PyResult<Kernel> {
        let tensors = |views: &[PyRef<'_, View>]| views.iter().map(|v| v.base.tensor.clone()).collect();
        let Some(first) = bodies.first() else { return fail("a kernel has at least one core") };
        let mut buffers = Vec::new();
        for b in &shared_buffers {
            match first.tensors.get(b.as_str()) {
                Some((t, _)) => buffers.push(t.clone()),
                None => return fail(format!("no tensor `{b}` to share")),
            }
        }
        let kernel = LncKernel {
            name: Str::new(name),
            inputs: tensors(&inputs),
            outputs: tensors(&outputs),
            bodies: bodies.iter().map(|b| b.blocks().to_vec()).collect(),
            shared_constants: shared_constants
                .into_iter()
                .map(|(name, file)| SharedConstantFile { name: Str::from(name), file_name: Str::from(file) })
                .collect(),
            shared_buffers: buffers,
            edges: edges
                .into_iter()
                .map(|(from, to)| Edges { from_edge: Str::from(from), to_edges: vec![Str::from(to)] })
                .collect(),
        };
        Ok(Kernel { file: Arc::new(kernel.into()) })
    }

    /// Reads a kernel from the bytes of a file.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Kernel> {
        match tandem_klr::read(bytes) {
            Ok(outcome) => Ok(Kernel { file: Arc::new(outcome.file) }),
            Err(e) => Err(TraceError::new_err(e.to_string())),
        }
    }

    /// The bytes of a `.klr` file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file.clone();
        match py.detach(move || tandem_klr::write(&file)) {
            Ok(bytes) => Ok(PyBytes::new(py, &bytes)),
            Err(e) => Err(TraceError::new_err(e.to_string())),
        }
    }

    /// The kernel as text, one statement a line.
    fn text(&self) -> String {
        tandem_klr::print_file(&self.file)
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.lnc()?.name.to_string())
    }

    #[getter]
    fn cores(&self) -> PyResult<usize> {
        Ok(self.lnc()?.bodies.len())
    }

    /// KLR operator names of a core in order.
    fn operators(&self, core: usize) -> PyResult<Vec<&'static str>> {
        let Some(blocks) = self.lnc()?.bodies.get(core) else { return fail(format!("no core {core}")) };
        Ok(blocks.iter().flat_map(|b| &b.body).map(|s| s.op.name()).collect())
    }
}
