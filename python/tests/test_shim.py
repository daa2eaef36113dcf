"""The names the vendor library's tests use, in a process of their own."""

import subprocess
import sys

CODE = """
from tandem.nki import shim
made = shim.install()
assert made and shim.install() == []
import numpy as np
import tandem
import nki_cpu_simulator.nki.builtin, nki_cpu_simulator.nki.compiler
import nki_cpu_simulator.nki.isa as nisa
import nki_cpu_simulator.nki.isa.constants as constants
import nki_cpu_simulator.nki.language as nl
import nki_cpu_simulator.nki.language.dtypes as dtypes
import nki_cpu_simulator.nki.tensor, nki_cpu_simulator.nki.typing
from nki_cpu_simulator import nki as sim
import nki, nki.collectives, nki.isa
from nki.compiler.frontend import ParserFrontend
assert nki is sim and nki.isa is nisa and nki.isa.constants is constants
assert dtypes.bfloat16 == nl.bfloat16
import neuron_dtypes as dt
from neuronxcc.nki.typing import mutable_tensor
from neuronxcc.starfish.support.dtype import static_cast
assert mutable_tensor is nl.ndarray and static_cast is dt.static_cast
assert dt.static_cast(np.ones(2), dt.bfloat16).dtype == dt.bfloat16
assert dt.is_float_type(dt.float8_e5m2) and not dt.is_float_type("int32")
for name in ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"):
    packed = getattr(dt, name)
    assert name in str(packed) and dt.sizeinbytes(packed) == (2 if "float4" in name else 4)
    values = np.array([[0.5, -1.0, 2.0, 6.0, 1.5, 0.0, -4.0, 3.0]], np.float32)
    four = dt.static_cast(values, packed)
    assert four.shape == (1, 2) and np.array_equal(dt.static_cast(four, np.float32), values)
    assert tandem._dtypes.dtype_name(four.dtype) == name
# The first value lies in the lowest bits.
assert dt.static_cast(np.array([1.0, 0, 0, 0], np.float32), dt.float4_e2m1fn_x4).view(np.uint16)[0] == 2

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    nl.store(out, t)
    return out

x = np.ones((4, 4), np.float32)
assert np.array_equal(nki.cpu_simulate(double)[1](**{"x.must_alias_input": x}), 2 * x)

# Tests that only trace.
traced = ParserFrontend().compile(double, inputs={"x": x}, target="trn2", lnc=2, artifacts_dir="unused")
assert traced.cores == 2 and traced.operators == 6

@nki.jit
def wrong(x):
    t = nl.load(x)
    assert x.shape[0] == 5, "partition dim"
    return x

try:
    ParserFrontend().compile(wrong, inputs={"x": x}, target="trn2", lnc=1)
except AssertionError as e:
    assert "partition dim" in str(e)
else:
    raise SystemExit("no error")

@nki.jit
def racing(x):
    # Core 1 reads what core 0 writes, and nothing orders them: the checks run too.
    out, between = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    if nl.program_id(0) == 0:
        nl.store(between, nl.load(x))
    else:
        nl.store(out, nl.load(between))
    return out

try:
    ParserFrontend().compile(racing, inputs={"x": x}, target="trn2", lnc=2)
except tandem.CheckError as e:
    assert e.code == "C0601"
else:
    raise SystemExit("no finding")
"""


def test_names():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

IN_PLACE = """
import nki_cpu_simulator.nki as nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def doubled(x):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(x, tile)
    return x


def test_in_place():
    x = np.ones((128, 8), np.float32)
    y = nki.cpu_simulate(doubled)[1](x)
    assert (y == 2).all()
    # A reference that is worked out now sees what the run left.
    assert (2 * x == y).all()
"""


def test_inputs_stay_when_asked_for(tmp_path):
    (tmp_path / "test_in_place.py").write_text(IN_PLACE)
    base = [sys.executable, "-m", "pytest", "-q", "-p", "tandem.nki.pytest", "test_in_place.py"]
    updated = subprocess.run(base, capture_output=True, text=True, cwd=tmp_path)
    assert updated.returncode == 1 and "assert (2 * x == y).all()" in updated.stdout, updated.stdout + updated.stderr
    kept = subprocess.run([*base, "--tandem-keep-inputs"], capture_output=True, text=True, cwd=tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
