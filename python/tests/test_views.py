"""Views against numpy: the same elements in the same order, and no copy where numpy makes none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tandem import TraceError
from tandem._core import Body, ds

SIZES = {"uint8": 1, "uint16": 2, "uint32": 4, "float32": 4, "bfloat16": 2}


def tensor(shape, region="hbm", dtype="float32"):
    return Body(0).tensor("t", list(shape), dtype, region, region)


def storage(shape, dtype="uint32"):
    n = int(np.prod(shape))
    return np.arange(n, dtype=dtype)


def elements(view, flat):
    """The view's elements by its own offset, strides and shape, read with numpy."""
    pattern = view.get_pattern()
    size = flat.itemsize
    shape, strides = [n for _, n in pattern], [s * size for s, _ in pattern]
    return as_strided(flat[view.offset :], shape, strides)


shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@st.composite
def shape_and_index(draw):
    shape = draw(shapes)
    index = []
    head = draw(st.integers(0, len(shape)))
    tail = draw(st.integers(0, len(shape) - head)) if draw(st.booleans()) else None
    for n in shape[:head] + (["..."] + shape[len(shape) - tail :] if tail is not None else []):
        if n == "...":
            index.append(Ellipsis)
            continue
        kind = draw(st.sampled_from(["int", "slice", "step"]))
        if kind == "int":
            index.append(draw(st.integers(-n, n - 1)))
        else:
            a = draw(st.integers(-n, n - 1)) if draw(st.booleans()) else None
            b = draw(st.integers(-n, n + 2)) if draw(st.booleans()) else None
            step = None if kind == "slice" else draw(st.sampled_from([1, 2, 3, -1, -2]))
            index.append(slice(a, b, step))
    return shape, tuple(index)


@settings(max_examples=400, deadline=None)
@given(shape_and_index())
def test_index_in_memory(case):
    shape, index = case
    flat = storage(shape)
    want = flat.reshape(shape)[index]
    got = tensor(shape)[index]
    if want.size == 0:
        return
    assert np.array_equal(elements(got, flat).reshape(want.shape), want)
    # A number drops its dimension; the last one stays when nothing would be left.
    assert tuple(got.shape) == (want.shape or (1,))


@settings(max_examples=300, deadline=None)
@given(shape_and_index())
def test_index_on_chip(case):
    shape, index = case
    if len(shape) < 2:
        return
    flat = storage(shape)
    want = flat.reshape(shape)[index]
    got = tensor(shape, "sbuf")[index]
    if want.size == 0:
        return
    assert np.array_equal(elements(got, flat).ravel(), want.ravel())
    assert got.ndim >= 2
    first = index[0] if index and index[0] is not Ellipsis else None
    if isinstance(first, int):
        assert got.shape[0] == 1


@settings(max_examples=400, deadline=None)
@given(shape_and_index(), st.data())
def test_reshape_copies_never(case, data):
    shape, index = case
    flat = storage(shape)
    part = flat.reshape(shape)[index]
    view = tensor(shape)[index]
    if part.size == 0 or part.ndim == 0:
        return
    n, new = part.size, []
    while n > 1:
        f = data.draw(st.sampled_from([d for d in range(2, n + 1) if n % d == 0]))
        new.append(f)
        n //= f
    for _ in range(data.draw(st.integers(0, 1))):
        new.insert(data.draw(st.integers(0, len(new))), 1)
    new = tuple(new) or (1,)
    want = part.reshape(new)
    if np.shares_memory(want, flat):
        assert np.array_equal(elements(view.reshape(new), flat), want)
        assert tuple(view.reshape(*new).shape) == new
    else:
        with pytest.raises(TraceError, match="contiguous"):
            view.reshape(new)


def test_reshape_on_chip_keeps_partitions():
    t = tensor((4, 6, 5), "sbuf")
    flat = storage((4, 6, 5))
    assert np.array_equal(elements(t.reshape(4, 30), flat), flat.reshape(4, 30))
    assert np.array_equal(elements(t.reshape((4, -1, 2)), flat), flat.reshape(4, -1, 2))
    with pytest.raises(TraceError, match="dimension 0"):
        t.reshape(24, 5)
    with pytest.raises(TraceError, match="elements"):
        t.reshape(4, 31)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=4), st.integers(0, 9))
def test_access_pattern(pairs, offset):
    flat = storage((4096,))
    v = tensor((4096,)).ap([list(p) for p in pairs], offset=offset)
    want = as_strided(flat[offset:], [n for _, n in pairs], [s * 4 for s, _ in pairs])
    assert np.array_equal(elements(v, flat), want)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(SIZES)), st.sampled_from(sorted(SIZES)), st.integers(1, 3), st.integers(1, 4))
def test_dtype_view(old, new, rows, blocks):
    shape = (rows, blocks * 4)
    raw = np.arange(rows * blocks * 4 * SIZES[old], dtype="uint8")
    have, want = np.dtype(f"u{SIZES[old]}"), np.dtype(f"u{SIZES[new]}")
    t = tensor(shape, dtype=old)
    v = t.view(new)
    assert v.dtype == new
    assert np.array_equal(elements(v, raw.view(want)), raw.view(have).reshape(shape).view(want))
    # Of a part: offset and strides scale too, or it is refused.
    part, ref = t[:, 2:], raw.view(have).reshape(shape)[:, 2:]
    try:
        got = part.view(new)
    except TraceError:
        assert (2 * SIZES[old]) % SIZES[new] or (shape[1] - 2) * SIZES[old] % SIZES[new]
    else:
        assert np.array_equal(elements(got, raw.view(want)), np.ascontiguousarray(ref).view(want))


def test_named_views():
    shape = (3, 4, 5)
    flat = storage(shape)
    a, t = flat.reshape(shape), tensor(shape)
    same = lambda v, w: np.array_equal(elements(v, flat), w)  # noqa: E731
    assert same(t.permute((2, 0, 1)), a.transpose(2, 0, 1))
    assert same(t.slice(1, 1, 4, 2), a[:, 1:4:2])
    assert same(t.select(1, 2), a[:, 2])
    assert same(t.expand_dim(1), a[:, None])
    assert same(t.expand_dim(-1), a[..., None])
    assert same(t.expand_dim(1).squeeze_dim(1), a)
    assert same(t.expand_dim(1).broadcast(1, 7), np.broadcast_to(a[:, None], (3, 7, 4, 5)))
    assert same(t.flatten_dims(1, 2), a.reshape(3, 20))
    assert same(t.reshape_dim(2, (5, 1)), a.reshape(3, 4, 5, 1))
    assert same(t[None], a[None])
    assert same(t[:, ds(1, 2)], a[:, 1:3])
    assert t.strides == (20, 5, 1)
    assert t.size == 60 and t.ndim == 3


@pytest.mark.parametrize(
    "index, error",
    [
        ((4,), IndexError),
        ((slice(9, None),), IndexError),
        ((0, 0, 0), IndexError),
        ((ds(2, 3),), IndexError),
        (("x",), TypeError),
        ((1.5,), TypeError),
    ],
)
def test_bad_index(index, error):
    with pytest.raises(error):
        tensor((4, 5))[index]


def test_no_values_while_tracing():
    t = tensor((4, 5))
    for f in (float, iter):
        with pytest.raises(TypeError):
            f(t)
    assert t  # there is one; what it holds is not looked at
    with pytest.raises(TraceError, match="tensor_copy"):
        t[0] = 1


def test_access_pattern_of_a_part():
    part = tensor((4, 8))[1:, 2:]
    assert part.ap([[8, 3], [1, 2]]).offset == 10
    with pytest.raises(TraceError, match="no offset"):
        part.ap([[8, 3], [1, 2]], offset=3)


@st.composite
def part_of_chip(draw):
    shape = draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    index = []
    for k, n in enumerate(shape):
        a = draw(st.integers(0, n - 1))
        index.append(slice(a, draw(st.integers(a + 1, n)), 1 if k == 0 else draw(st.sampled_from([1, 1, 2, 3]))))
    return shape, tuple(index)


@settings(max_examples=600, deadline=None)
@given(part_of_chip(), st.data())
def test_access_pattern_in_the_elements_of_a_part(case, data):
    """A first step that is the part's own number of elements per partition: the pattern counts the part's elements."""
    shape, index = case
    flat = storage(shape)
    part, view = flat.reshape(shape)[index], tensor(shape, "sbuf")[index]
    own = int(np.prod(part.shape[1:]))
    if own % int(np.prod(shape[1:])) == 0:
        return  # the number of the storage too
    row = data.draw(st.integers(0, part.shape[0] - 1))
    left = column = data.draw(st.integers(0, own - 1))
    pairs = [[own, data.draw(st.integers(1, part.shape[0] - row))]]
    for _ in range(data.draw(st.integers(1, 3))):
        step = data.draw(st.integers(0, 4))
        n = data.draw(st.integers(1, 4 if step == 0 else 1 + (own - 1 - left) // step))
        left += step * (n - 1)
        pairs.append([step, n])
    offset = row * own + column
    if np.shares_memory(part.reshape(part.shape[0], own), flat):
        values = part.flatten()
        want = as_strided(values[offset:], [n for _, n in pairs], [s * 4 for s, _ in pairs])
        assert np.array_equal(elements(view.ap(pairs, offset=offset), flat), want)
    else:
        with pytest.raises(TraceError, match="evenly"):
            view.ap(pairs, offset=offset)


def test_access_pattern_leaves_no_part():
    half = tensor((4, 8), "sbuf")[1:3, 4:]
    assert half.ap([[4, 2], [1, 4]], offset=0).get_pattern() == [(8, 2), (1, 4)]
    assert half.ap([[4, 2], [1, 4]]).offset == 12
    assert half.ap([[4, 1], [1, 2]], offset=6).offset == 8 * 2 + 4 + 2
    for pairs, offset in [([[4, 2], [1, 5]], 0), ([[4, 2], [1, 4]], 1), ([[4, 3], [1, 4]], 0), ([[4, 2], [1, 4]], 4)]:
        with pytest.raises(TraceError, match="touches"):
            half.ap(pairs, offset=offset)
    # The storage's own number addresses the storage.
    assert half.ap([[8, 2], [1, 4]]).get_pattern() == [(8, 2), (1, 4)]
    with pytest.raises(TraceError, match="no offset"):
        half.ap([[8, 2], [1, 4]], offset=3)


def test_access_pattern_of_a_part_in_another_type():
    half = tensor((4, 8), "sbuf", "uint32")[:, 4:]
    view = half.ap([[8, 4], [1, 8]], dtype="uint16")
    assert (view.get_pattern(), view.offset) == ([(16, 4), (1, 8)], 8)
    with pytest.raises(TraceError, match="evenly"):
        tensor((4, 8), "sbuf", "uint32")[:, ::2].ap([[8, 4], [1, 8]], dtype="uint16")
