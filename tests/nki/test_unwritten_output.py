"""Outputs that a kernel writes only in part: a warning that says which, how much and what it reads as."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import opentrn

opentrn.activate()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

import nki  # noqa: E402
from opentrn.errors import NkiValidationError, UnwrittenOutputWarning  # noqa: E402
from tests.package import PYTHON  # noqa: E402


@nki.jit
def half(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="result")  # the output
    nisa.dma_copy(dst=out[0:64], src=x[0:64])
    return out


@nki.jit
def whole_and_columns(x):
    whole = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=whole, src=x)
    nisa.dma_copy(dst=columns[:, 2:8], src=x[:, 2:8])
    return {"whole": whole, "parts": (columns[:, 4:8], columns)}


@nki.jit
def rows_of_the_core(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs(0)
    first = nl.program_id(0) * rows
    nisa.dma_copy(dst=out[first : first + rows], src=x[first : first + rows])
    return out


@nki.jit
def moved(x):
    part = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=part[0:32], src=x[0:32])
    nisa.dma_copy(dst=out, src=part)
    return out


LINE = next(
    n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("# the output")
)
X = np.arange(1024, dtype=np.float32).reshape(128, 8)
WAYS = {
    "call": lambda kernel, x: kernel(x),
    "simulate": lambda kernel, x: nki.simulate(kernel)(x),
    "run": lambda kernel, x: opentrn.run(kernel, x).outputs,
    "eager": lambda kernel, x: opentrn.run(kernel, x, eager=True).outputs,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dtype", "reads"), [(np.float32, "nan"), (np.int32, "-1")])
def test_the_output_its_line_and_the_first_element_are_named(way, dtype, reads):
    with pytest.warns(UnwrittenOutputWarning) as caught:
        out = WAYS[way](half, X.astype(dtype))
    (text,) = [str(item.message) for item in caught]
    assert "nothing wrote 512 of the 1024 elements of output 0 'result'" in text
    assert f"the first is [64, 0] and reads as {reads}" in text
    assert f"{__file__}:{LINE}" in text
    assert str(out[64, 0]) == reads and (out[:64] == X[:64]).all()


def test_filled_memory_reads_as_it_was_filled():
    with pytest.warns(UnwrittenOutputWarning, match="reads as 4"):
        opentrn.run(half, X.astype(np.int32), uninitialised="fill")


def test_each_output_is_counted_by_its_own_elements():
    with pytest.warns(UnwrittenOutputWarning):
        found = opentrn.run(whole_and_columns, X).unwritten
    (columns,) = found
    assert (columns.number, columns.count, columns.first, columns.shape) == (2, 256, (0, 0), (128, 8))


def test_cores_that_write_an_output_together_have_written_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not opentrn.run(rows_of_the_core, X, lnc=2).unwritten


def test_a_core_that_leaves_its_half_is_told_of():
    with pytest.warns(UnwrittenOutputWarning, match="512 of the 1024"):
        opentrn.run(half, X, lnc=2)


def test_a_copy_that_carried_unwritten_elements_is_named():
    with pytest.warns(UnwrittenOutputWarning, match=r"nothing wrote 768 .*\n.*\n.*dma_copy moved it there from"):
        opentrn.run(moved, X)


def test_it_can_be_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnwrittenOutputWarning)
        with pytest.raises(UnwrittenOutputWarning):
            half(X)


def test_the_environment_makes_it_an_error_or_nothing(monkeypatch):
    monkeypatch.setenv("OPENTRN_UNWRITTEN", "error")
    with pytest.raises(NkiValidationError, match="nothing wrote 512"):
        half(X)
    monkeypatch.setenv("OPENTRN_UNWRITTEN", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half(X)
    monkeypatch.setenv("OPENTRN_UNWRITTEN", "loud")
    with pytest.raises(ValueError, match="OPENTRN_UNWRITTEN is 'warn', 'error' or 'off', not 'loud'"):
        half(X)


def test_nothing_is_looked_at_without_values():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not opentrn.run(half, X, execute=False).unwritten


def test_a_kernel_of_nki_0_1_is_looked_at():
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as old

    @legacy.jit
    def kernel(x):
        out = old.ndarray((128, 8), dtype=x.dtype, buffer=old.shared_hbm)
        old.store(out[0:64, 0:8], old.load(x[0:64, 0:8]))
        return out

    with pytest.warns(UnwrittenOutputWarning, match=r"512 of the 1024 .* \[64, 0\]"):
        kernel(X)


def run_program(*arguments: str, **options):
    command = [sys.executable, "-m", "opentrn", "run", f"{__file__}:half"]
    options.setdefault("env", {**os.environ, "PYTHONPATH": str(PYTHON)})
    return subprocess.run(
        [*command, "--input", "x=128x8:int32", *arguments], capture_output=True, text=True, **options
    )


def test_the_program_shows_it_in_its_results():
    shown = run_program()
    assert shown.returncode == 0
    assert "512 never written, from [64, 0]" in shown.stdout
    assert "opentrn: warning: nothing wrote 512" in shown.stderr
    facts = json.loads(run_program("--json").stdout)["outputs"][0]
    assert facts["unwritten"] == 512 and facts["first_unwritten"] == [64, 0]


def test_as_an_error_of_the_program_it_is_the_kernels():
    shown = run_program(env={**os.environ, "PYTHONPATH": str(PYTHON), "OPENTRN_UNWRITTEN": "error"})
    assert shown.returncode == 1
    assert shown.stderr.startswith("opentrn: program error [kernel.unwritten]: nothing wrote 512")
