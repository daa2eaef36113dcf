"""`nki.language`: tensors, element types, memory regions, loops, program ids."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import io
import os

import numpy as _np

from .. import _trace
from .._core import NkiTensor, ds
from .._dtypes import dtype_name
from .._table import describe, plain
from .._trace import VirtualRegister
from ._functions import FUNCTIONS as _FUNCTIONS

DType = str

bool_ = "bool"
int8 = "int8"
int16 = "int16"
int32 = "int32"
uint8 = "uint8"
uint16 = "uint16"
uint32 = "uint32"
float16 = "float16"
float32 = "float32"
bfloat16 = "bfloat16"
tfloat32 = "tfloat32"
float8_e4m3 = "float8_e4m3"
float8_e4m3fn = "float8_e4m3fn"
float8_e5m2 = "float8_e5m2"
float8_e8m0fnu = "float8_e8m0fnu"
float8_e5m2_x4 = "float8_e5m2_x4"
float8_e4m3fn_x4 = "float8_e4m3fn_x4"
float4_e2m1fn_x4 = "float4_e2m1fn_x4"
fp32 = type("fp32", (), {"min": -3.4028234663852886e38, "max": 3.4028234663852886e38})


class MemoryRegion(str, enum.Enum):
    """Memories a tensor can live in."""

    sbuf = "sbuf"
    psum = "psum"
    hbm = "hbm"
    shared_hbm = "shared_hbm"
    private_hbm = "private_hbm"

    def __str__(self):
        return self.value

    def __format__(self, spec):
        return format(self.value, spec)


sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
hbm = MemoryRegion.hbm
shared_hbm = MemoryRegion.shared_hbm
private_hbm = MemoryRegion.private_hbm

for _name, _f in _FUNCTIONS.items():
    globals()[_name] = _f


class _TensorType(type):
    """`nl.ndarray` is both the class of tensors and the call that makes one."""

    def __instancecheck__(cls, instance):
        return type(instance) is NkiTensor

    def __subclasscheck__(cls, subclass):
        return subclass is NkiTensor or super().__subclasscheck__(subclass)

    def __call__(cls, shape, dtype=None, buffer=None, name="", address=None, address_rotation=None):
        core = _trace.current("nl.ndarray")
        if dtype is None:
            raise _trace.error("T0001", "is missing", "nl.ndarray", "dtype")
        buffer = sbuf if buffer is None else buffer
        try:
            region = MemoryRegion(getattr(buffer, "value", buffer))
        except ValueError:
            raise _trace.error("T0002", f"no memory {describe(buffer)}", "nl.ndarray", "buffer") from None
        if isinstance(shape, int):
            shape = (shape,)
        try:
            shape = [int(plain(n)) for n in shape]
        except (TypeError, ValueError):
            raise _trace.error("T0002", f"expected whole numbers, not {describe(shape)}", "nl.ndarray", "shape") from None
        if any(n < 0 for n in shape):
            raise _trace.error("T0002", f"negative extents: {shape}", "nl.ndarray", "shape")
        if region in (sbuf, psum) and len(shape) < 2:
            raise _trace.error("T0002", f"an on-chip tensor has partitions and elements: {shape}", "nl.ndarray", "shape")
        if address is not None:
            try:
                partition, byte = (int(plain(x)) for x in address)
                address = (partition, byte)
            except (TypeError, ValueError):
                text = f"expected (partition, byte), not {describe(address)}"
                raise _trace.error("T0002", text, "nl.ndarray", "address") from None
            if partition < 0 or byte < 0:
                raise _trace.error("T0002", f"negative: {address}", "nl.ndarray", "address")
        elem = dtype_name(dtype)
        if elem is None:
            raise _trace.error("T0002", f"no element type {describe(dtype)}", "nl.ndarray", "dtype")
        return core.tensor(shape, elem, region.value, region, name, address)


class ndarray(metaclass=_TensorType):
    """A tensor: `nl.ndarray(shape, dtype, buffer=nl.sbuf, name='', address=None)`."""


def full(shape, fill_value, dtype, buffer=None, name=""):
    """A new tensor filled with a value. In memory it is filled through a tile."""
    from . import isa

    t = ndarray(shape, dtype, buffer, name)
    if t._on_chip:
        isa.memset(t, fill_value)
        return t
    rows, cols = t.shape[0], t.size // t.shape[0]
    flat = t.reshape((rows, cols))
    for r in range(0, rows, 128):
        n = min(128, rows - r)
        tile = ndarray((n, cols), dtype, sbuf)
        isa.memset(tile, fill_value)
        isa.dma_copy(flat[r : r + n, :], tile)
    return t


def zeros(shape, dtype, buffer=None, name=""):
    """A new tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=None, name=""):
    """A new tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name=""):
    """Zeros with the shape of `x`."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x, dtype=None, buffer=None, name=""):
    """A new tensor with the shape of `x`."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def load(src, dtype=None):
    """The tile of a tensor in memory, in SBUF."""
    from . import isa

    t = ndarray(src.shape if src.ndim > 1 else (1, src.shape[0]), dtype or src.dtype, sbuf)
    isa.dma_copy(t, src)
    return t


def store(dst, value):
    """Writes a tile to memory."""
    from . import isa

    return isa.dma_copy(dst, value)


def shared_identity_matrix(n, dtype="uint8", dst=None):
    """The n by n identity in SBUF, made once per core and type."""
    from . import isa

    core = _trace.current("nl.shared_identity_matrix")
    eye = isa.identity(core, n, dtype_name(dtype), MemoryRegion)
    if dst is None:
        return eye
    isa.tensor_copy(dst, eye)
    return dst


def shared_constant(constant, dtype=None):
    """A tensor in memory with these values; an array, or the path of an `.npy` file."""
    core = _trace.current("nl.shared_constant")
    if isinstance(constant, (str, os.PathLike)):
        constant = _np.load(constant, allow_pickle=False)
    array = _np.ascontiguousarray(constant)
    if dtype is not None:
        array = array.astype(dtype)
    elem = dtype_name(array.dtype)
    if elem is None:
        raise _trace.error("T0002", f"no element type {array.dtype}", "nl.shared_constant", "constant")
    out = io.BytesIO()
    plain_array = array if array.dtype.kind != "V" else array.view(f"u{array.dtype.itemsize}")
    _np.save(out, plain_array, allow_pickle=False)
    data = out.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    name = f"constant.{digest[:16]}"
    if name in core.constants:
        return core.constants[name][0]
    t = core.tensor(list(array.shape) or [1], elem, "shared_hbm", shared_hbm, name, None, True)
    core.constants[name] = (t, f"shared_constants/{digest}.npy", data)
    return t


# -- programs --------------------------------------------------------------------------------------------------------


def program_id(axis=0):
    """The index of the core."""
    return _trace.current("nl.program_id").index


def num_programs(axes=0):
    """The number of cores."""
    return _trace.current("nl.num_programs").grid


def program_ndim():
    """1 with a launch grid, else 0."""
    return 1 if _trace.current("nl.program_ndim").launched else 0


# -- loops -----------------------------------------------------------------------------------------------------------


def _numbers(function, values):
    for v in values:
        if isinstance(v, VirtualRegister):
            raise _trace.error("T0004", "a register as a bound; use nl.dynamic_range", function)
    return [int(plain(v)) for v in values]


def affine_range(start, stop=None, step=1):
    """A loop unrolled while tracing."""
    start, stop = (0, start) if stop is None else (start, stop)
    return range(*_numbers("nl.affine_range", (start, stop, step)))


def sequential_range(start, stop=None, step=1):
    """A loop unrolled while tracing."""
    return affine_range(start, stop, step)


def static_range(start, stop=None, step=1):
    """A loop unrolled while tracing."""
    return affine_range(start, stop, step)


def dynamic_range(start, stop=None, step=1):
    """A loop that runs on the core; yields a register."""
    start, stop = (0, start) if stop is None else (start, stop)
    return _trace.current("nl.dynamic_range").dynamic_range(plain(start), plain(stop), plain(step))


def fori_loop(lower, upper, body_fun, step=1):
    """Runs `body_fun(register)` on the core for `lower`, `lower + step`, ... below `upper`."""
    for i in _trace.current("nl.fori_loop").dynamic_range(plain(lower), plain(upper), plain(step)):
        body_fun(i)


def while_loop(init, body_fun):
    """Runs `register = body_fun(register)` on the core while the register is not 0."""
    _trace.current("nl.while_loop").while_loop(init, body_fun)


@contextlib.contextmanager
def no_reorder():
    """Keeps the order of the statements inside, per engine."""
    core = _trace.current("nl.no_reorder")
    after = core.enter_no_reorder()
    yield
    core.leave_no_reorder(after)


def device_print(print_prefix, tensor):
    """Prints a tensor when the kernel runs."""
    _trace.current("nl.device_print").emit("devicePrint", (tensor, str(print_prefix), "stdout"))


# -- sizes -----------------------------------------------------------------------------------------------------------


class _TileSize:
    """Sizes of tiles; those of SBUF depend on the target."""

    pmax = 128
    psum_fmax = 512
    psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048
    psum_num_banks = 8
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1

    #: Bytes of SBUF per partition: array size and what kernels may use, by generation.
    _SBUF = {2: (196608, 180224), 3: (229376, 212984), 4: (262144, 245752)}

    @staticmethod
    def _generation():
        from . import isa

        return int(isa.get_nc_version())

    @property
    def sbuf_size_bytes(self):
        return self._SBUF[self._generation()][0]

    @property
    def sbuf_fmax_bytes(self):
        return self.total_available_sbuf_size

    @property
    def sbuf_fmax(self):
        return self.total_available_sbuf_size // 4

    @property
    def total_available_sbuf_size(self):
        return self._SBUF[self._generation()][1]


tile_size = _TileSize()


def is_hbm(buffer):
    """Whether a region is memory outside the chip's buffers."""
    return MemoryRegion(getattr(buffer, "value", buffer)) in (hbm, shared_hbm, private_hbm)


def is_sbuf(buffer):
    """Whether a region is SBUF."""
    return MemoryRegion(getattr(buffer, "value", buffer)) is sbuf


def is_psum(buffer):
    """Whether a region is PSUM."""
    return MemoryRegion(getattr(buffer, "value", buffer)) is psum


def is_on_chip(buffer):
    """Whether a region is SBUF or PSUM."""
    return is_sbuf(buffer) or is_psum(buffer)


# -- objects of kernels ----------------------------------------------------------------------------------------------


class NKIObject:
    """Base of plain objects of kernels: a constructor from the class attributes, a missing argument is None."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            return
        notes = cls.__dict__.get("__annotations__", {})
        if not isinstance(notes, dict):
            notes = {}
        for name, value in list(cls.__dict__.items()):
            if name.startswith("__") or name in notes or callable(value):
                continue
            if isinstance(value, (property, classmethod, staticmethod)) or hasattr(value, "__get__"):
                continue
            if value is None or isinstance(value, (bool, int, float, str, bytes, tuple, frozenset, enum.Enum)):
                notes[name] = object
        for name in notes:
            if name not in cls.__dict__ and not _is_class_var(notes[name]):
                setattr(cls, name, None)
        cls.__annotations__ = notes

    def __init__(self, *args, **kwargs):
        names = []
        for base in reversed(type(self).__mro__):
            for name, note in base.__dict__.get("__annotations__", {}).items():
                if name not in names and not _is_class_var(note):
                    names.append(name)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} arguments, {len(args)} given")
        for name, value in zip(names, args):
            setattr(self, name, value)
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, value)
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()


def _is_class_var(note):
    return "ClassVar" in (note if isinstance(note, str) else str(note))

