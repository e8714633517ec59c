"""Linear and cubic interpolation, and its gradients: a product with a constant matrix along each axis.

Torch takes these ops apart into gathers, whose gradients scatter: on the device every element is a DMA descriptor of
its own. Each op is linear and separable, so one matrix for each axis does it, and its transpose is the gradient. The
matrix is what torch's own kernel makes of unit vectors: its weights are torch's in every mode.

A value that is not finite spreads over its row and column: zero times infinity is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES
from opentrn.torch.text import Spec, Value
from opentrn.torch.types import integer_range, is_float, math_dtype

# The axes of space that each has.
_OPS: dict[str, int] = {
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_bicubic2d": 2,
    "upsample_trilinear3d": 3,
    "_upsample_bilinear2d_aa": 2,
    "_upsample_bicubic2d_aa": 2,
}


@functools.lru_cache(maxsize=64)
def _matrix(name: str, size: int, out: int, align_corners: bool, scale: float | None) -> torch.Tensor:
    """[size, out]: row i is what torch makes of the i-th unit vector along one axis."""
    rest = [2] * (_OPS[name] - 1)  # the other axes keep their size; of 1, torch's antialiasing gives zeros
    units = (
        torch.eye(size).reshape(size, 1, size, *[1 for _ in rest]).expand(size, 1, size, *rest).contiguous()
    )
    kernel = getattr(torch.ops.aten, name).default
    with torch.no_grad():
        made = kernel(units, [out, *rest], align_corners, scale, *[None for _ in rest])
    return made.reshape(size, out, -1)[..., 0].contiguous()


def _along_axes(
    body: Emitter, name: str, out: Spec, value: Value, sizes: Sequence[int], lengths: Sequence[int],
    align_corners: bool, scales: Sequence[float | None], is_gradient: bool,
) -> Value:  # fmt: skip
    """value times the matrix of each axis, from `sizes` to `lengths`, or from `lengths` to `sizes` for the gradient."""
    is_real = is_float(out.dtype)
    dtype = math_dtype(out.dtype) if is_real else torch.float32
    made = body.convert(value, dtype)
    # Torch rounds cubic interpolation of bytes after each axis, the last one first.
    rounds = not is_real and "cubic" in name
    axes = range(2, value.rank)
    for axis in reversed(axes) if rounds else axes:
        parts = sizes[axis - 2], lengths[axis - 2], align_corners, scales[axis - 2]
        matrix = body.convert(body.constant(_matrix(name, *parts)), dtype)
        made = body.dot(made, matrix, ([axis], [1 if is_gradient else 0]))
        last = made.rank - 1  # where the product puts the axis
        made = body.transpose(made, [*range(axis), last, *range(axis, last)])
        made = _whole(body, made, out.dtype) if rounds else made
    return body.convert(made if is_real else _whole(body, made, out.dtype), out.dtype)


def _whole(body: Emitter, value: Value, dtype: torch.dtype) -> Value:
    """Rounded, and held to what the type holds."""
    low, high = (body.like(each, value) for each in integer_range(dtype))
    return body.unary("round_nearest_even", body.binary("maximum", body.binary("minimum", value, high), low))


def _rules(name: str, axes: int) -> None:
    def of_sizes(
        body: Emitter, out: Spec, value: Value, _size: Any, align_corners: bool, *scales: float | None
    ) -> Value:
        scales = (*scales, *[None] * (axes - len(scales)))
        return _along_axes(
            body, name, out, value, value.shape[2:], out.shape[2:], align_corners, scales, is_gradient=False
        )

    def of_factors(
        body: Emitter, out: Spec, value: Value, size: Any, align_corners: bool, factors: Any = None
    ) -> Value:
        size = upsample_compute_output_size(value.shape, size, factors)
        return of_sizes(body, out, value, size, align_corners, *(factors or ()))

    def gradient(
        body: Emitter,
        out: Spec,
        given: Value,
        _size: Any,
        _input: Any,
        align_corners: bool,
        *scales: float | None,
    ) -> Value:
        scales = (*scales, *[None] * (axes - len(scales)))
        return _along_axes(
            body, name, out, given, out.shape[2:], given.shape[2:], align_corners, scales, is_gradient=True
        )

    op, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_backward")
    RULES[op.default], RULES[op.vec], RULES[backward.default] = of_sizes, of_factors, gradient


for _name, _axes in _OPS.items():
    _rules(_name, _axes)


def ops() -> list[Any]:
    """Those that have a rule here, as OpOverload."""
    return [
        getattr(getattr(torch.ops.aten, name), overload) for name in _OPS for overload in ("default", "vec")
    ]


def of_open_sizes() -> dict[tuple[Any, DispatchKey], Callable[..., Any]]:
    """Kernels in Python, by op and key, of what torch has in C++ for whole numbers only, where a size may be open (a
    SymInt): interpolation by factors, which is interpolation to a size, and the shape of a gradient.
    """
    made: dict[tuple[Any, DispatchKey], Callable[..., Any]] = {}
    for name, axes in _OPS.items():
        op, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_backward")
        made[op.vec, DispatchKey.CompositeImplicitAutograd] = functools.partial(_to_size, op.default, axes)
        made[backward.default, DispatchKey.Meta] = _gradient_shape
    return made


def _to_size(op: Any, axes: int, value: Any, size: Any, align_corners: bool, factors: Any = None) -> Any:
    size = upsample_compute_output_size(value.size(), size, factors)
    return op(value, size, align_corners, *(factors or [None] * axes))


def _gradient_shape(given: Any, _size: Any, of_input: Any, _align_corners: bool, *_scales: Any) -> Any:
    return given.new_empty(of_input)
