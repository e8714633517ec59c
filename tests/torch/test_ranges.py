"""OPENTRN_CHECK=1 finds what 32 bits cannot hold and indices out of range."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_CHECK", "1")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def sum_wraps(x: torch.Tensor) -> torch.Tensor:
    return x.sum()  # here


def product_wraps(x: torch.Tensor) -> torch.Tensor:
    return x * 100000  # here


def conversion_saturates(x: torch.Tensor) -> torch.Tensor:
    return x.long()  # here


def float64_is_infinite(x: torch.Tensor) -> torch.Tensor:
    return x * 1e30  # here


def embedding_is_out_of_range(x: torch.Tensor) -> torch.Tensor:
    return F.embedding(x, torch.ones(4, 2))  # here


def gather_is_out_of_range(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(4).gather(0, x)  # here


def index_is_out_of_range(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(4, 2)[x]  # here


def intermediate_wraps(x: torch.Tensor) -> torch.Tensor:
    large = x * 3000000  # here
    return large % 7


CASES: list[tuple[Callable[[Any], Any], Any, Any, type[Exception], str]] = [
    (sum_wraps, torch.ones(3, dtype=torch.int64), torch.full((3,), 2**30), ValueError, "3221225472"),
    (sum_wraps, torch.ones(3, dtype=torch.int32), torch.full((3,), 2**30, dtype=torch.int32), ValueError, "3221225472"),
    (product_wraps, torch.tensor([5]), torch.tensor([100000]), ValueError, "10000000000"),
    (conversion_saturates, torch.tensor([3e8]), torch.tensor([3e9]), ValueError, "3000000000"),
    (float64_is_infinite, torch.tensor([1.0]).double(), torch.tensor([1e30]).double(), ValueError, "becomes infinite"),
    (embedding_is_out_of_range, torch.tensor([3]), torch.tensor([7]), IndexError, "out of range"),
    (gather_is_out_of_range, torch.tensor([3]), torch.tensor([7]), IndexError, "out of bounds"),
    (index_is_out_of_range, torch.tensor([-4]), torch.tensor([7]), IndexError, "out of bounds"),
    (intermediate_wraps, torch.tensor([5]), torch.tensor([1000]), ValueError, "3000000000"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "good", "bad", "kind", "what"), CASES)
def test_a_later_run_out_of_range_is_found(
    function: Callable[[Any], Any], good: Any, bad: Any, kind: type[Exception], what: str
) -> None:
    compiled = torch.compile(function, backend="neuron", fullgraph=True)
    torch.testing.assert_close(compiled(good), function(good))
    lines, first = inspect.getsourcelines(function)
    line = first + next(number for number, text in enumerate(lines) if "# here" in text)
    with pytest.raises(kind, match=what) as error:
        compiled(bad)
    assert f"at {__file__}:{line}" in str(error.value)


def test_an_argument_out_of_range_is_found() -> None:
    compiled = torch.compile(lambda x: x.float(), backend="neuron", fullgraph=True)
    with pytest.raises(ValueError, match=r"input \w+ gives 1e\+300"):
        compiled(torch.tensor([1e300], dtype=torch.float64))


def test_sizes_that_change_and_training_pass() -> None:
    """Random numbers, int64 indices, float64 masks: nothing is out of range, and torch's generator is left alone."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        masked = torch.zeros(3, dtype=torch.float64).masked_fill(
            tokens[0, :3] < 2, torch.finfo(torch.float64).min
        )
        return (model(tokens).mean(1) + masked.softmax(0).float()).square().sum()

    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(loss, backend="neuron", dynamic=dynamic)
        for size in (4, 5):
            compiled(torch.arange(2 * size).reshape(2, size) % 10).backward()


def test_without_the_variable_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENTRN_CHECK", "0")
    compiled = torch.compile(sum_wraps, backend="neuron", fullgraph=True)
    assert int(compiled(torch.full((3,), 2**30))) == 3 * 2**30 - 2**32
