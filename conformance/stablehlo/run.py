#!/usr/bin/env python3
"""Run the test programs of a checkout of openxla/stablehlo on OpenTrn's parser, verifier and evaluator.

    python -m conformance.stablehlo.run PATH [--filter PATTERN] [--jobs N] [--json FILE] [--timing]
    python -m conformance.stablehlo.run --device PATH [...]     compiled, on a simulated NeuronCore (device.py)

stablehlo/tests/interpret and stablehlo/testdata: every part between `// -----` lines is parsed, verified and
run; the checks in it (`check.expect_eq`, `check.expect_close`, ...) decide, with the tolerances of
stablehlo's own interpreter. The last line counts parts: `N passed, N failed, N skipped`. What is skipped,
and by which reason, is in exclusions.toml; an entry that is no longer needed is an error.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
SETS = ("tests/interpret", "testdata")
NO_INPUTS = "takes arguments that the file does not hold: parsed and verified only"
NO_CHECK = "checks nothing: parsed, verified and run only"


@dataclass(frozen=True)
class Exclusion:
    """Files that do not count, and why. Within `norm_tolerance` of their expectations they are still checked.

    The tolerance is in units of the largest magnitude expected. `refused` is the label of the rule that the
    file breaks; it must be refused with that label.
    """

    file: str
    reason: str
    norm_tolerance: float = 0.0
    refused: str = ""


@dataclass
class Part:
    """Outcome of one part of a file."""

    file: str
    name: str
    outcome: str  # passed, failed, skipped
    reason: str = ""
    seconds: float = 0.0


def read_exclusions(path: Path = HERE / "exclusions.toml") -> list[Exclusion]:
    return [Exclusion(**entry) for entry in tomllib.loads(path.read_text())["exclude"]]


def find_exclusion(file: str, exclusions: list[Exclusion]) -> Exclusion | None:
    """The first entry whose pattern matches the file, relative to the stablehlo folder."""
    return next((entry for entry in exclusions if fnmatch.fnmatch(file, entry.file)), None)


def judge(row: tuple, exclusion: Exclusion | None) -> tuple[str, str]:
    """(outcome, reason) of a part as run_checked_file reports it."""
    _, checks, takes_arguments, problem, label = row
    if exclusion is not None and exclusion.refused:
        if label == exclusion.refused:
            return "skipped", exclusion.reason
        return (
            "failed",
            f"exclusions.toml expects it to be refused by {exclusion.refused}: {problem or 'it is not'}",
        )
    if problem is not None:
        return "failed", problem
    if exclusion is not None:
        return "skipped", exclusion.reason
    if checks > 0:
        return "passed", ""
    return "skipped", NO_INPUTS if takes_arguments else NO_CHECK


def run_file(root: str, file: str, exclusion: Exclusion | None) -> list[Part]:
    """Every part of one file, in this process."""
    from opentrn import _core
    from opentrn.kernel import machine as _configured  # noqa: F401  (exception classes)

    text = Path(root, file).read_text()
    tolerance = exclusion.norm_tolerance if exclusion is not None else 0.0
    begin = time.perf_counter()
    rows = _core.graph.run_checked_file(text, file, tolerance)
    seconds = (time.perf_counter() - begin) / max(len(rows), 1)
    parts = [Part(file, row[0], *judge(row, exclusion), seconds) for row in rows]
    if exclusion is not None and tolerance > 0 and all(part.outcome == "skipped" for part in parts):
        strict = _core.graph.run_checked_file(text, file, 0.0)
        if all(row[3] is None for row in strict):
            for part in parts:
                part.outcome, part.reason = "failed", "it passes: remove its entry from exclusions.toml"
    return parts


def find_files(root: Path, pattern: str) -> list[str]:
    """Test files below `root` (the stablehlo folder), relative to it."""
    files = [
        path.relative_to(root).as_posix()
        for folder in SETS
        for path in sorted((root / folder).rglob("*.mlir"))
    ]
    return [file for file in files if fnmatch.fnmatch(file, pattern) or pattern in file]


def run_all(root: Path, files: list[str], jobs: int) -> list[Part]:
    exclusions = read_exclusions()
    work = [(str(root), file, find_exclusion(file, exclusions)) for file in files]
    if jobs <= 1:
        return [part for item in work for part in run_file(*item)]
    with ProcessPoolExecutor(jobs) as pool:
        results = pool.map(run_file, *zip(*work, strict=True), chunksize=16)
        return [part for parts in results for part in parts]


def report(parts: list[Part], timing: bool) -> None:
    for part in parts:
        if part.outcome == "failed":
            print(f"FAILED {part.file} [{part.name}]\n    {part.reason}")
    for reason, count in Counter(part.reason for part in parts if part.outcome == "skipped").most_common():
        print(f"skipped {count}: {reason}")
    if timing:
        for part in sorted(parts, key=lambda part: -part.seconds)[:10]:
            print(f"{part.seconds:8.3f} s  {part.file}")
    for folder in SETS:
        counts = Counter(part.outcome for part in parts if part.file.startswith(folder))
        print(f"{folder}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


def main() -> int:
    if "--device" in sys.argv[1:]:
        from conformance.stablehlo import device

        return device.main([word for word in sys.argv[1:] if word != "--device"])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of openxla/stablehlo")
    parser.add_argument("--filter", default="*", help="files whose path matches or contains this")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--json", type=Path, help="write every result here")
    parser.add_argument("--timing", action="store_true", help="list the slowest files")
    arguments = parser.parse_args()
    root = arguments.checkout / "stablehlo"
    files = find_files(root, arguments.filter)
    if not files:
        print(f"no test files below {root} match {arguments.filter}", file=sys.stderr)
        return 2
    begin = time.perf_counter()
    parts = run_all(root, files, arguments.jobs)
    report(parts, arguments.timing)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(part) for part in parts], indent=1))
    counts = Counter(part.outcome for part in parts)
    print(f"{len(files)} files in {time.perf_counter() - begin:.1f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
