"""A graph with ops that no device runs: those are torch's own on the host, the rest stays on the device."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from opentrn.errors import NotModelled
from opentrn.torch import skipped
from opentrn.torch.ops.effects import CHECK
from opentrn.torch.registry import rule_of
from opentrn.torch.settings import Settings
from opentrn.torch.types import ELEMENTS


class _OnDevice(OperatorSupportBase):
    """Ops that have a rule, all of whose tensors have a form on the device and sizes that are known."""

    def is_node_supported(self, _modules: Any, node: fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(_modules, node.args[0])
        if rule_of(node.target) is None or _is_foreign_effect(node) or _holds_graphs(node):
            return False
        return all(map(_has_form, [node, *node.all_input_nodes]))


def _holds_graphs(node: fx.Node) -> bool:
    """Branches and loops: the partitioner would make their graphs inputs of a part."""
    return isinstance(node.target, torch._ops.HigherOrderOperator) and any(
        each.op == "get_attr" for each in node.all_input_nodes
    )


def _is_foreign_effect(node: fx.Node) -> bool:
    return node.target is torch.ops.higher_order.with_effects and node.args[1] is not CHECK


def _has_form(node: fx.Node) -> bool:
    value = node.meta.get("val")
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return all(
        part is None
        or isinstance(part, torch.Tensor)
        and part.dtype in ELEMENTS
        and part.device.type == "cpu"
        and all(isinstance(size, int) for size in part.shape)
        for part in parts
    )


def _as_traced(given: Any, traced: Any) -> Any:
    """An argument in the strides that it was traced with, of which the views of the host's ops are."""
    from opentrn.torch.program import with_strides

    if not (isinstance(given, torch.Tensor) and isinstance(traced, torch.Tensor)) or given.layout != torch.strided:
        return given
    known = all(isinstance(step, int) for step in traced.stride())
    return with_strides(given, traced.stride()) if known and given.stride() != traced.stride() else given


def _interpreted(module: fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    traced = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]

    def run(arguments: list[Any]) -> list[Any]:
        skipped.THREAD.touched += 1
        taken = [_as_traced(*pair) for pair in zip(arguments, traced)]
        arguments.clear()
        return fx.Interpreter(module).run(*taken)

    run._boxed_call = True  # type: ignore[attr-defined]  # a mark for torch
    return run


def with_host_parts(
    module: fx.GraphModule, settings: Settings, name: str, fault: NotModelled
) -> Callable[[list[Any]], list[Any]]:
    """Runs the graph in parts: stderr says which ops torch runs on the host, and why."""
    from opentrn.torch.program import CallableGraph

    inputs = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    if not all(map(_has_form, (node for node in module.graph.nodes if node.op == "placeholder"))) or any(
        isinstance(value, torch.SymInt) for value in inputs
    ):
        print(f"opentrn: {name} runs on the host: {fault}", file=sys.stderr)
        return _interpreted(module)
    parts = CapabilityBasedPartitioner(module, _OnDevice(), allows_single_node_partition=True)
    split = parts.fuse_partitions(parts.propose_partitions())
    on_host = [
        str(node.target)
        for node in split.graph.nodes
        if node.op == "call_function" and node.target is not operator.getitem
    ]
    try:
        for number, node in enumerate(n for n in split.graph.nodes if n.op == "call_module"):
            part = CallableGraph(getattr(split, node.target), settings, f"{name}_part{number}")
            setattr(split, node.target, _Part(part))
    except NotModelled as other:
        print(f"opentrn: {name} runs on the host: {other}", file=sys.stderr)
        return _interpreted(module)
    print(f"opentrn: {', '.join(sorted(set(on_host)))} of {name} runs on the host: {fault}", file=sys.stderr)
    return _interpreted(split)


class _Part(torch.nn.Module):
    """A part of a graph on the device, called as the module that it was."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program

    def forward(self, *arguments: Any) -> Any:
        results = self.program(list(arguments))
        return results[0] if self.program.is_single else tuple(results)
