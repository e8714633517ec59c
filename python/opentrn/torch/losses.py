"""A loss that torch takes apart otherwise than it computes it.

It is no rule of src/import/aten, because torch's form is its meta function too, which says [1] for the loss of one row:
a rule takes the shape of its result from there, a decomposition makes the scalar that eager torch gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_MEAN, _SUM = 1, 2


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    """Of one loss for each row."""
    if reduction == _MEAN:
        return loss.mean()
    return loss.sum() if reduction == _SUM else loss


def _labels(target: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Of [rows, labels]: which labels count, those before a row's first -1, and as [rows, labels, classes]."""
    places = torch.arange(classes, device=target.device)
    counts = places < torch.amin(torch.where(target == -1, places, classes), dim=-1, keepdim=True)
    return counts, (target.unsqueeze(-1) == places) & counts.unsqueeze(-1)


def _label_margins(given: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """1 - x[label] + x[class] as [rows, labels, classes], and which of these differences the loss has."""
    counts, hot = _labels(target, given.shape[1])
    chosen = torch.gather(given, -1, torch.where(counts, target, 0))
    margins = 1.0 - chosen.unsqueeze(-1) + given.unsqueeze(1)
    return margins, counts.unsqueeze(-1) & ~hot.any(1, keepdim=True) & (margins > 0)


def multilabel_margin_loss(given: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """aten.multilabel_margin_loss_forward: of one row, [classes], without a reduction the loss is a scalar.

    Torch's own decomposition counts class 0 once for each place behind a row's last label, and gives [1] for one row.
    """
    values, labels = torch.atleast_2d(given), torch.atleast_2d(target)
    margins, counted = _label_margins(values, labels)
    loss = torch.where(counted, margins, 0.0).sum((1, 2)) / values.shape[1]
    is_target = _labels(labels, values.shape[1])[1].any(1).to(given.dtype).reshape(target.shape)
    loss = _reduced(loss, reduction)
    return (loss.reshape(()) if given.dim() < 2 else loss), is_target


def _of_rows(grad: Tensor, rows: int, reduction: int) -> Tensor:
    """The gradient of a loss as one number for each row, [rows, 1], or for all of them."""
    return grad / rows if reduction == _MEAN else grad.reshape(-1, 1)


def multilabel_margin_loss_backward(
    grad: Tensor, given: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """aten's op. given: [rows, classes] or [classes], of a float dtype, which the result has too; target: int64."""
    values, labels = torch.atleast_2d(given), torch.atleast_2d(target)
    rows, classes = values.shape
    counted = _label_margins(values, labels)[1].to(given.dtype)
    taken = _labels(labels, classes)[1].to(given.dtype) * counted.sum(-1, keepdim=True)
    change = (counted.sum(1) - taken.sum(1)) / classes
    return (change * _of_rows(grad, rows, reduction)).reshape(given.shape).to(given.dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.multilabel_margin_loss_forward.default: multilabel_margin_loss,
    aten.multilabel_margin_loss_backward.default: multilabel_margin_loss_backward,
}
