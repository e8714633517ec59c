"""What tests/jax/test_both_cores.py runs: products on one logical core and training on two, their values and times.

    python tests/jax/both_cores.py VALUES.npz

The last line on stdout is JSON: of each program the seconds of a run, and in "used" what a profile says of its cores.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import opentrn


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def mlp(x, up, down):
    return jax.nn.relu(x @ up) @ down


def step(weights, x):
    def loss(weights):
        up, down = weights
        return jnp.mean((mlp(x, up, down) - x) ** 2)

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def main() -> None:
    x, up, down = normal(0, 512, 256), normal(1, 256, 1024) / 16, normal(2, 1024, 256) / 32
    mesh = Mesh(np.array(jax.devices()[:2]), ("dp",))
    put = lambda value, *axes: jax.device_put(value, NamedSharding(mesh, P(*axes)))  # noqa: E731
    whole = np.float32(np.arange(512 * 256).reshape(512, 256) // 7 % 5 - 2)  # products of which are exact
    calls = {
        "mlp": (jax.jit(mlp), (x, up, down)),
        "counts": (jax.jit(lambda a, b: a @ b), (whole, np.float32(np.round(up * 16)))),
        "step": (jax.jit(step), ((put(up), put(down)), put(normal(3, 1024, 256), "dp"))),
    }
    values, seconds = {}, {}
    with opentrn.profile_program() as profile:
        for name, (function, arguments) in calls.items():
            result = function(*arguments)
            for i, leaf in enumerate(jax.tree.leaves(result)):
                values[f"{name}{i}"] = np.asarray(leaf)
            seconds[name] = function.lower(*arguments).compile().cost_analysis()["optimal_seconds"]
    np.savez(sys.argv[1], **values)
    used = {row["name"]: [row.get("physical_cores_used"), row.get("both_cores_by"), row.get("one_core_because")]
            for row in profile.data["programs"]}  # fmt: skip
    print(json.dumps({"seconds": seconds, "used": used}))


if __name__ == "__main__":
    main()
