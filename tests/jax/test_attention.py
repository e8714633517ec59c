"""jax.nn.dot_product_attention is the attention kernel, on one device and where heads or queries are sharded."""

from __future__ import annotations

import textwrap

import pytest

from tests.jax.test_programs import run

pytest.importorskip("jax", reason="the platform is JAX's")

SETUP = """
import functools, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

rng = np.random.default_rng(0)
attend = jax.nn.dot_product_attention

def us(function, *arguments, **options):
    cost = jax.jit(function, **options).lower(*arguments).compile().cost_analysis()
    return 1e6 * (cost[0] if isinstance(cost, list) else cost)["optimal_seconds"]

def given(*shape):
    return jnp.asarray(rng.standard_normal(shape), jnp.float32)
"""


def test_values_are_the_hosts_whatever_shares_keys_and_is_masked():
    """Queries, keys, heads, heads of keys, features; and a bias, a mask, causal ones and those of lengths."""
    code = SETUP + textwrap.dedent(
        """
        cases = [
            (256, 256, 4, 4, 64, {}), (256, 256, 6, 3, 64, {"is_causal": True}), (128, 256, 6, 3, 32, {}),
            (130, 70, 4, 2, 48, {"scale": 0.3}), (1, 512, 8, 2, 64, {}),
            (128, 128, 4, 2, 64, {"bias": given(2, 4, 128, 128)}),
            (128, 128, 4, 2, 64, {"bias": given(1, 1, 128, 128)}),
            (128, 128, 4, 2, 64, {"mask": given(2, 4, 128, 128) > 0}),
            (64, 64, 4, 4, 64,
             {"query_seq_lengths": jnp.array([40, 64]), "key_value_seq_lengths": jnp.array([64, 33])}),
        ]
        for t, s, heads, shared, features, options in cases:
            q, k, v = given(2, t, heads, features), given(2, s, shared, features), given(2, s, shared, features)
            arrays = {name: each for name, each in options.items() if isinstance(each, jax.Array)}
            others = {name: each for name, each in options.items() if name not in arrays}
            step = jax.jit(functools.partial(attend, **others))
            found = np.asarray(step(q, k, v, **arrays))
            moved = jax.device_put((q, k, v, arrays), jax.devices("cpu")[0])
            wanted = np.asarray(step(*moved[:3], **moved[3]))
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
        print("right")
        """
    )
    done = run("neuron,cpu", "-c", code)
    assert done.stdout == "right\n", done.stderr


def test_heads_over_eight_devices_take_the_time_of_one_head():
    """On one device product by product 92 us; the kernel takes a quarter of that, and so does each of eight."""
    code = SETUP + textwrap.dedent(
        """
        mesh = Mesh(np.array(jax.devices()[:8]), ("x",))
        causal = functools.partial(attend, is_causal=True)
        one = jax.ShapeDtypeStruct((1, 1024, 1, 128), jnp.bfloat16)
        by_heads = NamedSharding(mesh, P(None, None, "x", None))
        eight = jax.ShapeDtypeStruct((1, 1024, 8, 128), jnp.bfloat16, sharding=by_heads)
        alone, each = us(causal, one, one, one), us(causal, eight, eight, eight, out_shardings=by_heads)
        assert alone < 30, alone
        assert abs(each - alone) < 0.1, (alone, each)

        # Queries that are cut read all keys; the mask knows its rows when it runs.
        whole = NamedSharding(mesh, P())
        by_rows = NamedSharding(mesh, P(None, "x", None, None))
        q, k, v = given(2, 256, 4, 64), given(2, 256, 2, 64), given(2, 256, 2, 64)
        for options in ({}, {"is_causal": True}):
            wanted = np.asarray(jax.jit(functools.partial(attend, **options))(q, k, v))
            for rows in (by_rows, whole):
                laid = jax.device_put(q, by_rows), jax.device_put(k, rows), jax.device_put(v, rows)
                found = jax.jit(functools.partial(attend, **options), out_shardings=by_rows)(*laid)
                np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)
        print("right")
        """
    )
    done = run("neuron", "-c", code, NEURON_RT_NUM_CORES="8", OPENTRN_STRICT="1")
    assert done.stdout == "right\n", done.stderr


def test_keys_and_values_in_fp8_are_read_as_they_are_kept():
    """A decode step's: widened by the kernel, not by an op of its own, which took twice the kernel's time."""
    code = SETUP + textwrap.dedent(
        """
        def step(q, k, v, mask):
            k, v = k.astype(q.dtype), v.astype(q.dtype)
            scores = jnp.einsum("bqd,bkd->bqk", q, k, preferred_element_type=jnp.float32) * 0.1
            scores = jnp.where(mask, scores, -jnp.inf)
            weights = jnp.exp(scores - scores.max(-1, keepdims=True))
            weights = (weights / weights.sum(-1, keepdims=True)).astype(q.dtype)
            return jnp.einsum("bqk,bkd->bqd", weights, v, preferred_element_type=jnp.float32)

        for queries, keys, features in ((4, 2048, 128), (1, 1024, 64), (8, 640, 96)):
            q = given(4, queries, features).astype(jnp.bfloat16)
            k, v = given(4, keys, features), given(4, keys, features)
            mask = given(4, 1, keys) > 0
            for kind in (jnp.float8_e4m3, jnp.float8_e5m2):
                narrow = k.astype(kind), v.astype(kind)
                wide = [each.astype(jnp.bfloat16) for each in narrow]
                found = np.asarray(jax.jit(step)(q, *narrow, mask))
                moved = jax.device_put((q, *narrow, mask), jax.devices("cpu")[0])
                np.testing.assert_allclose(found, np.asarray(jax.jit(step)(*moved)), rtol=0.02, atol=0.004)
                assert us(step, q, *narrow, mask) < 1.1 * us(step, q, *wide, mask)
        print("right")
        """
    )
    done = run("neuron,cpu", "-c", code)
    assert done.stdout == "right\n", done.stderr
