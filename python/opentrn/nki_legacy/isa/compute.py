"""Element-wise, reducing and scanning instructions of the Vector, Scalar and GpSimd engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.nki import isa as machine
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, full_box
from opentrn.nki_legacy.dtypes import host_dtype, promote
from opentrn.nki_legacy.emit import PSUM, to_sbuf
from opentrn.nki_legacy.index import regions
from opentrn.nki_legacy.isa._common import (
    ONE,
    PerPartition,
    elementwise,
    no_options,
    operand,
    options,
    plain,
    read,
    row_result,
    rows_of,
    to_command,
    to_engine,
    write,
)
from opentrn.nki_legacy.isa._common import predicate as truth
from opentrn.nki_legacy.isa.constants import engine as engines
from opentrn.nki_legacy.isa.constants import reduce_cmd as commands
from opentrn.nki_legacy.tile import Tile
from opentrn.types.isa_ops import is_bitvec, op_name


def activation(
    op,
    data,
    *,
    bias=None,
    scale=1.0,
    reduce_op=None,
    reduce_res=None,
    reduce_cmd=commands.idle,
    mask=None,
    dtype=None,
    **extra,
) -> Tile:
    """op(data * scale + bias) on the Scalar engine, optionally with a running sum along the free axes."""
    emit.flush()
    data = operand(data, "activation", "data")
    name = op_name(op)
    factor = PerPartition(scale, data, "activation: scale")
    offset = PerPartition(bias, data, "activation: bias")
    if offset.tile is not None and offset.tile.dtype.kind in "iub":
        raise NkiValidationError(
            "err_activation_bias_invalid_type: bias must be float32, float16 or bfloat16, got "
            f"{offset.tile.dtype.name}",
            label="nki.dtype",
        )
    result = row_result(reduce_res, data, "activation: reduce_res")
    reduction = None if reduce_op is None else op_name(reduce_op)

    def call(dst: Tile, box: Box) -> None:
        source, by, plus = read(data, box), factor.at(box), offset.at(box)
        out = None if result is None else write(result, (box[0], ONE))
        machine.activation(write(dst, box), name, source, plus, by, reduction, out, to_command(reduce_cmd))

    return elementwise("activation", data, dtype, mask, extra, call, factor.sources + offset.sources)


def activation_reduce(
    op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None, **extra
) -> Tile:
    """`activation` with reduce_cmd.reset_reduce."""
    return activation(
        op,
        data,
        bias=bias,
        scale=scale,
        reduce_op=reduce_op,
        reduce_res=reduce_res,
        reduce_cmd=commands.reset_reduce,
        mask=mask,
        dtype=dtype,
        **extra,
    )


def tensor_tensor(data1, data2, op, *, dtype=None, mask=None, engine=engines.unknown, **extra) -> Tile:
    """data1 <op> data2, element by element; a free dimension of size one is read with stride 0.

    Tiles of as many elements per partition pair them in order, whatever their shapes; the result has data1's.
    """
    emit.flush()
    a, b = operand(data1, "tensor_tensor", "data1"), operand(data2, "tensor_tensor", "data2")
    name = op_name(op)
    if a.shape != b.shape and a.shape[0] == b.shape[0] and a.size == b.size:
        b = b.reshape(a.shape)
    shape = emit.broadcast_shape(a, b)
    out = promote(a.dtype, b.dtype) if dtype is None else dtype
    if a.region is PSUM and b.region is PSUM:
        raise NkiValidationError(
            f"tensor_tensor: {a!r} and {b!r} cannot both be in PSUM",
            label="nki.memory", hint="nl.copy one to SBUF",
        )
    given = (a.region, b.region)
    a, b = emit.broadcast(a, shape), emit.broadcast(b, shape)
    # A row that was spread to many partitions lies in PSUM, which GpSimd cannot read and which holds one operand.
    on_gpsimd = name == "power" or to_engine(engine) == machine.engine.gpsimd
    if a.region is PSUM and given[0] is not PSUM and on_gpsimd:
        a = to_sbuf(a)
    if b.region is PSUM and (a.region is PSUM or (given[1] is not PSUM and on_gpsimd)):
        b = to_sbuf(b)

    def call(dst: Tile, box: Box) -> None:
        left, right = read(a, box), read(b, box)
        machine.tensor_tensor(write(dst, box), left, right, name, to_engine(engine))

    return elementwise("tensor_tensor", a, out, mask, extra, call, [b])


def tensor_scalar(
    data,
    op0,
    operand0,
    reverse0=False,
    op1=None,
    operand1=None,
    reverse1=False,
    *,
    dtype=None,
    mask=None,
    engine=engines.unknown,
    **extra,
) -> Tile:
    """(data <op0> operand0) <op1> operand1, the operands numbers or one value per partition."""
    emit.flush()
    data = operand(data, "tensor_scalar", "data")
    name0, name1 = op_name(op0), None if op1 is None else op_name(op1)
    first = PerPartition(operand0, data, "tensor_scalar: operand0")
    second = PerPartition(operand1, data, "tensor_scalar: operand1")
    if not is_bitvec(name0) and not _is_address(data):
        first.in_float32()
        second.in_float32()

    def call(dst: Tile, box: Box) -> None:
        source = read(data, box)
        a, b = first.at(box), second.at(box)
        if name1 is None:
            second_step: tuple[str | None, Any, bool] = (None, None, False)
        else:
            second_step = (name1, b, bool(reverse1))
        machine.tensor_scalar(
            write(dst, box), source, name0, a, bool(reverse0), *second_step, to_engine(engine)
        )

    return elementwise("tensor_scalar", data, dtype, mask, extra, call, first.sources + second.sources)


def _is_address(data: Tile) -> bool:
    """Arithmetic on 32-bit integers takes operands of its own type."""
    return data.dtype in (np.int32, np.uint32)


def scalar_tensor_tensor(
    *, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, mask=None, **extra
) -> Tile:
    """(data <op0> operand0) <op1> operand1 with a number or per-partition operand0 and a tile operand1."""
    emit.flush()
    data = operand(data, "scalar_tensor_tensor", "data")
    other = operand(operand1, "scalar_tensor_tensor", "operand1")
    name0, name1 = op_name(op0), op_name(op1)
    first = PerPartition(operand0, data, "scalar_tensor_tensor: operand0")
    other = emit.broadcast(other, data.shape)

    def call(dst: Tile, box: Box) -> None:
        source, right, a = read(data, box), read(other, box), first.at(box)
        machine.scalar_tensor_tensor(
            write(dst, box), source, name0, a, name1, right, bool(reverse0), bool(reverse1)
        )

    return elementwise("scalar_tensor_tensor", data, dtype, mask, extra, call, [other, *first.sources])


def tensor_scalar_reduce(
    *, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None, **extra
) -> Tile:
    """data <op0> operand0, and reduce_res = the reduction of it along the free axes."""
    emit.flush()
    data = operand(data, "tensor_scalar_reduce", "data")
    first = PerPartition(operand0, data, "tensor_scalar_reduce: operand0")
    result = row_result(reduce_res, data, "tensor_scalar_reduce: reduce_res")
    name, reduction = op_name(op0), op_name(reduce_op)
    rows_of(regions(mask, data.shape, "tensor_scalar_reduce"), "tensor_scalar_reduce")

    def call(dst: Tile, box: Box) -> None:
        source, a = read(data, box), first.at(box)
        out = None if result is None else write(result, (box[0], ONE))
        machine.tensor_scalar_reduce(write(dst, box), source, name, a, reduction, out, bool(reverse0))

    return elementwise("tensor_scalar_reduce", data, dtype, mask, extra, call, first.sources)


def tensor_scalar_cumulative(
    *, src, dst, op0, op1, imm0, imm1=None, reduce_cmd=commands.reset_reduce, mask=None, **extra
) -> None:
    """dst[i] = register = (src[i] <op0> imm0) <op1> register along each partition, in place."""
    emit.flush()
    no_options("tensor_scalar_cumulative", extra)
    src, dst = (
        operand(src, "tensor_scalar_cumulative", "src"),
        operand(dst, "tensor_scalar_cumulative", "dst"),
    )
    first = PerPartition(imm0, src, "tensor_scalar_cumulative: imm0")
    start = PerPartition(imm1, src, "tensor_scalar_cumulative: imm1")
    for box in rows_of(regions(mask, src.shape, "tensor_scalar_cumulative"), "tensor_scalar_cumulative"):
        source, a, b = read(src, box), first.at(box), start.at(box)
        machine.tensor_scalar_cumulative(
            write(dst, box), source, op_name(op0), op_name(op1), a, b, to_command(reduce_cmd)
        )


def _axes(axis: Any, rank: int, what: str) -> list[int]:
    chosen = sorted(int(a) % rank for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if not chosen or chosen[0] == 0:
        raise NkiValidationError(
            f"{what}: axis {axis} must name free dimensions (1 to {rank - 1})", label="nki.axis"
        )
    return chosen


def tensor_reduce(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False, **extra) -> Tile:
    """The reduction of free axes. Axes that are not the last ones are read in another order, which an access
    pattern can do. A rank of one is never returned: [128] is [128, 1]."""
    emit.flush()
    data = operand(data, "tensor_reduce", "data")
    rank = data.ndim
    axes = _axes(axis, rank, "tensor_reduce")
    kept = [a for a in range(rank) if a not in axes]
    shape = tuple((1 if a in axes else data.shape[a]) for a in (range(rank) if keepdims else kept))
    if len(shape) == 1:
        shape += (1,)
    name = op_name(op)
    boxes = regions(mask, data.shape, "tensor_reduce")
    if len(boxes) > 1:
        rows_of(boxes, "tensor_reduce")
    order = kept + axes
    moved = data if order == list(range(rank)) else data.permute(order)

    def issue(dst: Tile) -> None:
        flat = dst.with_ones(tuple(data.shape[a] for a in kept) if len(kept) > 1 else (data.shape[0], 1))
        for box in boxes:
            inner = tuple(box[a] for a in order)
            outer = tuple(box[a] for a in kept) if len(kept) > 1 else (box[0], ONE)
            source = read(moved, inner)
            last = tuple(range(len(kept), rank))
            machine.tensor_reduce(write(flat, outer), name, source, last, bool(negate))

    written: list[Box] = []
    for box in boxes:
        part = tuple((ONE if a in axes else box[a]) for a in (range(rank) if keepdims else kept))
        written.append(part if len(part) > 1 else (*part, ONE))
    return emit.defer(
        shape,
        data.dtype if dtype is None else dtype,
        issue,
        boxes=written,
        sources=[data],
        region=options("tensor_reduce", extra),
        in_place=False,
    )


def tensor_partition_reduce(op, data, *, mask=None, dtype=None, **extra) -> Tile:
    """The reduction over partitions, on GpSimd: shape (1, free...)."""
    emit.flush()
    data = to_sbuf(operand(data, "tensor_partition_reduce", "data"))
    name = op_name(op)
    shape = (1, *data.shape[1:])
    boxes = regions(mask, data.shape, "tensor_partition_reduce")
    written = [(ONE, *box[1:]) for box in boxes]
    if len(set(written)) != len(written):
        raise NkiValidationError(
            "tensor_partition_reduce: a mask whose rows differ by column", label="nki.mask"
        )

    def issue(dst: Tile) -> None:
        for box, out in zip(boxes, written):
            source = read(data, box)
            machine.tensor_partition_reduce(write(dst, out), name, source)

    return emit.defer(
        shape,
        data.dtype if dtype is None else dtype,
        issue,
        boxes=written,
        sources=[data],
        region=options("tensor_partition_reduce", extra),
        in_place=False,
    )


def tensor_tensor_scan(
    data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, mask=None, **extra
) -> Tile:
    """r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i] along the free axis."""
    emit.flush()
    a, b = operand(data0, "tensor_tensor_scan", "data0"), operand(data1, "tensor_tensor_scan", "data1")
    start = PerPartition(initial, a, "tensor_tensor_scan: initial")
    name0, name1 = op_name(op0), op_name(op1)
    out = promote(a.dtype, b.dtype) if dtype is None else dtype
    rows_of(regions(mask, a.shape, "tensor_tensor_scan"), "tensor_tensor_scan")

    def call(dst: Tile, box: Box) -> None:
        left, right, first = read(a, box), read(b, box), start.at(box)
        machine.tensor_tensor_scan(
            write(dst, box), left, right, first, name0, name1, bool(reverse0), bool(reverse1)
        )

    return elementwise("tensor_tensor_scan", a, out, mask, extra, call, [b, *start.sources], in_place=False)


def reciprocal(data, *, dtype=None, mask=None, **extra) -> Tile:
    """1 / data."""
    emit.flush()
    data = operand(data, "reciprocal", "data")

    def call(dst: Tile, box: Box) -> None:
        source = read(data, box)
        machine.reciprocal(write(dst, box), source)

    return elementwise("reciprocal", data, dtype, mask, extra, call)


def dropout(data, prob, *, mask=None, dtype=None, **extra) -> Tile:
    """data with elements replaced by zero with probability `prob`; no rescaling."""
    emit.flush()
    data = operand(data, "dropout", "data")
    chance = PerPartition(prob, data, "dropout: prob")
    if dtype is not None and np.dtype(dtype) != data.dtype:
        kept = dropout(data, prob, mask=mask)
        from opentrn.nki_legacy.isa.move import tensor_copy

        return tensor_copy(kept, dtype=dtype, mask=mask)

    def call(dst: Tile, box: Box) -> None:
        source, p = read(data, box), chance.at(box)
        machine.dropout(write(dst, box), source, p)

    result = elementwise("dropout", data, dtype, mask, extra, call, chance.sources)
    result.deferred.exact = False
    return result


def bn_stats(data, *, mask=None, dtype=None, **extra) -> Tile:
    """Six statistics per partition of at most 512 elements."""
    return _row_statistics("bn_stats", machine.bn_stats, data, 6, mask, dtype, extra)


def bn_aggr(data, *, mask=None, dtype=None, **extra) -> Tile:
    """Mean and variance from (count, mean, variance * count) triples."""
    return _row_statistics("bn_aggr", machine.bn_aggr, data, 2, mask, dtype, extra)


def _row_statistics(
    what: str, instruction: Any, data: Any, width: int, mask: Any, dtype: Any, extra: dict[str, Any]
) -> Tile:
    emit.flush()
    data = operand(data, what, "data")
    boxes = rows_of(regions(mask, data.shape, what), what)
    columns = full_box((width,))[0]

    def issue(dst: Tile) -> None:
        for box in boxes:
            source = read(data, box)
            instruction(write(dst, (box[0], columns)), source)

    return emit.defer(
        (data.shape[0], width),
        data.dtype if dtype is None else dtype,
        issue,
        boxes=[(box[0], columns) for box in boxes],
        sources=[data],
        region=options(what, extra),
        in_place=False,
    )


def select_reduce(
    *,
    dst,
    predicate,
    on_true,
    on_false,
    reduce_res=None,
    reduce_cmd=commands.idle,
    reduce_op=np.amax,
    reverse_pred=False,
    mask=None,
    dtype=None,
    **extra,
) -> None:
    """dst = on_true where predicate is not 0, else on_false, in place; optionally a running row maximum."""
    emit.flush()
    no_options("select_reduce", extra)
    data = operand(on_true, "select_reduce", "on_true")
    out, chosen = operand(dst, "select_reduce", "dst"), truth(predicate, "select_reduce")
    if dtype is not None and host_dtype(dtype) != out.dtype:
        raise NkiValidationError(f"select_reduce: dtype {dtype} differs from {out!r}", label="nki.dtype")
    otherwise = PerPartition(on_false, data, "select_reduce: on_false")
    result = row_result(reduce_res, data, "select_reduce: reduce_res")
    for box in rows_of(regions(mask, data.shape, "select_reduce"), "select_reduce"):
        source, p, other = read(data, box), read(chosen, box), otherwise.at(box)
        rows = None if result is None else write(result, (box[0], ONE))
        machine.select_reduce(
            write(out, box),
            p,
            source,
            other,
            rows,
            to_command(reduce_cmd),
            op_name(reduce_op),
            bool(reverse_pred),
        )


__all__ = [
    "activation",
    "activation_reduce",
    "bn_aggr",
    "bn_stats",
    "dropout",
    "plain",
    "reciprocal",
    "scalar_tensor_tensor",
    "select_reduce",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
]
