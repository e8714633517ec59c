"""ResNet-50 in JAX, channels last, batch norm folded to a scale and a shift; weights are arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from conformance.models.case import JaxCase, Tolerance, normal, seeded_arrays


@dataclass(frozen=True)
class Configuration:
    """blocks: per stage; width: channels of the first stage; image: pixels of a side."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    image: int = 224
    classes: int = 1000


FULL = Configuration()
SMALL = Configuration(blocks=(1, 1), width=16, image=48, classes=10)


def convolutions(c: Configuration) -> list[tuple[int, int, int, int]]:
    """(size, channels in, channels out, stride), in the order in which weights are taken; a block that changes
    its shape has a fourth, the way round."""
    rows = [(7, 3, c.width, 2)]
    channels = c.width
    for stage, count in enumerate(c.blocks):
        width = c.width << stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            rows += [(1, channels, width, 1), (3, width, width, stride), (1, width, 4 * width, 1)]
            if block == 0:
                rows.append((1, channels, 4 * width, stride))
            channels = 4 * width
    return rows


def shapes(c: Configuration) -> list[tuple[int, ...]]:
    weights: list[tuple[int, ...]] = []
    for size, channels, out, _ in convolutions(c):
        weights += [(size, size, channels, out), (out,), (out,)]
    return [*weights, (4 * c.width << (len(c.blocks) - 1), c.classes), (c.classes,)]


def network(c: Configuration) -> Callable[..., Any]:
    """(weights..., image [1, side, side, 3]) -> logits."""
    rows = convolutions(c)

    def function(*arguments: Any) -> Any:
        *weights, dense, bias, x = arguments
        taken = iter(range(len(rows)))

        def convolution(x: Any) -> Any:
            at = next(taken)
            size, _, _, stride = rows[at]
            kernel, scale, shift = weights[3 * at : 3 * at + 3]
            pad = [(size // 2, size // 2)] * 2
            y = jax.lax.conv_general_dilated(
                x, kernel, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            return y * (1 + scale) + shift

        x = jax.nn.relu(convolution(x))
        x = jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]
        )
        for count in c.blocks:
            for block in range(count):
                y = jax.nn.relu(convolution(x))
                y = convolution(jax.nn.relu(convolution(y)))
                x = jax.nn.relu(y + (convolution(x) if block == 0 else x))
        return jnp.mean(x, axis=(1, 2)) @ dense + bias

    return function


def build(c: Configuration) -> JaxCase:
    image = normal((1, c.image, c.image, 3))
    return JaxCase(network(c), [*seeded_arrays(shapes(c)), image], Tolerance(relative=1e-4, cosine=0.999999))
