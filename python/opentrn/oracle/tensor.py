"""Tensors and views of the NumPy oracle.

A view is (storage, offset, shape, strides) over flat memory, counted in elements of the view's dtype. SBUF
and PSUM tiles are stored row-major [partition, free...], so the stride of dimension 0 is the number of free
elements and an access pattern `[[step, count], ...]` means the same thing for HBM and for on-chip memory.
Source of the rules: nki/api/nki/language (class NkiTensor), nki/deep-dives/nki-aps.rst.

Indirect views carry, besides, one of
- a scalar index (a register or a one-element tensor) times a stride, added to every address;
- a vector of indices, one per row of dimension 0, which replaces that dimension's step;
- a tensor indirection (`.indirect`): free offsets in a snake over groups of partitions.
  The index values are read when an instruction consumes the view, not when the view is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, OutOfBounds, require
from opentrn.types.dtypes import DType, dtype_of, is_float, to_numpy_dtype
from opentrn.types.isa_enums import MemoryRegion
from opentrn.types.shapes import infer_sizes

UNINITIALISED_INTEGER = 4  # what the official simulator fills integer memory with

ENGINE_GROUP = 16  # partitions that share one `.indirect` offset list: Vector, Scalar and GpSimd
TENSOR_ENGINE_GROUP = 32


class Storage:
    """Flat bytes behind one tensor, and for PSUM a mask of the bytes that a matmul (or, on gen4, anything)
    wrote."""

    __slots__ = ("bytes", "accumulates", "buffer", "address", "partition_bytes")

    def __init__(
        self,
        data: np.ndarray,
        buffer: MemoryRegion,
        partition_bytes: int = 0,
        address: tuple[int, int] | None = None,
    ):
        self.bytes = data  # uint8, 1-D
        self.buffer = buffer
        self.partition_bytes = partition_bytes  # on-chip: bytes from one partition to the next in `bytes`
        self.address = address
        # True where the next nc_matmul with accumulate=None adds instead of overwriting.
        self.accumulates: np.ndarray | None = (
            np.zeros(data.size, np.bool_) if buffer is MemoryRegion.psum else None
        )


@dataclass
class Indirection:
    """What makes a view indirect. `dims` are the view dimensions that may not be sliced or selected again."""

    scalar: Any = None  # register, int or one-element tensor
    scalar_stride: int = 0
    vector: NkiTensor | None = None
    vector_stride: int = 0
    bound: int = 0  # size of the indexed dimension: indices are 0 .. bound - 1
    columns: NkiTensor | None = None  # `.indirect(index)`
    dims: frozenset[int] = field(default_factory=frozenset)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _as_int(value: Any) -> int:
    """The value of an int, a register, a numpy integer or a one-element tensor."""
    if isinstance(value, NkiTensor):
        require(value.size == 1, f"an index tensor must have one element, this one has shape {value.shape}")
        return int(value.numpy().reshape(())[()])
    return int(value)


class NkiTensor:
    """A tensor or a view of one. Views share storage; no method here copies data except `to_numpy`."""

    __slots__ = ("storage", "shape", "dtype", "strides", "offset", "name", "indirection")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        storage: Storage | None = None,
        buffer: MemoryRegion | str = MemoryRegion.sbuf,
        name: str = "",
        *,
        offset: int = 0,
        strides: Sequence[int] | None = None,
        indirection: Indirection | None = None,
    ):
        self.shape = tuple(int(s) for s in shape)
        self.dtype = dtype_of(dtype)
        self.strides = tuple(strides) if strides is not None else _row_major(self.shape)
        self.offset = offset
        self.name = name
        self.indirection = indirection
        if storage is None:
            storage = allocate(self.shape, self.dtype, MemoryRegion(buffer))
        self.storage = storage

    # -- properties ------------------------------------------------------------------------------------------

    @property
    def buffer(self) -> MemoryRegion:
        return self.storage.buffer

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return to_numpy_dtype(self.dtype).itemsize

    @property
    def is_on_chip(self) -> bool:
        return self.buffer.is_on_chip

    @property
    def T(self) -> NkiTensor:
        return self.permute(tuple(reversed(range(self.ndim))))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"NkiTensor({self.name or '?'}: {self.dtype}{list(self.shape)} in {self.buffer.value})"

    def is_contiguous(self) -> bool:
        """True when the view covers storage row-major; per partition for on-chip tensors."""
        first = 1 if self.is_on_chip else 0
        expected = 1
        for size, stride in reversed(list(zip(self.shape[first:], self.strides[first:], strict=True))):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    def get_pattern(self) -> list[list[int]]:
        """`[[stride, count], ...]`, outermost dimension first."""
        return [[stride, size] for stride, size in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        return self.indirection is not None

    # -- views -----------------------------------------------------------------------------------------------

    def _view(self, shape, strides, offset=None, dtype=None, indirection="keep") -> NkiTensor:
        view = object.__new__(NkiTensor)
        view.storage = self.storage
        view.shape = tuple(shape)
        view.strides = tuple(strides)
        view.offset = self.offset if offset is None else offset
        view.dtype = self.dtype if dtype is None else dtype
        view.name = self.name
        view.indirection = self.indirection if indirection == "keep" else indirection
        return view

    def _dim(self, dim: int, size: int | None = None) -> int:
        size = self.ndim if size is None else size
        require(-size <= dim < size, f"dimension {dim} of a tensor of rank {self.ndim}")
        return dim % size

    def _check_not_indirect_dim(self, dim: int) -> None:
        if self.indirection is not None and dim in self.indirection.dims:
            raise NkiValidationError(
                f"dimension {dim} takes part in indirect addressing: it cannot be sliced"
            )

    def _drop(self, dim: int, offset: int) -> NkiTensor:
        """Remove dimension `dim`; on-chip views keep the partition and rank 2, HBM views rank 1."""
        minimum_rank = 2 if self.is_on_chip else 1
        if (self.is_on_chip and dim == 0) or self.ndim <= minimum_rank:
            shape = list(self.shape)
            shape[dim] = 1
            return self._view(shape, self.strides, offset)
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            offset,
            indirection=_without_dim(self.indirection, dim),
        )

    def __getitem__(self, key: Any) -> NkiTensor:
        keys = list(key) if isinstance(key, tuple) else [key]
        ellipses = [i for i, k in enumerate(keys) if k is Ellipsis]
        require(len(ellipses) <= 1, "an index may hold one ellipsis")
        if ellipses:
            i = ellipses[0]
            keys[i : i + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        require(len(keys) <= self.ndim, f"{len(keys)} indices for a tensor of rank {self.ndim}")
        view = self
        drops = []
        for dim, k in enumerate(keys):
            size = view.shape[dim]
            if isinstance(k, slice):
                if k != slice(None):
                    start, stop, step = _slice_bounds(k, size)
                    view = view.slice(dim, start, stop, step)
            elif hasattr(k, "start") and hasattr(k, "size"):
                start, count = _as_int(k.start), _as_int(k.size)
                view = view.slice(dim, start, start + count) if count else view._empty_slice(dim, start)
            elif k is None:
                raise NkiValidationError("None is not an index of an NkiTensor; use expand_dim()")
            else:
                drops.append((dim, k if isinstance(k, NkiTensor) else _as_int(k)))
        for dim, index in reversed(drops):
            view = view.select(dim, index)
        return view

    def __setitem__(self, key: Any, value: Any) -> None:
        """`dst[...] = tensor or number`: a copy with one rounding to the destination, as tensor_copy does."""
        from opentrn.oracle.numerics import load_f32, store

        destination = self[key]
        if isinstance(value, NkiTensor):
            if value.dtype == destination.dtype:
                destination.write(value.numpy_or_gather().reshape(destination.shape))
            else:
                store(destination, load_f32(value))
        else:
            store(destination, np.asarray(value, dtype=np.float32))

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements start, start+step, ... < end of one dimension."""
        dim = self._dim(dim)
        self._check_not_indirect_dim(dim)
        start, end, step = _as_int(start), _as_int(end), _as_int(step)
        if not (0 <= start < end <= self.shape[dim] and step >= 1):
            raise OutOfBounds(
                f"slice {start}:{end}:{step} of dimension {dim} with {self.shape[dim]} elements "
                f"({self!r}); needs 0 <= start < end <= size and step >= 1"
            )
        shape, strides = list(self.shape), list(self.strides)
        shape[dim] = -(-(end - start) // step)
        strides[dim] *= step
        return self._view(shape, strides, self.offset + start * self.strides[dim])

    def _empty_slice(self, dim: int, start: int) -> NkiTensor:
        """t[nl.ds(start, 0)], which no instruction takes: see TensorView::empty_slice."""
        self._check_not_indirect_dim(dim)
        if not 0 <= start <= self.shape[dim]:
            raise OutOfBounds(f"slice {start}:{start} of dimension {dim} with {self.shape[dim]} elements")
        return self._view((*self.shape[:dim], 0, *self.shape[dim + 1 :]), self.strides)

    def _select_static(self, dim: int, index: int) -> NkiTensor:
        self._check_not_indirect_dim(dim)
        size = self.shape[dim]
        if not -size <= index < size:
            raise OutOfBounds(f"index {index} of dimension {dim} with {size} elements ({self!r})")
        return self._drop(dim, self.offset + (index % size) * self.strides[dim])

    def _dynamic_select(self, dim: int, index: Any) -> NkiTensor:
        require(not self.is_indirect(), "only one dynamic index per tensor: this view is already indirect")
        require(not (self.is_on_chip and dim == 0), "the partition dimension has no dynamic index")
        view = self._drop(dim, self.offset)
        return view._view(
            view.shape,
            view.strides,
            indirection=Indirection(scalar=index, scalar_stride=self.strides[dim], bound=self.shape[dim]),
        )

    def select(self, dim: int, index: Any) -> NkiTensor:
        """One element of dimension `dim`, which goes away; `index` may be a tensor or register (read when
        used)."""
        dim = self._dim(dim)
        if isinstance(index, (int, np.integer)):
            return self._select_static(dim, int(index))
        return self._dynamic_select(dim, index)

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Row p of the result is row `vector_offset[p]` of this HBM tensor."""
        require(dim == 0, "vector_select works on dimension 0 only")
        require(not self.is_on_chip, "vector_select works on HBM tensors only")
        require(not self.is_indirect(), "only one dynamic index per tensor: this view is already indirect")
        return self._view(
            (vector_offset.shape[0], *self.shape[1:]),
            self.strides,
            indirection=Indirection(
                vector=vector_offset,
                vector_stride=self.strides[0],
                bound=self.shape[0],
                dims=frozenset({0}),
            ),
        )

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Reorder dimensions; on-chip and vector-indirect views keep dimension 0 outermost."""
        dims = tuple(self._dim(d) for d in dims)
        require(sorted(dims) == list(range(self.ndim)), f"{dims} is not a permutation of {self.ndim} dimensions")
        if self.is_on_chip or (self.indirection and self.indirection.dims):
            require(dims[0] == 0, f"dimension 0 of {self!r} must stay outermost, got {dims}")
        return self._view([self.shape[d] for d in dims], [self.strides[d] for d in dims])

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Repeat a dimension of size 1 (stride 0)."""
        dim = self._dim(dim)
        require(
            self.shape[dim] == 1, f"broadcast of dimension {dim} with {self.shape[dim]} elements, needs 1"
        )
        require(not (self.is_on_chip and dim == 0), "the partition dimension cannot be broadcast")
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._view(shape, strides)

    def expand_dim(self, dim: int) -> NkiTensor:
        """Insert a dimension of size 1."""
        dim = self._dim(dim, self.ndim + 1)
        require(not (self._keeps_dim0() and dim == 0), "no dimension may be inserted before dimension 0")
        stride = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
        return self._view(
            self.shape[:dim] + (1,) + self.shape[dim:], self.strides[:dim] + (stride,) + self.strides[dim:]
        )

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Remove a dimension of size 1."""
        dim = self._dim(dim)
        require(self.shape[dim] == 1, f"squeeze of dimension {dim} with {self.shape[dim]} elements, needs 1")
        require(not (self._keeps_dim0() and dim == 0), "dimension 0 cannot be squeezed")
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            indirection=_without_dim(self.indirection, dim),
        )

    def _keeps_dim0(self) -> bool:
        return self.is_on_chip or bool(self.indirection and self.indirection.dims)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Split one dimension; one size may be -1."""
        dim = self._dim(dim)
        sizes = infer_sizes(shape, self.shape[dim])
        if dim == 0 and self._keeps_dim0():
            require(tuple(sizes) == (self.shape[0],), "dimension 0 cannot be split")
        steps = [s * self.strides[dim] for s in _row_major(sizes)]
        return self._view(
            self.shape[:dim] + tuple(sizes) + self.shape[dim + 1 :],
            self.strides[:dim] + tuple(steps) + self.strides[dim + 1 :],
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Merge dimensions start_dim..end_dim (inclusive), which must be contiguous with each other."""
        start, end = self._dim(start_dim), self._dim(end_dim)
        require(start <= end, f"flatten_dims({start_dim}, {end_dim})")
        if start == end:
            return self
        require(not (self._keeps_dim0() and start == 0), "dimension 0 cannot be merged")
        real = [(self.shape[d], self.strides[d]) for d in range(start, end + 1) if self.shape[d] != 1]
        for (_, outer), (size, inner) in zip(real, real[1:], strict=False):
            require(
                outer == size * inner,
                f"dimensions {start}..{end} of {self!r} are not contiguous: strides {self.strides}",
            )
        return self._view(
            self.shape[:start] + (math.prod(self.shape[start : end + 1]),) + self.shape[end + 1 :],
            self.strides[:start] + (real[-1][1] if real else 1,) + self.strides[end + 1 :],
        )

    def reshape(self, *shape: Any) -> NkiTensor:
        """New shape over the same elements; fails when the layout would need a copy."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        sizes = infer_sizes([_as_int(s) for s in wanted], self.size)
        if self._keeps_dim0():
            require(
                sizes[0] == self.shape[0],
                f"reshape of {self!r} to {tuple(sizes)}: dimension 0 must stay {self.shape[0]}",
            )
        try:
            strides = np.reshape(self._dummy(), sizes, copy=False).strides
        except ValueError:
            raise NkiValidationError(
                f"reshape of {self!r} with strides {self.strides} to {tuple(sizes)} would need a copy"
            ) from None
        return self._view(sizes, strides)

    def _dummy(self) -> np.ndarray:
        """A one-byte array with this view's shape and strides, to borrow numpy's stride arithmetic; never
        read."""
        return np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), self.shape, self.strides)

    def rearrange(self, src_pattern: Sequence, dst_pattern: Sequence, fixed_sizes=None) -> NkiTensor:
        """Split, permute and merge by dimension names, as einops does."""
        sizes = dict(fixed_sizes or {})
        require(len(src_pattern) == self.ndim, f"pattern {src_pattern} for a tensor of rank {self.ndim}")
        view = self
        names: list[str] = []
        for size, entry in zip(self.shape, src_pattern, strict=True):
            group = (entry,) if isinstance(entry, str) else tuple(entry)
            dims = infer_sizes([sizes.get(n, -1) for n in group], size)
            sizes.update(zip(group, dims, strict=True))
            if len(group) != 1:
                view = view.reshape_dim(len(names), dims)
            names.extend(group)
        groups = [(e,) if isinstance(e, str) else tuple(e) for e in dst_pattern]
        wanted = [n for group in groups for n in group]
        require(sorted(wanted) == sorted(names), f"{dst_pattern} must hold the names of {src_pattern}")
        view = view.permute([names.index(n) for n in wanted])
        for i, group in enumerate(groups):
            if len(group) != 1:
                view = view.flatten_dims(i, i + len(group) - 1)
        return view

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """Replace shape and strides by an explicit pattern over the storage.

        `offset` counts elements of `dtype` from this view's own offset. A dynamic offset is scaled by the
        stride of `self`'s dimension `indirect_dim`, in elements of `dtype`.
        """
        dtype = self.dtype if dtype is None else dtype_of(dtype)
        require(
            scalar_offset is None or vector_offset is None, "give scalar_offset or vector_offset, not both"
        )
        shape = [_as_int(count) for _, count in pattern]
        strides = [_as_int(step) for step, _ in pattern]
        base = self._rescale(self.offset, dtype) + _as_int(offset or 0)
        indirection = None
        if scalar_offset is not None:
            # The dimension gives the stride: one of size 1 has that of the dimension before it.
            stride = self.strides[indirect_dim]
            alike = [size for size, step in zip(self.shape, self.strides, strict=True) if step == stride]
            indirection = Indirection(
                scalar=scalar_offset,
                scalar_stride=self._rescale(stride, dtype),
                bound=max(alike),
            )
        elif vector_offset is not None:
            require(indirect_dim == 0, "a vector_offset works on indirect_dim 0 only")
            indirection = Indirection(
                vector=vector_offset,
                vector_stride=self._rescale(self.strides[0], dtype),
                bound=self.shape[0],
                dims=frozenset({0}),
            )
        if self.is_on_chip and shape[0] > 1:
            row = self.storage.partition_bytes // to_numpy_dtype(dtype).itemsize
            own_row = self._rescale(self._own_row(), dtype)
            if 0 < strides[0] == own_row < row:  # a pattern of the view's own rows: see TensorView::ap
                whole_rows, rest = divmod(_as_int(offset or 0), own_row)
                strides[0] = row
                base = self._rescale(self.offset, dtype) + whole_rows * row + rest
            require(
                strides[0] == row,
                f"pattern {list(pattern)} of {self!r}: the first step must be a partition's {row} elements",
            )
        return self._view(shape, strides, base, dtype, indirection)

    def _own_row(self) -> int:
        """Elements of one partition of an on-chip view that are one run of it; 0 if they are not one run."""
        return math.prod(self.shape[1:]) if self.is_contiguous() else 0

    def _rescale(self, elements: int, dtype: DType) -> int:
        """A count of elements of self.dtype, in elements of `dtype`."""
        if dtype == self.dtype:
            return elements
        scaled, rest = divmod(elements * self.itemsize, to_numpy_dtype(dtype).itemsize)
        require(rest == 0, f"{elements} elements of {self.dtype} are not a whole number of {dtype}")
        return scaled

    def view(self, dtype: Any) -> NkiTensor:
        """Reinterpret the bytes as another dtype; the last dimension grows or shrinks by the size ratio."""
        dtype = dtype_of(dtype)
        require(not self.is_indirect(), "view(dtype) of an indirect view")
        old, new = self.itemsize, to_numpy_dtype(dtype).itemsize
        if old == new:
            return self._view(self.shape, self.strides, dtype=dtype)
        require(
            self.strides[-1] == 1 or self.shape[-1] == 1,
            f"view({dtype}) of {self!r}: the last dimension has stride {self.strides[-1]}, must be 1",
        )
        last, rest = divmod(self.shape[-1] * old, new)
        require(rest == 0, f"view({dtype}) of {self!r}: {self.shape[-1]} elements do not divide evenly")
        strides = [self._rescale(s, dtype) for s in self.strides[:-1]] + [1]
        return self._view((*self.shape[:-1], last), strides, self._rescale(self.offset, dtype), dtype)

    reinterpret_cast = view

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Tensor indirection (NeuronCore-v4): column i of the result is the free offset `index[i % G, i //
        G]`.

        G is 16 partitions (Vector, Scalar, GpSimd) or 32 (Tensor engine); every group of G partitions uses
        its own rows of `index`. The documented default of `num_elem` is `index.size`; with more than one
        group only the offsets of one group exist, so it is taken as min(P, 16) * K here.
        """
        require(self.is_on_chip, ".indirect works on SBUF and PSUM tensors")
        require(not self.is_indirect(), "only one dynamic index per tensor: this view is already indirect")
        require(
            index.shape[0] == self.shape[0], f"index has {index.shape[0]} partitions, tensor {self.shape[0]}"
        )
        if num_elem is None:
            num_elem = min(self.shape[0], ENGINE_GROUP) * (index.size // index.shape[0])
        flat = self.flatten_dims(1, self.ndim - 1) if self.ndim > 2 else self
        return flat._view(
            (self.shape[0], _as_int(num_elem)),
            flat.strides,
            indirection=Indirection(columns=index, bound=flat.shape[1], dims=frozenset({0, 1})),
        )

    # -- data ------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The elements as a strided, writable numpy view of the storage (float32 for tfloat32, integers for
        x4).

        Raises NkiValidationError for an indirect view (see `numpy_or_gather`), OutOfBounds when the view
        leaves its storage.
        """
        if self.indirection is not None:
            raise NkiValidationError(f"{self!r} is indirect: it has no numpy view")
        require(0 not in self.shape, f"{self!r} has no elements; an instruction needs at least one")
        dtype = to_numpy_dtype(self.dtype)
        width = dtype.itemsize
        try:
            return np.ndarray(
                self.shape,
                dtype,
                self.storage.bytes,
                self.offset * width,
                [s * width for s in self.strides],
            )
        except (ValueError, TypeError) as error:
            raise OutOfBounds(
                f"{self!r} with strides {self.strides} and offset {self.offset} leaves its storage of "
                f"{self.storage.bytes.size // width} elements: {error}"
            ) from None

    def addresses(self, group: int = ENGINE_GROUP) -> np.ndarray:
        """Element addresses, int64 like the view, dynamic indices resolved; -1 where an index leaves its
        dimension. Addresses are not checked against the storage: see `in_bounds`."""
        address: np.ndarray = np.full(self.shape, self.offset, np.int64)
        how = self.indirection or Indirection()
        for d, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if d in how.dims:
                continue
            address += (np.arange(size) * stride).reshape((-1,) + (1,) * (self.ndim - d - 1))
        if how.scalar is not None:
            index = _as_int(how.scalar)
            address += index * how.scalar_stride
            if not 0 <= index < how.bound:
                address[...] = -1
        if how.vector is not None:
            # A 2-D index tile is read column by column (dma_transpose: `indices.T.flatten()`).
            rows = how.vector.numpy_or_gather()
            rows = rows.reshape(rows.shape[0], -1).T.reshape(-1)
            require(
                rows.size >= self.shape[0],
                f"vector_offset has {rows.size} indices for {self.shape[0]} rows",
            )
            rows = rows[: self.shape[0]].astype(np.int64)
            address += (rows * how.vector_stride).reshape((-1,) + (1,) * (self.ndim - 1))
            address[(rows < 0) | (rows >= how.bound)] = -1
        if how.columns is not None:
            address = self._column_addresses(how.columns, how.bound, group)
        return address

    def _column_addresses(self, index: NkiTensor, bound: int, group: int) -> np.ndarray:
        """Addresses of a tensor-indirect view, [P, num_elem]; -1 where a free offset is not in 0..bound-1."""
        table: np.ndarray = index.numpy().reshape(index.shape[0], -1).astype(np.int64)
        partitions, count = self.shape
        p = np.arange(partitions)[:, None]
        i = np.arange(count)[None, :]
        require(
            (count - 1) // group < table.shape[1],
            f".indirect: {count} offsets in groups of {group} need {(count - 1) // group + 1} index columns",
        )
        rows = p // group * group + i % group
        require(int(rows.max()) < partitions, f".indirect: {count} offsets need groups of {group} partitions")
        column = table[rows, i // group]
        address = self.offset + p * self.strides[0] + column * self.strides[1]
        return np.where((column >= 0) & (column < bound), address, -1)

    def in_bounds(self, address: np.ndarray) -> np.ndarray:
        """Which element addresses lie inside the storage."""
        return (address >= 0) & (address < self.storage.bytes.size // self.itemsize)

    def flat_storage(self) -> np.ndarray:
        """The whole storage as a 1-D array of this view's dtype."""
        width = self.itemsize
        return self.storage.bytes[: self.storage.bytes.size // width * width].view(to_numpy_dtype(self.dtype))

    def numpy_or_gather(self, group: int = ENGINE_GROUP) -> np.ndarray:
        """The elements: a strided view, or for an indirect view a gathered copy. OutOfBounds on a bad
        index."""
        if self.indirection is None:
            return self.numpy()
        address = self.addresses(group)
        if not self.in_bounds(address).all():
            raise OutOfBounds(f"an index of the indirect view {self!r} points outside its storage")
        return self.flat_storage()[address]

    def write(self, values: np.ndarray, group: int = ENGINE_GROUP) -> None:
        """Store values of the storage dtype (broadcast to the view's shape); scatter when indirect."""
        if self.indirection is None:
            self.numpy()[...] = values
        else:
            address = self.addresses(group)
            if not self.in_bounds(address).all():
                raise OutOfBounds(f"an index of the indirect view {self!r} points outside its storage")
            self.flat_storage()[address] = values
        if self.storage.accumulates is not None:
            self._mark_written()

    def _mark_written(self) -> None:
        """On gen4 an accumulating matmul may start from any written PSUM; before, only from a matmul's
        result."""
        from opentrn.oracle.machine import current_or_none
        from opentrn.types.isa_enums import nc_version

        machine = current_or_none()
        if machine is not None and machine.nc_version >= nc_version.gen4:
            self.accumulate_mask()[...] = True

    def accumulate_mask(self) -> np.ndarray:
        """The PSUM mask of this (direct) view: one flag per element, a strided writable view."""
        width = self.itemsize
        return np.ndarray(
            self.shape,
            np.bool_,
            self.storage.accumulates,
            self.offset * width,
            [s * width for s in self.strides],
        )

    def to_numpy(self) -> np.ndarray:
        """A contiguous copy of the elements."""
        return np.array(self.numpy_or_gather())

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        data = self.to_numpy()
        return data if dtype is None else data.astype(dtype)


def _without_dim(indirection: Indirection | None, dim: int) -> Indirection | None:
    """The indirection of a view that lost dimension `dim`."""
    if indirection is None or not indirection.dims:
        return indirection
    moved = frozenset(d - (d > dim) for d in indirection.dims if d != dim)
    return Indirection(**{**indirection.__dict__, "dims": moved})


def _slice_bounds(key: slice, size: int) -> tuple[int, int, int]:
    """Start, stop, step with negative and missing bounds resolved; bounds past the end are left for the
    check."""
    start = 0 if key.start is None else _as_int(key.start)
    stop = size if key.stop is None else _as_int(key.stop)
    step = 1 if key.step is None else _as_int(key.step)
    return (start + size if start < 0 else start), (stop + size if stop < 0 else stop), step


def allocate(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion, address: tuple[int, int] | None = None
) -> Storage:
    """Fresh storage filled with NaN (floats) or 4 (integers and packed types)."""
    dtype = dtype_of(dtype)
    store_as = to_numpy_dtype(dtype)
    data = np.empty(math.prod(shape), store_as)
    data.fill(store_as.type(np.nan) if is_float(dtype) else UNINITIALISED_INTEGER)
    partition_bytes = math.prod(shape[1:]) * store_as.itemsize
    return Storage(data.view(np.uint8), MemoryRegion(buffer), partition_bytes, address)
