"""Small kernels of the dialect against numpy, and the instructions they become."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import opentrn
import opentrn.nki_legacy as nki
import opentrn.nki_legacy.isa as nisa
import opentrn.nki_legacy.language as nl
from opentrn.errors import NkiValidationError, NotModelled
from tests.package import PYTHON


def array(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(body, *arrays, **kwargs):
    return nki.simulate_kernel(nki.jit(body), *arrays, **kwargs)


def returning(tile):
    """An HBM copy of a tile, to return from a kernel."""
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


# -- where results go ----------------------------------------------------------------------------------------


def test_assigned_result_is_written_directly(issued):
    def kernel(a):
        t = nl.ndarray((4, 16), dtype=a.dtype)
        x = nl.load(a)
        t[:, 0:8] = nl.exp(x)
        t[:, 8:16] = nl.exp(x)
        return returning(t)

    a = array(4, 8)
    np.testing.assert_allclose(run(kernel, a), np.tile(np.exp(a), 2), rtol=1e-6)
    assert issued.names == ["dma_copy", "activation", "activation", "dma_copy"]


def test_result_with_a_name_keeps_its_value_after_assignment():
    def kernel(a):
        t = nl.ndarray((4, 8), dtype=a.dtype)
        y = nl.add(nl.load(a), 1.0)
        t[...] = y
        t[...] = 0.0
        return returning(y)

    a = array(4, 8)
    np.testing.assert_array_equal(run(kernel, a), a + 1)


def test_result_is_rounded_to_its_own_dtype_before_assignment():
    def kernel(a):
        t = nl.ndarray((4, 8), dtype=nl.float32)
        t[...] = nl.copy(nl.load(a), dtype=nl.bfloat16)
        return returning(t)

    a = array(4, 8)
    np.testing.assert_array_equal(run(kernel, a), a.astype(nl.bfloat16).astype(np.float32))


def test_overlapping_source_is_read_before_it_is_overwritten():
    def kernel(a):
        t = nl.load(a)
        t[:, 1:8] = nl.copy(t[:, 0:7])
        return returning(t)

    a = array(4, 8)
    expected = a.copy()
    expected[:, 1:] = a[:, :-1]
    np.testing.assert_array_equal(run(kernel, a), expected)


def test_unused_result_still_executes_in_order(issued):
    def kernel(a):
        x = nl.load(a)
        nl.exp(x)
        return returning(x)

    run(kernel, array(4, 8))
    assert issued.names == ["dma_copy", "activation", "dma_copy"]


# -- PSUM ----------------------------------------------------------------------------------------------------


def accumulating(a, b):
    psum = nl.zeros((nl.par_dim(16), 8), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(3):
        x = nl.load(a[k * 32 : (k + 1) * 32, :])
        y = nl.load(b[k * 32 : (k + 1) * 32, :])
        psum[...] += nisa.nc_matmul(x, y)
    return returning(nl.copy(psum))


def test_psum_accumulation_is_one_matmul_per_step(issued):
    a, b = array(96, 16), array(96, 8, seed=1)
    np.testing.assert_allclose(run(accumulating, a, b), a.T @ b, rtol=1e-4, atol=1e-4)
    assert issued.count("nc_matmul") == 3
    assert issued.count("memset") == issued.count("tensor_tensor") == 0


@pytest.mark.parametrize("read_later", [False, True])
def test_a_product_with_a_name_is_added_by_the_tensor_engine_too(issued, read_later):
    def kernel(a, b):
        psum = nl.zeros((16, 8), dtype=nl.float32, buffer=nl.psum)
        x, y = nl.ndarray((32, 16), dtype=a.dtype), nl.ndarray((32, 8), dtype=b.dtype)
        for k in nl.sequential_range(3):
            x[...] = nl.load(a[k * 32 : (k + 1) * 32, :])
            y[...] = nl.load(b[k * 32 : (k + 1) * 32, :])
            product = nisa.nc_matmul(x, y)
            psum += product
            if k == 0:
                first = product
        x[...] = nl.load(a[64:96, :])
        return returning(nl.add(psum, first) if read_later else nl.copy(psum))

    a, b = array(96, 16), array(96, 8, seed=1)
    expected = a.T @ b + (a[:32].T @ b[:32] if read_later else 0)
    np.testing.assert_allclose(run(kernel, a, b), expected, rtol=1e-4, atol=1e-4)
    assert issued.count("memset") == 0
    assert issued.count("tensor_tensor") == int(read_later)


def test_the_copy_of_a_product_with_a_name_costs_no_time():
    def named(a):
        x = nl.load(a)
        psum = nl.zeros((16, 16), dtype=nl.float32, buffer=nl.psum)
        for _ in nl.sequential_range(4):
            product = nisa.nc_matmul(x, x)
            psum += product
        return returning(nl.copy(psum))

    def direct(a):
        x = nl.load(a)
        psum = nl.zeros((16, 16), dtype=nl.float32, buffer=nl.psum)
        for _ in nl.sequential_range(4):
            psum += nisa.nc_matmul(x, x)
        return returning(nl.copy(psum))

    times = [opentrn.run(nki.jit(kernel), array(32, 16), execute=False).time_us for kernel in (named, direct)]
    assert times[0] == times[1]


@pytest.mark.parametrize("rows, columns", [(32, 32), (128, 128), (96, 40), (20, 70)])
def test_the_vector_engine_transposes_by_blocks(issued, rows, columns):
    def kernel(a):
        return returning(nisa.nc_transpose(nl.load(a), engine=nisa.vector_engine))

    a = array(rows, columns)
    np.testing.assert_array_equal(run(kernel, a), a.T)
    assert issued.count("nc_transpose") == -(-rows // 32) * -(-columns // 32)


@pytest.mark.parametrize("what", ["zero", "sum"])
def test_psum_beyond_its_tensor_is_refused_before_anything_is_noted(what):
    def kernel(a):
        x = nl.load(a)
        psum = nl.zeros((16, 64), dtype=nl.float32, buffer=nl.psum)
        i, j = nl.mgrid[0:16, 0:64]
        if what == "zero":
            psum[i, j + 1000] = 0
        else:
            psum[i, j + 1000] += nisa.nc_matmul(x[:, 0:16], x)
        return returning(nl.copy(psum))

    with pytest.raises(NkiValidationError, match="err_tensor_access_out_of_bound.*1000"):
        run(kernel, array(32, 64))


def test_a_reduction_over_loops_of_another_shape_is_refused():
    def kernel(a):
        x = nl.load(a)
        psum = nl.zeros((32, 64), dtype=nl.float32, buffer=nl.psum)
        for k in nl.sequential_range(2):
            psum[:, 8:64] = nl.loop_reduce(x, np.add, [k])
        return returning(nl.copy(psum))

    with pytest.raises(NkiValidationError, match="does not broadcast"):
        run(kernel, array(32, 64))


def test_zeros_in_psum_are_zero_when_no_matmul_wrote_them():
    def kernel(a):
        psum = nl.zeros((nl.par_dim(8), 16), dtype=nl.float32, buffer=nl.psum)
        x = nl.load(a)
        psum[:, 0:8] += nisa.nc_matmul(x, x)
        return returning(nl.copy(psum))

    a = array(8, 8)
    np.testing.assert_allclose(
        run(kernel, a), np.concatenate([a.T @ a, np.zeros((8, 8))], axis=1), rtol=1e-4, atol=1e-5
    )


def test_masked_out_matmul_adds_nothing():
    def kernel(a):
        psum = nl.zeros((8, 8), dtype=nl.float32, buffer=nl.psum)
        x = nl.load(a)
        for k in nl.affine_range(4):
            psum += nisa.nc_matmul(x, x, mask=k >= 2)
        return returning(nl.copy(psum))

    a = array(8, 8)
    np.testing.assert_allclose(run(kernel, a), 2 * (a.T @ a), rtol=1e-4, atol=1e-5)


def test_adding_a_tile_to_psum_of_another_engine_uses_the_vector_engine(issued):
    def kernel(a):
        x = nl.load(a)
        psum = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        psum[...] = nl.copy(x)
        psum[...] += nisa.nc_matmul(x, x)
        return returning(nl.copy(psum))

    a = array(8, 8)
    np.testing.assert_allclose(run(kernel, a), a + a.T @ a, rtol=1e-4, atol=1e-5)
    assert issued.count("tensor_tensor") == 1


# -- masks ---------------------------------------------------------------------------------------------------


def test_mask_narrows_an_access_that_leaves_the_tensor():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:128, 0:8]
        for t in nl.affine_range(2):
            rows = t * 128 + i
            x = nl.load(a[rows, j], mask=rows < 200)
            nl.store(out[rows, j], nl.exp(x, mask=rows < 200), mask=rows < 200)
        return out

    a = array(200, 8)
    np.testing.assert_allclose(run(kernel, a), np.exp(a), rtol=1e-6)


def test_access_outside_the_tensor_without_mask_is_refused():
    def kernel(a):
        i, j = nl.mgrid[0:128, 0:8]
        return returning(nl.load(a[i, j]))

    with pytest.raises(NkiValidationError, match="err_tensor_access_out_of_bound"):
        run(kernel, array(100, 8))


def test_zeroing_psum_outside_the_tensor_is_refused():
    """Without touching memory: zeros in PSUM are remembered per element until something reads them."""

    def kernel(a):
        i, j = nl.mgrid[0:4, 0:8]
        t = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.psum)
        t[i, j + 100] = 0
        return returning(nl.copy(t))

    with pytest.raises(NkiValidationError, match="out_of_bound"):
        run(kernel, array(4, 8))


def test_triangular_mask_splits_into_rows(issued):
    def kernel(a):
        i, j = nl.mgrid[0:8, 0:8]
        t = nl.zeros((8, 8), dtype=a.dtype)
        t[...] = nl.multiply(nl.load(a), 2.0, mask=i >= j)
        return returning(t)

    a = array(8, 8)
    np.testing.assert_array_equal(run(kernel, a), np.tril(2 * a))
    assert issued.count("tensor_scalar") == 8


def test_and_in_a_decorated_kernel_combines_predicates():
    @nki.jit
    def kernel(a, n):
        i, j = nl.mgrid[0:8, 0:8]
        t = nl.zeros((8, 8), dtype=a.dtype)
        t[...] = nl.copy(nl.load(a), mask=(i < n and not (j >= n)))
        return returning(t)

    a = array(8, 8)
    expected = np.zeros_like(a)
    expected[:3, :3] = a[:3, :3]
    np.testing.assert_array_equal(nki.simulate_kernel(kernel, a, 3), expected)


def test_storing_a_result_that_was_masked_out_is_refused():
    def kernel(a):
        return returning(nl.exp(nl.load(a), mask=False))

    with pytest.raises(NkiValidationError, match="masked out"):
        run(kernel, array(4, 4))


# -- indexing ------------------------------------------------------------------------------------------------


def test_strided_and_transposed_free_access():
    def kernel(a):
        x = nl.load(a)
        p, i, j = nl.mgrid[0:4, 0:3, 0:5]
        return returning(nl.copy(x[p, 5 * i + 4 - j]))

    a = array(4, 15)
    np.testing.assert_array_equal(run(kernel, a), a.reshape(4, 3, 5)[:, :, ::-1])


def test_block_dimensions_are_separate_tiles():
    def kernel(a):
        t = nl.ndarray((3, nl.par_dim(4), 8), dtype=a.dtype)
        for b in nl.affine_range(3):
            t[b] = nl.load(a[b])
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for b in nl.affine_range(3):
            nl.store(out[b], t[2 - b])
        return out

    a = array(3, 4, 8)
    np.testing.assert_array_equal(run(kernel, a), a[::-1])


def test_tensor_with_block_dimensions_is_no_tile():
    def kernel(a):
        t = nl.zeros((3, nl.par_dim(4), 8), dtype=a.dtype)
        return returning(nl.exp(t))

    with pytest.raises(NkiValidationError, match="before its partition dimension"):
        run(kernel, array(4, 8))


def test_gather_and_scatter_rows():
    def kernel(a, index):
        rows = nl.load(index)
        j = nl.arange(8)[None, :]
        out = nl.zeros((16, 8), dtype=a.dtype, buffer=nl.hbm)
        nl.store(out[rows, j], nl.load(a[rows, j]))
        return out

    a, index = array(16, 8), np.array([[3], [0], [9]], np.int32)
    expected = np.zeros_like(a)
    expected[index[:, 0]] = a[index[:, 0]]
    np.testing.assert_array_equal(run(kernel, a, index), expected)


def test_gather_outside_the_tensor_raises_numpys_index_error():
    def kernel(a, index):
        return returning(nl.load(a[nl.load(index), nl.arange(8)[None, :]]))

    with pytest.raises(IndexError, match="index 128 is out of bounds for axis 0 with size 128"):
        run(kernel, array(16, 8), np.array([[3], [16]], np.int32))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (lambda: (nl.arange(4), 0), "err_1d_arange_not_supported"),
        (lambda: (nl.arange(4)[:, None], slice(0, 4)), "cannot be mixed"),
    ],
)
def test_refused_indices(index, message):
    def kernel(a):
        return returning(nl.copy(nl.load(a)[index()]))

    with pytest.raises(NkiValidationError, match=message):
        run(kernel, array(4, 8))


def test_free_index_that_depends_on_the_partition_is_refused():
    def kernel(a):
        i, j = nl.mgrid[0:4, 0:4]
        return returning(nl.copy(nl.load(a)[i, i + j]))

    with pytest.raises(NotModelled, match="differently in each partition"):
        run(kernel, array(4, 8))


# -- functions -----------------------------------------------------------------------------------------------


def test_broadcasts_of_both_kinds():
    def kernel(a, row, column):
        x, r, c = nl.load(a), nl.load(row), nl.load(column)
        return returning(x + r), returning(r * c), returning(x - c)

    a, row, column = array(40, 8), array(1, 8, seed=1), array(40, 1, seed=2)
    for got, want in zip(run(kernel, a, row, column), (a + row, row * column, a - column)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_reduction_over_an_inner_axis():
    def kernel(a):
        return returning(nl.max(nl.load(a), axis=1)), returning(nl.mean(nl.load(a), axis=[1, 2]))

    a = array(4, 3, 5)
    largest, average = run(kernel, a)
    np.testing.assert_array_equal(largest, a.max(1))
    np.testing.assert_allclose(average[:, 0], a.mean((1, 2)), rtol=1e-5)


def test_softmax_rms_norm_and_var():
    def kernel(a, w):
        x = nl.load(a)
        return (
            returning(nl.softmax(x, axis=1)),
            returning(nl.rms_norm(x, nl.load(w), axis=1, n=8)),
            returning(nl.var(x, axis=1)),
        )

    a, w = array(4, 8), array(1, 8, seed=1)
    soft, norm, variance = run(kernel, a, w)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(soft, e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(norm, a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6) * w, rtol=1e-5)
    np.testing.assert_allclose(variance[:, 0], a.var(1), rtol=1e-5)


def test_where_and_integer_division():
    def kernel(a):
        i = nisa.iota(nl.arange(8)[:, None] + nl.arange(16)[None, :], dtype=nl.int32)
        x = nl.load(a)
        return (
            returning(nl.where(x > 0, x, -1.0)),
            returning(nl.floor(i / 3, dtype=nl.int32)),
            returning(nl.mod(i, 3, dtype=nl.int32)),
        )

    a = array(8, 16)
    chosen, quotient, rest = run(kernel, a)
    i = np.arange(8)[:, None] + np.arange(16)
    np.testing.assert_array_equal(chosen, np.where(a > 0, a, -1))
    np.testing.assert_array_equal(quotient, i // 3)
    np.testing.assert_array_equal(rest, i % 3)


def test_matmul_transposes_its_first_operand():
    def kernel(a, b):
        return returning(nl.copy(nl.matmul(nl.load(a), nl.load(b))))

    a, b = array(16, 32), array(32, 8, seed=1)
    np.testing.assert_allclose(run(kernel, a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_affine_select_of_a_psum_tile_and_a_shifted_mask():
    def kernel(a):
        i, j = nl.mgrid[0:8, 0:8]
        x = nl.load(a)
        return returning(nisa.affine_select(i + 1 > 2 * j, nisa.nc_matmul(x, x), -5.0))

    a = array(8, 8)
    i, j = np.mgrid[0:8, 0:8]
    np.testing.assert_allclose(run(kernel, a), np.where(i + 1 > 2 * j, a.T @ a, -5), rtol=1e-4, atol=1e-5)


def test_loop_reduce_with_and_without_destination():
    def kernel(a):
        t = nl.ndarray((4, 8), dtype=a.dtype)
        for k in nl.affine_range(3):
            x = nl.load(a[k])
            t[...] = nl.loop_reduce(x, op=np.add, loop_indices=(k,))
            b = nl.loop_reduce(x, op=np.max, loop_indices=[k])
        return returning(t), returning(b)

    a = array(3, 4, 8)
    total, largest = run(kernel, a)
    np.testing.assert_allclose(total, a.sum(0), rtol=1e-6)
    np.testing.assert_array_equal(largest, a.max(0))


def test_atomic_add_to_rows():
    def kernel(a, index):
        out = nl.ones((16, 8), dtype=a.dtype, buffer=nl.hbm)
        nl.atomic_rmw(out[nl.load(index), nl.arange(8)[None, :]], nl.load(a), op=np.add)
        return out

    a, index = array(3, 8), np.array([[5], [1], [7]], np.int32)
    expected = np.ones((16, 8), np.float32)
    expected[index[:, 0]] += a
    np.testing.assert_array_equal(run(kernel, a, index), expected)


def test_random_values_follow_the_seed():
    def kernel():
        nl.random_seed(7)
        a = nl.rand((8, 8))
        nl.random_seed(7)
        return returning(a), returning(nl.rand((8, 8)))

    a, b = run(kernel)
    np.testing.assert_array_equal(a, b)
    assert a.min() >= 0 and a.max() < 1 and np.unique(a).size > 32


def test_error_names_the_line_of_the_instruction_not_of_its_first_use():
    def kernel(a, index):
        gathered = nl.load(a[nl.load(index), nl.arange(8)[None, :]])  # the faulty line
        return returning(gathered)

    with pytest.raises(IndexError) as caught:
        run(kernel, array(16, 8), np.array([[16]], np.int32))
    lines = [entry.statement.lines[0] for entry in caught.traceback if entry.path.name == "test_kernels.py"]
    assert "the faulty line" in lines[-1]


@pytest.mark.parametrize("mode", ["simulation", "auto"])
def test_an_index_out_of_range_has_the_simulators_class_there(mode):
    """test_nki_isa_dma_copy.py of aws-neuron-sdk compares type(error) with IndexError."""

    @nki.jit(mode=mode)
    def kernel(a, index):
        rows = nl.load(index)[nl.arange(2)[:, None], 0]
        return returning(nl.load(a[rows, nl.arange(8)[None, :]]))

    with pytest.raises(IndexError, match="index 128 is out of bounds for axis 0 with size 128") as caught:
        kernel(array(16, 8), np.array([[3], [16]], np.int32))
    assert (type(caught.value) is IndexError) == (mode == "simulation")
    fault = caught.value.__cause__ if mode == "simulation" else caught.value
    assert fault.label and fault.location.line


def test_loop_reduce_includes_what_the_destination_holds():
    def kernel(a):
        t = nl.ndarray((4, 16), dtype=a.dtype)
        t[:, 0:8] = 5.0
        for k in nl.affine_range(3):
            t[:, 0:8] = nl.loop_reduce(nl.load(a[k]), op=np.add, loop_indices=[k])
            t[:, 8:16] = nl.loop_reduce(nl.load(a[k]), op=np.add, loop_indices=[k])
        return returning(t)

    a = array(3, 4, 8)
    np.testing.assert_allclose(run(kernel, a), np.concatenate([a.sum(0) + 5, a.sum(0)], 1), rtol=1e-6)


@pytest.mark.parametrize("instruction", ["dma_copy", "dma_transpose"])
def test_rows_out_of_range_are_skipped_where_asked(instruction):
    def kernel(a, index, *, mode):
        rows = a[nl.load(index)[nl.arange(16)[:, None], 0], nl.arange(64)[None, :]]
        if instruction == "dma_transpose":
            return returning(nisa.dma_transpose(rows, oob_mode=mode))
        tile = nl.full((16, 64), 7.0, a.dtype)
        nisa.dma_copy(dst=tile, src=rows, oob_mode=mode)
        return returning(tile)

    a, index = array(4, 64).astype(ml_dtypes.bfloat16), np.array([0, 1, 9, 2] * 4, np.int32)[:, None]
    with pytest.raises(IndexError):
        run(lambda a, index: kernel(a, index, mode=nisa.oob_mode.error), a, index)
    skipped = run(lambda a, index: kernel(a, index, mode=nisa.oob_mode.skip), a, index)
    there = skipped.T if instruction == "dma_transpose" else skipped
    np.testing.assert_array_equal(there[[0, 1, 3]], a[[0, 1, 2]])


def test_a_product_lies_where_it_is_placed():
    """nc_matmul(tile_position=): a part of the array that there is, or an error."""

    def product(position):
        def kernel(a):
            tile = nl.load(a)
            return returning(
                nisa.nc_matmul(tile[64:96, 0:32], tile[64:96, 0:32], tile_position=position, tile_size=(32, 32))
            )

        return kernel

    a = array(128, 64)
    np.testing.assert_allclose(run(product((64, 32)), a), a[64:96, :32].T @ a[64:96, :32], rtol=1e-5, atol=1e-5)
    with pytest.raises(NkiValidationError, match="nc_matmul"):
        run(product((16, 0)), a)


# -- rows that are spread to many partitions ------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "operation",
    [
        nl.power,
        lambda a, b: nisa.tensor_tensor(a, b, nl.power),
        lambda a, b: nisa.tensor_tensor(a, b, nl.multiply, engine=nisa.gpsimd_engine),
    ],
)
def test_gpsimd_reads_a_spread_row(operation, swapped):
    """The Tensor engine spreads a row into PSUM, which GpSimd does not reach."""

    def kernel(a, b):
        left, right = nl.load(a), nl.load(b)
        return returning(operation(right, left) if swapped else operation(left, right))

    a, b = np.abs(array(97, 37)) + 0.5, np.abs(array(1, 37, seed=1)) + 0.5
    left, right = (b, a) if swapped else (a, b)
    for result in (run(kernel, a, b), opentrn.run(nki.jit(kernel), a, b, target="trn2").outputs):
        expected = left * right if "multiply" in operation.__code__.co_names else left**right
        np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_a_spread_row_warns_of_no_argument():
    """nc_matmul has arguments without effect, and says so once a process where the user gives one."""
    program = """
import warnings
import numpy as np
import opentrn.nki_legacy as nki
import opentrn.nki_legacy.language as nl

warnings.simplefilter("error")

def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) + nl.load(b))
    return out

result = nki.simulate_kernel(nki.jit(kernel), np.ones((64, 8), np.float32), np.ones((1, 8), np.float32))
assert (result == 2).all()
"""
    environment = dict(os.environ, PYTHONPATH=str(PYTHON))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


# -- numbers that are cut -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda rows: list(nl.affine_range(rows / 128)), "a loop"),
        (lambda rows: list(nl.sequential_range(0, rows / 128)), "a loop"),
        (lambda rows: nl.ndarray((rows / 128, 8), dtype=nl.float32), "a shape"),
        (lambda rows: nl.arange(rows / 128), "nl.arange"),
        (lambda rows: nl.mgrid[0 : rows / 128, 0:8], "nl.mgrid"),
    ],
)
def test_a_fraction_is_no_count(use, what):
    """200 rows by 128 were one tile: the last 72 rows were left out without a word."""

    def kernel(a):
        use(a.shape[0])
        return returning(nl.load(a[0:128]))

    with pytest.raises(NkiValidationError, match=f"{what} takes whole numbers, got 1.5625"):
        run(kernel, array(200, 8))
    run(kernel, array(256, 8))  # 2.0 is a whole number


def test_numbers_that_are_no_masks_and_no_positions():
    with pytest.raises(NkiValidationError, match="mask must be a comparison of index expressions or a bool, got int"):
        run(lambda a: returning(nl.load(a, mask=5)), array(16, 8))
    with pytest.raises(NkiValidationError, match="indices are float32, which are no positions"):
        run(lambda a: returning(nl.gather_flattened(nl.load(a), nl.load(a))), array(32, 8))
