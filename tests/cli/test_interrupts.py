"""Ctrl-C, SIGTERM and --deadline end the `opentrn` program, with a status, a message and nothing left behind."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from opentrn.cli import dispatch as cli
from tests import endless
from tests.alarms import CPU_SECONDS, SECONDS, longest_deafness
from tests.package import PYTHON

KERNELS = endless.__file__
LOOP = Path(KERNELS).read_text().partition("while again:")[0].count("\n") + 1  # its line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interrupts")
    (path / "endless.mlir").write_text(endless.model(start="%two"))
    (path / "long.mlir").write_text(endless.products())
    return path


def start(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    environment = dict(os.environ, PYTHONPATH=str(PYTHON), TMPDIR=str(folder), **variables)
    return subprocess.Popen(
        [sys.executable, "-m", "opentrn", *words], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=True,
    )  # fmt: skip


TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def signalled(process: subprocess.Popen[str], number: int, after: float = 2.0) -> tuple[int, str]:
    """(status, what is on stderr) of a process that is at work when the signal comes.

    after: the processor time, in seconds, of which the process has spent its first second at most on its start.
    """
    while process.poll() is None and cpu_seconds(process) < after:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    begin, used = time.perf_counter(), cpu_seconds(process)
    process.send_signal(number)
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ended, used = time.perf_counter(), cpu_seconds(process) - used
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert ended - begin < SECONDS
    assert used < CPU_SECONDS
    return process.returncode, errors


@pytest.mark.parametrize(
    "words",
    [
        ("run", f"{KERNELS}:endless"),
        ("run", "endless.mlir", "--no-cache", "--loop-limit", "2000000000"),
        ("compile", "long.mlir", "--no-cache"),
    ],
    ids=["kernel", "model", "compilation"],
)
def test_ctrl_c(folder: Path, words: tuple[str, ...]) -> None:
    status, errors = signalled(start(folder, *words), signal.SIGINT)
    assert status == 130
    assert errors.startswith("opentrn: interrupted while ")


PLANNED = "Llama-3.1-70B --instance trn2.48xlarge --count 32 --seq 8192 --global-batch 1024 --compiled 32"
STEPS = "step=500,prefill_token=40,decode_seq=150,context_token=0.02"


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (f"plan {PLANNED}", 3.0),
        ("fabric cluster all_reduce -N 64 --all-steps", 1.0),
        (f"replay --requests 3000000 --rate 100 --linear {STEPS}", 2.0),
        ("generate smollm2 --max-tokens 999 --prompt 'Write a long story about a lighthouse keeper.'", 2.0),
    ],
    ids=["plan", "cluster", "replay", "generate"],
)
def test_sigterm_of_the_other_commands(folder: Path, words: str, after: float) -> None:
    status, errors = signalled(
        start(folder, *shlex.split(words), OPENTRN_CACHE=str(folder)), signal.SIGTERM, after
    )
    assert status == 143
    assert errors.startswith("opentrn: terminated")


def test_a_large_cluster_listens(folder: Path) -> None:
    """All steps of 128 machines, when they use a gigabyte, which the system takes back in a tenth of a second."""
    process = start(folder, *shlex.split("fabric cluster all_reduce -N 128 --all-steps"))
    status, errors = signalled(process, signal.SIGTERM, after=3.0)
    assert (status, errors) == (143, "opentrn: terminated\n")


def test_ctrl_c_while_the_program_is_loaded(folder: Path) -> None:
    said = "import os, signal, sys\nimport opentrn.base.hooks\nfrom opentrn.cli import main\n"
    process = subprocess.Popen(
        [sys.executable, "-c", said + textwrap.dedent("""
            class Late:
                def find_spec(self, name, path=None, target=None):
                    if name == "opentrn.cli.dispatch":
                        os.kill(os.getpid(), signal.SIGINT)
            sys.meta_path.insert(0, Late())
            sys.argv[1:] = ["ls"]
            main()
        """)],
        cwd=folder, env=dict(os.environ, PYTHONPATH=str(PYTHON)), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.communicate(timeout=60)[1].startswith("opentrn: interrupted\n")
    assert process.returncode == 130


def test_ctrl_c_says_where_a_kernel_stood(folder: Path) -> None:
    lines = f"({LOOP}|{LOOP + 1}|{LOOP + 2})"
    said = rf"opentrn: interrupted while computing\n    at .*endless\.py:{lines} in endless\n"
    _, errors = signalled(start(folder, "run", f"{KERNELS}:endless"), signal.SIGINT)
    assert re.fullmatch(said, errors)


def test_ctrl_c_says_what_a_compilation_did(folder: Path) -> None:
    _, errors = signalled(start(folder, "compile", "long.mlir", "--no-cache"), signal.SIGINT)
    assert "\n    at compiling: " in errors


def test_sigterm_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    process = start(
        folder, "compile", "long.mlir", "-o", str(tmp_path / "out.neuron"), OPENTRN_CACHE=str(tmp_path)
    )
    status, errors = signalled(process, signal.SIGTERM)
    assert status == 143
    assert errors.startswith("opentrn: terminated while ")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_sigterm_ends_a_kernel_that_is_python(folder: Path) -> None:
    status, errors = signalled(start(folder, "run", f"{KERNELS}:python"), signal.SIGTERM)
    assert status == 143
    assert "endless.py:" in errors and " in python" in errors


def says(process: subprocess.Popen[str], line: str, within: float) -> bool:
    """Whether the next line of stdout is this one. False where none comes within these seconds."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], within)[0]:
        return False
    assert process.stdout.readline() == f"{line}\n"
    return True


def test_a_second_sigterm_ends_the_process_at_once(folder: Path) -> None:
    # CPython 3.11 can lose sight of a signal that comes while the main thread takes the interpreter's lock: its handler
    # runs at the next signal (seen once, on a machine with many processes). Then another process has its turn.
    for _ in range(3):
        process = start(folder, "run", f"{KERNELS}:stubborn")
        try:
            assert says(process, "at work", within=120)
            process.send_signal(signal.SIGTERM)
            if not says(process, "dropped", within=20):
                continue
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == -signal.SIGTERM
        return
    pytest.fail("SIGTERM was not heard in three processes")


def test_sigterm_of_a_profiled_command(folder: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)",
    ]
    process = start(folder, "profile", "--", *command)
    while not (folder / "pid").exists() or not (pid := (folder / "pid").read_text()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    status, _ = signalled(process, signal.SIGTERM, after=0.0)
    assert status == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.mark.parametrize("kernel", ["endless", "python"])
def test_deadline(folder: Path, kernel: str) -> None:
    begin = time.perf_counter()
    process = start(folder, "run", f"{KERNELS}:{kernel}", "--deadline", "1.5")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 124
    assert time.perf_counter() - begin < 1.5 + 2 * SECONDS  # with the start of the process
    assert errors.startswith("opentrn: the deadline of 1.5 s is over while ")
    assert f" in {kernel}\n" in errors
    assert errors.rstrip().endswith("try: more seconds (--deadline, OPENTRN_DEADLINE), or less work")


def test_deadline_of_the_environment(folder: Path) -> None:
    process = start(folder, "compile", "long.mlir", "--no-cache", OPENTRN_DEADLINE="1.5")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 124
    assert "the deadline of 1.5 s is over" in errors


def test_deadline_of_a_profiled_command(folder: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = start(folder, "profile", "--deadline", "1", "--", *command)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 124
    assert "the deadline of 1 s is over" in errors


def test_command_within_its_deadline(folder: Path) -> None:
    process = start(folder, "run", "endless.mlir", "--loop-limit", "1000", "--deadline", "50")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "sim.while_iterations" in errors and "deadline" not in errors


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "1e12"])
def test_deadlines_that_are_none(folder: Path, text: str) -> None:
    process = start(folder, "run", f"{KERNELS}:endless", f"--deadline={text}")
    assert "is not a number of seconds" in process.communicate(timeout=60)[1]
    assert process.returncode == 2
    process = start(folder, "run", f"{KERNELS}:endless", OPENTRN_DEADLINE=text)
    assert "OPENTRN_DEADLINE" in process.communicate(timeout=60)[1]
    assert process.returncode == 2


def test_loop_limit_of_a_kernel(folder: Path) -> None:
    process = start(folder, "run", f"{KERNELS}:endless", "--loop-limit", "1000")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "a while loop ran 1000 times" in errors and f"endless.py:{LOOP} in endless" in errors


@pytest.mark.parametrize(
    "words",
    [
        "goodput --chips 65536 --model Llama-3.1-405B --runs 10000",
        "claims --all",
        f"replay --requests 20000 --rate 100 --linear {STEPS}",
        "plan DeepSeek-V3 --instance trn2.48xlarge --count 64 --seq 4096 --global-batch 4096",
    ],
    ids=lambda words: words.partition(" ")[0],
)
def test_a_command_listens_all_along(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status: list[int] = []
    assert longest_deafness(lambda: status.append(cli.main(shlex.split(words)))) < 0.2
    assert status == [0] and capsys.readouterr().out
