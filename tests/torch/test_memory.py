"""Where results lie in memory: which of them share it, and ops that count places in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "copy",
    [lambda h: h.clone(), lambda h: torch.amax(h[0, 0], 0), lambda h: h.long().round(), lambda h: h.flip([]).float()],
)
@pytest.mark.parametrize("place", ["cpu", "neuron"])
def test_a_copy_of_a_result_has_memory_of_its_own(copy: Callable[..., Any], place: str) -> None:
    """The compiler finds both to be one value."""

    def function(x: Any) -> Any:
        h = torch.tanh(x)
        first = h if copy(h).shape == h.shape else h[0, 0]
        if copy(h).dtype != h.dtype:
            first = h.long()
        return first, copy(h)

    first, second = torch.compile(function, backend="neuron")(torch.rand(2, 3, device=place) + 2)
    before = second.clone()
    first.fill_(7)
    assert torch.equal(second, before)


def test_one_result_given_twice_is_one_tensor() -> None:
    def function(x: Any) -> Any:
        h = torch.tanh(x)
        return h, h.detach()

    first, second = torch.compile(function, backend="neuron")(torch.rand(3))
    assert first.data_ptr() == second.data_ptr()


B = torch.arange(20.0).reshape(4, 5)


def _written(x: Any) -> Any:
    y = x.t() * 1
    y.as_strided([2, 2], [2, 1], 1).add_(100)
    return y


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: (x.t() * 1).as_strided([2, 3], [2, 1], 1), B),
        (lambda x: (x * 1).as_strided([2, 3], [2, 1], 1), B.t()),
        (lambda x: (x * 1).as_strided([2, 3], [7, 2], 3), torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)),
        (lambda x: (x * 1)[1:, 1:].as_strided([2, 2], [2, 1], 0), B),
        (lambda x: (x * 1).t().as_strided([2, 2], [2, 1], 1), B),
        (lambda x: x.as_strided([2, 2], [2, 1], 0) * 1, B[1:, 1:]),
        (lambda x: x.as_strided([2, 2], [2, 1], 0) * 1, torch.arange(20.0)[::2]),
        (lambda x: x.as_strided([2, 2], [2, 1], 0) * 1, torch.arange(20.0)[3:]),
        (lambda x: x.as_strided([2, 2], [2, 1], 0) * 1, B.t()),
        (_written, B),
    ],
)
def test_places_are_those_of_the_traced_memory(function: Callable[..., Any], x: Any) -> None:
    assert torch.equal(torch.compile(function, backend="neuron")(x), function(x))
