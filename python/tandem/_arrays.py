"""Arrays of numpy and torch as bytes, and back."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np

from ._dtypes import dtype_name

__all__ = ["Spec", "is_array", "numpy_dtype", "spec_of"]


@dataclasses.dataclass(frozen=True)
class Spec:
    """Shape and element type of an input whose values are given later, or never."""

    shape: tuple
    dtype: str = "float32"

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        name = dtype_name(self.dtype)
        if name is None:
            raise TypeError(f"no element type of a kernel: {self.dtype!r}")
        object.__setattr__(self, "dtype", name)


def is_torch(x):
    """Whether a value is a tensor of torch, which is never imported here."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")


def is_array(x):
    """Whether a value becomes an input of the kernel."""
    return isinstance(x, (np.ndarray, Spec)) or is_torch(x)


_NAMED = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
    if hasattr(ml_dtypes, name)
}


def numpy_dtype(name):
    """numpy's type for an element type; packed types and tf32 travel as plain bits."""
    if name in _NAMED:
        return _NAMED[name]
    return np.dtype({"tfloat32": "float32", "float8_e5m2_x4": "uint32", "float8_e4m3fn_x4": "uint32"}.get(
        name, "uint16" if name == "float4_e2m1fn_x4" else name
    ))


def to_numpy(x):
    """The values of an array as a contiguous numpy array."""
    if is_torch(x):
        x = x.detach().cpu()
        if str(x.dtype) in _TORCH_BITS:
            import torch

            name = str(x.dtype).removeprefix("torch.")
            bits = torch.int16 if x.element_size() == 2 else torch.uint8
            return x.contiguous().view(bits).numpy().view(numpy_dtype(name))
        return np.ascontiguousarray(x.numpy())
    return np.ascontiguousarray(x)


_TORCH_BITS = {"torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2"}


def _writable(array):
    """The array itself if it may be written and is contiguous."""
    return np.require(array, requirements=("C", "W"))


def to_torch(array):
    """A numpy array as a torch tensor of the same element type; they share their memory where that may be written."""
    import torch

    name = dtype_name(array.dtype)
    if f"torch.{name}" in _TORCH_BITS:
        bits = np.int16 if array.dtype.itemsize == 2 else np.uint8
        return torch.from_numpy(_writable(array).view(bits)).view(getattr(torch, name))
    return torch.from_numpy(_writable(array))


def bits_of(array):
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8)


def same_bits(a, b):
    """Whether two contiguous arrays hold the same bytes, compared piece by piece."""
    a, b = bits_of(a), bits_of(b)
    step = 1 << 24
    return a.size == b.size and all(np.array_equal(a[i : i + step], b[i : i + step]) for i in range(0, a.size, step))


def spec_of(x):
    """Shape and element type of an array."""
    if isinstance(x, Spec):
        return x
    name = dtype_name(x.dtype)
    if name is None:
        raise TypeError(f"no element type of a kernel: {x.dtype}")
    return Spec(tuple(x.shape), name)


def store_back(target, values):
    """Writes new values into an array given by the caller."""
    if is_torch(target):
        target.copy_(to_torch(values).reshape(target.shape))
    else:
        target[...] = values.reshape(target.shape)
