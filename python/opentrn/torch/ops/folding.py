"""Unfold and fold: windows of an image as columns, and the sum of such columns at their places.

Torch takes both apart into gathers and scatters at computed places, of single elements: on the device each is a
descriptor of DMA of its own. The places are known, so windows are slices with steps, one of each element of a window,
and sums of windows are shifted adds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value

Pair = Sequence[int]


def _windows(space: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> list[int]:
    """How many there are along each axis."""
    return [
        (size + 2 * pad - gap * (width - 1) - 1) // step + 1
        for size, width, gap, pad, step in zip(space, kernel, dilation, padding, stride)
    ]


def _tiles(space: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> bool:
    """Whether the windows lie side by side and are the whole image."""
    return (
        list(kernel) == list(stride)
        and all(gap == 1 or width == 1 for gap, width in zip(dilation, kernel))
        and not any(padding)
        and all(size % width == 0 for size, width in zip(space, kernel))
    )


@emits("im2col.default")
def unfold(
    body: Emitter, out: Spec, value: Value, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Value:
    """[batch, channels * window, windows] of [batch, channels, rows, columns], or both without batch; of any dtype."""
    *lead, high, wide = value.shape
    count = _windows((high, wide), kernel, dilation, padding, stride)
    rank, axis = len(lead), len(lead)
    if _tiles((high, wide), kernel, dilation, padding, stride):
        parts = body.reshape(value, (*lead, count[0], kernel[0], count[1], kernel[1]))
        order = [*range(rank), axis + 1, axis + 3, axis, axis + 2]
        return body.reshape(body.transpose(parts, order), out.shape)
    edges = [0] * rank + list(padding)
    padded = body.pad(value, edges, edges) if any(padding) else value
    taps = []
    for place in itertools.product(*map(range, kernel)):
        start = [number * gap for number, gap in zip(place, dilation)]
        limit = [at + (n - 1) * step + 1 for at, n, step in zip(start, count, stride)]
        tap = body.slice(padded, [0] * rank + start, lead + limit, [1] * rank + list(stride))
        taps.append(body.reshape(tap, (*lead, 1, *count)))
    return body.reshape(body.concatenate(taps, axis), out.shape)


def _shares(
    kernel: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Iterator[tuple[tuple, tuple, tuple]]:
    """(place in the window, phase, shift): window n's element is at phase + stride * (shift + n) of the image."""
    for place in itertools.product(*map(range, kernel)):
        at = [number * gap - pad for number, gap, pad in zip(place, dilation, padding)]
        phase = tuple(first % step for first, step in zip(at, stride))
        yield place, phase, tuple(first // step for first, step in zip(at, stride))


@emits("col2im.default")
def fold(
    body: Emitter, out: Spec, value: Value, space: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Value:  # fmt: skip
    """The inverse of unfold where windows do not overlap; elements of several windows are their sum.

    Rows and columns are summed by their remainder of the stride, so that sums are shifted, not spread. In the
    value's dtype, as torch adds them.
    """
    *lead, _, _ = out.shape
    rank = len(lead)
    count = _windows(space, kernel, dilation, padding, stride)
    if _tiles(space, kernel, dilation, padding, stride):
        parts = body.reshape(value, (*lead, *kernel, *count))
        order = [*range(rank), rank + 2, rank, rank + 3, rank + 1]
        return body.reshape(body.transpose(parts, order), out.shape)
    parts = body.reshape(value, (*lead, *kernel, *count))
    size = [-(-length // step) for length, step in zip(space, stride)]
    sums: dict[tuple, Value] = {}
    for place, phase, shift in _shares(kernel, dilation, padding, stride):
        part = parts
        for number, at in enumerate(place):
            part = body.slice_axis(part, rank + number, at, at + 1)
        part = body.reshape(part, (*lead, *count))
        low = [0] * rank + list(shift)
        high = [0] * rank + [length - first - n for length, first, n in zip(size, shift, count)]
        moved = body.pad(part, low, high)
        sums[phase] = body.binary("add", sums[phase], moved) if phase in sums else moved
    rows = [_interleaved(body, [_phase(body, out, sums, (a, b), size) for b in range(stride[1])], rank + 1)
            for a in range(stride[0])]  # fmt: skip
    made = _interleaved(body, rows, rank)
    return body.slice(made, [0] * (rank + 2), [*lead, *space], [1] * (rank + 2))


def _phase(body: Emitter, out: Spec, sums: dict[tuple, Value], phase: tuple, size: Pair) -> Value:
    made = sums.get(phase)
    return body.splat(0, out.dtype, (*out.shape[:-2], *size)) if made is None else made


def _interleaved(body: Emitter, parts: list[Value], axis: int) -> Value:
    """Their elements in turn along that axis."""
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    apart = [body.reshape(part, (*shape[: axis + 1], 1, *shape[axis + 1 :])) for part in parts]
    shape[axis] *= len(parts)
    return body.reshape(body.concatenate(apart, axis + 1), shape)
