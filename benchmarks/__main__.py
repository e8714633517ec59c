"""Side-by-side benchmarks: OpenTrn's machine and an eager NumPy interpreter on the same kernels.

    ./dev bench                        every case at the size its target is stated for
    ./dev bench --quick                small sizes, to see that it works
    ./dev bench --case attention --repeat 3

Each measurement runs in a process of its own, both sides in turn, so that a drifting clock hits both and peak
memory belongs to one run. Values are compared first: a wrong answer is not a fast one. The interpreter is
opentrn.oracle, with NumPy's BLAS on all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

from benchmarks.cases import CASES, Case, measure

MIB = 2**20
MEMORY_ALLOWANCE_MIB = 300  # beyond twice the kernel's HBM tensors


@dataclass(frozen=True)
class Row:
    """Medians of one case."""

    case: str
    core_s: float
    numpy_s: float
    target_ratio: float
    timing_s: float
    instructions: int
    hbm_mib: float
    core_peak_mib: float
    max_difference: float

    @property
    def ratio(self) -> float:
        return self.numpy_s / self.core_s

    @property
    def memory_limit_mib(self) -> float:
        return 2 * self.hbm_mib + MEMORY_ALLOWANCE_MIB


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--repeat", type=int, default=1, help="measurements of each side (median is shown)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "BACKEND"), help=argparse.SUPPRESS)
    return parser.parse_args()


def measured_in_child(case: str, backend: str, quick: bool) -> dict[str, float]:
    """Runs one measurement in a new process; returns what it measured."""
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--measure",
        case,
        backend,
        *(["--quick"] if quick else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"benchmark {case} on {backend} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def run_case(case: Case, quick: bool, repeat: int) -> Row:
    """Both sides in turn, `repeat` times."""
    core, numpy = [], []
    for _ in range(repeat):
        core.append(measured_in_child(case.name, "core", quick))
        numpy.append(measured_in_child(case.name, "oracle", quick))
    difference = abs(core[0]["checksum"] - numpy[0]["checksum"]) / max(abs(numpy[0]["checksum"]), 1e-30)
    return Row(
        case=case.name,
        core_s=median([m["seconds"] for m in core]),
        numpy_s=median([m["seconds"] for m in numpy]),
        target_ratio=case.target_ratio,
        timing_s=median([m["timing_seconds"] for m in core]),
        instructions=int(core[0]["instructions"]),
        hbm_mib=core[0]["hbm_bytes"] / MIB,
        core_peak_mib=max(m["peak_bytes"] for m in core) / MIB,
        max_difference=difference,
    )


def print_row(row: Row) -> None:
    per_s = row.instructions / row.timing_s if row.timing_s else 0.0
    memory = "ok" if row.core_peak_mib <= row.memory_limit_mib else "ABOVE"
    print(
        f"{row.case:10} {row.core_s:9.2f} s {row.numpy_s:9.2f} s {row.ratio:7.1f} x {row.target_ratio:6.0f} x"
        f" {row.instructions:12,} {row.timing_s:8.2f} s {per_s / 1e6:7.2f} M/s"
        f" {row.core_peak_mib:8.0f} of {row.memory_limit_mib:.0f} MiB {memory}   {row.max_difference:.1e}",
        flush=True,
    )


def main() -> int:
    arguments = parse_arguments()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure, arguments.quick)))
        return 0
    load = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} cores; load average {load:.1f}" + (" (busy)" if load > 1 else ""))
    print(
        f"{'case':10} {'OpenTrn':>11} {'NumPy':>11} {'faster':>9} {'target':>8} {'instructions':>12}"
        f" {'timing':>10} {'timed at':>11} {'peak memory':>18}   difference"
    )
    rows = []
    for name in arguments.case or CASES:
        rows.append(run_case(CASES[name], arguments.quick, arguments.repeat))
        print_row(rows[-1])
    if arguments.quick:
        print("quick sizes: the targets are stated for the full ones")
    if arguments.json:
        print(json.dumps({"load": load, "rows": [dict(asdict(row), ratio=row.ratio) for row in rows]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
