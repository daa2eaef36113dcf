"""`nki.tensor`: the class of tensors."""

from .language import NkiTensor, ndarray

__all__ = ["NkiTensor", "ndarray"]
