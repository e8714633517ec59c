"""Ops over arrays that eight devices cut in two ways, against the same on one device. Prints what differs.

What is right on one device must be right on eight: the partitioner of jaxlib 0.10.2 is wrong without a word for several
of these (python/opentrn/jax/shardy.py computes such ops whole).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

OPS = {
    "sum": lambda a: a.sum(),
    "min over one dimension": lambda a: a.min(1),
    "product": lambda a: (1 + a * 0.01).prod(1),
    "sum with a start value": lambda a: lax.reduce(a, np.float32(5), lax.add, (0, 1)),
    "maximum with a start value": lambda a: lax.reduce(a, np.float32(-9), lax.max, (1,)),
    "argmax": lambda a: a.argmax(1),
    "any": lambda a: (a > -1).any(0),
    "logsumexp": jax.nn.logsumexp,
    "scatter with add": lambda a: jax.ops.segment_sum(a, jnp.arange(8) % 3, 3),
    "scatter with max": lambda a: jax.ops.segment_max(a[:, 0], jnp.arange(8) % 3, 3),
    "cumsum": lambda a: a.cumsum(0),
    "sort": lambda a: jnp.sort(a, 1),
    "reverse": lambda a: a[::-1],
    "slice": lambda a: a[1:5, 3:9],
    "concatenate": lambda a: jnp.concatenate([a, a * 2], 0),
    "pad": lambda a: jnp.pad(a, ((1, 1), (2, 0))),
    "product of matrices": lambda a: a.T @ a,
    "iota": lambda a: a + jnp.arange(16),
    "gather": lambda a: a[jnp.array([3, 1, 7])],
    "convolution": lambda a: lax.conv(a[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), "SAME"),
    "scan": lambda a: lax.scan(lambda c, r: (c + r, c * r), a[0], a),
    "update": lambda a: lax.dynamic_update_slice(a, jnp.ones((2, 2)), (3, 5)),
    "cond": lambda a: lax.cond(a.sum() > 0, lambda: a * 2, lambda: a - 1),
    "index": lambda a: a[2],
    "slice with steps": lambda a: a[::2, ::3],
    "roll": lambda a: jnp.roll(a, 3, 1),
    "differences": lambda a: jnp.diff(a, axis=1),
    "reshape": lambda a: a.reshape(4, 2, 16).sum(1),
    "slice at a place that values say": lambda a: lax.dynamic_slice(a, (a[0, 0].astype(int) + 5, 1), (3, 4)),
    "rows of a table": lambda a: a[(a[:, 1].astype(int) % 8)],
    "windows": lambda a: lax.reduce_window(a, -np.inf, lax.max, (2, 3), (1, 2), "SAME"),
    "gradient of windows": jax.grad(
        lambda a: lax.reduce_window(a, -np.inf, lax.max, (2, 2), (2, 2), "VALID").sum()
    ),
    "random": lambda a: a + jax.random.uniform(jax.random.key(1), a.shape),
}


def main() -> None:
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    # Negative: a zero where a device has nothing is not the largest.
    a = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32) - 3
    for name, op in OPS.items():
        want = jax.tree.leaves(jax.jit(op)(a))
        for spec in (("x", "y"), (None, ("y", "x"))):
            cut = jax.device_put(a, NamedSharding(mesh, P(*spec)))
            for one, eight in zip(want, jax.tree.leaves(jax.jit(op)(cut)), strict=True):
                if not np.allclose(one, eight, rtol=1e-4, atol=1e-4):
                    print(f"{name} over {spec}: {np.abs(np.asarray(one) - np.asarray(eight)).max()}")
    print(f"{len(OPS)} ops")


if __name__ == "__main__":
    main()
