"""What is wrong names the function, the argument, the file and the line of the kernel."""

import json
import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import tandem

X = np.zeros((128, 64), np.float32)


def sbuf(*shape, dtype=nl.float32):
    return nl.ndarray(shape or (128, 64), dtype=dtype, buffer=nl.sbuf)


def psum(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def fails(body, code, *words, cores=1, argument=None):
    """Traces `body(x)` and checks what the error says."""

    def kernel(x):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        body(x)
        return out

    with pytest.raises(tandem.KernelError) as e:
        tandem.trace(kernel, X, grid=cores)
    text = str(e.value)
    assert e.value.code == code, text
    for w in words:
        assert w in text
    if argument:
        assert e.value.argument == argument
        first = body.__code__.co_firstlineno
        assert os.path.abspath(e.value.file) == __file__ and first <= e.value.line <= first + 3, text
    assert json.loads(e.value.json())[0]["code"] == code
    return e.value


ARGUMENTS = {
    "unknown": (lambda x: nisa.tensor_copy(dst=sbuf(), src=sbuf(), speed=3), "T0001", "speed"),
    "mask": (lambda x: nisa.tensor_copy(dst=sbuf(), src=sbuf(), mask=3), "T0001", "mask"),
    "missing": (lambda x: nisa.tensor_copy(sbuf()), "T0001", "src"),
    "twice": (lambda x: nisa.tensor_copy(sbuf(), sbuf(), dst=sbuf()), "T0001", "dst"),
    "no tensor": (lambda x: nisa.tensor_copy(dst=sbuf(), src=3), "T0002", "src"),
    "elements": (lambda x: nisa.tensor_copy(dst=sbuf(), src=sbuf(128, 63)), "T0002", "src"),
    "memory": (lambda x: nisa.tensor_copy(dst=sbuf(), src=x), "T0002", "src"),
    "partitions": (lambda x: nisa.tensor_tensor(sbuf(), sbuf(), sbuf(64, 64), nl.add), "T0002", "data2"),
    "no operation": (lambda x: nisa.tensor_tensor(sbuf(), sbuf(), sbuf(), nl.tan), "T0003", "op"),
    "no function": (lambda x: nisa.activation(sbuf(), nl.cos, sbuf()), "T0003", "op"),
    "bits": (lambda x: nisa.tensor_tensor(sbuf(), sbuf(), sbuf(), nl.bitwise_and), "T0002", "dst"),
    "two in PSUM": (
        lambda x: nisa.tensor_tensor(sbuf(128, 8), psum(128, 8), psum(128, 8), nl.add),
        "T0002",
        "data2",
    ),
    "engine": (lambda x: nisa.tensor_copy(sbuf(), sbuf(), engine=nisa.engine.tensor), "T0002", "engine"),
    "engine name": (lambda x: nisa.tensor_copy(sbuf(), sbuf(), engine="warp"), "T0002", "engine"),
    "gpsimd": (
        lambda x: nisa.tensor_copy(sbuf(128, 8), psum(128, 8), engine=nisa.gpsimd_engine),
        "T0002",
        "src",
    ),
    "column": (lambda x: nisa.tensor_scalar(sbuf(), sbuf(), nl.add, sbuf(128, 2)), "T0002", "operand0"),
    "one op": (lambda x: nisa.tensor_scalar(sbuf(), sbuf(), nl.add, 1.0, op1=nl.add), "T0002", "operand1"),
    "scalar engine": (
        lambda x: nisa.tensor_scalar(sbuf(), sbuf(), nl.maximum, 1.0, engine=nisa.scalar_engine),
        "T0002",
        "engine",
    ),
    "memset": (lambda x: nisa.memset(sbuf(dtype=nl.int32), 0.5), "T0002", "value"),
    "matmul into SBUF": (lambda x: nisa.nc_matmul(sbuf(64, 64), sbuf(), sbuf()), "T0002", "dst"),
    "matmul size": (lambda x: nisa.nc_matmul(psum(64, 32), sbuf(), sbuf()), "T0002", "dst"),
    "matmul types": (
        lambda x: nisa.nc_matmul(psum(64, 64), sbuf(), sbuf(dtype=nl.bfloat16)),
        "T0002",
        "moving",
    ),
    "matmul moving": (lambda x: nisa.nc_matmul(psum(64, 600), sbuf(), sbuf(128, 600)), "T0002", "moving"),
    "accumulate": (
        lambda x: nisa.nc_matmul(psum(64, 64), sbuf(), sbuf(), accumulate=True),
        "T0003",
        "accumulate",
    ),
    "axis": (lambda x: nisa.tensor_reduce(sbuf(128, 1), nl.add, sbuf(), axis=0), "T0002", "axis"),
    "reduced": (lambda x: nisa.tensor_reduce(sbuf(128, 2), nl.add, sbuf(), axis=1), "T0002", "dst"),
    "DMA from PSUM": (lambda x: nisa.dma_copy(sbuf(128, 8), psum(128, 8)), "T0002", "src"),
    "DMA size": (lambda x: nisa.dma_copy(sbuf(), x[:, 1:]), "T0002", "src"),
    "DMA engine": (lambda x: nisa.dma_copy(sbuf(), x, engine=nisa.engine.vector), "T0002", "engine"),
    "outside": (lambda x: nisa.dma_copy(sbuf(), x.ap([[64, 128], [1, 64]], offset=1)), "T0002", "src"),
    "outside a partition": (
        lambda x: nisa.tensor_copy(sbuf(), sbuf().ap([[64, 128], [1, 64]], offset=1)),
        "T0002",
        "src",
    ),
    "pattern": (lambda x: nisa.iota(sbuf(dtype=nl.int32), [[1, 63]]), "T0002", "pattern"),
    "mask length": (lambda x: nisa.nc_stream_shuffle(sbuf(), sbuf(), [0] * 31), "T0002", "shuffle_mask"),
    "rank": (lambda x: nisa.sendrecv(sbuf(), sbuf(128, 64), 2, 1, 0), "T0002", "send_to_rank"),
    "swap types": (lambda x: nisa.sendrecv(sbuf(), sbuf(dtype=nl.int32), 1, 1, 0), "T0002", "dst"),
    "swap by gpsimd": (
        lambda x: nisa.sendrecv(sbuf(128, 257), sbuf(128, 257), 1, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma),
        "T0002",
        "dma_engine",
    ),
    "negate": (
        lambda x: nisa.tensor_scalar_reduce(
            sbuf(), sbuf(), nl.add, 1.0, nl.add, sbuf(128, 1), reduce_res_negate=True
        ),
        "T0003",
        "reduce_res_negate",
    ),
    "group": (lambda x: ncc.all_reduce([x], [x], 7, nl.add), "T0002", "replica_group"),
    "mixed collective": (
        lambda x: ncc.all_reduce([x], [sbuf()], ncc.ReplicaGroup([[0]]), nl.add),
        "T0002",
        "dsts",
    ),
    "register": (lambda x: nisa.register_move(3, 4), "T0002", "dst"),
    "number": (lambda x: nisa.register_alloc(2**40), "T0002", "x"),
    "buffer": (lambda x: nl.ndarray((1, 2), nl.float32, buffer="cache"), "T0002", "buffer"),
    "dtype": (lambda x: nl.ndarray((1, 2), "float37"), "T0002", "dtype"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_argument(name):
    body, code, argument = ARGUMENTS[name]
    fails(body, code, argument, argument=argument)


def test_too_large_on_chip():
    fails(lambda x: sbuf(129, 4), "T0007", "129 partitions")


def test_topk_has_no_operator():
    fails(lambda x: nisa.topk(sbuf(), sbuf(), sbuf(), 8), "T0003", "nisa.topk", "max8")


def test_if_on_a_register():
    def body(x):
        r = nisa.register_alloc(1)
        if r:
            nisa.dma_copy(dst=sbuf(), src=x)

    fails(body, "T0004", "If", "while_loop", "if r:")


def test_register_as_a_number():
    fails(lambda x: range(nisa.register_alloc(1)), "T0004", "dynamic_range")
    fails(lambda x: int(nisa.register_alloc(1)), "T0004", "not known")


def test_break_out_of_a_dynamic_loop():
    def body(x):
        for _ in nl.dynamic_range(4):
            break
        nisa.dma_copy(dst=sbuf(), src=x)

    fails(body, "T0004", "break", "dynamic_range(4)")


def test_dynamic_loop_inside_no_reorder():
    def body(x):
        with nl.no_reorder():
            for _ in nl.dynamic_range(4):
                pass

    fails(body, "T0004", "no_reorder")


def test_cores_with_different_loops():
    def body(x):
        for _ in nl.dynamic_range(2):
            pass
        if nl.program_id(0) == 1:
            for _ in nl.dynamic_range(2):
                pass

    fails(body, "T0005", "block 5", "the end", cores=2)


def test_shared_tensor_on_one_core_only():
    def body(x):
        if nl.program_id(0) == 1:
            nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)

    e = fails(body, "T0005", "core 1 only", cores=2)
    assert e.findings[0]["sites"][0]["line"] == body.__code__.co_firstlineno + 2


def test_shared_tensor_of_two_shapes():
    fails(
        lambda x: nl.ndarray((4, 4 + nl.program_id(0)), nl.float32, buffer=nl.shared_hbm),
        "T0005",
        "different shapes",
        cores=2,
    )


def test_depends_on_differs():
    def body(x):
        a, t = nisa.dma_copy(dst=sbuf(), src=x, name="a"), sbuf()
        b = nisa.dma_copy(dst=t, src=x, name="b")
        if nl.program_id(0) == 0:
            b.depends_on(a)

    fails(body, "T0005", "depends_on", cores=2)


def test_outputs():
    def on_chip(x):
        return sbuf()

    def nothing(x):
        sbuf()

    def differ(x):
        n = "a" if nl.program_id(0) else "b"
        return nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm, name=n)

    for kernel, word in ((on_chip, "sbuf"), (nothing, "neither"), (differ, "core 1 returns")):
        with pytest.raises(tandem.KernelError, match=word):
            tandem.trace(kernel, X, grid=2)


def test_launches():
    with pytest.raises(tandem.KernelError, match="1 or 2"):
        nki.jit(lambda x: x)[3]
    with pytest.raises(tandem.KernelError, match="argument"):
        tandem.trace(lambda a, b: a, X)
    with pytest.raises(tandem.KernelError, match="float128|complex"):
        tandem.trace(lambda a: a, np.zeros((2, 2), np.complex64))


def test_outside_a_kernel():
    with pytest.raises(tandem.KernelError) as e:
        nl.program_id(0)
    assert e.value.code == "T0008" and "tandem.trace" in str(e.value)


def test_errors_of_the_kernel_pass_through():
    def kernel(x):
        assert x.shape == (1, 2), "not this"

    with pytest.raises(AssertionError, match="not this"):
        tandem.trace(kernel, X)
    # The next trace starts afresh.
    with pytest.raises(tandem.KernelError, match="outside|meaning"):
        nl.num_programs()


def test_older_interface(monkeypatch):
    def swap(x):
        t, u = sbuf(), sbuf()
        nisa.sendrecv(t, u, 1, 1, 0, use_gpsimd_dma=True)
        nisa.dma_compute(u, [t, t], [1.0, 1.0], nl.add)

    def kernel(x):
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        swap(x)
        return out

    assert "useGpsimdDma=true" in tandem.trace(kernel, X).text()
    monkeypatch.setenv("TANDEM_NKI_API", "0.3")
    fails(swap, "T0001", "use_gpsimd_dma", "version 0.3", argument="use_gpsimd_dma")
    monkeypatch.setenv("TANDEM_NKI_API", "0.2")
    assert "useGpsimdDma=true" in tandem.trace(kernel, X).text()


def test_files_are_named_from_the_working_directory(tmp_path, monkeypatch):
    """The same kernel in another place is the same file, as long as it is traced from where it lies."""
    import importlib.util

    source = (
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\ndef copy(x):\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nisa.dma_copy(dst=out, src=x)\n    return out\n"
    )
    made = []
    for place in ("a", "b"):
        folder = tmp_path / place
        (folder / "kernels").mkdir(parents=True)
        path = folder / "kernels" / "copy_kernel.py"
        path.write_text(source)
        monkeypatch.chdir(folder)
        spec = importlib.util.spec_from_file_location("copy_kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made.append(tandem.trace(module.copy, tandem.Spec((4, 4))))
    assert made[0].to_bytes() == made[1].to_bytes()
    assert "kernels/copy_kernel.py:9" in made[0].text() and str(tmp_path) not in made[0].text()
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) not in tandem.trace(module.copy, tandem.Spec((4, 4))).text()
    monkeypatch.chdir("/")
    assert str(path)[1:] in tandem.trace(module.copy, tandem.Spec((4, 4))).text()
