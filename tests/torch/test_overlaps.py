"""Tensors of the device that share memory: what PyTorch refuses, and what it leaves shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401

REFUSED: dict[str, Callable[..., Any]] = {
    "copy_": lambda x, _: x[1:].copy_(x[:-1]),
    "copy_ to expanded": lambda x, _: x.expand(3, 8).copy_(x),
    "add_": lambda x, _: x[1:].add_(x[:-1]),
    "add_ of a transpose": lambda x, _: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
    "add out": lambda x, _: torch.add(x[:-1], 1, out=x[1:]),
    "expanded": lambda x, _: x.expand(3, 8).add_(1),
    "cumsum out": lambda x, _: torch.cumsum(x[:-1], 0, out=x[1:]),
    "cat out": lambda x, _: torch.cat([x[:2], x[2:]], out=x),
    "index_add_": lambda x, at: x.index_add_(0, at, x[:2]),
    "scatter_": lambda x, at: x.scatter_(0, at, x[:2]),
    "put_": lambda x, at: x.put_(at, x[:2]),
    "gather out": lambda x, at: torch.gather(x, 0, at, out=x[:2]),
    "normal_": lambda x, _: x.expand(3, 8).normal_(),
}
TAKEN: dict[str, Callable[..., Any]] = {
    "fill_": lambda x, _: x.expand(3, 8).fill_(7),
    "halves": lambda x, _: x[:4].add_(x[4:]),
    "itself": lambda x, _: x.add_(x),
    "product out": lambda x, _: torch.mul(x, x, out=x),
}
WARNED: dict[str, Callable[..., Any]] = {
    "index_fill_": lambda x, at: x.expand(3, 8).index_fill_(0, at + 1, 7),
    "masked_fill_": lambda x, _: x.expand(3, 8).masked_fill_(x > 2, 7),
}


def line(place: str) -> tuple[Any, Any]:
    return torch.arange(8.0, device=place), torch.tensor([0, 1], device=place)


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_in_its_words(name: str) -> None:
    said = []
    for place in ("cpu", "neuron"):
        x, at = line(place)
        with pytest.raises(RuntimeError, match="unsupported operation") as fault:
            REFUSED[name](x, at)
        said.append(str(fault.value))
        assert name == "normal_" or x.cpu().tolist() == list(range(8))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", TAKEN)
def test_what_pytorch_takes_is_computed(name: str) -> None:
    found = []
    for place in ("cpu", "neuron"):
        x, at = line(place)
        TAKEN[name](x, at)
        found.append(x.cpu().tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", WARNED)
def test_what_pytorch_warns_of_is_computed_with_its_warning(name: str) -> None:
    found = []
    for place in ("cpu", "neuron"):
        x, at = line(place)
        with pytest.warns(UserWarning, match="on expanded tensors is deprecated"):
            WARNED[name](x, at)
        found.append(x.cpu().tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("read", [lambda x: x.clone(), lambda x: x + 1, lambda x: x.cpu(), lambda x: x[1].item()])
def test_reading_leaves_memory_shared_that_is_copied_when_it_is_written(read: Callable[..., Any]) -> None:
    x = torch.ones(3, device="neuron")
    lazy = torch._lazy_clone(x)
    read(lazy)
    assert torch._C._is_cow_tensor(lazy)
    lazy.add_(1)
    assert not torch._C._is_cow_tensor(lazy) and x.cpu().tolist() == [1, 1, 1]
