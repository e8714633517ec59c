#!/usr/bin/env python3
"""Predict every published measurement that can be reproduced, and print how far off the prediction is.

    python fidelity/run.py --rows measured.csv --checkouts DIR [--json] [--only TEXT] [--jobs N] [--timeout S]

The rows file has the columns id, category, workload, metric, value, unit, source, note. DIR holds checkouts of
the kernel repositories as `owner+name`; adapters import kernels from there and nothing is copied. Rows of one
kernel are predicted together, by running it without values and timing the recorded program; every metric that a
profile has is compared, not only times. Rows without an adapter, or whose checkout is missing, are counted and named
by reason, never guessed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import statistics
import sys
import time
import traceback
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import published  # noqa: E402
from adapters import ADAPTERS, NotReproducible, family_of, is_known, models  # noqa: E402

WORST_SHOWN = 10
CATEGORIES = ("kernel", "op", "dma", models.CATEGORY)
# Shares below this many percent are compared as if they were this large: 0.07% against 0.1% is no error to chase.
SHARE_FLOOR = 1.0
METRIC_OF_ID = re.compile(
    r"(lat|p50|p99|instr|mfu|hfu\w*|mbu|(pe|dma|vector)-active|hbm-bytes|\w+_(bytes|flops|engine_active_time))$"
)


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
        if self.row["unit"] == "%":
            return (self.predicted - self.published) / max(self.published, SHARE_FLOOR)
        return self.predicted / self.published - 1.0

    @property
    def family(self) -> str:
        return family_of(self.row)


def kernel_of(row: dict[str, str]) -> Any:
    """What rows of the same run share."""
    if row["category"] == models.CATEGORY:
        return models.run_key(row)
    prefix, _, last = row["id"].rpartition(".")
    return row["workload"], prefix if METRIC_OF_ID.match(last) else row["id"]


def _predict_in_child(rows: list[dict[str, str]], checkouts: str, pipe) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # kernels print their own log
    try:
        result = ADAPTERS[family_of(rows[0])](rows[0], Path(checkouts))
    except NotReproducible as reason:
        pipe.send([("skip", str(reason), "")] * len(rows))
        return
    except BaseException as error:  # noqa: BLE001 -- reported with the row
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines() or [""]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        pipe.send([("fail", f"{type(error).__name__}: {text[0]} ({where})", "")] * len(rows))
        return
    answers = []
    for row in rows:
        try:
            answers.append(("ok", result.value_of(row), result.bound_by))
        except NotReproducible as reason:
            answers.append(("skip", str(reason), ""))
    pipe.send(answers)


def predict(rows: list[dict[str, str]], checkouts: str, timeout: float) -> list[Prediction]:
    """Predict the rows of one kernel in a process of its own: kernels are other people's code, and may need
    gigabytes."""
    results = [Prediction(row, float(row["value"])) for row in rows]

    def all_because(reason: str) -> list[Prediction]:
        for result in results:
            result.reason = reason
        return results

    if family_of(rows[0]) not in ADAPTERS:
        return all_because("no adapter for this family")
    parent, child = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_predict_in_child, args=(rows, checkouts, child)
    )
    start = time.monotonic()
    process.start()
    child.close()
    try:
        answers = parent.recv() if parent.poll(timeout) else None
    except EOFError:
        answers = [("fail", "the process died", "")] * len(rows)
    process.kill()
    process.join()
    if answers is None:
        return all_because(f"failed: no result after {timeout:.0f} s")
    for result, (kind, value, bound_by) in zip(results, answers, strict=True):
        result.seconds = (time.monotonic() - start) / len(rows)
        if kind == "ok":
            result.predicted, result.bound_by = value, bound_by
        else:
            result.reason = value if kind == "skip" else f"failed: {value}"
    return results


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
    print(f"{'row':<72} {'published':>12} {'predicted':>12} {'unit':<12} {'error':>8}  bound by")
    for p in done:
        print(
            f"{p.row['id'][:72]:<72} {p.published:>12.6g} {p.predicted:>12.6g} {p.row['unit']:<12} "
            f"{p.error:>+8.1%}  {p.bound_by}"
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


def show_progress(done: int, of: int, seconds: float, last: str) -> None:
    """One line that is rewritten on a terminal; elsewhere a line for every tenth part."""
    line = f"{done} of {of} kernels, {seconds:.0f} s: {last}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line[:100]}", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done == of or done * 10 // of != (done - 1) * 10 // of:
        print(line, file=sys.stderr, flush=True)


def _rows_of(args: argparse.Namespace) -> list[dict[str, str]]:
    """The rows to predict. Raises RowsError."""
    if args.rows is None:
        raise published.RowsError(
            "no file of published measurements, which this repository does not hold\n"
            f"  try: --rows FILE.csv, with the columns {', '.join(published.COLUMNS)} (fidelity/README.md)"
        )
    return published.read(args.rows, CATEGORIES, args.only)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fidelity", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", metavar="FILE", help="CSV file of published measurements; needed, and in no checkout"
    )
    parser.add_argument("--checkouts", default=".", help="folder holding kernel repositories as owner+name")
    parser.add_argument("--json", action="store_true", help="print one line of JSON last")
    parser.add_argument("--only", default="", help="only rows whose id contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="rows predicted at once (2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one row (300)")
    args = parser.parse_args()
    try:
        rows = _rows_of(args)
    except published.RowsError as error:
        print(f"./dev fidelity: {error}", file=sys.stderr)
        return 2
    if not rows:
        print(
            f"./dev fidelity: {args.rows}: no row of category {', '.join(CATEGORIES)} matches",
            file=sys.stderr,
        )
        if args.json:
            print(json.dumps(summarise([])))
        return 2
    kernels = defaultdict(list)
    predictions = []
    for row in rows:
        if is_known(row):
            kernels[kernel_of(row)].append(row)
        else:
            reason = f"'{row['metric']}' is nothing a run of one kernel shows"
            predictions.append(Prediction(row, float(row["value"]), reason=reason))
    start = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = pool.map(lambda group: predict(group, args.checkouts, args.timeout), kernels.values())
        for count, results in enumerate(jobs, 1):
            predictions += results
            show_progress(count, len(kernels), time.monotonic() - start, results[0].row["id"])
    summary = summarise(predictions)
    print_table(predictions, summary)
    if args.json:
        print(json.dumps(summary))
    return 0 if any(p.predicted is not None for p in predictions) else 1


if __name__ == "__main__":
    raise SystemExit(main())
