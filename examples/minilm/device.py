"""Runs a kernel on the simulated NeuronCore: its values and, once per kernel and dtype, its time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import opentrn.nki as nki


@dataclass(frozen=True)
class Execution:
    """One run of one kernel."""

    values: np.ndarray
    host_s: float  # how long this computer took


def execute(kernel: Any, operands: dict[str, np.ndarray], target: str) -> Execution:
    """Runs `kernel(**operands)` on a NeuronCore of `target` ("trn1", "trn2", "trn3")."""
    start = time.perf_counter()
    values = nki.simulate(kernel, target=target)(**operands)
    return Execution(values, time.perf_counter() - start)
