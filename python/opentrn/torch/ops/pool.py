"""Pooling over windows, and its gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value, size_of
from opentrn.torch.types import is_float, math_dtype


def _many(values: Any, count: int, default: Sequence[int] | None = None) -> list[int]:
    if isinstance(values, int):
        return [values] * count
    values = list(values) if values else list(default or [])
    return values * count if len(values) == 1 else values


def _edges(size: int, out: int, width: int, step: int, pad: int, gap: int = 1) -> tuple[int, int]:
    """Padding before and after that gives `out` windows; negative after where the last elements are not read."""
    return pad, (out - 1) * step + gap * (width - 1) + 1 - size - pad


def _windows(
    value_space: Sequence[int], out_space: Sequence[int], kernel: list[int], strides: list[int], padding: list[int],
    dilation: list[int],
) -> Iterator[tuple[list[tuple[int, int]], tuple[int, ...]]]:  # fmt: skip
    """(padding of all axes, offset) of each element of a window."""
    edges = [_edges(*each) for each in zip(value_space, out_space, kernel, strides, padding, dilation)]
    for place in itertools.product(*map(range, kernel)):
        yield edges, tuple(number * gap for number, gap in zip(place, dilation))


def _strided_part(
    body: Emitter, padded: Value, offset: Sequence[int], out_space: Sequence[int], strides: list[int]
) -> Value:
    lead = padded.rank - len(offset)
    start = [0] * lead + list(offset)
    limit = list(padded.shape[:lead]) + [o + (n - 1) * s + 1 for o, n, s in zip(offset, out_space, strides)]
    return body.slice(padded, start, limit, [1] * lead + strides)


def _max_pool(
    body: Emitter, out: Any, value: Value, count: int, kernel: Any, strides: Any, padding: Any, dilation: Any
) -> tuple[Value, Value | None]:
    """Maxima and their places in a plane, by one pass over the offsets of a window. Maxima alone are a reduction."""
    kernel = _many(kernel, count)
    strides, padding, dilation = _many(strides, count, kernel), _many(padding, count), _many(dilation, count)
    lead = value.rank - count
    space, out_space = value.shape[lead:], out[0].shape[lead:]
    if 0 in out[0].shape:
        return body.splat(0, out[0].dtype, out[0].shape), body.splat(0, torch.int64, out[1].shape)
    lowest = body.lowest(value.dtype)
    if not body.is_read(1):
        edges = [_edges(*each) for each in zip(space, out_space, kernel, strides, padding, dilation)]
        cut = body.pad(value, [0] * value.rank, [0] * lead + [min(high, 0) for _, high in edges])
        ones, none = [1] * lead, [(0, 0)] * lead
        window = (
            ones + kernel,
            ones + strides,
            none + [(low, max(high, 0)) for low, high in edges],
            ones + dilation,
        )
        return body.reduce_window("maximum", cut, lowest, *window), None
    best: Value | None = None
    place: Value | None = None
    padded: Value | None = None
    padded_places: Value | None = None
    for edges, offset in _windows(space, out_space, kernel, strides, padding, dilation):
        if padded is None or padded_places is None:
            low, high = [0] * lead + [e[0] for e in edges], [0] * lead + [e[1] for e in edges]
            padded = body.pad(value, low, high, None, lowest)
            plane = body.reshape(body.iota((size_of(space),), 0, torch.int32), space)
            padded_places = body.pad(plane, low[lead:], high[lead:], None, -1)
        here = _strided_part(body, padded, offset, out_space, strides)
        number = _strided_part(body, padded_places, offset, out_space, strides)
        number = body.broadcast(number, here.shape)
        if best is None or place is None:
            best, place = here, number
            continue
        above = body.compare("GT", here, best)
        if is_float(here.dtype):
            above = body.binary("or", above, body.is_nan(here))
        # The padding wins nothing, not even where all is as low as it.
        outside = body.compare("LT", place, body.like(0, place))
        above = body.binary("or", above, outside)
        best, place = body.select(above, here, best), body.select(above, number, place)
    assert best is not None and place is not None  # a window has at least one place
    return best, body.convert(place, torch.int64)


@emits("max_pool2d_with_indices.default")
def max_pool2d(
    body: Emitter, out: Any, value: Value, kernel: Any, strides: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value | None]:  # fmt: skip
    return _max_pool(body, out, value, 2, kernel, strides, padding, dilation)


@emits("max_pool3d_with_indices.default")
def max_pool3d(
    body: Emitter, out: Any, value: Value, kernel: Any, strides: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value | None]:  # fmt: skip
    return _max_pool(body, out, value, 3, kernel, strides, padding, dilation)


def _max_pool_backward(
    body: Emitter, out: Spec, gradient: Value, value: Value, count: int, kernel: Any, strides: Any, padding: Any,
    dilation: Any, places: Value,
) -> Value:  # fmt: skip
    """Each offset of a window sends back the gradients whose maximum it was."""
    kernel = _many(kernel, count)
    strides, padding, dilation = _many(strides, count, kernel), _many(padding, count), _many(dilation, count)
    lead = value.rank - count
    space, out_space = value.shape[lead:], gradient.shape[lead:]
    if 0 in out.shape or 0 in gradient.shape:
        return body.splat(0, out.dtype, out.shape)
    wide = math_dtype(out.dtype)
    given, where = body.convert(gradient, wide), body.convert(places, torch.int32)
    zero = body.like(0, given)
    total: Value | None = None
    padded_places: Value | None = None
    for edges, offset in _windows(space, out_space, kernel, strides, padding, dilation):
        if padded_places is None:
            plane = body.reshape(body.iota((size_of(space),), 0, torch.int32), space)
            padded_places = body.pad(plane, [e[0] for e in edges], [e[1] for e in edges], None, -1)
        number = body.broadcast(_strided_part(body, padded_places, offset, out_space, strides), given.shape)
        mine = body.select(body.compare("EQ", where, number), given, zero)
        low, high = [0] * lead, [0] * lead
        for axis, (edge, size, step, length) in enumerate(zip(edges, space, strides, out_space)):
            low.append(offset[axis] - edge[0])
            high.append(size - (low[-1] + (length - 1) * step + 1))
        spread = body.pad(mine, low, high, [0] * lead + [step - 1 for step in strides])
        total = spread if total is None else body.add(total, spread)
    assert total is not None  # a window has at least one place
    return body.convert(total, out.dtype)


@emits("max_pool2d_with_indices_backward.default")
def max_pool2d_backward(
    body: Emitter, out: Spec, gradient: Value, value: Value, kernel: Any, strides: Any, padding: Any, dilation: Any,
    ceil_mode: bool, places: Value,
) -> Value:  # fmt: skip
    return _max_pool_backward(body, out, gradient, value, 2, kernel, strides, padding, dilation, places)


@emits("max_pool3d_with_indices_backward.default")
def max_pool3d_backward(
    body: Emitter, out: Spec, gradient: Value, value: Value, kernel: Any, strides: Any, padding: Any, dilation: Any,
    ceil_mode: bool, places: Value,
) -> Value:  # fmt: skip
    return _max_pool_backward(body, out, gradient, value, 3, kernel, strides, padding, dilation, places)


def _divisors(
    space: Sequence[int], out_space: Sequence[int], kernel: list[int], strides: list[int], padding: list[int],
    count_padding: bool, divisor: int | None,
) -> torch.Tensor:  # fmt: skip
    """By how much the sum of each window is divided."""
    if divisor is not None:
        return torch.full(tuple(out_space), float(divisor))
    made = torch.ones(())
    for size, length, width, step, pad in zip(space, out_space, kernel, strides, padding):
        start = torch.arange(length) * step - pad
        end = torch.minimum(start + width, torch.tensor(size + pad))
        if not count_padding:
            start, end = start.clamp(min=0), end.clamp(max=size)
        made = made.unsqueeze(-1) * (end - start).to(torch.float32)
    return made


def _average(body: Emitter, value: Value, divisors: torch.Tensor) -> Value:
    if bool((divisors == divisors.reshape(-1)[0]).all()):
        return body.divide(value, body.like(float(divisors.reshape(-1)[0]), value))
    by = body.convert(body.constant(divisors), value.dtype)
    return body.divide(value, body.broadcast(by, value.shape))


def _avg_pool(
    body: Emitter, out: Spec, value: Value, count: int, kernel: Any, strides: Any, padding: Any,
    count_padding: bool, divisor: int | None,
) -> Value:  # fmt: skip
    kernel = _many(kernel, count)
    strides, padding = _many(strides, count, kernel), _many(padding, count)
    lead = value.rank - count
    space, out_space = value.shape[lead:], out.shape[lead:]
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    wide = body.convert(value, math_dtype(value.dtype) if is_float(value.dtype) else torch.float32)
    edges = [(0, 0)] * lead + [
        _edges(*each) for each in zip(space, out_space, kernel, strides, padding, [1] * count)
    ]
    # A negative edge leaves elements out, which a window's padding cannot.
    low = [0] * value.rank
    wide = body.pad(wide, low, [min(0, high) for _, high in edges])
    edges = [(first, max(0, last)) for first, last in edges]
    sums = body.reduce_window("add", wide, 0, [1] * lead + kernel, [1] * lead + strides, edges)
    made = _average(body, sums, _divisors(space, out_space, kernel, strides, padding, count_padding, divisor))
    return body.convert(made, out.dtype)


def _avg_pool_backward(
    body: Emitter, out: Spec, gradient: Value, value: Value, count: int, kernel: Any, strides: Any, padding: Any,
    count_padding: bool, divisor: int | None,
) -> Value:  # fmt: skip
    kernel = _many(kernel, count)
    strides, padding = _many(strides, count, kernel), _many(padding, count)
    lead = value.rank - count
    space, out_space = value.shape[lead:], gradient.shape[lead:]
    if 0 in out.shape or 0 in gradient.shape:
        return body.splat(0, out.dtype, out.shape)
    wide = body.convert(gradient, math_dtype(gradient.dtype))
    shares = _average(
        body, wide, _divisors(space, out_space, kernel, strides, padding, count_padding, divisor)
    )
    # Every element sums the windows that hold it.
    low, high = [0] * lead, [0] * lead
    for size, length, width, step, pad in zip(space, out_space, kernel, strides, padding):
        low.append(width - 1 - pad)
        high.append(size + width - 1 - low[-1] - ((length - 1) * step + 1))
    spread = body.pad(shares, low, high, [0] * lead + [step - 1 for step in strides])
    ones = [1] * value.rank
    made = body.reduce_window("add", spread, 0, [1] * lead + kernel, ones, [(0, 0)] * value.rank)
    return body.convert(made, out.dtype)


def _average_rules(count: int) -> None:
    @emits(f"avg_pool{count}d.default")
    def forward(
        body: Emitter, out: Spec, value: Value, kernel: Any, strides: Any = (), padding: Any = 0,
        ceil_mode: bool = False, count_padding: bool = True, divisor: int | None = None,
    ) -> Value:  # fmt: skip
        return _avg_pool(body, out, value, count, kernel, strides, padding, count_padding, divisor)

    @emits(f"avg_pool{count}d_backward.default")
    def backward(
        body: Emitter, out: Spec, gradient: Value, value: Value, kernel: Any, strides: Any, padding: Any,
        ceil_mode: bool, count_padding: bool, divisor: int | None,
    ) -> Value:  # fmt: skip
        return _avg_pool_backward(
            body, out, gradient, value, count, kernel, strides, padding, count_padding, divisor
        )


for _count in (2, 3):
    _average_rules(_count)


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """What each element of an adaptive pooling covers."""
    return [(number * size // out, math.ceil((number + 1) * size / out)) for number in range(out)]


def _shares(size: int, out: int) -> torch.Tensor:
    """[size, out]: how much of each element goes into each average."""
    made = torch.zeros(size, out)
    for number, (start, end) in enumerate(_bounds(size, out)):
        made[start:end, number] = 1 / (end - start)
    return made


def _adaptive(body: Emitter, out: Spec, value: Value, count: int, back: bool) -> Value:
    """One product with the shares of each axis."""
    if 0 in out.shape or 0 in value.shape:
        return body.splat(0, out.dtype, out.shape)
    made = body.convert(value, math_dtype(out.dtype))
    for axis in range(value.rank - count, value.rank):
        size, target = value.shape[axis], out.shape[axis]
        shares = _shares(target, size).T.contiguous() if back else _shares(size, target)
        if size == target == 1:
            continue
        factors = body.convert(body.constant(shares), made.dtype)
        product = body.dot(made, factors, ([axis], [0]))
        order = list(range(value.rank - 1))
        order.insert(axis, value.rank - 1)
        made = body.transpose(product, order)
    return body.convert(made, out.dtype)


def _adaptive_rules(count: int) -> None:
    @emits(f"_adaptive_avg_pool{count}d.default")
    def forward(body: Emitter, out: Spec, value: Value, _sizes: Any) -> Value:
        return _adaptive(body, out, value, count, False)

    @emits(f"_adaptive_avg_pool{count}d_backward.default")
    def backward(body: Emitter, out: Spec, gradient: Value, value: Value) -> Value:
        return _adaptive(body, out, gradient, count, True)


for _count in (2, 3):
    _adaptive_rules(_count)
