"""Boxes: parts of the index space of a tile, one range per axis."""

from __future__ import annotations

from typing import NamedTuple

from opentrn._core import tiles


class Range(NamedTuple):
    """Indices start, start + step, ... (count of them) of one axis."""

    start: int
    step: int
    count: int  # type: ignore[assignment]  # hides tuple.count(), which nothing calls


Box = tuple[Range, ...]
full_box = tiles.full_box
is_full = tiles.is_full
whole = tiles.whole

__all__ = ["Box", "Range", "full_box", "is_full", "whole"]
