"""The fused steps of torch's optimizers, as programs whose numbers are inputs (lifted.py), and its gradient scaler.

Each gives all that the op writes, in the order of its arguments. Low precisions compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opentrn.torch.registry import NoDeviceForm
from opentrn.torch.types import math_dtype


def _adam(
    params: Sequence[Tensor], grads: Sequence[Tensor], means: Sequence[Tensor], squares: Sequence[Tensor],
    largest: Sequence[Tensor], steps: Sequence[Tensor], *, lr: Any, beta1: Any, beta2: Any, weight_decay: Any,
    eps: Any, amsgrad: bool, maximize: bool, grad_scale: Any = None, found_inf: Any = None, decoupled: bool,
) -> list[Tensor]:  # fmt: skip
    if grad_scale is not None or found_inf is not None:
        raise NoDeviceForm("a fused optimizer's step with a gradient scaler", label="torch.no_emitter")
    new: list[list[Tensor]] = [[], [], [], []]
    for i, param in enumerate(params):
        wide = math_dtype(param.dtype)
        p, g, m, v, step = (each[i].to(wide) for each in (params, grads, means, squares, steps))
        g = -g if maximize else g
        p, g = (p * (1 - lr * weight_decay), g) if decoupled else (p, g + weight_decay * p)
        m = m + (g - m) * (1 - beta1)
        v = v * beta2 + g * g * (1 - beta2)
        bound = largest[i].to(wide).maximum(v) if amsgrad else v
        root = bound.sqrt() / (1 - beta2**step).sqrt() + eps
        p = p - (lr / (1 - beta1**step)) * (m / root)
        for values, value in zip(new, (p, m, v, bound)):
            values.append(value)
    return [*new[0], *grads, *new[1], *new[2], *(new[3] if amsgrad else [])]


def adam(*args: Any, **kwargs: Any) -> list[Tensor]:
    return _adam(*args, **kwargs, decoupled=False)


def adamw(*args: Any, **kwargs: Any) -> list[Tensor]:
    return _adam(*args, **kwargs, decoupled=True)


def unscale(grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> list[Tensor]:
    """Gradients of any shape and float dtype times inv_scale, and found_inf, which is 1 where one is not finite.

    found_inf, inv_scale: fp32, one element each.
    """
    wide = [grad.to(math_dtype(grad.dtype)) for grad in grads]
    for grad in wide:
        found_inf = torch.where(torch.isfinite(grad).all(), found_inf, torch.ones_like(found_inf))
    return [*(grad * inv_scale for grad in wide), found_inf]


def update_scale(
    scale: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: Any,
    backoff_factor: Any,
    interval: Any,
) -> list[Tensor]:
    """Scales less after an overflow, and more after so many steps without one, unless that overflows.

    scale, found_inf: fp32, growth_tracker: int32, one element each, as both results are.
    """
    overflows, steps = found_inf != 0, growth_tracker + 1
    grows = steps == interval
    larger = scale * growth_factor
    kept = torch.where(grows & torch.isfinite(larger), larger, scale)
    return [
        torch.where(overflows, scale * backoff_factor, kept),
        torch.where(overflows | grows, torch.zeros_like(steps), steps),
    ]


FORMS: dict[str, Callable[..., list[Tensor]]] = {
    "aten::_amp_foreach_non_finite_check_and_unscale_": unscale, "aten::_amp_update_scale_": update_scale,
    "aten::_fused_adam_": adam, "aten::_fused_adam_.tensor_lr": adam,
    "aten::_fused_adamw_": adamw, "aten::_fused_adamw_.tensor_lr": adamw,
}  # fmt: skip
