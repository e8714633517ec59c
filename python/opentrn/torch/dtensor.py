"""What torch.distributed.tensor has to know of the device: how attention of DTensors is sharded.

Attention of every batch and head stands by itself, so each rank computes that of its own; a sequence is whole on
each rank. torch has such rules for the fused attention of other devices and none for the op of devices like this one.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from opentrn.torch import imports

_BATCH, _HEADS = 0, 1  # dimensions of query, key, value, and of a bias of four dimensions


def _acceptable(
    tensors: list[Any], query: Any, key: Any, results: int, given: int
) -> list[tuple[list[Any], list[Any]]]:
    """(placements of the results, of the arguments) that each axis of a mesh may have.

    tensors: of the op's first arguments, None for an absent one. given: how many arguments the op has. Heads that
    share a group's keys stay with them: they are cut where every rank has whole groups.
    """
    from torch.distributed.tensor import Replicate, Shard

    def sharded(tensor: Any, dimension: int) -> Any:
        if tensor is None:
            return None
        own = dimension - query.ndim + tensor.ndim  # a bias broadcasts from its last dimension on
        is_cut = own >= 0 and tensor.shape[own] in (query.shape[dimension], key.shape[dimension])
        return Shard(own) if is_cut else Replicate()

    rest = [None] * (given - len(tensors))
    whole = [None if each is None else Replicate() for each in tensors]
    found = [([Replicate()] * results, whole + rest)]
    heads, groups = query.shape[_HEADS], key.shape[_HEADS]
    has_whole_groups = heads == groups or groups % query.mesh.size() == 0
    for dimension in (_BATCH, _HEADS) if has_whole_groups else (_BATCH,):
        found.append(([Shard(dimension)] * results, [sharded(each, dimension) for each in tensors] + rest))
    return found


def _of_forward(query: Any, key: Any, value: Any, bias: Any, *rest: Any) -> list[tuple[list[Any], list[Any]]]:
    return _acceptable([query, key, value, bias], query, key, 1, 4 + len(rest))


def _of_backward(
    grad: Any, query: Any, key: Any, value: Any, bias: Any, out: Any, *rest: Any
) -> list[tuple[list[Any], list[Any]]]:
    return _acceptable([grad, query, key, value, bias, out], query, key, 3, 6 + len(rest))


def _forward(_op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """ATen's op as ours: of the other results only the sizes say anything (src/torch/attention.cc)."""
    query, key, value, *rest = args
    bias, _dropout, is_causal = (*rest, *(None, 0.0, False)[len(rest) :])[:3]
    out = torch.ops.opentrn.attention(query, key, value, bias, is_causal, _scale(query, kwargs))
    return out, None, None, None, query.shape[2], key.shape[2], None, None, None


def _backward(_op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    grad, query, key, value, bias, _mask, out = args[:7]
    is_causal = args[13]
    found = torch.ops.opentrn.attention_backward(
        grad, query, key, value, bias, out, is_causal, _scale(query, kwargs)
    )
    return (*found, None)


def _scale(query: Any, kwargs: dict[str, Any]) -> float:
    stated = kwargs.get("scale")
    return query.shape[-1] ** -0.5 if stated is None else stated


def _teach(tensor: ModuleType) -> None:
    """tensor: torch.distributed.tensor, imported."""
    from torch.distributed.tensor.experimental import register_sharding

    from opentrn import _torch
    from opentrn.torch import attention  # noqa: F401  # defines the ops

    register_sharding(torch.ops.opentrn.attention.default)(_of_forward)
    register_sharding(torch.ops.opentrn.attention_backward.default)(_of_backward)
    handlers = tensor.DTensor._op_dispatcher._custom_op_handlers
    handlers[torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default] = _forward
    handlers[torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default] = _backward
    _torch.set_class_with_attention(tensor.DTensor)


def watch() -> None:
    """Teaches torch.distributed.tensor when a program imports it."""
    imports.when_imported("torch.distributed.tensor", _teach)
