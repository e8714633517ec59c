"""Views that compiled graphs of symbolic sizes return: AOTAutograd makes them again from size, strides and offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

import opentrn.torch  # noqa: E402, F401


def halves(x):
    return x.shape[1] // 2


def of_doubled(view: Callable[..., Any]) -> Callable[..., Any]:
    def function(x):
        doubled = x * 2
        return doubled, view(doubled)

    return function


VIEWS = {
    "slice": lambda x: x[:, halves(x) :],
    "narrow": lambda x: x.narrow(1, halves(x), 1),
    "chunk": lambda x: x.chunk(2, 1),
    "split": lambda x: x.split([halves(x), x.shape[1] - halves(x)], 1)[1],
    "expand": lambda x: x[:, :1].expand(-1, x.shape[1], -1),
    "unfold": lambda x: x.unfold(1, halves(x), 1),
    "turned": lambda x: x.view(x.shape[0] * x.shape[1], -1).t(),
    "heads": lambda x: tuple(each.transpose(0, 1) for each in x.view(*x.shape[:2], 2).chunk(2, -1)),
    "slice of another result": of_doubled(lambda x: x[:, halves(x) :]),
    "expand of another result": of_doubled(lambda x: x[:, :1].expand(-1, x.shape[1], -1)),
}


def leaves(tree: Any) -> tuple[Any, ...]:
    return tree if isinstance(tree, tuple) else (tree,)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_values_strides_and_gradients_are_those_of_eager_torch(name, requires_grad, monkeypatch):
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    compiled = torch.compile(VIEWS[name], backend="neuron", dynamic=True, fullgraph=True)
    for length in (4, 5, 7):
        x, y = (torch.arange(6.0 * length).reshape(3, length, 2).requires_grad_(requires_grad) for _ in range(2))
        got, want = leaves(compiled(x)), leaves(VIEWS[name](y))
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
            assert a.stride() == b.stride()
        if requires_grad:
            sum(each.sin().sum() for each in got).backward()
            sum(each.sin().sum() for each in want).backward()
            torch.testing.assert_close(x.grad, y.grad)


def test_a_view_of_an_argument_shares_its_memory():
    torch._dynamo.reset()
    compiled = torch.compile(VIEWS["slice"], backend="neuron", dynamic=True)
    x = torch.zeros(3, 6, 2)
    compiled(x).fill_(1)
    assert x.sum() == 18 and x[:, 3:].sum() == 18


def test_of_tensors_of_the_device():
    torch._dynamo.reset()
    for name in ("slice", "expand", "slice of another result"):
        compiled = torch.compile(VIEWS[name], backend="neuron", dynamic=True)
        for length in (4, 6):
            x = torch.arange(6.0 * length).reshape(3, length, 2)
            for a, b in zip(leaves(compiled(x.to("neuron"))), leaves(VIEWS[name](x)), strict=True):
                torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0)


def test_an_op_without_a_form_is_the_hosts_at_changing_sizes_too(monkeypatch, capfd):
    """The graph is compiled by its first call, whose error reached the caller."""

    def function(x):
        return x.index_reduce(0, torch.tensor([0, 2]), x[1:] + x.shape[1], "amax") * 2

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="neuron", dynamic=True)
    for length in (4, 6):
        x, y = (torch.arange(3.0 * length).reshape(3, length).requires_grad_() for _ in range(2))
        torch.testing.assert_close(compiled(x), function(y))
        compiled(x).sum().backward()
        function(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert "runs on the host: not modelled [torch.no_emitter]: aten.index_reduce.default" in capfd.readouterr().err
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    with pytest.raises(Exception, match="aten.index_reduce.default has no form on the device"):
        torch.compile(function, backend="neuron", dynamic=True)(torch.ones(3, 4))
