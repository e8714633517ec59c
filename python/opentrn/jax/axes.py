"""Functions as lowering rules, also inside `jax.shard_map` with checked axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def lowering(function: Callable[..., Any], *, multiple_results: bool) -> Callable[..., Any]:
    """`function` of JAX's, traced for each use, as the rule of a primitive.

    What it computes with is one device's part, and its loops may begin with zeros that no device has another of. It is
    traced as if parts were the same on every device and arrays whole, so that JAX asks for no casts between the two.
    What the program forbids its own code (implicit promotion of types and ranks) is not forbidden here.
    """
    import jax
    from jax._src import core
    from jax._src.interpreters import mlir

    def permitted(*arguments: Any, **parameters: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return function(*arguments, **parameters)

    rule = mlir.lower_fun(permitted, multiple_results=multiple_results)

    def lowered(context: Any, *arguments: Any, **parameters: Any) -> Any:
        plain = [_plain(aval) if isinstance(aval, core.ShapedArray) else aval for aval in context.avals_in]
        return rule(context.replace(avals_in=plain), *arguments, **parameters)

    return lowered


def _plain(aval: Any) -> Any:
    from jax._src import core
    from jax.sharding import PartitionSpec

    whole = aval.sharding.update(spec=PartitionSpec(*[None] * aval.ndim))
    return aval.update(sharding=whole, manual_axis_type=core.empty_mat)
