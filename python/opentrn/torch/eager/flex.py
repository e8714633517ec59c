"""flex_attention of tensors of the device: PyTorch names the devices that it takes tensors of."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch import imports


def _admit(module: Any) -> None:
    """module: torch.nn.attention.flex_attention. What it computes with tensors is ops of any device."""
    refuses = module._validate_device

    def validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "neuron":
            refuses(query, key, value)

    module._validate_device = validate


def watch() -> None:
    """Admits them when a program imports it."""
    imports.when_imported("torch.nn.attention.flex_attention", _admit)
