"""Eigenvalues on the platform `neuron`: JAX has them for its own platforms only, through LAPACK.

Jacobi's method, in rounds of disjoint rotations (Brent and Luk, SIAM J. Sci. Stat. Comput. 6, 1985): each round is
three matrix products, which the Tensor engine does, and brings other pairs together. Their rounding adds up over the
rounds, so that the vectors are then made orthonormal again, the matrix is taken into their basis anew, and one more
sweep is done.
`svd` uses it, with jax_qr.py.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np


def sweeps(size: int) -> int:
    """How often every pair is rotated before the last sweep. Convergence is quadratic: one fewer was enough for
    random, clustered and graded matrices of up to 256 rows."""
    return math.ceil(math.log2(max(size, 2))) + 3


def _round_robin(size: int) -> np.ndarray:
    """Where each row comes from after a round, so that `size - 1` rounds bring every two of them together once."""
    top, bottom = list(range(0, size, 2)), list(range(1, size, 2))
    moved_top = [top[0], bottom[0], *top[1:-1]]
    moved_bottom = [*bottom[1:], top[-1]] if size > 2 else bottom
    if size == 2:
        moved_top = top
    order = np.empty(size, np.int64)
    order[0::2], order[1::2] = moved_top, moved_bottom
    return order


def _rotation(matrix: Any) -> Any:
    """The unitary matrix that makes the entries (2i, 2i+1) zero, its columns in the order of the next round."""
    import jax.numpy as jnp

    size = matrix.shape[0]
    one = np.eye(size, dtype=np.float32)
    beside = one.reshape(size // 2, 2, size)[:, ::-1].reshape(size, size)  # of every row, its partner
    diagonal = jnp.sum(matrix.real * one, 1)
    p, q = diagonal[0::2], diagonal[1::2]
    off = jnp.sum(matrix * beside, 1)[0::2]
    length = jnp.abs(off)
    present = length > 0
    safe = jnp.where(present, length, 1)
    tau = (q - p) / (2 * safe)
    tangent = jnp.where(tau >= 0, 1.0, -1.0) / (jnp.abs(tau) + jnp.sqrt(1 + tau * tau))
    tangent = jnp.where(present, tangent, 0).astype(diagonal.dtype)
    c = 1 / jnp.sqrt(1 + tangent * tangent)
    s = tangent * c
    phase = jnp.where(present, off / safe.astype(off.dtype), 1).conj()
    kept = jnp.stack([c.astype(matrix.dtype), c * phase], -1).reshape(-1)
    crossed = jnp.stack([-(s * phase), s.astype(matrix.dtype)], -1).reshape(-1)
    order = _round_robin(size)
    return one[:, order] * kept[order] + beside[:, order] * crossed[order]


def hermitian(matrix: Any, sort: bool) -> tuple[Any, Any]:
    """(eigenvalues, eigenvectors as columns) of one Hermitian matrix."""
    import jax
    import jax.numpy as jnp

    size = matrix.shape[0]
    # The added row meets zeros only: it is never rotated, and is back in its place after whole sweeps.
    even = max(2, size + size % 2)
    whole = jnp.pad(matrix, ((0, even - size), (0, even - size)))
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)

    def one_round(_, carry):
        state, vectors = carry
        rotation = _rotation(state)
        return product(product(rotation.conj().T, state), rotation), product(vectors, rotation)

    def restored(vectors):
        """(the matrix in the basis of the vectors, the vectors made orthonormal by a step of Newton and Schulz)."""
        vectors = 1.5 * vectors - 0.5 * product(vectors, product(vectors.conj().T, vectors))
        return product(vectors.conj().T, product(whole, vectors)), vectors

    rounds = even - 1
    state = whole, jnp.eye(even, dtype=matrix.dtype)
    _, vectors = jax.lax.fori_loop(0, sweeps(size) * rounds, one_round, state)
    _, vectors = jax.lax.fori_loop(0, rounds, one_round, restored(vectors))
    diagonalised, vectors = restored(vectors)
    values, vectors = jnp.diagonal(diagonalised).real[:size], vectors[:size, :size]
    if sort:
        rising = jnp.argsort(values)
        values, vectors = values[rising], vectors[:, rising]
    return values, vectors


def _eigh(operand, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    """As eigh_p: eigenvectors, then eigenvalues, of the last two dimensions."""
    import jax
    import jax.numpy as jnp

    del algorithm
    size = operand.shape[-1]
    if size == 0:
        return operand, operand.real.reshape(operand.shape[:-1])
    half = jnp.tril(operand) if lower else jnp.triu(operand)
    diagonal = jnp.einsum("...ii->...i", operand).real.astype(operand.dtype)
    whole = (
        half + jnp.swapaxes(half, -1, -2).conj() - diagonal[..., None] * jnp.eye(size, dtype=operand.dtype)
    )
    flat = whole.reshape(-1, size, size)
    values, vectors = jax.vmap(lambda m: hermitian(m, sort_eigenvalues))(flat)
    values, vectors = values.reshape(operand.shape[:-1]), vectors.reshape(operand.shape)
    if subset_by_index is not None:
        begin, end = subset_by_index
        values, vectors = values[..., begin:end], vectors[..., begin:end]
    return vectors, values


def register() -> None:
    """Makes JAX lower `eigh` for `neuron`, and `lu`, whose rule for all platforms is not made for `shard_map`."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    from opentrn.jax.axes import lowering

    mlir.register_lowering(linalg.eigh_p, lowering(_eigh, multiple_results=True), platform="neuron")
    mlir.register_lowering(linalg.lu_p, lowering(linalg._lu_python, multiple_results=True), platform="neuron")
