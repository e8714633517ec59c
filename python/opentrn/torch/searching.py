"""searchsorted: halving the range, once for every bit of its length, all numbers at once. nonzero_static."""

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
    return _searchsorted(boundaries, torch.full((), value, dtype=kind, device=boundaries.device), **options)


def _nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Indices of the first `size` elements that are not zero, one a row; then rows of fill_value."""
    if not x.dim() or not x.numel() or not size:
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    is_found = (x != 0).reshape(-1)
    rank = is_found.to(torch.int32).cumsum(0, dtype=torch.int32)
    # Those that are not asked for go to a row that is cut off.
    row = torch.where(is_found & (rank <= size), rank - 1, size).to(torch.int64)
    place = torch.zeros(size + 1, dtype=torch.int64, device=x.device)
    place = place.scatter(0, row, torch.arange(x.numel(), device=x.device))[:size]
    columns = []
    for length in reversed(x.shape):
        columns.append(place % length)
        place = place // length
    has_row = torch.arange(size, device=x.device) < rank[-1]
    return torch.where(has_row[:, None], torch.stack(columns[::-1], 1), fill_value)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.nonzero_static.default: _nonzero_static,
    aten.searchsorted.Tensor: _searchsorted,
    aten.searchsorted.Scalar: _of_number,
    aten.bucketize.Tensor: lambda values, boundaries, **options: _searchsorted(boundaries, values, **options),
    aten.bucketize.Scalar: lambda value, boundaries, **options: _of_number(boundaries, value, **options),
}
