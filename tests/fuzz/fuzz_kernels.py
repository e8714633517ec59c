"""Random small NKI kernels on the C++ core and on the NumPy oracle: equal values, or a refusal by both.

    python -m tests.fuzz.fuzz_kernels --seconds N | --cpu-seconds N --seed S [--case SEED] [--target trn2]

A kernel is a list of steps drawn from a seed; each step is one nki.isa call on tiles that earlier steps wrote.
The core may refuse by a numbered constraint ("nc_matmul.C3") what the oracle accepts, because the oracle does
not know them all; every other difference ends the run with status 1 and prints the seed of the case.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [os.environ.get("OPENTRN_PYTHON_ROOT", str(ROOT / "python")), str(ROOT)]

import numpy as np  # noqa: E402

from opentrn import nki  # noqa: E402
from opentrn.nki import isa as nisa  # noqa: E402
from opentrn.nki import language as nl  # noqa: E402
from tests.fuzz import watchdog  # noqa: E402

CASE_SECONDS = 60
COLUMNS = 16
ROWS = (32, 64, 128)
DTYPES = ("float32", "bfloat16", "float16", "int32")
FLOATS = DTYPES[:3]
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "greater", "less_equal")
ACTIVATIONS = ("exp", "tanh", "relu", "sigmoid", "square", "copy", "gelu", "silu", "abs")
# Relative tolerance of one value; the two sides may evaluate activation functions differently in the last bits.
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 4e-3, "int32": 0.0}


@dataclass
class Step:
    """One nki.isa call: `dst` and `sources` are tile numbers, `dst` a new one unless it exists."""

    kind: str
    sources: tuple[int, ...]
    rows: int
    columns: int
    dtype: str
    options: dict[str, Any]


class Refused(Exception):
    """A backend refused the kernel; the text is its message."""


def draw_kernel(rng: np.random.Generator) -> list[Step]:
    """A list of steps. Tiles 0 and 1 are the inputs."""
    steps: list[Step] = []
    shapes: list[tuple[int, int, str]] = []
    rows = int(rng.choice(ROWS))
    for _ in range(2):
        shapes.append((rows, COLUMNS, str(rng.choice(FLOATS))))
        steps.append(Step("load", (), *shapes[-1], {}))
    for _ in range(int(rng.integers(2, 12))):
        kind = str(rng.choice(list(KINDS)))
        step = KINDS[kind](rng, kind, shapes)
        if step is not None:
            steps.append(step)
            shapes.append((step.rows, step.columns, step.dtype))
    return steps


def pick(rng: np.random.Generator, shapes: list, matches: Any) -> int | None:
    found = [i for i, shape in enumerate(shapes) if matches(shape)]
    return int(rng.choice(found)) if found else None


def any_tile(rng: np.random.Generator, shapes: list) -> int:
    return int(rng.integers(len(shapes)))


def tensor_tensor(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    if rng.integers(20) == 0:  # any second tile, of equal size or not
        b = any_tile(rng, shapes)
    else:
        b = pick(rng, shapes, lambda s: s[:2] == shapes[a][:2])
    return Step(kind, (a, b), *shapes[a][:2], str(rng.choice(FLOATS)), {"op": str(rng.choice(BINARY))})


def tensor_scalar(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    options = {"op0": str(rng.choice(BINARY)), "operand0": float(rng.integers(-3, 4)) / 2}
    if rng.integers(2):
        options |= {
            "op1": str(rng.choice(BINARY)),
            "operand1": float(rng.integers(-3, 4)),
            "reverse1": bool(rng.integers(2)),
        }
    return Step(kind, (a,), *shapes[a][:2], str(rng.choice(FLOATS)), options)


def activation(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    options = {
        "op": str(rng.choice(ACTIVATIONS)),
        "scale": float(rng.integers(-2, 3)) / 2,
        "bias": float(rng.integers(-2, 3)) / 4,
    }
    return Step(kind, (a,), *shapes[a][:2], str(rng.choice(FLOATS)), options)


def tensor_copy(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    return Step(kind, (a,), *shapes[a][:2], str(rng.choice(FLOATS)), {})


def tensor_reduce(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    return Step(
        kind,
        (a,),
        shapes[a][0],
        1,
        "float32",
        {"op": str(rng.choice(("add", "maximum", "minimum"))), "negate": bool(rng.integers(2))},
    )


def nc_matmul(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = pick(rng, shapes, lambda s: s[2] in FLOATS)
    if a is None:
        return None
    wide = shapes[a][2] == "float32"
    b = pick(rng, shapes, lambda s: s[0] == shapes[a][0] and s[2] in FLOATS and (s[2] == "float32") == wide)
    return Step(kind, (a, b), shapes[a][1], shapes[b][1], "float32", {})


def nc_transpose(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = pick(rng, shapes, lambda s: s[2] in FLOATS)
    return None if a is None else Step(kind, (a,), shapes[a][1], shapes[a][0], shapes[a][2], {})


def iota(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    rows = int(rng.choice(ROWS))
    options = {
        "pattern": [[int(rng.integers(-2, 3)), COLUMNS]],
        "offset": int(rng.integers(9)),
        "channel_multiplier": int(rng.integers(-1, 2)),
    }
    return Step(kind, (), rows, COLUMNS, str(rng.choice(DTYPES)), options)


def affine_select(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    options = {
        "pattern": [[-1, shapes[a][1]]],
        "channel_multiplier": 1,
        "cmp_op": str(rng.choice(("greater_equal", "less"))),
    }
    return Step(kind, (a,), *shapes[a][:2], str(rng.choice(FLOATS)), options)


def max8(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = pick(rng, shapes, lambda s: s[1] >= 8)
    return None if a is None else Step(kind, (a,), shapes[a][0], 8, "float32", {})


def scan(rng: np.random.Generator, kind: str, shapes: list) -> Step | None:
    a = any_tile(rng, shapes)
    b = pick(rng, shapes, lambda s: s[:2] == shapes[a][:2])
    return Step(kind, (a, b), *shapes[a][:2], "float32", {"op0": "multiply", "op1": "add", "initial": 0.5})


KINDS = {
    "tensor_tensor": tensor_tensor,
    "tensor_scalar": tensor_scalar,
    "activation": activation,
    "tensor_copy": tensor_copy,
    "tensor_reduce": tensor_reduce,
    "nc_matmul": nc_matmul,
    "nc_transpose": nc_transpose,
    "iota": iota,
    "affine_select": affine_select,
    "max8": max8,
    "tensor_tensor_scan": scan,
}


def run_step(step: Step, tiles: list) -> Any:
    """Emits the step; its new tile in SBUF."""
    new = nl.ndarray((step.rows, step.columns), dtype=getattr(nl, step.dtype), buffer=nl.sbuf)
    from_tiles = [tiles[i] for i in step.sources]
    options = {k: getattr(nl, v) if isinstance(v, str) else v for k, v in step.options.items()}
    match step.kind:
        case "tensor_tensor":
            nisa.tensor_tensor(dst=new, data1=from_tiles[0], data2=from_tiles[1], **options)
        case "tensor_scalar":
            nisa.tensor_scalar(dst=new, data=from_tiles[0], **options)
        case "activation":
            nisa.activation(dst=new, data=from_tiles[0], **options)
        case "tensor_copy":
            nisa.tensor_copy(dst=new, src=from_tiles[0])
        case "tensor_reduce":
            nisa.tensor_reduce(dst=new, data=from_tiles[0], axis=1, **options)
        case "nc_matmul":
            acc = nl.ndarray((step.rows, step.columns), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=acc, stationary=from_tiles[0], moving=from_tiles[1])
            nisa.tensor_copy(dst=new, src=acc)
        case "nc_transpose":
            acc = nl.ndarray((step.rows, step.columns), dtype=getattr(nl, step.dtype), buffer=nl.psum)
            nisa.nc_transpose(dst=acc, data=from_tiles[0])
            nisa.tensor_copy(dst=new, src=acc)
        case "iota":
            nisa.iota(dst=new, **options)
        case "affine_select":
            nisa.affine_select(dst=new, on_true_tile=from_tiles[0], on_false_value=-7.0, **options)
        case "max8":
            nisa.max8(dst=new, src=from_tiles[0])
        case "tensor_tensor_scan":
            nisa.tensor_tensor_scan(dst=new, data0=from_tiles[0], data1=from_tiles[1], **options)
        case _:
            raise AssertionError(step.kind)
    return new


def make_kernel(steps: list[Step]) -> Any:
    def kernel(x, y):
        tiles: list = []
        for step in steps:
            if step.kind == "load":
                tile = nl.ndarray((step.rows, step.columns), dtype=getattr(nl, step.dtype), buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=(x, y)[len(tiles)][0 : step.rows, :])
                tiles.append(tile)
            else:
                tiles.append(run_step(step, tiles))
        outputs = []
        for tile, step in zip(tiles, steps, strict=True):
            out = nl.ndarray((step.rows, step.columns), dtype=tile.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            outputs.append(out)
        return tuple(outputs)

    return kernel


def run_backend(
    steps: list[Step], inputs: tuple[np.ndarray, ...], backend: str, target: str
) -> list[np.ndarray]:
    """The outputs of the kernel on one backend. Raises Refused."""
    try:
        with np.errstate(all="ignore"):
            results = nki.simulate(make_kernel(steps), backend=backend, target=target)(*inputs)
    except Exception as error:
        if type(error).__name__ in ("InternalError", "AssertionError", "RuntimeError", "SystemError"):
            raise
        raise Refused(f"{type(error).__name__}: {error}") from error
    return [np.asarray(result) for result in results]


def difference(steps: list[Step], core: list[np.ndarray], oracle: list[np.ndarray]) -> str | None:
    """Where the outputs differ by more than the tolerance, or None.

    A step that turns a last-bit difference into a large one (a comparison, a rounding to another type near a
    tie, cancellation) is not held against the core: the error allowed grows with the largest input of the step.
    """
    size = [0.0] * len(steps)
    undefined: set[int] = set()  # steps with no defined value to compare, and what follows them
    for i, (a, b) in enumerate(zip(core, oracle, strict=True)):
        # What an activation gives for an infinity (silu of -inf: 0 or NaN) is documented nowhere.
        undocumented = steps[i].kind == "activation" and not all(
            np.isfinite(core[s].astype(np.float64)).all() for s in steps[i].sources
        )
        if undocumented or undefined.intersection(steps[i].sources) or sum_may_overflow(steps[i], size):
            undefined.add(i)
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(y)
        if not np.array_equal(np.isnan(x), np.isnan(y)) or not np.array_equal(
            x[~finite & ~np.isnan(y)], y[~finite & ~np.isnan(y)]
        ):
            return f"step {i} ({steps[i].kind}): NaN or infinity in different places"
        size[i] = max([float(np.max(np.abs(y[finite]), initial=1.0)), *(size[s] for s in steps[i].sources)])
        allowed = max((TOLERANCE[steps[k].dtype] for k in ancestors(steps, i)), default=0.0) * size[i]
        if last_bits_decide(steps, i):
            continue
        worst = float(np.max(np.abs(x[finite] - y[finite]), initial=0.0))
        if worst > allowed:
            return f"step {i} ({steps[i].kind} {steps[i].options}): values differ by {worst:g}, {allowed:g} allowed"
    return None


def sum_may_overflow(step: Step, size: list[float]) -> bool:
    """True when a partial sum of the step may leave float32 in one summation order and not in another.

    The oracle multiplies matrices in BLAS's order, the core in row order; beyond the range one of them gives
    infinity, or infinity minus infinity, where the other is finite.
    """
    terms, limit = 16384, float(np.finfo(np.float32).max)
    if step.kind.startswith("nc_matmul"):
        return math.prod(max(size[s], 1.0) for s in step.sources) * terms > limit
    return any(size[s] * terms > limit for s in step.sources)


def ancestors(steps: list[Step], index: int) -> set[int]:
    found = {index}
    for source in steps[index].sources:
        found |= ancestors(steps, source)
    return found


# Steps whose last bits the two sides may round otherwise: functions, and sums in another order.
FREE_BITS = ("activation", "nc_matmul", "tensor_reduce")


def last_bits_decide(steps: list[Step], index: int) -> bool:
    """Whether last bits that are free decide much of this step: a comparison gives 0 or 1 by one, a scan multiplies
    their error at each place."""
    for i in ancestors(steps, index):
        compares = any(steps[i].options.get(op) in ("greater", "less_equal") for op in ("op", "op0", "op1"))
        if (compares or steps[i].kind == "tensor_tensor_scan") and any(
            steps[k].kind in FREE_BITS for k in ancestors(steps, i)
        ):
            return True
    return False


def run_case(seed: int, target: str) -> tuple[str, str]:
    """("executed" | "refused" | "failed", what went wrong) for the case of this seed."""
    rng = np.random.default_rng(seed)
    steps = draw_kernel(rng)
    inputs = tuple(rng.uniform(-2, 2, (128, COLUMNS)).astype(np.float32) for _ in range(2))
    outcomes: dict[str, list[np.ndarray] | str] = {}
    for backend in ("core", "oracle"):
        try:
            outcomes[backend] = run_backend(steps, inputs, backend, target)
        except Refused as refusal:
            outcomes[backend] = str(refusal)
    core, oracle = outcomes["core"], outcomes["oracle"]
    if isinstance(core, str):
        numbered = re.search(r"\[\w+\.C\d+\]", core) is not None
        return (
            ("refused", "")
            if isinstance(oracle, str) or numbered
            else ("failed", f"only the core refuses: {core}")
        )
    if isinstance(oracle, str):
        return "failed", f"only the oracle refuses: {oracle}"
    problem = difference(steps, core, oracle)
    return ("failed", problem) if problem else ("executed", "")


def report_failure(seed: int, target: str, problem: str) -> None:
    print(
        f"fuzz_kernels: FAILED: {problem}\n  again: python -m tests.fuzz.fuzz_kernels --case {seed} --target {target}"
    )
    for i, step in enumerate(draw_kernel(np.random.default_rng(seed))):
        print(f"  {i}: {step}")


def run_cases(options: argparse.Namespace) -> int:
    """Cases until the time is over. Says each case before it starts: the parent names it after a crash or hang."""
    faulthandler.register(signal.SIGPROF, chain=True)  # says where, then the signal ends this process
    goes_on = watchdog.budget(options.seconds, options.cpu_seconds)
    counts = {"executed": 0, "refused": 0}
    while not any(counts.values()) or (options.case is None and goes_on()):
        seed = options.case if options.case is not None else (options.seed << 32) + sum(counts.values())
        target = options.target or ("trn2", "trn3")[seed % 2]
        print(f"{watchdog.CASE_MARK}{seed} --target {target}", flush=True)
        watchdog.watch(CASE_SECONDS)
        outcome, problem = run_case(seed, target)
        if outcome == "failed":
            report_failure(seed, target, problem)
            return 1
        counts[outcome] += 1
    watchdog.watch(0)
    print(
        f"fuzz_kernels: seed {options.seed}: {counts['executed']} kernels executed alike, "
        f"{counts['refused']} refused, none failed"
    )
    return 0


def watch(arguments: list[str]) -> int:
    """Runs the cases in a child, and reports its crash or hang."""
    return watchdog.run_child("fuzz_kernels", arguments, CASE_SECONDS)


def main() -> int:
    os.environ.setdefault("OPENTRN_NAN", "off")  # random values overflow all the time
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cpu-seconds", type=float, help="in place of --seconds: of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run only the case of this seed")
    parser.add_argument("--target", default="", choices=["", "trn2", "trn3"], help="default: alternating")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    return run_cases(options) if options.child else watch(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
