"""Plug-in for the vendor kernel library's own tests: `pytest -p tandem.nki.pytest --test-mode=simulation`.

`--tandem-report FILE` writes one line of JSON for each kernel a test simulates: operators, findings, times, and the
largest error against the test's reference. `--tandem-keep-inputs` leaves the arrays that a kernel writes in place as they were, as a
device does: for tests whose reference is worked out after the run, from the same arrays. `--tandem-max-memory GIB` allows more
than 8 GiB. `--tandem-schedules N` runs it under eager, late and N seeds as well, and
`--tandem-levels` at those levels; all runs must give the same bytes.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import time

import numpy as np

from .._arrays import same_bits
from . import shim

shim.install()

_state = {"report": None, "test": None, "schedules": ["eager"], "levels": ["lowered"], "keep": False, "max_memory": None}


def pytest_addoption(parser):
    group = parser.getgroup("tandem")
    group.addoption("--tandem-report", metavar="FILE", help="append a line of JSON for each kernel that is simulated")
    group.addoption("--tandem-max-memory", metavar="GIB", type=int, help="memory that a simulation may take (default 8)")
    group.addoption(
        "--tandem-keep-inputs", action="store_true", help="arrays that a kernel writes in place stay as they were given"
    )


def pytest_configure(config):
    schedules = config.getoption("--tandem-schedules", None)
    levels = config.getoption("--tandem-levels", None)
    report = config.getoption("--tandem-report")
    _state["keep"] = config.getoption("--tandem-keep-inputs")
    _state["max_memory"] = config.getoption("--tandem-max-memory")
    # Tests of the library may change the working directory.
    _state["report"] = os.path.abspath(report) if report else None
    if schedules is not None:
        _state["schedules"] = ["eager", "late", *(f"seed={n}" for n in range(schedules))]
    if levels:
        _state["levels"] = levels
    if report or schedules is not None or levels or _state["keep"] or _state["max_memory"] is not None:
        import tandem.nki

        tandem.nki.cpu_simulate = _Recorded


def pytest_runtest_setup(item):
    _state["test"] = item.nodeid
    validator = sys.modules.get("test.utils.output_validator")
    close = getattr(validator, "maxAllClose", None)
    orchestrator = getattr(sys.modules.get("test.utils.test_orchestrator"), "Orchestrator", None)
    if orchestrator is not None and not hasattr(orchestrator, "_compiled_kernel"):
        # Read after every run, set only by the vendor's compiler, which simulation does not call.
        orchestrator._compiled_kernel = None
    if close is not None and not hasattr(close, "tandem"):
        validator.maxAllClose = _measured(close)


def _write(row):
    if _state["report"]:
        with open(_state["report"], "a", encoding="utf-8") as f:
            f.write(json.dumps({"test": _state["test"], **row}, sort_keys=True) + "\n")


def _measured(close):
    """The comparison of the library's tests, which also writes down the largest error it saw."""

    def wrapped(a, b, *args, **kwargs):
        passed = close(a, b, *args, **kwargs)
        if np.shape(a) == np.shape(b) and np.size(a):
            x, y = np.asarray(a, "float64"), np.asarray(b, "float64")
            finite = np.isfinite(x) & np.isfinite(y)
            error = float(np.max(np.abs(x - y), where=finite, initial=0.0))
            scale = float(np.max(np.abs(y), where=finite, initial=0.0))
            _write({"compared": bool(passed), "error": error, "scale": scale})
        else:
            _write({"compared": bool(passed), "shapes": [list(np.shape(a)), list(np.shape(b))]})
        return passed

    wrapped.tandem = True
    return wrapped


class _Recorded:
    """`nki.cpu_simulate(kernel)[n](...)` that also writes down what happened."""

    def __init__(self, kernel):
        import tandem

        self.simulation = tandem.simulate(kernel)

    def __getitem__(self, grid):
        made = object.__new__(_Recorded)
        made.simulation = self.simulation[grid]
        return made

    def __call__(self, *args, **kwargs):
        import tandem

        row = {"kernel": self.simulation.kernel.__name__}
        clock = time.perf_counter
        at = clock()
        try:
            traced = tandem.trace(self.simulation.kernel, *args, **kwargs)
            row["trace"] = clock() - at
            row["cores"] = traced.cores
            row["operators"] = [len(traced.operators_of(c)) for c in range(traced.cores)]
            counts = [collections.Counter(traced.operators_of(c)) for c in range(traced.cores)]
            row["swaps"] = [c["sendRecv"] for c in counts]
            row["barriers"] = [c["coreBarrier"] for c in counts]
            row["bytes"] = sum(v.nbytes for v in traced.values.values() if v is not None)
            at = clock()
            found = traced.check()
            row["check"] = clock() - at
            row["findings"] = list(found)
            found.raise_errors()
            row["runs"] = {}
            first = None
            for level in _state["levels"]:
                for schedule in _state["schedules"]:
                    at = clock()
                    run = traced.run(
                        level=level, schedule=schedule, check=False, uninit="warn", max_memory=_state["max_memory"]
                    )
                    row["runs"][f"{level}/{schedule}"] = clock() - at
                    row["findings"] += [f for f in run.findings if f not in row["findings"]]
                    got = {**run.outputs, **run.updated}
                    if first is None:
                        first = got
                    elif where := next((k for k in first if k not in got or not same_bits(got[k], first[k])), None):
                        raise AssertionError(f"{level}/{schedule} gives other bytes in `{where}` than the first run")
            return traced._results(run, update=not _state["keep"])
        except BaseException as e:
            row["failed"] = type(e).__name__
            row["why"] = getattr(e, "findings", None) or str(e)
            raise
        finally:
            _write(row)
