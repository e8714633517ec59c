"""QR decompositions on the platform `neuron`: JAX has them for its own platforms only, through LAPACK.

Householder reflections as LAPACK's geqr2 and org2r have them (LAPACK Users' Guide, 3rd ed., section 5.4): a reflection
is I - tau v v^H with v's first entry 1; R has real diagonal entries. `svd` and `polar` follow, which JAX builds of QR
and `eigh`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _reflection(column: Any, row: Any) -> tuple[Any, Any, Any]:
    """(v, tau, the entry that stays) for the part of `column` from `row` on."""
    import jax.numpy as jnp

    places = jnp.arange(column.shape[0])
    alpha = column[row]
    below = jnp.where(places > row, column, 0)
    largest = jnp.maximum(jnp.max(jnp.abs(below)), jnp.abs(alpha))
    unit = jnp.where(largest > 0, largest, 1).astype(largest.dtype)
    rest = jnp.sum(jnp.square(jnp.abs(below / unit.astype(below.dtype))))
    length = unit * jnp.sqrt(jnp.square(jnp.abs(alpha) / unit) + rest)
    beta = jnp.where(alpha.real >= 0, -length, length)
    none = (rest == 0) & (alpha.imag == 0)
    entry = jnp.where(none, alpha, beta.astype(alpha.dtype))
    tau = jnp.where(none, 0, (beta - alpha) / jnp.where(none, 1, beta)).astype(alpha.dtype)
    v = below / jnp.where(none, 1, alpha - beta).astype(alpha.dtype)
    return jnp.where(places == row, 1, v).astype(column.dtype), tau, entry


def _factored(matrix: Any) -> tuple[Any, Any]:
    """(R above the reflections' vectors, tau of each) of one matrix."""
    import jax
    import jax.numpy as jnp

    rows, columns = matrix.shape
    count = min(rows, columns)
    row_places, column_places = jnp.arange(rows), jnp.arange(columns)

    def step(j: Any, carry: Any) -> Any:
        matrix, taus = carry
        column = matrix[:, j]
        v, tau, entry = _reflection(column, j)
        moved = matrix - tau.conj() * v[:, None] * jnp.sum(v.conj()[:, None] * matrix, 0)[None, :]
        kept = jnp.where(row_places < j, column, jnp.where(row_places == j, entry, v))
        matrix = jnp.where(column_places > j, moved, matrix)
        return jnp.where(column_places == j, kept[:, None], matrix), jnp.where(
            jnp.arange(count) == j, tau, taus
        )

    return jax.lax.fori_loop(0, count, step, (matrix, jnp.zeros(count, matrix.dtype)))


def _orthogonal(matrix: Any, taus: Any) -> Any:
    """The product of the reflections, as many columns of it as `matrix` has."""
    import jax
    import jax.numpy as jnp

    rows, columns = matrix.shape
    count = taus.shape[0]
    places = jnp.arange(rows)

    def step(i: Any, q: Any) -> Any:
        j = count - 1 - i
        v = jnp.where(places > j, matrix[:, j], jnp.where(places == j, 1, 0)).astype(matrix.dtype)
        return q - taus[j] * v[:, None] * jnp.sum(v.conj()[:, None] * q, 0)[None, :]

    return jax.lax.fori_loop(0, count, step, jnp.eye(rows, columns, dtype=matrix.dtype))


def _batched(of_one: Callable[..., Any], *arrays: Any, ranks: tuple[int, ...]) -> Any:
    """`of_one` for every element of the leading dimensions; `ranks`: of what it takes."""
    import jax

    batch = arrays[0].shape[: arrays[0].ndim - ranks[0]]
    flat = [
        array.reshape(-1, *array.shape[array.ndim - rank :])
        for array, rank in zip(arrays, ranks, strict=True)
    ]
    results = jax.vmap(of_one)(*flat)
    return jax.tree.map(lambda each: each.reshape(*batch, *each.shape[1:]), results)


def _geqrf(operand: Any, **_: Any) -> tuple[Any, Any]:
    """As geqrf_p: the packed factors and the coefficients, of the last two dimensions."""
    import jax.numpy as jnp

    if operand.size == 0:
        return operand, jnp.zeros((*operand.shape[:-2], min(operand.shape[-2:])), operand.dtype)
    return _batched(_factored, operand, ranks=(2,))


def _householder_product(matrix: Any, taus: Any) -> Any:
    """As householder_product_p: the orthogonal or unitary factor of the reflections in `matrix`."""
    if matrix.size == 0:
        return matrix
    return _batched(_orthogonal, matrix, taus, ranks=(2, 1))


def register() -> None:
    """Makes JAX lower `geqrf` and `householder_product` for `neuron`."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    from opentrn.jax.axes import lowering

    mlir.register_lowering(linalg.geqrf_p, lowering(_geqrf, multiple_results=True), platform="neuron")
    mlir.register_lowering(
        linalg.householder_product_p,
        lowering(_householder_product, multiple_results=False),
        platform="neuron",
    )
