"""A training loop of torch.compile, for neuron_parallel_compile: --steps says how many steps it takes.

    NEURON_COMPILE_CACHE_URL=cache neuron_parallel_compile python train.py --steps 1
    NEURON_COMPILE_CACHE_URL=cache python train.py --steps 100
"""

import argparse

import torch

import opentrn.torch  # noqa: F401  (the backend "neuron")

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
steps = parser.parse_args().steps

torch.manual_seed(0)
points = torch.randn(64, 16)
labels = (points[:, 0] * points[:, 1] > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


@torch.compile(backend="neuron")
def loss_of(x, y):
    return torch.nn.functional.cross_entropy(model(x), y)


for step in range(steps):
    optimizer.zero_grad()
    loss = loss_of(points, labels)
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
