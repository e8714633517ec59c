"""Time of the cores' streams and of training steps, for `opentrn profile -- COMMAND` and profiled blocks.

Where a program's tensors are on the device, its stream has a clock, which counts launches, programs, copies and what it
waits for. A step is what lies between two ends of an optimizer's step(); of several optimizers that with most counts.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


@dataclass
class _Steps:
    """Of one optimizer: how often its step() has ended, and when for the first and for the last time."""

    device: int
    first_us: float
    last_us: float
    count: int = 1


def _now_us(device: int) -> float:
    return torch.neuron.simulated_time_us(device)


def _devices() -> range:
    return range(torch.neuron.device_count() if hasattr(torch, "neuron") else 0)


@dataclass
class Clocks:
    """What the clocks of this process's cores have counted since it was made."""

    began_us: dict[int, float] = field(default_factory=lambda: {each: _now_us(each) for each in _devices()})
    _by_optimizer: weakref.WeakKeyDictionary[Any, _Steps] = field(default_factory=weakref.WeakKeyDictionary)
    _steps: list[_Steps] = field(default_factory=list)  # of optimizers that are no more, too
    _handle: Any = None

    def __post_init__(self) -> None:
        self._handle = register_optimizer_step_post_hook(self._after_step)

    def _after_step(self, optimizer: torch.optim.Optimizer, _args: Any, _keywords: Any) -> None:
        if torch.compiler.is_compiling():  # a compiled step() is a program of its own
            return
        parameter = next((each for group in optimizer.param_groups for each in group["params"]), None)
        if parameter is None or parameter.device.type != "neuron":
            return
        now = _now_us(parameter.device.index)
        steps = self._by_optimizer.get(optimizer)
        if steps is None:
            self._by_optimizer[optimizer] = steps = _Steps(parameter.device.index, now, now)
            self._steps.append(steps)
        else:
            steps.count, steps.last_us = steps.count + 1, now

    def rows(self) -> list[dict[str, Any]]:
        """Of each core whose clock went on: what src/profile/programs.h calls a CoreClock."""
        found = []
        for device in _devices():
            stream_us = _now_us(device) - self.began_us.get(device, 0.0)
            if stream_us <= 0:
                continue
            own = [steps for steps in self._steps if steps.device == device]
            most = max(own, key=lambda steps: steps.count, default=_Steps(device, 0, 0))
            found.append(
                {
                    "device": device, "stream_us": stream_us, "steps": most.count - 1,
                    "steps_us": most.last_us - most.first_us,
                }
            )  # fmt: skip
        return found

    def end(self) -> list[dict[str, Any]]:
        """The rows; steps count no more."""
        self._handle.remove()
        return self.rows()


def memory_peak() -> int:
    """Bytes of tensors of the device at most, of the core that had most; 0 without a device."""
    reads: Callable[[int], int] = torch.neuron.max_memory_allocated if hasattr(torch, "neuron") else lambda _: 0
    return max((reads(device) for device in _devices()), default=0)
