"""Element-wise functions of nki.language.

Each is two things at once: passed as `op=nl.add` it names an operator, called as `nl.add(x, y)` it
allocates a tile in SBUF, emits the instructions and returns the tile. Nothing here computes: every value
comes from an instruction of `nki.isa`, so a kernel written with these functions is timed and checked like
any other.

Source: nki/api/nki/language. The composition of functions that no engine has (divide, mod, floor, sin outside
[-pi, pi], ...) is not documented; ours is stated at each function.
"""

from __future__ import annotations

import math
from typing import Any

from opentrn import strict
from opentrn.errors import ArgumentError, require
from opentrn.nki import isa as nisa
from opentrn.nki._machine import backend, is_tensor, machine, ndarray
from opentrn.types import dtypes
from opentrn.types.isa_enums import MemoryRegion

_TWO_PI = 2.0 * math.pi
# 2*pi as a sum of two floats, the first exact in 11 bits so that k * hi is exact for |k| < 2**13.
_TWO_PI_HI = 6.28125
_TWO_PI_LO = _TWO_PI - _TWO_PI_HI
_FIRST_OF_32 = (0,) * 32  # nc_stream_shuffle: every partition takes the first
_FP32_INTEGERS = 2.0**23  # from here on every fp32 is an integer


# --- helpers
# --------------------------------------------------------------------------------------------------


def tile(shape: tuple[int, ...], dtype: Any):
    """A fresh SBUF tile."""
    return ndarray(shape, dtype, MemoryRegion.sbuf)


def fp32(shape: tuple[int, ...]):
    """A fresh fp32 SBUF tile."""
    return ndarray(shape, dtypes.float32, MemoryRegion.sbuf)


def broadcast_partition(x, count: int):
    """Copy a one-partition tile to `count` partitions, bits unchanged.

    nc_stream_shuffle spreads the row inside each group of 32: that is how the Vector engine moves data across
    partitions. A row that is not the first of a group goes to another tile by DMA before.
    """
    if x.buffer == MemoryRegion.sbuf and x.offset // x.strides[0] % 32 != 0:
        first_of_group = tile(tuple(x.shape), x.dtype)
        nisa.dma_copy(first_of_group, x)
        x = first_of_group
    spread_row = getattr(machine(), "spread_row", None)
    if spread_row is not None:  # what follows, in one call
        return spread_row(x, count)
    groups = (count + 31) // 32
    result = tile((groups * 32, *x.shape[1:]), x.dtype)
    for group in range(groups):
        nisa.nc_stream_shuffle(result[group * 32 : group * 32 + 32], x, _FIRST_OF_32)
    return result if count == groups * 32 else result[0:count]


def broadcast_view(x, shape: tuple[int, ...]):
    """`x` seen with `shape`: free dimensions by stride 0, the partition dimension by a copy."""
    if tuple(x.shape) == tuple(shape):
        return x
    if x.shape[0] == 1 and shape[0] != 1:
        x = broadcast_partition(x, shape[0])
    for dim in range(1, len(shape)):
        if x.shape[dim] != shape[dim]:
            x = x.broadcast(dim, shape[dim])
    return x


def kept(dtype, x):
    """The dtype of a result that is asked for, else that of its operand."""
    return x.dtype if dtype is None else dtype


def _chosen(dtype, x, y):
    return _result_dtype(x, y) if dtype is None else dtype


def _result_dtype(x, y) -> dtypes.DType:
    """Dtype of a two-operand result: the tile's.

    Of two tiles a float wins over an integer, then the wider one.
    """
    if not is_tensor(y):
        return x.dtype
    if not is_tensor(x):
        return y.dtype
    a, b = dtypes.dtype_of(x.dtype), dtypes.dtype_of(y.dtype)
    if dtypes.is_float(a) != dtypes.is_float(b):
        return a if dtypes.is_float(a) else b
    return b if b.itemsize > a.itemsize else a


def _binary(op, x, y, dtype):
    """One ALU operator on two tiles, or a tile and a number on either side."""
    x_is_tile, y_is_tile = is_tensor(x), is_tensor(y)
    require(
        x_is_tile or y_is_tile,
        f"nl.{op.__name__} needs at least one tile, got {type(x)} and {type(y)}",
        label="nki.operand",
    )
    out_dtype = _chosen(dtype, x, y)
    if x_is_tile and y_is_tile:
        shape = backend().common_shape(x.shape, y.shape)
        x, y = broadcast_view(x, shape), broadcast_view(y, shape)
        if x.buffer == MemoryRegion.psum and y.buffer == MemoryRegion.psum:
            y = copy(y)  # the Vector engine reads at most one operand from PSUM
        dst = tile(shape, out_dtype)
        nisa.tensor_tensor(dst, x, y, op)
        return dst
    data, scalar, reverse = (x, y, False) if x_is_tile else (y, x, True)
    dst = tile(tuple(data.shape), out_dtype)
    nisa.tensor_scalar(dst, data, op, scalar, reverse)
    return dst


def _activation(op, x, dtype):
    """One activation function of the Scalar engine."""
    require(is_tensor(x), f"nl.{op.__name__} needs a tile, got {type(x)}", "nki.operand")
    dst = tile(tuple(x.shape), kept(dtype, x))
    nisa.activation(dst, op, x)
    return dst


def _scalar_op(dst, data, op0, operand0, op1=None, operand1=None, reverse0=False):
    nisa.tensor_scalar(dst, data, op0, operand0, reverse0, op1, operand1)
    return dst


def _cast(x, dtype):
    """`x` itself, or a copy of another dtype."""
    if dtype is None or x.dtype == dtype:
        return x
    dst = tile(tuple(x.shape), dtype)
    nisa.tensor_copy(dst, x)
    return dst


def _as_fp32(x):
    return _cast(x, dtypes.float32)


def _as_tile_like(value, like):
    """`value` as a tile of `like`'s shape, filling it with a number where it is one."""
    if is_tensor(value):
        return broadcast_view(value, tuple(like.shape))
    dst = fp32(tuple(like.shape))
    nisa.memset(dst, value)
    return dst


# --- operators that an engine has
# -------------------------------------------------------------------------------


def add(x, y, dtype=None):
    """x + y, element-wise."""
    return _binary(add, x, y, dtype)


def subtract(x, y, dtype=None):
    """x - y, element-wise."""
    return _binary(subtract, x, y, dtype)


def multiply(x, y, dtype=None):
    """x * y, element-wise."""
    return _binary(multiply, x, y, dtype)


def maximum(x, y, dtype=None):
    """The larger of x and y, element-wise."""
    return _binary(maximum, x, y, dtype)


def minimum(x, y, dtype=None):
    """The smaller of x and y, element-wise."""
    return _binary(minimum, x, y, dtype)


def abs_max(x, y, dtype=None):
    """Whichever of x and y has the larger magnitude, with its sign; y on a tie. NeuronCore-v4."""
    return _binary(abs_max, x, y, dtype)


def abs_min(x, y, dtype=None):
    """Whichever of x and y has the smaller magnitude, with its sign; y on a tie. NeuronCore-v4."""
    return _binary(abs_min, x, y, dtype)


def power(x, y, dtype=None):
    """x to the power of y, element-wise."""
    return _binary(power, x, y, dtype)


def equal(x, y, dtype=None):
    """1 where x == y, else 0."""
    return _binary(equal, x, y, dtype)


def not_equal(x, y, dtype=None):
    """1 where x != y, else 0."""
    return _binary(not_equal, x, y, dtype)


def less(x, y, dtype=None):
    """1 where x < y, else 0."""
    return _binary(less, x, y, dtype)


def less_equal(x, y, dtype=None):
    """1 where x <= y, else 0."""
    return _binary(less_equal, x, y, dtype)


def greater(x, y, dtype=None):
    """1 where x > y, else 0."""
    return _binary(greater, x, y, dtype)


def greater_equal(x, y, dtype=None):
    """1 where x >= y, else 0."""
    return _binary(greater_equal, x, y, dtype)


def bitwise_and(x, y, dtype=None):
    """Bitwise AND of integers."""
    return _binary(bitwise_and, x, y, dtype)


def bitwise_or(x, y, dtype=None):
    """Bitwise OR of integers."""
    return _binary(bitwise_or, x, y, dtype)


def bitwise_xor(x, y, dtype=None):
    """Bitwise XOR of integers."""
    return _binary(bitwise_xor, x, y, dtype)


def left_shift(x, y, dtype=None):
    """Bits of x shifted left by y positions."""
    return _binary(left_shift, x, y, dtype)


def right_shift(x, y, dtype=None):
    """Bits of x shifted right by y positions, zeros coming in."""
    return _binary(right_shift, x, y, dtype)


def logical_and(x, y, dtype=None):
    """Logical AND of 0/1 values."""
    return _binary(logical_and, x, y, dtype)


def logical_or(x, y, dtype=None):
    """Logical OR of 0/1 values."""
    return _binary(logical_or, x, y, dtype)


def logical_xor(x, y, dtype=None):
    """Logical XOR of 0/1 values."""
    return _binary(logical_xor, x, y, dtype)


def invert(x, dtype=None):
    """Bitwise NOT of integers: XOR with all ones."""
    ones = (
        -1
        if dtypes.dtype_of(x.dtype).startswith("int")
        else (1 << (8 * dtypes.dtype_of(x.dtype).itemsize)) - 1
    )
    return _binary(bitwise_xor, x, ones, dtype)


def logical_not(x, dtype=None):
    """Logical NOT of 0/1 values: XOR with 1. For other inputs use nl.equal(x, 0)."""
    return _binary(logical_xor, x, 1, dtype)


def negative(x, dtype=None):
    """-x, element-wise."""
    return _scalar_op(tile(tuple(x.shape), dtype or x.dtype), x, multiply, -1.0)


# --- activation functions
# ----------------------------------------------------------------------------------------


def copy(x, dtype=None):
    """A copy of x in SBUF, cast if `dtype` differs."""
    dst = tile(tuple(x.shape), kept(dtype, x))
    nisa.tensor_copy(dst, x)
    return dst


def abs(x, dtype=None):
    """Absolute value."""
    return _activation(abs, x, dtype)


def square(x, dtype=None):
    """x * x."""
    return _activation(square, x, dtype)


def sign(x, dtype=None):
    """-1, 0 or 1."""
    return _activation(sign, x, dtype)


def exp(x, dtype=None):
    """e to the power of x."""
    return _activation(exp, x, dtype)


def log(x, dtype=None):
    """Natural logarithm; the Scalar engine's range is [2^-64, 2^64]."""
    return _activation(log, x, dtype)


def sqrt(x, dtype=None):
    """Square root."""
    return _activation(sqrt, x, dtype)


def rsqrt(x, dtype=None):
    """1 / sqrt(x): on GpSimd, the more exact of the two, since NKI 0.5; before, and of a tile in PSUM, on Scalar.

    A new tile of x's shape, and of its dtype or `dtype`. Raises NkiValidationError for what is no tile.
    """
    require(is_tensor(x), f"nl.rsqrt needs a tile, got {type(x)}", "nki.operand")
    if strict.minor(strict.release()) < 5 or x.buffer == MemoryRegion.psum:
        return _activation(rsqrt, x, dtype)
    dst = tile(tuple(x.shape), kept(dtype, x))
    nisa.tensor_scalar(dst, x, rsqrt, 0.0)
    return dst


def reciprocal(x, dtype=None):
    """1 / x, on the Vector engine (the more exact of the two)."""
    dst = tile(tuple(x.shape), kept(dtype, x))
    nisa.reciprocal(dst, x)
    return dst


def tanh(x, dtype=None):
    """Hyperbolic tangent."""
    return _activation(tanh, x, dtype)


def sigmoid(x, dtype=None):
    """1 / (1 + exp(-x))."""
    return _activation(sigmoid, x, dtype)


def relu(x, dtype=None):
    """max(x, 0)."""
    return _activation(relu, x, dtype)


def gelu(x, dtype=None):
    """x * Phi(x)."""
    return _activation(gelu, x, dtype)


def gelu_apprx_sigmoid(x, dtype=None):
    """GELU approximated by x * sigmoid(1.702 x)."""
    return _activation(gelu_apprx_sigmoid, x, dtype)


def gelu_apprx_tanh(x, dtype=None):
    """GELU in its tanh approximation."""
    return _activation(gelu_apprx_tanh, x, dtype)


def gelu_dx(x, dtype=None):
    """Derivative of gelu."""
    return _activation(gelu_dx, x, dtype)


def gelu_apprx_sigmoid_dx(x, dtype=None):
    """Derivative of gelu_apprx_sigmoid."""
    return _activation(gelu_apprx_sigmoid_dx, x, dtype)


def silu(x, dtype=None):
    """x * sigmoid(x)."""
    return _activation(silu, x, dtype)


def silu_dx(x, dtype=None):
    """Derivative of silu."""
    return _activation(silu_dx, x, dtype)


def softplus(x, dtype=None):
    """log(1 + exp(x))."""
    return _activation(softplus, x, dtype)


def mish(x, dtype=None):
    """x * tanh(softplus(x))."""
    return _activation(mish, x, dtype)


def erf(x, dtype=None):
    """Error function."""
    return _activation(erf, x, dtype)


def erf_dx(x, dtype=None):
    """Derivative of erf."""
    return _activation(erf_dx, x, dtype)


def prelu(x, *args, **kwargs):
    """Names the parametric ReLU of nki.isa.activate2; it is no function of its own: a call raises ArgumentError."""
    raise ArgumentError(
        "nl.prelu only names an operator",
        label="nki.operator", hint="nisa.activate2(op=nl.prelu, relu_param=...)",
    )


def bypass(x=None, *args, **kwargs):
    """Names the operator that passes data through; it is no function of its own: a call raises ArgumentError."""
    raise ArgumentError(
        "nl.bypass only names an operator", label="nki.operator", hint="nisa.tensor_scalar(op0=nl.bypass, ...)"
    )


def average(x=None, *args, **kwargs):
    """Names an averaging reduction; it is no function of its own: a call raises ArgumentError."""
    raise ArgumentError(
        "nl.average only names an operator", label="nki.operator", hint="nl.mean, which computes a mean"
    )


# --- functions composed of several instructions
# --------------------------------------------------------------------


def divide(x, y, dtype=None):
    """x / y, element-wise: x * reciprocal(y) in fp32, since no engine of the current generations divides."""
    out_dtype = _chosen(dtype, x, y)
    if not is_tensor(y):
        return _scalar_op(tile(tuple(x.shape), out_dtype), x, multiply, 1.0 / y)
    inverse = fp32(tuple(y.shape))
    nisa.reciprocal(inverse, y)
    return _binary(multiply, x, inverse, out_dtype)


def _floor_fp32(x):
    """floor(x) as a fp32 tile, whatever way the cast to int32 rounds.

    Huge values, infinities and NaN unchanged.
    """
    shape = tuple(x.shape)
    integer = tile(shape, dtypes.int32)
    nisa.tensor_copy(integer, x)
    rounded = fp32(shape)
    nisa.tensor_copy(rounded, integer)
    too_high = fp32(shape)
    nisa.tensor_tensor(too_high, rounded, x, greater)
    nisa.tensor_tensor(rounded, rounded, too_high, subtract)
    in_range = tile(shape, dtypes.uint8)
    magnitude = fp32(shape)
    nisa.activation(magnitude, abs, x)
    nisa.tensor_scalar(in_range, magnitude, less, _FP32_INTEGERS)
    result = fp32(shape)
    nisa.tensor_copy(result, x)
    nisa.tensor_copy_predicated(result, rounded, in_range)
    return result


def floor(x, dtype=None):
    """Largest integer not above x."""
    return _cast(_floor_fp32(_as_fp32(x)), kept(dtype, x))


def ceil(x, dtype=None):
    """Smallest integer not below x: -floor(-x)."""
    result = negative(_floor_fp32(negative(_as_fp32(x))))
    return _cast(result, kept(dtype, x))


def _trunc_fp32(x):
    """x without its fraction, as a fp32 tile: floor of the magnitude, with the sign of x."""
    shape = tuple(x.shape)
    magnitude, direction = fp32(shape), fp32(shape)
    nisa.activation(magnitude, abs, x)
    nisa.activation(direction, sign, x)
    result = _floor_fp32(magnitude)
    nisa.tensor_tensor(result, result, direction, multiply)
    return result


def trunc(x, dtype=None):
    """x without its fraction."""
    return _cast(_trunc_fp32(_as_fp32(x)), kept(dtype, x))


def _remainder(x, y, rounding, dtype, sign_of_divisor: bool):
    """x - q*y with q = rounding(x / y), moved by one y where the rounding of x / y put it outside its
    range.
    """
    out_dtype = _chosen(dtype, x, y)
    like = x if is_tensor(x) else y
    if is_tensor(x) and is_tensor(y):
        shape = backend().common_shape(x.shape, y.shape)
        like = x if tuple(x.shape) == shape else broadcast_view(x, shape)
    x, y = _as_fp32(_as_tile_like(x, like)), _as_fp32(_as_tile_like(y, like))
    quotient = rounding(divide(x, y, dtypes.float32))
    result = subtract(x, multiply(quotient, y))
    # Out of range on the low side: the remainder has the wrong sign.
    reference = y if sign_of_divisor else x
    wrong_sign = less(multiply(result, reference), 0.0)
    step = abs(y) if not sign_of_divisor else y
    if not sign_of_divisor:
        step = multiply(step, sign(x))
    result = add(result, multiply(wrong_sign, step))
    # On the high side: the remainder reaches the divisor.
    too_large = greater_equal(abs(result), abs(y))
    result = subtract(result, multiply(too_large, step))
    return _cast(result, out_dtype)


def mod(x, y, dtype=None):
    """Remainder with the sign of the divisor, as Python's %."""
    return _remainder(x, y, _floor_fp32, dtype, sign_of_divisor=True)


def fmod(x, y, dtype=None):
    """Remainder with the sign of the dividend, as C's fmod."""
    return _remainder(x, y, _trunc_fp32, dtype, sign_of_divisor=False)


def _sin_of(x, out_dtype):
    """sin of a fp32 tile, brought into [-pi, pi], the Scalar engine's range, first."""
    shape = tuple(x.shape)
    turns = fp32(shape)
    nisa.tensor_scalar(turns, x, multiply, 1.0 / _TWO_PI, False, add, 0.5)
    turns = _floor_fp32(turns)
    reduced = fp32(shape)
    nisa.scalar_tensor_tensor(reduced, turns, multiply, -_TWO_PI_HI, add, x)
    nisa.scalar_tensor_tensor(reduced, turns, multiply, -_TWO_PI_LO, add, reduced)
    nisa.tensor_scalar(reduced, reduced, minimum, math.pi, False, maximum, -math.pi)
    dst = tile(shape, out_dtype)
    nisa.activation(dst, sin, reduced)
    return dst


def sin(x, dtype=None):
    """Sine, over the whole fp32 range (nisa.activation(op=nl.sin) is limited to [-pi, pi])."""
    return _sin_of(_as_fp32(x), kept(dtype, x))


def cos(x, dtype=None):
    """Cosine: sin(x + pi/2)."""
    shifted = fp32(tuple(x.shape))
    nisa.tensor_scalar(shifted, x, add, math.pi / 2)
    return _sin_of(shifted, kept(dtype, x))


def tan(x, dtype=None):
    """Tangent: sin(x) / cos(x)."""
    return divide(sin(x, dtypes.float32), cos(x, dtypes.float32), kept(dtype, x))


def arctan(x, dtype=None):
    """Inverse tangent.

    Magnitudes above 1 through pi/2 - arctan(1/x), since the engine's range is [-pi/2, pi/2].
    """
    magnitude = abs(_as_fp32(x))
    shape = tuple(magnitude.shape)
    at_least_one = maximum(magnitude, 1.0)
    nisa.reciprocal(at_least_one, at_least_one)
    folded = minimum(magnitude, at_least_one)
    angle = fp32(shape)
    nisa.activation(angle, arctan, folded)
    beyond = tile(shape, dtypes.uint8)
    nisa.tensor_scalar(beyond, magnitude, greater, 1.0)
    complement = fp32(shape)
    nisa.tensor_scalar(complement, angle, multiply, -1.0, False, add, math.pi / 2)
    nisa.tensor_copy_predicated(angle, complement, beyond)
    return multiply(angle, sign(x, dtypes.float32), kept(dtype, x))


def where(condition, x, y, dtype=None):
    """x where `condition` is not 0, else y."""
    like = condition
    if dtype is None:
        dtype = x.dtype if is_tensor(x) else y.dtype if is_tensor(y) else condition.dtype
    predicate = tile(tuple(like.shape), dtypes.uint8)
    nisa.tensor_scalar(predicate, condition, not_equal, 0.0)
    dst = tile(tuple(like.shape), dtype)
    if is_tensor(y):
        nisa.tensor_copy(dst, broadcast_view(y, tuple(like.shape)))
    else:
        nisa.memset(dst, y)
    source = broadcast_view(x, tuple(like.shape)) if is_tensor(x) else x
    nisa.tensor_copy_predicated(dst, source, predicate)
    return dst
