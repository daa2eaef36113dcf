"""Kernels as people write them: traced, saved, read back, run at every level and schedule, compared with numpy."""

import ml_dtypes
import numpy as np
import pytest

import kernels as k
import tandem

R = np.random.RandomState(7)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


def rms(x, g):
    return x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 1e-6) * g


def soft(x):
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def norm(x):
    x = x.astype("f8")
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


X256, X128, X3 = f32(256, 64), f32(128, 1024), f32(128, 4, 16)
G, S, L = f32(1024), f32(128, 512) * 3, f32(512, 256)
A, B = f32(512, 64), f32(512, 256)
A2, B2 = f32(128, 128), f32(128, 2048)
LOOP, X32 = f32(6, 128, 32), f32(32, 32)
XB = X256.astype(ml_dtypes.bfloat16)
RAMP = (np.arange(128 * 64, dtype="f4").reshape(128, 64)) / 64
EYE = np.vstack([np.eye(64, dtype="f4"), np.zeros((64, 64), "f4")])
TABLE, ROWS = f32(300, 48), R.permutation(300)[:128].astype(np.int32).reshape(128, 1)

CASES = {
    "swap": (k.swap[2], (X256,), np.vstack([X256[128:], X256[:128]]), 0),
    "swap bf16": (k.swap[2], (XB,), np.vstack([XB[128:], XB[:128]]), 0),
    "strided swap": (
        k.strided_swap[2],
        (np.vstack([X128[:, :256], X128[:, 256:512]]),),
        np.vstack([X128[32:96, 256:512][:, 2:130:4], X128[32:96, :256][:, 2:130:4]]),
        0,
    ),
    "sum of squares": (
        k.sum_of_squares[2],
        (X128,),
        np.broadcast_to((X128.astype("f8") ** 2).sum(1, keepdims=True), (2, 128, 1)),
        1e-5,
    ),
    "rmsnorm": (k.rmsnorm[2], (X128, G), rms(X128, G), 1e-5),
    "rmsnorm one core": (k.rmsnorm[1], (X128, G), rms(X128, G), 1e-5),
    "barrier": (k.barrier_exchange[2], (f32(256, 128),), None, 0),
    "softmax": (k.softmax[2], (S,), soft(S), 1e-5),
    "layernorm": (k.layernorm[2], (L,), norm(L), 1e-4),
    "layernorm one core": (k.layernorm, (L,), norm(L), 1e-4),
    "matmul": (k.matmul_k_split[2], (A, B), A.astype("f8").T @ B, 1e-4),
    "private": (k.private_scratch[2], (X256,), X256 + np.repeat([[1.0], [2.0]], 128, 0).astype("f4"), 0),
    "two outputs": (k.two_outputs, (X3,), (X3.max((1, 2))[:, None], X3.astype("f8").sum((1, 2))[:, None]), 1e-5),
    "bits": (k.bits, (X256[:128],), X256[:128].view(np.uint16)[:, 1::2], 0),
    "gather": (k.gather, (TABLE, ROWS), TABLE[ROWS[:, 0]], 0),
    "banks": (
        k.banks,
        (A2, B2),
        np.stack([A2.astype("f8").T @ B2[:, i * 512 : i * 512 + 512] for i in range(4)]),
        1e-4,
    ),
    "dynamic range": (k.dynamic_loop[2], (LOOP, np.array([[3]], np.int32)), LOOP + np.float32(3), 1e-6),
    "while": (k.count_down, (X256[:128], np.array([[5]], np.int32)), X256[:128] * 32, 0),
    "while never": (k.count_down, (X256[:128], np.array([[0]], np.int32)), X256[:128], 0),
    "structured loops": (k.structured_loops, (X256[:128],), (X256[:128] + 1 + 1) / 8, 1e-6),
    "reshaped": (k.reshaped_dynamic, (X32, np.array([[37]], np.int32)), X32.reshape(64, 16)[37:38] + 1, 1e-6),
    "transposes": (k.transposes, (X32,), np.stack([X32.T] * 3), 0),
    "constants": (k.constants[2], (X256,), X256 + np.vstack([RAMP + EYE] * 2), 1e-6),
    "ordered": (k.ordered, (X256[:128],), (X256[:128] + 1) * 3 + 1, 1e-6),
    "all reduce": (k.all_reduce_sbuf[2], (X256,), np.vstack([X256[:128] + X256[128:]] * 2), 0),
    "all gather": (k.all_gather_hbm[2], (A2,), np.stack([A2, A2]), 0),
}
CASES["row by number"] = (k.row_by_number, (TABLE, np.array([[7, 250]], np.int32)), TABLE[[7, 250]], 0)
_cache, _new = f32(64, 32), f32(4, 32)
_want = _cache.copy()
_want[10:14] = _new
CASES["in place"] = (k.in_place, (_cache, _new, 10), _want, 0)
CASES["in place, returned"] = (k.in_place_returned, (_cache, _new, 10), _want, 0)
_values, _spread = f32(128, 48), np.zeros((300, 48), np.float32)
_spread[ROWS[:, 0]] = _values
CASES["scatter"] = (k.scatter, (_values, ROWS, np.zeros((300, 48), np.float32)), _spread, 0)
_x = CASES["barrier"][1][0]
CASES["barrier"] = (k.barrier_exchange[2], (_x,), 2 * np.vstack([_x[128:], _x[:128]]), 0)


#: The features of the interface, each with a kernel of its own (the specification, file 11, end of §5.5).
FEATURES = {
    "swap": "swap",
    "barrier": "barrier",
    "shared memory handed over": "barrier",
    "private memory": "private",
    "output in place": "in place",
    "two outputs": "two outputs",
    "strided pattern": "strided swap",
    "view of another type": "bits",
    "gather": "gather",
    "scatter": "scatter",
    "banks by address": "banks",
    "dynamic_range": "dynamic range",
    "while": "while",
}


def test_every_feature_has_a_kernel():
    assert set(FEATURES.values()) <= set(CASES) and len(set(FEATURES.values())) >= 12


@pytest.mark.parametrize("name", CASES)
def test_numbers(name, tandem_kernel):
    kernel, inputs, expected, tolerance = CASES[name]
    last = tandem_kernel(kernel, *inputs, expected=expected, rtol=tolerance, atol=tolerance)
    assert last.stop == "finished"


@pytest.mark.parametrize("name", CASES)
def test_file_reads_back(name, tmp_path):
    kernel, inputs, _, _ = CASES[name]
    traced = tandem.trace(kernel, *inputs)
    path = traced.save(tmp_path / "k.klr")
    data = path.read_bytes()
    again = tandem._core.Kernel.from_bytes(data)
    assert again.to_bytes() == data
    assert again.text() == traced.text()
    # Tracing has no hidden state: the second trace is the same file.
    assert tandem.trace(kernel, *inputs).to_bytes() == data


def test_in_place_input_is_updated():
    cache, new = f32(64, 32), f32(4, 32)
    want = cache.copy()
    want[10:14] = new
    got = cache.copy()
    assert tandem.simulate(k.in_place)(got, new, 10) is None
    assert np.array_equal(got, want)
    traced = tandem.trace(k.in_place, cache, new, 10)
    assert traced.mutated == ["cache"] and traced.outputs == []
    assert np.array_equal(traced.run().updated["cache"], want)


def test_in_place_output_is_the_input():
    cache, new = f32(64, 32), f32(4, 32)
    got = cache.copy()
    out = tandem.simulate(k.in_place_returned)(got, new, 3)
    assert np.array_equal(out, got) and np.shares_memory(out, got)
    assert np.array_equal(got[3:7], new)
    assert tandem.trace(k.in_place_returned, cache, new, 3).outputs[0].alias == "cache"


def test_scatter():
    out, values = np.zeros((300, 48), np.float32), f32(128, 48)
    tandem.simulate(k.scatter)(values, ROWS, out)
    want = np.zeros_like(out)
    want[ROWS[:, 0]] = values
    assert np.array_equal(out, want)


def test_race_is_found():
    with pytest.raises(tandem.TandemError) as e:
        tandem.simulate(k.no_barrier)[2](X256)
    finding = e.value.findings[0]
    assert finding.code == e.value.code
    lines = {finding.line, *(s["line"] for s in finding.get("sites", ()))}
    first = k.no_barrier.function.__code__.co_firstlineno
    assert all(first < n < first + 12 for n in lines)
    assert "nl.store(shared" in str(e.value) or "nl.load(shared" in str(e.value)
    assert finding["code"] in e.value.json()


def test_inputs_by_name_and_spec():
    traced = tandem.trace(k.rmsnorm[2], tandem.Spec((128, 1024)), gamma=tandem.Spec((1024,)))
    out = traced.run(X128, gamma=G)[0]
    assert np.allclose(out, rms(X128, G), atol=1e-4)
    with pytest.raises(tandem.KernelError, match="gamma"):
        traced.run(X128)
    with pytest.raises(tandem.KernelError, match="wants float32"):
        traced.run(X128, gamma=G[:7])
    with pytest.raises(tandem.KernelError, match="delta"):
        traced.run(X128, G, delta=1)


def test_levels():
    traced = tandem.trace(k.swap[2], X256)
    with pytest.raises(ValueError, match="bir and lowered"):
        traced.lower(level="bundles")
    with pytest.raises(ValueError, match="level"):
        traced.run(level="silicon")


def test_explain_and_lower():
    traced = tandem.trace(k.swap[2], X256)
    rows = traced.explain()
    assert [r["transport"] for r in rows] == ["gpsimd"]
    assert [r["transport"] for r in traced.explain(transport="dma")] == ["dma"]
    assert rows[0]["source"]["file"].endswith("kernels.py")
    assert "GPSIMDSB2SB" in traced.lower() and "GPSIMDSB2SB" not in traced.lower(level="bir")
    with pytest.raises(ValueError, match="transport"):
        traced.explain(transport="pigeon")


@pytest.mark.parametrize("transport", ["gpsimd", "dma", "auto"])
def test_transport_changes_no_number(transport):
    traced = tandem.trace(k.softmax[2], S)
    assert np.array_equal(traced.run(transport=transport)[0], traced.run(level="bir")[0])


def test_cancelled_by_interrupt():
    import _thread
    import threading

    traced = tandem.trace(k.count_down, X256[:128], np.array([[50_000_000]], np.int32))
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        traced.run(max_steps=10**12)
    timer.join()


def test_ranks_with_inputs_of_their_own():
    """Several logical cores gather what each has; an input without the leading dimension is the same for all."""
    import nki.collectives as ncc
    import nki.isa as nisa
    import nki.language as nl

    def gather(x, group):
        out = nl.ndarray((4 * 32, 16), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
        src = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.private_hbm)
        dst = nl.ndarray((4 * 32, 16), dtype=x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=src, src=x)
        ncc.all_gather(srcs=[src], dsts=[dst], replica_group=group, collective_dim=0)
        nisa.dma_copy(dst=out, src=dst)
        return out

    x = f32(4, 32, 16)
    traced = tandem.trace(gather, tandem.Spec((32, 16)), ncc.ReplicaGroup([[0, 1, 2, 3]]))
    got = traced.run(x, ranks=4)[0]
    assert got.shape == (4, 128, 16) and all(np.array_equal(g, x.reshape(128, 16)) for g in got)
    got = traced.run(x[0], ranks=4)[0]
    assert all(np.array_equal(g, np.vstack([x[0]] * 4)) for g in got)
    with pytest.raises(tandem.KernelError, match="wants float32"):
        traced.run(x[:3], ranks=4)


def test_cores_that_store_the_same():
    """A kernel that does not divide its work is no race; the run says that it compared the values."""
    x = f32(128, 64)
    whole = tandem.trace(k.both_cores_whole[2], x)
    assert str(whole.check()) == "clean"
    run = whole.run()
    assert np.array_equal(run[0], 2 * x)
    assert {(f.code, f.severity) for f in run.findings} == {("S0026", "note")}
    # Here only the values say it: a warning without them.
    both = tandem.trace(k.both_cores_sum[2], x)
    assert [(f.code, f.severity) for f in both.check()] == [("C0601", "warning")]
    assert np.array_equal(both.run(check=False)[0], x[:, :32] + x[:, 32:])
    differ = tandem.trace(k.both_cores_differ[2], x)
    with pytest.raises(tandem.RunError, match="S0020"):
        differ.run()
