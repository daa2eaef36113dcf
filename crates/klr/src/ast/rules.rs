//! Facts about the types that are not layout: sizes of elements and the three propositions a reader re-checks.

use super::tensor::{AccessBasic, Shape, Slice, TensorName};
use super::{Dtype, Index};
use crate::error::code;

/// A proposition that does not hold: its code and the sentence that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Diagnostic code.
    pub code: tandem_bir::diag::Code,
    /// What does not hold, with the numbers.
    pub message: String,
}

impl Dtype {
    /// Bytes of one element (of one packed group for the `_x4` types), from the specification, file 02 §5.1.
    pub const fn size_bytes(self) -> u64 {
        match self {
            Dtype::Uint8
            | Dtype::Int8
            | Dtype::Float8e3
            | Dtype::Float8e4
            | Dtype::Float8e5
            | Dtype::Float8E4m3
            | Dtype::Float8E4m3fn => 1,
            Dtype::Uint16 | Dtype::Int16 | Dtype::Bfloat16 | Dtype::Float16 | Dtype::Float4E2m1fnX4 => 2,
            Dtype::Uint32
            | Dtype::Int32
            | Dtype::Float32
            | Dtype::Float32r
            | Dtype::Float8E5m2X4
            | Dtype::Float8E4m3fnX4 => 4,
            Dtype::Uint64 | Dtype::Int64 => 8,
        }
    }
}

impl Shape {
    /// All extents, the partition dimension first.
    pub fn dims(&self) -> Vec<u64> {
        std::iter::once(self.par_dim).chain(self.free_dims.iter().copied()).collect()
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.free_dims.len().saturating_add(1)
    }

    /// Elements per partition or row: the product of the free dimensions, `None` beyond 64 bits.
    pub fn free_elements(&self) -> Option<u64> {
        self.free_dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d))
    }

    /// Elements of the whole tensor, `None` beyond 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.free_elements()?.checked_mul(self.par_dim)
    }
}

impl TensorName {
    /// Checks that the tensor fits its address: `parDim <= parSize` and `free elements * dtype size <= freeSize`.
    ///
    /// # Errors
    /// The proposition that does not hold.
    pub fn check_bounds(&self) -> Result<(), Broken> {
        let broken = |message| Err(Broken { code: code::TENSOR_BOUNDS, message });
        if self.shape.par_dim > self.address.par_size {
            return broken(format!(
                "tensor `{}` has parDim {} but its address has parSize {}",
                self.name, self.shape.par_dim, self.address.par_size
            ));
        }
        let bytes = self.shape.free_elements().and_then(|n| n.checked_mul(self.dtype.size_bytes()));
        match bytes {
            Some(bytes) if bytes <= self.address.free_size => Ok(()),
            Some(bytes) => broken(format!(
                "tensor `{}` needs {bytes} bytes per partition but its address has freeSize {}",
                self.name, self.address.free_size
            )),
            None => broken(format!("the free dimensions of tensor `{}` overflow 64 bits", self.name)),
        }
    }
}

impl Slice {
    /// Checks that the step is not zero.
    ///
    /// # Errors
    /// The proposition that does not hold.
    pub fn check_step(&self) -> Result<(), Broken> {
        if self.step == 0 {
            return Err(Broken {
                code: code::ZERO_SLICE_STEP,
                message: format!("slice {}:{} has step 0", self.l, self.u),
            });
        }
        Ok(())
    }

    /// Number of indices the slice selects: `ceil((u - l) / step)` for a positive step, and the same counted
    /// downwards for a negative one; 0 when it selects nothing or the step is 0.
    pub fn len(&self) -> u64 {
        let (span, step) = match self.step {
            0 => return 0,
            s if s > 0 => (self.u.saturating_sub(self.l), s.unsigned_abs()),
            s => (self.l.saturating_sub(self.u), s.unsigned_abs()),
        };
        span.div_ceil(step)
    }

    /// Whether the slice selects nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl AccessBasic {
    /// Checks that there is one index per dimension of the tensor.
    ///
    /// # Errors
    /// The proposition that does not hold.
    pub fn check_indexes(&self) -> Result<(), Broken> {
        let (have, want) = (self.indexes.len(), self.tensor.shape.rank());
        if have == want {
            return Ok(());
        }
        Err(Broken {
            code: code::INDEX_COUNT,
            message: format!(
                "access to tensor `{}` has {have} indices for {want} dimensions",
                self.tensor.name
            ),
        })
    }

    /// Extents of the accessed elements: one per slice, coordinates dropped.
    pub fn dims(&self) -> Vec<u64> {
        self.indexes
            .iter()
            .filter_map(|ix| match ix {
                Index::Coord(_) => None,
                Index::Slice(s) => Some(s.len()),
            })
            .collect()
    }
}
