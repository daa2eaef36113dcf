"""What kernels rely on besides operators."""

import dataclasses
import enum
import inspect
import subprocess
import sys
import typing

import nki
import nki.isa as nisa
import nki.isa.constants
import nki.language as nl
import nki.typing as nt
import numpy as np
import pytest
from nki.isa.constants import dge_mode

import tandem


def in_kernel(body, *inputs, grid=None):
    """What `body` returns inside a kernel."""
    box = []

    def kernel(x):
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        box.append(body())
        return out

    tandem.trace(kernel, np.zeros((4, 4), np.float32), grid=grid)
    return box[0] if len(box) == 1 else box


class Kind(enum.Enum):
    A = 1


def test_objects_take_missing_arguments():
    @dataclasses.dataclass
    class Section(nl.NKIObject):
        a = None
        b = 3
        kind = Kind.A

    s = Section(a=1)
    assert (s.a, s.b, s.kind) == (1, 3, Kind.A)

    class Plain(nl.NKIObject):
        x: int
        y: int = 2

    assert (Plain(5).x, Plain(5).y, Plain(y=7).x) == (5, 2, None)

    @dataclasses.dataclass
    class Declared(nl.NKIObject):
        x: int
        y: typing.Optional[int] = 4

        def __post_init__(self):
            self.z = self.y

    assert (Declared().x, Declared(1).z) == (None, 4)

    class Own(nl.NKIObject):
        limit = 9

        def __init__(self, x):
            self.x = x

        def twice(self):
            return 2 * self.x

    assert Own(4).twice() == 8 and Own(4).limit == 9


def test_names_and_enumerations():
    assert nisa.dge_mode is nki.isa.constants.dge_mode is dge_mode
    assert nisa.vector_engine is nisa.engine.vector
    assert nisa.get_nc_version() >= nisa.nc_version.gen3 and nisa.get_nc_version() >= 3
    assert nl.bfloat16 == "bfloat16" and str(nl.float8_e4m3) == "float8_e4m3"
    assert nl.sbuf == "sbuf" and f"{nl.psum}" == "psum"
    assert np.zeros(2).astype(nl.bfloat16).dtype.name == "bfloat16"
    assert (nl.tile_size.pmax, nl.tile_size.psum_fmax, nl.tile_size.gemm_moving_fmax) == (128, 512, 512)
    assert nl.tile_size.total_available_sbuf_size == 212984


def test_target_of_the_environment(monkeypatch):
    monkeypatch.setenv("NKI_NC_VERSION", "gen4")
    assert nisa.get_nc_version() is nisa.nc_version.gen4
    assert nl.tile_size.total_available_sbuf_size == 245752
    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    assert nl.tile_size.total_available_sbuf_size == 180224


def test_ndarray_is_a_class_and_a_call():
    def f(x: nl.ndarray, y: nl.ndarray | None = None) -> list[nl.ndarray]: ...

    assert typing.get_type_hints(f)["x"] is nl.ndarray
    assert nt.tensor is nt.mutable_tensor is nl.ndarray

    def body():
        t = nl.ndarray((4, 8), nl.float32)
        assert isinstance(t, nl.ndarray) and isinstance(t[0:2], nl.ndarray) and not isinstance(3, nl.ndarray)
        return t.shape, t.dtype, t.buffer == nl.sbuf, t.buffer is nl.sbuf, t.ndim

    assert in_kernel(body) == ((4, 8), "float32", True, True, 2)


def test_programs():
    three = lambda: (nl.program_id(0), nl.num_programs(), nl.program_ndim())  # noqa: E731
    assert in_kernel(three) == (0, 1, 0)
    assert in_kernel(three, grid=1) == (0, 1, 1)
    assert in_kernel(three, grid=2) == [(0, 2, 1), (1, 2, 1)]
    assert in_kernel(lambda: nl.num_programs(axes=(0))) == 1


def test_ranges_unroll():
    assert in_kernel(lambda: [*nl.affine_range(3), *nl.sequential_range(1, 3), *nl.static_range(0, 6, 3)]) == [
        0, 1, 2, 1, 2, 0, 3,
    ]  # fmt: skip


def test_kernels_call_kernels():
    @nki.jit
    def inner(t):
        """Doc."""
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        return t

    @nki.jit(mode="trace")
    def outer(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, inner(nki.jit(inner)(nl.load(x))))
        return out

    x = np.ones((4, 4), np.float32)
    assert np.array_equal(tandem.simulate(outer)(x), x + 2)
    assert np.array_equal(outer(x), x + 2)
    assert inner.__name__ == "inner" and inner.__doc__ == "Doc." and inner.__wrapped__ is inner.function
    assert list(inspect.signature(inner).parameters) == ["t"]
    assert list(inspect.signature(nisa.tensor_copy).parameters) == ["dst", "src", "engine", "name"]


def test_arguments_with_arrays_inside():
    @dataclasses.dataclass
    class Config:
        weight: np.ndarray
        scale: float

    def kernel(pair, config, n=2):
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        t, w = nl.load(pair[1]), nl.load(config.weight)
        nisa.tensor_scalar(t, t, nl.multiply, config.scale * n)
        nisa.tensor_tensor(t, t, w, nl.add)
        nl.store(out, t)
        return out

    a, b, w = (np.random.rand(4, 4).astype("f4") for _ in range(3))
    traced = tandem.trace(kernel, (a, b), Config(w, 3.0))
    assert list(traced.inputs) == ["pair_0", "pair_1", "config.weight"]
    assert np.allclose(traced.run()[0], b * 6 + w)


def test_names_of_tensors_and_statements():
    def kernel(x):
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        a, b = nl.ndarray((4, 4), nl.float32, name="t"), nl.ndarray((4, 4), nl.float32, name="t")
        nisa.dma_copy(a, x, name="step")
        nisa.tensor_copy(b, a, name="step")
        nl.store(out, b)
        return out

    text = tandem.trace(kernel, np.zeros((4, 4), np.float32)).text()
    assert "step = ncDmaCopy dst=t[" in text and "step#2 = ncCopy dst=t#2[" in text


def test_accumulate_agrees_with_the_automatic_rule():
    def kernel(a, b):
        out = nl.ndarray((4, 8), nl.float32, buffer=nl.shared_hbm)
        at, bt, t = nl.load(a), nl.load(b), nl.ndarray((4, 8), nl.float32)
        acc = nl.ndarray((4, 8), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, at, bt, accumulate=False)
        nisa.nc_matmul(acc, at, bt, accumulate=True)
        nisa.tensor_copy(t, acc)
        nisa.nc_matmul(acc, at, bt, accumulate=False)
        nl.store(out, t)
        return out

    a, b = np.random.rand(16, 4).astype("f4"), np.random.rand(16, 8).astype("f4")
    assert np.allclose(tandem.simulate(kernel)(a, b), 2 * a.T @ b, atol=1e-5)


def test_report_prints_and_renders():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    traced = tandem.trace(kernel, np.zeros((4, 4), np.float32))
    assert str(traced.check()) == "clean" and traced.check().ok
    assert "<table>" in traced._repr_html_()
    assert repr(traced).startswith("<traced test_language.")


@pytest.mark.parametrize("real", [False, True])
def test_install_keeps_away_from_the_real_package(real, tmp_path):
    (tmp_path / "nki.py").write_text("real = True\n")
    code = "import tandem.nki\ntandem.nki.install()\nimport nki.isa, nki\nassert nki.isa is tandem.nki.isa\n"
    env = {"PYTHONPATH": str(tmp_path)} if real else {}
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, cwd=tmp_path.parent
    )
    assert (done.returncode == 0) is not real, done.stderr
    if real:
        assert "stay out of its way" in done.stderr


def test_never_installed_by_default():
    code = "import tandem, sys; assert 'nki' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tensor_is_true():
    """Kernels ask `if scale:` of an argument that may be None; values are not looked at."""

    def scaled(x, scale=None):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        if scale:
            factor = nl.ndarray((4, 1), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=factor, src=scale)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x, zero = np.full((4, 8), 3, np.float32), np.zeros((4, 1), np.float32)
    assert (tandem.simulate(scaled)(x) == 3).all()
    assert (tandem.simulate(scaled)(x, zero) == 0).all()


@pytest.mark.parametrize("level", ["bir", "lowered", "linked", "bundles"])
def test_a_new_tensor_in_a_psum_bank_starts_anew(level):
    """What another tensor left there unread is not added to: the bytes were given back."""

    def kernel(x):
        out = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
        u, t = nl.ndarray((32, 32), nl.float32), nl.ndarray((32, 32), nl.float32)
        nisa.dma_copy(dst=u, src=x)
        for _ in range(3):
            acc = nl.ndarray((32, 64), nl.float32, buffer=nl.psum, address=(0, 0))
            for half in (0, 32):
                for _ in range(2):
                    nisa.nc_matmul(dst=acc[:, half : half + 32], stationary=u, moving=u)
            nisa.tensor_copy(dst=t, src=acc[:, 0:32])  # the other half stays unread
        acc = nl.ndarray((32, 64), nl.float32, buffer=nl.psum, address=(0, 0))
        for _ in range(2):
            nisa.nc_matmul(dst=acc[:, 32:64], stationary=u, moving=u)
        nisa.tensor_copy(dst=u, src=acc[:, 32:64])
        nisa.tensor_tensor(dst=u, data1=u, data2=t, op=nl.add)
        nisa.dma_copy(dst=out, src=u)
        return out

    x = np.random.default_rng(3).integers(-4, 5, (32, 32)).astype(np.float32)
    got = tandem.trace(kernel, x).run(x, level=level)[0]
    assert (got == 4 * (x.T @ x)).all()


@pytest.mark.parametrize("value", [7, 7.0])
def test_whole_numbers_fill_integers(value):
    def kernel(x):
        out = nl.ndarray((4, 4), nl.uint32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 4), nl.uint32)
        nisa.memset(dst=tile, value=value)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.zeros((4, 4), np.uint32)
    assert (tandem.trace(kernel, x).run(x)[0] == 7).all()


def test_fractions_do_not_fill_integers():
    def kernel(x):
        nisa.memset(dst=nl.ndarray((4, 4), nl.uint32), value=0.5)
        return x

    with pytest.raises(tandem.TandemError) as e:
        tandem.trace(kernel, np.zeros((4, 4), np.uint32))
    assert e.value.code == "T0002"
