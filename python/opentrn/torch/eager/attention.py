"""Attention forward and backward as one program each (src/torch/attention.cc), computed in float32.

Shapes: query [batch, heads, L, E], key [batch, heads, S, E], value [batch, heads, S, V]; bias is added to the scores
and broadcasts to [batch, heads, L, S]. A row of scores that is masked whole has weights of zero, as torch has it.
Results lie in memory as the query (or the operand that they are the gradient of) does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32)


def _like(value: Tensor, pattern: Tensor) -> Tensor:
    """In the pattern's type and order of dimensions in memory."""
    order = sorted(range(pattern.dim()), key=lambda i: -pattern.stride(i))
    back = sorted(range(len(order)), key=order.__getitem__)
    return value.to(pattern.dtype).permute(order).contiguous().permute(back)


def _weights(query: Tensor, key: Tensor, bias: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    scores = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    if bias is None:
        return scores.softmax(-1)
    scores = scores + _wide(bias)
    nothing = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.softmax(-1).masked_fill(nothing, 0)


def forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool, scale: float
) -> Tensor:
    """[batch, heads, L, V]."""
    return _like(_weights(_wide(query), _wide(key), bias, is_causal, scale) @ _wide(value), query)


def backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor, is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of query, key and value."""
    g, q, k, v = map(_wide, (grad, query, key, value))
    weights = _weights(q, k, bias, is_causal, scale)
    of_value = weights.transpose(-2, -1) @ g
    of_scores = weights * (g @ v.transpose(-2, -1) - (g * _wide(out)).sum(-1, keepdim=True))
    of_query = (of_scores @ k) * scale
    of_key = of_scores.transpose(-2, -1) @ (q * scale)
    return _like(of_query, query), _like(of_key, key), _like(of_value, value)


FORMS: dict[str, Callable[..., Any]] = {"opentrn::attention": forward, "opentrn::attention_backward": backward}
