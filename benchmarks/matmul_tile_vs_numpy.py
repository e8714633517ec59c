"""Compares the Tensor Engine tile kernel with numpy's BLAS, both on one thread of one core.

    taskset -c 1 python benchmarks/matmul_tile_vs_numpy.py build/src/numerics/opentrn_matmul_tile_bench

Prints GMAC/s of each and their ratio. numpy multiplies large square matrices, its best case, as well
as the tile's own shape; before and after the tile kernel runs, so that a drifting clock shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402  (the thread count is read at import)


def sgemm_gmac_per_s(m: int, n: int, k: int) -> float:
    """Best of several batches of an fp32 product of shape (m, k) x (k, n)."""
    rng = np.random.default_rng(1)
    a = rng.random((m, k), dtype=np.float32)
    b = rng.random((k, n), dtype=np.float32)
    out = np.empty((m, n), dtype=np.float32)
    repeats = max(1, int(3e9 / (m * n * k)))
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(repeats):
            np.matmul(a, b, out=out)
        best = min(best, (time.perf_counter() - start) / repeats)
    return m * n * k / best / 1e9


def numpy_rates() -> dict[str, float]:
    """GMAC/s of numpy by shape."""
    return {
        "1024^3": sgemm_gmac_per_s(1024, 1024, 1024),
        "2048^3": sgemm_gmac_per_s(2048, 2048, 2048),
        "128x512x128": sgemm_gmac_per_s(128, 512, 128),
    }


def main() -> None:
    """Runs both and prints a table."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    before = numpy_rates()
    lines = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
    after = numpy_rates()
    for shape in before:
        print(f"numpy sgemm {shape:>12}: {before[shape]:7.1f} before, {after[shape]:7.1f} after  GMAC/s")
    best = max(max(before.values()), max(after.values()))
    for row in map(json.loads, lines):
        print(
            f"matmul_tile {row['target']:>5} K={row['K']:<4} M={row['M']:<4} N={row['N']:<4} {row['dtype']:8}"
            f" pitch {row['pitch']:<4}"
            f" {row['gmac_per_s']:7.1f} GMAC/s = {row['gmac_per_s'] / best:.2f} x numpy's best"
        )


if __name__ == "__main__":
    main()
