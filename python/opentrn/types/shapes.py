"""Shapes: of tensors without values, of slices with a run-time start, and sizes that follow from others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opentrn.errors import require
from opentrn.types import dtypes


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


@dataclass
class DynamicSlice:
    """`nl.ds(start, size)`: elements start .. start+size-1; start may be a register."""

    start: Any
    size: Any


def infer_sizes(shape: Sequence[int], total: int) -> list[int]:
    """Sizes with one -1 replaced so that the product is `total`. NkiValidationError where there is no such size."""
    sizes = [int(s) for s in shape]
    if -1 in sizes:
        require(sizes.count(-1) == 1, f"{tuple(shape)} holds more than one -1", "nki.shape")
        known = -math.prod(sizes)
        require(known > 0 and total % known == 0, f"{total} elements do not split into {tuple(shape)}", "nki.shape")
        sizes[sizes.index(-1)] = total // known
    require(math.prod(sizes) == total, f"{total} elements do not fill {tuple(shape)}", "nki.shape")
    return sizes
