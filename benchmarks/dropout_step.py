"""A training step of examples/char_gpt.py with dropout beside one without, on the platform `neuron`.

    JAX_PLATFORMS=neuron,cpu python -m benchmarks.dropout_step [--rate R] [--rounds N]

Masks are JAX's own (threefry), of the embedding and of both residuals of every layer. Predicted time is of one step,
launch included; host time is processor time of all threads, the median of the rounds, in turns; the loss is that of
JAX's CPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import opentrn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import char_gpt  # noqa: E402

VOCABULARY, WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 96, 128, 4, 4, 128, 16


def dropped(key: jax.Array, x: jax.Array, rate: float) -> jax.Array:
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)


def loss(parameters: Any, tokens: jax.Array, targets: jax.Array, key: jax.Array, rate: float) -> jax.Array:
    """char_gpt.loss() with dropout; a rate of 0 draws nothing."""
    keys = iter(jax.random.split(key, 1 + 2 * len(parameters["blocks"]))) if rate else None

    def drop(x: jax.Array) -> jax.Array:
        return dropped(next(keys), x, rate) if keys else x

    h = drop(parameters["embedding"][tokens] + parameters["position"][: tokens.shape[1]])
    for block in parameters["blocks"]:
        h = h + drop(char_gpt.attention(char_gpt.layer_norm(h, block["norm1"]), block, HEADS))
        h = h + drop(jax.nn.gelu(char_gpt.layer_norm(h, block["norm2"]) @ block["up"]) @ block["down"])
    log_probabilities = jax.nn.log_softmax(h @ parameters["embedding"].T)
    return -jnp.take_along_axis(log_probabilities, targets[..., None], -1).mean()


@partial(jax.jit, static_argnames="rate")
def step(parameters: Any, momentum: Any, tokens: jax.Array, targets: jax.Array, key: jax.Array, rate: float) -> Any:
    value, gradients = jax.value_and_grad(loss)(parameters, tokens, targets, key, rate)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda p, m: p - 0.1 * m, parameters, momentum), momentum, value


def predicted_ms(program: Any, arguments: Any) -> float:
    with opentrn.profile_program() as profile:
        jax.block_until_ready(program(*arguments))
    (one,) = profile.data["programs"]
    return one["device_us"] / one["runs"] / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    cpu, device = jax.devices("cpu")[0], jax.devices("neuron")[0]
    with jax.default_device(cpu):
        drawn = char_gpt.initial_parameters(jax.random.key(0), VOCABULARY, WIDTH, LAYERS, CONTEXT)
        words = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, CONTEXT + 1)).astype(np.int32)
        given = (drawn, jax.tree.map(jnp.zeros_like, drawn), words[:, :-1], words[:, 1:], jax.random.key(5))
    arguments = jax.device_put(jax.tree.map(np.asarray, given[:-1]) + (given[-1],), device)
    rates = (0.0, options.rate)
    programs = [step.lower(*arguments, rate=rate).compile() for rate in rates]
    predicted = [predicted_ms(program, arguments) for program in programs]
    host: list[list[float]] = [[], []]
    losses = [0.0, 0.0]
    for _ in range(options.rounds):
        for i, program in enumerate(programs):
            begin = time.process_time()
            made = jax.block_until_ready(program(*arguments))
            host[i].append(1e3 * (time.process_time() - begin))
            losses[i] = float(made[2])
    for name, (without, with_it) in {
        "predicted": predicted,
        "host, CPU": [statistics.median(times) for times in host],
    }.items():
        print(f"{name:10} {without:8.2f} ms without dropout, {with_it:8.2f} with: {with_it / without:.2f} times")
    wanted = [float(step(*jax.device_put(given, cpu), rate=rate)[2]) for rate in rates]
    print(f"losses differ by at most {max(abs(a - b) for a, b in zip(losses, wanted, strict=True)):.1e}")


if __name__ == "__main__":
    main()
