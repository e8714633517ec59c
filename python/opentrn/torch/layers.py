"""Where a graph's gathers and scatters of weights stand among its layers, by AWS's variables.

NEURON_FSDP=1 puts a gather of a weight in parts before the layer that lies NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT before
the one that reads the weight, and a scatter of a gradient NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT - 1 layers behind the one
that makes it: what is scattered as it is made runs beside the next layer already. Layers are those of JAX's programs
(src/spmd/run/weight_collectives.h).
"""

from __future__ import annotations

from itertools import pairwise

from torch import fx

from opentrn import _core
from opentrn.base.notices import tell_once
from opentrn.torch.emitter import schema_name


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
    nodes = list(graph.nodes)
    numbers = {node: number for number, node in enumerate(nodes)}
    rows = [(node.op, schema_name(node), list(map(numbers.__getitem__, node.all_input_nodes)), _shape(node))
            for node in nodes]  # fmt: skip
    for before, node in pairwise(_core.order_of_layers(rows, early, max(late - 1, 0))):
        nodes[before].append(nodes[node])
    graph.lint()


def _shape(node: fx.Node) -> str:
    return str(getattr(node.meta.get("val"), "shape", ""))
