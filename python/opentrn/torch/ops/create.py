"""Constants, counters, copies and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value
from opentrn.torch.types import is_float, is_integer


def _number(value: Any, body: Emitter, out: Spec) -> Value:
    if isinstance(value, Value):
        return body.tensor(value, out.dtype, out.shape)
    return body.splat(value, out.dtype, out.shape)


@emits("full.default", "full_like.default", "fill.Scalar", "fill.Tensor")
def full(body: Emitter, out: Spec, _shape: Any, value: Any, *_: Any, **__: Any) -> Value:
    return _number(value, body, out)


@emits("new_full.default")
def new_full(body: Emitter, out: Spec, _like: Value, _shape: Any, value: Any, *_: Any, **__: Any) -> Value:
    return _number(value, body, out)


@emits("zeros.default", "zeros_like.default", "new_zeros.default", "_efficientzerotensor.default")
def zeros(body: Emitter, out: Spec, *_: Any, **__: Any) -> Value:
    return body.splat(0, out.dtype, out.shape)


@emits("ones.default", "ones_like.default", "new_ones.default")
def ones(body: Emitter, out: Spec, *_: Any, **__: Any) -> Value:
    return body.splat(1, out.dtype, out.shape)


@emits("empty.memory_format", "empty_like.default", "empty_strided.default", "new_empty.default",
       "new_empty_strided.default", "empty_permuted.default", "prims.empty_strided",
       "prims.empty_permuted")  # fmt: skip
def empty(body: Emitter, out: Spec, *_: Any, **__: Any) -> Value:
    """Any values will do: zeros."""
    return body.splat(0, out.dtype, out.shape)


@emits("scalar_tensor.default", "prims.scalar_tensor")
def scalar_tensor(body: Emitter, out: Spec, value: Any, **_: Any) -> Value:
    return _number(value, body, out)


def counted(body: Emitter, out: Spec, start: Any, step: Any) -> Value:
    """start + step i, computed in fp32 or in whole numbers."""
    dtype = torch.float32 if is_float(out.dtype) else torch.int32
    count = body.iota(out.shape, 0, dtype)
    if step != 1:
        count = body.multiply(count, body.like(step, count))
    if start != 0:
        count = body.add(count, body.like(start, count))
    return body.convert(count, out.dtype)


@emits("arange.start_step", "arange.start", "arange.default")
def arange(body: Emitter, out: Spec, start: Any, end: Any = None, step: Any = 1, **_: Any) -> Value:
    first = 0 if end is None else start
    if is_integer(out.dtype) and not (isinstance(first, int) and isinstance(step, int)):
        return body.constant(torch.arange(first, start if end is None else end, step, dtype=out.dtype))
    return counted(body, out, first, step)


@emits("prims.iota")
def iota(body: Emitter, out: Spec, length: int, *, start: int, step: int, **_: Any) -> Value:
    return counted(body, out, start, step)


@emits("clone.default", "alias.default", "alias_copy.default", "detach.default", "detach_copy.default",
       "lift_fresh_copy.default", "lift.default",
       "lift_fresh.default", "prims.clone", "prims.view_of")  # fmt: skip
def same(body: Emitter, out: Spec, value: Value, *_: Any, **__: Any) -> Value:
    """Values have no memory of their own here."""
    return value


@emits(
    "conj_physical.default", "_conj.default", "_conj_physical.default", "prims.conj", "prims.conj_physical"
)
def conjugate(body: Emitter, out: Spec, value: Value) -> Value:
    return body.unary("chlo.conj", value) if value.dtype.is_complex else value


@emits("copy.default")
def copy(body: Emitter, out: Spec, _to: Value, value: Value, *_: Any) -> Value:
    return body.tensor(value, out.dtype, out.shape)


@emits("_to_copy.default", "prims.convert_element_type", "prims.device_put")
def convert(body: Emitter, out: Spec, value: Value, *_: Any, **__: Any) -> Value:
    return to_type(body, value, out.dtype)


def to_type(body: Emitter, value: Value, dtype: torch.dtype) -> Value:
    """Floats to whole numbers towards zero; a NaN or what does not fit gives any number, as in torch."""
    return body.convert(value, dtype)


@emits("view_as_real.default", "view_as_real_copy.default")
def view_as_real(body: Emitter, out: Spec, value: Value) -> Value:
    parts = [body.op(name, [value], value.shape, out.dtype) for name in ("real", "imag")]
    return body.concatenate([body.reshape(part, (*value.shape, 1)) for part in parts], value.rank)


@emits("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(body: Emitter, out: Spec, value: Value) -> Value:
    last = value.rank - 1
    parts = [body.reshape(body.slice_axis(value, last, i, i + 1), out.shape) for i in (0, 1)]
    return body.op("complex", parts, out.shape, out.dtype)


@emits("complex.default")
def complex_of(body: Emitter, out: Spec, real: Value, imaginary: Value) -> Value:
    part = torch.float32 if out.dtype == torch.complex64 else torch.float64
    both = [body.tensor(each, part, out.shape) for each in (real, imaginary)]
    return body.op("complex", both, out.shape, out.dtype)


@emits("polar.default")
def polar(body: Emitter, out: Spec, length: Value, angle: Value) -> Value:
    """torch's own decomposition writes into views of an empty tensor, which the traced graph cannot hold."""
    part = torch.float32 if out.dtype == torch.complex64 else torch.float64
    length, angle = (body.tensor(each, part, out.shape) for each in (length, angle))
    parts = [body.multiply(length, body.unary(name, angle)) for name in ("cosine", "sine")]
    return body.op("complex", parts, out.shape, out.dtype)


@emits("real.default", "prims.real")
def real(body: Emitter, out: Spec, value: Value) -> Value:
    return body.op("real", [value], value.shape, out.dtype) if value.dtype.is_complex else value


@emits("imag.default", "prims.imag")
def imaginary(body: Emitter, out: Spec, value: Value) -> Value:
    return body.op("imag", [value], value.shape, out.dtype)


@emits("eye.default", "eye.m")
def eye(body: Emitter, out: Spec, *_: Sequence[int], **__: Any) -> Value:
    rows, columns = (body.iota(out.shape, axis, torch.int32) for axis in (0, 1))
    return body.convert(body.compare("EQ", rows, columns), out.dtype)
