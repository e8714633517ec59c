"""A BERT encoder in JAX; weights are arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from conformance.models.case import JaxCase, Tolerance, seeded_arrays, tokens


@dataclass(frozen=True)
class Configuration:
    """The defaults are BERT-large."""

    hidden: int = 1024
    inner: int = 4096
    layers: int = 24
    heads: int = 16
    vocabulary: int = 30522
    length: int = 128


FULL = Configuration()
SMALL = Configuration(hidden=64, inner=128, layers=2, heads=4, vocabulary=500, length=16)


def shapes(c: Configuration) -> list[tuple[int, ...]]:
    """Of the weights, in the order in which the function takes them."""
    h = (c.hidden,)
    square = [(c.hidden, c.hidden), h]
    layer = [*(square * 4), h, h, (c.hidden, c.inner), (c.inner,), (c.inner, c.hidden), h, h, h]
    return [(c.vocabulary, c.hidden), (c.length, c.hidden), h, h, *(layer * c.layers)]


def norm(x: Any, scale: Any, shift: Any) -> Any:
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return (
        centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-12) * (1 + scale)
        + shift
    )


def encoder(c: Configuration) -> Callable[..., Any]:
    """(weights..., token ids, mask) -> hidden states [tokens, hidden]."""
    width = c.hidden // c.heads

    def layer(x: Any, mask: Any, weights: Any) -> Any:
        q, qb, k, kb, v, vb, o, ob, scale, shift, up, up_bias, down, down_bias, scale2, shift2 = weights
        query, key, value = ((x @ w + b).reshape(-1, c.heads, width) for w, b in ((q, qb), (k, kb), (v, vb)))
        score = jnp.einsum("qhw,khw->hqk", query, key) * width**-0.5
        weight = jax.nn.softmax(jnp.where(mask[None, None], score, -1e30), axis=-1)
        mixed = jnp.einsum("hqk,khw->qhw", weight, value).reshape(-1, c.hidden)
        x = norm(x + mixed @ o + ob, scale, shift)
        inner = jax.nn.gelu(x @ up + up_bias, approximate=False)
        return norm(x + inner @ down + down_bias, scale2, shift2)

    def function(*arguments: Any) -> Any:
        words, positions, scale, shift, *layers, ids, mask = arguments
        x = norm(jnp.take(words, ids, axis=0) + positions, scale, shift)
        for at in range(0, len(layers), 16):
            x = layer(x, mask, layers[at : at + 16])
        return x

    return function


def build(c: Configuration) -> JaxCase:
    ids = tokens((c.length,), c.vocabulary).astype("int32")
    mask = np.arange(c.length) < c.length * 3 // 4
    return JaxCase(
        encoder(c), [*seeded_arrays(shapes(c)), ids, mask], Tolerance(relative=1e-4, cosine=0.999999)
    )
