"""flex_attention: the scores with the user's functions over all of them, as torch's own reference computes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import math_attention
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES
from opentrn.torch.text import Value


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
    from opentrn.torch import decompositions

    given = [query, key, value, *score_buffers, *mask_buffers]
    places = [place for place, each in enumerate(given) if isinstance(each, Value)]

    def attention(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        full = list(given)
        for place, tensor in zip(places, tensors):
            full[place] = tensor
        count = 3 + len(score_buffers)
        return math_attention(
            *full[:3], score_mod, (block_mask[-1],), scale, options, tuple(full[3:count]), tuple(full[count:])
        )

    with FakeTensorMode() as mode:
        fakes = [torch.empty(given[place].shape, dtype=given[place].dtype) for place in places]
    with mode:
        traced = make_fx(torch.func.functionalize(attention), decomposition_table=decompositions.table())(
            *fakes
        )
    made = body.run_graph(traced, [given[place] for place in places])
    return tuple(body.tensor(each, spec.dtype, spec.shape) for each, spec in zip(made, out))


RULES[torch.ops.higher_order.flex_attention] = flex_attention
