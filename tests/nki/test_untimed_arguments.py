"""Arguments for which the timing model has nothing: they act all the same, or say that they change no time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError, OutOfBounds
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests.package import PYTHON

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def exchange(**how):
    @nki.jit
    def kernel(x):
        core = nl.program_id(0)
        mine, other = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0, **how)
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[core], src=other)
        return out

    return kernel


def test_use_gpsimd_dma_is_the_dma_of_gpsimd():
    named = opentrn.run(exchange(dma_engine=nisa.dma_engine.gpsimd_dma), X, target="trn2", lnc=2)
    older = opentrn.run(exchange(use_gpsimd_dma=True), X, target="trn2", lnc=2)
    plain = opentrn.run(exchange(use_gpsimd_dma=False), X, target="trn2", lnc=2)
    assert "dma_engine=gpsimd_dma" in older.program_text() and "gpsimd_dma" not in plain.program_text()
    assert older.time_us == named.time_us != plain.time_us
    np.testing.assert_array_equal(older.outputs, plain.outputs)


UNTIMED, NOTHING = "has no effect on the predicted time", "has no effect: the result has the shape of dst"
PRODUCT = "nisa.nc_matmul(dst=bank, stationary=tile, moving=tile, {}=True)"
CALLS = {
    "dma_copy(priority=)": ("trn3", "nisa.dma_copy(dst=tile, src=x, priority=1)", UNTIMED),
    "dma_transpose(priority=)": ("trn3", "nisa.dma_transpose(dst=turned, src=x, priority=3)", UNTIMED),
    "dma_copy(unique_indices=)": ("trn2", "nisa.dma_copy(dst=tile, src=x, unique_indices=True)", UNTIMED),
    "nc_matmul(is_stationary_onezero=)": ("trn2", PRODUCT.format("is_stationary_onezero"), UNTIMED),
    "nc_matmul(is_moving_onezero=)": ("trn2", PRODUCT.format("is_moving_onezero"), UNTIMED),
    "tensor_reduce(keepdims=)": ("trn2", "nisa.tensor_reduce(column, nl.add, tile, 1, keepdims=True)", NOTHING),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_changes_no_time_says_so_once(name, tmp_path):
    target, call, words = CALLS[name]
    path = tmp_path / "kernel.py"
    path.write_text(
        textwrap.dedent(f"""
        import nki, nki.isa as nisa, nki.language as nl

        @nki.jit
        def kernel(x):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            turned = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.sbuf)
            column = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
            bank = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
            nisa.dma_copy(dst=tile, src=x)
            for _ in range(3):
                {call}
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=x)
            return out
        """)
    )
    command = [sys.executable, "-m", "opentrn", "run", f"{path}:kernel", "-i", "x=128x64:float32", "--target", target]
    done = subprocess.run(command, env=dict(os.environ, PYTHONPATH=str(PYTHON)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"{name} {words}") == 1, done.stderr
    assert f"{path}:12" in done.stderr


@pytest.mark.parametrize("priority", [0, 3])
def test_priority_is_of_the_newest_core(priority):
    @nki.jit
    def kernel(x):
        nisa.dma_copy(dst=nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf), src=x, priority=priority)
        return x

    with pytest.raises(NkiValidationError, match=r"\[dma_copy.C5\]") as caught:
        opentrn.run(kernel, X, target="trn2")
    assert "try: leave priority out, or target trn3" in str(caught.value)


def rows_by_index(how: str, mode: nisa.oob_mode):
    """Row 9 of four does not exist; the third row of the result is it."""

    @nki.jit
    def kernel(rows, indices):
        index = nl.load(indices)
        source = rows.ap([[64, 16], [1, 64]], vector_offset=index, indirect_dim=0)
        shape = (64, 16) if how == "dma_transpose" else (16, 64)
        tile = nl.full(shape, 7.0, rows.dtype)
        if how == "dma_copy":
            nisa.dma_copy(dst=tile, src=source, oob_mode=mode)
        elif how == "dma_transpose":
            nisa.dma_transpose(dst=tile, src=source, oob_mode=mode)
        else:
            nisa.dma_compute(dst=tile, srcs=[source, tile], reduce_op=nl.add, oob_mode=mode)
        out = nl.ndarray(shape, dtype=rows.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


@pytest.mark.parametrize(("how", "left"), [("dma_copy", 7.0), ("dma_transpose", 7.0), ("dma_compute", 7.0)])
def test_rows_out_of_range_are_skipped_where_asked(how: str, left: float):
    """oob_mode: of an index beyond the rows."""
    rows = np.arange(4 * 64, dtype=np.float32).reshape(4, 64).astype(ml_dtypes.bfloat16)
    indices = np.array([0, 1, 9, 2] * 4, np.uint32)[:, None]
    with pytest.raises(OutOfBounds, match="row"):
        opentrn.run(rows_by_index(how, nisa.oob_mode.error), rows, indices, target="trn2", time=False)
    skipped = opentrn.run(rows_by_index(how, nisa.oob_mode.skip), rows, indices, target="trn2", time=False).outputs
    third = skipped[:, 2] if how == "dma_transpose" else skipped[2]
    assert (third == left).all()
    assert (skipped != left).sum() > 3 * 60


def test_indices_that_may_meet_are_refused():
    @nki.jit
    def kernel(rows, indices, unique):
        tile = nl.full((16, 64), 7.0, rows.dtype)
        source = rows.ap([[64, 16], [1, 64]], vector_offset=nl.load(indices), indirect_dim=0)
        nisa.dma_compute(dst=tile, srcs=[source, tile], reduce_op=nl.add, unique_indices=unique)
        return rows

    indices = np.arange(16, dtype=np.uint32)[:, None]
    opentrn.run(kernel, X, indices, True, target="trn2")
    with pytest.raises(NkiValidationError, match=r"\[dma_compute.C5\]"):
        opentrn.run(kernel, X, indices, False, target="trn2")
