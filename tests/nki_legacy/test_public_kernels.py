"""What public kernels of NKI 0.1 do, which ran on their authors' hardware; by the fault that they showed here."""

import numpy as np
import pytest

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy import isa as nisa
from opentrn.nki_legacy import language as nl
from opentrn.nki_legacy.kernel import baremetal, benchmark, jit
from opentrn.nki_legacy.typing import tensor

RNG = np.random.default_rng(5)


@jit
def add_column(x, column):
    out = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm)
    nl.store(out, nisa.tensor_scalar(nl.load(x), np.add, nl.load(column), dtype=np.float32))
    return out


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8])
def test_tensor_scalar_takes_operands_of_any_type(dtype):
    """Stanford's CS149 convolutions in fp16: bias tiles are fp16."""
    x = RNG.standard_normal((128, 16)).astype(np.float16)
    column = RNG.integers(0, 9, (128, 1)).astype(dtype)
    np.testing.assert_array_equal(add_column(x, column), x.astype(np.float32) + column.astype(np.float32))


@jit
def shift_integers(x, column):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.tensor_scalar(nl.load(x), np.bitwise_and, nl.load(column)))
    return out


def test_bitwise_operands_stay_integers():
    x = RNG.integers(0, 1 << 30, (128, 16)).astype(np.int32)
    column = RNG.integers(0, 1 << 30, (128, 1)).astype(np.int32)
    np.testing.assert_array_equal(shift_integers(x, column), x & column)


@pytest.mark.parametrize(
    ("first", "second"), [((128, 7, 1), (128, 7)), ((128, 1, 7), (128, 7, 1)), ((128, 6), (128, 2, 3))]
)
def test_tensor_tensor_pairs_elements_in_order(first, second):
    """nki.isa.tensor_tensor of 0.1: as many elements per partition, no word of shapes."""

    @jit
    def larger(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        result = nisa.tensor_tensor(nl.load(x), nl.load(y), op=np.maximum)
        assert result.shape == x.shape
        nl.store(out, result)
        return out

    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in (first, second))
    np.testing.assert_array_equal(larger(x, y), np.maximum(x, y.reshape(first)))


def test_the_courses_script_asks_for_no_allocation_pass():
    def twice(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(x)))
        return out

    x = RNG.standard_normal((128, 4)).astype(np.float32)
    np.testing.assert_array_equal(baremetal(twice, disable_allocation_opt=True)(x), x + x)


@jit
def pairs(gates):
    """Arguments as a quantum simulator has them: a list of tuples of arrays and numbers."""
    (a, b), (c, n) = gates
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.add(nl.load(a), nl.load(b)), nl.multiply(nl.load(c), n)))
    return out


def test_arrays_nest_in_arguments():
    a, b, c = (RNG.standard_normal((128, 8)).astype(np.float32) for _ in range(3))
    np.testing.assert_array_equal(pairs([(a, b), (c, 2)]), (a + b) + c * 2)


@jit
def rows_by_index_tile(state):
    out = nl.ndarray((128, 1), dtype=np.float32, buffer=nl.shared_hbm)
    y = nisa.iota(nl.arange(128)[:, None], dtype=np.uint32)
    nl.store(out, nl.load(state[1, y]).as_tile())
    return out


def test_an_index_may_leave_out_dimensions_of_one():
    state = RNG.standard_normal((2, 256, 1)).astype(np.float32)
    np.testing.assert_array_equal(rows_by_index_tile(state), state[1, :128])
    with pytest.raises(NkiValidationError, match="one index per dimension longer than one"):
        rows_by_index_tile(RNG.standard_normal((2, 256, 3)).astype(np.float32))


def test_a_masked_store_of_another_shape_says_so():
    @jit
    def wrong(x):
        out = nl.ndarray((128, 15, 7), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out[:, 0:16, :], value=tile, mask=nl.arange(16)[None, :, None] < 15)
        return out

    with pytest.raises(NkiValidationError, match=r"shape \(128, 16, 8\) does not fit .* \(128, 16, 7\)"):
        wrong(np.ones((128, 16, 8), np.float32))


@jit
def rows_that_exist(cache, index):
    """A paged cache: pages out of bounds are skipped, and what was there stays."""
    out = nl.ndarray((128, 8), dtype=cache.dtype, buffer=nl.shared_hbm)
    p, f = nl.arange(128)[:, None], nl.arange(8)[None, :]
    i = nl.load(index)
    rows = nl.zeros((nl.par_dim(128), 8), dtype=cache.dtype)
    rows[p, f] = nl.load(cache[i[p, 0], f], mode=nisa.oob_mode.skip)
    nl.store(out, rows)
    return out


def test_a_load_may_skip_what_is_out_of_bounds():
    cache = RNG.standard_normal((10, 8)).astype(np.float32)
    index = np.full((128, 1), 99, np.int32)
    index[3] = 7
    want = np.zeros((128, 8), np.float32)
    want[3] = cache[7]
    np.testing.assert_array_equal(rows_that_exist(cache, index), want)


@pytest.mark.parametrize("form", ["missing", "slices", "middle"])
def test_one_number_in_sbuf_indexes_beside_slices(form):
    @jit
    def page(x, index):
        i = nl.load(index)
        one = i[0, 0]
        taken = {
            "missing": lambda: x[:, one],
            "slices": lambda: x[0:128:2, one, :],
            "middle": lambda: x[5, one, :],
        }
        tile = nl.load(taken[form]())
        out = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = RNG.standard_normal((128, 4, 8)).astype(np.float32)
    want = {"missing": x[:, 2], "slices": x[::2, 2], "middle": x[5, 2][:, None]}[form]
    np.testing.assert_array_equal(page(x, np.array([[2]], np.int32)), want)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_integers_are_transposed_bit_by_bit(monkeypatch, target):
    """Page tables of a public kernel for paged attention."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)

    @jit
    def turned(x):
        out = nl.ndarray((48, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.transpose(nl.load(x)))
        return out

    x = RNG.integers(-(1 << 31), 1 << 31, (32, 48)).astype(np.int32)
    np.testing.assert_array_equal(turned(x), x.T)


def test_an_annotation_with_shape_and_dtype_stands_for_an_argument():
    """AWS's workshop: kernel(tensor[[128, 512], nl.float32]) of a benchmarked kernel."""

    @benchmark
    def exponential(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(nl.load(x)))
        return out

    result = exponential(tensor[[128, 512], nl.bfloat16])
    assert result.shape == (128, 512) and (np.asarray(result, np.float32) == 1).all()
    assert exponential.benchmark_result.nc_latency.get_latency_percentile(50) > 0


def test_an_unknown_argument_of_a_mean_is_the_means():
    @jit
    def wrong(x):
        nl.mean(nl.load(x), axis=1, keepdim=True)

    with pytest.raises(TypeError, match=r"nl\.mean got unknown arguments \['keepdim'\]"):
        wrong(np.ones((128, 4), np.float32))
