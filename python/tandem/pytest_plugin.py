"""A fixture that checks a kernel in one line.

    def test_mine(tandem_kernel):
        tandem_kernel(kernel[2], x, w, expected=reference(x, w), rtol=1e-5)

The kernel is traced and checked, then run at every level under the schedules eager, late and `--tandem-schedules N`
random ones. All runs must give the same bytes, without a finding of severity error, and agree with `expected`.
`@pytest.mark.tandem(target="trn3", transport="dma")` gives options.
"""

from __future__ import annotations

import argparse

import pytest

from ._arrays import same_bits


def pytest_addoption(parser):
    group = parser.getgroup("tandem")
    group.addoption(
        "--tandem-schedules",
        type=int,
        default=None,
        metavar="N",
        help="random schedules under which the tandem_kernel fixture runs a kernel (default 2)",
    )
    group.addoption(
        "--tandem-levels",
        type=_levels,
        default=None,
        metavar="LEVEL,...",
        help="levels at which the tandem_kernel fixture runs a kernel (default bir,lowered,linked,bundles)",
    )


LEVELS = ("bir", "lowered", "linked", "bundles")


def _levels(text):
    levels = tuple(text.split(","))
    if wrong := [name for name in levels if name not in LEVELS]:
        raise argparse.ArgumentTypeError(f"no level {wrong[0]!r}; there are {', '.join(LEVELS)}")
    return levels


def pytest_configure(config):
    config.addinivalue_line("markers", "tandem(**options): options of tandem.Options for the tandem_kernel fixture")


class KernelChecker:
    """What the fixture gives."""

    def __init__(self, schedules, options, levels=LEVELS):
        self.schedules = ["eager", "late", *(f"seed={n}" for n in range(schedules))]
        self.options = options
        self.levels = levels

    def __call__(self, kernel, /, *inputs, expected=None, rtol=0.0, atol=0.0, levels=None, **kwargs):
        """Checks the kernel on these inputs and returns the last run."""
        import numpy as np

        import tandem

        options = tandem.Options(**self.options)
        traced = tandem.trace(kernel, *inputs, target=options.target, **kwargs)
        traced.check(options, strict=True)
        first = last = None
        for level in levels or self.levels:
            for schedule in self.schedules:
                last = traced.run(options=options, level=level, schedule=schedule, check=False)
                got = [*last.outputs.values(), *last.updated.values()]
                if first is None:
                    first = (level, schedule, got)
                elif len(got) != len(first[2]) or not all(map(same_bits, got, first[2])):
                    pytest.fail(f"{traced.name}: {level}/{schedule} and {first[0]}/{first[1]} give different bytes")
        if expected is not None:
            wanted = expected if isinstance(expected, (tuple, list)) else [expected]
            arrays = list(last.outputs.values()) or list(last.updated.values())
            assert len(arrays) == len(wanted), f"{traced.name}: {len(arrays)} outputs, {len(wanted)} expected"
            for (name, got), want in zip(zip(last.outputs or last.updated, arrays), wanted):
                got, want = np.asarray(got, dtype="float64"), np.asarray(want).astype("float64")
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=f"{traced.name}: output `{name}`")
        return last


@pytest.fixture
def tandem_kernel(request):
    """Checks a kernel for findings, for equal bytes under all schedules, and against expected numbers."""
    options = {}
    for marker in reversed(list(request.node.iter_markers("tandem"))):
        options.update(marker.kwargs)
    config = request.config
    schedules = config.getoption("--tandem-schedules")
    return KernelChecker(2 if schedules is None else schedules, options, config.getoption("--tandem-levels") or LEVELS)
