"""What a JAX program costs this host before the device computes: dispatch of a jitted small op, and compilation.

    JAX_PLATFORMS=neuron,cpu python -m benchmarks.jax_dispatch [--calls N] [--json FILE]

A call is `f(x)` of a compiled program of one element, asynchronous; the queue is emptied outside of the measured
time. Both platforms are measured in one process, in turns, and the least of all rounds counts. Times are of this
process's main thread, in microseconds: other processes on the machine do not count.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

ROUNDS = 7


def small_op(platform: str) -> tuple[Callable[[jax.Array], jax.Array], jax.Array]:
    """A compiled program of one element on the platform, and its argument there."""
    f = jax.jit(lambda x: x + 1)
    x = jax.device_put(jnp.float32(0), jax.devices(platform)[0])
    f(x).block_until_ready()
    return f, x


def dispatch_us(platform: str, calls: int) -> float:
    """Microseconds of the main thread for one call."""
    f, x = small_op(platform)
    began = time.thread_time()
    for _ in range(calls):
        y = f(x)
    spent = time.thread_time() - began
    y.block_until_ready()
    return spent / calls * 1e6


def round_trip_us(platform: str, calls: int) -> float:
    """Microseconds of all of this process's threads for one call and its value, one at a time."""
    f, x = small_op(platform)
    began = time.process_time()
    for _ in range(calls):
        f(x).block_until_ready()
    return (time.process_time() - began) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    measures = {"dispatch_us": dispatch_us, "round_trip_us": round_trip_us}
    found = {name: {"neuron": float("inf"), "cpu": float("inf")} for name in measures}
    for _ in range(ROUNDS):
        for name, least in found.items():
            for platform in least:
                least[platform] = min(least[platform], measures[name](platform, options.calls))
    for name, least in found.items():
        print(f"{name:<16}" + "".join(f"{platform} {value:.1f}   " for platform, value in least.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
