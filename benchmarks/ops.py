"""./dev bench --ops: every op of op_cases.py on the platform `neuron` beside XLA's CPU, in one run.

    ./dev bench --ops                      all of them, all shapes: minutes
    ./dev bench --ops --only 'sort*'       those whose name or family matches; several patterns by commas
    ./dev bench --ops --quick              the smallest shape of each: under a minute where nothing is compiled for long

Of each op and shape: the predicted time over its roofline, compile time of both, time of a run on this host of both.
The roofline is the least time of a core for the bytes of arguments and results (HBM bandwidth) and for the operations
that XLA counts (the Tensor engine's peak for products, the Vector engine's 128 lanes for the rest), and never less
than what the smallest program takes, `x + 1` of one element. Beside it stands the chain: what of the predicted time
passes in latencies of transfers and signals and in the fixed part of instructions, which no faster engine would
shorten. benchmarks/README.md has goals and columns.
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

# The ops that may be predicted beyond PREDICTED_MOST: where their time goes, as measured (Where), and why it must. A
# row beyond it whose op is not here, or whose time goes elsewhere, makes the benchmark fail, and so does, in a run of
# everything, an op here that needs none. benchmarks/README.md has the same list (tests/tools/test_bench_ops.py).
NETWORK = "a merging network, log2(n)^2 / 2 passes over everything: the engines have no unit that sorts"
EIGHT = "the Vector engine finds eight at a time: a pass over the row for every eight wanted, and two for their places"
PLACES = "single elements at computed places: GpSimd writes a descriptor of DMA for each"
SOLVERS = "columns one after another, each of which needs the one before"
COMPARED = "every index is compared with every row of the table, so that the Tensor engine may add"
STEPS = "steps one after another: a product, an addition and a function each"
EXCEPTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("sort_rows_of", "sort_flat", "sort_columns", "sort_integers", "argsort", "argsort_flat", "median",
         "unique_counts", "permutation"), ("chain or work", NETWORK),
    ),
    **dict.fromkeys(("top_k", "top_k_50", "top_1", "approx_max_k"), ("work", EIGHT)),
    **dict.fromkeys(("gather_elements", "map_coordinates"), ("work", PLACES)),
    **dict.fromkeys(("searchsorted", "mask_to_places"), ("chain or work", PLACES)),
    **dict.fromkeys(
        ("cholesky", "determinant", "svd", "svd_values", "eigh", "solve", "inverse", "qr"), ("chain or work", SOLVERS)
    ),
    "triangular_solve": ("chain", SOLVERS),
    **dict.fromkeys(("normal", "randint", "categorical"), ("chain", "rounds of a cipher, one after another")),
    **dict.fromkeys(("scan_rnn", "scan_rnn_grad"), ("chain", STEPS)),
    "attention_grad": ("chain", "nine kernels one after another through memory, of few rows each"),
    **dict.fromkeys(("segment_sum", "segment_sum_sorted", "bincount"), ("chain", COMPARED)),
    **dict.fromkeys(("segment_sum_scalars", "scatter_elements"), ("work", COMPARED)),
    "histogram": ("chain or work", COMPARED),
    **dict.fromkeys(
        ("segment_max", "scatter_max_rows"), ("chain or work", "indices are sorted; few rows go one after another")
    ),
    "cumlogsumexp": ("work", "log2(n) passes over everything, with a function of several ops"),
    "associative_scan": ("chain", "log2(n) steps of several ops, through memory"),
    "group_norm_last": ("chain", "sums over positions, then over the channels of a group: through memory, twice"),
    "conv7x7_s2": ("chain", "three channels leave most rows of the Tensor engine idle: many short products"),
    "conv_depthwise": ("work", "one channel a group: the Vector engine multiplies and adds, tap by tap"),
    "conv_transpose": ("chain", "what the taps give is put between one another through memory"),
    "conv_transpose_grad": ("chain or elements", "positions go over partitions by rows of channels, a descriptor each"),
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


CHAIN, ELEMENTS, WORK = "chain", "elements", "work"
# What passes while nothing moves or computes: latencies.
LATENCIES = ("DMA latency", "semaphores", "descriptors", "other core")
EFFICIENT_BYTES = 512  # of a descriptor: a shorter one takes as long


@dataclass(frozen=True)
class Where:
    """Where the time of a program goes on its critical path, as the timing model follows it, in microseconds."""

    resources: dict[str, float]
    instruction_us: dict[str, float]  # of an engine: the mean of its instructions
    shortest_us: dict[str, float]  # of an engine: of one element
    descriptor_bytes: float

    @property
    def total(self) -> float:
        return sum(self.resources.values()) or math.nan

    @property
    def waits_us(self) -> float:
        return sum(self.resources.get(name, 0.0) for name in LATENCIES)

    @property
    def fixed_us(self) -> float:
        """Of the instructions on the path: what they would take of one element."""
        share = {name: min(1.0, self.shortest_us.get(name, 0.0) / us) for name, us in self.instruction_us.items() if us}
        return sum(us * share.get(name, 0.0) for name, us in self.resources.items())

    @property
    def chain_us(self) -> float:
        return self.waits_us + self.fixed_us

    @property
    def elements_us(self) -> float:
        """Of the transfers on the path: what short descriptors take beyond their bytes."""
        return self.resources.get("DMA engines", 0.0) * max(0.0, 1 - self.descriptor_bytes / EFFICIENT_BYTES)

    @property
    def kind(self) -> str:
        """What takes the most: latencies and instructions one after another, short descriptors, or work."""
        parts = {CHAIN: self.chain_us, ELEMENTS: self.elements_us}
        parts[WORK] = self.total - sum(parts.values())
        return max(parts, key=lambda name: parts[name])

    @property
    def text(self) -> str:
        name = max(self.resources, key=lambda each: self.resources[each])
        detail = {
            CHAIN: f"waits {self.waits_us:.1f} us, {self.fixed_us:.1f} of instructions' fixed part",
            ELEMENTS: f"descriptors of {self.descriptor_bytes:.0f} B, {self.elements_us:.1f} us",
            WORK: f"{name} {self.resources[name]:.1f} us, {self.instruction_us.get(name, math.nan):.2f} an instruction",
        }[self.kind]
        return f"{self.kind}: {detail} of {self.total:.1f}"

    def json(self) -> dict[str, Any]:
        return {"kind": self.kind, "chain_us": self.chain_us, "elements_us": self.elements_us,
                "critical_us": self.resources, "descriptor_bytes": self.descriptor_bytes}  # fmt: skip


def where_of(costs: dict[str, Any], shortest_us: dict[str, float]) -> Where | None:
    """Of what cost_analysis() says; None where the timing model cannot tell."""

    def part(prefix: str) -> dict[str, float]:
        return {key.removeprefix(prefix): value for key, value in costs.items() if key.startswith(prefix)}

    resources = {name: seconds * 1e6 for name, seconds in part("critical path seconds: ").items()}
    if not resources:
        return None
    engines = {name.removesuffix(" engine").lower(): name for name in resources}
    counts, busy = part("instructions: "), part("busy seconds: ")
    return Where(
        resources=resources,
        instruction_us={engines[name]: busy[name] * 1e6 / counts[name] for name in counts if name in engines},
        shortest_us=shortest_us,
        descriptor_bytes=costs["DMA bytes"] / max(1, costs["DMA descriptors"]),
    )


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
    where: Where | None = None

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
            missed.append(f"predicted {self.predicted_ratio:.1f}" + (f" ({self.where.text})" if self.where else ""))
        if self.host_ratio > HOST_MOST:
            missed.append(f"host {self.host_ratio:.0f}")
        if self.compile_s > COMPILE_MOST_S:
            missed.append(f"compile {self.compile_s:.1f} s")
        return missed

    def json(self) -> dict[str, Any]:
        values = asdict(self) | {"where": self.where and self.where.json(),
                                 "predicted_ratio": self.predicted_ratio, "host_ratio": self.host_ratio,
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


def measure(case: Any, arguments: str, peaks: Machine, floor_us: float, shortest_us: dict[str, float]) -> Row:
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
        row.where = where_of(_costs(program), shortest_us)
        row.predicted_us = predicted * 1e6 if predicted and predicted > 0 else math.nan
        row.difference = _difference(ours, theirs)
    except _TooLong:
        row.failure = f"longer than {LIMIT_S:.0f} s"
    except Exception as error:  # a row that fails is a finding, and the others are wanted
        row.failure = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:90]}"
    return row


def shortest_instructions() -> dict[str, float]:
    """By the name of an engine: microseconds of an instruction of one element, in programs that are little else."""
    import jax.numpy as jnp

    one, found = np.ones(1, np.float32), dict[str, float]()
    for function, value in (
        (lambda x: x + 1, one), (jnp.tanh, one), (lambda x: x @ x, one.reshape(1, 1)),
        (lambda x: x * 12345 + 7, one.astype(np.int32)),
    ):  # fmt: skip
        where = where_of(_costs(_on("neuron", function, [value])[3]), {})
        for name, us in where.instruction_us.items() if where else ():
            found[name] = min(us, found.get(name, math.inf))
    return found


HEADER = (
    f"{'family':11} {'op':24} {'arguments':40} {'predicted':>11} {'roofline':>9} {'chain':>9} {'ratio':>6} "
    f"{'compile':>8} {'XLA':>7} {'host':>10} {'XLA:CPU':>9} {'ratio':>7} {'differs':>8}"
)


def _number(value: float, width: int, digits: int) -> str:
    return f"{'-' if math.isnan(value) else f'{value:.{digits}f}':>{width}}"


def format_row(row: Row) -> str:
    if row.failure:
        return f"{row.family:11} {row.name:24} {row.arguments[:40]:40} {row.failure}"
    return (
        f"{row.family:11} {row.name:24} {row.arguments[:40]:40} {_number(row.predicted_us, 8, 1)} us "
        f"{_number(row.roofline_us, 6, 1)} us {_number(row.where.chain_us if row.where else math.nan, 6, 1)} us "
        f"{_number(row.predicted_ratio, 6, 1)} {_number(row.compile_s, 6, 2)} s "
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


def _is_explained(row: Row) -> bool:
    """Its op may be beyond the goal, and its time goes where the exception says."""
    kinds, _ = EXCEPTIONS.get(row.name, ("", ""))
    return kinds != "" and (row.where is None or row.where.kind in kinds.split(" or "))


def _cause(row: Row) -> str:
    causes = [EXCEPTIONS[row.name][1] if _is_explained(row) else None] if row.predicted_ratio > PREDICTED_MOST else []
    causes += [HOST_CAUSES.get(row.name)] if row.host_ratio > HOST_MOST else []
    return "; ".join(cause or "no cause written down" for cause in causes)


def unexplained(rows: list[Row]) -> list[str]:
    """Ops with a row that failed, or is predicted beyond the goal without a cause that is named."""
    return list(dict.fromkeys(row.name for row in rows if row.failure or
                              (row.predicted_ratio > PREDICTED_MOST and not _is_explained(row))))  # fmt: skip


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
    shortest_us = shortest_instructions()
    print(f"of a core: HBM {peaks.hbm / 1e9:.0f} GB/s, Tensor engine {peaks.tensor_16 / 1e12:.1f} and "
          f"{peaks.tensor_32 / 1e12:.1f} TFLOP/s (16 and 32 bits), Vector engine {peaks.vector / 1e9:.0f} Gop/s; "
          f"the smallest program {floor_us:.1f} us")  # fmt: skip
    rows = []
    for case in chosen:
        for arguments in case.arguments[:1] if quick else case.arguments:
            rows.append(measure(case, arguments, peaks, floor_us, shortest_us))
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
