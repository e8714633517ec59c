"""Losses that torch takes apart otherwise than it computes them, or in a way that a core has no use for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions

aten = torch.ops.aten
_MEAN = 1


def nll_loss_backward(
    grad: Tensor, log_probabilities: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: int, total_weight: Tensor,
) -> Tensor:  # fmt: skip
    """aten.nll_loss_backward and nll_loss2d_backward: [classes], [batch, classes] or [batch, classes, ...].

    A comparison with the classes, where torch scatters a number per row.
    """
    axis = 0 if log_probabilities.dim() < 2 else 1
    column = [1] * log_probabilities.dim()
    column[axis] = classes = log_probabilities.shape[axis]
    places = torch.arange(classes, dtype=target.dtype, device=target.device).reshape(column)
    chosen = target.unsqueeze(axis)
    if reduction == _MEAN:
        grad = grad / total_weight
    if grad.dim() > 0 and grad.dim() < log_probabilities.dim():
        grad = grad.unsqueeze(axis)
    if weight is not None:
        grad = grad * weight.reshape(column)
    hot = (chosen == places) & (chosen != ignore_index)
    return torch.where(hot, -grad, torch.zeros((), dtype=grad.dtype, device=grad.device)).to(log_probabilities.dtype)


def multilabel_margin_loss(given: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """aten.multilabel_margin_loss_forward: of one row, [classes], without a reduction the loss is a scalar.

    Torch's own decomposition gives [1] there, its kernels a scalar.
    """
    loss, is_target = decompositions.multilabel_margin_loss_forward(given, target, reduction)
    return loss.reshape(()) if given.dim() < 2 else loss, is_target


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.nll_loss_backward.default: nll_loss_backward,
    aten.nll_loss2d_backward.default: nll_loss_backward,
    aten.multilabel_margin_loss_forward.default: multilabel_margin_loss,
}
