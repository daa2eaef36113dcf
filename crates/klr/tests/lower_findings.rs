//! One kernel per K code that raises it, with its exact text. Texts in quotes of the vendor's compiler are those of
//! the specification, file 04 §12.

mod kernels;

use kernels::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use tandem_bir::ArchLevel;
use tandem_bir::diag::{Class, codes, exit_code};
use tandem_klr::ast::*;
use tandem_klr::build::{self, float, int};
use tandem_klr::lower::{LowerOptions, Lowered, RanksAre, lower};

type Case = (&'static str, &'static str, Lowered);

fn op(o: Operator) -> Lowered {
    run(one_core(vec![o]))
}
fn strict(o: Operator) -> Lowered {
    run_strict(one_core(vec![o]))
}
fn both(zero: Operator, one: Operator) -> Lowered {
    run(two_cores(vec![zero], vec![one]))
}
fn with(opts: LowerOptions<'_>, k: LncKernel) -> Lowered {
    lower(&k.into(), &opts)
}
fn copy(dst: TensorRef, src: TensorRef) -> NcDmaCopy {
    match build::dma_copy(dst, src) {
        Operator::NcDmaCopy(c) => c,
        _ => unreachable!("dma_copy makes an ncDmaCopy"),
    }
}
fn tcopy(dst: TensorRef, src: TensorRef) -> Operator {
    Operator::NcCopy(NcCopy { dst, src, dtype: None, engine: Engine::Dve })
}
fn set(reg: &str) -> Operator {
    Operator::RegisterMove(RegisterMove { dst: Str::new(reg), imm: 0 })
}
fn mem(dst: TensorRef, value: Immediate) -> Operator {
    Operator::MemSet(MemSet { dst, value, dtype: Dtype::Float32, engine: Engine::Dve })
}
fn zero(dst: TensorRef) -> Operator {
    mem(dst, float(0.0))
}
fn act(scale: Operand) -> NcActivate {
    NcActivate {
        dst: t("a"),
        src: t("b"),
        accumulator_cmd: AccumCmd::Idle,
        activation_func: ActivationFunc::Exp,
        scale,
        bias: None,
        reduce_op: None,
        reduce_res: None,
        dtype: None,
    }
}
fn one() -> Operand {
    Operand::Imm(float(1.0))
}
fn transpose(dst: TensorRef, src: TensorRef, engine: Engine) -> Operator {
    Operator::Transpose(Transpose { dst, src, dtype: None, engine })
}
fn dma_transpose(dims: &[u64], axes: TransposeOps) -> Operator {
    Operator::DmaTranspose(DmaTranspose {
        dst: tile("a", Dtype::Float32, dims),
        src: tile("b", Dtype::Float32, dims),
        axes,
        dtype: None,
        dge_mode: 0,
        oob_mode: DmaBounds::Error,
        priority: None,
    })
}
fn swap(send: Immediate, recv: Immediate, pipe: Immediate) -> Operator {
    Operator::SendRecv(SendRecv {
        dst: t("a"),
        src: t("b"),
        send_to_rank: send,
        recv_from_rank: recv,
        pipe_id: pipe,
        use_gpsimd_dma: false,
    })
}
fn reduce() -> CollectiveOp {
    CollectiveOp { op: Some(AluOp::Add), ..build::collective(vec![t("a")], vec![t("b")], &[&[0, 1]]) }
}
fn permute(pairs: &[[i64; 2]]) -> CollectiveOp {
    CollectiveOp {
        op: None,
        replica_group: ReplicaGroup::Unspecified,
        source_target_pairs: Some(pairs.iter().map(|p| p.to_vec()).collect()),
        ..reduce()
    }
}
fn barrier(cores: &[i64]) -> Operator {
    build::core_barrier(hbm("h", &[1, 1]), cores)
}
fn blocks(body: Vec<Block>) -> Lowered {
    run(build::lnc("k", &[], &[], vec![body]))
}
fn block(label: &str, ops: Vec<Operator>) -> Block {
    build::block(label, stmts(ops))
}
fn no_reorder(label: &str, ops: Vec<Operator>) -> Block {
    Block { no_reorder: true, ..block(label, ops) }
}
fn branch(op: BrCmpOp, reg: &str, label: &str) -> Operator {
    let (reg, label) = (Str::new(reg), Str::new(label));
    Operator::CmpBranch(CmpBranch {
        reg1: reg.clone(),
        reg2: reg,
        imm: 0,
        op,
        true_label: label.clone(),
        false_label: label,
    })
}
fn basic(indexes: Vec<Index>) -> TensorRef {
    let tensor = sb("a", Dtype::Float32, &[128, 64]);
    TensorRef::Abstract(Access::Basic(Box::new(AccessBasic { tensor, indexes })))
}
fn view(free_elements: u64, pairs: &[(i64, u64)]) -> TensorRef {
    // rows of `free_elements` in partitions of 256 bytes
    let mut tensor = TensorName::clone(&sb("v", Dtype::Float32, &[128, 64]));
    tensor.shape.free_dims = vec![free_elements];
    tensor.free_elements = free_elements;
    build::pattern(&Arc::new(tensor), 0, pairs)
}
fn constant(name: &str) -> TensorRef {
    TensorRef::Hbm(Box::new(TensorHbm {
        name: Str::new(name),
        dtype: Dtype::Float32,
        address: 0,
        dims: [build::pair(64, 128), build::pair(1, 64)].into_iter().collect(),
    }))
}
fn index() -> TensorRef {
    tile("i", Dtype::Int32, &[1, 1])
}
fn nested(depth: usize) -> TensorRef {
    let tensor = build::tensor("n", Dtype::Float32, Memory::Hbm, &[8, 128, 64]);
    let mut access = Access::Simple(tensor.clone());
    for _ in 0..depth {
        let mut p = build::bir(&tensor, 0, &[(1, 1)]);
        p.scalar_offset = Some(ScalarOffset::Acc(access));
        access = Access::BirPattern(Box::new(p));
    }
    TensorRef::Abstract(access)
}

/// `(code, message of a finding with that code, run)`.
#[allow(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    use Operator as O;
    let x = build::tensor("x", Dtype::Float32, Memory::Sbuf, &[128, 64]);
    let mem_fill = || zero(t("a"));
    let constant_file = |file: &str| {
        let mut k = one_core(vec![mem_fill()]);
        k.shared_constants.push(SharedConstantFile { name: Str::new("c"), file_name: Str::new(file) });
        k
    };
    let mut edges = one_core(vec![mem_fill()]);
    edges.edges.push(Edges { from_edge: Str::new("s0"), to_edges: vec![Str::new("lost")] });
    let in_sbuf = build::lnc("k", &[&x], &[], vec![vec![]]);
    let out_sbuf = build::lnc("k", &[], &[&x], vec![vec![]]);
    let low = |k| with(LowerOptions { lnc_size: Some(1), ..options() }, k);
    let wide = |k| with(LowerOptions { lnc_size: Some(2), ..options() }, k);
    let no_core = |k| with(LowerOptions { assign_cores: false, ..options() }, k);
    let three = || build::lnc("k", &[], &[], vec![vec![], vec![], vec![]]);
    let mut both_offsets =
        build::bir(&build::tensor("n", Dtype::Float32, Memory::Hbm, &[8, 128, 64]), 0, &[(64, 128), (1, 64)]);
    both_offsets.scalar_offset = Some(ScalarOffset::Reg(Str::new("r")));
    both_offsets.vector_offset = Some(Access::Simple(sb("i", Dtype::Int32, &[128, 1])));
    let mut dim3 = both_offsets.clone();
    dim3.vector_offset = None;
    dim3.indirect_dim = 3;
    let mut vector1 = both_offsets.clone();
    vector1.scalar_offset = None;
    vector1.indirect_dim = 1;
    let reg = |name: &str| moved("h", Ok(name), true);
    let vector = || moved("h", Err(tile("i", Dtype::Int32, &[128, 1])), false);
    let with_reg = |o: Operator| run(one_core(vec![set("r"), o]));
    let add = |dst, src, unique| NcDmaCopy {
        compute_op: DgeComputeOp::Add,
        unique_indices: unique,
        ..copy(dst, src)
    };
    let bf = |name: &str, dims: &[u64]| tile(name, Dtype::Bfloat16, dims);
    let psum =
        |name: &str, dims: &[u64]| build::whole(&build::tensor(name, Dtype::Bfloat16, Memory::Psum, dims));
    let sram = |dtype| {
        Box::new(TensorSram {
            name: Str::new("v"),
            dtype,
            par_num: 1,
            pattern: ApList::new(),
            par_offset: 0,
            free_offset: 0,
        })
    };
    let mut other_size = TensorName::clone(&sb("a", Dtype::Float32, &[128, 64]));
    other_size.address.free_size = 512;
    let same_address = build::whole(&Arc::new(other_size));
    let huge = build::pattern(&sb("a", Dtype::Float32, &[128, 64]), u64::MAX, &[(64, 128), (1, 64)]);
    let all_ranks = LowerOptions { ranks: RanksAre::Lncs(4), ..options() };
    let shuffle = |n: i32| {
        O::Shuffle(Shuffle { dst: t("a"), src: t("b"), shuffle_mask: (0..n).map(int).collect(), dtype: None })
    };
    let gather = |valid| {
        O::NcLocalGather(NcLocalGather {
            dst: t("a"),
            src: t("b"),
            index: tile("x", Dtype::Uint16, &[128, 4]),
            num_elem_per_idx: int(1),
            num_valid_indicies: Some(valid),
        })
    };
    let nonzero = |index_offset, padding_val| {
        O::NonzeroWithCount(NonzeroWithCount { dst: t("a"), src: t("b"), index_offset, padding_val })
    };
    let compute =
        |scales, reduce_op| O::DmaCompute(DmaCompute { dst: t("a"), srcs: vec![t("b")], scales, reduce_op });
    let gather_cc = |dim, dst: &[u64]| {
        O::AllGather(CollectiveOp {
            op: None,
            concat_dim: Some(dim),
            dsts: vec![hbm("g", dst)],
            srcs: vec![hbm("h", &[64, 64])],
            ..reduce()
        })
    };
    let two = |o: Operator| both(o.clone(), o);
    vec![
        ("K0001", "kernel has 2 bodies but lnc_size is 1", low(two_cores(vec![], vec![]))),
        (
            "K0002",
            "kernel has 3 bodies: an LNC has 1 or 2 cores; more than two cores cannot be expressed on the machine",
            run(three()),
        ),
        (
            "K0002",
            "trn1 has LNCs of 1 core; the kernel needs 2",
            with(LowerOptions { arch: ArchLevel::Sunda, ..options() }, two_cores(vec![], vec![])),
        ),
        (
            "U0005",
            "LNC size 3: an LNC has 1 or 2 cores; more than two cores cannot be expressed on the machine",
            with(LowerOptions { lnc_size: Some(3), ..options() }, one_core(vec![])),
        ),
        (
            "K0003",
            "The kernel is compiled for LNC count lower than the current core_id 1 skip lowering",
            wide(one_core(vec![mem_fill()])),
        ),
        (
            "K0004",
            "NeuronCoreId must be set when the LNC count is greater than 1",
            no_core(two_cores(vec![], vec![])),
        ),
        ("K0005", "shared constant `c`: cannot load c.npy: no file c.npy", run(constant_file("c.npy"))),
        (
            "K0005",
            "shared constant `c`: ../c.npy is not a file below the kernel's folder",
            run(constant_file("../c.npy")),
        ),
        (
            "K0005",
            "shared constant `c`: /c.npy is not a file below the kernel's folder",
            run(constant_file("/c.npy")),
        ),
        (
            "K0064",
            "memSet: address `COMPILER-GENERATED-x` has a name that is kept for tensors of the compiler",
            op(zero(t("COMPILER-GENERATED-x"))),
        ),
        ("K0006", "x input cannot be found ", run(in_sbuf)),
        ("K0006", "x output cannot be found ", run(out_sbuf)),
        ("K0008", "kernel has no body", run(build::lnc("k", &[], &[], vec![]))),
        ("K0010", "broadcast: Unsupported operator 58 (broadcast)", op(O::Broadcast(reduce()))),
        ("K0011", "lost is not found, unable to complete dependency edge insertion", run(edges)),
        (
            "K0012",
            "memSet: Unsupported tensorRef type encountered!",
            op(zero(TensorRef::Sbuf(sram(Dtype::Float32)))),
        ),
        ("K0012", "memSet: Unsupported tensorRef type encountered!", op(zero(TensorRef::Register(3)))),
        (
            "K0013",
            "memSet: Unsupported access type encountered 2",
            strict(zero(basic(vec![Index::Coord(0), Index::Coord(0)]))),
        ),
        ("K0014", "memSet: Dynamic Access is not allowed in the instruction.", with_reg(zero(reg("r")))),
        (
            "K0015",
            "ncDmaCopy: Cannot find register: nobody for scalar offset",
            op(build::dma_copy(t("a"), reg("nobody"))),
        ),
        ("K0016", "cmpBranch: Cannot find register: nobody", op(branch(BrCmpOp::LtImm, "nobody", "main.0"))),
        (
            "K0017",
            "ncDmaCopy: When using vector offset, the only supported indirectDim is 0",
            op(build::dma_copy(t("a"), build::access(vector1))),
        ),
        (
            "K0017",
            "ncDmaCopy: access to `n` has both a scalar and a vector offset",
            with_reg(build::dma_copy(t("a"), build::access(both_offsets))),
        ),
        (
            "K0017",
            "ncDmaCopy: indirectDim 3 of `n` is not one of its 3 dimensions",
            with_reg(build::dma_copy(t("a"), build::access(dim3))),
        ),
        (
            "K0018",
            "ncDmaCopy: Compiler Logic Fault: cannot extract dynamic ap from a static access!",
            strict(O::NcDmaCopy(add(t("a"), t("b"), false))),
        ),
        (
            "K0019",
            "ncDmaCopy: When unique_indices=True, it's expected that the vector_offset is set. Check the nisa.dma_copy call",
            with_reg(O::NcDmaCopy(add(reg("r"), t("b"), true))),
        ),
        ("K0020", "memSet: Unsupported immediate type encountered", op(mem(t("a"), Immediate::Register(1)))),
        ("K0020", "memSet: Unsupported immediate type encountered", op(mem(t("a"), Immediate::Pointer))),
        (
            "K0021",
            "ncActivate: LoadAccumulate is not supported",
            op(O::NcActivate(NcActivate { accumulator_cmd: AccumCmd::LoadAccumulate, ..act(one()) })),
        ),
        (
            "K0022",
            "ncActivate: scale for activation must be a float32",
            op(O::NcActivate(act(Operand::Imm(int(1))))),
        ),
        (
            "K0023",
            "ncActivate: Unrecognized operand type pointer in activation scale",
            op(O::NcActivate(act(Operand::Imm(Immediate::Pointer)))),
        ),
        (
            "K0024",
            "activationReduce: Accumulation is the only supported op on activation_reduce",
            op(O::ActivationReduce(NcActivate { reduce_op: Some(AluOp::Max), ..act(one()) })),
        ),
        (
            "K0025",
            "ncCopy: Only one of src and dst can have dynamic access in tensor_copy.",
            with_reg(tcopy(reg("r"), reg("r"))),
        ),
        (
            "K0027",
            "ncCopy: tensor_copy only supports scalar_offset for dynamic access, not vector_offset.",
            op(tcopy(t("a"), vector())),
        ),
        (
            "K0028",
            "ncDmaCopy: Only one of the src and dst can contain dynamic access.",
            with_reg(build::dma_copy(reg("r"), reg("r"))),
        ),
        (
            "K0029",
            "ncDmaCopy: DGE must be enabled when dynamic src access in DMA is used",
            with_reg(O::NcDmaCopy(NcDmaCopy { dge_mode: 3, ..copy(t("a"), reg("r")) })),
        ),
        (
            "K0029",
            "ncDmaCopy: DGE must be enabled when dynamic dst access in DMA is used",
            with_reg(O::NcDmaCopy(NcDmaCopy { dge_mode: 3, ..copy(reg("r"), t("a")) })),
        ),
        (
            "K0030",
            "ncDmaCopy: dma_copy engine can only be specified when HWDGE mode is used.",
            op(O::NcDmaCopy(NcDmaCopy { dge_mode: 1, engine: Engine::Act, ..copy(t("a"), t("b")) })),
        ),
        (
            "K0031",
            "ncDmaCopy: When unique_index=False, dynamic access in src is not supported",
            with_reg(O::NcDmaCopy(add(t("a"), reg("r"), false))),
        ),
        (
            "K0032",
            "transpose: TransposeOp should only happen on DVE. The PE variant should have been legalized by the FE!",
            op(transpose(t("a"), t("b"), Engine::Pe)),
        ),
        (
            "K0033",
            "transpose: Operand must be no larger than (32, 32), found (128, 64)",
            op(transpose(t("a"), t("b"), Engine::Dve)),
        ),
        (
            "K0034",
            "transpose: Emitting dynamic Identity matrix generation code, this might affect performance.",
            op(transpose(psum("p", &[64, 128]), bf("b", &[128, 64]), Engine::Dve)),
        ),
        (
            "K0035",
            "matchReplace8: The replace value for MatchReplace8 must be a float",
            op(O::MatchReplace8(MatchReplace8 {
                dst: t("a"),
                src: t("b"),
                vals: t("v"),
                replace_value: int(0),
                dst_idx: None,
                dtype: None,
            })),
        ),
        (
            "K0036",
            "dmaTranspose: DMA Tranpose must have 4-D access pattern. Explicitly writing AP is required if slicing is not generating correct pattern",
            op(dma_transpose(&[8, 8], TransposeOps::None)),
        ),
        (
            "K0037",
            "dmaCompute: dma_compute currently only supports nl.add as its reduce op!",
            op(compute(vec![float(1.0)], AluOp::Max)),
        ),
        (
            "K0037",
            "dmaCompute: scale values for dma_compute must be floats",
            op(compute(vec![int(1)], AluOp::Add)),
        ),
        (
            "K0040",
            "ncLocalGather: num_valid_indices for local gather must be an integer",
            op(gather(float(1.0))),
        ),
        ("K0041", "nonzeroWithCount: indexOffset must be int32", op(nonzero(float(0.0), int(0)))),
        ("K0041", "nonzeroWithCount: paddingVal must be int32", op(nonzero(int(0), float(0.0)))),
        (
            "K0043",
            "sendRecv: The sendToRank must be a integer",
            two(swap(float(1.0), float(1.0), float(0.0))),
        ),
        ("K0043", "sendRecv: The recvFromRank must be a integer", two(swap(int(1), float(1.0), float(0.0)))),
        ("K0043", "sendRecv: The pipeId must be a integer", two(swap(int(1), int(1), float(0.0)))),
        // checked before the send rank
        (
            "K0044",
            "sendRecv: SendRecv instruction on core 0 is receiving from itself!",
            two(swap(int(0), int(0), int(0))),
        ),
        (
            "K0044",
            "sendRecv: SendRecv instruction on core 1 is sending to itself!",
            both(swap(int(1), int(1), int(0)), swap(int(1), int(0), int(0))),
        ),
        (
            "K0046",
            "sendRecv: SendRecv rank 2 on core 0 is outside the LNC group of 2",
            two(swap(int(1), int(2), int(0))),
        ),
        (
            "K0047",
            "sendRecv: SendRecv shape mismatch: source of 8192 float32 elements, destination of 8192 int32 elements",
            both(
                O::SendRecv(SendRecv {
                    dst: tile("a", Dtype::Int32, &[128, 64]),
                    src: t("b"),
                    send_to_rank: int(1),
                    recv_from_rank: int(1),
                    pipe_id: int(0),
                    use_gpsimd_dma: false,
                }),
                swap(int(0), int(0), int(0)),
            ),
        ),
        (
            "K0048",
            "sendRecv: SendRecv needs a module with a neuron_core_id",
            no_core(one_core(vec![swap(int(1), int(1), int(0))])),
        ),
        ("K0050", "activationReduce: expected a reduce result", op(O::ActivationReduce(act(one())))),
        (
            "K0050",
            "allReduce: expected a reduce op",
            two(O::AllReduce(CollectiveOp { op: None, ..reduce() })),
        ),
        (
            "K0050",
            "allReduce: expected at least one source",
            two(O::AllReduce(CollectiveOp { srcs: vec![], ..reduce() })),
        ),
        (
            "K0050",
            "allReduce: expected at least one destination",
            two(O::AllReduce(CollectiveOp { dsts: vec![], ..reduce() })),
        ),
        (
            "K0050",
            "allReduce: expected as many sources as destinations",
            two(O::AllReduce(CollectiveOp { srcs: vec![t("b"), t("c")], ..reduce() })),
        ),
        (
            "K0050",
            "allGather: expected a concatDim",
            two(O::AllGather(CollectiveOp { op: None, ..reduce() })),
        ),
        ("K0050", "reduceScatter: expected a concatDim", two(O::ReduceScatter(reduce()))),
        (
            "K0050",
            "collectivePermute: expected sourceTargetPairs",
            two(O::CollectivePermute(CollectiveOp { source_target_pairs: None, ..permute(&[]) })),
        ),
        (
            "K0050",
            "collectivePermute: expected pairs of 2 ranks, found 3",
            two(O::CollectivePermute(CollectiveOp {
                source_target_pairs: Some(vec![vec![0, 1, 0]]),
                ..permute(&[])
            })),
        ),
        (
            "K0050",
            "collectivePermute: expected 1 source and 1 destination",
            two(O::CollectivePermute(CollectiveOp { srcs: vec![], ..permute(&[]) })),
        ),
        (
            "K0050",
            "collectivePermuteImplicit: expected a channel_id",
            two(O::CollectivePermuteImplicit(reduce())),
        ),
        (
            "K0050",
            "collectivePermuteImplicitReduce: expected 2 sources and 1 destination",
            two(O::CollectivePermuteImplicitReduce(reduce())),
        ),
        (
            "K0050",
            "ncMatMul: expected tileSize of 2 entries, found 3",
            op(O::NcMatMul(NcMatMul {
                dst: t("a"),
                stationary: t("b"),
                moving: t("c"),
                is_stationary_one_zero: false,
                is_moving_zero: false,
                is_transpose: false,
                tile_position: vec![],
                tile_size: vec![1, 2, 3],
                perf_mode: MatmulPerfMode::None,
            })),
        ),
        ("K0050", "sendRecv: expected a pipeId of 0 or more, found -1", two(swap(int(1), int(1), int(-1)))),
        (
            "K0051",
            "allReduce: replica group must be literal",
            two(O::AllReduce(CollectiveOp {
                replica_group: ReplicaGroup::Named(Str::new("tp")),
                ..reduce()
            })),
        ),
        (
            "K0052",
            "collectivePermute: Permute should not contain replica_groups",
            two(O::CollectivePermute(CollectiveOp {
                replica_group: ReplicaGroup::Literal(vec![]),
                ..permute(&[])
            })),
        ),
        (
            "K0053",
            "allGather: concat_dim 2 is not supported (0 = partition, 1 = free)",
            two(gather_cc(2, &[64, 64])),
        ),
        (
            "K0053",
            "allGather: concat_dim -3 is not supported (0 = partition, 1 = free)",
            two(gather_cc(-3, &[64, 64])),
        ),
        (
            "K0054",
            "allReduce: rank -1 is negative",
            with(
                all_ranks,
                two_cores(
                    vec![O::AllReduce(CollectiveOp {
                        replica_group: ReplicaGroup::Literal(vec![vec![-1]]),
                        ..reduce()
                    })],
                    vec![],
                ),
            ),
        ),
        (
            "K0054",
            "allReduce: rank 2 is outside 0..1",
            two(O::AllReduce(CollectiveOp {
                replica_group: ReplicaGroup::Literal(vec![vec![0, 2]]),
                ..reduce()
            })),
        ),
        (
            "K0055",
            "allReduce: rank 1 is twice in the replica groups",
            two(O::AllReduce(CollectiveOp {
                replica_group: ReplicaGroup::Literal(vec![vec![0, 1], vec![1]]),
                ..reduce()
            })),
        ),
        (
            "K0055",
            "collectivePermute: rank 0 is twice a source of the pairs",
            two(O::CollectivePermute(permute(&[[0, 1], [0, 0]]))),
        ),
        (
            "K0055",
            "collectivePermute: rank 1 is twice a target of the pairs",
            two(O::CollectivePermute(permute(&[[0, 1], [1, 1]]))),
        ),
        (
            "K0055",
            "collectivePermute: rank 1 is paired with itself",
            two(O::CollectivePermute(permute(&[[1, 1]]))),
        ),
        (
            "K0056",
            "AllReduce-0: replica groups or pairs differ between core 0 and core 1",
            both(
                O::AllReduce(reduce()),
                O::AllReduce(CollectiveOp {
                    replica_group: ReplicaGroup::Literal(vec![vec![1, 0]]),
                    ..reduce()
                }),
            ),
        ),
        (
            "K0057",
            "allGather: destination 64x128 does not fit source 64x64 of 2 members",
            two(gather_cc(0, &[64, 128])),
        ),
        (
            "K0057",
            "reduceScatter: destination 128x64 does not fit source 128x64 of 2 members",
            two(O::ReduceScatter(CollectiveOp { concat_dim: Some(1), ..reduce() })),
        ),
        (
            "K0057",
            "allReduce: destination 64x64 does not fit source 128x64 of 2 members",
            two(O::AllReduce(CollectiveOp { dsts: vec![tile("a", Dtype::Float32, &[64, 64])], ..reduce() })),
        ),
        (
            "K0058",
            "collective sequence differs between core 0 and core 1 at AllReduce-0",
            both(O::AllReduce(reduce()), O::CollectivePermute(permute(&[]))),
        ),
        (
            "K0058",
            "collective sequence differs between core 0 and core 1 at AllReduce-0",
            both(O::AllReduce(reduce()), zero(t("a"))),
        ),
        (
            "K0060",
            "memSet: tensor `a` takes bytes 212736 to 212991 of its partitions, the SBUF has 212984 usable bytes",
            op(zero(build::whole(&build::at(&sb("a", Dtype::Float32, &[128, 64]), 0, 212_736)))),
        ),
        (
            "K0060",
            "memSet: tensor `a` takes partitions 64 to 191, the SBUF has 128",
            op(zero(build::whole(&build::at(&sb("a", Dtype::Float32, &[128, 64]), 64, 0)))),
        ),
        (
            "K0060",
            "memSet: tensor `a` takes bytes 16200 to 16455 of its partitions, the PSUM has 16384 usable bytes",
            op(zero(build::whole(&build::at(
                &build::tensor("a", Dtype::Float32, Memory::Psum, &[128, 64]),
                0,
                16_200,
            )))),
        ),
        ("K0061", "core 0 has 1 core barriers, core 1 has 0", run(two_cores(vec![barrier(&[0, 1])], vec![]))),
        (
            "K0061",
            "core barrier 0 is for cores [0] on core 0 and for cores [1] on core 1",
            both(barrier(&[0]), barrier(&[1])),
        ),
        ("K0062", "coreBarrier: core 2 of the barrier is outside 0..1", two(barrier(&[0, 1, 2]))),
        (
            "K0062",
            "coreBarrier: the barrier on core 0 is for cores [1], without this core",
            two(barrier(&[1])),
        ),
        (
            "K0063",
            "memSet: tensor `q` lies in registers; such operands are not supported",
            op(zero(build::whole(&build::tensor("q", Dtype::Float32, Memory::Reg, &[1, 1])))),
        ),
        (
            "K0064",
            "ncCopy: address `a` is used as sbuf 128x256 bytes and as sbuf 128x512 bytes",
            op(tcopy(t("a"), same_address)),
        ),
        ("K0065", "ncDmaCopy: constant `c` has no file", op(build::dma_copy(t("a"), constant("c")))),
        (
            "K0066",
            "memSet: access pattern of v does not fit its partition pitch",
            op(zero(view(16, &[(20, 128), (1, 16)]))),
        ),
        (
            "K0066",
            "memSet: access pattern of v does not fit its partition pitch",
            op(zero(view(16, &[(16, 128), (1, 17)]))),
        ),
        ("K0067", "memSet: access to `a` does not fit 64-bit arithmetic", op(zero(huge))),
        ("K0068", "ncDmaCopy: accesses are nested more than 8 deep", op(build::dma_copy(t("a"), nested(9)))),
        (
            "K0014",
            "ncDmaCopy: Dynamic Access is not allowed in the instruction.",
            op(build::dma_copy(t("a"), nested(2))),
        ),
        (
            "K0069",
            "memSet: index 64 of dimension 1 of `a` is outside its extent 64",
            op(zero(basic(vec![Index::Coord(0), Index::Coord(64)]))),
        ),
        (
            "K0069",
            "memSet: access to `a` has 1 indices for 2 dimensions",
            op(zero(basic(vec![Index::Coord(0)]))),
        ),
        (
            "K0069",
            "memSet: access to `a` has no dimensions",
            op(zero(build::pattern(&sb("a", Dtype::Float32, &[128, 64]), 0, &[]))),
        ),
        (
            "K0070",
            "block main.0 has no terminator",
            blocks(vec![block("main.0", vec![mem_fill()]), block("main.1", vec![mem_fill()])]),
        ),
        (
            "K0071",
            "cmpBranch: nowhere BasicBlock does not exist!",
            op(branch(BrCmpOp::Always, "", "nowhere")),
        ),
        (
            "K0071",
            "cmpBranch: n.1 BasicBlock does not exist!",
            blocks(vec![
                block("main.0", vec![set("r"), branch(BrCmpOp::EqImm, "r", "n.1")]),
                no_reorder("n.1", vec![build::jump("main.0")]),
            ]),
        ),
        (
            "K0072",
            "noReorder block n.1 does not end in an unconditional branch",
            blocks(vec![block("main.0", vec![build::jump("n.1")]), no_reorder("n.1", vec![mem_fill()])]),
        ),
        (
            "K0073",
            "block main.0 is defined twice",
            blocks(vec![block("main.0", vec![]), block("main.0", vec![])]),
        ),
        (
            "K0074",
            "memSet: statement after the branch of block main.0",
            blocks(vec![block("main.0", vec![build::jump("main.0"), mem_fill()])]),
        ),
        (
            "K0075",
            "cmpBranch: noReorder blocks branch in a circle at n.1",
            blocks(vec![
                block("main.0", vec![build::jump("n.1")]),
                no_reorder("n.1", vec![build::jump("n.1")]),
            ]),
        ),
        (
            "K0076",
            "no branch leads to noReorder block n.1; its statements are left out",
            blocks(vec![block("main.0", vec![]), no_reorder("n.1", vec![build::jump("main.0")])]),
        ),
        (
            "K0089",
            "ncDmaCopy: dma_copy source and destination have different sizes: 64 and 8192 elements",
            op(build::dma_copy(t("a"), tile("b", Dtype::Float32, &[1, 64]))),
        ),
        (
            "K0090",
            "ncCopy: dtype bfloat16 differs from the destination's float32, which counts",
            op(O::NcCopy(NcCopy {
                dst: t("a"),
                src: t("b"),
                dtype: Some(Dtype::Bfloat16),
                engine: Engine::Dve,
            })),
        ),
        (
            "K0092",
            "ncDmaCopy: dgeMode 4 is not one of 0 to 3",
            op(O::NcDmaCopy(NcDmaCopy { dge_mode: 4, ..copy(t("a"), t("b")) })),
        ),
        (
            "K0093",
            "ncDmaCopy: priority 15 is not one of 0 to 14",
            op(O::NcDmaCopy(NcDmaCopy { priority: Some(15), ..copy(t("a"), t("b")) })),
        ),
        ("K0094", "shuffle: the shuffle mask must be 32 integers, found 31", op(shuffle(31))),
        (
            "K0095",
            "dmaTranspose: axes WZXY are honoured; the vendor's compiler of 2.24 always transposes by XZYW",
            op(dma_transpose(&[8, 2, 4, 8], TransposeOps::Wzxy)),
        ),
        (
            "K0096",
            "transpose: transposed by the Vector engine, because a matrix product cannot write SBUF",
            op(transpose(bf("a", &[32, 32]), bf("b", &[32, 32]), Engine::Dve)),
        ),
        (
            "K0033",
            "transpose: Operand must be no larger than (128, 128)",
            op(transpose(
                psum("p", &[64, 128]),
                build::whole(&build::tensor("w", Dtype::Bfloat16, Memory::Hbm, &[256, 32])),
                Engine::Dve,
            )),
        ),
        (
            "K0014",
            "memSet: Dynamic Access is not allowed in the instruction.",
            op(zero(moved("h", Err(index()), true))),
        ),
    ]
}

#[test]
fn every_code_is_raised_with_its_text() {
    let mut seen = BTreeSet::new();
    for (code, text, l) in cases() {
        let hit = l.diags.iter().find(|d| d.code.info().id == code && d.message == text);
        let Some(d) = hit else { panic!("{code} {text}\nfound {:#?}", l.diags) };
        seen.insert(code);
        assert_eq!(l.program.is_none(), l.diags.iter().any(|d| d.is_error()), "{code} {text}");
        if d.is_error() && l.diags.len() == 1 {
            let want = match d.code.info().class {
                Class::Finding => 1,
                Class::Input => 2,
                Class::Unsupported => 3,
                Class::Internal => 70,
            };
            assert_eq!(exit_code(&l.diags), want, "{code} {text}");
        }
    }
    let all = codes::ALL.iter().map(|c| c.info().id).filter(|id| id.starts_with('K'));
    let missing: Vec<_> = all.filter(|id| !seen.contains(id)).collect();
    assert!(missing.is_empty(), "codes nobody raises: {missing:?}");
}

#[test]
fn one_run_reports_every_bad_statement_with_its_place() {
    let bad = || mem(t("a"), Immediate::Pointer);
    let l = run(two_cores(vec![bad(), zero(t("a")), bad()], vec![zero(t("a")), bad()]));
    let places: Vec<_> = l
        .diags
        .iter()
        .map(|d| {
            let s = &d.sites[0];
            (
                s.core.map(|c| c.0),
                s.block.as_str(),
                s.inst.as_str(),
                s.pos.as_ref().map(|p| (p.file.as_str(), p.line)),
                s.path.as_str(),
            )
        })
        .collect();
    assert_eq!(
        places,
        [
            (Some(0), "main.0", "s0", Some(("kernel.py", 10)), "bodies[0][0].body[0].op.memSet"),
            (Some(0), "main.0", "s2", Some(("kernel.py", 12)), "bodies[0][0].body[2].op.memSet"),
            (Some(1), "main.0", "s1", Some(("kernel.py", 11)), "bodies[1][0].body[1].op.memSet"),
        ]
    );
    // findings win over missing features
    let l = run(one_core(vec![bad(), Operator::Send(SendOp { op: AluOp::Add, srcs: vec![], peer_id: 0 })]));
    assert_eq!(exit_code(&l.diags), 1);
}

#[test]
fn barrier_findings_name_both_sites_and_the_vendor_codes() {
    let l = both(barrier(&[0]), barrier(&[1]));
    let d = &l.diags[0];
    assert_eq!(d.sites.iter().map(|s| s.core.map(|c| c.0)).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(d.sites.iter().all(|s| s.pos.is_some()) && d.notes[0].contains("1187"));
}

#[test]
fn a_bad_statement_is_reported_once_and_not_again_by_later_checks() {
    // The swap of core 0 is wrong; that its name, its register and its place in the sequence are missing is no news.
    let bad = swap(float(1.0), int(1), int(0));
    let mut k = two_cores(vec![bad, zero(t("a"))], vec![swap(int(0), int(0), int(0)), zero(t("a"))]);
    k.edges.push(Edges { from_edge: Str::new("s0"), to_edges: vec![Str::new("s1")] });
    let l = run(k);
    assert_eq!(l.diags.iter().map(|d| d.code.info().id).collect::<Vec<_>>(), ["K0043"]);
    let load = Operator::TensorLoad(TensorLoad { dst: Str::new("q"), src: TensorRef::Register(0) });
    let l = run(one_core(vec![load, build::dma_copy(t("a"), moved("h", Ok("q"), true))]));
    assert_eq!(l.diags.iter().map(|d| d.code.info().id).collect::<Vec<_>>(), ["K0012"]);
}

#[test]
fn inlining_has_a_bound() {
    // 100 blocks enter one noReorder block of 2000 statements and come back.
    let many: Vec<Operator> = (0..2000).map(|_| zero(t("a"))).chain([build::jump("end.0")]).collect();
    let mut body: Vec<Block> = (0..100).map(|i| block(&format!("b.{i}"), vec![build::jump("n.0")])).collect();
    body.push(no_reorder("n.0", many));
    body.push(block("end.0", vec![]));
    let l = blocks(body);
    assert!(l.program.is_none());
    let text = "cmpBranch: noReorder blocks are inlined too often";
    assert!(l.diags.iter().all(|d| d.code.info().id == "K0075" && d.message == text));
}
