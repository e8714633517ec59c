"""Tests that ranks that wait for each other in several groups get an error, soon, and no others do."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the group is torch's")

ROOT = Path(__file__).resolve().parents[2]
WORKER = ["tests/torch/deadlock_worker.py"]
PATIENCE = 2.0
SAID = re.compile(r"^(\w+) (\d) (gave|raised) (.*)$", re.MULTILINE)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(patience: float = PATIENCE) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "OPENTRN_DEADLOCK_SECONDS": str(patience)}


def start(command: list[str], ranks: int, patience: float = PATIENCE) -> list[subprocess.Popen[str]]:
    """The ranks as torchrun starts them, without it: it would end the others when one has ended."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={
                **environment(patience), "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            },
        )
        for rank in range(ranks)
    ]  # fmt: skip


def results(names: list[str], ranks: int, kind: str) -> dict[tuple[str, int], tuple[str, str]]:
    """(gave or raised, what) of each scenario and rank."""
    if kind == "processes":
        started = start([*WORKER, ",".join(names)], ranks)
        said = "".join("".join(process.communicate(timeout=300)) for process in started)
    else:
        done = subprocess.run(
            [sys.executable, *WORKER, ",".join(names), str(ranks)], cwd=ROOT, env=environment(), text=True,
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
    found = {(name, int(rank)): (how, what) for name, rank, how, what in SAID.findall(said)}
    assert sorted(found) == sorted((name, rank) for name in names for rank in range(ranks)), said[-4000:]
    return found


KINDS = ("threads", "processes")
# The last one of each leaves ranks behind that cannot make the next groups. Threads of a process share the thread that
# runs backward passes, and nobody looks at which of them are joined.
CIRCLES = [
    ("threads", 2, ["two_groups", "message_and_collective", "waits_later", "making_of_a_group"]),
    ("threads", 3, ["three_groups", "message_of_anybody"]),
    ("processes", 2, [
        "two_groups", "message_and_collective", "waits_later", "backward_pass", "thread_that_is_joined",
        "making_of_a_group",
    ]),
    ("processes", 3, ["three_groups", "leads_to_a_circle"]),
]  # fmt: skip
# What rank 0 waits in.
OPS = {
    "message_and_collective": r"recv \(Float \[1\], from rank 1, tag 7\)",
    "message_of_anybody": r"recv \(Float \[1\]\)",
    "making_of_a_group": r"the making of group \S+",
}
ALL_REDUCE = r"all_reduce \(SUM of Float, 1 elements\), call \d of group \S+"
LINE = r"(?: at \S*deadlock_worker\.py:\d+)"


@pytest.mark.parametrize(("kind", "ranks", "names"), CIRCLES)
def test_ranks_that_wait_for_each_other_are_an_error_on_all_of_them(kind: str, ranks: int, names: list[str]) -> None:
    """They waited for the timeout of the group: two minutes in these programs, half an hour where none is stated."""
    for (name, rank), (how, what) in results(names, ranks, kind).items():
        assert how == "raised", (name, what)
        if name in ("leads_to_a_circle", "message_of_anybody") and rank == 2 and re.search("has (left|ended)", what):
            continue  # the others had their error first
        assert "ranks wait for each other, and nothing has changed for " in what, (name, what)
        circle = ((0, 1), (1, 2), (2, 0)) if name == "three_groups" else ((0, 1), (1, 0))
        for waits, comes in circle:
            op = OPS.get(name, ALL_REDUCE) if waits == 0 else ALL_REDUCE
            where = rf"{op}{LINE}(?: of group \S+)?[;.]"
            assert re.search(rf"rank {waits} \(process \d+\) waits for rank {comes} in {where}", what), what
        if name == "leads_to_a_circle" and rank == 2:
            assert re.search(rf"So rank 2 \(process \d+\) waits for rank 0 in {ALL_REDUCE}{LINE}$", what), what


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_only_seem_to_wait_for_each_other_go_on(kind: str) -> None:
    right = {"slow": "2.0", "asynchronous": "[2.0, 2.0]", "another_thread": "2.0", "stated_limit": "2.0"}
    for (name, rank), (how, what) in results(list(right), 2, kind).items():
        assert how == "gave", (name, what)
        assert what == right[name] or rank == 1, (name, what)


ENDS = """
import os, signal, sys, time
import torch, torch.distributed as dist
import opentrn.torch
dist.init_process_group("neuron")
x = torch.ones(1, device="neuron")
dist.all_reduce(x)
if dist.get_rank() == 1:
    print("came", flush=True)
    if sys.argv[1] == "exit":
        raise SystemExit(0)
    time.sleep(600)
try:
    dist.new_group([0, 1]) if sys.argv[2] == "group" else dist.all_reduce(x)
except dist.DistBackendError as fault:
    print("raised", fault, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("how", ["exit", "kill"])
@pytest.mark.parametrize("what", ["group", "collective"])
def test_a_rank_that_has_ended_is_named_at_once(how: str, what: str, tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS)
    first, second = start([str(script), how, what], 2, patience=60)
    assert second.stdout is not None and second.stdout.readline() == "came\n"
    if how == "kill":
        second.send_signal(signal.SIGKILL)
    second.wait(60)
    began = time.monotonic()
    said, _ = first.communicate(timeout=60)
    assert re.search(r"rank 1 \(process \d+.*\),? (has left|has ended|which has ended)", said), said
    assert time.monotonic() - began < 15


ELSEWHERE = """
import datetime, os, sys, time
import torch, torch.distributed as dist
import opentrn.torch
dist.init_process_group("cpu:gloo,neuron:neuron", timeout=datetime.timedelta(seconds=6))
x = torch.ones(1, device="neuron")
dist.all_reduce(x)
x.item()
try:
    if dist.get_rank() == 1:
        dist.all_reduce(x)
        x.item()
    elif sys.argv[1] == "gloo":
        dist.all_reduce(torch.ones(1))
    else:
        dist.distributed_c10d._get_default_store().get("what nobody sets")
except (RuntimeError, dist.DistBackendError) as fault:
    print("raised", fault, flush=True)
time.sleep(5)  # the other's error is of a rank that is still there
os._exit(0)
"""


@pytest.mark.parametrize("where", ["gloo", "store"])
def test_a_rank_that_waits_in_gloo_or_a_store_is_named_by_those_that_wait_for_it(where: str, tmp_path: Path) -> None:
    """Its own wait is PyTorch's and ends by the timeout of its group; nobody waits longer."""
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)
    began = time.monotonic()
    (theirs, _), (ours, note) = [one.communicate(timeout=120) for one in start([str(script), where], 2, patience=60)]
    named = (
        r"rank 1 waits in all_reduce \(SUM of Float, 1 elements\), call 2 at \S*elsewhere.py:11, for [\d.]+ s; these "
        r"have not come: rank 0 \(process \d+, neuron:0\) is elsewhere, after call 1 of this group, all_reduce "
        r"\(SUM of Float, 1 elements\) at \S*elsewhere.py:7"
    )
    assert re.search(rf"^raised process group neuron 0: {named}", ours), ours
    assert re.search(rf"^opentrn: process group neuron 0: {named}", note, re.MULTILINE), note  # before the timeout
    assert re.search("^raised .*([Tt]imed out|timeout|closed by peer|reset by peer)", theirs), theirs
    assert time.monotonic() - began < 110


def test_the_variable_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentrn.errors import InputError
    from opentrn.settings import environment as settings

    monkeypatch.setenv("OPENTRN_DEADLOCK_SECONDS", "0.5")
    assert settings.deadlock_seconds() == 0.5
    monkeypatch.setenv("OPENTRN_DEADLOCK_SECONDS", "soon")
    with pytest.raises(InputError, match="OPENTRN_DEADLOCK_SECONDS is 'soon'; it takes seconds"):
        settings.deadlock_seconds()
