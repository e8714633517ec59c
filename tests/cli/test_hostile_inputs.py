"""Files that commands read beside models: what is no file is not waited for, and small ones ask for little."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package import PYTHON

TIMES = ("--linear", "step=500,prefill_token=40,decode_seq=150,context_token=0.02")
MODEL = str(Path(__file__).parents[2] / "examples" / "mlp.mlir")
PLAN = ("plan", "Llama-3.1-8B", "--instance", "trn2.48xlarge", "--seq", "8192", "--global-batch", "1024")


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))


def refused(folder: Path, *words: str) -> str:
    """What is on stderr of a command that ends by itself, with the status of a bad input."""
    done = subprocess.run(
        [sys.executable, "-m", "opentrn", *words], cwd=folder, capture_output=True, text=True, timeout=60,
        env=dict(os.environ, PYTHONPATH=str(PYTHON), OPENTRN_CACHE=str(folder / "cache")), preexec_fn=limits,
    )  # fmt: skip
    assert done.returncode == 2, (done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr and len(done.stderr) < 10_000
    return done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "{}", *TIMES),
        ("replay", "--requests", "9", "--step-times", "{}"),
        ("fabric", "job", "{}"),
        (*PLAN, "--price-file", "{}"),
        ("ls", "--tables", "{}"),
        ("compile", "{}"),
        ("opt", "{}"),
        ("run", MODEL, "--mesh", "tp=2", "--shardings", "{}"),
    ],
    ids=["trace", "step-times", "job", "prices", "tables", "compile", "opt", "shardings"],
)
def test_fifos_and_devices_are_not_read(tmp_path: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "/dev/zero"):
        said = refused(tmp_path, *(word.format(name) for word in words))
        assert f"{name}' is not a regular file" in said or f"{name} is not a regular file" in said


@pytest.mark.parametrize("command", ["run", "profile", "disasm"])
def test_a_fifo_is_no_program(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "fifo" in refused(tmp_path, command, "fifo")
    (tmp_path / "f.onnx").symlink_to("fifo")
    assert "not a regular file" in refused(tmp_path, command, "f.onnx")


def test_a_fifo_is_no_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert "config.json' is not a regular file" in refused(tmp_path, "step-times", "config.json")


def test_aliases_of_a_job_are_counted(tmp_path: Path) -> None:
    """Each block repeats the steps of the one before a hundred times, by name: 1 KB that stand for 10^14 steps."""
    blocks = ["{name: b0, steps: [&l0 {compute: 5us}]}"]
    for i in range(1, 8):
        names = ", ".join([f"*l{i - 1}"] * 100)
        blocks.append(f"{{name: b{i}, steps: [&l{i} {{steps: [{names}]}}]}}")
    (tmp_path / "job.yaml").write_text("axes: {tp: 64}\nblocks: [" + ",\n  ".join(blocks) + "]\n")
    assert "a job of more than 20000 steps" in refused(tmp_path, "fabric", "job", "job.yaml")


@pytest.mark.parametrize("option", ["tables", "prices"])
def test_tables_that_nest_without_end(tmp_path: Path, option: str) -> None:
    (tmp_path / "deep.toml").write_text("[" + ".".join(["a"] * 100_000) + "]\nb = 1\n")
    words = ("ls", "--tables") if option == "tables" else (*PLAN, "--price-file")
    assert "deep.toml:1" in refused(tmp_path, *words, "deep.toml")


def test_a_source_of_prices_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[source]\nmine = 3\n")
    assert "source 'mine' is not text" in refused(tmp_path, *PLAN, "--price-file", "p.toml")


def test_a_line_without_end(tmp_path: Path) -> None:
    (tmp_path / "sparse.csv").write_bytes(b"")
    os.truncate(tmp_path / "sparse.csv", 1 << 40)
    assert "a line of more than 16 MiB" in refused(tmp_path, "replay", "sparse.csv", *TIMES)
