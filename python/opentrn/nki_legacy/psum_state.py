"""What the elements of a PSUM block hold, so that the first matmul of a group overwrites and later ones add.

One state per element: slow and obvious, the reference of src/python/psum_state.cc, which keeps one per view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opentrn.nki_legacy.plain import Tile

UNWRITTEN, ZERO_PENDING, MATMUL, OTHER = range(4)


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


def elements_of(tile: Tile, states: Any) -> np.ndarray:
    """Those of a block's `states` that belong to `tile`, writable. A view of another dtype has them all."""
    states = np.frombuffer(states, np.uint8)
    if tile._dtype.itemsize != tile.tensor.dtype.itemsize:
        return states
    counts = [n for _, n in tile._dims]
    return np.lib.stride_tricks.as_strided(states[tile._offset :], counts, [s for s, _ in tile._dims])
