"""Functions of one or two tiles, reductions, and the composites.

What an engine has is one instruction: the ALU operators, the activation functions. Everything else is
composed by opentrn.nki.language from instructions, and copied to its destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.nki import isa as machine
from opentrn.nki import language as machine_nl
from opentrn.nki_legacy import arithmetic, emit, isa
from opentrn.nki_legacy.box import full_box, is_full
from opentrn.nki_legacy.dtypes import device_dtype, host_dtype, is_floating
from opentrn.nki_legacy.emit import read, wrap, write
from opentrn.nki_legacy.index import regions
from opentrn.nki_legacy.isa._common import no_options, options
from opentrn.nki_legacy.tile import Tile

_FP32 = np.dtype(np.float32)


def _named(function: Callable[..., Tile], name: str, doc: str) -> Callable[..., Tile]:
    function.__name__ = function.__qualname__ = name  # the function also names its operator
    function.__doc__ = doc
    return function


def _binary(name: str, doc: str, default_dtype: Any = None) -> Callable[..., Tile]:
    def function(x, y, *, dtype=default_dtype, mask=None, **extra):
        no_options(f"nl.{name}", extra)
        return arithmetic.binary(name, x, y, dtype, mask)

    return _named(function, name, doc)


def _activation(name: str, doc: str) -> Callable[..., Tile]:
    def function(x, *, dtype=None, mask=None, **extra):
        return isa.activation(name, x, dtype=dtype, mask=mask, **extra)

    return _named(function, name, doc)


add = _binary("add", "x + y.")
subtract = _binary("subtract", "x - y.")
multiply = _binary("multiply", "x * y.")
divide = _binary("divide", "x / y, by the Vector engine's divide; integers give float32.")
maximum = _binary("maximum", "The larger of x and y.")
minimum = _binary("minimum", "The smaller of x and y.")
power = _binary("power", "x to the power of y.")
bitwise_and = _binary("bitwise_and", "Bitwise AND of integers.")
bitwise_or = _binary("bitwise_or", "Bitwise OR of integers.")
bitwise_xor = _binary("bitwise_xor", "Bitwise XOR of integers.")
left_shift = _binary("left_shift", "Bits of x shifted left by y.")
right_shift = _binary("right_shift", "Bits of x shifted right by y, zeros coming in.")
equal = _binary("equal", "x == y.", np.bool_)
not_equal = _binary("not_equal", "x != y.", np.bool_)
less = _binary("less", "x < y.", np.bool_)
less_equal = _binary("less_equal", "x <= y.", np.bool_)
greater = _binary("greater", "x > y.", np.bool_)
greater_equal = _binary("greater_equal", "x >= y.", np.bool_)
logical_and = _binary("logical_and", "x and y as truth values.", np.bool_)
logical_or = _binary("logical_or", "x or y as truth values.", np.bool_)
logical_xor = _binary("logical_xor", "Exactly one of x and y as truth values.", np.bool_)

exp = _activation("exp", "e to the power of x.")
log = _activation("log", "Natural logarithm.")
sqrt = _activation("sqrt", "Square root.")
rsqrt = _activation("rsqrt", "1 / sqrt(x).")
square = _activation("square", "x * x.")
abs = _activation("abs", "Absolute value.")
sign = _activation("sign", "-1, 0 or 1.")
relu = _activation("relu", "max(x, 0).")
sigmoid = _activation("sigmoid", "1 / (1 + exp(-x)).")
silu = _activation("silu", "x * sigmoid(x).")
silu_dx = _activation("silu_dx", "Derivative of silu.")
gelu = _activation("gelu", "x * Phi(x).")
gelu_dx = _activation("gelu_dx", "Derivative of gelu.")
gelu_apprx_tanh = _activation("gelu_apprx_tanh", "gelu in its tanh form.")
gelu_apprx_sigmoid = _activation("gelu_apprx_sigmoid", "gelu in its sigmoid form.")
tanh = _activation("tanh", "Hyperbolic tangent.")
softplus = _activation("softplus", "log(1 + exp(x)).")
mish = _activation("mish", "x * tanh(softplus(x)).")
erf = _activation("erf", "Error function.")
erf_dx = _activation("erf_dx", "Derivative of erf.")


def negative(x, *, dtype=None, mask=None, **extra) -> Tile:
    """-x."""
    return isa.tensor_scalar(x, "multiply", -1.0, dtype=dtype, mask=mask, **extra)


def reciprocal(x, *, dtype=None, mask=None, **extra) -> Tile:
    """1 / x, on the Vector engine."""
    return isa.reciprocal(x, dtype=dtype, mask=mask, **extra)


def invert(x, *, dtype=None, mask=None, **extra) -> Tile:
    """Bitwise NOT of integers: XOR with all ones."""
    tile = emit.operand(x, "nl.invert")
    ones = -1 if tile.dtype.kind == "i" else (1 << (8 * tile.dtype.itemsize)) - 1
    return isa.tensor_scalar(tile, "bitwise_xor", ones, dtype=dtype, mask=mask, **extra)


def logical_not(x, *, dtype=np.bool_, mask=None, **extra) -> Tile:
    """1 where x is 0."""
    return isa.tensor_scalar(x, "equal", 0, dtype=dtype, mask=mask, **extra)


# -- composites ----------------------------------------------------------------------------------------------


def _composed(
    what: str, tile: Tile, shape: Any, dtype: Any, mask: Any, extra: dict, compute: Any, sources: Any
):
    """A result computed by several instructions of opentrn.nki.language, copied to its destination."""
    boxes = regions(mask, tile.shape, what)
    whole = len(boxes) == 1 and is_full(boxes[0], tile.shape)
    if boxes and not whole and shape != tile.shape:
        raise NkiValidationError(
            f"{what}: a mask over part of the tile is for element-wise functions only", label="nki.mask"
        )
    out = host_dtype(dtype)
    written = boxes if shape == tile.shape else [full_box(shape)] * len(boxes)

    def issue(dst: Tile) -> None:
        for box, place in zip(boxes, written):
            result = compute(box, device_dtype(out))
            part = wrap(result, tuple(r.count for r in place))
            machine.tensor_copy(write(dst, place), read(part))

    return emit.defer(
        shape,
        out,
        issue,
        boxes=written,
        sources=sources,
        region=options(what, extra),
        in_place=False,
        exact=False,
    )


def _unary_composite(name: str, doc: str) -> Callable[..., Tile]:
    implementation = getattr(machine_nl, name)

    def function(x, *, dtype=None, mask=None, **extra):
        emit.flush()
        tile = emit.operand(x, f"nl.{name}")
        out = tile.dtype if dtype is None else dtype

        def compute(box, device):
            return implementation(read(tile, box), device)

        return _composed(f"nl.{name}", tile, tile.shape, out, mask, extra, compute, [tile])

    return _named(function, name, doc)


floor = _unary_composite("floor", "Largest integer not above x.")
ceil = _unary_composite("ceil", "Smallest integer not below x.")
trunc = _unary_composite("trunc", "x without its fraction.")
sin = _unary_composite("sin", "Sine.")
cos = _unary_composite("cos", "Cosine.")
tan = _unary_composite("tan", "Tangent.")
arctan = _unary_composite("arctan", "Inverse tangent.")


def _remainder(name: str, doc: str) -> Callable[..., Tile]:
    implementation = getattr(machine_nl, name)

    def function(x, y, dtype=None, mask=None, **extra):
        emit.flush()
        tiles = [emit.operand(v, f"nl.{name}") for v in (x, y) if isinstance(v, Tile)]
        if not tiles:
            raise NkiValidationError(
                f"nl.{name} needs at least one tile, got {x!r} and {y!r}", label="nki.operand"
            )
        shape = emit.broadcast_shape(*tiles)
        out = arithmetic.result_dtype(name, x, y) if dtype is None else dtype
        parts = [emit.broadcast(v, shape) if isinstance(v, Tile) else v for v in (x, y)]
        whole = next(v for v in parts if isinstance(v, Tile))

        def compute(box, device):
            left, right = (read(v, box) if isinstance(v, Tile) else v for v in parts)
            return implementation(left, right, device)

        return _composed(f"nl.{name}", whole, shape, out, mask, extra, compute, tiles)

    return _named(function, name, doc)


mod = _remainder("mod", "Remainder with the sign of the divisor, as Python's %.")
fmod = _remainder("fmod", "Remainder with the sign of the dividend.")


# -- reductions ----------------------------------------------------------------------------------------------


def _reduction(name: str, operator: str, doc: str) -> Callable[..., Tile]:
    def function(x, axis, *, dtype=None, mask=None, keepdims=False, **extra):
        return isa.tensor_reduce(operator, x, axis, dtype=dtype, mask=mask, keepdims=keepdims, **extra)

    return _named(function, name, doc)


max = _reduction("max", "maximum", "Maximum along free axes.")
min = _reduction("min", "minimum", "Minimum along free axes.")
sum = _reduction("sum", "add", "Sum along free axes.")
prod = _reduction("prod", "multiply", "Product along free axes.")


def all(x, axis, *, dtype=np.bool_, mask=None, **extra) -> Tile:
    """Whether every element along the free axes is non-zero."""
    return isa.tensor_reduce("logical_and", x, axis, dtype=dtype, mask=mask, **extra)


def mean(x, axis, *, dtype=None, mask=None, keepdims=False, **extra) -> Tile:
    """Average along free axes: a float32 sum times 1/n; integers give float32."""
    emit.flush()
    options("nl.mean", extra)
    tile = emit.operand(x, "nl.mean")
    out = tile.dtype if dtype is None and is_floating(tile.dtype) else (dtype or _FP32)
    axes = {int(a) % tile.ndim for a in (axis if isinstance(axis, (tuple, list)) else (axis,))}
    boxes = regions(mask, tile.shape, "nl.mean")
    box = boxes[0] if boxes else full_box(tile.shape)
    count = int(np.prod([box[a].count for a in axes]))
    total = isa.tensor_reduce("add", tile, axis, dtype=_FP32, mask=mask, keepdims=keepdims)
    return isa.tensor_scalar(total, "multiply", 1.0 / count, dtype=out, **extra)


def var(x, axis, *, dtype=None, mask=None, keepdims=False, **extra) -> Tile:
    """Variance along free axes: the mean of the squared distance from the mean, in float32."""
    emit.flush()
    options("nl.var", extra)
    tile = emit.operand(x, "nl.var")
    out = tile.dtype if dtype is None and is_floating(tile.dtype) else (dtype or _FP32)
    average = mean(tile, axis, dtype=_FP32, mask=mask, keepdims=True)
    centred = arithmetic.binary("subtract", tile, average, _FP32, mask)
    squares = isa.activation("square", centred, mask=mask)
    return mean(squares, axis, dtype=out, mask=mask, keepdims=keepdims, **extra)


def softmax(x, axis, *, dtype=None, compute_dtype=None, mask=None, **extra) -> Tile:
    """exp(x - max(x)) / sum of it along free axes, computed in `compute_dtype` or float32."""
    emit.flush()
    no_options("nl.softmax", extra)
    tile = emit.operand(x, "nl.softmax")
    inner = _FP32 if compute_dtype is None else compute_dtype
    out = compute_dtype or tile.dtype if dtype is None else dtype
    largest = isa.tensor_reduce("maximum", tile, axis, dtype=inner, mask=mask, keepdims=True)
    shifted = arithmetic.binary("subtract", tile, largest, inner, mask)
    weights = isa.activation("exp", shifted, mask=mask).realised()
    total = isa.tensor_reduce("add", weights, axis, mask=mask, keepdims=True)
    inverse = isa.reciprocal(total)
    return arithmetic.binary("multiply", weights, inverse, out, mask)


def rms_norm(x, w, axis, n, epsilon=1e-06, *, dtype=None, compute_dtype=None, mask=None, **extra) -> Tile:
    """x / sqrt(sum(x * x) / n + epsilon) * w, computed in `compute_dtype` or float32."""
    emit.flush()
    no_options("nl.rms_norm", extra)
    tile = emit.operand(x, "nl.rms_norm")
    inner = _FP32 if compute_dtype is None else compute_dtype
    out = compute_dtype or tile.dtype if dtype is None else dtype
    squares = isa.activation("square", tile, dtype=inner, mask=mask)
    total = isa.tensor_reduce("add", squares, axis, mask=mask, keepdims=True)
    scaled = isa.tensor_scalar(total, "multiply", 1.0 / n, op1="add", operand1=float(epsilon))
    factor = isa.activation("rsqrt", scaled)
    normalised = arithmetic.binary("multiply", tile, factor, inner, mask)
    return arithmetic.binary("multiply", normalised, w, out, mask)


def dropout(x, rate, *, dtype=None, mask=None, **extra) -> Tile:
    """x with elements zeroed with probability `rate`: a number, one value, or one value per partition."""
    return isa.dropout(x, rate, dtype=dtype, mask=mask, **extra)
