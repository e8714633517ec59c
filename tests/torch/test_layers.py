"""Tests that collectives of weights stand where AWS's variables ask for, in graphs of torch.compile."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="graphs are torch's")
from torch import fx  # noqa: E402
from torch.distributed import _functional_collectives  # noqa: E402, F401

import opentrn.torch  # noqa: E402, F401
from opentrn.torch import layers, stages  # noqa: E402

C10D, ATEN = torch.ops._c10d_functional, torch.ops.aten


def forward(count: int, *, gathers_first: bool = False) -> fx.Graph:
    """x through `count` layers of one weight in two parts, each rounded and gathered before its product."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    parts = [graph.placeholder(f"w{i}") for i in range(count)]

    def gather(i: int) -> fx.Node:
        narrow = graph.call_function(
            ATEN._to_copy.default, (parts[i],), {"dtype": torch.bfloat16}, name=f"narrow{i}"
        )
        made = graph.call_function(C10D.all_gather_into_tensor.default, (narrow, 2, "0"), name=f"gather{i}")
        made.meta["val"] = torch.empty(8, 8, device="meta")
        return made

    made = [gather(i) for i in range(count)] if gathers_first else []
    for i in range(count):
        waited = graph.call_function(
            C10D.wait_tensor.default, (made[i] if made else gather(i),), name=f"wait{i}"
        )
        x = graph.call_function(ATEN.mm.default, (x, waited), name=f"product{i}")
    graph.output((x,))
    return graph


def backward(count: int) -> fx.Graph:
    """A gradient through `count` layers, each of which scatters that of its weight and rounds the part."""
    graph = fx.Graph()
    gradient, saved = graph.placeholder("gradient"), graph.placeholder("saved")
    results = []
    for i in range(count):
        of_weight = graph.call_function(ATEN.mm.default, (saved, gradient), name=f"product{i}")
        made = graph.call_function(
            C10D.reduce_scatter_tensor.default, (of_weight, "sum", 2, "0"), name=f"scatter{i}"
        )
        made.meta["val"] = torch.empty(4, 8, device="meta")
        waited = graph.call_function(C10D.wait_tensor.default, (made,), name=f"wait{i}")
        results.append(graph.call_function(ATEN.mul.Tensor, (waited, 0.5), name=f"half{i}"))
        gradient = graph.call_function(ATEN.tanh.default, (gradient,), name=f"next{i}")
    graph.output(tuple(results))
    return graph


def order(graph: fx.Graph, monkeypatch: pytest.MonkeyPatch, **variables: object) -> list[str]:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    stages._wait_late(graph)
    layers.arrange(graph)
    return [node.name for node in graph.nodes if node.op == "call_function"]


def test_without_the_variable_a_graph_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = order(forward(2), monkeypatch, NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT=2)
    assert found == ["narrow0", "gather0", "wait0", "product0", "narrow1", "gather1", "wait1", "product1"]


@pytest.mark.parametrize("gathers_first", [False, True])
def test_gathers_begin_so_many_layers_early(monkeypatch: pytest.MonkeyPatch, gathers_first: bool) -> None:
    found = order(forward(4, gathers_first=gathers_first), monkeypatch, NEURON_FSDP=1)
    # One layer early is the default: the gather of layer i + 1 stands before the wait of layer i.
    for i in range(1, 4):
        assert found.index(f"gather{i}") < found.index(f"wait{i - 1}") < found.index(f"product{i - 1}")
        assert i < 2 or found.index(f"product{i - 2}") < found.index(f"gather{i}")
    assert found.index("narrow3") < found.index("gather3")


def test_two_layers_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    two = order(forward(4), monkeypatch, NEURON_FSDP=1, NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT=2)
    assert two.index("gather2") < two.index("wait0") and two.index("product0") < two.index(
        "gather3"
    ) < two.index("wait1")
    none = order(forward(4, gathers_first=True), monkeypatch, NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT=0)
    assert [name for name in none if not name.startswith("narrow")] == [
        f"{what}{i}" for i in range(4) for what in ("gather", "wait", "product")
    ]


def test_scatters_run_so_many_layers_late_with_what_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    as_made = order(backward(3), monkeypatch, NEURON_FSDP=1)  # one layer late: beside the next layer
    assert as_made == order(backward(3), monkeypatch, NEURON_FSDP=0)
    late = order(backward(3), monkeypatch, NEURON_FSDP=1, NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT=2)
    for i in range(2):
        assert (
            late.index(f"product{i + 1}")
            < late.index(f"scatter{i}")
            < late.index(f"wait{i}")
            < late.index(f"half{i}")
        )
    assert late.index("scatter0") < late.index("scatter1")


def test_collectives_of_activations_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fx.Graph()
    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    hidden = graph.call_function(ATEN.tanh.default, (x,), name="hidden")
    whole = graph.call_function(C10D.all_gather_into_tensor.default, (hidden, 2, "0"), name="gather")
    waited = graph.call_function(C10D.wait_tensor.default, (whole,), name="wait")
    product = graph.call_function(ATEN.mm.default, (waited, weight), name="product")
    part = graph.call_function(C10D.reduce_scatter_tensor.default, (product, "sum", 2, "0"), name="scatter")
    again = graph.call_function(C10D.wait_tensor.default, (part,), name="again")
    graph.output((graph.call_function(ATEN.mm.default, (again, weight), name="last"),))
    found = order(graph, monkeypatch, NEURON_FSDP=1, NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT=3)
    assert found == ["hidden", "gather", "wait", "product", "scatter", "again", "last"]


def test_a_stream_of_their_own_is_said_to_have_no_effect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("opentrn.base.notices._told", set())
    order(forward(2), monkeypatch, NEURON_FSDP=1, NEURON_FSDP_CC_MULTISTREAM=1)
    assert "NEURON_FSDP_CC_MULTISTREAM has no effect on torch.compile" in capsys.readouterr().err
