"""Indices out of range are refused on the device, in the CPU's words, and what they would have written stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import opentrn.torch  # noqa: F401  (the device)

Call = Callable[[torch.Tensor, torch.Tensor], Any]

CALLS: dict[str, Call] = {
    "index": lambda x, i: x[i],
    "index of two": lambda x, i: x[i.clamp(max=1), i],
    "index of the second": lambda x, i: x[:, i],
    "index of an expanded one": lambda x, i: x[i[:, None].expand(-1, 5)],
    "index_put_": lambda x, i: x.index_put_((i,), torch.ones((), device=x.device)),
    "assignment": lambda x, i: x.__setitem__(i, 2.0),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(1, i[None]),
    "take": lambda x, i: x.take(i * 4),
    "put_": lambda x, i: x.put_(i * 4, torch.ones(3, device=x.device)),
    "scatter_": lambda x, i: x.scatter_(1, i[None], 1.0),
    "scatter_add_": lambda x, i: x.scatter_add_(1, i[None], torch.ones(1, 3, device=x.device)),
    "index_add_": lambda x, i: x.index_add_(0, i, torch.ones(3, 4, device=x.device)),
    "index_copy_": lambda x, i: x.index_copy_(0, i, torch.ones(3, 4, device=x.device)),
    "index_fill_": lambda x, i: x.index_fill_(0, i, 1.0),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:3], i),
    "nll_loss of pictures": lambda x, i: F.nll_loss(x[None, :, :3, None], i[None, :, None]),
}
FROM_END = {name for name in CALLS if name.startswith(("index of", "index_put", "assignment", "index_fill"))}
FROM_END |= {"index", "take", "put_"}


def _given(place: str, last: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(16.0).reshape(4, 4).to(place), torch.tensor([0, 1, last], dtype=dtype).to(place)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("last", [9, -9])
def test_an_index_out_of_range_is_the_cpus_error(name: str, last: int) -> None:
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        CALLS[name](*_given("cpu", last, torch.int64))
    x, index = _given("neuron", last, torch.int64)
    with pytest.raises(type(wanted.value)) as said:
        CALLS[name](x, index)
    assert str(said.value).partition("\n")[0] == str(wanted.value).partition("\n")[0]
    assert torch.equal(x.cpu(), _given("cpu", last, torch.int64)[0])


@pytest.mark.parametrize("name", CALLS)
def test_indices_in_range_are_taken(name: str) -> None:
    for last in (3, -4) if name in FROM_END else (3,):
        x, index = _given("cpu", last, torch.int64)
        result = CALLS[name](x, index)
        other, places = _given("neuron", last, torch.int64)
        made = CALLS[name](other, places)
        assert torch.equal(other.cpu(), x)
        if result is not None:
            torch.testing.assert_close(made.cpu(), result)


def test_ignored_targets_are_not_out_of_range() -> None:
    x = torch.randn(3, 4)
    target = torch.tensor([0, -100, 3])
    torch.testing.assert_close(F.cross_entropy(x.to("neuron"), target.to("neuron")).cpu(), F.cross_entropy(x, target))


def test_indices_of_32_bits_and_masks() -> None:
    x, index = _given("neuron", 9, torch.int32)
    with pytest.raises(IndexError):
        x.index_select(0, index)
    mask = torch.tensor([True, False, True, False], device="neuron")
    assert x[mask].shape == (2, 4)
    x[mask] = 0.0
    assert x.cpu()[0].eq(0).all()
