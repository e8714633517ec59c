"""Fourier transforms over the last dimensions, after transposes where torch names others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.rearrange import axis_of
from opentrn.torch.registry import emits, require
from opentrn.torch.text import Spec, Value, numbers, size_of


def _scale(normalization: int, count: int) -> float:
    """torch's fft_norm_mode: none, by the root of the count, by the count."""
    return (1.0, count**-0.5, 1.0 / count)[normalization]


def _scaled(body: Emitter, value: Value, factor: float) -> Value:
    return value if factor == 1.0 else body.multiply(value, body.like(factor, value))


def _along_last(
    body: Emitter, kind: str, value: Value, length: int, shape: Sequence[int], dtype: torch.dtype
) -> Value:
    text = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {numbers([length])}"
    return body.op("fft", [value], shape, dtype, text)


def _over(body: Emitter, value: Value, axis: int, kind: str, length: int, dtype: torch.dtype) -> Value:
    """One transform along an axis; its size becomes what the kind gives for `length` points."""
    order = [each for each in range(value.rank) if each != axis] + [axis]
    turned = body.transpose(value, order)
    points = length // 2 + 1 if kind == "RFFT" else length
    made = _along_last(body, kind, turned, length, (*turned.shape[:-1], points), dtype)
    return body.transpose(made, [order.index(each) for each in range(value.rank)])


@emits("_fft_c2c.default")
def complex_to_complex(
    body: Emitter, out: Spec, value: Value, axes: Sequence[int], normalization: int, forward: bool
) -> Value:
    axes = [axis_of(axis, value.rank) for axis in axes]
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    count = size_of([value.shape[axis] for axis in axes])
    made = value
    for axis in axes:
        made = _over(body, made, axis, "FFT" if forward else "IFFT", value.shape[axis], out.dtype)
    # StableHLO's inverse divides by the count, torch's only when it is told to.
    return _scaled(body, made, _scale(normalization, count) * (1 if forward else count))


@emits("_fft_r2c.default")
def real_to_complex(
    body: Emitter, out: Spec, value: Value, axes: Sequence[int], normalization: int, onesided: bool
) -> Value:
    axes = [axis_of(axis, value.rank) for axis in axes]
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    count = size_of([value.shape[axis] for axis in axes])
    if onesided:
        made = _over(body, value, axes[-1], "RFFT", value.shape[axes[-1]], out.dtype)
        rest = axes[:-1]
    else:
        made, rest = body.convert(value, out.dtype), axes
    for axis in rest:
        made = _over(body, made, axis, "FFT", value.shape[axis], out.dtype)
    return _scaled(body, made, _scale(normalization, count))


@emits("_fft_c2r.default")
def complex_to_real(
    body: Emitter, out: Spec, value: Value, axes: Sequence[int], normalization: int, last_size: int
) -> Value:
    axes = [axis_of(axis, value.rank) for axis in axes]
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    require(value.dtype == torch.complex64, f"of {value.dtype} is not written")
    count = size_of([out.shape[axis] for axis in axes])
    made = value
    for axis in axes[:-1]:
        made = _over(body, made, axis, "IFFT", value.shape[axis], value.dtype)
    needed = last_size // 2 + 1
    if made.shape[axes[-1]] > needed:
        made = body.slice_axis(made, axes[-1], 0, needed)
    made = _over(body, made, axes[-1], "IRFFT", last_size, out.dtype)
    return _scaled(body, made, _scale(normalization, count) * count)
