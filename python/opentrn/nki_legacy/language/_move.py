"""Load, store, copies and matrix products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import isa as machine
from opentrn.nki import language as machine_nl
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, Range, full_box
from opentrn.nki_legacy.dtypes import device_dtype, host_dtype
from opentrn.nki_legacy.emit import PSUM, SBUF, read, write
from opentrn.nki_legacy.index import Predicate, regions
from opentrn.nki_legacy.isa import matmul as isa_matmul
from opentrn.nki_legacy.isa import move
from opentrn.nki_legacy.isa._common import no_options
from opentrn.nki_legacy.isa.constants import device
from opentrn.nki_legacy.isa.constants import oob_mode as oob_modes
from opentrn.nki_legacy.tile import PARTITIONS, Tile
from opentrn.types.isa_enums import nc_version
from opentrn.types.isa_ops import op_name

_ONLY_SBUF = frozenset({SBUF})
_TRANSPOSED = frozenset(np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16))


def _hbm(value: Any, what: str) -> Tile:
    if not isinstance(value, Tile):
        raise NkiValidationError(f"{what} needs an HBM tensor, got {value!r}", label="nki.operand")
    if value.is_on_chip:
        raise NkiValidationError(f"{what}: {value!r} is on chip already", label="nki.memory", hint="nl.copy")
    return value.realised()


def _tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """On-chip shape of an HBM access: rank 0 is one element, rank 1 one element per partition."""
    return shape if len(shape) >= 2 else (shape or (1,)) + (1,)


def load(src, *, mask=None, dtype=None, mode=oob_modes.error, **extra) -> Tile:
    """A tile with the values of an HBM access, over DMA. mode: of an index out of bounds, an nki.isa.oob_mode."""
    emit.flush()
    modes = {} if mode is oob_modes.error else {"oob_mode": device(oob_modes(mode))}
    region = move.options("nl.load", extra)
    source = _hbm(src, "nl.load")
    shape = _tile_shape(source.shape)
    if shape[0] > PARTITIONS:
        raise NkiValidationError(
            f"err_num_partition_exceed_arch_limit: nl.load of {source!r} would need {shape[0]} partitions, at "
            f"most {PARTITIONS} exist",
            label="nki.partitions", hint="tile it",
        )
    if source.shape != shape:
        source = (
            source.with_ones(shape) if source.size == 1 else source._replace(dims=[*source._dims, (0, 1)])
        )
    boxes = regions(mask, shape, "nl.load")

    def issue(dst: Tile) -> None:
        for box in boxes:
            move.transfer("nl.load", dst.sub(box), source.sub(box), **modes)

    return emit.defer(
        shape,
        source.dtype if dtype is None else dtype,
        issue,
        boxes=boxes,
        sources=[source],
        region=region,
        targets=_ONLY_SBUF,
    )


def store(dst, value, *, mask=None, **extra) -> None:
    """Write a tile or a number to an HBM access. A tile in PSUM goes through SBUF."""
    emit.flush()
    no_options("nl.store", extra)
    target = _hbm(dst, "nl.store")
    shape = _tile_shape(target.shape)
    if target.shape != shape:
        target = (
            target.with_ones(shape) if target.size == 1 else target._replace(dims=[*target._dims, (0, 1)])
        )
    if not isinstance(value, Tile):
        filled = emit.fresh(shape, target.dtype)
        machine.memset(write(filled), value.item() if isinstance(value, np.generic) else value)
        value = filled
    source = emit.operand(value, "nl.store")
    source = emit.to_sbuf(source)
    if source.shape != target.shape and isinstance(mask, Predicate):
        if [n for n in source.shape if n != 1] != [n for n in target.shape if n != 1]:
            raise NkiValidationError(
                f"nl.store: a value of shape {source.shape} does not fit the access of shape {target.shape} "
                f"to {dst!r}",
                label="nki.shape",
            )
        target = target.with_ones(source.shape)
    if source.valid == [] and (mask is None or mask is True):
        raise NkiValidationError(
            f"nl.store: {source!r} was masked out and never computed",
            label="nki.mask", hint="mask the store too",
        )
    move.transfer("nl.store", target, source, mask)


def load_transpose2d(src, *, mask=None, dtype=None, **extra) -> Tile:
    """The transpose of a rank-2 HBM access: loaded and turned on the Tensor engine, 128 rows at a time.

    neuronx-cc's choice on Trn1, by the published times of kernels that load so (fidelity/neuronx_cc.md). On Trn2 and
    Trn3 it is assumed: their DMA engines could transpose elements of 2 bytes, and nothing public says which way is
    taken. What the Tensor engine does not pass through unchanged is loaded by a DMA whose access pattern walks the
    columns.
    """
    source = _hbm(src, "nl.load_transpose2d")
    if source.ndim != 2:
        raise NkiValidationError(f"nl.load_transpose2d needs two dimensions, got {source!r}", label="nki.shape")
    if isinstance(mask, Predicate):
        raise NotModelled("nl.load_transpose2d: a mask over part of the tensor", label="nki.mask")
    staged = _staged_for_transpose(source.dtype)
    if mask is False or staged is None or source.shape[1] > PARTITIONS:
        return load(source.permute((1, 0)), mask=mask, dtype=dtype, **extra)
    emit.flush()
    rows, columns = source.shape
    out = source.dtype if dtype is None else dtype

    def issue(dst: Tile) -> None:
        for first in range(0, rows, PARTITIONS):
            across, down = Range(first, 1, min(PARTITIONS, rows - first)), Range(0, 1, columns)
            loaded = emit.fresh((across.count, columns), staged)
            move.transfer("nl.load_transpose2d", loaded, source.sub((across, down)))
            emit.copy_into(dst.sub((down, across)), isa_matmul.nc_transpose(loaded).realised())

    region = move.options("nl.load_transpose2d", extra)
    return emit.defer((columns, rows), out, issue, sources=[source], region=region, targets=_ONLY_SBUF)


def _staged_for_transpose(dtype: Any) -> np.dtype | None:
    """The dtype in which the Tensor engine transposes finite `dtype` exactly: NeuronCore-v2 gives fp32. None: none."""
    if np.dtype(dtype) not in _TRANSPOSED:
        return None
    return np.dtype(dtype if machine.get_nc_version() >= nc_version.gen3 else np.float32)


def copy(src, *, mask=None, dtype=None, **extra) -> Tile:
    """A copy of an on-chip tile, in SBUF unless assigned to a PSUM tensor."""
    return move.tensor_copy(src, mask=mask, dtype=dtype, **extra)


def broadcast_to(src, *, shape, **extra) -> Tile:
    """src in `shape`; free dimensions as a view, one partition spread to many by instructions."""
    emit.flush()
    no_options("nl.broadcast_to", extra)
    return emit.broadcast(emit.operand(src, "nl.broadcast_to"), tuple(int(s) for s in shape))


def expand_dims(data, axis) -> Tile:
    """A view with dimensions of size one inserted."""
    return data.expand_dims(axis)


def transpose(x, *, dtype=None, mask=None, **extra) -> Tile:
    """Partition and free dimension of a rank-2 tile swapped, on the Tensor engine: a tile in PSUM."""
    return isa_matmul.nc_transpose(x, dtype=dtype, mask=mask, **extra)


def matmul(x, y, *, transpose_x=False, mask=None, **extra) -> Tile:
    """x @ y, or x.T @ y, float32 in PSUM. Without transpose_x, x is transposed on the Tensor engine first."""
    emit.flush()
    no_options("nl.matmul", extra)
    left, right = emit.operand(x, "nl.matmul"), emit.operand(y, "nl.matmul")
    if mask is False:
        rows = left.shape[1] if transpose_x else left.shape[0]
        return emit.defer((rows, right.shape[1]), np.float32, lambda dst: None, boxes=[], region=PSUM)
    if not transpose_x:
        swapped = isa_matmul.nc_transpose(left)
        left = emit.fresh(swapped.shape, left.dtype)
        emit.copy_into(left, swapped.realised())
    return isa_matmul.nc_matmul(left, right, mask=mask)


def gather_flattened(data, indices, *, mask=None, dtype=None, **extra) -> Tile:
    """Elements of each partition by position in its flattened free dimensions."""
    emit.flush()
    region = move.options("nl.gather_flattened", extra)
    source, index = emit.operand(data, "nl.gather_flattened"), emit.operand(indices, "nl.gather_flattened")
    if index.dtype.kind not in "iu":
        raise NkiValidationError(
            f"nl.gather_flattened: indices are {index.dtype}, which are no positions",
            label="nki.dtype", hint="load them as nl.uint32",
        )
    source, index = emit.to_sbuf(source), emit.to_sbuf(index)
    if index.dtype != np.uint32:
        converted = emit.fresh(index.shape, np.uint32)
        emit.copy_into(converted, index)
        index = converted
    boxes = regions(mask, index.shape, "nl.gather_flattened")

    def issue(dst: Tile) -> None:
        for box in boxes:
            rows: Box = (box[0], *full_box(source.shape[1:]))
            part, positions = read(source, rows), read(index, box)
            machine.nc_n_gather(write(dst, box), part, positions)

    result = emit.defer(
        index.shape,
        source.dtype,
        issue,
        boxes=boxes,
        sources=[source, index],
        region=region,
        targets=_ONLY_SBUF,
        in_place=False,
        exact=False,
    )
    if dtype is not None and host_dtype(dtype) != source.dtype:
        return copy(result, dtype=dtype)
    return result


def atomic_rmw(dst, value, op, *, mask=None, **extra) -> None:
    """dst = op(dst, value) on HBM; add only, as documented."""
    emit.flush()
    no_options("nl.atomic_rmw", extra)
    if op_name(op) != "add":
        raise NkiValidationError(f"nl.atomic_rmw supports np.add only, got {op!r}", label="nki.option")
    target = _hbm(dst, "nl.atomic_rmw")
    if not isinstance(value, Tile):
        filled = emit.fresh(_tile_shape(target.shape), target.dtype)
        machine.memset(write(filled), value)
        value = filled
    move.accumulate("nl.atomic_rmw", target, emit.to_sbuf(emit.operand(value, "nl.atomic_rmw")), mask)


def where(condition, x, y, *, dtype=None, mask=None, **extra) -> Tile:
    """x where condition is not 0, else y."""
    from opentrn.nki_legacy.arithmetic import result_dtype

    emit.flush()
    no_options("nl.where", extra)
    chosen = emit.operand(condition, "nl.where")
    tiles = [chosen] + [emit.operand(v, "nl.where") for v in (x, y) if isinstance(v, Tile)]
    shape = emit.broadcast_shape(*tiles)
    out = host_dtype(result_dtype("where", x, y) if dtype is None else dtype)
    boxes = regions(mask, shape, "nl.where")
    chosen = emit.broadcast(chosen, shape)
    parts = [emit.broadcast(v, shape) if isinstance(v, Tile) else v for v in (x, y)]

    def issue(dst: Tile) -> None:
        for box in boxes:
            on_true, on_false = (read(v, box) if isinstance(v, Tile) else v for v in parts)
            result = machine_nl.where(read(chosen, box), on_true, on_false, device_dtype(out))
            machine.tensor_copy(write(dst, box), result)

    return emit.defer(
        shape,
        out,
        issue,
        boxes=boxes,
        sources=[chosen, *(v for v in parts if isinstance(v, Tile))],
        in_place=False,
        exact=False,
    )
