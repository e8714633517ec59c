"""`ppermute` on the platform `neuron`: pairs of ranks that an axis does not have are named.

JAX looks ranks up in a list while it lowers the op, and its IndexError says neither which nor of how many. The line of
the op stands in the traceback: JAX adds it to what a lowering raises.
"""

from __future__ import annotations

from typing import Any

from opentrn.errors import InputError


def _lower(ctx: Any, x: Any, *, axis_name: Any, perm: Any) -> Any:
    from jax._src.lax import parallel

    # As JAX, which takes -1 for the last rank.
    ranks = len(parallel._replica_groups(ctx.module_context.axis_context, axis_name, None)[0])
    missing = [pair for pair in perm if not all(-ranks <= rank < ranks for rank in pair)]
    if missing:
        pairs = ", ".join(f"rank {source} to rank {target}" for source, target in missing)
        raise InputError(
            f"ppermute sends from {pairs}, and the axis {', '.join(map(repr, axis_name))} has {ranks} ranks",
            label="graph.collective",
            hint=f"name ranks 0 to {ranks - 1} in perm",
        )
    return parallel._ppermute_lowering(ctx, x, axis_name=axis_name, perm=perm)


def register() -> None:
    """Makes JAX lower `ppermute` for `neuron` by the above."""
    from jax._src.interpreters import mlir
    from jax._src.lax import parallel

    mlir.register_lowering(parallel.ppermute_p, _lower, platform="neuron")
    mlir.register_lowering(parallel.ppermute_start_p, parallel._start_lowering(_lower), platform="neuron")
