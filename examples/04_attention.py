"""Lesson 4: attention without the score matrix in memory.

For 128 queries at a time the kernel walks over the keys in tiles of 128 and keeps, per query, the running
maximum m, the running sum of exponentials l and the running output o (online softmax, Milakov and Gimelshein
2018; flash attention, Dao et al. 2022). When a tile raises the maximum, what was summed so far is scaled by
exp(m_old - m_new). Memory on chip does not depend on the number of keys.

q and k come feature-major, [d, tokens], since their product contracts over the d <= 128 features.

Run: python examples/04_attention.py
"""

import numpy as np

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

P = 128
LOWEST = -3.0e38  # below every score; not infinity, whose difference with itself is no number


def tile(shape, dtype=nl.float32, buffer=nl.sbuf):
    """An uninitialised tile."""
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def scale_and_add(running, decay, new):
    """running = running * decay + new, in one Vector instruction; decay: one number per partition."""
    nisa.scalar_tensor_tensor(
        dst=running, data=running, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=new
    )


@nki.jit
def attention(q, k, v):
    """q, k [d, tokens], v [tokens, d]; tokens a multiple of 128 -> softmax(q^T k / sqrt(d)) v [tokens, d]."""
    d, tokens = q.shape
    assert d <= P and tokens % P == 0
    out = nl.ndarray((tokens, d), dtype=v.dtype, buffer=nl.shared_hbm)
    keys = tile((d, tokens), k.dtype)
    nisa.dma_copy(dst=keys, src=k)

    for i in range(tokens // P):
        queries = tile((d, P), q.dtype)
        nisa.dma_copy(dst=queries, src=q[:, i * P : (i + 1) * P])
        running_max, running_sum, running_out = tile((P, 1)), tile((P, 1)), tile((P, d))
        nisa.memset(dst=running_max, value=LOWEST)
        nisa.memset(dst=running_sum, value=0.0)
        nisa.memset(dst=running_out, value=0.0)

        for j in range(tokens // P):
            scores = tile((P, P), buffer=nl.psum)
            moving = keys[:, j * P : (j + 1) * P]
            nisa.nc_matmul(dst=scores, stationary=queries, moving=moving, accumulate=False)
            logits = tile((P, P))
            nisa.tensor_scalar(dst=logits, data=scores, op0=nl.multiply, operand0=d**-0.5)

            tile_max = tile((P, 1))
            nisa.tensor_reduce(dst=tile_max, op=nl.maximum, data=logits, axis=1)
            new_max, negative_max, decay = tile((P, 1)), tile((P, 1)), tile((P, 1))
            nisa.tensor_tensor(dst=new_max, data1=running_max, data2=tile_max, op=nl.maximum)
            nisa.tensor_scalar(dst=negative_max, data=new_max, op0=nl.multiply, operand0=-1.0)
            nisa.activation(dst=decay, op=nl.exp, data=running_max, bias=negative_max)
            nisa.tensor_copy(dst=running_max, src=new_max)

            powers, tile_sum = tile((P, P)), tile((P, 1))
            nisa.activation(
                dst=powers,
                op=nl.exp,
                data=logits,
                bias=negative_max,
                reduce_op=nl.add,
                reduce_res=tile_sum,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
            scale_and_add(running_sum, decay, tile_sum)
            turned = tile((P, P), buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=powers)
            keys_first = tile((P, P))
            nisa.tensor_copy(dst=keys_first, src=turned)
            values = tile((P, d), v.dtype)
            nisa.dma_copy(dst=values, src=v[j * P : (j + 1) * P, :])
            mixed = tile((P, d), buffer=nl.psum)
            nisa.nc_matmul(dst=mixed, stationary=keys_first, moving=values, accumulate=False)
            scale_and_add(running_out, decay, mixed)

        inverse = tile((P, 1))
        nisa.reciprocal(dst=inverse, data=running_sum)
        result = tile((P, d), v.dtype)
        nisa.tensor_scalar(dst=result, data=running_out, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=result)
    return out


# What `opentrn run` and `opentrn profile` call the kernel with.
INPUTS = {"attention": {"q": "64x384", "k": "64x384:float32:randn(1)", "v": "384x64:float32:randn(2)"}}


def main():
    rng = np.random.default_rng(4)
    d, tokens = 64, 384
    q, k = (rng.standard_normal((d, tokens), dtype=np.float32) for _ in range(2))
    v = rng.standard_normal((tokens, d), dtype=np.float32)
    out = nki.simulate(attention, target="trn2")(q, k, v)

    scores = q.astype(np.float64).T @ k.astype(np.float64) / np.sqrt(d)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-5)
    print("attention: max error", f"{np.abs(out - exact).max():.2g}", "over", tokens, "tokens")


if __name__ == "__main__":
    main()
