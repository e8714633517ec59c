"""Lesson 2: a matrix product that keeps the Tensor engine fed.

The array multiplies stationary[K, M]^T by moving[K, N]: K <= 128 on the partitions, M <= 128, N <= 512, the
sum in a PSUM bank in fp32. A larger product is tiled. Read naively, every operand tile comes from HBM again
for each product it takes part in; here a block of the left operand stays in SBUF while blocks of the right
one pass by, so that each loaded byte is used for BLOCK_M * 128 rows.

Run: python examples/02_matmul.py
"""

import ml_dtypes
import numpy as np

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

TILE_K = 128
TILE_M = 128
TILE_N = 512
BLOCK_M = 4  # stationary tiles kept per block of rows


@nki.jit
def matmul(lhs_t, rhs):
    """lhs_t [K, M], rhs [K, N] -> lhs_t^T @ rhs [M, N] in rhs's dtype; K, M, N multiples of 128, 512, 512."""
    k_size, m_size = lhs_t.shape
    n_size = rhs.shape[1]
    assert k_size == rhs.shape[0], f"contraction sizes differ: {k_size} and {rhs.shape[0]}"
    assert k_size % TILE_K == 0 and m_size % (TILE_M * BLOCK_M) == 0 and n_size % TILE_N == 0
    out = nl.ndarray((m_size, n_size), dtype=rhs.dtype, buffer=nl.shared_hbm)
    k_tiles = k_size // TILE_K
    width = TILE_M * BLOCK_M

    for m in range(m_size // width):
        # One wide DMA per row of tiles: few large descriptors, not many small ones.
        left = []
        for k in range(k_tiles):
            tile = nl.ndarray((TILE_K, width), dtype=lhs_t.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=lhs_t[k * TILE_K : (k + 1) * TILE_K, m * width : (m + 1) * width])
            left.append(tile)
        for n in range(n_size // TILE_N):
            columns = slice(n * TILE_N, (n + 1) * TILE_N)
            right = []
            for k in range(k_tiles):
                tile = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=rhs[k * TILE_K : (k + 1) * TILE_K, columns])
                right.append(tile)
            for b in range(BLOCK_M):
                acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                for k in range(k_tiles):
                    stationary = left[k][:, b * TILE_M : (b + 1) * TILE_M]
                    nisa.nc_matmul(dst=acc, stationary=stationary, moving=right[k], accumulate=k > 0)
                result = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=result, src=acc)
                row = m * width + b * TILE_M
                nisa.dma_copy(dst=out[row : row + TILE_M, columns], src=result)
    return out


# What `opentrn run` and `opentrn profile` call the kernel with.
INPUTS = {"matmul": {"lhs_t": "512x1024:bfloat16:randn(0)", "rhs": "512x1024:bfloat16:randn(1)"}}


def main():
    rng = np.random.default_rng(2)
    lhs_t = rng.standard_normal((512, 512), dtype=np.float32).astype(ml_dtypes.bfloat16)
    rhs = rng.standard_normal((512, 1024), dtype=np.float32).astype(ml_dtypes.bfloat16)
    out = nki.simulate(matmul, target="trn2")(lhs_t, rhs).astype(np.float64)
    exact = lhs_t.astype(np.float64).T @ rhs.astype(np.float64)
    # bf16 keeps 8 bits: the last rounding alone is up to 2^-9 of the value; fp32 summation adds far less.
    np.testing.assert_allclose(out, exact, rtol=2**-8, atol=1e-3)
    print(f"matmul: max error {np.abs(out - exact).max():.3g} of values up to {np.abs(exact).max():.3g}")


if __name__ == "__main__":
    main()
