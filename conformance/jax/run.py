#!/usr/bin/env python3
"""Run JAX's own tests, from a checkout of the pinned version, on OpenTrn's platform `neuron`.

    python -m conformance.jax.run PATH [--only lax,nn] [--cases N] [--jobs N] [-k PATTERN] [--json FILE]

Each test file runs unmodified in its own pytest process with JAX_PLATFORMS=neuron,cpu; files about several
devices get eight. The last line counts tests: `N passed, N failed, N skipped`. Skipped are those that the suite
itself skips, and those that exclusions.toml names with a reason. The report also counts programs that ran on
the host, by the op that has no device kernel. Tests that exclusions.toml leaves out for their length are `not run`:
nothing is known of them, so that they are counted beside the skipped ones.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Suites as the command line names them: the file in the checkout's tests folder, and its devices. Other files have the
# name of the file without `_test`, and one device but where named below.
SUITES = {
    "lax": ("lax_test", 1),
    "lax_numpy": ("lax_numpy_test", 1),
    "nn": ("nn_test", 1),
    "random": ("random_test", 1),
    "random_lax": ("random_lax_test", 1),
    "control_flow": ("lax_control_flow_test", 1),
    "api": ("api_test", 1),
    "shard_map": ("shard_map_test", 8),
    "pjit": ("pjit_test", 8),
}
OTHERS_WITH_EIGHT = {
    "pmap",
    "array",
    "layout",
    "multi_device",
    "python_callback",
    "memories",
    "custom_partitioning",
}
_ON_HOST = re.compile(
    r"^opentrn: \S+ (?:runs|does) on the host, by the reference evaluator: (\S+)", re.MULTILINE
)


NOT_RUN = "not run"


@dataclass
class SuiteResult:
    """Outcomes of one file's tests: `passed`, `failed`, `skipped` or `not run`, and why."""

    name: str
    outcomes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    on_host: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""  # the process died, timed out, or found no test

    def count(self, outcome: str) -> int:
        return sum(o == outcome for o in self.outcomes.values())


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of jax-ml/jax at the pinned version")
    parser.add_argument(
        "--only",
        default=",".join(SUITES),
        help=f"suites: {', '.join(SUITES)}; or other files of JAX's tests, linalg for tests/linalg_test.py",
    )
    parser.add_argument(
        "--cases", type=int, default=10, help="generated cases per test (default: JAX's own, 10)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="files that run at once")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds per file")
    parser.add_argument("-k", dest="pattern", default="", help="pytest's -k")
    parser.add_argument("--json", type=Path, help="every outcome, as JSON")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    if not (options.checkout / "tests" / "lax_test.py").exists():
        parser.error(f"{options.checkout} is not a checkout of jax: it has no tests/lax_test.py")
    for name in options.only:
        if not (options.checkout / "tests" / f"{file_and_devices(name)[0]}.py").exists():
            parser.error(
                f"there is no suite '{name}'; there are {', '.join(SUITES)}, and files of JAX's tests"
            )
    return options


def file_and_devices(name: str) -> tuple[str, int]:
    """Of a suite, or of another file of JAX's tests."""
    return SUITES.get(name, (f"{name}_test", 8 if name in OTHERS_WITH_EIGHT else 1))


def read_exclusions(path: Path = HERE / "exclusions.toml") -> list[dict]:
    """Rows of `test` (suite/Class.test, wildcards) and `reason`; `never_run`: not even to see whether it fails."""
    return tomllib.loads(path.read_text()).get("exclude", [])


def outcomes_of(report: Path) -> tuple[dict[str, str], dict[str, str]]:
    """({Class.test: outcome}, {Class.test: message}) of a JUnit report."""
    outcomes, messages = {}, {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}.{case.get('name')}"
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        outcomes[name] = "failed" if problem is not None else "skipped" if skipped is not None else "passed"
        if (found := problem if problem is not None else skipped) is not None:
            messages[name] = (found.get("message") or "").split("\n", 1)[0]
    return outcomes, messages


def not_run(name: str, exclusions: list[dict], source: str) -> list[str]:
    """Tests of the suite that pytest is told to leave out, as Class.test. ValueError: `source` has no such test."""
    rows = [row for row in exclusions if row.get("never_run")]
    tests = [row["test"].split("/", 1)[1] for row in rows if row["test"].startswith(f"{name}/")]
    for test in tests:
        if f"  def {test.split('.')[1]}(" not in source:
            file, _ = file_and_devices(name)
            raise ValueError(f"exclusions.toml leaves out {name}/{test}, which {file}.py has not")
    return tests


def run_suite(name: str, options: argparse.Namespace, exclusions: list[dict]) -> SuiteResult:
    file, devices = file_and_devices(name)
    result = SuiteResult(name)
    environment = dict(
        os.environ,
        JAX_PLATFORMS="neuron,cpu",
        JAX_NUM_GENERATED_CASES=str(options.cases),
        NEURON_RT_NUM_CORES=str(devices),
        PYTHONPATH=str(ROOT / "python"),
    )
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"tests/{file}.py", "-p", "no:cacheprovider"]
        command += ["--tb=line", f"--junitxml={report}", "-o", "junit_logging=no", "-rN"]
        for test in not_run(name, exclusions, (options.checkout / "tests" / f"{file}.py").read_text()):
            command += ["--deselect", f"tests/{file}.py::{test.replace('.', '::')}"]
            result.outcomes[test], result.messages[test] = NOT_RUN, "exclusions.toml"
        if options.pattern:
            command += ["-k", options.pattern]
        try:
            done = subprocess.run(
                [*command, "-s"],
                cwd=options.checkout,
                env=environment,
                capture_output=True,
                text=True,
                timeout=options.timeout,
            )
        except subprocess.TimeoutExpired:
            result.error = f"took more than {options.timeout} s"
            return result
        result.seconds = time.monotonic() - started
        result.on_host = dict(Counter(_ON_HOST.findall(done.stderr)))
        if done.returncode not in (0, 1):
            result.error = (
                f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-400:].strip()}"
            )
        if report.exists():
            outcomes, messages = outcomes_of(report)
            result.outcomes |= outcomes
            result.messages |= messages
    return result


def exclude(result: SuiteResult, exclusions: list[dict]) -> list[str]:
    """Turns failures that the table names into skips; gives the entries of this suite that no failure needs."""
    unused = []
    for row in exclusions:
        suite, _, pattern = row["test"].partition("/")
        if suite != result.name or row.get("never_run"):
            continue
        failed = [
            test
            for test, outcome in result.outcomes.items()
            if outcome == "failed" and fnmatch.fnmatch(test, pattern)
        ]
        for test in failed:
            result.outcomes[test], result.messages[test] = "skipped", row["reason"]
        if not failed:
            unused.append(row["test"])
    return unused


def report(results: list[SuiteResult]) -> None:
    print(f"{'suite':<30}{'passed':>8}{'failed':>8}{'skipped':>9}{NOT_RUN:>9}{'share':>8}{'seconds':>9}")
    for result in results:
        passed, failed = result.count("passed"), result.count("failed")
        share = f"{passed / (passed + failed):.1%}" if passed + failed else "-"
        others = f"{result.count('skipped'):>9}{result.count(NOT_RUN):>9}"
        print(f"{result.name:<30}{passed:>8}{failed:>8}{others}{share:>8}{result.seconds:>9.0f}")
    reasons = Counter(
        re.sub(r"\d+", "N", result.messages.get(test, ""))[:140]
        for result in results
        for test, outcome in result.outcomes.items()
        if outcome == "failed"
    )
    if reasons:
        print("\nfailures by reason:")
        for reason, count in reasons.most_common(30):
            print(f"{count:>6}  {reason}")
    on_host = sum((Counter(result.on_host) for result in results), Counter())
    if on_host:
        print("\nprograms on the host, by the op without a device kernel:")
        for op, count in on_host.most_common(20):
            print(f"{count:>6}  {op}")


def main() -> int:
    options = parse_arguments()
    exclusions = read_exclusions()
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda name: run_suite(name, options, exclusions), options.only):
            whole = not options.pattern and not result.error
            unused = exclude(result, exclusions)
            results.append(result)
            print(
                f"{result.name}: {result.count('passed')} passed, {result.count('failed')} failed, "
                f"{result.seconds:.0f} s {result.error}",
                flush=True,
            )
            if whole and unused and options.cases >= 10:
                result.error = f"exclusions.toml has entries that no test needs: {', '.join(unused)}"
    print()
    report(results)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    errors = [f"{result.name}: {result.error}" for result in results if result.error]
    print("\n".join(["", *errors]) if errors else "")
    unknown = [
        f"{result.name}/{test}"
        for result in results
        for test, outcome in result.outcomes.items()
        if outcome == NOT_RUN
    ]
    if unknown:
        print(f"not run, for their length (exclusions.toml): {', '.join(unknown)}")
    totals = (sum(result.count(outcome) for result in results) for outcome in ("passed", "failed", "skipped"))
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if errors or any(result.count("failed") for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
