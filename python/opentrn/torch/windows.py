"""Windows of signals that torch makes by kernels of its own, for which no other device has one."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def _kaiser(
    length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None, **_: Any
) -> torch.Tensor:
    """i0(beta sqrt(1 - t^2)) / i0(beta) for t from -1 to 1. Scaled functions: i0 itself overflows from beta = 92 on."""
    dtype = dtype or torch.get_default_dtype()
    last = length if periodic else length - 1
    if length <= 1:
        return aten.full([length], 1, dtype=dtype, device=device)
    t = aten.arange(length, dtype=torch.float32, device=device) * (2 / last) - 1
    inner = abs(beta) * torch.clamp_min(1 - t * t, 0).sqrt()
    whole = torch.special.i0e(aten.full([], beta, dtype=torch.float32, device=device))
    return (torch.special.i0e(inner) * torch.exp(inner - abs(beta)) / whole).to(dtype)


DECOMPOSITIONS: dict[Any, Any] = {
    aten.kaiser_window.default: _kaiser, aten.kaiser_window.periodic: _kaiser, aten.kaiser_window.beta: _kaiser,
}  # fmt: skip
