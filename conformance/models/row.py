"""One row of run.py: export, compile, run, compare. Prints one line of JSON last.

python -m conformance.models.row MODEL ROUTE SIZE TARGET FOLDER
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conformance.models.case import JaxCase, Tolerance, TorchCase
from conformance.models.catalogue import ENTRIES

REFERENCE_RUNS = 3


def export_onnx(case: TorchCase, route: str, path: Path) -> None:
    """Writes the model: "onnx" by the exporter that traces, "onnx-script" by the one on torch.export, whose
    weights go to a file beside it."""
    import torch

    arguments = tuple(torch.from_numpy(array.copy()) for array in case.inputs.values())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if route == "onnx":
            torch.onnx.export(
                case.module,
                arguments,
                str(path),
                dynamo=False,
                input_names=list(case.inputs),
                opset_version=17,
            )
        else:
            torch.onnx.export(
                case.module, arguments, str(path), dynamo=True, input_names=list(case.inputs), external_data=True,
                verbose=False,
            )  # fmt: skip


def fastest(action: Callable[[], Any], runs: int = REFERENCE_RUNS) -> tuple[float, Any]:
    """Seconds of the fastest of several runs, and its result."""
    best, result = float("inf"), None
    for _ in range(runs):
        begin = time.perf_counter()
        result = action()
        best = min(best, time.perf_counter() - begin)
    return best, result


def onnx_reference(path: Path, inputs: dict[str, np.ndarray]) -> tuple[float, list[np.ndarray]]:
    """ONNX Runtime on the CPU, with its default optimisations."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    taken = {port.name for port in session.get_inputs()}
    feed = {name: array for name, array in inputs.items() if name in taken}
    return fastest(lambda: session.run(None, feed))


def torch_results(case: TorchCase) -> list[np.ndarray]:
    import torch

    with torch.no_grad():
        results = case.module(*(torch.from_numpy(array.copy()) for array in case.inputs.values()))
    return [value.numpy() for value in (results if isinstance(results, tuple) else (results,))]


def distance(expected: np.ndarray, got: np.ndarray) -> tuple[float, float, float]:
    """(largest absolute difference, the same over the largest magnitude, 1 - cosine), in float64."""
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        raise ValueError(f"a result {got.dtype}{got.shape}, expected {expected.dtype}{expected.shape}")
    a, b = expected.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    if not np.isfinite(b).all():
        return float("inf"), float("inf"), 1.0
    absolute = float(np.abs(a - b).max(initial=0.0))
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    scale = float(np.abs(a).max(initial=0.0))
    relative = absolute / scale if scale else absolute
    return absolute, relative, abs(1.0 - float(a @ b) / norms) if norms else float(absolute != 0.0)


def compare(
    expected: Sequence[np.ndarray], got: Sequence[np.ndarray], tolerance: Tolerance
) -> dict[str, Any]:
    """The largest distances over the outputs, and what breaks the tolerance."""
    if len(expected) != len(got):
        return {"status": "failed", "reason": f"{len(got)} results, expected {len(expected)}"}
    rows = [distance(a, b) for a, b in zip(expected, got, strict=True)]
    facts = {
        "status": "passed", "absolute": max(r[0] for r in rows), "relative": max(r[1] for r in rows),
        "one_minus_cosine": max(r[2] for r in rows),
    }  # fmt: skip
    for number, (array, (absolute, relative, other)) in enumerate(zip(expected, rows, strict=True)):
        exact = array.dtype.kind in "biu"
        if (exact and absolute != 0) or relative > tolerance.relative or 1 - other < tolerance.cosine:
            facts["status"] = "failed"
            facts["reason"] = (
                f"output {number}: relative {relative:.2e}, 1 - cosine {other:.2e}; allowed {tolerance.relative:.0e} "
                f"and {1 - tolerance.cosine:.0e}{', equal' if exact else ''}"
            )
            break
    return facts


def device(
    path: Path, target: str, feed: Callable[[Any], list[np.ndarray]], through_commands: bool
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Compile, run and time with OpenTrn."""
    import opentrn

    missing = [
        f"{row.op} x{row.unsupported} ({row.example})" for row in opentrn.coverage(path) if row.unsupported
    ]
    if missing:
        return {
            "status": "failed",
            "reason": "no device kernel: " + "; ".join(missing),
            "without_kernel": missing,
        }, []
    begin, begin_cpu = time.perf_counter(), time.process_time()
    model = opentrn.compile(path, target=target, strict=True)
    facts: dict[str, Any] = {
        "compile_s": time.perf_counter() - begin, "compile_cpu_s": time.process_time() - begin_cpu,
        "instructions": model.instruction_count, "constant_bytes": model.constant_bytes,
    }  # fmt: skip
    arrays = feed(model)
    facts["run_s"], results = fastest(lambda: model(*arrays), 1)
    if through_commands:
        by_command_line(path, target, model, arrays, results)
        facts["command_line"] = "same bits"
    begin = time.perf_counter()
    timing = model.time()
    facts |= {
        "timing_s": time.perf_counter() - begin, "time_us": timing.time_us, "mfu_percent": timing.mfu_percent,
        "mbu_percent": timing.mbu_percent, "bound_by": timing.bound_by,
    }  # fmt: skip
    return facts, results


def by_command_line(
    path: Path, target: str, model: Any, arrays: list[np.ndarray], results: list[np.ndarray]
) -> None:
    """`opentrn compile` and the file it writes give the same bits. Raises ValueError when they do not."""
    from opentrn.model.compiled import load

    output = path.with_suffix(".neuron")
    command = [
        sys.executable,
        "-m",
        "opentrn",
        "compile",
        str(path),
        "--target",
        target,
        "-o",
        str(output),
        "--no-cache",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"opentrn compile: exit {done.returncode}: {done.stderr.strip()}")
    loaded = load(output)
    if [port.name for port in loaded.inputs] != [port.name for port in model.inputs]:
        raise ValueError("the file's inputs are not those of the compiled model")
    for number, (a, b) in enumerate(zip(results, loaded(*arrays), strict=True)):
        if a.tobytes() != b.tobytes():
            raise ValueError(f"output {number} of the file differs from the compiled model's")


def torch_row(case: TorchCase, route: str, size: str, target: str, folder: Path) -> dict[str, Any]:
    path = folder / "model.onnx"
    if not path.exists():
        try:
            export_onnx(case, route, path)
        except Exception as error:  # the exporter's, not ours: the other exporter's row stands for the model
            path.unlink(missing_ok=True)
            first = str(error).strip().splitlines()[0]
            return {"status": "skipped", "reason": f"PyTorch's exporter: {type(error).__name__}: {first}"}
    seconds, expected = onnx_reference(path, case.inputs)
    facts: dict[str, Any] = {"reference_s": seconds}
    exported = compare(torch_results(case), expected, case.tolerance)
    if exported["status"] == "failed":
        return facts | {
            "status": "skipped",
            "reason": f"ONNX Runtime differs from PyTorch: {exported['reason']}",
        }
    more, got = device(
        path, target, lambda model: [case.inputs[port.name] for port in model.inputs], size == "small"
    )
    facts |= more
    return facts | compare(expected, got, case.tolerance) if got else facts


def jax_row(case: JaxCase, size: str, target: str, folder: Path) -> dict[str, Any]:
    import jax

    if jax.default_backend() != "cpu":
        raise ValueError(f"the reference would run on {jax.default_backend()}")

    path = folder / "model.mlir"
    lowered = jax.jit(case.function, keep_unused=True).lower(*case.arguments)
    path.write_text(lowered.as_text())
    begin = time.perf_counter()
    compiled = lowered.compile()
    facts: dict[str, Any] = {"xla_compile_s": time.perf_counter() - begin}
    facts["reference_s"], results = fastest(lambda: jax.block_until_ready(compiled(*case.arguments)))
    more, got = device(path, target, lambda _: list(case.arguments), size == "small")
    facts |= more
    expected = [np.asarray(value) for value in jax.tree.leaves(results)]
    return facts | compare(expected, got, case.tolerance) if got else facts


def main() -> int:
    name, route, size, target, folder = sys.argv[1:]
    os.environ["JAX_PLATFORMS"] = "cpu"  # before JAX is imported: OpenTrn's own plugin would be the default
    entry = next(entry for entry in ENTRIES if entry.name == name)
    case = entry.make(size)
    Path(folder).mkdir(parents=True, exist_ok=True)
    row: dict[str, Any] = {"model": name, "route": route, "size": size}
    try:
        if isinstance(case, TorchCase):
            row |= torch_row(case, route, size, target, Path(folder))
        else:
            row |= jax_row(case, size, target, Path(folder))
    except Exception as error:  # a row that fails says why; the others go on
        row |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    row["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
