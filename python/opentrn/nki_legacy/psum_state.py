"""What the elements of a PSUM block hold, so that the first matmul of a group overwrites and later ones add.

Almost every block is written and read through one view, or through views that share no element. Then one
state per view is kept; a view that meets another one in part turns the block into one state per element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opentrn.nki_legacy.tile import Tile

UNWRITTEN, ZERO_PENDING, MATMUL, OTHER = range(4)
_VIEWS_MAX = 32  # beyond this, comparing views costs more than counting elements


class PsumState:
    """States of one block of `elements`."""

    __slots__ = ("_elements", "_initial", "_views", "_dense")

    def __init__(self, elements: int, initial: int):
        self._elements = elements
        self._initial = initial
        self._views: dict[Any, list[Any]] = {}  # (offset, dims) -> [state, extent, tile]
        self._dense: np.ndarray | None = None

    def uniform(self, tile: Tile) -> int | None:
        """The one state of all elements of `tile`; None when they differ."""
        entry = self._entry(tile)
        if entry is not None:
            return entry[0]
        states = self.dense(tile)
        first = int(states.flat[0])
        return first if (states == first).all() else None

    def fill(self, tile: Tile, state: int) -> None:
        """All elements of `tile` are in `state` now."""
        entry = self._entry(tile)
        if entry is not None:
            entry[0] = state
        else:
            self.dense(tile)[...] = state

    def dense(self, tile: Tile) -> np.ndarray:
        """The state of every element of `tile`, writable. A view of another dtype counts for its block."""
        if self._dense is None:
            dense = np.full(self._elements, self._initial, np.uint8)
            for state, _, known in self._views.values():
                _elements(dense, known)[...] = state
            self._dense, self._views = dense, {}
        return _elements(self._dense, tile)

    def _entry(self, tile: Tile) -> list[Any] | None:
        if self._dense is not None:
            return None
        key = (tile._offset, tile._dims)
        entry = self._views.get(key)
        if entry is None:
            extent = _extent(tile)
            if extent is None or len(self._views) >= _VIEWS_MAX:
                return None
            if any(_meet(extent, other) for _, other, _ in self._views.values()):
                return None
            entry = self._views[key] = [self._initial, extent, tile]
        return entry


def _elements(states: np.ndarray, tile: Tile) -> np.ndarray:
    if tile._dtype.itemsize != tile._tensor.dtype.itemsize:
        return states
    counts = [n for _, n in tile._dims]
    return np.lib.stride_tricks.as_strided(states[tile._offset :], counts, [s for s, _ in tile._dims])


def _extent(tile: Tile) -> tuple[int, int, int, int] | None:
    """First and last row, first and last element of a row; None for views that those do not bound."""
    if tile._dtype.itemsize != tile._tensor.dtype.itemsize or any(s < 0 for s, _ in tile._dims):
        return None
    rows, low, high = tile.addresses_span()
    return rows.start, rows.start + rows.count - 1, low, high


def _meet(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1] and a[2] <= b[3] and b[2] <= a[3]
