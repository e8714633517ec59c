"""Programs of JAX with loops, branches, sorts and places known at run time, against JAX on CPU.

JAX is no dependency of OpenTrn: without it these tests are skipped.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import opentrn

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="compares with JAX, which is not installed")
jnp, lax = jax.numpy, jax.lax

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def newton(x):
    def unfinished(state):
        return (jnp.abs(state[0] * state[0] - x) > 1e-4) & (state[1] < 50)

    return lax.while_loop(unfinished, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0))


def recurrent(x, h, w, u):
    def step(h, row):
        h = jnp.tanh(row @ w + h @ u)
        return h, h

    return lax.scan(step, h, x)


def decode(token, cache, w):
    def step(state, _):
        cache, at, x = state
        key = x @ w
        cache = lax.dynamic_update_slice(cache, key[None], (at, 0))
        scores = jnp.where(jnp.arange(cache.shape[0]) <= at, cache @ key, -1e9)
        x = jax.nn.softmax(scores) @ cache
        return (cache, at + 1, x), x

    return lax.scan(step, (cache, jnp.int32(3), token), None, length=5)


def max_pool(x):
    pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return (pooled**2).sum()


def branch(p, x):
    return lax.cond(p > 0, lambda x: jnp.sin(x) + x.sum(), lambda x: x * 2, x)


def scan_of_branches(x):
    def step(c, row):
        return lax.cond(row.sum() > 0, lambda c: c + row, lambda c: c - 2 * row, c), c.max()

    return lax.scan(step, jnp.zeros(8), x)


def nested(x):
    def outer(i, c):
        return lax.fori_loop(0, i + 1, lambda j, d: d + x * (i - j), c)

    return lax.fori_loop(0, 3, outer, x)


def collatz(n):
    def step(s):
        return jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, 0))


def switch(i, x):
    return lax.switch(i, [lambda x: x + 1, lambda x: x * 2, lambda x: x - 3], x)


INTEGERS = RNG.integers(-50, 50, (5, 19)).astype(np.int32)
PROGRAMS = {
    "fori_loop": (lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.9 + x * i, x), normal(130, 9), np.int32(6)),
    "fori_loop without iterations": (lambda x, n: lax.fori_loop(0, n, lambda i, c: c + x, x), normal(3), np.int32(0)),
    "exchange": (lambda a, b: lax.fori_loop(0, 5, lambda i, c: (c[1], c[0] + c[1]), (a, b)), normal(3), normal(3)),
    "whole numbers": (lambda x: lax.fori_loop(0, 7, lambda i, c: (c * 3 + i) % 1000003, x), INTEGERS),
    "rows in place": (lambda x: lax.fori_loop(0, 5, lambda i, c: c.at[i].set(c[i] * 2 + i), x), normal(6, 4)),
    "large": (lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c) + c.T, x), normal(300, 300)),
    "nested": (nested, normal(6, 5)),
    "newton": (newton, np.float32(7.3)),
    "collatz": (collatz, np.int32(27)),
    "vmap of while": (
        jax.vmap(lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * 1.7, x)), np.abs(normal(11)) + 0.1,
    ),
    "recurrent": (recurrent, normal(12, 4, 16), normal(4, 32), normal(16, 32) * 0.2, normal(32, 32) * 0.2),
    "scan backwards": (
        lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.zeros(8), x, reverse=True), normal(9, 8),
    ),
    "scan over weights": (
        lambda x, w: lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, w)[0],
        normal(64, 128), normal(4, 128, 128) * 0.1,
    ),
    "decode": (decode, normal(16), normal(32, 16), normal(16, 16) * 0.3),
    "map": (lambda x: lax.map(jax.nn.softmax, x), normal(5, 16)),
    "associative scan": (lambda x: lax.associative_scan(jnp.add, x), normal(17, 5)),
    "running logsumexp": (lambda x: lax.cumlogsumexp(x, 0), normal(20, 6)),
    "cond, true": (branch, np.float32(1), normal(9, 11)),
    "cond, false": (branch, np.float32(-1), normal(9, 11)),
    "switch": (switch, np.int32(1), normal(9, 11)),
    "switch, clamped": (switch, np.int32(9), normal(9, 11)),
    "branches in a scan": (scan_of_branches, normal(9, 8)),
    "slice": (lambda x, i, j: lax.dynamic_slice(x, (i, j), (3, 4)), normal(10, 12), np.int32(4), np.int32(11)),
    "row": (lambda x, i: x[i], normal(7, 8), np.int32(-3)),
    "take along axis": (
        lambda x, i: jnp.take_along_axis(x, i, 1), normal(7, 8), RNG.integers(0, 8, (7, 3)).astype(np.int32),
    ),
    "take": (lambda x, i: jnp.take(x, i, axis=1), normal(4, 9, 5), RNG.integers(-3, 12, (2, 3)).astype(np.int32)),
    "sort": (jnp.sort, normal(13, 37)),
    "sort of columns": (lambda x: jnp.sort(x, axis=0), normal(37, 13)),
    "sort of whole numbers": (jnp.sort, INTEGERS),
    "argsort": (jnp.argsort, INTEGERS),
    "keys and values": (lambda k, v: lax.sort((k, v), num_keys=1), INTEGERS % 9, normal(5, 19)),
    "two keys": (lambda k, v: lax.sort((k, v), num_keys=2), INTEGERS % 9, normal(5, 19)),
    "top_k": (lambda x: lax.top_k(x, 5), normal(6, 50)),
    "top_k of many": (lambda x: lax.top_k(x, 40), np.round(normal(3, 20_000), 1)),
    "median": (jnp.median, normal(31)),
    "search": (jnp.searchsorted, np.sort(normal(40)), normal(9)),
    "gradient of max pooling": (jax.grad(max_pool), normal(2, 9, 9, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_jax_on_cpu(name):
    function, *arguments = PROGRAMS[name]
    compiled = jax.jit(function)
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(compiled(*arguments))]
    lowered = compiled.lower(*arguments)
    # jit drops the arguments that the function does not read.
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    model = opentrn.compile(lowered.as_text())
    outputs = model(*(np.asarray(arguments[i]) for i in kept))
    for actual, wanted in zip(outputs, expected, strict=True):
        assert actual.shape == wanted.shape
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(actual, wanted)
        else:
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=3e-5 * max(1e-30, np.abs(wanted).max()))
    assert model.time().total_ns > 0
