"""Ops that speak of where elements lie in memory: as_strided, and its form that writes.

A program's values have no strides: their elements lie in row-major order. Torch counts places from the start of the
memory that a tensor is a view of, in the order in which that was traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from opentrn.torch.text import Spec

if TYPE_CHECKING:
    from opentrn.torch.emitter import Result

aten, prims = torch.ops.aten, torch.ops.prims
_READERS = (aten.as_strided.default, aten.as_strided_copy.default, prims.as_strided.default)
WRITERS = (aten.as_strided_scatter.default, prims.as_strided_scatter.default)
OPS = frozenset(_READERS + WRITERS)


def storage_of(node: Any) -> Any:
    """What is the same for two nodes where torch traced one memory for both: nodes that share nothing are their own."""
    traced = node.meta.get("val") if isinstance(node, fx.Node) else None
    return traced.untyped_storage()._cdata if isinstance(traced, torch.Tensor) else node


def read_owners(module: fx.GraphModule) -> None:
    """What reads the memory of a view reads that of the tensor that the view is of: the same places, all of them."""
    for node in module.graph.nodes:
        if node.target in _READERS:
            node.update_arg(0, owner_of(node.args[0]))


def owner_of(node: fx.Node) -> fx.Node:
    """The tensor that a node is a view of, itself where it is none."""
    while node.args and isinstance(source := node.args[0], fx.Node) and storage_of(source) == storage_of(node):
        if source.meta["val"].dtype != node.meta["val"].dtype:
            break  # places would count other units
        node = source
    return node


def order_of(spec: Spec, start: int) -> list[int] | None:
    """Dimensions, the slowest first, in which a tensor's elements lie one after the other from the start of its memory.

    spec, start: the tensor as traced. None where they do not.
    """
    order = sorted(range(len(spec.shape)), key=lambda axis: (-spec.stride[axis], spec.shape[axis] != 1))
    step = 1
    for axis in reversed(order):
        if spec.shape[axis] != 1 and spec.stride[axis] != step:
            return None if 0 not in spec.shape else order
        step *= spec.shape[axis]
    return None if start else order


def find_starts(module: fx.GraphModule, results: Sequence[Result], concrete: Callable[[Any], int]) -> None:
    """Where results begin in their memory, for graphs of symbolic sizes.

    A result that is a view of an argument, or of another result, AOTAutograd makes again from that: by the steps of the
    view where their numbers are known, and otherwise from size, strides and offset of the tensor that it is given.
    """
    given = next(iter(module.graph.find_nodes(op="output"))).args[0]
    for node, result in zip(given if isinstance(given, (tuple, list)) else (given,), results):
        if result.program < 0 or result.spec is None:
            continue
        start = concrete(node.meta["val"].storage_offset())
        if start or shares_elements(result.spec):
            result.start = start


def shares_elements(spec: Spec) -> bool:
    return any(size > 1 and stride == 0 for size, stride in zip(spec.shape, spec.stride))


def placed(tensor: torch.Tensor, spec: Spec | None, start: int) -> torch.Tensor:
    """The values in these strides, `start` elements behind the begin of their memory."""
    assert spec is not None
    reach = sum((size - 1) * stride for size, stride in zip(spec.shape, spec.stride)) + 1
    memory = torch.empty(start + (reach if 0 not in spec.shape else 0), dtype=tensor.dtype, device=tensor.device)
    made = written = memory.as_strided(spec.shape, spec.stride, start)
    for axis, (size, stride) in enumerate(zip(spec.shape, spec.stride)):
        if size > 1 and stride == 0:
            written, tensor = written.narrow(axis, 0, 1), tensor.narrow(axis, 0, 1)
    written.copy_(tensor)
    return made
