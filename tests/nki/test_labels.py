"""Faults beyond the table of constraints that a kernel or a file can cause: each by its label.

isa.C1 and the like are held by src/isa/constraints_test.cc.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import opentrn
from opentrn import _core, nki
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.ones((128, 64), np.float32)


def labelled(label: str) -> str:
    return rf"\[{re.escape(label)}\]"


def written_before_the_run(x):
    tile = nl.ndarray((16, 64), x.dtype)
    rows = x.reshape((8, 16, 64)).ap(
        [[64, 16], [1, 64]], scalar_offset=nisa.register_alloc(2), indirect_dim=0
    )
    nisa.dma_copy(tile, rows, dge_mode=nisa.dge_mode.none)


def writes_its_loop_variable(x):
    for i in nl.dynamic_range(0, 4):
        nisa.register_move(i, 3)


def takes_terabytes(x):
    out = nl.ndarray((1 << 20, 1 << 20), x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(out[0:128, 0:64], x)


@pytest.mark.parametrize(
    ("kernel", "label"),
    [
        (written_before_the_run, "dma.dge"),
        (writes_its_loop_variable, "register.frozen"),
        (takes_terabytes, "sim.tensor_bytes"),
    ],
)
def test_one_core(kernel, label):
    with pytest.raises(NkiValidationError, match=labelled(label)):
        opentrn.run(kernel, X)


def shares_another_size(x):
    nl.ndarray((128, 64 - 32 * nl.program_id(0)), x.dtype, buffer=nl.shared_hbm)


def lies_across_banks(x):
    nl.ndarray((128, 16), nl.float32, buffer=nl.psum, address=(0, 1024))


def meets_in_another_order(x):
    a, b, me = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype), nl.program_id(0)
    nisa.memset(a, 0.0)
    for pipe in (me, 1 - me):
        nisa.sendrecv(dst=b, src=a, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=pipe)


def loops_on_one_core(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.memset(tile, 0.0)
    if nl.program_id(0) == 0:
        nl.fori_loop(0, 4, lambda _: nisa.memset(tile, 1.0))


@pytest.mark.parametrize(
    ("kernel", "kind", "label"),
    [
        (shares_another_size, NkiValidationError, "ndarray.shared_hbm"),
        (lies_across_banks, NkiValidationError, "ndarray.psum_bank"),
        (meets_in_another_order, NkiValidationError, "timing.deadlock"),
        (loops_on_one_core, NotModelled, "timing.loops"),
    ],
)
def test_two_cores(kernel, kind, label):
    with pytest.raises(kind, match=labelled(label)):
        opentrn.run(kernel, opentrn.ShapeOf(X.shape), lnc=2, execute=False)


DAMAGES = {
    "cut off in the header": lambda data: data[:8],
    "cut off in the payload": lambda data: data[:-5],
    "another version": lambda data: data[:4] + b"\xff\xff" + data[6:],
    "another payload": lambda data: data[:-1] + bytes([data[-1] ^ 255]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_program_file(tmp_path, damage):
    file = tmp_path / "copy.otrn"

    def copies(x):
        nisa.dma_copy(nl.ndarray(x.shape, x.dtype), x)

    opentrn.run(copies, X, time=False).save_program(file)
    assert "dma_copy" in _core.listing_of_file(str(file))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=labelled("file.header")):
        _core.listing_of_file(str(file))


def test_a_tensor_without_a_name_is_named_by_where_it_was_made():
    def kernel(x):
        tile = nl.ndarray((128, 16), nl.float32)  # no name
        return nl.add(tile, 1.0)

    line = kernel.__code__.co_firstlineno + 1
    named = (
        rf"of tensor %\d+ \(sbuf, float32 \[128, 16\], allocated at test_labels\.py:{line}\), which nothing"
    )
    with pytest.raises(NkiValidationError, match=named) as failure:
        nki.simulate(kernel)(np.zeros((128, 16), np.float32))
    assert "''" not in str(failure.value)


@pytest.mark.parametrize(
    "dtype, first, count, fits",
    [("int8", -128, 256, True), ("int8", 0, 129, False), ("uint8", 0, 256, True), ("uint8", -1, 4, False),
     ("uint16", 65535, 1, True), ("int16", 32767, 2, False), ("int32", -5, 8, True), ("uint32", 7, 8, True)],
)  # fmt: skip
def test_iota_refuses_values_that_its_type_does_not_hold(dtype, first, count, fits):
    """The reference is numpy's table of integer limits."""

    def kernel(x):
        tile = nl.ndarray((1, count), getattr(nl, dtype))
        nisa.iota(tile, [[1, count]], offset=first)
        out = nl.ndarray((1, count), getattr(nl, dtype), buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    limits = np.iinfo(dtype)
    assert fits == (limits.min <= first and first + count - 1 <= limits.max)
    if fits:
        assert np.array_equal(nki.simulate(kernel)(X)[0], np.arange(first, first + count).astype(dtype))
    else:
        with pytest.raises(NkiValidationError, match=r"iota\.C3"):
            nki.simulate(kernel)(X)
