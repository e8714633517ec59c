"""Activation functions and powers against torch in float64: an implementation that shares nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

F = torch.nn.functional


def _derivative(function):
    def value(x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        function(x).sum().backward()
        return x.grad

    return value


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * torch.special.erfc(-x / math.sqrt(2))


TRUTH = {
    "sigmoid": torch.sigmoid,
    "gelu": _gelu,
    "gelu_dx": _derivative(_gelu),
    "gelu_apprx_tanh": lambda x: x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": _derivative(lambda x: x * torch.sigmoid(1.702 * x)),
    "silu": F.silu,
    "silu_dx": _derivative(F.silu),
    "tanh": torch.tanh,
    "softplus": lambda x: x.clamp(min=0) + torch.log1p(torch.exp(-x.abs())),
    "mish": lambda x: x * torch.tanh(x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))),
    "erf": torch.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * torch.exp(-x * x),
    "exp": torch.exp,
    "log": torch.log,
    "sin": torch.sin,
    "arctan": torch.atan,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
}
RANGE = {"log": (1e-38, 1e4), "sqrt": (0, 1e6), "rsqrt": (1e-30, 1e6), "sin": (-math.pi, math.pi)}
# Derivatives cross zero left of 0, where their error is that of the cancelling terms.
FLOOR = dict.fromkeys(("gelu_dx", "gelu_apprx_sigmoid_dx", "silu_dx"), 0.25)


@pytest.mark.parametrize("name", TRUTH)
def test_error_is_within_the_promised_ulp(numerics, name):
    low, high = RANGE.get(name, (-20.0, 20.0))
    rng = np.random.default_rng(1)
    row = rng.uniform(low, high, 200_000).astype(np.float32)
    row = np.concatenate([row, (rng.normal(size=200_000)).astype(np.float32)])
    row = row[(row >= np.float32(low)) & (row <= np.float32(high)) & (row != 0)]
    truth = TRUTH[name](torch.from_numpy(row).double()).numpy()
    scale = np.maximum(np.abs(truth), FLOOR.get(name, 0.0))
    ulp = np.ldexp(1.0, np.maximum(np.frexp(scale)[1] - 1, -126) - 23)
    error = np.abs(numerics.activate(name, row) - truth) / ulp
    worst = int(error.argmax())
    bound = numerics.activation_error_ulp(name)
    assert error[worst] <= bound, f"{name}({row[worst]!r}): {error[worst]:.2f} ulp"


def test_powers_agree_with_double_precision(numerics):
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(-80, 80, 300_000)).astype(np.float32)
    y = rng.uniform(-5, 5, 300_000).astype(np.float32)
    with np.errstate(over="ignore"):
        truth = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    assert (numerics.power(x, y) != truth).sum() <= 2


def test_sin_past_pi_is_the_documented_cubic(numerics):
    assert abs(numerics.activate("sin", np.array([9.0], np.float32))[0] - 27.65) < 0.005
