"""./dev bench --models: whole models beside XLA and ONNX Runtime on the CPU, in one run.

Compile time: the same StableHLO text, weights as arguments, shapes only, to an OpenTrn program and by XLA's CPU
compiler. Run time: the same ONNX file with the same inputs on OpenTrn's functional model and on ONNX Runtime, fp32,
in turn. Needs what conformance/models/requirements.txt lists, and torch.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

COMPILE_TARGET_S = {"resnet50": 5.0, "bert-large": 10.0, "llama-7b": 30.0}
RUN_TARGET_RATIO = 3.0  # times ONNX Runtime, at most
PAIRS = 15
# ONNX Runtime's threads, and ours, wait for more work on their cores for a while after a run.
SETTLE_S = 0.1


@dataclass(frozen=True)
class Row:
    """Seconds are of the fastest, CPU seconds summed over threads; ratio: the median over the pairs."""

    what: str
    model: str
    seconds: float
    cpu_seconds: float
    other_seconds: float
    other_cpu_seconds: float
    ratio: float
    target: str
    instructions: int
    device_us: float


HEADER = (
    f"{'':8} {'model':12} {'OpenTrn':>9} {'CPU':>9} {'other':>9} {'CPU':>9} {'ratio':>7} {'target':>12} "
    f"{'instr.':>8} {'predicted':>10}"
)


def format_row(row: Row) -> str:
    return (
        f"{row.what:8} {row.model:12} {row.seconds:7.3f} s {row.cpu_seconds:7.3f} s {row.other_seconds:7.3f} s "
        f"{row.other_cpu_seconds:7.3f} s {row.ratio:7.3f} {row.target:>12} {row.instructions:8,} "
        f"{row.device_us:7.0f} us"
    )


def clocked(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, CPU seconds, and what the action gave."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    result = action()
    return time.perf_counter() - begin, time.process_time() - begin_cpu, result


def stablehlo_cases() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """JAX functions of the zoo and the shapes of their arguments."""
    import jax

    from conformance.models.architectures import jax_bert, jax_llama, jax_resnet50

    def shaped(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    resnet, bert, llama = jax_resnet50.FULL, jax_bert.FULL, jax_llama.SEVEN_B
    return {
        "resnet50": (
            jax_resnet50.network(resnet),
            [*map(shaped, jax_resnet50.shapes(resnet)), shaped((1, resnet.image, resnet.image, 3))],
        ),
        "bert-large": (
            jax_bert.encoder(bert),
            [
                *map(shaped, jax_bert.shapes(bert)),
                shaped((bert.length,), np.int32),
                shaped((bert.length,), bool),
            ],
        ),
        "llama-7b": (
            jax_llama.decoder(llama),
            [*map(shaped, jax_llama.shapes(llama)), shaped((llama.length,), np.int32)],
        ),
    }


def compile_row(name: str, function: Callable[..., Any], arguments: list[Any]) -> Row:
    """The first compilation of each side in this process counts."""
    import jax

    import opentrn

    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    text = lowered.as_text()
    seconds, cpu, model = clocked(lambda: opentrn.compile(text, strict=True))
    other, other_cpu, _ = clocked(lowered.compile)
    target = f"{COMPILE_TARGET_S[name]:.0f} s"
    return Row(
        "compile", name, seconds, cpu, other, other_cpu, seconds / other, target, model.instruction_count,
        model.time().time_us,
    )  # fmt: skip


def run_row(name: str, folder: Path) -> Row:
    """Pairs of runs of the exported torch model, OpenTrn's and ONNX Runtime's in turn."""
    import onnxruntime

    import opentrn
    from conformance.models.catalogue import ENTRIES
    from conformance.models.row import export_onnx

    case = next(entry for entry in ENTRIES if entry.name == name).make("full")
    path = folder / f"{name}.onnx"
    export_onnx(case, "onnx-script", path)
    model = opentrn.compile(path, strict=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {port.name: case.inputs[port.name] for port in session.get_inputs()}
    arrays = [case.inputs[port.name] for port in model.inputs]
    pairs = []
    for _ in range(PAIRS + 1):  # the first warms both sides
        time.sleep(SETTLE_S)
        ours = clocked(lambda: model(*arrays))
        time.sleep(SETTLE_S)
        pairs.append((ours[:2], clocked(lambda: session.run(None, feed))[:2]))
    del pairs[0]
    ratios = sorted(ours[0] / theirs[0] for ours, theirs in pairs)
    return Row(
        "run", name, min(o[0] for o, _ in pairs), min(o[1] for o, _ in pairs), min(t[0] for _, t in pairs),
        min(t[1] for _, t in pairs), ratios[len(ratios) // 2], f"{RUN_TARGET_RATIO:.0f} x",
        model.instruction_count, model.time().time_us,
    )  # fmt: skip


def run() -> list[dict[str, Any]]:
    """Prints the table; gives its rows."""
    os.environ["JAX_PLATFORMS"] = "cpu"  # OpenTrn's own plugin would make itself the default
    rows = []
    print(HEADER)
    for name, (function, arguments) in stablehlo_cases().items():
        rows.append(compile_row(name, function, arguments))
        print(format_row(rows[-1]), flush=True)
    with tempfile.TemporaryDirectory(prefix="opentrn-bench-") as folder:
        for name in ("minilm", "resnet50"):
            rows.append(run_row(name, Path(folder)))
            print(format_row(rows[-1]), flush=True)
    print(
        "other: XLA:CPU's compile time for the same StableHLO text; ONNX Runtime's run time for the same file"
    )
    return [asdict(row) for row in rows]
