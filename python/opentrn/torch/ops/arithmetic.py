"""Arithmetic, comparison and logic of two tensors, or of a tensor and a number."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits, require
from opentrn.torch.text import Spec, Value
from opentrn.torch.types import is_float, is_integer, is_signed, math_dtype, promoted


def both(
    body: Emitter, out: Spec, left: Any, right: Any, dtype: torch.dtype | None = None
) -> tuple[Value, Value]:
    """Operands in one type (default: the result's) and the result's shape."""
    dtype = dtype or out.dtype
    return body.tensor(left, dtype, out.shape), body.tensor(right, dtype, out.shape)


def _scaled(body: Emitter, right: Any, alpha: Any, dtype: torch.dtype) -> Any:
    if alpha == 1:
        return right
    if not isinstance(right, Value):
        return right * alpha
    converted = body.convert(right, dtype)
    return body.multiply(converted, body.like(alpha, converted))


@emits("add.Tensor", "add.Scalar", "prims.add")
def add(body: Emitter, out: Spec, left: Any, right: Any, alpha: Any = 1) -> Value:
    """left + alpha right"""
    a, b = both(body, out, left, _scaled(body, right, alpha, out.dtype))
    return body.add(a, b)


@emits("sub.Tensor", "sub.Scalar", "prims.sub")
def sub(body: Emitter, out: Spec, left: Any, right: Any, alpha: Any = 1) -> Value:
    a, b = both(body, out, left, _scaled(body, right, alpha, out.dtype))
    return body.subtract(a, b)


@emits("rsub.Tensor", "rsub.Scalar")
def rsub(body: Emitter, out: Spec, left: Any, right: Any, alpha: Any = 1) -> Value:
    return sub(body, out, right, _scaled(body, left, alpha, out.dtype))


@emits("mul.Tensor", "mul.Scalar", "prims.mul")
def mul(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    return body.multiply(*both(body, out, left, right))


def floored(body: Emitter, a: Value, b: Value) -> Value:
    """Quotient rounded down."""
    if is_float(a.dtype):
        # As torch computes it: exact where the quotient is a whole number, and of the remainder's sign.
        rest = body.binary("remainder", a, b)
        quotient = body.divide(body.subtract(a, rest), b)
        zero = body.like(0, a)
        differs = body.compare("NE", body.compare("LT", b, zero), body.compare("LT", rest, zero))
        inexact = body.binary("and", body.compare("NE", rest, zero), differs)
        quotient = body.select(inexact, body.subtract(quotient, body.like(1, a)), quotient)
        down = body.unary("floor", quotient)
        above = body.compare("GT", body.subtract(quotient, down), body.like(0.5, a))
        rounded = body.select(above, body.add(down, body.like(1, a)), down)
        plain = body.divide(a, b)
        return body.select(body.compare("EQ", b, zero), plain, rounded)
    quotient = body.divide(a, b)
    if not is_signed(a.dtype):
        return quotient
    rest = body.subtract(a, body.multiply(quotient, b))
    zero = body.like(0, a)
    differs = body.compare("NE", body.compare("LT", rest, zero), body.compare("LT", b, zero))
    inexact = body.binary("and", body.compare("NE", rest, zero), differs)
    return body.select(inexact, body.subtract(quotient, body.like(1, a)), quotient)


@emits("div", "true_divide.Tensor", "prims.div")
def div(body: Emitter, out: Spec, left: Any, right: Any, rounding_mode: str | None = None) -> Value:
    """left / right; rounding_mode "trunc" or "floor" gives whole numbers."""
    if rounding_mode is None:
        return body.divide(*both(body, out, left, right))
    dtype = math_dtype(out.dtype)
    a, b = both(body, out, left, right, dtype)
    if rounding_mode == "floor":
        return body.convert(floored(body, a, b), out.dtype)
    return body.convert(_whole_quotient(body, a, b), out.dtype)


def _whole_quotient(body: Emitter, a: Value, b: Value) -> Value:
    """Rounded towards zero. The device's quotient may be a unit below a whole number, so the remainder goes first."""
    plain = body.divide(a, b)
    if not is_float(a.dtype):
        return plain
    rest = body.binary("remainder", a, b)
    exact = body.unary("round_nearest_even", body.divide(body.subtract(a, rest), b))
    return body.select(body.op("is_finite", [rest], rest.shape, torch.bool), exact, truncated(body, plain))


def truncated(body: Emitter, value: Value) -> Value:
    """Towards zero; whole numbers stay."""
    if not is_float(value.dtype):
        return value
    down, up = body.unary("floor", value), body.unary("ceil", value)
    return body.select(body.compare("LT", value, body.like(0, value)), up, down)


@emits("floor_divide")
def floor_divide(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    return div(body, out, left, right, "floor")


@emits("remainder")
def remainder(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    """With the divisor's sign."""
    a, b = both(body, out, left, right, math_dtype(out.dtype))
    rest = body.binary("remainder", a, b)
    if is_float(a.dtype) or is_signed(a.dtype):
        zero = body.like(0, a)
        differs = body.compare("NE", body.compare("LT", rest, zero), body.compare("LT", b, zero))
        shift = body.binary("and", body.compare("NE", rest, zero), differs)
        rest = body.select(shift, body.add(rest, b), rest)
    return body.convert(rest, out.dtype)


@emits("fmod")
def fmod(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    """With the dividend's sign."""
    a, b = both(body, out, left, right, math_dtype(out.dtype))
    return body.convert(body.binary("remainder", a, b), out.dtype)


@emits("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", "prims.pow")
def power(body: Emitter, out: Spec, base: Any, exponent: Any) -> Value:
    """Small whole exponents are products, as in torch."""
    if not isinstance(exponent, Value):
        value = body.tensor(base, out.dtype, out.shape)
        if exponent == 1:
            return value
        if exponent == 0:
            return body.like(1, value)
        if exponent in (2, 3) and not isinstance(exponent, bool):
            wide = body.convert(value, math_dtype(out.dtype))
            square = body.multiply(wide, wide)
            return body.convert(square if exponent == 2 else body.multiply(square, wide), out.dtype)
        if is_float(out.dtype) and exponent in (0.5, -0.5, -1, -2):
            wide = body.convert(value, math_dtype(out.dtype))
            if exponent == 0.5:
                made = body.unary("sqrt", wide)
            elif exponent == -0.5:
                made = body.unary("rsqrt", wide)
            else:
                made = body.divide(body.like(1, wide), wide if exponent == -1 else body.multiply(wide, wide))
            return body.convert(made, out.dtype)
    dtype = math_dtype(out.dtype)
    a, b = both(body, out, base, exponent, dtype)
    return body.convert(body.binary("power", a, b), out.dtype)


@emits("maximum", "prims.maximum")
def maximum(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    return body.binary("maximum", *both(body, out, left, right))


@emits("minimum", "prims.minimum")
def minimum(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    return body.binary("minimum", *both(body, out, left, right))


def _without_nan(name: str) -> Any:
    def rule(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
        a, b = both(body, out, left, right)
        found = body.binary(name, a, b)
        if not is_float(a.dtype):
            return found
        return body.select(body.is_nan(a), b, body.select(body.is_nan(b), a, found))

    return rule


emits("fmax", "prims.fmax")(_without_nan("maximum"))
emits("fmin", "prims.fmin")(_without_nan("minimum"))


@emits("atan2", "prims.atan2")
def atan2(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    return body.binary("atan2", *both(body, out, left, right))


def _bitwise(name: str, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
        return body.binary(name, *both(body, out, left, right))


_bitwise("and", "bitwise_and", "prims.bitwise_and", "__and__")
_bitwise("or", "bitwise_or", "prims.bitwise_or", "__or__")
_bitwise("xor", "bitwise_xor", "prims.bitwise_xor", "__xor__")


def _shift(left_wards: bool, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
        require(is_integer(out.dtype), f"of {out.dtype} is not written")
        a, b = both(body, out, left, right)
        if left_wards:
            return body.binary("shift_left", a, b)
        return body.binary("shift_right_arithmetic" if is_signed(out.dtype) else "shift_right_logical", a, b)


_shift(True, "bitwise_left_shift", "prims.shift_left", "__lshift__")
_shift(False, "bitwise_right_shift", "prims.shift_right_arithmetic", "__rshift__")


@emits("bitwise_not", "prims.bitwise_not")
def bitwise_not(body: Emitter, out: Spec, value: Value) -> Value:
    return body.unary("not", value)


@emits("logical_not")
def logical_not(body: Emitter, out: Spec, value: Value) -> Value:
    return body.unary("not", body.convert(value, torch.bool))


def _logical(name: str, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
        return body.binary(name, *both(body, out, left, right, torch.bool))


_logical("and", "logical_and")
_logical("or", "logical_or")
_logical("xor", "logical_xor")


def _comparison(direction: str, *ops: str) -> None:
    @emits(*ops)
    def rule(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
        a, b = both(body, out, left, right, promoted(left, right))
        return body.compare(direction, a, b)


for _direction in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_direction.upper(), f"{_direction}.Tensor", f"{_direction}.Scalar", f"prims.{_direction}")


@emits("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", "prims.where")
def where(body: Emitter, out: Spec, condition: Value, left: Any, right: Any) -> Value:
    a, b = both(body, out, left, right)
    return body.select(body.tensor(condition, torch.bool, out.shape), a, b)


@emits("masked_fill")
def masked_fill(body: Emitter, out: Spec, value: Value, mask: Value, fill: Any) -> Value:
    return where(body, out, mask, fill, value)


@emits("clamp.default", "clamp.Tensor")
def clamp(body: Emitter, out: Spec, value: Value, low: Any = None, high: Any = None) -> Value:
    """NaN where any of the three is one."""
    made = body.tensor(value, out.dtype, out.shape)
    if low is not None:
        made = body.binary("maximum", made, body.tensor(low, out.dtype, out.shape))
    if high is not None:
        made = body.binary("minimum", made, body.tensor(high, out.dtype, out.shape))
    return made


@emits("clamp_min")
def clamp_min(body: Emitter, out: Spec, value: Value, low: Any) -> Value:
    return clamp(body, out, value, low)


@emits("clamp_max")
def clamp_max(body: Emitter, out: Spec, value: Value, high: Any) -> Value:
    return clamp(body, out, value, None, high)


@emits("addcmul.default")
def addcmul(body: Emitter, out: Spec, to: Value, left: Any, right: Any, *, value: Any = 1) -> Value:
    """to + value left right"""
    factor = value
    dtype = math_dtype(out.dtype)
    a, b = both(body, out, left, right, dtype)
    product = body.multiply(a, b)
    if factor != 1:
        product = body.multiply(product, body.like(factor, product))
    return body.convert(body.add(body.tensor(to, dtype, out.shape), product), out.dtype)


@emits("addcdiv.default")
def addcdiv(body: Emitter, out: Spec, to: Value, left: Any, right: Any, *, value: Any = 1) -> Value:
    """to + value left / right"""
    factor = value
    dtype = math_dtype(out.dtype)
    a, b = both(body, out, left, right, dtype)
    if factor != 1:
        a = body.multiply(a, body.like(factor, a))
    return body.convert(body.add(body.tensor(to, dtype, out.shape), body.divide(a, b)), out.dtype)


@emits("prims.fma")
def fma(body: Emitter, out: Spec, left: Any, right: Any, to: Any) -> Value:
    """left right + to; the device rounds twice."""
    a, b = both(body, out, left, right)
    return body.add(body.multiply(a, b), body.tensor(to, out.dtype, out.shape))


@emits("lerp.Scalar", "lerp.Tensor")
def lerp(body: Emitter, out: Spec, start: Value, end: Value, weight: Any) -> Value:
    """start + weight (end - start), from the nearer end."""
    dtype = math_dtype(out.dtype)
    a, b = both(body, out, start, end, dtype)
    share = body.tensor(weight, dtype, out.shape)
    span = body.subtract(b, a)
    near_start = body.add(a, body.multiply(share, span))
    near_end = body.subtract(b, body.multiply(span, body.subtract(body.like(1, share), share)))
    size = body.op("abs", [share], share.shape, share.dtype.to_real())
    return body.convert(
        body.select(body.compare("LT", size, body.like(0.5, size)), near_start, near_end), out.dtype
    )
