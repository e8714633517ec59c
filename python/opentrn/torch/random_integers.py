"""`x.random_(low, high)`, which torch.randint() calls on a device, as an op that has a rule.

The overload's name, `from`, is a word of Python's, and no graph that holds it can be written as code.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def _limit(dtype: torch.dtype) -> int:
    """One more than the largest whole number up to which the type has all of them, as torch draws them."""
    if dtype.is_floating_point:
        return int(2 / torch.finfo(dtype).eps) + 1
    return int(torch.iinfo(dtype).max) + 1 if dtype != torch.bool else 2


def _between(x: torch.Tensor, low: int, high: int | None, *, generator: Any = None) -> torch.Tensor:
    high = _limit(x.dtype) if high is None else high
    return aten.randint.low(low, high, list(x.shape), dtype=x.dtype, device=x.device)


def _below(x: torch.Tensor, high: int, *, generator: Any = None) -> torch.Tensor:
    return _between(x, 0, high)


DECOMPOSITIONS: dict[Any, Any] = {getattr(aten.random, "from"): _between, aten.random.to: _below}
