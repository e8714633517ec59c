"""Of a program that `opentrn plan --export jax` writes: attention in windows, before what attends."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from plan_export_jax import PLAN, WINDOW

# The program has what follows.


def in_window(scores):
    """Of blocks [sequences and blocks, heads, queries, keys of the block before and of its own]: as many keys as a
    window has, a query's own the last; before the first block there are none. What both say is small, and added."""
    counted = lambda axis, *shape: jax.lax.broadcasted_iota(jnp.int32, shape, axis)  # noqa: E731
    all_blocks, _, queries, keys = scores.shape
    query, key = counted(0, queries, keys), counted(1, queries, keys)
    near = jnp.where((key <= query + WINDOW) & (key > query), jnp.float32(0), -1e30)
    block, key = (counted(axis, all_blocks, keys) for axis in (0, 1))
    block = jax.lax.rem(block, -(-PLAN["seq"] // WINDOW))
    there = jnp.where((block > 0) | (key >= WINDOW), jnp.float32(0), -1e30)
    return scores + near + there[:, None, None]


def in_blocks(q, k, v):
    """Queries in blocks as long as a window, filled up, which are as sequences, with the keys and values of their block
    and the one before."""
    missing = -q.shape[1] % WINDOW
    filled = lambda y: jnp.pad(y, ((0, 0), (0, missing), (0, 0), (0, 0))) if missing else y  # noqa: E731
    blocks = lambda y: filled(y).reshape(y.shape[0], -1, WINDOW, *y.shape[2:])  # noqa: E731
    flat = lambda y: y.reshape(-1, *y.shape[2:])  # noqa: E731

    def with_last(y):
        before = jnp.pad(y[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))
        return jnp.concatenate((before, y), 2)

    return flat(blocks(q)), *(flat(with_last(blocks(y))) for y in (k, v))
