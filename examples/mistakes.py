"""Kernels with one mistake each, and what OpenTrn says of them. docs/errors.md shows the messages.

Run: opentrn run examples/mistakes.py:half_written
"""

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

INPUTS = {
    "half_written": {"x": "128x8"},
    "unwritten_tile": {"x": "128x8"},
    "too_many_sums": {"x": "128x128", "w": "128x512"},
    "swap": {"x": "256x8"},
    "wrong_release": {"x": "128x8"},
}


@nki.jit
def half_written(x):
    """The last 64 rows of the result are never written."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:64, :])
    nisa.dma_copy(dst=out[0:64, :], src=tile)
    return out


@nki.jit
def unwritten_tile(x):
    """Half of a tile is loaded, all of it is added."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:64, :], src=x[0:64, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def too_many_sums(x, w):
    """Ten sums of a whole PSUM bank each grow in turn; a core has eight banks."""
    out = nl.ndarray((1280, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=w)
    sums = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(10)]
    for half in range(2):
        for total in sums:
            nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=half > 0)
    for i, total in enumerate(sums):
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[128 * i : 128 * (i + 1), :], src=result)
    return out


@nki.jit
def swap(x):
    """On two cores (--lnc 2) each reads the half that the other writes, and they do not meet in between."""
    core = nl.program_id(0)
    mine, other = core * 128, (1 - core) * 128
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[other : other + 128, :])
    nisa.dma_copy(dst=x[mine : mine + 128, :], src=tile)
    return x


@nki.jit
def wrong_release(x, flag=None):
    """NKI 0.6 has no `is`."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if flag is None:
        nisa.dma_copy(dst=out, src=x)
    return out
