"""Signals end programs that torch.compile made. docs/decisions/0034."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import opentrn.torch  # noqa: E402, F401 -- registers the backend
from tests.alarms import raises_soon  # noqa: E402


def test_run_of_a_compiled_function_ends() -> None:
    torch.manual_seed(0)
    sort = torch.compile(lambda a: a.sort(-1)[0].sort(0)[0], backend="neuron")
    values = torch.randn(128, 512)
    expected = values.sort(-1)[0].sort(0)[0]
    assert torch.equal(sort(values), expected)
    with raises_soon():
        for _ in range(100_000):
            sort(values)
    assert torch.equal(sort(values), expected)


def test_compilation_ends() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()

    def products(a):
        for _ in range(3000):
            a = a @ a
        return a

    # On a busy machine the alarm comes while torch traces, and what torch does of an exception then takes it seconds.
    with raises_soon(8.0, cpu_seconds=4.0):
        for size in range(64, 72):
            torch._dynamo.reset()
            torch.compile(products, backend="neuron")(torch.randn(size, size))
    assert torch.equal(torch.compile(lambda a: a + 1, backend="neuron")(torch.ones(3)), torch.full((3,), 2.0))
