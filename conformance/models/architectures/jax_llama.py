"""A Llama decoder in JAX: RMS norm, rotary positions, grouped-query attention, SwiGLU; weights are arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from conformance.models.case import JaxCase, Tolerance, seeded_arrays, tokens


@dataclass(frozen=True)
class Configuration:
    """The defaults are Llama 2 7B, of which `layers` are taken; length: tokens of the prompt."""

    hidden: int = 4096
    inner: int = 11008
    layers: int = 32
    heads: int = 32
    groups: int = 32
    vocabulary: int = 32000
    length: int = 128

    @property
    def width(self) -> int:
        """Of a head."""
        return self.hidden // self.heads


SEVEN_B = Configuration()
FULL = Configuration(hidden=2048, inner=5632, layers=4, groups=4)
SMALL = Configuration(hidden=64, inner=176, layers=2, heads=4, groups=2, vocabulary=500, length=16)


def shapes(c: Configuration) -> list[tuple[int, ...]]:
    """Of the weights, in the order in which the function takes them."""
    groups = c.groups * c.width
    layer = [
        (c.hidden,),
        (c.hidden, c.hidden),
        (c.hidden, groups),
        (c.hidden, groups),
        (c.hidden, c.hidden),
        (c.hidden,),
        (c.hidden, c.inner),
        (c.hidden, c.inner),
        (c.inner, c.hidden),
    ]
    return [(c.vocabulary, c.hidden), *(layer * c.layers), (c.hidden,), (c.hidden, c.vocabulary)]


def norm(x: Any, weight: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def rotated(x: Any) -> Any:
    """Rotary positions; x: [tokens, heads, width]."""
    half = x.shape[-1] // 2
    frequency = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(x.shape[0], dtype=jnp.float32)[:, None] * frequency[None]
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(c: Configuration, x: Any, q: Any, k: Any, v: Any, out: Any) -> Any:
    tokens_ = x.shape[0]
    per_group = c.heads // c.groups
    query = rotated((x @ q).reshape(tokens_, c.heads, c.width)).reshape(tokens_, c.groups, per_group, c.width)
    key = rotated((x @ k).reshape(tokens_, c.groups, c.width))
    value = (x @ v).reshape(tokens_, c.groups, c.width)
    score = jnp.einsum("qgpw,kgw->gpqk", query, key) * c.width**-0.5
    visible = jnp.arange(tokens_)[:, None] >= jnp.arange(tokens_)[None]
    weight = jax.nn.softmax(jnp.where(visible, score, -1e30), axis=-1)
    return jnp.einsum("gpqk,kgw->qgpw", weight, value).reshape(tokens_, c.hidden) @ out


def decoder(c: Configuration) -> Callable[..., Any]:
    """(weights..., token ids) -> logits [tokens, vocabulary]."""

    def function(*arguments: Any) -> Any:
        table, *layers, last, head, ids = arguments
        x = jnp.take(table, ids, axis=0)
        for at in range(0, len(layers), 9):
            first, q, k, v, out, second, gate, up, down = layers[at : at + 9]
            x = x + attention(c, norm(x, first), q, k, v, out)
            y = norm(x, second)
            x = x + (jax.nn.silu(y @ gate) * (y @ up)) @ down
        return norm(x, last) @ head

    return function


def build(c: Configuration) -> JaxCase:
    ids = tokens((c.length,), c.vocabulary).astype("int32")
    return JaxCase(decoder(c), [*seeded_arrays(shapes(c)), ids], Tolerance(relative=1e-4, cosine=0.999999))
