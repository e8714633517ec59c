"""Random JAX programs and their gradients on the platform `neuron` and on XLA:CPU: equal values.

    python -m tests.fuzz.fuzz_jax --seconds N | --cpu-seconds N | --cases N --seed S [--case SEED] [--steps N]

A program is a list of ops drawn from a seed (random_jax). A difference, or a refusal of what XLA:CPU computes, ends the
run with status 1 and prints the seed of the case and the ops up to the first result that differs.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [os.environ.get("OPENTRN_PYTHON_ROOT", str(ROOT / "python")), str(ROOT)]
os.environ["JAX_PLATFORMS"] = "neuron,cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402

from tests.fuzz import random_jax, watchdog  # noqa: E402

CASE_SECONDS = 300
STEPS = 12
# Of an element's own magnitude, and of the largest in its result: sums go in another order.
TOLERANCE = 2e-3


def differs(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> tuple[int, str] | None:
    """The first result that differs, and how."""
    for i, (got, want) in enumerate(zip(found, wanted, strict=True)):
        finite = np.abs(want[np.isfinite(want)]).max(initial=1e-3)
        apart = ~np.isclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * finite, equal_nan=True)
        if apart.any():
            return i, f"{int(apart.sum())} of {want.size}: {got[apart][:3]}, and {want[apart][:3]} on the CPU"
    return None


def run(function: Any, arguments: Sequence[np.ndarray], platform: str) -> list[np.ndarray]:
    """The results of a function on a platform."""
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        return [np.asarray(each) for each in jax.jit(function)(*(jax.device_put(x, device) for x in arguments))]


def problem_of(program: random_jax.Program) -> str:
    """What is wrong with the program on the device; "": nothing."""
    names = [step.name for step in program.steps]
    gradient = jax.grad(program.loss, argnums=tuple(range(len(program.arguments))))
    for what, function in (("values", program), ("gradients", gradient)):
        wanted = run(function, program.arguments, "cpu")
        try:
            found = run(function, program.arguments, "neuron")
        except Exception as fault:  # whatever it is: XLA:CPU computes this program
            return f"{what}: {type(fault).__name__}: {fault}\n  " + "\n  ".join(names)
        if difference := differs(found, wanted):
            steps = names[: difference[0] + 1] if what == "values" else names
            return f"{what}, result {difference[0]}: {difference[1]}\n  " + "\n  ".join(steps)
    return ""


def run_cases(options: argparse.Namespace) -> int:
    """Cases until the time is over."""
    faulthandler.register(signal.SIGPROF, chain=True)  # says where, then the signal ends this process
    goes_on = watchdog.budget(options.seconds, options.cpu_seconds)
    count, most = 0, 1 if options.case is not None else options.cases
    while not count or (count < most if most else goes_on()):
        seed = options.case if options.case is not None else (options.seed << 32) + count
        print(f"{watchdog.CASE_MARK}{seed} --steps {options.steps}", flush=True)
        watchdog.watch(CASE_SECONDS)
        program = random_jax.program(seed, options.steps)
        shapes = ", ".join(str(list(each.shape)) for each in program.arguments)
        if problem := problem_of(program):
            print(f"fuzz_jax: arguments {shapes}: {problem}")
            print(f"  again: python -m tests.fuzz.fuzz_jax --case {seed} --steps {options.steps}")
            return 1
        count += 1
    watchdog.watch(0)
    print(f"fuzz_jax: seed {options.seed}: {count} programs and their gradients alike, none failed")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cpu-seconds", type=float, help="in place of --seconds: of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=0, help="in place of --seconds: so many programs")
    parser.add_argument("--case", type=int, help="run only the case of this seed")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"ops of a program, at most (default: {STEPS})")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    return run_cases(options) if options.child else watchdog.run_child("fuzz_jax", sys.argv[1:], CASE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
