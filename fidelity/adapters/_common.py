"""What the adapters share."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class NotReproducible(Exception):
    """This row cannot be predicted; the text says why."""


@dataclass
class Predicted:
    """What one run predicts.

    `microseconds`: as the family publishes it, with or without the launch. `bound_by`: the verdict.
    `figures`: every other metric by the name the rows give it, in the unit of METRICS; empty where several
    launches make up the run. `kind`: Timing.kind, whose errors make one band. `launch_us`: what of `microseconds` is
    the launch constant. `roofline_us`: the least time that peak rates allow, launch included.
    """

    microseconds: float
    bound_by: str
    figures: dict[str, float] = field(default_factory=dict)
    kind: str = ""
    launch_us: float = 0.0
    roofline_us: float | None = None

    def value_of(self, row: dict[str, str]) -> float:
        """The row's metric in the row's unit. Raises NotReproducible when this run does not have it."""
        metric, unit = row["metric"], row["unit"]
        if is_time(row):
            return self.microseconds * MICROSECONDS[unit]
        if metric not in self.figures or METRICS[metric] != unit:
            raise NotReproducible(f"no figure for '{metric}' in {unit}")
        return self.figures[metric]

    def roofline_of(self, row: dict[str, str]) -> float | None:
        """The least time that peak rates allow, in the row's unit; None of what is no time."""
        if self.roofline_us is None:
            return None
        if is_time(row):
            return self.roofline_us * MICROSECONDS[row["unit"]]
        if row["metric"] in UTILISATIONS and row["metric"] in self.figures:
            return self.figures[row["metric"]] * self.microseconds / self.roofline_us
        return None

    def program(self) -> str:
        """Two runs of one program are predicted alike to the last digit."""
        return f"{self.kind} {self.microseconds!r}"

    def launch_of(self, row: dict[str, str]) -> float:
        """The launch constant in the row's unit; 0 of what is no time."""
        return self.launch_us * MICROSECONDS[row["unit"]] if is_time(row) else 0.0


# Work over time and a peak: a time in other words.
UTILISATIONS = ("MFU", "HFU (estimated)", "hardware FLOPS utilization")

# Metrics of a profile that rows publish, with their unit. Names are those of the rows.
METRICS = {
    "HBM bytes read": "bytes",
    "HBM bytes written": "bytes",
    "HBM bytes moved (read+write)": "bytes",
    "TensorE hardware FLOPs": "FLOP",
    "of which transpose FLOPs": "FLOP",
    "TensorE matmul instruction count": "instructions",
    "MFU": "%",
    "HFU (estimated)": "%",
    "hardware FLOPS utilization": "%",
    "HBM bandwidth utilization (MBU)": "%",
    "TensorE active time share": "%",
    "TensorE active share": "%",
    "VectorE active share": "%",
    "ScalarE active share": "%",
    "GpSimdE active share": "%",
    "DMA active time share": "%",
}
TIMES = ("latency", "latency p50", "latency p90", "latency p99", "duration")
MICROSECONDS = {"us": 1.0, "ms": 1e-3, "s": 1e-6, "ns": 1e3}
FP32_PASSES_COUNTED = (
    2  # by AWS's profiler, for each FP32 matmul (kernel-optimization.rst: 65,536 instructions)
)


FP32_PASSES = 4  # of the Tensor engine, for each FP32 product


def is_time(row: dict[str, str]) -> bool:
    return row["metric"] in TIMES and row["unit"] in MICROSECONDS


def is_known(row: dict[str, str]) -> bool:
    """Whether the simulator has this metric in this unit."""
    return is_time(row) or METRICS.get(row["metric"]) == row["unit"]


def figures_of(profile: dict[str, Any], model_flops: float | None = None) -> dict[str, float]:
    """METRICS from a profile (docs/profiling.md), as AWS's profiler counts them.

    model_flops: of the operation as its publisher counts them; None: those of the multiplications that ran.
    """
    summary, flops = profile["summary"], profile["flops"]
    seconds = summary["total_time"]
    multiplied = sum(count for kind, count in flops.items() if kind not in ("transpose", "elementwise"))
    # Transposes are counted alike: AccelOpt's fp32 kernels have 2 x 2 x 128 flops for each transposed element.
    fp32_share = flops["fp32"] / multiplied if multiplied > 0 else 0.0
    transposed = summary["transpose_flops"] * (1 + (FP32_PASSES_COUNTED - 1) * fp32_share)
    fp32_extra = (FP32_PASSES_COUNTED - 1) * flops["fp32"] + transposed - summary["transpose_flops"]
    ran = summary["hardware_flops"]
    peak = ran / seconds / summary["hfu_estimated_percent"] * 100 if ran else float("inf")  # of bf16
    hardware = ran + fp32_extra
    matmuls = sum(o["count"] for o in profile["opcodes"] if o["opcode"].startswith("nc_matmul"))
    read, written = summary["hbm_read_bytes"], summary["hbm_write_bytes"]
    hfu = 100 * hardware / seconds / peak
    return {
        "HBM bytes read": read,
        "HBM bytes written": written,
        "HBM bytes moved (read+write)": read + written,
        "TensorE hardware FLOPs": hardware,
        "of which transpose FLOPs": transposed,
        "TensorE matmul instruction count": matmuls
        * (hardware - transposed)
        / (ran - summary["transpose_flops"])
        if ran > summary["transpose_flops"]
        else matmuls,
        "MFU": 100 * (summary["model_flops"] if model_flops is None else model_flops) / seconds / peak,
        "HFU (estimated)": hfu,
        "hardware FLOPS utilization": hfu,
        "HBM bandwidth utilization (MBU)": summary["mbu_estimated_percent"],
        "TensorE active time share": summary["tensor_engine_active_time_percent"],
        "TensorE active share": summary["tensor_engine_active_time_percent"],
        "VectorE active share": summary["vector_engine_active_time_percent"],
        "ScalarE active share": summary["scalar_engine_active_time_percent"],
        "GpSimdE active share": summary["gpsimd_engine_active_time_percent"],
        "DMA active time share": summary["dma_active_time_percent"],
    }


def roofline_us(profile: dict[str, Any]) -> float:
    """The larger of the products at the peak of their format and the bytes at the peak of HBM."""
    summary, flops = profile["summary"], profile["flops"]
    seconds, ran = summary["total_time"], summary["hardware_flops"]
    peak = ran / seconds / summary["hfu_estimated_percent"] * 100 if ran else float("inf")  # of bf16
    computing = (ran + (FP32_PASSES - 1) * flops["fp32"]) / peak
    return 1e6 * max(computing, seconds * summary["mbu_estimated_percent"] / 100)


def checkout(checkouts: Path, name: str) -> Path:
    """The folder of repository `owner+name`."""
    path = checkouts / name
    if not path.is_dir():
        raise NotReproducible(f"checkout {name} is not in the folder given")
    return path


def file_at(repository: Path, commit: str, path: str) -> str:
    """The text of one file as of `commit`."""
    done = subprocess.run(
        ["git", "-C", str(repository), "show", f"{commit}:{path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotReproducible(f"{repository.name} has no {path} at {commit}")
    return done.stdout


def activate() -> None:
    """Make nki and neuronxcc.nki importable."""
    import opentrn

    opentrn.activate()


def module_from_text(text: str, name: str) -> types.ModuleType:
    """Execute source text as a module. Kernels' line numbers stay right: the text is also its file."""
    import linecache

    module = types.ModuleType(name)
    filename = f"<{name}>"
    module.__file__ = filename
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    sys.modules[name] = module
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


def module_from_file(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def timed(
    kernel: Any,
    *args: Any,
    target: str,
    lnc: int = 1,
    launch: bool = False,
    model_flops: float | None = None,
    **kwargs: Any,
) -> Predicted:
    """Time `kernel`.

    launch: the published figure includes the launch of the kernel on the device. model_flops: as
    figures_of. kwargs: the kernel's, or those of opentrn.run.
    """
    from opentrn import run

    result = run(kernel, *args, target=target, lnc=lnc, execute=False, **kwargs)
    if len(result.timings) > 1:
        return Predicted(result.time_us, result.timings[0].bound_by, kind=result.timings[0].kind)
    launch_us = result.timing.launch_ns / 1e3 if launch else 0.0
    profile = result.timing.profile()
    return Predicted(
        result.time_us + launch_us, result.timing.bound_by, figures_of(profile, model_flops), result.timing.kind,
        launch_us, launch_us + roofline_us(profile),
    )  # fmt: skip


def fields(row: dict[str, str]) -> dict[str, str]:
    """The `key=value; ...` items of a row's workload."""
    items = {}
    for part in row["workload"].split(";"):
        key, _, value = part.strip().partition("=")
        items[key] = value
    return items


def shape(dims: tuple[int, ...], dtype: str) -> Any:
    from opentrn.types.shapes import ShapeOf

    return ShapeOf(dims, dtype)
