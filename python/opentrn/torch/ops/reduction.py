"""Sums, products, extremes and where they are, variances, over some or all dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.rearrange import axis_of
from opentrn.torch.registry import emits
from opentrn.torch.text import Body, Spec, Value, size_of
from opentrn.torch.types import is_float, math_dtype


def axes_of(axes: Any, rank: int) -> list[int]:
    """Given as number, list or None; an empty list means all."""
    if axes is None or (isinstance(axes, (list, tuple)) and not axes):
        return list(range(rank))
    if isinstance(axes, int):
        axes = [axes]
    return sorted({axis_of(axis, rank) for axis in axes}) if rank else []


def summed(body: Emitter, value: Value, axes: Sequence[int], dtype: torch.dtype) -> Value:
    """In fp32 for narrower floats; rounded once."""
    wide = body.convert(value, math_dtype(dtype))
    if dtype == torch.bool:
        return body.reduce("or", wide, axes, False)
    return body.convert(body.reduce("add", wide, axes, 0), dtype)


@emits("sum.default", "sum.dim_IntList", "prims.sum")
def sum_(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    return body.reshape(summed(body, value, axes_of(axes, value.rank), out.dtype), out.shape)


@emits("mean.default", "mean.dim")
def mean(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    over = axes_of(axes, value.rank)
    count = size_of([value.shape[axis] for axis in over])
    wide = body.convert(value, math_dtype(out.dtype))
    total = body.reduce("add", wide, over, 0)
    share = body.like(1 / count if count else math.nan, total)
    if count & (count - 1) and count:
        made = body.divide(total, body.like(count, total))
    else:
        made = body.multiply(total, share)
    return body.reshape(body.convert(made, out.dtype), out.shape)


@emits("prod.default", "prod.dim_int", "prims.prod")
def prod(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    over = axes_of(None if isinstance(axes, torch.dtype) else axes, value.rank)
    wide = body.convert(value, math_dtype(out.dtype))
    if wide.dtype == torch.bool:
        return body.reshape(body.reduce("and", wide, over, True), out.shape)
    return body.reshape(body.convert(body.reduce("multiply", wide, over, 1), out.dtype), out.shape)


@emits("any.default", "any.dim", "any.dims")
def any_(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    found = body.reduce("or", body.convert(value, torch.bool), axes_of(axes, value.rank), False)
    return body.reshape(body.convert(found, out.dtype), out.shape)


@emits("all.default", "all.dim", "all.dims")
def all_(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    found = body.reduce("and", body.convert(value, torch.bool), axes_of(axes, value.rank), True)
    return body.reshape(body.convert(found, out.dtype), out.shape)


def _extreme(body: Emitter, value: Value, axes: Sequence[int], largest: bool) -> Value:
    if value.dtype == torch.bool:
        return body.reduce("or" if largest else "and", value, axes, not largest)
    start = body.lowest(value.dtype) if largest else body.highest(value.dtype)
    return body.reduce("maximum" if largest else "minimum", value, axes, start)


@emits("amax.default", "max.default", "prims.amax")
def amax(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    return body.reshape(_extreme(body, value, axes_of(axes, value.rank), True), out.shape)


@emits("amin.default", "min.default", "prims.amin")
def amin(body: Emitter, out: Spec, value: Value, axes: Any = None, *_: Any, **__: Any) -> Value:
    return body.reshape(_extreme(body, value, axes_of(axes, value.rank), False), out.shape)


def place_of_extreme(body: Emitter, value: Value, axis: int, largest: bool) -> tuple[Value, Value]:
    """(extreme, its first place) along an axis, both without it; NaN is beyond every number."""
    if value.dtype == torch.bool:
        value = body.convert(value, torch.int32)
    place = body.iota(value.shape, axis, torch.int32)
    start = [
        body.splat(body.lowest(value.dtype) if largest else body.highest(value.dtype), value.dtype),
        body.splat(0, torch.int32),
    ]

    def combine(inner: Body, a: Value, i: Value, b: Value, j: Value) -> list[Value]:
        beyond = inner.compare("GT" if largest else "LT", a, b)
        if is_float(a.dtype):
            beyond = inner.binary("or", beyond, inner.is_nan(a))
        first = inner.binary("and", inner.compare("EQ", a, b), inner.compare("LT", i, j))
        taken = inner.binary("or", beyond, first)
        return [inner.select(beyond, a, b), inner.select(taken, i, j)]

    region = body.region([value.dtype, torch.int32, value.dtype, torch.int32], combine)
    shape = tuple(size for i, size in enumerate(value.shape) if i != axis)
    results = [(shape, value.dtype), (shape, torch.int32)]
    text = f"dimensions = array<i64: {axis}>"
    made, where = body.ops("reduce", [value, place, *start], results, text, region)
    return made, where


def _found(body: Emitter, value: Value, axis: Any, largest: bool) -> tuple[Value, Value]:
    if axis is None or not value.rank:
        value = body.reshape(value, (size_of(value.shape),))
        axis = 0
    axis = axis_of(axis, value.rank)
    if 0 in value.shape:
        shape = tuple(size for i, size in enumerate(value.shape) if i != axis)
        return body.splat(0, value.dtype, shape), body.splat(0, torch.int32, shape)
    return place_of_extreme(body, value, axis, largest)


def _with_places(largest: bool, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Any, value: Value, axis: int, keepdim: bool = False) -> tuple[Value, Value]:
        made, where = _found(body, value, axis, largest)
        both = body.convert(made, out[0].dtype), body.convert(where, torch.int64)
        return body.reshape(both[0], out[0].shape), body.reshape(both[1], out[1].shape)


def _places(largest: bool, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, value: Value, axis: Any = None, keepdim: bool = False) -> Value:
        where = _found(body, value, axis, largest)[1]
        return body.reshape(body.convert(where, torch.int64), out.shape)


_with_places(True, "max.dim")
_with_places(False, "min.dim")
_places(True, "argmax.default")
_places(False, "argmin.default")


def _moments(
    body: Emitter, value: Value, axes: Any, correction: Any, dtype: torch.dtype
) -> tuple[Value, Value, list[int]]:
    """(variance, mean, axes), both without the axes and of type `dtype`'s math."""
    over = axes_of(axes, value.rank)
    wide = body.convert(value, math_dtype(dtype))
    count = size_of([value.shape[axis] for axis in over])
    kept = [axis for axis in range(value.rank) if axis not in over]
    total = body.reduce("add", wide, over, 0)
    average = body.divide(total, body.like(count, total))
    offset = body.subtract(wide, body.broadcast_in_dim(average, wide.shape, kept))
    squares = body.reduce("add", body.multiply(offset, offset), over, 0)
    degrees = max(0.0, count - float(1 if correction is None else correction))
    return body.divide(squares, body.like(degrees, squares)), average, over


@emits("var.correction", "prims.var")
def var(
    body: Emitter, out: Spec, value: Value, axes: Any = None, correction: Any = None, **keywords: Any
) -> Value:
    variance, _, _ = _moments(body, value, axes, keywords.get("correction", correction), out.dtype)
    return body.reshape(body.convert(variance, out.dtype), out.shape)


@emits("var.dim")
def var_dim(
    body: Emitter, out: Spec, value: Value, axes: Any, unbiased: bool = True, keepdim: bool = False
) -> Value:
    return var(body, out, value, axes, int(unbiased))


@emits("std.correction")
def std(
    body: Emitter, out: Spec, value: Value, axes: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    variance, _, _ = _moments(body, value, axes, correction, out.dtype)
    return body.reshape(body.convert(body.unary("sqrt", variance), out.dtype), out.shape)


@emits("var_mean.correction")
def var_mean(
    body: Emitter, out: Any, value: Value, axes: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    variance, average, _ = _moments(body, value, axes, correction, out[0].dtype)
    first, second = (
        body.reshape(body.convert(each, spec.dtype), spec.shape)
        for each, spec in zip((variance, average), out)
    )
    return first, second


# ---- soft maximum: one rounding at the end ------------------------------------------------------------------------


def _shifted(body: Emitter, value: Value, axis: int, dtype: torch.dtype) -> tuple[Value, list[int], Value]:
    """(value - its maximum, kept axes, sum of exponentials)."""
    wide = body.convert(value, math_dtype(dtype))
    kept = [each for each in range(value.rank) if each != axis]
    top = body.reduce("maximum", wide, [axis], -math.inf)
    shifted = body.subtract(wide, body.broadcast_in_dim(top, wide.shape, kept))
    return shifted, kept, body.unary("exponential", shifted)


@emits("_softmax.default")
def softmax(body: Emitter, out: Spec, value: Value, axis: int, half_to_float: bool) -> Value:
    if 0 in value.shape:
        return body.splat(0, out.dtype, out.shape)
    if not value.rank:
        return body.convert(
            body.divide(*[body.unary("exponential", body.subtract(value, value))] * 2), out.dtype
        )
    axis = axis_of(axis, value.rank)
    _, kept, raised = _shifted(body, value, axis, out.dtype)
    total = body.broadcast_in_dim(body.reduce("add", raised, [axis], 0), raised.shape, kept)
    return body.convert(body.divide(raised, total), out.dtype)


@emits("_log_softmax.default")
def log_softmax(body: Emitter, out: Spec, value: Value, axis: int, half_to_float: bool) -> Value:
    if 0 in value.shape:
        return body.splat(0, out.dtype, out.shape)
    if not value.rank:
        return body.convert(body.subtract(value, value), out.dtype)
    axis = axis_of(axis, value.rank)
    shifted, kept, raised = _shifted(body, value, axis, out.dtype)
    total = body.unary("log", body.reduce("add", raised, [axis], 0))
    made = body.subtract(shifted, body.broadcast_in_dim(total, shifted.shape, kept))
    return body.convert(made, out.dtype)
