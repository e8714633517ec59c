"""Fractional max pooling: windows whose places a random number of each plane and axis spreads over the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _starts(sample: Tensor, size: int, window: int, count: int) -> Tensor:
    """[planes, count]: where the windows of an axis begin. sample: [planes], in [0, 1)."""
    last = torch.full((*sample.shape, 1), size - window, dtype=torch.int64, device=sample.device)
    if count == 1:
        return last
    step = (size - window) / (count - 1)
    number = torch.arange(count - 1, dtype=sample.dtype, device=sample.device)
    first = (sample * step).to(torch.int64).unsqueeze(-1)
    between = ((number + sample.unsqueeze(-1)) * step).to(torch.int64) - first
    return torch.cat([between, last], -1)


def _pooled(x: Tensor, window: Sequence[int], count: Sequence[int], samples: Tensor) -> tuple[Tensor, Tensor]:
    axes = len(window)
    sizes = x.shape[-axes:]
    planes = x.shape[:-axes]
    flat = x.reshape(-1, *sizes)
    # The last axis takes the first number.
    drawn = samples[: planes[0]] if len(planes) == 2 else samples[:1]
    drawn = drawn.reshape(-1, axes).flip(-1)
    place = torch.zeros((flat.shape[0], *[1] * (2 * axes)), dtype=torch.int64, device=x.device)
    for axis, (size, wide, many) in enumerate(zip(sizes, window, count)):
        starts = _starts(drawn[:, axis], size, wide, many)
        inside = torch.arange(wide, device=x.device)
        along = starts.unsqueeze(-1) + inside  # [planes, many, wide]
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = many, wide
        place = place * size + along.reshape(-1, *shape)
    rows = place.reshape(flat.shape[0], *count, -1)
    found = flat.reshape(flat.shape[0], -1).gather(1, rows.reshape(flat.shape[0], -1)).reshape(rows.shape)
    # As torch's kernels: a later NaN wins over any number, an equal number does not.
    ranked = torch.where(found.isnan(), float("inf"), found)
    which = ranked.argmax(-1, keepdim=True)
    last = found.shape[-1] - 1 - found.isnan().to(torch.int32).flip(-1).argmax(-1, keepdim=True)
    which = torch.where(found.isnan().any(-1, keepdim=True), last, which)
    result = (*planes, *count)
    return found.gather(-1, which).reshape(result), rows.gather(-1, which).reshape(result)


def _spread(gradient: Tensor, x: Tensor, indices: Tensor, axes: int) -> Tensor:
    planes = x.shape[:-axes]
    count = int(torch.Size(planes).numel())
    into = torch.zeros((count, x.numel() // max(count, 1)), dtype=gradient.dtype, device=x.device)
    made = into.scatter_add(1, indices.reshape(count, -1), gradient.reshape(count, -1))
    return made.reshape(x.shape)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.fractional_max_pool2d.default: _pooled, aten.fractional_max_pool3d.default: _pooled,
    aten.fractional_max_pool2d_backward.default:
        lambda gradient, x, window, count, indices: _spread(gradient, x, indices, 2),
    aten.fractional_max_pool3d_backward.default:
        lambda gradient, x, window, count, indices: _spread(gradient, x, indices, 3),
}  # fmt: skip
