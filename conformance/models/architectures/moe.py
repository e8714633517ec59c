"""A Mixture-of-Experts block: a router takes the two best of eight experts for each token, SwiGLU experts.

Every expert computes every token and the router's weights select, as static shapes want it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from conformance.models.case import Tolerance, TorchCase, normal, seeded


@dataclass(frozen=True)
class Configuration:
    hidden: int = 1024
    inner: int = 2048
    experts: int = 8
    best: int = 2
    tokens: int = 256


FULL = Configuration()
SMALL = Configuration(hidden=64, inner=96, experts=4, tokens=24)


class Block(nn.Module):
    """x + the weighted sum of the chosen experts of norm(x)."""

    def __init__(self, c: Configuration) -> None:
        super().__init__()
        self.best = c.best
        self.experts = c.experts
        self.norm = nn.RMSNorm(c.hidden, eps=1e-6)
        self.router = nn.Linear(c.hidden, c.experts, bias=False)
        self.gate = nn.Parameter(torch.randn(c.experts, c.hidden, c.inner) * c.hidden**-0.5)
        self.up = nn.Parameter(torch.randn(c.experts, c.hidden, c.inner) * c.hidden**-0.5)
        self.down = nn.Parameter(torch.randn(c.experts, c.inner, c.hidden) * c.inner**-0.5)

    def forward(self, x: Any) -> Any:
        flat = self.norm(x)
        score, expert = torch.topk(torch.softmax(self.router(flat), dim=-1), self.best, dim=-1)
        score = score / score.sum(dim=-1, keepdim=True)
        chosen = torch.nn.functional.one_hot(expert, self.experts).to(x.dtype)  # [tokens, best, experts]
        weight = torch.einsum("tb,tbe->te", score, chosen)
        wide = flat.unsqueeze(0)
        inner = nn.functional.silu(torch.matmul(wide, self.gate)) * torch.matmul(wide, self.up)
        out = torch.matmul(inner, self.down)  # [experts, tokens, hidden]
        return x + (out * weight.t().unsqueeze(-1)).sum(dim=0), expert


def build(c: Configuration) -> TorchCase:
    return TorchCase(
        module=seeded(lambda: Block(c)),
        inputs={"x": normal((c.tokens, c.hidden))},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
