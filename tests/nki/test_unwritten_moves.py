"""Unwritten elements that move: they may travel, and may not be used (decision 0014)."""

import numpy as np
import pytest

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
    with pytest.raises(NkiValidationError, match="sendrecv moved it there") as fault:
        rows_that_were_not[2](X)
    assert "tensor_scalar" in str(fault.value)


def test_the_environment_asks_for_fill(monkeypatch):
    monkeypatch.setenv("OPENTRN_UNINITIALISED", "fill")
    result = rows_that_were_not[2](X)
    np.testing.assert_array_equal(result[:8], 2 * X)
    assert np.isnan(result[8:]).all()
    monkeypatch.setenv("OPENTRN_UNINITIALISED", "zero")
    with pytest.raises(ValueError, match="OPENTRN_UNINITIALISED is 'fault' or 'fill', not 'zero'"):
        rows_that_were_not[2](X)
