"""The C++ benchmarks of a build directory, run one after the other, with the figures that have a target."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.matmul_tile_vs_numpy import numpy_rates

TILE = (128, 128, 512)  # K, M, N of a full nc_matmul
BENCHES = ("functional_bench", "opentrn_matmul_tile_bench", "timing_bench")


@dataclass(frozen=True)
class Figure:
    """A measured value beside what it should be."""

    what: str
    value: float
    unit: str
    target: str
    reached: bool


def _find(build: Path, name: str) -> Path:
    found = sorted(path for path in build.rglob(name) if path.is_file() and os.access(path, os.X_OK))
    if not found:
        raise SystemExit(f"{build} has no {name}: ninja -C {build} {' '.join(BENCHES)}")
    return found[0]


def _google(binary: Path, pattern: str) -> dict[str, dict[str, float]]:
    """Google Benchmark's results by name, the fastest of several repetitions."""
    done = subprocess.run(
        [
            str(binary), f"--benchmark_filter={pattern}", "--benchmark_format=json",
            "--benchmark_repetitions=3", "--benchmark_min_time=0.05",
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    best: dict[str, dict[str, float]] = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        name = row["run_name"]
        if name not in best or row["cpu_time"] < best[name]["cpu_time"]:
            best[name] = row
    return best


def small_instruction(build: Path) -> list[Figure]:
    """CPU time of an instruction on one element: what it costs besides arithmetic."""
    rows = _google(_find(build, "functional_bench"), "tiny")
    cost = {name: 1e6 / row["instructions"] for name, row in rows.items()}
    worst = max(cost, key=cost.__getitem__)
    return [Figure(f"small instruction ({worst})", cost[worst], "us", "at most 3", cost[worst] <= 3)]


def _tile_rates(binary: Path) -> dict[tuple[str, str], float]:
    """GMAC/s of the full tile, rows without gaps, by element type and SIMD target."""
    lines = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout.splitlines()
    k, m, n = TILE
    rows = (row for row in map(json.loads, lines) if (row["K"], row["M"], row["N"], row["pitch"]) == (k, m, n, n))
    return {(row["dtype"], row["target"]): row["gmac_per_s"] for row in rows}


def _best(rates: dict[tuple[str, str], float], dtype: str) -> float:
    return max(rate for (of, _), rate in rates.items() if of == dtype)


def matmul_tile(build: Path) -> list[Figure]:
    """nc_matmul at full size against OpenBLAS, one thread each, in turns: medians of the paired ratios.

    OpenBLAS, of fp32, at its best, on large squares, and at the tile's own shape."""
    binary = _find(build, "opentrn_matmul_tile_bench")
    k, m, n = TILE
    turns = [(_tile_rates(binary), numpy_rates()) for _ in range(3)]
    figures = []
    for dtype, wanted in (("float32", 1.2), ("bfloat16", 1.7)):
        # Products of pairs of bf16 are promised where the processor is fast at them.
        rates = turns[0][0]
        promised = dtype == "float32" or _best(rates, dtype) >= 1.3 * rates.get((dtype, "AVX3"), float("inf"))
        target = f"at least {wanted}" if promised else "-"
        pairs = [(_best(ours, dtype), max(blas.values()), blas[f"{m}x{n}x{k}"]) for ours, blas in turns]
        tile, square, shape = (max(column) for column in zip(*pairs, strict=True))
        for place, rate, i in (("at its best", square, 1), ("at its shape", shape, 2)):
            ratio = sorted(pair[0] / pair[i] for pair in pairs)[1]
            what = f"nc_matmul {dtype} {tile:.0f} GMAC/s, BLAS {rate:.0f} {place}"
            figures.append(Figure(what, ratio, "x", target, not promised or ratio >= wanted))
    return figures


def timing_model(build: Path) -> list[Figure]:
    """Instructions per second of the backend and of the timing model, by CPU time of one core."""
    rows = _google(_find(build, "timing_bench"), "matmul|stream")
    figures = []
    for name, row in rows.items():
        rate = row["instructions"] / (row["cpu_time"] * 1e-3) / 1e6
        wanted = 20 if name.startswith("time_") else 10
        figures.append(Figure(name, rate, "M instr./s", f"at least {wanted}", rate >= wanted))
    return figures


def run(build: Path) -> list[dict[str, object]]:
    """Prints the figures and returns them."""
    figures = []
    for measure in (small_instruction, matmul_tile, timing_model):
        for figure in measure(build):
            figures.append(figure)
            verdict = "" if figure.reached else "  NOT REACHED"
            print(
                f"{figure.what:55} {figure.value:8.2f} {figure.unit:11} target {figure.target}{verdict}",
                flush=True,
            )
    return [vars(figure) for figure in figures]
