"""Tensors and executions of PyTorch's device `neuron` in the reports: of each core, and of a forked child its own."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch", reason="the device is torch's")

SYS = "sys/devices/virtual/neuron_device"
CORE = f"{SYS}/neuron1/neuron_core0/stats"
PROGRAM = textwrap.dedent(
    """
    import os, subprocess, sys
    import torch
    import opentrn.torch
    def tree(name):
        subprocess.run([sys.executable, "-m", "opentrn", "device-tree", "--root", sys.argv[1] + name], check=True)
    first = torch.ones(512, 512, device="neuron:0")
    second = torch.ones(256, 256, device="neuron:1")
    for _ in range(3):
        third = second @ second
    torch.compile(lambda x: x.sin().cos(), backend="neuron")(first)
    tree("/two")
    if os.fork() == 0:
        del first, second, third  # of the parent
        own = torch.ones(128, 128, device="neuron:1")
        tree("/child")
        os._exit(0)
    assert os.wait()[1] == 0
    del first
    tree("/one")
    print(subprocess.run([sys.executable, "-m", "opentrn", "neuron-ls", "-j"], check=True, capture_output=True).stdout
          .decode())
    """
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """(the folder of the trees, the devices of neuron-ls with processes on them)."""
    folder = tmp_path_factory.mktemp("torch")
    environment = dict(
        os.environ, OPENTRN_RUN_DIR=str(folder / "run"), NEURON_RT_VISIBLE_CORES="3-4",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2.48xlarge",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder], env=environment, check=True, capture_output=True, text=True
    )
    listed = [each["neuron_device"] for each in json.loads(done.stdout) if each["neuron_processes"]]
    return folder, listed


def tensors(folder, name, core):
    """Bytes now: logical core 3 is the last of device 0, and core 4 the first of device 1."""
    place = folder / name / SYS / core / "stats/memory_usage/device_mem/tensors"
    return int((place / "total").read_text())


def completed(folder, name, core):
    return int((folder / name / SYS / core / "stats/status/success/total").read_text())


FIRST, SECOND = "neuron0/neuron_core3", "neuron1/neuron_core0"


def test_both_devices_have_the_process(seen):
    assert seen[1] == [0, 1]


def test_tensors_count_on_their_core_while_they_live(seen):
    folder, _ = seen
    assert tensors(folder, "two", FIRST) == 512 * 512 * 4
    assert tensors(folder, "two", SECOND) == 2 * 256 * 256 * 4
    assert tensors(folder, "one", FIRST) == 0


def test_executions_count_on_the_core_of_their_tensors(seen):
    folder, _ = seen
    before = completed(folder, "two", SECOND)
    assert before >= 3 + 1  # the products and what fills a tensor
    assert completed(folder, "two", FIRST) >= 2  # what fills a tensor, and what torch.compile made


def test_a_forked_child_counts_its_own_tensors_only(seen):
    folder, _ = seen
    assert tensors(folder, "child", SECOND) == tensors(folder, "two", SECOND) + 128 * 128 * 4


def test_a_process_of_torchrun_is_listed_on_its_own_core(monkeypatch):
    from opentrn.torch import process_group

    for name in ("NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert process_group.held([0, 1, 2, 3]) == [2]
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "4")
    assert process_group.held([0, 1, 2, 3]) == [0, 1, 2, 3]
