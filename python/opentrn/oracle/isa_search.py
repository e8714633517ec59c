"""Statistics, search and gather within partitions: bn_stats, bn_aggr, max8, nc_find_index8,
nc_match_replace8, topk, nc_n_gather, local_gather, nonzero_with_count, sequence_bounds.

Source: nki/api/nki/isa/__init__.py, docstring of each function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import OutOfBounds, require
from opentrn.oracle.instruction import NkiInstruction
from opentrn.oracle.machine import current_or_none
from opentrn.oracle.numerics import rows_f32, rows_raw, store, store_raw
from opentrn.oracle.tensor import NkiTensor
from opentrn.types.dtypes import is_integer, to_numpy_dtype
from opentrn.types.isa_enums import MemoryRegion, nc_version

GPSIMD_CORE_PARTITIONS = 16
BN_STATS_ELEMENTS_MAX = 512


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Per partition: count, mean and variance * count of the even elements, then of the odd ones."""
    rows: np.ndarray = rows_f32(data).astype(np.float64)
    require(
        rows.shape[1] <= BN_STATS_ELEMENTS_MAX,
        f"bn_stats: {data!r} has {rows.shape[1]} elements per partition, at most {BN_STATS_ELEMENTS_MAX}",
    )
    require(
        dst.shape[0] == data.shape[0] and dst.size == 6 * data.shape[0],
        f"bn_stats: dst {dst!r} must have 6 elements per partition",
    )
    columns = []
    for half in (rows[:, 0::2], rows[:, 1::2]):
        count = half.shape[1]
        mean = half.mean(axis=1) if count else np.zeros(rows.shape[0])
        columns += [np.full(rows.shape[0], count), mean, np.square(half - mean[:, None]).sum(axis=1)]
    store(dst, np.stack(columns, axis=1))
    return NkiInstruction(name)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Combine (count, mean, variance * count) triples of each partition into a mean and a variance."""
    rows: np.ndarray = rows_f32(data).astype(np.float64)
    require(rows.shape[1] % 3 == 0, f"bn_aggr: {data!r} must hold triples in each partition")
    require(
        dst.shape[0] == data.shape[0] and dst.size == 2 * data.shape[0],
        f"bn_aggr: dst {dst!r} must have 2 elements per partition",
    )
    count, mean, spread = rows[:, 0::3], rows[:, 1::3], rows[:, 2::3]
    with np.errstate(all="ignore"):
        total = count.sum(axis=1)
        grand_mean = (count * mean).sum(axis=1) / total
        variance = (spread + count * np.square(mean - grand_mean[:, None])).sum(axis=1) / total
    store(dst, np.stack([grand_mean, variance], axis=1))
    return NkiInstruction(name)


def _check_search_width(instruction: str, tile: NkiTensor) -> None:
    width = tile.size // tile.shape[0]
    require(
        8 <= width <= 16384, f"{instruction}: {tile!r} has {width} elements per partition, needs 8 to 16384"
    )


def _check_eight(instruction: str, tile: NkiTensor, partitions: int) -> None:
    require(
        tile.shape[0] == partitions and tile.size == 8 * partitions,
        f"{instruction}: {tile!r} must have 8 elements in each of {partitions} partitions",
    )


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """The 8 largest values of each partition, in descending order."""
    _check_search_width("max8", src)
    _check_eight("max8", dst, src.shape[0])
    store(dst, -np.sort(-rows_f32(src), axis=1)[:, :8])
    return NkiInstruction(name)


def _first_matches(data: np.ndarray, vals: np.ndarray, order: range) -> np.ndarray:
    """Index of the first element equal to each of 8 values, int64 [P, 8], -1 when absent.

    Values are matched in `order`; an element matches once, so that equal values pair with successive
    elements.
    """
    free = np.ones(data.shape, np.bool_)
    found = np.full(vals.shape, -1, np.int64)
    lanes = np.arange(data.shape[0])
    for j in order:
        hit = (data == vals[:, j : j + 1]) & free
        first = hit.argmax(axis=1)
        present = hit[lanes, first]
        found[present, j] = first[present]
        free[lanes[present], first[present]] = False
    return found


def _store_indices(dst: NkiTensor, found: np.ndarray) -> None:
    """Indices to an integer tile; -1 becomes all ones."""
    target = to_numpy_dtype(dst.dtype)
    store_raw(dst, found.astype(f"i{target.itemsize}").view(target))


def nc_find_index8(
    dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Index of the first occurrence of each of 8 values in its partition; all ones when absent."""
    _check_search_width("nc_find_index8", data)
    for tile in (dst, vals):
        _check_eight("nc_find_index8", tile, data.shape[0])
    require(dst.dtype in ("uint16", "uint32"), f"nc_find_index8: dst {dst!r} must be uint16 or uint32")
    _store_indices(dst, _first_matches(rows_f32(data), rows_f32(vals), range(8)))
    return NkiInstruction(name)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data with the first occurrence of each of 8 values replaced by imm; the values are taken last to
    first."""
    _check_search_width("nc_match_replace8", data)
    _check_eight("nc_match_replace8", vals, data.shape[0])
    rows = rows_f32(data)
    found = _first_matches(rows, rows_f32(vals), range(7, -1, -1))
    result = rows.copy()
    lanes = np.broadcast_to(np.arange(rows.shape[0])[:, None], found.shape)
    result[lanes[found >= 0], found[found >= 0]] = np.float32(imm)
    require(
        dst.shape[0] == data.shape[0] and dst.size == data.size,
        f"nc_match_replace8: {dst!r} differs from {data!r}",
    )
    store(dst, result)
    if dst_idx is not None:
        _check_eight("nc_match_replace8", dst_idx, data.shape[0])
        require(is_integer(dst_idx.dtype), f"nc_match_replace8: dst_idx {dst_idx!r} must be an integer tile")
        _store_indices(dst_idx, found)
    return NkiInstruction(name)


def nc_n_gather(
    dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """dst[p, i] = data[p, indices[p, i]] with the free dimensions flattened."""
    require(dst.dtype == data.dtype, f"nc_n_gather: {dst!r} and {data!r} must have the same dtype")
    require(indices.dtype == "uint32", f"nc_n_gather: {indices!r} must be uint32")
    require(
        all(t.buffer is MemoryRegion.sbuf for t in (dst, data, indices)), "nc_n_gather: tiles must be in SBUF"
    )
    rows = rows_raw(data)
    index: np.ndarray = rows_raw(indices).astype(np.int64)
    require(
        dst.shape[0] == rows.shape[0] == index.shape[0] and dst.size == index.size,
        f"nc_n_gather: {dst!r} must have the elements of {indices!r}, in the partitions of {data!r}",
    )
    if index.size and int(index.max()) >= rows.shape[1]:
        raise OutOfBounds(f"nc_n_gather: index {int(index.max())} of {rows.shape[1]} elements in {data!r}")
    store_raw(dst, np.take_along_axis(rows, index, axis=1))
    return NkiInstruction(name)


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each group of 16 partitions gathers num_elem_per_idx elements from every element offset in its index
    slice.

    The 16 x K indices of a group are read partition first; all its 16 partitions use all of them. Output per
    partition is [number of indices, num_elem_per_idx]. Without num_valid_indices every index of the slice is
    used.
    """
    require(
        dst.dtype == src_buffer.dtype, f"local_gather: {dst!r} and {src_buffer!r} must have the same dtype"
    )
    require(index.dtype == "uint16", f"local_gather: {index!r} must be uint16")
    partitions = src_buffer.shape[0]
    require(
        index.shape[0] == partitions and partitions % GPSIMD_CORE_PARTITIONS == 0,
        f"local_gather: {src_buffer!r} and {index!r} must have the same partitions, a multiple of 16",
    )
    width = int(num_elem_per_idx)
    require(width in (1, 2, 4, 8, 16, 32), f"local_gather: num_elem_per_idx {width}")
    rows = rows_raw(src_buffer)
    offsets: np.ndarray = rows_raw(index).astype(np.int64)
    available = offsets.shape[1] * GPSIMD_CORE_PARTITIONS
    count = available if num_valid_indices is None else int(num_valid_indices)
    require(
        count <= min(available, 4096), f"local_gather: {count} indices, {available} are given, 4096 at most"
    )
    require(
        dst.size == partitions * count * width,
        f"local_gather: dst {dst!r} must have {count} x {width} elements per partition",
    )
    result = np.empty((partitions, count * width), rows.dtype)
    for first in range(0, partitions, GPSIMD_CORE_PARTITIONS):
        group = slice(first, first + GPSIMD_CORE_PARTITIONS)
        start = offsets[group].reshape(-1, order="F")[:count]
        element = (start[:, None] + np.arange(width)).reshape(-1)
        if element.size and int(element.max()) >= rows.shape[1]:
            raise OutOfBounds(
                f"local_gather: element {int(element.max())} of {rows.shape[1]} in {src_buffer!r}"
            )
        result[group] = rows[group][:, element]
    store_raw(dst, result)
    return NkiInstruction(name)


def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: Any = 0,
    padding_val: Any = -1,
    name: str | None = None,
) -> NkiInstruction:
    """In partitions 0, 16, ..., 112: the indices of nonzero elements, padding, and their number in the last
    element."""
    machine = current_or_none()
    require(
        machine is None or machine.nc_version >= nc_version.gen3, "nonzero_with_count needs NeuronCore-v3"
    )
    require(src.dtype in ("float32", "int32"), f"nonzero_with_count: {src!r} must be float32 or int32")
    require(dst.dtype == "int32", f"nonzero_with_count: dst {dst!r} must be int32")
    rows, result = rows_raw(src), rows_raw(dst).copy()
    require(
        result.shape == (rows.shape[0], rows.shape[1] + 1),
        f"nonzero_with_count: dst {dst!r} must have one element per partition more than {src!r}",
    )
    for p in range(0, rows.shape[0], GPSIMD_CORE_PARTITIONS):
        found = np.flatnonzero(rows[p])
        result[p, : found.size] = found + int(index_offset)
        result[p, found.size : -1] = int(padding_val)
        result[p, -1] = found.size
    store_raw(dst, result)
    return NkiInstruction(name)


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: Any, name: str | None = None
) -> NkiInstruction:
    """The K largest of n bfloat16 values and their indices, values ascending.

    A group of 16 partitions holds one list in snake order (element i in partition i % 16, column i // 16).
    The text says both that a partition works alone and that the list spans 16 of them; here every partition
    of a group gets the group's result. Of equal values the one with the lower index counts as larger
    (undocumented).
    """
    n, partitions, k = int(n), src.shape[0], val_dst.size // val_dst.shape[0]
    for tile, dtype in ((src, "bfloat16"), (val_dst, "bfloat16"), (idx_dst, "uint32")):
        require(tile.dtype == dtype, f"topk: {tile!r} must be {dtype}")
        require(tile.shape[0] == partitions, f"topk: {tile!r} must have {partitions} partitions")
    require(partitions % GPSIMD_CORE_PARTITIONS == 0, f"topk: {src!r}: partitions must be a multiple of 16")
    require(8 <= n < 65536 and 1 <= k < 32768 and k <= n, f"topk: n={n}, K={k}")
    rows = rows_raw(src)
    require(
        rows.shape[1] * GPSIMD_CORE_PARTITIONS >= n, f"topk: {src!r} holds fewer than {n} elements per group"
    )
    values = np.empty((partitions, k), rows.dtype)
    indices: np.ndarray = np.empty((partitions, k), np.uint32)
    for first in range(0, partitions, GPSIMD_CORE_PARTITIONS):
        group = slice(first, first + GPSIMD_CORE_PARTITIONS)
        snake = rows[group].T.reshape(-1)[:n]
        best = np.argsort(-snake.astype(np.float32), kind="stable")[:k][::-1]
        values[group], indices[group] = snake[best], best
    store_raw(val_dst, values)
    store_raw(idx_dst, indices)
    return NkiInstruction(name)


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None) -> NkiInstruction:
    """For each element the start and end of its run of equal segment ids; padding (id 0) gets n and -1."""
    for tile in (dst, segment_ids):
        require(tile.dtype in ("float32", "int32"), f"sequence_bounds: {tile!r} must be float32 or int32")
    require(segment_ids.shape[0] == 1, f"sequence_bounds: {segment_ids!r} must have one partition")
    require(
        dst.shape[0] == 1 and dst.size == 2 * segment_ids.size,
        f"sequence_bounds: dst {dst!r} must have two values per element of {segment_ids!r}",
    )
    ids = rows_raw(segment_ids)[0]
    n = ids.size
    edges = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1], [True]]))
    lengths = np.diff(edges)
    start = np.where(ids == 0, n, np.repeat(edges[:-1], lengths))
    end = np.where(ids == 0, -1, np.repeat(edges[1:], lengths))
    store(dst, np.stack([start, end]))
    return NkiInstruction(name)


__all__ = [
    "bn_aggr",
    "bn_stats",
    "local_gather",
    "max8",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_n_gather",
    "nonzero_with_count",
    "sequence_bounds",
    "topk",
]
