#!/usr/bin/env python3
"""Predict every published measurement that can be reproduced, and print how far off the prediction is.

    ./dev fidelity --checkouts DIR [--rows FILE.csv] [--json] [--only TEXT] [--jobs N] [--timeout S] [--write-bands]

The rows file has the columns id, category, workload, metric, value, unit, source, note; fidelity/rows.csv is the
default. DIR holds checkouts of the kernel repositories as `owner+name`; adapters import kernels from there and nothing
is copied. Rows of one kernel are predicted together, by running it without values and timing the recorded program;
every metric that a profile has is compared, not only times. Rows without an adapter, or whose checkout is missing, are
counted and named by reason, never guessed. Runs that values were calibrated on are counted apart (votes.py).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import bands  # noqa: E402
import published  # noqa: E402
import report  # noqa: E402
import votes  # noqa: E402
from adapters import ADAPTERS, NotReproducible, collectives, family_of, is_known, llm, models  # noqa: E402

ROWS = HERE / "rows.csv"
CATEGORIES = ("kernel", "op", "dma", models.CATEGORY, collectives.CATEGORY, *llm.CATEGORIES)
# Shares below this many percent are compared as if they were this large: 0.07% against 0.1% is no error to chase.
SHARE_FLOOR = 1.0
METRIC_OF_ID = re.compile(
    r"(lat|p50|p99|instr|mfu|hfu\w*|mbu|(pe|dma|vector)-active|hbm-bytes|\w+_(bytes|flops|engine_active_time))$"
)


@dataclass
class Prediction:
    """One row: published and predicted value in the row's unit, or why there is no prediction.

    status: one of votes.STATUSES. program: which program was timed. launch: the launch constant in the prediction.
    baselines: what simpler models say.
    """

    row: dict[str, str]
    published: float
    predicted: float | None = None
    status: str = "no public kernel"
    reason: str = ""
    bound_by: str = ""
    kind: str = ""
    program: str = ""
    launch: float = 0.0
    baselines: dict[str, float] = field(default_factory=dict)
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
    if row["category"] == collectives.CATEGORY:
        return row["id"]
    if row["category"] in llm.CATEGORIES:
        return llm.run_key(row)
    prefix, _, last = row["id"].rpartition(".")
    return row["workload"], prefix if METRIC_OF_ID.match(last) else row["id"]


def _predict_in_child(rows: list[dict[str, str]], checkouts: str, pipe) -> None:
    """Sends (status, reason or fields of Prediction) for each row."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # kernels print their own log
    try:
        result = ADAPTERS[family_of(rows[0])](rows[0], Path(checkouts))
    except NotReproducible as reason:
        pipe.send([("no public kernel", str(reason))] * len(rows))
        return
    except BaseException as error:  # noqa: BLE001 -- reported with the row
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines() or [""]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        pipe.send([("failed", f"{type(error).__name__}: {text[0]} ({where})")] * len(rows))
        return
    answers = []
    for row in rows:
        try:
            roofline = result.roofline_of(row)
            answers.append(("predicted", {
                "predicted": result.value_of(row), "bound_by": result.bound_by, "kind": result.kind,
                "program": result.program(), "launch": result.launch_of(row),
                "baselines": {} if roofline is None else {"roofline": roofline},
            }))  # fmt: skip
        except NotReproducible as reason:
            answers.append(("not shown by a run", str(reason)))
    pipe.send(answers)


def predict(rows: list[dict[str, str]], checkouts: str, timeout: float) -> list[Prediction]:
    """Predict the rows of one kernel in a process of its own: kernels are other people's code, and may need
    gigabytes."""
    results = [Prediction(row, float(row["value"])) for row in rows]

    def all_because(status: str, reason: str) -> list[Prediction]:
        for result in results:
            result.status, result.reason = status, reason
        return results

    if family_of(rows[0]) not in ADAPTERS:
        return all_because("no public kernel", "no adapter for this family")
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
        answers = [("failed", "the process died")] * len(rows)
    process.kill()
    process.join()
    if answers is None:
        return all_because("timed out", f"no result after {timeout:.0f} s")
    for result, (status, value) in zip(results, answers, strict=True):
        result.seconds = (time.monotonic() - start) / len(rows)
        result.status = status
        if status == "predicted":
            for name, found in value.items():
                setattr(result, name, found)
        else:
            result.reason = value
    return results


def show_progress(done: int, of: int, seconds: float, last: str) -> None:
    """One line that is rewritten on a terminal; elsewhere a line for every tenth part."""
    line = f"{done} of {of} kernels, {seconds:.0f} s: {last}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line[:100]}", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done == of or done * 10 // of != (done - 1) * 10 // of:
        print(line, file=sys.stderr, flush=True)


def _write_bands(runs: list[votes.Run]) -> None:
    """Writes the table of bands; its commit is the one that predicted."""
    done = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short=10", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    )
    bands.TABLE.write_text(bands.written(bands.bands_of(runs), done.stdout.strip()), encoding="utf-8")
    print(f"wrote {bands.TABLE}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fidelity", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", metavar="FILE", default=str(ROWS),
                        help="CSV file of published measurements (fidelity/rows.csv)")  # fmt: skip
    parser.add_argument("--checkouts", default=".", help="folder holding kernel repositories as owner+name")
    parser.add_argument("--json", action="store_true", help="print one line of JSON last")
    parser.add_argument("--only", default="", help="only rows whose id contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="rows predicted at once (2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one row (300)")
    parser.add_argument(
        "--write-bands", action="store_true", help="write src/arch/tables/evidence.toml; all rows"
    )
    args = parser.parse_args()
    if args.write_bands and args.only:
        parser.error("--write-bands takes every row: leave out --only")
    try:
        rows = published.read(args.rows, CATEGORIES, args.only)
    except published.RowsError as error:
        print(f"./dev fidelity: {error}", file=sys.stderr)
        return 2
    if not rows:
        print(
            f"./dev fidelity: {args.rows}: no row of category {', '.join(CATEGORIES)} matches",
            file=sys.stderr,
        )
        if args.json:
            print(json.dumps(report.summarise([], [])))
        return 2
    kernels = defaultdict(list)
    predictions = []
    for row in rows:
        if is_known(row):
            kernels[kernel_of(row)].append(row)
        else:
            reason = f"'{row['metric']}' is nothing a run of one kernel shows"
            predictions.append(
                Prediction(row, float(row["value"]), status="not shown by a run", reason=reason)
            )
    start = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = pool.map(lambda group: predict(group, args.checkouts, args.timeout), kernels.values())
        for count, results in enumerate(jobs, 1):
            predictions += results
            show_progress(count, len(kernels), time.monotonic() - start, results[0].row["id"])
    runs = votes.runs_of(predictions, votes.calibrations())
    summary = report.summarise(predictions, runs)
    report.print_report(predictions, runs, summary)
    if args.write_bands:
        _write_bands(runs)
    if args.json:
        print(json.dumps(summary))
    return 0 if any(p.predicted is not None for p in predictions) else 1


if __name__ == "__main__":
    raise SystemExit(main())
