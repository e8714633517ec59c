"""Tests of streams: collectives of several process groups in one compiled graph share links."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="graphs are torch's")
from torch import fx  # noqa: E402
from torch.distributed import _functional_collectives  # noqa: E402, F401

import opentrn.torch  # noqa: E402, F401
from opentrn import _core  # noqa: E402
from opentrn.torch import stages, streams  # noqa: E402

C10D, ATEN = torch.ops._c10d_functional, torch.ops.aten


def graph_of(*groups: str, waits_first: bool = False) -> fx.GraphModule:
    """An all-reduce of 4 MB in each group, and a sum of all."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    made, waited = [], []
    for group in groups:
        each = graph.call_function(ATEN.mul.Tensor, (x, 2.0))
        each.meta["val"] = torch.empty(1024, 1024, device="meta")
        reduced = graph.call_function(C10D.all_reduce.default, (each, "sum", group))
        made.append(reduced)
        if waits_first:
            waited.append(graph.call_function(C10D.wait_tensor.default, (reduced,)))
    if not waits_first:
        waited = [graph.call_function(C10D.wait_tensor.default, (each,)) for each in made]
    total = waited[0]
    for each in waited[1:]:
        total = graph.call_function(ATEN.add.Tensor, (total, each))
    graph.output((total,))
    return fx.GraphModule(torch.nn.Module(), graph)


def factors(
    module: fx.GraphModule, monkeypatch: pytest.MonkeyPatch, cores: dict[str, list[int]]
) -> list[float] | None:
    """Of the collectives of a graph whose parts take 10 us."""
    monkeypatch.setattr(streams, "_cores", cores.__getitem__)
    is_collective = lambda node: "_c10d_functional" in str(node.target)  # noqa: E731
    monkeypatch.setattr(stages, "_is_collective", is_collective)
    pace = streams.keep_pace(module, stages._stages(module.graph), is_collective)
    if pace is None:
        return None
    pace.settle(lambda _stage: 10e3)
    return [factor for factor, is_one in zip(pace._factors, pace._is_collective) if is_one]


def test_groups_on_the_same_cores_slow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = {"rows": [0, 1, 2, 3], "all": [0, 1, 2, 3]}
    first, second = factors(graph_of("rows", "all"), monkeypatch, cores)
    assert 1.2 < first <= 2 and 1.2 < second <= 2, (first, second)


def test_a_wait_between_them_and_cores_far_apart_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = {"rows": [0, 1, 2, 3], "all": [0, 1, 2, 3], "far": [32, 33, 34, 35]}
    assert factors(graph_of("rows", "all", waits_first=True), monkeypatch, cores) == [1, 1]
    assert factors(graph_of("rows", "far"), monkeypatch, cores) == [1, 1]


def test_a_graph_of_one_group_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    module = graph_of("rows", "rows")
    before = str(module.graph)
    assert factors(module, monkeypatch, {"rows": [0, 1]}) is None
    assert str(module.graph) == before


def test_a_part_of_unknown_time_leaves_the_graph_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_cores", lambda _group: [0, 1])
    module = graph_of("rows", "all")
    is_collective = lambda node: "_c10d_functional" in str(node.target)  # noqa: E731
    monkeypatch.setattr(stages, "_is_collective", is_collective)
    pace = streams.keep_pace(module, stages._stages(module.graph), is_collective)
    pace.settle(lambda _stage: None)
    assert set(pace._factors) == {1.0}


def test_groups_of_one_rank_and_tensors_without_elements_take_no_time() -> None:
    full = (0.0, [], "all_reduce", 1 << 22, [0, 1], 0)
    for nothing in ((0.0, [], "all_reduce", 1 << 22, [0], 1), (0.0, [], "all_gather", 0, [0, 1], 1)):
        assert _core.stretches_of_graph([full, nothing]) == [1, 1]


def test_rows_that_are_none_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no collective before it"):
        _core.stretches_of_graph([(1.0, [3], "", 0, [], 0)])
