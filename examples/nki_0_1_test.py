"""A kernel of NKI 0.1 and its tests, as repositories of that time have them.

Nothing here names OpenTrn: the plugin makes `neuronxcc.nki` importable.

Run: python -m pytest -p opentrn.pytest_plugin examples/nki_0_1_test.py
"""

import math

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np
import pytest

ROWS = 128  # partitions of a tile


@nki.jit
def gelu_rows(x):
    """GELU of x [128 n, m], one tile of 128 rows for each program of the grid."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.program_id(0) * ROWS
    rows, columns = nl.mgrid[0:ROWS, 0 : x.shape[1]]
    tile = nl.load(x[first + rows, columns])
    nl.store(out[first + rows, columns], value=nl.gelu(tile))
    return out


@pytest.mark.parametrize("tiles", [1, 3])
def test_gelu(tiles):
    x = np.random.default_rng(tiles).standard_normal((ROWS * tiles, 256)).astype(np.float32)
    exact = 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    assert np.abs(gelu_rows[tiles](x) - exact).max() < 1e-4
