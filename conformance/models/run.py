#!/usr/bin/env python3
"""Real architectures with seeded weights, compiled for the device, run, and compared with another runtime.

    python -m conformance.models.run [--only NAME]... [--size small|full] [--target trn2]

Torch modules are exported to ONNX by both of PyTorch's exporters and compared with ONNX Runtime on the same
file; JAX functions are lowered to StableHLO and compared with XLA on the CPU. A row passes when every output
is within the model's tolerance (architectures/) and every op had a device kernel; it is skipped when the
exporter cannot write the model. At size "small" the file that `opentrn compile` writes must give the same bits.
Nothing is downloaded.
Each row is a process of its own. README.md says what the columns are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "python"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from conformance.models.catalogue import ENTRIES  # noqa: E402

ROUTES = {"torch": ("onnx", "onnx-script"), "jax": ("stablehlo",)}
ROW_SECONDS_MAX = 900
HEADER = (
    f"{'model':<14} {'route':<12} {'result':<7} {'max rel':>8} {'1 - cos':>8} {'compile':>8} {'run':>8} {'ref':>8} "
    f"{'ratio':>6} {'device':>10} {'MFU':>6} {'instr.':>9} {'GiB':>5}"
)


def row_text(row: dict[str, Any]) -> str:
    """One line of the table; a failure says why on the next."""
    line = f"{row['model']:<14} {row['route']:<12} {row['status']:<7}"
    if "compile_s" in row:
        line += f" {row.get('relative', float('nan')):8.1e} {row.get('one_minus_cosine', float('nan')):8.1e}"
        line += f" {row['compile_s']:6.2f} s {row.get('run_s', float('nan')):6.2f} s"
        line += f" {row['reference_s']:6.3f} s {row.get('run_s', float('nan')) / row['reference_s']:6.1f}"
        line += f" {row.get('time_us', float('nan')):7.0f} us {row.get('mfu_percent', float('nan')):4.1f} %"
        line += f" {row['instructions']:>9,} {row['peak_gib']:5.1f}"
    if row.get("reason"):
        line += "\n    " + row["reason"].strip().replace("\n", "\n    ")
    return line


def run_row(model: str, route: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row, measured in a new process."""
    with tempfile.TemporaryDirectory(prefix="opentrn-zoo-", dir=options.scratch) as folder:
        command = [
            sys.executable, "-m", "conformance.models.row", model, route, options.size, options.target,
            str(options.keep / f"{model}-{route}-{options.size}" if options.keep else folder),
        ]  # fmt: skip
        begin = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=ROW_SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            return {"model": model, "route": route, "status": "failed", "reason": f"over {ROW_SECONDS_MAX} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        tail = "\n".join(done.stderr.strip().splitlines()[-12:])
        return {
            "model": model,
            "route": route,
            "status": "failed",
            "reason": f"exit {done.returncode}: {tail}",
        }
    row: dict[str, Any] = json.loads(lines[-1])
    row["wall_s"] = time.monotonic() - begin
    return row


def main() -> int:
    """0 when every row passed or was skipped."""
    names = [entry.name for entry in ENTRIES]
    parser = argparse.ArgumentParser(
        prog="./dev conformance models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=names, help="only this model; may be repeated")
    parser.add_argument("--route", action="append", choices=sorted({r for rs in ROUTES.values() for r in rs}))
    parser.add_argument("--size", choices=["small", "full"], default="full", help="default: full")
    parser.add_argument("--target", default="trn2")
    parser.add_argument("--keep", type=Path, help="leave the exported models in this folder")
    parser.add_argument("--scratch", type=Path, help="folder for exported models (default: the system's)")
    parser.add_argument("--json", type=Path, help="write every row here")
    options = parser.parse_args()
    rows = []
    print(HEADER, flush=True)
    for entry in ENTRIES:
        if options.only and entry.name not in options.only:
            continue
        for route in ROUTES[entry.form]:
            if options.route and route not in options.route:
                continue
            rows.append(run_row(entry.name, route, options))
            print(row_text(rows[-1]), flush=True)
    if not rows:
        print(
            f"conformance models: {', '.join(options.only)} has no route {', '.join(options.route)}",
            file=sys.stderr,
        )
        return 2
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    counts = {
        status: sum(row["status"] == status for row in rows) for status in ("passed", "failed", "skipped")
    }
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
