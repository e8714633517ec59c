"""Ops that devices compute for integers and torch's CPU does not: what their calls are traced as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opentrn.torch.registry import NoDeviceForm


def histc(value: Tensor, bins: int = 100, low: Any = 0, high: Any = 0) -> Tensor:
    """[bins] in value's type, exact while elements, and their distance from low times bins, lie below 2^24."""
    if value.is_floating_point():
        return torch.ops.aten.histc.default(value, bins, low, high)
    return torch.ops.aten.histc.default(value.to(torch.float32), bins, low, high).to(value.dtype)


def linspace(start: Any, end: Any, steps: int, *, out: Tensor) -> Tensor:
    """Between whole numbers where the result has such, as kernels have it; torch's decomposition rounds the result."""
    if not (out.is_floating_point() or out.is_complex()):
        start, end = int(start), int(end)
        if max(abs(start), abs(end)) >= 2**31:  # the host's, whose numbers have 64 bits
            raise NoDeviceForm(f"linspace from {start} to {end} does not fit the 32 bits", label="torch.range")
    return torch.ops.aten.linspace.out(start, end, steps, out=out)


FORMS: dict[str, Callable[..., Any]] = {"aten::histc": histc, "aten::linspace.out": linspace}
