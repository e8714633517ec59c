"""ResNet-50 (He et al. 2016; version 1.5: the 3x3 convolution has the stride), with batch norm as in inference."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from conformance.models.case import Tolerance, TorchCase, normal, seeded


@dataclass(frozen=True)
class Configuration:
    """blocks: per stage; width: channels of the first stage; image: pixels of a side."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    image: int = 224
    classes: int = 1000


FULL = Configuration()
SMALL = Configuration(blocks=(1, 1), width=16, image=48, classes=10)


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up by four, and the way round."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.around = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.around(x))


def network(c: Configuration) -> nn.Module:
    """The whole classifier, with statistics of batch normalisation that are not trivial."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, c.width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(c.width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = c.width
    for stage, count in enumerate(c.blocks):
        width = c.width << stage
        for block in range(count):
            layers.append(Bottleneck(channels, width, 2 if stage > 0 and block == 0 else 1))
            channels = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, c.classes)]
    model = nn.Sequential(*layers)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return model


def build(c: Configuration) -> TorchCase:
    return TorchCase(
        module=seeded(lambda: network(c)),
        inputs={"image": normal((1, 3, c.image, c.image))},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
