"""Tensor creation, data movement and shape functions of nki.language. Source: nki/api/nki/language."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from opentrn.base.notices import tell_once
from opentrn.errors import NkiValidationError, require
from opentrn.nki import _machine
from opentrn.nki import isa as nisa
from opentrn.nki._machine import is_tensor, ndarray
from opentrn.nki.language import _elementwise as ew
from opentrn.types import dtypes
from opentrn.types.isa_enums import MemoryRegion

_PARTITIONS = 128
# Elements per partition of the staging tile that fills HBM: long DMA rows, small part of SBUF.
_FILL_FREE_ELEMENTS = 2048


def full(shape, fill_value, dtype, buffer=MemoryRegion.sbuf, name=""):
    """A tensor filled with `fill_value`: memset on chip, DMA from a filled SBUF tile in HBM."""
    tensor = ndarray(shape, dtype, buffer, name)
    if MemoryRegion(buffer).is_on_chip:
        nisa.memset(tensor, fill_value)
    else:
        _fill_hbm(tensor, fill_value, dtype)
    return tensor


def _fill_hbm(tensor, fill_value, dtype) -> None:
    total = math.prod(tensor.shape)
    flat = tensor.reshape((total,))
    columns = min(total, _FILL_FREE_ELEMENTS)
    rows = min(_PARTITIONS, max(1, total // columns))
    source = ndarray((rows, columns), dtype, MemoryRegion.sbuf)
    nisa.memset(source, fill_value)
    done = 0
    while done < total:
        now_rows = min(rows, (total - done) // columns)
        now_columns = columns if now_rows > 0 else total - done
        now_rows = max(now_rows, 1)
        chunk = flat[done : done + now_rows * now_columns].reshape((now_rows, now_columns))
        nisa.dma_copy(chunk, source[0:now_rows, 0:now_columns])
        done += now_rows * now_columns


def zeros(shape, dtype, buffer=MemoryRegion.sbuf, name=""):
    """A tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=MemoryRegion.sbuf, name=""):
    """A tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name=""):
    """Zeros in the shape of x; dtype and buffer of x unless given."""
    return full(tuple(x.shape), 0, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x, dtype=None, buffer=None, name=""):
    """An uninitialised tensor in the shape of x; dtype and buffer of x unless given."""
    return ndarray(tuple(x.shape), dtype or x.dtype, buffer or x.buffer, name)


def rand(shape, dtype, buffer=MemoryRegion.sbuf, name=""):
    """Uniform random values in [0, 1): the upper 24 bits of nisa.rng, times 2^-24."""
    buffer = MemoryRegion(buffer)
    shape = tuple(shape)
    bits = ndarray(shape, dtypes.uint32)
    nisa.rng(bits)
    nisa.tensor_scalar(bits, bits, ew.right_shift, 8)
    values = ew.fp32(shape)
    nisa.tensor_copy(values, bits)  # 24 bits are exact in fp32
    result = ndarray(shape, dtype, buffer if buffer.is_on_chip else MemoryRegion.sbuf, name)
    nisa.tensor_scalar(result, values, ew.multiply, 2.0**-24)
    if buffer.is_on_chip:
        return result
    hbm = ndarray(shape, dtype, buffer, name)
    nisa.dma_copy(hbm, result)
    return hbm


def random_seed(seed) -> None:
    """Seed the generator of `rand` from a [1, 1] tile holding a 32-bit value. Raises NkiValidationError for others."""
    require(
        is_tensor(seed),
        f"nl.random_seed takes a [1, 1] tile, got {type(seed)}",
        label="nki.operand", hint="fill one with nl.full",
    )
    nisa.set_rng_seed(seed)


def shared_constant(constant):
    """A tensor in shared HBM holding a numpy array or the contents of a .npy file.

    Programs share one copy. Raises NkiValidationError for an array without dimensions, and what NumPy raises for
    a file that it cannot read.
    """
    _machine.machine()  # a constant belongs to a kernel
    if isinstance(constant, (str, os.PathLike)):
        constant = np.load(constant, allow_pickle=False)
    array = np.array(constant, order="C")
    require(array.ndim > 0, "nl.shared_constant needs an array with at least one dimension", "nki.shape")
    return _machine.backend().from_array(array, "", MemoryRegion.shared_hbm, dtypes.dtype_of(array.dtype))


def shared_identity_matrix(n, dtype=dtypes.uint8, dst=None):
    """The n x n identity (n <= 128) in SBUF.

    A shared constant, loaded by one DMA into `dst` or a new [n, n] tile of `dtype`. Raises NkiValidationError for
    another n.
    """
    require(
        0 < n <= _PARTITIONS,
        f"nl.shared_identity_matrix: n is {n}, the {_PARTITIONS} partitions are the limit",
        label="nki.shape",
    )
    constant = shared_constant(np.eye(n, dtype=dtypes.to_numpy_dtype(dtype)))
    if dst is None:
        dst = ndarray((n, n), dtype)
    nisa.dma_copy(dst, constant)
    return dst


def _on_chip_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A tile shape for an HBM shape: rank 1 becomes one element on each partition."""
    return tuple(shape) if len(shape) > 1 else (shape[0], 1)


def load(src, dtype=None):
    """A new SBUF tile with the values of an HBM tensor; a rank-1 source gets one partition per element."""
    shape = _on_chip_shape(src.shape)
    dst = ew.tile(shape, ew.kept(dtype, src))
    nisa.dma_copy(dst, src if len(src.shape) > 1 else src.reshape(shape))
    return dst


def store(dst, value):
    """Write a tile (or a number) to an HBM tensor."""
    if not is_tensor(value):
        filled = ew.tile(_on_chip_shape(dst.shape), dst.dtype)
        nisa.memset(filled, value)
        value = filled
    nisa.dma_copy(dst if tuple(dst.shape) == tuple(value.shape) else dst.reshape(tuple(value.shape)), value)


def load_transpose2d(src, dtype=None):
    """A new [n, m] tile in SBUF with the transpose of an [m, n] tensor in HBM, of its dtype or of `dtype`.

    A DMA whose access pattern walks the columns. Raises NkiValidationError for another rank.
    """
    require(
        len(src.shape) == 2,
        f"nl.load_transpose2d needs a rank-2 tensor, got shape {tuple(src.shape)}",
        label="nki.shape",
    )
    dst = ew.tile((src.shape[1], src.shape[0]), ew.kept(dtype, src))
    nisa.dma_copy(dst, src.permute((1, 0)))
    return dst


def expand_dims(x, axis):
    """A view with a dimension of size one inserted at `axis`."""
    rank = len(x.shape)
    return x.expand_dim(axis if axis >= 0 else axis + rank + 1)


def broadcast_to(x, shape, dtype=None):
    """x in `shape` (same rank): x itself if nothing changes, else a new tile, of `dtype` if it is given.

    Raises NkiValidationError where a dimension of x is neither 1 nor that of `shape`.
    """
    shape, old = tuple(shape), tuple(x.shape)
    if len(shape) != len(old) or any(a not in (1, b) for a, b in zip(old, shape)):
        raise NkiValidationError(
            f"nl.broadcast_to: shape {old} does not broadcast to {shape}", label="nki.shape"
        )
    if old == shape and (dtype is None or x.dtype == dtype):
        return x
    view = ew.broadcast_view(x, shape)
    fills_new_tile = old[0] != shape[0] and old[1:] == shape[1:]
    return view if fills_new_tile and dtype in (None, x.dtype) else ew.copy(view, dtype)


def transpose(x, dtype=None):
    """[n, m] of a tile [m, n], by the Tensor engine; the result is in PSUM, or in SBUF where `dtype` is another.

    Raises NkiValidationError for another rank.
    """
    require(len(x.shape) == 2, f"nl.transpose needs a rank-2 tile, got shape {tuple(x.shape)}", "nki.shape")
    dst = ndarray((x.shape[1], x.shape[0]), x.dtype, MemoryRegion.psum)
    nisa.nc_transpose(dst, x)
    return dst if dtype is None or dtype == x.dtype else ew.copy(dst, dtype)


def matmul(x, y, transpose_x=False):
    """x @ y, or x.T @ y with `transpose_x`, on the Tensor engine; the fp32 result is in PSUM.

    x is [M <= 128, K <= 128] ([K, M] with transpose_x), y is [K, N <= 512].
    """
    stationary = x if transpose_x else ew.copy(transpose(x))
    dst = ndarray((stationary.shape[1], y.shape[1]), dtypes.float32, MemoryRegion.psum)
    nisa.nc_matmul(dst, stationary, y)
    return dst


def gather_flattened(data, indices, axis=0, dtype=None):
    """Elements of each partition of `data`, by position in its flattened free dimensions.

    `axis` has, as in the documented description, no influence: the free dimensions are flattened. Given, it is told
    so.
    """
    if axis:
        tell_once("nl.gather_flattened(axis=) has no effect: the free dimensions are flattened, as AWS documents")
    if indices.dtype != dtypes.uint32:
        indices = ew.copy(indices, dtypes.uint32)
    gathered = ew.tile(tuple(indices.shape), data.dtype)
    nisa.nc_n_gather(gathered, data, indices)
    return ew._cast(gathered, dtype)


def device_print(print_prefix: str, tensor: Any) -> None:
    """Print a prefix and the tensor's values to stdout.

    Source: nki.language.device_print, simulation mode.
    """
    current = _machine.machine()
    record = _machine.backend().device_print
    if record is not None and is_tensor(tensor):
        record(print_prefix, tensor)
        return
    core = f" [core {current.core_id}]" if current.num_cores > 1 else ""
    values = tensor.to_numpy() if is_tensor(tensor) else tensor
    print(f"{print_prefix}{core} {values}", flush=True)
