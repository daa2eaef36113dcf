"""A traced kernel holds the operators of the corresponding sample file: same operators, same fields, same patterns.

The samples were written by the upstream serializer. Names of tensors and statements and source positions differ.
"""

import pathlib
import re

import numpy as np
import pytest

import kernels as k
import tandem
from tandem import Spec

SAMPLES = pathlib.Path(__file__).parents[2] / "testdata" / "klr"
TENSOR = re.compile(r"([\w.#]+)\[(\w+) (\w+)\]")

CASES = {
    "01_sendrecv_swap_f32_128x64": (k.swap[2], [Spec((256, 64))]),
    "02_sendrecv_swap_bf16_128x4096": (k.swap[2], [Spec((256, 4096), "bfloat16")]),
    "03_sendrecv_strided_subtile_f32": (k.strided_swap[2], [Spec((256, 256))]),
    "04_partial_sumsq_exchange_f32": (k.sum_of_squares[2], [Spec((128, 1024))]),
    "05_rmsnorm_2core_f32": (k.rmsnorm[2], [Spec((128, 1024)), Spec((1, 1024))]),
    "06_all_reduce_add_sbuf_f32_128x256": (k.all_reduce_sbuf[2], [Spec((256, 256))]),
    "08_core_barrier_shared_hbm_f32": (k.barrier_exchange[2], [Spec((256, 128))]),
    "09_all_gather_hbm_dim0_f32": (k.all_gather_hbm[2], [Spec((128, 128))]),
    "16b_single_body_lnc_add_f32": (k.add_one_core, [Spec((128, 512)), Spec((128, 512))]),
}


def normal(text):
    """The lines of a printed kernel without names, positions and the kernel's own name."""
    lines, names = [], {}
    for line in text.splitlines():
        line = line.split(" ; ")[0].strip()
        if not line or line.startswith("lnc "):
            continue
        if line.startswith("body "):
            names = {}

        def rename(m):
            if m[3] == "hbm":
                return m[0]
            key = names.setdefault((m[1], m[3]), f"{m[3]}{len(names)}")
            return f"{key}[{m[2]} {m[3]}]"

        line = TENSOR.sub(rename, line)
        line = re.sub(r"^\w[\w.]* = ", "", line)
        # The samples leave the engine of a barrier open; the interface's default is GPSIMD.
        line = re.sub(r"(coreBarrier .*engine=)\w+", r"\1?", line)
        lines.append(line)
    return lines


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    kernel, inputs = CASES[name]
    sample = tandem._core.Kernel.from_bytes((SAMPLES / f"{name}.klr").read_bytes())
    assert normal(tandem.trace(kernel, *inputs).text()) == normal(sample.text())


def test_numbers_of_a_sample():
    """The expected output that came with the sample, from the kernel's Python source."""
    x = np.load(SAMPLES / "io/01_sendrecv_swap_f32_128x64.in.x.npy")
    want = np.load(SAMPLES / "io/01_sendrecv_swap_f32_128x64.out.out.npy")
    assert np.array_equal(tandem.simulate(k.swap)[2](x), want)
