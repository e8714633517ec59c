"""Data movement: DMA, copies, memset, shuffles."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, NotModelled, OutOfBounds
from opentrn.nki import _machine
from opentrn.nki import isa as machine
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, full_box
from opentrn.nki_legacy.dtypes import host_dtype
from opentrn.nki_legacy.emit import PSUM, SBUF, read, write
from opentrn.nki_legacy.index import Predicate, regions
from opentrn.nki_legacy.isa._common import elementwise, no_options, operand, options, plain, to_engine
from opentrn.nki_legacy.isa._common import predicate as truth
from opentrn.nki_legacy.isa.constants import device
from opentrn.nki_legacy.isa.constants import dge_mode as dge_modes
from opentrn.nki_legacy.isa.constants import engine as engines
from opentrn.nki_legacy.isa.constants import oob_mode as oob_modes
from opentrn.nki_legacy.tile import Tile
from opentrn.types.isa_ops import op_name


def _dma_operand(value: Any, what: str, name: str) -> Tile:
    if not isinstance(value, Tile):
        raise NkiValidationError(f"{what}: {name} must be a tensor or tile, got {value!r}", label="nki.operand")
    return value.realised().require_tile(what)


# The core executes in batches and stops at the fault, so the bad index is read from its message.
_INDEX_IN_FAULT = re.compile(r"index (-?\d+) at position")


class IndirectOutOfBounds(OutOfBounds):
    """Its text is that of numpy's IndexError: the 0.1 simulator raises it, and kernels' tests compare its text."""

    def _text(self) -> str:
        return self.message


def _numpys_error(fault: OutOfBounds, *tiles: Tile) -> OutOfBounds:
    """The error that numpy would raise for an indirect access of the flattened tensor.

    `fault` itself for other accesses.
    """
    tile = next((t for t in tiles if t._indirect is not None), None)
    if tile is None:
        return fault
    how = tile._indirect
    size = tile._tensor.partitions * tile._tensor.row
    named = _INDEX_IN_FAULT.search(fault.message)
    if named:
        index = int(named.group(1))
    else:
        indices = how.tile.to_numpy().reshape(-1).astype(np.int64)
        first = tile._offset + indices * how.stride
        last = first + sum(s * (n - 1) for s, n in tile._dims[1:])
        bad = np.flatnonzero((first < 0) | (last >= size))
        if bad.size == 0:
            return fault
        index = int(indices[bad[0]])
    address = tile._offset + index * how.stride
    error = IndirectOutOfBounds(
        f"index {address} is out of bounds for axis 0 with size {size}", label=fault.label, location=fault.location
    )
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(str(fault))
    return error


def _execute_indirect(*tiles: Tile) -> None:
    """Run a gather or scatter now on machines that batch, so that a bad index raises here."""
    if any(t._indirect is not None for t in tiles):
        flush = getattr(_machine.machine_or_none(), "flush", None)
        if flush is not None:
            flush()


def transfer(what: str, dst: Tile, src: Tile, mask: Any = None, **modes: Any) -> None:
    """One DMA copy per box of the mask."""
    shape = src.shape if src.size >= dst.size else dst.shape
    if src.shape != dst.shape and not isinstance(mask, Predicate):
        src, dst = _same_shape(what, dst, src)
        shape = dst.shape
    for box in regions(mask, shape, what):
        source, target = read(src, box), write(dst, box)
        try:
            machine.dma_copy(target, source, **modes)
            _execute_indirect(src, dst)
        except OutOfBounds as fault:
            raise _numpys_error(fault, src.sub(box), dst.sub(box)) from None


def _same_shape(what: str, dst: Tile, src: Tile) -> tuple[Tile, Tile]:
    """Both operands with one shape, where they differ by dimensions of size one or by a reshape of HBM."""
    dense = [n for n in src.shape if n != 1]
    if dense == [n for n in dst.shape if n != 1]:
        if not dst.is_on_chip:
            return src, dst.with_ones(src.shape)
        return src.with_ones(dst.shape), dst
    if src.size == dst.size:
        if not dst.is_on_chip:
            return src, dst.reshape(src.shape)
        if not src.is_on_chip:
            return src.reshape(dst.shape), dst
    raise NkiValidationError(f"{what}: {src!r} and {dst!r} differ in shape", label="nki.shape")


def dma_copy(
    *,
    dst,
    src,
    mask=None,
    dst_rmw_op=None,
    oob_mode=oob_modes.error,
    dge_mode=dge_modes.unknown,
    **extra,
) -> None:
    """dst = src over DMA, either side in HBM or SBUF, an index tile on either side.

    `dst_rmw_op=np.add` adds to what dst holds. A PSUM source goes through SBUF.
    """
    emit.flush()
    no_options("dma_copy", extra)
    dst, src = _dma_operand(dst, "dma_copy", "dst"), _dma_operand(src, "dma_copy", "src")
    if src.region is PSUM:
        src = emit.to_sbuf(src)
    if dst.region is PSUM:
        raise NkiValidationError(
            f"dma_copy: DMA does not write PSUM, dst is {dst!r}", label="nki.memory", hint="a tile in SBUF"
        )
    oob = device(oob_modes(oob_mode))
    if dst_rmw_op is None:
        modes = {"oob_mode": oob, "dge_mode": device(dge_modes(dge_mode))}
        transfer("dma_copy", dst, src, mask, **modes)
        return
    if op_name(dst_rmw_op) != "add":
        raise NkiValidationError(f"dma_copy: dst_rmw_op must be np.add, got {dst_rmw_op!r}", label="nki.option")
    if oob != device(oob_modes.error):
        raise NkiValidationError("dma_copy: dst_rmw_op goes with oob_mode.error only", label="nki.option")
    accumulate("dma_copy", dst, src, mask)


def accumulate(what: str, dst: Tile, src: Tile, mask: Any) -> None:
    """dst += src over DMA."""
    src, dst = _same_shape(what, dst, src) if src.shape != dst.shape else (src, dst)
    for box in regions(mask, dst.shape, what):
        source, target = read(src, box), write(dst, box)
        try:
            machine.dma_compute(target, [target, source], "add")
            _execute_indirect(src, dst)
        except OutOfBounds as fault:
            raise _numpys_error(fault, dst.sub(box)) from None


_TRANSPOSE_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_transpose(
    src, *, axes=None, mask=None, dtype=None, dge_mode=dge_modes.unknown, oob_mode=oob_modes.error, **extra
) -> Tile:
    """The transpose of an HBM or SBUF tile over DMA: (1,0), (2,1,0) or (3,1,2,0) by rank."""
    emit.flush()
    region = options("dma_transpose", extra)
    src = _dma_operand(src, "dma_transpose", "src")
    if src.region is PSUM:
        src = emit.to_sbuf(src)
    wanted = _TRANSPOSE_AXES.get(src.ndim)
    if wanted is None or (axes is not None and tuple(axes) != wanted):
        raise NkiValidationError(
            f"dma_transpose: axes {axes} of {src!r}; allowed are {_TRANSPOSE_AXES}", label="nki.axis"
        )
    boxes = regions(mask, src.shape, "dma_transpose")
    shape = tuple(src.shape[a] for a in wanted)

    def issue(dst: Tile) -> None:
        for box in boxes:
            source, target = read(src, box), write(dst, tuple(box[a] for a in wanted))
            machine.dma_transpose(
                target,
                source,
                wanted,
                dge_mode=device(dge_modes(dge_mode)),
                oob_mode=device(oob_modes(oob_mode)),
            )

    result = emit.defer(
        shape,
        src.dtype,
        issue,
        boxes=[tuple(b[a] for a in wanted) for b in boxes],
        sources=[src],
        region=region,
        targets=frozenset({SBUF}),
        in_place=False,
        exact=False,
    )
    if dtype is not None and host_dtype(dtype) != src.dtype:
        return tensor_copy(result, dtype=dtype)
    return result


def tensor_copy(src, *, mask=None, dtype=None, engine=engines.unknown, **extra) -> Tile:
    """A copy of an on-chip tile, converted if `dtype` differs."""
    emit.flush()
    data = operand(src, "tensor_copy", "src")

    def call(dst: Tile, box: Box) -> None:
        source = read(data, box)
        machine.tensor_copy(write(dst, box), source, to_engine(engine))

    return elementwise("tensor_copy", data, dtype, mask, extra, call)


def tensor_copy_dynamic_src(src, *, mask=None, dtype=None, engine=engines.unknown, **extra) -> Tile:
    """tensor_copy whose source was indexed by a scalar tile."""
    return tensor_copy(src, mask=mask, dtype=dtype, engine=engine, **extra)


def tensor_copy_dynamic_dst(*, dst, src, mask=None, dtype=None, engine=engines.unknown, **extra) -> None:
    """tensor_copy whose destination was indexed by a scalar tile."""
    emit.flush()
    no_options("tensor_copy_dynamic_dst", extra)
    data = operand(src, "tensor_copy_dynamic_dst", "src")
    out = operand(dst, "tensor_copy_dynamic_dst", "dst")
    if dtype is not None and host_dtype(dtype) != out.dtype:
        raise NkiValidationError(
            f"tensor_copy_dynamic_dst: dtype {dtype} differs from {out!r}", label="nki.dtype"
        )
    data = emit._fit(data, out.shape)
    for box in regions(mask, out.shape, "tensor_copy_dynamic_dst"):
        source = read(data, box)
        machine.tensor_copy(write(out, box), source, to_engine(engine))


def memset(shape, value, dtype, *, mask=None, engine=engines.unknown, **extra) -> Tile:
    """A tile of one value. `par_dim` is ignored: the first dimension is the partition."""
    emit.flush()
    sizes = tuple(int(s) for s in shape)
    boxes = regions(mask, sizes, "memset")

    def issue(dst: Tile) -> None:
        for box in boxes:
            machine.memset(write(dst, box), plain(value), to_engine(engine))

    return emit.defer(sizes, dtype, issue, boxes=boxes, region=options("memset", extra), exact=False)


def tensor_copy_predicated(
    *, src, dst, predicate, reverse_pred=False, mask=None, dtype=None, **extra
) -> None:
    """dst = src where predicate is not 0, in place."""
    emit.flush()
    no_options("tensor_copy_predicated", extra)
    out = operand(dst, "tensor_copy_predicated", "dst")
    chosen = truth(predicate, "tensor_copy_predicated")
    data = operand(src, "tensor_copy_predicated", "src") if isinstance(src, Tile) else plain(src)
    if dtype is not None and host_dtype(dtype) != out.dtype:
        raise NkiValidationError(
            f"tensor_copy_predicated: dtype {dtype} differs from {out!r}", label="nki.dtype"
        )
    for box in regions(mask, out.shape, "tensor_copy_predicated"):
        source = read(data, box) if isinstance(data, Tile) else data
        p, _ = read(chosen, box), read(out, box)
        machine.tensor_copy_predicated(write(out, box), source, p, bool(reverse_pred))


def nc_stream_shuffle(src, dst, shuffle_mask, *, dtype=None, mask=None, **extra) -> None:
    """In every quadrant of 32 partitions, dst partition i = src partition shuffle_mask[i]; 255 leaves it."""
    emit.flush()
    no_options("nc_stream_shuffle", extra)
    data, out = operand(src, "nc_stream_shuffle", "src"), operand(dst, "nc_stream_shuffle", "dst")
    if dtype is not None and host_dtype(dtype) != out.dtype:
        raise NotModelled(f"nc_stream_shuffle: conversion to {dtype}", label="nki.dtype")
    if mask is not None and regions(mask, out.shape, "nc_stream_shuffle") != [full_box(out.shape)]:
        raise NotModelled("nc_stream_shuffle: a mask over part of the tile", label="nki.mask")
    source, _ = read(data), read(out)
    machine.nc_stream_shuffle(write(out), source, [int(m) for m in shuffle_mask])
