"""A convolutional classifier of scikit-learn's handwritten digits, in plain JAX.

    JAX_PLATFORMS=neuron python examples/digits.py                 # simulated NeuronCore, fp32
    NEURON_RT_STOCHASTIC_ROUNDING_EN=1 JAX_PLATFORMS=neuron python examples/digits.py --dtype bfloat16
    JAX_PLATFORMS=cpu python examples/digits.py                    # JAX's CPU

Parameters, activations and Adam's moments are all of --dtype; with bfloat16 it is stochastic rounding that keeps small
updates from being lost. The last line is the accuracy on the images that were not trained on. Needs scikit-learn,
whose package carries the 1797 images.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

TEST = 360  # images kept from training


def initial_parameters(key: jax.Array, dtype: jnp.dtype) -> dict[str, jax.Array]:
    shapes = {"conv1": (3, 3, 1, 16), "conv2": (3, 3, 16, 32), "dense": (4 * 4 * 32, 64), "out": (64, 10)}
    parameters = {}
    for name, draw in zip(shapes, jax.random.split(key, len(shapes)), strict=True):
        inputs = int(np.prod(shapes[name][:-1]))
        parameters[name] = (jax.random.normal(draw, shapes[name]) * np.sqrt(2 / inputs)).astype(dtype)
        parameters[name + "_bias"] = jnp.zeros(shapes[name][-1], dtype)
    return parameters


def logits(parameters: dict[str, jax.Array], images: jax.Array) -> jax.Array:
    """`images`: (batch, 8, 8, 1), from 0 to 1."""
    x = images
    for name, stride in (("conv1", 1), ("conv2", 2)):
        x = jax.lax.conv_general_dilated(
            x, parameters[name], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + parameters[name + "_bias"])
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ parameters["dense"] + parameters["dense_bias"])
    return x @ parameters["out"] + parameters["out_bias"]


def loss(parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    scores = jax.nn.log_softmax(logits(parameters, images).astype(jnp.float32))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def step(
    parameters: dict, moments: tuple[dict, dict], images, labels, rate, count
) -> tuple[dict, tuple, jax.Array]:
    """One step of Adam."""
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)

    def update(p, m, v, g):
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        scale = rate * jnp.sqrt(1 - 0.98**count) / (1 - 0.9**count)
        return (p - scale.astype(p.dtype) * m / (jnp.sqrt(v) + 1e-6)).astype(p.dtype), m, v

    made = {
        name: update(parameters[name], *(m[name] for m in moments), gradients[name]) for name in parameters
    }
    parameters, first, second = ({name: parts[i] for name, parts in made.items()} for i in range(3))
    return parameters, (first, second), value


@jax.jit
def correct(parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    return (logits(parameters, images).argmax(-1) == labels).sum()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    dtype = jnp.dtype(options.dtype)
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order][..., None] / 16).astype(dtype)
    labels = digits.target[order].astype(np.int32)
    test_images, test_labels = images[:TEST], labels[:TEST]
    images, labels = images[TEST:], labels[TEST:]

    parameters = initial_parameters(jax.random.key(options.seed), dtype)
    # Buffers of their own: a donated one must not be another argument too.
    moments = tuple(jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
    draw = np.random.default_rng(options.seed)
    count, began = 0, time.perf_counter()
    steps = len(labels) // options.batch
    total = steps * options.epochs
    for epoch in range(options.epochs):
        shuffled = draw.permutation(len(labels))
        values = []
        for i in range(steps):
            rows = shuffled[i * options.batch : (i + 1) * options.batch]
            rate = np.float32(options.rate * (1 - count / total))
            count += 1
            parameters, moments, value = step(
                parameters, moments, images[rows], labels[rows], rate, np.float32(count)
            )
            values.append(value)
        print(
            f"epoch {epoch + 1:>3}  loss {np.mean(jax.device_get(values)):.4f}  {time.perf_counter() - began:.1f} s"
        )
    right = sum(
        int(correct(parameters, test_images[i : i + 90], test_labels[i : i + 90])) for i in range(0, TEST, 90)
    )
    print(f"test accuracy {right / TEST:.4f}")


if __name__ == "__main__":
    main()
