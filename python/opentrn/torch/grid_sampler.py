"""grid_sampler_3d, and the gradients of grid_sampler_2d and 3d.

A sample is a sum over the taps of its place: along each axis a few elements, each with a weight and the weight's slope.
Numbers of torch's enumerations: interpolation 0 linear, 1 nearest, 2 cubic; padding 0 zeros, 1 border, 2 reflection.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_NEAREST, _CUBIC = 1, 2
_BORDER, _REFLECTION = 1, 2
_A = -0.75  # of the cubic convolution


@dataclass
class Tap:
    """Along one axis, for every sample: the element's place, a float; its weight; the slope of the weight."""

    place: Tensor
    weight: Tensor
    slope: Tensor


def _clipped(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(inside, slope of it)"""
    inside = (place > 0) & (place < size - 1)
    return place.clamp(0, size - 1), inside.to(place.dtype)


def _reflected(place: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Between two mirrors; (place, slope)."""
    span = high - low
    if span <= 0:
        return torch.zeros_like(place), torch.zeros_like(place)
    away = place - low
    sign = torch.where(away < 0, -1.0, 1.0).to(place.dtype)
    away = away.abs()
    turns = (away / span).floor()
    rest = away - turns * span
    is_even = turns.remainder(2) == 0
    return torch.where(is_even, rest, span - rest) + low, torch.where(is_even, sign, -sign)


def _padded(place: Tensor, size: int, padding: int, corners: bool) -> tuple[Tensor, Tensor]:
    """Where an element outside is taken from; (place, slope)."""
    slope = torch.ones_like(place)
    if padding == _REFLECTION:
        ends = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        place, slope = _reflected(place, *ends)
    if padding in (_BORDER, _REFLECTION):
        place, inside = _clipped(place, size)
        slope = slope * inside
    return place, slope


def _near(t: Tensor) -> tuple[Tensor, Tensor]:
    """The cubic's weight at a distance up to 1, and its slope."""
    return ((_A + 2) * t - (_A + 3)) * t * t + 1, (3 * (_A + 2) * t - 2 * (_A + 3)) * t


def _far(t: Tensor) -> tuple[Tensor, Tensor]:
    """At a distance from 1 to 2."""
    return ((_A * t - 5 * _A) * t + 8 * _A) * t - 4 * _A, (3 * _A * t - 10 * _A) * t + 8 * _A


def _cubic_taps(place: Tensor, size: int, padding: int, corners: bool) -> list[Tap]:
    first = place.floor()
    t = place - first
    curves = [(_far(t + 1), 1), (_near(t), 1), (_near(1 - t), -1), (_far(2 - t), -1)]
    return [
        Tap(_padded(first + offset, size, padding, corners)[0], weight, sign * slope)
        for offset, ((weight, slope), sign) in zip((-1, 0, 1, 2), curves)
    ]


def _taps(
    number: Tensor, size: int, interpolation: int, padding: int, corners: bool
) -> tuple[list[Tap], Tensor]:
    """Of an axis of `size` elements, from the grid's numbers in [-1, 1]; and the slope of the place."""
    place = (number + 1) / 2 * (size - 1) if corners else ((number + 1) * size - 1) / 2
    slope = torch.full_like(place, (size - 1) / 2 if corners else size / 2)
    if interpolation == _CUBIC:
        return _cubic_taps(place, size, padding, corners), slope
    place, more = _padded(place, size, padding, corners)
    if interpolation == _NEAREST:
        return [Tap(place.round(), torch.ones_like(place), torch.zeros_like(place))], slope * more
    first = place.floor()
    one = torch.ones_like(place)
    return [Tap(first, first + 1 - place, -one), Tap(first + 1, place - first, one)], slope * more


def _axes(value: Tensor, grid: Tensor, *how: Any) -> tuple[list[list[Tap]], list[Tensor]]:
    """Taps and slopes of every axis, the first axis first: the grid has them the other way round."""
    sizes = value.shape[2:]
    found = [_taps(grid[..., -1 - i].flatten(1), size, *how) for i, size in enumerate(sizes)]
    return [taps for taps, _ in found], [slope for _, slope in found]


def _element(value: Tensor, taps: Sequence[Tap]) -> tuple[Tensor, Tensor]:
    """([batch, samples] flat place of the element of those taps, 1 where there is one and 0 outside)."""
    flat: Any = 0
    exists: Any = True
    for tap, size in zip(taps, value.shape[2:]):
        exists = (tap.place >= 0) & (tap.place <= size - 1) & exists
        flat = flat * size + tap.place.clamp(0, size - 1).to(torch.int64)
    return flat, exists.to(taps[0].weight.dtype)


def _wide(value: Tensor) -> Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def _forward(value: Tensor, grid: Tensor, interpolation: int, padding: int, corners: bool) -> Tensor:
    source, places = _wide(value), _wide(grid)
    axes, _ = _axes(source, places, interpolation, padding, corners)
    samples = source.new_zeros((*source.shape[:2], grid.shape[1:-1].numel()))
    for taps in itertools.product(*axes):
        flat, weight = _element(source, taps)
        for tap in taps:
            weight = weight * tap.weight
        found = source.flatten(2).gather(2, flat[:, None].expand(samples.shape))
        samples = samples + found * weight[:, None]
    return samples.reshape((*source.shape[:2], *grid.shape[1:-1])).to(value.dtype)


def _backward(
    gradient: Tensor,
    value: Tensor,
    grid: Tensor,
    interpolation: int,
    padding: int,
    corners: bool,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Of the value and of the grid."""
    source, places, given = _wide(value), _wide(grid), _wide(gradient).flatten(2)
    axes, slopes = _axes(source, places, interpolation, padding, corners)
    of_value = torch.zeros_like(source.flatten(2))
    of_places = [torch.zeros_like(slope) for slope in slopes]
    for taps in itertools.product(*axes):
        flat, exists = _element(source, taps)
        spread = flat[:, None].expand(given.shape)
        if wanted[0]:
            weight = exists * math.prod(tap.weight for tap in taps)
            of_value = of_value.scatter_add(2, spread, given * weight[:, None])
        if wanted[1]:
            share = (given * source.flatten(2).gather(2, spread)).sum(1) * exists
            for i in range(len(taps)):
                factors = [tap.slope if i == j else tap.weight for j, tap in enumerate(taps)]
                of_places[i] = of_places[i] + share * math.prod(factors)
    last_first = [part * slope for part, slope in zip(of_places, slopes)][::-1]
    of_grid = torch.stack(last_first, -1).reshape(grid.shape)
    return (
        of_value.reshape(value.shape).to(value.dtype) if wanted[0] else None,
        of_grid.to(grid.dtype) if wanted[1] else None,
    )


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler_3d.default: _forward,
    aten.grid_sampler_2d_backward.default: _backward,
    aten.grid_sampler_3d_backward.default: _backward,
}
