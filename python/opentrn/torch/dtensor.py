"""What torch.distributed.tensor has to know of the device: how attention of DTensors is sharded.

Attention of every batch and head stands by itself, so each rank computes that of its own; a sequence is whole on
each rank. torch has such rules for the fused attention of other devices and none for the op of devices like this one.
In torch's context_parallel() each rank has its own rows of a sequence, in the order of torch's load balancer.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from opentrn.errors import NotModelled
from opentrn.torch import imports

_BATCH, _HEADS, _SEQUENCE = 0, 1, 2  # dimensions of query, key, value, and of a bias of four dimensions


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


def _is_of_context_parallel(query: Any) -> bool:
    """Whether torch's context_parallel() asks: its handlers are there, and the sequence is cut."""
    from torch.distributed.tensor import DTensor, Shard

    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    asks = flash in DTensor._op_dispatcher._custom_op_handlers  # torch puts it there and takes it away
    return asks and query.placements == (Shard(_SEQUENCE),)


def _places(query: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of the whole sequence that this rank's rows are, and those of the gathered ones.

    torch's load balancer gives rank r the parts r and 2 N - 1 - r of 2 N.
    """
    from torch.distributed.tensor.experimental._context_parallel import _attention

    mesh = query.device_mesh
    ranks, count = mesh.size(), query.shape[_SEQUENCE]
    places = torch.arange(count)
    if _attention._cp_options.enable_load_balance:
        parts = places.chunk(2 * ranks)
        places = torch.cat([part for r in range(ranks) for part in (parts[r], parts[2 * ranks - 1 - r])])
    places = places.to(query.device)
    return places.chunk(ranks)[mesh.get_local_rank()], places


def _mask(query: Any, bias: Any, is_causal: bool) -> torch.Tensor | None:
    """As a bias: which of the gathered keys each of this rank's queries sees."""
    if bias is not None:
        raise NotModelled(
            "attention with a mask inside context_parallel()",
            label="torch.no_emitter", hint="is_causal, or no context_parallel()",
        )  # fmt: skip
    if not is_causal:
        return None
    own, every = _places(query)
    seen = own[:, None] >= every[None, :]
    return torch.zeros(seen.shape, dtype=query.dtype, device=query.device).masked_fill_(~seen, float("-inf"))


def _gathered(tensor: Any) -> torch.Tensor:
    from torch.distributed.tensor import Replicate

    return tensor.redistribute(placements=[Replicate()]).to_local()


def _forward_of_context(query: Any, key: Any, value: Any, bias: Any, is_causal: bool, scale: float) -> Any:
    """This rank's queries over the keys of all ranks, which are gathered."""
    from torch.distributed.tensor import DTensor

    mask = _mask(query, bias, is_causal)
    made = torch.ops.opentrn.attention(query.to_local(), _gathered(key), _gathered(value), mask, False, scale)
    return DTensor.from_local(made, query.device_mesh, query.placements, run_check=False)


def _backward_of_context(
    grad: Any, query: Any, key: Any, value: Any, bias: Any, out: Any, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """What each rank finds for the keys and values of others is summed where they lie."""
    from torch.distributed.tensor import DTensor, Partial

    mask = _mask(query, bias, is_causal)
    local = [each.to_local() for each in (grad, query)]
    of_query, *others = torch.ops.opentrn.attention_backward(
        *local, _gathered(key), _gathered(value), mask, out.to_local(), False, scale
    )
    mesh = query.device_mesh
    summed = [
        DTensor.from_local(each, mesh, [Partial()], run_check=False).redistribute(placements=query.placements)
        for each in others[:2]
    ]
    return DTensor.from_local(of_query, mesh, query.placements, run_check=False), *summed


def _forward(_op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """ATen's op as ours: of the other results only the sizes say anything (src/torch/attention.cc)."""
    query, key, value, *rest = args
    bias, _dropout, is_causal = (*rest, *(None, 0.0, False)[len(rest) :])[:3]
    if _is_of_context_parallel(query):
        out = _forward_of_context(query, key, value, bias, is_causal, _scale(query, kwargs))
        return out, None, None, None, query.shape[2], key.shape[2], None, None, None
    out = torch.ops.opentrn.attention(query, key, value, bias, is_causal, _scale(query, kwargs))
    return out, None, None, None, query.shape[2], key.shape[2], None, None, None


def _backward(_op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    grad, query, key, value, bias, _mask, out = args[:7]
    is_causal = args[13]
    if _is_of_context_parallel(query):
        scale = _scale(query, kwargs)
        return *_backward_of_context(grad, query, key, value, bias, out, is_causal, scale), None
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
