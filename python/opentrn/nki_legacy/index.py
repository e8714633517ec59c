"""Index expressions and predicates of NKI 0.1: `nl.arange`, `nl.mgrid`, and comparisons of them.

Loops run eagerly here, so every expression has concrete values. It is kept as a sum of one vector per
axis and a constant,

    value[i0, i1, ...] = constant + v0[i0] + v1[i1] + ...

which stays small for the usual affine expressions, gives the stride along each axis directly, and still
holds anything that is not affine in one axis (`i // 4`, `i % 3`). Only what mixes axes in another way becomes
a dense array. Axes are numbered from the last one (-1) so that broadcasting needs no bookkeeping.

A comparison gives a `Predicate`, a conjunction of comparisons, which a `mask=` narrows an access pattern with
(see regions.py) and `nisa.affine_select` takes as such.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError

_COMPARE: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}

_AND_HINT = "use & | ~ on predicates (`and`, `or`, `not` work only in functions decorated with nki.jit)"


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """numpy's broadcasting of shapes. Raises NkiValidationError when they do not fit."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise NkiValidationError(f"index shapes {', '.join(map(str, shapes))} do not broadcast") from None


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


class IndexExpr:
    """An integer array over index axes; immutable."""

    __slots__ = ("shape", "constant", "axes", "dense")
    __array_priority__ = 1000  # numpy scalars leave the operation to us
    __hash__ = None

    def __init__(
        self,
        shape: tuple[int, ...],
        constant: int = 0,
        axes: dict[int, np.ndarray] | None = None,
        dense: np.ndarray | None = None,
    ):
        self.shape = tuple(int(s) for s in shape)
        self.constant = int(constant)
        self.axes: dict[int, np.ndarray] = {}  # axis (negative) -> int64 [size of the axis], size > 1
        for axis, vector in (axes or {}).items():
            if vector.size == 1:
                self.constant += int(vector[0])
            else:
                self.axes[axis] = vector
        self.dense = dense  # int64, broadcastable to shape; added to the rest when present

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<index expression of shape {self.shape}>"

    def __bool__(self) -> bool:
        raise NkiValidationError(
            "err_control_flow_condition_depending_on_arange: an index expression has no truth value; "
            "use mask="
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NkiValidationError(
            "err_cannot_assign_to_index: an index expression cannot be assigned to; nisa.iota makes a tile"
        )

    def __getitem__(self, key: Any) -> IndexExpr:
        """`i[:, None]`: insert axes of size one. Elements cannot be selected."""
        keys = key if isinstance(key, tuple) else (key,)
        if keys.count(Ellipsis) == 1:
            at = keys.index(Ellipsis)
            missing = self.ndim - sum(k is not None for k in keys if k is not Ellipsis)
            keys = keys[:at] + (slice(None),) * missing + keys[at + 1 :]
        kept = [k for k in keys if k is not None]
        if len(kept) != self.ndim or any(k != slice(None) for k in kept):
            raise NkiValidationError(
                f"{self!r} takes only `:` and None as an index, to add axes; got {key!r}"
            )
        shape, sources = [], iter(range(self.ndim))
        where: dict[int, int] = {}
        for position, k in enumerate(keys):
            if k is None:
                shape.append(1)
            else:
                source = next(sources)
                where[source - self.ndim] = position - len(keys)
                shape.append(self.shape[source])
        dense = None if self.dense is None else np.broadcast_to(self.dense, self.shape)[keys]
        return IndexExpr(tuple(shape), self.constant, {where[a]: v for a, v in self.axes.items()}, dense)

    def values(self) -> np.ndarray:
        """Every value, int64, of `shape` (read-only where broadcast)."""
        total: Any = np.int64(self.constant)
        for axis, vector in self.axes.items():
            total = total + vector.reshape((-1,) + (1,) * (-axis - 1))
        if self.dense is not None:
            total = total + self.dense
        return np.broadcast_to(total, self.shape)

    def single_axis(self) -> tuple[int, np.ndarray] | None:
        """(axis, values along it) when at most one axis matters; axis -1 for a constant. None otherwise."""
        if self.dense is not None or len(self.axes) > 1:
            return None
        if not self.axes:
            return -1, np.full(self.shape[-1] if self.shape else 1, self.constant, np.int64)
        ((axis, vector),) = self.axes.items()
        return axis, vector + self.constant

    def range(self) -> tuple[int, int]:
        """Smallest and largest value."""
        if self.dense is not None:
            values = self.values()
            return int(values.min()), int(values.max())
        low = self.constant + sum(int(v.min()) for v in self.axes.values())
        return low, self.constant + sum(int(v.max()) for v in self.axes.values())

    # -- arithmetic ------------------------------------------------------------------------------------------

    def _add(self, other: Any, sign: int) -> IndexExpr:
        if _is_int(other):
            return IndexExpr(self.shape, self.constant + sign * int(other), self.axes, self.dense)
        if not isinstance(other, IndexExpr):
            return NotImplemented
        shape = broadcast_shapes(self.shape, other.shape)
        axes = dict(self.axes)
        constant = self.constant + sign * other.constant
        for axis, vector in other.axes.items():
            axes[axis] = axes[axis] + sign * vector if axis in axes else sign * vector
        dense = self.dense
        if other.dense is not None:
            dense = sign * other.dense if dense is None else dense + sign * other.dense
        return IndexExpr(shape, constant, axes, dense)

    def __add__(self, other: Any) -> IndexExpr:
        return self._add(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> IndexExpr:
        return self._add(other, -1)

    def __rsub__(self, other: Any) -> IndexExpr:
        return (self * -1)._add(other, 1)

    def __neg__(self) -> IndexExpr:
        return self * -1

    def __mul__(self, other: Any) -> IndexExpr:
        if _is_int(other):
            factor = int(other)
            axes = {axis: vector * factor for axis, vector in self.axes.items()}
            dense = None if self.dense is None else self.dense * factor
            return IndexExpr(self.shape, self.constant * factor, axes, dense)
        return self._elementwise(other, operator.mul)

    __rmul__ = __mul__

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
        used = set(self.axes) | set(other.axes)
        if self.dense is None and other.dense is None and len(used) <= 1:
            left: Any = self.constant + sum(self.axes.values())
            right: Any = other.constant + sum(other.axes.values())
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
                raise NkiValidationError(f"index expressions compare with integers, not {other!r}")
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

    def __eq__(self, other: Any) -> Predicate:  # type: ignore[override]
        return self._compare(other, "equal")

    def __ne__(self, other: Any) -> Predicate:  # type: ignore[override]
        return self._compare(other, "not_equal")


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

    def along_axis(self) -> tuple[int, np.ndarray] | None:
        """(axis, truth along it) when at most one axis matters."""
        single = self.expr.single_axis()
        return None if single is None else (single[0], _COMPARE[self.op](single[1], 0))


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
    __hash__ = None

    def __init__(self, terms: list[Comparison | DenseTruth]):
        self.terms = terms

    @property
    def shape(self) -> tuple[int, ...]:
        return broadcast_shapes(*(term.shape for term in self.terms))

    def values(self) -> np.ndarray:
        """Truth values, bool, of `shape`."""
        total = np.ones(self.shape, np.bool_)
        for term in self.terms:
            total &= term.values()
        return total

    def __repr__(self) -> str:
        return f"<predicate of shape {self.shape}, {len(self.terms)} terms>"

    def __bool__(self) -> bool:
        raise NkiValidationError(
            "err_ambiguous_tensor_truth_value: a predicate over indices has no single truth value; "
            + _AND_HINT
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


def arange(*args: int) -> IndexExpr:
    """Indices as `numpy.arange`, of shape [n]; add axes with `[:, None]`."""
    values = np.arange(*(int(a) for a in args), dtype=np.int64)
    if values.size == 0:
        raise NkiValidationError(f"nl.arange{args} is empty")
    return IndexExpr((values.size,), 0, {-1: values})


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
        vectors = []
        for axis in slices:
            if not isinstance(axis, slice) or axis.stop is None:
                raise NkiValidationError(f"nl.mgrid takes slices with an end, got {axis!r}")
            step = 1 if axis.step is None else int(axis.step)
            vectors.append(np.arange(int(axis.start or 0), int(axis.stop), step, dtype=np.int64))
            if vectors[-1].size == 0:
                raise NkiValidationError(f"nl.mgrid: {axis!r} is empty")
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
