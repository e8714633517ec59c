"""Activation functions of the Scalar engine, float32 to float32.

The device approximates them with piecewise polynomials whose coefficients are not public; these are the exact
functions, within float32 rounding. The one documented deviation is kept: `sin` has no range reduction and
continues its outermost cubic beyond [-pi, pi], so that sin(9.0) = 27.65 (nki.api.shared, note below the
activation table).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from opentrn.errors import NkiValidationError

F32 = np.float32
_ERF_STEP = 1.0 / 16


@cache
def _erf_table() -> np.ndarray:
    return np.array([math.erf(i * _ERF_STEP) for i in range(int(6 / _ERF_STEP) + 1)])


def erf(x: np.ndarray) -> np.ndarray:
    """The error function: Taylor expansion of degree 7 around the nearest of 97 tabulated points, in float64.

    The derivatives are c*exp(-t^2) times Hermite polynomials; with |d| <= 1/32 the remainder is below 1e-12.
    """
    x = np.asarray(x, np.float64)
    a = np.minimum(np.abs(x), 6.0)  # erf(6) rounds to 1
    a = np.where(np.isnan(x), 0.0, a)
    i = np.rint(a / _ERF_STEP).astype(np.int64)
    t = i * _ERF_STEP
    d = a - t
    term = 2 / math.sqrt(math.pi) * np.exp(-t * t) * d
    result = _erf_table()[i] + term
    previous, hermite = np.ones_like(t), 2 * t  # H0, H1
    for n in range(1, 7):
        term = -term * d / (n + 1)
        result = result + term * hermite
        previous, hermite = hermite, 2 * t * hermite - 2 * n * previous
    return np.where(np.isnan(x), x, np.copysign(result, x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return F32(1) / (F32(1) + np.exp(-x))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, F32(0)) + np.log1p(np.exp(-np.abs(x)))


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x.astype(np.float64) * (1 + erf(x / math.sqrt(2)))


def _gelu_dx(x: np.ndarray) -> np.ndarray:
    wide: np.ndarray = x.astype(np.float64)
    density = np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + erf(wide / math.sqrt(2))) + np.where(np.isinf(wide), 0.0, wide * density)


def _gelu_apprx_tanh(x: np.ndarray) -> np.ndarray:
    inner = F32(math.sqrt(2 / math.pi)) * (x + F32(0.044715) * x * x * x)
    return F32(0.5) * x * (F32(1) + np.tanh(inner))


def _gelu_apprx_sigmoid_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(F32(1.702) * x)
    return s + F32(1.702) * x * s * (F32(1) - s)


def _silu_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(x)
    return s * (F32(1) + x * (F32(1) - s))


def _sin(x: np.ndarray) -> np.ndarray:
    beyond = np.abs(x) - F32(math.pi)
    cubic = np.copysign(beyond * beyond * beyond / F32(6) - beyond, x)
    return np.where(beyond > 0, cubic, np.sin(np.clip(x, F32(-math.pi), F32(math.pi))))


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "copy": lambda x: x,
    "bypass": lambda x: x,
    "square": np.square,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, F32(0)),
    "gelu": _gelu,
    "gelu_dx": _gelu_dx,
    "gelu_apprx_tanh": _gelu_apprx_tanh,
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(F32(1.702) * x),
    "gelu_apprx_sigmoid_dx": _gelu_apprx_sigmoid_dx,
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": _silu_dx,
    "tanh": np.tanh,
    "softplus": _softplus,
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "erf": erf,
    "erf_dx": lambda x: F32(2 / math.sqrt(math.pi)) * np.exp(-x * x),
    "exp": np.exp,
    "sign": np.sign,
    "abs": np.abs,
    "log": np.log,
    "sin": _sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: F32(1) / np.sqrt(x),
    "reciprocal": lambda x: F32(1) / x,
}


def activate(name: str, x: np.ndarray, relu_param: np.ndarray | np.floating | float = 0.0) -> np.ndarray:
    """Apply the activation function `name` to float32 values; `relu_param` is the negative slope of prelu."""
    with np.errstate(all="ignore"):
        if name == "prelu":
            return np.where(x > 0, x, np.asarray(relu_param, F32) * x).astype(F32)
        try:
            function = FUNCTIONS[name]
        except KeyError:
            raise NkiValidationError(
                f"{name} is not an activation function (nki.api.shared, nki-act-func)"
            ) from None
        return np.asarray(function(x), F32)
