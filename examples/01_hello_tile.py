"""Lesson 1: a tile.

A NeuronCore computes on tiles in its on-chip memory SBUF: 128 partitions (rows) side by side, each with a
free axis. A kernel moves data HBM -> SBUF by DMA, computes, and moves the result back. Here: y = 2 x + 1.

Run: python examples/01_hello_tile.py
"""

import numpy as np

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl


@nki.jit
def twice_plus_one(x):
    """y = 2 x + 1 for x [128, n]."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)  # the result, in device memory
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)  # on chip; holds nothing yet
    nisa.dma_copy(dst=tile, src=x)
    # One instruction does two operations on every element: (tile * 2) + 1, in fp32, rounded once.
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0)
    nisa.dma_copy(dst=y, src=tile)
    return y


# What `opentrn run` and `opentrn profile` call the kernel with.
INPUTS = {"twice_plus_one": {"x": "128x512"}}


def main():
    x = np.arange(128 * 256, dtype=np.float32).reshape(128, 256)
    y = nki.simulate(twice_plus_one, target="trn2")(x)
    np.testing.assert_array_equal(y, 2 * x + 1)
    print("twice_plus_one: exact for", x.shape, x.dtype)


if __name__ == "__main__":
    main()
