"""Unwritten elements that move: they may travel, and may not be used (decision 0014)."""

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def padded_exchange(x, dma_engine):
    """Eight written rows of sixteen, sent to the other core and back."""
    mine, theirs = nl.ndarray((16, 4), x.dtype), nl.ndarray((16, 4), x.dtype)
    nisa.dma_copy(mine[0:8, :], x)
    other = 1 - nl.program_id()
    nisa.sendrecv(
        src=mine, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0, dma_engine=dma_engine
    )
    return theirs


@nki.jit
def rows_that_were_written(x, gpsimd):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    engine = nisa.dma_engine.gpsimd_dma if gpsimd else nisa.dma_engine.dma
    theirs = padded_exchange(x, engine)
    if nl.program_id() == 0:
        nisa.dma_copy(out, theirs[0:8, :])
    return out


@nki.jit
def rows_that_were_not(x):
    out = nl.ndarray((16, 4), x.dtype, buffer=nl.shared_hbm)
    theirs = padded_exchange(x, nisa.dma_engine.dma)
    twice = nl.ndarray((16, 4), x.dtype)
    nisa.tensor_scalar(twice, theirs, nl.multiply, 2.0)
    nisa.dma_copy(out, twice)
    return out


@pytest.mark.parametrize("eager", ["0", "1"])
@pytest.mark.parametrize("gpsimd", [False, True])
def test_padding_travels_between_cores(monkeypatch, gpsimd, eager):
    monkeypatch.setenv("OPENTRN_EAGER", eager)
    np.testing.assert_array_equal(rows_that_were_written[2](X, gpsimd), X)


def test_padding_of_the_other_core_is_still_unwritten():
    with pytest.raises(NkiValidationError, match="tensor_scalar computed it from") as fault:
        rows_that_were_not[2](X)
    assert "in dma_copy" in str(fault.value)


def test_the_environment_asks_for_fill(monkeypatch):
    monkeypatch.setenv("OPENTRN_UNINITIALISED", "fill")
    result = rows_that_were_not[2](X)
    np.testing.assert_array_equal(result[:8], 2 * X)
    assert np.isnan(result[8:]).all()
    monkeypatch.setenv("OPENTRN_UNINITIALISED", "zero")
    with pytest.raises(ValueError, match="OPENTRN_UNINITIALISED is 'fault' or 'fill', not 'zero'"):
        rows_that_were_not[2](X)
    with pytest.raises(ValueError, match="uninitialised is 'fault' or 'fill', not 'zero'"):
        opentrn.run(rows_that_were_not, X, lnc=2, uninitialised="zero")


@nki.jit
def nonzeros(x, cores_written, read):
    rows, found = nl.ndarray((128, 8), nl.float32), nl.ndarray((128, 9), nl.int32)
    out = nl.ndarray((1, 9), nl.int32, buffer=nl.shared_hbm)
    for core in range(cores_written):
        nisa.dma_copy(rows[16 * core : 16 * core + 1, :], x)
    nisa.nonzero_with_count(found, rows, index_offset=0, padding_val=-1)
    nisa.dma_copy(out, found[16 * read : 16 * read + 1, :])
    return out


def test_a_gpsimd_core_without_a_row_spoils_its_own_result_only():
    x = np.array([[0, 1, 1, 0, 0, 1, 0, 0]], np.float32)
    np.testing.assert_array_equal(nonzeros(x, 1, 0), [[1, 2, 5, -1, -1, -1, -1, -1, 3]])
    with pytest.raises(
        NkiValidationError, match=r"reads element \[32, 0\] of .*nonzero_with_count computed it from"
    ):
        nonzeros(x, 2, 2)
    with pytest.raises(NkiValidationError, match="src reads element"):
        nonzeros(x, 0, 0)


def test_a_fault_names_the_element_of_the_tensor():
    @nki.jit
    def kernel(x):
        tile, out = nl.ndarray((64, 8), nl.float32), nl.ndarray((16, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(tile[0:40, :], x)
        nisa.dma_copy(out, tile[32:48, 4:8])
        return out

    with pytest.raises(NkiValidationError, match=r"reads element \[40, 4\] of"):
        kernel(np.ones((40, 8), np.float32))


@nki.jit
def norm_of_some_rows(x):
    """A norm as public kernels write it: the last tile is computed as a whole and stored in part."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for begin in range(0, rows, 128):
        count = min(128, rows - begin)
        tile, squares = nl.ndarray((128, columns), x.dtype), nl.ndarray((128, columns), x.dtype)
        mean, scale = nl.ndarray((128, 1), nl.float32), nl.ndarray((128, 1), nl.float32)
        nisa.dma_copy(tile[0:count, :], x[begin : begin + count, :])
        nisa.activation_reduce(squares, nl.square, tile, reduce_op=nl.add, reduce_res=mean)
        nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / columns, op1=nl.add, operand1=1e-6)
        nisa.activation(scale, nl.rsqrt, mean)
        nisa.tensor_scalar(tile, tile, nl.multiply, scale)
        nisa.dma_copy(out[begin : begin + count, :], tile[0:count, :])
    return out


@pytest.mark.parametrize("eager", ["0", "1"])
def test_lanes_without_data_compute_nothing_that_matters(monkeypatch, eager):
    monkeypatch.setenv("OPENTRN_EAGER", eager)
    x = np.random.default_rng(0).standard_normal((200, 64)).astype(np.float32)
    want = x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(norm_of_some_rows(x), want, rtol=2e-5)


@pytest.mark.parametrize("user", ["matmul", "store", "whole"])
def test_what_lanes_without_data_compute_may_not_be_used(user):
    @nki.jit
    def kernel(x):
        tile, twice = nl.ndarray((128, 64), x.dtype), nl.ndarray((128, 64), x.dtype)
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        if user != "whole":
            nisa.dma_copy(tile[0:72, :], x)
        nisa.tensor_scalar(twice, tile, nl.multiply, 2.0)
        if user == "matmul":
            product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, twice, twice)
        nisa.dma_copy(out, twice)
        return out

    element, by = (
        (r"\[0, 0\]", "nothing has written")
        if user == "whole"
        else (r"\[72, 0\]", "tensor_scalar computed it")
    )
    with pytest.raises(NkiValidationError, match=rf"sim\.uninitialised_read.*element {element} .*{by}"):
        kernel(np.ones((72, 64), np.float32))
