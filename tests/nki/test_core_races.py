"""Races of the two cores of a launch in shared HBM: sim.core_race, and what is none (decision 0030)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
RACE = r"\[sim\.core_race\]"


def half(tensor, core):
    return tensor[core * 128 : (core + 1) * 128]


def loaded(source):
    tile = nl.ndarray(source.shape, source.dtype)
    nisa.dma_copy(tile, source)
    return tile


def shared(x, name):
    return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name)


def swaps(meets, cleared=True):
    def swap(x):
        """Each core writes its half of a scratch tensor, and reads the other one's."""
        core, scratch, out = nl.program_id(), shared(x, "scratch"), shared(x, "out")
        if cleared:
            nisa.dma_copy(half(scratch, core), loaded(half(x, 1)))
            nisa.core_barrier(scratch, (0, 1))
        nisa.dma_copy(half(scratch, core), loaded(half(x, core)))
        if meets:
            nisa.core_barrier(scratch, (0, 1))
        nisa.dma_copy(half(out, core), loaded(half(scratch, 1 - core)))
        return out

    return swap


def last_row_twice(x):
    """Tiles of both cores overlap by one row, in which they differ."""
    core, out = nl.program_id(), shared(x, "out")
    rows = loaded(x[core * 127 : core * 127 + 128])
    nisa.tensor_scalar(rows, rows, nl.add, float(core))
    nisa.dma_copy(out[core * 127 : core * 127 + 128], rows)
    return out


def reads_what_is_updated(x):
    """Core 1 updates, in the input, a row that core 0 reads."""
    core, out = nl.program_id(), shared(x, "out")
    if core == 0:
        nisa.dma_copy(half(out, 0), loaded(half(x, 0)))
    else:
        nisa.dma_copy(half(out, 1), loaded(half(x, 1)))
        nisa.dma_copy(x[3:4], loaded(x[200:201]))
    return out


def both_accumulate(x):
    """Both add to the same rows, which a barrier has separated from the zeros."""
    core, out = nl.program_id(), shared(x, "out")
    zeros = nl.ndarray((128, 64), x.dtype)
    nisa.memset(zeros, 0)
    nisa.dma_copy(half(out, core), zeros)
    nisa.core_barrier(out, (0, 1))
    nisa.dma_compute(out[0:128], [out[0:128], loaded(half(x, core))], reduce_op=nl.add)
    return out


def rows_at(rows):
    def scatter(x):
        """Each core writes two rows of the output, which a tile names: the first, and `step` further."""
        core, out = nl.program_id(), shared(x, "out")
        nisa.dma_copy(half(out, core), loaded(half(x, core)))
        nisa.core_barrier(out, (0, 1))
        index = nl.ndarray((2, 1), nl.int32)
        first, step = rows[core]
        nisa.iota(index, [[1, 1]], offset=first, channel_multiplier=step)
        values = nl.ndarray((2, 64), x.dtype)
        nisa.memset(values, float(core))
        nisa.dma_copy(out.ap([[64, 2], [1, 64]], vector_offset=index, indirect_dim=0), values)
        return out

    return scatter


def in_a_device_loop(shift):
    def loop(x):
        """Core 0 writes row after row, core 1 reads `shift` rows further."""
        core, scratch, out = nl.program_id(), shared(x, "scratch"), shared(x, "out")
        nisa.dma_copy(half(scratch, core), loaded(half(x, core)))
        nisa.core_barrier(scratch, (0, 1))
        tile = nl.ndarray((1, 64), x.dtype)
        nisa.memset(tile, -1.0)
        for i in nl.dynamic_range(0, 16):
            if core == 0:
                nisa.dma_copy(scratch[nl.ds(i, 1)], tile)
            else:
                nisa.dma_copy(tile, scratch[nl.ds(i + shift, 1)])
        nisa.core_barrier(scratch, (0, 1))
        nisa.dma_copy(half(out, core), loaded(half(scratch, core)))
        return out

    return loop


def equal_values(x):
    """Both write all of a scratch tensor, and read it back."""
    core, scratch, out = nl.program_id(), shared(x, "scratch"), shared(x, "out")
    for i in range(2):
        tile = loaded(half(x, i))
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.dma_copy(half(scratch, i), tile)
    nisa.dma_copy(half(out, core), loaded(half(scratch, core)))
    return out


def zeros_first(x):
    """Both clear the output, meet, and write their halves."""
    core, out = nl.program_id(), shared(x, "out")
    zeros = nl.ndarray((128, 64), x.dtype)
    nisa.memset(zeros, 0)
    for i in range(2):
        nisa.dma_copy(half(out, i), zeros)
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(half(out, core), loaded(half(x, core)))
    return out


def columns(x):
    """Halves of every row."""
    core, out = nl.program_id(), shared(x, "out")
    for i in range(2):
        nisa.dma_copy(
            half(out, i)[:, core * 32 : core * 32 + 32], loaded(half(x, i)[:, core * 32 : core * 32 + 32])
        )
    return out


def exchanged(x):
    """sendrecv orders as a barrier does."""
    core, scratch, out = nl.program_id(), shared(x, "scratch"), shared(x, "out")
    nisa.dma_copy(half(scratch, core), loaded(half(x, core)))
    token, theirs = loaded(x[0:1, 0:1]), nl.ndarray((1, 1), x.dtype)
    nisa.sendrecv(src=token, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.dma_copy(half(out, core), loaded(half(scratch, 1 - core)))
    return out


def named(kernel, name=None):
    return pytest.param(kernel, id=name or kernel.__name__)


RACY = [
    named(swaps(meets=False), "swap without a barrier"),
    named(last_row_twice),
    named(reads_what_is_updated),
    named(both_accumulate),
    named(rows_at([(3, 4), (7, 190)]), "scatter to one row"),
    named(in_a_device_loop(4), "loop into rows that are read"),
]
FINE = [
    named(swaps(meets=True), "swap with a barrier"),
    named(rows_at([(3, 4), (4, 190)]), "scatter to rows of its own"),
    named(in_a_device_loop(16), "loop beside rows that are read"),
    named(equal_values),
    named(zeros_first),
    named(columns),
    named(exchanged),
]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("kernel", RACY)
def test_a_race(kernel, eager):
    with pytest.raises(NkiValidationError, match=RACE):
        opentrn.run(nki.jit(kernel), X.copy(), lnc=2, eager=eager)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("kernel", FINE)
def test_no_race(kernel, eager):
    assert np.isfinite(opentrn.run(nki.jit(kernel), X.copy(), lnc=2, eager=eager).outputs).all()


def line_of(kernel, text):
    code = kernel.__code__
    source = Path(code.co_filename).read_text().splitlines()
    return next(i + 1 for i in range(code.co_firstlineno, len(source)) if text in source[i])


def test_the_message_names_both_lines_cores_and_the_tensor():
    kernel = swaps(meets=False)
    write, read = (
        line_of(kernel, "half(scratch, core), loaded(half(x, core))"),
        line_of(loaded, "dma_copy(tile, source)"),
    )
    with pytest.raises(NkiValidationError) as raised:
        nki.simulate(nki.jit(kernel))[2](X)
    text = str(raised.value)
    assert re.search(
        rf"core \d (reads|writes) element \[(0|128), 0\] of 'scratch', which core \d "
        rf"\(dma_copy, instruction \d+, .*test_core_races\.py:({write}|{read})\) (reads|writes)",
        text,
    ), text
    assert re.search(rf"at .*test_core_races\.py:({write}|{read}) in", text), text
    assert "try: let both cores meet between the two, nisa.core_barrier" in text


def test_a_read_before_anything_is_written_says_so():
    for meets in (False, True):
        kernel = nki.jit(swaps(meets, cleared=False))
        if meets:
            opentrn.run(kernel, X, lnc=2)
            continue
        with pytest.raises(NkiValidationError, match=r"sim\.(core_race|uninitialised_read)") as raised:
            opentrn.run(kernel, X, lnc=2)
        assert "nisa.core_barrier" in str(raised.value)


def test_different_values_name_both_writes():
    line = line_of(last_row_twice, "nisa.dma_copy(out")
    with pytest.raises(NkiValidationError) as raised:
        opentrn.run(nki.jit(last_row_twice), X, lnc=2)
    text = str(raised.value)
    assert text.count(f"test_core_races.py:{line}") == 3, text
    assert "write different values to element [127, 0] of 'out'" in text


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("OPENTRN_CORE_RACES", "off")
    assert opentrn.run(nki.jit(last_row_twice), X, lnc=2).outputs.shape == X.shape
    monkeypatch.setenv("OPENTRN_CORE_RACES", "warn")
    with pytest.raises(ValueError, match="OPENTRN_CORE_RACES is 'warn'; it takes error or off"):
        opentrn.run(nki.jit(last_row_twice), X, lnc=2)
