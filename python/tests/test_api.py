"""The parts of the interface around a run: time, report, torch, threads, Ctrl-C, progress, notebooks."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import kernels as k
import tandem

R = np.random.RandomState(11)
X = R.standard_normal((256, 64)).astype(np.float32)
NORM = R.standard_normal((128, 1024)).astype(np.float32), np.ones(1024, np.float32)


def test_time():
    traced = tandem.trace(k.swap[2], X)
    t = traced.time()
    assert t.ns == t["total_ns"] > 0 and t.us == t.ns / 1000
    assert [c["core"] for c in t["cores"]] == [0, 1] and json.loads(t.json()) == t
    # Half of 256 x 64 floats crosses from each core; the text is that of the command.
    assert all(c["swap_bytes"] == 128 * 64 * 4 for c in t["cores"])
    assert str(t).startswith("kernels.swap\npredicted time") and "predicted time" in t._repr_html_()
    # More bytes are not faster, and options reach the model.
    wide = R.standard_normal((256, 4096)).astype(np.float32)
    assert tandem.trace(k.swap[2], wide).time().ns > t.ns
    assert traced.time(transport="dma").ns != t.ns


def test_time_follows_the_data():
    """The loop runs as often as the input says."""
    few = tandem.trace(k.count_down, X[:128], np.array([[1]], np.int32)).time()
    many = tandem.trace(k.count_down, X[:128], np.array([[50]], np.int32)).time()
    assert many.ns > 5 * few.ns


def test_time_of_a_broken_kernel():
    with pytest.raises(tandem.RunError) as e:
        tandem.trace(k.no_barrier[2], X).time(target="trn1")
    assert e.value.code and e.value.findings


def test_report(tmp_path):
    """One page, of a clean kernel and of a broken one; a notebook shows it in a frame."""
    page = tandem.trace(k.swap[2], X).report(tmp_path / "page.html", transport="dma")
    assert page == (tmp_path / "page.html").read_text() and page.startswith("<!DOCTYPE html>")
    assert "kernels.swap" in page and page._repr_html_().startswith("<iframe srcdoc=")
    broken = tandem.trace(k.no_barrier[2], X).report()
    assert "C0601" in broken or "S0020" in broken


def test_options_of_the_command():
    """Each option of Python is an option of the command, with the same meaning."""
    from tandem import _verbs

    help_ = {verb: _verbs.command(verb, "--help")[1] for verb in ("run", "time", "report")}
    for name in tandem.Options.__dataclass_fields__:
        flag = {"race_check": "--no-race-check"}.get(name, "--" + name.replace("_", "-"))
        if name not in ("check", "progress"):
            assert flag in help_["run"], flag
    made = _verbs.flags(tandem.Options(transport="dma", sb2sb_repack=True, strict_2_24=False, level="bir"), 3)
    assert made == ["--transport", "dma", "--sb2sb-repack", "--target", "trn2"]


def test_notebook_views():
    traced = tandem.trace(k.swap[2], X)
    page = traced._repr_html_()
    assert "kernels.swap: 2 cores" in page and "<table>" in page and "clean" in page
    run = traced.run()
    assert "finished" in run._repr_html_() and "out" in repr(run)
    assert "gpsimd" in traced.explain()._repr_html_() and "clean" in traced.check()._repr_html_()
    broken = tandem.trace(k.no_barrier[2], X).check()._repr_html_()
    assert "missing core barrier" in broken and "<pre>" in broken and "-->" not in broken


def test_progress_on_a_terminal(monkeypatch):
    """A line from the first second on, gone at the end; nothing where there is no terminal."""

    class Terminal:
        def __init__(self, tty):
            self.text, self.tty = "", tty

        def isatty(self):
            return self.tty

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    traced = tandem.trace(k.count_down, X[:128], np.array([[1_000_000_000]], np.int32))

    def shown(tty, **options):
        terminal = Terminal(tty)
        monkeypatch.setattr(sys, "stderr", terminal)
        timer = threading.Timer(1.6, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            traced.run(max_steps=10**12, **options)
        timer.join()
        return terminal.text

    text = shown(True)
    assert text.startswith("\rtandem: ") and "instructions" in text and text.endswith("\r\x1b[K")
    assert shown(False) == "" and shown(True, progress=False) == ""


def test_other_threads_run_meanwhile():
    """The interpreter lock is released: a thread counts while the simulation runs on another."""
    traced = tandem.trace(k.count_down, X[:128], np.array([[20_000]], np.int32))
    ticks, over = [], threading.Event()

    def count():
        while not over.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    start = time.perf_counter()
    traced.run()
    end = time.perf_counter()
    over.set()
    thread.join()
    inside = [t for t in ticks if start <= t <= end]
    # With the lock held there would be one gap as long as the run.
    gaps = np.diff([start, *inside, end])
    assert len(inside) > 5 and gaps.max() < max(0.5 * (end - start), 0.2), (len(inside), gaps.max(), end - start)


def test_two_runs_at_once():
    """Runs on several threads do not disturb each other."""
    traced = tandem.trace(k.rmsnorm[2], *NORM)
    want = traced.run()[0].tobytes()
    got = []
    threads = [threading.Thread(target=lambda: got.append(traced.run()[0].tobytes())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [want] * 4


def test_errors_carry_the_kernels_lines():
    with pytest.raises(tandem.CheckError) as e:
        tandem.trace(k.no_barrier[2], X).check(strict=True)
    error = e.value
    assert isinstance(error, tandem.TandemError) and error.code == error.findings[0].code
    assert all({"code", "severity", "message"} <= set(f) for f in json.loads(error.json()))
    source = pathlib.Path(k.__file__).read_text().splitlines()
    for f in error.findings:
        for site in (f, *f["sites"]):
            assert source[site["line"] - 1].strip() in str(error)


def test_command_is_interrupted(tmp_path):
    """Ctrl-C ends the command at once, as it does for any command."""
    path = tandem.trace(k.count_down, X[:128], np.array([[1]], np.int32)).save(tmp_path / "k.klr")
    np.save(tmp_path / "x.npy", X[:128])
    np.save(tmp_path / "n.npy", np.array([[2_000_000_000]], np.int32))
    argv = [sys.executable, "-m", "tandem._command", "run", path, tmp_path / "x.npy", tmp_path / "n.npy"]
    process = subprocess.Popen([*argv, "-o", tmp_path, "--max-steps", "1000000000000"], stderr=subprocess.PIPE)
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == -signal.SIGINT
    process.stderr.close()


MEASURE = """
import conftest, numpy as np, kernels as k, tandem
def most():
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
# What the first run of anything needs is not counted.
tandem.simulate(k.copied)[2](np.ones((2, 1024), np.float32))
x = np.ones((1 << 15, 1024), np.float32)
at = most()
y = tandem.simulate(k.{kernel})[2](x)
print((most() - at) / x.nbytes)
assert y is None or np.array_equal(x, y)
assert {value} == x[5, 7]
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(
    "kernel, value, most",
    [
        # The simulated input and output, a mark for each byte of the output, and the half that one core copies at once.
        ("copied", 1.0, 3.9),
        # One buffer for both, which is copied once on the way back.
        ("doubled", 2.0, 2.4),
    ],
)
def test_memory_of_large_tensors(kernel, value, most):
    """A tensor is held as often as it has to be."""
    code = MEASURE.format(kernel=kernel, value=value)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < most


def test_limit_of_memory():
    traced = tandem.trace(k.swap[2], X)
    with pytest.raises(tandem.RunError) as e:
        traced.run(max_memory=0)
    assert e.value.code == "S0005"
    traced.run(max_memory=1)


# -- torch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
def test_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy((X * 20).round()).abs().to(getattr(torch, dtype))
    out = tandem.simulate(k.swap)[2](x)
    assert isinstance(out, torch.Tensor) and out.dtype == x.dtype
    assert torch.equal(out, torch.vstack([x[128:], x[:128]]))


def test_torch_inputs_are_updated():
    torch = pytest.importorskip("torch")
    cache, new = torch.zeros(64, 32, dtype=torch.bfloat16), torch.ones(4, 32, dtype=torch.bfloat16)
    assert tandem.simulate(k.in_place)(cache, new, 10) is None
    assert torch.equal(cache[10:14], new) and cache.float().sum() == 4 * 32
    # A view that is no contiguous piece of its storage, too.
    wide = torch.zeros(32, 64)
    tandem.simulate(k.in_place)(wide.T, torch.ones(4, 32), 0)
    assert torch.equal(wide[:, :4], torch.ones(32, 4)) and wide.sum() == 4 * 32
    # A tensor that asks for gradients is read, and refused as a place to write by torch itself.
    assert torch.equal(tandem.simulate(k.swap)[2](torch.ones(256, 64, requires_grad=True)), torch.ones(256, 64))


class _Stand:
    """Just enough of a torch tensor to test the way of one without torch."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, type("dtype", (), {"__module__": "torch", "__str__": lambda s: "torch." + array.dtype.name})(), array.shape

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.array


_Stand.__module__ = "torch"


def test_stand_in_for_torch():
    """What looks like torch is taken; torch is imported only to make outputs."""
    traced = tandem.trace(k.swap[2], _Stand(X))
    assert np.array_equal(traced.run()[0], np.vstack([X[128:], X[:128]]))
