"""Ranks of NKI kernels that processes of mpirun share: the values of one process, and what goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.test_mpirun import ENVIRONMENT, mpirun

KERNELS = (sys.executable, Path(__file__).with_name("kernel_with_ranks.py"))


def test_processes_print_what_one_process_prints():
    """Three processes share eight ranks unevenly; each has the results, and the writes to arguments, of all."""
    alone = subprocess.run(
        [*map(str, KERNELS), "values"], capture_output=True, text=True, check=True, env=os.environ | ENVIRONMENT
    )
    assert len(alone.stdout.splitlines()) == 4
    done = mpirun("-np", "3", *KERNELS, "values")
    assert done.returncode == 0, done.stderr
    # mpirun may put the ends of lines of two processes behind both.
    assert [done.stdout.count(line) for line in alone.stdout.splitlines()] == [3, 3, 3, 3], done.stdout


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("mismatch", ["[collectives.mismatch]", "all_to_all of float32[8, 8]", "all_reduce(add) of float32[8, 8]"]),
        ("absent", ["[collectives.absent]", "rank 7", "returned without coming to it", "kernel_with_ranks.py:"]),
        ("fails", ["[mpi.peer]", "the launch failed in process 1 (ranks 4 to 7)", "this rank has no weights"]),
        ("other", ["[mpi.mismatch]", "a launch of 8 ranks of 1 cores", "a launch of 4 ranks of 1 cores"]),
    ],
)
def test_what_goes_wrong_is_said(what, said):
    done = mpirun("-np", "2", *KERNELS, what, timeout_s="20")
    assert done.returncode != 0
    for text in said:
        assert text in done.stderr, done.stderr


def test_a_rank_that_never_comes_is_waited_for_so_long_and_no_longer():
    done = mpirun("-np", "2", *KERNELS, "late", timeout_s="10")  # which a busy machine needs to start MPI
    assert done.returncode != 0
    assert "[mpi.absent]: 10 s without a message: process 0 (ranks 0 to 3) waits for process 1 (ranks 4 to 7) in" in (
        done.stderr
    )


@pytest.mark.parametrize(
    ("recovery", "timeout_s", "said"),
    [
        pytest.param(
            (), "60", "ended from outside: process 0 (ranks 0 to 3) waits for process 1", id="mpirun ends all"
        ),
        pytest.param(
            ("--enable-recovery",), "6", "process 0 (ranks 0 to 3) waits for process 1", id="others time out"
        ),
    ],
)
def test_a_process_that_dies_is_named_with_the_collective(recovery, timeout_s, said):
    done = mpirun(*recovery, "-np", "2", *KERNELS, "dies", timeout_s=timeout_s)
    assert said in done.stderr, done.stderr
    assert "all_reduce(add) of float32[8, 8]" in done.stderr
