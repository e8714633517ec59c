"""Mesh axes inside `jax.shard_map`: which of them the parts of an array differ along, as its checks want to know."""

from __future__ import annotations

from typing import Any


def varying_as(made: Any, given: Any) -> Any:
    """`made`, the same on every device, as an array whose parts may differ where `given`'s do.

    Loops want what they carry to be of one type from the start.
    """
    import jax

    axes = jax.typeof(given).manual_axis_type.varying - jax.typeof(made).manual_axis_type.varying
    return jax.lax.pcast(made, tuple(sorted(axes)), to="varying") if axes else made
