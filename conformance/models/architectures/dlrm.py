"""A recommender after DLRM (Naumov et al. 2019): bags of embeddings, an MLP for dense features, dot interaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from conformance.models.case import Tolerance, TorchCase, generator, normal, seeded


@dataclass(frozen=True)
class Configuration:
    """tables: embedding tables; rows: of each; bag: ids of a bag, which are added up."""

    tables: int = 26
    rows: int = 20_000
    width: int = 64
    bag: int = 4
    dense: int = 13
    bottom: tuple[int, ...] = (512, 256)
    top: tuple[int, ...] = (512, 256)
    batch: int = 128


FULL = Configuration()
SMALL = Configuration(tables=4, rows=100, width=16, bag=3, bottom=(32,), top=(32,), batch=20)


def mlp(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    """Dense features [batch, dense] and ids [batch, tables, bag] in, the probability of a click out."""

    def __init__(self, c: Configuration) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c.rows, c.width) for _ in range(c.tables))
        self.bottom = mlp([c.dense, *c.bottom, c.width])
        pairs = (c.tables + 1) * c.tables // 2
        self.top = nn.Sequential(mlp([c.width + pairs, *c.top]), nn.Linear(c.top[-1], 1))
        below = torch.tril_indices(c.tables + 1, c.tables + 1, offset=-1)
        self.pairs = nn.Buffer(below[0] * (c.tables + 1) + below[1])

    def forward(self, dense: Any, ids: Any) -> Any:
        x = self.bottom(dense)
        bags = [table(ids[:, i]).sum(dim=1) for i, table in enumerate(self.tables)]
        features = torch.stack([x, *bags], dim=1)
        dots = torch.bmm(features, features.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([x, dots[:, self.pairs]], dim=1)))


def build(c: Configuration) -> TorchCase:
    ids = generator().integers(0, c.rows, (c.batch, c.tables, c.bag))
    return TorchCase(
        module=seeded(lambda: Recommender(c)),
        inputs={"dense": normal((c.batch, c.dense)), "ids": ids},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
