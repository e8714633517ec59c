"""Logical NeuronCores of two (LNC2) in eager mode: each instruction at once, each core in its own thread.

A core that waits for its peer with Python's lock held waits for ever, so every test is a process with a time limit.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
SWAPPED = np.concatenate([X[128:], X[:128]])
LIMIT_S = 120


def mine(x):
    tile = nl.ndarray((128, 64), x.dtype)
    nisa.dma_copy(tile, x[nl.program_id() * 128 : (nl.program_id() + 1) * 128])
    return tile


def put(out, tile):
    nisa.dma_copy(out[nl.program_id() * 128 : (nl.program_id() + 1) * 128], tile)
    return out


@nki.jit
def barrier(x):
    shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    put(shared, mine(x))
    nisa.core_barrier(shared, (0, 1))
    other = 1 - nl.program_id()
    theirs = nl.ndarray((128, 64), x.dtype)
    nisa.dma_copy(theirs, shared[other * 128 : (other + 1) * 128])
    return put(out, theirs)


@nki.jit
def exchange(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    other, theirs = 1 - nl.program_id(), nl.ndarray((128, 64), x.dtype)
    nisa.sendrecv(src=mine(x), dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
    return put(out, theirs)


@nki.jit
def exchange_in_a_loop(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    other, tile, theirs = 1 - nl.program_id(), mine(x), nl.ndarray((128, 64), x.dtype)

    def body(i):
        nisa.sendrecv(src=tile, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
        nisa.tensor_copy(tile, theirs)

    nl.fori_loop(0, 3, body)
    return put(out, tile)


@nki.jit
def exchange_and_print(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = mine(x)
    for _ in range(20):
        other, theirs = 1 - nl.program_id(), nl.ndarray((128, 64), x.dtype)
        nl.device_print("one", tile[0:1, 0:1])
        nisa.sendrecv(src=tile, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
        nl.ndarray((1, 1), x.dtype, buffer=nl.shared_hbm)
        nisa.core_barrier(out, (0, 1))
    return put(out, theirs)


KERNELS = {k.__name__: k for k in (barrier, exchange, exchange_in_a_loop, exchange_and_print)}
ENTRIES = {
    "simulate": lambda kernel: nki.simulate(kernel)[2](X),
    "run": lambda kernel: opentrn.run(kernel, X, lnc=2).outputs,
    "run eager": lambda kernel: opentrn.run(kernel, X, lnc=2, eager=True).outputs,
}


def check(name, entry):
    assert np.array_equal(ENTRIES[entry](KERNELS[name]), SWAPPED)


def in_time(arguments, eager):
    environment = {**os.environ, "OPENTRN_EAGER": "1" if eager else "0"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=Path(__file__).parent, env=environment, timeout=LIMIT_S,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_values_are_those_of_the_exchange(name, entry):
    code = f"import {Path(__file__).stem} as t; t.check({name!r}, {entry!r})"
    in_time(["-c", code], eager=entry != "run eager")


def test_cores_that_print_in_batches():
    in_time(["-c", f"import {Path(__file__).stem} as t; t.check('exchange_and_print', 'run')"], eager=False)


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (("test_launch.py", "test_device_loops.py", "test_nan_origin.py"), "lnc or core"),
        # Loops that Python repeats take another time than device loops.
        (("../compiler/test_kernels_on_two_cores.py",), "not halves_of_the_other or not time"),
    ],
)
def test_the_other_tests_of_two_cores(files, chosen):
    root = Path(__file__).parents[2]
    # The package under test, which a sanitizer's build has elsewhere.
    folders = f"pythonpath={Path(opentrn.__file__).parents[1]} {root} {root / 'tools'}"
    in_time(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", folders, *files, "-k", chosen], eager=True)


def test_the_program_of_the_command_line():
    file = Path(__file__)
    in_time(
        ["-m", "opentrn", "run", f"{file}:barrier", "--lnc", "2", "--input", "x=256x64", "--eager"], False
    )
