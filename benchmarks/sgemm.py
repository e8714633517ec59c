"""GMAC/s of numpy's BLAS on one thread: a JSON object, by shape.

Large square matrices are its best case; 128x512x128 is a full tile of nc_matmul.
"""

from __future__ import annotations

import json
import os
import time

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402  (the thread count is read at import)


def aligned(rows: int, columns: int) -> np.ndarray:
    """fp32 zeros that begin with a cache line, as the tiles of opentrn_matmul_tile_bench do."""
    flat = np.zeros(rows * columns + 16, dtype=np.float32)
    first = -flat.ctypes.data % 64 // 4
    return flat[first : first + rows * columns].reshape(rows, columns)


def sgemm_gmac_per_s(m: int, n: int, k: int) -> float:
    """Best of some batches of an fp32 product of shape (m, k) x (k, n), each 2 ms or one product."""
    rng = np.random.default_rng(1)
    a, b, out = aligned(m, k), aligned(k, n), aligned(m, n)
    rng.random(out=a, dtype=np.float32)
    rng.random(out=b, dtype=np.float32)
    repeats = max(1, int(1.5e8 / (m * n * k)))
    best = float("inf")
    for _ in range(max(10, int(3e10 / (m * n * k * repeats)))):
        start = time.perf_counter()
        for _ in range(repeats):
            np.matmul(a, b, out=out)
        best = min(best, (time.perf_counter() - start) / repeats)
    return m * n * k / best / 1e9


if __name__ == "__main__":
    shapes = ("1024x1024x1024", "2048x2048x2048", "128x512x128")
    print(json.dumps({shape: sgemm_gmac_per_s(*map(int, shape.split("x"))) for shape in shapes}))
