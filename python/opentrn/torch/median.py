"""Ops that torch has no decomposition for: medians and modes, by sorting, the gradient of weight normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _place(x: Tensor, ignores_nan: bool) -> Tensor:
    """Where the median is in the sorted last axis, in which NaN comes last: the lower one of two."""
    size = x.shape[-1]
    middle = torch.full(x.shape[:-1], (size - 1) // 2, dtype=torch.int64, device=x.device)
    if not x.is_floating_point():
        return middle
    count = (~x.isnan()).sum(-1)
    if ignores_nan:
        return ((count - 1) // 2).clamp(min=0)
    return torch.where(count == size, middle, size - 1)


def _along(x: Tensor, dim: int, keepdim: bool, ignores_nan: bool) -> tuple[Tensor, Tensor]:
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    moved = x.movedim(dim, -1)
    values, places = moved.sort(dim=-1, stable=True)
    place = _place(moved, ignores_nan).unsqueeze(-1)
    found = [each.gather(-1, place).movedim(-1, dim) for each in (values, places)]
    value, index = found if keepdim else [each.squeeze(dim) for each in found]
    return value, index


def _median(x: Tensor, ignores_nan: bool) -> Tensor:
    if not x.numel():
        return torch.full((), float("nan"), dtype=x.dtype, device=x.device)
    return _along(x.reshape(-1), 0, False, ignores_nan)[0]


def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent values, and the last place where it is. No two NaN are equal."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, places = x.movedim(dim, -1).sort(dim=-1, stable=True)
    place = torch.arange(values.shape[-1], dtype=torch.int32, device=x.device).expand(values.shape)
    repeats = values[..., 1:] == values[..., :-1]
    begins = torch.where(torch.nn.functional.pad(repeats, (1, 0)), 0, place).cummax(-1).values
    last = (place - begins).argmax(-1, keepdim=True)  # of the first of the longest runs
    found = [each.gather(-1, last).movedim(-1, dim) for each in (values, places)]
    value, index = found if keepdim else [each.squeeze(dim) for each in found]
    return value, index


def _weight_norm_backward(
    gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Of w = g v / |v|, where |v| is taken over all axes but `dim`, the first or the last."""
    axes = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    shape = [v.shape[axis] if axis not in axes else 1 for axis in range(v.dim())]
    norms = norms.reshape(shape).to(gradient.dtype)
    along = (gradient * v).sum(axes, keepdim=True)
    to_v = (g.reshape(shape) / norms) * (gradient - v * (along / (norms * norms)))
    return to_v, (along / norms).reshape(g.shape)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.median.default: lambda x: _median(x, False),
    aten.nanmedian.default: lambda x: _median(x, True),
    aten.median.dim: lambda x, dim, keepdim=False: _along(x, dim, keepdim, False),
    aten.nanmedian.dim: lambda x, dim, keepdim=False: _along(x, dim, keepdim, True),
    aten.mode.default: _mode,
    aten._weight_norm_interface_backward.default: _weight_norm_backward,
}
