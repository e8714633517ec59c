"""Arguments for which the timing model has nothing: they act all the same, or say that they change no time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError
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


CALLS = {
    "dma_copy(priority=)": ("trn3", "nisa.dma_copy(dst=tile, src=x, priority=1)"),
    "dma_transpose(priority=)": ("trn3", "nisa.dma_transpose(dst=turned, src=x, priority=3)"),
    "dma_copy(unique_indices=)": ("trn2", "nisa.dma_copy(dst=tile, src=x, unique_indices=True)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_changes_no_time_says_so_once(name, tmp_path):
    target, call = CALLS[name]
    path = tmp_path / "kernel.py"
    path.write_text(
        textwrap.dedent(f"""
        import nki, nki.isa as nisa, nki.language as nl

        @nki.jit
        def kernel(x):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            turned = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.sbuf)
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
    assert done.stderr.count(f"{name} has no effect on the predicted time") == 1, done.stderr
    assert f"{path}:9" in done.stderr


@pytest.mark.parametrize("priority", [0, 3])
def test_priority_is_of_the_newest_core(priority):
    @nki.jit
    def kernel(x):
        nisa.dma_copy(dst=nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf), src=x, priority=priority)
        return x

    with pytest.raises(NkiValidationError, match=r"\[dma_copy.C5\]") as caught:
        opentrn.run(kernel, X, target="trn2")
    assert "try: leave priority out, or target trn3" in str(caught.value)
