"""A fraud score: amounts and categories of a payment, an MLP with layer norm and GELU, a probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from conformance.models.case import Tolerance, TorchCase, generator, normal, seeded


@dataclass(frozen=True)
class Configuration:
    """categories: values of each categorical feature."""

    amounts: int = 32
    categories: tuple[int, ...] = (1000, 200, 50, 12)
    width: int = 16
    hidden: tuple[int, ...] = (512, 256, 128)
    batch: int = 256


FULL = Configuration()
SMALL = Configuration(amounts=8, categories=(20, 5), width=4, hidden=(32, 16), batch=10)


class Scorer(nn.Module):
    """Amounts [batch, amounts] and categories [batch, features] in; score and a decision at 0.5 out."""

    def __init__(self, c: Configuration) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, c.width) for count in c.categories)
        sizes = [c.amounts + c.width * len(c.categories), *c.hidden]
        layers: list[nn.Module] = []
        for before, after in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.GELU()]
        self.body = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, amounts: Any, categories: Any) -> Any:
        scaled = torch.sign(amounts) * torch.log1p(torch.abs(amounts))
        embedded = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        score = torch.sigmoid(self.body(torch.cat([scaled, *embedded], dim=1)))[:, 0]
        return score, score > 0.5


def build(c: Configuration) -> TorchCase:
    random = generator()
    categories = [random.integers(0, count, c.batch) for count in c.categories]
    return TorchCase(
        module=seeded(lambda: Scorer(c)),
        inputs={
            "amounts": 100 * normal((c.batch, c.amounts)),
            "categories": torch.tensor(categories).t().numpy(),
        },
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
