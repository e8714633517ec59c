"""An MLP learns to read handwritten digits on several NeuronCores, data-parallel.

torchrun --nproc-per-node 2 examples/ddp_torch.py                 # DistributedDataParallel
torchrun --nproc-per-node 2 examples/ddp_torch.py --shard         # FSDP2: each rank has a part of the weights

Each step has the same 64 digits however many ranks share them (1, 2, 4, ...), so the losses agree. Needs torch 2.13
and scikit-learn, whose digits these are. Rank 0 prints the loss every ten steps, the share of unseen digits that is
read rightly, and the simulated time.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import opentrn.torch  # noqa: F401  (the device and its process group)

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--shard", action="store_true", help="FSDP2 instead of DistributedDataParallel")
    options = parser.parse_args()
    dist.init_process_group("neuron")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("neuron", int(os.environ.get("LOCAL_RANK", 0)))
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    model: nn.Module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = fully_shard(model) if options.shard else DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(options.steps):
        rows = torch.arange(rank, BATCH, ranks) + BATCH * (step % 20)
        loss = nn.functional.cross_entropy(model(x[rows].to(device)), y[rows].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            dist.all_reduce(mean := loss.detach().clone(), dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step + 1}: loss {mean.item():.4f}")
    unseen = slice(1400, None)
    right = (model(x[unseen].to(device)).argmax(1).cpu() == y[unseen]).float().mean()
    if rank == 0:
        print(f"{100 * right:.1f} % of {len(y[unseen])} unseen digits read rightly")
        print(f"simulated time {torch.neuron.simulated_time_us() / 1e3:.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
