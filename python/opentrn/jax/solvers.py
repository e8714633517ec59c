"""Decompositions on the platform `neuron`: JAX has them for its own platforms only, through LAPACK.

They are custom calls which the compiler expands, or takes as kernels (src/graph/solver_call.h, src/compiler/expand,
src/compiler/lowering/small_*.cc). `polar` follows, which JAX builds of these. Among devices batches stay cut, and
matrices are joined (shardy.py states the rule).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def _call(context: Any, name: str, operands: Sequence[Any], avals_out: Sequence[Any], words: str = "") -> list[Any]:
    """The results of `opentrn.<name>`, of the shapes and dtypes of `avals_out`."""
    from jax._src.interpreters import mlir

    op = mlir.custom_call(
        f"opentrn.{name}",
        result_types=[kind for aval in avals_out for kind in mlir.aval_to_ir_types(context.module_context, aval)],
        operands=operands,
        backend_config=words,
    )
    return list(op.results)


def _part(value: Any, shape: Sequence[int], first: int, count: int) -> Any:
    """[..., first : first + count] of a value of this shape."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir.dialects import hlo

    start, limit = [0] * len(shape), list(shape)
    start[-1], limit[-1] = first, first + count
    numbers = (mlir.dense_int_array(each) for each in (start, limit, [1] * len(shape)))
    return hlo.slice(value, *numbers)


def _eigh(context: Any, operand: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any,
          algorithm: Any) -> list[Any]:  # fmt: skip
    """As eigh_p: eigenvectors, then eigenvalues, of the last two dimensions."""
    del algorithm
    (aval,) = context.avals_in
    vectors_out, values_out = context.avals_out
    size = aval.shape[-1]
    values_whole = values_out.update(shape=(*aval.shape[:-2], size))
    words = " ".join(["lower" if lower else "upper", *(["sorted"] if sort_eigenvalues else [])])
    values, vectors = _call(context, "eigh", [operand], [values_whole, aval], words)
    if subset_by_index is not None and vectors_out.shape != aval.shape:
        first, count = subset_by_index[0], vectors_out.shape[-1]
        vectors = _part(vectors, aval.shape, first, count)
        values = _part(values, values_whole.shape, first, count)
    return [vectors, values]


def _geqrf(context: Any, operand: Any, **_: Any) -> list[Any]:
    """As geqrf_p: the packed factors and the coefficients, of the last two dimensions."""
    return _call(context, "geqrf", [operand], context.avals_out)


def _householder_product(context: Any, matrix: Any, taus: Any) -> list[Any]:
    """As householder_product_p: the orthogonal or unitary factor of the reflections in `matrix`."""
    import jax.numpy as jnp
    from jax._src.interpreters import mlir

    aval = context.avals_in[0]

    def identity() -> Any:
        return jnp.broadcast_to(jnp.eye(aval.shape[-2], aval.shape[-1], dtype=aval.dtype), aval.shape)

    plain = context.replace(avals_in=[], avals_out=[aval])
    (one,) = mlir.lower_fun(identity, multiple_results=False)(plain)
    return _call(context, "ormqr", [matrix, taus, one], context.avals_out)


def _svd(context: Any, operand: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any,
         algorithm: Any = None) -> list[Any]:  # fmt: skip
    """As svd_p: singular values and, where they are wanted, U and V^H of the last two dimensions."""
    from jax._src.tpu.linalg.svd import _svd_tpu_lowering_rule as by_eigenvalues

    (aval,) = context.avals_in
    rows, columns = aval.shape[-2:]
    least = min(rows, columns)
    if subset_by_index is not None and tuple(subset_by_index) != (0, least):
        return by_eigenvalues(context, operand, full_matrices=full_matrices, compute_uv=compute_uv,
                              subset_by_index=subset_by_index, algorithm=algorithm)  # fmt: skip
    is_full = full_matrices and compute_uv
    batch, values = aval.shape[:-2], context.avals_out[0]
    u = aval.update(shape=(*batch, rows, rows if is_full else least))
    vh = aval.update(shape=(*batch, columns if is_full else least, columns))
    made = _call(context, "svd", [operand], [u, values, vh], "full" if is_full else "")
    return [made[1], made[0], made[2]] if compute_uv else [made[1]]


def _lu(context: Any, operand: Any) -> list[Any]:
    """As lu_p: the packed factors, pivots from 0, the permutation, of the last two dimensions."""
    from jax._src.interpreters import mlir

    (aval,) = context.avals_in
    packed, pivots, order = context.avals_out
    info = pivots.update(shape=aval.shape[:-2])
    made = _call(context, "getrf", [operand], [packed, pivots, info, order], "permutation")
    plain = context.replace(avals_in=[pivots], avals_out=[pivots])
    (from_0,) = mlir.lower_fun(lambda each: each - 1, multiple_results=False)(plain, made[1])
    return [made[0], from_0, made[3]]


def register() -> None:
    """Makes JAX lower `eigh`, `geqrf`, `householder_product` and `svd` for `neuron`, and `lu`, whose rule for all
    platforms is not made for `shard_map`."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    mlir.register_lowering(linalg.eigh_p, _eigh, platform="neuron")
    mlir.register_lowering(linalg.geqrf_p, _geqrf, platform="neuron")
    mlir.register_lowering(linalg.householder_product_p, _householder_product, platform="neuron")
    mlir.register_lowering(linalg.lu_p, _lu, platform="neuron")
    mlir.register_lowering(linalg.svd_p, _svd, platform="neuron")
