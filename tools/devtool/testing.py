"""./dev test: C++ unit tests, Python tests, a minute of fuzzing; one count at the end."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devtool.build import build
from devtool.paths import OUT, ROOT, venv_bin
from devtool.report import DevError, elapsed_s, run, say

HELP = """\
usage: ./dev test [--quick | --long | --record-slow] [pytest arguments]

Builds, then runs the C++ unit tests, the Python tests and a minute of fuzzing. Arguments go to pytest, which runs
all of tests/ without any: ./dev test tests/cli -k json

--quick        leave out the fuzzing and the Python tests of tests/slow.txt: a fifth of the time
--long         run the Python tests of tests/long.txt too: ten seconds to two minutes each
--record-slow  run nothing: write tests/slow.txt from the times of the last whole run (out/pytest.xml)"""
_WHOLE = OUT / "pytest.xml"  # pytest's report of all tests
SLOW = ROOT / "tests" / "slow.txt"
LONG = ROOT / "tests" / "long.txt"
_SLOW_S = 0.5  # of all cases of a test function together
_SLOW_HEAD = f"""\
# The test functions that took more than {_SLOW_S:g} s, all cases together, on the machine that recorded them.
# `./dev test --quick` leaves them out; `./dev test --record-slow` writes this file after a whole run.
"""
# The same cases each time: a commit must not fail by the luck of the day. `./dev fuzz` tries new ones.
FUZZ_SEED = 1
_FUZZ_SECONDS = 60
_PYTEST_NO_TESTS = 5
_LOG_LINES = 200  # of ctest.log, shown when a test failed


@dataclass
class Count:
    """Tests passed, failed and skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def read_junit(path: Path) -> Count:
    """Counts the test cases of a JUnit XML file (ctest's and pytest's dialects)."""
    count = Count()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            count.failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            count.skipped += 1
        else:
            count.passed += 1
    return count


def _finish(status: int, count: Count, junit: Path) -> Count:
    """A runner that exits with an error but reports no failed test has itself failed: that counts as one."""
    if status != 0 and count.failed == 0:
        say(f"the runner that wrote {junit.name} exited with {status} without naming a failed test")
        return count + Count(failed=1)
    return count


def run_ctest(folder: Path, env: Mapping[str, str] | None = None) -> Count:
    """Runs the C++ unit tests of a build folder; `env` is added to the environment."""
    say("ctest: C++ unit tests")
    junit, log = folder / "ctest.xml", folder / "ctest.log"
    junit.unlink(missing_ok=True)
    jobs = str(len(os.sched_getaffinity(0)))
    command = [venv_bin("ctest"), "--test-dir", folder, "-j", jobs, "--output-on-failure", "--timeout", "300"]
    status = run([*command, "--output-junit", junit, "--quiet", "-O", log], cwd=ROOT, hint="", check=False, env=env)
    if status != 0 and log.exists():
        print("\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]))
    if not junit.exists():
        raise DevError("ctest wrote no report", f"run it by hand: {venv_bin('ctest')} --test-dir {folder}")
    return _finish(status, read_junit(junit), junit)


def run_pytest(arguments: list[str], env: Mapping[str, str] | None = None) -> Count:
    """Runs the Python tests (tests/, or what `arguments` name); `env` is added to the environment."""
    say("pytest: Python tests")
    # --record-slow must not take the times of a part for those of all.
    junit = OUT / ("pytest-part.xml" if arguments else _WHOLE.name)
    OUT.mkdir(exist_ok=True)
    junit.unlink(missing_ok=True)
    jobs = str(len(os.sched_getaffinity(0)))
    command = [venv_bin("python"), "-m", "pytest", "-q", "-n", jobs, f"--junit-xml={junit}"]
    status = run([*command, *arguments], cwd=ROOT, hint="", check=False, env=env)
    if status == _PYTEST_NO_TESTS:
        return Count()
    if not junit.exists():
        raise DevError("pytest wrote no report", "see its message above")
    return _finish(status, read_junit(junit), junit)


def run_fuzz(seconds: int, seed: int | None = None) -> Count:
    """Runs `python -m tests.fuzz --seconds N`, which counts as one test; none without tests/fuzz.

    Without a seed every run tries new cases; with one, the same cases in the same order.
    """
    if not (ROOT / "tests" / "fuzz" / "__main__.py").exists():
        return Count()
    say(f"fuzz: {seconds} s")
    command = [venv_bin("python"), "-m", "tests.fuzz", "--seconds", str(seconds)]
    if seed is not None:
        command += ["--seed", str(seed)]
    status = run(command, cwd=ROOT, hint="", check=False)
    return Count(passed=1) if status == 0 else Count(failed=1)


def slow_functions(junit: Path) -> list[str]:
    """The test functions of a pytest report that took long, as `path/of/test.py::function`, in order."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        # A class of tests, if there is one, ends the dotted name of the module.
        module = [part for part in case.get("classname", "").split(".") if not part.startswith("Test")]
        function = case.get("name", "").split("[")[0]
        seconds[f"{'/'.join(module)}.py::{function}"] += float(case.get("time", 0))
    return sorted(name for name, total in seconds.items() if total > _SLOW_S)


def record_slow() -> int:
    """Writes tests/slow.txt from the last run of pytest; the exit status for ./dev test --record-slow."""
    if not _WHOLE.exists():
        raise DevError(f"no whole run of pytest is on record in {_WHOLE.relative_to(ROOT)}", "run ./dev test first")
    names = slow_functions(_WHOLE)
    SLOW.write_text(_SLOW_HEAD + "".join(f"{name}\n" for name in names))
    say(f"{SLOW.relative_to(ROOT)}: {len(names)} test functions")
    return 0


def run_all(arguments: list[str]) -> int:
    """Builds, runs everything, prints the count on the last line; the exit status for ./dev test."""
    quick = "--quick" in arguments  # pytest knows it too: tests/conftest.py
    folder = build("release")
    total = run_ctest(folder) + run_pytest(arguments)
    if not quick:
        total += run_fuzz(_FUZZ_SECONDS, FUZZ_SEED)
    say(f"done in {elapsed_s() / 60:.1f} min")
    print(f"OpenTrn: {total.passed} tests passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return 0 if total.failed == 0 and total.passed > 0 else 1
