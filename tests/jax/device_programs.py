"""JAX programs over eight devices, run as tests/jax/programs.py runs those over one."""

from __future__ import annotations

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.jax import programs
from tests.jax.programs import normal

PROGRAMS: dict = {}
MESH = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def over(*spec) -> NamedSharding:
    return NamedSharding(MESH, P(*spec))


@program
def arrays_over_devices():
    x = jax.device_put(normal(0, 8, 16), over("y", "x"))
    shapes = [shard.data.shape for shard in x.addressable_shards]
    return x, np.array(shapes), np.asarray(x.addressable_shards[5].data), x.sum(), (x @ x.T)


@program
def sharded_jit():
    f = jax.jit(
        lambda a, b: (jnp.tanh(a @ b), a.sum(0)),
        in_shardings=(over("x", "y"), over("y", None)),
        out_shardings=(over(("x", "y"), None), over()),
    )
    first, second = f(normal(1, 8, 16), normal(2, 16, 8))
    return first, second, np.array(first.addressable_shards[3].data.shape)


@program
def shard_map_without_collectives():
    f = jax.shard_map(lambda a: a * 2 + 1, mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y"))
    return jax.jit(f)(normal(3, 4, 8))


@program
def tensor_parallel_product():
    f = partial(jax.shard_map, mesh=MESH, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))
    return jax.jit(f(lambda a, b: jax.lax.psum(a @ b, "y")))(normal(4, 8, 16), normal(5, 16, 8))


@program
def every_collective():
    def body(a):
        i = jax.lax.axis_index("y").astype(jnp.float32)
        return (
            jax.lax.all_gather(a, "y", axis=1, tiled=True),
            jax.lax.psum_scatter(jnp.tile(a, (1, 4)), "y", scatter_dimension=1, tiled=True),
            jax.lax.all_to_all(jnp.tile(a, (4, 1)), "y", 0, 1, tiled=True),
            jax.lax.ppermute(a, "y", [(k, (k + 1) % 4) for k in range(4)]) + i,
            jax.lax.pmax(a, ("x", "y")),
        )

    specs = (P("x", "y"), P("x", "y"), P("x", "y"), P("x", "y"), P("x", "y"))
    f = jax.shard_map(body, mesh=MESH, in_specs=P("x", "y"), out_specs=specs, check_vma=False)
    return jax.jit(f)(normal(6, 4, 8))


@program
def pmapped_mean():
    return jax.pmap(lambda v: v - jax.lax.pmean(v, "i"), axis_name="i")(normal(7, 8, 5))


@program
def factorisations_in_shard_map_with_checked_axes():
    def body(a):
        q, r = jnp.linalg.qr(a)
        values, vectors = jnp.linalg.eigh(a.T @ a)
        return q @ r, jnp.abs(jnp.diag(r)), values, (vectors * values) @ vectors.T, q.T @ q, jnp.linalg.inv(r)

    f = jax.shard_map(body, mesh=MESH, in_specs=P("x", None), out_specs=P("x"))
    return jax.jit(f)(normal(13, 12, 4))


@program
def data_parallel_training():
    x, y = (
        jax.device_put(normal(8, 32, 8), over(("x", "y"))),
        jax.device_put(normal(9, 32, 1), over(("x", "y"))),
    )
    w = jax.device_put(normal(10, 8, 1), over())

    @jax.jit
    def step(w):
        value, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        return w - 0.1 * grad, value

    losses = []
    for _ in range(5):
        w, value = step(w)
        losses.append(value)
    return jnp.stack(losses), w


if __name__ == "__main__":
    programs.PROGRAMS = PROGRAMS
    programs.main(sys.argv[1])
