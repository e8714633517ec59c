"""Views and what else moves elements without computing: reshapes, slices, concatenations, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits, require
from opentrn.torch.text import Spec, Value, size_of


def axis_of(axis: int, rank: int) -> int:
    return axis + max(rank, 1) if axis < 0 else axis


@emits("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default", "_reshape_alias.default",
       "_reshape_copy.default",
       "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "squeeze_copy", "unsqueeze_copy",
       "flatten.using_ints",
       "prims.reshape", "prims.squeeze", "prims.collapse_view", "prims.collapse", "prims.split_dim")  # fmt: skip
def reshaped(body: Emitter, out: Spec, value: Value, *_: Any, **__: Any) -> Value:
    return body.reshape(value, out.shape)


@emits("view.dtype", "view_copy.dtype")
def view_dtype(body: Emitter, out: Spec, value: Value, _dtype: torch.dtype) -> Value:
    """The same bits; StableHLO adds or removes a last dimension where widths differ."""
    if value.dtype == out.dtype:
        return value
    require(max(value.dtype.itemsize, out.dtype.itemsize) < 8 and not value.dtype.is_complex
            and not out.dtype.is_complex and torch.bool not in (value.dtype, out.dtype),
            f"from {value.dtype} to {out.dtype} is not written: their bits differ on the device")  # fmt: skip
    wide, narrow = value.dtype.itemsize, out.dtype.itemsize
    if wide == narrow:
        return body.op("bitcast_convert", [value], out.shape, out.dtype)
    if wide > narrow:
        parts = body.op("bitcast_convert", [value], (*value.shape, wide // narrow), out.dtype)
        return body.reshape(parts, out.shape)
    parts = body.reshape(value, (*out.shape, narrow // wide))
    return body.op("bitcast_convert", [parts], out.shape, out.dtype)


@emits("permute.default", "permute_copy.default", "prims.transpose")
def permute(body: Emitter, out: Spec, value: Value, order: Sequence[int]) -> Value:
    return body.transpose(value, [axis_of(axis, value.rank) for axis in order])


@emits("t.default", "t_copy.default", "numpy_T.default")
def t(body: Emitter, out: Spec, value: Value) -> Value:
    return body.transpose(value, list(reversed(range(value.rank))))


@emits("transpose.int", "transpose_copy.int")
def transpose(body: Emitter, out: Spec, value: Value, first: int, second: int) -> Value:
    order = list(range(value.rank))
    if order:
        a, b = axis_of(first, value.rank), axis_of(second, value.rank)
        order[a], order[b] = order[b], order[a]
    return body.transpose(value, order)


@emits("expand.default", "expand_copy.default")
def expand(body: Emitter, out: Spec, value: Value, *_: Any, **__: Any) -> Value:
    return body.broadcast(value, out.shape)


@emits("prims.broadcast_in_dim")
def broadcast_in_dim(body: Emitter, out: Spec, value: Value, _shape: Any, dimensions: Sequence[int]) -> Value:
    return body.broadcast_in_dim(value, out.shape, dimensions)


def _bounds(size: int, start: Any, end: Any) -> tuple[int, int]:
    start = 0 if start is None else start
    end = size if end is None else end
    start = min(max(start + size if start < 0 else start, 0), size)
    end = min(max(end + size if end < 0 else end, start), size)
    return start, end


@emits("slice.Tensor", "slice_copy.Tensor")
def slice_(
    body: Emitter, out: Spec, value: Value, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    axis = axis_of(axis, value.rank)
    return body.slice_axis(value, axis, *_bounds(value.shape[axis], start, end), step)


@emits("narrow_copy.default")
def narrow(body: Emitter, out: Spec, value: Value, axis: int, start: int, length: int) -> Value:
    axis = axis_of(axis, value.rank)
    start = axis_of(start, value.shape[axis])
    return body.slice_axis(value, axis, start, start + length)


@emits("select.int", "select_copy.int")
def select(body: Emitter, out: Spec, value: Value, axis: int, number: int) -> Value:
    axis = axis_of(axis, value.rank)
    number = axis_of(number, value.shape[axis])
    return body.reshape(body.slice_axis(value, axis, number, number + 1), out.shape)


def put_slice(
    body: Emitter, value: Value, part: Value, axis: int, start: int, limit: int, step: int
) -> Value:
    """value with part in place of that slice."""
    size = value.shape[axis]
    if step == 1:
        before = body.slice_axis(value, axis, 0, start)
        after = body.slice_axis(value, axis, limit, size)
        return body.concatenate([before, part, after], axis)
    count = part.shape[axis]
    if count == 0:
        return value
    low, high, gaps = [0] * value.rank, [0] * value.rank, [0] * value.rank
    low[axis], gaps[axis] = start, step - 1
    high[axis] = size - start - (count - 1) * step - 1
    placed = body.pad(part, low, high, gaps)
    chosen = torch.zeros(size, dtype=torch.bool)
    chosen[start:limit:step] = True
    mask = body.broadcast_in_dim(body.constant(chosen), value.shape, [axis])
    return body.select(mask, placed, value)


@emits("slice_scatter.default")
def slice_scatter(
    body: Emitter, out: Spec, value: Value, part: Value, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    axis = axis_of(axis, value.rank)
    start, end = _bounds(value.shape[axis], start, end)
    if start == end:
        return value
    shape = list(value.shape)
    shape[axis] = -(-(end - start) // step)
    return put_slice(body, value, body.tensor(part, out.dtype, shape), axis, start, end, step)


@emits("select_scatter.default")
def select_scatter(body: Emitter, out: Spec, value: Value, part: Value, axis: int, number: int) -> Value:
    axis = axis_of(axis, value.rank)
    number = axis_of(number, value.shape[axis])
    shape = list(value.shape)
    shape[axis] = 1
    rest = tuple(size for i, size in enumerate(value.shape) if i != axis)
    piece = body.reshape(body.tensor(part, out.dtype, rest), shape)
    return put_slice(body, value, piece, axis, number, number + 1, 1)


@emits("split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split_with_sizes.default")
def split_with_sizes(
    body: Emitter, out: Any, value: Value, sizes: Sequence[int], axis: int = 0
) -> tuple[Value, ...]:
    axis = axis_of(axis, value.rank)
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(body.slice_axis(value, axis, end - size, end) for size, end in zip(sizes, ends))


@emits("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(body: Emitter, out: Any, value: Value, size: int, axis: int = 0) -> tuple[Value, ...]:
    return split_with_sizes(body, out, value, [each.shape[axis_of(axis, value.rank)] for each in out], axis)


@emits("unbind.int", "unbind_copy.int")
def unbind(body: Emitter, out: Any, value: Value, axis: int = 0) -> tuple[Value, ...]:
    return tuple(select(body, each, value, axis, number) for number, each in enumerate(out))


@emits("cat.default", "prims.cat")
def cat(body: Emitter, out: Spec, values: Sequence[Value], axis: int = 0) -> Value:
    """Empty tensors of one dimension join anything."""
    axis = axis_of(axis, len(out.shape))
    kept = [value for value in values if value.shape != (0,)] or [values[0]]
    return body.concatenate([body.convert(value, out.dtype) for value in kept], axis)


@emits("stack.default")
def stack(body: Emitter, out: Spec, values: Sequence[Value], axis: int = 0) -> Value:
    axis = axis_of(axis, len(out.shape))
    shape = list(out.shape)
    shape[axis] = 1
    return body.concatenate([body.reshape(body.convert(value, out.dtype), shape) for value in values], axis)


@emits("flip.default", "prims.rev")
def flip(body: Emitter, out: Spec, value: Value, axes: Sequence[int]) -> Value:
    if not value.rank:
        return value
    return body.reverse(value, sorted({axis_of(axis, value.rank) for axis in axes}))


@emits("repeat.default")
def repeat(body: Emitter, out: Spec, value: Value, counts: Sequence[int]) -> Value:
    sizes = (1,) * (len(counts) - value.rank) + value.shape
    spread = [each for pair in zip(counts, sizes) for each in pair]
    made = body.broadcast_in_dim(body.reshape(value, sizes), spread, range(1, len(spread), 2))
    return body.reshape(made, out.shape)


@emits("constant_pad_nd.default")
def constant_pad_nd(body: Emitter, out: Spec, value: Value, amounts: Sequence[int], fill: Any = 0) -> Value:
    low, high = [0] * value.rank, [0] * value.rank
    for number in range(len(amounts) // 2):
        low[value.rank - 1 - number], high[value.rank - 1 - number] = amounts[2 * number : 2 * number + 2]
    return body.pad(value, low, high, None, fill)


@emits("diagonal.default", "diagonal_copy.default")
def diagonal(
    body: Emitter, out: Spec, value: Value, offset: int = 0, first: int = 0, second: int = 1
) -> Value:
    """The plane's flattened rows, every (columns + 1)-th element."""
    a, b = axis_of(first, value.rank), axis_of(second, value.rank)
    order = [axis for axis in range(value.rank) if axis not in (a, b)] + [a, b]
    plane = body.transpose(value, order)
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    rank, count = plane.rank, out.shape[-1]
    rows, columns = max(-offset, 0), max(offset, 0)
    start, limit = [0] * rank, list(plane.shape)
    start[-2:], limit[-2:] = [rows, columns], [rows + count, columns + count]
    square = body.slice(plane, start, limit)
    lead = square.shape[:-2]
    # One more column makes a step along the diagonal a step of whole rows.
    wide = body.pad(square, [0] * rank, [0] * (rank - 1) + [1])
    flat = body.reshape(wide, (*lead, count * (count + 1)))
    starts, limits, steps = [0] * flat.rank, list(flat.shape), [1] * flat.rank
    steps[-1] = count + 2
    return body.reshape(body.slice(flat, starts, limits, steps), out.shape)


@emits("diagonal_scatter.default")
def diagonal_scatter(
    body: Emitter, out: Spec, value: Value, part: Value, offset: int = 0, first: int = 0, second: int = 1
) -> Value:
    a, b = axis_of(first, value.rank), axis_of(second, value.rank)
    order = [axis for axis in range(value.rank) if axis not in (a, b)] + [a, b]
    plane = body.transpose(value, order)
    rows, columns = plane.shape[-2:]
    i, j = (body.iota(plane.shape, plane.rank - 2 + each, torch.int32) for each in (0, 1))
    on = body.compare("EQ", body.subtract(j, i), body.splat(offset, torch.int32, plane.shape))
    count = part.shape[-1]
    if count == 0:
        return value
    # Along the rows where the diagonal starts at the top, else along the columns.
    low, high = [0] * (plane.rank - 1), [0] * (plane.rank - 1)
    low[-1] = max(-offset, 0)
    high[-1] = rows - low[-1] - count
    line = body.pad(body.convert(part, out.dtype), low, high)
    spread = body.broadcast_in_dim(line, plane.shape, range(plane.rank - 1))
    made = body.select(on, spread, plane)
    back = [order.index(axis) for axis in range(value.rank)]
    return body.transpose(made, back)


@emits("unfold.default", "unfold_copy.default")
def unfold(body: Emitter, out: Spec, value: Value, axis: int, size: int, step: int) -> Value:
    """Windows of `size` along an axis; the place in the window is a new last dimension."""
    if not value.rank:
        return body.reshape(value, out.shape)
    axis = axis_of(axis, value.rank)
    count = out.shape[axis]
    parts = [
        body.slice_axis(value, axis, place, place + (count - 1) * step + 1, step) for place in range(size)
    ]
    if not parts:
        return body.splat(0, out.dtype, out.shape)
    return body.concatenate([body.reshape(part, (*part.shape, 1)) for part in parts], value.rank)


@emits("as_strided.default", "as_strided_copy.default", "prims.as_strided")
def as_strided(
    body: Emitter,
    out: Spec,
    value: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None = None,
) -> Value:
    """Of a tensor whose elements lie one after the other, as those of a program do."""
    from opentrn.torch.ops.index import take_flat

    places = torch.full([], offset or 0, dtype=torch.int64)
    for size, stride in zip(sizes, strides):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    flat = body.reshape(value, (size_of(value.shape),))
    if places.numel() == flat.shape[0] and bool((places.reshape(-1) == torch.arange(flat.shape[0])).all()):
        return body.reshape(flat, out.shape)
    return body.reshape(take_flat(body, flat, body.constant(places.reshape(-1).to(torch.int32))), out.shape)
