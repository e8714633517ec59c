"""Tests that optimizers go on with the parameters of a module that moved, and of their fused steps."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401
from opentrn.torch.eager import compiler  # noqa: E402


def train(place: str, make: Any, **options: Any) -> list[float]:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    optimizer = make(model.parameters(), lr=1e-2, **options)
    before = list(model.parameters())
    model.to(place)  # after the optimizer was made, as Accelerate does
    assert all(old is new for old, new in zip(before, model.parameters()))
    x = torch.randn(8, 8).to(place)
    losses = []
    for step in range(4):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 + step)
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("make, options", [
    (torch.optim.AdamW, {}), (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
])  # fmt: skip
def test_steps_are_those_of_the_cpu(make: Any, options: dict[str, Any], fused: bool) -> None:
    known = len(compiler.PLANS)
    found = train("neuron", make, fused=fused, **options)
    assert found == pytest.approx(train("cpu", make, **options), rel=1e-5)
    if fused:  # one program, whatever the learning rate
        made = [plan for plan in list(compiler.PLANS.values())[known:] if "fused" in plan.name]
        assert len(made) == 1 and not made[0].on_host


def test_a_module_whose_parameters_a_graph_holds_moves_all_the_same() -> None:
    model = torch.nn.Linear(8, 4).to("neuron")
    loss = model(torch.ones(2, 8, device="neuron")).sum()
    assert model.cpu().weight.device.type == "cpu" and loss.item() == loss.item()


def test_a_gradient_scaler_runs_on_the_device(capfd: pytest.CaptureFixture[str]) -> None:
    """Two steps that overflow at first, then one more than the interval without."""
    found = []
    for device in ("cpu", "neuron"):
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 6, device=device))
        half = torch.nn.Parameter(torch.ones(3, device=device, dtype=torch.bfloat16))
        optimizer = torch.optim.SGD([weight, half], 0.1)
        scaler = torch.amp.GradScaler(device, init_scale=2.0**127, growth_interval=3)
        scales = []
        for _ in range(6):
            optimizer.zero_grad()
            scaler.scale((weight * 5).sum() + half.float().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        found.append((scales, weight.detach().cpu(), half.detach().cpu()))
    assert found[0][0] == found[1][0] and found[0][0][:2] == [2.0**126, 2.0**125]
    torch.testing.assert_close(found[1][1:], found[0][1:])
    assert "runs on the host" not in capfd.readouterr().err
