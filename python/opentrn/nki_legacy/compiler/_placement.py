"""Modulo allocation, as nki.compiler documents it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opentrn.errors import NkiValidationError


def modulo(base: int, tiles: Sequence[int], size: int, block: tuple[int, ...]) -> int:
    """base + size * (position of `block` in a grid of `tiles` physical tiles, wrapped along each axis).

    The text asks for as many counts as block dimensions; the published function, and kernels, also take more.
    """
    counts = tuple(tiles) or (1,) * len(block)
    position = sum((i % n) * math.prod(counts[axis + 1 :]) for axis, (i, n) in enumerate(zip(block, counts)))
    return int(base) + position * size


def pair(place: Any, what: str) -> tuple[int, int]:
    """A (partition, byte offset) returned by a placement function."""
    if len(place) != 2:
        raise NkiValidationError(
            f"{what} allocation: expected (partition, byte offset), got {place!r}", label="nki.allocation"
        )
    return int(place[0]), int(place[1])
