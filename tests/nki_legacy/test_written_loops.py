"""The recorded program says which iteration of the kernel's loops an instruction belongs to."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opentrn.nki_legacy as nki
import opentrn.nki_legacy.isa as nisa
import opentrn.nki_legacy.language as nl
from opentrn import run


def _text(kernel, *args) -> str:
    return run(kernel, *args, target="trn1", execute=False, time=False).program_text()


@nki.jit
def convolution(image, weights):
    """autocomp's conv1d in small: 32 outputs of three products each, in blocks of 16."""
    out = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(3)[None, :]
    tile, taps = nl.load(image), nl.load(weights)
    sums = nl.ndarray((nl.par_dim(128), 32), dtype=nl.float32, buffer=nl.sbuf)
    for block in nl.affine_range(2):
        for o in nl.affine_range(16):
            products = nisa.tensor_tensor(tile[i_p, i_f + (16 * block + o)], taps[i_p, i_f], op=np.multiply)
            sums[i_p, 16 * block + o] = nisa.tensor_reduce(np.add, products, axis=[1])
    nl.store(out, sums)
    return out


def test_loops_and_iterations_are_kept_with_the_program():
    text = _text(convolution, np.ones((128, 34), np.float32), np.ones((128, 3), np.float32))
    loops = re.findall(r"^iteration (\d+) of (\d+)(?: in (\d+)( independent)?)?$", text, re.MULTILINE)
    assert len(loops) == 2 + 2 * 16
    assert loops[0] == ("1", "0", "0", " independent")  # block 0
    assert loops[1] == ("2", "1", "1", " independent")  # its first output
    assert loops[2] == ("3", "1", "", "")
    # The result of the products waits for its statement's destination, and is issued by the next statement: both
    # belong to the same iteration.
    marks = re.findall(r"^(tensor_tensor|tensor_reduce) .*iteration=(\d+)", text, re.MULTILINE)
    assert [m[1] for m in marks[:4]] == ["2", "2", "3", "3"]
    assert len(marks) == 64
    assert not re.search(r"^dma_copy .*iteration=", text, re.MULTILINE)  # outside of all loops


def test_a_loop_left_by_break_ends_and_a_sequential_one_is_not_independent():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for i in nl.sequential_range(4):
            tile = nl.add(tile, 1.0)
            if i == 1:
                break
        nl.store(out, tile)
        return out

    text = _text(kernel, np.ones((128, 8), np.float32))
    assert re.findall(r"^iteration .*$", text, re.MULTILINE) == ["iteration 1 of 0 in 0", "iteration 2 of 0"]
    assert "iteration=" not in text.splitlines()[-1]


def test_merged_iterations_compute_the_same_and_take_less_time():
    rng = np.random.default_rng(3)
    image = rng.standard_normal((128, 34), np.float32)
    weights = rng.standard_normal((128, 3), np.float32)
    merged = run(convolution, image, weights, target="trn1")
    expected = sum(image[:, k : k + 32] * weights[:, k : k + 1] for k in range(3))
    np.testing.assert_allclose(merged.outputs, expected, rtol=1e-5, atol=1e-5)
    alone = run(convolution, image, weights, target="trn1", compiler="nki")
    count = {o["opcode"]: o["count"] for o in merged.timing.profile()["opcodes"]}
    assert count["tensor_tensor"] == count["tensor_reduce"] == 2
    assert merged.time_us < 0.7 * alone.time_us


@pytest.mark.parametrize("compiler", ["neuronx-cc", "nki"])
def test_a_saved_program_is_timed_as_the_recorded_one(tmp_path, compiler):
    from opentrn import _core

    result = run(convolution, np.ones((128, 34), np.float32), np.ones((128, 3), np.float32), target="trn1",
                 compiler=compiler)  # fmt: skip
    path = tmp_path / "convolution.trn"
    result.save_program(str(path))
    again = _core.time_files(path, 1, "trn1", neuronx_cc=compiler == "neuronx-cc")
    assert again.total_ns / 1e3 == pytest.approx(result.time_us)
