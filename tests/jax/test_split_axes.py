"""Shardings by a part of a mesh axis: fewer heads of keys than devices, and what else reshapes leave."""

from __future__ import annotations

import pytest

from tests.jax.test_programs import DEVICES, run

pytest.importorskip("jax", reason="the platform is JAX's")


# Two heads of keys and values for eight of queries, on eight devices; weights cut along their heads.
ATTENTION = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("tp",))
cut = lambda a, *spec: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))
def attention(x, wq, wk, wv, wo):
    q, k, v = ((x @ w).reshape(2, 16, -1, 4) for w in (wq, wk, wv))
    k, v = (jnp.repeat(a, 4, 2) for a in (k, v))
    q, k, v = (cut(a, None, None, "tp", None) for a in (q, k, v))
    p = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    return (cut(jnp.einsum("bhqk,bkhd->bqhd", p, v).reshape(2, 16, 32) @ wo, None, None, None) ** 2).sum()
rng = np.random.default_rng(0)
make = lambda *shape: rng.standard_normal(shape).astype(np.float32) / 4
x, wq, wk, wv, wo = make(2, 16, 32), make(32, 32), make(32, 8), make(32, 8), make(32, 32)
put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
f = jax.jit(jax.value_and_grad(attention, argnums=(0, 1, 2, 3, 4)))
for leaf in jax.tree.leaves(f(x, put(wq, None, "tp"), wk, wv, put(wo, "tp", None))):
    print(leaf.shape, *np.asarray(leaf, np.float64).ravel()[:5].round(4).tolist())
"""


def test_fewer_heads_of_keys_than_devices_stay_spread():
    ours = run("neuron", "-c", ATTENTION, **DEVICES, OPENTRN_STRICT="1")
    theirs = run("cpu", "-c", ATTENTION, **DEVICES)
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    numbers = [[[float(word) for word in line.split(") ")[1].split()] for line in done.stdout.splitlines()]
               for done in (ours, theirs)]  # fmt: skip
    assert len(numbers[0]) == 6
    for a, b in zip(*numbers, strict=True):
        assert a == pytest.approx(b, rel=2e-3, abs=2e-3)


# Rows of a table whose columns are cut, and a loop that writes slices of stacked arrays with a cut dimension.
STACKED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("tp",))
put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
rng = np.random.default_rng(0)
table = rng.standard_normal((40, 64)).astype(np.float32)
weights = rng.standard_normal((3, 64, 64)).astype(np.float32) / 8
def loss(table, weights, tokens):
    x = jax.lax.with_sharding_constraint(table[tokens], NamedSharding(mesh, P()))
    x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)
    return (x ** 2).sum()
f = jax.jit(jax.grad(loss, argnums=(0, 1)))
arguments = put(table, None, "tp"), put(weights, None, None, "tp"), np.arange(6) * 5
for leaf in f(*arguments):
    print(leaf.shape, *np.asarray(leaf, np.float64).ravel()[::997].round(4).tolist())
compiled = f.lower(*arguments).compile()
print("COST", compiled.cost_analysis().get("optimal_seconds"))
text = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(*arguments).compile().as_text()
print("GATHERED", "tensor<40x64xf32>" in text or "tensor<3x64x64xf32>" in text)
"""


def test_stacked_weights_and_tables_are_not_gathered():
    ours = run("neuron", "-c", STACKED, **DEVICES, OPENTRN_STRICT="1")
    theirs = run("cpu", "-c", STACKED, **DEVICES)
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    lines = ours.stdout.splitlines()
    for a, b in zip(lines[:2], theirs.stdout.splitlines()[:2], strict=True):
        wanted = [float(word) for word in b.split(") ")[1].split()]
        assert [float(word) for word in a.split(") ")[1].split()] == pytest.approx(wanted, abs=2e-2)
    # A program that has loops with collectives has a time before it has run: its loops count.
    assert float(lines[2].split()[1]) > 0
    assert lines[3] == "GATHERED False"
