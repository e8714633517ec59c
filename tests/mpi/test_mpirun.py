"""Collectives whose ranks are divided over processes that Open MPI's mpirun starts: values, and what goes wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package import PYTHON

ROOT = Path(__file__).parents[2]
VALUES = ROOT / "build" / "src" / "mpi" / "opentrn_mpi_values"
NCCOM = (sys.executable, "-m", "opentrn", "nccom-test")
SIZE = ("--instance", "trn1n.32xlarge", "-b", "1kb", "-e", "1kb", "-d", "fp32")
# The machine may have fewer processors than the test has processes, and CI runs as root.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PYTHONPATH": str(PYTHON),
}


# Four processes that meet a thousand times on two processors that others use too: 5 s of processor time took 5 minutes
# at a load of 18. What ends a wait in a test is OPENTRN_MPI_TIMEOUT_S.
DEADLINE_S = 900


def mpirun(*words: str | Path, timeout_s: str = "60") -> subprocess.CompletedProcess[str]:
    """That command line of mpirun. The test fails, and says so, where Open MPI is not installed."""
    assert shutil.which("mpirun"), "mpirun is missing: ./dev build installs openmpi-bin where it may (tools/apt.txt)"
    environment = os.environ | ENVIRONMENT | {"OPENTRN_MPI_TIMEOUT_S": timeout_s}
    return subprocess.run(
        ["mpirun", *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_S, check=False, env=environment
    )


def test_eight_ranks_of_four_processes_have_the_bits_of_one():
    """Every algorithm, operation and root on 8 ranks in bf16, whose sums depend on their order."""
    if not VALUES.exists():
        pytest.skip("this build has no C++ tests")
    done = mpirun("-np", "4", VALUES, "8")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d{3,} plans on 8 ranks of 4 processes: same bits\n", done.stdout)


def test_nccom_test_prints_once_what_one_process_prints():
    words = [*NCCOM, "allr", "-r", "32", "-N", "4", *SIZE, "--check", "--show-algorithm"]
    done = mpirun("-np", "4", *words)
    assert done.returncode == 0, done.stderr
    assert "values by 4 processes over Open MPI" in done.stderr
    alone = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | ENVIRONMENT)
    assert done.stdout == alone.stdout
    assert "hier" in done.stdout


def test_groups_that_lie_across_processes():
    words = [*NCCOM, "redsct", "-r", "8", "--data-parallel-dimension", "4", *SIZE, "--check"]
    done = mpirun("-np", "3", *words)
    assert done.returncode == 0, done.stderr


def test_without_values_the_other_processes_have_nothing_to_do():
    done = mpirun("-np", "2", *NCCOM, "allr", "-r", "8", *SIZE)
    assert done.returncode == 0, done.stderr
    assert "without --check there are no values" in done.stderr


def test_processes_that_call_different_collectives_are_named():
    done = mpirun(
        "-np", "1", *NCCOM, "allr", "-r", "8", *SIZE, "--check", ":",
        "-np", "1", *NCCOM, "redsct", "-r", "8", *SIZE, "--check",
    )  # fmt: skip
    assert done.returncode != 0
    assert "[mpi.mismatch]" in done.stderr
    assert "process 0 (ranks 0 to 3): all_reduce of 1024 B" in done.stderr
    assert "process 1 (ranks 4 to 7): reduce_scatter of 1024 B" in done.stderr


def test_a_process_that_has_no_collective_where_another_has_one_is_named():
    done = mpirun(
        "-np", "1", *NCCOM, "allr", "-r", "8", *SIZE, "--check", ":",
        "-np", "1", *NCCOM, "allr", "-r", "8", *SIZE,
    )  # fmt: skip
    assert done.returncode != 0
    assert "process 1 (ranks 4 to 7): the end of nccom-test" in done.stderr


def test_a_process_that_never_starts_mpi_is_not_waited_for_without_end():
    words = ("-np", "1", *NCCOM, "allr", "-r", "8", *SIZE, "--check", ":", "-np", "1", "sleep", "60")
    done = mpirun(*words, timeout_s="2")
    assert done.returncode == 124, done.stderr
    assert "mpi.absent: MPI has not started after 2 s: of the 2 processes" in done.stderr


@pytest.mark.parametrize(
    ("recovery", "said"),
    [
        # Of the three that wait those say so whom the machine lets run before mpirun ends them.
        pytest.param((), r"ended from outside: process [013] \(.*\) waits for process 2", id="mpirun ends all"),
        pytest.param(
            ("--enable-recovery",), "at all_reduce of 534 B, add of bfloat16, 8 ranks, by mesh", id="others time out"
        ),
    ],
)
def test_a_process_that_dies_is_named_with_the_collective(recovery, said, tmp_path):
    if not VALUES.exists():
        pytest.skip("this build has no C++ tests")
    # Files of their own: what mpirun has not passed on when it ends is lost, which a busy machine makes likely.
    program = f'exec {VALUES} 8 2 2>"{tmp_path}/$OMPI_COMM_WORLD_RANK"'
    mpirun(*recovery, "-np", "4", "sh", "-c", program, timeout_s="10")
    words = "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    assert re.search(said, words), words
    assert "process 2 (ranks 4 to 5)" in words


@pytest.mark.parametrize(
    ("words", "timeout_s", "said"),
    [
        (("-np", "3", *NCCOM, "allr", "-r", "2", *SIZE, "--check"), "60", "[mpi.processes]: 3 processes for 2 ranks"),
        (("-np", "2", *NCCOM, "allr", "-r", "2", *SIZE), "soon", "[mpi.timeout]: OPENTRN_MPI_TIMEOUT_S=soon"),
    ],
)
def test_what_is_wrong_is_said(words, timeout_s, said):
    done = mpirun(*words, timeout_s=timeout_s)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_missing_library_is_said_by_name(tmp_path):
    """A process that believes itself under mpirun, where the loader finds no Open MPI, or another library."""
    (tmp_path / "libmpi.so.40").write_text("no library")
    (tmp_path / "libmpi.so").write_text("no library")
    environment = ENVIRONMENT | {"OMPI_COMM_WORLD_SIZE": "2", "LD_LIBRARY_PATH": str(tmp_path)}
    words = [*NCCOM, "allr", "-r", "8", *SIZE]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 2
    assert "[mpi.library]" in done.stderr and "openmpi-bin" in done.stderr
