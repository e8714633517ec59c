"""A Mixture-of-Experts block in JAX: top-2 of a softmax router, weights are arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from conformance.models.architectures.jax_llama import norm
from conformance.models.architectures.moe import FULL, SMALL, Configuration
from conformance.models.case import JaxCase, Tolerance, normal, seeded_arrays

__all__ = ["FULL", "SMALL", "build"]


def block(c: Configuration) -> Callable[..., Any]:
    """(norm, router, gate, up, down, x) -> x + the experts' part, and the experts' numbers."""

    def function(*arguments: Any) -> Any:
        weight, router, gate, up, down, x = arguments
        flat = norm(x, weight)
        score, expert = jax.lax.top_k(jax.nn.softmax(flat @ router, axis=-1), c.best)
        score = score / jnp.sum(score, axis=-1, keepdims=True)
        share = jnp.einsum("tb,tbe->te", score, jax.nn.one_hot(expert, c.experts))
        inner = jax.nn.silu(jnp.einsum("th,ehi->eti", flat, gate)) * jnp.einsum("th,ehi->eti", flat, up)
        return x + jnp.einsum("eti,eih,te->th", inner, down, share), expert

    return function


def build(c: Configuration) -> JaxCase:
    wide = (c.experts, c.hidden, c.inner)
    shapes = [(c.hidden,), (c.hidden, c.experts), wide, wide, (c.experts, c.inner, c.hidden)]
    return JaxCase(
        block(c),
        [*seeded_arrays(shapes), normal((c.tokens, c.hidden))],
        Tolerance(relative=1e-4, cosine=0.999999),
    )
