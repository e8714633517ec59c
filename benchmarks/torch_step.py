"""A training step of examples/char_gpt_torch.py on the device `neuron` beside torch's own ways, and what a call costs.

    python -m benchmarks.torch_step [--rounds N] [--width N] [--layers N] ... [--json FILE]

Four trainings step in one process, in turns, from the same parameters with the same batches: eager on the CPU,
`torch.compile` on the CPU (Inductor, which needs a C++ compiler), eager on the device, compiled on the device. The
median of all rounds counts, in wall seconds and in CPU seconds of all of this process's threads. Then an op on four
numbers, whose programs are in the table: microseconds of processor time of a call on each device, and their difference.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import opentrn.torch  # noqa: F401  (the device)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import char_gpt_torch  # noqa: E402

VOCABULARY = 96
SIDES = {
    "eager CPU": ("cpu", None), "Inductor CPU": ("cpu", "inductor"),
    "eager neuron": ("neuron", None), "compiled neuron": ("neuron", "neuron"),
}  # fmt: skip


class Side:
    """A training in one of the four ways, and what its steps cost."""

    def __init__(self, place: str, backend: str | None, options: argparse.Namespace) -> None:
        self.place = place
        torch.manual_seed(0)
        sizes = VOCABULARY, options.width, options.layers, options.heads, options.context
        model = char_gpt_torch.GPT(*sizes).to(place)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.forward: Callable[..., Any] = model
        self.update: Callable[[], Any] = self.optimizer.step
        if backend is not None:
            self.forward = torch.compile(model, backend=backend)
            self.update = torch.compile(self.optimizer.step, backend=backend)
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> float:
        """One step; gives the loss."""
        wall, cpu = time.perf_counter(), time.process_time()
        loss = self.forward(tokens.to(self.place), targets.to(self.place))
        self.optimizer.zero_grad()
        loss.backward()
        self.update()
        value = loss.item()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        return value


def steps(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step on each side, and by how much their losses differ from eager torch's."""
    warm = 4  # torch compiles the optimizer again once it has state
    rng = np.random.default_rng(0)
    chosen = {name: of for name, of in SIDES.items() if not options.only or name in options.only}
    sides = {name: Side(*of, options) for name, of in chosen.items()}
    off = 0.0
    for number in range(options.rounds + warm):
        words = torch.from_numpy(rng.integers(0, VOCABULARY, (options.batch, options.context + 1)))
        losses = [side.step(words[:, :-1].contiguous(), words[:, 1:].contiguous()) for side in sides.values()]
        off = max(off, *(abs(loss - losses[0]) for loss in losses))
        if number == warm - 1:
            for side in sides.values():
                side.wall.clear()
                side.cpu.clear()
    return {
        "largest_difference_of_losses": off,
        "wall_s": {name: statistics.median(side.wall) for name, side in sides.items()},
        "cpu_s": {name: statistics.median(side.cpu) for name, side in sides.items()},
    }


def call_us(call: Callable[[], Any], calls: int = 2000, repeats: int = 7) -> float:
    """Microseconds of processor time of a call, all threads: the fastest of some rounds."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, time.process_time() - began)
    return best / calls * 1e6


def calls() -> dict[str, Any]:
    """Microseconds of calls whose program is known, on each device."""
    rows: dict[str, Any] = {}
    for place in ("cpu", "neuron"):
        x, y = torch.ones(4, device=place), torch.ones(4, device=place)
        w = torch.ones(4, 4, device=place)
        ops: dict[str, Callable[[], Any]] = {
            "x + y": lambda x=x, y=y: x + y, "x.add_(y)": lambda x=x, y=y: x.add_(y), "x * 2.5": lambda x=x: x * 2.5,
            "w @ w": lambda w=w: w @ w, "w.t() + w": lambda w=w: w.t() + w, "x.sum()": lambda x=x: x.sum(),
        }  # fmt: skip
        for name, op in ops.items():
            rows.setdefault(name, {})[place] = call_us(op)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--only", action="append", choices=SIDES, help="these sides alone; may be repeated")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = {"calls_us": calls(), "steps": steps(options)}
    print(f"{'a call, us':<18}{'cpu':>10}{'neuron':>10}{'more':>10}")
    for name, row in rows["calls_us"].items():
        print(f"{name:<18}{row['cpu']:>10.2f}{row['neuron']:>10.2f}{row['neuron'] - row['cpu']:>10.2f}")
    found = rows["steps"]
    print(f"{'a step, ms':<18}{'wall':>10}{'CPU':>10}")
    for name, wall in found["wall_s"].items():
        print(f"{name:<18}{wall * 1e3:>10.1f}{found['cpu_s'][name] * 1e3:>10.1f}")
    for kind in ("wall_s", "cpu_s"):
        for ours, theirs in (("eager neuron", "eager CPU"), ("compiled neuron", "Inductor CPU")):
            if ours in found[kind] and theirs in found[kind]:
                print(f"{ours} / {theirs}, {kind[:-2]}: {found[kind][ours] / found[kind][theirs]:.2f}")
    print(f"losses differ by at most {found['largest_difference_of_losses']:.1e}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
