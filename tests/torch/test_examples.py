"""The GPT of examples/ on the device and in eager torch."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the example is torch's")

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--steps", "4", "--width", "32", "--layers", "1", "--heads", "2", "--context", "32", "--batch", "4"]


def losses(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[float]:
    monkeypatch.setattr(sys, "argv", ["char_gpt_torch.py", "--backend", backend, *SMALL])
    runpy.run_path(str(ROOT / "examples" / "char_gpt_torch.py"), run_name="__main__")
    return [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if "loss" in line]


def test_the_gpt_trains_as_in_eager_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    device, eager = (losses(backend, monkeypatch, capsys) for backend in ("neuron", "eager"))
    assert len(device) == 4 and device[-1] < device[0]
    np.testing.assert_allclose(device, eager, atol=2e-5)
