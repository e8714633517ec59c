"""Ranks that wait for each other, and ranks that only seem to: a scenario of tests/torch/test_deadlocks.py.

`python deadlock_worker.py NAME,NAME RANKS` runs these one after the other by threads; under torchrun (or with its
variables) this is one of the ranks.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import opentrn.torch  # noqa: F401
from opentrn import _torch

PATIENCE = float(os.environ["OPENTRN_DEADLOCK_SECONDS"])
LIMIT = 120.0  # of every group: a test that comes so far has found no deadlock


class World:
    """Groups of one rank, which is a process of torchrun's or, with `store`, a thread."""

    def __init__(self, rank: int, store: Any = None) -> None:
        self.rank, self._store = rank, store
        self.scenario = ""
        if store is None:
            dist.init_process_group("neuron", timeout=datetime.timedelta(seconds=LIMIT))

    def group(self, name: str, *ranks: int) -> Any:
        if self._store is None:
            return dist.new_group(list(ranks), timeout=datetime.timedelta(seconds=LIMIT))
        if self.rank not in ranks:
            return None
        name = f"{self.scenario}-{name}"
        store = dist.PrefixStore(name, self._store)
        return _torch.make_group(store, name, ranks.index(self.rank), len(ranks), list(ranks), LIMIT, 0, 0)[0]


def one() -> Any:
    return torch.ones(1, device="neuron")


def summed(group: Any) -> float:
    x = one()
    group.allreduce([x]).wait()
    return float(x.item())


# ---- nobody can go on


def two_groups(world: World) -> Any:
    groups = [world.group("first", 0, 1), world.group("second", 0, 1)]
    return summed(groups[world.rank])


def three_groups(world: World) -> Any:
    groups = [world.group("a", 0, 1), world.group("b", 1, 2), world.group("c", 0, 2)]
    return summed(groups[world.rank])


def message_and_collective(world: World) -> Any:
    group = world.group("all", 0, 1)
    if world.rank == 0:
        group.recv([one()], 1, 7).wait()
    return summed(group)


def message_of_anybody(world: World) -> Any:
    group, all_ = world.group("some", 0, 1), world.group("all", 0, 1, 2)
    if world.rank == 0:
        all_.recv_anysource([one()], 0).wait()
    return summed(group if world.rank == 1 else all_)


def making_of_a_group(world: World) -> Any:
    group = world.group("all", 0, 1)
    if world.rank == 0:
        world.group("more", 0, 1)
    return summed(group)


def waits_later(world: World) -> Any:
    """Rank 0 has posted its part of the second group's call; rank 1 has not posted that of the first."""
    first, second = world.group("first", 0, 1), world.group("second", 0, 1)
    if world.rank == 0:
        return summed(first)
    x = one()
    work = second.allreduce([x])
    work.wait()
    return summed(first)


class InBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        summed(ctx.group)
        return grads[0], None


def backward_pass(world: World) -> Any:
    groups = [world.group("first", 0, 1), world.group("second", 0, 1)]
    InBackward.apply(one().requires_grad_(), groups[world.rank]).sum().backward()


def thread_that_is_joined(world: World) -> Any:
    groups = [world.group("first", 0, 1), world.group("second", 0, 1)]
    raised: list[BaseException] = []

    def call() -> None:
        try:
            summed(groups[world.rank])
        except dist.DistBackendError as fault:
            raised.append(fault)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    raise raised[0]


def leads_to_a_circle(world: World) -> Any:
    first, second, third = world.group("a", 0, 1), world.group("b", 0, 1), world.group("c", 0, 2)
    return summed([first, second, third][world.rank])


# ---- somebody can


def slow(world: World) -> Any:
    groups = [world.group("first", 0, 1), world.group("second", 0, 1)]
    for group in groups:
        if world.rank == 1:
            time.sleep(2 * PATIENCE)
        result = summed(group)
    return result


def asynchronous(world: World) -> Any:
    """In two orders, which is right where nobody waits between."""
    groups = [world.group("first", 0, 1), world.group("second", 0, 1)]
    tensors = [one(), one()]
    order = (0, 1) if world.rank == 0 else (1, 0)
    works = [groups[i].allreduce([tensors[i]]) for i in order]
    if world.rank == 1:
        time.sleep(2 * PATIENCE)
    for work in works:
        work.wait()
    return [x.item() for x in tensors]


def another_thread(world: World) -> Any:
    """The thread has never called a group before, where ranks are processes."""
    first, second = world.group("first", 0, 1), world.group("second", 0, 1)
    if world.rank == 1:
        return summed(second), summed(first)

    def late() -> None:
        if world._store is not None:
            world.group("own", 0)  # a thread is known as one of rank 0 when it has called as it
        time.sleep(3 * PATIENCE)
        summed(second)

    thread = threading.Thread(target=late)
    thread.start()
    result = summed(first)
    thread.join()
    return result


def stated_limit(world: World) -> Any:
    """Rank 0 stops waiting, as it said, and makes the other call."""
    first, second = world.group("first", 0, 1), world.group("second", 0, 1)
    if world.rank == 1:
        return summed(second), summed(first)
    x = one()
    work = first.allreduce([x])
    try:
        work.wait(datetime.timedelta(seconds=3 * PATIENCE))
    except dist.DistBackendError:
        summed(second)
    work.wait()
    return x.item()


SCENARIOS: dict[str, Callable[[World], Any]] = {
    each.__name__: each
    for each in (
        two_groups, three_groups, message_and_collective, message_of_anybody, making_of_a_group, waits_later,
        backward_pass, thread_that_is_joined, leads_to_a_circle, slow, asynchronous, another_thread, stated_limit,
    )
}  # fmt: skip


def run(names: str, world: World) -> None:
    for world.scenario in names.split(","):
        try:
            said = f"gave {SCENARIOS[world.scenario](world)}"
        except dist.DistBackendError as fault:
            said = f"raised {fault}"
        sys.stdout.write(f"{world.scenario} {world.rank} {' '.join(said.split())}\n")  # at once: others write too
        sys.stdout.flush()


def main() -> None:
    names = sys.argv[1]
    if "RANK" in os.environ:
        run(names, World(int(os.environ["RANK"])))
        time.sleep(PATIENCE)  # the others' errors are theirs
        os._exit(0)
    store = dist.HashStore()
    threads = [threading.Thread(target=run, args=(names, World(rank, store))) for rank in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
