"""A layer whose weight is spread over ranks: each multiplies with its part, and an all-reduce adds the products.

A rank is a logical core with memory of its own. `ranks=4` runs the kernel on four of them; they meet at the
functions of nki.collectives. Of the arguments a list has one value for each rank, anything else is given to all.

Run: python examples/all_reduce_ranks.py
     opentrn run examples/all_reduce_ranks.py --ranks 4
"""

import numpy as np

import opentrn
import opentrn.nki as nki
import opentrn.nki.collectives as ncc
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

RANKS = 4


@nki.jit
def row_parallel(x, w, group):
    """x [128, tokens], w [128, n], this rank's rows of both -> the sum over all ranks of x^T w, [tokens, n]."""
    tokens, n = x.shape[1], w.shape[1]
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=w)
    product = nl.ndarray((tokens, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    mine = nl.ndarray((tokens, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=mine, src=product)

    # Operands of a collective are tensors of the kernel's own, not its arguments.
    part = nl.ndarray((tokens, n), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((tokens, n), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=part, src=mine)
    ncc.all_reduce(srcs=[part], dsts=[total], replica_group=group, op=nl.add)

    out = nl.ndarray((tokens, n), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


def inputs():
    """The rows of x and w, a part for each rank."""
    random = np.random.default_rng(0)
    x = random.standard_normal((RANKS * 128, 128), np.float32)
    w = random.standard_normal((RANKS * 128, 256), np.float32)
    return np.split(x, RANKS), np.split(w, RANKS)


def example_inputs(kernel_name):
    """What `opentrn run` gives the kernel."""
    x, w = inputs()
    return {"x": x, "w": w, "group": ncc.ReplicaGroup([list(range(RANKS))])}


if __name__ == "__main__":
    x, w = inputs()
    result = opentrn.run(row_parallel, x, w, ncc.ReplicaGroup([list(range(RANKS))]), ranks=RANKS)
    expected = np.concatenate(x).T @ np.concatenate(w)
    for output in result.outputs:
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-3)
    for collective in result.collectives:
        print(
            f"{collective.what}: {collective.bytes} bytes of each rank, computed by {collective.computed_by}"
        )
    print(f"predicted: {result.time_us:.2f} us on {result.target}, without the links between ranks")
