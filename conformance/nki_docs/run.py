#!/usr/bin/env python3
"""Run the NKI tests of a checkout of aws-neuron/aws-neuron-sdk (nki/test, 41 unittest files) on OpenTrn.

    python conformance/nki_docs/run.py PATH [--json FILE] [--jobs N] [-k PATTERN] [--backend core|oracle]

Each file runs unmodified in its own pytest process, with opentrn's stand-ins active (opentrn_plugin.py). The
last line counts files: `N passed, N failed, N skipped`. A file whose failing tests all have an entry in
known_failures.toml counts as failed too; the report says which failures are new, and the exit status is 1
only for those, and for entries that no longer fail. A file that needs a documented behaviour of the 0.1
simulator that is not OpenTrn's default runs with it (settings.toml), and the report says so.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
PYTHON_ROOT = HERE.parent.parent / "python"
SEED = 0  # several tests draw unseeded random numbers; a fixed seed makes a run repeatable


@dataclass
class FileResult:
    """Outcome of one test file: pytest's outcome of every test in it."""

    name: str
    tests: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""  # the file could not be collected, crashed or timed out

    @property
    def outcome(self) -> str:
        if self.error or any(o == "failed" for o in self.tests.values()):
            return "failed"
        return "passed" if any(o == "passed" for o in self.tests.values()) else "skipped"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of aws-neuron/aws-neuron-sdk")
    parser.add_argument("-k", dest="pattern", default="*", help="run files whose name matches (wildcards)")
    parser.add_argument("--jobs", type=int, default=2, help="files that run at once")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one file")
    parser.add_argument("--backend", default="", choices=["", "core", "oracle"])
    parser.add_argument("--json", type=Path, help="write every result here")
    return parser.parse_args()


def settings_of(name: str) -> dict[str, dict[str, str]]:
    """Environment variable -> its entry in settings.toml, for the test file `name`."""
    entries = tomllib.loads((HERE / "settings.toml").read_text())["setting"]
    return {entry["variable"]: entry for entry in entries if entry["file"] == name}


def environment(backend: str, name: str) -> dict[str, str]:
    paths = [str(PYTHON_ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONDONTWRITEBYTECODE": "1"}
    if backend:
        env["OPENTRN_NKI_BACKEND"] = backend
    env.update({variable: entry["value"] for variable, entry in settings_of(name).items()})
    return env


def run_file(path: Path, arguments: argparse.Namespace) -> FileResult:
    """One file in a fresh process, its outcomes read from the plugin's report."""
    result = FileResult(path.name)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "opentrn_plugin", "-p", "no:cacheprovider"]
        command += [
            "--rootdir",
            folder,
            "-c",
            os.devnull,
            "-o",
            "python_functions=_unittest_only_",
            f"--opentrn-report={report}",
        ]
        command += [f"--opentrn-seed={SEED}", str(path)]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment(arguments.backend, path.name),
                capture_output=True,
                text=True,
                timeout=arguments.timeout,
            )
        except subprocess.TimeoutExpired:
            result.error = f"no result after {arguments.timeout:g} s"
        else:
            if report.exists():
                data = json.loads(report.read_text())
                result.tests, result.messages = data["tests"], data["messages"]
                result.error = data["collection_error"]
            else:
                result.error = (done.stdout + done.stderr)[-2000:]
    result.seconds = time.perf_counter() - start
    return result


def known_failures() -> list[dict[str, str]]:
    path = HERE / "known_failures.toml"
    return tomllib.loads(path.read_text()).get("failure", [])


def reason_for(test: str, known: list[dict[str, str]]) -> str | None:
    return next((k["reason"] for k in known if fnmatch.fnmatch(test, k["test"])), None)


def report(results: list[FileResult], known: list[dict[str, str]]) -> int:
    """Print the outcome of every file and the counts; the exit status."""
    unexpected = 0
    seen: set[str] = set()
    for result in results:
        passed = sum(o == "passed" for o in result.tests.values())
        print(
            f"{result.outcome:8} {result.name:48} {passed}/{len(result.tests)} tests, {result.seconds:.1f} s"
        )
        for variable, entry in settings_of(result.name).items():
            print(f"         with {variable}={entry['value']}: {entry['reason']}")
        if result.error:
            unexpected += 1
            print("         could not run: " + " | ".join(result.error.strip().splitlines()[-2:]))
        for test, outcome in result.tests.items():
            if outcome != "failed":
                continue
            reason = reason_for(f"{result.name}::{test}", known)
            if reason is None:
                unexpected += 1
                print(f"         NEW {test}: {result.messages.get(test, '')}")
            else:
                seen.add(reason)
                print(f"         known {test}: {reason}")
    ran = {r.name for r in results}
    for entry in known:
        if entry["reason"] not in seen and entry["test"].partition("::")[0] in ran:
            unexpected += 1
            print(f"         no longer fails: {entry['test']} (remove it from known_failures.toml)")
    tests = [o for r in results for o in r.tests.values()]
    counts = {o: sum(t == o for t in tests) for o in ("passed", "failed", "skipped")}
    print(f"tests: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    files = {o: sum(r.outcome == o for r in results) for o in ("passed", "failed", "skipped")}
    print(f"{files['passed']} passed, {files['failed']} failed, {files['skipped']} skipped")
    return 1 if unexpected else 0


def main() -> int:
    arguments = parse_arguments()
    folder = arguments.checkout / "nki" / "test"
    paths = sorted(p for p in folder.glob("test_*.py") if fnmatch.fnmatch(p.name, f"*{arguments.pattern}*"))
    if not paths:
        print(f"no test files match in {folder}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda path: run_file(path, arguments), paths))
    status = report(results, known_failures())
    if arguments.json:
        data = {r.name: {"outcome": r.outcome, "tests": r.tests, "error": r.error} for r in results}
        arguments.json.write_text(json.dumps(data, indent=1))
    return status


if __name__ == "__main__":
    sys.exit(main())
