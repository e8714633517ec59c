"""Transformer blocks in JAX, written as StableHLO files for benchmarks.generated_code. Needs jax.

    python benchmarks/blocks.py FOLDER

Weights are arguments, everything is bf16 with norms and softmax in fp32, as the models' own code has it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

BF16 = jnp.bfloat16


def shape(*sizes: int, dtype: jnp.dtype = BF16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def dense(rows: int, columns: int) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Weight and bias."""
    return shape(rows, columns), shape(columns)


def layer_norm(x, gain, bias, epsilon=1e-5):
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = ((wide - mean) ** 2).mean(-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + epsilon)).astype(x.dtype) * gain + bias


def rms_norm(x, gain, epsilon=1e-5):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + epsilon)).astype(x.dtype) * gain


def attention(q, k, v, mask=None, causal=False):
    """q, k, v: [batch, tokens, heads, features]; mask: [batch, tokens], added; fewer k heads are shared."""
    if k.shape[2] != q.shape[2]:
        shared = q.shape[2] // k.shape[2]
        k, v = jnp.repeat(k, shared, axis=2), jnp.repeat(v, shared, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask[:, None, None, :]
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1).astype(q.dtype), v)


def heads(x, count: int):
    return x.reshape(*x.shape[:2], count, x.shape[2] // count)


def bert_layer(x, mask, wq, bq, wk, bk, wv, bv, wo, bo, g1, b1, w1, c1, w2, c2, g2, b2):
    q, k, v = (heads(x @ w + b, 12) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
    x = layer_norm(x + attention(q, k, v, mask).reshape(x.shape) @ wo + bo, g1, b1, 1e-12)
    return layer_norm(x + jax.nn.gelu(x @ w1 + c1, approximate=False) @ w2 + c2, g2, b2, 1e-12)


def pre_norm_layer(x, g1, b1, wqkv, bqkv, wo, bo, g2, b2, w1, c1, w2, c2, causal, approximate):
    """GPT-2's block (causal, tanh GELU) and ViT's."""
    q, k, v = (heads(part, 12) for part in jnp.split(layer_norm(x, g1, b1) @ wqkv + bqkv, 3, -1))
    x = x + attention(q, k, v, causal=causal).reshape(x.shape) @ wo + bo
    return x + jax.nn.gelu(layer_norm(x, g2, b2) @ w1 + c1, approximate=approximate) @ w2 + c2


def rotated(x, cosine, sine):
    half = x.shape[-1] // 2
    cosine, sine = cosine[None, :, None, :], sine[None, :, None, :]
    a, b = x.astype(jnp.float32)[..., :half], x.astype(jnp.float32)[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1).astype(x.dtype)


def llama_block(x, cosine, sine, g1, wq, wk, wv, wo, g2, gate, up, down):
    y = rms_norm(x, g1)
    q, k = rotated(heads(y @ wq, 32), cosine, sine), rotated(heads(y @ wk, 8), cosine, sine)
    x = x + attention(q, k, heads(y @ wv, 8), causal=True).reshape(x.shape) @ wo
    y = rms_norm(x, g2)
    return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down


def blocks() -> dict[str, tuple[Callable, list[jax.ShapeDtypeStruct]]]:
    """By name: the function and its arguments."""
    h, f = 768, 3072
    norm = [shape(h), shape(h)]
    square, up, down = dense(h, h), dense(h, f), dense(f, h)
    pre = [*norm, *dense(h, 3 * h), *square, *norm, *up, *down]
    wide = 2048
    angles = [shape(1024, 32, dtype=jnp.float32)] * 2
    llama = [shape(wide), shape(wide, wide), shape(wide, 512), shape(wide, 512), shape(wide, wide), shape(wide),
             shape(wide, 8192), shape(wide, 8192), shape(8192, wide)]  # fmt: skip
    return {
        "bert_base_layer_b8_s128": (
            bert_layer,
            [shape(8, 128, h), shape(8, 128, dtype=jnp.float32), *square * 4, *norm, *up, *down, *norm],
        ),
        "gpt2_block_s1024": (
            partial(pre_norm_layer, causal=True, approximate=True),
            [shape(1, 1024, h), *pre],
        ),
        "vit_b_block_b8_s197": (
            partial(pre_norm_layer, causal=False, approximate=False),
            [shape(8, 197, h), *pre],
        ),
        "llama_1b_block_s1024": (llama_block, [shape(1, 1024, wide), *angles, *llama]),
        "mlp_768_3072_s1024": (
            lambda x, w1, c1, w2, c2: jax.nn.gelu(x @ w1 + c1, approximate=False) @ w2 + c2,
            [shape(1024, h), *up, *down],
        ),
    }


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, arguments) in blocks().items():
        path = folder / f"{name}.mlir"
        path.write_text(jax.jit(function).lower(*arguments).as_text(), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
