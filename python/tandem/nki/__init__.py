"""Stand-ins for the vendor's `nki` package, enough to trace kernels without it.

`install()` makes them importable as `nki`, `nki.isa`, `nki.language`, `nki.collectives` and `nki.typing`. It is never
done by default, and never over the real package.
"""

from __future__ import annotations

import importlib.util
import sys

from .._launch import Kernel, jit, simulate
from . import collectives, dtype, isa, language, tensor, typing
from .language import DType, NKIObject

#: Simulates a kernel on numpy arrays; another name of `simulate`.
cpu_simulate = simulate

__all__ = [
    "DType",
    "Kernel",
    "NKIObject",
    "collectives",
    "cpu_simulate",
    "dtype",
    "install",
    "isa",
    "jit",
    "language",
    "simulate",
    "tensor",
    "typing",
    "uninstall",
]

_MODULES = {
    "nki": __name__,
    "nki.isa": f"{__name__}.isa",
    "nki.isa.constants": f"{__name__}.isa.constants",
    "nki.language": f"{__name__}.language",
    "nki.collectives": f"{__name__}.collectives",
    "nki.typing": f"{__name__}.typing",
    "nki.dtype": f"{__name__}.dtype",
    "nki.tensor": f"{__name__}.tensor",
}


def install():
    """Makes these modules importable under the vendor's names.

    Raises ImportError when the real package is there.
    """
    here = sys.modules.get("nki")
    if here is not None and here is not sys.modules[__name__]:
        raise ImportError("another package `nki` is already imported; Tandem's stand-ins stay out of its way")
    if here is None:
        try:
            real = importlib.util.find_spec("nki")
        except (ImportError, ValueError):
            real = None
        if real is not None:
            raise ImportError(f"the package `nki` is installed ({real.origin}); Tandem's stand-ins stay out of its way")
    for name, ours in _MODULES.items():
        sys.modules[name] = sys.modules[ours]


def uninstall():
    """Takes the vendor's names away again."""
    for name, ours in _MODULES.items():
        if sys.modules.get(name) is sys.modules.get(ours):
            del sys.modules[name]
