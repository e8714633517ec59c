"""What a module of architectures/ gives: a torch module with seeded weights, its inputs, and the tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 0


@dataclass(frozen=True)
class Tolerance:
    """How far the device may be from the reference.

    relative: largest absolute difference over the largest magnitude of the expected array.
    cosine: least cosine similarity of each output, flattened.
    Both hold for every output; integer outputs must be equal.
    """

    relative: float
    cosine: float


@dataclass(frozen=True)
class TorchCase:
    """A torch module, exported to ONNX; the reference is ONNX Runtime on the same file.

    inputs: by name, in the order of forward()'s arguments; float32, int32, int64 or bool.
    """

    module: Any
    inputs: dict[str, np.ndarray]
    tolerance: Tolerance


@dataclass(frozen=True)
class JaxCase:
    """A JAX function, lowered to StableHLO; the reference is XLA on the CPU.

    arguments: the weights first, then the inputs, as NumPy arrays: all are arguments of the program.
    """

    function: Callable[..., Any]
    arguments: Sequence[np.ndarray]
    tolerance: Tolerance


def generator() -> np.random.Generator:
    """Seeded random numbers for inputs and weights."""
    return np.random.default_rng(SEED)


def normal(shape: Sequence[int], scale: float = 1.0, seed: int = SEED) -> np.ndarray:
    """Seeded normal numbers, float32."""
    return (np.random.default_rng(seed).standard_normal(tuple(shape)) * scale).astype(np.float32)


def seeded_arrays(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Weights: normal numbers scaled by the square root of what a sum adds up, so that activations stay near one."""
    random = generator()
    return [
        (random.standard_normal(shape, np.float32) * (shape[-2] if len(shape) > 1 else 100) ** -0.5).astype(
            np.float32
        )
        for shape in shapes
    ]


def tokens(shape: Sequence[int], vocabulary: int) -> np.ndarray:
    """Seeded token ids, int64."""
    return generator().integers(0, vocabulary, tuple(shape)).astype(np.int64)


def seeded(make: Callable[[], Any]) -> Any:
    """A torch module made with a seeded generator, for inference."""
    import torch

    torch.manual_seed(SEED)
    return make().eval()
