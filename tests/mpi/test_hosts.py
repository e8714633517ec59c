"""mpirun over two hosts, which one machine plays by namespaces: what ranks send each other crosses TCP."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.test_kernels import KERNELS
from tests.mpi.test_mpirun import DEADLINE_S, ENVIRONMENT, NCCOM, SIZE, VALUES

SCRIPT = Path(__file__).with_name("two_hosts.sh")


def two_hosts(slots: int, *words: str | Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """mpirun of those words with so many processes on each host, and the bytes that crossed the link between them."""
    done = subprocess.run(
        [SCRIPT, str(slots), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env=os.environ | ENVIRONMENT | {"OPENTRN_MPI_TIMEOUT_S": "60"},
    )
    crossed = re.search(r"^crossed (\d+) (\d+)$", done.stderr, re.MULTILINE)
    assert crossed, done.stderr
    return done, min(int(crossed[1]), int(crossed[2]))


@pytest.fixture(scope="module", autouse=True)
def hosts():
    """Skips where the kernel gives this user no namespaces."""
    try:
        done, _ = two_hosts(1, "-np", "2", "hostname")
    except AssertionError as error:
        pytest.skip(f"no namespaces here: {error}")
    assert sorted(done.stdout.split()) == ["host1", "host2"], done.stderr


def test_nccom_test_of_two_nodes_prints_what_one_process_prints():
    words = [*NCCOM, "allr", "-r", "64", "-N", "2", *SIZE[:2], "-b", "64kb", "-e", "1MB", "-f", "16", "-d", "fp32"]
    words += ["--check", "--show-algorithm"]
    done, crossed = two_hosts(2, "-np", "4", *words)
    assert done.returncode == 0, done.stderr
    assert "values by 4 processes over Open MPI" in done.stderr
    alone = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | ENVIRONMENT)
    assert done.stdout == alone.stdout
    # Each node sends the other one half of what the two have summed, 1 MB, and of its 64 KB.
    assert crossed > (2**20 + 2**16) / 2


def test_ranks_on_two_hosts_have_the_bits_of_one_process():
    if not VALUES.exists():
        pytest.skip("this build has no C++ tests")
    done, crossed = two_hosts(2, "-np", "4", VALUES, "8")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d{3,} plans on 8 ranks of 4 processes: same bits\n", done.stdout)
    assert crossed > 1_000_000


def test_kernels_on_two_hosts_print_what_one_process_prints():
    alone = subprocess.run(
        [*map(str, KERNELS), "values"], capture_output=True, text=True, check=True, env=os.environ | ENVIRONMENT
    )
    done, crossed = two_hosts(1, "-np", "2", sys.executable, KERNELS[1], "values")
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(line) for line in alone.stdout.splitlines()] == [2, 2, 2, 2], done.stdout
    assert crossed > 1000


def test_a_host_that_has_other_ranks_in_mind_is_named():
    words = [*NCCOM, "allr", "-r", "8", *SIZE, "--check"]
    done, _ = two_hosts(1, "-np", "1", *words, ":", "-np", "1", *NCCOM, "redsct", "-r", "8", *SIZE, "--check")
    assert done.returncode != 0
    assert "[mpi.mismatch]" in done.stderr
