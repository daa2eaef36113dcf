//! Short functions to make kernels by hand, for tests and examples.
//!
//! ```
//! use tandem_klr::ast::{Dtype, Engine, Immediate, Memory, MemSet, Operator};
//! use tandem_klr::build;
//!
//! let out = build::tensor("out", Dtype::Float32, Memory::Hbm, &[128, 64]);
//! let tile = build::tensor("tile", Dtype::Float32, Memory::Sbuf, &[128, 64]);
//! let zero = MemSet { dst: build::whole(&tile), value: build::int(0), dtype: Dtype::Float32, engine: Engine::Dve };
//! let stmts = vec![
//!     build::stmt("inst.1", 4, Operator::MemSet(zero)),
//!     build::stmt("inst.2", 5, build::dma_copy(build::whole(&out), build::whole(&tile))),
//! ];
//! let kernel = build::lnc("demo", &[], &[&out], vec![vec![build::block("main.1", stmts)]]);
//! let bytes = tandem_klr::write(&kernel.into()).unwrap();
//! assert!(tandem_klr::read(&bytes).is_ok());
//! ```

use crate::ast::*;
use std::sync::Arc;

/// Name of the source file in the positions made here.
pub const SOURCE: &str = "kernel.py";

/// A tensor of these dimensions (partition dimension first) with storage of its own, no author address.
///
/// Sizes beyond 64 bits saturate; such a tensor does not pass the reader's checks.
pub fn tensor(name: &str, dtype: Dtype, memory: Memory, dims: &[u64]) -> Arc<TensorName> {
    let (par_dim, free_dims) = match dims.split_first() {
        Some((first, rest)) => (*first, rest.to_vec()),
        None => (1, Vec::new()),
    };
    let free_elements = free_dims.iter().fold(1u64, |n, d| n.saturating_mul(*d));
    Arc::new(TensorName {
        name: Str::new(name),
        dtype,
        shape: Shape { par_dim, free_dims },
        address: Address {
            name: Str::new(name),
            memory,
            par_size: par_dim,
            free_size: free_elements.saturating_mul(dtype.size_bytes()),
            par_offset: None,
            free_offset: None,
            is_shared: false,
        },
        free_elements,
        address_rotation: true,
    })
}

/// The same tensor at a fixed partition and byte offset inside the partition.
pub fn at(tensor: &Arc<TensorName>, partition: u64, byte: u64) -> Arc<TensorName> {
    let mut fixed = TensorName::clone(tensor);
    fixed.address.par_offset = Some(partition);
    fixed.address.free_offset = Some(byte);
    fixed.address_rotation = false;
    Arc::new(fixed)
}

/// One pair of a pattern.
pub fn pair(step: i64, num: u64) -> ApPair {
    ApPair { step, num, offset: 0 }
}

/// A linear access: element offset and `(step, num)` pairs, the partition pair first.
pub fn bir(tensor: &Arc<TensorName>, offset: u64, pairs: &[(i64, u64)]) -> BirAccessPattern {
    BirAccessPattern {
        tensor: tensor.clone(),
        offset,
        pattern: pairs.iter().map(|&(step, num)| pair(step, num)).collect(),
        scalar_offset: None,
        vector_offset: None,
        indirect_dim: 0,
        dtype_override: None,
    }
}

/// A tensor operand from a linear access.
pub fn access(pattern: BirAccessPattern) -> TensorRef {
    TensorRef::Abstract(Access::BirPattern(Box::new(pattern)))
}

/// A tensor operand: element offset and `(step, num)` pairs, the partition pair first.
pub fn pattern(tensor: &Arc<TensorName>, offset: u64, pairs: &[(i64, u64)]) -> TensorRef {
    access(bir(tensor, offset, pairs))
}

/// The whole tensor as a linear access with one pair per dimension.
pub fn whole(tensor: &Arc<TensorName>) -> TensorRef {
    let mut step = 1u64;
    let mut pairs: Vec<(i64, u64)> = Vec::new();
    for dim in tensor.shape.dims().into_iter().rev() {
        pairs.push((i64::try_from(step).unwrap_or(i64::MAX), dim));
        step = step.saturating_mul(dim);
    }
    pairs.reverse();
    pattern(tensor, 0, &pairs)
}

/// The whole tensor as an unlowered access.
pub fn simple(tensor: &Arc<TensorName>) -> TensorRef {
    TensorRef::Abstract(Access::Simple(tensor.clone()))
}

/// A linear access moved by a register along a dimension of the tensor.
pub fn with_register(mut pattern: BirAccessPattern, register: &str, dim: i64) -> TensorRef {
    pattern.scalar_offset = Some(ScalarOffset::Reg(Str::new(register)));
    pattern.indirect_dim = dim;
    access(pattern)
}

/// An integer immediate.
pub fn int(value: i32) -> Immediate {
    Immediate::Int(value)
}

/// A float immediate.
pub fn float(value: f32) -> Immediate {
    Immediate::Float(value.into())
}

/// A position in [`SOURCE`].
pub fn pos(line: u64) -> Pos {
    Pos { line, column: 2, line_end: Some(line), column_end: Some(40), filename: Some(SOURCE.into()) }
}

/// A named statement at a line of [`SOURCE`].
pub fn stmt(name: &str, line: u64, op: Operator) -> Stmt {
    Stmt { op, name: Some(Str::new(name)), pos: pos(line) }
}

/// A block whose statements may be reordered.
pub fn block(label: &str, body: Vec<Stmt>) -> Block {
    Block { label: Str::new(label), no_reorder: false, body }
}

/// A kernel with one list of blocks per core, nothing shared and no edges.
pub fn lnc(
    name: &str,
    inputs: &[&Arc<TensorName>],
    outputs: &[&Arc<TensorName>],
    bodies: Vec<Vec<Block>>,
) -> LncKernel {
    LncKernel {
        name: Str::new(name),
        inputs: inputs.iter().map(|t| Arc::clone(t)).collect(),
        outputs: outputs.iter().map(|t| Arc::clone(t)).collect(),
        bodies,
        shared_constants: Vec::new(),
        shared_buffers: Vec::new(),
        edges: Vec::new(),
    }
}

/// The copy every traced load and store is.
pub fn dma_copy(dst: TensorRef, src: TensorRef) -> Operator {
    Operator::NcDmaCopy(NcDmaCopy {
        dst,
        src,
        compute_op: DgeComputeOp::None,
        oob_mode: DmaBounds::Error,
        dge_mode: 0,
        unique_indices: false,
        priority: None,
        engine: Engine::Unassigned,
    })
}

/// A swap with another core: what is sent goes to `peer`, what is received comes from it.
pub fn send_recv(dst: TensorRef, src: TensorRef, peer: i32, pipe: i32) -> Operator {
    Operator::SendRecv(SendRecv {
        dst,
        src,
        send_to_rank: int(peer),
        recv_from_rank: int(peer),
        pipe_id: int(pipe),
        use_gpsimd_dma: false,
    })
}

/// Element-wise `dst = src0 op src1` in the type of the destination.
pub fn tensor_tensor(
    dst: TensorRef,
    src0: TensorRef,
    src1: TensorRef,
    op: AluOp,
    engine: Engine,
) -> Operator {
    Operator::TensorTensor(TensorTensor { dst, src0, src1, op, dtype: None, engine })
}

/// A collective of these lists with every optional field absent.
pub fn collective(dsts: Vec<TensorRef>, srcs: Vec<TensorRef>, groups: &[&[i64]]) -> CollectiveOp {
    CollectiveOp {
        dsts,
        srcs,
        op: None,
        replica_group: ReplicaGroup::Literal(groups.iter().map(|g| g.to_vec()).collect()),
        concat_dim: None,
        source_target_pairs: None,
        channel_id: None,
        num_channels: None,
        priority: None,
    }
}

/// A barrier of the cores around a tensor in shared memory.
pub fn core_barrier(data: TensorRef, cores: &[i64]) -> Operator {
    Operator::CoreBarrier(CoreBarrier { data, cores: cores.to_vec(), engine: Engine::Unassigned })
}

/// An unconditional jump.
pub fn jump(label: &str) -> Operator {
    Operator::CmpBranch(CmpBranch {
        reg1: Str::default(),
        reg2: Str::default(),
        imm: 0,
        op: BrCmpOp::Always,
        true_label: Str::new(label),
        false_label: Str::default(),
    })
}
