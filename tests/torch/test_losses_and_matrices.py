"""Ops of the device beside PyTorch's CPU, values and gradients, with nothing left to the host: ctc_loss, matrix_exp,
bincount, fractional pooling, randomised ReLU and quantised numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
from torch.nn import functional as F  # noqa: E402

import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch.manual_seed(0)


def on_both(function: Callable[..., Any], *given: Any) -> tuple[Any, Any]:
    """(values, gradients of floats) by the CPU and by the device, as tensors of the CPU."""
    made = []
    for place in ("cpu", "neuron"):
        moved = [each.clone().to(place) if isinstance(each, torch.Tensor) else each for each in given]
        tensors = [each for each in moved if isinstance(each, torch.Tensor)]
        floats = [each.requires_grad_() for each in tensors if each.is_floating_point()]
        out = function(*moved)
        weights = torch.linspace(0.5, 1.5, out.numel()).reshape(out.shape).to(place)
        (out * weights).nan_to_num(0, 0, 0).sum().backward()
        made.append([each.detach().cpu() for each in (out, *(each.grad for each in floats))])
    return made[0], made[1]


LENGTHS = {
    "full": ([12, 12, 12], [4, 4, 4]), "shorter": ([12, 9, 5], [4, 2, 1]), "empty": ([12, 9, 5], [4, 0, 0]),
    "impossible": ([12, 3, 5], [4, 4, 1]),
}  # fmt: skip


@pytest.mark.parametrize("case, form, reduction", [
    ("full", "rows", "none"), ("shorter", "rows", "mean"), ("shorter", "one after the other", "sum"),
    ("empty", "lists", "none"), ("impossible", "one after the other", "mean"), ("impossible", "rows", "none"),
])  # fmt: skip
def test_ctc_loss(case: str, form: str, reduction: str) -> None:
    steps, letters = LENGTHS[case]
    blank = 2 if form == "rows" else 0
    rows = torch.randint(0, 5, (3, 4))
    rows = rows + (rows >= blank)
    rows[0, 1] = rows[0, 0]  # two equal letters need a blank between them
    targets = rows if form != "one after the other" else torch.cat([row[:n] for row, n in zip(rows, letters)])
    lengths = (steps, letters) if form == "lists" else (torch.tensor(steps), torch.tensor(letters))

    def loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(
            scores.log_softmax(2), targets, *lengths, blank=blank, reduction=reduction,
            zero_infinity=case == "impossible" and reduction == "mean",
        )  # fmt: skip

    ours, theirs = reversed(on_both(loss, torch.randn(12, 3, 6), targets))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6, equal_nan=True)


def test_ctc_loss_of_one_sequence_and_many_lengths_is_one_program() -> None:
    from opentrn.torch.eager import compiler

    scores = torch.randn(7, 2, 5, device="neuron").log_softmax(2)
    targets = torch.randint(1, 5, (2, 3), device="neuron")
    F.ctc_loss(scores, targets, torch.tensor([7, 7]), torch.tensor([3, 3]))
    known = set(compiler.PLANS)
    F.ctc_loss(scores, targets, torch.tensor([6, 4]), torch.tensor([2, 1]))
    assert not [plan.name for number, plan in compiler.PLANS.items() if number not in known and "ctc" in plan.name]
    one = F.ctc_loss(scores[:, 0], targets[0], torch.tensor([7]), torch.tensor([3]))
    torch.testing.assert_close(one.cpu(), F.ctc_loss(scores[:, 0].cpu(), targets[0].cpu(), (7,), (3,)))


def test_ctc_loss_refuses_what_the_cpu_refuses() -> None:
    scores, targets = torch.randn(7, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 3))
    for steps, letters, blank in (([8, 7], [3, 3], 0), ([7, 7], [4, 3], 0), ([7], [3], 0), ([7, 7], [3, 3], 5)):
        said = []
        for place in ("cpu", "neuron"):
            with pytest.raises(RuntimeError) as caught:
                F.ctc_loss(scores.to(place), targets.to(place), torch.tensor(steps), torch.tensor(letters), blank=blank)
            said.append(str(caught.value).splitlines()[0])
        assert said[0] == said[1]


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 6.0])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5, 5), (2, 2, 3, 3)])
def test_matrix_exp(shape: tuple[int, ...], scale: float) -> None:
    x = torch.randn(shape) * scale
    ours, theirs = reversed(on_both(torch.matrix_exp, x))
    for got, wanted in zip(ours, theirs):  # as exact as the CPU's, of the largest number of each
        assert (got - wanted).abs().max() <= 5e-6 * wanted.abs().max()


def test_matrix_exp_of_several_norms_and_of_what_has_none() -> None:
    x = torch.stack([torch.eye(3) * each for each in (0.0, 1.0, 30.0, -60.0)])
    torch.testing.assert_close(torch.matrix_exp(x.to("neuron")).cpu(), torch.matrix_exp(x), rtol=2e-4, atol=0)
    nan = torch.tensor([[float("nan"), 1.0], [1.0, 1.0]], device="neuron")
    assert torch.matrix_exp(nan).isnan().all()
    assert torch.matrix_exp(torch.zeros(0, 3, 3, device="neuron")).shape == (0, 3, 3)
    z = torch.randn(3, 3, dtype=torch.complex64)
    torch.testing.assert_close(torch.matrix_exp(z.to("neuron")).cpu(), torch.matrix_exp(z), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [0, 3, 9])
@pytest.mark.parametrize("weight", [None, torch.float32, torch.float64])
def test_bincount(count: int, weight: Any) -> None:
    for x in (torch.tensor([1, 2, 5, 5, 0]), torch.zeros(0, dtype=torch.int64), torch.tensor([3], dtype=torch.uint8)):
        weights = None if weight is None else torch.rand(x.shape, dtype=weight)
        moved = None if weights is None else weights.to("neuron")
        made = torch.bincount(x.to("neuron"), moved, count)
        torch.testing.assert_close(made.cpu(), torch.bincount(x, weights, count))
    for wrong in (torch.tensor([-1]), torch.tensor([0.5]), torch.zeros(2, 2, dtype=torch.int64)):
        with pytest.raises(RuntimeError, match="bincount"):
            torch.bincount(wrong.to("neuron"))


@pytest.mark.parametrize("pool, shape, window, count", [
    (F.fractional_max_pool2d, (2, 3, 9, 10), 2, (4, 5)), (F.fractional_max_pool2d, (3, 9, 10), (3, 2), (1, 5)),
    (F.fractional_max_pool3d, (2, 3, 8, 9, 10), 2, (3, 4, 5)),
])  # fmt: skip
def test_fractional_pooling(pool: Any, shape: tuple[int, ...], window: Any, count: tuple[int, ...]) -> None:
    planes = shape[: -len(count)]
    samples = torch.rand(planes[0] if len(planes) == 2 else 1, planes[-1], len(count))
    x = torch.randn(shape)
    x.view(-1)[[5, 6]] = float("nan")

    def pooled(x: torch.Tensor) -> Any:
        return pool(x, window, count, _random_samples=samples.to(x.device))

    ours, theirs = reversed(on_both(pooled, x))
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    options = {"_random_samples": samples, "return_indices": True}
    moved = options | {"_random_samples": samples.to("neuron")}
    assert torch.equal(pool(x.to("neuron"), window, count, **moved)[1].cpu(), pool(x, window, count, **options)[1])


def test_randomised_relu_draws_a_slope_for_what_is_not_positive() -> None:
    x = torch.randn(2000, device="neuron", requires_grad=True)
    made = F.rrelu(x, 0.2, 0.4, training=True)
    made.sum().backward()
    slopes, gradient, given = (made / x).detach().cpu(), x.grad.cpu(), x.detach().cpu()
    torch.testing.assert_close(slopes, gradient)
    below = slopes[given < 0]
    assert (slopes[given > 0] == 1).all() and below.min() > 0.2 - 1e-6 and below.max() < 0.4 + 1e-6
    assert abs(below.mean() - 0.3) < 0.01 and below.unique().numel() > 900
    torch.testing.assert_close(F.rrelu(x.detach()).cpu(), F.rrelu(given))


def test_quantised_numbers() -> None:
    x = torch.randn(4, 50)
    scales, zeros = torch.tensor([0.1, 0.2, 0.05, 0.3]), torch.tensor([1, 0, -1, 0], dtype=torch.int32)
    one, zero = torch.tensor([0.1]), torch.tensor([2], dtype=torch.int32)
    for call in (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7),
        lambda x: torch.fake_quantize_per_tensor_affine(x, one.to(x.device), zero.to(x.device), -8, 7),
        lambda x: torch.fake_quantize_per_channel_affine(x, scales.to(x.device), zeros.to(x.device), 0, -8, 7),
    ):
        ours, theirs = reversed(on_both(call, x))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)
