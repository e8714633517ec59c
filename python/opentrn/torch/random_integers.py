"""Random whole numbers that torch takes apart wrongly or not at all.

`x.random_(low, high)`, which torch.randint() calls on a device, becomes an op that has a rule: the overload's name,
`from`, is a word of Python's, and no graph that holds it can be written as code. `x.geometric_(p)` of whole numbers
draws floats; torch's own form draws numbers of x's type, which are all zero.
"""

from __future__ import annotations

import math
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


def _geometric(x: torch.Tensor, p: float, *, generator: Any = None) -> torch.Tensor:
    """Trials up to the first success, of chance p in (0, 1) each."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.float32
    drawn = aten.rand(list(x.shape), dtype=dtype, device=x.device)
    return (torch.floor(torch.log1p(-drawn) / math.log1p(-p)) + 1).to(x.dtype)


DECOMPOSITIONS: dict[Any, Any] = {
    getattr(aten.random, "from"): _between, aten.random.to: _below, aten.geometric.default: _geometric,
}  # fmt: skip
