"""The fused ops that torch.nn's attention and encoder layers call when they infer, taken apart.

A mask holds True, or a number that is not 0, for what is left out. Its kind is torch's `mask_type`: 0 for
[queries, keys], 1 for [batch, keys], 2 for one that broadcasts to [batch, heads, queries, keys].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten
_PADDING = 1


def _scores_left_out(mask: Tensor, kind: int | None) -> Tensor:
    left_out = mask.to(torch.bool)
    return left_out[:, None, None, :] if kind == _PADDING else left_out


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """aten._native_multi_head_attention: [batch, tokens, width] each; (the result, the weights or an empty tensor)."""
    parts = [
        functional.linear(x, weight, bias).unflatten(-1, (heads, width // heads)).transpose(1, 2)
        for x, weight, bias in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    ]
    q, k, v = parts
    scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(_scores_left_out(mask, mask_type), float("-inf"))
    weights = torch.softmax(scores, -1)
    result = functional.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, weights.mean(1) if average_attn_weights else weights


def encoder_layer(
    src: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """aten._transformer_encoder_layer_fwd: [batch, tokens, width] to the same."""

    def attention(x: Tensor) -> Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return multi_head_attention(
            x, x, x, width, heads, *projections, mask, need_weights=False, mask_type=mask_type
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    def norm_1(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attention(norm_1(src))
        return x + feed_forward(norm_2(x))
    x = norm_1(src + attention(src))
    return norm_2(x + feed_forward(x))


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._native_multi_head_attention.default: multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
