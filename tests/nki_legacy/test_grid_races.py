"""Results that no launch of NKI 0.1 has: of instances that write one place, in tiles on the chip, out of holes."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import opentrn
import opentrn.nki_legacy as nki
import opentrn.nki_legacy.language as nl
from opentrn.errors import NanOriginWarning, NkiValidationError, UnwrittenOutputWarning
from opentrn.nki import _machine
from opentrn.strict import StrictRefusal
from tests.marks import line_of

pytestmark = pytest.mark.skipif(_machine.backend().name != "core", reason="the oracle keeps no program")

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


@nki.jit
def all_write_all(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.program_id(0))  # the store
    return out


@nki.jit
def equal_values(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


@nki.jit
def one_column_too_many(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = nl.ds(nl.program_id(0) * 31, 33)
    nl.store(out[:, columns], nl.load(x[:, columns]) + nl.program_id(0))
    return out


@nki.jit
def zeroes_all_first(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.zeros(x.shape, dtype=x.dtype))
    columns = nl.ds(nl.program_id(0) * 32, 32)
    nl.store(out[:, columns], nl.load(x[:, columns]))
    return out


@nki.jit
def columns_of_its_own(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = nl.ds(nl.program_id(0) * 16, 16)
    nl.store(out[:, columns], nl.load(x[:, columns]))
    return out


@pytest.mark.parametrize(
    ("kernel", "instances", "element"),
    [(all_write_all, 4, 0), (one_column_too_many, 2, 31), (zeroes_all_first, 2, 0)],
)
@pytest.mark.parametrize("eager", [True, False])
def test_instances_that_write_different_values_are_refused(kernel, instances, element, eager):
    with pytest.raises(NkiValidationError) as caught:
        opentrn.run(kernel[instances], 1 + X, target="trn2", eager=eager)
    text = str(caught.value)
    assert text.startswith("program error [grid.race]: instance 1 of the launch grid")
    assert f"changes element {element} of tensor %" in text and "allocated at" in text, text  # it has no name
    assert "which instance 0 has written" in text, text
    assert f"{__file__}:" in text and "try: let every instance write a part of its own" in text
    if kernel is all_write_all:
        assert f"at {__file__}:{line_of(kernel, '# the store')} in all_write_all" in text


def test_instances_that_write_parts_of_their_own_or_equal_values_are_not(monkeypatch):
    np.testing.assert_array_equal(columns_of_its_own[4](X), X)
    np.testing.assert_array_equal(equal_values[3](X), X)
    assert opentrn.run(all_write_all[4], X, target="trn2", execute=False).time_us > 0  # no values, no difference
    monkeypatch.setenv("OPENTRN_CORE_RACES", "off")
    np.testing.assert_array_equal(all_write_all[3](X), X + 2)


@nki.jit
def returns_a_tile(x):
    return nl.load(x)  # the tile


@nki.jit
def returns_it_among_others(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return {"out": out, "more": [nl.load(x)]}


@pytest.mark.parametrize("kernel", [returns_a_tile, returns_it_among_others])
@pytest.mark.parametrize("execute", [True, False])
def test_a_tile_on_the_chip_is_no_result(kernel, execute):
    with pytest.raises(NkiValidationError, match=re.escape("[nki.output]")) as caught:
        opentrn.run(kernel, X, target="trn2", execute=execute)
    assert "returns a tile in SBUF; results lie in HBM" in str(caught.value)
    assert f"at {__file__}:" in str(caught.value)


@nki.jit(mode="simulation")
def returns_a_tile_simulated(x):
    return nl.load(x)


def test_the_simulator_returns_a_tile_with_a_warning():
    """As the documents' range_select example does (test_nki_isa_range_select.py of aws-neuron-sdk)."""
    with pytest.warns(UserWarning, match="a tile in SBUF, which the simulator of NKI 0.1 takes"):
        np.testing.assert_array_equal(returns_a_tile_simulated(X), X)


@nki.jit
def keeps_its_result(x):
    nl.exp(nl.load(x))


def test_a_kernel_whose_results_are_lost_is_told_so():
    with pytest.warns(UnwrittenOutputWarning, match="nothing is left of what it computes"):
        assert keeps_its_result(X) is None


@nki.jit
def forgets_one_store(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out, other


def test_an_output_without_a_store_is_refused_by_the_release_that_documents_it():
    with pytest.warns(UnwrittenOutputWarning, match="nothing wrote 8192 of the 8192 elements of output 1") as told:
        opentrn.run(forgets_one_store, X, target="trn2")
    assert "opentrn/kernel/run.py" not in str(told[0].message)
    with pytest.raises(StrictRefusal, match="err_tensor_output_not_written_to.*; nothing writes output 1"):
        opentrn.run(forgets_one_store, X, target="trn2", strict="0.1")


def test_a_kernel_that_writes_an_argument_is_not():
    @nki.jit
    def writes(x, out):
        nl.store(out, nl.load(x))

    out = np.zeros_like(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writes(X, out)
    np.testing.assert_array_equal(out, X)


@nki.jit
def masked_then_reduced(x):
    out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    rows, columns = nl.arange(128)[:, None], nl.arange(64)[None, :]
    tile = nl.load(x[rows, columns], mask=(columns < 60))  # the mask
    nl.store(out, nl.sum(tile, axis=1))  # the sum
    return out


def test_a_nan_out_of_what_a_mask_left_unwritten_names_the_mask():
    with pytest.warns(NanOriginWarning) as caught:
        masked_then_reduced(X)
    text = str(caught[0].message)
    assert "512 of the 8192 elements of data were never written and read as NaN, element 60 the first" in text, text
    assert f"dma_copy at {__file__}:{line_of(masked_then_reduced, '# the mask')}" in text
    assert f"at {__file__}:{line_of(masked_then_reduced, '# the sum')} in masked_then_reduced" in text
    assert "try: a mask or a slice left them out there" in text
