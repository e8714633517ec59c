"""A training step of examples/char_gpt.py on the platform `neuron` beside JAX's CPU, and its compilation.

    JAX_PLATFORMS=neuron,cpu python -m benchmarks.gpt_step [--rounds N] [--width N] [--layers N] ... [--json FILE]

Both platforms step in one process, in turns, from the same parameters with the same batches; the median of all rounds
counts, in wall seconds and in CPU seconds of all of this process's threads (the latter are what a busy machine does
not stretch). Compilation is `lowered.compile()`: XLA's passes on one side, opentrn's on the other.
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

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import char_gpt  # noqa: E402

PLATFORMS = ("neuron", "cpu")
VOCABULARY = 96


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, wall seconds, CPU seconds of all threads)."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call())
    return result, time.perf_counter() - wall, time.process_time() - cpu


class Side:
    """The training on one platform: its program, its state, and what the steps cost."""

    def __init__(self, platform: str, options: argparse.Namespace) -> None:
        self.device = jax.devices(platform)[0]
        self.heads = options.heads
        with jax.default_device(jax.devices("cpu")[0]):
            drawn = char_gpt.initial_parameters(
                jax.random.key(0), VOCABULARY, options.width, options.layers, options.context
            )
        self.parameters = jax.device_put(jax.tree.map(np.asarray, drawn), self.device)
        self.momentum = jax.device_put(
            jax.tree.map(lambda p: np.zeros(p.shape, np.float32), drawn), self.device
        )
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.compile: tuple[float, float] = (0.0, 0.0)
        self.program: Any = None

    def build(self, tokens: np.ndarray, targets: np.ndarray) -> None:
        """Compiles the step, unseen by any cache."""
        jax.clear_caches()
        lowered = char_gpt.step.lower(
            self.parameters, self.momentum, self.put(tokens), self.put(targets), heads=self.heads
        )
        self.program, *self.compile = timed(lowered.compile)

    def put(self, array: np.ndarray) -> jax.Array:
        return jax.device_put(array, self.device)

    def step(self, tokens: np.ndarray, targets: np.ndarray) -> float:
        """One step; gives the loss."""
        x, y = self.put(tokens), self.put(targets)
        made, wall, cpu = timed(lambda: self.program(self.parameters, self.momentum, x, y))
        self.parameters, self.momentum, value = made
        self.wall.append(wall)
        self.cpu.append(cpu)
        return float(value)


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
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    sides = {platform: Side(platform, options) for platform in PLATFORMS}
    off = 0.0
    for number in range(options.rounds + 1):
        words = rng.integers(0, VOCABULARY, (options.batch, options.context + 1)).astype(np.int32)
        losses = []
        for side in sides.values():
            if side.program is None:
                side.build(words[:, :-1], words[:, 1:])
            losses.append(side.step(words[:, :-1], words[:, 1:]))
            if number == 0:  # the first run fills memories
                side.wall.clear()
                side.cpu.clear()
        off = max(off, abs(losses[0] - losses[1]))
    rows: dict[str, Any] = {"largest_difference_of_losses": off}
    print(f"{'':<22}{'neuron':>10}{'cpu':>10}{'ratio':>8}")
    for name, of in {
        "step, wall ms": lambda side: statistics.median(side.wall) * 1e3,
        "step, CPU ms": lambda side: statistics.median(side.cpu) * 1e3,
        "compile, wall s": lambda side: side.compile[0],
        "compile, CPU s": lambda side: side.compile[1],
    }.items():
        ours, theirs = (of(sides[platform]) for platform in PLATFORMS)
        rows[name] = {"neuron": ours, "cpu": theirs, "ratio": ours / theirs}
        print(f"{name:<22}{ours:>10.2f}{theirs:>10.2f}{ours / theirs:>8.2f}")
    print(f"losses differ by at most {off:.1e}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
