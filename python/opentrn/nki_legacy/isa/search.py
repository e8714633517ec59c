"""Index patterns, selection by position, search and gather."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import isa as machine
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, full_box, is_full
from opentrn.nki_legacy.dtypes import fp32, host_dtype
from opentrn.nki_legacy.emit import SBUF, read, to_sbuf, write
from opentrn.nki_legacy.index import IndexExpr, Predicate, broadcast_shapes, regions
from opentrn.nki_legacy.isa._common import (
    ONE,
    PerPartition,
    elementwise,
    operand,
    options,
    plain,
    row_result,
    rows_of,
    to_command,
)
from opentrn.nki_legacy.isa.constants import reduce_cmd as commands
from opentrn.nki_legacy.tile import Tile
from opentrn.types.isa_ops import op_name

_ONLY_SBUF = frozenset({SBUF})


def iota(expr, dtype, *, mask=None, **extra) -> Tile:
    """A tile of the values of an affine index expression."""
    emit.flush()
    if isinstance(expr, (int, np.integer)):
        expr = IndexExpr(int(expr))
    if not isinstance(expr, IndexExpr):
        raise NkiValidationError(
            f"iota takes an expression of nl.arange or nl.mgrid indices, got {expr!r}", label="nki.index"
        )
    if expr.ndim < 2:
        raise NkiValidationError(
            "err_1d_arange_not_supported: iota of a 1-D arange", label="nki.index", hint="nl.arange(n)[:, None]"
        )
    expr.pattern(full_box(expr.shape), "iota")  # refuses one that is not affine
    boxes = regions(mask, expr.shape, "iota")

    def issue(dst: Tile) -> None:
        for box in boxes:
            pattern, offset, multiplier = expr.pattern(box, "iota")
            machine.iota(write(dst, box), pattern, offset, multiplier)

    return emit.defer(
        expr.shape,
        dtype,
        issue,
        boxes=boxes,
        region=options("iota", extra),
        targets=_ONLY_SBUF,
        exact=False,
    )


def affine_select(pred, on_true_tile, on_false_value, *, mask=None, dtype=None, **extra) -> Tile:
    """on_true_tile where the affine predicate holds, else a number. A PSUM tile is copied to SBUF first,
    which GpSimd can read."""
    emit.flush()
    data = to_sbuf(operand(on_true_tile, "affine_select", "on_true_tile"))
    test = pred.single_test() if isinstance(pred, Predicate) else None
    if test is None:
        raise NkiValidationError(
            "affine_select: pred must be one comparison of affine index expressions (no & or |)",
            label="nki.mask", hint="nl.where for others",
        )
    expr, op = test
    if broadcast_shapes(expr.shape, data.shape) != data.shape:
        raise NkiValidationError(
            f"affine_select: the predicate has shape {expr.shape}, the tile {data.shape}", label="nki.shape"
        )
    expr.pattern(full_box(data.shape), "affine_select")  # refuses one that is not affine

    def call(dst: Tile, box: Box) -> None:
        pattern, offset, multiplier = expr.pattern(box, "affine_select")
        source = read(data, box)
        machine.affine_select(
            write(dst, box), pattern, multiplier, source, float(on_false_value), op, offset
        )

    result = elementwise("affine_select", data, dtype, mask, extra, call)
    result.deferred.targets = _ONLY_SBUF
    return result


def range_select(
    *,
    on_true_tile,
    comp_op0,
    comp_op1,
    bound0,
    bound1,
    reduce_cmd=commands.idle,
    reduce_res=None,
    reduce_op=np.amax,
    range_start=0,
    on_false_value=fp32.min,
    mask=None,
    dtype=None,
    **extra,
) -> Tile:
    """Elements whose position satisfies both comparisons, else FP32_MIN, with a running row maximum.

    With `reduce_res` given and reduce_cmd left idle, the maximum of this instruction alone is stored.
    """
    emit.flush()
    data = operand(on_true_tile, "range_select", "on_true_tile")
    low = PerPartition(bound0, data, "range_select: bound0")
    high = PerPartition(bound1, data, "range_select: bound1")
    result = row_result(reduce_res, data, "range_select: reduce_res")
    command = commands.reset_reduce if result is not None and reduce_cmd == commands.idle else reduce_cmd
    rows_of(regions(mask, data.shape, "range_select"), "range_select")

    def call(dst: Tile, box: Box) -> None:
        inner = box[2:]
        if box[1].step != 1 or not is_full(inner, data.shape[2:]):
            raise NotModelled("range_select: a mask that leaves gaps along a partition", label="nki.mask")
        skipped = box[1].start * math.prod(data.shape[2:])
        source, a, b = read(data, box), low.at(box), high.at(box)
        rows = None if result is None else write(result, (box[0], ONE))
        machine.range_select(
            write(dst, box),
            source,
            op_name(comp_op0),
            op_name(comp_op1),
            a,
            b,
            to_command(command),
            rows,
            op_name(reduce_op),
            int(range_start) + skipped,
            float(on_false_value),
        )

    return elementwise("range_select", data, dtype, mask, extra, call, low.sources + high.sources)


def _eight(
    what: str, data: Tile, dtype: Any, mask: Any, extra: dict[str, Any], call: Any, sources: list[Tile]
) -> Tile:
    """An instruction with eight results per partition."""
    boxes = rows_of(regions(mask, data.shape, what), what)
    columns = full_box((8,))[0]

    def issue(dst: Tile) -> None:
        for box in boxes:
            call(dst, box, (box[0], columns))

    return emit.defer(
        (data.shape[0], 8),
        dtype,
        issue,
        boxes=[(box[0], columns) for box in boxes],
        sources=[data, *sources],
        region=options(what, extra),
        in_place=False,
        exact=False,
    )


def max8(*, src, mask=None, dtype=None, **extra) -> Tile:
    """The 8 largest values of each partition, descending."""
    emit.flush()
    data = operand(src, "max8", "src")

    def call(dst: Tile, box: Box, out: Box) -> None:
        source = read(data, box)
        machine.max8(write(dst, out), source)

    return _eight("max8", data, data.dtype if dtype is None else dtype, mask, extra, call, [])


def _flat_eight(tile: Tile, partitions: int, what: str) -> Tile:
    if tile.shape[0] != partitions or tile.size != 8 * partitions:
        raise NkiValidationError(
            f"{what}: {tile!r} must have 8 elements in each of {partitions} partitions", label="nki.shape"
        )
    return tile.reshape((partitions, 8))


def nc_find_index8(*, data, vals, mask=None, dtype=None, **extra) -> Tile:
    """Index of the first occurrence of each of 8 values; uint32 unless dtype says uint16."""
    emit.flush()
    where = operand(data, "nc_find_index8", "data")
    wanted = _flat_eight(operand(vals, "nc_find_index8", "vals"), where.shape[0], "nc_find_index8: vals")

    def call(dst: Tile, box: Box, out: Box) -> None:
        source, values = read(where, box), read(wanted, out)
        machine.nc_find_index8(write(dst, out), source, values)

    return _eight("nc_find_index8", where, np.uint32 if dtype is None else dtype, mask, extra, call, [wanted])


def nc_match_replace8(*, data, vals, imm, dst_idx=None, mask=None, dtype=None, **extra) -> Tile:
    """data with the first match of each of 8 values replaced; dst_idx gets their positions."""
    emit.flush()
    source = operand(data, "nc_match_replace8", "data")
    rows = source.shape[0]
    wanted = _flat_eight(operand(vals, "nc_match_replace8", "vals"), rows, "nc_match_replace8: vals")
    found = None
    if dst_idx is not None:
        found = _flat_eight(
            operand(dst_idx, "nc_match_replace8", "dst_idx"), rows, "nc_match_replace8: dst_idx"
        )
    columns = full_box((8,))[0]
    rows_of(regions(mask, source.shape, "nc_match_replace8"), "nc_match_replace8")

    def call(dst: Tile, box: Box) -> None:
        part, values = read(source, box), read(wanted, (box[0], columns))
        indices = None if found is None else write(found, (box[0], columns))
        machine.nc_match_replace8(write(dst, box), part, values, plain(imm), indices)

    return elementwise("nc_match_replace8", source, dtype, mask, extra, call, [wanted])


def local_gather(
    src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None, **extra
) -> Tile:
    """Elements gathered by each group of 16 partitions; shape [P, n/16, 16, e], or [P, n, e] where 16
    does not divide n."""
    emit.flush()
    if mask is not None and mask is not True:
        raise NotModelled("local_gather: mask", label="nki.mask")
    source = operand(src_buffer, "local_gather", "src_buffer")
    table = operand(index, "local_gather", "index")
    width = int(num_elem_per_idx)
    available = table.size // table.shape[0] * 16
    count = available if num_valid_indices is None else int(num_valid_indices)
    partitions = source.shape[0]
    shape = (partitions, count // 16, 16, width) if count % 16 == 0 else (partitions, count, width)

    def issue(dst: Tile) -> None:
        part, indices = read(source), read(table)
        machine.local_gather(write(dst), part, indices, width, num_valid_indices)

    return emit.defer(
        shape,
        source.dtype,
        issue,
        sources=[source, table],
        region=options("local_gather", extra),
        targets=_ONLY_SBUF,
        in_place=False,
        exact=False,
    )


def sequence_bounds(*, segment_ids, dtype=None, **extra) -> Tile:
    """Start and end of the run that each element belongs to: shape (1, 2, n)."""
    emit.flush()
    data = operand(segment_ids, "sequence_bounds", "segment_ids")
    out = data.dtype if dtype is None else host_dtype(dtype)

    def issue(dst: Tile) -> None:
        source = read(data)
        machine.sequence_bounds(write(dst), source)

    return emit.defer(
        (1, 2, data.size),
        out,
        issue,
        sources=[data],
        region=options("sequence_bounds", extra),
        in_place=False,
        exact=False,
    )
