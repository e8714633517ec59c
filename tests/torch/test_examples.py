"""Programs of examples/ on the device and in torch on the CPU."""

from __future__ import annotations

import runpy
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_an_application_scores_as_the_cpu_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On scikit-learn's own table; the program ends with an error where scores are further apart than rounding."""
    pytest.importorskip("sklearn", reason="whose data the example reads")
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    monkeypatch.setattr(sys, "argv", ["credit_torch.py", "--data", "breast", "--steps", "20"])
    runpy.run_path(str(ROOT / "examples" / "credit_torch.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    device, cpu = (
        next(line for line in lines if line.strip().startswith(name)) for name in ("device:", "CPU:")
    )
    figures = [
        [float(word.strip("%,")) for word in line.split() if word[0].isdigit()] for line in (device, cpu)
    ]
    assert figures[0][0] > 90.0 and figures[0][1] > 0.95
    np.testing.assert_allclose(figures[0], figures[1], atol=2e-6)


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="the reference")
    import torch

    area = runpy.run_path(str(ROOT / "examples" / "credit_torch.py"))["area"]
    random = np.random.default_rng(0)
    for _ in range(20):
        y = np.concatenate([[0, 1], random.integers(0, 2, 30)])
        scores = random.integers(0, 9, 32) / 4  # with ties
        found = area(torch.tensor(scores), torch.tensor(y))
        np.testing.assert_allclose(found, metrics.roc_auc_score(y, scores), rtol=1e-12)


@pytest.mark.parametrize(
    ("example", "asks", "package"),
    [
        ("recommend_torch.py", lambda names: names["table"]("item"), "pip install --no-deps recbole"),
        ("speech_onnx.py", lambda names: names["model_file"](), "pip install --no-deps silero-vad"),
        (
            "speech_onnx.py",
            lambda names: names["samples"](Path("absent.wav")),
            "apt-get install pocketsphinx",
        ),
    ],
)
def test_absent_data_is_named_with_the_command_that_brings_it(
    example: str, asks: Callable[[dict[str, Any]], object], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    names = runpy.run_path(str(ROOT / "examples" / example))
    with pytest.raises(SystemExit, match=package):
        asks(names)


def test_what_is_no_recording_is_refused_with_its_shape(tmp_path: Path) -> None:
    samples = runpy.run_path(str(ROOT / "examples" / "speech_onnx.py"))["samples"]
    text = tmp_path / "text.wav"
    text.write_text("no sound")
    with pytest.raises(SystemExit, match="no WAV file"):
        samples(text)
    stereo = tmp_path / "stereo.wav"
    with wave.open(str(stereo), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(bytes(4096))
    with pytest.raises(SystemExit, match="2 channels of 16 bits at 44100 Hz"):
        samples(stereo)
