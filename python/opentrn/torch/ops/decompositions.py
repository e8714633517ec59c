"""QR, LU, eigenvalues and singular values: custom calls which the compiler expands (src/graph/solver_call.h).

Packed factors, coefficients and pivots are LAPACK's. `solve`, `inv`, `det` and others are taken apart into these ops
(opentrn/torch/linear_algebra.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.expression import Expr, identity, loop, real_of
from opentrn.torch.ops.triangular import matrices, solved, spread_matrices, triangle
from opentrn.torch.registry import emits
from opentrn.torch.text import Shape, Spec, Value


def _call(
    body: Emitter, name: str, operands: Sequence[Value], results: Sequence[tuple[Shape, torch.dtype]], words: str = ""
) -> list[Value]:
    """The results of `opentrn.<name>`: [..., rows, columns], vectors [..., count]."""
    text = f'call_target_name = "opentrn.{name}", backend_config = "{words}"'
    return body.ops("custom_call", operands, results, text)


def _eye(body: Emitter, shape: Shape, dtype: torch.dtype) -> Value:
    """Of those leading dimensions."""
    like = Expr(body, body.splat(0, dtype))
    return body.broadcast(body.reshape(identity(like, *shape[-2:]).value, shape[-2:]), shape)


# ---- QR


def _geqrf(body: Emitter, value: Value) -> list[Value]:
    """(R above the reflections' vectors, coefficients)"""
    shape = value.shape
    taus = (*shape[:-2], min(shape[-2:]))
    return _call(body, "geqrf", [value], [(shape, value.dtype), (taus, value.dtype)])


def _reflected(body: Emitter, packed: Value, taus: Value, b: Value, adjoint: bool) -> Value:
    """Q b, or Q^H b, of Q the product of the reflections in `packed`."""
    words = "adjoint" if adjoint else ""
    return _call(body, "ormqr", [packed, taus, b], [(b.shape, b.dtype)], words)[0]


@emits("linalg_qr.default")
def qr(body: Emitter, out: Any, value: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """(Q, R); Q has all columns with mode "complete", and is empty with "r"."""
    q_out, r_out = out
    packed, taus = _geqrf(body, value)
    rows = value.shape[-2] if mode == "complete" else min(value.shape[-2:])
    upper = triangle(matrices(body, packed).part(1, 0, rows), True).reshape(r_out.shape).value
    if mode == "r":
        return body.splat(0, q_out.dtype, q_out.shape), upper
    return _reflected(body, packed, taus, _eye(body, q_out.shape, q_out.dtype), False), upper


@emits("geqrf.default")
def geqrf(body: Emitter, out: Any, value: Value) -> tuple[Value, Value]:
    """(R above the reflections' vectors, coefficients)"""
    packed, taus = _geqrf(body, value)
    return packed, taus


@emits("linalg_householder_product.default")
def householder_product(body: Emitter, out: Spec, value: Value, taus: Value) -> Value:
    """As many columns of Q as `value` has."""
    return _reflected(body, value, taus, _eye(body, value.shape, value.dtype), False)


@emits("ormqr.default")
def ormqr(
    body: Emitter, out: Spec, value: Value, taus: Value, b: Value, left: bool = True, transpose: bool = False
) -> Value:
    """Q b or b Q, or with Q^H; from the right it is the adjoint of what the left has."""
    if left:
        return _reflected(body, value, taus, b, transpose)
    turned = matrices(body, b).adjoint.reshape((*b.shape[:-2], b.shape[-1], b.shape[-2])).value
    made = _reflected(body, value, taus, turned, not transpose)
    return matrices(body, made).adjoint.reshape(out.shape).value


# ---- LU


def _factored(body: Emitter, value: Value, pivot: bool) -> list[Value]:
    """(L below U in one matrix; the row that each was exchanged with, from 1; info)"""
    batch, kind = value.shape[:-2], torch.int32
    results = [(value.shape, value.dtype), ((*batch, min(value.shape[-2:])), kind), (batch, kind)]
    return _call(body, "getrf", [value], results, "" if pivot else "no_pivot")


def order(pivots: Expr, rows: int) -> Expr:
    """[batch, rows], int32: where each row of L U comes from."""
    batch, count = pivots.shape
    places = pivots.iota((1, rows), 1)
    start = places.spread((batch, rows))
    if 0 in (batch, count):
        return start

    def step(i: Expr, now: Expr) -> list[Expr]:
        other = pivots.at(i, 1) - 1
        mine, theirs = now.at(i, 1), now.where(places.equals(other), 0).sum(1)
        return [theirs.where(places.equals(i), mine.where(places.equals(other), now))]

    return loop(count, [start], step)[0]


def _permutation(body: Emitter, pivots: Value, rows: int, like: Expr) -> Expr:
    """P of A = P L U, [batch, rows, rows]; pivots [..., count], int32."""
    steps = Expr(body, body.reshape(pivots, (prod(pivots.shape[:-1]), pivots.shape[-1])))
    source = order(steps, rows).reshape((steps.shape[0], 1, rows))
    return like.iota((1, rows, rows), 1).equals(source).to(like.dtype)


@emits("linalg_lu_factor_ex.default")
def lu_factor(
    body: Emitter, out: Any, value: Value, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Value, ...]:
    """(LU, pivots, info)"""
    made = _factored(body, value, pivot)
    if check_errors:
        body.check_info(made[2], "torch.linalg.lu_factor_ex", value.rank == 2)
    return tuple(made)


def _unpacked(body: Emitter, packed: Value, pivots: Value, pivot: bool) -> tuple[Expr, Expr, Expr]:
    a = matrices(body, packed)
    _, rows, columns = a.shape
    count = min(rows, columns)
    below = a.part(2, 0, count)
    diagonal = below.iota((1, rows, count), 1).equals(below.iota((1, rows, count), 2))
    lower = below.number(1, below.shape).where(diagonal, triangle(below, False))
    permutation = _permutation(body, pivots, rows, a) if pivot else identity(a, rows, rows)
    return permutation, lower, triangle(a.part(1, 0, count), True)


@emits("lu_unpack.default")
def lu_unpack(
    body: Emitter, out: Any, packed: Value, pivots: Value, data: bool = True, with_pivots: bool = True
) -> tuple[Value, ...]:
    """(P, L, U); what is not asked for is empty."""
    made = _unpacked(body, packed, body.convert(pivots, torch.int32), True)
    asked = with_pivots, data, data
    return tuple(
        each.reshape(spec.shape).value if wanted else body.splat(0, spec.dtype, spec.shape)
        for each, spec, wanted in zip(made, out, asked, strict=True)
    )


@emits("linalg_lu.default")
def lu(body: Emitter, out: Any, value: Value, *, pivot: bool = True) -> tuple[Value, ...]:
    """(P, L, U); P is empty without exchanges."""
    packed, pivots, _ = _factored(body, value, pivot)
    permutation, lower, upper = _unpacked(body, packed, pivots, pivot)
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
    body: Emitter, out: Spec, packed: Value, pivots: Value, b: Value, *, left: bool = True, adjoint: bool = False
) -> Value:
    """From the right it is the adjoint system of the adjoints."""
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    batch: Sequence[int] = torch.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    a, right = (spread_matrices(body, each, batch) for each in (packed, b))
    size = pivots.shape[-1]
    permutation = _permutation(body, body.broadcast(body.convert(pivots, torch.int32), (*batch, size)), size, a)
    made = (
        _solved(a, permutation, right, adjoint)
        if left
        else _solved(a, permutation, right.adjoint, not adjoint).adjoint
    )
    return made.reshape(out.shape).value


# ---- eigenvalues and singular values


@emits("_linalg_eigh.default")
def eigh(
    body: Emitter, out: Any, value: Value, triangle_of: str = "L", compute_v: bool = True
) -> tuple[Value, Value]:
    """(eigenvalues rising, eigenvectors as columns). One triangle is read."""
    real = real_of(value.dtype)
    results = [(value.shape[:-1], real), (value.shape, value.dtype)]
    words = "upper sorted" if triangle_of.upper() == "U" else "lower sorted"
    values, vectors = _call(body, "eigh", [value], results, words)
    return values, vectors if compute_v else body.splat(0, out[1].dtype, out[1].shape)


@emits("_linalg_svd.default")
def svd(
    body: Emitter,
    out: Any,
    value: Value,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Value, ...]:
    """(U, singular values falling, V^H)"""
    batch, (rows, columns) = value.shape[:-2], value.shape[-2:]
    count, full = min(rows, columns), full_matrices and compute_uv
    shapes = ((rows, rows if full else count), (count,), (columns if full else count, columns))
    kinds = (value.dtype, real_of(value.dtype), value.dtype)
    results = [((*batch, *shape), kind) for shape, kind in zip(shapes, kinds, strict=True)]
    made = _call(body, "svd", [value], results, "full" if full else "")
    asked = compute_uv, True, compute_uv
    return tuple(
        each if wanted else body.splat(0, spec.dtype, spec.shape)
        for each, spec, wanted in zip(made, out, asked, strict=True)
    )
