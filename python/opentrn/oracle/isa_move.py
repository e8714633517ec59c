"""Data movement within the core and over DMA: dma_copy, dma_transpose, dma_compute, tensor_copy, memset,
tensor_copy_predicated, nc_stream_shuffle, sendrecv, core_barrier.

Source: nki/api/nki/isa/__init__.py, docstring of each function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import OutOfBounds, require
from opentrn.oracle.instruction import NkiInstruction
from opentrn.oracle.machine import current
from opentrn.oracle.numerics import cast_from_f32, rows_raw, same_elements, store, store_raw
from opentrn.oracle.tensor import NkiTensor
from opentrn.types.dtypes import is_integer, is_packed_x4, to_numpy_dtype
from opentrn.types.isa_enums import MemoryRegion, dge_mode, dma_engine, engine, nc_version, oob_mode
from opentrn.types.isa_ops import op_name

QUADRANT = 32  # partitions


def _convert(values: np.ndarray, source_dtype: Any, target_dtype: Any) -> np.ndarray:
    """Stored values of one dtype to stored values of another, through float32; bits stay when they are the
    same."""
    if source_dtype == target_dtype:
        return values
    require(
        not (is_packed_x4(source_dtype) or is_packed_x4(target_dtype)),
        f"no conversion from {source_dtype} to {target_dtype}: view() the bytes instead",
    )
    with np.errstate(all="ignore"):
        return cast_from_f32(values.astype(np.float32), target_dtype)


def _gather(src: NkiTensor, mode: oob_mode, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Stored elements of `src`, and for an indirect view which rows of dimension 0 are in bounds."""
    if not src.is_indirect():
        return src.numpy(), None
    address = src.addresses()
    good = np.asarray(src.in_bounds(address).reshape(address.shape[0], -1).all(axis=1))
    if good.all():
        return src.flat_storage()[address], good
    if mode is not oob_mode.skip:
        raise OutOfBounds(
            f"{what}: row {int(np.argmin(good))} of {src!r} has an index outside the tensor; "
            "use oob_mode.skip to leave such rows out"
        )
    values = np.zeros(address.shape, to_numpy_dtype(src.dtype))
    values[good] = src.flat_storage()[address[good]]
    return values, good


def _scatter(dst: NkiTensor, values: np.ndarray, rows: np.ndarray | None, mode: oob_mode, what: str) -> None:
    """Write `values` to `dst`, leaving out rows (of dimension 0) that are masked or, in skip mode, out of
    bounds."""
    if values.size == dst.size:
        values = values.reshape(dst.shape)
    if rows is not None and not rows.all():
        require(
            rows.size == dst.shape[0],
            f"{what}: skipped rows need dst {dst!r} to have the {rows.size} rows of the indexed tensor",
        )
    if not dst.is_indirect():
        if rows is None or rows.all():
            dst.write(values)
        else:
            dst.numpy()[rows] = values[rows]
        return
    address = dst.addresses()
    good = dst.in_bounds(address).reshape(address.shape[0], -1).all(axis=1)
    if not good.all() and mode is not oob_mode.skip:
        raise OutOfBounds(f"{what}: row {int(np.argmin(good))} of {dst!r} has an index outside the tensor")
    if rows is not None:
        good &= rows
    dst.flat_storage()[address[good]] = values[good]


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst = src over DMA, converting through float32 when the dtypes differ."""
    require(
        MemoryRegion.psum not in (src.buffer, dst.buffer),
        f"dma_copy: {src!r} to {dst!r}: DMA does not reach PSUM here; use tensor_copy",
    )
    require(src.size == dst.size, f"dma_copy: {src!r} and {dst!r} differ in their number of elements")
    values, rows = _gather(src, oob_mode, "dma_copy")
    _scatter(dst, _convert(values, src.dtype, dst.dtype), rows, oob_mode, "dma_copy")
    return NkiInstruction(name)


_TRANSPOSE_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Any = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """dst = transpose of src over DMA: (1,0), (2,1,0) or (3,1,2,0) by rank; an indirect src gathers rows
    first."""
    require(src.ndim in _TRANSPOSE_AXES, f"dma_transpose: {src!r} must have 2 to 4 dimensions")
    wanted = _TRANSPOSE_AXES[src.ndim]
    require(
        axes is None or tuple(axes) == wanted, f"dma_transpose: axes {axes} of rank {src.ndim}, only {wanted}"
    )
    require(src.dtype == dst.dtype, f"dma_transpose: {src!r} and {dst!r} must have the same dtype")
    values, rows = _gather(src, oob_mode, "dma_transpose")
    moved = values.transpose(wanted)
    require(moved.size == dst.size, f"dma_transpose: {dst!r} must have the shape {moved.shape}")
    if rows is None or rows.all():
        dst.write(moved.reshape(dst.shape))
    else:
        require(dst.shape == moved.shape, f"dma_transpose: {dst!r} must have the shape {moved.shape}")
        dst.numpy()[..., rows] = moved[..., rows]
    return NkiInstruction(name)


def dma_compute(
    dst: NkiTensor,
    srcs: list[NkiTensor],
    reduce_op: Any,
    scales: list[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """dst = sum of the sources in float32, in list order; with an indirect operand a gather or scatter
    accumulate."""
    require(op_name(reduce_op) == "add", "dma_compute: reduce_op must be nl.add")
    require(1 <= len(srcs) <= 16, f"dma_compute: {len(srcs)} sources, 1 to 16 are supported")
    require(scales is None or all(s == 1.0 for s in scales), "dma_compute: all scales must be 1.0")
    indirect = dst.is_indirect() or any(s.is_indirect() for s in srcs)
    require(not indirect or unique_indices, "dma_compute: indirect access needs unique_indices=True")
    require(not indirect or len(srcs) == 2, "dma_compute: indirect access takes exactly 2 sources")
    total, keep = None, None
    for src in srcs:
        require(
            src.size == dst.size, f"dma_compute: {src!r} and dst {dst!r} differ in their number of elements"
        )
        values, rows = _gather(src, oob_mode, "dma_compute")
        values = values.astype(np.float32).reshape(dst.shape)
        with np.errstate(all="ignore"):
            total = values.copy() if total is None else total + values
        if rows is not None:
            keep = rows if keep is None else keep & rows
    _scatter(dst, cast_from_f32(np.asarray(total), dst.dtype), keep, oob_mode, "dma_compute")
    return NkiInstruction(name)


def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """dst = src on chip: same bits when the dtypes agree, else through float32."""
    require(src.size == dst.size, f"tensor_copy: {src!r} and {dst!r} differ in their number of elements")
    if src.dtype == dst.dtype:
        store_raw(dst, src.numpy_or_gather())
    else:
        store_raw(dst, _convert(src.numpy_or_gather(), src.dtype, dst.dtype))
    return NkiInstruction(name)


def memset(
    dst: NkiTensor, value: Any, engine: engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Fill dst with a constant, rounded once to its dtype; integers outside the dtype's range are refused."""
    if is_packed_x4(dst.dtype):
        require(value == 0, f"memset: a packed tensor can only be set to 0, not {value!r}")
        dst.write(np.zeros((), to_numpy_dtype(dst.dtype)))
    elif is_integer(dst.dtype) and float(value) == int(value):
        limits = np.iinfo(to_numpy_dtype(dst.dtype))
        require(
            limits.min <= int(value) <= limits.max, f"memset: {value!r} does not fit {dst.dtype} of {dst!r}"
        )
        dst.write(np.array(int(value), to_numpy_dtype(dst.dtype)))
    else:
        store(dst, np.float32(value))
    return NkiInstruction(name)


def tensor_copy_predicated(
    dst: NkiTensor, src: Any, predicate: NkiTensor, reverse_pred: bool = False, name: str | None = None
) -> NkiInstruction:
    """dst[i] = src[i] where predicate[i] is not 0 (0 when reverse_pred); other elements keep their value."""
    same_elements("tensor_copy_predicated", dst, predicate)
    chosen = (rows_raw(predicate) != 0) != bool(reverse_pred)
    old = rows_raw(dst)
    if isinstance(src, NkiTensor):
        same_elements("tensor_copy_predicated", dst, src)
        new = _convert(rows_raw(src), src.dtype, dst.dtype)
    else:
        new = cast_from_f32(np.full(old.shape, src, np.float32), dst.dtype)
    store_raw(dst, np.where(chosen, new, old))
    return NkiInstruction(name)


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Any, name: str | None = None
) -> NkiInstruction:
    """In each quadrant of 32 partitions, dst partition i = src partition shuffle_mask[i]; 255 leaves it
    unchanged."""
    mask = [int(m) for m in shuffle_mask]
    require(len(mask) == QUADRANT, f"nc_stream_shuffle: the mask has {len(mask)} elements, not 32")
    require(
        all(0 <= m < QUADRANT or m == 255 for m in mask), "nc_stream_shuffle: mask elements are 0..31 or 255"
    )
    require(src.dtype == dst.dtype, f"nc_stream_shuffle: {src!r} and {dst!r} must have the same dtype")
    values, result = rows_raw(src).copy(), rows_raw(dst).copy()
    require(
        values.shape[1] == result.shape[1],
        f"nc_stream_shuffle: {src!r} and {dst!r} must have the same elements per partition",
    )
    for p in range(result.shape[0]):
        wanted = mask[p % QUADRANT]
        if wanted == 255:
            continue
        source = p // QUADRANT * QUADRANT + wanted
        if source >= values.shape[0]:
            raise OutOfBounds(f"nc_stream_shuffle: output partition {p} reads partition {source} of {src!r}")
        result[p] = values[source]
    store_raw(dst, result)
    return NkiInstruction(name)


_GPSIMD_DMA_BYTES = {4: 1024, 2: 512, 1: 256}  # by element size; nisa.sendrecv


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send src to one core of the logical NeuronCore while receiving dst from one."""
    machine = current()
    require(machine.nc_version >= nc_version.gen3, "sendrecv needs NeuronCore-v3 or newer")
    require(machine.num_cores == 2, "sendrecv needs a launch over two cores (LNC2)")
    to, source = int(send_to_rank), int(recv_from_rank)
    require(to in (0, 1) and source in (0, 1), f"sendrecv: ranks are 0 or 1, got {to} and {source}")
    require(
        src.buffer is MemoryRegion.sbuf and dst.buffer is MemoryRegion.sbuf,
        f"sendrecv: {src!r} and {dst!r} must be in SBUF",
    )
    require(
        src.dtype == dst.dtype and src.shape == dst.shape,
        f"sendrecv: {src!r} and {dst!r} must have the same shape and dtype",
    )
    if dma_engine.value == 2:
        limit = _GPSIMD_DMA_BYTES[src.itemsize]
        row = src.size // src.shape[0] * src.itemsize
        require(row <= limit, f"sendrecv: gpsimd_dma moves at most {limit} bytes per partition, got {row}")
    received = machine.launch.exchange(machine.core_id, to, source, int(pipe_id), src.to_numpy())
    require(
        received.shape == dst.shape and received.dtype == to_numpy_dtype(dst.dtype),
        f"sendrecv: core {source} sent {received.dtype}{list(received.shape)}, dst is {dst!r}",
    )
    dst.write(received)
    return NkiInstruction(name)


def core_barrier(
    data: NkiTensor, cores: Any = (0, 1), engine: engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Wait until both cores of the logical NeuronCore have reached this barrier."""
    machine = current()
    require(machine.nc_version >= nc_version.gen3, "core_barrier needs NeuronCore-v3 or newer")
    require(machine.num_cores == 2, "core_barrier needs a launch over two cores (LNC2)")
    require(tuple(int(c) for c in cores) == (0, 1), f"core_barrier: cores {cores}, only (0, 1) is supported")
    require(data.buffer.is_hbm, f"core_barrier: {data!r} must be in shared HBM")
    machine.launch.barrier(machine.core_id, "core_barrier")
    return NkiInstruction(name)


__all__ = [
    "core_barrier",
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "memset",
    "nc_stream_shuffle",
    "sendrecv",
    "tensor_copy",
    "tensor_copy_predicated",
]
