"""Randomised leaky ReLU: in training what is not positive is multiplied by a slope drawn for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _with_noise(
    x: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """(the result, what each element was multiplied by). Outside of training no slope is drawn."""
    if not training:
        return aten.leaky_relu(x, (lower + upper) / 2), noise.clone()
    drawn = torch.rand(x.shape, dtype=torch.float32, device=x.device) * (upper - lower) + lower
    slopes = torch.where(x <= 0, drawn.to(x.dtype), 1.0)
    return x * slopes, slopes.to(noise.dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {aten.rrelu_with_noise_functional.default: _with_noise}
