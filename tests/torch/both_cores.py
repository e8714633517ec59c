"""What tests/torch/test_both_cores.py runs on one logical core: op by op and compiled, with gradients.

    python tests/torch/both_cores.py VALUES.npz

The last line on stdout is JSON: microseconds of the device by program, and in "used" what a profile says of its cores.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import numpy as np
import torch
from torch import nn

import opentrn
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
import opentrn.torch  # noqa: F401


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.static_range(a.shape[0] // 128):
        tile = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[i * 128 : (i + 1) * 128, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out


class Block(nn.Module):
    """Attention and an MLP, each beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32)).to("neuron")


def mlp(x, up, down):
    return torch.relu(x @ up) @ down


def around_a_kernel(x, up, down):
    return doubled(torch.relu(x @ up)) @ down


def trained(block: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    block.zero_grad()
    loss = block(x).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad for p in block.parameters())]


def main() -> None:
    torch.manual_seed(0)
    x, up, down = normal(0, 512, 256), normal(1, 256, 1024) / 16, normal(2, 1024, 256) / 32
    block = Block(256, 4).to("neuron")
    tokens = normal(3, 4, 128, 256)
    work = {
        "eager": lambda: [mlp(x, up, down)],
        "mlp": lambda: [compiled["mlp"](x, up, down)],
        "kernel": lambda: [compiled["kernel"](x, up, down)],
        "block": lambda: trained(compiled["block"], tokens),
        "small": lambda: [x[:4] + 1],
    }
    compiled = {
        "mlp": torch.compile(mlp, backend="neuron"),
        "kernel": torch.compile(around_a_kernel, backend="neuron"),
        "block": torch.compile(block, backend="neuron"),
    }
    values = {}
    with opentrn.profile_program() as profile:
        for name, run in work.items():
            for i, value in enumerate(run()):
                values[f"{name}{i}"] = value.detach().cpu().numpy()
    np.savez(sys.argv[1], **values)
    rows = profile.data["programs"]
    us: Counter[str] = Counter()
    for row in rows:
        us[row["name"]] += row["device_us"] * row["runs"]
    used = {row["name"]: [row.get("physical_cores_used"), row.get("both_cores_by"), row.get("one_core_because")]
            for row in rows}  # fmt: skip
    print(json.dumps({"us": us, "used": used}))


if __name__ == "__main__":
    main()
