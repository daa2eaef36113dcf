//! Storage: memory location sets (logical tensors), memory locations (their placements), registers.
//!
//! Source: the specification, file 03 §4 and file 05 §3.2.

use crate::dtype::Dtype;
use crate::enums::{AddressSpace, EngineKind, MemoryType, TensorClass, TensorKind};
use crate::ids::{CoreId, MemLocId, SetId};
use crate::module::Extra;
use compact_str::CompactString;
use smallvec::SmallVec;

/// A logical tensor: element type, shape, role, and its placements.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryLocationSet {
    /// Unique name in the function; by convention `<tensor>_set`.
    pub name: CompactString,
    /// Element type.
    pub dtype: Dtype,
    /// Role at the border of the kernel.
    pub kind: TensorKind,
    /// Storage class name.
    pub class: TensorClass,
    /// Who sees it; meaningful for DRAM.
    pub addr_space: AddressSpace,
    /// Logical shape in elements, partition dimension first.
    pub shape: SmallVec<[u64; 4]>,
    /// Index of the partition dimension, normally 0.
    pub partition_dim: u32,
    /// Placements in file order.
    pub locs: Vec<MemLocId>,
    /// File of a constant's payload, relative; the bytes travel in [`crate::Program::constants`].
    pub file: Option<CompactString>,
    /// Must not be spilled.
    pub no_spill: bool,
    /// Volatile.
    pub volatile: bool,
    /// Virtual.
    pub is_virtual: bool,
    /// The allocator must not rotate its buffers.
    pub do_not_rotate: bool,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

impl MemoryLocationSet {
    /// The set of a tensor, named `<tensor>_set`, with nothing known but type, role, space and shape in elements.
    pub fn new(
        tensor: &str,
        dtype: Dtype,
        kind: TensorKind,
        addr_space: AddressSpace,
        shape: &[u64],
    ) -> MemoryLocationSet {
        MemoryLocationSet {
            name: format!("{tensor}_set").into(),
            dtype,
            kind,
            class: TensorClass::Tensor,
            addr_space,
            shape: shape.iter().copied().collect(),
            partition_dim: 0,
            locs: Vec::new(),
            file: None,
            no_spill: false,
            volatile: false,
            is_virtual: false,
            do_not_rotate: false,
            extra: Extra::default(),
        }
    }
}

/// The owner that a remote alias stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTarget {
    /// Name of the owner's location.
    pub name: CompactString,
    /// Core that owns it.
    pub core: CoreId,
}

/// One placement of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryLocation {
    /// Unique name in the function.
    pub name: CompactString,
    /// Set it belongs to.
    pub set: SetId,
    /// Memory it lies in.
    pub mem: MemoryType,
    /// SB/PSUM: byte offset inside each partition (PSUM: inside the bank). DRAM: linear byte offset.
    pub addr: u64,
    /// On-chip: `[partitions, bytes per partition]`. DRAM: byte dimensions whose product is the size.
    pub dims: SmallVec<[u64; 2]>,
    /// PSUM bank.
    pub bank: i64,
    /// First partition.
    pub base: u32,
    /// Address, bank and base are valid.
    pub allocated: bool,
    /// Placed by the author.
    pub user_allocated: bool,
    /// Pinned.
    pub pinned: bool,
    /// Index used to find the same tensor on another core; −1 unset.
    pub tensor_id: i32,
    /// The owner, when this is an alias of another core's location.
    pub remote_local_target: Option<RemoteTarget>,
    /// Another core reads or writes this location through an alias or a swap.
    pub written_by_another_core: bool,
    /// Placed by the shared-DRAM allocator.
    pub is_shared_post_dram_alloc: bool,
    /// `(set, location, kind)` names of DRAM locations that may (1) or must (3) share storage.
    pub aliases: Vec<(CompactString, CompactString, i64)>,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}

impl MemoryLocation {
    /// A location with nothing known but name, set, memory and dims.
    pub fn new(name: &str, set: SetId, mem: MemoryType, dims: &[u64]) -> MemoryLocation {
        MemoryLocation {
            name: name.into(),
            set,
            mem,
            addr: 0,
            dims: dims.iter().copied().collect(),
            bank: 0,
            base: 0,
            allocated: false,
            user_allocated: false,
            pinned: false,
            tensor_id: -1,
            remote_local_target: None,
            written_by_another_core: false,
            is_shared_post_dram_alloc: false,
            aliases: Vec::new(),
            extra: Extra::default(),
        }
    }
    /// Name of the location that holds the bytes: of a remote alias its owner's, else its own.
    pub fn owner_name(&self) -> &CompactString {
        self.remote_local_target.as_ref().map_or(&self.name, |t| &t.name)
    }
    /// SB or PSUM.
    pub fn is_on_chip(&self) -> bool {
        matches!(self.mem, MemoryType::Sb | MemoryType::Psum)
    }
    /// Partitions of an on-chip location; rows (first byte dimension) of a DRAM location.
    pub fn rows(&self) -> u64 {
        self.dims.first().copied().unwrap_or(0)
    }
    /// Bytes per partition, or bytes per row for DRAM (saturating).
    pub fn row_bytes(&self) -> u64 {
        self.dims.iter().skip(1).fold(1u64, |a, &d| a.saturating_mul(d))
    }
    /// Size in bytes over all partitions (saturating).
    pub fn size_bytes(&self) -> u64 {
        self.dims.iter().fold(1u64, |a, &d| a.saturating_mul(d))
    }
    /// An alias of another core's location.
    pub fn is_remote(&self) -> bool {
        self.remote_local_target.is_some()
    }
}

/// A scalar register of a function. It has no dtype of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Unique name in the function.
    pub name: CompactString,
    /// Engine whose register file holds it; ALL until the linker expands it.
    pub engine: EngineKind,
    /// Physical registers used (1, or 2 for 64 bits).
    pub num_physical: u32,
    /// Keys of the source file that the model does not name.
    pub extra: Extra,
}
