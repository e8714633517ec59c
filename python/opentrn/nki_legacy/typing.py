"""`neuronxcc.nki.typing`: annotations of kernels. `tensor[128, 512]` names a shape."""

from __future__ import annotations

from typing import Any


class tensor:
    """Annotation of a tensor, optionally with its shape. Not checked.

    With shape and dtype, tensor[[128, 512], dtype], it may stand for an argument of a kernel whose values do not
    matter: zeros.
    """

    shape: tuple[int, ...] = ()
    dtype: Any = None

    def __class_getitem__(cls, item: Any) -> type:
        shape, dtype = item, None
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (list, tuple)):
            shape, dtype = item
        sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
        return type("tensor", (cls,), {"shape": sizes, "dtype": dtype})


mutable_tensor = tensor
scalar = int
