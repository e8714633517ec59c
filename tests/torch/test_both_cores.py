"""PyTorch at LNC 2: both physical cores of a logical one compute, op by op and compiled, with the values of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.package import PYTHON

pytest.importorskip("torch", reason="the device is PyTorch's")

ROOT = Path(__file__).resolve().parents[2]


def run(path: Path, **environment: str) -> dict:
    variables = dict(
        os.environ, NEURON_PLATFORM_TARGET_OVERRIDE="trn2.3xlarge", PYTHONPATH=f"{PYTHON}:{ROOT}"
    )
    done = subprocess.run(
        [sys.executable, "tests/torch/both_cores.py", str(path)],
        cwd=ROOT, env=variables | environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict, dict]]:
    """By how many cores of a logical one compute: what the program said, and its values."""
    found = {}
    for which in ("one", "both"):
        path = tmp_path_factory.mktemp(which) / "values.npz"
        found[which] = (run(path, OPENTRN_LOGICAL_CORE=which), dict(np.load(path)))
    return found


def test_values_are_those_of_one_core(ran: dict) -> None:
    one, both = ran["one"][1], ran["both"][1]
    assert set(one) == set(both)
    for name, value in one.items():
        np.testing.assert_allclose(both[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(
    "program, most",
    [
        ("mlp", 0.6),
        ("aten::mm", 0.65),
        ("forward_2_forward", 0.7),
        ("forward_2_backward", 0.7),
        ("around", 0.8),
    ],
)
def test_both_cores_are_faster_and_are_named(ran: dict, program: str, most: float) -> None:
    (one, _), (both, _) = ran["one"], ran["both"]
    name = next(name for name in one["us"] if name.startswith(program))
    assert both["us"][name] < most * one["us"][name]
    assert one["used"][name] == [1, None, "OPENTRN_LOGICAL_CORE=one"]
    assert both["used"][name][0] == 2 and both["used"][name][1]


def test_a_program_without_a_gain_stays_on_one_core_and_says_why(ran: dict) -> None:
    both = ran["both"][0]
    assert both["used"]["aten::add.out"] == [1, None, "no cut of it promises to be faster"]
    assert both["us"]["aten::add.out"] == ran["one"][0]["us"]["aten::add.out"]


def test_the_cache_keeps_what_both_cores_run(tmp_path: Path) -> None:
    cache = {"OPENTRN_CACHE": str(tmp_path / "cache")}
    first = run(tmp_path / "first.npz", **cache)
    entries = sorted((tmp_path / "cache").rglob("*.neuron"))
    again = run(tmp_path / "again.npz", **cache)
    assert entries and sorted((tmp_path / "cache").rglob("*.neuron")) == entries
    assert again == first and first["used"]["aten::add.out"][2]
    before, after = np.load(tmp_path / "first.npz"), np.load(tmp_path / "again.npz")
    assert all((before[name] == after[name]).all() for name in before.files)
