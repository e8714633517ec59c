"""`neuronxcc.nki.typing`: annotations of kernels. `tensor[128, 512]` names a shape."""

from __future__ import annotations

from typing import Any


class tensor:
    """Annotation of a tensor, optionally with its shape. Not checked."""

    shape: tuple[int, ...] = ()

    def __class_getitem__(cls, shape: Any) -> type:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return type("tensor", (cls,), {"shape": sizes})


mutable_tensor = tensor
scalar = int
