"""The machinery of the function table: a row is a signature, checks, an operator and its fields.

A row's fields stand in the order of the operator's fields in KLR; each is a small function of the bound arguments.
Functions that are several operators, or none, have a `build` function instead of fields.
"""

from __future__ import annotations

import inspect
import os

from . import _trace
from ._core import NkiTensor
from .errors import FieldError
from ._enums import engine as Engine
from ._enums import matmul_perf_mode, oob_mode, reduce_cmd

#: Versions of the programming interface a kernel may be written for. None takes every form that is not ambiguous.
VERSIONS = ("0.2", "0.3", "0.4", "0.5", "0.6")


def api_version():
    """The version asked for by TANDEM_NKI_API, or None."""
    return os.environ.get("TANDEM_NKI_API") or None


ENGINES = {
    Engine.unknown: "unassigned",
    Engine.tensor: "pe",
    Engine.vector: "dve",
    Engine.scalar: "act",
    Engine.gpsimd: "pool",
    Engine.dma: "dma",
    Engine.sync: "sp",
}

ALU = {
    "abs": "abs",
    "add": "add",
    "subtract": "subtract",
    "multiply": "mult",
    "divide": "divide",
    "mod": "mod",
    "maximum": "max",
    "minimum": "min",
    "equal": "is_equal",
    "not_equal": "not_equal",
    "greater": "is_gt",
    "greater_equal": "is_ge",
    "less": "is_lt",
    "less_equal": "is_le",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "invert": "bitwise_not",
    "left_shift": "logical_shift_left",
    "right_shift": "logical_shift_right",
    "arithmetic_left_shift": "arith_shift_left",
    "arithmetic_right_shift": "arith_shift_right",
    "power": "pow",
    "rsqrt": "rsqrt",
    "average": "average",
    "bypass": "bypass",
}

ACTIVATIONS = {
    name: name
    for name in (
        "abs arctan copy erf erf_dx exp gelu gelu_apprx_tanh gelu_dx log mish reciprocal relu rsqrt sigmoid sign silu "
        "silu_dx sin softplus sqrt square tanh gelu_apprx_sigmoid gelu_apprx_sigmoid_dx"
    ).split()
}

ACCUMULATE = {
    reduce_cmd.idle: "Idle",
    reduce_cmd.reset: "Zero",
    reduce_cmd.reduce: "Accumulate",
    reduce_cmd.reset_reduce: "ZeroAccumulate",
    reduce_cmd.load_reduce: "LoadAccumulate",
}

PERF_MODES = {
    matmul_perf_mode.none: "None",
    matmul_perf_mode.double_row: "DoubleRow",
    matmul_perf_mode.double_row_sw_interleave: "DoubleRowSwInterleave",
}

OOB = {oob_mode.error: "error", oob_mode.skip: "skip"}

BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "logical_shift_left", "logical_shift_right"}
BITWISE |= {"arith_shift_left", "arith_shift_right"}
INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}
X4 = {"float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"}


class Call:
    """One call: the function, its arguments by name, the core."""

    __slots__ = ("fn", "a", "core")

    def __init__(self, fn, a, core):
        self.fn, self.a, self.core = fn, a, core

    def fail(self, argument, message, code="T0002", help=None):
        return _trace.error(code, message, self.fn, argument, help)

    def tensor(self, name):
        v = self.a[name]
        if type(v) is not NkiTensor:
            raise self.fail(name, f"expected a tensor, not {describe(v)}")
        if v._core != self.core.index:
            raise self.fail(name, f"{v!r} belongs to the trace of core {v._core}")
        return v

    def choice(self, name, kinds):
        """An enumeration's member given as such, by name or by value."""
        value = self.a[name]
        members = type(next(iter(kinds)))
        if type(value) is members:
            return value
        if isinstance(value, str):
            for m in members:
                if m.name == value or m.value == value:
                    return m
        if isinstance(value, int) and not isinstance(value, bool):
            for m in members:
                if m.value == value:
                    return m
        if type(value).__name__ == members.__name__ and hasattr(value, "name"):
            for m in members:
                if m.name == value.name:
                    return m
        names = ", ".join(m.name for m in members)
        raise self.fail(name, f"expected one of {names}, not {describe(value)}")

    def function(self, name, table, what):
        """The KLR name of a function of `nki.language` used as an operation."""
        value = self.a[name]
        key = value if isinstance(value, str) else getattr(value, "__name__", None)
        if key is None or key not in table:
            text = key if key is not None else describe(value)
            raise self.fail(name, f"KLR has no {what} `{text}`", "T0003" if key else "T0002")
        return table[key]

    def number(self, name, kind=(int, float)):
        """A plain Python number; numpy's scalars are taken too."""
        value = plain(self.a[name])
        if isinstance(value, bool):
            value = int(value)
        if not isinstance(value, kind):
            want = "a whole number" if kind is int else "a number"
            raise self.fail(name, f"expected {want}, not {describe(value)}")
        return value


def plain(value):
    """A numpy scalar as a Python number, everything else as it is."""
    if hasattr(value, "item") and not isinstance(value, NkiTensor) and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def describe(value):
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '...'}"


# -- fields ----------------------------------------------------------------------------------------------------------


def T(name):
    """A tensor."""
    return lambda c: c.tensor(name)


def TOpt(name):
    """A tensor or nothing."""
    return lambda c: None if c.a[name] is None else c.tensor(name)


def Flat(name):
    """A tensor without the dimensions that were indexed by numbers."""
    return lambda c: c.tensor(name)._squeezed()


def operand(c, name):
    v = c.a[name]
    if type(v) is NkiTensor:
        return c.tensor(name)
    return c.number(name)


def Op(name):
    """A number or a tensor."""
    return lambda c: operand(c, name)


def OpOpt(name):
    """A number, a tensor or nothing."""
    return lambda c: None if c.a[name] is None else operand(c, name)


def Num(name):
    """A number as written."""
    return lambda c: c.number(name)


def F(name):
    """A number as a float."""
    return lambda c: float(c.number(name))


def I(name):  # noqa: E743
    """A whole number."""
    return lambda c: c.number(name, int)


def IOpt(name):
    """A whole number or nothing."""
    return lambda c: None if c.a[name] is None else c.number(name, int)


def B(name):
    """True or False."""
    return lambda c: bool(c.a[name])


def Eng(name):
    """An engine."""
    return lambda c: ENGINES[c.choice(name, ENGINES)]


def Alu(name):
    """An operation of an arithmetic unit."""
    return lambda c: c.function(name, ALU, "operation")


def AluOpt(name):
    """The same or nothing."""
    return lambda c: None if c.a[name] is None else c.function(name, ALU, "operation")


def Act(name):
    """A function of the activation engine."""
    return lambda c: c.function(name, ACTIVATIONS, "activation function")


def Acc(name):
    """A command to the accumulators."""
    return lambda c: ACCUMULATE[c.choice(name, ACCUMULATE)]


def Enum(name, table):
    """A member of an enumeration by a table of KLR names."""
    return lambda c: table[c.choice(name, table)]


def Value(name):
    """The value of an enumeration's member."""

    def field(c):
        v = c.a[name]
        return v.value if hasattr(v, "value") else v

    return field


def Ints(name):
    """A list of whole numbers."""
    return lambda c: [int(plain(x)) for x in c.a[name]]


def Pattern(pattern, offset, channel_multiplier):
    """An affine function of the position."""

    def field(c):
        pairs = c.a[pattern]
        try:
            pairs = [(int(s), int(n)) for s, n in pairs]
        except (TypeError, ValueError):
            raise c.fail(pattern, f"expected [[step, num], ...], not {describe(pairs)}") from None
        if len(pairs) > 4:
            raise c.fail(pattern, f"{len(pairs)} pairs, the limit is 4")
        return (c.number(offset, int), pairs, c.number(channel_multiplier, int))

    return field


def Reverse(first, second):
    """Which operations take their operands in reverse order."""
    names = {(False, False): "none", (True, False): "first", (False, True): "second", (True, True): "both"}
    return lambda c: names[bool(c.a[first]), bool(c.a[second])]


def Const(value):
    """Always the same."""
    return lambda c: value


# -- checks ----------------------------------------------------------------------------------------------------------


def on_chip(*names):
    """Operands of an engine lie in SBUF or PSUM."""

    def check(c):
        for n in names:
            v = c.a[n]
            if type(v) is NkiTensor and not v._on_chip:
                raise c.fail(n, f"{v!r} lies in {region(v)}; an engine reads and writes SBUF and PSUM")

    return check


def region(v):
    b = v.buffer
    return getattr(b, "name", b)


def same(dst, *names, parts=True):
    """As many partitions and as many elements per partition as `dst`."""

    def check(c):
        d = c.tensor(dst)
        for n in names:
            v = c.a[n]
            if type(v) is not NkiTensor:
                continue
            if v.shape[0] != d.shape[0] or v._free != d._free:
                raise c.fail(n, f"{v!r} and `{dst}` {d!r} differ in partitions or in elements per partition")

    return check


def column(*names, of):
    """A number, or a tensor of one element per partition of `of`."""

    def check(c):
        d = c.tensor(of)
        for n in names:
            v = c.a[n]
            if type(v) is NkiTensor and (v._free != 1 or v.shape[0] != d.shape[0]):
                raise c.fail(n, f"{v!r} is not one element for each of the {d.shape[0]} partitions of `{of}`")

    return check


def not_psum(*names, why="GPSIMD does not reach PSUM"):
    """An operand outside PSUM."""

    def check(c):
        for n in names:
            v = c.a[n]
            if type(v) is NkiTensor and v._psum:
                raise c.fail(n, f"{v!r} lies in PSUM; {why}")

    return check


def gpsimd_not_psum(*names):
    """With engine=gpsimd no operand lies in PSUM."""

    def check(c):
        if c.choice("engine", ENGINES) is Engine.gpsimd:
            for n in names:
                v = c.a[n]
                if type(v) is NkiTensor and v._psum:
                    raise c.fail(n, f"{v!r} lies in PSUM; GPSIMD does not reach PSUM")

    return check


def engines(*allowed):
    """Engines that carry the operation out."""

    def check(c):
        e = c.choice("engine", ENGINES)
        if e is not Engine.unknown and e not in allowed:
            names = ", ".join(a.name for a in allowed)
            raise c.fail("engine", f"engine {e.name} cannot do this; {names} can")

    return check


def one_in_psum(a, b):
    """Two inputs of the vector engine are not both in PSUM."""

    def check(c):
        x, y = c.a[a], c.a[b]
        if type(x) is NkiTensor and type(y) is NkiTensor and x._psum and y._psum:
            raise c.fail(b, f"{y!r} and `{a}` both lie in PSUM; at most one may")

    return check


def integer_bits(*ops_and_tensors):
    """Operations on bits need integer types."""
    op, *names = ops_and_tensors

    def check(c):
        if c.a[op] is not None and c.function(op, ALU, "operation") in BITWISE:
            for n in names:
                v = c.a[n]
                if type(v) is NkiTensor and v.dtype not in INTEGERS:
                    raise c.fail(n, f"{v!r} is no integer tensor; `{op}` works on bits")

    return check


def same_dtype(dst, *names):
    """The element type of `dst`."""

    def check(c):
        d = c.tensor(dst)
        for n in names:
            v = c.a[n]
            if type(v) is NkiTensor and v.dtype != d.dtype:
                raise c.fail(n, f"element type {v.dtype}, `{dst}` has {d.dtype}")

    return check


def dtypes(name, *allowed):
    """One of some element types."""

    def check(c):
        v = c.a[name]
        if type(v) is NkiTensor and v.dtype not in allowed:
            raise c.fail(name, f"element type {v.dtype}; one of {', '.join(allowed)} is needed")

    return check


def at_most(name, parts, free):
    """A bound on partitions and elements per partition."""

    def check(c):
        v = c.tensor(name)
        if v.shape[0] > parts or v._free > free:
            raise c.fail(name, f"{v!r} is larger than {parts} partitions of {free} elements")

    return check


# -- rows ------------------------------------------------------------------------------------------------------------


class Param:
    """A parameter: name, default, and the versions of the interface that have it."""

    __slots__ = ("name", "default", "since", "until")
    REQUIRED = object()

    def __init__(self, name, default=REQUIRED, since=None, until=None):
        self.name, self.default, self.since, self.until = name, default, since, until

    def exists(self, version):
        return version is None or ((self.since or "0") <= version and (self.until is None or version < self.until))


def parameters(text, values):
    """Parameters from `a, b=default, c=default@0.3:0.6`; a default is looked up in `values` or is a literal."""
    out = []
    for part in text.split(","):
        part = part.strip()
        part, _, span = part.partition("@")
        since, _, until = span.partition(":")
        name, eq, default = part.partition("=")
        if eq:
            value = values[default] if default in values else eval(default, {"__builtins__": {}})  # noqa: S307
            out.append(Param(name, value, since or None, until or None))
        else:
            out.append(Param(name, since=since or None, until=until or None))
    return out


class Function:
    """A function of `nki.isa` or `nki.collectives`."""

    def __init__(self, name, params, operator=None, fields=(), checks=(), build=None, since=None, until=None, short="nisa"):
        self.__name__ = self.__qualname__ = name
        self.full_name = f"{short}.{name}"
        self.params = params
        self.operator = operator
        self.fields = tuple(fields)
        self.checks = tuple(checks)
        self.build = build
        self.since, self.until = since, until
        self.__doc__ = f"Signature: {name}({', '.join(p.name for p in params)})."
        self.names = [p.name for p in params]
        self.known = frozenset(self.names)
        self.required = [p.name for p in params if p.default is Param.REQUIRED]
        self.defaults = {p.name: p.default for p in params if p.default is not Param.REQUIRED}
        self.limited = {p.name: p for p in params if p.since or p.until}
        self.positional = [p.name for p in params if not (p.until or p.since == "keyword")]

    @property
    def __signature__(self):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        first, rest = [], []
        for p in self.params:
            default = inspect.Parameter.empty if p.default is Param.REQUIRED else p.default
            (first if default is inspect.Parameter.empty else rest).append(
                inspect.Parameter(p.name, kind, default=default)
            )
        return inspect.Signature(first + rest)

    def __repr__(self):
        return f"<function {self.full_name}>"

    def bind(self, args, kwargs):
        """Arguments by name, with defaults."""
        a = dict(self.defaults)
        if len(args) > len(self.positional):
            raise _trace.error(
                "T0001", f"{len(args)} positional arguments, it has {len(self.positional)}", self.full_name
            )
        for name, value in zip(self.positional, args):
            a[name] = value
        for name, value in kwargs.items():
            if name not in self.known:
                self._unknown(name)
            if name in self.positional[: len(args)]:
                raise _trace.error("T0001", "given twice", self.full_name, name)
            if name in self.limited:
                self._version(name)
            a[name] = value
        for name in self.required:
            if name not in a:
                raise _trace.error("T0001", "is missing", self.full_name, name)
        return a

    def _unknown(self, name):
        if name == "mask":
            text = "masks ended with version 0.1 of the interface; index the tensors instead"
        else:
            text = f"there is no such argument; there are {', '.join(self.names)}"
        raise _trace.error("T0001", text, self.full_name, name)

    def _version(self, name):
        version = api_version()
        p = self.limited[name]
        if version is not None and not p.exists(version):
            span = f"since {p.since}" if p.since and not p.exists(version) and version < p.since else f"until {p.until}"
            raise _trace.error("T0001", f"version {version} has no such argument ({span})", self.full_name, name)

    def __call__(self, *args, **kwargs):
        core = _trace.current(self.full_name)
        c = Call(self.full_name, self.bind(args, kwargs), core)
        if self.since or self.until:
            version = api_version()
            if version is not None and not Param("", since=self.since, until=self.until).exists(version):
                raise c.fail(None, f"version {version} of the interface does not have it", "T0001")
        for check in self.checks:
            check(c)
        if self.build is not None:
            return self.build(c)
        values = tuple([f(c) for f in self.fields])
        statement = self.emit(c, self.operator, values)
        self.note_psum(c)
        return statement

    def emit(self, c, operator, values, name=None):
        """Records an operator; a value that does not fit names the argument it came from."""
        try:
            made = c.core.emit(operator, values, name or c.a.get("name"))
        except FieldError as e:
            raise c.fail(self.argument_of(e.args[0], operator), e.args[1]) from None
        return Instruction(made, c.core)

    def argument_of(self, field, operator):
        """The argument whose value a field holds, for messages."""
        return FIELD_ARGUMENTS.get((self.__name__, field), FIELD_ARGUMENTS.get(field, field))

    def note_psum(self, c):
        """Keeps the history of PSUM bytes for the rule of automatic accumulation."""
        for name, v in c.a.items():
            if type(v) is NkiTensor and v._psum:
                wrote = name in ("dst", "reduce_res", "dst_idx")
                kind = "matmul" if wrote and self.operator in ("ncMatMul", "ncMatMulMX") else "other"
                c.core.psum_event(v, kind)


#: KLR fields whose argument has another name.
FIELD_ARGUMENTS = {
    "src": "data",
    "src0": "data1",
    "src1": "data2",
    "imm0": "operand0",
    "imm1": "operand1",
    "activation_func": "op",
    ("dma_copy", "src"): "src",
    ("tensor_copy", "src"): "src",
    ("tensor_copy_predicated", "src"): "src",
    ("nc_stream_shuffle", "src"): "src",
    ("dma_transpose", "src"): "src",
    ("max8", "src"): "src",
    ("sendrecv", "src"): "src",
    ("local_gather", "src"): "src_buffer",
    ("nonzero_with_count", "src"): "src",
    ("tensor_tensor_scan", "src0"): "data0",
    ("tensor_tensor_scan", "src1"): "data1",
    ("tensor_tensor_scan", "imm0"): "initial",
    ("scalar_tensor_tensor", "src0"): "operand0",
    ("scalar_tensor_tensor", "src1"): "operand1",
    ("register_load", "src"): "src",
    ("register_store", "dst"): "dst",
}


class Instruction:
    """What a call returns: the statement, to order others after it."""

    __slots__ = ("name", "_core")

    def __init__(self, name, core):
        self.name, self._core = name, core

    def depends_on(self, *producers):
        """This statement runs after `producers`."""
        for p in producers:
            if not isinstance(p, Instruction):
                raise _trace.error("T0002", f"expected an instruction, not {describe(p)}", "depends_on")
            self._core.edges.append((p.name, self.name))
        return self

    def __repr__(self):
        return f"<instruction {self.name}>"
