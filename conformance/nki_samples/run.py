#!/usr/bin/env python3
"""Run the simulation tests of a checkout of aws-neuron/nki-samples on OpenTrn.

    python conformance/nki_samples/run.py PATH [--json FILE] [--full] [-k PATTERN] [--backend core|oracle]

Commit 8370e11 (2025-12-30), the last one whose unit tests can be imported, is extracted from the checkout's
history to a temporary folder. Its test/unit files run unmodified with their own `--simulation-only`, one
process per file. Of parametrised tests that take minutes on the NumPy backend only the cases listed in
QUICK run unless --full is given; the report counts what was left out. The last line counts tests.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
PYTHON_ROOT = HERE.parent.parent / "python"
PLUGIN_ROOT = HERE.parent / "nki_docs"  # opentrn_plugin.py is the same
COMMIT = "8370e11"
SEED = 0
# Files with long cases: expressions (pytest -k) of the cases of a quick run.
QUICK = {
    "test_flash_attn_bwd.py": "False--1-1-4-4-4096",
    "test_flash_attn_fwd.py": "1-1-4096-4096",
    "test_SD_attention_small_head.py": "float32",
    "test_allocated_SD_attention_small_head.py": "float32",
    "test_select_and_scatter.py": "float32",
}


@dataclass
class FileResult:
    """Outcome of every test of one file."""

    name: str
    tests: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    seconds: float = 0.0
    error: str = ""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of aws-neuron/nki-samples with its history")
    parser.add_argument("-k", dest="pattern", default="", help="run files whose name contains this")
    parser.add_argument("--full", action="store_true", help="run every case")
    parser.add_argument("--jobs", type=int, default=2, help="files that run at once")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for one file")
    parser.add_argument("--backend", default="", choices=["", "core", "oracle"])
    parser.add_argument("--json", type=Path, help="write every result here")
    return parser.parse_args()


def extract(checkout: Path, folder: Path) -> None:
    """The commit's files below `folder`; nothing in the checkout is changed."""
    archive = subprocess.run(["git", "-C", str(checkout), "archive", COMMIT], capture_output=True)
    if archive.returncode != 0:
        sys.exit(f"{checkout} has no commit {COMMIT}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")


def environment(folder: Path, backend: str) -> dict[str, str]:
    paths = [str(p) for p in (PYTHON_ROOT, PLUGIN_ROOT, HERE, folder / "src")]
    paths.append(os.environ.get("PYTHONPATH", ""))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONDONTWRITEBYTECODE": "1"}
    if backend:
        env["OPENTRN_NKI_BACKEND"] = backend
    return env


def run_file(path: Path, folder: Path, arguments: argparse.Namespace) -> FileResult:
    """One file in its own process."""
    result = FileResult(path.name)
    start = time.perf_counter()
    report = folder / f"{path.stem}.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "opentrn_plugin", "-p", "nki_samples_plugin"]
    command += [
        "-p",
        "no:cacheprovider",
        "--simulation-only",
        f"--opentrn-report={report}",
        f"--opentrn-seed={SEED}",
        str(path),
    ]
    if not arguments.full and path.name in QUICK:
        command += ["-k", QUICK[path.name]]
    try:
        done = subprocess.run(
            command,
            cwd=path.parent,
            env=environment(folder, arguments.backend),
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
            result.error, result.left_out = data["collection_error"], data["left_out"]
        else:
            result.error = (done.stdout + done.stderr)[-2000:]
    result.seconds = time.perf_counter() - start
    return result


def known_failures() -> list[dict[str, str]]:
    return tomllib.loads((HERE / "known_failures.toml").read_text()).get("failure", [])


def report(results: list[FileResult], known: list[dict[str, str]]) -> int:
    """Print outcomes and counts; 1 if a failure is not in known_failures.toml or an entry there is stale."""
    unexpected = 0
    used: set[str] = set()
    for result in results:
        passed = sum(o == "passed" for o in result.tests.values())
        more = f", {result.left_out} left out" if result.left_out else ""
        print(f"{result.name:45} {passed}/{len(result.tests)} tests{more}, {result.seconds:.1f} s")
        if result.error:
            unexpected += 1
            print("    could not run: " + " | ".join(result.error.strip().splitlines()[-2:]))
        for test, outcome in result.tests.items():
            if outcome != "failed":
                continue
            name = f"{result.name}::{test}"
            entry = next((k for k in known if fnmatch.fnmatch(name, k["test"])), None)
            unexpected += entry is None
            if entry is not None:
                used.add(entry["test"])
            state = f"known: {entry['reason']}" if entry else f"NEW: {result.messages.get(test, '')}"
            print(f"    {test}\n        {state}")
    ran = {r.name for r in results}
    for entry in known:
        if entry["test"] not in used and entry["test"].partition("::")[0] in ran:
            unexpected += 1
            print(f"    no longer fails: {entry['test']} (remove it from known_failures.toml)")
    tests = [o for r in results for o in r.tests.values()]
    counts = {o: sum(t == o for t in tests) for o in ("passed", "failed", "skipped")}
    counts["failed"] += sum(bool(r.error) for r in results)  # a file that could not run is one failure
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if unexpected else 0


def main() -> int:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        extract(arguments.checkout, folder)
        paths = sorted(p for p in (folder / "test/unit").glob("test_*.py") if arguments.pattern in p.name)
        if not paths:
            print(f"no test file of {COMMIT} has {arguments.pattern!r} in its name", file=sys.stderr)
            return 2
        with ThreadPoolExecutor(arguments.jobs) as pool:
            results = list(pool.map(lambda path: run_file(path, folder, arguments), paths))
    status = report(results, known_failures())
    if arguments.json:
        data = {r.name: {"tests": r.tests, "left_out": r.left_out, "error": r.error} for r in results}
        arguments.json.write_text(json.dumps(data, indent=1))
    return status


if __name__ == "__main__":
    sys.exit(main())
