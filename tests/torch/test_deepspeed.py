"""Tests that DeepSpeed gets an accelerator for the device, with a package of DeepSpeed's shape."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

import opentrn.torch  # noqa: E402, F401
from opentrn.errors import InputError, NotModelled  # noqa: E402
from tests.torch import stand_in  # noqa: E402

FILES = {
    "__init__.py": "", "ops/__init__.py": "", "ops/op_builder/__init__.py": "", "accelerator/__init__.py": "",
    "ops/op_builder/cpu.py": "".join(
        f"class {name}Builder: pass\n" for name in ("CPUAdam", "FusedAdam", "NotImplemented")
    ),
    "accelerator/abstract_accelerator.py": (
        "import abc\n"
        "class DeepSpeedAccelerator(abc.ABC):\n"
        "    @abc.abstractmethod\n"
        "    def memory_cached(self, device_index=None): ...\n"
        "    @property\n"
        "    @abc.abstractmethod\n"
        "    def LongTensor(self): ...\n"
    ),
    "accelerator/real_accelerator.py": (
        "ds_accelerator = None\n"
        "def set_accelerator(accelerator):\n"
        "    global ds_accelerator\n"
        "    ds_accelerator = accelerator\n"
    ),
}  # fmt: skip


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with stand_in.package("deepspeed", FILES, tmp_path, monkeypatch):
        yield "deepspeed.accelerator.real_accelerator"


def test_the_accelerator_is_set_when_deepspeed_is_imported(package: str) -> None:
    found = importlib.import_module(package).ds_accelerator
    assert (found.device_name(), found.device_name(1)) == ("neuron", "neuron:1")
    assert found.communication_backend_name() == "neuron"
    x = found.LongTensor([1, 2])
    assert found.on_accelerator(x) and x.dtype == torch.int64 and not found.on_accelerator(x.cpu())
    assert found.memory_allocated() > 0 and found.memory_cached() >= found.memory_allocated()
    assert found.available_memory() < found.total_memory()
    with found.stream(found.Stream()):
        assert float((x + x).sum()) == 6
    assert found.create_op_builder("CPUAdamBuilder").__class__.__name__ == "CPUAdamBuilder"
    assert found.create_op_builder("FusedAdamBuilder").__class__.__name__ == "NotImplementedBuilder"
    with pytest.raises(InputError, match="no backend 'nothing'"):
        found.set_compile_backend("nothing")
    with pytest.raises(NotModelled, match="graphs of CUDA"):
        found.replay_graph(None)


def test_another_accelerator_stays_the_users_choice(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    assert importlib.import_module(package).ds_accelerator is None
