"""The shape and dtype of a tensor without its values, for runs that only predict time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opentrn import dtypes


@dataclass(frozen=True)
class ShapeOf:
    """A tensor of `shape` and `dtype` ("bfloat16", "float32", ...) whose values do not matter."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "dtype", str(dtypes.dtype_of(self.dtype)))

    def zeros(self) -> np.ndarray:
        """Zeros of that shape. The operating system provides pages only once they are written."""
        return np.zeros(self.shape, dtypes.to_numpy_dtype(self.dtype))
