"""`torch.distributed` on the device: init_process_group("neuron"), one rank a core.

src/torch/group is the group; here is who its ranks are: processes that torchrun started, or threads of one process.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import thread as executor
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from opentrn import _core, _torch
from opentrn.errors import InputError
from opentrn.settings import environment
from opentrn.torch.imports import when_imported

_cores: list[int] = []
_told = False


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def cores(stated: environment.Environment) -> list[int]:
    """The logical cores of this process, neuron:0 and on.

    Where no variable of the runtime's says it, a process of torchrun sees the cores of all processes of its machine.
    """
    of_machine = _number("LOCAL_WORLD_SIZE")
    says = any(os.environ.get(name) for name in ("NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES"))
    if of_machine is None or _number("LOCAL_RANK") is None or says or len(stated.cores) > of_machine:
        return list(stated.cores)
    return list(range(of_machine))


def held(seen: list[int]) -> list[int]:
    """Of the cores that cores() gave, those that tools list this process on: a process of torchrun has its own."""
    local = _number("LOCAL_RANK")
    says = any(os.environ.get(name) for name in ("NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES"))
    return [seen[local]] if local is not None and not says and local < len(seen) else seen


def core_of(device: int) -> int:
    """The logical core of neuron:DEVICE."""
    return _cores[device]


def _bind() -> int:
    """The core of this rank: what the thread chose by set_device(), or that of torchrun's LOCAL_RANK."""
    local = _number("LOCAL_RANK")
    if local is not None and not _torch.has_chosen_device() and _torch.device_count() > 1:
        if local >= _torch.device_count():
            raise InputError(
                f"LOCAL_RANK is {local}, and there are {_torch.device_count()} cores",
                label="torch.device", hint="NEURON_RT_NUM_CORES=N for N processes, or no such variable",
            )  # fmt: skip
        _torch.set_default_device(local)
    return _torch.current_device()


def _make(options: Any, _backend_options: Any) -> Any:
    """What torch calls for every group: the c10d::Backend of this rank in it."""
    global _told
    device = _bind()
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    group, shares = _torch.make_group(
        options.store, str(options.group_id), options.group_rank, options.group_size, members,
        options.timeout.total_seconds(), device, _cores[device],
    )  # fmt: skip
    if shares and not _told and options.group_rank == 0:
        _told = True
        print(
            f"opentrn: several ranks of a process group are on core {_cores[device]}; their collectives are timed as "
            "if each rank had the core of its number",
            file=sys.stderr,
        )
    return group


_BACKWARD = torch.autograd.graph._engine_run_backward.__code__
_WITHOUT_WORK = executor._worker.__code__  # innermost: a thread of a pool that has nothing to do


def _joined(frame: FrameType) -> threading.Thread | None:
    """The thread whose end this one waits for, without a limit."""
    join: CodeType = threading.Thread.join.__code__
    if frame.f_code is not join and frame.f_back is not None:
        frame = frame.f_back
    if frame.f_code is not join or frame.f_locals.get("timeout") is not None:
        return None
    joined = frame.f_locals.get("self")
    return joined if isinstance(joined, threading.Thread) else None


def threads_that_may_call(waiting: list[int]) -> int:
    """How many threads that run Python, and wait in no group as those of `waiting` do, may still call one.

    One that runs a backward pass goes on when the pass has ended: not where the thread of the pass waits. Neither does
    one that joins a thread that waits, and a thread of a pool without work gets it from others.
    """
    of_python = {each.ident for each in threading.enumerate() if not isinstance(each, threading._DummyThread)}
    in_backward = any(ident not in of_python for ident in waiting)

    def may_call(ident: int, frame: FrameType) -> bool:
        if ident in waiting or frame.f_code is _WITHOUT_WORK or (in_backward and frame.f_code is _BACKWARD):
            return False
        joined = _joined(frame)
        return joined is None or joined.ident not in waiting

    return sum(may_call(ident, frame) for ident, frame in sys._current_frames().items())


def _join_fake(_module: ModuleType) -> None:
    """Groups of the backend `fake`, which one process plans with, know devices by a list that torch writes down."""
    kinds = torch.distributed.Backend.backend_capability["fake"]
    if "neuron" not in kinds:
        kinds.append("neuron")


def register(own: list[int]) -> None:
    """Gives torch.distributed the backend."""
    _cores[:] = own
    if not torch.distributed.is_available():
        return
    _torch.watch_for_deadlocks(environment.deadlock_seconds(), threads_that_may_call)
    _torch.set_collective_function(_core.collective_function())
    torch.distributed.Backend.register_backend("neuron", _make, extended_api=True, devices=["neuron"])
    when_imported("torch.testing._internal.distributed.fake_pg", _join_fake)
