"""`approx_max_k` and `approx_min_k` on the platform `neuron`: exact. XLA has a custom call for its own."""

from __future__ import annotations


def _approx_top_k(operand, *, k, reduction_dimension, is_max_k, **approximation):
    """As approx_top_k_p: the values, best first, and their places."""
    import jax
    import jax.numpy as jnp
    from jax._src.lax import ann

    aval = jax.core.ShapedArray(operand.shape, operand.dtype)
    stated, _ = ann._approx_top_k_abstract_eval(
        aval, k=k, reduction_dimension=reduction_dimension, is_max_k=is_max_k, **approximation
    )
    axis = reduction_dimension % operand.ndim
    rows = jnp.moveaxis(operand, axis, -1)
    values, places = jax.lax.top_k(rows if is_max_k else -rows, stated.shape[axis])
    values = values if is_max_k else -values
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(places, -1, axis)


def register() -> None:
    """Makes JAX lower `approx_top_k` for `neuron`."""
    from jax._src.interpreters import mlir
    from jax._src.lax import ann

    mlir.register_lowering(
        ann.approx_top_k_p, mlir.lower_fun(_approx_top_k, multiple_results=True), platform="neuron"
    )
