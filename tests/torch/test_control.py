"""Branches, loops, groups of rows and attention of torch's higher-order ops, against eager torch, on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def check(function: Callable[..., object], *given: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Values, and gradients of the tensors that want them."""
    results = []
    for call in (function, torch.compile(function, backend="neuron", fullgraph=True)):
        taken = [each.detach().clone().requires_grad_(each.requires_grad) for each in given]
        out = call(*taken)
        listed = list(out) if isinstance(out, (tuple, list)) else [out]
        floats = [each for each in listed if each.requires_grad]
        if floats:
            torch.autograd.backward(floats, [torch.linspace(0.5, 1.5, each.numel()).reshape(each.shape).to(each.dtype)
                                             for each in floats])  # fmt: skip
        results.append(
            [*(each.detach() for each in listed), *(each.grad for each in taken if each.requires_grad)]
        )
    for ours, wanted in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(ours, wanted, rtol=tolerance, atol=tolerance)


def wants(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond(sign: float) -> None:
    weight = torch.randn(3, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.detach().sum() > 0, lambda x: (x @ weight).sin(), lambda x: x * 2 - 1, (x,))

    check(function, (torch.rand(4, 3) * sign).requires_grad_())


def test_cond_in_cond() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: x.cos(), lambda x: x.exp(), (x,))

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, inner, lambda x: x - 1, (x,))

    for x in (torch.full((4,), 0.5), torch.full((4,), 2.0), torch.full((4,), -2.0)):
        check(function, x)


def test_while_loop() -> None:
    def function(count: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return while_loop(lambda i, x: (i < count) & (x.sum() < 100), lambda i, x: (i + 1, x * 1.5), (
            torch.tensor(0), x))  # fmt: skip

    for count in (0, 3, 50):
        check(function, torch.tensor(count), torch.rand(4, 3))


def test_scan_and_its_gradient() -> None:
    weight = torch.randn(3)

    def function(start: torch.Tensor, xs: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def step(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = (carry * weight + x).sin()
            return new, new * x

        return scan(step, start, xs, dim=0)

    check(function, torch.zeros(2, 3), torch.randn(5, 2, 3), weight)
    check(lambda s, x: scan(lambda c, y: (c + y, (c * y).sin()), s, x, dim=0)[1], torch.zeros(3), wants(4, 3))
    check(lambda s, x, w: scan(lambda c, y: (c + y * w, c.clone()), s, x, dim=1, reverse=True)[1],
          torch.zeros(2, 3), torch.randn(2, 4, 3), weight)  # fmt: skip


def test_map_and_its_gradient() -> None:
    def function(xs: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch_map(lambda x, y: x.sin() @ y, xs, other)

    check(function, torch.randn(4, 2, 3), torch.randn(3, 5))
    check(function, wants(4, 2, 3), wants(3, 5))


def test_random_numbers_in_a_loop_are_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda x: x.sum() < 10, lambda x: (x + torch.rand_like(x),), (x,))[0]

    with pytest.raises(Exception, match="random numbers in a loop"):
        torch.compile(function, backend="neuron")(torch.rand(4))


SIZES = [[4, 0, 9, 3], [0, 0, 16, 0], [16, 0, 0, 0], [1, 1, 1, 13], [5, 5, 5, 0]]


@pytest.mark.parametrize("sizes", SIZES)
def test_grouped_mm(sizes: list[int]) -> None:
    """Of bfloat16, which eager torch and compiled Hugging Face models call it with; forward and backward."""
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    x, w = torch.randn(sum(sizes), 16).bfloat16(), torch.randn(4, 16, 24).bfloat16()
    check(
        lambda x, w: torch._grouped_mm(x, w, offs=ends),
        x.requires_grad_(),
        w.requires_grad_(),
        tolerance=2e-2,
    )


@pytest.mark.parametrize("sizes", [[150, 0, 7, 200], [128, 128, 0, 1], [0, 0, 0, 300]])
def test_grouped_mm_of_many_rows(sizes: list[int]) -> None:
    """Blocks that several groups share, and rows that are no whole number of blocks."""
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    rows = sum(sizes)
    x, w, y, z = (torch.randn(each).bfloat16() for each in ((rows, 8), (4, 8, 16), (rows, 16), (4, 16, 8)))
    check(lambda x, w: torch._grouped_mm(x, w, offs=ends), x, w, tolerance=2e-2)
    check(lambda x, y: torch._grouped_mm(x.T, y, offs=ends), x, y, tolerance=2e-2)
    check(lambda z, x: torch._grouped_mm(z, x.T, offs=ends), z, x, tolerance=2e-2)
    check(lambda a, b: torch._grouped_mm(a, b), w, z, tolerance=2e-2)


def test_grouped_mm_of_hugging_face() -> None:
    """An op of transformers', by its name and schema: the rule is looked up without the package."""
    library = torch.library.Library("transformers", "FRAGMENT")
    library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")

    def reference(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        starts = [0, *ends.tolist()[:-1]]
        return torch.cat([x[low:high] @ w[i] for i, (low, high) in enumerate(zip(starts, ends.tolist()))])

    library.impl("grouped_mm_fallback", reference, "CPU")
    library._register_fake("grouped_mm_fallback", lambda x, w, ends: x.new_empty(x.shape[0], w.shape[2]))
    try:
        ends = torch.tensor([3, 3, 9, 20])
        call = torch.ops.transformers.grouped_mm_fallback
        check(lambda x, w: call(x, w, ends), torch.randn(20, 8), torch.randn(4, 8, 6))
    finally:
        library._destroy()


@pytest.mark.parametrize(("bins", "low", "high"), [(8, 0, 7), (5, -1, 2), (10, 0, 0), (1, 3, 3)])
def test_histc(bins: int, low: float, high: float) -> None:
    given = [torch.randint(0, 8, (40,)).float(), torch.randn(3, 7), torch.full((6,), 2.0)]
    given.append(torch.tensor([0.0, 7.0, 3.5, -2.0, 9.0]))
    for x in given:
        torch._dynamo.reset()
        check(lambda x: torch.histc(x, bins, low, high), x)


def test_flex_attention() -> None:
    q, k, v = (torch.randn(2, 4, 32, 16) for _ in range(3))
    slopes = torch.rand(4)
    check(lambda q, k, v: flex_attention(q, k, v), q, k, v)
    check(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * slopes[h]),
          q, k, v)  # fmt: skip
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 32, 32, device="cpu")
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), q, k, v)
    check(
        lambda q, k, v: flex_attention(q, k, v, enable_gqa=True, scale=0.3, return_lse=True),
        q,
        k[:, :2],
        v[:, :2],
    )


def _documents(device: str, function: Callable[..., Any]) -> list[torch.Tensor]:
    """Result, log of the sums and gradients of attention within documents, whose slopes train too."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 32, 16).to(device).requires_grad_() for _ in range(3))
    slopes = torch.rand(4).to(device).requires_grad_()
    of_document = torch.randint(0, 3, (2, 32)).sort().values.to(device)
    out, sums = function(q, k[:, ::2], v[:, ::2], slopes, of_document)
    (out.sin().sum() + sums.cos().sum()).backward()
    return [each.detach().cpu() for each in (out, sums, q.grad, k.grad, v.grad, slopes.grad)]


def _by_hand(q: Any, k: Any, v: Any, slopes: Any, of_document: Any) -> Any:
    places = torch.arange(32)
    scores = q @ k.repeat_interleave(2, 1).mT / 4 - (places[:, None] - places).abs() * slopes[:, None, None]
    is_seen = (of_document[:, :, None] == of_document[:, None]) & (places[:, None] >= places)
    scores = scores.masked_fill(~is_seen[:, None], float("-inf"))
    return scores.softmax(-1) @ v.repeat_interleave(2, 1), scores.logsumexp(-1)


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_flex_attention_on_the_device_trains(is_compiled: bool) -> None:
    def attend(q: Any, k: Any, v: Any, slopes: Any, of_document: Any) -> Any:
        mask = create_block_mask(
            lambda b, h, i, j: (of_document[b, i] == of_document[b, j]) & (i >= j), 2, None, 32, 32, device="neuron"
        )
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * slopes[h],
                              block_mask=mask, enable_gqa=True, return_lse=True)  # fmt: skip

    found = _documents("neuron", torch.compile(attend, backend="neuron") if is_compiled else attend)
    torch.testing.assert_close(found, _documents("cpu", _by_hand), rtol=1e-4, atol=1e-4)


def test_as_strided_scatter() -> None:
    x = torch.randn(6, 8)
    check(lambda x, y: torch.as_strided_scatter(x, y, (2, 3), (8, 1), 9), x, torch.randn(2, 3))
    check(lambda x, y: torch.as_strided_scatter(x, y, (6, 8), (8, 1), 0), x, torch.randn(6, 8))
    check(lambda x, y: torch.as_strided_scatter(x, y, (4, 3), (9, 2), 1), x, torch.randn(4, 3))
    check(lambda x, y: torch.as_strided_scatter(x.T * 1, y, (2, 3), (6, 1), 2), x, torch.randn(2, 3))
    with pytest.raises(Exception, match="writes one element twice"):
        torch.compile(lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (1, 1), 0), backend="neuron")(
            x, torch.randn(2, 2))  # fmt: skip
