"""Stand-in for `neuronxcc.nki.typing`: the annotations of nki.typing."""

from opentrn.nki.typing import mutable_tensor, scalar, tensor

__all__ = ["mutable_tensor", "scalar", "tensor"]
