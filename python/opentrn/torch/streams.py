"""Streams of collectives in one graph: how much longer those of several process groups take beside each other.

Each process group is a stream. The ranks of a graph run the same program, so what is under way beside a collective can
be said beforehand: from the order of parts, collectives and waits, with the predicted times of the parts
(src/spmd/in_order.h). Decision 0198.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from opentrn import _core, _torch
from opentrn.torch.emitter import schema_name

WAIT = "_c10d_functional::wait_tensor"
# What a plan of src/collectives is called.
_KINDS = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "shard_dim_alltoall": "all_to_all",
    "broadcast": "broadcast",
}


# ---- results of their own ------------------------------------------------------------------------------------------

_OWN = threading.local()


def _copied(value: torch.Tensor) -> torch.Tensor:
    """Where the result of a collective goes: torch's op copies its operand to reduce it in place, the device writes
    the result there, so that the copy takes none of the stream's time.
    """
    if value.device.type != "neuron":
        return value.clone()
    of_device = _OWN.__dict__.setdefault("streams", {})
    if value.device not in of_device:
        of_device[value.device] = torch.Stream(device=value.device)
    with torch.neuron.stream(of_device[value.device]):
        return value.clone()


def _all_reduce(value: torch.Tensor, reduction: str, group: str) -> torch.Tensor:
    return torch.ops._c10d_functional.all_reduce_(_copied(value), reduction, group)


def _all_reduce_coalesced(values: list[torch.Tensor], reduction: str, group: str) -> list[torch.Tensor]:
    return torch.ops._c10d_functional.all_reduce_coalesced_([*map(_copied, values)], reduction, group)


def _broadcast(value: torch.Tensor, source: int, group: str) -> torch.Tensor:
    return torch.ops._c10d_functional.broadcast_(_copied(value), source, group)


_IN_PLACE = {
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "broadcast": _broadcast,
}


def write_results(graph: fx.Graph) -> None:
    """Collectives that torch does on a copy write their results as the device does."""
    for node in graph.nodes:
        name, _, op = schema_name(node).partition("::")
        if name == "_c10d_functional" and op in _IN_PLACE:
            node.target = _IN_PLACE[op]


# ---- time ----------------------------------------------------------------------------------------------------------


class Pace(torch.nn.Module):
    """Called before each collective of a graph, with its row: the collective takes so much longer than alone.

    `rows` are those of _core.stretches_of_graph(), with the number of a stage for the time of a part and the name of a
    process group for its stream.
    """

    def __init__(self, rows: list[tuple[Any, ...]], is_collective: list[bool]) -> None:
        super().__init__()
        self._rows = rows
        self._is_collective = is_collective
        self._factors: list[float] | None = None

    def forward(self, row: int) -> None:
        if self._factors is not None:
            _torch.stretch_collectives(self._factors[row])

    def settle(self, part_ns: Callable[[int], float | None]) -> None:
        """Once, when the parts are compiled and the groups are there; part_ns: of a stage."""
        if self._factors is None:
            self._factors = self._stretches(part_ns)

    def _stretches(self, part_ns: Callable[[int], float | None]) -> list[float]:
        alone = [1.0] * len(self._rows)
        made: list[tuple[Any, ...]] = []
        streams: dict[str, int] = {}
        cores: dict[str, list[int]] = {}
        for row, is_collective in zip(self._rows, self._is_collective):
            first, waits, kind, bytes_, _, group = row
            if not is_collective:
                ns = 0.0 if first is None else part_ns(first)
                if ns is None:
                    return alone  # a part whose sizes are not known yet
                made.append((ns, waits, "", 0, [], 0))
                continue
            stream = streams.setdefault(group, len(streams))
            if group not in cores:
                cores[group] = _cores(group)
            if not cores[group]:
                return alone  # not a group of the device's
            made.append((0.0, [], kind, bytes_, cores[group], stream))
        return _core.stretches_of_graph(made)


def _cores(group: str) -> list[int]:
    found = torch.distributed.distributed_c10d._resolve_process_group(group)
    try:
        backend = found._get_backend(torch.device("neuron"))
    except RuntimeError:
        return []
    return _torch.cores_of_group(backend)


def _bytes(value: Any) -> int | None:
    """Of a tensor or several; None where a size is a symbol."""
    if isinstance(value, (tuple, list)):
        parts = [_bytes(each) for each in value]
        return None if None in parts else sum(part for part in parts if part is not None)
    traced = value.meta.get("val") if isinstance(value, fx.Node) else None
    if not isinstance(traced, torch.Tensor) or not all(isinstance(size, int) for size in traced.shape):
        return None
    return traced.numel() * traced.element_size()


def _made_by(node: Any) -> Any:
    return _made_by(node.args[0]) if node.target is operator.getitem else node


def keep_pace(
    module: fx.GraphModule, stages: dict[fx.Node, int], is_collective: Callable[[fx.Node], bool]
) -> Pace | None:
    """Calls a Pace before the collectives of a graph of several process groups, in its stages; None of other graphs."""
    rows: list[tuple[Any, ...]] = []
    kinds: list[bool] = []
    of_node: dict[fx.Node, int] = {}
    seen: set[int] = set()
    groups: set[str] = set()
    for node in module.graph.nodes:
        if node not in stages or node.target is operator.getitem:
            continue
        if not is_collective(node):
            if stages[node] not in seen:
                seen.add(stages[node])
                rows.append((stages[node], [], "", 0, [], ""))
                kinds.append(False)
            continue
        if schema_name(node) == WAIT:
            source = of_node.get(_made_by(node.args[0]))
            rows.append((None, [] if source is None else [source], "", 0, [], ""))
            kinds.append(False)
            continue
        kind = _KINDS.get(schema_name(node).partition("::")[2].partition(".")[0])
        bytes_ = _bytes(node.args[0])
        group = node.args[-1]
        if kind is None or bytes_ is None or not isinstance(group, str):
            return None
        of_node[node] = len(rows)
        groups.add(group)
        rows.append((None, [], kind, bytes_, [], group))
        kinds.append(True)
    if len(groups) < 2:
        return None
    pace = Pace(rows, kinds)
    module.add_submodule("pace", pace)
    for node, row in of_node.items():
        with module.graph.inserting_before(node):
            stages[module.graph.call_module("pace", (row,))] = stages[node]
    return pace


def part_times(parts: Mapping[int, Any]) -> Callable[[int], float | None]:
    """Of compiled parts by their stages, those with one program."""
    from opentrn.torch import usage

    def of(stage: int) -> float | None:
        program = getattr(parts.get(stage), "_only", None)
        return None if program is None else usage.on_stream_ns(program)

    return of
