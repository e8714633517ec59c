"""Indices, parts and other shapes of views: the reference of src/python/tile_index.cc and src/nki/tile_view.cc."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opentrn.errors import NkiValidationError, NotModelled, OutOfBounds
from opentrn.nki_legacy.box import Box, Range, is_full
from opentrn.nki_legacy.index import DynamicSlice, IndexExpr, arange, broadcast_shapes

_types = SimpleNamespace()  # what configure() gives, by name
Tile = Any


class Limit(NamedTuple):
    """An index that can leave its dimension unless a mask narrows it: constant + sum of step * i per axis."""

    constant: int
    steps: tuple[int, ...]
    size: int


class Views:
    """What a tile makes of itself; its fields are Tile's."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def _sub_any(self, box: Box) -> Tile:
        """The part of this tile in `box`."""
        tile = self.realised()
        if is_full(box, tile.shape):
            tile._check_limits()
            return tile
        offset = tile._offset
        dims = []
        for (stride, _), part in zip(tile._dims, box):
            offset += stride * part.start
            dims.append((stride * part.step, part.count))
        limits = tuple(
            Limit(
                limit.constant + sum(s * r.start for s, r in zip(limit.steps, box)),
                tuple(s * r.step for s, r in zip(limit.steps, box)),
                limit.size,
            )
            for limit in tile._limits
        )
        indirect = tile._indirect
        if indirect is not None and indirect.vector:
            rows = box[0]
            indirect = indirect._replace(tile=indirect.tile.sub((rows, Range(0, 1, indirect.tile.shape[1]))))
        part = tile._replace(offset=offset, dims=dims, indirect=indirect, limits=limits)
        part._check_limits()
        return part

    def _check_limits(self) -> None:
        if not self._limits:
            return
        counts = [n for _, n in self._dims]
        for limit in self._limits:
            ends = [step * (n - 1) for step, n in zip(limit.steps, counts)]
            low = limit.constant + sum(min(0, e) for e in ends)
            high = limit.constant + sum(max(0, e) for e in ends)
            if low < 0 or high >= limit.size:
                raise OutOfBounds(
                    f"err_tensor_access_out_of_bound: {self._tensor!r} is accessed at {low}..{high} of a "
                    f"dimension with {limit.size} elements",
                    label="nki.index_bounds", hint="narrow the access with mask=",
                )

    def permute(self, axes: Sequence[int]) -> Tile:
        """Dimensions in another order (no data moves)."""
        tile = self.realised()
        if tile._limits or tile._indirect or tile.block_ranges:
            raise NotModelled(f"a permuted view of {self!r}", label="nki.view")
        return tile._replace(dims=[tile._dims[a] for a in axes])

    def broadcast_view(self, shape: tuple[int, ...]) -> Tile:
        """Free dimensions of size one repeated with stride 0 to give `shape`; the rank may grow by leading
        free dimensions of size one. The partition dimension is not broadcast here."""
        tile = self.realised().require_tile("a broadcast")
        if tile.shape == shape:
            return tile
        dims = list(tile._dims)
        while len(dims) < len(shape):
            dims.insert(1, (0, 1))
        if tile._limits or any(n not in (1, m) for (_, n), m in zip(dims, shape)):
            raise NkiValidationError(f"{self!r} does not broadcast to {shape}", label="nki.shape")
        if dims[0][1] != shape[0]:
            raise NotModelled(f"{self!r} to {shape}: a stride of 0 along partitions", label="nki.view")
        return tile._replace(dims=[(0, m) if n != m else (s, n) for (s, n), m in zip(dims, shape)])

    def column(self, partitions: int, what: str) -> Tile:
        """This tile as one value per partition, [partitions, 1]."""
        tile = self.realised().require_tile(what)
        if tile.size != tile.shape[0] or tile.shape[0] != partitions:
            raise NkiValidationError(
                f"{what}: {self!r} must have one element in each of {partitions} partitions", label="nki.shape"
            )
        return (
            tile.with_ones((partitions, 1))
            if partitions != 1
            else tile._replace(dims=[tile._dims[0], (0, 1)])
        )

    def reshape(self, shape: Any, *more: int) -> Tile:
        """A view with another shape over the same elements, which must be contiguous; on chip the partition
        dimension stays."""
        sizes = [int(s) for s in ((shape, *more) if isinstance(shape, (int, np.integer)) else shape)]
        tile = self.realised()
        if -1 in sizes:
            sizes[sizes.index(-1)] = tile.size // -math.prod(sizes)
        if math.prod(sizes) != tile.size:
            raise NkiValidationError(
                f"reshape of {self!r} to {tuple(sizes)}: the sizes differ", label="nki.shape"
            )
        if tile.block_ranges:
            raise NkiValidationError(
                f"reshape of {self!r}: dimensions before the partition cannot be reshaped", label="nki.view"
            )
        tile._check_limits()
        first = 0
        if tile.is_on_chip:
            first = 1
            if sizes[0] != tile.shape[0]:
                raise NkiValidationError(
                    f"reshape of {self!r} to {tuple(sizes)}: the partition dimension stays", label="nki.view"
                )
        dims = _reshaped(tile._dims[first:], sizes[first:])
        if dims is None or tile._indirect:
            raise NkiValidationError(
                f"reshape of {self!r} to {tuple(sizes)} would need a copy", label="nki.view"
            )
        return tile._replace(dims=[*tile._dims[:first], *dims], limits=())

    def expand_dims(self, axis: Any) -> Tile:
        """Dimensions of size one inserted at `axis` (after the partition dimension)."""
        axes = [axis] if isinstance(axis, int) else list(axis)
        tile = self.realised().require_tile("expand_dims")
        rank = tile.ndim + len(axes)
        places = sorted(a % rank for a in axes)
        if tile.is_on_chip and places[0] == 0:
            raise NkiValidationError(
                "expand_dims: no dimension goes before the partition dimension", label="nki.view"
            )
        dims = list(tile._dims)
        for place in places:
            dims.insert(place, (0, 1))
        return tile._replace(dims=dims)

    def view(self, dtype: Any) -> Tile:
        """The same bytes as another dtype; the last dimension is scaled by the ratio of sizes."""
        dtype = _types.host_dtype(dtype)
        tile = self.realised()
        old, new = tile._dtype.itemsize, dtype.itemsize
        if old == new:
            return tile._replace(dtype=dtype)
        stride, count = tile._dims[-1]
        scaled = [(s * old, n) for s, n in tile._dims[:-1]]
        bytes_offset = tile._offset * old
        if stride != 1 or (count * old) % new or bytes_offset % new or any(s % new for s, _ in scaled):
            raise NkiValidationError(
                f"view({dtype.name}) of {self!r}: the last dimension must be contiguous", label="nki.view"
            )
        dims = [(s // new, n) for s, n in scaled] + [(1, count * old // new)]
        return tile._replace(dtype=dtype, offset=bytes_offset // new, dims=dims, limits=())

    # -- indexing --------------------------------------------------------------------------------------------

    def _index_any(self, key: Any) -> Tile:
        """The view of any index, step by step: what quick_view must agree with."""
        keys = list(key) if isinstance(key, tuple) else [key]
        rank = self.ndim
        spots = [i for i, k in enumerate(keys) if k is Ellipsis]
        if len(spots) > 1:
            raise NkiValidationError("an index may hold one ellipsis", label="nki.index")
        present = len([k for k in keys if k is not None and k is not Ellipsis])
        if spots:
            keys[spots[0] : spots[0] + 1] = [slice(None)] * (rank - present)
        elif present < rank:
            keys += self._trailing_keys(keys, rank - present)
        if len([k for k in keys if k is not None]) != rank:
            raise NkiValidationError(
                f"{present} indices for {self!r}, which has {rank} dimensions (index expressions need one "
                "index per dimension longer than one)",
                label="nki.index",
            )
        if self._indirect is not None or self._limits:
            if all(k == slice(None) for k in keys if not isinstance(k, (IndexExpr, _types.tile))) and not any(
                isinstance(k, (IndexExpr, _types.tile)) for k in keys
            ):
                return self
            self._check_limits()
            if self._indirect is not None:
                raise NotModelled(f"indexing {self!r} again after an index tile", label="nki.index")
            return self._replace(limits=())._index_any(tuple(keys))
        if any(isinstance(k, (IndexExpr, _types.tile, np.ndarray)) for k in keys):
            return self._index_advanced(keys)
        return self._index_basic(keys)

    def _trailing_keys(self, keys: list[Any], missing: int) -> list[Any]:
        """What stands for the last `missing` dimensions, which an index leaves out."""
        if not any(isinstance(k, IndexExpr) or (isinstance(k, _types.tile) and k.size > 1) for k in keys):
            return [slice(None)] * missing
        return [0] * missing if all(n == 1 for n in self.shape[-missing:]) else []

    def _basic_range(self, key: Any, size: int) -> Range | int:
        if isinstance(key, slice):
            start = 0 if key.start is None else int(key.start)
            stop = size if key.stop is None else int(key.stop)
            step = 1 if key.step is None else int(key.step)
            start, stop = (v + size if v < 0 else v for v in (start, stop))
            if step < 1 or stop <= start:
                raise NkiValidationError(
                    f"slice {key} of a dimension with {size} elements in {self!r} is empty", label="nki.index"
                )
            return Range(start, step, -(-(stop - start) // step))
        if isinstance(key, DynamicSlice):
            return Range(int(key.start), 1, int(key.size))
        try:
            index = int(key)
        except TypeError:
            raise NkiValidationError(f"{key!r} is not an index of {self!r}", label="nki.index") from None
        return index + size if index < 0 else index

    def _index_basic(self, keys: list[Any]) -> Tile:
        blocks, offset = [], self._offset
        dims: list[tuple[int, int]] = []
        limits: list[tuple[Range, int, int]] = []
        waiting = iter(self._dims)
        pending_blocks = iter(self._blocks)
        todo = len(self.block_ranges)
        position = 0
        for key in keys:
            if key is None:
                if todo or (self.is_on_chip and not dims):
                    raise NkiValidationError(
                        f"{self!r}: no new dimension goes before the partition dimension", label="nki.index"
                    )
                dims.append((0, 1))
                continue
            if todo:
                block = next(pending_blocks)
                while not isinstance(block, Range):
                    blocks.append(block)
                    block = next(pending_blocks)
                blocks.append(self._index_block(key, block))
                todo -= 1
                continue
            stride, size = next(waiting)
            part = self._basic_range(key, size)
            if isinstance(part, int):
                if not 0 <= part < size:
                    raise OutOfBounds(
                        f"err_tensor_access_out_of_bound: index {part} of a dimension with {size} elements in "
                        f"{self!r}",
                        label="nki.index_bounds",
                    )
                offset += stride * part
                if self.is_on_chip and position == 0:
                    dims.append((stride, 1))
            else:
                offset += stride * part.start
                if part.start < 0 or part.start + part.step * (part.count - 1) >= size:
                    limits.append((part, len(dims), size))
                dims.append((stride * part.step, part.count))
            position += 1
        blocks += list(pending_blocks)
        if self.is_on_chip and not any(isinstance(b, Range) for b in blocks) and len(dims) < 2:
            dims.append((0, 1))
        checked = tuple(
            Limit(part.start, tuple(part.step if i == axis else 0 for i in range(len(dims))), size)
            for part, axis, size in limits
        )
        return _types.tile(self._tensor, tuple(blocks), offset, dims, self._dtype, None, checked)

    def _index_block(self, key: Any, block: Range) -> Range | int:
        part = self._basic_range(key, block.count)
        last = part if isinstance(part, int) else part.start + part.step * (part.count - 1)
        first = part if isinstance(part, int) else part.start
        if first < 0 or last >= block.count:
            raise OutOfBounds(
                f"err_tensor_access_out_of_bound: block {last} of {block.count} in {self!r}",
                label="nki.index_bounds",
            )
        if isinstance(part, int):
            return block.start + block.step * part
        return Range(block.start + block.step * part.start, block.step * part.step, part.count)

    def _slices_as_indices(self, keys: list[Any]) -> list[Any]:
        """`keys` with ranges in the place of slices where every index tile is one number, which leaves out its
        dimension as an integer does."""
        spots = [i for i, key in enumerate(keys) if isinstance(key, (slice, DynamicSlice))]
        one_number = all(key.size == 1 for key in keys if isinstance(key, _types.tile))
        mixed = any(isinstance(key, IndexExpr) or key is None for key in keys)
        if not spots or mixed or not one_number:
            return keys
        keys = list(keys)
        rank = max(2, len(spots))
        for dim, spot in enumerate(spots):
            part = self._basic_range(keys[spot], self.shape[spot])
            assert isinstance(part, Range)  # of a slice
            indices = arange(part.start, part.start + part.step * part.count, part.step)
            keys[spot] = indices[tuple(slice(None) if d == dim else None for d in range(rank))]
        return keys

    def _index_advanced(self, keys: list[Any]) -> Tile:
        keys = self._slices_as_indices(keys)
        exprs: list[Any] = []
        for key in keys:
            if isinstance(key, _types.tile):
                exprs.append(key)
            elif isinstance(key, IndexExpr):
                if key.ndim < 2:
                    raise NkiValidationError(
                        f"err_1d_arange_not_supported: {self!r} indexed with a 1-D arange",
                        label="nki.index", hint="nl.arange(n)[:, None]",
                    )
                exprs.append(key)
            elif isinstance(key, (slice, DynamicSlice)) or key is None:
                raise NkiValidationError(
                    f"{self!r}: slices and index expressions cannot be mixed in one index "
                    "(nki/programming_model.rst, Tensor Indexing)",
                    label="nki.index", hint="nl.arange or nl.mgrid for both",
                )
            elif isinstance(key, np.ndarray):
                raise NkiValidationError(
                    f"{self!r}: a numpy array is not an index", label="nki.index", hint="nl.arange or nl.mgrid"
                )
            else:
                exprs.append(_Number(int(key)))
        # An index tile holds one index per row: it runs along axis 0 whatever the rank of the access.
        rank = max(len(e.shape) for e in exprs)
        shape = broadcast_shapes(
            *(e.shape if not isinstance(e, _types.tile) else (e.shape[0],) + (1,) * (rank - 1) for e in exprs)
        )
        blocks, rest = self._advanced_blocks(exprs)
        return _advanced_view(self, blocks, rest, shape)

    def _advanced_blocks(self, exprs: list[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        ranges = self.block_ranges
        fixed = []
        for expr, block in zip(exprs, ranges):
            if isinstance(expr, _types.tile) or expr.axes or expr.dense is not None:
                raise NkiValidationError(
                    f"{self!r}: dimensions before the partition dimension take integers only", label="nki.index"
                )
            fixed.append(self._index_block(expr.constant, block))
        replaced = iter(fixed)
        blocks = tuple(next(replaced) if isinstance(b, Range) else b for b in self._blocks)
        return blocks, exprs[len(ranges) :]

    # -- the machine -----------------------------------------------------------------------------------------

    def _raw_any(self) -> Any:
        """The machine's view of this tile, whatever kind of view it is."""
        tile = self.realised()
        tile.require_tile("an instruction")
        tile._check_limits()
        view = tile._new_raw()
        if tile._indirect is None:
            tile._raw = view
        return view

    def _new_raw(self) -> Any:
        tile = self
        storage = tile._tensor.machine(tile._blocks)
        dtype = _types.device_dtype(tile._dtype)
        dims = tile._dims or ((0, 1),)
        pattern = [[s, n] for s, n in dims]
        if tile.is_on_chip:
            row = tile._tensor.row * tile._tensor.dtype.itemsize // tile._dtype.itemsize
            if pattern[0][1] > 1 and pattern[0][0] != row:
                raise NotModelled(
                    f"{self!r}: consecutive rows must be consecutive partitions, this access steps "
                    f"{pattern[0][0] / row:g} (flexible indexing is for free dimensions only)",
                    label="nki.view",
                )
            pattern[0][0] = row
        if tile._indirect is not None:
            return tile._indirect_raw(storage, pattern, dtype)
        return storage.ap(pattern, tile._offset, dtype=dtype)

    def _indirect_raw(self, storage: Any, pattern: list[list[int]], dtype: Any) -> Any:
        how = self._indirect
        total = self._tensor.partitions * self._tensor.row
        index = how.tile.raw()
        if how.vector:
            pattern[0][0] = how.stride
            table = storage.reshape((total // how.stride, how.stride))
            return table.ap(pattern, self._offset, vector_offset=index, indirect_dim=0, dtype=dtype)
        if self.is_on_chip:
            table = storage.reshape((self._tensor.partitions, self._tensor.row // how.stride, how.stride))
            return table.ap(pattern, self._offset, scalar_offset=index, indirect_dim=1, dtype=dtype)
        table = storage.reshape((total // how.stride, how.stride))
        return table.ap(pattern, self._offset, scalar_offset=index, indirect_dim=0, dtype=dtype)

    def holds_something(self) -> bool:
        """True when an instruction wrote part of what this view covers, or it was created with a value."""
        tile = self.realised()
        if tile._tensor.zero_filled:
            return True
        rows, low, high = tile.addresses_span()
        return any(
            first < rows.start + rows.count and rows.start < first + count and low <= last and begin <= high
            for first, count, begin, last in tile._tensor.spans.get(tile._blocks, ())
        )


class _Number:
    """An int in the place of an index expression."""

    shape = ()
    axes: dict[int, np.ndarray] = {}
    dense = None

    def __init__(self, value: int):
        self.constant = value

    def range(self) -> tuple[int, int]:
        return self.constant, self.constant


def _progression(values: np.ndarray) -> tuple[int, int] | None:
    """(first, step) of values with a constant step, of any sign."""
    if values.size == 1:
        return int(values[0]), 0
    step = int(values[1] - values[0])
    if (np.diff(values) != step).any():
        return None
    return int(values[0]), step


def _reshaped(dims: Sequence[tuple[int, int]], sizes: Sequence[int]) -> list[tuple[int, int]] | None:
    """Strides of `dims` for another shape, or None when that would need a copy."""
    strides = [s for s, _ in dims]
    counts = [n for _, n in dims]
    if not sizes:
        return [] if math.prod(counts) == 1 else None
    if not counts:
        return [(0, 1) for _ in sizes]
    probe = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), counts, strides)
    try:
        shaped: np.ndarray = np.reshape(probe, tuple(sizes), copy=False)
    except ValueError:
        return None
    return [(int(s) if n != 1 else 0, n) for s, n in zip(shaped.strides, sizes)]


def _advanced_view(base: Tile, blocks: tuple[Any, ...], exprs: list[Any], shape: tuple[int, ...]) -> Tile:
    """The access pattern of one index expression per remaining dimension, broadcast to `shape`."""
    rank = len(shape)
    offset = base._offset
    vectors: dict[int, np.ndarray] = {}  # axis (0..rank-1) -> address contribution
    indirect: Any = None
    limits = []
    for position, (expr, (stride, size)) in enumerate(zip(exprs, base._dims)):
        if isinstance(expr, _types.tile):
            if indirect is not None:
                raise NotModelled(f"{base!r}: two index tiles in one access", label="nki.index")
            indirect = _index_tile(base, expr, stride, size, position, shape)
            continue
        if expr.dense is not None:
            raise NotModelled(
                f"{base!r}: {expr!r} mixes axes in a way that is not an access pattern", label="nki.index"
            )
        low, high = expr.range()
        steps = [0] * rank
        for axis, vector in expr.axes.items():
            axis += rank
            if base.is_on_chip and (position == 0) != (axis == 0):
                raise NotModelled(
                    f"{base!r}: "
                    + (
                        "partitions indexed along a free axis"
                        if position == 0
                        else "free elements indexed differently in each partition"
                    )
                    + "; only the first index may vary along axis 0 of an on-chip access",
                    label="nki.index",
                )
            vectors[axis] = vectors.get(axis, 0) + vector * stride
            line = np.diff(vector)
            steps[axis] = int(line[0]) if (line == line[0]).all() else 0
        offset += expr.constant * stride
        if low < 0 or high >= size:
            start = expr.constant + sum(int(v[0]) for v in expr.axes.values())
            limits.append(Limit(start, tuple(steps), size))
    dims = []
    for axis, count in enumerate(shape):
        if axis not in vectors:
            step = base._dims[0][0] if (axis == 0 and base.is_on_chip and count == 1) else 0
            dims.append((step, count))
            continue
        line = _progression(vectors[axis])
        if line is None:
            raise NotModelled(
                f"{base!r}: index {vectors[axis].tolist()[:8]}... along axis {axis} has no constant step, "
                "which no access pattern expresses",
                label="nki.index",
            )
        offset += line[0]
        dims.append((line[1], count))
    return _types.tile(base._tensor, blocks, offset, dims, base._dtype, indirect, tuple(limits))


def _index_tile(
    base: Tile, index: Tile, stride: int, size: int, position: int, shape: tuple[int, ...]
) -> Any:
    index.realised()
    if index.dtype.kind not in "iu":
        raise NkiValidationError(f"{base!r}: the index tile {index!r} must hold integers", label="nki.index")
    if not index.is_on_chip:
        raise NkiValidationError(
            f"{base!r}: the index tile {index!r} must be in SBUF", label="nki.index", hint="nl.load it first"
        )
    if index.size == 1:
        if base.is_on_chip and position == 0:
            raise NotModelled(f"{base!r}: a dynamic partition index", label="nki.index")
        return _types.indirect(index.column(1, "an index tile"), stride, False, size)
    if base.is_on_chip:
        raise NotModelled(
            f"err_copy_dynamic_indirect_indices_not_natively_supported: {base!r} indexed by {index!r}",
            label="nki.index", hint="an index per row, which works on HBM tensors only",
        )
    if index.size != index.shape[0] or index.shape[0] != shape[0]:
        raise NotModelled(
            f"{base!r}: the index tile {index!r} must have shape ({shape[0]}, 1)", label="nki.index"
        )
    return _types.indirect(index.column(shape[0], "an index tile"), stride, True, size)
