"""./dev bench --ops: every op of op_cases.py on the platform `neuron` beside XLA's CPU, in one run.

    ./dev bench --ops                      all of them, all shapes: minutes
    ./dev bench --ops --only 'sort*'       those whose name or family matches; several patterns by commas
    ./dev bench --ops --quick              the smallest shape of each: under a minute where nothing is compiled for long

Of each op and shape: the predicted time over its roofline, compile time of both, time of a run on this host of both.
The roofline is the least time of a core for the bytes of arguments and results (HBM bandwidth) and for the operations
that XLA counts (the Tensor engine's peak for products, the Vector engine's 128 lanes for the rest), and never less
than what the smallest program takes, `x + 1` of one element. benchmarks/README.md has goals and columns.
"""

from __future__ import annotations

import fnmatch
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

# Goals of a single row; of all rows: median 2 (predicted), geometric mean 3 (host), median 1 (compilation).
PREDICTED_MOST, HOST_MOST, COMPILE_MOST_S = 10.0, 50.0, 10.0
RUNS, RUN_BUDGET_S = 5, 1.0
LIMIT_S = 60.0  # of one op on one platform

# The ops that may be predicted beyond PREDICTED_MOST, each with its cause: the whole list. A row beyond it whose
# op is not here makes the benchmark fail, and so does, in a run of everything, an op here that needs none.
# benchmarks/README.md has the same list (tests/tools/test_bench_ops.py).
NETWORK = "a merging network, log2(n)^2 / 2 passes over everything: the engines have no unit that sorts"
EIGHT = "the Vector engine finds eight at a time: a pass over the row for every eight wanted, and two for their places"
PLACES = "single elements at computed places: a descriptor of DMA each, or a row of the table for each of them"
CHAIN = "a chain of small steps, each of which waits for the one before: 0.2 us of an engine and its signal a step"
INTEGERS = "exact arithmetic on 32-bit integers is GpSimd's alone, at a fraction of the Vector engine's rate"
COMPARED = "every index is compared with every row of the table, so that the Tensor engine may add"
EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(("sort_rows_of", "sort_flat", "sort_columns", "sort_integers", "argsort", "argsort_flat"), NETWORK),
    **dict.fromkeys(("median", "unique_counts", "permutation"), NETWORK),
    **dict.fromkeys(("top_k", "top_k_50", "top_1", "approx_max_k"), EIGHT),
    **dict.fromkeys(("take_along_axis", "gather_elements", "map_coordinates"), PLACES),
    **dict.fromkeys(("searchsorted", "mask_to_places"), PLACES),
    **dict.fromkeys(("cholesky", "solve", "triangular_solve", "inverse", "determinant", "qr"), CHAIN),
    **dict.fromkeys(("svd", "svd_values", "eigh", "scan_rnn", "map", "attention_grad"), CHAIN),
    **dict.fromkeys(("normal", "randint", "categorical"), INTEGERS),
    **dict.fromkeys(
        ("segment_sum", "segment_sum_sorted", "segment_sum_scalars", "scatter_elements", "bincount", "histogram"),
        COMPARED,
    ),
    **dict.fromkeys(("segment_max", "scatter_max_rows"), "extremes at equal indices go one after another"),
    **dict.fromkeys(
        ("cumlogsumexp", "associative_scan"), "log2(n) passes over everything, with a function of several ops"
    ),
    **dict.fromkeys(
        ("argmax_middle", "logsumexp_rows"),
        "over a leading dimension: extremes and what is made of them lie in rows of different kernels, through memory",
    ),
    "conv7x7_s2": "three channels leave most rows of the Tensor engine idle",
    "conv_depthwise": "one channel a group: the Vector engine multiplies and adds, tap by tap",
    "conv_transpose_grad": "positions go over partitions by rows of channels, a descriptor each",
    "irfft": "a product with turned values before and after",
}

# Why an op is beyond HOST_MOST with larger arguments than the smallest.
HOST_CAUSES: dict[str, str] = {
    **dict.fromkeys(
        ("segment_sum", "segment_sum_sorted", "segment_sum_scalars", "bincount", "histogram"),
        "this host compares every index with every row of the table; XLA adds one after another in its cache",
    ),
    **dict.fromkeys(("searchsorted", "map_coordinates"), "this host moves single elements as transfers of their own"),
}


@dataclass(frozen=True)
class Machine:
    """Of one core: bytes and operations a second."""

    hbm: float
    tensor_16: float
    tensor_32: float
    vector: float


@dataclass
class Row:
    """NaN: not measured, because it took longer than the limit or has no predicted time."""

    family: str
    name: str
    arguments: str
    predicted_us: float = math.nan
    roofline_us: float = math.nan
    compile_s: float = math.nan
    xla_compile_s: float = math.nan
    host_ms: float = math.nan
    xla_ms: float = math.nan
    difference: float = math.nan  # largest, over the largest value
    failure: str = ""

    @property
    def predicted_ratio(self) -> float:
        return self.predicted_us / self.roofline_us

    @property
    def host_ratio(self) -> float:
        return self.host_ms / self.xla_ms

    @property
    def compile_ratio(self) -> float:
        return self.compile_s / self.xla_compile_s

    @property
    def beyond(self) -> list[str]:
        """Which goals it misses."""
        missed = [self.failure] if self.failure else []
        if self.predicted_ratio > PREDICTED_MOST:
            missed.append(f"predicted {self.predicted_ratio:.1f}")
        if self.host_ratio > HOST_MOST:
            missed.append(f"host {self.host_ratio:.0f}")
        if self.compile_s > COMPILE_MOST_S:
            missed.append(f"compile {self.compile_s:.1f} s")
        return missed

    def json(self) -> dict[str, Any]:
        values = asdict(self) | {"predicted_ratio": self.predicted_ratio, "host_ratio": self.host_ratio,
                                 "compile_ratio": self.compile_ratio, "beyond": self.beyond}  # fmt: skip
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in values.items()
        }


CHIP, CORE = "Trainium2", "NeuronCore-v3"  # of the default target, trn2


def _facts(name: str) -> dict[str, Any]:
    """What `opentrn describe` says of a machine, by the last part of each fact's key."""
    command = [sys.executable, "-m", "opentrn", "describe", name, "--json"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {fact["key"].split(".", 2)[-1]: fact["value"] for fact in json.loads(text)["facts"]}


def machine() -> Machine:
    """Published peaks of the chip over its cores."""
    chip, core = _facts(CHIP), _facts(CORE)
    cores = chip["cores"]
    return Machine(
        hbm=chip["memory_bandwidth_gb_s"] * 1e9 / cores,
        tensor_16=chip["peak_tflops.bf16"] * 1e12 / cores,
        tensor_32=chip["peak_tflops.fp32"] * 1e12 / cores,
        vector=core["partitions"] * core["vector_clock_ghz"] * 1e9,
    )


class _TooLong(Exception):
    pass


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raises where the block takes longer; native code of both platforms returns first."""

    def ring(_signal: int, _frame: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few runs, after one that does not count."""
    import jax

    jax.block_until_ready(call())
    best, spent = math.inf, 0.0
    for _ in range(RUNS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        taken = time.perf_counter() - began
        best, spent = min(best, taken), spent + taken
        if spent > RUN_BUDGET_S:
            break
    return best


def _on(
    platform: str, function: Callable[..., Any], values: list[np.ndarray]
) -> tuple[float, float, Any, Any]:
    """(compile seconds, run seconds, results, the compiled program)"""
    import jax

    device = jax.devices(platform)[0]
    given = [jax.device_put(each, device) for each in values]
    with _limit(LIMIT_S):
        began = time.perf_counter()
        program = jax.jit(lambda *taken: function(*taken)).lower(*given).compile()
        compiled = time.perf_counter() - began
        results = jax.tree.map(np.asarray, program(*given))
        return compiled, _fastest(lambda: program(*given)), results, program


def _costs(program: Any) -> dict[str, float]:
    found = program.cost_analysis()
    return (found[0] if isinstance(found, list) else found) or {}


def _difference(ours: Any, theirs: Any) -> float:
    """NaN where the results are not numbers."""
    import jax

    worst = 0.0
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(finite, np.isfinite(a)):
            return math.inf
        if finite.any():
            gap = np.abs(a[finite] - b[finite]).max()
            worst = max(worst, float(gap / max(np.abs(b[finite]).max(), 1e-30)))
    return worst


def _bytes(tree: Any) -> int:
    import jax

    return sum(np.asarray(each).nbytes for each in jax.tree.leaves(tree))


def measure(case: Any, arguments: str, peaks: Machine, floor_us: float) -> Row:
    from benchmarks.op_cases import made

    row = Row(case.family, case.name, arguments)
    values = made(arguments)
    try:
        row.xla_compile_s, seconds, theirs, program = _on("cpu", case.function, values)
        row.xla_ms = seconds * 1e3
        narrow = any(each.dtype.itemsize == 2 for each in values)
        peak = (peaks.tensor_16 if narrow else peaks.tensor_32) if case.is_product else peaks.vector
        # Of a running sum XLA counts the whole window of every element.
        counted = 0.0 if case.family == "scan" else _costs(program).get("flops", 0.0)
        least = max((_bytes(values) + _bytes(theirs)) / peaks.hbm, counted / peak)
        row.roofline_us = max(least * 1e6, floor_us)
        row.compile_s, seconds, ours, program = _on("neuron", case.function, values)
        row.host_ms = seconds * 1e3
        predicted = _costs(program).get("optimal_seconds", math.nan)
        row.predicted_us = predicted * 1e6 if predicted and predicted > 0 else math.nan
        row.difference = _difference(ours, theirs)
    except _TooLong:
        row.failure = f"longer than {LIMIT_S:.0f} s"
    except Exception as error:  # a row that fails is a finding, and the others are wanted
        row.failure = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:90]}"
    return row


HEADER = (
    f"{'family':11} {'op':24} {'arguments':40} {'predicted':>11} {'roofline':>9} {'ratio':>6} {'compile':>8} "
    f"{'XLA':>7} {'host':>10} {'XLA:CPU':>9} {'ratio':>7} {'differs':>8}"
)


def _number(value: float, width: int, digits: int) -> str:
    return f"{'-' if math.isnan(value) else f'{value:.{digits}f}':>{width}}"


def format_row(row: Row) -> str:
    if row.failure:
        return f"{row.family:11} {row.name:24} {row.arguments[:40]:40} {row.failure}"
    return (
        f"{row.family:11} {row.name:24} {row.arguments[:40]:40} {_number(row.predicted_us, 8, 1)} us "
        f"{_number(row.roofline_us, 6, 1)} us {_number(row.predicted_ratio, 6, 1)} {_number(row.compile_s, 6, 2)} s "
        f"{_number(row.xla_compile_s, 5, 2)} s {_number(row.host_ms, 7, 2)} ms {_number(row.xla_ms, 6, 2)} ms "
        f"{_number(row.host_ratio, 7, 1)} {row.difference:8.0e}"
    )


def _known(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _mean(values: list[float]) -> float:
    known = _known(values)
    return math.exp(statistics.fmean(math.log(value) for value in known)) if known else math.nan


def _median(values: list[float]) -> float:
    return statistics.median(_known(values)) if _known(values) else math.nan


def summary(rows: list[Row]) -> dict[str, Any]:
    """Medians and geometric means; None where nothing was measured."""
    predicted, host = [row.predicted_ratio for row in rows], [row.host_ratio for row in rows]
    compiled = [row.compile_ratio for row in rows]

    figures = {
        "rows": len(rows), "predicted_median": _median(predicted), "predicted_mean": _mean(predicted),
        "host_median": _median(host), "host_mean": _mean(host), "compile_median": _median(compiled),
        "failures": sum(bool(row.failure) for row in rows), "beyond": sum(bool(row.beyond) for row in rows),
    }  # fmt: skip
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in figures.items()
    }


def _cause(row: Row) -> str:
    causes = [EXCEPTIONS.get(row.name)] if row.predicted_ratio > PREDICTED_MOST else []
    causes += [HOST_CAUSES.get(row.name)] if row.host_ratio > HOST_MOST else []
    return "; ".join(cause or "no cause written down" for cause in causes)


def unexplained(rows: list[Row]) -> list[str]:
    """Ops with a row that failed, or is predicted beyond the goal without a cause that is named."""
    return list(dict.fromkeys(row.name for row in rows if row.failure or
                              (row.predicted_ratio > PREDICTED_MOST and row.name not in EXCEPTIONS)))  # fmt: skip


def needless(rows: list[Row]) -> list[str]:
    """Exceptions none of whose rows is beyond the goal, of a run of everything."""
    beyond = {row.name for row in rows if row.predicted_ratio > PREDICTED_MOST}
    return [name for name in EXCEPTIONS if name not in beyond]


def _print_sums(rows: list[Row], floor_us: float) -> None:
    print(
        f"\n{'family':11} {'rows':>5} {'predicted':>10} {'host':>7} {'compile':>8}   geometric means of the ratios"
    )
    for family in [*dict.fromkeys(row.family for row in rows), ""]:
        part = [row for row in rows if family in ("", row.family)]
        print(f"{family or 'all':11} {len(part):5} {_number(_mean([r.predicted_ratio for r in part]), 10, 2)} "
              f"{_number(_mean([r.host_ratio for r in part]), 7, 2)} "
              f"{_number(_mean([r.compile_ratio for r in part]), 8, 2)}")  # fmt: skip
    figures = summary(rows)
    if figures["predicted_median"] is not None and figures["host_mean"] is not None:
        above = [row for row in rows if row.roofline_us > floor_us and row.predicted_ratio > 0]
        bound = f", {_median([row.predicted_ratio for row in above]):.2f} of the {len(above)} rows above the floor"
        print(f"predicted over roofline: median {figures['predicted_median']:.2f} (goal 2){bound if above else ''}; "
              f"host over XLA:CPU: geometric mean {figures['host_mean']:.2f} (goal 3); "
              f"compilation over XLA's: median {figures['compile_median']:.2f} (goal 1)")  # fmt: skip
    beyond = [row for row in rows if row.beyond]
    print(f"\n{len(beyond)} rows beyond a goal (predicted {PREDICTED_MOST:.0f} times the roofline, "
          f"host {HOST_MOST:.0f} times XLA:CPU, compile {COMPILE_MOST_S:.0f} s):")  # fmt: skip
    for row in beyond:
        print(f"  {row.name:24} {row.arguments[:36]:36} {', '.join(row.beyond)}: {_cause(row)}")
    if unexplained(rows):
        print(f"FAILED: without a cause in EXCEPTIONS: {', '.join(unexplained(rows))}")


def run(only: str, quick: bool) -> dict[str, Any]:
    """Measures, prints the table by the worst, and gives the JSON object's `ops`."""
    os.environ.setdefault("JAX_PLATFORMS", "neuron,cpu")
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"
    from benchmarks.op_cases import CASES

    patterns = only.split(",") if only else ["*"]
    chosen = [case for case in CASES if any(fnmatch.fnmatch(case.name, each) or fnmatch.fnmatch(case.family, each)
                                            for each in patterns)]  # fmt: skip
    if not chosen:
        families = ", ".join(dict.fromkeys(case.family for case in CASES))
        raise SystemExit(f"no op or family matches {only}; families: {families}")
    peaks = machine()
    smallest = _on("neuron", lambda x: x + 1, [np.ones(1, np.float32)])[3]
    floor_us = _costs(smallest)["optimal_seconds"] * 1e6
    print(f"of a core: HBM {peaks.hbm / 1e9:.0f} GB/s, Tensor engine {peaks.tensor_16 / 1e12:.1f} and "
          f"{peaks.tensor_32 / 1e12:.1f} TFLOP/s (16 and 32 bits), Vector engine {peaks.vector / 1e9:.0f} Gop/s; "
          f"the smallest program {floor_us:.1f} us")  # fmt: skip
    rows = []
    for case in chosen:
        for arguments in case.arguments[:1] if quick else case.arguments:
            rows.append(measure(case, arguments, peaks, floor_us))
            print(format_row(rows[-1]), file=sys.stderr, flush=True)  # as they come: the table is sorted
    print(HEADER)

    def badness(row: Row) -> float:
        if row.failure:
            return math.inf
        parts = (
            row.predicted_ratio / PREDICTED_MOST,
            row.host_ratio / HOST_MOST,
            row.compile_s / COMPILE_MOST_S,
        )
        return max(_known(list(parts)) or [0.0])

    rows.sort(key=badness, reverse=True)
    for row in rows:
        print(format_row(row))
    _print_sums(rows, floor_us)
    spare = [] if quick or only else needless(rows)
    if spare:
        print(f"FAILED: in EXCEPTIONS, and within the goal: {', '.join(spare)}")
    return {
        "summary": summary(rows),
        "unexplained": unexplained(rows),
        "needless": spare,
        "floor_us": floor_us,
        "machine": asdict(peaks),
        "rows": [r.json() for r in rows],
    }
