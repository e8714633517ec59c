"""Compares the Tensor Engine tile kernel with numpy's BLAS, both on one thread of one core.

    taskset -c 1 python benchmarks/matmul_tile_vs_numpy.py build/src/numerics/opentrn_matmul_tile_bench

Prints GMAC/s of each and their ratio. numpy multiplies large square matrices, its best case, as well
as the tile's own shape; before and after the tile kernel runs, so that a drifting clock shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def _lines(*command: str) -> list[dict]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def numpy_rates() -> dict[str, float]:
    """GMAC/s of numpy by shape."""
    (rates,) = _lines(sys.executable, str(Path(__file__).with_name("sgemm.py")))
    return rates


def main() -> None:
    """Runs both and prints a table."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    before = numpy_rates()
    rows = _lines(sys.argv[1])
    after = numpy_rates()
    for shape in before:
        print(f"numpy sgemm {shape:>14}: {before[shape]:7.1f} before, {after[shape]:7.1f} after  GMAC/s")
    best = max(*before.values(), *after.values())
    for row in rows:
        print(
            f"matmul_tile {row['target']:>5} K={row['K']:<4} M={row['M']:<4} N={row['N']:<4} {row['dtype']:8}"
            f" pitch {row['pitch']:<4}"
            f" {row['gmac_per_s']:7.1f} GMAC/s = {row['gmac_per_s'] / best:.2f} x numpy's best"
        )


if __name__ == "__main__":
    main()
