"""Instructions beyond nki.isa: custom operators (docs/custom_operators.md runs a library) and sparse matmul."""

import numpy as np
import pytest

import opentrn
from opentrn import custom_op
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.random.default_rng(3).standard_normal((128, 64)).astype(np.float32)


def calling(name, *inputs):
    def kernel(x):
        tile, result = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        custom_op.call(name, outputs=[result], inputs=[tile, *inputs])
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    return kernel


def test_a_python_function_is_an_operator():
    @custom_op.register("test.rank")
    def rank(outputs, inputs):
        outputs[0][...] = np.argsort(np.argsort(inputs[0], axis=1), axis=1) + float(inputs[1])

    got = opentrn.run(calling("test.rank", 0.5), X, time=False).outputs
    assert np.array_equal(got, np.argsort(np.argsort(X, axis=1), axis=1) + np.float32(0.5))


def test_what_the_function_raises_fails_the_kernel():
    @custom_op.register("test.raises")
    def raises(outputs, inputs):
        raise RuntimeError("no such luck")

    with pytest.raises(
        NkiValidationError, match=r"\[custom_op.raised\]: test.raises raised RuntimeError: no such"
    ):
        opentrn.run(calling("test.raises"), X, time=False)


def test_its_time_is_unknown_and_said_to_be():
    custom_op.register("test.nothing")(lambda outputs, inputs: None)
    with pytest.raises(NotModelled, match="custom_op"):
        opentrn.run(calling("test.nothing"), X)


def test_its_time_is_what_its_author_states():
    def predicted_ns(*args, **kwargs):
        custom_op.register("test.timed", *args, **kwargs)(lambda outputs, inputs: None)
        return 1000 * opentrn.run(calling("test.timed"), X).time_us

    free, fixed, streamed = (
        predicted_ns(ns=0),
        predicted_ns(250),
        predicted_ns(ns=250, cycles_per_element=14),
    )
    assert fixed - free == pytest.approx(250, abs=1)
    gpsimd_ghz = 1.2  # trainium2_arch.rst
    assert streamed - fixed == pytest.approx(14 * X.shape[1] / gpsimd_ghz, abs=1)
    with pytest.raises(ValueError, match="-1; a time is finite"):
        custom_op.set_time("test.timed", ns=-1)
    custom_op.set_time("test.timed")
    with pytest.raises(NotModelled, match="cycles_per_element"):
        opentrn.run(calling("test.timed"), X)


def test_unknown_operators_and_libraries():
    with pytest.raises(ValueError, match="no custom operator 'test.unknown'"):
        opentrn.run(calling("test.unknown"), X, time=False)
    with pytest.raises(ValueError, match="custom_op.library"):
        custom_op.load_library("/no/such/library.so")


@pytest.mark.parametrize("pattern", ["4:8", "4:12", "4:16", "2:8", "2:4", "1:4", "1:2"])
def test_sparse_matmul_against_the_dense_product(pattern):
    """A dense [K N/M, m] matrix with M of N values per column, compressed; the product is that of the dense one."""
    kept, group = (int(n) for n in pattern.split(":"))
    ratio, k, m, n = group // kept, 32, 64, 48
    random = np.random.default_rng(5)
    dense = np.zeros((k * ratio, m), np.float32)
    values, tags = np.zeros((k, m), np.float32), np.zeros((k, m), np.uint16)
    for column in range(m):
        for first in range(0, k, kept):
            chosen = np.sort(random.choice(group, kept, replace=False))
            numbers = random.integers(-4, 5, kept).astype(np.float32)
            dense[first * ratio + chosen, column] = numbers
            values[first : first + kept, column], tags[first : first + kept, column] = numbers, chosen
    packed = (tags.reshape(k, m // 4, 4) << (4 * np.arange(4, dtype=np.uint16))).sum(axis=2).astype(np.uint16)
    moving = random.integers(-4, 5, (k * ratio, n)).astype(np.float32)

    def kernel(values, moving, packed):
        a, b, t = (nl.ndarray(h.shape, h.dtype) for h in (values, moving, packed))
        for tile, host in ((a, values), (b, moving), (t, packed)):
            nisa.dma_copy(tile, host)
        product = nl.ndarray((m, n), nl.float32, buffer=nl.psum)
        custom_op.nc_matmul_sparse(product, a, b, t, pattern)
        copy = nl.ndarray((m, n), nl.float32)
        nisa.tensor_copy(copy, product)
        out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, copy)
        return out

    result = opentrn.run(kernel, values, moving.reshape(k, ratio, n), packed, time=False)
    assert np.array_equal(result.outputs, dense.T @ moving)
