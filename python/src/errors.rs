//! Errors the extension raises.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};

create_exception!(
    tandem._core,
    TraceError,
    PyValueError,
    "A kernel cannot be traced; the text says what and why."
);
create_exception!(tandem._core, FieldError, PyException, "An operand does not fit: field name, text.");
