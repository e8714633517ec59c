"""What tests/jax/test_both_cores.py runs: products on one logical core and training on two, their values and times.

Products also around an NKI kernel, for one physical core or for both, around a callback, and in a shard_map.

    python tests/jax/both_cores.py VALUES.npz

The last line on stdout is JSON: of each program the seconds of a run, and in "used" what a profile says of its cores.
"""

from __future__ import annotations

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import opentrn
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

CALLED = []


@nki.jit
def doubled(a):
    """Each of its programs does its part of the rows."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    programs = nl.num_programs(0) if nl.program_ndim() else 1
    first = nl.program_id(0) if nl.program_ndim() else 0
    tiles = a.shape[0] // 128 // programs
    for i in nl.static_range(tiles):
        rows = nl.ds((first * tiles + i) * 128, 128)
        tile = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[rows, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[rows, :], src=tile)
    return out


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def mlp(x, up, down):
    return jax.nn.relu(x @ up) @ down


def around_a_kernel(x, up, down, programs=1):
    return doubled[programs](jax.nn.relu(x @ up)) @ down


def around_a_callback(x, up, down):
    def on_host(value):
        CALLED.append(value.shape)
        return np.sign(value)

    hidden = x @ up
    return jax.pure_callback(on_host, jax.ShapeDtypeStruct(hidden.shape, hidden.dtype), hidden) @ down


def mapped(x, up, down):
    """A region of one device, which adds up over itself."""
    mesh = Mesh(np.array(jax.devices()[:1]), ("tp",))
    body = lambda x, up, down: jax.lax.psum(mlp(x, up, down), "tp")  # noqa: E731
    return jax.shard_map(body, mesh=mesh, in_specs=(P(), P(None, "tp"), P("tp")), out_specs=P())(x, up, down)


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
        "kernel": (jax.jit(around_a_kernel), (x, up, down)),
        "kernel_on_two": (jax.jit(functools.partial(around_a_kernel, programs=2)), (x, up, down)),
        "callback": (jax.jit(around_a_callback), (x, up, down)),
        "mapped": (jax.jit(mapped), (x, up, down)),
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
    print(json.dumps({"seconds": seconds, "used": used, "called": CALLED}))


if __name__ == "__main__":
    main()
