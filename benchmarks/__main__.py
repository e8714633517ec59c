"""Side-by-side benchmarks: OpenTrn's machine and an eager NumPy interpreter on the same kernels.

    ./dev bench                               the lessons' kernels, at the size the targets are stated for
    ./dev bench --checkouts DIR               the published kernels, from repositories in DIR (owner+name)
    ./dev bench --scale 4 --case docs-mamba-v3 --repeat 5
    ./dev bench --checkouts DIR --recording   what recording the published kernels costs per instruction
    ./dev bench --models                      whole models beside XLA (compile time) and ONNX Runtime (run time)
    ./dev bench --packaged DIR                ONNX models of Python packages beside ONNX Runtime
    ./dev bench --ops [--only GLOB] [--quick] 194 ops of JAX beside XLA's CPU: predicted, compile and host times
    ./dev bench --native BUILD                nc_matmul against BLAS, a small instruction, the timing model

benchmarks/README.md says what is measured and what the columns and the JSON mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case, measure

MIB = 2**20
MEMORY_ALLOWANCE_MIB = 300  # beyond twice the kernel's HBM tensors
PHASES = ("trace", "backend", "simulate", "analyse")


@dataclass(frozen=True)
class Row:
    """One case: the fastest launch of each side, and the median ratio of the pairs."""

    case: str
    scale: int
    core_s: float
    core_cpu_s: float
    numpy_s: float
    ratio: float
    target_ratio: float
    hbm_mib: float
    core_peak_mib: float
    difference: float
    instructions: int
    phase_s: dict[str, float]

    @property
    def memory_limit_mib(self) -> float:
        return 2 * self.hbm_mib + MEMORY_ALLOWANCE_MIB

    @property
    def timed_per_s(self) -> float:
        """Instructions per second through backend, simulation and analysis."""
        return self.instructions / sum(self.phase_s[phase] for phase in PHASES[1:])

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "memory_limit_mib": self.memory_limit_mib, "timed_per_s": self.timed_per_s}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--case",
        action="append",
        choices=list(CASES),
        help="default: the published kernels with --checkouts, else the lessons",
    )
    parser.add_argument("--checkouts", type=Path, help="folder of the kernels' repositories, as owner+name")
    parser.add_argument("--scale", type=int, default=1, help="divides sizes, as far as the kernel allows")
    parser.add_argument("--repeat", type=int, default=3, help="pairs of measurements, each in new processes")
    parser.add_argument("--launches", type=int, default=3, help="launches per process; the fastest counts")
    parser.add_argument("--native", type=Path, metavar="BUILD", help="run the C++ benchmarks built in BUILD")
    parser.add_argument("--recording", action="store_true", help="CPU time of recording, per instruction")
    parser.add_argument("--models", action="store_true", help="whole models: compile time and run time")
    parser.add_argument("--packaged", type=Path, metavar="DIR", help="ONNX models of packages installed in DIR")
    parser.add_argument("--ops", action="store_true", help="ops of JAX beside XLA's CPU")
    parser.add_argument("--only", default="", metavar="GLOB", help="of --ops and --packaged: names, by commas")
    parser.add_argument("--quick", action="store_true", help="of --ops: the smallest arguments of each")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "BACKEND"), help=argparse.SUPPRESS)
    return parser.parse_args()


def measured_in_child(case: str, backend: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs one measurement in a new process; returns what it measured."""
    command = [sys.executable, "-m", "benchmarks", "--measure", case, backend]
    command += ["--scale", str(arguments.scale), "--launches", str(arguments.launches)]
    if arguments.checkouts:
        command += ["--checkouts", str(arguments.checkouts)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"benchmark {case} on {backend} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def run_case(case: Case, arguments: argparse.Namespace) -> Row:
    """Both sides in turn, so that what else the machine does hits both."""
    pairs = []
    for _ in range(arguments.repeat):
        core = measured_in_child(case.name, "core", arguments)
        pairs.append((core, measured_in_child(case.name, "oracle", arguments)))
    core, numpy = pairs[0]
    phases = {phase: min(c["timing"].get(phase, 0.0) for c, _ in pairs) for phase in PHASES}
    return Row(
        case=case.name,
        scale=arguments.scale,
        core_s=min(c["seconds"] for c, _ in pairs),
        core_cpu_s=min(c["cpu_seconds"] for c, _ in pairs),
        numpy_s=min(n["seconds"] for _, n in pairs),
        ratio=median([n["seconds"] / c["seconds"] for c, n in pairs]),
        target_ratio=case.target_ratio,
        hbm_mib=core["hbm_bytes"] / MIB,
        core_peak_mib=max(c["peak_bytes"] for c, _ in pairs) / MIB,
        difference=abs(core["checksum"] - numpy["checksum"]) / max(abs(numpy["checksum"]), 1e-30),
        instructions=int(core["timing"]["instructions"]),
        phase_s=phases,
    )


HEADER = (
    f"{'case':21} {'OpenTrn':>9} {'CPU':>9} {'NumPy':>9} {'faster':>8} {'target':>7} {'peak memory':>17}"
    f"  {'differs':>7} {'instr.':>8} " + " ".join(f"{phase:>9}" for phase in PHASES) + f" {'timed at':>10}"
)


def format_row(row: Row) -> str:
    memory = "" if row.core_peak_mib <= row.memory_limit_mib else " ABOVE"
    phases = " ".join(f"{1e3 * row.phase_s[phase]:6.1f} ms" for phase in PHASES)
    return (
        f"{row.case:21} {1e3 * row.core_s:6.0f} ms {1e3 * row.core_cpu_s:6.0f} ms {row.numpy_s:7.2f} s"
        f" {row.ratio:6.1f} x"
        f" {row.target_ratio:5.0f} x {row.core_peak_mib:5.0f} of {row.memory_limit_mib:.0f} MiB{memory}"
        f"  {row.difference:7.1e} {row.instructions:8,} {phases} {row.timed_per_s / 1e6:6.2f} M/s"
    )


def print_machine() -> float:
    """How many cores there are and how busy they are; returns the load average."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    busy = ": busy, so trust ratios and CPU seconds only" if load > cores / 2 else ""
    print(f"{cores} cores, load average {load:.1f}{busy}")
    return load


def print_recording(arguments: argparse.Namespace, load: float) -> int:
    """The table of --recording."""
    from benchmarks import recording

    if arguments.checkouts is None:
        raise SystemExit("--recording measures published kernels: it needs --checkouts DIR")
    print(recording.HEADER)
    rows = []
    for row in recording.run(arguments.checkouts, arguments.launches):
        print(recording.format_row(row), flush=True)
        rows.append({**asdict(row), "us_per_instruction": row.us_per_instruction})
    if arguments.json:
        print(json.dumps({"load": load, "recording": rows}))
    return 0


def main() -> int:
    arguments = parse_arguments()
    if arguments.measure:
        case, backend = arguments.measure
        print(json.dumps(measure(case, backend, arguments.checkouts, arguments.scale, arguments.launches)))
        return 0
    load = print_machine()
    if arguments.ops:
        from benchmarks import ops

        figures = ops.run(arguments.only, arguments.quick)
        if arguments.json:
            print(json.dumps({"load": load, "ops": figures}))
        return 1 if figures["unexplained"] or figures["needless"] else 0
    if arguments.native:
        from benchmarks import native

        figures = native.run(arguments.native)
        if arguments.json:
            print(json.dumps({"load": load, "native": figures}))
        return 0
    if arguments.models:
        from benchmarks import models

        figures = models.run()
        if arguments.json:
            print(json.dumps({"load": load, "models": figures}))
        return 0
    if arguments.packaged:
        from benchmarks import packaged

        figures = packaged.run(arguments.packaged, arguments.only)
        if arguments.json:
            print(json.dumps({"load": load, "packaged": figures}))
        return 0
    if arguments.recording:
        return print_recording(arguments, load)
    published = arguments.checkouts is not None
    names = arguments.case or [case.name for case in CASES.values() if case.published == published]
    print(HEADER)
    rows = []
    for name in names:
        rows.append(run_case(CASES[name], arguments))
        print(format_row(rows[-1]), flush=True)
    if arguments.scale != 1:
        print(f"sizes divided by {arguments.scale}: the targets are stated for the full ones")
    if arguments.json:
        print(json.dumps({"load": load, "rows": [row.json() for row in rows]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
