"""The structure of an index expression: everything but its constant.

A loop indexes a tensor thousands of times with expressions that differ in a constant only, as
`i * 128 + nl.arange(128)[:, None]`. So an expression is a Form and a constant. Affine forms are interned: one
object per structure, which remembers what sums, multiples and views of it are, and which an access pattern
can be looked up by (tile.py). What is not affine along an axis (`i // 4`) or mixes axes (`i * j`) keeps its
values as arrays and is not shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Lines = dict[int, np.ndarray]  # axis (negative) -> int64 [size of the axis], first value 0


class Form:
    """Sum over axes of one line each; the first value is 0. Made by `form_of`; immutable."""

    __slots__ = ("shape", "steps", "dense", "derived", "_lines", "_range")

    def __init__(
        self,
        shape: tuple[int, ...],
        steps: tuple[tuple[int, int], ...] | None,
        lines: Lines | None = None,
        dense: np.ndarray | None = None,
    ):
        self.shape = shape
        self.steps = steps  # (axis, step) where not 0, by axis; None: not affine
        self.dense = dense  # int64, broadcastable to shape, added to the rest
        self.derived: dict[Any, Form] = {}  # results of operations on this form
        self._lines = lines
        self._range: tuple[int, int] | None = None

    @property
    def lines(self) -> Lines:
        """Values along each axis that matters."""
        if self._lines is None:
            self._lines = {a: np.arange(self.shape[a], dtype=np.int64) * s for a, s in self.steps or ()}
        return self._lines

    def range(self) -> tuple[int, int]:
        """Smallest and largest value."""
        if self._range is None:
            self._range = self._extremes()
        return self._range

    def _extremes(self) -> tuple[int, int]:
        if self.dense is not None:
            values = self.values()
            return int(values.min()), int(values.max())
        if self.steps is not None:
            ends = [step * (self.shape[axis] - 1) for axis, step in self.steps]
            return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)
        low = sum(int(v.min()) for v in self.lines.values())
        return low, sum(int(v.max()) for v in self.lines.values())

    def values(self) -> np.ndarray:
        """Every value, int64, of `shape` (read-only where broadcast)."""
        total: Any = np.int64(0)
        for axis, line in self.lines.items():
            total = total + line.reshape((-1,) + (1,) * (-axis - 1))
        if self.dense is not None:
            total = total + self.dense
        return np.broadcast_to(total, self.shape)

    def view(self, added: tuple[bool, ...]) -> Form:
        """With an axis of size one wherever `added` is true."""
        found = self.derived.get(added)
        if found is None:
            found = self.derived[added] = self._view(added)
        return found

    def _view(self, added: tuple[bool, ...]) -> Form:
        sources = iter(range(-len(self.shape), 0))
        where = {next(sources): place - len(added) for place, new in enumerate(added) if not new}
        sizes = iter(self.shape)
        shape = tuple(1 if new else next(sizes) for new in added)
        if self.steps is not None:
            return affine_form(shape, {where[a]: s for a, s in self.steps})
        dense = None
        if self.dense is not None:
            key = tuple(None if new else slice(None) for new in added)
            dense = np.broadcast_to(self.dense, self.shape)[key]
        return Form(shape, None, {where[a]: v for a, v in self.lines.items()}, dense)

    def times(self, factor: int) -> Form:
        """Every value multiplied."""
        found = self.derived.get(factor)
        if found is None:
            found = self.derived[factor] = self._times(factor)
        return found

    def _times(self, factor: int) -> Form:
        if self.steps is not None:
            return affine_form(self.shape, {a: s * factor for a, s in self.steps})
        dense: np.ndarray | None = None if self.dense is None else self.dense * factor
        return Form(self.shape, None, {a: v * factor for a, v in self.lines.items()}, dense)

    def plus(self, other: Form, shape: tuple[int, ...], sign: int) -> Form:
        """self + sign * other, broadcast to `shape`."""
        key = (other, sign)
        found = self.derived.get(key)
        if found is None:
            found = self.derived[key] = self._plus(other, shape, sign)
        return found

    def _plus(self, other: Form, shape: tuple[int, ...], sign: int) -> Form:
        if self.steps is not None and other.steps is not None:
            steps = dict(self.steps)
            for axis, step in other.steps:
                steps[axis] = steps.get(axis, 0) + sign * step
            return affine_form(shape, steps)
        lines = dict(self.lines)
        for axis, line in other.lines.items():
            lines[axis] = lines[axis] + sign * line if axis in lines else sign * line
        dense = self.dense
        if other.dense is not None:
            dense = sign * other.dense if dense is None else dense + sign * other.dense
        return form_of(shape, lines, dense)[0]


_affine: dict[tuple[tuple[int, ...], tuple[tuple[int, int], ...]], Form] = {}


def affine_form(shape: tuple[int, ...], steps: Mapping[int, int]) -> Form:
    """The one Form with these steps (axis -> step)."""
    key = (shape, tuple(sorted((a, s) for a, s in steps.items() if s != 0 and shape[a] != 1)))
    found = _affine.get(key)
    if found is None:
        found = _affine[key] = Form(*key)
    return found


def form_of(
    shape: tuple[int, ...], vectors: Mapping[int, np.ndarray], dense: np.ndarray | None = None
) -> tuple[Form, int]:
    """(form, constant) of a sum of one vector per axis, of any values, and a dense array."""
    constant = 0
    lines: Lines = {}
    for axis, vector in vectors.items():
        constant += int(vector[0])
        if vector.size > 1:
            lines[axis] = vector - vector[0]
    if dense is None and all((v == np.arange(v.size) * v[1]).all() for v in lines.values()):
        return affine_form(shape, {a: int(v[1]) for a, v in lines.items()}), constant
    return Form(shape, None, lines, dense), constant


SCALAR = affine_form((), {})
