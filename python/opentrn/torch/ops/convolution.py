"""Convolutions of any number of dimensions, their transposes and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value, numbers, pairs


def _convolve(
    body: Emitter,
    value: Value,
    kernel: Value,
    layout: tuple[str, str, str],
    shape: Sequence[int],
    *,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    gaps: Sequence[int],
    groups: int = 1,
    batch_groups: int = 1,
    dtype: torch.dtype | None = None,
) -> Value:
    """layout: letters of the first two dimensions of value, kernel and result, "bf", "oi", "bf"; then space.

    gaps: of the value's elements (transposed convolution).
    """
    space = range(len(strides))

    def spelled(letters: str) -> str:
        return f"[{', '.join([*letters, *map(str, space)])}]"

    dtype = dtype or value.dtype
    if 0 in shape or 0 in value.shape or 0 in kernel.shape:
        return body.splat(0, dtype, shape)
    text = (
        f"window_strides = {numbers(strides)}, padding = {pairs(list(padding))}, "
        f"lhs_dilation = {numbers(gaps)}, rhs_dilation = {numbers(dilation)}, "
        f"dimension_numbers = #stablehlo.conv<{spelled(layout[0])}x{spelled(layout[1])}->{spelled(layout[2])}>, "
        f"feature_group_count = {groups} : i64, batch_group_count = {batch_groups} : i64"
    )
    return body.op("convolution", [value, kernel], shape, dtype, text)


def _many(values: Sequence[int], count: int) -> list[int]:
    return list(values) * count if len(values) == 1 else list(values)


def _transposed_kernel(body: Emitter, kernel: Value, groups: int) -> Value:
    """[in, out / groups, ...] as [out, in / groups, ...], each window reversed."""
    inputs, outputs, *window = kernel.shape
    split = body.reshape(kernel, (groups, inputs // groups, outputs, *window))
    turned = body.transpose(split, [0, 2, 1, *range(3, split.rank)])
    joined = body.reshape(turned, (groups * outputs, inputs // groups, *window))
    return body.reverse(joined, list(range(2, joined.rank)))


def _forward(
    body: Emitter, value: Value, kernel: Value, shape: Sequence[int], strides: list[int], padding: list[int],
    dilation: list[int], groups: int, dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    return _convolve(
        body, value, kernel, ("bf", "oi", "bf"), shape, strides=strides, padding=[(p, p) for p in padding],
        dilation=dilation, gaps=[1] * len(strides), groups=groups, dtype=dtype,
    )  # fmt: skip


def _transposed(
    body: Emitter, value: Value, kernel: Value, shape: Sequence[int], strides: list[int], padding: list[int],
    dilation: list[int], groups: int, dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    """What sends a result back to the input of _forward; shape says which of the possible sizes."""
    amounts = []
    for axis, (step, edge, gap) in enumerate(zip(strides, padding, dilation), start=2):
        reach = gap * (kernel.shape[axis] - 1)
        low = reach - edge
        spread = (value.shape[axis] - 1) * step + 1
        amounts.append((low, shape[axis] + reach - spread - low))
    return _convolve(
        body, value, _transposed_kernel(body, kernel, groups), ("bf", "oi", "bf"), shape,
        strides=[1] * len(strides), padding=amounts, dilation=dilation, gaps=strides, groups=groups, dtype=dtype,
    )  # fmt: skip


def _kernel_gradient(
    body: Emitter, value: Value, result: Value, shape: Sequence[int], strides: list[int], padding: list[int],
    dilation: list[int], groups: int,
) -> Value:  # fmt: skip
    """Of _forward(value) = result, for a kernel of `shape`: batches are summed over."""
    amounts = []
    for axis, (step, edge, gap) in enumerate(zip(strides, padding, dilation), start=2):
        reach = (result.shape[axis] - 1) * step + 1
        amounts.append((edge, reach + (shape[axis] - 1) * gap - value.shape[axis] - edge))
    return _convolve(
        body, value, result, ("fb", "io", "fb"), shape, strides=dilation, padding=amounts, dilation=strides,
        gaps=[1] * len(strides), batch_groups=groups,
    )  # fmt: skip


@emits("convolution.default")
def convolution(
    body: Emitter, out: Spec, value: Value, kernel: Value, bias: Value | None, strides: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    space = value.rank - 2
    steps, edges, gaps = (_many(each, space) for each in (strides, padding, dilation))
    make = _transposed if transposed else _forward
    wide = torch.float32 if bias is not None and out.dtype.itemsize == 2 else out.dtype
    made = make(body, value, kernel, out.shape, steps, edges, gaps, groups, wide)
    if bias is not None:
        made = body.add(made, body.broadcast_in_dim(body.convert(bias, wide), out.shape, [1]))
    return body.convert(made, out.dtype)


@emits("convolution_backward.default")
def convolution_backward(
    body: Emitter, out: Any, gradient: Value, value: Value, kernel: Value, bias_sizes: Any, strides: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, wanted: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:  # fmt: skip
    """(of the value, of the kernel, of the bias), None where not wanted."""
    space = value.rank - 2
    steps, edges, gaps = (_many(each, space) for each in (strides, padding, dilation))
    of_value = of_kernel = of_bias = None
    if wanted[0]:
        back = _forward if transposed else _transposed
        of_value = back(body, gradient, kernel, value.shape, steps, edges, gaps, groups)
    if wanted[1]:
        pair = (gradient, value) if transposed else (value, gradient)
        of_kernel = _kernel_gradient(body, pair[0], pair[1], kernel.shape, steps, edges, gaps, groups)
    if wanted[2]:
        wide = body.convert(gradient, torch.float32 if gradient.dtype.itemsize == 2 else gradient.dtype)
        total = body.reduce("add", wide, [axis for axis in range(gradient.rank) if axis != 1], 0)
        of_bias = body.convert(total, gradient.dtype)
    return of_value, of_kernel, of_bias
