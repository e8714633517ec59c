"""LU decompositions with row exchanges, as LAPACK's getrf has them, and what follows from one.

Matrices are factored column by column, all of a batch at once. `solve`, `inv`, `det` and `slogdet` are taken apart
into these ops (opentrn/torch/linear_algebra.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.expression import Expr, identity, loop
from opentrn.torch.ops.triangular import matrices, solved, spread_matrices, triangle
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value


def _pick(values: Expr, chosen: Expr, axis: int) -> Expr:
    """The one element along an axis where `chosen` holds."""
    return values.where(chosen, 0).sum(axis)


def _greatest(column: Expr, rows: Expr, first: Expr) -> Expr:
    """[batch, 1, 1], int32: the row of the largest element from `first` on, of complex ones |re| + |im|."""
    size = column.real().abs() + column.imag().abs() if column.dtype.is_complex else column.abs()
    size = size.where(rows >= first, -1)
    is_nan = size.differs(size)
    best = size.where(is_nan.equals(0), float("inf")).max(1)
    found = rows.spread(size.shape).where(size.equals(best) | is_nan, column.shape[1]).min(1)
    return found


def factored(a: Expr, pivot: bool) -> tuple[Expr, Expr, Expr]:
    """(L below U in one matrix; the row that each was exchanged with, from 1; info), by batches."""
    batch, rows_count, columns_count = a.shape
    count = min(rows_count, columns_count)
    rows, columns = a.iota((1, rows_count, 1), 1), a.iota((1, 1, columns_count), 2)
    places = a.iota((1, count), 1)

    def step(i: Expr, a: Expr, pivots: Expr, info: Expr) -> list[Expr]:
        column = a.at(i, 2)
        chosen = _greatest(column, rows, i) if pivot else i.reshape((1, 1, 1)).spread((batch, 1, 1))
        row, other = a.at(i, 1), _pick(a, rows.equals(chosen), 1)
        a = other.spread(a.shape).where(rows.equals(i), row.spread(a.shape).where(rows.equals(chosen), a))
        top, column = other.at(i, 2), a.at(i, 2)
        is_zero = top.equals(0)
        factors = (column / top.number(1, top.shape).where(is_zero, top)).where(rows > i, 0)
        a = (a - factors * other).where((rows > i) & (columns > i), a)
        a = factors.spread(a.shape).where((rows > i) & columns.equals(i), a)
        pivots = (chosen.reshape((batch, 1)) + 1).spread(pivots.shape).where(places.equals(i), pivots)
        first = is_zero.reshape((batch,)) & info.equals(0)
        return [a, pivots, (i + 1).spread((batch,)).where(first, info)]

    zeros = [Expr(a.body, a.body.splat(0, torch.int32, shape)) for shape in ((batch, count), (batch,))]
    if 0 in a.shape:
        return a, *zeros
    return tuple(loop(count, [a, *zeros], step))


def order(pivots: Expr, rows: int) -> Expr:
    """[batch, rows], int32: where each row of L U comes from."""
    batch, count = pivots.shape
    places = pivots.iota((1, rows), 1)
    start = places.spread((batch, rows))
    if 0 in (batch, count):
        return start

    def step(i: Expr, now: Expr) -> list[Expr]:
        other = pivots.at(i, 1) - 1
        mine, theirs = now.at(i, 1), _pick(now, places.equals(other), 1)
        return [theirs.where(places.equals(i), mine.where(places.equals(other), now))]

    return loop(count, [start], step)[0]


def _permutation(pivots: Expr, rows: int, like: Expr) -> Expr:
    """P of A = P L U."""
    source = order(pivots, rows).reshape((pivots.shape[0], 1, rows))
    return like.iota((1, rows, rows), 1).equals(source).to(like.dtype)


@emits("linalg_lu_factor_ex.default")
def lu_factor(
    body: Emitter, out: Any, value: Value, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Value, ...]:
    """(LU, pivots, info)"""
    made = factored(matrices(body, value), pivot)
    if check_errors:
        body.check_info(made[2].value, "torch.linalg.lu_factor_ex", value.rank == 2)
    return tuple(each.reshape(spec.shape).value for each, spec in zip(made, out, strict=True))


def _unpacked(packed: Expr, pivots: Expr, pivot: bool) -> tuple[Expr, Expr, Expr]:
    _, rows, columns = packed.shape
    count = min(rows, columns)
    below = packed.part(2, 0, count)
    diagonal = below.iota((1, rows, count), 1).equals(below.iota((1, rows, count), 2))
    lower = below.number(1, below.shape).where(diagonal, triangle(below, False))
    permutation = _permutation(pivots, rows, packed) if pivot else identity(packed, rows, rows)
    return permutation, lower, triangle(packed.part(1, 0, count), True)


@emits("lu_unpack.default")
def lu_unpack(
    body: Emitter, out: Any, packed: Value, pivots: Value, data: bool = True, with_pivots: bool = True
) -> tuple[Value, ...]:
    """(P, L, U); what is not asked for is empty."""
    a = matrices(body, packed)
    steps = Expr(body, body.reshape(body.convert(pivots, torch.int32), (a.shape[0], pivots.shape[-1])))
    made = _unpacked(a, steps, True)
    asked = with_pivots, data, data
    return tuple(
        each.reshape(spec.shape).value if wanted else body.splat(0, spec.dtype, spec.shape)
        for each, spec, wanted in zip(made, out, asked, strict=True)
    )


@emits("linalg_lu.default")
def lu(body: Emitter, out: Any, value: Value, *, pivot: bool = True) -> tuple[Value, ...]:
    """(P, L, U); P is empty without exchanges."""
    packed, pivots, _ = factored(matrices(body, value), pivot)
    permutation, lower, upper = _unpacked(packed, pivots, pivot)
    first = permutation.reshape(out[0].shape).value if pivot else body.splat(0, out[0].dtype, out[0].shape)
    return first, lower.reshape(out[1].shape).value, upper.reshape(out[2].shape).value


def _solved(packed: Expr, permutation: Expr, b: Expr, adjoint: bool) -> Expr:
    """X of A X = b, or of A's adjoint."""
    if not adjoint:
        half = solved(packed, permutation.adjoint @ b, lower=True, unit=True)
        return solved(packed, half, lower=False)
    half = solved(packed, b, lower=False, adjoint=True)
    return permutation @ solved(packed, half, lower=True, unit=True, adjoint=True)


@emits("linalg_lu_solve.default")
def lu_solve(
    body: Emitter,
    out: Spec,
    packed: Value,
    pivots: Value,
    b: Value,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Value:
    """From the right it is the adjoint system of the adjoints."""
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    batch: Sequence[int] = torch.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    a, right = (spread_matrices(body, each, batch) for each in (packed, b))
    size = pivots.shape[-1]
    steps = body.broadcast(body.convert(pivots, torch.int32), (*batch, size))
    permutation = _permutation(Expr(body, body.reshape(steps, (a.shape[0], size))), size, a)
    made = (
        _solved(a, permutation, right, adjoint)
        if left
        else _solved(a, permutation, right.adjoint, not adjoint).adjoint
    )
    return made.reshape(out.shape).value
