"""`nki.typing`: names for annotations."""

from .language import NkiTensor, ndarray

tensor = ndarray
mutable_tensor = ndarray

__all__ = ["NkiTensor", "mutable_tensor", "ndarray", "tensor"]
