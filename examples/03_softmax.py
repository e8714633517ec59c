"""Lesson 3: softmax along the free axis, with work on two engines.

The Vector engine finds each row's maximum, the Scalar engine applies exp(x - max) and sums the row in the
same pass, the Vector engine divides. A row is one partition, so 128 rows go through together.

Run: python examples/03_softmax.py
"""

import numpy as np

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

P = 128


@nki.jit
def softmax(x):
    """Softmax over the last axis of x [128 n, m]."""
    rows, columns = x.shape
    assert rows % P == 0, f"rows must be a multiple of {P}, not {rows}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(rows // P):
        tile = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P, :])

        negative_max = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=tile, axis=1, negate=True)

        # activation computes op(data * scale + bias); bias is one number per partition.
        powers = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=powers,
            op=nl.exp,
            data=tile,
            bias=negative_max,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        result = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=result)
    return out


# What `opentrn run` and `opentrn profile` call the kernel with.
INPUTS = {"softmax": {"x": "256x384"}}


def main():
    x = np.random.default_rng(3).normal(0, 5, (256, 384)).astype(np.float32)
    y = nki.simulate(softmax, target="trn2")(x)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(y, exact, rtol=2e-5, atol=1e-9)
    print("softmax: rows sum to", f"{y.sum(axis=1).min():.6f} .. {y.sum(axis=1).max():.6f}")


if __name__ == "__main__":
    main()
