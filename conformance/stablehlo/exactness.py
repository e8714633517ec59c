#!/usr/bin/env python3
"""How far the values that test files expect, and ours, are from the exact ones.

    python -m conformance.stablehlo.exactness PATH FILE...

PATH is a checkout of openxla/stablehlo, FILE a file of testdata that has @expected. "Exact" is the program
evaluated with float64=True: it says something about f32 and narrower types only.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from opentrn import graph


def as_reals(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs, everything in f64."""
    if np.iscomplexobj(array):
        return np.stack([array.real, array.imag], axis=-1).astype(np.float64)
    return array.astype(np.float64)


def distance(values: np.ndarray, exact: np.ndarray, dtype: np.dtype) -> tuple[float, float]:
    """(largest error in ULP of `dtype` at the exact value, largest error over the largest magnitude)."""
    error = np.abs(values - exact)
    spacing = np.abs(np.spacing(exact.astype(dtype))).astype(np.float64)
    return float((error / spacing).max()), float(error.max() / np.abs(exact).max())


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    folder = Path(sys.argv[1], "stablehlo", "testdata")
    for name in sys.argv[2:]:
        lines = (folder / name).read_text().splitlines()
        module = graph.parse("\n".join(line for line in lines if "@check." not in line), name)
        (expected, *_), (ours, *_) = module.evaluate(function="expected"), module.evaluate()
        exact = as_reals(module.evaluate(float64=True)[0])
        dtype = expected.real.dtype
        print(name)
        for who, values in (("expected", expected), ("ours", ours)):
            ulp, norm = distance(as_reals(values), exact, dtype)
            print(f"  {who:8}  {ulp:10.1f} ULP  {norm:.1e} of the largest magnitude")
    return 0


if __name__ == "__main__":
    sys.exit(main())
