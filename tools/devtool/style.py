"""./dev lint and ./dev format: clang-format and clang-tidy for C++, ruff for Python, the layer order."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from devtool.build import build
from devtool.paths import ROOT, venv_bin
from devtool.report import DevError, run, say


def tracked(*patterns: str) -> list[Path]:
    """Files known to git (committed or not yet, ignored ones left out) that match the patterns."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({ROOT / line for line in done.stdout.splitlines() if (ROOT / line).exists()})


def _cpp_files() -> list[Path]:
    return tracked("src/*.h", "src/*.cc", "benchmarks/*.cc")


def format_sources() -> int:
    """Rewrites sources in place."""
    if shutil.which("clang-format") is None:
        raise DevError("clang-format is not installed", "apt-get install clang-format")
    files = _cpp_files()
    say(f"clang-format: {len(files)} files")
    run(["clang-format", "-i", *files], hint="")
    say("ruff: format imports and fixable lint")
    run([venv_bin("ruff"), "check", "--fix", "-q", ROOT], hint="the findings above need a person")
    return 0


def lint(tidy: bool) -> int:
    """Checks format, lint and layers; with `tidy` also clang-tidy (slow). Returns the exit status."""
    failed: list[str] = []

    def step(name: str, command: list[str | Path]) -> None:
        say(name)
        if run(command, hint="", cwd=ROOT, check=False) != 0:
            failed.append(name)

    step("layers", [sys.executable, ROOT / "tools" / "check_layers.py"])
    step("ruff", [venv_bin("ruff"), "check", "-q", ROOT])
    if shutil.which("clang-format") is not None:
        step("clang-format", ["clang-format", "--dry-run", "-Werror", *_cpp_files()])
    else:
        say("clang-format is not installed: skipped (apt-get install clang-format)")
    if tidy:
        if shutil.which("clang-tidy") is None:
            raise DevError("clang-tidy is not installed", "apt-get install clang-tidy")
        folder = build("release")
        step("clang-tidy", ["clang-tidy", "-p", folder, "--quiet", *tracked("src/*.cc")])
    print(f"lint: {', '.join(failed)} failed" if failed else "lint: clean", flush=True)
    return 1 if failed else 0
