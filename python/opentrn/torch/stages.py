"""A graph with collectives: the parts of one program, and between them what the process group computes and times.

As in a program for the device, a collective begins where its place in the graph is, and runs beside what does not
read its result: a wait stands directly before the first op that does. The device launches the parts once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.split_module import split_module

from opentrn import _torch
from opentrn.torch import layers, skipped, streams
from opentrn.torch.emitter import schema_name

# Those of torch.distributed._functional_collectives and of DTensor, as they are in graphs.
_NAMESPACES = {"_c10d_functional", "_dtensor"}
# What compiles one part: of a name, and whether the part begins the program, which launches it.
Compile = Callable[[fx.GraphModule, str, bool], Callable[[list[Any]], Any]]


def _is_on_cores(node: fx.Node) -> bool:
    value = node.meta.get("val")
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return all(isinstance(part, torch.Tensor) and part.device.type == "neuron" for part in parts)


def _is_collective(node: fx.Node) -> bool:
    """Of tensors on cores; one of the host's tensors is an op that the host runs."""
    if node.target is operator.getitem:
        return _is_collective(node.args[0])
    return schema_name(node).partition("::")[0] in _NAMESPACES and _is_on_cores(node)


def has_collectives(module: fx.GraphModule) -> bool:
    return any(map(_is_collective, module.graph.nodes))


def _wait_late(graph: fx.Graph) -> None:
    places = {node: place for place, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        if schema_name(node) == streams.WAIT and node.users:
            min(node.users, key=places.__getitem__).prepend(node)


def _stages(graph: fx.Graph) -> dict[fx.Node, int]:
    """The stage of each op: collectives and other ops take turns, in the order of the graph."""
    found: dict[fx.Node, int] = {}
    stage, was_collective = 0, None
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if node.target is operator.getitem and node.args[0] in found:
            found[node] = found[node.args[0]]
            continue
        is_collective = _is_collective(node)
        stage += is_collective is not was_collective
        was_collective = is_collective
        found[node] = stage
    return found


class _Part(torch.nn.Module):
    """A compiled part, called as the module that it was."""

    def __init__(self, module: fx.GraphModule, run: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        results = next(iter(module.graph.find_nodes(op="output"))).args[0]
        self.is_single = not isinstance(results, (tuple, list))
        self.run = run

    def forward(self, *arguments: Any) -> Any:
        results = self.run(list(arguments))
        return results[0] if self.is_single and isinstance(results, list) else results


def in_stages(module: fx.GraphModule, name: str, compile_part: Compile) -> Callable[[list[Any]], Any]:
    """The graph as AOTAutograd calls it. Raises what compile_part() raises."""
    _wait_late(module.graph)
    layers.arrange(module.graph)
    stages = _stages(module.graph)
    pace = streams.keep_pace(module, stages, _is_collective)
    of_group = {
        f"submod_{stage}"
        for node, stage in stages.items()
        if node.op == "call_function" and _is_collective(node)
    }
    streams.write_results(module.graph)
    split = split_module(module, module, stages.__getitem__, keep_original_order=True)
    parts = [node.target for node in split.graph.find_nodes(op="call_module") if node.target not in of_group]
    compiled: dict[int, Any] = {}
    for number, target in enumerate(parts):
        part = getattr(split, target)
        made = compile_part(part, f"{name}_part{number}", number == 0)
        compiled[int(target.rpartition("_")[2])] = made
        setattr(split, target, _Part(part, made))

    def run(arguments: list[Any]) -> Any:
        skipped.THREAD.touched += 1
        taken = list(arguments)
        arguments.clear()
        if pace is None:
            return split(*taken)
        pace.settle(streams.part_times(compiled))
        try:
            return split(*taken)
        finally:
            _torch.stretch_collectives(1.0)

    run._boxed_call = True  # type: ignore[attr-defined]  # a mark for torch
    return run
