"""Batch normalisation, whose schemas do not say that training writes the running statistics.

The ops of SyncBatchNorm have kernels for CUDA alone: here they are formulas. Their statistics are float32 for 16-bit
values, as CUDA's are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_RUNNING = ("running_mean", "running_var")

# Arguments that an op writes without a word of it in its schema, where it trains.
WRITTEN: dict[str, tuple[str, ...]] = {
    "aten::native_batch_norm": _RUNNING,
    "aten::native_batch_norm.out": _RUNNING,
    "aten::batch_norm_gather_stats": _RUNNING,
    "aten::batch_norm_gather_stats_with_counts": _RUNNING,
    "aten::batch_norm_update_stats": _RUNNING,
}


def native_batch_norm(
    value: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, variance: Tensor | None,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """As the op whose schema does say it, which functionalisation knows."""
    if not training or mean is None or variance is None:
        return torch.ops.aten.native_batch_norm.default(value, weight, bias, mean, variance, training, momentum, eps)
    return torch.ops.aten._native_batch_norm_legit.default(
        value, weight, bias, mean, variance, training, momentum, eps
    )


def native_batch_norm_out(*arguments: Any, **results: Tensor) -> Any:
    """The same into tensors of the caller's."""
    given = (results["out"], results["save_mean"], results["save_invstd"])
    for to, found in zip(given, native_batch_norm(*arguments)):
        to.copy_(found)
    return given


def _but_channels(value: Tensor) -> list[int]:
    return [axis for axis in range(value.dim()) if axis != 1]


def _along(statistic: Tensor, value: Tensor) -> Tensor:
    """A number of each channel, beside values."""
    return statistic.reshape([1, -1] + [1] * (value.dim() - 2))


def _wide(value: Tensor) -> Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def _moments(value: Tensor) -> tuple[Tensor, Tensor]:
    wide, axes = _wide(value), _but_channels(value)
    mean = wide.mean(axes)
    return mean, ((wide - _along(mean, wide)) ** 2).mean(axes)


def batch_norm_stats(value: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    mean, variance = _moments(value)
    return mean, torch.rsqrt(variance + eps)


def batch_norm_elemt(
    value: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    wide = _wide(value)
    result = (wide - _along(mean, wide)) * _along(invstd, wide)
    if weight is not None:
        result = result * _along(weight, wide)
    if bias is not None:
        result = result + _along(bias, wide)
    return result.to(value.dtype)


def _run_on(running: Tensor | None, found: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_((1 - momentum) * running + momentum * found)


def batch_norm_gather_stats_with_counts(
    value: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    momentum: float, eps: float, counts: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Statistics of all ranks' values, from each rank's: a row of each and how many values it had."""
    mean, invstd, counts = _wide(mean), _wide(invstd), _wide(counts)[:, None]
    total = counts.sum()
    whole = (counts * mean).sum(0) / total
    squares = (counts * (1 / invstd**2 - eps + (mean - whole) ** 2)).sum(0)
    _run_on(running_mean, whole, momentum)
    _run_on(running_var, squares / (total - 1), momentum)
    return whole, torch.rsqrt(squares / total + eps)


def batch_norm_gather_stats(
    value: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    momentum: float, eps: float, count: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    counts = torch.full((mean.shape[0],), float(count), dtype=_wide(mean).dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(
        value, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def batch_norm_update_stats(
    value: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    mean, variance = _moments(value)
    count = value.numel() // value.shape[1]
    _run_on(running_mean, mean, momentum)
    _run_on(running_var, variance * (count / (count - 1)), momentum)
    return mean, variance


def batch_norm_backward_reduce(
    grad: Tensor, value: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    input_g: bool, weight_g: bool, bias_g: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Sums over a rank's values: of the gradient, of it times the distance from the mean; gradients of weight, bias."""
    wide, axes = _wide(grad), _but_channels(grad)
    sums = wide.sum(axes)
    products = (wide * (_wide(value) - _along(mean, wide))).sum(axes)
    kind = grad.dtype if weight is None else weight.dtype
    return (
        sums if input_g else None,
        products if input_g else None,
        (products * invstd).to(kind) if weight_g else None,
        sums.to(kind) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad: Tensor, value: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None, sum_dy: Tensor,
    sum_dy_xmu: Tensor, count: Tensor,
) -> Tensor:  # fmt: skip
    wide, total = _wide(grad), count.sum()
    distance = (_wide(value) - _along(mean, wide)) * _along(invstd**2 * sum_dy_xmu / total, wide)
    scale = invstd if weight is None else invstd * weight
    return ((wide - _along(sum_dy / total, wide) - distance) * _along(scale, wide)).to(value.dtype)


FORMS: dict[str, Callable[..., Any]] = {
    "aten::native_batch_norm": native_batch_norm,
    "aten::native_batch_norm.out": native_batch_norm_out,
    "aten::batch_norm_stats": batch_norm_stats,
    "aten::batch_norm_elemt": batch_norm_elemt,
    "aten::batch_norm_gather_stats": batch_norm_gather_stats,
    "aten::batch_norm_gather_stats_with_counts": batch_norm_gather_stats_with_counts,
    "aten::batch_norm_update_stats": batch_norm_update_stats,
    "aten::batch_norm_backward_reduce": batch_norm_backward_reduce,
    "aten::batch_norm_backward_elemt": batch_norm_backward_elemt,
}
