"""adaptive_max_pool2d and 3d: every window written out by a gather at places that are known, then one maximum.

Windows of an axis differ in length by one at most; shorter ones repeat their last element, which changes no maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def _places(size: int, windows: int, device: torch.device) -> torch.Tensor:
    """(windows, longest): where the elements of each window lie."""
    longest = max(-(-(i + 1) * size // windows) - i * size // windows for i in range(windows))
    number = torch.arange(windows, device=device)[:, None]
    last = ((number + 1) * size + windows - 1) // windows - 1
    return torch.minimum(number * size // windows + torch.arange(longest, device=device), last)


def _forward(value: torch.Tensor, output_size: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    count = len(output_size)
    lead, space = value.shape[: value.dim() - count], value.shape[value.dim() - count :]
    if not value.numel() or not math.prod(output_size):
        shape = [*lead, *output_size]
        return value.new_zeros(shape), torch.zeros(shape, dtype=torch.int64, device=value.device)
    places = [_places(*sizes, value.device) for sizes in zip(space, output_size)]
    windows = value
    for axis, place in enumerate(places):  # (..., out, longest, ...) at each axis in turn
        at = len(lead) + 2 * axis
        windows = windows.index_select(at, place.reshape(-1)).unflatten(at, list(place.shape))
    outer = [len(lead) + 2 * axis for axis in range(count)]
    inner = [axis + 1 for axis in outer]
    windows = windows.permute(*range(len(lead)), *outer, *inner).flatten(len(lead) + count)
    plane = torch.zeros([1] * (2 * count), dtype=torch.int64, device=value.device)
    for axis, place in enumerate(places):
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = place.shape
        plane = plane + place.reshape(shape) * math.prod(space[axis + 1 :])
    best, number = windows.max(-1)
    plane = plane.flatten(count).expand(windows.shape)
    return best, plane.gather(-1, number.unsqueeze(-1)).squeeze(-1)


def _backward(grad: torch.Tensor, value: torch.Tensor, indices: torch.Tensor, count: int) -> torch.Tensor:
    lead = value.dim() - count
    if not value.numel() or not grad.numel():
        return torch.zeros_like(value)
    flat = torch.zeros_like(value).flatten(lead)
    return flat.scatter_add(-1, indices.flatten(lead), grad.flatten(lead)).reshape(value.shape)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.adaptive_max_pool2d.default: _forward,
    aten.adaptive_max_pool3d.default: _forward,
    aten.adaptive_max_pool2d_backward.default: lambda grad, value, indices: _backward(
        grad, value, indices, 2
    ),
    aten.adaptive_max_pool3d_backward.default: lambda grad, value, indices: _backward(
        grad, value, indices, 3
    ),
}
