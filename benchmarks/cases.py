"""The cases of ./dev bench: a kernel of examples/, its inputs, the speed wanted over the NumPy interpreter."""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

TARGET = "trn2"


@dataclass(frozen=True)
class Case:
    """`inputs(quick)` gives the kernel's arguments."""

    name: str
    module: str
    kernel: str
    inputs: Callable[[bool], dict[str, np.ndarray]]
    target_ratio: float


def _normal(rng: np.random.Generator, shape: tuple[int, int], dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


def _matmul(quick: bool) -> dict[str, np.ndarray]:
    """4096 x 8192 by 8192 x 8192, bf16."""
    m, k, n = (512, 1024, 1024) if quick else (4096, 8192, 8192)
    rng = np.random.default_rng(1)
    return {
        "lhs_t": _normal(rng, (k, m), ml_dtypes.bfloat16),
        "rhs": _normal(rng, (k, n), ml_dtypes.bfloat16),
    }


def _attention(quick: bool) -> dict[str, np.ndarray]:
    """One head of 128 features; 4096 tokens."""
    d, tokens = (64, 512) if quick else (128, 4096)
    rng = np.random.default_rng(2)
    return {"q": _normal(rng, (d, tokens)), "k": _normal(rng, (d, tokens)), "v": _normal(rng, (tokens, d))}


def _scan(quick: bool) -> dict[str, np.ndarray]:
    """256 channels, 16 states, 2048 steps."""
    channels, length, states = (128, 256, 4) if quick else (256, 2048, 16)
    return importlib.import_module("examples.05_scan").make_inputs(channels, length, states)


CASES = {
    case.name: case
    for case in (
        Case("matmul", "examples.02_matmul", "matmul", _matmul, 5),
        Case("attention", "examples.04_attention", "attention", _attention, 8),
        Case("scan", "examples.05_scan", "selective_scan", _scan, 30),
    )
}


def measure(name: str, backend: str, quick: bool) -> dict[str, float]:
    """Runs one case on one backend ("core" or "oracle") and measures it, in this process."""
    import opentrn
    import opentrn.nki as nki

    case = CASES[name]
    kernel = getattr(importlib.import_module(case.module), case.kernel)
    inputs = case.inputs(quick)
    # Loading, thread start and lazy set-up are not what is compared.
    nki.simulate(kernel, backend=backend, target=TARGET)(**case.inputs(True))
    start = time.perf_counter()
    out = nki.simulate(kernel, backend=backend, target=TARGET)(**inputs)
    seconds = time.perf_counter() - start
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {
        "seconds": seconds,
        "peak_bytes": peak_bytes,
        "hbm_bytes": sum(value.nbytes for value in inputs.values()) + out.nbytes,
        "checksum": float(np.abs(out.astype(np.float64)).sum()),
        "timing_seconds": 0.0,
        "instructions": 0,
    }
    if backend == "core":
        run = opentrn.run(kernel, target=TARGET, execute=False, time=False, **inputs)
        start = time.perf_counter()
        _time_again(run)
        result["timing_seconds"] = time.perf_counter() - start
        result["instructions"] = run.instruction_count
    return result


def _time_again(run: Any) -> None:
    """Compiles and times what was recorded."""
    from opentrn import _core

    for machines in run.machines:
        _core.compile_and_time(machines, "benchmark", [])
