"""The kernels of ./dev bench, their inputs, the speed wanted over the NumPy interpreter, and one measurement.

With --checkouts the cases are the published kernels themselves, imported from there: the documents' fully
optimised matmul and fused mamba, the flash attention forward kernel of nki-samples. Without, the lessons of
examples/ that do the same work.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import resource
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

TARGET = "trn2"
DOCS = "aws-neuron+aws-neuron-sdk"
SAMPLES = "aws-neuron+nki-samples"
# The last commit of nki-samples with its reference kernels.
SAMPLES_COMMIT = "8370e11"
bfloat16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Case:
    """`prepare(checkouts, scale)` gives the launch, a callable, and its arguments; `scale` divides the sizes."""

    name: str
    target_ratio: float
    published: bool
    prepare: Callable[[Path | None, int], tuple[Callable[..., Any], tuple[Any, ...]]]


def _normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    values = np.empty(shape, dtype)
    for row in values.reshape(shape[0], -1):  # no second copy of a large array: peak memory is measured
        row[...] = rng.standard_normal(row.shape, dtype=np.float32)
    return values


def _simulated(kernel: Any) -> Callable[..., Any]:
    import opentrn.nki as nki

    return nki.simulate(kernel, target=TARGET)


def _file(checkouts: Path | None, repository: str, path: str, commit: str | None = None) -> types.ModuleType:
    """A file of a checkout, as a module."""
    if checkouts is None:
        raise SystemExit("published kernels need --checkouts DIR")
    folder = checkouts / repository
    name = Path(path).stem
    if commit is None:
        spec = importlib.util.spec_from_file_location(name, folder / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    text = subprocess.run(
        ["git", "-C", str(folder), "show", f"{commit}:{path}"], capture_output=True, text=True, check=True
    ).stdout
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look their module up
    exec(compile(text, str(folder / path), "exec"), module.__dict__)
    return module


def _matmul_inputs(scale: int) -> tuple[np.ndarray, np.ndarray]:
    """4096 x 8192 by 8192 x 8192; the left operand transposed."""
    m, k, n = max(2048, 4096 // scale), max(1024, 8192 // scale), max(1024, 8192 // scale)
    rng = np.random.default_rng(1)
    return _normal(rng, k, m, dtype=bfloat16), _normal(rng, k, n, dtype=bfloat16)


def _matmul(checkouts: Path | None, scale: int):
    path = "nki/examples/matrix_multiplication/matrix_multiplication_nki_kernels.py"
    return _simulated(_file(checkouts, DOCS, path).nki_matmul_fully_optimized_), _matmul_inputs(scale)


def _attention(checkouts: Path | None, scale: int):
    """One head of 128 features, 4096 tokens, bf16, no mask."""
    module = _file(checkouts, SAMPLES, "src/nki_samples/reference/attention.py", SAMPLES_COMMIT)
    tokens = max(2048, 4096 // scale)
    rng = np.random.default_rng(2)
    q, k = (_normal(rng, 1, 1, 128, tokens, dtype=bfloat16) for _ in range(2))
    v = _normal(rng, 1, 1, tokens, 128, dtype=bfloat16)
    config = module.FlashConfig(seq_tile_size=2048, training=False)
    # An argument that the kernel's body reads as a constant must not look like a tensor.
    return lambda *arrays: module.flash_fwd[1, 1](
        *arrays, None, use_causal_mask=False, mixed_precision=True, config=config
    ), (q, k, v)


def _tutorial_attention(checkouts: Path | None, scale: int):
    """Version 8 of the attention tutorial: 128 features, 4096 tokens, fp32."""
    path = "src/nki_samples/tutorials/attention_fwd_performance/attention_kernels.py"
    rng = np.random.default_rng(3)
    return _file(checkouts, SAMPLES, path).attn_fwd_v8, tuple(_normal(rng, 128, 4096) for _ in range(3))


def _mamba(version: str):
    """One batch, 256 channels, 16 states, 2048 steps: the default of the tutorial's own driver."""

    def prepare(checkouts: Path | None, scale: int):
        module = _file(checkouts, DOCS, "nki/examples/fused_mamba/mamba_nki_kernels.py")
        channels, states, length = 256, max(4, 16 // scale), max(512, 2048 // scale)
        rng = np.random.default_rng(4)
        delta = rng.uniform(0.001, 0.1, (1, channels, length)).astype(np.float32)
        a = -rng.uniform(0.5, 4, (channels, states)).astype(np.float32)
        u, b, c = (_normal(rng, 1, rows, length) for rows in (channels, states, states))
        return _simulated(getattr(module, version)), (delta, u, a, b, c)

    return prepare


def _lesson_matmul(checkouts: Path | None, scale: int):
    return _simulated(importlib.import_module("examples.02_matmul").matmul), _matmul_inputs(scale)


def _lesson_attention(checkouts: Path | None, scale: int):
    """One head of 128 features; 4096 tokens."""
    d, tokens = 128, max(512, 4096 // scale)
    rng = np.random.default_rng(2)
    arguments = _normal(rng, d, tokens), _normal(rng, d, tokens), _normal(rng, tokens, d)
    return _simulated(importlib.import_module("examples.04_attention").attention), arguments


def _lesson_scan(checkouts: Path | None, scale: int):
    """256 channels, 16 states, 2048 steps."""
    module = importlib.import_module("examples.05_scan")
    inputs = module.make_inputs(256, max(256, 2048 // scale), max(4, 16 // scale))
    return _simulated(module.selective_scan), tuple(inputs.values())


CASES = {
    case.name: case
    for case in (
        Case("docs-matmul", 5, True, _matmul),
        Case("samples-flash-fwd", 8, True, _attention),
        Case("samples-attention-v8", 8, True, _tutorial_attention),
        Case("docs-mamba-v1", 30, True, _mamba("mamba_v1")),
        Case("docs-mamba-v3", 30, True, _mamba("mamba_v3")),
        Case("matmul", 5, False, _lesson_matmul),
        Case("attention", 8, False, _lesson_attention),
        Case("scan", 30, False, _lesson_scan),
    )
}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name: str, backend: str, checkouts: Path | None, scale: int, times: int) -> dict[str, Any]:
    """Runs one case on one backend ("core" or "oracle") and measures it, in this process.

    The fastest of `times` launches counts; on the core, a first one that is not counted loads and starts
    what is lazily set up. The timing path is measured last, so that peak memory is that of the values.
    """
    os.environ.setdefault("PYTHONHASHSEED", "0")
    import opentrn
    from opentrn.nki import _machine

    opentrn.activate()
    _machine.select(backend)
    launch, arguments = CASES[name].prepare(checkouts, scale)
    base_bytes = _peak_bytes()
    seconds, cpu_seconds = [], []
    for _ in range(times + (backend == "core" and times > 1)):
        cpu, start = time.process_time(), time.perf_counter()
        out = launch(*arguments)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu)
    result = {
        "seconds": min(seconds),
        "cpu_seconds": min(cpu_seconds),
        "peak_bytes": _peak_bytes(),
        "base_bytes": base_bytes,
        "hbm_bytes": sum(value.nbytes for value in arguments) + out.nbytes,
        "checksum": float(np.abs(out.astype(np.float32)).sum(dtype=np.float64)),
    }
    if backend == "core":
        result["timing"] = _measure_timing(launch, arguments, times)
    return result


def _measure_timing(launch: Callable[..., Any], arguments: tuple[Any, ...], times: int) -> dict[str, float]:
    """Seconds of recording and of each phase of timing, the fastest of several; and instructions."""
    from opentrn import _core
    from opentrn.kernel import machine as core

    best: dict[str, float] = {}
    for _ in range(max(2, times)):
        start = time.perf_counter()
        with core.observed_launches("never") as launches:
            launch(*arguments)
        seconds = {"trace": time.perf_counter() - start}
        for machines in launches:
            for phase, value in _core.compile_and_time(machines).phase_seconds.items():
                seconds[phase] = seconds.get(phase, 0.0) + value
        best = {phase: min(value, best.get(phase, value)) for phase, value in seconds.items()}
    best["instructions"] = sum(m.instruction_count for machines in launches for m in machines)
    return best
