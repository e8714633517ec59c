"""`torch.neuron`: the device's module, with the names that programs for Trainium call.

Times of streams and events are those of the simulated core, in milliseconds as torch has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from opentrn import _core, _torch
from opentrn.errors import InputError
from opentrn.settings import environment

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "default_stream", "device", "device_count", "empty_cache",
    "get_amp_supported_dtype", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "init", "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "memory_stats", "memory_summary", "reset_peak_memory_stats", "seed", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "simulated_time_us", "stream", "synchronize",
]  # fmt: skip

Device: TypeAlias = "int | str | torch.device | None"


def _index(device: Device) -> int:
    if device is None:
        return _torch.current_device()
    if isinstance(device, int):
        return device
    place = torch.device(device)
    if place.type != "neuron":
        raise InputError(f"Expected a neuron device, but got: {place}", label="torch.device", hint="neuron or neuron:0")
    return _torch.current_device() if place.index is None else place.index


# ---- devices -----------------------------------------------------------------------------------------------------


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


# torch.utils.checkpoint keeps the state of a device's random numbers only where its module has this name; without it a
# block that is run again for its gradient would draw other numbers than it did the first time.
_initialized = True


def init() -> None:
    """Does nothing: the simulated cores are there from the import on."""


def _lazy_init() -> None:
    """As init(), under the name that torch calls."""


def _is_in_bad_fork() -> bool:
    """False: a forked process has cores of its own, with what its parent had in memory."""
    return False


def device_count() -> int:
    return _torch.device_count()


def current_device() -> int:
    return _torch.current_device()


def set_device(device: Device) -> None:
    index = _index(device)
    if index >= 0:
        _torch.set_device(index)


class device:  # noqa: N801  (torch's name)
    """Makes a device the current one in a block; None or -1 changes nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _torch.exchange_device(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0:
            _torch.exchange_device(self.prev_idx)


@dataclass(frozen=True)
class NeuronDeviceProperties:
    name: str  # trn1, trn2, ...
    total_memory: int  # bytes of HBM of one logical core
    multi_processor_count: int = 1


def get_device_properties(device: Device = None) -> NeuronDeviceProperties:
    _index(device)
    stated = environment.read()
    memory = _core.memory_of_core(stated.chip, stated.physical_cores_per_core)
    return NeuronDeviceProperties(stated.target.strip().lower().partition(".")[0], memory)


def get_device_name(device: Device = None) -> str:
    return get_device_properties(device).name


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16, torch.float32]


# ---- streams and time --------------------------------------------------------------------------------------------

Stream = torch.Stream
Event = torch.Event


def synchronize(device: Device = None) -> None:
    torch.accelerator.synchronize(_index(device))


def current_stream(device: Device = None) -> torch.Stream:
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: Device = None) -> torch.Stream:
    index = _index(device)
    kind = torch.accelerator.current_stream(index).device_type
    return torch.Stream(stream_id=0, device_index=index, device_type=kind)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """What the block does goes to that stream."""
    if stream is None:
        yield
        return
    with stream:
        yield


def simulated_time_us(device: Device = None) -> float:
    """What the current stream of the device has taken so far, by the timing model."""
    index = _index(device)
    return _torch.stream_time_ns(index, current_stream(index).stream_id) / 1e3


def _sleep(cycles: int) -> None:
    """What tests of PyTorch take for a kernel that lasts long: the current stream takes so many nanoseconds more."""
    if cycles < 0:
        raise InputError(f"{cycles} cycles", label="torch.device", hint="zero or more")
    _torch.note_time(_index(None), "sleep", float(cycles))


def _advance(place: torch.device, what: str, ns: float) -> None:
    """For compiled graphs: the current stream of the device takes so much longer, for what the profiler calls so."""
    _torch.note_time(_index(place), what, ns)


# ---- random numbers ----------------------------------------------------------------------------------------------


def _generator(device: Device) -> torch.Generator:
    return _torch.default_generator(_index(device))


def get_rng_state(device: Device = None) -> Tensor:
    return _generator(device).get_state()


def set_rng_state(new_state: Tensor, device: Device = None) -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for i in range(device_count()):
        _generator(i).manual_seed(int(seed))


def seed() -> int:
    return _generator(None).seed()


def initial_seed() -> int:
    return _generator(None).initial_seed()


# ---- memory ------------------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Nothing is cached: memory is given back when its tensor goes."""
    torch.accelerator.empty_cache()


def memory_stats(device: Device = None) -> dict[str, Any]:
    return torch.accelerator.memory_stats(_index(device))


def memory_allocated(device: Device = None) -> int:
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device: Device = None) -> int:
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device: Device = None) -> int:
    return torch.accelerator.memory_reserved(_index(device))


def max_memory_reserved(device: Device = None) -> int:
    return torch.accelerator.max_memory_reserved(_index(device))


def reset_peak_memory_stats(device: Device = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_index(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, all) bytes of a core's HBM."""
    return torch.accelerator.get_memory_info(_index(device))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """What a core holds, in lines."""
    free, total = mem_get_info(device)
    rows = [
        ("allocated", memory_allocated(device)), ("allocated at most", max_memory_allocated(device)),
        ("free", free), ("HBM of the core", total),
    ]  # fmt: skip
    if not abbreviated:
        rows.append(("tensors", memory_stats(device).get("allocation.all.current", 0)))
    lines = [f"{name:<18} {value:>16,}" for name, value in rows]
    return "\n".join([f"neuron:{_index(device)}, bytes", *lines])


# ---- torch.compile with its default backend ----------------------------------------------------------------------


class _Refuses(type):
    """Of a class whose members nobody can read: the first that Inductor asks for ends the compilation."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            return type.__getattribute__(cls, name)  # that it is missing
        raise InputError(
            "Inductor, the default backend of torch.compile, makes no code for the device neuron",
            label="torch.inductor",
            hint='torch.compile(..., backend="neuron")',
        )


class _NoInductor(metaclass=_Refuses):
    """What Inductor asks a device's module for when it is to make code for it."""


Scheduling = PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = _NoInductor
