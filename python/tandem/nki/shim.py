"""The names under which the vendor kernel library's own tests look for a simulator, for those tests only.

`install()` makes `nki_cpu_simulator` (thin names for `tandem.nki`: the same objects), `neuron_dtypes` and the two
`neuronxcc` modules that the tests import, and stand-ins for two modules of the test tree that its public snapshot lacks.
Each only where nothing of that name is found. Use it through the pytest plug-in:

    python -m pytest -p tandem.nki.pytest --test-mode=simulation -m fast ...

Packed element types (`float8_e4m3fn_x4` and kin) are numpy types of one field of that name: they can be made, cast by
`static_cast`, viewed as bits, and given to a kernel. Their outputs come back as bits.
"""

from __future__ import annotations

import importlib.util
import sys
import types

import ml_dtypes
import numpy as np

import tandem.nki as nki


def _absent(name):
    """Whether nothing of that name can be imported."""
    if name in sys.modules:
        return False
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError, AttributeError):
        return True


def _module(name, package=True, **names):
    module = types.ModuleType(name, "Made by tandem.nki.shim.")
    if package:
        module.__path__ = []
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    return module


#: Packed element types: the numpy type, the type of one value, values in one element.
X4 = {
    name: (np.dtype([(name, "u1", (size,))]), getattr(ml_dtypes, one, None), 4)
    for name, one, size in (
        ("float8_e4m3fn_x4", "float8_e4m3fn", 4),
        ("float8_e5m2_x4", "float8_e5m2", 4),
        ("float4_e2m1fn_x4", "float4_e2m1fn", 2),
    )
}


def _packed(dtype):
    """The row of `X4` that a type is, or None."""
    names = getattr(dtype, "names", None)
    return X4.get(names[0] if names and len(names) == 1 else dtype if isinstance(dtype, str) else None)


def static_cast(x, dtype):
    """An array in another element type. Of packed types the last dimension counts elements of four values."""
    x = np.asarray(x)
    if row := _packed(x.dtype):
        numpy_type, one, n = row
        bits = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape[:-1], x.shape[-1] * numpy_type.itemsize)
        if numpy_type.itemsize < n:
            bits = np.stack([bits & 15, bits >> 4], -1).reshape(*x.shape[:-1], x.shape[-1] * n)
        x = bits.view(one)
    if row := _packed(dtype):
        numpy_type, one, n = row
        bits = np.ascontiguousarray(x.astype(one)).view(np.uint8)
        if numpy_type.itemsize < n:
            bits = bits[..., 0::2] | bits[..., 1::2] << 4
        return np.ascontiguousarray(bits).view(numpy_type)
    return x.astype(dtype)


def sizeinbytes(dtype):
    """Bytes of one element."""
    row = _packed(dtype)
    return (row[0] if row else np.dtype(dtype)).itemsize


def finfo(dtype):
    """Limits of a floating-point type."""
    return ml_dtypes.finfo(dtype)


def is_float_type(dtype):
    """Whether an element type is a floating-point one."""
    d = np.dtype(dtype)
    return d.kind == "f" or (d.kind == "V" and d.name in vars(ml_dtypes))


class NKIFrontend:
    """Base of the front ends; stands for the vendor's class of that name."""


class ParserFrontend(NKIFrontend):
    """Traces and checks a kernel, for tests that only trace. What it gives goes no further: there is no device to compile for."""

    def compile(self, kernel, inputs=None, target=None, lnc=1, artifacts_dir=None, dump_python_ast=False, output_names=None):
        """The traced kernel; raises where tracing or the checks find an error."""
        import tandem

        del artifacts_dir, dump_python_ast, output_names
        traced = tandem.trace(kernel, grid=lnc, target=target, **(inputs or {}))
        traced.check(strict=True)
        return traced


def install():
    """Makes the names; returns those that were made."""
    made = []

    def make(name, **names):
        made.append(name)
        return _module(name, **names)

    if _absent("nki_cpu_simulator"):
        make("nki_cpu_simulator", nki=nki)
        base = "nki_cpu_simulator.nki"
        sys.modules[base] = nki
        for name in ("isa", "isa.constants", "language", "collectives", "typing", "tensor"):
            sys.modules[f"{base}.{name}"] = sys.modules[f"tandem.nki.{name}"]
        sys.modules[f"{base}.language.dtypes"] = nki.language.dtypes = nki.dtype
        if "nki" not in sys.modules and _absent("nki"):
            nki.install()
        for root in (base, "nki"):
            if root in sys.modules:
                _module(f"{root}.builtin")
                _module(f"{root}.compiler")
                _module(
                    f"{root}.compiler.frontend", NKIFrontend=NKIFrontend, ParserFrontend=ParserFrontend
                )
    if _absent("neuron_dtypes"):
        named = ("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
        types_ = {n: getattr(ml_dtypes, n) for n in named if hasattr(ml_dtypes, n)}
        types_.update({name: row[0] for name, row in X4.items()})
        make(
            "neuron_dtypes",
            static_cast=static_cast,
            is_float_type=is_float_type,
            sizeinbytes=sizeinbytes,
            finfo=finfo,
            **types_,
        )
    if _absent("neuronxcc"):
        for name in ("neuronxcc", "neuronxcc.nki", "neuronxcc.starfish", "neuronxcc.starfish.support"):
            make(name)
        tensor = nki.language.ndarray
        make("neuronxcc.nki.typing", tensor=tensor, mutable_tensor=tensor)
        make("neuronxcc.starfish.support.dtype", static_cast=static_cast)
    if not any(isinstance(f, _Missing) for f in sys.meta_path):
        sys.meta_path.append(_Missing())
    return made


class _Missing:
    """Finds modules of the library's test tree that its public snapshot lacks; asked last, so real ones win."""

    NAMES = ("test.utils.perf_analysis_private", "test.utils.scripts", "test.utils.scripts.remote_lock_scripts")

    def find_spec(self, name, path=None, target=None):
        if name in self.NAMES:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name, "Made by tandem.nki.shim.")

    def exec_module(self, module):
        def unused(*args, **kwargs):
            raise NotImplementedError(f"{module.__name__} is not part of the public snapshot")

        for name in ("analyze_trace", "LockResult", "LockStatus"):
            setattr(module, name, unused)
