"""Values with Python's operators, and loops over them: for rules that are algorithms rather than one op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from opentrn.torch.text import Body, Value, numbers

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def real_of(dtype: torch.dtype) -> torch.dtype:
    """Of complex dtypes that of their parts; others as they are."""
    return _REAL.get(dtype, dtype)


class Expr:
    """A value in a body of a program. Sizes of 1, missing first dimensions and Python numbers broadcast.

    What is computed of values of a loop's body and of around it is in the loop.
    """

    def __init__(self, body: Body, value: Value) -> None:
        self.body, self.value = body, value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.value.dtype

    def of(self, value: Value) -> Expr:
        return Expr(self.body, value)

    def number(self, number: complex, shape: Sequence[int] = ()) -> Expr:
        """A constant of this type."""
        return self.of(self.body.splat(number, self.dtype, shape))

    def iota(self, shape: Sequence[int], axis: int) -> Expr:
        """Places along an axis, int32."""
        return self.of(self.body.iota(tuple(shape), axis % len(shape), torch.int32))

    # ---- elements --------------------------------------------------------------------------------------------

    def inside(self, *others: Expr) -> Expr:
        """This, in the innermost of the bodies that the others are in."""
        return Expr(max((each.body for each in (self, *others)), key=lambda body: body.depth), self.value)

    def _with(self, other: Expr | complex) -> tuple[Expr, Expr]:
        if not isinstance(other, Expr):
            return self, self.number(other, self.shape)
        a, b = self.inside(other), other.inside(self)
        if a.dtype != b.dtype:
            wide = a.dtype if a.dtype.is_complex else b.dtype
            a, b = a.to(wide), b.to(wide)
        shape = torch.broadcast_shapes(a.shape, b.shape)
        return a.spread(shape), b.spread(shape)

    def _binary(self, name: str, other: Expr | complex) -> Expr:
        a, b = self._with(other)
        return a.of(a.body.binary(name, a.value, b.value))

    def _compared(self, direction: str, other: Expr | complex) -> Expr:
        a, b = self._with(other)
        return a.of(a.body.compare(direction, a.value, b.value))

    def __add__(self, other: Expr | complex) -> Expr:
        return self._binary("add", other)

    def __sub__(self, other: Expr | complex) -> Expr:
        return self._binary("subtract", other)

    def __mul__(self, other: Expr | complex) -> Expr:
        return self._binary("multiply", other)

    def __truediv__(self, other: Expr | complex) -> Expr:
        return self._binary("divide", other)

    def __and__(self, other: Expr) -> Expr:
        return self._binary("and", other)

    def __or__(self, other: Expr) -> Expr:
        return self._binary("or", other)

    def __neg__(self) -> Expr:
        return self.of(self.body.unary("negate", self.value))

    def __lt__(self, other: Expr | complex) -> Expr:
        return self._compared("LT", other)

    def __gt__(self, other: Expr | complex) -> Expr:
        return self._compared("GT", other)

    def __ge__(self, other: Expr | complex) -> Expr:
        return self._compared("GE", other)

    def equals(self, other: Expr | complex) -> Expr:
        return self._compared("EQ", other)

    def differs(self, other: Expr | complex) -> Expr:
        return self._compared("NE", other)

    def maximum(self, other: Expr | complex) -> Expr:
        return self._binary("maximum", other)

    def sqrt(self) -> Expr:
        return self.of(self.body.unary("sqrt", self.value))

    def abs(self) -> Expr:
        """The length of complex numbers, real."""
        kind = real_of(self.dtype)
        return self.of(self.body.op("abs", [self.value], self.shape, kind))

    def real(self) -> Expr:
        return self._part("real")

    def imag(self) -> Expr:
        """Zero of real numbers."""
        return self._part("imag")

    def _part(self, name: str) -> Expr:
        if self.dtype.is_complex:
            return self.of(self.body.op(name, [self.value], self.shape, _REAL[self.dtype]))
        return self if name == "real" else self.number(0, self.shape)

    def conj(self) -> Expr:
        return self.of(self.body.unary("chlo.conj", self.value)) if self.dtype.is_complex else self

    def to(self, dtype: torch.dtype) -> Expr:
        return self.of(self.body.convert(self.value, dtype))

    def where(self, condition: Expr, other: Expr | complex) -> Expr:
        """These elements where the condition holds, the other's elsewhere."""
        a, b = self.inside(condition)._with(other)
        shape = torch.broadcast_shapes(a.shape, condition.shape)
        values = (each.inside(a).spread(shape).value for each in (condition, a, b))
        return a.of(a.body.select(*values))

    # ---- shapes ----------------------------------------------------------------------------------------------

    def spread(self, shape: Sequence[int]) -> Expr:
        return self.of(self.body.broadcast(self.value, shape))

    def reshape(self, shape: Sequence[int]) -> Expr:
        return self.of(self.body.reshape(self.value, shape))

    @property
    def adjoint(self) -> Expr:
        """Of matrices, the last two dimensions; conjugated."""
        return self.transposed.conj()

    @property
    def transposed(self) -> Expr:
        order = list(range(self.value.rank))
        order[-2:] = order[-1], order[-2]
        return self.of(self.body.transpose(self.value, order))

    def part(self, axis: int, start: int, limit: int, step: int = 1) -> Expr:
        return self.of(self.body.slice_axis(self.value, axis % self.value.rank, start, limit, step))

    def at(self, place: Expr, axis: int) -> Expr:
        """The slice of one at a computed place; the axis stays, of size 1."""
        if self.body is not self.inside(place).body:
            return self.inside(place).at(place, axis)
        axis %= self.value.rank
        zero = self.body.splat(0, place.dtype)
        starts = [place.value if each == axis else zero for each in range(self.value.rank)]
        shape = [1 if each == axis else size for each, size in enumerate(self.shape)]
        operands = [self.value, *starts]
        return self.of(
            self.body.op("dynamic_slice", operands, shape, self.dtype, f"slice_sizes = {numbers(shape)}")
        )

    def sum(self, axis: int) -> Expr:
        """The axis stays, of size 1."""
        return self._reduced("add", axis, 0)

    def max(self, axis: int) -> Expr:
        return self._reduced("maximum", axis, self.body.lowest(self.dtype))

    def min(self, axis: int) -> Expr:
        return self._reduced("minimum", axis, self.body.highest(self.dtype))

    def _reduced(self, combiner: str, axis: int, initial: complex) -> Expr:
        axis %= self.value.rank
        shape = [1 if each == axis else size for each, size in enumerate(self.shape)]
        return self.of(self.body.reduce(combiner, self.value, [axis], initial)).reshape(shape)

    def __matmul__(self, other: Expr) -> Expr:
        """Of batches of matrices, [batch, rows, columns] both."""
        body = self.inside(other).body
        return Expr(body, body.dot(self.value, other.value, ([2], [1]), ([0], [0])))


def identity(like: Expr, rows: int, columns: int) -> Expr:
    """[1, rows, columns] of a type."""
    shape = (1, rows, columns)
    return like.iota(shape, 1).equals(like.iota(shape, 2)).to(like.dtype)


def loop(count: int | Expr, carried: Sequence[Expr], step: Callable[..., Sequence[Expr]]) -> list[Expr]:
    """What `carried` is after step(i, *carried) for each i below count, int32; a number or a scalar."""
    body = carried[0].body
    first = body.splat(0, torch.int32)
    limit = count.value if isinstance(count, Expr) else body.splat(count, torch.int32)
    values = [first, *(each.value for each in carried)]

    def goes_on(inner: Body, i: Value, *_: Value) -> list[Value]:
        return [inner.compare("LT", i, limit)]

    def next_(inner: Body, i: Value, *given: Value) -> list[Value]:
        made = step(Expr(inner, i), *(Expr(inner, each) for each in given))
        for old, new in zip(given, made, strict=True):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                raise AssertionError(f"a loop carries {old.type} and got {new.value.type}")
        return [inner.add(i, inner.splat(1, torch.int32)), *(each.value for each in made)]

    kinds = [(each.shape, each.dtype) for each in values]
    regions = f" ({body.block(kinds, goes_on)}, {body.block(kinds, next_)})"
    return [Expr(body, each) for each in body.ops("while", values, kinds, "", regions)[1:]]
