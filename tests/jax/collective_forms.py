"""Collectives of JAX programs on eight devices, in every form: `jit` with shardings, shard_map, pmap, all forms of
replica groups. Compares them with NumPy, and prints the name of each form.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax.extend import backend
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

N = 8
X = np.random.default_rng(5).integers(-40, 40, (N, N)).astype(np.float32)
ROWS = X.reshape(2, 4, N)  # of the mesh below
PAIRS = [(i, (i + 3) % N) for i in range(N)]


def by_jit() -> None:
    mesh = Mesh(np.array(jax.devices()[:N]).reshape(2, 4), ("a", "b"))
    put = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec)))  # noqa: E731
    out = lambda *spec: NamedSharding(mesh, P(*spec))  # noqa: E731
    product = jax.jit(lambda x, y: x @ y, out_shardings=out())(put(X, None, ("a", "b")), put(X, ("a", "b")))
    np.testing.assert_array_equal(product, X @ X)
    print("jit: contracted")
    scattered = jax.jit(lambda x, y: x @ y, out_shardings=out("b"))(put(X, "a", "b"), put(X, "b"))
    np.testing.assert_array_equal(scattered, X @ X)
    print("jit: contracted, then cut")
    for name, before, after in (
        ("gathered", P(("a", "b")), P()),
        ("exchanged", P("a", "b"), P("b", "a")),
        ("turned", P(("a", "b")), P(None, ("a", "b"))),
    ):
        moved = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh, after))(put(X, *before))
        np.testing.assert_array_equal(moved, X * 2)
        print("jit:", name)


def by_shard_map() -> None:
    mesh = Mesh(np.array(jax.devices()[:N]).reshape(2, 4), ("a", "b"))
    total, row, column = X.sum(0), ROWS.sum(1), ROWS.sum(0)
    forms = {
        "psum of all": (lambda x: lax.psum(x, ("a", "b")), np.tile(total, (N, 1))),
        "psum of rows": (lambda x: lax.psum(x, "b"), np.repeat(row, 4, 0)),
        "psum of columns": (lambda x: lax.psum(x, "a"), np.tile(column, (2, 1))),
        "pmax": (lambda x: lax.pmax(x, "b"), np.repeat(ROWS.max(1), 4, 0)),
        "pmean": (lambda x: lax.pmean(x, "a"), np.tile(ROWS.mean(0), (2, 1))),
        "all_gather": (lambda x: lax.all_gather(x[0], "b")[3 - lax.axis_index("b")][None], ROWS[:, ::-1].reshape(N, N)),
        "psum_scatter": (
            lambda x: jnp.pad(lax.psum_scatter(x[0], ("a", "b"), tiled=True), (0, N - 1))[None],
            np.pad(total[:, None], ((0, 0), (0, N - 1))),
        ),
        "all_to_all": (
            lambda x: lax.all_to_all(x.reshape(N, 1), ("a", "b"), 0, 1, tiled=True).reshape(1, N),
            X.T,
        ),
        "ppermute": (lambda x: lax.ppermute(x, ("a", "b"), PAIRS), np.roll(X, 3, 0)),
        "a ring of permutes": (
            lambda x: lax.fori_loop(0, 3, lambda _, y: lax.ppermute(y, "b", [(i, (i + 1) % 4) for i in range(4)]), x),
            np.roll(ROWS, 3, 1).reshape(N, N),
        ),
    }
    for name, (form, want) in forms.items():
        mapped = jax.jit(
            jax.shard_map(form, mesh=mesh, in_specs=P(("a", "b")), out_specs=P(("a", "b")), check_vma=False)
        )
        np.testing.assert_array_equal(mapped(X), want, err_msg=name)
        print("shard_map:", name)


def by_pmap() -> None:
    total = np.tile(X.sum(0), (N, 1))
    np.testing.assert_array_equal(jax.pmap(lambda x: lax.psum(x, "i"), "i")(X), total)
    print("pmap: psum")
    groups = [[0, 3, 5, 6], [7, 4, 2, 1]]
    want = np.stack([X[next(g for g in groups if i in g)].sum(0) for i in range(N)])
    np.testing.assert_array_equal(jax.pmap(lambda x: lax.psum(x, "i", axis_index_groups=groups), "i")(X), want)
    print("pmap: groups out of order")
    shuffled = jax.pmap(lambda x: lax.pshuffle(x, "i", [*range(1, N), 0]), "i")(X)
    np.testing.assert_array_equal(shuffled, np.roll(X, -1, 0))
    print("pmap: pshuffle")


# Attributes of an all-reduce of a program of eight partitions of one replica, which is what JAX's programs are, and the
# devices of which each device gets the sum.
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
TURNED, RAGGED = [[0, 5, 6, 3], [4, 1, 2, 7]], [[6, 1, 3], [0, 2], [4, 5, 7]]
FORMS = {
    "of replicas": ("replica_groups = dense<[[0]]> : tensor<1x1xi64>", [[i] for i in range(N)]),
    "of replicas and their partitions": (f"replica_groups = dense<[[0]]> : tensor<1x1xi64>, {CHANNEL}", [[*range(N)]]),
    "of flattened ids": (
        f"replica_groups = dense<{TURNED}> : tensor<2x4xi64>, {CHANNEL}, use_global_device_ids",
        TURNED,
    ),
    "of unequal sizes": (
        "replica_groups = dense<[[6, 1, 3], [0, 2, -1], [4, 5, 7]]> : tensor<3x3xi64>, "
        f"{CHANNEL}, use_global_device_ids",
        RAGGED,
    ),
}
PROGRAM = """
module @forms attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
    %0 = "stablehlo.all_reduce"(%x) <{{{attributes}}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }}) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}
"""


def by_replica_groups() -> None:
    client = backend.get_backend()
    devices = client.devices()[:N]
    for name, (attributes, groups) in FORMS.items():
        options = compiler.get_compile_options(1, N, np.array(devices).reshape(1, N))
        with mlir.make_ir_context():
            module = mlir.ir.Module.parse(PROGRAM.format(attributes=attributes))
            on = xla_client.DeviceList(tuple(devices))
            loaded = compiler.backend_compile_and_load(client, module, on, options, [])
        parts = [jax.device_put(row, device) for row, device in zip(X, devices, strict=True)]
        cut = NamedSharding(Mesh(np.array(devices), ("i",)), P("i"))
        whole = jax.make_array_from_single_device_arrays((N * N,), cut, parts)
        [results] = loaded.execute_sharded([whole]).disassemble_into_single_device_arrays()
        for i, result in enumerate(results):
            want = sum(X[member] for member in next(group for group in groups if i in group))
            np.testing.assert_array_equal(result, want, err_msg=name)
        print("groups", name)


if __name__ == "__main__":
    by_jit()
    by_shard_map()
    by_pmap()
    by_replica_groups()
