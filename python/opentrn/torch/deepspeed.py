"""DeepSpeed's accelerator for the device: what `deepspeed.accelerator` asks of one, in torch.neuron's words.

DeepSpeed chooses among a list of its own; set_accelerator() is its public way for others, and is called when DeepSpeed
is imported where DS_ACCELERATOR does not name another.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from types import ModuleType
from typing import Any

import torch

from opentrn.errors import InputError, NotModelled
from opentrn.torch import imports

_MODULE = "deepspeed.accelerator.real_accelerator"
# The builders of C++ for the host; an op for another device's processor has none here.
_BUILDERS = "deepspeed.ops.op_builder.cpu"
# Methods that torch.neuron has by the same name, of no argument or of one that is a device.
_OF_DEVICE = (
    "synchronize", "get_rng_state", "current_stream", "default_stream", "memory_allocated", "max_memory_allocated",
    "memory_stats", "reset_peak_memory_stats", "memory_reserved", "max_memory_reserved",
)  # fmt: skip
_OF_NOTHING = ("current_device", "device_count", "initial_seed", "empty_cache", "is_available", "is_bf16_supported")
_OTHER_NAMES = {
    "memory_cached": "memory_reserved", "max_memory_cached": "max_memory_reserved",
    "reset_max_memory_allocated": "reset_peak_memory_stats", "reset_max_memory_cached": "reset_peak_memory_stats",
}  # fmt: skip
_TENSORS = {
    "BFloat16Tensor": torch.bfloat16, "ByteTensor": torch.uint8, "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32, "HalfTensor": torch.float16, "IntTensor": torch.int32, "LongTensor": torch.int64,
}  # fmt: skip


def _of_device(name: str) -> Any:
    return lambda self, device_index=None: getattr(torch.neuron, name)(device_index)


def _of_nothing(name: str) -> Any:
    return lambda self: getattr(torch.neuron, name)()


def _tensor(dtype: torch.dtype) -> property:
    return property(lambda self: functools.partial(torch.tensor, dtype=dtype, device="neuron"))


def _delegated() -> dict[str, Any]:
    members = {name: _of_device(name) for name in _OF_DEVICE}
    members |= {name: _of_device(other) for name, other in _OTHER_NAMES.items()}
    members |= {name: _of_nothing(name) for name in _OF_NOTHING}
    return members | {name: _tensor(dtype) for name, dtype in _TENSORS.items()}


class _Device:
    """Cores, their streams, random numbers and memory."""

    # A core runs its programs in order, and the host waits where it asks for a value.
    def is_synchronized_device(self) -> bool:
        return False

    def use_host_timers(self) -> bool:
        return False

    def resolves_data_dependency(self) -> bool:
        return False

    def handles_memory_backpressure(self) -> bool:
        return False

    def device_name(self, device_index: int | None = None) -> str:
        return "neuron" if device_index is None else f"neuron:{device_index}"

    def current_device_name(self) -> str:
        return f"neuron:{torch.neuron.current_device()}"

    def device(self, device_index: int | None = None) -> Any:
        return torch.neuron.device(device_index)

    def set_device(self, device_index: int) -> None:
        torch.neuron.set_device(device_index)

    def random(self) -> ModuleType:
        return torch.random

    def set_rng_state(self, new_state: torch.Tensor, device_index: int | None = None) -> None:
        torch.neuron.set_rng_state(new_state, device_index)

    def manual_seed(self, seed: int) -> None:
        torch.neuron.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.neuron.manual_seed_all(seed)

    def default_generator(self, device_index: int) -> torch.Generator:
        return torch.neuron._generator(device_index)

    @property
    def Stream(self) -> Any:
        return torch.neuron.Stream

    @property
    def Event(self) -> Any:
        return torch.neuron.Event

    def stream(self, stream: Any) -> Any:
        return torch.neuron.stream(stream)

    def total_memory(self, device_index: int | None = None) -> int:
        return int(torch.neuron.mem_get_info(device_index)[1])

    def available_memory(self, device_index: int | None = None) -> int:
        return int(torch.neuron.mem_get_info(device_index)[0])


class _Abilities:
    """What the device can do, and whose graphs and ranges it does without."""

    def is_fp16_supported(self) -> bool:
        return True

    def is_fp64_supported(self) -> bool:  # 32 bits of it: docs/pytorch.md
        return False

    def supported_dtypes(self) -> list[torch.dtype]:
        return [torch.float32, torch.float16, torch.bfloat16]

    # There are no ranges of another profiler's to push.
    def range_push(self, msg: str, domain: Any = None, category: Any = None) -> None: ...

    def range_pop(self, domain: Any = None) -> None: ...

    def lazy_call(self, callback: Any) -> Any:
        return callback()

    def communication_backend_name(self) -> str:
        return "neuron"

    def is_triton_supported(self) -> bool:
        return False

    def create_graph(self) -> None:  # DeepSpeed asks only where it was told to use CUDA's graphs
        return None

    def capture_to_graph(self, graph: Any, pool: Any = None, stream: Any = None) -> Any:
        return contextlib.nullcontext()

    def replay_graph(self, graph: Any) -> None:
        raise NotModelled(
            "DeepSpeed's graphs of CUDA have no form on the device neuron",
            label="torch.deepspeed", hint='torch.compile(model, backend="neuron")',
        )  # fmt: skip

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "neuron"


class _Surroundings:
    """Builders of ops, variables of the environment, and what torch.compile compiles by."""

    _compile_backend: str

    def op_builder_dir(self) -> str:
        return _BUILDERS

    def get_op_builder(self, class_name: str) -> Any:
        builders = importlib.import_module(_BUILDERS)
        missing = builders.NotImplementedBuilder
        return getattr(builders, class_name, missing) if class_name.startswith("CPU") else missing

    def create_op_builder(self, class_name: str) -> Any:
        return self.get_op_builder(class_name)()

    def build_extension(self) -> Any:
        return importlib.import_module("torch.utils.cpp_extension").BuildExtension

    def export_envs(self) -> list[str]:
        return ["NEURON", "OPENTRN"]

    def visible_devices_envs(self) -> list[str]:
        return ["NEURON_RT_VISIBLE_CORES"]

    def set_visible_devices_envs(self, current_env: dict[str, str], local_accelerator_ids: list[int]) -> None:
        current_env["NEURON_RT_VISIBLE_CORES"] = ",".join(map(str, local_accelerator_ids))

    def get_compile_backend(self) -> str:
        return self._compile_backend

    def set_compile_backend(self, backend: str) -> None:
        known = torch._dynamo.list_backends(exclude_tags=())
        if backend not in known:
            raise InputError(
                f"torch.compile has no backend {backend!r}",
                label="torch.deepspeed", hint=f"one of {', '.join(known)}",
            )  # fmt: skip
        self._compile_backend = backend


def accelerator() -> type:
    """The class, of the DeepSpeed that is installed."""
    base: Any = importlib.import_module("deepspeed.accelerator.abstract_accelerator").DeepSpeedAccelerator

    def __init__(self: Any) -> None:
        base.__init__(self)
        self._name = self._communication_backend_name = self._compile_backend = "neuron"

    delegated = type("Delegated", (base,), _delegated())
    own = (_Device, _Abilities, _Surroundings)
    members = {"__init__": __init__, "__doc__": "Simulated NeuronCores."}
    return type("NeuronAccelerator", (*own, delegated), members)


def _set(module: ModuleType) -> None:
    if os.environ.get("DS_ACCELERATOR", "neuron") == "neuron" and module.ds_accelerator is None:
        module.set_accelerator(accelerator()())


def watch() -> None:
    """Sets the accelerator now, or when DeepSpeed is imported."""
    imports.when_imported(_MODULE, _set)
