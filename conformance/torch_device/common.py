"""What the runs of PyTorch's databases on the device share."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

DEVICE = "neuron"


def moved(tree: Any) -> Any:
    """Its tensors on the device, each with its own memory."""
    return pytree.tree_map_only(torch.Tensor, lambda each: each.detach().to(DEVICE), tree)


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(tree) if isinstance(each, torch.Tensor)]
