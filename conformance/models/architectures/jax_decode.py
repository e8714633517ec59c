"""One step of a decoder in JAX: the new key and value are written into the cache at a run-time position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from conformance.models.architectures.jax_bert import norm
from conformance.models.case import JaxCase, Tolerance, normal, seeded_arrays


@dataclass(frozen=True)
class Configuration:
    """The sizes of GPT-2 small; length: of the cache."""

    hidden: int = 768
    layers: int = 12
    heads: int = 12
    vocabulary: int = 50257
    length: int = 256


FULL = Configuration()
SMALL = Configuration(hidden=64, layers=2, heads=4, vocabulary=500, length=32)


def shapes(c: Configuration) -> list[tuple[int, ...]]:
    h = (c.hidden,)
    layer = [h, h, (c.hidden, 3 * c.hidden), (3 * c.hidden,), (c.hidden, c.hidden), h, h, h,
             (c.hidden, 4 * c.hidden), (4 * c.hidden,), (4 * c.hidden, c.hidden), h]  # fmt: skip
    return [(c.vocabulary, c.hidden), (c.length, c.hidden), *(layer * c.layers), h, h]


def step(c: Configuration) -> Callable[..., Any]:
    """(weights..., id, position, keys, values) -> logits, keys, values; caches: [layers, length, heads, width]."""
    width = c.hidden // c.heads

    def function(*arguments: Any) -> Any:
        table, positions, *layers, scale, shift, token, at, keys, values = arguments
        x = jnp.take(table, token, axis=0) + jax.lax.dynamic_index_in_dim(positions, at, 0, keepdims=False)
        new_keys, new_values = [], []
        for i in range(c.layers):
            s1, b1, qkv, qkv_bias, out, out_bias, s2, b2, up, up_bias, down, down_bias = layers[
                12 * i : 12 * i + 12
            ]
            q, k, v = jnp.split(norm(x, s1, b1) @ qkv + qkv_bias, 3)
            key = jax.lax.dynamic_update_index_in_dim(keys[i], k.reshape(c.heads, width), at, 0)
            value = jax.lax.dynamic_update_index_in_dim(values[i], v.reshape(c.heads, width), at, 0)
            score = jnp.einsum("hw,khw->hk", q.reshape(c.heads, width), key) * width**-0.5
            weight = jax.nn.softmax(jnp.where(jnp.arange(c.length)[None] <= at, score, -1e30), axis=-1)
            x = x + jnp.einsum("hk,khw->hw", weight, value).reshape(c.hidden) @ out + out_bias
            x = x + jax.nn.gelu(norm(x, s2, b2) @ up + up_bias) @ down + down_bias
            new_keys.append(key)
            new_values.append(value)
        return norm(x, scale, shift) @ table.T, jnp.stack(new_keys), jnp.stack(new_values)

    return function


def build(c: Configuration) -> JaxCase:
    cache = (c.layers, c.length, c.heads, c.hidden // c.heads)
    arguments = [*seeded_arrays(shapes(c)), np.int32(7), np.int32(c.length // 2)]
    arguments += [normal(cache, seed=1), normal(cache, seed=2)]
    return JaxCase(step(c), arguments, Tolerance(relative=1e-4, cosine=0.999999))
