"""What the elements of a PSUM block hold, so that the first matmul of a group overwrites and later ones add.

src/python/psum_state.cc keeps the states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

UNWRITTEN, ZERO_PENDING, MATMUL, OTHER = range(4)


def elements_of(tile: Any, states: Any) -> np.ndarray:
    """Those of a block's `states` that belong to `tile`, writable. A view of another dtype has them all."""
    states = np.frombuffer(states, np.uint8)
    if tile._dtype.itemsize != tile.tensor.dtype.itemsize:
        return states
    counts = [n for _, n in tile._dims]
    return np.lib.stride_tricks.as_strided(states[tile._offset :], counts, [s for s, _ in tile._dims])
