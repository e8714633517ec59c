"""Reading by computed indices. They are held to be in range, as torch demands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.rearrange import axis_of
from opentrn.torch.registry import emits, require
from opentrn.torch.text import Spec, Value, numbers


def counted(body: Emitter, index: Value, size: int) -> Value:
    """As int32, negative ones counted from the end."""
    index = body.convert(index, torch.int32)
    zero = body.like(0, index)
    return body.select(body.compare("LT", index, zero), body.add(index, body.like(size, index)), index)


def gather_op(
    body: Emitter, value: Value, places: Value, shape: Sequence[int], offsets: Sequence[int],
    collapsed: Sequence[int], starts: Sequence[int], sizes: Sequence[int],
) -> Value:  # fmt: skip
    """StableHLO's gather; a place is the last dimension of `places`."""
    if 0 in shape:
        return body.splat(0, value.dtype, shape)
    text = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {list(offsets)}, collapsed_slice_dims = "
        f"{list(collapsed)}, start_index_map = {list(starts)}, index_vector_dim = {places.rank - 1}>, "
        f"slice_sizes = {numbers(sizes)}, indices_are_sorted = false"
    )
    return body.op("gather", [value, places], shape, value.dtype, text)


def take(body: Emitter, value: Value, index: Value, axis: int) -> Value:
    """value's slices along an axis by a tensor of places of any rank, whose dimensions stand where the axis was."""
    shape = (*value.shape[:axis], *index.shape, *value.shape[axis + 1 :])
    places = body.reshape(body.convert(index, torch.int32), (*index.shape, 1))
    offsets = [*range(axis), *range(axis + index.rank, len(shape))]
    sizes = [1 if each == axis else size for each, size in enumerate(value.shape)]
    return gather_op(body, value, places, shape, offsets, [axis], [axis], sizes)


def take_flat(body: Emitter, flat: Value, places: Value) -> Value:
    return take(body, flat, places, 0)


@emits("index_select.default")
def index_select(body: Emitter, out: Spec, value: Value, axis: int, index: Value) -> Value:
    if not value.rank:
        return body.reshape(value, out.shape)
    index = body.reshape(index, (index.shape[0] if index.rank else 1,))
    return take(body, value, index, axis_of(axis, value.rank))


@emits("embedding.default")
def embedding(body: Emitter, out: Spec, weight: Value, index: Value, *_: Any, **__: Any) -> Value:
    return take(body, weight, index, 0)


def coordinates(body: Emitter, index: Value, axis: int) -> Value:
    """Places [..., rank] of torch.gather's and scatter's: `index` along the axis, each element's own elsewhere."""
    parts = [
        index if each == axis else body.iota(index.shape, each, torch.int32) for each in range(index.rank)
    ]
    return body.concatenate([body.reshape(part, (*index.shape, 1)) for part in parts], index.rank)


@emits("gather.default")
def gather(body: Emitter, out: Spec, value: Value, axis: int, index: Value, *_: Any, **__: Any) -> Value:
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    if not value.rank:
        return body.reshape(value, out.shape)
    if not index.rank:
        index = body.reshape(index, (1,))
    axis = axis_of(axis, value.rank)
    places = coordinates(body, counted(body, index, value.shape[axis]), axis)
    every = list(range(value.rank))
    made = gather_op(body, value, places, index.shape, [], every, every, [1] * value.rank)
    return body.reshape(made, out.shape)


def joint_places(
    body: Emitter, value: Value, indices: Sequence[Value | None]
) -> tuple[list[int], Value, tuple[int, ...], int]:
    """Of advanced indexing: (indexed axes, places [..., axes], their common shape, where that stands in a result)."""
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    axes = list(given)
    for index in given.values():
        require(index.dtype not in (torch.bool, torch.uint8),
                "by a mask has a result whose size depends on values")  # fmt: skip
    shape = tuple(torch.broadcast_shapes(*(index.shape for index in given.values())))
    parts = []
    for axis, places in given.items():
        index = counted(body, places, value.shape[axis])
        parts.append(body.reshape(body.broadcast(index, shape), (*shape, 1)))
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    return axes, body.concatenate(parts, len(shape)), shape, axes[0] if adjacent else 0


@emits("index.Tensor", "_unsafe_index.Tensor")
def index(body: Emitter, out: Spec, value: Value, indices: Sequence[Value | None]) -> Value:
    if 0 in out.shape or not any(each is not None for each in indices):
        return body.splat(0, out.dtype, out.shape) if 0 in out.shape else value
    axes, places, shape, at = joint_places(body, value, indices)
    offsets = [axis for axis in range(len(out.shape)) if not at <= axis < at + len(shape)]
    sizes = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    return gather_op(body, value, places, out.shape, offsets, axes, axes, sizes)


@emits("take.default")
def take_default(body: Emitter, out: Spec, value: Value, index: Value) -> Value:
    count = 1
    for size in value.shape:
        count *= size
    flat = body.reshape(value, (count,))
    return take(body, flat, counted(body, index, count), 0)
