#!/usr/bin/env python3
"""Predict every published measurement that can be reproduced, and print how far off the prediction is.

    python fidelity/run.py --rows measured.csv --checkouts DIR [--json] [--only TEXT] [--jobs N] [--timeout S]

The rows file has the columns id, category, workload, metric, value, unit, source, note. DIR holds checkouts of
the kernel repositories as `owner+name`; adapters import kernels from there and nothing is copied. A row is
predicted by running its kernel without values and timing the recorded program. Rows without an adapter, or
whose checkout is missing, are counted and named by reason, never guessed.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import statistics
import sys
import time
import traceback
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

from adapters import ADAPTERS, NotReproducible  # noqa: E402

WORST_SHOWN = 10


@dataclass
class Prediction:
    """One row: published and predicted value in the row's unit, or why there is no prediction."""

    row: dict[str, str]
    published: float
    predicted: float | None = None
    reason: str = ""
    bound_by: str = ""
    seconds: float = 0.0

    @property
    def error(self) -> float:
        """Signed, as a fraction of the published value."""
        return self.predicted / self.published - 1.0

    @property
    def family(self) -> str:
        return self.row["id"].split(".")[0]


def _predict_in_child(row: dict[str, str], checkouts: str, pipe) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # kernels print their own log
    try:
        adapter = ADAPTERS[row["id"].split(".")[0]]
        result = adapter(row, Path(checkouts))
        pipe.send(("ok", result.microseconds, result.bound_by))
    except NotReproducible as reason:
        pipe.send(("skip", str(reason), ""))
    except BaseException as error:  # noqa: BLE001 -- reported with the row
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines() or [""]
        pipe.send(
            ("fail", f"{type(error).__name__}: {text[0]} ({Path(frame.filename).name}:{frame.lineno})", "")
        )


def predict(row: dict[str, str], checkouts: str, timeout: float) -> Prediction:
    """Predict one row in a process of its own: kernels are other people's code, and may need gigabytes."""
    result = Prediction(row, float(row["value"]))
    if row["id"].split(".")[0] not in ADAPTERS:
        result.reason = "no adapter for this family"
        return result
    parent, child = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_predict_in_child, args=(row, checkouts, child)
    )
    start = time.monotonic()
    process.start()
    child.close()
    try:
        if parent.poll(timeout):
            kind, value, bound_by = parent.recv()
            if kind == "ok":
                result.predicted, result.bound_by = value, bound_by
            else:
                result.reason = value if kind == "skip" else f"failed: {value}"
        else:
            result.reason = f"failed: no result after {timeout:.0f} s"
    except EOFError:
        result.reason = "failed: the process died"
    process.kill()
    process.join()
    result.seconds = time.monotonic() - start
    return result


def percentile(values: list[float], fraction: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(fraction * 1000) * len(ordered) // 1000) - 1))]


def summarise(predictions: list[Prediction]) -> dict:
    """Counts and errors by category and, within it, by family."""

    def figures(rows: list[Prediction]) -> dict:
        errors = [abs(p.error) for p in rows]
        return {
            "rows": len(errors),
            "median_error": round(statistics.median(errors), 4),
            "p90_error": round(percentile(errors, 0.9), 4),
        }

    by_category = defaultdict(list)
    for p in predictions:
        if p.predicted is not None:
            by_category[p.row["category"]].append(p)
    categories = {}
    for category, rows in by_category.items():
        families = defaultdict(list)
        for p in rows:
            families[p.family].append(p)
        categories[category] = {
            **figures(rows),
            "families": {name: figures(members) for name, members in sorted(families.items())},
        }
    return {"categories": categories}


def print_table(predictions: list[Prediction], summary: dict) -> None:
    done = [p for p in predictions if p.predicted is not None]
    print(f"{'row':<72} {'published':>11} {'predicted':>11} {'error':>8}  bound by")
    for p in done:
        print(
            f"{p.row['id'][:72]:<72} {p.published:>11.1f} {p.predicted:>11.1f} {p.error:>+8.1%}  {p.bound_by}"
        )
    reasons = defaultdict(list)
    for p in predictions:
        if p.predicted is None:
            reasons[p.reason].append(p.row["id"])
    if reasons:
        print("\nnot predicted")
        for reason, ids in sorted(reasons.items(), key=lambda item: -len(item[1])):
            print(f"  {len(ids):>4}  {reason}   e.g. {ids[0]}")
    print(f"\nthe {WORST_SHOWN} worst")
    for p in sorted(done, key=lambda p: -abs(p.error))[:WORST_SHOWN]:
        print(f"  {p.error:>+8.1%}  {p.row['id']}")
    print(f"\n{'category':<12} {'family':<14} {'rows':>5} {'median':>8} {'p90':>8}")
    for category, figures in summary["categories"].items():
        for family, f in [("all", figures), *figures["families"].items()]:
            print(
                f"{category:<12} {family:<14} {f['rows']:>5} {f['median_error']:>8.1%} {f['p90_error']:>8.1%}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fidelity", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", required=True, help="CSV file of published measurements")
    parser.add_argument("--checkouts", default=".", help="folder holding kernel repositories as owner+name")
    parser.add_argument("--json", action="store_true", help="print one line of JSON last")
    parser.add_argument("--only", default="", help="only rows whose id contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="rows predicted at once (2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one row (300)")
    args = parser.parse_args()
    with open(args.rows, newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["unit"] == "us"
            and row["metric"].startswith(("latency", "duration"))
            and args.only in row["id"]
        ]
    if not rows:
        print(f"{args.rows}: no kernel latency row matches", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(args.jobs) as pool:
        predictions = []
        for p in pool.map(lambda row: predict(row, args.checkouts, args.timeout), rows):
            predictions.append(p)
            if sys.stderr.isatty():
                print(f"\r{len(predictions)} of {len(rows)} rows", end="", file=sys.stderr)
    summary = summarise(predictions)
    print_table(predictions, summary)
    if args.json:
        print(json.dumps(summary))
    return 0 if any(p.predicted is not None for p in predictions) else 1


if __name__ == "__main__":
    raise SystemExit(main())
