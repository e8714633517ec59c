"""Tensors of NKI 0.1 and views of them.

A `Tensor` is memory: an HBM array, or on chip a grid of blocks (the dimensions before `par_dim`), each of
which is one machine tensor of [partitions, free elements], placed when it is first touched. A `Tile` is a
view of one: for every remaining dimension a stride and a count over the block's flat memory, where one
partition is `free elements` long, which is exactly what `NkiTensor.ap(pattern, offset)` of the machine takes.
Every index a kernel can write (ints, slices, `nl.ds`, index expressions, index tiles) ends in that form or is
refused (src/nki/tile_view.h).

An operation returns a Tile whose instruction has not been issued yet (`deferred`): assigning it to part of
another tensor lets the instruction write there directly, as the 0.1 compiler does. See emit.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.nki import _machine
from opentrn.nki_legacy import base
from opentrn.nki_legacy.dtypes import device_dtype
from opentrn.types.isa_enums import MemoryRegion

PARTITIONS = 128


class ParDim(int):
    """`nl.par_dim(n)`: the size of the partition dimension."""


class Place(NamedTuple):
    """Where a tensor lives: its memory, and for explicit allocation the placement of each block."""

    region: MemoryRegion
    # (block index, partitions, bytes per partition) -> (partition, byte offset in the region)
    address: Callable[[tuple[int, ...], int, int], tuple[int, int]] | None = None


class Tensor(base.Tensor):
    """Memory with a shape. On chip: `blocks` x [`partitions`, `free`].

    zero_filled: created by nl.zeros or nl.full. written: by some instruction. parameter: an argument of the
    kernel. spans: per block, (first row, rows, first element, last element) of every access that wrote it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"<{self.region.value} tensor{name}: {self.dtype.name}{list(self.shape)}>"

    def machine(self, block: tuple[int, ...]) -> Any:
        """The machine's tensor of one block."""
        found = self._storage.get(block)
        return self._make_machine(block) if found is None else found

    def _make_machine(self, block: tuple[int, ...]) -> Any:
        if self.region.is_on_chip:
            shape: tuple[int, ...] = (self.partitions, self.row)
            address = None
            if self.place.address is not None and not base.session_or_none().places_all:
                width = self.row * self.dtype.itemsize
                address = self.place.address(block, self.partitions, width)
        else:
            shape, address = self.shape or (1,), None
        made = _machine.ndarray(shape, device_dtype(self.dtype), self.region, self.name, address)
        self._storage[block] = made
        return made

    def block_indices(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(n) for n in self.blocks)))


def refuse_shape(tensor: Tensor) -> None:
    """Why no tensor has the shape of `tensor`."""
    if not tensor.shape or any(s <= 0 for s in tensor.shape):
        raise NkiValidationError(
            f"tensor {tensor.name!r}: shape {tensor.shape} must be positive", label="nki.shape"
        )
    raise NkiValidationError(
        f"err_num_partition_exceed_arch_limit: tensor {tensor.name!r} has {tensor.partitions} partitions, at "
        f"most {PARTITIONS} exist",
        label="nki.partitions", hint="nl.par_dim for another partition dimension",
    )


class Indirect(NamedTuple):
    """A dynamic index: `tile` holds the indices, `stride` is the step of the indexed dimension."""

    tile: Tile
    stride: int
    vector: bool  # one index per row of axis 0; else one for all
    size: int  # elements of the indexed dimension, for messages


class Tile(base.Tile):
    """A view of a Tensor, or the future result of an operation (`deferred`).

    Its blocks (per block dimension an int, or the Range that remains), offset, dimensions and dtype; what
    indexes it at run time (`_indirect`); where it may leave its tensor (`_limits`); `valid`, the boxes that a
    masked operation has written, or None for all.
    """

    __slots__ = ()
    __array_priority__ = 2000
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        return self.tensor.name

    def __repr__(self) -> str:
        return f"<{self.region.value} tile {self.dtype.name}{list(self.shape)}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.region.is_on_chip:
            raise NkiValidationError(
                "err_ambiguous_tensor_truth_value: a tile has no truth value when the kernel is built",
                label="nki.truth", hint="compare with `is None`, or select by data with nl.where",
            )
        return True

    def assert_shape(self, shape: Sequence[int]) -> Tile:
        """self, if it has `shape`."""
        if self.shape != tuple(shape):
            raise NkiValidationError(f"{self!r} was asserted to have shape {tuple(shape)}", label="nki.shape")
        return self

    def as_tile(self) -> Tile:
        """This tile: public kernels call it on views, though NKI 0.1 documents no such method."""
        return self

    def broadcast_to(self, shape: Sequence[int]) -> Tile:
        """This tile broadcast to `shape`; spreading one partition to many takes instructions."""
        emit.flush()
        return emit.broadcast(self, tuple(int(s) for s in shape))

    def astype(self, dtype: Any) -> Tile:
        """A copy with another dtype."""
        from opentrn.nki_legacy import isa

        return isa.tensor_copy(self, dtype=dtype)

    def to_numpy(self) -> np.ndarray:
        """A copy of the values as a numpy array: for results and printing, never for computing."""
        tile = self.realised()
        if tile.block_ranges:
            parts = [tile[i].to_numpy() for i in range(tile.shape[0])]
            return np.stack(parts)
        values = tile.raw().to_numpy()
        values = values.reshape(tile.shape)
        return values.view(np.bool_) if tile._dtype == np.bool_ else values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise NkiValidationError(
            f"{self!r} was used where numpy wants an array",
            label="nki.numpy", hint="inside a kernel use nl functions, e.g. nl.exp",
        )


from opentrn.nki_legacy import emit  # noqa: E402 -- it imports this module; both need each other when called
