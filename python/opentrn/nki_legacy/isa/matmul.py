"""Tensor engine: nc_matmul and nc_transpose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import isa as machine
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, Range, full_box, is_full
from opentrn.nki_legacy.emit import PSUM, read, write
from opentrn.nki_legacy.index import Predicate, regions
from opentrn.nki_legacy.isa._common import no_options, operand, options, to_engine
from opentrn.nki_legacy.isa.constants import engine as engines
from opentrn.nki_legacy.isa.constants import nc_version
from opentrn.nki_legacy.psum_state import MATMUL, OTHER
from opentrn.nki_legacy.tile import Tile
from opentrn.types.isa_enums import engine as device_engine
from opentrn.types.isa_enums import matmul_perf_mode

_FP32 = np.dtype(np.float32)
_ONLY_PSUM = frozenset({PSUM})
_VECTOR_TRANSPOSE_MAX = 32


def _generation() -> int:
    return machine.get_nc_version().value


def _perf_mode(value: Any) -> matmul_perf_mode:
    if value is None:
        return matmul_perf_mode.none
    if isinstance(value, matmul_perf_mode):
        return value
    try:
        return matmul_perf_mode[str(getattr(value, "name", value))]
    except KeyError:
        raise NkiValidationError(f"nc_matmul: unknown perf_mode {value!r}", label="nki.option") from None


def _operand_boxes(mask: Any, stationary: Tile, moving: Tile, shape: tuple[int, int]) -> list[Box]:
    """Boxes of [K, M, N]. A predicate over index expressions counts for the result [M, N]: which axis of
    which operand it means otherwise cannot be told apart (nki.api.shared.rst, "operand masking")."""
    if isinstance(mask, Predicate):
        contraction = full_box((stationary.shape[0],))[0]
        return [(contraction, *box) for box in regions(mask, shape, "nc_matmul")]
    return regions(mask, (stationary.shape[0], *shape), "nc_matmul")


def nc_matmul(
    stationary,
    moving,
    *,
    is_stationary_onezero=False,
    is_moving_onezero=False,
    is_transpose=False,
    tile_position=(),
    tile_size=(),
    mask=None,
    perf_mode=None,
    **extra,
) -> Tile:
    """stationary.T @ moving, float32 [M, N] in PSUM; `psum += nc_matmul(...)` accumulates.

    The Tensor engine reads SBUF: an operand in PSUM, such as an nc_transpose, is copied there first.

    With is_transpose on NeuronCore-v3 the result has the operands' dtype (the PE passes bits through).
    """
    emit.flush()
    no_options("nc_matmul", extra)
    stationary = emit.to_sbuf(operand(stationary, "nc_matmul", "stationary"))
    moving = emit.to_sbuf(operand(moving, "nc_matmul", "moving"))
    mode = _perf_mode(perf_mode)
    skip = 1 if mode is matmul_perf_mode.none else 2
    free = moving.shape[skip:]
    rows, columns = math.prod(stationary.shape[skip:]), math.prod(free)
    shape = (rows, *free) if free else (rows, columns)
    if shape != (rows, columns) and len(shape) == 1:
        shape = (rows, columns)
    dtype = _FP32
    if is_transpose and _generation() >= nc_version.gen3:
        dtype = stationary.dtype
    flags = (bool(is_stationary_onezero), bool(is_moving_onezero), bool(is_transpose))
    placing = (tuple([int(t) for t in tile_position]), tuple([int(t) for t in tile_size]))

    def multiply_all(dst: Tile, add: bool) -> None:
        left, right = read(stationary), read(moving)
        machine.nc_matmul(write(dst, None, MATMUL), left, right, *flags, add, *placing, mode)

    multiply, boxes = multiply_all, None
    if mask is not None:
        boxes3 = _operand_boxes(mask, stationary, moving, (rows, columns))
        boxes = [(b[1], b[2]) if len(shape) == 2 else full_box(shape) for b in boxes3]
        flat = stationary.ndim == 2 and moving.ndim == 2
        if not flat and any(not is_full(b, (stationary.shape[0], rows, columns)) for b in boxes3):
            raise NotModelled(
                "nc_matmul: an index mask on operands of more than two dimensions", label="nki.mask"
            )

        def multiply(dst: Tile, add: bool) -> None:
            for box in boxes3:
                a, b, out = stationary, moving, None
                if flat:
                    a, b = stationary.sub((box[0], box[1])), moving.sub((box[0], box[2]))
                    out = (box[1], box[2])
                left, right = read(a), read(b)
                machine.nc_matmul(write(dst, out, MATMUL), left, right, *flags, add, *placing, mode)

    return emit.defer(
        shape,
        dtype,
        lambda dst: multiply(dst, False),
        boxes=boxes,
        sources=[stationary, moving],
        region=PSUM,
        targets=_ONLY_PSUM,
        in_place=False,
        exact=dtype == _FP32,
        accumulate=multiply,
    )


def nc_transpose(data, *, mask=None, dtype=None, engine=engines.unknown, **extra) -> Tile:
    """Partition and (flattened) free dimensions swapped.

    The Tensor engine writes PSUM, the Vector engine (asked for) any memory; a tile of more than 32 x 32 takes it
    one instruction for each block of that size, as the official compiler accepts such tiles. On NeuronCore-v2
    the Tensor engine transposes by a matmul with an identity and gives float32, so integers go to the Vector
    engine; later the result has the dtype of `data`.
    """
    emit.flush()
    data = operand(data, "nc_transpose", "data")
    issuer = to_engine(engine)
    keeps_bits = _generation() >= nc_version.gen3
    if not keeps_bits and np.dtype(data.dtype).kind in "iu":
        issuer = device_engine.vector
    on_vector = issuer is device_engine.vector
    region = PSUM
    if on_vector:
        region = options("nc_transpose", extra)
    else:
        no_options("nc_transpose", extra)
    passes_bits = on_vector or keeps_bits
    free = math.prod(data.shape[1:])
    shape = (free, data.shape[0])
    if not on_vector:
        data = emit.to_sbuf(data)
    raw = data.dtype if passes_bits else _FP32
    if not passes_bits and data.dtype != _FP32:
        identity = _identity(data.dtype)[0 : data.shape[0], 0 : data.shape[0]]
        result = nc_matmul(data, identity, mask=mask)
        return result if dtype is None or np.dtype(dtype) == _FP32 else _cast(result, dtype)
    boxes = regions(mask, data.shape, "nc_transpose")
    if on_vector and data.ndim == 2:
        boxes = [block for box in boxes for block in _vector_blocks(box)]
    if data.ndim != 2 and not all(is_full(b, data.shape) for b in boxes):
        raise NotModelled(f"nc_transpose: an index mask on {data!r}", label="nki.mask")
    swapped = [(b[1], b[0]) if data.ndim == 2 else full_box(shape) for b in boxes]

    def issue(dst: Tile) -> None:
        for box, out in zip(boxes, swapped):
            source = read(data, box)
            machine.nc_transpose(write(dst, out, MATMUL if dst.region is PSUM else OTHER), source, issuer)

    result = emit.defer(
        shape,
        raw,
        issue,
        boxes=swapped,
        sources=[data],
        region=region,
        targets=emit.ON_CHIP if on_vector else _ONLY_PSUM,
        in_place=False,
        exact=False,
    )
    if dtype is not None and np.dtype(dtype) != raw:
        return _cast(result, dtype)
    return result


def _vector_blocks(box: Box) -> list[Box]:
    """`box` [rows, columns] in parts that the Vector engine transposes with one instruction."""
    step = _VECTOR_TRANSPOSE_MAX
    rows, columns = (
        [Range(r.start + i * r.step, r.step, min(step, r.count - i)) for i in range(0, r.count, step)]
        for r in box
    )
    return [(row, column) for row in rows for column in columns]


def _cast(tile: Tile, dtype: Any) -> Tile:
    from opentrn.nki_legacy.isa.move import tensor_copy

    return tensor_copy(tile, dtype=dtype)


def _identity(dtype: np.dtype) -> Tile:
    """A 128 x 128 identity in SBUF, loaded once per launch and dtype."""
    from opentrn.nki_legacy.language import load, shared_identity_matrix

    known = emit.session().identity_tiles
    if str(dtype) not in known:
        known[str(dtype)] = load(shared_identity_matrix(128, dtype)).realised()
    return known[str(dtype)]
