"""Matrix products. Narrow floats are summed in the Tensor engine's fp32 and rounded once."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value
from opentrn.torch.types import is_float


def scaled(body: Emitter, value: Value, factor: Any) -> Value:
    return value if factor == 1 else body.multiply(value, body.like(factor, value))


@emits("mm.default")
def mm(body: Emitter, out: Spec, left: Value, right: Value) -> Value:
    return body.dot(left, right, ([1], [0]))


@emits("_int_mm.default")
def int_mm(body: Emitter, out: Spec, left: Value, right: Value) -> Value:
    """int8 by int8, summed in int32."""
    return body.dot(left, right, ([1], [0]), dtype=out.dtype)


@emits("bmm.default")
def bmm(body: Emitter, out: Spec, left: Value, right: Value) -> Value:
    return body.dot(left, right, ([2], [1]), ([0], [0]))


@emits("dot.default")
def dot(body: Emitter, out: Spec, left: Value, right: Value) -> Value:
    return body.dot(left, right, ([0], [0]))


@emits("vdot.default")
def vdot(body: Emitter, out: Spec, left: Value, right: Value) -> Value:
    """The left one conjugated."""
    return body.dot(body.unary("chlo.conj", left) if left.dtype.is_complex else left, right, ([0], [0]))


@emits("mv.default")
def mv(body: Emitter, out: Spec, left: Value, right: Value) -> Value:
    return body.dot(left, right, ([1], [0]))


def _plus(body: Emitter, out: Spec, to: Value, product: Value, beta: Any, alpha: Any) -> Value:
    """beta to + alpha product; with beta 0 `to` is not read, whatever it holds."""
    made = scaled(body, product, alpha)
    if beta != 0:
        made = body.add(made, scaled(body, body.tensor(to, made.dtype, out.shape), beta))
    return body.convert(made, out.dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if is_float(dtype) and dtype.itemsize < 4 else dtype


@emits("addmm.default")
def addmm(
    body: Emitter, out: Spec, to: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    product = body.dot(left, right, ([1], [0]), dtype=_wide(out.dtype))
    return _plus(body, out, to, product, beta, alpha)


@emits("baddbmm.default")
def baddbmm(
    body: Emitter, out: Spec, to: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    product = body.dot(left, right, ([2], [1]), ([0], [0]), dtype=_wide(out.dtype))
    return _plus(body, out, to, product, beta, alpha)


@emits("addmv.default")
def addmv(
    body: Emitter, out: Spec, to: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    product = body.dot(left, right, ([1], [0]), dtype=_wide(out.dtype))
    return _plus(body, out, to, product, beta, alpha)
