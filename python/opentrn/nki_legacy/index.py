"""Index expressions and predicates of NKI 0.1: `nl.arange`, `nl.mgrid`, and comparisons of them.

Loops run eagerly here, so every expression has concrete values. It is kept as a sum of one vector per
axis and a constant,

    value[i0, i1, ...] = constant + v0[i0] + v1[i1] + ...

which stays small for the usual affine expressions, gives the stride along each axis directly, and still
holds anything that is not affine in one axis (`i // 4`, `i % 3`). Only what mixes axes in another way becomes
a dense array. Axes are numbered from the last one (-1) so that broadcasting needs no bookkeeping. The vectors
are kept apart from the constant, as a Form (index_form.py).

A comparison gives a `Predicate`, a conjunction of comparisons, which a `mask=` narrows an access pattern with
(see regions.py) and `nisa.affine_select` takes as such.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy import base
from opentrn.nki_legacy.box import whole
from opentrn.nki_legacy.index_form import Form, affine_form, form_of

_ALL = slice(None)
_COMPARE: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}

_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
}

_AND_HINT = "use & | ~ on predicates (`and`, `or`, `not` work only in functions decorated with nki.jit)"


@functools.lru_cache(maxsize=4096)
def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """numpy's broadcasting of shapes. Raises NkiValidationError when they do not fit."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise NkiValidationError(
            f"index shapes {', '.join(map(str, shapes))} do not broadcast", label="nki.shape"
        ) from None


def _is_int(value: Any) -> bool:
    if type(value) is int:
        return True
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


class IndexExpr(base.IndexExpr):
    """An integer array over index axes; immutable."""

    __slots__ = ()
    __array_priority__ = 1000  # numpy scalars leave the operation to us
    __hash__ = None  # type: ignore[assignment]  # not hashable: == is element by element

    def __init__(
        self,
        shape: tuple[int, ...],
        constant: int = 0,
        axes: dict[int, np.ndarray] | None = None,
        dense: np.ndarray | None = None,
    ):
        """constant + the vectors of `axes` (axis, negative -> int64 [its size]) + `dense`."""
        form, first = form_of(tuple(int(s) for s in shape), axes or {}, dense)
        self.form = form
        self.constant = int(constant) + first

    @property
    def shape(self) -> tuple[int, ...]:
        return self.form.shape

    @property
    def ndim(self) -> int:
        return len(self.form.shape)

    @property
    def axes(self) -> dict[int, np.ndarray]:
        """Values along each axis that matters (negative), beginning with 0."""
        return self.form.lines

    @property
    def dense(self) -> np.ndarray | None:
        """What mixes axes, broadcastable to shape; None where nothing does."""
        return self.form.dense

    def __repr__(self) -> str:
        return f"<index expression of shape {self.shape}>"

    def __bool__(self) -> bool:
        raise NkiValidationError(
            "err_control_flow_condition_depending_on_arange: an index expression has no truth value",
            label="nki.truth", hint="select elements with mask=",
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NkiValidationError(
            "err_cannot_assign_to_index: an index expression cannot be assigned to",
            label="nki.index", hint="nisa.iota, which makes a tile",
        )

    def _item_any(self, key: Any) -> IndexExpr:
        """`i[:, None]`: insert axes of size one. Elements cannot be selected."""
        keys = key if isinstance(key, tuple) else (key,)
        if keys.count(Ellipsis) == 1:
            at = keys.index(Ellipsis)
            missing = self.ndim - sum(k is not None for k in keys if k is not Ellipsis)
            keys = keys[:at] + (_ALL,) * missing + keys[at + 1 :]
        added = tuple([k is None for k in keys])
        if len(keys) - added.count(True) != self.ndim or [k for k in keys if k is not None and k != _ALL]:
            raise NkiValidationError(
                f"{self!r} takes only `:` and None as an index, to add axes; got {key!r}", label="nki.index"
            )
        return _expr(self.form.view(added), self.constant)

    def values(self) -> np.ndarray:
        """Every value, int64, of `shape` (read-only where broadcast)."""
        return np.broadcast_to(self.form.values() + self.constant, self.shape)

    def single_axis(self) -> tuple[int, np.ndarray] | None:
        """(axis, values along it) when at most one axis matters; axis -1 for a constant. None otherwise."""
        lines = self.form.lines
        if self.form.dense is not None or len(lines) > 1:
            return None
        if not lines:
            return -1, np.full(self.shape[-1] if self.shape else 1, self.constant, np.int64)
        ((axis, vector),) = lines.items()
        return axis, vector + self.constant

    def range(self) -> tuple[int, int]:
        """Smallest and largest value."""
        low, high = self.form.range()
        return low + self.constant, high + self.constant

    # -- arithmetic ------------------------------------------------------------------------------------------

    def _add_any(self, other: Any, sign: int) -> IndexExpr:
        """self + sign * other."""
        if _is_int(other):
            return _expr(self.form, self.constant + sign * int(other))
        if not isinstance(other, IndexExpr):
            return NotImplemented
        shape = broadcast_shapes(self.form.shape, other.form.shape)
        return _expr(self.form.plus(other.form, shape, sign), self.constant + sign * other.constant)

    def _subtracted_from(self, other: Any) -> IndexExpr:
        return (self * -1)._add_any(other, 1)

    def _multiply_any(self, other: Any) -> IndexExpr:
        if _is_int(other):
            factor = int(other)
            return _expr(self.form.times(factor), self.constant * factor)
        return self._elementwise(other, operator.mul)

    def __neg__(self) -> IndexExpr:
        return self * -1

    def __floordiv__(self, other: Any) -> IndexExpr:
        return self._elementwise(other, operator.floordiv)

    def __mod__(self, other: Any) -> IndexExpr:
        return self._elementwise(other, operator.mod)

    def _elementwise(self, other: Any, function: Callable[[Any, Any], np.ndarray]) -> IndexExpr:
        """An operation that is not a sum: exact per axis where one axis is involved, dense otherwise."""
        if _is_int(other):
            other = IndexExpr((), int(other))
        if not isinstance(other, IndexExpr):
            return NotImplemented
        shape = broadcast_shapes(self.shape, other.shape)
        mine, theirs = self.axes, other.axes
        used = set(mine) | set(theirs)
        if self.dense is None and other.dense is None and len(used) <= 1:
            left: Any = self.constant + sum(mine.values())
            right: Any = other.constant + sum(theirs.values())
            result = function(left, right)
            if not used:
                return IndexExpr(shape, int(result))
            return IndexExpr(shape, 0, {used.pop(): np.asarray(result, np.int64)})
        return IndexExpr(shape, 0, None, function(self.values(), other.values()))

    # -- comparison ------------------------------------------------------------------------------------------

    def _compare(self, other: Any, name: str) -> Predicate:
        if not (_is_int(other) or isinstance(other, (IndexExpr, float))):
            return NotImplemented
        if isinstance(other, float):
            if other != int(other):
                raise NkiValidationError(
                    f"index expressions compare with integers, not {other!r}", label="nki.index"
                )
            other = int(other)
        return Predicate([Comparison(self - other, name)])

    def __lt__(self, other: Any) -> Predicate:
        return self._compare(other, "less")

    def __le__(self, other: Any) -> Predicate:
        return self._compare(other, "less_equal")

    def __gt__(self, other: Any) -> Predicate:
        return self._compare(other, "greater")

    def __ge__(self, other: Any) -> Predicate:
        return self._compare(other, "greater_equal")

    def __eq__(self, other: Any) -> Predicate:  # type: ignore[override]  # element by element
        return self._compare(other, "equal")

    def __ne__(self, other: Any) -> Predicate:  # type: ignore[override]  # element by element
        return self._compare(other, "not_equal")


def _expr(form: Form, constant: int) -> IndexExpr:
    made = IndexExpr.__new__(IndexExpr)
    made.form = form
    made.constant = constant
    return made


def signed_progression(values: np.ndarray) -> tuple[int, int] | None:
    """(first, step) of values with a constant step, of any sign."""
    if values.size == 1:
        return int(values[0]), 0
    step = int(values[1] - values[0])
    if (np.diff(values) != step).any():
        return None
    return int(values[0]), step


class Comparison:
    """`expr <op> 0`."""

    __slots__ = ("expr", "op")

    def __init__(self, expr: IndexExpr, op: str):
        self.expr = expr
        self.op = op

    @property
    def shape(self) -> tuple[int, ...]:
        return self.expr.shape

    def values(self) -> np.ndarray:
        return _COMPARE[self.op](self.expr.values(), 0)

    def interval(self) -> tuple[int, int, int] | None:
        """(axis, first, end): where the comparison holds along the one axis that it is affine in; over the
        last axis, all or nothing, for a constant. None when that is no interval."""
        form, constant = self.expr.form, self.expr.constant
        if form.steps is None or len(form.steps) > 1 or self.op == "not_equal":
            return None
        if not form.steps:
            return -1, 0, (form.shape[-1] if form.shape else 1) if _COMPARE[self.op](constant, 0) else 0
        ((axis, step),) = form.steps
        first, end = _solution(self.op, constant, step)
        size = form.shape[axis]
        return axis, 0 if first is None else max(0, first), size if end is None else min(size, end)

    def along_axis(self) -> tuple[int, np.ndarray] | None:
        """(axis, truth along it) when at most one axis matters."""
        single = self.expr.single_axis()
        return None if single is None else (single[0], _COMPARE[self.op](single[1], 0))


def _solution(op: str, constant: int, step: int) -> tuple[int | None, int | None]:
    """(first, end) of the integers i with `constant + step * i <op> 0`, for a step other than 0; None where
    there is no bound."""
    if step < 0:
        return _solution(_MIRRORED[op], -constant, -step)
    below = -(constant // step)  # the first i with a value of 0 or more
    above = -constant // step + 1  # the first i with a value above 0
    if op == "equal":
        return below, above
    return {
        "less": (None, below),
        "less_equal": (None, above),
        "greater": (above, None),
        "greater_equal": (below, None),
    }[op]


class DenseTruth:
    """Truth values that no single comparison gives (`|`, `~`)."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def values(self) -> np.ndarray:
        return self.array

    def along_axis(self) -> tuple[int, np.ndarray] | None:
        return (-1, self.array.reshape(-1)) if self.array.ndim <= 1 else None


class Predicate:
    """A conjunction of comparisons of index expressions: what `mask=` and `pred=` take."""

    __slots__ = ("terms",)
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]  # not hashable: == is element by element

    def __init__(self, terms: list[Comparison | DenseTruth]):
        self.terms = terms

    @property
    def shape(self) -> tuple[int, ...]:
        return broadcast_shapes(*(term.shape for term in self.terms))

    def values(self) -> np.ndarray:
        """Truth values, bool, of `shape`."""
        total: np.ndarray = np.ones(self.shape, np.bool_)
        for term in self.terms:
            total &= term.values()
        return total

    def __repr__(self) -> str:
        return f"<predicate of shape {self.shape}, {len(self.terms)} terms>"

    def __bool__(self) -> bool:
        raise NkiValidationError(
            "err_ambiguous_tensor_truth_value: a predicate over indices has no single truth value",
            label="nki.truth",
            hint=_AND_HINT,
        )

    def __and__(self, other: Any) -> Predicate:
        if isinstance(other, Predicate):
            return Predicate(self.terms + other.terms)
        if isinstance(other, (bool, np.bool_)):
            return self if other else Predicate([DenseTruth(np.zeros((1,), np.bool_))])
        return NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> Predicate:
        if isinstance(other, Predicate):
            return Predicate([DenseTruth(self.values() | other.values())])
        if isinstance(other, (bool, np.bool_)):
            return Predicate([DenseTruth(np.ones((1,), np.bool_))]) if other else self
        return NotImplemented

    __ror__ = __or__

    def __invert__(self) -> Predicate:
        return Predicate([DenseTruth(~self.values())])


@functools.lru_cache(maxsize=4096)
def arange(*args: int) -> IndexExpr:
    """Indices as `numpy.arange`, of shape [n]; add axes with `[:, None]`."""
    values = range(*(whole(a, "nl.arange") for a in args))
    if not values:
        raise NkiValidationError(f"nl.arange{args} is empty", label="nki.index")
    return _expr(affine_form((len(values),), {-1: values.step}), values.start)


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
        slices = key if isinstance(key, tuple) else (key,)
        vectors: list[np.ndarray] = []
        for axis in slices:
            if not isinstance(axis, slice) or axis.stop is None:
                raise NkiValidationError(f"nl.mgrid takes slices with an end, got {axis!r}", label="nki.index")
            first, end, step = (
                whole(default if v is None else v, "nl.mgrid")
                for v, default in ((axis.start, 0), (axis.stop, 0), (axis.step, 1))
            )
            vectors.append(np.arange(first, end, step, dtype=np.int64))
            if vectors[-1].size == 0:
                raise NkiValidationError(f"nl.mgrid: {axis!r} is empty", label="nki.index")
        shape = tuple(v.size for v in vectors)
        return IndexGrid(IndexExpr(shape, 0, {axis - len(shape): v}) for axis, v in enumerate(vectors))


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
