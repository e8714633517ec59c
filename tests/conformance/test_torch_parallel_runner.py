"""Tests of the runner of other projects' FSDP2, DTensor and TP tests, conformance/torch_parallel."""

from __future__ import annotations

import time
import unittest
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the suite is torch's")

from conformance.torch_parallel import run as suite  # noqa: E402

SOURCE = """
import unittest

class TestThings(unittest.TestCase):
    def test_device(self):
        self.assertEqual("npu:0 hccl FSDPNPUTest", "neuron:0 neuron FSDPNPUTest")
        self.assertEqual("cuda:0 nccl common_cuda version.cuda", "neuron:0 neuron common_cuda version." + "cu" "da")
    def test_wrong(self):
        raise ValueError("not what was asked")
    @unittest.skip("no reason")
    def test_skipped(self): ...
"""


def test_a_file_for_the_other_device_is_run_for_this_one(tmp_path: Path) -> None:
    path = tmp_path / "test_things.py"
    path.write_text(SOURCE)
    found = list(suite.cases(suite.load(path, "test_things_of_another")))
    outcomes = {name: suite.run_one(kind, name, 60) for kind, name in found}
    assert outcomes == {
        "test_device": ("passed", ""),
        "test_skipped": ("skipped", "no reason"),
        "test_wrong": ("failed", "ValueError: not what was asked"),
    }


def test_a_test_that_does_not_end_fails() -> None:
    class Endless(unittest.TestCase):
        def test_it(self) -> None:
            time.sleep(1000)

    outcome, why = suite.run_one(Endless, "test_it", 0.2)
    assert outcome == "failed" and "not done" in why


def test_exclusions_are_by_file_and_test_and_say_why() -> None:
    rows = suite.tomllib.loads((suite.HERE / "exclusions.toml").read_text())
    assert all(len(reason) > 10 for tests in rows.values() for reason in tests.values())
    file = "test/distributed/fsdp2/test_fully_shard_comm.py"
    assert "128 threads" in suite.reason_of(rows, file, "TestFullyShardCollectiveOps.test_all_gather_fp32")
    assert suite.reason_of(rows, file, "TestOther.test_all_gather_fp32") == ""
    assert suite.reason_of(rows, "test/other.py", "TestFullyShardCollectiveOps.test_all_gather_fp32") == ""
