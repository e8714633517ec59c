"""Constraints reach a kernel's author: label, finding, line. Every label: src/isa/constraints_test.cc."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl


def tile(rows: int, columns: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray((rows, columns), dtype=dtype, buffer=buffer)


def matmul_of_513_columns() -> None:
    nisa.nc_matmul(
        dst=tile(64, 513, buffer=nl.psum),
        stationary=tile(128, 64, nl.bfloat16),
        moving=tile(128, 513, nl.bfloat16),
    )


def both_in_psum() -> None:
    nisa.tensor_tensor(
        dst=tile(64, 8), data1=tile(64, 8, buffer=nl.psum), data2=tile(64, 8, buffer=nl.psum), op=nl.add
    )


def gpsimd_reads_psum() -> None:
    nisa.tensor_copy(dst=tile(64, 8), src=tile(64, 8, buffer=nl.psum), engine=nisa.engine.gpsimd)


def statistics_of_513_elements() -> None:
    nisa.bn_stats(dst=tile(64, 6), data=tile(64, 513))


def maxima_of_seven() -> None:
    nisa.max8(dst=tile(64, 8), src=tile(64, 7))


def exponential_on_v3() -> None:
    nisa.exponential(dst=tile(64, 8), src=tile(64, 8))


BROKEN = {
    "nc_matmul.C4": matmul_of_513_columns,
    "tensor_tensor.C2": both_in_psum,
    "isa.C5": gpsimd_reads_psum,
    "bn_stats.C1": statistics_of_513_elements,
    "max8.C1": maxima_of_seven,
    "isa.C1": exponential_on_v3,
}


@pytest.mark.parametrize("label", BROKEN)
def test_a_broken_rule_names_itself_and_the_line(label):
    def kernel(x):
        BROKEN[label]()
        return x

    with pytest.raises(NkiValidationError) as caught:
        nki.simulate(kernel, backend="core", target="trn2")(np.zeros((1, 1), np.float32))
    message = str(caught.value)
    assert f"[{label}]" in message
    assert "NeuronCore-v3" in message
    assert "test_constraints.py:" in message


def test_the_same_matmul_is_legal_on_trn3():
    def kernel(x):
        stationary, moving = tile(128, 64, nl.bfloat16), tile(128, 513, nl.bfloat16)
        nisa.memset(dst=stationary, value=1.0)
        nisa.memset(dst=moving, value=2.0)
        acc = tile(64, 513, buffer=nl.psum)
        nisa.nc_matmul(dst=acc, stationary=stationary, moving=moving)
        result = tile(64, 513)
        nisa.tensor_copy(dst=result, src=acc)
        out = nl.ndarray((64, 513), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=result)
        return out

    result = nki.simulate(kernel, backend="core", target="trn3")(np.zeros((1, 1), np.float32))
    assert np.array_equal(np.asarray(result), np.full((64, 513), 256.0, np.float32))
