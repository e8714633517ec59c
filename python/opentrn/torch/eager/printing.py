"""Tensors of the device as text. PyTorch computes on a tensor to print it, which would be some ten programs here: it
copies tensors of xla, lazy, ipu and mtia to the host first, and has no hook for other devices.
"""

from __future__ import annotations

from typing import Any

import torch


def watch() -> None:
    """Tensors of the device are copied to the host before PyTorch formats their elements."""
    plain = torch._tensor_str._tensor_str

    def on_host(self: torch.Tensor, indent: int) -> Any:
        if self.device.type == "neuron":
            self = self.detach().cpu()
        return plain(self, indent)

    torch._tensor_str._tensor_str = on_host
