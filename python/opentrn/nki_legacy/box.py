"""Boxes: parts of the index space of a tile, one range per axis."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from opentrn.errors import NkiValidationError


class Range(NamedTuple):
    """Indices start, start + step, ... (count of them) of one axis."""

    start: int
    step: int
    count: int  # type: ignore[assignment]  # hides tuple.count(), which nothing calls


Box = tuple[Range, ...]


def whole(value: Any, what: str) -> int:
    """A count or an index as an int. A fraction is not cut: 200 rows by 128 are not one tile but two."""
    if isinstance(value, float) and not value.is_integer():
        raise NkiValidationError(
            f"{what} takes whole numbers, got {value!r}", label="nki.operand", hint="//, or math.ceil(a / b)"
        )
    return int(value)


@functools.lru_cache(maxsize=4096)
def full_box(shape: tuple[int, ...]) -> Box:
    """The whole index space of `shape`."""
    return tuple(Range(0, 1, size) for size in shape)


def is_full(box: Box, shape: tuple[int, ...]) -> bool:
    """True when `box` covers `shape` in order."""
    if box is full_box(shape):
        return True
    return all(r.start == 0 and r.count == n and (r.step == 1 or n == 1) for r, n in zip(box, shape))
