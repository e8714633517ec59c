"""What a `mask=` leaves of an instruction: boxes of its index space.

A mask is a predicate over the axes of the tile that an instruction works on. Where it is a product of one
range per axis, which is the usual case, the instruction runs once on narrowed access patterns; otherwise the
index space is split into boxes, largest first along axis 0 (rows that allow the same columns go together),
and the instruction runs once per box.
"""

from __future__ import annotations

from itertools import starmap
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki_legacy.box import Box, Range, full_box
from opentrn.nki_legacy.index import Comparison, Predicate

BOXES_MAX = 4096  # a mask that needs more instructions than this is surely a mistake


def _ranges(boxes: list[tuple[tuple[int, int, int], ...]]) -> list[Box]:
    """Boxes of C++ as the dialect has them."""
    return [tuple(starmap(Range, box)) for box in boxes]


def split(truth: np.ndarray) -> list[Box]:
    """Boxes that cover exactly the true values of a dense array."""
    return _ranges(_core.boxes_of(np.ascontiguousarray(truth)))


def regions(mask: Any, shape: tuple[int, ...], what: str) -> list[Box]:
    """The boxes of an index space of `shape` where `mask` holds: one full box for None or True, none for
    False.

    Raises NkiValidationError when the mask is no predicate or does not fit the shape.
    """
    if mask is None or (isinstance(mask, (bool, np.bool_)) and mask):
        return [full_box(shape)]
    if isinstance(mask, (bool, np.bool_)) or (isinstance(mask, int) and mask in (0, 1)):
        return [full_box(shape)] if mask else []
    if not isinstance(mask, Predicate):
        raise NkiValidationError(
            f"{what}: mask must be a comparison of index expressions or a bool, got {type(mask).__name__}",
            label="nki.mask", hint="select by data with nl.where",
        )
    simple = _intervals(mask, shape, what)
    return _any_regions(mask, shape, what) if simple is None else simple


def _intervals(mask: Predicate, shape: tuple[int, ...], what: str) -> list[Box] | None:
    """The box of a mask whose terms are an interval of one axis each; None for other masks."""
    rank = len(shape)
    first, end = [0] * rank, list(shape)
    for term in mask.terms:
        interval = term.interval() if isinstance(term, Comparison) else None
        if interval is None:
            return None
        _check_shape(term.shape, shape, what)
        axis, low, high = interval
        if axis < -rank or (term.shape and term.shape[axis] == 1 and high > low):
            continue  # holds for all that there is
        first[axis], end[axis] = max(first[axis], low), min(end[axis], high)
    if any(a >= b for a, b in zip(first, end)):
        return []
    return [tuple(Range(a, 1, b - a) for a, b in zip(first, end))]


def _any_regions(mask: Predicate, shape: tuple[int, ...], what: str) -> list[Box]:
    """The boxes of any predicate, from its truth values."""
    per_axis: list[np.ndarray] = [np.ones(size, np.bool_) for size in shape]
    dense = None
    for term in mask.terms:
        _check_shape(term.shape, shape, what)
        single = term.along_axis()
        if single is not None:
            axis, truth = single
            if truth.size == 1:
                if not truth[0]:
                    return []
                continue
            per_axis[axis] &= truth
        else:
            values = np.broadcast_to(term.values(), shape)
            dense = values if dense is None else dense & values
    if dense is None:
        return _ranges(_core.boxes_of_axes(per_axis))
    outer: np.ndarray = np.ones(shape, np.bool_)
    for axis, truth in enumerate(per_axis):
        outer &= truth.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    boxes = split(dense & outer)
    if len(boxes) > BOXES_MAX:
        raise NotModelled(
            f"{what}: the mask splits into {len(boxes)} instructions, at most {BOXES_MAX}", label="nki.mask"
        )
    return boxes


def _check_shape(mask_shape: tuple[int, ...], shape: tuple[int, ...], what: str) -> None:
    aligned = mask_shape[-len(shape) :] if len(mask_shape) > len(shape) else mask_shape
    extra = mask_shape[: len(mask_shape) - len(aligned)]
    if any(n != 1 for n in extra) or any(m not in (1, n) for m, n in zip(aligned[::-1], shape[::-1])):
        raise NkiValidationError(
            f"{what}: a mask of shape {mask_shape} does not fit a tile of shape {shape}", label="nki.shape"
        )
