"""embedding_bag by products, gathers and scatters: sums, means and maxima of bags of rows of a table.

`offsets` says where the bags begin in `indices`; which bag an index is in is a comparison with all of them, and the sum
over a bag a product with that matrix of zeros and ones, in fp32. Indices equal to `padding_idx` count nowhere. And what
`max_norm` of either kind of embedding does to its table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SUM, MEAN, MAX = range(3)
aten = torch.ops.aten


def _bag_of_each(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    places = torch.arange(indices.numel(), dtype=torch.int32, device=indices.device)
    return (places[:, None] >= offsets[None, :].to(torch.int32)).sum(1) - 1


def _counts(indices: torch.Tensor, padding_idx: int) -> torch.Tensor:
    """True for the indices that count."""
    return indices != padding_idx if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)


def forward(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, scale_grad_by_freq: bool = False,
    mode: int = SUM, sparse: bool = False, per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """aten._embedding_bag: (bags x width, bag of each index, size of each bag, index of each maximum)."""
    del scale_grad_by_freq, sparse
    begins = offsets[:-1] if include_last_offset else offsets
    bags = begins.shape[0]
    bag = _bag_of_each(indices, begins)
    member = (bag[None, :] == torch.arange(bags, device=indices.device)[:, None]) & _counts(
        indices, padding_idx
    )[None, :]
    size = member.sum(1)
    rows = weight[indices]
    if mode == MAX:
        if not indices.numel():
            return (
                weight.new_zeros(bags, weight.shape[1]),
                bag,
                size,
                size[:, None].expand(-1, weight.shape[1]),
            )
        best, place = torch.where(member[:, :, None], rows[None], -torch.inf).max(1)
        taken = torch.where(size[:, None] > 0, best, 0)
        return taken, bag, size, indices[place]
    rows = rows.float()
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.float()[:, None]
    total = member.float() @ rows
    if mode == MEAN:
        total = total / size.clamp(min=1)[:, None]
    return total.to(weight.dtype), bag, size, torch.zeros_like(size)


def dense_backward(
    grad: torch.Tensor, indices: torch.Tensor, offset2bag: torch.Tensor, bag_size: torch.Tensor,
    maximum_indices: torch.Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int,
    per_sample_weights: torch.Tensor | None, padding_idx: int = -1,
) -> torch.Tensor:  # fmt: skip
    """aten._embedding_bag_dense_backward: the gradient of the table."""
    if mode == MAX:
        kept = torch.where(bag_size[:, None] > 0, grad, 0)
        return grad.new_zeros(num_weights, grad.shape[1]).scatter_add(0, maximum_indices, kept)
    rows = grad[offset2bag]
    if mode == MEAN:
        rows = rows / bag_size.clamp(min=1)[offset2bag][:, None].to(rows.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    return aten.embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


def weights_backward(
    grad: torch.Tensor, weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, offset2bag: torch.Tensor,
    mode: int, padding_idx: int = -1,
) -> torch.Tensor:  # fmt: skip
    """aten._embedding_bag_per_sample_weights_backward; weights are of sums only."""
    del offsets, mode
    each = (grad[offset2bag].float() * weight[indices].float()).sum(-1)
    return torch.where(_counts(indices, padding_idx), each, 0).to(grad.dtype)


def backward(
    grad: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, offset2bag: torch.Tensor, bag_size: torch.Tensor,
    maximum_indices: torch.Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: torch.Tensor | None, padding_idx: int = -1,
) -> torch.Tensor:  # fmt: skip
    """aten._embedding_bag_backward; a sparse gradient is a dense one on a device."""
    del offsets, sparse
    return dense_backward(
        grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
        padding_idx,
    )  # fmt: skip


def renorm(weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    """aten.embedding_renorm: rows that are looked up are at most so long.

    weight: [rows, columns], of a float dtype, which the result has too; indices: integers of any shape.
    """
    is_used = torch.zeros(weight.shape[0], dtype=torch.bool, device=weight.device)
    is_used = is_used.index_fill(0, indices.reshape(-1), True)
    length = torch.linalg.vector_norm(weight, norm_type, 1)
    scale = torch.where(is_used & (length > max_norm), max_norm / (length + 1e-7), 1.0)
    return (weight * scale[:, None]).to(weight.dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._embedding_bag.default: forward,
    aten._embedding_bag_forward_only.default: forward,
    aten._embedding_bag_backward.default: backward,
    aten._embedding_bag_dense_backward.default: dense_backward,
    aten._embedding_bag_per_sample_weights_backward.default: weights_backward,
    aten.embedding_renorm.default: renorm,
}
