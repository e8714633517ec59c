"""Eigenvalues of Hermitian matrices and singular values, by Jacobi's rotations.

Rounds of disjoint rotations (Brent and Luk, SIAM J. Sci. Stat. Comput. 6, 1985): a round turns the rows, or columns,
2i and 2i + 1 for every i at once, by products of matrices, and brings other pairs together for the next. Rounding adds
up over the rounds, so that the vectors are then made orthonormal again, and one more sweep begins from the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2, prod
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.expression import Expr, identity, loop
from opentrn.torch.ops.index import take
from opentrn.torch.ops.qr import q_and_r
from opentrn.torch.ops.scan import sorted_with_places
from opentrn.torch.ops.triangular import matrices, triangle
from opentrn.torch.registry import emits
from opentrn.torch.text import Value


def _sweeps(size: int) -> int:
    """Before the last. Convergence is quadratic: one fewer was enough for matrices of up to 256 rows."""
    return ceil(log2(max(size, 2))) + 3


def _round_robin(size: int) -> list[int]:
    """Where each row comes from after a round, so that `size - 1` rounds bring every two of them together once."""
    top, bottom = list(range(0, size, 2)), list(range(1, size, 2))
    if size == 2:
        return [0, 1]
    order = [0] * size
    order[0::2] = [top[0], bottom[0], *top[1:-1]]
    order[1::2] = [*bottom[1:], top[-1]]
    return order


def _moved(values: Expr, order: Sequence[int], axis: int) -> Expr:
    """The rows, or columns, in another order."""
    places = values.body.constant(torch.tensor(order, dtype=torch.int32))
    return values.of(take(values.body, values.value, places, axis))  # type: ignore[arg-type]


def _angles(p: Expr, q: Expr, off: Expr) -> tuple[Expr, Expr, Expr]:
    """(cosine, sine, phase) that make `off` zero between the diagonal entries p and q; real, real, off's type."""
    length = off.abs()
    present = length > 0
    safe = length.where(present, 1)
    tau = (q - p) / (safe + safe)
    sign = tau.number(1, tau.shape).where(tau >= 0, -1)
    tangent = (sign / (tau.abs() + (tau * tau + 1).sqrt())).where(present, 0)
    cosine = tangent.number(1, tangent.shape) / (tangent * tangent + 1).sqrt()
    phase = (off / safe.to(off.dtype)).where(present, 1)
    return cosine, tangent * cosine, phase


def _pairs(values: Expr) -> tuple[Expr, Expr]:
    """The even and the odd columns."""
    return values.part(2, 0, values.shape[2], 2), values.part(2, 1, values.shape[2], 2)


class _Rounds:
    """Rotations of the columns of [batch, rows, even] matrices, and the order that follows them."""

    def __init__(self, like: Expr, even: int) -> None:
        self.order = _round_robin(even)
        rows = like.iota((1, even, even), 1)
        self.same = rows.equals(self._columns(like, self.order)).to(like.dtype)
        self.beside = rows.equals(self._columns(like, [each ^ 1 for each in self.order])).to(like.dtype)

    @staticmethod
    def _columns(like: Expr, places: Sequence[int]) -> Expr:
        return like.of(like.body.constant(torch.tensor(places, dtype=torch.int32).reshape(1, 1, -1)))

    def matrix(self, cosine: Expr, sine: Expr, phase: Expr) -> Expr:
        """What columns are multiplied by; the angles are [batch, 1, pairs]."""
        c, s, back = cosine.to(phase.dtype), sine.to(phase.dtype), phase.conj()
        kept, crossed = _interleaved(c, c * back), _interleaved(-(s * back), s)
        return self.same * _moved(kept, self.order, 2) + self.beside * _moved(crossed, self.order, 2)


def _interleaved(even: Expr, odd: Expr) -> Expr:
    """[batch, 1, 2 n] of two [batch, 1, n]."""
    batch, _, count = even.shape
    columns = [each.reshape((batch, 1, count, 1)).value for each in (even, odd)]
    return even.of(even.body.concatenate(columns, 3)).reshape((batch, 1, 2 * count))


def _orthonormal(vectors: Expr) -> Expr:
    """Nearly orthonormal columns made so: a step of Newton and Schulz."""
    return vectors * 1.5 - (vectors @ (vectors.adjoint @ vectors)) * 0.5


def _rotated(
    a: Expr, even: int, seen: Callable[[Expr], Expr], step: Callable[[Expr, Expr], list[Expr]]
) -> tuple[Expr, Expr]:
    """(seen(vectors), vectors) after every sweep of step(state, vectors); `seen` takes the matrix into their basis."""
    vectors = identity(a, even, even).spread((a.shape[0], even, even))
    for count in (_sweeps(even), 1):
        _, vectors = loop(count * (even - 1), [seen(vectors), vectors], lambda _, *both: step(*both))
        vectors = _orthonormal(vectors)
    return seen(vectors), vectors


def _padded(values: Expr, rows: int, columns: int) -> Expr:
    """Zeros below and on the right."""
    more = [0, rows - values.shape[1], columns - values.shape[2]]
    return values.of(values.body.pad(values.value, [0, 0, 0], more))


def _even(size: int) -> int:
    return max(2, size + size % 2)


def _hermitian(a: Expr) -> tuple[Expr, Expr]:
    """([batch, 1, size] eigenvalues in no order, eigenvectors as columns)."""
    batch, size, _ = a.shape
    even = _even(size)
    # The added row meets zeros only: it is never turned, and is back in its place after whole sweeps.
    whole, rounds = _padded(a, even, even), _Rounds(a, even)

    def step(state: Expr, vectors: Expr) -> list[Expr]:
        diagonal = _diagonal(state).real()
        above = _diagonal(_padded(state.part(2, 1, even), even, even))
        rotation = rounds.matrix(*_angles(*_pairs(diagonal), _pairs(above)[0]))
        return [(state @ rotation).adjoint @ rotation, vectors @ rotation]

    state, vectors = _rotated(a, even, lambda v: v.adjoint @ (whole @ v), step)
    return _diagonal(state).real().part(2, 0, size), vectors.part(1, 0, size).part(2, 0, size)


def _diagonal(a: Expr) -> Expr:
    """[batch, 1, size]"""
    return a.where(a.iota(a.shape, 1).equals(a.iota(a.shape, 2)), 0).sum(1)


def _sorted(values: Expr, columns: Sequence[Expr], descending: bool) -> tuple[Expr, list[Expr]]:
    """Values and the columns that go with them."""
    made, places = sorted_with_places(values.body, values.value, 2, descending)  # type: ignore[arg-type]
    chosen = values.of(places)
    batch, _, size = values.shape
    # Whole columns by a product with a matrix of ones and zeros.
    pick = values.iota((1, size, 1), 1).equals(chosen)
    return values.of(made), [each @ pick.to(each.dtype) for each in columns]


@emits("_linalg_eigh.default")
def eigh(
    body: Emitter, out: Any, value: Value, triangle_of: str = "L", compute_v: bool = True
) -> tuple[Value, Value]:
    """(eigenvalues rising, eigenvectors as columns). One triangle is read."""
    a = matrices(body, value)
    if 0 in a.shape:
        return body.splat(0, out[0].dtype, out[0].shape), body.splat(0, out[1].dtype, out[1].shape)
    half = triangle(a, triangle_of.upper() == "U")
    is_diagonal = a.iota(a.shape, 1).equals(a.iota(a.shape, 2))
    diagonal = half.real().to(a.dtype)
    values, vectors = _hermitian(diagonal.where(is_diagonal, half + half.adjoint))
    values, (vectors,) = _sorted(values, [vectors], False)
    second = vectors.reshape(out[1].shape).value if compute_v else body.splat(0, out[1].dtype, out[1].shape)
    return values.reshape(out[0].shape).value, second


def _orthogonal_columns(a: Expr) -> tuple[Expr, Expr]:
    """(a V of columns at right angles, V): Hestenes' one-sided method."""
    batch, rows, size = a.shape
    even = _even(size)
    whole, rounds = _padded(a, rows, even), _Rounds(a, even)

    def step(state: Expr, vectors: Expr) -> list[Expr]:
        left, right = _pairs(state)
        lengths = ((each.conj() * each).real().sum(1) for each in (left, right))
        rotation = rounds.matrix(*_angles(*lengths, (left.conj() * right).sum(1)))
        return [state @ rotation, vectors @ rotation]

    state, vectors = _rotated(a, even, lambda v: whole @ v, step)
    return state.part(2, 0, size), vectors.part(1, 0, size).part(2, 0, size)


def decomposed(a: Expr, full: bool) -> tuple[Expr, Expr, Expr]:
    """(U, [batch, 1, count] singular values falling, V); all columns of U where `full`. a is not wider than high."""
    turned, vectors = _orthogonal_columns(a)
    lengths = (turned.conj() * turned).real().sum(1)
    _, (turned, vectors) = _sorted(lengths, [turned, vectors], True)
    # Columns of zeros have no direction: Q's of a QR decomposition are at right angles to all the others.
    q, r = q_and_r(turned, full)
    diagonal = _diagonal(r.part(1, 0, a.shape[2]))
    values = diagonal.abs()
    phases = (diagonal / values.where(values > 0, 1).to(a.dtype)).where(values > 0, 1)
    if full and q.shape[2] > phases.shape[2]:
        more = phases.number(1, (*phases.shape[:2], q.shape[2] - phases.shape[2]))
        phases = phases.of(a.body.concatenate([phases.value, more.value], 2))
    return q * phases, values, vectors


@emits("_linalg_svd.default")
def svd(
    body: Emitter,
    out: Any,
    value: Value,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Value, Value, Value]:
    """(U, singular values falling, V^H)"""
    a = matrices(body, value)
    if prod(a.shape) == 0:
        return _of_nothing(body, out, a)
    is_wide = a.shape[1] < a.shape[2]
    u, values, v = decomposed(a.adjoint if is_wide else a, full_matrices and compute_uv)
    u, v = (v, u) if is_wide else (u, v)
    made = u, values, v.adjoint
    wanted = compute_uv, True, compute_uv
    return tuple(
        each.reshape(spec.shape).value if asked else body.splat(0, spec.dtype, spec.shape)
        for each, spec, asked in zip(made, out, wanted, strict=True)
    )


def _of_nothing(body: Emitter, out: Any, a: Expr) -> tuple[Value, ...]:
    """Of matrices without elements: identities."""

    def one(spec: Any) -> Value:
        if 0 in spec.shape or len(spec.shape) < 2:
            return body.splat(0, spec.dtype, spec.shape)
        return body.broadcast(body.reshape(identity(a, *spec.shape[-2:]).value, spec.shape[-2:]), spec.shape)

    return one(out[0]), body.splat(0, out[1].dtype, out[1].shape), one(out[2])
