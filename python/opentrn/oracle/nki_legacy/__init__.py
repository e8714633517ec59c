"""Tensors, views and waiting instructions of NKI 0.1: slow and obvious, the reference of src/python/tile_*.cc.

Everything here has the same name and meaning in `opentrn._core.tiles`; opentrn.nki_legacy.base says which is used.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from opentrn.errors import ArgumentError, NkiValidationError
from opentrn.nki_legacy.box import Box, Range, full_box, is_full
from opentrn.nki_legacy.psum_state import OTHER, UNWRITTEN, ZERO_PENDING, elements_of
from opentrn.oracle.nki_legacy.place import at, call_at, iteration, user_site
from opentrn.oracle.nki_legacy.views import Views, _types

_thread = threading.local()
_temporary = SimpleNamespace(set_item=0, iadd=0)


def configure(**objects: Any) -> None:
    """Classes and functions of the dialect, see the call in emit.py."""
    _types.__dict__.update(objects)


class Tensor:
    """Memory with a shape. On chip: `blocks` x [`partitions`, `free`]."""

    __slots__ = ("dtype", "place", "region", "on_chip", "name", "zero_filled", "written", "spans", "parameter",
                 "shape", "blocks", "partitions", "free", "row", "_storage", "_psum_states")  # fmt: skip

    def __init__(self, shape: Sequence[int], dtype: Any, place: Any, name: str = "", storage: Any = None):
        self.place = place
        self.region = place.region
        self.on_chip = place.region.is_on_chip
        self.dtype = _types.tile_dtype(dtype, self.on_chip)
        self.name = name
        self.zero_filled = False  # created by nl.zeros or nl.full
        self.written = False
        # What was written of each block: (first row, rows, first element, last element) of every access.
        self.spans: dict[tuple[int, ...], set[tuple[int, int, int, int]]] = {}
        self.parameter = False  # an argument of the kernel
        sizes = self.shape = tuple(int(s) for s in shape)
        at = 0
        if self.on_chip:
            at = next((i for i, s in enumerate(shape) if isinstance(s, _types.par_dim)), 0)
        if any(s <= 0 for s in sizes) or (self.on_chip and (not sizes or sizes[at] > 128)):
            self.partitions = sizes[at] if sizes else 0
            _types.refuse_shape(self)
        self.blocks, self.partitions = sizes[:at], sizes[at] if sizes else 1
        self.free = sizes[at + 1 :]
        self.row = math.prod(self.free)
        self._storage: dict[tuple[int, ...], Any] = {} if storage is None else {(): storage}
        self._psum_states: dict[tuple[int, ...], PsumState] = {}

    def tile(self) -> Tile:
        """The whole tensor as a view."""
        blocks = tuple(Range(0, 1, n) for n in self.blocks)
        dims = _row_major(self.free if self.on_chip else self.shape)
        if self.on_chip:
            dims = ((self.row, self.partitions), *dims)
        return _types.tile(self, blocks, 0, dims, self.dtype)


def _row_major(shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    dims, step = [], 1
    for size in reversed(shape):
        dims.append((step, size))
        step *= size
    return tuple(reversed(dims))


class Tile(Views):
    """A view of a Tensor, or the future result of an operation (`deferred`)."""

    __slots__ = ("_tensor", "_blocks", "_offset", "_dims", "_dtype", "_indirect", "_limits", "deferred",
                 "valid", "_open", "_shape", "_raw")  # fmt: skip

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(
        self,
        tensor: Tensor | None,
        blocks: tuple[Any, ...],
        offset: int,
        dims: Sequence[tuple[int, int]],
        dtype: np.dtype,
        indirect: Any = None,
        limits: tuple[Any, ...] = (),
    ):
        self._tensor = tensor
        self._blocks = blocks  # per block dimension: an int, or the Range that remains
        self._offset = offset
        self._dims = tuple(dims)
        self._dtype = dtype
        self._indirect = indirect
        self._limits = limits
        self._open = tuple(b for b in blocks if type(b) is Range)
        self._shape: tuple[int, ...] | None = None
        self._raw: Any = None  # the machine's view, once made
        self.deferred: Any = None
        self.valid: list[Box] | None = None  # the part that a masked operation has written; None: all

    def realised(self) -> Tile:
        """self, after issuing the instruction that it waits for."""
        if self.deferred is not None:
            self.deferred.realise(self)
        return self

    @property
    def tensor(self) -> Tensor:
        return self.realised()._tensor  # type: ignore[return-value]  # realised: there is one

    def become(self, other: Tile) -> None:
        """Be the same view of the same memory as `other`, with nothing to wait for."""
        self._tensor, self._blocks, self._offset = other._tensor, other._blocks, other._offset
        self._dims, self._dtype, self._limits = other._dims, other._dtype, other._limits
        self._open, self._shape, self._raw = other._open, other._shape, other._raw
        self.deferred = None

    @property
    def block_ranges(self) -> tuple[Range, ...]:
        return self._open

    @property
    def shape(self) -> tuple[int, ...]:
        if self.deferred is not None:
            return self.deferred.shape
        if self._shape is None:
            self._shape = tuple([r.count for r in self._open] + [n for _, n in self._dims])
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self.deferred.dtype if self.deferred is not None else self._dtype

    @property
    def region(self) -> Any:
        return self.deferred.region if self.deferred is not None else self.tensor.region

    buffer = region

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_on_chip(self) -> bool:
        return self.region.is_on_chip

    def require_tile(self, what: str) -> Tile:
        """self, if its partition dimension comes first; refused otherwise."""
        if self.deferred is None and self._open:
            raise NkiValidationError(
                f"{what} needs a tile, but {self!r} still has {len(self.block_ranges)} dimensions before its "
                "partition dimension",
                label="nki.index", hint="index them",
            )
        return self

    def __getitem__(self, key: Any) -> Tile:
        return self.realised()._index_any(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        temporary = sys.getrefcount(value) <= _temporary.set_item
        _types.assign(self.realised()._index_any(key), value, temporary)

    def __iadd__(self, value: Any) -> Tile:
        temporary = sys.getrefcount(value) <= _temporary.iadd
        return _types.add_in_place(self, value, temporary)

    def _replace(self, **changes: Any) -> Tile:
        tile = self.realised()
        take = changes.pop
        changed = _types.tile(
            tile._tensor,
            tile._blocks,
            take("offset", tile._offset),
            take("dims", tile._dims),
            take("dtype", tile._dtype),
            take("indirect", tile._indirect),
            take("limits", tile._limits),
        )
        if changes:
            raise ArgumentError(f"a view cannot change {sorted(changes)}", label="nki.arguments")
        return changed

    def sub(self, box: Box) -> Tile:
        """The part of this tile in `box`."""
        return self._sub_any(box)

    def with_ones(self, shape: tuple[int, ...]) -> Tile:
        """The same view with dimensions of size one added or dropped to give `shape`."""
        tile = self.realised()
        if tile.shape == shape:
            return tile
        if tile._limits:
            tile._check_limits()
        source = iter([d for d in tile._dims if d[1] != 1])
        return tile._replace(dims=[(0, 1) if n == 1 else next(source) for n in shape], limits=())

    def raw(self) -> Any:
        """The machine's view of this tile."""
        return self._raw if self._raw is not None else self._raw_any()

    def addresses_span(self) -> tuple[Range, int, int]:
        """(rows, first, last) of the storage that this view touches: partitions, and free elements of one
        row."""
        tile, tensor = self.realised(), self.tensor
        row = max(1, tensor.row * tensor.dtype.itemsize // tile._dtype.itemsize)
        first_row, first = divmod(tile._offset, row)
        last = first + sum(s * (n - 1) for s, n in tile._dims[1:] if s > 0)
        rows = tile._dims[0][1] if tile._dims else 1
        return Range(first_row, 1, rows), first, last

    def same_place(self, other: Tile) -> bool:
        """True when both are the same view of the same memory."""
        if self.deferred is not None or other.deferred is not None:
            return False
        return (
            self._tensor is other._tensor
            and self._blocks == other._blocks
            and self._offset == other._offset
            and [d for d in self._dims if d[1] != 1] == [d for d in other._dims if d[1] != 1]
            and self._dtype == other._dtype
            and self._indirect is other._indirect
        )

    def overlaps(self, other: Tile) -> bool:
        """True when the two may share an element (conservative)."""
        if self._tensor is not other._tensor or self._blocks != other._blocks:
            return False
        if not self.is_on_chip or self._dtype.itemsize != other._dtype.itemsize:
            return True
        (rows_a, low_a, high_a), (rows_b, low_b, high_b) = self.addresses_span(), other.addresses_span()
        if rows_a.start + rows_a.count <= rows_b.start or rows_b.start + rows_b.count <= rows_a.start:
            return False
        return not (high_a < low_b or high_b < low_a)


# -- instructions that wait ----------------------------------------------------------------------------------


class Deferred:
    """An instruction that waits for its destination."""

    __slots__ = ("shape", "dtype", "issue", "boxes", "sources", "region", "targets", "in_place", "exact",
                 "accumulate", "reduce", "site", "iteration")  # fmt: skip

    # Set by defer().
    boxes: list[Box]
    sources: Sequence[Tile]
    region: Any
    targets: frozenset[Any]
    in_place: bool
    exact: bool
    accumulate: Callable[[Tile, bool], None] | None

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, issue: Callable[[Tile], None]):
        self.shape = shape
        self.dtype = dtype
        self.issue = issue
        self.reduce: Any = None  # nl.loop_reduce: (operator, operand)
        self.site = user_site()
        self.iteration = iteration()

    def realise(self, tile: Tile) -> None:
        """Issue into a fresh tensor, and make `tile` its view."""
        _types.session()
        if waiting() is tile:
            drop_waiting()
        tile.become(_types.tensor(self.shape, self.dtype, _types.place(self.region)).tile())
        if not (len(self.boxes) == 1 and is_full(self.boxes[0], self.shape)):
            tile.valid = self.boxes
        with at(self.iteration):
            call_at(self.site, self.issue, tile)


def set_session(session: Any) -> None:
    """The launch that this thread is in, or None; nothing waits."""
    _thread.session = session
    _thread.waiting = None


def session_or_none() -> Any:
    return getattr(_thread, "session", None)


def waiting() -> Tile | None:
    """The tile whose instruction waits in this thread."""
    return getattr(_thread, "waiting", None)


def drop_waiting() -> None:
    _thread.waiting = None


def flush() -> None:
    """Issue the waiting instruction, if there is one."""
    _types.session()
    if (tile := waiting()) is not None:
        tile.realised()


def defer(
    shape: Sequence[int],
    dtype: Any,
    issue: Callable[[Tile], None],
    *,
    boxes: list[Box] | None = None,
    sources: Sequence[Tile] = (),
    region: Any = None,
    targets: frozenset[Any] | None = None,
    in_place: bool = True,
    exact: bool = True,
    accumulate: Callable[[Tile, bool], None] | None = None,
) -> Tile:
    """The result of an operation, a tile of `shape` and `dtype`; emit.py explains the arguments."""
    flush()
    shape = tuple(int(s) for s in shape)
    work = Deferred(shape, _types.host_dtype(dtype), issue)
    work.boxes = [full_box(shape)] if boxes is None else boxes
    work.sources = sources
    work.region = _types.sbuf if region is None else region
    work.targets = _types.on_chip if targets is None else targets
    work.in_place, work.exact, work.accumulate = in_place, exact, accumulate
    result = _types.tile(None, (), 0, (), work.dtype)
    result.deferred = work
    _thread.waiting = result
    return result


def operand(value: Any, what: str, name: str | None = None) -> Tile:
    """`value` as an on-chip tile with its instruction issued."""
    if isinstance(value, Tile) and not value.realised()._open and value.is_on_chip:
        return value
    return _types.refuse_operand(value, what, name)


def read(tile: Tile, box: Box | None = None) -> Any:
    """The machine's view of an operand, narrowed to `box`."""
    tile = tile.realised()
    part = tile if box is None else tile.sub(box)
    part._check_limits()
    if part.region is _types.psum and psum_uniform(part) in (None, ZERO_PENDING):
        _types.settle_zeros(part)
    return part.raw()


def write(tile: Tile, box: Box | None = None, kind: int = OTHER) -> Any:
    """The machine's view of a destination, narrowed to `box`."""
    tile = tile.realised()
    part = tile if box is None else tile.sub(box)
    tensor = part.tensor
    tensor.written = True
    part._check_limits()
    if part.is_on_chip and not part._open:
        rows, low, high = part.addresses_span()
        tensor.spans.setdefault(part._blocks, set()).add((rows.start, rows.count, low, high))
        if part.region is _types.psum:
            psum_fill(part, kind)
    return part.raw()


def can_write_directly(dst: Tile, work: Deferred, temporary: bool) -> bool:
    """Whether `work` may write `dst` itself, see the head of emit.py."""
    if not temporary or dst._open or dst.region not in work.targets or dst._indirect is not None:
        return False
    same_shape = dst.shape == work.shape or (
        [n for n in dst.shape if n != 1] == [n for n in work.shape if n != 1]
        and dst.shape[0] == work.shape[0]
    )
    if not same_shape:
        return False
    if dst.dtype != work.dtype and not (work.exact and work.dtype == _types.float32):
        return False
    for source in work.sources:
        if dst.overlaps(source) and not (work.in_place and dst.same_place(source)):
            return False
    return True


class PsumState:
    """States of one block of `elements`."""

    def __init__(self, elements: int, initial: int):
        self._states: np.ndarray = np.full(elements, initial, np.uint8)

    def uniform(self, tile: Tile) -> int | None:
        """The one state of all elements of `tile`; None when they differ."""
        states = elements_of(tile, self._states)
        first = int(states.flat[0])
        return first if (states == first).all() else None

    def fill(self, tile: Tile, state: int) -> None:
        """All elements of `tile` are in `state` now."""
        elements_of(tile, self._states)[...] = state

    def elements(self) -> Any:
        """The states themselves, writable."""
        return self._states


# -- PSUM ----------------------------------------------------------------------------------------------------


def _state(tile: Tile) -> PsumState:
    tile._check_limits()
    tensor = tile.tensor
    state = tensor._psum_states.get(tile._blocks)
    if state is None:
        initial = ZERO_PENDING if tensor.zero_filled else UNWRITTEN
        state = tensor._psum_states[tile._blocks] = PsumState(tensor.partitions * tensor.row, initial)
    return state


def psum_uniform(tile: Tile) -> int | None:
    """The one state of all elements of `tile`; None when they differ."""
    tile._check_limits()
    return _state(tile).uniform(tile)


def psum_fill(tile: Tile, state: int) -> None:
    """All elements of `tile` are in `state` now."""
    tile._check_limits()
    _state(tile).fill(tile, state)


def psum_elements(tile: Tile) -> Any:
    """Writable, one byte per element of the tile's block."""
    tile._check_limits()
    return _state(tile).elements()


# -- reference counts ----------------------------------------------------------------------------------------


class Probe:
    """Remembers the reference count of a value that is assigned to it or added."""

    seen = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        Probe.seen = sys.getrefcount(value)

    def __iadd__(self, value: Any) -> Probe:
        Probe.seen = sys.getrefcount(value)
        return self


def probed() -> int:
    return Probe.seen


def set_temporary(set_item: int, iadd: int) -> None:
    """Reference counts of a value that only its statement holds, in `t[k] = f()` and `t += f()`."""
    _temporary.set_item, _temporary.iadd = set_item, iadd
