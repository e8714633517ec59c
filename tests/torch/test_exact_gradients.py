"""Gradients of networks with batch norms in training, on the device and by eager CPU, both against float64.

Activations are smooth: behind a ReLU a value that another rounding moves over zero changes a gradient by what that
element gives (up to a third of it, on the CPU alone, in HRNet with one image), which says nothing of exactness.
"""

from __future__ import annotations

import copy

import pytest
import torch

import opentrn.torch  # noqa: F401  registers the backend


def block(channels: int, to: int, stride: int = 1, groups: int = 1) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, to, 3, stride, 1, groups=groups, bias=False), torch.nn.BatchNorm2d(to),
        torch.nn.Softplus(),
    )  # fmt: skip


class Branches(torch.nn.Module):
    """Two resolutions that exchange what they have, as in HRNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.coarse = block(3, 16, 2), block(16, 32, 2)
        self.whole, self.own = block(16, 16), block(32, 32)
        self.up, self.down = torch.nn.Sequential(torch.nn.Conv2d(32, 16, 1), torch.nn.BatchNorm2d(16)), block(16, 32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        a, b = self.whole(x), self.own(self.coarse(x))
        a, b = a + torch.nn.functional.interpolate(self.up(b), scale_factor=2, mode="nearest"), b + self.down(a)
        return torch.cat([a.mean((2, 3)), b.mean((2, 3))], 1)


NETWORKS = {
    "plain": lambda: torch.nn.Sequential(block(3, 16, 2), block(16, 32), block(32, 32, 2), torch.nn.Flatten()),
    "depthwise": lambda: torch.nn.Sequential(block(3, 32, 2), block(32, 32, 1, 32), block(32, 16), torch.nn.Flatten()),
    "branches": Branches,
}


def gradients(module: torch.nn.Module, call: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    (call(x) ** 2).mean().backward()
    return [parameter.grad.double() for parameter in module.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("images", [1])
def test_batch_norms_gradients_are_as_exact_as_the_cpus(name: str, images: int) -> None:
    torch.manual_seed(0)
    network, x = NETWORKS[name]().train(), torch.randn(images, 3, 16, 16)
    cpu, wide, device = copy.deepcopy(network), copy.deepcopy(network).double(), copy.deepcopy(network)
    exact = gradients(wide, wide, x.double())
    ours = gradients(device, torch.compile(device, backend="neuron"), x)
    most = max(float(each.abs().max()) for each in exact)
    for truth, theirs, mine in zip(exact, gradients(cpu, cpu, x), ours, strict=True):
        allowed = 4 * float((theirs - truth).abs().max()) + 2e-6 * float(truth.abs().max()) + 1e-7 * most
        assert float((mine - truth).abs().max()) <= allowed
