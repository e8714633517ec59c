"""Ops over lists of tensors, and the optimizers that are made of them, against eager torch; nothing on the host."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

import opentrn.torch  # noqa: E402, F401
from opentrn.torch.foreach import decompositions  # noqa: E402

RNG = np.random.default_rng(0)
SHAPES = [(3, 4), (5,), (2, 3)]
# What a list may hold instead of numbers in general.
POSITIVE = {"sqrt", "rsqrt", "log", "log10", "log1p", "log2", "lgamma", "reciprocal", "pow", "powsum"}
UNIT = {"acos", "asin"}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def tensors(name: str, shapes: list[tuple[int, ...]]) -> list[Any]:
    low, high = (0.5, 2) if name in POSITIVE else (-0.9, 0.9) if name in UNIT else (-2, 2)
    return [torch.from_numpy(RNG.uniform(low, high, shape).astype(np.float32)) for shape in shapes]


def arguments(name: str, overload: Any) -> list[Any]:
    """One value for each argument of the schema without a default."""
    given: list[Any] = []
    for argument in overload._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value():
            continue
        if kind == "List[Tensor]":
            shapes = [(4, 4)] * 3 if name == "mm" else SHAPES
            values = tensors(name, shapes)
            given.append([each + 3 for each in values] if name == "addcdiv" and len(given) == 2 else values)
        elif kind == "List[number]":
            given.append([0.5, 2.0, 1.5])
        elif kind == "Tensor":
            given.append(torch.tensor([0.5, 2.0, 1.5]) if argument.name == "scalars" else torch.tensor(1.5))
        else:
            assert kind == "number", kind
            given.append(1.5)
    return given


OPS = [op for op in decompositions() if op._schema.name != "aten::_foreach_mm"]


@pytest.mark.parametrize("op", OPS, ids=lambda op: str(op).removeprefix("aten._foreach_"))
def test_an_op_over_lists_is_the_op_on_each(op: Any) -> None:
    name = op._schema.name.removeprefix("aten::_foreach_")
    given = arguments(name, op)
    # The backend's own path without dynamo's: a decomposed graph with nothing but the op in it.
    ours = decompositions()[op](*given)
    theirs = op(*given)
    torch.testing.assert_close(list(ours), list(theirs), rtol=1e-6, atol=1e-6)


def test_a_graph_of_them_runs_on_the_device() -> None:
    def step(weights: list[Any], gradients: list[Any]) -> tuple[Any, list[Any]]:
        norms = torch._foreach_norm(gradients)
        total = torch.linalg.vector_norm(torch.stack(norms))
        scaled = torch._foreach_mul(gradients, torch.clamp(1.0 / (total + 1e-6), max=1.0))
        squares = torch._foreach_pow(0.9, torch._foreach_maximum(torch._foreach_abs(scaled), 0.1))
        torch._foreach_addcdiv_(weights, scaled, squares, value=-0.1)
        torch._foreach_lerp_(weights, gradients, 0.01)
        return total, torch._foreach_sub(weights, 0.5)

    given, again = (tensors("w", SHAPES), tensors("g", SHAPES)), None
    again = tuple([each.clone() for each in part] for part in given)
    ours = torch.compile(step, backend="neuron", fullgraph=True)(*given)
    torch.testing.assert_close(ours, step(*again), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(given, again, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adadelta", "Rprop"])
def test_foreach_optimizers_step_on_the_device(name: str) -> None:
    kind = getattr(torch.optim, name)
    options: dict[str, Any] = {"lr": 0.05, "foreach": True}
    if "weight_decay" in inspect.signature(kind).parameters:
        options["weight_decay"] = 0.01
    start = tensors("w", SHAPES)
    steps = []
    for backend in ("neuron", None):
        torch._dynamo.reset()
        weights = [torch.nn.Parameter(each.clone()) for each in start]
        optimizer = kind(weights, **options)
        step = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
        for _ in range(3):
            for i, weight in enumerate(weights):
                weight.grad = torch.sin(weight.detach() * (i + 1)) + 0.1
            step()
        steps.append([each.detach() for each in weights])
    torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-5)
