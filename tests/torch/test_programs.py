"""torch.compile(backend="neuron") against the same program in eager torch."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import opentrn.torch  # noqa: E402
from opentrn.torch import usage  # noqa: E402

RNG = np.random.default_rng(0)
# fp32: engines and CPUs sum in different orders and round functions differently.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing runs on the host unless a test says so; dynamo forgets what other tests compiled."""
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(int(RNG.integers(2**31)))
    yield
    torch._dynamo.reset()


def compiled(function: Any, **keywords: Any) -> Any:
    return torch.compile(function, backend="neuron", fullgraph=True, **keywords)


def check(function: Callable[..., Any], *arguments: Any, **tolerance: float) -> None:
    """The compiled function gives eager's results and leaves its arguments as eager does."""
    given, again = copy.deepcopy(arguments), copy.deepcopy(arguments)
    torch.testing.assert_close(compiled(function)(*given), function(*again), **(tolerance or CLOSE))
    torch.testing.assert_close(given, again, **(tolerance or CLOSE))


class Classifier(nn.Module):
    """Convolution, batch normalisation, pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(
            1, 6, 3, padding=1, bias=False
        )  # its bias would have no gradient but rounding
        self.norm = nn.BatchNorm2d(6)
        self.out = nn.Linear(6 * 4 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        return self.out(hidden.flatten(1))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1, amsgrad=True),
}


def train(model: nn.Module, optimizer: torch.optim.Optimizer, device: bool, steps: int = 4) -> list[float]:
    """Losses of a few steps on one batch; on the device all three graphs are compiled."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(6, 1, 8, 8, generator=generator)
    y = torch.randint(0, 5, (6,), generator=generator)
    forward = torch.compile(model, backend="neuron") if device else model
    step = torch.compile(optimizer.step, backend="neuron") if device else optimizer.step
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_run_is_that_of_eager_torch(name: str) -> None:
    eager = Classifier()
    device = copy.deepcopy(eager)
    wanted = train(eager, OPTIMIZERS[name](eager.parameters()), device=False)
    optimizer = OPTIMIZERS[name](device.parameters())
    losses = train(device, optimizer, device=True)
    assert wanted[-1] < wanted[0]
    np.testing.assert_allclose(losses, wanted, rtol=2e-4)
    # Parameters, and the running statistics that the compiled forward pass changes in place.
    torch.testing.assert_close(device.state_dict(), eager.state_dict(), rtol=2e-3, atol=2e-3)
    assert device.state_dict()["norm.num_batches_tracked"] == 4
    again = Classifier()
    again.load_state_dict(device.state_dict())
    x = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(again.eval())(x), device.eval()(x), **CLOSE)


def test_sizes_may_change_from_call_to_call() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.softmax(x @ w, -1).sum(0) * x.shape[0]

    w = torch.randn(8, 3)
    for dynamic in (True, None):
        torch._dynamo.reset()
        device = compiled(function, dynamic=dynamic)
        for rows in (4, 6, 9, 6):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(device(x, w), function(x, w), **CLOSE)
    x = torch.randn(5, 8)
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0)
    torch.testing.assert_close(compiled(function)(x, w), function(x, w), **CLOSE)


def test_programs_of_dynamic_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENTRN_SIZED_PROGRAMS", "2")
    before = set(usage._ALIVE)
    device = compiled(lambda x: x * 2 + 1, dynamic=True)

    def made(rows: int) -> int:
        known = set(usage._ALIVE)
        x = torch.ones(rows, 3)
        torch.testing.assert_close(device(x), x * 2 + 1)
        return len(set(usage._ALIVE) - known)

    assert [made(rows) for rows in (4, 5, 4, 6, 4, 5)] == [1, 1, 0, 1, 0, 1]  # 5 went for 6
    gc.collect()
    assert len(set(usage._ALIVE) - before) == 2


def test_gradients_with_dynamic_sizes() -> None:
    device = compiled(lambda x, w: (x @ w).tanh().sum(), dynamic=True)
    w = torch.randn(8, 3, requires_grad=True)
    for rows in (4, 7):
        x = torch.randn(rows, 8)
        (given,) = torch.autograd.grad(device(x, w), w)
        (wanted,) = torch.autograd.grad((x @ w).tanh().sum(), w)
        torch.testing.assert_close(given, wanted, **CLOSE)


def test_checks_with_dynamic_sizes() -> None:
    """A check of values hands a token on, which the caller gives as None."""
    device = compiled(lambda x: torch.linalg.solve(x, x.cos()), dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, rows) + 5 * torch.eye(rows)
        torch.testing.assert_close(device(x), torch.linalg.solve(x, x.cos()), **CLOSE)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        device(torch.zeros(5, 5))


def test_views_mutation_and_results_that_are_arguments() -> None:
    def change(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        row = x[1]
        row.mul_(2)
        y.add_(x[0])
        return x, x.t(), y[1:], row + 1, x.t().contiguous().t()

    x, y = torch.randn(3, 4), torch.randn(4)
    check(change, x, y)
    given = x.clone()
    result = compiled(change)(given, y)
    assert result[0].data_ptr() == given.data_ptr()
    assert result[1].stride() == (1, 4) and result[1]._base is not None
    assert result[4].stride() == change(x, y)[4].stride()


def test_rotary_embeddings_by_complex_numbers() -> None:
    """As Llama's own code has them: torch.polar, view_as_complex and a complex product."""

    def rotate(x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(5.0), 10000 ** (-torch.arange(0, 8, 2) / 8))
        turns = torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * turns).flatten(-2)

    check(rotate, torch.randn(2, 5, 8))


def test_64_bit_types_are_32_bit_ones_on_the_device_and_come_back() -> None:
    whole = torch.tensor([2**31 - 1, -5, 0])
    check(lambda x: (x // 2, x.argmax(), x > 0), whole)
    result = compiled(lambda x: x * 0.1)(torch.tensor([1.0], dtype=torch.float64))
    assert result.dtype == torch.float64
    torch.testing.assert_close(result.float(), torch.tensor([0.1]))
    with pytest.raises(ValueError, match=r"2147483648 of input0\[1\] does not fit the 32 bits"):
        compiled(lambda x: x + 1)(torch.tensor([0, 2**31]))


def test_narrow_floats_and_autocast() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    x = torch.randn(8, 16)
    for dtype in (torch.bfloat16, torch.float16):
        narrow = copy.deepcopy(model).to(dtype)
        check(narrow, x.to(dtype), rtol=2e-2, atol=2e-2)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    assert mixed(x).dtype == torch.bfloat16
    check(mixed, x, rtol=2e-2, atol=2e-2)
    check(lambda x: x.to(torch.float8_e4m3fn).float() + x.to(torch.float8_e5m2).float(), x)


def test_dropout_is_reproducible_and_of_its_rate() -> None:
    device = compiled(lambda x: F.dropout(x, 0.25))
    x = torch.ones(200, 200, requires_grad=True)
    torch.manual_seed(3)
    first, other = device(x), device(x)
    torch.manual_seed(3)
    assert torch.equal(device(x), first)
    assert not torch.equal(first, other)
    assert set(first.detach().unique().tolist()) == {0.0, np.float32(1 / 0.75)}
    # Five standard deviations of 40,000 draws.
    assert abs(float((first == 0).float().mean()) - 0.25) < 5 * (0.25 * 0.75 / x.numel()) ** 0.5
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(gradient, first.detach())


def test_random_numbers_have_their_distributions() -> None:
    n = 40_000

    def draw() -> tuple[torch.Tensor, ...]:
        return torch.rand(n), torch.randn(n), torch.randint(0, 10, (n,)), torch.randperm(500), torch.rand(n)

    uniform, normal, whole, order, other = compiled(draw)()
    assert not torch.equal(uniform, other)
    grid = torch.arange(1, n + 1) / n
    # Kolmogorov's statistic: above 2.2 / sqrt n once in 10,000 runs.
    assert float((uniform.sort().values - grid).abs().max()) < 2.2 / n**0.5
    assert float((torch.special.ndtr(normal.sort().values) - grid).abs().max()) < 2.2 / n**0.5
    counts = torch.bincount(whole, minlength=10)
    assert len(counts) == 10 and float((counts - n / 10).abs().max()) < 5 * (n * 0.09) ** 0.5
    assert torch.equal(order.sort().values, torch.arange(500)) and order.dtype == torch.int64


def test_an_op_without_a_device_form_is_named_with_its_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x + 1)

    with pytest.raises(Exception, match="linalg_eig") as caught:
        compiled(function)(torch.eye(3))
    assert "test_programs.py:" in str(caught.value) and "torch.linalg.eigvals(x + 1)" in str(caught.value)


def test_without_strict_it_runs_on_the_host_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "0")
    x = torch.eye(3)
    given = compiled(lambda x: torch.linalg.eigvals(x + 1) * 2)(x)
    torch.testing.assert_close(given, torch.linalg.eigvals(x + 1) * 2)
    said = capfd.readouterr().err
    assert "runs on the host" in said and "linalg_eig" in said


def test_only_what_has_no_form_leaves_the_device(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "0")
    monkeypatch.setenv("OPENTRN_USAGE", str(tmp_path / "usage.json"))
    noted: list[Any] = []
    monkeypatch.setattr("opentrn.torch.usage.note", noted.append)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        symmetric = (x @ w) @ (x @ w).t()
        return torch.linalg.eigvals(symmetric).real.relu().sum() * w.tanh().mean()

    x, w = torch.randn(4, 5), torch.randn(5, 6, requires_grad=True)
    given, wanted = compiled(function)(x, w), function(x, w)
    torch.testing.assert_close(given, wanted, rtol=1e-3, atol=1e-3)
    (gradient,) = torch.autograd.grad(given, w)
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted, w)[0], rtol=1e-3, atol=1e-3)
    assert "aten.linalg_eig.default of function" in capfd.readouterr().err
    assert sum(program.runs for program in noted) >= 3  # both sides of it forward, and the backward pass


def test_options_are_checked() -> None:
    with pytest.raises(Exception, match="backend neuron has no option optimise\n    try: one of .*target"):
        torch.compile(lambda x: x + 1, backend="neuron", options={"optimise": 1})(torch.ones(2))
    result = torch.compile(lambda x: x + 1, backend="neuron", options={"target": "trn3"})(torch.ones(2))
    assert result.tolist() == [2, 2]


def test_the_backend_has_its_name() -> None:
    assert "neuron" in torch._dynamo.list_backends(exclude_tags=())
    assert opentrn.torch.neuron is torch._dynamo.lookup_backend("neuron")


def test_what_the_backward_pass_keeps_is_not_copied() -> None:
    """Torch traced it in other strides than the program writes; only what the caller sees is in those."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned = torch.exp(x.transpose(1, 2) @ x).transpose(0, 1)
        return turned.detach(), (torch.sin(turned) * turned).sum()

    x = torch.randn(3, 4, 5).mul(0.2).to("neuron")
    with torch.profiler.profile() as profile:
        step = compiled(f)
        kept = x.clone().requires_grad_()
        turned, total = step(kept)
        total.backward()
    again = x.cpu().requires_grad_()
    wanted = f(again)
    wanted[1].backward()
    assert turned.stride() == wanted[0].stride()
    torch.testing.assert_close([turned.cpu(), kept.grad.cpu()], [wanted[0], again.grad], **CLOSE)
    names = [event.name for event in profile.events()]
    backward = next(i for i, name in enumerate(names) if "CompiledFunctionBackward" in name)
    assert "aten::contiguous" not in names[backward:], names


def test_views_of_the_hosts_ops_have_the_strides_that_were_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENTRN_STRICT")

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.matrix_exp(torch.tanh(x.transpose(1, 2) * 0.1)).sum()

    x = torch.randn(2, 3, 3)
    leaf, again = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.compile(f, backend="neuron")(leaf).backward()
    f(again).backward()
    torch.testing.assert_close(leaf.grad, again.grad, **CLOSE)
