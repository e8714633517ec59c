"""flex_attention and its gradients: the user's functions over all scores, as torch's own reference computes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import math_attention, sdpa_dense_backward
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES
from opentrn.torch.text import Value

_PLACE = torch.device("cpu")


def flex_attention(
    body: Emitter,
    out: Any,
    query: Value,
    key: Value,
    value: Value,
    score_mod: fx.GraphModule,
    block_mask: tuple[Any, ...],
    scale: float,
    options: dict[str, Any],
    score_buffers: tuple[Any, ...] = (),
    mask_buffers: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    """(attention, log of the sums, largest scores). Of the block mask only its function is used."""
    count = 3 + len(score_buffers)

    def attention(*given: Any) -> tuple[torch.Tensor, ...]:
        return math_attention(
            *given[:3], score_mod, (block_mask[-1],), scale, options, given[3:count], given[count:]
        )

    made = _traced(
        body, attention, [query, key, value, *score_buffers, *mask_buffers], _place(score_mod, block_mask[-1])
    )
    return tuple(body.tensor(each, spec.dtype, spec.shape) for each, spec in zip(made, out))


def flex_attention_backward(
    body: Emitter,
    out: Any,
    query: Value,
    key: Value,
    value: Value,
    result: Value,
    sums: Value,
    gradient: Value | None,
    gradient_of_sums: Value | None,
    score_mod: fx.GraphModule,
    joint: fx.GraphModule,
    block_mask: tuple[Any, ...],
    scale: float,
    options: dict[str, Any],
    score_buffers: tuple[Any, ...] = (),
    mask_buffers: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    """Gradients of query, key and value, and a tuple of those of what the score function captures."""
    count = 7 + len(score_buffers)
    wants = [each is not None for each in _results(joint)[5:]]  # before them, of the score and of its four places

    def gradients(*given: Any) -> list[Any]:
        *found, of_captured = sdpa_dense_backward(
            *given[:7], score_mod, joint, (block_mask[-1],), scale, options, given[7:count], given[count:]
        )
        return [*found, *(each for each, wanted in zip(of_captured, wants) if wanted)]

    given = [query, key, value, result, sums, gradient, gradient_of_sums, *score_buffers, *mask_buffers]
    leaves = {7 + at for at, wanted in enumerate(wants) if wanted}
    made = _traced(body, gradients, given, _place(score_mod, joint, block_mask[-1]), leaves)
    specs = [*out[:3], *(spec for spec, wanted in zip(out[3], wants, strict=True) if wanted)]
    typed = [body.tensor(each, spec.dtype, spec.shape) for each, spec in zip(made, specs, strict=True)]
    captured = iter(typed[3:])
    return (*typed[:3], tuple(next(captured) if wanted else None for wanted in wants))


def _results(graph: fx.GraphModule) -> Sequence[Any]:
    return graph.graph.output_node().args[0]


def _place(*graphs: fx.GraphModule) -> torch.device:
    """The device that the user's functions make tensors on."""
    devices = (node.kwargs.get("device") for graph in graphs for node in graph.graph.nodes)
    return next((each for each in devices if isinstance(each, torch.device)), _PLACE)


def _traced(
    body: Emitter,
    function: Callable[..., Any],
    given: Sequence[Any],
    place: torch.device,
    leaves: Collection[int] = (),
) -> list[Any]:
    """What the function gives for these, written into the body: its ops by torch, those of its Values by our rules.

    leaves: which of the given want a gradient, as the function asks tensors.
    """
    from opentrn.torch import decompositions

    places = [at for at, each in enumerate(given) if isinstance(each, Value)]

    def of_tensors(*tensors: torch.Tensor) -> Any:
        full = list(given)
        for at, tensor in zip(places, tensors):
            full[at] = tensor
        return function(*full)

    with FakeTensorMode() as mode, torch.no_grad():
        fakes = [torch.empty(given[at].shape, dtype=given[at].dtype, device=place) for at in places]
        wanting = [fake.clone().requires_grad_(at in leaves) for at, fake in zip(places, fakes)]
    with mode, torch.no_grad():
        # Inside functionalize() no tensor says that it wants a gradient.
        traced = make_fx(of_tensors)(*wanting)
        table = {**decompositions.table(), torch.ops.flex_lib.zeros_and_scatter.default: _scattered}
        traced = make_fx(torch.func.functionalize(traced), decomposition_table=table)(*fakes)
    return body.run_graph(traced, [given[at] for at in places])


def _scattered(shape: list[int], indices: list[torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    """The gradient of an element that a score function reads: torch's op, which has no decomposition."""
    return torch.ops.aten.index_put(values.new_zeros(shape), indices, values, accumulate=True)


RULES[torch.ops.higher_order.flex_attention] = flex_attention
RULES[torch.ops.higher_order.flex_attention_backward] = flex_attention_backward
