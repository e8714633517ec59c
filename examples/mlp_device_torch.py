"""An MLP learns to read handwritten digits on the device `neuron`, op by op.

python examples/mlp_device_torch.py                     # on the simulated core
python examples/mlp_device_torch.py --device cpu        # the same on this host
opentrn profile -- python examples/mlp_device_torch.py  # what the core would take

Needs torch 2.13 and scikit-learn, whose digits these are. Prints the loss every ten steps and the share of unseen
digits that is read rightly.
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import opentrn.torch  # noqa: F401  (the device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(options.steps):
        rows = torch.arange(64) + 64 * (step % 20)
        given, wanted = x[rows].to(options.device), y[rows].to(options.device)
        loss = nn.functional.cross_entropy(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    unseen = slice(1400, None)
    right = (model(x[unseen].to(options.device)).argmax(1).cpu() == y[unseen]).float().mean()
    print(f"{100 * right:.1f} % of {len(y[unseen])} unseen digits read rightly")
    if options.device == "neuron":
        print(f"simulated time {torch.neuron.simulated_time_us() / 1e3:.2f} ms")


if __name__ == "__main__":
    main()
