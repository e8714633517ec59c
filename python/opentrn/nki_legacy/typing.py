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
        return type(cls.__name__, (cls,), {"shape": sizes, "dtype": dtype})


class mutable_tensor(tensor):
    """Annotates a parameter that the kernel writes and returns. Without it, releases that are held to the letter refuse
    the write; otherwise every parameter may be written."""


scalar = int
