"""Index expressions and predicates of NKI 0.1: `nl.arange`, `nl.mgrid`, and comparisons of them.

src/nki/index_expression.h computes with them. A comparison gives a `Predicate`, which a `mask=` narrows an access
pattern with (`regions`) and `nisa.affine_select` takes as such.
"""

from __future__ import annotations

import functools
from typing import Any

from opentrn._core import tiles

IndexExpr = tiles.IndexExpr
Predicate = tiles.Predicate
arange = functools.lru_cache(maxsize=4096)(tiles.arange)  # of a loop, always the same
broadcast_shapes = tiles.broadcast_shapes
regions = tiles.regions  # the boxes of an index space that a mask leaves
split = tiles.boxes_of


class IndexGrid(tuple):
    """What `nl.mgrid[...]` returns: one expression per axis, also as .p, .x, .y, .z, .w (in axis order)."""

    def _axis(self, number: int, name: str) -> IndexExpr:
        if number >= len(self):
            raise AttributeError(f"this mgrid has {len(self)} axes, .{name} is axis {number}")
        return self[number]

    p = property(lambda self: self._axis(0, "p"))
    x = property(lambda self: self._axis(1, "x"))
    y = property(lambda self: self._axis(2, "y"))
    z = property(lambda self: self._axis(3, "z"))
    w = property(lambda self: self._axis(4, "w"))


class _MGrid:
    """`nl.mgrid[0:128, 0:512]`: dense index grids, all of one shape."""

    def __getitem__(self, key: Any) -> IndexGrid:
        return IndexGrid(tiles.grid_of(key))


mgrid = _MGrid()


class DynamicSlice:
    """`nl.ds(start, size)`."""

    __slots__ = ("start", "size")

    def __init__(self, start: int, size: int):
        self.start = start
        self.size = size

    def __repr__(self) -> str:
        return f"ds({self.start}, {self.size})"


def ds(start: int, size: int) -> DynamicSlice:
    """Elements start .. start+size-1 of one dimension."""
    return DynamicSlice(start, size)
