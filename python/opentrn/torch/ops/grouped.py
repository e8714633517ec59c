"""Products of groups of rows (mixtures of experts): how many rows a group has is a value, the number of groups is not.

Rows are taken in blocks of fixed size. A block that several groups share is computed once for each of them, so there
are at most ceil(rows / block) + groups - 1 products, whatever the groups' sizes: a loop over that many, each of which
reads its block and its group's matrix by computed indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.control import counted, row_of
from opentrn.torch.registry import FOREIGN, emits, require
from opentrn.torch.text import Spec, Value, numbers
from opentrn.torch.types import is_float

_BLOCK = 128  # rows of a block: the Tensor engine's
_LONG_BLOCK = 512  # where groups have many rows


@dataclass
class _Items:
    """The products: of each, its block of rows, its group, and which rows of all are the group's."""

    count: int
    block: int  # rows
    first: Value  # [count] int32, of the block
    group: Value  # [count]
    low: Value  # [count], rows of the group
    high: Value  # [count]

    def mask(self, body: Emitter, i: Value, first: Value) -> Value:
        """[block, 1]: whether a row of the i-th product is its group's."""
        row = body.iota((self.block, 1), 0, torch.int32)
        row = body.add(row, body.broadcast(first, row.shape))
        low, high = (body.broadcast(row_of(body, each, i), row.shape) for each in (self.low, self.high))
        return body.binary("and", body.compare("GE", row, low), body.compare("LT", row, high))


def _items(body: Emitter, ends: Value, rows: int) -> _Items:
    """ends: [groups], where each group ends; groups lie one after the other from row 0."""
    groups = ends.shape[0]
    block = min(rows, _LONG_BLOCK if rows >= 1024 * groups else _BLOCK)
    count = -(-rows // block) + min(groups, rows) - 1
    ends = body.convert(ends, torch.int32)
    zero, size = body.splat(0, torch.int32, (groups,)), body.splat(block, torch.int32, (groups,))
    ends = body.binary("maximum", body.binary("minimum", ends, body.like(rows, ends)), zero)
    starts = body.concatenate([body.splat(0, torch.int32, (1,)), body.slice_axis(ends, 0, 0, groups - 1)], 0)
    begin = body.divide(starts, size)
    over = body.divide(body.add(ends, body.like(block - 1, ends)), size)
    touched = body.select(body.compare("GT", ends, starts), body.subtract(over, begin), zero)
    # Products up to and with each group.
    square = (groups, groups)
    earlier = body.compare("LE", body.iota(square, 1, torch.int32), body.iota(square, 0, torch.int32))
    counts = body.select(earlier, body.broadcast(touched, square), body.splat(0, torch.int32, square))
    until = body.reduce("add", counts, [1], 0)
    table = (count, groups)
    number = body.iota(table, 0, torch.int32)
    here = body.binary(
        "and",
        body.compare("GE", number, body.broadcast(body.subtract(until, touched), table)),
        body.compare("LT", number, body.broadcast(until, table)),
    )

    def of_group(values: Value) -> Value:
        """[count]: each product's value of its group; 0 of products that are not needed, whose groups have no rows."""
        return body.reduce(
            "add", body.select(here, body.broadcast(values, table), body.splat(0, torch.int32, table)), [1], 0
        )

    index = body.iota((count,), 0, torch.int32)
    offset = of_group(body.subtract(begin, body.subtract(until, touched)))
    used = of_group(body.splat(1, torch.int32, (groups,)))
    first = body.multiply(body.multiply(body.add(index, offset), used), body.like(block, index))
    group = of_group(body.iota((groups,), 0, torch.int32))
    return _Items(count, block, first, group, of_group(starts), of_group(ends))


def _blocks(body: Emitter, value: Value, block: int) -> Value:
    """With rows of zeros up to a multiple of the block."""
    missing = -value.shape[0] % block
    return body.pad(value, [0, 0], [missing, 0]) if missing else value


def _rows_at(body: Emitter, value: Value, first: Value, count: int) -> Value:
    sizes = (count, value.shape[1])
    operands = [value, first, body.splat(0, torch.int32)]
    return body.op("dynamic_slice", operands, sizes, value.dtype, f"slice_sizes = {numbers(sizes)}")


def rows_by_groups(body: Emitter, left: Value, right: Value, ends: Value, dtype: torch.dtype) -> Value:
    """[rows, k] by [groups, k, n]: [rows, n], each row by its group's matrix; zeros behind the last group."""
    rows, columns = left.shape[0], right.shape[2]
    if 0 in (rows, columns, *left.shape, *right.shape):
        return body.splat(0, dtype, (rows, columns))
    items = _items(body, ends, rows)
    padded = _blocks(body, left, items.block)
    start = body.splat(0, dtype, (padded.shape[0], columns))

    def step(i: Value, given: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        (out,) = given
        first = row_of(body, items.first, i)
        matrix = row_of(body, right, row_of(body, items.group, i))
        made = body.dot(_rows_at(body, padded, first, items.block), matrix, ([1], [0]), dtype=dtype)
        mask = body.broadcast(items.mask(body, i, first), made.shape)
        new = body.select(mask, made, _rows_at(body, out, first, items.block))
        at = [first, body.splat(0, torch.int32)]
        return [body.op("dynamic_update_slice", [out, new, *at], out.shape, out.dtype)], []

    (made,), _ = counted(body, items.count, [start], step, [])
    return body.slice_axis(made, 0, 0, rows)


def sums_of_groups(body: Emitter, left: Value, right: Value, ends: Value, dtype: torch.dtype) -> Value:
    """[rows, m] and [rows, n]: [groups, m, n], of each group its rows' products summed."""
    rows, shape = left.shape[0], (ends.shape[0], left.shape[1], right.shape[1])
    if 0 in (rows, *shape):
        return body.splat(0, dtype, shape)
    items = _items(body, ends, rows)
    a, b = (_blocks(body, each, items.block) for each in (left, right))
    wide = torch.float32 if is_float(dtype) and dtype.itemsize < 4 else dtype
    start = body.splat(0, wide, shape)

    def step(i: Value, given: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        (sums,) = given
        first, group = row_of(body, items.first, i), row_of(body, items.group, i)
        part, other = (_rows_at(body, each, first, items.block) for each in (a, b))
        mask = body.broadcast(items.mask(body, i, first), part.shape)
        part = body.select(mask, part, body.like(0, part))
        made = body.dot(part, other, ([0], [0]), dtype=wide)
        total = body.reshape(body.add(made, row_of(body, sums, group)), (1, *shape[1:]))
        zero = body.splat(0, torch.int32)
        operands = [sums, total, group, zero, zero]
        return [body.op("dynamic_update_slice", operands, sums.shape, sums.dtype)], []

    (made,), _ = counted(body, items.count, [start], step, [])
    return body.convert(made, dtype)


@emits("_grouped_mm.default")
def grouped_mm(
    body: Emitter,
    out: Spec,
    left: Value,
    right: Value,
    offsets: Value | None = None,
    bias: Value | None = None,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """torch's four forms. Two matrices: groups of what is summed over; one: groups of its rows or columns.

    Raises NoDeviceForm with a bias, and without offsets where a side is a matrix.
    """
    require(bias is None, "with a bias has no form on the device")
    if left.rank == right.rank == 3:
        return body.dot(left, right, ([2], [1]), ([0], [0]), dtype=out.dtype)
    require(offsets is not None, "needs offsets")
    assert offsets is not None
    if left.rank == right.rank == 2:
        return sums_of_groups(body, body.transpose(left, [1, 0]), right, offsets, out.dtype)
    if left.rank == 2:
        return rows_by_groups(body, left, right, offsets, out.dtype)
    made = rows_by_groups(
        body, body.transpose(right, [1, 0]), body.transpose(left, [0, 2, 1]), offsets, out.dtype
    )
    return body.transpose(made, [1, 0])


def fallback(body: Emitter, out: Spec, left: Value, right: Value, offsets: Value) -> Value:
    """Hugging Face's stand-in for it, of any float type."""
    return rows_by_groups(body, left, right, offsets, out.dtype)


def fallback_backward(
    body: Emitter, out: Any, left: Value, right: Value, offsets: Value, gradient: Value
) -> tuple[Value, Value]:
    """(of the rows, of the matrices)"""
    of_rows = rows_by_groups(body, gradient, body.transpose(right, [0, 2, 1]), offsets, left.dtype)
    return of_rows, sums_of_groups(body, left, gradient, offsets, right.dtype)


FOREIGN["transformers::grouped_mm_fallback"] = fallback
FOREIGN["transformers::grouped_mm_fallback_backward"] = fallback_backward
