"""The tour of docs/python.md as printed."""

import pathlib
import re
import subprocess
import sys

DOC = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_tour(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.S)
    (tmp_path / "mynorm.py").write_text(blocks[0])
    script = blocks[1] + (
        "ref = x / np.sqrt((x.astype('f8') ** 2).mean(1, keepdims=True) + 1e-6) * gamma\n"
        "assert np.allclose(out, ref, atol=1e-4)\n"
        "assert str(traced.check()) == 'clean'\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "-> gpsimd" in done.stdout and "clean" in done.stdout
    # The command reads the file that Python wrote, and says the same.
    command = [sys.executable, "-m", "tandem._command"]
    done = subprocess.run([*command, "check", "rmsnorm.klr"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*command, "frobnicate"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "frobnicate" in done.stderr


def test_broken_tour(tmp_path):
    """One core leaves out its swap: the finding names the line."""
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.S)
    swap = next(line for line in blocks[0].splitlines() if "nisa.sendrecv" in line)
    broken = blocks[0].replace(swap, "    if core == 0:\n    " + swap)
    (tmp_path / "mynorm.py").write_text(broken)
    line = broken.splitlines().index("    " + swap) + 1
    script = (
        "import numpy as np, tandem, tandem.nki\ntandem.nki.install()\nfrom mynorm import rmsnorm\n"
        "try:\n    tandem.simulate(rmsnorm)[2](np.ones((128, 64), 'f4'), np.ones(64, 'f4'))\n"
        "except tandem.TandemError as e:\n    print(e.code, sorted({f.get('line') for f in e.findings}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(line) in done.stdout, done.stdout
