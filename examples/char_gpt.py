"""A character-level GPT in plain JAX, trained on the text of a licence.

    JAX_PLATFORMS=neuron python examples/char_gpt.py --steps 200     # simulated NeuronCore
    JAX_PLATFORMS=cpu python examples/char_gpt.py --steps 200        # JAX's CPU: the same losses

Nothing in it knows of OpenTrn. It prints the loss every few steps, the time of a step on this host, and some text.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

LICENCE = Path(__file__).resolve().parent.parent / "LICENSE"


def initial_parameters(key: jax.Array, vocabulary: int, width: int, layers: int, context: int) -> dict:
    keys = iter(jax.random.split(key, 4 * layers + 2))

    def weight(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) * 0.02

    block = {
        "qkv": (width, 3 * width),
        "out": (width, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    return {
        "embedding": weight(vocabulary, width),
        "position": weight(context, width),
        "blocks": [
            {name: weight(*shape) for name, shape in block.items()}
            | {"norm1": jnp.ones(width), "norm2": jnp.ones(width)}
            for _ in range(layers)
        ],
    }


def layer_norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain


def attention(x: jax.Array, block: dict, heads: int) -> jax.Array:
    batch, context, width = x.shape

    def split(t: jax.Array) -> jax.Array:
        return t.reshape(batch, context, heads, width // heads).transpose(0, 2, 1, 3)

    q, k, v = (split(t) for t in jnp.split(x @ block["qkv"], 3, axis=-1))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(width // heads)
    scores = jnp.where(jnp.tril(jnp.ones((context, context), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return mixed @ block["out"]


def logits(parameters: dict, tokens: jax.Array, heads: int) -> jax.Array:
    h = parameters["embedding"][tokens] + parameters["position"][: tokens.shape[1]]
    for block in parameters["blocks"]:
        h = h + attention(layer_norm(h, block["norm1"]), block, heads)
        h = h + jax.nn.gelu(layer_norm(h, block["norm2"]) @ block["up"]) @ block["down"]
    return h @ parameters["embedding"].T


def loss(parameters: dict, tokens: jax.Array, targets: jax.Array, heads: int) -> jax.Array:
    log_probabilities = jax.nn.log_softmax(logits(parameters, tokens, heads))
    return -jnp.take_along_axis(log_probabilities, targets[..., None], -1).mean()


@partial(jax.jit, static_argnames="heads", donate_argnums=(0, 1))
def step(parameters: dict, momentum: dict, tokens: jax.Array, targets: jax.Array, heads: int):
    value, gradients = jax.value_and_grad(loss)(parameters, tokens, targets, heads)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    parameters = jax.tree.map(lambda p, m: p - 0.1 * m, parameters, momentum)
    return parameters, momentum, value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--text", type=Path, default=LICENCE)
    o = parser.parse_args()

    text = o.text.read_text()
    letters = sorted(set(text))
    tokens = np.array([letters.index(letter) for letter in text], np.int32)
    parameters = initial_parameters(jax.random.key(0), len(letters), o.width, o.layers, o.context)
    momentum = jax.tree.map(jnp.zeros_like, parameters)
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    for i in range(o.steps):
        places = rng.integers(0, len(tokens) - o.context - 1, o.batch)
        x = np.stack([tokens[p : p + o.context] for p in places])
        y = np.stack([tokens[p + 1 : p + 1 + o.context] for p in places])
        parameters, momentum, value = step(parameters, momentum, x, y, heads=o.heads)
        if i == 0:
            value.block_until_ready()
            print(
                f"{jax.default_backend()}: first step {time.perf_counter() - started:.2f} s, compilation included"
            )
            started = time.perf_counter()
        if i % max(1, o.steps // 10) == 0 or i == o.steps - 1:
            print(f"step {i:5d}  loss {float(value):.5f}")
    if o.steps > 1:
        print(f"{(time.perf_counter() - started) / (o.steps - 1):.3f} s per step")


if __name__ == "__main__":
    main()
