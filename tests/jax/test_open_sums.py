"""Sums that stay open between devices (`unreduced`) outside of a shard_map: each device holds its own term."""

from __future__ import annotations

import pytest

from tests.jax.test_programs import run

pytest.importorskip("jax", reason="the platform is JAX's")

BEGIN = """
import jax, jax.numpy as jnp, numpy as np
from jax import reshard
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
jax.set_mesh(mesh)
numbers = lambda *shape: (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(np.float32)
put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
shards = lambda a: [np.asarray(s.data) for s in sorted(a.addressable_shards, key=lambda s: s.device.id)]
a, b = numbers(4, 8), numbers(8, 6)
"""

# The values of each device; the sum of the terms along the axis, each device's in the order x0y0, x0y1, x1y0, x1y1.
CASES = {
    "a product's terms": """
f = jax.jit(lambda a, b: jnp.einsum("ab,bc->ac", a, b, out_sharding=P(None, None, unreduced={"x"})))
got = shards(f(put(a, None, "x"), put(b, "x", None)))
for device in range(4):
    half = slice(4 * (device // 2), 4 * (device // 2) + 4)
    np.testing.assert_array_equal(got[device], a[:, half] @ b[half])
""",
    "sums, transpositions and reshapes of terms": """
@jax.jit
def f(a, b):
    terms = jnp.einsum("ab,bc->ac", a, b, out_sharding=P(None, None, unreduced={"x"}))
    return (terms + terms).T.reshape(3, 2, 4)
got = f(put(a, None, "x"), put(b, "x", None))
assert got.sharding.spec.unreduced == {"x"}, got.sharding
for device, each in enumerate(shards(got)):
    half = slice(4 * (device // 2), 4 * (device // 2) + 4)
    np.testing.assert_array_equal(each, 2 * (a[:, half] @ b[half]).T.reshape(3, 2, 4))
np.testing.assert_array_equal(reshard(got, P()), 2 * (a @ b).T.reshape(3, 2, 4))
""",
    "sums that are cut off are made before": """
half = np.asarray(a) / 2
f = jax.jit(lambda a, b: jnp.einsum("ab,bc->ac", a, b, out_sharding=P(None, None, unreduced={"x"})).astype(jnp.int32))
np.testing.assert_array_equal(reshard(f(put(half, None, "x"), put(b, "x", None)), P()), (half @ b).astype(np.int32))
""",
    "sums of a program's own": """
@jax.jit
def f(a, b):
    terms = jnp.einsum("ab,bc->ac", a, b, out_sharding=P(None, None, unreduced={"x"}))
    whole = reshard(terms, P(None, None))
    return jnp.maximum(whole, 0), reshard(terms, P("x", None))
one, two = f(put(a, None, "x"), put(b, "x", None))
np.testing.assert_array_equal(one, np.maximum(a @ b, 0))
np.testing.assert_array_equal(two, a @ b)
""",
    "two axes, one of them summed": """
g = jax.jit(lambda a: jnp.einsum("ab->b", a, out_sharding=P(None, unreduced={"x", "y"})))
h = jax.jit(lambda a: reshard(a, P(None, unreduced={"y"})))
terms = g(put(a, ("x", "y"), None))
for device, each in enumerate(shards(terms)):
    np.testing.assert_array_equal(each, a[device])
one = h(terms)
for device, each in enumerate(shards(one)):
    np.testing.assert_array_equal(each, a[device % 2] + a[2 + device % 2])
""",
    "what lies in parts, and what all have": """
f = jax.jit(lambda a: a * 1, out_shardings=P(None, None, unreduced={"x"}))
for device, each in enumerate(shards(reshard(put(a, "x", None), P(None, None, unreduced={"x"})))):
    half = slice(2 * (device // 2), 2 * (device // 2) + 2)
    expected = np.zeros_like(a); expected[half] = a[half]
    np.testing.assert_array_equal(each, expected)
for device, each in enumerate(shards(reshard(put(a, None, None), P(None, None, unreduced={"x"})))):
    np.testing.assert_array_equal(each, a if device < 2 else 0 * a)
outer = reshard(put(b, ("x", "y"), None), P("y", None, unreduced={"x"}))
np.testing.assert_array_equal(reshard(outer, P()), b)
""",
    "a loop's sums are made once, behind it": """
@jax.jit
def f(a, b):
    begin = reshard(jnp.zeros((4, 6), jnp.float32), P(None, None, unreduced={"x"}))
    add = lambda total, each: (
        total + jnp.einsum("ab,bc->ac", a * each, b, out_sharding=P(None, None, unreduced={"x"})), None)
    total, _ = jax.lax.scan(add, begin, jnp.arange(1.0, 4.0, dtype=jnp.float32))
    return reshard(total, P(None, None))
arguments = put(a, None, "x"), put(b, "x", None)
np.testing.assert_array_equal(f(*arguments), 6 * (a @ b))
assert f.lower(*arguments).compile().as_text().count("all-reduce(") == 1
""",
    "into a shard_map and out of it": """
def inner(a):
    return a + a
m = jax.shard_map(inner, in_specs=P(None, unreduced={"x"}), out_specs=P(None, unreduced={"x"}), axis_names={"x", "y"})
@jax.jit
def f(a):
    terms = jnp.einsum("ab->b", a, out_sharding=P(None, unreduced={"x"}))
    return m(terms)
for device, each in enumerate(shards(f(put(a, "x", None)))):
    half = slice(2 * (device // 2), 2 * (device // 2) + 2)
    np.testing.assert_array_equal(each, 2 * a[half].sum(0))
""",
}


def test_each_device_holds_its_term_of_an_open_sum():
    """One device computed the whole sum, and the first term was all of it."""
    cases = "".join(f"{code}\nprint({name!r})\n" for name, code in CASES.items())
    done = run("neuron", "-c", BEGIN + cases, NEURON_RT_NUM_CORES="4")
    assert done.stdout.splitlines() == list(CASES), done.stdout + done.stderr
    assert "one device computes" not in done.stderr, done.stderr
