"""Tests that Lightning's Trainer finds the device, with a package of Lightning's shape."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

import opentrn.torch  # noqa: E402, F401
from opentrn.errors import InputError  # noqa: E402
from tests.torch import stand_in  # noqa: E402

FILES = {
    "__init__.py": "",
    "accelerators.py": (
        "class Accelerator: pass\n"
        "class Registry(dict):\n"
        "    def register(self, name, accelerator, description): self[name] = accelerator\n"
        "AcceleratorRegistry = Registry()\n"
    ),
    "strategies.py": "class SingleDeviceStrategy:\n    def __init__(self, device): self.root_device = device\n",
    "trainer/__init__.py": "", "trainer/connectors/__init__.py": "",
    "trainer/connectors/accelerator_connector.py": (
        "class _AcceleratorConnector:\n    def _choose_strategy(self): return 'ddp'\n"
    ),
}  # fmt: skip


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with stand_in.package("pytorch_lightning", FILES, tmp_path, monkeypatch):
        yield importlib.import_module("pytorch_lightning")


def test_the_accelerator_registers_itself(package: Any) -> None:
    accelerators = importlib.import_module("pytorch_lightning.accelerators")
    accelerator = accelerators.AcceleratorRegistry["neuron"]()
    devices = accelerator.get_parallel_devices("auto")
    assert devices == [torch.device("neuron", i) for i in range(torch.neuron.device_count())]
    connector = importlib.import_module("pytorch_lightning.trainer.connectors.accelerator_connector")
    chosen = connector._AcceleratorConnector()
    chosen._parallel_devices, chosen._num_nodes_flag = devices[:1], 1
    assert chosen._choose_strategy().root_device == torch.device("neuron:0")
    chosen._parallel_devices = [torch.device("cpu")]
    assert chosen._choose_strategy() == "ddp"
    with pytest.raises(InputError, match="this process has"):
        accelerator.parse_devices(99)
    with pytest.raises(InputError, match="not neuron"):
        accelerator.setup_device(torch.device("cpu"))
