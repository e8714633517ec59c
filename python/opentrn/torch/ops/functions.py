"""Functions of one tensor, element by element: those of the mathematics library, rounding, activations."""

from __future__ import annotations

import math
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.arithmetic import truncated
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value
from opentrn.torch.types import is_float, is_signed, math_dtype

# StableHLO's or CHLO's op of the same meaning; whole numbers become the result's float first.
_DIRECT = {
    "acos": "chlo.acos",
    "acosh": "chlo.acosh",
    "asin": "chlo.asin",
    "asinh": "chlo.asinh",
    "atan": "chlo.atan",
    "atanh": "chlo.atanh",
    "cos": "cosine",
    "cosh": "chlo.cosh",
    "erf": "chlo.erf",
    "erfc": "chlo.erfc",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "lgamma": "chlo.lgamma",
    "log": "log",
    "log1p": "log_plus_one",
    "rsqrt": "rsqrt",
    "sigmoid": "logistic",
    "sin": "sine",
    "sinh": "chlo.sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
_PRIMS = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1",
    "lgamma", "log", "log1p", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
}  # fmt: skip


def _direct(op: str, name: str) -> None:
    @emits(f"{op}.default", *([f"prims.{op}"] if op in _PRIMS else []))
    def rule(body: Emitter, out: Spec, value: Value) -> Value:
        return body.unary(name, body.convert(value, out.dtype))


for _op, _name in _DIRECT.items():
    _direct(_op, _name)


@emits("digamma.default", "prims.digamma")
def digamma(body: Emitter, out: Spec, value: Value) -> Value:
    """At zero the infinity of the other sign, as torch has it; StableHLO's is NaN there."""
    value = body.convert(value, out.dtype)
    zero, one = body.like(0, value), body.like(1, value)
    pole = body.unary("negate", body.divide(one, value))
    return body.select(body.compare("EQ", value, zero), pole, body.unary("chlo.digamma", value))


@emits("erfinv.default", "prims.erf_inv")
def erfinv(body: Emitter, out: Spec, value: Value) -> Value:
    return body.unary("chlo.erf_inv", body.convert(value, out.dtype))


def _log_of_base(base: float, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, value: Value) -> Value:
        wide = body.unary("log", body.convert(value, math_dtype(out.dtype)))
        return body.convert(body.multiply(wide, body.like(1 / math.log(base), wide)), out.dtype)


_log_of_base(2.0, "log2.default", "prims.log2")
_log_of_base(10.0, "log10.default", "prims.log10")


@emits("exp2.default", "prims.exp2")
def exp2(body: Emitter, out: Spec, value: Value) -> Value:
    wide = body.convert(value, math_dtype(out.dtype))
    return body.convert(body.binary("power", body.like(2, wide), wide), out.dtype)


@emits("reciprocal.default", "prims.reciprocal")
def reciprocal(body: Emitter, out: Spec, value: Value) -> Value:
    value = body.convert(value, out.dtype)
    return body.divide(body.like(1, value), value)


@emits("abs.default", "prims.abs")
def absolute(body: Emitter, out: Spec, value: Value) -> Value:
    if not (value.dtype.is_complex or is_signed(value.dtype)) or value.dtype == torch.bool:
        return value
    return body.op("abs", [value], out.shape, out.dtype)


@emits("neg.default", "prims.neg")
def negative(body: Emitter, out: Spec, value: Value) -> Value:
    if not is_float(value.dtype) and not value.dtype.is_complex and not is_signed(value.dtype):
        return body.subtract(body.like(0, value), value)
    return body.unary("negate", value)


@emits("sign.default", "prims.sign", "sgn.default")
def sign(body: Emitter, out: Spec, value: Value) -> Value:
    """0 for NaN, unlike StableHLO's."""
    if value.dtype == torch.bool:
        return value
    if value.dtype.is_complex:
        return body.unary("sign", value)
    zero = body.like(0, value)
    above, below = body.compare("GT", value, zero), body.compare("LT", value, zero)
    if not is_signed(value.dtype):
        return body.convert(above, out.dtype)
    return body.select(above, body.like(1, value), body.select(below, body.like(-1, value), zero))


@emits("signbit.default", "prims.signbit")
def signbit(body: Emitter, out: Spec, value: Value) -> Value:
    if not is_float(value.dtype):
        return body.convert(body.compare("LT", value, body.like(0, value)), out.dtype)
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.dtype.itemsize]
    if width == torch.int64:
        value, width = body.convert(value, torch.float32), torch.int32
    bits = body.op("bitcast_convert", [value], value.shape, width)
    return body.convert(body.compare("LT", bits, body.like(0, bits)), out.dtype)


def _rounding(name: str, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, value: Value) -> Value:
        return body.unary(name, value) if is_float(value.dtype) else body.convert(value, out.dtype)


_rounding("ceil", "ceil.default", "prims.ceil")
_rounding("floor", "floor.default", "prims.floor")
_rounding("round_nearest_even", "round.default", "prims.round")


@emits("trunc.default", "prims.trunc", "fix.default")
def trunc(body: Emitter, out: Spec, value: Value) -> Value:
    return truncated(body, value)


@emits("round.decimals")
def round_decimals(body: Emitter, out: Spec, value: Value, decimals: int = 0) -> Value:
    if not is_float(value.dtype):
        return value
    wide = body.convert(value, math_dtype(out.dtype))
    scale = body.like(10.0 ** abs(decimals), wide)
    there, back = ("multiply", "divide") if decimals >= 0 else ("divide", "multiply")
    rounded = body.unary("round_nearest_even", body.binary(there, wide, scale))
    return body.convert(body.binary(back, rounded, scale), out.dtype)


@emits("isnan.default")
def isnan(body: Emitter, out: Spec, value: Value) -> Value:
    if not (is_float(value.dtype) or value.dtype.is_complex):
        return body.splat(False, torch.bool, value.shape)
    return body.is_nan(value)


@emits("isinf.default")
def isinf(body: Emitter, out: Spec, value: Value) -> Value:
    if not is_float(value.dtype):
        return body.splat(False, torch.bool, value.shape)
    size = body.unary("abs", value)
    return body.compare("EQ", size, body.like(math.inf, size))


@emits("isfinite.default", "prims.isfinite")
def isfinite(body: Emitter, out: Spec, value: Value) -> Value:
    if not is_float(value.dtype):
        return body.splat(True, torch.bool, value.shape)
    return body.op("is_finite", [value], value.shape, torch.bool)


# ---- activations -----------------------------------------------------------------------------------------------


@emits("relu.default")
def relu(body: Emitter, out: Spec, value: Value) -> Value:
    return body.binary("maximum", value, body.like(0, value))


@emits("gelu.default")
def gelu(body: Emitter, out: Spec, value: Value, approximate: str = "none") -> Value:
    """In the forms that the compiler knows as one function of the Scalar engine."""
    half, one = body.like(0.5, value), body.like(1, value)
    if approximate == "tanh":
        cube = body.multiply(body.multiply(value, value), value)
        inner = body.add(value, body.multiply(body.like(0.044715, value), cube))
        bent = body.unary("tanh", body.multiply(body.like(math.sqrt(2 / math.pi), value), inner))
    else:
        bent = body.unary("chlo.erf", body.multiply(value, body.like(math.sqrt(0.5), value)))
    return body.multiply(body.multiply(half, value), body.add(one, bent))


@emits("silu.default")
def silu(body: Emitter, out: Spec, value: Value) -> Value:
    return body.multiply(value, body.unary("logistic", value))


@emits("leaky_relu.default")
def leaky_relu(body: Emitter, out: Spec, value: Value, slope: Any = 0.01) -> Value:
    return body.select(
        body.compare("GT", value, body.like(0, value)), value, body.multiply(value, body.like(slope, value))
    )


@emits("hardtanh.default")
def hardtanh(body: Emitter, out: Spec, value: Value, low: Any = -1, high: Any = 1) -> Value:
    return body.binary(
        "minimum", body.binary("maximum", value, body.like(low, value)), body.like(high, value)
    )
