"""What a rank of tests/torch/test_process_group.py does: every collective on neuron, and the same on gloo."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import opentrn.torch  # noqa: F401

Case = Callable[[str, int, int], Any]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def brought(place: str, rank: int, shape: tuple[int, ...] = (6, 4), dtype: torch.dtype = torch.float32) -> Any:
    """The same on every place; whole numbers, so that sums are exact in any order."""
    numbers = torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(7 + rank))
    return numbers.to(dtype).to(place)


TYPES = (
    torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8,
    torch.bool, torch.complex64,
)  # fmt: skip


@case
def works_that_nobody_waits_for(place: str, rank: int, _size: int) -> Any:
    """More calls than a group remembers, of which every other one is waited for: both ranks waited for ever."""
    for _ in range(70):
        dist.all_reduce(brought(place, rank), async_op=True)
        waited = brought(place, rank)
        dist.all_reduce(waited)
    return waited


@case
def all_reduce(place: str, rank: int, _size: int) -> Any:
    results = []
    for dtype in TYPES:
        tensor = brought(place, rank, dtype=dtype)
        if dtype == torch.bool and place == "cpu":  # gloo has no bool: true counts as 1, and so "or" is its sum
            wide = tensor.int()
            dist.all_reduce(wide)
            results.append(wide > 0)
        else:
            dist.all_reduce(tensor)
            results.append(tensor)
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT, dist.ReduceOp.BXOR, dist.ReduceOp.BOR):
        tensor = (brought("cpu", rank, dtype=torch.int64) + (1 << 33)).to(place)
        dist.all_reduce(tensor, op)
        results.append(tensor)
    scattered = brought(place, rank)[:, ::2]
    if place == "cpu":  # gloo sums the memory that a tensor with gaps begins in
        scattered = scattered.contiguous()
    dist.all_reduce(scattered)
    return [*results, scattered]


@case
def average(place: str, rank: int, size: int) -> Any:
    tensor = brought(place, rank)
    dist.all_reduce(tensor, dist.ReduceOp.SUM if place == "cpu" else dist.ReduceOp.AVG)
    return tensor / size if place == "cpu" else tensor


@case
def all_gather(place: str, rank: int, size: int) -> Any:
    own = brought(place, rank, dtype=torch.uint8)
    parts = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(parts, own)
    whole = torch.empty(size * 6, 4, dtype=torch.int64, device=place)
    dist.all_gather_into_tensor(whole, brought(place, rank, dtype=torch.int64))
    return [*parts, whole]


@case
def reduce_scatter(place: str, rank: int, size: int) -> Any:
    given = brought(place, rank, (size * 3, 2))
    one = torch.empty(3, 2, device=place)
    dist.reduce_scatter(one, list(given.chunk(size)))
    parts = [brought(place, rank, (2 * each + 1,)) for each in range(size)]
    own = torch.empty(2 * rank + 1, device=place)
    if place == "cpu":  # gloo has neither
        for each in parts:
            dist.all_reduce(each)
        return [one, one, parts[rank]]
    dist.reduce_scatter(own, parts)
    whole = torch.empty(3, 2, device=place)
    dist.reduce_scatter_tensor(whole, given)
    return [one, whole, own]


@case
def roots(place: str, rank: int, size: int) -> Any:
    results = []
    for root in range(size):
        spread, summed = brought(place, rank), brought(place, rank)
        dist.broadcast(spread, root)
        dist.reduce(summed, root)
        parts = [torch.empty(2, device=place) for _ in range(size)] if rank == root else None
        dist.gather(brought(place, rank, (2,)), parts, root)
        part = torch.empty(2, device=place)
        dist.scatter(part, list(brought(place, rank, (size, 2)).unbind()) if rank == root else None, root)
        results += [spread, summed if rank == root else spread, part, *(parts or [])]
    return results


@case
def all_to_all(place: str, rank: int, size: int) -> Any:
    sends = [1 + (rank + to) % 3 for to in range(size)]
    receives = [1 + (source + rank) % 3 for source in range(size)]
    out = torch.empty(sum(receives), 2, device=place)
    dist.all_to_all_single(out, brought(place, rank, (sum(sends), 2)), receives, sends)
    even = torch.empty(size, 2, device=place)
    dist.all_to_all_single(even, brought(place, rank, (size, 2)))
    return [out, even]


@case
def messages(place: str, rank: int, size: int) -> Any:
    after, before = (rank + 1) % size, (rank - 1) % size
    first, second = torch.empty(3, device=place), torch.empty(2, device=place, dtype=torch.int64)
    works = [dist.irecv(first, before), dist.irecv(second, before, tag=5)]
    dist.isend(brought(place, rank, (2,), torch.int64), after, tag=5).wait()
    dist.isend(brought(place, rank, (3,)), after).wait()
    for work in reversed(works):
        work.wait()
    third = torch.empty(3, device=place)
    operations = [dist.P2POp(dist.isend, first, after), dist.P2POp(dist.irecv, third, before)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    own = torch.empty(2, device=place)
    if place == "cpu":  # gloo has no messages to oneself
        return [first, second, third, brought(place, rank, (2,))]
    operations = [dist.P2POp(dist.isend, brought(place, rank, (2,)), rank), dist.P2POp(dist.irecv, own, rank)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return [first, second, third, own]


@case
def objects(_place: str, rank: int, size: int) -> Any:
    every: list[Any] = [None] * size
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank})
    shared = [every if rank == 0 else None]
    dist.broadcast_object_list(shared)
    assert every == shared[0] == [{"rank": i, "text": "x" * i} for i in range(size)]
    dist.barrier()
    return []


@case
def groups(place: str, rank: int, size: int) -> Any:
    pairs = [dist.new_group([i, i + 1], backend="gloo" if place == "cpu" else None) for i in range(0, size, 2)]
    tensor = brought(place, rank)
    dist.all_reduce(tensor, group=pairs[rank // 2], async_op=True).wait()
    return [tensor]


def main() -> None:
    dist.init_process_group("cpu:gloo,neuron:neuron", timeout=datetime.timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert torch.neuron.current_device() == rank
    for name, function in CASES.items():
        expected, found = function("cpu", rank, size), function("neuron", rank, size)
        for i, (a, b) in enumerate(zip(expected, found, strict=True)):
            assert b.device.type == "neuron", (name, i)
            assert torch.equal(a, b.cpu()), f"{name} {i}, rank {rank}: {b.cpu()} where gloo has {a}"
        print(f"{name}: {len(found)} on rank {rank}\n", end="", flush=True)  # one write: ranks share the pipe
    tensor = torch.ones(1 << 18, device="neuron")
    before = torch.neuron.simulated_time_us()
    dist.all_reduce(tensor)
    took = torch.neuron.simulated_time_us() - before
    assert 10 < took < 1000, took
    work = dist.all_reduce(tensor, async_op=True)
    late = torch.neuron.simulated_time_us()
    assert work.get_future().wait()[0] is not None and torch.neuron.simulated_time_us() > late + 10
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
