//! The trace of one core: its tensors, blocks and statements.

use crate::args::{Args, BadField};
use crate::errors::FieldError;
use crate::ops::{NoOperator, operator};
use crate::view::{Base, PARTITIONS, View, elem_of, fail};
use indexmap::{IndexMap, IndexSet};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use tandem_klr::ast::*;

/// A place in the kernel's source.
#[pyclass(frozen)]
#[derive(Clone)]
pub struct Pos {
    pub(crate) pos: tandem_klr::ast::Pos,
}

#[pymethods]
impl Pos {
    #[new]
    fn new(file: &str, line: u64, column: u64, line_end: Option<u64>, column_end: Option<u64>) -> Pos {
        Pos {
            pos: tandem_klr::ast::Pos { line, column, line_end, column_end, filename: Some(Arc::from(file)) },
        }
    }

    fn __str__(&self) -> String {
        format!("{}:{}", self.pos.filename.as_deref().unwrap_or("?"), self.pos.line)
    }
}

/// The trace of one core.
#[pyclass]
pub struct Body {
    core: u32,
    blocks: Vec<Block>,
    names: IndexSet<Str>,
    counter: u64,
    pub(crate) tensors: IndexMap<Str, (Arc<TensorName>, String)>,
    written: IndexSet<Str>,
    operators: u64,
}

impl Body {
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn fresh(&mut self, wanted: Option<String>, prefix: &str) -> Str {
        let mut name = match wanted {
            Some(n) if !n.is_empty() => Str::from(n),
            _ => {
                self.counter += 1;
                Str::from(format!("{prefix}.{}", self.counter))
            }
        };
        let first = name.clone();
        let mut n = 1u64;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = Str::from(format!("{first}#{n}"));
        }
        name
    }
}

/// Memory regions by the names kernels use.
fn memory(name: &str) -> Option<(Memory, bool, bool)> {
    match name {
        "sbuf" => Some((Memory::Sbuf, true, false)),
        "psum" => Some((Memory::Psum, true, true)),
        "hbm" | "shared_hbm" => Some((Memory::Hbm, false, false)),
        "private_hbm" => Some((Memory::PrivateHbm, false, false)),
        _ => None,
    }
}

#[pymethods]
impl Body {
    #[new]
    fn new(core: u32) -> Body {
        Body {
            core,
            blocks: Vec::new(),
            names: IndexSet::new(),
            counter: 0,
            tensors: IndexMap::new(),
            written: IndexSet::new(),
            operators: 0,
        }
    }

    /// A new tensor. A second tensor of a name gets `#2` behind it.
    #[pyo3(signature = (name, shape, dtype, region, buffer, address=None, shared=false, rotation=None, place=""))]
    #[expect(clippy::too_many_arguments, reason = "the fields of an allocation")]
    fn tensor(
        &mut self,
        name: &str,
        shape: Vec<u64>,
        dtype: &str,
        region: &str,
        buffer: Py<PyAny>,
        address: Option<(u64, u64)>,
        shared: bool,
        rotation: Option<bool>,
        place: &str,
    ) -> PyResult<View> {
        let elem = elem_of(dtype)?;
        let Some((memory, on_chip, psum)) = memory(region) else {
            return fail(format!("no memory `{region}`"));
        };
        let (par_dim, free_dims) = match shape.split_first() {
            Some((first, rest)) => (*first, rest.to_vec()),
            None => return fail(format!("tensor `{name}` has no dimensions")),
        };
        if on_chip && par_dim > PARTITIONS {
            return fail(format!(
                "tensor `{name}` has {par_dim} partitions in {region}, the limit is {PARTITIONS}; shape {shape:?}"
            ));
        }
        if shape.contains(&0) {
            return fail(format!("tensor `{name}` has no elements: shape {shape:?}"));
        }
        let elements = free_dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        let bytes = elements.and_then(|n| n.checked_mul(elem.size()));
        let total = bytes.and_then(|n| n.checked_mul(par_dim));
        let (Some(free_elements), Some(free_size), Some(_)) = (elements, bytes, total) else {
            return fail(format!("tensor `{name}` of shape {shape:?} overflows 64 bits"));
        };
        let mut unique = Str::new(name);
        let mut n = 1u64;
        while self.tensors.contains_key(&unique) {
            n += 1;
            unique = Str::from(format!("{name}#{n}"));
        }
        let tensor = Arc::new(TensorName {
            name: unique.clone(),
            dtype: elem.klr,
            shape: Shape { par_dim, free_dims },
            address: Address {
                name: unique.clone(),
                memory,
                par_size: par_dim,
                free_size,
                par_offset: address.map(|a| a.0),
                free_offset: address.map(|a| a.1),
                is_shared: shared,
            },
            free_elements,
            address_rotation: rotation.unwrap_or(address.is_none()),
        });
        self.tensors.insert(unique, (tensor.clone(), place.to_owned()));
        Ok(View::whole(Base { tensor, elem, buffer, on_chip, psum, core: self.core }))
    }

    /// Opens a block; statements go to it until the next.
    fn block(&mut self, label: &str, no_reorder: bool) {
        self.blocks.push(Block { label: Str::new(label), no_reorder, body: Vec::new() });
    }

    /// Appends an operator: KLR name, values in the order of its fields, statement name, prefix of a made name.
    fn emit(
        &mut self,
        op: &str,
        values: &Bound<'_, PyTuple>,
        name: Option<String>,
        prefix: &str,
        pos: &Pos,
    ) -> PyResult<String> {
        let made = {
            let mut args = Args::new(values, &mut self.written);
            operator(op, &mut args)
        };
        let op = match made {
            Ok(op) => op,
            Err(NoOperator::Field(BadField(field, why))) => return Err(FieldError::new_err((field, why))),
            Err(NoOperator::Unknown) => return fail(format!("there is no operator `{op}`")),
            Err(NoOperator::TooMany) => return fail(format!("too many values for operator `{op}`")),
        };
        let name = self.fresh(name, prefix);
        let Some(block) = self.blocks.last_mut() else { return fail("no block is open") };
        block.body.push(Stmt { op, name: Some(name.clone()), pos: pos.pos.clone() });
        self.operators += 1;
        Ok(name.to_string())
    }

    /// Labels of the blocks in order.
    fn labels(&self) -> Vec<String> {
        self.blocks.iter().map(|b| b.label.to_string()).collect()
    }

    /// Operators emitted.
    #[getter]
    fn operators(&self) -> u64 {
        self.operators
    }

    /// `(name, KLR operator)` of every statement.
    fn listing(&self) -> Vec<(String, &'static str)> {
        let all = self.blocks.iter().flat_map(|b| &b.body);
        all.map(|s| (s.name.as_ref().map(|n| n.to_string()).unwrap_or_default(), s.op.name())).collect()
    }

    /// Names of memory tensors an operator wrote, in the order of the first write.
    fn written(&self) -> Vec<String> {
        self.written.iter().map(|s| s.to_string()).collect()
    }

    /// `(name, shape, dtype, place)` of the tensors in memory that both cores see, made inside the kernel or given.
    fn memory_tensors(&self) -> Vec<(String, Vec<u64>, &'static str, String)> {
        self.tensors
            .values()
            .filter(|(t, _)| t.address.memory == Memory::Hbm)
            .map(|(t, place)| (t.name.to_string(), t.shape.dims(), t.dtype.name(), place.clone()))
            .collect()
    }
}
