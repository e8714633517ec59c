"""Writing by computed indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.index import coordinates, counted, joint_places, take
from opentrn.torch.ops.rearrange import axis_of
from opentrn.torch.registry import emits, require
from opentrn.torch.text import Body, Spec, Value, size_of
from opentrn.torch.types import math_dtype

_COMBINERS = {"add": "add", "sum": "add", "mean": "add", "multiply": "multiply", "prod": "multiply",
              "amax": "maximum", "amin": "minimum"}  # fmt: skip


def scatter_op(
    body: Emitter, value: Value, places: Value, updates: Value, axes: Sequence[int], windows: Sequence[int],
    how: str | None = None,
) -> Value:  # fmt: skip
    """StableHLO's scatter along `axes`; windows: dimensions of the updates that are whole ones of the value."""
    if 0 in updates.shape or 0 in value.shape:
        return value

    def combine(inner: Body, old: Value, new: Value) -> list[Value]:
        if how is None:
            return [new]
        return [inner.add(old, new) if _COMBINERS[how] == "add" else inner.binary(_COMBINERS[how], old, new)]

    text = (
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {list(windows)}, "
        f"inserted_window_dims = {list(axes)}, scatter_dims_to_operand_dims = {list(axes)}, "
        f"index_vector_dim = {places.rank - 1}>, indices_are_sorted = false, unique_indices = false"
    )
    region = body.region([value.dtype, value.dtype], combine)
    return body.op("scatter", [value, places, updates], value.shape, value.dtype, text, region)


def _along(body: Emitter, value: Value, axis: int, index: Value, updates: Value, how: str | None) -> Value:
    """torch.scatter: each element of the updates has a place along one axis, and its own in the others."""
    if 0 in index.shape:
        return value
    shape = value.shape
    if not value.rank:
        value, index, updates = (body.reshape(each, (1,)) for each in (value, index, updates))
    if not index.rank:
        index, updates = body.reshape(index, (1,)), body.reshape(updates, (1,))
    axis = axis_of(axis, value.rank)
    places = coordinates(body, counted(body, index, value.shape[axis]), axis)
    cut = body.slice(updates, [0] * updates.rank, index.shape)
    return body.reshape(scatter_op(body, value, places, cut, list(range(value.rank)), [], how), shape)


@emits("scatter.src", "scatter.reduce")
def scatter(
    body: Emitter,
    out: Spec,
    value: Value,
    axis: int,
    index: Value,
    source: Value,
    *,
    reduce: str | None = None,
) -> Value:
    return _along(body, value, axis, index, source, reduce)


@emits("scatter.value", "scatter.value_reduce")
def scatter_value(
    body: Emitter, out: Spec, value: Value, axis: int, index: Value, number: Any, *, reduce: str | None = None
) -> Value:
    return _along(body, value, axis, index, body.splat(number, value.dtype, index.shape), reduce)


@emits("scatter_add.default")
def scatter_add(body: Emitter, out: Spec, value: Value, axis: int, index: Value, source: Value) -> Value:
    """Summed in fp32 for narrower floats."""
    wide = math_dtype(out.dtype)
    made = _along(body, body.convert(value, wide), axis, index, body.convert(source, wide), "add")
    return body.convert(made, out.dtype)


@emits("scatter_reduce.two")
def scatter_reduce(
    body: Emitter,
    out: Spec,
    value: Value,
    axis: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """Without the value itself, elements that are written to start from the combiner's neutral number."""
    wide = math_dtype(out.dtype)
    if wide == torch.bool:
        wide = torch.int32
    start, updates = body.convert(value, wide), body.convert(source, wide)
    counts: Value | None = None
    if reduce == "mean" or not include_self:
        ones = body.splat(1, torch.int32, index.shape)
        counts = _along(body, body.splat(0, torch.int32, value.shape), axis, index, ones, "add")
    if not include_self:
        assert counts is not None
        neutral = {"add": 0, "multiply": 1, "maximum": body.lowest(wide), "minimum": body.highest(wide)}
        written = body.compare("GT", counts, body.like(0, counts))
        start = body.select(written, body.like(neutral[_COMBINERS[reduce]], start), start)
    made = _along(body, start, axis, index, updates, reduce)
    if reduce == "mean":
        assert counts is not None
        one = body.like(1, counts)
        counts = body.add(counts, one) if include_self else body.binary("maximum", counts, one)
        divisor = body.convert(counts, wide)
        if wide.is_floating_point:
            made = body.divide(made, divisor)
        else:
            from opentrn.torch.ops.arithmetic import floored

            made = floored(body, made, divisor)
    return body.convert(made, out.dtype)


def _put_by_mask(body: Emitter, value: Value, mask: Value, updates: Value, accumulate: bool) -> Value:
    """One number for all that is chosen, or one row after the other."""
    spread = body.broadcast_in_dim(mask, value.shape, range(mask.rank))
    rest = value.shape[mask.rank :]
    if updates.rank <= len(rest) or updates.shape[0] == 1:
        row = body.tensor(updates if updates.rank <= len(rest) else body.reshape(updates, updates.shape[1:]),
                          value.dtype, rest)  # fmt: skip
        new = body.broadcast(row, value.shape)
    else:
        rows = body.tensor(updates, value.dtype, (updates.shape[0], *rest))
        new = packed_by_mask(body, spread, rows)
    return body.select(spread, body.add(value, new) if accumulate else new, value)


def packed_by_mask(body: Emitter, mask: Value, source: Value) -> Value:
    """The source's elements one after the other where the mask is set; anything elsewhere."""
    flat = body.reshape(source, (size_of(source.shape),))
    places = places_of_chosen(body, body.reshape(mask, (size_of(mask.shape),)))
    if 0 in source.shape or 0 in mask.shape:
        return body.splat(0, source.dtype, mask.shape)
    return body.reshape(take(body, flat, places, 0), mask.shape)


def places_of_chosen(body: Emitter, mask: Value) -> Value:
    """How many elements of a flat mask were chosen before each that is."""
    count = mask.shape[0]
    numbers = body.convert(mask, torch.int32)
    before = body.reduce_window("add", numbers, 0, [count], [1], [(count - 1, 0)]) if count else numbers
    return body.binary("maximum", body.subtract(before, body.like(1, before)), body.like(0, before))


@emits("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def index_put(
    body: Emitter,
    out: Spec,
    value: Value,
    indices: Sequence[Value | None],
    updates: Value,
    accumulate: bool = False,
    *_: Any,
) -> Value:
    """A mask that covers whole dimensions chooses between the value and one number."""
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool:
        return _put_by_mask(body, value, indices[0], updates, accumulate)
    if not any(each is not None for each in indices):
        new = body.tensor(updates, value.dtype, value.shape)
        return body.add(value, new) if accumulate else new
    axes, places, shape, at = joint_places(body, value, indices)
    rest = [size for axis, size in enumerate(value.shape) if axis not in axes]
    full = (*rest[:at], *shape, *rest[at:])
    windows = [axis for axis in range(len(full)) if not at <= axis < at + len(shape)]
    wide = math_dtype(out.dtype) if accumulate else out.dtype
    made = scatter_op(
        body, body.convert(value, wide), places, body.tensor(updates, wide, full), axes, windows,
        "add" if accumulate else None,
    )  # fmt: skip
    return body.convert(made, out.dtype)


@emits("index_add.default")
def index_add(
    body: Emitter, out: Spec, value: Value, axis: int, index: Value, source: Value, *, alpha: Any = 1
) -> Value:
    if not value.rank:
        return body.add(value, body.multiply(body.reshape(source, ()), body.like(alpha, value)))
    axis = axis_of(axis, value.rank)
    wide = math_dtype(out.dtype)
    updates = body.convert(source, wide)
    if alpha != 1:
        updates = body.multiply(updates, body.like(alpha, updates))
    places = body.reshape(counted(body, index, value.shape[axis]), (updates.shape[axis], 1))
    windows = [each for each in range(value.rank) if each != axis]
    made = scatter_op(body, body.convert(value, wide), places, updates, [axis], windows, "add")
    return body.convert(made, out.dtype)


@emits("index_copy.default")
def index_copy(body: Emitter, out: Spec, value: Value, axis: int, index: Value, source: Value) -> Value:
    if not value.rank:
        return body.reshape(source, ())
    axis = axis_of(axis, value.rank)
    if not source.rank:  # one number, for a vector
        source = body.reshape(source, (1,))
    places = body.reshape(counted(body, index, value.shape[axis]), (source.shape[axis], 1))
    windows = [each for each in range(value.rank) if each != axis]
    return scatter_op(body, value, places, source, [axis], windows)


@emits("embedding_dense_backward.default")
def embedding_backward(
    body: Emitter,
    out: Spec,
    gradient: Value,
    index: Value,
    count: int,
    padding: int,
    scale_by_frequency: bool,
) -> Value:
    """Rows of the gradient summed by index; those of the padding index are dropped."""
    require(not scale_by_frequency, "with scale_grad_by_freq is not written")
    wide = math_dtype(out.dtype)
    rows = 1
    for size in index.shape:
        rows *= size
    flat = body.reshape(body.convert(index, torch.int32), (rows,))
    updates = body.reshape(body.convert(gradient, wide), (rows, out.shape[1]))
    if padding >= 0:
        kept = body.compare("NE", flat, body.like(padding, flat))
        updates = body.select(body.broadcast_in_dim(kept, updates.shape, [0]), updates, body.like(0, updates))
    places = body.reshape(flat, (rows, 1))
    made = scatter_op(body, body.splat(0, wide, out.shape), places, updates, [0], [1], "add")
    return body.convert(made, out.dtype)


def _stored(size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    """Where each element of a strided tensor is in memory."""
    places = torch.full([], offset, dtype=torch.int64)
    for count, step in zip(size, stride):
        places = places.unsqueeze(-1) + torch.arange(count) * step
    return places


def _box(sources: torch.Tensor) -> tuple[list[int], list[int]] | None:
    """(first, end) of the box of elements that are not -1; None where others are in it, or out of their order."""
    on = (sources >= 0).nonzero()
    low, high = on.amin(0).tolist(), (on.amax(0) + 1).tolist()
    inside = sources[tuple(slice(lo, hi) for lo, hi in zip(low, high))]
    is_plain = inside.numel() == len(on) and bool((inside.reshape(-1) == torch.arange(len(on))).all())
    return (low, high) if is_plain else None


@emits("as_strided_scatter.default", "prims.as_strided_scatter")
def as_strided_scatter(
    body: Emitter,
    out: Spec,
    value: Value,
    part: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None = None,
) -> Value:
    """The value with its elements at these places in memory replaced by the part's."""
    if 0 in part.shape or 0 in value.shape:
        return value
    size, stride = [body.concrete(each) for each in sizes], [body.concrete(each) for each in strides]
    written = _stored(size, stride, body.concrete(offset or 0)).reshape(-1)
    held = _stored(value.shape, out.stride, 0)
    at = torch.full([int(max(held.max(), written.max())) + 1], -1, dtype=torch.int64)
    at[written] = torch.arange(len(written))
    sources = at[held]  # of each element: which of the part's it becomes, or -1
    count = int((sources >= 0).sum())
    require(count == len(written), "writes one element twice, or elements that the tensor does not show")
    if not value.rank:
        return body.reshape(part, ())
    box = _box(sources)
    if box is not None:
        low, high = box
        inner = body.reshape(part, [hi - lo for lo, hi in zip(low, high)])
        at_places = [body.splat(place, torch.int32) for place in low]
        return body.op("dynamic_update_slice", [value, inner, *at_places], value.shape, value.dtype)
    flat = body.reshape(part, (len(written),))
    places = body.constant(sources.clamp(min=0).reshape(-1).to(torch.int32))
    new = body.reshape(take(body, flat, places, 0), value.shape)
    return new if count == sources.numel() else body.select(body.constant(sources >= 0), new, value)
