"""nki.tensor: the tensor class."""

from opentrn.nki._machine import NkiTensor

Tensor = NkiTensor

__all__ = ["NkiTensor", "Tensor"]
