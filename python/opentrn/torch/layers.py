"""Where a graph's gathers and scatters of weights stand among its layers, by AWS's variables.

NEURON_FSDP=1 puts a gather of a weight in parts before the layer that lies NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT before
the one that reads the weight, and a scatter of a gradient NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT - 1 layers behind the one
that makes it: what is scattered as it is made runs beside the next layer already. Layers are those of JAX's programs
(src/spmd/run/weight_collectives.h).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx

from opentrn import _core
from opentrn.base.notices import tell_once
from opentrn.torch.emitter import schema_name

_GATHER, _SCATTER = "_c10d_functional::all_gather_into_tensor", "_c10d_functional::reduce_scatter_tensor"
_WAIT = "_c10d_functional::wait_tensor"
# What makes of a weight no more than its bytes in another place or format.
_MOVES = {
    "alias", "as_strided", "clone", "constant_pad_nd", "detach", "expand", "permute", "reshape", "select", "slice",
    "split", "squeeze", "t", "_to_copy", "transpose", "unsqueeze", "_unsafe_view", "view", "convert_element_type",
}  # fmt: skip
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "convolution", "einsum"}


@dataclass
class _Weight:
    """A collective of a weight."""

    node: fx.Node
    moment: fx.Node  # the wait for what is gathered; what makes what is scattered
    place: int  # of the moment, in the graph
    layer: int = 0


def _op(node: fx.Node) -> str:
    return schema_name(node).partition("::")[2]


def _is_moved_argument(node: fx.Node) -> bool:
    while node.op != "placeholder":
        if not node.all_input_nodes or _op(node) not in _MOVES:
            return False
        node = node.all_input_nodes[0]
    return True


def _followers(node: fx.Node) -> set[fx.Node]:
    """All that reads it, and what reads that; not the graph's results."""
    found: set[fx.Node] = set()
    todo = list(node.users)
    while todo:
        user = todo.pop()
        if user not in found and user.op != "output":
            found.add(user)
            todo.extend(user.users)
    return found


def _reaches_product(node: fx.Node) -> bool:
    return any(_op(user) in _PRODUCTS or "attention" in _op(user) for user in _followers(node))


def _is_collective(node: fx.Node) -> bool:
    return schema_name(node).startswith("_c10d_functional::") and schema_name(node) != _WAIT


class _Arranger:
    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        self.places = {node: place for place, node in enumerate(self.nodes)}
        self.others: list[int] = []  # places of collectives of activations
        self.gathers: list[_Weight] = []
        self.scatters: list[_Weight] = []
        for node in self.nodes:
            if _is_collective(node):
                self.note(node)
        self.find_layers(self.gathers)
        self.find_layers(self.scatters)

    def note(self, node: fx.Node) -> None:
        name, given = schema_name(node), node.all_input_nodes
        if name.startswith(_GATHER) and all(map(_is_moved_argument, given)):
            waits = [user for user in node.users if schema_name(user) == _WAIT]
            if name == _GATHER and waits:
                first = min(waits, key=self.places.__getitem__)
                self.gathers.append(_Weight(node, first, self.places[first]))
        elif name.startswith(_SCATTER) and not _reaches_product(node):
            if name == _SCATTER:
                self.scatters.append(_Weight(node, given[0], self.places[given[0]]))
        else:
            self.others.append(self.places[node])

    def find_layers(self, weights: list[_Weight]) -> None:
        if not weights:
            return
        weights.sort(key=lambda weight: weight.place)
        first, last = weights[0].place, weights[-1].place
        meet = sum(first < place < last for place in self.others) > 1
        parts = [sum(place < weight.place for place in self.others) for weight in weights]
        shapes = [str(getattr(weight.node.meta.get("val"), "shape", "")) for weight in weights]
        for weight, layer in zip(weights, _core.layers_of_weights(shapes, parts, meet), strict=True):
            weight.layer = layer

    @staticmethod
    def first_of(weights: list[_Weight], layer: int) -> _Weight:
        return next(weight for weight in weights if weight.layer == layer)

    def gather_early(self, shift: int) -> None:
        """Gathers go before the first wait of the layer so many before; what they alone need of arguments, too."""
        start = next(node for node in reversed(self.nodes) if node.op == "placeholder")
        moved: set[fx.Node] = set()
        for weight in self.gathers:
            trigger = (
                self.first_of(self.gathers, weight.layer - shift).moment if weight.layer >= shift else None
            )
            if trigger is not None and self.places[trigger] > self.places[weight.node]:
                trigger.prepend(weight.node)
                continue
            for node in self.with_preparation(weight.node):
                if node in moved:
                    continue
                moved.add(node)
                if trigger is not None:
                    trigger.prepend(node)
                else:
                    start.append(node)
                    start = node

    def with_preparation(self, node: fx.Node) -> list[fx.Node]:
        found = []
        while node.op != "placeholder":
            found.append(node)
            node = node.all_input_nodes[0]
        return found[::-1]

    def scatter_late(self, shift: int) -> None:
        """Scatters go behind what makes the first gradient of the layer so many behind; their readers with them."""
        if not self.scatters or shift == 0:
            return
        last = self.scatters[-1].layer
        for weight in reversed(self.scatters):
            trigger = self.first_of(self.scatters, min(weight.layer + shift, last)).moment
            followers = _followers(weight.node)
            if self.places[trigger] <= self.places[weight.node] or trigger in followers:
                continue
            if any(map(_is_collective, followers)):
                continue  # they keep their order
            for node in sorted(followers | {weight.node}, key=self.places.__getitem__, reverse=True):
                trigger.append(node)


def arrange(graph: fx.Graph) -> None:
    """Moves collectives of weights where the environment's variables ask for it; waits stand before their first reader.

    ValueError for a value that a variable does not take.
    """
    is_ordered, has_stream, early, late = _core.environment_weight_collectives()
    if not is_ordered:
        return
    if has_stream:
        tell_once(
            "NEURON_FSDP_CC_MULTISTREAM has no effect on torch.compile: each process group is a stream of its own"
        )
    arranger = _Arranger(graph)
    arranger.gather_early(early)
    arranger.scatter_late(late - 1 if late else 0)
    graph.lint()
