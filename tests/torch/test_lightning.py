"""Tests that Lightning's Trainer finds the device, with a package of Lightning's shape."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

import opentrn.torch  # noqa: E402, F401
from opentrn.errors import InputError  # noqa: E402

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
    if importlib.util.find_spec("pytorch_lightning") is not None:
        pytest.skip("Lightning itself is here; conformance/hf runs it")
    for name, text in FILES.items():
        path = tmp_path / "pytorch_lightning" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("pytorch_lightning")
    for name in [each for each in sys.modules if each.startswith("pytorch_lightning")]:
        del sys.modules[name]


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
