"""torch.multinomial, of which torch has no form in its ops: drawn places of rows of weights.

One place, or several without replacement, are those of the largest weights over exponential numbers, as PyTorch draws
them on every device. With replacement a uniform number is looked for among the running sums of the row.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

# In the middle of the steps of 2^-24 that uniform numbers have, so that no logarithm is that of zero.
_HALF_STEP = 2.0**-25


def _check(weights: torch.Tensor, count: int, replacement: bool) -> None:
    """RuntimeError, in torch's words, where sizes or types rule a call out."""
    torch._check(
        weights.dtype.is_floating_point,
        lambda: f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}",
    )
    torch._check(count > 0, lambda: "cannot sample n_sample <= 0 samples")
    torch._check(
        replacement or count <= weights.shape[-1],
        lambda: "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    )


def drawn(weights: torch.Tensor, count: int, replacement: bool = False, *, generator: Any = None) -> torch.Tensor:
    """Places of weights (k) or (rows, k): (count) or (rows, count), int64. Weights that are none are not refused."""
    _check(weights, count, replacement)
    weights = weights.to(torch.float32)
    if count == 1 or not replacement:
        uniform = torch.rand(weights.shape, dtype=torch.float32, device=weights.device) + _HALF_STEP
        scores = weights / -torch.log(uniform)
        return scores.argmax(-1, keepdim=True) if count == 1 else scores.topk(count, -1).indices
    sums = weights.cumsum(-1)
    total = sums[..., -1:]
    # Below the total, whatever is rounded: a last weight of zero is never drawn.
    uniform = torch.rand((*weights.shape[:-1], count), dtype=torch.float32, device=weights.device)
    at = torch.minimum(uniform * total, total * (1 - 2.0**-23))
    return torch.searchsorted(sums, at, right=True)


def drawn_of_valid(
    weights: torch.Tensor, count: int, replacement: bool = False, *, generator: Any = None
) -> torch.Tensor:
    """The same in a graph; a run with weights that are none raises RuntimeError in torch's words."""
    # A NaN is neither.
    is_valid = ((weights >= 0) & (weights < float("inf"))).all()
    aten._assert_async.msg(is_valid, "probability tensor contains either `inf`, `nan` or element < 0")
    has_some = (weights.sum(-1) > 0).all()
    aten._assert_async.msg(has_some, "invalid multinomial distribution (sum of probabilities <= 0)")
    return drawn(weights, count, replacement)


DECOMPOSITIONS: dict[Any, Any] = {aten.multinomial.default: drawn_of_valid}
# Of eager programs, whose weights src/torch/values.cc looks at before.
EAGER: dict[Any, Any] = {aten.multinomial.default: drawn}
