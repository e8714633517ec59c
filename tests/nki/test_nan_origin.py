"""Where a NaN in the results first arose: found after the run, by executing what was recorded once more."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import opentrn

opentrn.activate()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

import nki  # noqa: E402
from opentrn.errors import NanOriginWarning, NkiValidationError  # noqa: E402


@nki.jit
def logarithm(x):
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1.0)
    nisa.activation(dst=tile, op=nl.log, data=tile)  # the first NaN
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()
FIRST_NAN_LINE = next(n for n, line in enumerate(SOURCE, 1) if line.endswith("# the first NaN"))


def run(x: np.ndarray, **options):
    return opentrn.run(logarithm, x, time=False, **options).outputs


def test_the_instruction_and_the_line_are_named():
    with pytest.warns(NanOriginWarning) as caught:
        run(np.zeros((128, 8), np.float32))
    text = str(caught[0].message)
    assert "activation" in text and f"{__file__}:{FIRST_NAN_LINE}" in text, text


def test_it_can_be_an_error(monkeypatch):
    monkeypatch.setenv("OPENTRN_NAN", "error")
    with pytest.raises(NkiValidationError, match="NaN"):
        run(np.zeros((128, 8), np.float32))


@pytest.mark.parametrize("x", [np.full((128, 8), 5, np.float32), np.full((128, 8), np.nan, np.float32)])
def test_nothing_is_said_without_nan_or_when_it_came_in(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(x)


def test_off_means_off(monkeypatch):
    monkeypatch.setenv("OPENTRN_NAN", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(np.zeros((128, 8), np.float32))


def test_an_unknown_setting_is_refused(monkeypatch):
    monkeypatch.setenv("OPENTRN_NAN", "loud")
    with pytest.raises(ValueError, match="OPENTRN_NAN"):
        run(np.zeros((128, 8), np.float32))


def test_both_cores_of_a_logical_core_are_looked_at():
    with pytest.warns(NanOriginWarning, match="activation"):
        run(np.zeros((128, 8), np.float32), lnc=2)
