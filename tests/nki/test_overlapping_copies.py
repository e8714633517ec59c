"""A copy of a tile onto itself with an offset: what no public document says is told, with the line."""

import warnings

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import OverlapWarning, UndefinedBehavior
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def kernel_of(work):
    @nki.jit
    def kernel(x):
        tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        work(tile)
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


def copy_forward(t):
    nisa.tensor_copy(dst=t[:, 1:64], src=t[:, 0:63])


def add_forward(t):
    nisa.tensor_tensor(dst=t[:, 8:64], data1=t[:, 8:64], data2=t[:, 0:56], op=nl.add)


def copy_rows_by_dma(t):
    nisa.dma_copy(dst=t[1:128, :], src=t[0:127, :])


def copy_back_by_dma(t):
    nisa.dma_copy(dst=t[:, 0:63], src=t[:, 1:64])


@pytest.mark.parametrize("work", [copy_forward, add_forward, copy_rows_by_dma, copy_back_by_dma])
def test_an_offset_is_told_with_its_line(work, monkeypatch) -> None:
    place = rf"\[nki\.overlap\].*\n    at {__file__}:{work.__code__.co_firstlineno + 1} in {work.__name__}"
    with pytest.warns(OverlapWarning, match=place):
        opentrn.run(kernel_of(work), X, time=False)
    monkeypatch.setenv("OPENTRN_OVERLAP", "error")
    with pytest.raises(UndefinedBehavior, match="overlap with an offset"):
        opentrn.run(kernel_of(work), X, time=False)
    monkeypatch.setenv("OPENTRN_OVERLAP", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        opentrn.run(kernel_of(work), X, time=False)


def in_place(t):
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)


def copy_back(t):
    nisa.tensor_copy(dst=t[:, 0:63], src=t[:, 1:64])


def even_from_odd(t):
    nisa.tensor_copy(dst=t[:, 0:64:2], src=t[:, 1:64:2])


def halves(t):
    nisa.tensor_copy(dst=t[:, 32:64], src=t[:, 0:32])


def rows_on_lanes(t):
    nisa.tensor_copy(dst=t[64:128, 0:32], src=t[0:64, 0:32])


def column_of_itself(t):
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=t[:, 63:64])


@pytest.mark.parametrize("work", [in_place, copy_back, even_from_odd, halves, rows_on_lanes, column_of_itself])
def test_what_any_order_of_elements_gives_is_not_told(work) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        opentrn.run(kernel_of(work), X, time=False)


def test_the_values_are_of_a_copy_that_reads_first(monkeypatch) -> None:
    monkeypatch.setenv("OPENTRN_OVERLAP", "off")
    result = opentrn.run(kernel_of(copy_forward), X, time=False).outputs
    np.testing.assert_array_equal(result[:, 1:], X[:, :-1])
