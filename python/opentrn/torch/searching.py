"""searchsorted: halving the range, once for every bit of its length, all numbers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _searchsorted(
    boundaries: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many boundaries of its row are below each value, or not above it from the right; int64 unless asked."""
    right = right or side == "right"
    kind = torch.int32 if out_int32 else torch.int64
    size = boundaries.shape[-1]
    if not values.numel() or not size:
        return torch.zeros(values.shape, dtype=kind, device=values.device)
    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    given = values.reshape((1,)) if not values.dim() else values
    wide = torch.result_type(boundaries, given)
    table, given = boundaries.to(wide), given.to(wide)
    low = torch.zeros(given.shape, dtype=torch.int64, device=values.device)
    high = torch.full_like(low, size)
    for _ in range(size.bit_length()):
        middle = (low + high) // 2
        place = middle.clamp(max=size - 1)
        at = table[place] if table.dim() == 1 else table.gather(-1, place)
        # As torch's: a comparison with NaN goes right.
        is_after = (low < high) & ~(at > given if right else at >= given)
        low, high = torch.where(is_after, middle + 1, low), torch.where(is_after, high, middle)
    return low.reshape(values.shape).to(kind)


def _of_number(boundaries: Tensor, value: complex, **options: Any) -> Tensor:
    kind = boundaries.dtype
    if isinstance(value, float) and not kind.is_floating_point:
        kind = torch.get_default_dtype()
    return _searchsorted(boundaries, torch.full((), value, dtype=kind), **options)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.searchsorted.Tensor: _searchsorted,
    aten.searchsorted.Scalar: _of_number,
    aten.bucketize.Tensor: lambda values, boundaries, **options: _searchsorted(boundaries, values, **options),
    aten.bucketize.Scalar: lambda value, boundaries, **options: _of_number(boundaries, value, **options),
}
