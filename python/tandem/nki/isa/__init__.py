"""`nki.isa`: one row per instruction.

A row names the signature (newest form; `@since:until` marks parameters of some versions only), what is checked when
the kernel calls it, the KLR operator and its fields in order.
"""

from __future__ import annotations

import os

from ... import _trace
from ..._core import NkiTensor
from ..._table import (
    BITWISE,
    ALU,
    ENGINES,
    INTEGERS,
    OOB,
    PERF_MODES,
    X4,
    Acc,
    Act,
    Alu,
    AluOpt,
    B,
    Call,
    Const,
    Eng,
    Enum,
    F,
    Flat,
    Function,
    I,
    Instruction as NkiInstruction,
    Ints,
    IOpt,
    Num,
    Op,
    OpOpt,
    Pattern,
    Reverse,
    T,
    TOpt,
    Value,
    at_most,
    column,
    describe,
    dtypes,
    engines,
    gpsimd_not_psum,
    integer_bits,
    not_psum,
    on_chip,
    one_in_psum,
    operand,
    parameters,
    plain,
    region,
    same,
    same_dtype,
)
from ..._trace import VirtualRegister
from .._functions import FUNCTIONS
from . import constants
from .constants import (
    dge_mode,
    dma_compute_op,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    sync_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)

__all__ = ["constants"]

#: The value range_select writes where the range test fails, unless told otherwise.
FP32_MIN = -3.4028234663852886e38

_VALUES = {
    "none": matmul_perf_mode.none,
    "dma": dma_engine.dma,
    "gpsimd": engine.gpsimd,
    "vector": engine.vector,
    "unknown": engine.unknown,
    "dge": dge_mode.unknown,
    "oob_error": oob_mode.error,
    "idle": reduce_cmd.idle,
    "reset_reduce": reduce_cmd.reset_reduce,
    "equal": FUNCTIONS["equal"],
    "maximum": FUNCTIONS["maximum"],
    "FP32_MIN": FP32_MIN,
    "empty": (),
}

TABLE = {}


def row(name, signature, operator=None, fields=(), checks=(), **more):
    """Adds a row; `name=None` ends every signature unless `named=False`."""
    if more.pop("named", True):
        signature += ", name=None"
    f = Function(name, parameters(signature, _VALUES), operator, fields, checks, **more)
    f.__module__ = __name__
    TABLE[name] = f
    globals()[name] = f
    __all__.append(name)
    return f


# -- data movement ---------------------------------------------------------------------------------------------------


def _check_dma(c):
    dst, src = c.tensor("dst"), c.tensor("src")
    for n, v in (("dst", dst), ("src", src)):
        if v._psum:
            raise c.fail(n, f"{v!r} lies in PSUM; a DMA reads and writes HBM and SBUF")
    if dst.size != src.size:
        raise c.fail("src", f"{src!r} has {src.size} elements, `dst` {dst!r} has {dst.size}")
    e, dge = c.choice("engine", ENGINES), c.choice("dge_mode", {dge_mode.unknown: 0})
    if e is not engine.unknown and (dge is not dge_mode.hwdge or e not in (engine.sync, engine.scalar)):
        raise c.fail("engine", "only dge_mode=hwdge takes an engine, sync or scalar")


def _dma_engine(c):
    return ENGINES[c.choice("engine", ENGINES)]


def _compute(c):
    op = c.a["dst_rmw_op"]
    if op is None:
        return "none"
    if getattr(op, "name", None) in ("none", "add"):
        return op.name
    if c.function("dst_rmw_op", ALU, "operation") != "add":
        raise c.fail("dst_rmw_op", "only add is possible", "T0003")
    return "add"


def _dge(c):
    return c.choice("dge_mode", {dge_mode.unknown: 0}).value


row(
    "dma_copy",
    "dst, src, priority=None, oob_mode=oob_error, dge_mode=dge, engine=unknown, dst_rmw_op=None@0.2:0.3,"
    "unique_indices=False@0.2:0.3",
    "ncDmaCopy",
    (T("dst"), T("src"), _compute, Enum("oob_mode", OOB), _dge, B("unique_indices"), IOpt("priority"), _dma_engine),
    (_check_dma,),
)
row(
    "tensor_copy",
    "dst, src, engine=unknown",
    "ncCopy",
    (T("dst"), T("src"), Const(None), Eng("engine")),
    (
        on_chip("dst", "src"),
        same("dst", "src"),
        engines(engine.vector, engine.scalar, engine.gpsimd),
        gpsimd_not_psum("dst", "src"),
    ),
)
for _name in ("tensor_copy_dynamic_src", "tensor_copy_dynamic_dst"):
    row(
        _name,
        "dst, src, engine=unknown",
        "ncCopy",
        (T("dst"), T("src"), T("dst"), Eng("engine")),
        (on_chip("dst", "src"), same("dst", "src")),
        until="0.4",
    )


def _check_memset(c):
    dst, value = c.tensor("dst"), c.number("value")
    if isinstance(value, float) and not value.is_integer() and dst.dtype in INTEGERS:
        raise c.fail("value", f"a float for {dst!r}; give a whole number")
    if dst.dtype in X4 and value != 0:
        raise c.fail("value", f"only 0 fills {dst!r}")


row(
    "memset",
    "dst, value, engine=unknown",
    "memSet",
    (T("dst"), Num("value"), T("dst"), Eng("engine")),
    (on_chip("dst"), _check_memset, engines(engine.vector, engine.gpsimd), gpsimd_not_psum("dst")),
)


def _check_pattern(c):
    dst, n = c.tensor("dst"), 1
    for pair in c.a["pattern"]:
        n *= int(pair[1])
    if n != dst._free:
        raise c.fail("pattern", f"{n} values for the {dst._free} elements per partition of {dst!r}")


row(
    "iota",
    "dst, pattern, offset=0, channel_multiplier=0",
    "iota",
    (T("dst"), Pattern("pattern", "offset", "channel_multiplier"), T("dst")),
    (on_chip("dst"), not_psum("dst"), _check_pattern),
)
row(
    "affine_select",
    "dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op=equal, offset=0",
    "ncAffineSelect",
    (
        T("dst"),
        Pattern("pattern", "offset", "channel_multiplier"),
        T("on_true_tile"),
        F("on_false_value"),
        T("dst"),
        Alu("cmp_op"),
    ),
    (
        on_chip("dst", "on_true_tile"),
        not_psum("dst", "on_true_tile"),
        same("dst", "on_true_tile"),
        _check_pattern,
    ),
)


def _build_dma_transpose(c):
    dst, src = c.tensor("dst"), c.tensor("src")
    for n, v in (("dst", dst), ("src", src)):
        if v._psum:
            raise c.fail(n, f"{v!r} lies in PSUM; a DMA reads and writes HBM and SBUF")
    rank = src.ndim
    orders = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
    if rank not in orders:
        raise c.fail("src", f"{src!r} has {rank} dimensions; 2, 3 or 4 can be transposed")
    order = orders[rank]
    axes = c.a["axes"]
    if axes is not None and tuple(axes) != order:
        raise c.fail("axes", f"{tuple(axes)} of {rank} dimensions has no DMA; {order} has", "T0003")
    want = tuple(src.shape[i] for i in order)
    if dst.ndim == rank and tuple(dst.shape) != want or dst.size != src.size:
        raise c.fail("dst", f"shape {dst.shape}, the transposed source has {want}")
    if dst.ndim != rank:
        raise c.fail("dst", f"{dst!r} has {dst.ndim} dimensions, the source {rank}")
    pad = {2: (1, 1), 3: (1,), 4: ()}[rank]
    for at in pad:
        src, dst = src.expand_dim(at), dst.expand_dim(at)
    dge = c.choice("dge_mode", {dge_mode.unknown: 0})
    if dge is dge_mode.hwdge and (src.itemsize != 2 or src.shape[-1] > 128):
        raise c.fail("dge_mode", f"hwdge transposes 2-byte elements in rows of at most 128, not {src!r}")
    oob = OOB[c.choice("oob_mode", OOB)]
    values = (dst, src, "XZYW", dst, dge.value, oob, IOpt("priority")(c))
    return TABLE["dma_transpose"].emit(c, "dmaTranspose", values)


row(
    "dma_transpose",
    "dst, src, axes=None, priority=None, dge_mode=dge, oob_mode=oob_error",
    build=_build_dma_transpose,
)


def _build_dma_compute(c):
    a = c.a
    if not callable(a["reduce_op"]) and not isinstance(a["reduce_op"], str) and callable(a["scales"]):
        a["reduce_op"], a["scales"] = a["scales"], a["reduce_op"]
    srcs = a["srcs"]
    if not isinstance(srcs, (list, tuple)) or not srcs or len(srcs) > 16:
        raise c.fail("srcs", f"expected 1 to 16 tensors, not {describe(srcs)}")
    if Alu("reduce_op")(c) != "add":
        raise c.fail("reduce_op", "only add is possible", "T0003")
    scales = [1.0] * len(srcs) if a["scales"] is None else [float(plain(s)) for s in a["scales"]]
    if len(scales) != len(srcs):
        raise c.fail("scales", f"{len(scales)} scales for {len(srcs)} sources")
    if a["unique_indices"] is not True:
        raise c.fail("unique_indices", "KLR has no field for indices that repeat", "T0003")
    if OOB[c.choice("oob_mode", OOB)] != "error":
        raise c.fail("oob_mode", "KLR has no field for it here", "T0003")
    dst = c.tensor("dst")
    for i, s in enumerate(srcs):
        if type(s) is not NkiTensor or s.size != dst.size:
            raise c.fail("srcs", f"source {i} is {describe(s)}; `dst` has {dst.size} elements")
    return TABLE["dma_compute"].emit(c, "dmaCompute", (dst, list(srcs), scales, "add"))


row(
    "dma_compute",
    "dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=oob_error",
    build=_build_dma_compute,
)

# -- tensor engine ---------------------------------------------------------------------------------------------------


def _check_tile(c):
    position, size = c.a["tile_position"], c.a["tile_size"]
    if bool(position) != bool(size):
        raise c.fail("tile_position", "tile_position and tile_size go together")
    for n in ("tile_position", "tile_size"):
        if c.a[n] and len(c.a[n]) != 2:
            raise c.fail(n, f"expected (row, column), not {c.a[n]!r}")
    if position and any(s and p % s for p, s in zip(position, size)):
        raise c.fail("tile_position", f"{tuple(position)} is no multiple of the tile size {tuple(size)}")


def _check_matmul(c):
    dst, stationary, moving = c.tensor("dst"), c.tensor("stationary"), c.tensor("moving")
    if not dst._psum:
        raise c.fail("dst", f"{dst!r} lies in {region(dst)}; the tensor engine writes PSUM")
    for n, v in (("stationary", stationary), ("moving", moving)):
        if not v._on_chip or v._psum:
            raise c.fail(n, f"{v!r} lies in {region(v)}; the tensor engine reads SBUF")
    if stationary.shape[0] != moving.shape[0]:
        raise c.fail("moving", f"{moving!r} and `stationary` {stationary!r} differ in partitions")
    if (stationary.dtype == "float32") != (moving.dtype == "float32"):
        raise c.fail("moving", f"float32 goes only with float32: {moving.dtype} with {stationary.dtype}")
    _check_tile(c)
    if c.choice("perf_mode", PERF_MODES) is matmul_perf_mode.none:
        if stationary._free > 128:
            raise c.fail("stationary", f"{stationary!r} has more than 128 elements per partition")
        if moving._free > 512 and c.core.target < nc_version.gen4:
            raise c.fail("moving", f"{moving!r} has more than 512 elements per partition")
        if dst.shape[0] != stationary._free or dst._free != moving._free:
            raise c.fail(
                "dst", f"{dst!r} does not hold the {stationary._free} by {moving._free} product of the operands"
            )


def _check_accumulate(c):
    given = c.a["accumulate"]
    if given is None:
        return
    dst = c.tensor("dst")
    rule = c.core.psum_accumulates(dst)
    if rule is not bool(given):
        does = {True: "accumulates", False: "overwrites", None: "accumulates in a part"}[rule]
        raise c.fail(
            "accumulate",
            f"KLR has no field for it, and the automatic rule {does} here",
            "T0003",
            "leave it out, or make the first product since the last read or other write the one that overwrites",
        )


row(
    "nc_matmul",
    "dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False,"
    "accumulate=None@0.3, tile_position=empty, tile_size=empty, perf_mode=none",
    "ncMatMul",
    (
        T("dst"),
        T("stationary"),
        T("moving"),
        B("is_stationary_onezero"),
        B("is_moving_onezero"),
        B("is_transpose"),
        Ints("tile_position"),
        Ints("tile_size"),
        Enum("perf_mode", PERF_MODES),
    ),
    (_check_matmul, _check_accumulate),
)


def _tile_or_none(name):
    return lambda c: [int(plain(x)) for x in c.a[name]] if c.a[name] else None


row(
    "nc_matmul_mx",
    "dst, stationary, moving, stationary_scale, moving_scale, tile_position=None, tile_size=None, accumulate=None@0.3",
    "ncMatMulMX",
    (
        T("dst"),
        T("stationary"),
        T("moving"),
        T("stationary_scale"),
        T("moving_scale"),
        _tile_or_none("tile_position"),
        _tile_or_none("tile_size"),
    ),
    (
        on_chip("dst", "stationary", "moving", "stationary_scale", "moving_scale"),
        not_psum("stationary", "moving", "stationary_scale", "moving_scale", why="the tensor engine reads SBUF"),
        dtypes("stationary_scale", "uint8", "float8_e8m0fnu"),
        dtypes("moving_scale", "uint8", "float8_e8m0fnu"),
        _check_tile,
        _check_accumulate,
    ),
)
row(
    "quantize_mx",
    "dst, src, dst_scale",
    "quantizeMX",
    (T("dst"), T("src"), T("dst_scale")),
    (
        on_chip("dst", "src", "dst_scale"),
        not_psum("dst", "src", "dst_scale", why="quantize_mx works in SBUF"),
        dtypes("src", "bfloat16", "float16"),
        dtypes("dst", *sorted(X4)),
    ),
)


def identity(core, n, dtype, buffer_enum):
    """The n by n identity of a type in SBUF, made once per core: zeros, then ones where column and partition agree."""

    def make():
        tile = core.tensor((n, n), dtype, "sbuf", buffer_enum.sbuf, f"identity.{dtype}.{n}")
        zero = 0 if dtype in INTEGERS else 0.0
        core.emit("memSet", (tile, zero, tile, "unassigned"))
        core.emit("ncAffineSelect", (tile, (0, [(1, n)], -1), tile, 1.0, tile, "not_equal"))
        return tile

    return cached(core, ("identity", n, dtype), make)


def cached(core, key, make):
    """A tile made once per core; one made inside a dynamic loop serves only inside that loop."""
    for depth in range(len(core.loops), -1, -1):
        known = core.cache.get((key, tuple(core.loops[:depth])))
        if known is not None:
            return known
    tile = core.cache[key, tuple(core.loops)] = make()
    return tile


def _build_transpose(c):
    from ..language import MemoryRegion

    dst, data = c.tensor("dst"), c.tensor("data")
    on_chip("dst", "data")(c)
    e = c.choice("engine", ENGINES)
    if e is engine.unknown:
        e = engine.tensor if dst._psum else engine.vector
    if dst.shape[0] != data._free or dst._free != data.shape[0]:
        raise c.fail("dst", f"{dst!r} does not hold the transpose of {data!r}")
    if dst.dtype != data.dtype:
        raise c.fail("dst", f"element type {dst.dtype}, the data has {data.dtype}")
    me = TABLE["nc_transpose"]
    if e is engine.vector:
        at_most("data", 32, 32)(c)
        return me.emit(c, "transpose", (dst, data, dst, "dve"))
    if e is not engine.tensor:
        raise c.fail("engine", f"engine {e.name} cannot transpose; tensor and vector can")
    if not dst._psum:
        raise c.fail("dst", f"{dst!r} lies in {region(dst)}; the tensor engine writes PSUM")
    if data._psum:
        raise c.fail("data", f"{data!r} lies in PSUM; the tensor engine reads SBUF")
    at_most("data", 128, 128)(c)
    n = data.shape[0]
    eye = identity(c.core, 128, data.dtype, MemoryRegion)[0:n, 0:n]
    done = me.emit(c, "ncMatMul", (dst, data, eye, False, True, True, [], [], "None"))
    c.core.psum_event(dst, "matmul")
    return done


row("nc_transpose", "dst, data, engine=unknown", build=_build_transpose)

# -- element-wise ----------------------------------------------------------------------------------------------------

row(
    "tensor_tensor",
    "dst, data1, data2, op, engine=unknown",
    "tensorTensor",
    (T("dst"), T("data1"), T("data2"), Alu("op"), T("dst"), Eng("engine")),
    (
        on_chip("dst", "data1", "data2"),
        same("dst", "data1", "data2"),
        engines(engine.vector, engine.gpsimd),
        gpsimd_not_psum("dst", "data1", "data2"),
        one_in_psum("data1", "data2"),
        integer_bits("op", "dst", "data1", "data2"),
    ),
)


def _check_two_ops(c):
    if (c.a["op1"] is None) != (c.a["operand1"] is None):
        raise c.fail("operand1", "op1 and operand1 go together")
    if c.a["op1"] is not None:
        first, second = Alu("op0")(c) in BITWISE, Alu("op1")(c) in BITWISE
        if first != second:
            raise c.fail("op1", "op0 and op1 are both arithmetic or both on bits")


def _check_scalar_engine(c):
    e = c.choice("engine", ENGINES)
    ops = [Alu("op0")(c)] + ([Alu("op1")(c)] if c.a["op1"] is not None else [])
    if e is engine.scalar and ops not in (["mult", "add"], ["mult"], ["add"]):
        raise c.fail("engine", f"the scalar engine does multiply, add, or multiply then add, not {' then '.join(ops)}")


row(
    "tensor_scalar",
    "dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, engine=unknown",
    "tensorScalar",
    (
        T("dst"),
        T("data"),
        Op("operand0"),
        Alu("op0"),
        OpOpt("operand1"),
        AluOpt("op1"),
        Reverse("reverse0", "reverse1"),
        Eng("engine"),
        T("dst"),
    ),
    (
        on_chip("dst", "data", "operand0", "operand1"),
        same("dst", "data"),
        column("operand0", "operand1", of="data"),
        _check_two_ops,
        engines(engine.vector, engine.scalar, engine.gpsimd),
        _check_scalar_engine,
        gpsimd_not_psum("dst", "data", "operand0", "operand1"),
        integer_bits("op0", "dst", "data"),
    ),
)
row(
    "scalar_tensor_tensor",
    "dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False",
    "ncScalarTensorTensor",
    (
        T("dst"),
        T("data"),
        Op("operand0"),
        Op("operand1"),
        Alu("op0"),
        Alu("op1"),
        Reverse("reverse0", "reverse1"),
        T("dst"),
    ),
    (
        on_chip("dst", "data", "operand0", "operand1"),
        same("dst", "data", "operand1"),
        column("operand0", of="data"),
        one_in_psum("data", "operand1"),
    ),
)
row(
    "tensor_tensor_scan",
    "dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False",
    "tensorTensorScan",
    (
        T("dst"),
        T("data0"),
        T("data1"),
        Alu("op0"),
        Alu("op1"),
        Reverse("reverse0", "reverse1"),
        Op("initial"),
        Const("Idle"),
        T("dst"),
    ),
    (
        on_chip("dst", "data0", "data1", "initial"),
        same("dst", "data0", "data1"),
        column("initial", of="data0"),
        one_in_psum("data0", "data1"),
    ),
)
row(
    "tensor_scalar_cumulative",
    "dst, src, op0, op1, imm0, imm1=None, reduce_cmd=reset_reduce",
    "tensorScalarCumulative",
    (
        T("dst"),
        T("src"),
        Alu("op0"),
        Alu("op1"),
        Op("imm0"),
        OpOpt("imm1"),
        Acc("reduce_cmd"),
        Const("none"),
        T("dst"),
    ),
    (on_chip("dst", "src", "imm0", "imm1"), same("dst", "src"), column("imm0", "imm1", of="src")),
)


def _constant(c, value, parts, dtype="float32"):
    """A tile of 128 partitions of one element that holds a number, made once per core and value."""
    from ..language import MemoryRegion

    core = c.core

    def make():
        tile = core.tensor((128, 1), dtype, "sbuf", MemoryRegion.sbuf, f"constant.{core.count('constant')}")
        core.emit("memSet", (tile, value, tile, "unassigned"))
        return tile

    return cached(core, ("constant", dtype, value), make)[0:parts, 0:1]


def _bias(c):
    """The bias operand; KLR wants a tile where the interface takes a number."""
    v = c.a["bias"]
    if v is None or type(v) is NkiTensor:
        return None if v is None else c.tensor("bias")
    value = float(c.number("bias"))
    return None if value == 0.0 else _constant(c, value, c.tensor("data").shape[0])


def _scale(c):
    v = c.a["scale"]
    return c.tensor("scale") if type(v) is NkiTensor else float(c.number("scale"))


def _check_reduce(c):
    if c.a["reduce_op"] is not None and Alu("reduce_op")(c) != "add":
        raise c.fail("reduce_op", "the scalar engine only adds", "T0003")
    v = c.a["reduce_res"]
    if v is not None and (c.tensor("reduce_res")._free != 1 or v.shape[0] != c.tensor("dst").shape[0]):
        raise c.fail("reduce_res", f"{v!r} is not one element per partition of `dst`")


_ACTIVATE_CHECKS = (
    on_chip("dst", "data", "bias", "scale", "reduce_res"),
    same("dst", "data"),
    column("bias", "scale", of="data"),
    _check_reduce,
)
row(
    "activation",
    "dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=idle",
    "ncActivate",
    (
        T("dst"),
        T("data"),
        Acc("reduce_cmd"),
        Act("op"),
        _scale,
        _bias,
        AluOpt("reduce_op"),
        TOpt("reduce_res"),
        T("dst"),
    ),
    _ACTIVATE_CHECKS,
)
row(
    "activation_reduce",
    "dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0",
    "activationReduce",
    (
        T("dst"),
        T("data"),
        Const("ZeroAccumulate"),
        Act("op"),
        _scale,
        _bias,
        AluOpt("reduce_op"),
        TOpt("reduce_res"),
        T("dst"),
    ),
    _ACTIVATE_CHECKS,
)
row(
    "activate2",
    "dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False, reduce_op=None,"
    "reduce_res=None, reduce_cmd=idle",
    "activate2",
    (
        T("dst"),
        T("data"),
        Alu("op0"),
        Alu("op1"),
        Op("imm0"),
        Op("imm1"),
        Act("op"),
        Op("relu_param"),
        lambda c: AluOpt("reduce_op")(c) or "bypass",
        TOpt("reduce_res"),
        Acc("reduce_cmd"),
        B("reverse0"),
        B("reverse1"),
        T("dst"),
    ),
    (on_chip("dst", "data", "reduce_res"), same("dst", "data")),
)
row(
    "exponential",
    "dst, src, max_value=0.0, reduce_res=None, reduce_cmd=idle, reduce_init=0.0",
    "exponential",
    (T("dst"), T("src"), Op("max_value"), TOpt("reduce_res"), Acc("reduce_cmd"), Op("reduce_init")),
    (on_chip("dst", "src", "max_value", "reduce_res"), same("dst", "src"), column("max_value", of="src")),
)
row(
    "reciprocal",
    "dst, data",
    "reciprocal",
    (T("dst"), T("data"), T("dst")),
    (on_chip("dst", "data"), same("dst", "data")),
)
row(
    "dropout",
    "dst, data, prob",
    "dropout",
    (T("dst"), T("data"), Const("DropRate"), Op("prob"), T("dst")),
    (on_chip("dst", "data", "prob"), same("dst", "data"), column("prob", of="data")),
)

# -- reductions ------------------------------------------------------------------------------------------------------


def _axes(c):
    data, axis = c.tensor("data"), c.a["axis"]
    axes = sorted(a + data.ndim if a < 0 else a for a in ([axis] if isinstance(axis, int) else list(axis)))
    want = list(range(data.ndim - len(axes), data.ndim))
    if not axes or axes != want or axes[0] < 1:
        raise c.fail("axis", f"{axis} are not the last free dimensions of {data!r}")
    if len(axes) > 4:
        raise c.fail("axis", f"{len(axes)} dimensions, the limit is 4")
    return len(axes)


def _check_reduced(c):
    data, dst, k = c.tensor("data"), c.tensor("dst"), _axes(c)
    kept = 1
    for n in data.shape[1 : data.ndim - k]:
        kept *= n
    if dst.shape[0] != data.shape[0] or dst._free != kept:
        raise c.fail("dst", f"{dst!r} does not hold the {data.shape[0]} by {kept} results of reducing {data!r}")


row(
    "tensor_reduce",
    "dst, op, data, axis, negate=False, keepdims=False",
    "tensorReduce",
    (
        T("dst"),
        Flat("data"),
        Alu("op"),
        lambda c: ("X", "XY", "XYZ", "XYZW")[_axes(c) - 1],
        B("negate"),
        T("dst"),
        B("keepdims"),
    ),
    (on_chip("dst", "data"), _check_reduced, integer_bits("op", "dst", "data")),
)


def _check_partition_reduce(c):
    data, dst = c.tensor("data"), c.tensor("dst")
    if dst.shape[0] != 1 or dst._free != data._free:
        raise c.fail("dst", f"{dst!r} does not hold one partition of the {data._free} elements of {data!r}")


row(
    "tensor_partition_reduce",
    "dst, op, data",
    "tensorPartitionReduce",
    (T("dst"), Alu("op"), T("data"), T("dst")),
    (on_chip("dst", "data"), not_psum("dst", "data"), _check_partition_reduce),
)


def _reduce_res(c):
    if c.a["reduce_res"] is not None:
        return c.tensor("reduce_res")
    from ..language import MemoryRegion

    parts = c.tensor("dst").shape[0]
    return c.core.tensor((parts, 1), "float32", "sbuf", MemoryRegion.sbuf, f"scratch.{c.core.count('scratch')}")


def _check_scalar_reduce(c):
    if c.a["reduce_res_negate"]:
        raise c.fail("reduce_res_negate", "KLR has no field for it", "T0003")


row(
    "tensor_scalar_reduce",
    "dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False, reduce_cmd=reset_reduce@0.6,"
    "reduce_init=None@0.6, reduce_res_negate=False@0.6",
    "tensorScalarReduce",
    (
        T("dst"),
        T("data"),
        Op("operand0"),
        Alu("op0"),
        B("reverse0"),
        T("dst"),
        AluOpt("reduce_op"),
        _reduce_res,
        Acc("reduce_cmd"),
        lambda c: None if c.a["reduce_init"] is None else c.number("reduce_init"),
    ),
    (
        on_chip("dst", "data", "operand0", "reduce_res"),
        same("dst", "data"),
        column("operand0", of="data"),
        _check_scalar_reduce,
    ),
)
for _name, _operator in (("bn_stats", "batchNormStats"), ("bn_aggr", "batchNormAggregate")):
    row(_name, "dst, data", _operator, (T("dst"), T("data"), T("dst")), (on_chip("dst", "data"),))
row(
    "select_reduce",
    "dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=idle, reduce_op=maximum, reverse_pred=False",
    "selectReduce",
    (
        T("dst"),
        T("predicate"),
        T("on_true"),
        Op("on_false"),
        TOpt("reduce_res"),
        Acc("reduce_cmd"),
        Alu("reduce_op"),
        B("reverse_pred"),
        T("dst"),
    ),
    (on_chip("dst", "predicate", "on_true", "reduce_res"), same("dst", "predicate", "on_true")),
)
row(
    "range_select",
    "dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reset_reduce, reduce_res=None,"
    "reduce_op=maximum, range_start=0, on_false_value=FP32_MIN",
    "ncRangeSelect",
    (
        T("dst"),
        Acc("reduce_cmd"),
        TOpt("reduce_res"),
        AluOpt("reduce_op"),
        Alu("comp_op0"),
        Alu("comp_op1"),
        T("bound0"),
        T("bound1"),
        Num("range_start"),
        T("on_true_tile"),
        F("on_false_value"),
        T("dst"),
    ),
    (
        on_chip("dst", "on_true_tile", "bound0", "bound1", "reduce_res"),
        same("dst", "on_true_tile"),
        column("bound0", "bound1", of="on_true_tile"),
        dtypes("bound0", "float32"),
        dtypes("bound1", "float32"),
    ),
)

# -- search, select, gather ------------------------------------------------------------------------------------------


def _eight(name):
    def check(c):
        v = c.tensor(name)
        if v._free != 8:
            raise c.fail(name, f"{v!r} has {v._free} elements per partition, 8 are needed")

    return check


row("max8", "dst, src", "max8", (T("dst"), T("src"), T("dst")), (on_chip("dst", "src"), _eight("dst")))
row(
    "nc_find_index8",
    "dst, data, vals",
    "findIndex8",
    (T("dst"), T("data"), T("vals"), T("dst")),
    (on_chip("dst", "data", "vals"), _eight("dst"), _eight("vals")),
)
row(
    "nc_match_replace8",
    "dst, data, vals, imm, dst_idx=None",
    "matchReplace8",
    (T("dst"), T("data"), T("vals"), F("imm"), TOpt("dst_idx"), T("dst")),
    (on_chip("dst", "data", "vals", "dst_idx"), same("dst", "data"), _eight("vals")),
)


def _predicated_source(c):
    dst, v = c.tensor("dst"), c.a["src"]
    if type(v) is NkiTensor:
        return c.tensor("src")
    value = c.number("src")
    tile = _constant(c, value if dst.dtype in INTEGERS else float(value), dst.shape[0], dst.dtype)
    return tile.ap([[1, dst.shape[0]], [0, dst._free]])


row(
    "tensor_copy_predicated",
    "dst, src, predicate, reverse_pred=False",
    "copyPredicated",
    (T("dst"), _predicated_source, T("predicate"), T("dst"), B("reverse_pred")),
    (
        on_chip("dst", "src", "predicate"),
        same("dst", "src", "predicate"),
        same_dtype("dst", "src"),
        dtypes("predicate", "uint8", "uint16", "uint32", "int8", "int16", "int32", "bool"),
    ),
)


def _mask(c):
    mask = [int(plain(x)) for x in c.a["shuffle_mask"]]
    if len(mask) != 32 or any(not (0 <= m < 32 or m == 255) for m in mask):
        raise c.fail("shuffle_mask", f"expected 32 numbers from 0 to 31, or 255, not {describe(mask)}")
    return mask


row(
    "nc_stream_shuffle",
    "dst, src, shuffle_mask",
    "shuffle",
    (T("dst"), T("src"), _mask, T("dst")),
    (on_chip("dst", "src"), same_dtype("dst", "src")),
)
row(
    "local_gather",
    "dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None",
    "ncLocalGather",
    (T("dst"), T("src_buffer"), T("index"), I("num_elem_per_idx"), IOpt("num_valid_indices")),
    (on_chip("dst", "src_buffer", "index"), not_psum("dst", "src_buffer", "index"), dtypes("index", "uint16")),
)
row(
    "nc_n_gather",
    "dst, data, indices",
    "ncNGather",
    (T("dst"), T("data"), T("indices"), T("dst")),
    (on_chip("dst", "data", "indices"),),
)
row(
    "nonzero_with_count",
    "dst, src, index_offset=0, padding_val=-1",
    "nonzeroWithCount",
    (T("dst"), T("src"), I("index_offset"), I("padding_val")),
    (on_chip("dst", "src"), not_psum("dst", "src")),
)
row(
    "sequence_bounds",
    "dst, segment_ids",
    "sequenceBounds",
    (T("dst"), T("segment_ids"), T("dst")),
    (on_chip("dst", "segment_ids"), not_psum("dst", "segment_ids")),
)

# -- random numbers --------------------------------------------------------------------------------------------------

row("rng", "dst, engine=vector", "rng", (T("dst"), Eng("engine")), (on_chip("dst"),))
row("rand2", "dst, min, max", "rand2", (T("dst"), Op("min"), Op("max")), (on_chip("dst", "min", "max"),))
row("rand_get_state", "dst, engine=gpsimd", "randGetState", (T("dst"), Eng("engine")), (on_chip("dst"),))
row("rand_set_state", "src_seeds, engine=gpsimd", "randSetState", (T("src_seeds"), Eng("engine")))
row("set_rng_seed", "src_seeds", "setRngSeed", (T("src_seeds"),), (on_chip("src_seeds"),))

# -- between cores ---------------------------------------------------------------------------------------------------


def _check_swap(c):
    src, dst = c.tensor("src"), c.tensor("dst")
    for n, v in (("src", src), ("dst", dst)):
        if not v._on_chip or v._psum:
            raise c.fail(n, f"{v!r} lies in {region(v)}; a swap goes from SBUF to SBUF")
    if src.dtype != dst.dtype:
        raise c.fail("dst", f"element type {dst.dtype}, `src` has {src.dtype}")
    if src.shape[0] != dst.shape[0] or src._free != dst._free:
        raise c.fail("dst", f"{dst!r} and `src` {src!r} differ in partitions or in elements per partition")
    for n in ("send_to_rank", "recv_from_rank"):
        rank = c.number(n, int)
        if rank not in (0, 1):
            raise c.fail(n, f"{rank} is no core of a logical core of two; 0 or 1")
    if _gpsimd(c):
        pad = {1: 4, 2: 2}.get(src.itemsize, 1)
        if src._free * src.itemsize * pad > 1024:
            raise c.fail("dma_engine", f"gpsimd_dma moves at most 256 elements per partition, not {src._free}")


def _gpsimd(c):
    return bool(c.a["use_gpsimd_dma"]) or c.choice("dma_engine", {dma_engine.dma: 0}) is dma_engine.gpsimd_dma


row(
    "sendrecv",
    "src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma, use_gpsimd_dma=False@0.2:0.3",
    "sendRecv",
    (T("dst"), T("src"), I("send_to_rank"), I("recv_from_rank"), I("pipe_id"), _gpsimd),
    (_check_swap,),
)


def _build_barrier(c):
    cores = c.a["cores"]
    cores = [int(cores)] if isinstance(cores, int) else [int(plain(x)) for x in cores]
    data = c.tensor("data")
    if data._on_chip:
        c.core.notes.append(("core_barrier around a tensor that is not in shared memory", *_trace.place()))
    if len(cores) < 2:
        c.core.notes.append(("core_barrier of one core: nothing to do", *_trace.place()))
        return None
    e = c.choice("engine", ENGINES)
    kind = "pool" if e is engine.unknown else ENGINES[e]
    return TABLE["core_barrier"].emit(c, "coreBarrier", (data, cores, kind))


row("core_barrier", "data, cores, engine=gpsimd", build=_build_barrier)

# -- registers -------------------------------------------------------------------------------------------------------


def _register(c, name, write=False):
    v = c.a[name]
    if not isinstance(v, VirtualRegister):
        raise c.fail(name, f"expected a register, not {describe(v)}")
    if write and v._frozen:
        raise c.fail(name, "the register of a loop cannot be written")
    return v


def _one_element(c, name):
    v = c.tensor(name)
    if v.size != 1 or v._psum:
        raise c.fail(name, f"{v!r} is not one element in SBUF or HBM")
    return v


def _build_alloc(c):
    x = plain(c.a["x"])
    register = c.core.fresh_register()
    me = TABLE["register_alloc"]
    if type(x) is NkiTensor:
        c.core.emit("tensorLoad", (register._register, _one_element(c, "x")), prefix="load")
    elif x is None or isinstance(x, int):
        values = (register._register, 0 if x is None else int(x))
        try:
            c.core.emit("registerMove", values, prefix="move")
        except _trace.FieldError as e:
            raise c.fail("x", e.args[1]) from None
    else:
        raise c.fail("x", f"expected a whole number or a tensor of one element, not {describe(x)}")
    del me
    return register


row("register_alloc", "x=None", build=_build_alloc, named=False)


def _build_move(c):
    a = c.a
    if a["src"] is None and a["imm"] is not None:
        a["src"] = a["imm"]
    src = plain(a["src"])
    dst = _register(c, "dst", True)
    if not isinstance(src, (int, VirtualRegister)):
        raise c.fail("src", f"expected a whole number or a register, not {describe(src)}")
    c.core.move(dst, src)


row("register_move", "dst, src=None, imm=None@0.2:0.3", build=_build_move, named=False)


def _build_load(c):
    register = _register(c, "dst", True)
    c.core.emit("tensorLoad", (register._register, _one_element(c, "src")), prefix="load")


def _build_store(c):
    register = _register(c, "src")
    c.core.emit("tensorStore", (_one_element(c, "dst"), register._register), prefix="store")


row("register_load", "dst, src", build=_build_load, named=False)
row("register_store", "dst, src", build=_build_store, named=False)

# -- not in KLR ------------------------------------------------------------------------------------------------------


def _build_topk(c):
    raise c.fail(None, "KLR has no operator for it", "T0003", "use max8, nc_find_index8 and nc_match_replace8")


row("topk", "val_dst, idx_dst, src, n", build=_build_topk, since="0.6")


def get_nc_version():
    """The generation of the target: of the trace, else of NKI_NC_VERSION or NEURON_PLATFORM_TARGET_OVERRIDE."""
    core = getattr(_trace._local, "core", None)
    return core.target if core is not None else default_target()


def get_nc_sub_version():
    """The step within a generation; always 0 here."""
    return 0


TARGETS = {
    "trn1": nc_version.gen2,
    "inf2": nc_version.gen2,
    "gen2": nc_version.gen2,
    "trn2": nc_version.gen3,
    "gen3": nc_version.gen3,
    "trn3": nc_version.gen4,
    "gen4": nc_version.gen4,
}


def default_target():
    """The generation the environment asks for, else that of trn2."""
    for variable in ("NKI_NC_VERSION", "NEURON_PLATFORM_TARGET_OVERRIDE"):
        value = os.environ.get(variable)
        if value in TARGETS:
            return TARGETS[value]
    return nc_version.gen3


class NkiValidationError(ValueError):
    """The vendor's name for an instruction that is not possible."""


__all__ += [
    "NkiInstruction",
    "NkiValidationError",
    "VirtualRegister",
    "dge_mode",
    "dma_compute_op",
    "dma_engine",
    "engine",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "sync_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]
