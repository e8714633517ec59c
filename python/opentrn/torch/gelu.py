"""The gradient of GELU in fewer passes than torch's decomposition has.

Each line below is one instruction on the device: a function of the Scalar engine, or at most one number and one tensor
beside the operand (`nki.isa.scalar_tensor_tensor`). In float32, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_CUBIC = 0.044715  # of the tangent's form


def _of_tangent(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of x (1 + tanh(b (x + c x^3))) / 2: half the tangent, and the rest of the derivative less one half."""
    b = math.sqrt(2 / math.pi)
    square = x * x
    inner = (square * _CUBIC + 1) * x
    tangent = torch.tanh(inner * b)
    # The zero that a saturated tangent leaves meets x first: x^3 is infinite where x^2 is not.
    left = (tangent * tangent - 1) * x
    return tangent * 0.5, left * (square * (1.5 * b * _CUBIC) + 0.5 * b)


def gelu_backward(grad: Tensor, given: Tensor, approximate: str = "none") -> Tensor:
    """aten.gelu_backward, of any shape and float type."""
    x, g = given.to(torch.float32), grad.to(torch.float32)
    if approximate == "tanh":
        half, rest = _of_tangent(x)
        derivative = half - rest
    else:
        density = torch.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)) * x
        derivative = torch.erf(x * math.sqrt(0.5)) * 0.5 + density
    return ((derivative + 0.5) * g).to(given.dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {aten.gelu_backward.default: gelu_backward}
