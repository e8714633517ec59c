"""Tests that torch.distributed's backend `neuron` computes what gloo computes, and tells who waits for whom."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the group is torch's")
import torch.distributed as dist  # noqa: E402

import opentrn.torch  # noqa: E402, F401
from opentrn import _torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def torchrun(ranks: int, *command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *command],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=timeout, check=False,
    )  # fmt: skip


def test_every_collective_of_processes_gives_what_gloo_gives() -> None:
    done = torchrun(2, "tests/torch/collectives_worker.py")
    assert done.returncode == 0, done.stderr[-4000:]
    from tests.torch.collectives_worker import CASES

    said = re.findall(r"^(\w+): \d+ on rank (\d)$", done.stdout, re.MULTILINE)
    assert sorted(said) == sorted((name, str(rank)) for name in CASES for rank in range(2))


def test_layers_of_parallel_training_are_right_on_two_ranks() -> None:
    done = torchrun(2, "tests/torch/parallel_worker.py")
    assert done.returncode == 0, done.stderr[-4000:]
    from tests.torch.parallel_worker import CASES

    said = re.findall(r"^(\w+): right on rank (\d)$", done.stdout, re.MULTILINE)
    assert sorted(said) == sorted((name, str(rank)) for name in CASES for rank in range(2))


class Group:
    """Ranks as threads: `run` calls a function with each rank's group, and gives back what each gave or raised."""

    def __init__(self, size: int, seconds: float = 20) -> None:
        store = dist.HashStore()
        self.size = size
        self.groups: list[Any] = [None] * size

        def make(rank: int) -> None:
            made, _ = _torch.make_group(store, "test", rank, size, list(range(size)), seconds, 0, 0)
            self.groups[rank] = made

        self._each(lambda rank: make(rank))

    def _each(self, function: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * self.size

        def call(rank: int) -> None:
            try:
                results[rank] = function(rank)
            except Exception as fault:
                results[rank] = fault

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        return results

    def run(self, function: Callable[[Any, int], Any]) -> list[Any]:
        return self._each(lambda rank: function(self.groups[rank], rank))


def on(values: Any, dtype: torch.dtype = torch.float32) -> Any:
    return torch.tensor(values, dtype=dtype).to("neuron")


def test_ranks_may_be_threads_of_one_process() -> None:
    def step(group: Any, rank: int) -> Any:
        x = on([rank, 1.0])
        group.allreduce([x]).wait()
        return x.cpu().tolist()

    assert Group(4).run(step) == [[6.0, 4.0]] * 4


def test_ranks_on_two_machines_are_refused_by_name() -> None:
    store = dist.HashStore()

    def elsewhere() -> None:  # rank 1, which says what rank 0 says but for the machine
        *words, _ = store.get("opentrn/0").decode().split()
        store.set("opentrn/1", " ".join([*words, "elsewhere"]))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with pytest.raises(RuntimeError, match="rank 1 is on elsewhere and rank 0 on .*; all ranks of a group run on one"):
        _torch.make_group(store, "two", 0, 2, [0, 1], 20, 0, 0)
    thread.join()


def test_sums_are_in_the_order_of_the_plan_and_the_same_on_all_ranks() -> None:
    # 256 + 1 + 1 in bfloat16: rounded once, after a sum in float32, by the mesh of a small group.
    def step(group: Any, rank: int) -> Any:
        x = on([256.0 if rank == 0 else 1.0], torch.bfloat16)
        group.allreduce([x]).wait()
        return x.cpu().tolist()

    assert Group(3).run(step) == [[258.0]] * 3


def test_a_mismatch_names_ranks_and_calls_on_all_ranks_and_the_group_goes_on() -> None:
    def step(group: Any, rank: int) -> Any:
        x = on([1.0] * (4 + 4 * rank))
        with pytest.raises(dist.DistBackendError, match="ranks call different things as call 1") as raised:
            group.allreduce([x]).wait()
        group.barrier().wait()
        return str(raised.value)

    for text in Group(2).run(step):
        assert "rank 0: all_reduce (SUM of Float, 4 elements)" in text
        assert re.search(r"rank 1: all_reduce \(SUM of Float, 8 elements\) at \S*process_group\.py:\d+", text), text


def test_parts_of_an_exchange_that_do_not_fit_name_both_ranks() -> None:
    def step(group: Any, rank: int) -> Any:
        sizes = [[1, 2], [1, 1]][rank]
        with pytest.raises(dist.DistBackendError, match="rank 0 has 8 bytes for rank 1, which expects 4"):
            group.alltoall_base(on([0.0] * 2), on([0.0] * sum(sizes)), [1, 1], sizes).wait()
        return True

    assert Group(2).run(step) == [True, True]


@pytest.mark.parametrize("root", [7, -3])
def test_a_root_that_there_is_not_is_refused(root: int) -> None:
    """A gather or a scatter wrote outside of its lists of sizes."""

    def step(group: Any, rank: int) -> Any:
        x = [on([1.0, 2.0])]
        calls = {
            "gather": lambda options: group.gather([], x, options),
            "scatter": lambda options: group.scatter(x, [], options),
            "broadcast": lambda options: group.broadcast(x, options),
            "reduce": lambda options: group.reduce(x, options),
        }
        for name, call in calls.items():
            options = getattr(dist, f"{name.capitalize()}Options")()
            options.rootRank = root
            with pytest.raises(ValueError, match=rf"{name} .*: the root is rank {root}; there are ranks 0 to 1"):
                call(options)
        group.allreduce(x).wait()
        return x[0].cpu().tolist()

    assert Group(2).run(step) == [[2.0, 4.0]] * 2


def test_lists_and_splits_that_cannot_be_are_refused() -> None:
    def step(group: Any, rank: int) -> Any:
        four = on([0.0] * 4)
        with pytest.raises(RuntimeError, match="the output splits -1 5 are not the 4 rows for 2 ranks|input splits"):
            group.alltoall_base(on([0.0] * 4), four, *([[-1, 5], [5, -1]][rank],) * 2)
        with pytest.raises(RuntimeError, match="all_reduce got no tensor"):
            group.allreduce([])
        with pytest.raises(RuntimeError, match="takes dense tensors, not Sparse"):
            group.allreduce([torch.eye(2).to_sparse()])
        with pytest.raises(RuntimeError, match="2 inputs and 1 outputs of a rank"):
            group.allgather_coalesced([[four], [four]], [four, four])
        return True

    assert Group(2).run(step) == [True, True]


def test_a_rank_that_never_comes_is_named_with_what_it_waits_for() -> None:
    def step(group: Any, rank: int) -> Any:
        with pytest.raises(dist.DistBackendError) as raised:
            if rank == 0:
                group.allreduce([on([1.0])]).wait(datetime.timedelta(seconds=2))
            else:
                group.recv([on([1.0])], 0, 3).wait(datetime.timedelta(seconds=4))
        return str(raised.value)

    first, second = Group(2).run(step)
    place = r"at \S*test_process_group\.py:\d+"
    assert re.search(rf"rank 0 waits in all_reduce \(SUM of Float, 1 elements\), call 1 {place}, for 2\.", first)
    assert re.search(r"have not come: rank 1 .* waits in recv \(Float \[1\], from rank 0, tag 3\)", first)
    assert re.search(r"rank 1 waits in recv .* rank 0 .* after call 1 of this group, all_reduce", second)


def test_a_long_wait_is_told_before_it_ends(capfd: pytest.CaptureFixture[str]) -> None:
    """Two groups in other orders: torch's limit is half an hour, in which nothing was said."""
    first, second = Group(2, seconds=4), Group(2, seconds=4)

    def step(group: Any, rank: int) -> Any:
        mine = (first if rank == 0 else second).groups[rank]
        with pytest.raises(dist.DistBackendError, match="have not come"):
            mine.allreduce([on([1.0])]).wait()
        return True

    assert first.run(step) == [True, True]
    said = capfd.readouterr().err.splitlines()
    told = [line for line in said if line.startswith("opentrn: process group neuron test: ")]
    assert len(told) == 2, said
    for rank in range(2):
        pattern = rf"rank {rank} waits in all_reduce .* for 0\.[4-9].* s; these have not come: rank {1 - rank} "
        assert any(re.search(pattern, line) for line in told), told


def test_a_rank_that_has_left_ends_the_wait_at_once() -> None:
    ranks = Group(2, seconds=60)
    ranks.groups[1] = None
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="rank 1 .* has left the group after call 0"):
        ranks.groups[0].barrier().wait()
    assert time.monotonic() - began < 5


def test_a_group_whose_ranks_do_not_come_says_so() -> None:
    with pytest.raises(dist.DistBackendError, match="rank 0 has waited 1 s for rank 1, which has not made the group"):
        _torch.make_group(dist.HashStore(), "lonely", 0, 2, [0, 1], 1.0, 0, 0)


def test_many_calls_that_nobody_waits_for_are_done_in_the_end() -> None:
    def step(group: Any, rank: int) -> Any:
        tensors = [on([float(i)]) for i in range(200)]
        works = [group.allreduce([x]) for x in tensors]
        works[-1].wait()
        assert all(work.is_completed() for work in works)
        return [x.item() for x in tensors]

    assert Group(2).run(step) == [[2.0 * i for i in range(200)]] * 2


def test_what_the_device_cannot_reduce_says_what_to_do() -> None:
    group, _ = _torch.make_group(dist.HashStore(), "one", 0, 1, [0], 5.0, 0, 0)
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    with pytest.raises(RuntimeError, match="averages floating point only, not Long: take the SUM and divide"):
        group.allreduce([on([1], torch.int64)], options)
    with pytest.raises(RuntimeError, match="tensors on neuron, not on cpu"):
        group.allreduce([torch.ones(1)])
    x = on([3.0])
    group.allreduce([x]).wait()
    assert x.item() == 3.0


@pytest.mark.parametrize("options", [[], ["--shard"]])
def test_losses_of_data_parallel_training_do_not_depend_on_the_ranks(options: list[str]) -> None:
    pytest.importorskip("sklearn")
    losses = {}
    for ranks in (1, 2):
        done = torchrun(ranks, "examples/ddp_torch.py", "--steps=20", *options)
        assert done.returncode == 0, done.stderr[-4000:]
        losses[ranks] = [float(line.split()[-1]) for line in done.stdout.splitlines() if "loss" in line]
    assert len(losses[1]) == 2 and losses[1][1] < losses[1][0]
    assert losses[2] == pytest.approx(losses[1], abs=2e-4)

