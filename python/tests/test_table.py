"""Every call and the operator it becomes, field by field, as the specification's operator map has it."""

import re

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import pytest

import tandem
from tandem import Spec

FIELD = re.compile(r" (\w+)=")


def sb(*shape, dtype=nl.float32):
    return nl.ndarray(shape or (128, 64), dtype=dtype, buffer=nl.sbuf)


def ps(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def hb(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.private_hbm)


def traced(body):
    """`[(operator, {field: text})]` of a body."""

    def kernel(x):
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm, name="out")
        nisa.dma_copy(dst=out, src=x, name="the_last")
        body()
        return out

    text = tandem.trace(kernel, Spec((4, 4)), grid=1).text()
    rows = []
    for line in text.splitlines():
        m = re.match(r"\s+([\w.#]+) = (\w+)(.*)", line)
        if not m or m[1] == "the_last":
            continue
        parts = FIELD.split(m[3].split(" ; ")[0])
        rows.append((m[2], dict(zip(parts[1::2], (p.strip() for p in parts[2::2])))))
    return rows


G = ncc.ReplicaGroup([[0, 1]])
T = "tensor.0[f32 sbuf] + 0 [[64,128],[1,64]]"

ROWS = [
    # (call, operator, fields)
    (lambda: nisa.dma_copy(sb(), hb(128, 64)), "ncDmaCopy",
     dict(dst=T, src="phbm.0[f32 private_hbm] + 0 [[64,128],[1,64]]", compute_op="none", oobMode="error", dgeMode="0",
          uniqueIndices="false", priority="none", engine="unassigned")),
    (lambda: nisa.dma_copy(sb(), hb(128, 64), 2, nisa.oob_mode.skip, nisa.dge_mode.hwdge, nisa.engine.sync),
     "ncDmaCopy", dict(oobMode="skip", dgeMode="2", priority="2", engine="sp")),
    (lambda: nisa.dma_copy(sb(), hb(128, 64), dge_mode=nisa.dge_mode.none), "ncDmaCopy", dict(dgeMode="3")),
    (lambda: nisa.dma_copy(sb(), hb(128, 64), dge_mode=nisa.dge_mode.swdge), "ncDmaCopy", dict(dgeMode="1")),
    (lambda: nisa.dma_copy(hb(128, 64), sb(), dst_rmw_op=nl.add), "ncDmaCopy", dict(compute_op="add")),
    (lambda: nisa.tensor_copy(sb(), sb()), "ncCopy", dict(dtype="none", engine="unassigned")),
    (lambda: nisa.tensor_copy(sb(), sb(), engine=nisa.scalar_engine), "ncCopy", dict(engine="act")),
    (lambda: nisa.memset(sb(), 0), "memSet", dict(value="0", dtype="float32", engine="unassigned")),
    (lambda: nisa.memset(sb(dtype=nl.bfloat16), 1.5, engine=nisa.gpsimd_engine), "memSet",
     dict(value="1.5", dtype="bfloat16", engine="pool")),
    (lambda: nisa.iota(sb(dtype=nl.int32), [[1, 64]], 3, 2), "iota", dict(pattern="3 [[1,64]] + 2*partition", dtype="int32")),
    (lambda: nisa.affine_select(sb(), [[1, 64]], -1, sb(), 7, nl.greater_equal, 5), "ncAffineSelect",
     dict(pred="5 [[1,64]] + -1*partition", onFalseValue="7.0", dtype="float32", cmpOp="is_ge")),
    (lambda: nisa.nc_matmul(ps(64, 32), sb(), sb(128, 32)), "ncMatMul",
     dict(dst="psum.0[f32 psum] + 0 [[32,64],[1,32]]", stationary=T, isStationaryOneZero="false",
          isMovingZero="false", isTranspose="false", tilePosition="[]", tileSize="[]", perfMode="None")),
    (lambda: nisa.nc_matmul(ps(64, 32), sb(32, 64), sb(32, 32), True, True, True, None, (32, 0), (32, 128)),
     "ncMatMul", dict(isStationaryOneZero="true", isMovingZero="true", isTranspose="true", tilePosition="[32,0]",
                      tileSize="[32,128]")),
    (lambda: nisa.nc_matmul(ps(64, 32), sb(), sb(128, 32), perf_mode="double_row"), "ncMatMul",
     dict(perfMode="DoubleRow")),
    (lambda: nisa.nc_matmul_mx(ps(64, 32), sb(128, 64, dtype=nl.float8_e4m3fn_x4), sb(128, 32,
     dtype=nl.float8_e4m3fn_x4), sb(128, 64, dtype=nl.uint8), sb(128, 32, dtype=nl.uint8)), "ncMatMulMX",
     dict(tilePosition="none", tileSize="none")),
    (lambda: nisa.quantize_mx(sb(128, 16, dtype=nl.float8_e4m3fn_x4), sb(dtype=nl.bfloat16), sb(128, 16,
     dtype=nl.uint8)), "quantizeMX", {}),
    (lambda: nisa.nc_transpose(sb(32, 32), sb(32, 32)), "transpose", dict(dtype="float32", engine="dve")),
    (lambda: nisa.dma_transpose(sb(64, 128), hb(128, 64)), "dmaTranspose",
     dict(dst="tensor.0[f32 sbuf] + 0 [[128,64],[128,1],[128,1],[1,128]]", axes="XZYW", dgeMode="0",
          oobMode="error", priority="none", dtype="float32",
          src="phbm.0[f32 private_hbm] + 0 [[64,128],[64,1],[64,1],[1,64]]")),
    (lambda: nisa.dma_transpose(sb(4, 8, 128, dtype=nl.bfloat16), hb(128, 8, 4, dtype=nl.bfloat16),
     dge_mode=nisa.dge_mode.hwdge), "dmaTranspose",
     dict(dst="tensor.0[bf16 sbuf] + 0 [[1024,4],[1024,1],[128,8],[1,128]]", dgeMode="2")),
    (lambda: nisa.tensor_tensor(sb(), sb(), sb(), nl.multiply), "tensorTensor",
     dict(op="mult", dtype="float32", engine="unassigned", src0="tensor.1[f32 sbuf] + 0 [[64,128],[1,64]]",
          src1="tensor.2[f32 sbuf] + 0 [[64,128],[1,64]]")),
    (lambda: nisa.tensor_scalar(sb(), sb(), nl.subtract, 2, True, nl.maximum, sb(128, 1), False), "tensorScalar",
     dict(imm0="2", op0="subtract", imm1="tensor.2[f32 sbuf] + 0 [[1,128],[1,1]]", op1="max", reverse="first",
          engine="unassigned", dtype="float32")),
    (lambda: nisa.tensor_scalar(sb(), sb(), nl.power, 0.5, engine="vector"), "tensorScalar",
     dict(imm0="0.5", op0="pow", imm1="none", op1="none", reverse="none", engine="dve")),
    (lambda: nisa.scalar_tensor_tensor(sb(), sb(), nl.multiply, 3.0, nl.add, sb(), reverse1=True),
     "ncScalarTensorTensor", dict(src0="3.0", op0="mult", op1="add", reverseOperands="second", dtype="float32")),
    (lambda: nisa.tensor_tensor_scan(sb(), sb(), sb(), 0.0, nl.multiply, nl.add), "tensorTensorScan",
     dict(imm0="0.0", op0="mult", op1="add", reverseOperands="none", accumulatorCmd="Idle")),
    (lambda: nisa.tensor_scalar_cumulative(sb(), sb(), nl.add, nl.add, 1.0), "tensorScalarCumulative",
     dict(imm0="1.0", imm1="none", reduceCmd="ZeroAccumulate", reverse="none")),
    (lambda: nisa.tensor_reduce(sb(128, 4), nl.maximum, sb(128, 4, 8, 2), [2, 3], negate=True, keepdims=True),
     "tensorReduce", dict(op="max", opDim="XY", negated="true", keepdims="true", dtype="float32",
                          src="tensor.1[f32 sbuf] + 0 [[64,128],[16,4],[2,8],[1,2]]")),
    (lambda: nisa.tensor_reduce(sb(128, 1), nl.add, sb(128, 4, 8)[:, 2], 1), "tensorReduce",
     dict(opDim="X", src="tensor.1[f32 sbuf] + 16 [[32,128],[1,8]]")),
    (lambda: nisa.tensor_partition_reduce(sb(1, 64), nl.add, sb()), "tensorPartitionReduce", dict(op="add")),
    (lambda: nisa.tensor_scalar_reduce(sb(), sb(), nl.multiply, 2.0, nl.add, sb(128, 1)), "tensorScalarReduce",
     dict(operand0="2.0", op0="mult", reverse0="false", reduceOp="add", reduceCmd="ZeroAccumulate",
          reduceInit="none", reduceRes="tensor.2[f32 sbuf] + 0 [[1,128],[1,1]]")),
    (lambda: nisa.tensor_scalar_reduce(sb(), sb(), nl.multiply, 2.0, nl.add), "tensorScalarReduce",
     dict(reduceRes="scratch.0[f32 sbuf] + 0 [[1,128],[1,1]]")),
    (lambda: nisa.activation(sb(), nl.exp, sb(), sb(128, 1), 0.5), "ncActivate",
     dict(accumulatorCmd="Idle", activationFunc="exp", scale="0.5",
          bias="tensor.2[f32 sbuf] + 0 [[1,128],[1,1]]", reduceOp="none", reduceRes="none", dtype="float32")),
    (lambda: nisa.activation(sb(), nl.copy, sb(), scale=sb(128, 1), reduce_op=nl.add, reduce_res=sb(128, 1),
     reduce_cmd=nisa.reduce_cmd.reset_reduce), "ncActivate",
     dict(accumulatorCmd="ZeroAccumulate", scale="tensor.2[f32 sbuf] + 0 [[1,128],[1,1]]", reduceOp="add",
          reduceRes="tensor.3[f32 sbuf] + 0 [[1,128],[1,1]]", bias="none")),
    (lambda: nisa.activation_reduce(sb(), nl.square, sb(), nl.add, sb(128, 1)), "activationReduce",
     dict(accumulatorCmd="ZeroAccumulate", activationFunc="square", reduceOp="add", scale="1.0")),
    (lambda: nisa.activate2(sb(), nl.relu, sb(), 1.0, 2.0, nl.multiply, nl.add), "activate2",
     dict(op0="mult", op1="add", imm0="1.0", imm1="2.0", activationFunc="relu", reduceOp="bypass")),
    (lambda: nisa.exponential(sb(), sb(), sb(128, 1)), "exponential", dict(reducecmd="Idle", reduceRes="none")),
    (lambda: nisa.reciprocal(sb(), sb()), "reciprocal", dict(dtype="float32")),
    (lambda: nisa.dropout(sb(), sb(), 0.25), "dropout", dict(thresholdType="DropRate", threshold="0.25")),
    (lambda: nisa.bn_stats(sb(128, 6), sb()), "batchNormStats", dict(dtype="float32")),
    (lambda: nisa.bn_aggr(sb(128, 2), sb(128, 6)), "batchNormAggregate", dict(dtype="float32")),
    (lambda: nisa.select_reduce(sb(), sb(dtype=nl.uint8), sb(), 0.0), "selectReduce",
     dict(onFalse="0.0", reduceCmd="Idle", reduceOp="max", reversePred="false")),
    (lambda: nisa.range_select(sb(), sb(), nl.greater_equal, nl.less, sb(128, 1), sb(128, 1)), "ncRangeSelect",
     dict(reduceCommand="ZeroAccumulate", reduceRes="none", reduceOp="max", compOp0="is_ge", compOp1="is_lt",
          rangeStart="0", onFalseValue="-3.4028235e38")),
    (lambda: nisa.max8(sb(128, 8), sb()), "max8", dict(dtype="float32")),
    (lambda: nisa.nc_find_index8(sb(128, 8, dtype=nl.uint32), sb(), sb(128, 8)), "findIndex8",
     dict(dtype="uint32")),
    (lambda: nisa.nc_match_replace8(sb(), sb(), sb(128, 8), -1, sb(128, 8, dtype=nl.uint32)), "matchReplace8",
     dict(replaceValue="-1.0", dstIdx="tensor.3[u32 sbuf] + 0 [[8,128],[1,8]]")),
    (lambda: nisa.tensor_copy_predicated(sb(), sb(), sb(dtype=nl.uint8), True), "copyPredicated",
     dict(reversePred="true")),
    (lambda: nisa.nc_stream_shuffle(sb(), sb(), list(range(31)) + [255]), "shuffle",
     dict(shuffleMask="[" + ",".join(map(str, [*range(31), 255])) + "]")),
    (lambda: nisa.local_gather(sb(), sb(), sb(128, 4, dtype=nl.uint16), 1, 64), "ncLocalGather",
     dict(numElemPerIdx="1", numValidIndicies="64")),
    (lambda: nisa.nc_n_gather(sb(), sb(), sb(dtype=nl.uint32)), "ncNGather", dict(dtype="float32")),
    (lambda: nisa.nonzero_with_count(sb(16, 65, dtype=nl.int32), sb(16, 64), 2, -1), "nonzeroWithCount",
     dict(indexOffset="2", paddingVal="-1")),
    (lambda: nisa.sequence_bounds(sb(1, 2, 64), sb(1, 64)), "sequenceBounds", {}),
    (lambda: nisa.rng(sb(dtype=nl.uint32)), "rng", dict(engine="dve")),
    (lambda: nisa.rand2(sb(), 0.0, 1.0), "rand2", dict(min="0.0", max="1.0")),
    (lambda: nisa.rand_get_state(sb(128, 24, dtype=nl.uint32)), "randGetState", dict(engine="pool")),
    (lambda: nisa.rand_set_state(sb(128, 24, dtype=nl.uint32)), "randSetState", dict(engine="pool")),
    (lambda: nisa.set_rng_seed(sb(1, 1, dtype=nl.uint32)), "setRngSeed", {}),
    (lambda: nisa.dma_compute(hb(4, 4), [hb(4, 4), hb(4, 4)], nl.add), "dmaCompute",
     dict(scales="[1.0,1.0]", reduceOp="add")),
    (lambda: nisa.sendrecv(sb(), sb(), 1, 0, 3, nisa.dma_engine.gpsimd_dma), "sendRecv",
     dict(src=T, dst="tensor.1[f32 sbuf] + 0 [[64,128],[1,64]]", sendToRank="1", recvFromRank="0", pipeId="3",
          useGpsimdDma="true")),
    (lambda: nisa.core_barrier(hb(4, 4), [0, 1]), "coreBarrier", dict(cores="[0,1]", engine="pool")),
    (lambda: nisa.core_barrier(hb(4, 4), (0, 1), engine=nisa.vector_engine), "coreBarrier", dict(engine="dve")),
    (lambda: nisa.register_alloc(), "registerMove", dict(dst='"reg.1"', imm="0")),
    (lambda: nisa.register_alloc(sb(1, 1, dtype=nl.int32)), "tensorLoad", dict(dst='"reg.1"')),
    (lambda: nl.device_print("x", sb()), "devicePrint", dict(buffer="stdout")),
    (lambda: ncc.all_reduce([hb(4, 4)], [hb(4, 4)], G, nl.minimum, priority=1), "allReduce",
     dict(op="min", replicaGroup="[[0,1]]", concatDim="none", sourceTargetPairs="none", channel_id="none",
          num_channels="none", priority="1")),
    (lambda: ncc.all_gather([sb()], [sb(128, 128)], G, 1), "allGather", dict(op="none", concatDim="1")),
    (lambda: ncc.reduce_scatter([hb(4, 4)], [hb(2, 4)], G, 0, nl.add), "reduceScatter",
     dict(op="add", concatDim="0")),
    (lambda: ncc.all_to_all([hb(4, 4)], [hb(4, 4)], G, 0), "allToAll", dict(op="none", concatDim="0")),
    (lambda: ncc.collective_permute([hb(4, 4)], [hb(4, 4)], [(0, 1), (1, 0)]), "collectivePermute",
     dict(replicaGroup="unspecified", sourceTargetPairs="[[0,1],[1,0]]", channel_id="none")),
    (lambda: ncc.collective_permute_implicit([[hb(4, 4)]], [[hb(4, 4)]], G), "collectivePermuteImplicit",
     dict(channel_id="0", num_channels="1", replicaGroup="[[0,1]]")),
    (lambda: ncc.collective_permute_implicit_reduce([[hb(4, 4)]], [[hb(4, 4)]], [[hb(4, 4)]], G, nl.add, [2]),
     "collectivePermuteImplicitReduce", dict(op="add", channel_id="2", num_channels="1")),
    (lambda: ncc.collective_permute_implicit_current_processing_rank_id(1, G), "currentProcessingRankId",
     dict(dst='"current_processing_rank_id.1"', iterationId="1", channelId="0", numChannels="1",
          replicaGroup="[[0,1]]")),
    (lambda: ncc.rank_id(), "rankId", dict(dst='"rank_id.1"')),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(ROWS)), ids=lambda i: f"{i}-{ROWS[i][1]}")
def test_row(row):
    body, operator, want = ROWS[row]
    rows = traced(body)
    assert [r[0] for r in rows] == [operator]
    got = rows[0][1]
    assert {k: got.get(k) for k in want} == want


def test_every_row_of_the_table_is_tested():
    """Operators with a row in the extension are emitted by some call here, or by another test of composites."""
    tested = {operator for _, operator, _ in ROWS} | {"cmpBranch", "registerAluOp", "tensorStore"}
    assert {name for name, _ in tandem._core.operator_table()} == tested


def test_fields_are_those_of_the_format():
    """Rows of the extension have as many fields as the format's structures (the specification, file 02 §5.4)."""
    counts = {name: len(fields) for name, fields in tandem._core.operator_table()}
    assert counts["ncDmaCopy"] == 8 and counts["ncMatMul"] == 9 and counts["allReduce"] == 9
    assert counts["activate2"] == 14 and counts["ncRangeSelect"] == 12 and counts["tensorScalarReduce"] == 10


def test_transpose_by_the_tensor_engine():
    """Zeros, the identity, and a product with the data as the stationary operand."""

    def body():
        data = sb(128, 64)
        nisa.nc_transpose(ps(64, 128), data)
        nisa.nc_transpose(ps(64, 128), data)

    rows = traced(body)
    assert [r[0] for r in rows] == ["memSet", "ncAffineSelect", "ncMatMul", "ncMatMul"]
    assert rows[1][1]["pred"] == "0 [[1,128]] + -1*partition" and rows[1][1]["cmpOp"] == "not_equal"
    assert rows[1][1]["onFalseValue"] == "1.0"
    assert rows[2][1]["isTranspose"] == "true" and rows[2][1]["stationary"].startswith("tensor.0")


def test_numbers_where_the_format_wants_tiles():
    def body():
        data = sb()
        nisa.activation(sb(), nl.exp, data, bias=0.25)
        nisa.activation(sb(), nl.exp, data, bias=0.25)
        nisa.activation(sb(), nl.exp, data, bias=0.0)
        nisa.tensor_copy_predicated(sb(), 2.0, sb(dtype=nl.uint8))

    rows = traced(body)
    assert [r[0] for r in rows] == ["memSet", "ncActivate", "ncActivate", "ncActivate", "memSet", "copyPredicated"]
    assert rows[0][1]["value"] == "0.25" and rows[3][1]["bias"] == "none"
    assert rows[1][1]["bias"] == rows[2][1]["bias"] == "constant.0[f32 sbuf] + 0 [[1,128],[1,1]]"
    assert rows[5][1]["src"] == "constant.1[f32 sbuf] + 0 [[1,128],[0,64]]"


def test_barrier_of_one_core_is_nothing():
    assert traced(lambda: nisa.core_barrier(hb(4, 4), (0,))) == []
    assert traced(lambda: nisa.core_barrier(hb(4, 4), 0)) == []


def test_registers():
    def body():
        a, b = nisa.register_alloc(5), nisa.register_alloc(None)
        nisa.register_move(b, a)
        nisa.register_move(b, 7)
        nisa.register_load(a, sb(1, 1, dtype=nl.int32))
        nisa.register_store(sb(1, 1, dtype=nl.int32), a)

    got = [(name, {k: v for k, v in f.items() if k in ("dst", "src", "imm", "op")}) for name, f in traced(body)]
    assert got[2] == ("registerAluOp", dict(dst='"reg.2"', src='"reg.1"', imm="0", op="add"))
    assert got[3] == ("registerMove", dict(dst='"reg.2"', imm="7"))
    assert [g[0] for g in got[4:]] == ["tensorLoad", "tensorStore"]
    assert got[5][1]["src"] == '"reg.1"'


def test_moving_accesses():
    def body():
        r, index = nisa.register_alloc(1), sb(64, 1, dtype=nl.int32)
        table, t = hb(8, 128, 64), sb()
        nisa.dma_copy(t, table.ap([[64, 128], [1, 64]], scalar_offset=r, indirect_dim=0))
        nisa.dma_copy(t, table[r])
        nisa.dma_copy(t, table.reshape((1024, 64)).ap([[64, 128], [1, 64]], scalar_offset=r, indirect_dim=0))
        nisa.dma_copy(t[0:64], table.reshape((1024, 64)).ap([[64, 64], [1, 64]], 0, None, index, 0))
        nisa.dma_copy(t[:, 0:8], table[2, :, nl.ds(r, 8)])

    src = [f["src"] for name, f in traced(body) if name == "ncDmaCopy"]
    assert src[0] == "phbm.0[f32 private_hbm] + 0 [[64,128],[1,64]] + reg.1*dim0"
    assert src[1] == "phbm.0[f32 private_hbm] + 0 [[8192,1],[64,128],[1,64]] + reg.1*dim0"
    assert src[2] == "phbm.0.1024x64[f32 private_hbm] + 0 [[64,128],[1,64]] + reg.1*dim0"
    assert src[3].startswith("phbm.0.1024x64[f32 private_hbm] + 0 [[64,64],[1,64]] + ")
    assert src[4] == "phbm.0[f32 private_hbm] + 16384 [[8192,1],[64,128],[1,8]] + reg.1*dim2"
