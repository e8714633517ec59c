"""A character-level GPT in PyTorch, trained on the text of a licence: the twin of char_gpt.py.

    python examples/char_gpt_torch.py --backend neuron --steps 200     # simulated NeuronCore
    python examples/char_gpt_torch.py --backend eager --steps 200      # torch on the CPU: the same losses
    python examples/char_gpt_torch.py --backend eager --device neuron  # op by op on the simulated core

Forward, backward and optimizer are three compiled graphs where there is a backend. It prints the loss every few steps
and the time of a step on this host.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LICENCE = Path(__file__).resolve().parent.parent / "LICENSE"


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, context, width = x.shape
        shape = (batch, context, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss."""
        h = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            h = block(h)
        logits = h @ self.embedding.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="neuron", help="of torch.compile; eager: without it")
    parser.add_argument("--device", default="cpu", help="where model and data live: cpu, neuron (default: cpu)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--text", type=Path, default=LICENCE)
    o = parser.parse_args()
    if "neuron" in (o.backend, o.device):
        import opentrn.torch  # noqa: F401  (a checkout; an installed OpenTrn is found by torch)

    text = o.text.read_text()
    letters = sorted(set(text))
    tokens = np.array([letters.index(letter) for letter in text])
    torch.manual_seed(0)
    model = GPT(len(letters), o.width, o.layers, o.heads, o.context).to(o.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    forward, step = model, optimizer.step
    if o.backend != "eager":
        forward = torch.compile(model, backend=o.backend)
        step = torch.compile(optimizer.step, backend=o.backend)
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    for i in range(o.steps):
        places = rng.integers(0, len(tokens) - o.context - 1, o.batch)
        x = torch.from_numpy(np.stack([tokens[p : p + o.context] for p in places])).to(o.device)
        y = torch.from_numpy(np.stack([tokens[p + 1 : p + 1 + o.context] for p in places])).to(o.device)
        loss = forward(x, y)
        optimizer.zero_grad()
        loss.backward()
        step()
        if i == 0:
            print(f"{o.backend}: first step {time.perf_counter() - started:.2f} s, compilation included")
        if i == min(2, o.steps - 1):  # torch compiles the optimizer again once it has state
            started, first = time.perf_counter(), i
        if i % max(1, o.steps // 10) == 0 or i == o.steps - 1:
            print(f"step {i:5d}  loss {loss.item():.5f}")
    if o.steps > 3:
        print(f"{(time.perf_counter() - started) / (o.steps - 1 - first):.3f} s per step")


if __name__ == "__main__":
    main()
