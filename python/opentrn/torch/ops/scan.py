"""Running sums and their like, sorting, the largest elements."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.rearrange import axis_of
from opentrn.torch.registry import emits
from opentrn.torch.text import Body, Spec, Value
from opentrn.torch.types import is_float, math_dtype


def _running(body: Emitter, value: Value, axis: int, combiner: str, initial: complex) -> Value:
    """Of every element and those before it."""
    if not value.rank or 0 in value.shape:
        return value
    size = value.shape[axis]
    window, padding = [1] * value.rank, [(0, 0)] * value.rank
    window[axis], padding[axis] = size, (size - 1, 0)
    return body.reduce_window(combiner, value, initial, window, [1] * value.rank, padding)


@emits("cumsum.default")
def cumsum(body: Emitter, out: Spec, value: Value, axis: int, **_: Any) -> Value:
    wide = body.convert(value, math_dtype(out.dtype))
    return body.convert(_running(body, wide, axis_of(axis, value.rank), "add", 0), out.dtype)


@emits("cumprod.default")
def cumprod(body: Emitter, out: Spec, value: Value, axis: int, **_: Any) -> Value:
    wide = body.convert(value, math_dtype(out.dtype))
    return body.convert(_running(body, wide, axis_of(axis, value.rank), "multiply", 1), out.dtype)


def sorted_with_places(body: Emitter, value: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    """(sorted, the places they had), both stable; NaN is the greatest."""
    place = body.iota(value.shape, axis, torch.int32)
    if value.shape[axis] <= 1:
        return value, place
    narrow = value.dtype
    if narrow == torch.bool:
        value = body.convert(value, torch.int32)

    def before(inner: Body, a: Value, b: Value, _i: Value, _j: Value) -> list[Value]:
        first = inner.compare("GT" if descending else "LT", a, b)
        if not is_float(a.dtype):
            return [first]
        greater, other = (a, b) if descending else (b, a)
        not_other = inner.compare("EQ", other, other)
        only = inner.binary("and", inner.is_nan(greater), not_other)
        return [inner.binary("or", first, only)]

    region = body.region([value.dtype, value.dtype, torch.int32, torch.int32], before)
    results = [(value.shape, value.dtype), (value.shape, torch.int32)]
    text = f"dimension = {axis} : i64, is_stable = true"
    made, where = body.ops("sort", [value, place], results, text, region)
    return body.convert(made, narrow), where


def _sort(body: Emitter, value: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    if not value.rank or 0 in value.shape:
        return value, body.splat(0, torch.int64, value.shape)
    made, where = sorted_with_places(body, value, axis_of(axis, value.rank), descending)
    return made, body.convert(where, torch.int64)


@emits("sort.default")
def sort(
    body: Emitter, out: Any, value: Value, axis: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    return _sort(body, value, axis, descending)


@emits("sort.stable")
def sort_stable(
    body: Emitter,
    out: Any,
    value: Value,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> tuple[Value, Value]:
    return _sort(body, value, dim, descending)


@emits("topk.default")
def topk(
    body: Emitter, out: Any, value: Value, k: int, axis: int = -1, largest: bool = True, in_order: bool = True
) -> tuple[Value, Value]:
    if not value.rank or 0 in out[0].shape:
        return (
            body.reshape(value, out[0].shape)
            if value.rank == 0
            else body.splat(0, out[0].dtype, out[0].shape),
            body.splat(0, torch.int64, out[1].shape),
        )
    axis = axis_of(axis, value.rank)
    both = sorted_with_places(body, value, axis, largest)
    made, where = (body.slice_axis(each, axis, 0, k) for each in both)
    return made, body.convert(where, torch.int64)


def _running_extreme(largest: bool, name: str) -> None:
    @emits(name)
    def rule(body: Emitter, out: Any, value: Value, axis: int) -> tuple[Value, Value]:
        """(extreme so far, the last place where it was); from the first NaN on, NaN."""
        if not value.rank or 0 in value.shape:
            return value, body.splat(0, torch.int64, value.shape)
        axis = axis_of(axis, value.rank)
        held = body.convert(value, torch.int32) if value.dtype == torch.bool else value
        start = body.lowest(held.dtype) if largest else body.highest(held.dtype)
        made = _running(body, held, axis, "maximum" if largest else "minimum", start)
        equal = body.compare("EQ", held, made)
        if is_float(held.dtype):
            equal = body.binary("or", equal, body.is_nan(held))
        place = body.iota(held.shape, axis, torch.int32)
        place = _running(body, body.select(equal, place, body.like(-1, place)), axis, "maximum", -1)
        return body.convert(made, out[0].dtype), body.convert(place, torch.int64)


_running_extreme(True, "cummax.default")
_running_extreme(False, "cummin.default")


@emits("logcumsumexp.default")
def logcumsumexp(body: Emitter, out: Spec, value: Value, axis: int) -> Value:
    """Relative to the greatest along the whole axis; -inf where all are."""
    if not value.rank or 0 in value.shape:
        return value
    axis = axis_of(axis, value.rank)
    wide = body.convert(value, math_dtype(out.dtype))
    kept = [each for each in range(value.rank) if each != axis]
    top = body.reduce("maximum", wide, [axis], float("-inf"))
    finite = body.op("is_finite", [top], top.shape, torch.bool)
    top = body.select(finite, top, body.like(0, top))
    spread = body.broadcast_in_dim(top, wide.shape, kept)
    raised = body.unary("exponential", body.subtract(wide, spread))
    return body.convert(
        body.add(body.unary("log", _running(body, raised, axis, "add", 0)), spread), out.dtype
    )


def _selected(body: Emitter, out: Any, value: Value, axis: int, number: int) -> tuple[Value, Value]:
    """The number-th smallest along an axis, and its place."""
    if not value.rank:
        return body.reshape(value, out[0].shape), body.splat(0, torch.int64, out[1].shape)
    axis = axis_of(axis, value.rank)
    both = sorted_with_places(body, value, axis, False)
    made, where = (body.slice_axis(each, axis, number, number + 1) for each in both)
    return body.reshape(made, out[0].shape), body.reshape(body.convert(where, torch.int64), out[1].shape)


@emits("kthvalue.default")
def kthvalue(
    body: Emitter, out: Any, value: Value, k: int, axis: int = -1, keepdim: bool = False
) -> tuple[Value, Value]:
    return _selected(body, out, value, axis, k - 1)
