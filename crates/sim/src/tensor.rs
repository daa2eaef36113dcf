//! Tensors at the border of a simulation.

use tandem_bir::{BirEnum as _, Dtype};

/// A dense tensor: row-major, little-endian elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Name of the port it belongs to.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents.
    pub shape: Vec<u64>,
    /// Elements, packed.
    pub bytes: Vec<u8>,
}

/// `name: dtype [a, b]`, as messages write a tensor.
pub fn describe(name: &str, dtype: Dtype, shape: &[u64]) -> String {
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("{name}: {} [{}]", dtype.name(), dims.join(", "))
}

/// Bytes of a tensor of this type and shape; `None` on overflow.
pub fn byte_len(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(dtype.bytes(), |a, &d| a.checked_mul(d))
}
