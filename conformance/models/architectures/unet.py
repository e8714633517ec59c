"""A U-Net as diffusion models have it: residual blocks with group norm and a time embedding, attention where the
image is small, nearest upsampling, connections across."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from conformance.models.case import Tolerance, TorchCase, normal, seeded


@dataclass(frozen=True)
class Configuration:
    """channels: per level; image: pixels of a side; groups: of the group norms; heads: of attention."""

    channels: tuple[int, ...] = (64, 128, 256)
    image: int = 64
    groups: int = 16
    heads: int = 4
    time: int = 256


FULL = Configuration()
SMALL = Configuration(channels=(16, 32), image=16, groups=4, heads=2, time=32)


class Residual(nn.Module):
    """Norm, SiLU, convolution, twice, with the time embedding between."""

    def __init__(self, channels: int, out: int, c: Configuration) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.GroupNorm(c.groups, channels), nn.GroupNorm(c.groups, out)
        self.first, self.second = nn.Conv2d(channels, out, 3, 1, 1), nn.Conv2d(out, out, 3, 1, 1)
        self.time = nn.Linear(c.time, out)
        self.around = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        h = self.first(functional.silu(self.first_norm(x)))
        h = h + self.time(functional.silu(time))[:, :, None, None]
        return self.around(x) + self.second(functional.silu(self.second_norm(h)))


class Attention(nn.Module):
    """Self-attention over positions."""

    def __init__(self, channels: int, c: Configuration) -> None:
        super().__init__()
        self.heads = c.heads
        self.norm = nn.GroupNorm(c.groups, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: Any) -> Any:
        n, channels, height, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(n, 3, self.heads, channels // self.heads, height * width)
        q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
        score = torch.softmax(q.transpose(-1, -2) @ k / math.sqrt(channels // self.heads), dim=-1)
        return x + self.out((v @ score.transpose(-1, -2)).reshape(n, channels, height, width))


class UNet(nn.Module):
    """A noisy image and its time step in, the predicted noise out."""

    def __init__(self, c: Configuration) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(
            torch.exp(torch.arange(c.time // 2) * (-math.log(10000.0) / (c.time // 2)))
        )
        self.time = nn.Sequential(nn.Linear(c.time, c.time), nn.SiLU(), nn.Linear(c.time, c.time))
        self.first = nn.Conv2d(3, c.channels[0], 3, 1, 1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        channels = c.channels[0]
        for level in c.channels:
            self.down.append(Residual(channels, level, c))
            self.shrink.append(nn.Conv2d(level, level, 3, 2, 1))
            channels = level
        self.middle = Residual(channels, channels, c)
        self.attention = Attention(channels, c)
        self.up = nn.ModuleList()
        for level in reversed(c.channels):
            self.up.append(Residual(channels + level, level, c))
            channels = level
        self.norm = nn.GroupNorm(c.groups, channels)
        self.last = nn.Conv2d(channels, 3, 3, 1, 1)

    def forward(self, image: Any, step: Any) -> Any:
        angle = step[:, None] * self.frequencies[None]
        time = self.time(torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1))
        x = self.first(image)
        across = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            x = block(x, time)
            across.append(x)
            x = shrink(x)
        x = self.attention(self.middle(x, time))
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, across.pop()], dim=1), time)
        return self.last(functional.silu(self.norm(x)))


def build(c: Configuration) -> TorchCase:
    return TorchCase(
        module=seeded(lambda: UNet(c)),
        inputs={"image": normal((1, 3, c.image, c.image)), "step": np.array([17.0], np.float32)},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
