//! The compiled part of the Python package `tandem`: tensor views, the recording of operators, files, and the way from
//! a traced kernel to findings and numbers.
//!
//! The modules `tandem.nki.*` in Python decide what a call of a kernel means; this crate holds the values and makes
//! the typed tree. Nothing here prints or ends the process; the interpreter lock is released while compiling and
//! simulating.

mod args;
mod body;
mod compile;
mod dtype;
mod errors;
mod kernel;
mod ops;
mod run;
mod view;

use pyo3::prelude::*;

/// Names and fields of the operators a trace can emit.
#[pyfunction]
fn operator_table() -> Vec<(&'static str, Vec<&'static str>)> {
    ops::TABLE.iter().map(|(name, fields)| (*name, fields.to_vec())).collect()
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("TraceError", m.py().get_type::<errors::TraceError>())?;
    m.add("FieldError", m.py().get_type::<errors::FieldError>())?;
    m.add_class::<view::View>()?;
    m.add_class::<view::DynSlice>()?;
    m.add_class::<body::Pos>()?;
    m.add_class::<body::Body>()?;
    m.add_class::<kernel::Kernel>()?;
    m.add_function(wrap_pyfunction!(operator_table, m)?)?;
    m.add_function(wrap_pyfunction!(run::check, m)?)?;
    m.add_function(wrap_pyfunction!(run::lower, m)?)?;
    m.add_function(wrap_pyfunction!(run::explain, m)?)?;
    m.add_function(wrap_pyfunction!(run::run, m)?)?;
    m.add_function(wrap_pyfunction!(run::command, m)?)?;
    Ok(())
}
