"""Compiled functions of tensors of the device: what torch makes of it while it traces lies there too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _bags(table: Tensor, mode: str) -> Tensor:
    begins = torch.tensor([0, 3], device=table.device)
    return F.embedding_bag(torch.tensor([0, 1, 2, 1], device=table.device), table, begins, mode=mode)


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "constant": lambda x: x + torch.tensor([0.5, 1, 2, 3, 4, 5], device=x.device),
    "flags": lambda x: x * torch.tensor([True, False, True, True, False, True], device=x.device),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x[None, None], (3, 4), return_indices=True),
    "searchsorted": lambda x: torch.searchsorted(x[0].sort()[0], 0.3),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.5], device=x.device)),
    "sum_of_bags": lambda x: _bags(x, "sum"),
    "largest_of_bags": lambda x: _bags(x, "max"),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_the_cpu(name: str) -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    wanted = FUNCTIONS[name](x)
    found = torch.compile(FUNCTIONS[name], backend="neuron", fullgraph=True)(x.to("neuron"))
    both = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for a, e in both:
        assert a.device.type == "neuron"
        torch.testing.assert_close(a.cpu(), e)


def test_an_assertion_that_does_not_hold_raises() -> None:
    hot = torch.compile(lambda x: F.one_hot(x, 4), backend="neuron", fullgraph=True)
    assert hot(torch.tensor([0, 3]).to("neuron")).sum().item() == 2
    with pytest.raises(RuntimeError, match="Class values must be"):
        hot(torch.tensor([0, 4]).to("neuron"))


def test_attention_of_other_sizes() -> None:
    """With sizes that are symbols, choosing how attention is computed ended in an error."""
    attend = torch.compile(
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), backend="neuron", dynamic=True
    )
    for length in (8, 5):
        q = torch.randn(2, 2, length, 4)
        wanted = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        torch.testing.assert_close(attend(q.to("neuron")).cpu(), wanted, rtol=1e-4, atol=1e-5)
