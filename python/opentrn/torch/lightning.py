"""`Trainer(accelerator="neuron")` of Lightning: an accelerator that registers itself when Lightning is imported.

Lightning has no entry points for accelerators, and takes the CPU for one device of an accelerator that is none of its
own; so what chooses the strategy is told the device here.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from opentrn.errors import InputError
from opentrn.torch import imports

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _count(devices: Any) -> list[int]:
    """Numbers of cores, from Trainer(devices=...): a number, a list, "0,1", "auto" or -1."""
    there = torch.neuron.device_count()
    if devices in ("auto", -1, "-1"):
        return list(range(there))
    if isinstance(devices, str):
        devices = [int(each) for each in devices.split(",") if each.strip()] if "," in devices else int(devices)
    chosen = list(range(devices)) if isinstance(devices, int) else list(devices)
    if not chosen or any(not 0 <= each < there for each in chosen):
        raise InputError(
            f"devices={devices!r}: this process has {there} NeuronCores", label="torch.device",
            hint="NEURON_RT_NUM_CORES, set before torch is imported, says how many there are",
        )  # fmt: skip
    return chosen


def _accelerator(package: str) -> Any:
    base: Any = importlib.import_module(f"{package}.accelerators").Accelerator

    class NeuronAccelerator(base):
        """Simulated NeuronCores."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != "neuron":
                raise InputError(
                    f"the strategy's device is {device}, not neuron", label="torch.device",
                    hint='strategy=SingleDeviceStrategy(device="neuron:0"), or none',
                )  # fmt: skip
            torch.neuron.set_device(device)

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return torch.neuron.memory_stats(device)

        def teardown(self) -> None:
            torch.neuron.empty_cache()

        parse_devices = staticmethod(_count)

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            return [torch.device("neuron", each) for each in _count(devices)]

        @staticmethod
        def auto_device_count() -> int:
            return torch.neuron.device_count()

        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def name() -> str:
            return "neuron"

    return NeuronAccelerator


def _choosing(package: str, plain: Any) -> Any:
    strategies = importlib.import_module(f"{package}.strategies")

    @functools.wraps(plain)
    def choose(self: Any) -> Any:
        devices = self._parallel_devices
        if len(devices) == 1 and devices[0].type == "neuron" and self._num_nodes_flag == 1:
            return strategies.SingleDeviceStrategy(device=devices[0])
        return plain(self)

    return choose


def _register(package: str) -> None:
    accelerators = importlib.import_module(f"{package}.accelerators")
    if "neuron" in accelerators.AcceleratorRegistry:
        return
    accelerators.AcceleratorRegistry.register("neuron", _accelerator(package), description="NeuronCores, simulated")
    connector = importlib.import_module(f"{package}.trainer.connectors.accelerator_connector")._AcceleratorConnector
    connector._choose_strategy = _choosing(package, connector._choose_strategy)


def watch() -> None:
    """Registers now, or when Lightning is imported; once."""
    for package in _PACKAGES:
        imports.when_imported(package, lambda module: _register(module.__name__))
