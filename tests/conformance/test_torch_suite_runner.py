"""Tests of the runner of PyTorch's own device tests, conformance/torch_suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the suite is torch's")

from conformance.torch_suite import run as suite  # noqa: E402

SOURCE = """
import os, time, unittest, warnings
import torch
from torch.testing._internal.common_utils import TestCase, skipIfNothingOfTheKind, a_helper_of_the_past
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_methods_invocations import binary_ufuncs_and_refs  # by its name of 2.6
from torch.testing._internal.common_mkldnn import a_switch_of_the_past
from torch.testing._internal.common_utils import a_list_of_the_past

assert len(binary_ufuncs_and_refs) > 10 and ["cpu"] + a_list_of_the_past == ["cpu"]

class TestThings(TestCase):
    @skipIfNothingOfTheKind
    @dtypes(torch.float32, torch.float64)
    def test_sum(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual((x.device.type, x.sum().item()), ("neuron", 3))
    @a_switch_of_the_past(0.05)
    def test_wrong(self, device):
        self.assertEqual(device, "cpu")
    def test_old(self, device):
        self.assertEqual(torch.ones(2, device=device), torch.zeros(2, device=device))
    def test_dies(self, device):
        if device != "cpu": os._exit(1)
    def test_endless(self, device):
        while device != "cpu": ...
    def test_of_the_past(self, device):
        a_helper_of_the_past(1)
    def test_warns(self, device):
        with warnings.catch_warnings(record=True) as found:
            warnings.warn("one")
        self.assertEqual(len(found), 1)
    @onlyCUDA
    def test_cuda(self, device): ...

instantiate_device_type_tests(TestThings, globals())
"""


def test_tests_for_a_device_run_on_this_one_and_one_that_ends_its_process_does_not_end_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_things.py").write_text(SOURCE)
    words = [str(tmp_path), "--files", "test/test_things.py", "--limit", "3"]
    done = subprocess.run([sys.executable, suite.__file__, *words], text=True, capture_output=True, check=False)
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    rows = dict(reversed(line.split(maxsplit=1)) for line in lines if not line.startswith("on the CPU"))
    short = {name.partition("_neuron")[0].rpartition(".")[2]: outcome for name, outcome in rows.items()}
    assert short == {
        "test_cuda": "skipped", "test_dies": "failed", "test_endless": "failed", "test_of_the_past": "skipped",
        "test_old": "failed", "test_sum": "passed", "test_warns": "passed", "test_wrong": "failed",
    }, done.stdout + done.stderr[-2000:]  # fmt: skip
    assert "test_dies_neuron: its process died" in done.stdout and "not done after 3 s of processor time" in done.stdout
    again = [line for line in lines if line.startswith("on the CPU, too: ")]
    assert len(again) == 1 and "test_old_neuron" in again[0]
    assert "2 passed, 3 failed, 2 skipped, 2 excluded" in done.stdout  # float64 and what the CPU does not pass
    assert done.returncode == 1


def test_exclusions_say_why() -> None:
    rows = suite.tomllib.loads((suite.HERE / "exclusions.toml").read_text())
    assert all(len(reason) > 10 for tests in rows.values() for reason in tests.values())


@pytest.mark.parametrize(("text", "reason"), [
    ("torch.autograd.gradcheck.GradcheckError: Jacobian mismatch for output 0", "finite differences"),
    ("x.GradcheckError: Jacobian computed with forward mode mismatch for output 0", "finite differences"),
    ("InputError: input error [model.range]: -9 of input2[0] does not fit the 32 bits that", "need 64 bits"),
    ("The following dtypes worked in forward but are not listed by the OpInfo: {torch.float16}.", "16 bits"),
    ("The following dtypes worked in forward but are not listed by the OpInfo: {torch.float16, torch.int8}.", ""),
    ("The following dtypes did not work in forward but are listed by the OpInfo: {torch.float16}.", ""),
    ("AssertionError: Tensor-likes are not close!", ""),
])  # fmt: skip
def test_what_the_device_does_not_claim_is_told_from_failures(text: str, reason: str) -> None:
    found = suite.beyond_the_device(text)
    assert reason in found and bool(found) == bool(reason)
