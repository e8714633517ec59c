"""Numbers as quantisation would leave them, which training for quantised models computes with.

(rounded to the steps of a scale, whether they lie within the range of the steps)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _steps(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
    """scale, zero: numbers, or tensors that go with x. Steps are counted in float32, which has all of 24 bits."""
    wide = x.to(torch.float32)
    step = torch.round(wide * (1.0 / scale)) + zero
    held = torch.clamp(step, low, high)
    return ((held - zero) * scale).to(x.dtype), (step >= low) & (step <= high)


def _per_tensor(x: Tensor, scale: float, zero: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    return _steps(x, scale, zero, low, high)


def _per_tensor_of_tensors(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """`enabled`: 0 where x is to stay as it is."""
    made, inside = _steps(x, scale.reshape(()), zero.reshape(()).to(torch.float32), low, high)
    on = enabled.reshape(()) != 0
    return torch.where(on, made, x), inside | ~on


def _per_channel(x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    shape = [1] * x.dim()
    shape[axis] = -1
    return _steps(x, scale.reshape(shape), zero.to(torch.float32).reshape(shape), low, high)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: _per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _per_tensor_of_tensors,
    aten.fake_quantize_per_channel_affine_cachemask.default: _per_channel,
}
