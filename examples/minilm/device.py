"""Runs a kernel on the simulated NeuronCore: its values, its predicted time, what bounds it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import opentrn

_SHARES_SHOWN = 3


@dataclass(frozen=True)
class Execution:
    """One run of one kernel."""

    values: np.ndarray
    host_s: float  # how long this computer took, values and time together
    run: opentrn.RunResult

    @property
    def device_us(self) -> float:
        """Predicted time on the device, without the launch."""
        return self.run.time_us

    @property
    def bound_by(self) -> str:
        """What the critical path consists of, largest first: "DMA engines 36 %, Vector engine 25 %"."""
        shares = self.run.timing.profile()["bound_by"]["shares"][:_SHARES_SHOWN]
        return ", ".join(f"{share['resource']} {share['percent']:.0f} %" for share in shares)

    def save_profile(self, folder: Path, name: str) -> Path:
        """Writes the profile page (HTML) and the Perfetto trace; returns the page."""
        folder.mkdir(parents=True, exist_ok=True)
        self.run.save_perfetto(folder / f"{name}.perfetto.json")
        return self.run.save_html(folder / f"{name}.html")


def execute(kernel: Any, operands: dict[str, np.ndarray], target: str) -> Execution:
    """Runs `kernel(**operands)` on one NeuronCore of `target` ("trn2", "trn3")."""
    start = time.perf_counter()
    run = opentrn.run(kernel, target=target, **operands)
    return Execution(run.outputs, time.perf_counter() - start, run)
