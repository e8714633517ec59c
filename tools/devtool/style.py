"""./dev lint and ./dev format: clang-format, clang-tidy; ruff, vermin, mypy; the order of layers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devtool.build import build
from devtool.paths import ROOT, venv_bin
from devtool.report import DevError, run, say

# Names of the standard library that Python 3.10 lacks; ruff sees syntax only.
_OLDEST_PYTHON = ("--quiet", "--no-tips", "--violations", "--target=3.10-")
_TIDY_RELEASE = "14"  # other releases find other things


def tracked(*patterns: str) -> list[Path]:
    """Files known to git (committed or not yet, ignored ones left out) that match the patterns."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({ROOT / line for line in done.stdout.splitlines() if (ROOT / line).exists()})


def _cpp_files() -> list[Path]:
    return tracked("src/*.h", "src/*.cc", "benchmarks/*.cc")


def format_sources() -> int:
    """Rewrites sources in place."""
    files = _cpp_files()
    say(f"clang-format: {len(files)} files")
    run([venv_bin("clang-format"), "-i", *files], hint="")
    say("ruff: format imports and fixable lint")
    run([venv_bin("ruff"), "check", "--fix", "-q", ROOT], hint="the findings above need a person")
    return 0


def _clang_tidy() -> str:
    for name in (f"clang-tidy-{_TIDY_RELEASE}", "clang-tidy"):
        if (program := shutil.which(name)) is None:
            continue
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        if f"version {_TIDY_RELEASE}." in version:
            return program
    raise DevError(
        f"clang-tidy {_TIDY_RELEASE} is not installed", f"apt-get install clang-tidy-{_TIDY_RELEASE}"
    )


def _is_tidy(files: list[Path]) -> bool:
    """Whether clang-tidy finds nothing in `files` and their headers; prints what it finds."""
    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        raise DevError(f"no such file: {', '.join(missing)}")
    command = [_clang_tidy(), "-p", str(build("release")), "--quiet"]
    say(f"clang-tidy: {len(files)} files")

    def findings(path: Path) -> str:
        done = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout or done.stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(findings, files) if text]
    print("".join(found), end="", flush=True)
    return not found


def lint(tidy: list[str] | None) -> int:
    """Checks format, lint and layers; with `tidy` also clang-tidy (slow), of these files or of all if it is empty.

    Returns the exit status.
    """
    failed: list[str] = []

    def step(name: str, command: list[str | Path]) -> None:
        say(name)
        if run(command, hint="", cwd=ROOT, check=False) != 0:
            failed.append(name)

    step("layers", [sys.executable, ROOT / "tools" / "check_layers.py"])
    step("ruff", [venv_bin("ruff"), "check", "-q", ROOT])
    step("vermin", [venv_bin("vermin"), *_OLDEST_PYTHON, *tracked("*.py")])
    step("clang-format", [venv_bin("clang-format"), "--dry-run", "-Werror", *_cpp_files()])
    step("mypy", [venv_bin("python"), "-m", "mypy", "--no-error-summary", "--no-pretty"])
    if tidy is not None:
        files = [Path(name).resolve() for name in tidy] or tracked("src/*.cc")
        if not _is_tidy(files):
            failed.append("clang-tidy")
    print(f"lint: {', '.join(failed)} failed" if failed else "lint: clean", flush=True)
    return 1 if failed else 0
