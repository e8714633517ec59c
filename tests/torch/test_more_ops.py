"""Ops that torch has no decomposition for, against eager torch, with nothing left to the host."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")
from torch import nn  # noqa: E402

import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def check(function: Callable[[torch.Tensor], object], x: torch.Tensor) -> None:
    """Values, and gradients of floats."""
    results = []
    for call in (function, torch.compile(function, backend="neuron", fullgraph=True)):
        given = x.clone().requires_grad_(x.is_floating_point())
        out = call(given)
        first = out[0] if isinstance(out, tuple) else out
        if x.is_floating_point():
            (
                first.nan_to_num() * torch.linspace(0.5, 1.5, first.numel()).reshape(first.shape)
            ).sum().backward()
        results.append((*(out if isinstance(out, tuple) else (out,)), given.grad))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("ignores_nan", [False, True])
@pytest.mark.parametrize("shape", [(7,), (8,), (3, 5), (2, 6, 3)])
def test_median(shape: tuple[int, ...], ignores_nan: bool) -> None:
    median = torch.nanmedian if ignores_nan else torch.median
    x = torch.randperm(int(torch.tensor(shape).prod())).reshape(
        shape
    )  # no two equal: which of them is torch's choice
    for each in (x, x.float()):
        torch._dynamo.reset()
        check(median, each)
        for dim in range(-1, len(shape) - 1):
            check(lambda x, dim=dim: tuple(median(x, dim)), each)
            check(lambda x, dim=dim: tuple(median(x, dim, keepdim=True)), each)


@pytest.mark.parametrize("ignores_nan", [False, True])
def test_median_of_nan(ignores_nan: bool) -> None:
    median = torch.nanmedian if ignores_nan else torch.median
    x = torch.tensor([[3.0, float("nan"), 1.0, 2.0, 5.0], [3.0, 4.0, 1.0, 2.0, 5.0]])
    check(lambda x: median(x), x)
    check(lambda x: median(x, 1)[0], x)


def test_product_of_bytes() -> None:
    left, right = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((32, 64), (64, 24)))
    given = torch.compile(torch._int_mm, backend="neuron", fullgraph=True)(left, right)
    assert given.dtype == torch.int32 and torch.equal(given, torch._int_mm(left, right))


@pytest.mark.parametrize("dim", [0, 2])
def test_weight_normalisation(dim: int) -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=dim)
    x = torch.randn(2, 4, 9)
    results = []
    for call in (layer, torch.compile(layer, backend="neuron", fullgraph=True)):
        layer.zero_grad()
        out = call(x)
        (out * torch.linspace(0.5, 1.5, out.numel()).reshape(out.shape)).sum().backward()
        results.append([out.detach(), *(p.grad.clone() for p in layer.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_the_loss_of_one_row_is_a_scalar() -> None:
    x, target = torch.randn(5), torch.tensor([3, 0, -1, 1, 2])
    for reduction in ("none", "mean"):
        wanted = torch.nn.functional.multilabel_margin_loss(x, target, reduction=reduction)
        found = torch.nn.functional.multilabel_margin_loss(
            x.to("neuron"), target.to("neuron"), reduction=reduction
        )
        assert found.shape == wanted.shape == ()
        torch.testing.assert_close(found.cpu(), wanted)


_LABELS = [[3, 0, -1, 1, 2], [0, 2, 1, 4, -1], [4, -1, -1, -1, -1], [-1, 0, 1, 2, 3]]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_several_labels(reduction: str, capfd: pytest.CaptureFixture[str]) -> None:
    values, target = torch.randn(4, 5), torch.tensor(_LABELS)
    found = []
    for device in ("cpu", "neuron"):
        x = values.detach().to(device).requires_grad_()
        loss = torch.nn.functional.multilabel_margin_loss(x, target.to(device), reduction=reduction)
        (loss * torch.linspace(0.5, 2, loss.numel()).reshape(loss.shape).to(device)).sum().backward()
        found.append([loss.detach().cpu(), x.grad.cpu()])
    torch.testing.assert_close(found[1], found[0])
    assert "host" not in capfd.readouterr().err


def test_margins_of_several_labels_compiled() -> None:
    """Torch registers a form of its own, for every backend, that counts class 0 for each place behind the labels."""
    values, target = torch.randn(4, 5), torch.tensor(_LABELS)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.multilabel_margin_loss(x, target, reduction="none")

    found = []
    for call in (loss, torch.compile(loss, backend="neuron")):
        x = values.clone().requires_grad_()
        made = call(x)
        (made * torch.linspace(0.5, 2, 4)).sum().backward()
        found.append([made.detach(), x.grad])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("options", [{}, {"p": 2, "margin": 0.7, "reduction": "sum"}, {"reduction": "none"}])
def test_gradients_of_margins_of_one_label(
    options: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    values, target, weight = torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 4, 0]), torch.rand(5)
    found = []
    for device in ("cpu", "neuron"):
        x = values.detach().to(device).requires_grad_()
        loss = torch.nn.functional.multi_margin_loss(
            x, target.to(device), weight=weight.to(device), **options
        )
        loss.square().sum().backward()
        found.append([loss.detach().cpu(), x.grad.cpu()])
    torch.testing.assert_close(found[1], found[0])
    assert "host" not in capfd.readouterr().err


@pytest.mark.parametrize("norm_type", [2.0, 1.0])
def test_rows_that_are_looked_up_are_no_longer_than_asked(
    norm_type: float, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    table, places = torch.randn(9, 4), torch.tensor([[0, 3], [3, 8]])
    found = []
    for device in ("cpu", "neuron"):
        weight = table.clone().to(device)
        rows = torch.nn.functional.embedding(places.to(device), weight, max_norm=1.5, norm_type=norm_type)
        found.append([rows.cpu(), weight.cpu()])
    torch.testing.assert_close(found[1], found[0])
    assert not torch.equal(found[1][1], table) and torch.equal(found[1][1][1], table[1])
    assert "host" not in capfd.readouterr().err


def test_polygamma_left_of_zero() -> None:
    few = torch.tensor([-1e-5, -99.5, -8.4784])
    x = torch.cat([-torch.linspace(0.05, 40.3, 60), torch.linspace(0.05, 30, 40), few])

    def orders(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.polygamma(n, x) for n in range(5)])

    found = torch.compile(orders, backend="neuron", fullgraph=True)(x)
    torch.testing.assert_close(found.double(), orders(x.double()), rtol=1e-5, atol=0)


def draw(weights: torch.Tensor, count: int, replacement: bool) -> torch.Tensor:
    return torch.multinomial(weights, count, replacement)


@pytest.mark.parametrize(("count", "replacement"), [(1, False), (1, True), (3, False), (400, True)])
@pytest.mark.parametrize("is_eager", [True, False])
def test_places_are_drawn_as_often_as_their_weights_say(count: int, replacement: bool, is_eager: bool) -> None:
    torch.manual_seed(5)
    weights = torch.tensor([3.0, 0.0, 1.0, 5.0, 1.0, 0.0]).expand(2000 if count < 400 else 5, 6).contiguous()
    compiled = torch.compile(draw, backend="neuron")
    got = draw(weights.to("neuron"), count, replacement).cpu() if is_eager else compiled(weights, count, replacement)
    assert got.dtype == torch.int64 and got.shape == (len(weights), count)
    first = got[:, 0] if count < 400 else got.flatten()
    shares = torch.bincount(first, minlength=6) / first.numel()
    torch.testing.assert_close(shares, weights[0] / 10, atol=0.05, rtol=0)  # 4.5 standard deviations
    assert shares[1] == shares[5] == 0, "a weight of zero is never drawn"
    if count == 3:
        assert all(len(set(row)) == 3 for row in got.tolist())


@pytest.mark.parametrize(
    ("weights", "count", "replacement"),
    [
        ([0.0, 0.0], 1, False), ([1.0, -1.0], 1, False), ([1.0, math.inf], 1, True), ([1.0, math.nan], 1, False),
        ([1.0, 2.0], 3, False), ([1, 2], 1, False), ([[1.0, 2.0]], 0, True), ([[1.0, 2.0], [0.0, 0.0]], 1, True),
    ],
)  # fmt: skip
def test_weights_that_are_none_are_refused_as_on_the_cpu(weights: list, count: int, replacement: bool) -> None:
    given = torch.tensor(weights)
    with pytest.raises(RuntimeError) as wanted:
        draw(given, count, replacement)
    with pytest.raises(RuntimeError, match=re.escape(str(wanted.value)[:40])):
        draw(given.to("neuron"), count, replacement)
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match=re.escape(str(wanted.value)[:40])):
        torch.compile(draw, backend="neuron")(given, count, replacement)


def test_a_generator_of_the_device_draws_the_same_places_again() -> None:
    generator = torch.Generator("neuron")
    weights = torch.rand(40, 7, device="neuron")
    drawn = [torch.multinomial(weights, 2, True, generator=generator.manual_seed(3)).cpu() for _ in range(2)]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], torch.multinomial(weights, 2, True, generator=generator).cpu())


@pytest.mark.parametrize(
    ("shape", "amounts"),
    [
        ((2, 3, 5), (2, 1)), ((2, 3, 1), (2, 3)), ((2, 3, 4, 5), (1, 2, 0, 3)), ((2, 3, 4, 5), (-1, 2, 1, -2)),
        ((1, 2, 3, 4, 2), (1, 1, 2, 0, 0, 4)), ((3, 4, 5), (1, 1, 2, 2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_repeated_edges(shape: tuple, amounts: tuple, dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        made = nn.functional.pad(x, amounts, mode="replicate")
        weights = torch.arange(made.numel(), dtype=torch.float32).reshape(made.shape).remainder(7).to(x)
        return torch.autograd.grad((made * weights).sum(), x)[0]

    wanted = gradient(x.double()).to(dtype)
    torch.testing.assert_close(gradient(x.to("neuron")).cpu(), wanted)
    compiled = torch.compile(lambda x: nn.functional.pad(x, amounts, mode="replicate"), backend="neuron")
    y = x.detach().requires_grad_()
    torch.testing.assert_close(compiled(y).detach(), nn.functional.pad(x, amounts, mode="replicate"))


@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((), 0), ((0, 3), 0)])
def test_running_logarithms_of_sums_in_eager_mode(shape: tuple, axis: int) -> None:
    x = torch.randn(shape) * 5
    found, wanted = x.to("neuron").requires_grad_(), x.double().requires_grad_()
    for leaf in (found, wanted):
        leaf.logcumsumexp(axis).square().sum().backward()
    torch.testing.assert_close(x.to("neuron").logcumsumexp(axis).cpu(), x.logcumsumexp(axis))
    torch.testing.assert_close(found.grad.cpu(), wanted.grad.float())


def of_batches(x: torch.Tensor) -> torch.Tensor:
    return torch.addbmm(x[0], x, x.transpose(1, 2), beta=0.5, alpha=2) if x.shape[1] == x.shape[2] else x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.softshrink(x, 0.7), of_batches,
        lambda x: x.put(torch.tensor([0, -1, 3, 3], device=x.device), torch.arange(4.0, device=x.device), True),
        lambda x: x.take(torch.tensor([[0, -1], [3, 3]], device=x.device)),
    ],
    ids=["softshrink", "addbmm", "put", "take"],
)  # fmt: skip
def test_gradients_that_hosts_computed_in_eager_mode(function: Callable) -> None:
    x = torch.randn(3, 4, 4)
    found, wanted = x.to("neuron").requires_grad_(), x.clone().requires_grad_()
    torch.testing.assert_close(function(found).detach().cpu(), function(wanted).detach())
    for leaf in (found, wanted):
        function(leaf).square().sum().backward()
    torch.testing.assert_close(found.grad.cpu(), wanted.grad)


def test_counts_of_whole_numbers_are_made_where_the_cpu_has_none():
    """As mixtures of experts in transformers ask for them; PyTorch's CPU has `histc` of floats alone."""
    chosen = torch.tensor([0, 3, 1, 1, 3, 3], dtype=torch.int32)
    found = torch.histc(chosen.to("neuron"), bins=4, min=0, max=3)
    assert found.dtype == torch.int32 and found.tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize("batch", [(4,), (2, 3), ()])
def test_bilinear(batch: tuple[int, ...]) -> None:
    layer = nn.Bilinear(5, 6, 3)
    other = torch.randn(*batch, 6)
    check(lambda x: layer(x, other), torch.randn(*batch, 5))
    check(lambda weight: nn.functional.bilinear(other[..., :5], other, weight), torch.randn(3, 5, 6))


@pytest.mark.parametrize("sums", [[2, 3], [0], [3], []])
def test_sums_of_products_of_three(sums: list[int]) -> None:
    left, right = torch.randn(2, 5), torch.randn(2, 6)
    check(lambda x: torch._trilinear(left, x, right, [1, 3], [0], [1, 2], sums), torch.randn(3, 5, 6))


@pytest.mark.parametrize("of_row", [lambda row: row / 30, lambda row: torch.fmod(row, 3.0), lambda row: row * 30])
def test_one_number_in_each_row_beside_a_constant(of_row: Callable[[torch.Tensor], torch.Tensor]) -> None:
    check(lambda x: of_row(x.sum(1, keepdim=True).expand(5, 6)) - x, torch.randn(5, 6))
    check(lambda x: of_row(x.sum(1, keepdim=True)).expand(5, 6) * x, torch.randn(5, 6))


@pytest.mark.parametrize("asks", [torch.isinf, torch.isfinite, torch.isnan])
def test_what_complex_numbers_are_not(asks: Callable[[torch.Tensor], torch.Tensor]) -> None:
    parts = torch.tensor([0.0, 1.0, math.inf, -math.inf, math.nan])
    x = torch.complex(parts.repeat(5), parts.repeat_interleave(5))
    assert torch.equal(asks(x.to("neuron")).cpu(), asks(x))
    assert torch.equal(torch.compile(asks, backend="neuron", fullgraph=True)(x), asks(x))
