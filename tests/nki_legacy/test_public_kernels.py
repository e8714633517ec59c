"""What public kernels of NKI 0.1 do, which ran on their authors' hardware; by the fault that they showed here."""

import numpy as np
import pytest

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy import isa as nisa
from opentrn.nki_legacy import language as nl
from opentrn.nki_legacy.kernel import baremetal, jit

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
