"""Cholesky's factor and triangular systems: StableHLO has ops for both, which the compiler expands."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.expression import Expr, identity, loop
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value


def matrices(body: Emitter, value: Value) -> Expr:
    """[batch, rows, columns]"""
    rows, columns = value.shape[-2:]
    return Expr(body, body.reshape(value, (prod(value.shape[:-2]), rows, columns)))


def spread_matrices(body: Emitter, value: Value, batch: Sequence[int]) -> Expr:
    """Of those leading dimensions, as [batch, rows, columns]."""
    return matrices(body, body.broadcast(value, (*batch, *value.shape[-2:])))


def solved(
    a: Expr, b: Expr, *, lower: bool, left: bool = True, unit: bool = False, adjoint: bool = False
) -> Expr:
    """X of a X = b, or of X a = b; only one triangle of a is read. adjoint: a's adjoint in its place."""
    if 0 in b.shape:
        return b
    kind = "ADJOINT" if adjoint else "NO_TRANSPOSE"
    words = {True: "true", False: "false"}
    text = (
        f"left_side = {words[left]}, lower = {words[lower]}, unit_diagonal = {words[unit]}, "
        f"transpose_a = #stablehlo<transpose {kind}>"
    )
    return b.of(b.body.op("triangular_solve", [a.value, b.value], b.shape, b.dtype, text))


def cholesky(a: Expr, upper: bool) -> Expr:
    """The factor with zeros in the other triangle; NaN where a matrix has none."""
    if 0 in a.shape:
        return a
    text = f"lower = {'false' if upper else 'true'}"
    made = a.of(a.body.op("cholesky", [a.value], a.shape, a.dtype, text))
    return triangle(made, upper)


def first_bad_minor(a: Expr, factor: Expr) -> Expr:
    """[batch], int32: 0, or the order of the first leading minor that is not positive, as LAPACK's potrf says.

    The elimination that finds it runs only where a factor is NaN.
    """
    batch, size, _ = a.shape
    none = a.iota((max(batch, 1),), 0).part(0, 0, batch) * 0
    if 0 in a.shape:
        return none
    corner = factor.part(1, size - 1, size).part(2, size - 1, size).real().reshape((batch,))
    is_bad = corner.differs(corner).to(torch.int32)
    count = is_bad.max(0).reshape(()) * size

    def step(j: Expr, left: Expr, found: Expr) -> list[Expr]:
        column, row = left.at(j, 2), left.at(j, 1)
        pivot = column.at(j, 1)
        bad = (pivot.real() > 0).reshape((batch,)).equals(0) & found.equals(0)
        return [left - column * row / pivot, (j + 1).spread((batch,)).where(bad, found)]

    return loop(count, [a, none], step)[1]


def triangle(a: Expr, upper: bool) -> Expr:
    """With zeros in the other one."""
    rows, columns = a.iota(a.shape, 1), a.iota(a.shape, 2)
    return a.where(columns >= rows if upper else rows >= columns, 0)


def _cholesky_and_info(body: Emitter, value: Value, upper: bool) -> tuple[Expr, Expr]:
    """Only the triangle that the factor replaces is read."""
    a = matrices(body, value)
    if 0 in a.shape:
        return a, Expr(body, body.splat(0, torch.int32, (a.shape[0],)))
    half = triangle(a, upper)
    made = cholesky(half, upper)
    diagonal = a.iota(a.shape, 1).equals(a.iota(a.shape, 2))
    return made, first_bad_minor(half.where(diagonal, half + half.adjoint), made)


@emits("linalg_cholesky_ex.default")
def cholesky_ex(
    body: Emitter, out: Any, value: Value, *, upper: bool = False, check_errors: bool = False
) -> tuple[Value, Value]:
    """(the factor, info)"""
    made, info = _cholesky_and_info(body, value, upper)
    if check_errors:
        body.check_info(info.value, "linalg.cholesky_ex", value.rank == 2)
    return made.reshape(value.shape).value, info.reshape(out[1].shape).value


@emits("cholesky.default")
def cholesky_default(body: Emitter, out: Spec, value: Value, upper: bool = False) -> Value:
    made, info = _cholesky_and_info(body, value, upper)
    body.check_info(info.value, "cholesky", value.rank == 2)
    return made.reshape(value.shape).value


def _joint_batch(a: Value, b: Value) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))


@emits("linalg_solve_triangular.default")
def solve_triangular(
    body: Emitter,
    out: Spec,
    a: Value,
    b: Value,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    batch = _joint_batch(a, b)
    given = (spread_matrices(body, each, batch) for each in (a, b))
    made = solved(*given, lower=not upper, left=left, unit=unitriangular)
    return made.reshape(out.shape).value


@emits("triangular_solve.default")
def triangular_solve(
    body: Emitter,
    out: Any,
    b: Value,
    a: Value,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Value, Value]:
    """(X of a X = b, a)"""
    batch = _joint_batch(a, b)
    coefficients, right = (spread_matrices(body, each, batch) for each in (a, b))
    if transpose:
        coefficients, upper = coefficients.transposed, not upper
    made = solved(coefficients, right, lower=not upper, unit=unitriangular)
    return made.reshape(out[0].shape).value, body.broadcast(a, out[1].shape)


@emits("cholesky_solve.default")
def cholesky_solve(body: Emitter, out: Spec, b: Value, factor: Value, upper: bool = False) -> Value:
    batch = _joint_batch(factor, b)
    a, right = (spread_matrices(body, each, batch) for each in (factor, b))
    return _by_factor(a, right, upper).reshape(out.shape).value


@emits("cholesky_inverse.default")
def cholesky_inverse(body: Emitter, out: Spec, factor: Value, upper: bool = False) -> Value:
    a = matrices(body, factor)
    return _by_factor(a, identity(a, *a.shape[1:]).spread(a.shape), upper).reshape(out.shape).value


def _by_factor(factor: Expr, b: Expr, upper: bool) -> Expr:
    half = solved(factor, b, lower=not upper, adjoint=upper)
    return solved(factor, half, lower=not upper, adjoint=not upper)
