"""QR decompositions by Householder's reflections, as LAPACK's geqr2, org2r and ormqr have them.

A reflection is I - tau v v^H with v's first entry 1 (LAPACK Users' Guide, 3rd ed., section 5.4); R's diagonal is real.
"""

from __future__ import annotations

from math import prod
from typing import Any

from opentrn.torch.emitter import Emitter
from opentrn.torch.expression import Expr, identity, loop
from opentrn.torch.ops.triangular import matrices, triangle
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value


def _complex_of(number: Expr, like: Expr) -> Expr:
    return number.to(like.dtype)


def _reflection(column: Expr, row: Expr) -> tuple[Expr, Expr, Expr]:
    """(v, tau, the entry that stays) for the part of [batch, rows, 1] from `row` on."""
    places = column.iota((1, column.shape[1], 1), 1)
    alpha = column.at(row, 1)
    below = column.where(places > row, 0)
    largest = below.abs().max(1).maximum(alpha.abs())
    unit = largest.where(largest > 0, 1)
    scaled = below / _complex_of(unit, column)
    rest = (scaled.abs() * scaled.abs()).sum(1)
    size = alpha.abs() / unit
    length = unit * (size * size + rest).sqrt()
    beta = (-length).where(alpha.real() >= 0, length)
    none = rest.equals(0) & alpha.imag().equals(0)
    entry = alpha.where(none, _complex_of(beta, column))
    safe = _complex_of(beta.number(1, beta.shape).where(none, beta), column)
    tau = ((safe - alpha) / safe).where(none.equals(0), 0)
    v = below / (alpha - safe).where(none.equals(0), 1)
    return v.number(1, v.shape).where(places.equals(row), v), tau, entry


def factored(a: Expr) -> tuple[Expr, Expr]:
    """(R above the reflections' vectors, [batch, 1, count] tau of each)."""
    batch, rows_count, columns_count = a.shape
    count = min(rows_count, columns_count)
    taus = a.number(0, (batch, 1, count))
    if 0 in a.shape:
        return a, taus
    rows, columns = a.iota((1, rows_count, 1), 1), a.iota((1, 1, columns_count), 2)
    places = a.iota((1, 1, count), 2)

    def step(j: Expr, a: Expr, taus: Expr) -> list[Expr]:
        column = a.at(j, 2)
        v, tau, entry = _reflection(column, j)
        moved = a - tau.conj() * v * (v.conj() * a).sum(1)
        kept = entry.spread(v.shape).where(rows.equals(j), column.where(rows < j, v))
        a = kept.spread(a.shape).where(columns.equals(j), moved.where(columns > j, a))
        return [a, tau.spread(taus.shape).where(places.equals(j), taus)]

    return tuple(loop(count, [a, taus], step))


def _vector(packed: Expr, j: Expr) -> Expr:
    """[batch, rows, 1]: of the j-th reflection."""
    rows = packed.iota((1, packed.shape[1], 1), 1)
    column = packed.at(j, 2)
    return column.number(1, column.shape).where(rows.equals(j), column.where(rows > j, 0))


def reflected(packed: Expr, taus: Expr, b: Expr, *, adjoint: bool) -> Expr:
    """Q b, or Q^H b, of Q the product of the reflections in `packed`."""
    count = taus.shape[2]
    if 0 in b.shape or not count:
        return b

    def step(i: Expr, b: Expr) -> list[Expr]:
        j = i if adjoint else -i + (count - 1)
        v, tau = _vector(packed, j), taus.at(j, 2)
        return [b - (tau.conj() if adjoint else tau) * v * (v.conj() * b).sum(1)]

    return loop(count, [b], step)[0]


def orthogonal(packed: Expr, taus: Expr, columns: int) -> Expr:
    """That many columns of Q."""
    batch, rows, _ = packed.shape
    one = identity(packed, rows, columns).spread((batch, rows, columns))
    return reflected(packed, taus, one, adjoint=False)


def q_and_r(a: Expr, complete: bool) -> tuple[Expr, Expr]:
    """Q of as many columns as a has, at most its rows, or of all; R."""
    _, rows, columns = a.shape
    packed, taus = factored(a)
    width = rows if complete else min(rows, columns)
    return orthogonal(packed, taus, width), triangle(packed.part(1, 0, width), True)


@emits("linalg_qr.default")
def qr(body: Emitter, out: Any, value: Value, mode: str = "reduced") -> tuple[Value, Value]:
    q, r = q_and_r(matrices(body, value), mode == "complete")
    q_out, r_out = out
    first = body.splat(0, q_out.dtype, q_out.shape) if mode == "r" else q.reshape(q_out.shape).value
    return first, r.reshape(r_out.shape).value


@emits("geqrf.default")
def geqrf(body: Emitter, out: Any, value: Value) -> tuple[Value, Value]:
    packed, taus = factored(matrices(body, value))
    return packed.reshape(out[0].shape).value, taus.reshape(out[1].shape).value


def _taus(body: Emitter, taus: Value) -> Expr:
    return Expr(body, body.reshape(taus, (prod(taus.shape[:-1]), 1, taus.shape[-1])))


@emits("linalg_householder_product.default")
def householder_product(body: Emitter, out: Spec, value: Value, taus: Value) -> Value:
    packed = matrices(body, value)
    return orthogonal(packed, _taus(body, taus), packed.shape[2]).reshape(out.shape).value


@emits("ormqr.default")
def ormqr(
    body: Emitter,
    out: Spec,
    value: Value,
    taus: Value,
    b: Value,
    left: bool = True,
    transpose: bool = False,
) -> Value:
    """Q b or b Q, or with Q^H; from the right it is the adjoint of what the left has."""
    packed, given = matrices(body, value), matrices(body, b)
    tau = _taus(body, taus)
    if left:
        made = reflected(packed, tau, given, adjoint=transpose)
    else:
        made = reflected(packed, tau, given.adjoint, adjoint=not transpose).adjoint
    return made.reshape(out.shape).value
