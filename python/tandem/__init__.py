"""Tandem: compile, check, run and time multi-core NeuronCore kernels without the chip.

    import tandem
    import tandem.nki as nki, tandem.nki.isa as nisa, tandem.nki.language as nl

    traced = tandem.trace(kernel[2], x, w)   # run the Python once per core
    traced.save("kernel.klr")
    traced.check()
    out = tandem.simulate(kernel)[2](x, w)
"""

from ._core import NkiTensor, __version__
from . import errors, nki
from ._arrays import Spec
from ._launch import Kernel, Traced, jit, simulate, trace
from ._run import Options, Report, Run
from ._verbs import Timing
from .errors import CheckError, Finding, KernelError, RunError, TandemError, TraceError

__all__ = [
    "CheckError",
    "Finding",
    "Kernel",
    "KernelError",
    "NkiTensor",
    "Options",
    "Report",
    "Run",
    "RunError",
    "Spec",
    "TandemError",
    "Timing",
    "TraceError",
    "Traced",
    "__version__",
    "errors",
    "jit",
    "nki",
    "simulate",
    "trace",
]
