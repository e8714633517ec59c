"""Lesson 5: a recurrence, as in a selective state-space layer (Mamba).

Per channel c and state s: h[t] = exp(delta[t] A[c, s]) h[t-1] + delta[t] u[t] B[s, t], and
y[t] = sum over s of h[t] C[s, t]. Channels lie on the partitions, time along the free axis, where one
tensor_tensor_scan instruction runs the whole recurrence of 128 channels. B and C do not depend on the
channel, so their rows are read into every partition (a DMA whose partition step is 0).

Run: python examples/05_scan.py
"""

import numpy as np

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

P = 128


def load(source):
    """A [128, n] piece of HBM into SBUF."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def load_row_everywhere(matrix, row):
    """Row `row` of [s, n] in HBM into all 128 partitions."""
    length = matrix.shape[1]
    tile = nl.ndarray((P, length), dtype=matrix.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=matrix.ap(pattern=[[0, P], [1, length]], offset=row * length))
    return tile


@nki.jit
def selective_scan(delta, u, a, b, c):
    """delta, u [channels, time], a [channels, states], b, c [states, time], fp32 -> y [channels, time]."""
    channels, length = delta.shape
    states = a.shape[1]
    assert channels % P == 0
    out = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    for i in range(channels // P):
        rows = slice(i * P, (i + 1) * P)
        step, drive, rates = load(delta[rows, :]), load(u[rows, :]), load(a[rows, :])
        nisa.tensor_tensor(dst=drive, data1=drive, data2=step, op=nl.multiply)
        y = nl.ndarray((P, length), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=y, value=0.0)
        for s in range(states):
            decay = nl.ndarray((P, length), dtype=nl.float32, buffer=nl.sbuf)
            # exp(step * rate): the rate is one number per partition.
            nisa.activation(dst=decay, op=nl.exp, data=step, scale=rates[:, s : s + 1])
            entering = load_row_everywhere(b, s)
            nisa.tensor_tensor(dst=entering, data1=entering, data2=drive, op=nl.multiply)
            state = nl.ndarray((P, length), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=state, data0=decay, data1=entering, initial=0.0, op0=nl.multiply, op1=nl.add
            )
            leaving = load_row_everywhere(c, s)
            nisa.tensor_tensor(dst=state, data1=state, data2=leaving, op=nl.multiply)
            nisa.tensor_tensor(dst=y, data1=y, data2=state, op=nl.add)
        nisa.dma_copy(dst=out[rows, :], src=y)
    return out


def make_inputs(channels, length, states, seed=5):
    """Inputs of the sizes and signs a trained layer has: steps positive, rates negative."""
    rng = np.random.default_rng(seed)
    delta = rng.uniform(0.001, 0.1, (channels, length)).astype(np.float32)
    u = rng.standard_normal((channels, length), dtype=np.float32)
    a = -rng.uniform(0.5, states, (channels, states)).astype(np.float32)
    b, c = (rng.standard_normal((states, length), dtype=np.float32) for _ in range(2))
    return {"delta": delta, "u": u, "a": a, "b": b, "c": c}


# What `opentrn run` and `opentrn profile` call the kernel with.
def example_inputs(kernel_name):
    return make_inputs(128, 512, 4)


def main():
    inputs = make_inputs(channels=128, length=512, states=4)
    y = nki.simulate(selective_scan, target="trn2")(**inputs)
    delta, u, a, b, c = (value.astype(np.float64) for value in inputs.values())
    h, exact = np.zeros(a.shape), np.empty(delta.shape)
    for t in range(delta.shape[1]):
        h = np.exp(delta[:, t : t + 1] * a) * h + (delta[:, t] * u[:, t])[:, None] * b[:, t]
        exact[:, t] = (h * c[:, t]).sum(axis=1)
    np.testing.assert_allclose(y, exact, rtol=1e-3, atol=1e-5)
    print("selective_scan: max error", f"{np.abs(y - exact).max():.2g}", "over", delta.shape[1], "steps")


if __name__ == "__main__":
    main()
