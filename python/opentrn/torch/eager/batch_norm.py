"""Batch normalisation, whose schema does not say that training writes the running statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Arguments that an op writes without a word of it in its schema, where it trains.
WRITTEN: dict[str, tuple[str, ...]] = {"aten::native_batch_norm": ("running_mean", "running_var")}


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


FORMS = {"aten::native_batch_norm": native_batch_norm}
